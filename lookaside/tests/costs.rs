//! Costs that a machine finds out about itself, on hardware with a clock that the test sets.

#[macro_use]
#[path = "support/idle.rs"]
mod idle;

use core::cell::Cell;

use lookaside::{
    VaRange,
    arch::{Errata, Held, Mmu, Root, Scope, Sharing, TableChange, Tag},
    platform::{Costs, OperationCosts},
};

/// Hardware where everything takes its time.
struct Timed {
    now: Cell<u64>,
    truth: OperationCosts,
    /// Invalidations for each page; `None` if the tag goes.
    each: Option<u64>,
    calls: Cell<u64>,
}

impl Timed {
    fn new(address: u64, tag: u64, wait: u64, each: Option<u64>) -> Self {
        let truth = OperationCosts { address, tag, wait };
        Self { now: Cell::new(1_000_000), truth, each, calls: Cell::new(0) }
    }

    fn pass(&self, time: u64) {
        let calls = self.calls.get();
        self.calls.set(calls + 1);
        // The first of each kind is slow, and so is every other one, by ever more.
        let noise = if calls.is_multiple_of(2) { 5000 + calls } else { 0 };
        self.now.set(self.now.get() + time + noise);
    }

    fn measure(&self) -> Costs {
        // To look at the clock takes 11.
        Costs::measure(self, Errata::NONE, 5, || {
            self.now.set(self.now.get() + 11);
            self.now.get()
        })
    }
}

impl Mmu for Timed {
    idle_admission!();
    idle_kernel!();

    fn tag_bits(&self) -> u32 {
        12
    }

    fn broadcasts(&self) -> bool {
        false
    }

    unsafe fn load(&self, _: Errata, _: Root, _: Tag, _: Held, _: Sharing) {
        panic!("a measurement changes no root");
    }

    fn park(&self, _: Errata) {
        panic!("a measurement changes no root");
    }

    fn flush_all(&self, _: Errata) {
        panic!("other tags are not to suffer");
    }

    fn flush_tag(&self, _: Errata, tag: Tag) {
        assert_eq!(tag, Tag::RESERVED);
        self.pass(self.truth.tag + self.truth.wait);
    }

    fn flush_all_broadcast(&self, _: Errata) {
        panic!("other CPUs are not to suffer");
    }

    fn flush_tag_broadcast(&self, _: Errata, _: Tag) {
        panic!("other CPUs are not to suffer");
    }

    fn flush_ranges(&self, errata: Errata, tag: Tag, ranges: &[VaRange], change: TableChange) {
        assert_eq!((tag, change), (Tag::RESERVED, TableChange::LastLevel));
        let Some(each) = self.each else { return self.flush_tag(errata, tag) };
        self.pass(ranges.len() as u64 * each * self.truth.address + self.truth.wait);
    }

    fn operations(&self, _: &VaRange, _: TableChange, _: Scope) -> Option<u64> {
        self.each
    }
}

#[test]
fn operation_costs_are_told_apart_from_waiting_costs() {
    for (address, tag, wait) in [(5_000, 40_000, 20_000), (38_000, 110_000, 0), (0, 0, 0)] {
        for each in [1, 2] {
            let hardware = Timed::new(address, tag, wait, Some(each));
            assert_eq!(hardware.measure().local, hardware.truth);
        }
    }
}

#[test]
fn where_the_tag_goes_anyway_an_address_costs_as_much() {
    let local = Timed::new(1, 40_000, 20_000, None).measure().local;
    assert_eq!(local, OperationCosts { address: 60_000, tag: 60_000, wait: 0 });
}

#[test]
fn where_more_pages_take_no_more_operations_an_address_costs_as_much_as_the_tag() {
    let local = Timed::new(1, 40_000, 20_000, Some(0)).measure().local;
    assert_eq!(local, OperationCosts { address: 60_000, tag: 60_000, wait: 0 });
}

#[test]
fn costs_that_one_cpu_cannot_measure_stay_typical() {
    let hardware = Timed::new(5_000, 40_000, 20_000, Some(1));
    let typical = hardware.typical_costs();
    assert_eq!(Costs { local: typical.local, ..hardware.measure() }, typical);
}

#[test]
fn a_clock_that_stands_still_or_goes_back_makes_things_free() {
    let hardware = Timed::new(5_000, 40_000, 20_000, Some(1));
    let free = OperationCosts { address: 0, tag: 0, wait: 0 };
    assert_eq!(Costs::measure(&hardware, Errata::NONE, 0, || 7).local, free);
    let mut now = u64::MAX;
    let back = || {
        now -= 1;
        now
    };
    assert_eq!(Costs::measure(&hardware, Errata::NONE, 3, back).local, free);
}
