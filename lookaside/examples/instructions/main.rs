//! Runs one path of the library a given number of times, to have its instructions counted.
//!
//! ```text
//! instructions PATH COUNT
//! ```
//!
//! `cargo xtask instructions` runs it twice under callgrind, with two counts. Only what happens
//! inside functions whose names begin with `counted_` is collected, and what the two runs differ by
//! is the path itself, because everything that leads up to it is the same in both. The hardware's
//! own instructions are stores to memory here, so what is counted is the library.

mod hardware;

use core::sync::atomic::AtomicU64;
use std::{env, process::ExitCode};

use hardware::{
    Bookkeeping, Host, arm, arm_features, become_cpu, riscv, riscv_features, set_handler, x86,
    x86_features,
};
use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Error, Gather, GlobalAsids, PerCpuAsids, Platform, Tlb, VaRange,
    arch::{Mmu, Root, x86_64::Use},
    flush::Flushed,
    platform::Word,
    tags::{AsidScope, Asids, AsidsConfig, GlobalAsidsConfig, Released, Switched, Tags},
};
use lookaside_testkit::TestMmu;

/// The machines that are simulated have so many CPUs, of which one runs unless a path says otherwise.
const CPUS: usize = 4;
/// The CPUs of paths that involve more.
const MANY_CPUS: usize = 64;
/// Words of storage for the residency of [`MANY_CPUS`].
const WORDS: usize = MANY_CPUS.div_ceil(32);
/// The CPUs of the largest machine, and the words for their residency.
const HUGE: (usize, usize) = (4096, 4096 / 32);
/// How many spaces there are: no more than the tags of one ASID cache, so that it is filled only once.
const SPACES: u64 = 62;

fn words(count: usize) -> &'static mut [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::ZERO).collect())
}

/// A machine whose running CPU is up, and its spaces.
struct Machine<M, T, const CPU_WORDS: usize = WORDS>
where
    M: Mmu + 'static,
    T: Tags<Host<M, CPU_WORDS>> + 'static,
{
    tlb: Tlb<'static, Host<M, CPU_WORDS>, T>,
    spaces: Vec<AddressSpace<Host<M, CPU_WORDS>>>,
}

fn machine<M: Mmu, T: Tags<Host<M>>>(
    host: Host<M>,
    tags: T,
    features: &M::Features,
    running: u32,
) -> Result<Machine<M, T>, Error> {
    let count = if running == 1 { CPUS } else { MANY_CPUS };
    machine_of(host, tags, features, (count, running))
}

/// A machine of so many CPUs, of which so many are up.
fn machine_of<M: Mmu, T: Tags<Host<M, CPU_WORDS>>, const CPU_WORDS: usize>(
    host: Host<M, CPU_WORDS>,
    tags: T,
    features: &M::Features,
    (count, running): (usize, u32),
) -> Result<Machine<M, T, CPU_WORDS>, Error> {
    let cpus = Vec::leak((0..count).map(|_| Cpu::new()).collect());
    let tlb = Tlb::new(host, tags, cpus)?;
    for cpu in (0..running).rev() {
        become_cpu(cpu);
        tlb.online(&(), features)?;
    }
    let spaces = (2..2 + SPACES)
        .map(|page| {
            // Where user mode has tables of its own, another one than the kernel's.
            let own = tlb.platform().mmu().properties().has_user_tables;
            let user_table = page << 12 | u64::from(own) << 30;
            let root = Root { table: page << 12, user_table };
            tlb.space(root, [const { AtomicU64::ZERO }; CPU_WORDS])
        })
        .collect::<Result<_, _>>()?;
    Ok(Machine { tlb, spaces })
}

fn epochs<M: Mmu>(
    mmu: M,
    features: &M::Features,
    running: u32,
) -> Result<Machine<M, GlobalAsids<'static, Host<M>>>, Error> {
    let host = Host::new(mmu);
    let config = GlobalAsidsConfig::default();
    let tags =
        GlobalAsids::new(&host, config, words(GlobalAsids::<Host<M>>::words_for(config.tags)))?;
    machine(host, tags, features, running)
}

fn recent<M: Mmu>(
    mmu: M,
    features: &M::Features,
    running: u32,
) -> Result<Machine<M, PerCpuAsids>, Error> {
    machine(Host::new(mmu), PerCpuAsids::new(), features, running)
}

/// With the allocator that is chosen at run time, which must turn out to be `scope`.
fn chosen<M: Mmu>(
    mmu: M,
    features: &M::Features,
    running: u32,
    scope: AsidScope,
) -> Result<Machine<M, Asids<'static, Host<M>>>, Error> {
    let config = AsidsConfig::default();
    let words = words(Asids::<Host<M>>::words_for(config.global.tags));
    let machine = machine(Host::new(mmu), Asids::new(config, words), features, running)?;
    assert_eq!(machine.tlb.asid_scope(), scope, "another allocator would be counted");
    Ok(machine)
}

/// The way of a kernel from "run this" to "done", from the first instruction to the return.
#[inline(never)]
fn counted_switch<P: Platform<IrqsOff = ()>, T: Tags<P>>(
    tlb: &Tlb<'_, P, T>,
    next: &AddressSpace<P>,
) -> Switched {
    tlb.this_cpu(&()).switch(next)
}

/// The same where it only leads up to what is counted. In an optimised build, a second caller of the switch would keep it
/// from being inlined into the first; there, what is done before is the same in both runs.
fn warm_up<P: Platform<IrqsOff = ()>, T: Tags<P>>(tlb: &Tlb<'_, P, T>, next: &AddressSpace<P>) {
    let _ = if cfg!(debug_assertions) {
        tlb.this_cpu(&()).switch(next)
    } else {
        counted_switch(tlb, next)
    };
}

/// The flush of what was gathered.
#[inline(never)]
fn counted_flush<P: Platform, T: Tags<P>>(
    this_cpu: &CurrentCpu<'_, P, T>,
    gather: Gather<'_, P>,
) -> Flushed {
    this_cpu.flush(gather)
}

/// The way of a kernel that has cleared the entry of one page, from there to the proof.
#[inline(never)]
fn counted_unmap<P: Platform<IrqsOff = ()>, T: Tags<P>>(
    tlb: &Tlb<'_, P, T>,
    space: &AddressSpace<P>,
    page: VaRange,
) -> Flushed {
    let mut gather = Gather::new(space);
    gather.revoke(page);
    tlb.this_cpu(&()).flush(gather)
}

/// The way of a kernel that holds a lock, has changed the entry of one page, and frees nothing.
#[inline(never)]
fn counted_protect<P: Platform<IrqsOff = ()>, T: Tags<P>>(
    tlb: &Tlb<'_, P, T>,
    space: &AddressSpace<P>,
    page: VaRange,
) {
    tlb.this_cpu(&()).flush_range(space, page);
}

#[inline(never)]
fn counted_release<P: Platform<IrqsOff = ()>, T: Tags<P>>(
    tlb: &Tlb<'_, P, T>,
    space: &mut AddressSpace<P>,
) -> Released {
    tlb.this_cpu(&()).release(space)
}

/// What is done `count` times. A path that turns out to be another than the one that is meant would
/// be counted under the wrong name, so what comes back is compared.
impl<M: Mmu, T: Tags<Host<M, CPU_WORDS>>, const CPU_WORDS: usize> Machine<M, T, CPU_WORDS> {
    /// From one space to another and back.
    fn switch(self, count: usize, expected: Switched) {
        let [first, second, ..] = &self.spaces[..] else { panic!("too few spaces") };
        for space in [first, second] {
            warm_up(&self.tlb, space);
        }
        for space in [first, second].into_iter().cycle().take(count) {
            assert_eq!(counted_switch(&self.tlb, space), expected);
        }
    }

    /// To the space that runs already.
    fn stay(self, count: usize) {
        let space = &self.spaces[0];
        warm_up(&self.tlb, space);
        for _ in 0..count {
            assert_eq!(counted_switch(&self.tlb, space), Switched::Unchanged);
        }
    }

    /// To spaces that never ran, after the first of them has filled the ASID cache.
    fn fresh(self, count: usize) {
        for space in &self.spaces[..=count] {
            assert_eq!(counted_switch(&self.tlb, space), Switched::Fresh);
        }
    }

    /// A page is taken from the space that runs, and runs nowhere else.
    fn flush(self, count: usize) -> Result<(), Error> {
        let space = &self.spaces[0];
        warm_up(&self.tlb, space);
        let this_cpu = self.tlb.this_cpu(&());
        for page in 0..count as u64 {
            let mut gather = Gather::new(space);
            gather.revoke(VaRange::new(page << 12, 1 << 12, 12)?);
            let _ = counted_flush(&this_cpu, gather);
        }
        Ok(())
    }

    /// The same from the entry that is cleared to the proof.
    fn unmap(self, count: usize) -> Result<(), Error> {
        let space = &self.spaces[0];
        warm_up(&self.tlb, space);
        for page in 0..count as u64 {
            let _ = counted_unmap(&self.tlb, space, VaRange::new(page << 12, 1 << 12, 12)?);
        }
        Ok(())
    }

    /// A page of the space that runs, and runs nowhere else, allows less than before.
    fn protect(self, count: usize) -> Result<(), Error> {
        let space = &self.spaces[0];
        warm_up(&self.tlb, space);
        for page in 0..count as u64 {
            counted_protect(&self.tlb, space, VaRange::new(page << 12, 1 << 12, 12)?);
        }
        Ok(())
    }

    /// The same where another CPU is lazy in the space, and was told by an earlier flush that it misses some.
    fn protect_beside_lazy(self, count: usize) -> Result<(), Error> {
        become_cpu(1);
        warm_up(&self.tlb, &self.spaces[0]);
        self.tlb.this_cpu(&()).lazy();
        become_cpu(0);
        self.protect(count)
    }

    /// As [`Self::unmap`] with `others` CPUs that run the space, too: both sides, without the interrupts themselves.
    fn shootdown(self, count: usize, others: u32) -> Result<(), Error> {
        let machine: &'static Self = Box::leak(Box::new(self));
        let space = &machine.spaces[0];
        set_handler(Box::leak(Box::new(|| machine.tlb.this_cpu(&()).handle_ipi())));
        for cpu in (0..=others).rev() {
            become_cpu(cpu);
            warm_up(&machine.tlb, space);
        }
        for page in 0..count as u64 {
            let _ = counted_unmap(&machine.tlb, space, VaRange::new(page << 12, 1 << 12, 12)?);
        }
        Ok(())
    }

    /// Spaces that ran give their tags back.
    fn release(mut self, count: usize) {
        for space in &self.spaces {
            warm_up(&self.tlb, space);
        }
        for space in &mut self.spaces[..count] {
            let _ = counted_release(&self.tlb, space);
        }
    }
}

/// Runs a path, or says that there is none of this name.
fn run(path: &str, count: usize) -> Result<bool, Error> {
    let (arm_mmu, riscv_mmu) = (arm, riscv);
    let running = |cpus| epochs(arm()?, &arm_features(), cpus);
    let arm = || running(1);
    let riscv_running = |cpus| epochs(riscv()?, &riscv_features(), cpus);
    let riscv = || riscv_running(1);
    // One tag on all CPUs is for hardware that can broadcast; slots of each CPU's own for the other.
    let x86_epochs = || epochs(x86(true, Use::WherePresent, false)?, &x86_features(true), 1);
    let x86_recent =
        |pcids, separate| recent(x86(false, pcids, separate)?, &x86_features(false), 1);
    let x86_running =
        |cpus| recent(x86(false, Use::WherePresent, false)?, &x86_features(false), cpus);
    let x86_huge = || {
        let host = Host::<_, { HUGE.1 }>::new(x86(false, Use::WherePresent, false)?);
        let tags: PerCpuAsids = PerCpuAsids::new();
        machine_of(host, tags, &x86_features(false), (HUGE.0, 1))
    };
    let chosen_arm = || chosen(arm_mmu()?, &arm_features(), 1, AsidScope::Global);
    let chosen_riscv = || chosen(riscv_mmu()?, &riscv_features(), 1, AsidScope::Global);
    let chosen_x86 = |cpus| {
        let mmu = x86(false, Use::WherePresent, false)?;
        chosen(mmu, &x86_features(false), cpus, AsidScope::PerCpu)
    };
    let chosen_x86_epochs = || {
        let mmu = x86(true, Use::WherePresent, false)?;
        chosen(mmu, &x86_features(true), 1, AsidScope::Global)
    };
    let chosen_bare = || chosen(TestMmu(Bookkeeping), &(), 1, AsidScope::Global);
    match path {
        "global-bare/switch" => epochs(TestMmu(Bookkeeping), &(), 1)?.switch(count, Switched::Kept),
        "per-cpu-bare/switch" => {
            recent(TestMmu(Bookkeeping), &(), 1)?.switch(count, Switched::Kept)
        }
        "arm64/switch" => arm()?.switch(count, Switched::Kept),
        "riscv/switch" => riscv()?.switch(count, Switched::Kept),
        "x86-epochs/switch" => x86_epochs()?.switch(count, Switched::Kept),
        "x86-recent/switch" => x86_recent(Use::WherePresent, false)?.switch(count, Switched::Kept),
        "x86-pairs/switch" => x86_recent(Use::WherePresent, true)?.switch(count, Switched::Kept),
        "x86-no-pcids/switch" => x86_recent(Use::Never, false)?.switch(count, Switched::Fresh),
        "arm64/stay" => arm()?.stay(count),
        "riscv/stay" => riscv()?.stay(count),
        "x86-epochs/stay" => x86_epochs()?.stay(count),
        "x86-recent/stay" => x86_recent(Use::WherePresent, false)?.stay(count),
        "arm64/fresh" => arm()?.fresh(count),
        "riscv/fresh" => riscv()?.fresh(count),
        "x86-epochs/fresh" => x86_epochs()?.fresh(count),
        "global-bare/flush" => epochs(TestMmu(Bookkeeping), &(), 1)?.flush(count)?,
        "per-cpu-bare/flush" => recent(TestMmu(Bookkeeping), &(), 1)?.flush(count)?,
        "arm64/unmap" => arm()?.unmap(count)?,
        "riscv/unmap" => riscv()?.unmap(count)?,
        "x86-recent/unmap" => x86_recent(Use::WherePresent, false)?.unmap(count)?,
        "arm64/protect" => arm()?.protect(count)?,
        "riscv/protect" => riscv()?.protect(count)?,
        "x86-recent/protect" => x86_recent(Use::WherePresent, false)?.protect(count)?,
        "x86-recent/unmap-4096" => x86_huge()?.unmap(count)?,
        "riscv/protect-beside-lazy" => riscv_running(2)?.protect_beside_lazy(count)?,
        "x86-recent/protect-beside-lazy" => x86_running(2)?.protect_beside_lazy(count)?,
        "arm64/shootdown-1" => running(2)?.shootdown(count, 1)?,
        "riscv/shootdown-1" => riscv_running(2)?.shootdown(count, 1)?,
        "x86-recent/shootdown-1" => x86_running(2)?.shootdown(count, 1)?,
        "x86-recent/shootdown-15" => x86_running(16)?.shootdown(count, 15)?,
        "x86-recent/shootdown-63" => x86_running(64)?.shootdown(count, 63)?,
        "arm64/release" => arm()?.release(count),
        "riscv/release" => riscv()?.release(count),
        "global-bare/fresh" => epochs(TestMmu(Bookkeeping), &(), 1)?.fresh(count),
        "global-bare/release" => epochs(TestMmu(Bookkeeping), &(), 1)?.release(count),
        "x86-epochs/release" => x86_epochs()?.release(count),
        "chosen-global-bare/switch" => chosen_bare()?.switch(count, Switched::Kept),
        "chosen-arm64/switch" => chosen_arm()?.switch(count, Switched::Kept),
        "chosen-riscv/switch" => chosen_riscv()?.switch(count, Switched::Kept),
        "chosen-x86-epochs/switch" => chosen_x86_epochs()?.switch(count, Switched::Kept),
        "chosen-x86-recent/switch" => chosen_x86(1)?.switch(count, Switched::Kept),
        "chosen-arm64/stay" => chosen_arm()?.stay(count),
        "chosen-riscv/stay" => chosen_riscv()?.stay(count),
        "chosen-x86-epochs/stay" => chosen_x86_epochs()?.stay(count),
        "chosen-x86-recent/stay" => chosen_x86(1)?.stay(count),
        "chosen-global-bare/flush" => chosen_bare()?.flush(count)?,
        "chosen-arm64/unmap" => chosen_arm()?.unmap(count)?,
        "chosen-riscv/unmap" => chosen_riscv()?.unmap(count)?,
        "chosen-x86-recent/unmap" => chosen_x86(1)?.unmap(count)?,
        "chosen-arm64/protect" => chosen_arm()?.protect(count)?,
        "chosen-riscv/protect" => chosen_riscv()?.protect(count)?,
        "chosen-x86-recent/protect" => chosen_x86(1)?.protect(count)?,
        "chosen-x86-recent/shootdown-1" => chosen_x86(2)?.shootdown(count, 1)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [path, count] = &arguments[..] else {
        eprintln!("instructions PATH COUNT");
        return ExitCode::from(2);
    };
    let Ok(count) = count.parse() else {
        eprintln!("`{count}` is no number");
        return ExitCode::from(2);
    };
    match run(path, count) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("there is no path `{path}`");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::FAILURE
        }
    }
}
