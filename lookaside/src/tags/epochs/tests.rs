//! What others do between two accesses to the books, and what is not written.

extern crate std;
use core::cell::{Cell, RefCell};
use std::{boxed::Box, thread_local, vec::Vec};

use super::*;
use crate::{
    arch::{Depth, Errata, Root},
    costs::Costs,
    platform::Targets,
    range::Stretch,
    residency::Residents,
    tests::{Busy, keep, meanwhile},
};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    /// What others do as soon as somebody waits.
    static AWAITED: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A machine of which only the words are looked at.
struct Paper;

// SAFETY: each test is one thread, which is one CPU at a time.
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
        let act = AWAITED.take().expect("nobody ends this wait");
        act();
    }
}

impl Mmu for Paper {
    type Features = ();

    fn tag_bits(&self) -> u32 {
        8
    }
    fn sharing(&self) -> Sharing {
        Sharing::Private
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
    fn settle(&self) {}
    fn load(&self, _: Errata, _: Root, _: Tag, _: Held, _: Sharing) {}
    fn park(&self, _: Errata) {}
    fn flush_all(&self, _: Errata) {}
    fn flush_tag(&self, _: Errata, _: Tag) {}
    fn flush_all_everywhere(&self, _: Errata) {}
    fn flush_tag_everywhere(&self, _: Errata, _: Tag) {}
    fn flush_kernel(&self, _: Errata, _: &[Stretch], _: Depth) {}
    fn flush_kernel_everywhere(&self, _: Errata, _: &[Stretch], _: Depth) {}
    fn typical_costs(&self) -> Costs {
        unreachable!("nothing is flushed by cost")
    }
}

type Books = Epochs<'static, Paper>;
type Machine = &'static Tlb<'static, Paper, Books>;

fn machine(cpus: usize, tags: u32) -> Machine {
    let words: Vec<_> = (0..Books::words_for(tags)).map(|_| Busy::ZERO).collect();
    let config = EpochsConfig { tags, ..Default::default() };
    let books = Epochs::new(&Paper, config, keep(words)).unwrap();
    let storage: Vec<_> = (0..cpus).map(|_| Cpu::new()).collect();
    let tlb: Machine = keep(Tlb::new(Paper, books, keep(storage)).unwrap());
    for cpu in 0..cpus as u32 {
        on(cpu, tlb, |here| here.online(&()).unwrap());
    }
    tlb
}

fn on<R>(cpu: u32, tlb: Machine, f: impl FnOnce(Here<'static, Paper, Books>) -> R) -> R {
    let before = CPU.replace(cpu);
    // SAFETY: a test thread is a CPU without interrupts.
    let result = f(unsafe { tlb.here() }.unwrap());
    CPU.set(before);
    result
}

/// A space, and the words of its residents.
fn space(tlb: Machine) -> (Space<'static, Paper>, &'static [Busy]) {
    let count = Residents::<Busy>::words_for(tlb.cpus().len());
    let residents = keep((0..count).map(|_| Busy::ZERO).collect::<Vec<_>>());
    // SAFETY: no hardware walks this root.
    (unsafe { tlb.space(Root::new(4096), residents) }.unwrap(), residents)
}

fn switch(tlb: Machine, cpu: u32, space: &Space<'_, Paper>) {
    let _ = on(cpu, tlb, |here| here.switch(space));
}

// ---- Parking

#[test]
fn who_parks_in_its_epoch_waits_for_no_lock() {
    let tlb = machine(1, 16);
    let (a, _) = space(tlb);
    switch(tlb, 0, &a);
    let lock = tlb.tags().turn.lock.lock(tlb.platform());
    let _ = on(0, tlb, |here| here.park());
    drop(lock);
    assert!(tlb.cpus()[0].tag() == Tag::RESERVED);
}

#[test]
fn who_is_passed_by_an_epoch_while_it_parks_names_nothing() {
    let tlb = machine(2, 5);
    let (mut a, _) = space(tlb);
    switch(tlb, 1, &a);
    let turn = move || {
        while tlb.tags().epoch() == 1 {
            switch(tlb, 0, &space(tlb).0);
        }
    };
    // It has read which epoch it has joined.
    let _ = meanwhile(2, turn, || on(1, tlb, |here| here.park()));
    assert_eq!(tlb.tags().epoch(), 2);
    assert!(on(0, tlb, |here| here.release(&mut a)).is_ok());
}

// ---- What a CPU names

#[test]
fn what_a_cpu_names_that_an_epoch_is_passing_is_known_when_that_has_begun() {
    let tlb = machine(2, 16);
    let ((a, _), (b, _)) = (space(tlb), space(tlb));
    switch(tlb, 1, &a);
    switch(tlb, 0, &b);
    let (was, goes_to) = (a.cookie(), b.cookie());
    // It is on its way, and has not loaded.
    assert!(on(1, tlb, |here| tlb.tags().join(&here, was, goes_to)));
    let passed = &tlb.cpus()[1].tags;
    passed.active.cookie.set(Cookie::outside(2).bits());
    AWAITED.set(Some(Box::new(move || {
        passed.kept.set(goes_to.bits());
        tlb.tags().epoch.set(2);
    })));
    assert_eq!(Books::names(tlb, CpuId(1), goes_to.bits()), Names::Yes);
}

#[test]
fn whoever_asks_what_a_cpu_names_that_has_joined_does_not_look_at_the_epoch() {
    let tlb = machine(2, 16);
    let (a, _) = space(tlb);
    switch(tlb, 1, &a);
    let epoch = &tlb.tags().epoch;
    epoch.work();
    assert_eq!(Books::names(tlb, CpuId(1), a.cookie().bits()), Names::Yes);
    assert_eq!(epoch.work(), (0, 0));
}

// ---- Fresh tags

#[test]
fn a_fresh_tag_writes_nothing_about_cpus_that_hold_nothing() {
    let tlb = machine(70, 256);
    let ((a, residents), (mut b, _)) = (space(tlb), space(tlb));
    switch(tlb, 69, &a);
    let _ = on(69, tlb, |here| here.park());
    switch(tlb, 0, &b);
    switch(tlb, 0, &a);
    // CPU 0 has a tag in stock.
    assert_eq!(on(0, tlb, |here| here.release(&mut b)), Ok(Released::AtOnce));
    for word in residents {
        word.work();
    }
    let before = a.cookie();
    assert!(on(0, tlb, |here| tlb.tags().renew(&here, &a, before.bits())));
    assert_ne!(a.cookie(), before);
    let writes = [0, 1, 2].map(|word: usize| residents[word].work().1);
    assert!(writes[0] > 0 && writes[1] == 0 && writes[2] > 0, "{writes:?}");
}
