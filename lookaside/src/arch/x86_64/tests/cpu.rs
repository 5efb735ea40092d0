//! A CPU in software that records what it executes. What instructions remove, whether they serialise and when
//! they raise `#GP` is what `lookaside_hardware` says; that they exist at all, which is CPUID's to say, and that
//! nothing overtakes a store to a table, is checked here.

extern crate std;

use core::cell::{Cell, RefCell};
use std::{collections::BTreeSet, vec::Vec};

use lookaside_hardware::{
    Cached, Invalidation,
    x86::{self, Effect, Fault, Registers},
};

use super::{
    super::{Features, Instructions, Invpcid},
    RESERVED_ROOT,
};

/// One instruction that was executed. Reads of registers are not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    Cr3(u64),
    Cr4(u64),
    Invlpg(u64),
    Invpcid(u64, [u64; 2]),
    Invlpgb(u64, u32, u32),
    Tlbsync,
    Mfence,
}

/// A cached translation of one page, or a cached upper level of its walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) pcid: u16,
    pub(super) page: u64,
    pub(super) global: bool,
    /// The address of a last-level table, which maps 2 MiB. Never global.
    pub(super) upper: bool,
}

impl Entry {
    /// Whether the walk of `page` may use it.
    pub(super) fn serves(&self, page: u64) -> bool {
        let (first, last) = self.cached().pages;
        (first..=last).contains(&(page >> 12))
    }

    fn cached(&self) -> Cached {
        let shift = if self.upper { 9 } else { 0 };
        let first = self.page >> 12 >> shift << shift;
        Cached {
            tag: self.pcid,
            global: self.global,
            pages: (first, first + (1 << shift) - 1),
            level: u8::from(self.upper),
            table: self.upper,
        }
    }
}

pub(super) use x86::{PCIDE, PGE};

/// Small pages in a large one.
const LARGE: u64 = 512;

/// What the CPU under test has cached (`this_cpu`) and what another one has (`there`).
#[derive(Debug)]
pub(super) struct Cpu {
    features: Features,
    invlpg_keeps_globals: bool,
    pub(super) cr3: Cell<u64>,
    pub(super) cr4: Cell<u64>,
    did: RefCell<Vec<Did>>,
    pub(super) this_cpu: RefCell<BTreeSet<Entry>>,
    pub(super) there: RefCell<BTreeSet<Entry>>,
    /// `INVLPGB`s that the other CPU has not acted on.
    travelling: RefCell<Vec<Invalidation>>,
    /// Whether a store to a table waits in the store buffer.
    pub(super) store_waits: Cell<bool>,
}

impl Cpu {
    pub(super) fn new(features: Features) -> Self {
        Self {
            features,
            invlpg_keeps_globals: false,
            cr3: Cell::new(RESERVED_ROOT),
            cr4: Cell::new(PGE | if features.pcid { PCIDE } else { 0 }),
            did: RefCell::default(),
            this_cpu: RefCell::default(),
            there: RefCell::default(),
            travelling: RefCell::default(),
            store_waits: Cell::new(false),
        }
    }

    pub(super) fn with_keeping_invlpg(self) -> Self {
        Self { invlpg_keeps_globals: true, ..self }
    }

    pub(super) fn without_pcide(self) -> Self {
        self.cr4.set(self.cr4.get() & !PCIDE);
        self
    }

    /// What was executed since the last call.
    pub(super) fn did(&self) -> Vec<Did> {
        self.did.take()
    }

    /// The same, and the next call returns it again.
    pub(super) fn peek(&self) -> Vec<Did> {
        self.did.borrow().clone()
    }

    /// Whether an `INVLPGB` may not have arrived.
    pub(super) fn broadcast_pending(&self) -> bool {
        !self.travelling.borrow().is_empty()
    }

    fn registers(&self) -> Registers {
        Registers { cr3: self.cr3.get(), cr4: self.cr4.get() }
    }

    /// Does what an instruction does to this CPU, unless it faults.
    fn apply(&self, did: Did, effect: Result<Effect, Fault>) {
        let effect = effect.unwrap_or_else(|fault| panic!("{fault}"));
        self.did.borrow_mut().push(did);
        if effect.serialising {
            self.store_waits.set(false);
        }
        self.cr3.set(effect.registers.cr3);
        self.cr4.set(effect.registers.cr4);
        if let Some(what) = effect.removes {
            // The erratum: INVLPG leaves global entries where PCIDs are in use.
            let keeps = matches!(did, Did::Invlpg(_))
                && self.invlpg_keeps_globals
                && self.cr4.get() & PCIDE != 0;
            forget(
                &mut self.this_cpu.borrow_mut(),
                Invalidation { globals: what.globals && !keeps, ..what },
            );
        }
    }
}

fn forget(set: &mut BTreeSet<Entry>, what: Invalidation) {
    set.retain(|entry| !what.names(&entry.cached()));
}

impl Instructions for &Cpu {
    fn write_cr3(&self, value: u64) {
        self.apply(Did::Cr3(value), x86::mov_to_cr3(self.registers(), value));
    }

    fn read_cr3(&self) -> u64 {
        self.cr3.get()
    }

    fn write_cr4(&self, value: u64) {
        let changed = value ^ self.cr4.get();
        assert_eq!(changed & !(PGE | PCIDE), 0, "a bit of CR4 that is none of our business");
        assert!(value & PGE == 0 || self.features.pge, "#GP: no PGE");
        assert!(value & PCIDE == 0 || self.features.pcid, "#GP: no PCIDE");
        self.apply(Did::Cr4(value), x86::mov_to_cr4(self.registers(), value));
    }

    fn read_cr4(&self) -> u64 {
        self.cr4.get()
    }

    fn invlpg(&self, address: u64) {
        self.apply(Did::Invlpg(address), Ok(x86::invlpg(self.registers(), address)));
    }

    fn invpcid(&self, kind: Invpcid, descriptor: [u64; 2]) {
        assert!(self.features.invpcid, "#UD: no INVPCID");
        assert!(!self.store_waits.get(), "INVPCID overtakes a store to a table");
        let kind = kind as u64;
        let effect = x86::invpcid(self.registers(), kind, descriptor);
        self.apply(Did::Invpcid(kind, descriptor), effect);
    }

    fn invlpgb(&self, rax: u64, ecx: u32, edx: u32) {
        let limit = self.features.invlpgb.expect("#UD: no INVLPGB").pages();
        assert_eq!(rax & 4, 4, "without an ASID, guests are hit too");
        assert_eq!(edx & 0xffff, 0, "the host is ASID 0");
        assert_eq!(rax & 0x20, 0, "nested");
        assert!(rax & 0x11 != 0x10, "final-only without an address");
        assert!(!self.store_waits.get(), "INVLPGB overtakes a store to a table");
        let what = x86::invlpgb(self.registers(), (rax, ecx, edx), Some(limit), LARGE);
        let what = what.unwrap_or_else(|fault| panic!("{fault}"));
        self.did.borrow_mut().push(Did::Invlpgb(rax, ecx, edx));
        self.travelling.borrow_mut().push(what);
    }

    fn tlbsync(&self) {
        assert!(self.features.invlpgb.is_some(), "#UD: no TLBSYNC");
        self.did.borrow_mut().push(Did::Tlbsync);
        for what in self.travelling.take() {
            forget(&mut self.this_cpu.borrow_mut(), what);
            forget(&mut self.there.borrow_mut(), what);
        }
    }

    fn mfence(&self) {
        self.did.borrow_mut().push(Did::Mfence);
        self.store_waits.set(false);
    }
}
