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

use hardware::{Bookkeeping, Host, arm, arm_features, riscv, riscv_features, x86, x86_features};
use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Error, Gather, GlobalAsids, PerCpuAsids, Platform, Tlb, VaRange,
    arch::{Mmu, Root, x86_64::Use},
    flush::Flushed,
    platform::Word,
    tags::{GlobalAsidsConfig, Released, Switched, Tags},
};

/// The machines that are simulated have so many CPUs, of which one runs.
const CPUS: usize = 4;
/// How many spaces there are: no more than the tags of one stock, so that it is filled only once.
const SPACES: u64 = 62;

fn words(count: usize) -> &'static mut [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::ZERO).collect())
}

/// A machine whose running CPU is up, and its spaces.
struct Machine<M: Mmu + 'static, T: Tags<Host<M>> + 'static> {
    tlb: Tlb<'static, Host<M>, T>,
    spaces: Vec<AddressSpace<Host<M>>>,
}

fn machine<M: Mmu, T: Tags<Host<M>>>(
    host: Host<M>,
    tags: T,
    features: &M::Features,
) -> Result<Machine<M, T>, Error> {
    let cpus = Vec::leak((0..CPUS).map(|_| Cpu::new()).collect());
    let tlb = Tlb::new(host, tags, cpus)?;
    tlb.online(&(), features)?;
    let spaces = (2..2 + SPACES)
        .map(|page| tlb.space(Root::new(page << 12), words(1)))
        .collect::<Result<_, _>>()?;
    Ok(Machine { tlb, spaces })
}

fn epochs<M: Mmu>(
    mmu: M,
    features: &M::Features,
) -> Result<Machine<M, GlobalAsids<'static, Host<M>>>, Error> {
    let host = Host::new(mmu);
    let config = GlobalAsidsConfig::default();
    let tags =
        GlobalAsids::new(&host, config, words(GlobalAsids::<Host<M>>::words_for(config.tags)))?;
    machine(host, tags, features)
}

fn recent<M: Mmu>(mmu: M, features: &M::Features) -> Result<Machine<M, PerCpuAsids>, Error> {
    machine(Host::new(mmu), PerCpuAsids::new(), features)
}

/// The way of a kernel from "run this" to "done", from the first instruction to the return.
#[inline(never)]
fn counted_switch<P: Platform<IrqsOff = ()>, T: Tags<P>>(
    tlb: &Tlb<'_, P, T>,
    next: &AddressSpace<P>,
) -> Switched {
    tlb.this_cpu(&()).switch(next)
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

#[inline(never)]
fn counted_release<P: Platform<IrqsOff = ()>, T: Tags<P>>(
    tlb: &Tlb<'_, P, T>,
    space: &mut AddressSpace<P>,
) -> Released {
    tlb.this_cpu(&()).release(space)
}

/// What is done `count` times. A path that turns out to be another than the one that is meant would
/// be counted under the wrong name, so what comes back is compared.
impl<M: Mmu, T: Tags<Host<M>>> Machine<M, T> {
    /// From one space to another and back.
    fn switch(self, count: usize, expected: Switched) {
        let [first, second, ..] = &self.spaces[..] else { panic!("too few spaces") };
        for space in [first, second] {
            let _ = counted_switch(&self.tlb, space);
        }
        for space in [first, second].into_iter().cycle().take(count) {
            assert_eq!(counted_switch(&self.tlb, space), expected);
        }
    }

    /// To the space that runs already.
    fn stay(self, count: usize) {
        let space = &self.spaces[0];
        let _ = counted_switch(&self.tlb, space);
        for _ in 0..count {
            assert_eq!(counted_switch(&self.tlb, space), Switched::Unchanged);
        }
    }

    /// To spaces that never ran, after the first of them has filled the stock.
    fn fresh(self, count: usize) {
        for space in &self.spaces[..=count] {
            assert_eq!(counted_switch(&self.tlb, space), Switched::Fresh);
        }
    }

    /// A page is taken from the space that runs, and runs nowhere else.
    fn flush(self, count: usize) -> Result<(), Error> {
        let space = &self.spaces[0];
        let _ = counted_switch(&self.tlb, space);
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
        let _ = counted_switch(&self.tlb, space);
        for page in 0..count as u64 {
            let _ = counted_unmap(&self.tlb, space, VaRange::new(page << 12, 1 << 12, 12)?);
        }
        Ok(())
    }

    /// Spaces that ran give their tags back.
    fn release(mut self, count: usize) {
        for space in &self.spaces {
            let _ = counted_switch(&self.tlb, space);
        }
        for space in &mut self.spaces[..count] {
            assert_eq!(counted_release(&self.tlb, space), Released::AtOnce);
        }
    }
}

/// Runs a path, or says that there is none of this name.
fn run(path: &str, count: usize) -> Result<bool, Error> {
    let arm = || epochs(arm()?, &arm_features());
    let riscv = || epochs(riscv()?, &riscv_features());
    // One tag on all CPUs is for hardware that can broadcast; slots of each CPU's own for the other.
    let x86_epochs = || epochs(x86(true, Use::WherePresent, false)?, &x86_features(true));
    let x86_recent = |pcids, separate| recent(x86(false, pcids, separate)?, &x86_features(false));
    match path {
        "global-bare/switch" => epochs(Bookkeeping, &())?.switch(count, Switched::Kept),
        "per-cpu-bare/switch" => recent(Bookkeeping, &())?.switch(count, Switched::Kept),
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
        "global-bare/flush" => epochs(Bookkeeping, &())?.flush(count)?,
        "per-cpu-bare/flush" => recent(Bookkeeping, &())?.flush(count)?,
        "arm64/unmap" => arm()?.unmap(count)?,
        "riscv/unmap" => riscv()?.unmap(count)?,
        "x86-recent/unmap" => x86_recent(Use::WherePresent, false)?.unmap(count)?,
        "arm64/release" => arm()?.release(count),
        "riscv/release" => riscv()?.release(count),
        "global-bare/fresh" => epochs(Bookkeeping, &())?.fresh(count),
        "global-bare/release" => epochs(Bookkeeping, &())?.release(count),
        "x86-epochs/release" => x86_epochs()?.release(count),
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
