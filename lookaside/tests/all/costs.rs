//! Costs that a machine finds out about itself, on hardware with a clock that the test sets.

use core::cell::Cell;

use lookaside::{
    VaRange,
    arch::{Errata, Held, Invalidation, Mmu, Root, Scope, TableChange, Tag},
    platform::{Costs, OperationCosts},
};
use lookaside_testkit::{Hardware, TestMmu};

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
        let truth = OperationCosts { address, tag, wait, ceiling: u64::MAX };
        Self { now: Cell::new(1_000_000), truth, each, calls: Cell::new(0) }
    }

    fn pass(&self, time: u64) {
        let calls = self.calls.get();
        self.calls.set(calls + 1);
        // The first of each kind is slow, and so is every other one, by ever more.
        let noise = if calls.is_multiple_of(2) { 5000 + calls } else { 0 };
        self.now.set(self.now.get() + time + noise);
    }
}

fn measure(hardware: &TestMmu<Timed>) -> Costs {
    // To look at the clock takes 11.
    Costs::measure(hardware, Errata::NONE, 5, || {
        hardware.now.set(hardware.now.get() + 11);
        hardware.now.get()
    })
}

impl Hardware for Timed {
    fn load(&self, _: Root, _: Tag, _: Held) {
        panic!("a measurement changes no root");
    }

    fn park(&self) {
        panic!("a measurement changes no root");
    }

    fn flush(&self, entries: Invalidation<'_>, scope: Scope) {
        assert_eq!(scope, Scope::Local, "other CPUs are not to suffer");
        let address = match (entries, self.each) {
            (Invalidation::Tag(Tag::RESERVED), _) => self.truth.tag,
            (Invalidation::Ranges { tag: Tag::RESERVED, change, .. }, None) => {
                assert_eq!(change, TableChange::LastLevel);
                self.truth.tag
            }
            (Invalidation::Ranges { tag: Tag::RESERVED, ranges, change }, Some(each)) => {
                assert_eq!(change, TableChange::LastLevel);
                ranges.len() as u64 * each * self.truth.address
            }
            other => panic!("other entries are not to suffer: {other:?}"),
        };
        self.pass(address + self.truth.wait);
    }

    fn operations(&self, _: &VaRange, _: TableChange, _: Scope) -> Option<u64> {
        self.each
    }
}

#[test]
fn operation_costs_are_told_apart_from_waiting_costs() {
    for (address, tag, wait) in [(5_000, 40_000, 20_000), (38_000, 110_000, 0), (0, 0, 0)] {
        for each in [1, 2] {
            let hardware = TestMmu(Timed::new(address, tag, wait, Some(each)));
            assert_eq!(measure(&hardware).local, hardware.truth);
        }
    }
}

#[test]
fn where_the_tag_goes_anyway_an_address_costs_as_much() {
    let local = measure(&TestMmu(Timed::new(1, 40_000, 20_000, None))).local;
    assert_eq!(local, OperationCosts { address: 60_000, tag: 60_000, wait: 0, ceiling: u64::MAX });
}

#[test]
fn where_more_pages_take_no_more_operations_an_address_costs_as_much_as_the_tag() {
    let local = measure(&TestMmu(Timed::new(1, 40_000, 20_000, Some(0)))).local;
    assert_eq!(local, OperationCosts { address: 60_000, tag: 60_000, wait: 0, ceiling: u64::MAX });
}

#[test]
fn costs_that_one_cpu_cannot_measure_stay_typical() {
    let hardware = TestMmu(Timed::new(5_000, 40_000, 20_000, Some(1)));
    let typical = hardware.properties().typical_costs;
    assert_eq!(Costs { local: typical.local, ..measure(&hardware) }, *typical);
}

#[test]
fn a_clock_that_stands_still_or_goes_back_makes_things_free() {
    let hardware = TestMmu(Timed::new(5_000, 40_000, 20_000, Some(1)));
    let free = OperationCosts { address: 0, tag: 0, wait: 0, ceiling: u64::MAX };
    assert_eq!(Costs::measure(&hardware, Errata::NONE, 0, || 7).local, free);
    let mut now = u64::MAX;
    let back = || {
        now -= 1;
        now
    };
    assert_eq!(Costs::measure(&hardware, Errata::NONE, 3, back).local, free);
}
