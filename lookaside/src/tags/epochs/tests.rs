//! What others do while a CPU looks for a tag, who waits for whom, and what is not looked at.

extern crate std;
use core::{cell::Cell, panic::AssertUnwindSafe};
use std::{
    panic::{catch_unwind, resume_unwind},
    thread_local,
    vec::Vec,
};

use super::*;
use crate::{
    arch::{Depth, Errata, Root},
    costs::Costs,
    platform::Targets,
    range::Stretch,
    residency::Residency,
    tests::{Busy, keep, meanwhile},
};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// A machine of which only the words are used. Nobody waits there: to wait ends what a CPU does.
struct Paper(Sharing);

// SAFETY: no CPU runs anything.
unsafe impl Platform for Paper {
    type Word = Busy;
    type Mmu = Self;

    fn mmu(&self) -> &Self {
        self
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn interrupt(&self, _: Targets) {}

    fn relax(&self) {
        panic!("CPU {} waits", CPU.get());
    }
}

impl Mmu for Paper {
    type Features = ();

    fn tag_bits(&self) -> u32 {
        16
    }

    fn sharing(&self) -> Sharing {
        self.0
    }

    fn broadcasts(&self) -> bool {
        true
    }

    fn admit(&self, (): &()) -> Result<Errata, Error> {
        Ok(Errata::NONE)
    }

    fn check_root(&self, _: Root) -> Result<(), Error> {
        Ok(())
    }

    fn typical_costs(&self) -> Costs {
        unreachable!("nothing is flushed")
    }

    fn settle(&self) {}
    fn load(&self, _: Errata, _: Root, _: Tag, _: Held, _: Sharing) {}
    fn park(&self, _: Errata) {}
    fn flush_all(&self, _: Errata) {}
    fn flush_tag(&self, _: Errata, _: Tag) {}
    fn flush_all_everywhere(&self, _: Errata) {}
    fn flush_tag_everywhere(&self, _: Errata, _: Tag) {}
    fn flush_kernel(&self, _: Errata, _: &[Stretch], _: Depth) {}
    fn flush_kernel_everywhere(&self, _: Errata, _: &[Stretch], _: Depth) {}
}

type Machine = &'static Tlb<'static, Paper, Epochs<'static, Paper>>;

const CPUS: usize = 3;

/// Five tags that spaces can have, of which one may be pinned.
const FEW: EpochsConfig = EpochsConfig { tags: 7, pins: 1, last_epoch: Cookie::LAST_EPOCH };

/// A machine whose CPUs are all up.
fn machine(sharing: Sharing, config: EpochsConfig) -> Machine {
    let platform = Paper(sharing);
    let tags = Epochs::new(&platform, config, keep([Busy::ZERO, Busy::ZERO])).unwrap();
    let cpus: &Vec<_> = keep((0..CPUS).map(|_| Cpu::new()).collect());
    let tlb = keep(Tlb::new(platform, tags, cpus).unwrap());
    for cpu in 0..CPUS as u32 {
        on(cpu, || here(tlb).online(&()).unwrap());
    }
    tlb
}

fn private() -> Machine {
    machine(Sharing::Private, FEW)
}

/// Runs `f` as the CPU with this number, until it waits.
fn on<R>(cpu: u32, f: impl FnOnce() -> R) -> R {
    let before = CPU.replace(cpu);
    let result = catch_unwind(AssertUnwindSafe(f));
    CPU.set(before);
    result.unwrap_or_else(|waits| resume_unwind(waits))
}

fn here(tlb: Machine) -> Here<'static, Paper, Epochs<'static, Paper>> {
    // SAFETY: a test thread is a CPU without interrupts.
    unsafe { tlb.here() }.unwrap()
}

fn space(tlb: Machine) -> Space<'static, Paper> {
    let residents = keep([Busy::ZERO]);
    // SAFETY: no real hardware walks this root.
    unsafe { tlb.space(Root::new(4096), residents) }.unwrap()
}

fn lasting(tlb: Machine) -> &'static Space<'static, Paper> {
    keep(space(tlb))
}

fn switch(tlb: Machine, cpu: u32, space: &Space<'_, Paper>) -> Switched {
    on(cpu, || here(tlb).switch(space))
}

/// What `cpu` finds if it looks for a tag in `epoch`.
fn claim(tlb: Machine, cpu: u32, space: &Space<'_, Paper>, epoch: u64) -> Option<Cookie> {
    let claimed = on(cpu, || tlb.tags().claim(&here(tlb), space, epoch, None));
    claimed.ok().map(|(cookie, _)| cookie)
}

/// CPU 0 turns the epoch.
fn turn(tlb: Machine) {
    on(0, || {
        let lock = tlb.tags().turn.lock.lock(tlb.platform());
        tlb.tags().turn_over(&here(tlb), &lock);
    });
}

/// A space that has left its tag, and that no CPU runs.
fn left(tlb: Machine) -> &'static Space<'static, Paper> {
    let a = lasting(tlb);
    let _ = switch(tlb, 0, a);
    let _ = switch(tlb, 0, &space(tlb));
    a
}

/// Whether a CPU has to wait if it does this.
fn waits<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

/// `cpu` says that it is on its way into `space`, which has a tag, and stops before it loads that.
fn stop_on_the_way(tlb: Machine, cpu: u32, space: &Space<'_, Paper>) {
    on(cpu, || {
        let active = Cookie::from_bits(here(tlb).cpu().active.cookie.get());
        assert!(tlb.tags().join(&here(tlb), active, space.cookie()));
    });
}

/// Loads and writes of the word in which a CPU says where it is.
fn looked_at(tlb: Machine, cpu: u32) -> (u64, u64) {
    tlb.cpus()[cpu as usize].tags.active.cookie.work()
}

/// Loads and writes of the word that says what a CPU keeps.
fn asked(tlb: Machine, cpu: u32) -> (u64, u64) {
    tlb.cpus()[cpu as usize].tags.kept.work()
}

// ---- Who is late

#[test]
fn only_a_space_that_leaves_its_tag_waits_for_who_has_joined_and_not_loaded() {
    let tlb = private();
    let (a, b) = (lasting(tlb), lasting(tlb));
    let _ = switch(tlb, 1, b);
    let _ = switch(tlb, 1, a);
    stop_on_the_way(tlb, 1, b);
    turn(tlb);
    assert_eq!(switch(tlb, 0, &space(tlb)), Switched::Fresh, "it has no tag to leave");
    assert_eq!(switch(tlb, 0, b), Switched::Kept, "it does not leave its tag");
    assert!(waits(|| switch(tlb, 0, a)), "the register names it under the tag that it leaves");
}

#[test]
fn nobody_waits_for_a_cpu_that_was_halted_before_it_has_loaded() {
    let tlb = private();
    let (a, b) = (lasting(tlb), lasting(tlb));
    let _ = switch(tlb, 1, b);
    let _ = switch(tlb, 1, a);
    stop_on_the_way(tlb, 1, b);
    // SAFETY: it executes nothing any more.
    unsafe { tlb.halted(CpuId(1)) }.unwrap();
    turn(tlb);
    assert_eq!(switch(tlb, 0, a), Switched::Fresh);
}

#[test]
fn nobody_waits_for_a_cpu_whose_register_names_nothing() {
    let tlb = private();
    let (a, b) = (left(tlb), lasting(tlb));
    let _ = switch(tlb, 1, b);
    let _ = on(1, || here(tlb).park());
    stop_on_the_way(tlb, 1, b);
    turn(tlb);
    assert_eq!(switch(tlb, 0, a), Switched::Fresh);
}

#[test]
fn nobody_is_looked_for_after_a_turnover_that_has_passed_nobody_on_the_way() {
    let tlb = private();
    let a = left(tlb);
    turn(tlb);
    looked_at(tlb, 2);
    assert_eq!(switch(tlb, 0, a), Switched::Fresh);
    assert_eq!(looked_at(tlb, 2), (0, 0));
}

#[test]
fn a_turnover_looks_for_who_is_late_unless_registers_are_parked_before_joining() {
    for (sharing, loads) in [(Sharing::Private, 1), (Sharing::Shared, 0)] {
        let tlb = machine(sharing, FEW);
        let _ = switch(tlb, 2, lasting(tlb));
        looked_at(tlb, 2);
        turn(tlb);
        assert_eq!(looked_at(tlb, 2), (loads, 1), "{sharing:?}");
    }
}

// ---- What is kept

#[test]
fn who_keeps_a_tag_is_asked_only_if_somebody_keeps_it() {
    let tlb = private();
    let (stays, a) = (lasting(tlb), left(tlb));
    let _ = switch(tlb, 2, stays);
    asked(tlb, 2);
    let _ = switch(tlb, 1, &space(tlb));
    assert_eq!(asked(tlb, 2), (0, 0), "it never had a tag");
    turn(tlb);
    asked(tlb, 2);
    assert_eq!(switch(tlb, 0, a), Switched::Fresh);
    assert_eq!(asked(tlb, 2), (0, 0), "nobody keeps its tag");
    assert_eq!(switch(tlb, 0, stays), Switched::Kept);
    assert_eq!(asked(tlb, 2), (1, 0));
}

#[test]
fn who_is_passed_before_it_asks_asks_nobody() {
    for access in 1..=4 {
        let tlb = private();
        let a = lasting(tlb);
        let _ = switch(tlb, 2, a);
        turn(tlb);
        let next = move || {
            turn(tlb);
            asked(tlb, 2);
        };
        assert_eq!(meanwhile(access, next, || claim(tlb, 1, a, 2)), None);
        assert_eq!(asked(tlb, 2), (0, 0), "passed before access {access}");
    }
}

#[test]
fn a_tag_that_was_kept_is_taken_over_at_the_first_look() {
    let tlb = private();
    let a = lasting(tlb);
    let _ = switch(tlb, 2, a);
    turn(tlb);
    a.cookie.work();
    assert_eq!(claim(tlb, 1, a, 2), Some(a.cookie()));
    // The last load is this test's.
    assert_eq!(a.cookie.work(), (2, 1));
}

// ---- Epochs that turn meanwhile

#[test]
fn a_cookie_does_not_go_back_to_an_epoch_that_is_over() {
    let tlb = private();
    let a = lasting(tlb);
    let tag = on(2, || here(tlb).pin(a)).unwrap();
    let later = move || {
        turn(tlb);
        let _ = switch(tlb, 0, a);
    };
    // CPU 1 looks for the tag of the first epoch.
    assert_eq!(meanwhile(1, later, || claim(tlb, 1, a, 1)), None);
    assert_eq!(a.cookie(), Cookie::new(2, tag));
}

#[test]
fn who_loses_the_race_for_a_tag_goes_by_the_one_that_the_space_has() {
    for access in 1..=4 {
        let tlb = private();
        let a = lasting(tlb);
        let pinned = on(2, || here(tlb).pin(a)).unwrap();
        turn(tlb);
        let other = move || {
            here(tlb).unpin(a).unwrap();
            assert_eq!(switch(tlb, 0, a), Switched::Fresh);
            assert_ne!(a.cookie().tag(), pinned);
        };
        let claimed = meanwhile(access, other, || claim(tlb, 1, a, 2));
        // It may also find none, and come back with the lock.
        assert!(claimed.is_none_or(|cookie| cookie == a.cookie()), "before access {access}");
    }
}

#[test]
fn no_epoch_is_joined_before_its_map_shows_what_is_kept() {
    for access in 1..=60 {
        let tlb = private();
        let a = lasting(tlb);
        let _ = switch(tlb, 2, a);
        turn(tlb);
        // It kept the tag of `a`, and the next epoch passes it after CPU 1.
        let _ = switch(tlb, 2, lasting(tlb));
        let comes = move || _ = waits(|| switch(tlb, 1, a));
        meanwhile(access, comes, || turn(tlb));
        let tag = on(1, || here(tlb).tag());
        let map = tlb.tags().kept[0].get();
        assert!(map >> tag.0 & 1 != 0, "tag {} before access {access}", tag.0);
    }
}

#[test]
fn who_enters_the_last_epoch_stays_present_in_a_space_that_is_given_a_tag_of_the_former() {
    for access in 1..=60 {
        let tlb = machine(Sharing::Private, EpochsConfig { last_epoch: 2, ..FEW });
        let (a, mut ends) = (lasting(tlb), space(tlb));
        // A tag in stock.
        let _ = switch(tlb, 1, &ends);
        let _ = on(1, || here(tlb).park());
        on(1, || here(tlb).release(&mut ends)).unwrap();
        let last = move || {
            _ = waits(|| {
                turn(tlb);
                switch(tlb, 0, a)
            });
        };
        let _ = meanwhile(access, last, || switch(tlb, 1, a));
        for cpu in 0..2 {
            let residency = a.residents.get(CpuId(cpu));
            let runs = on(cpu, || here(tlb).tag()) == LAST_TAG;
            assert!(!runs || residency == Residency::Present, "CPU {cpu}, access {access}");
        }
    }
}
