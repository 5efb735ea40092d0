//! A CPU in software that records, faults and forgets as the manuals say.

extern crate std;

use core::cell::{Cell, RefCell};
use std::{collections::BTreeSet, vec::Vec};

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
        let shift = if self.upper { 21 } else { 12 };
        self.page >> shift == page >> shift
    }
}

pub(super) const PGE: u64 = 1 << 7;
pub(super) const PCIDE: u64 = 1 << 17;
const LA57: u64 = 1 << 12;

/// What the CPU under test has cached (`here`) and what another one has (`there`).
#[derive(Debug)]
pub(super) struct Cpu {
    features: Features,
    invlpg_keeps_globals: bool,
    pub(super) cr3: Cell<u64>,
    pub(super) cr4: Cell<u64>,
    did: RefCell<Vec<Did>>,
    pub(super) here: RefCell<BTreeSet<Entry>>,
    pub(super) there: RefCell<BTreeSet<Entry>>,
    /// `INVLPGB`s that the other CPU has not acted on.
    travelling: RefCell<Vec<(u64, u32, u32)>>,
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
            here: RefCell::default(),
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

    /// Whether an `INVLPGB` may not have arrived.
    pub(super) fn broadcast_pending(&self) -> bool {
        !self.travelling.borrow().is_empty()
    }

    fn pcide(&self) -> bool {
        self.cr4.get() & PCIDE != 0
    }

    fn pcid(&self) -> u16 {
        if self.pcide() { (self.cr3.get() & 0xfff) as u16 } else { 0 }
    }

    fn forget(&self, matches: impl Fn(&Entry) -> bool) {
        self.here.borrow_mut().retain(|entry| !matches(entry));
    }

    fn assert_canonical(&self, address: u64) {
        let low = if self.cr4.get() & LA57 == 0 { 47 } else { 56 };
        let top = address >> low;
        assert!(top == 0 || top == u64::MAX >> low, "#GP: {address:#x} is not canonical");
    }

    fn forget_broadcast(set: &mut BTreeSet<Entry>, (rax, ecx, edx): (u64, u32, u32)) {
        let step = if ecx >> 31 == 1 { 0x20_0000 } else { 0x1000 };
        let first = rax & !0xfff;
        set.retain(|entry| {
            let final_only = rax & 0x10 != 0;
            let by_address = rax & 1 == 0
                || !(final_only && entry.upper)
                    && (0..=u64::from(ecx & 0xffff))
                        .any(|n| entry.serves(first.wrapping_add(n * step)));
            let by_pcid = rax & 2 == 0 || u32::from(entry.pcid) == edx >> 16;
            let by_global = !entry.global || rax & 8 != 0;
            !(by_address && by_pcid && by_global)
        });
    }
}

impl Instructions for &Cpu {
    fn write_cr3(&self, value: u64) {
        assert_eq!(value & 0x7ff0_0000_0000_0000, 0, "#GP: a reserved bit of CR3");
        assert!(value >> 63 == 0 || self.pcide(), "#GP: CR3 bit 63 without PCIDE");
        self.did.borrow_mut().push(Did::Cr3(value));
        self.store_waits.set(false);
        self.cr3.set(value & !(1 << 63));
        let pcid = self.pcid();
        if value >> 63 == 0 {
            self.forget(|entry| !entry.global && entry.pcid == pcid);
        }
    }

    fn read_cr3(&self) -> u64 {
        self.cr3.get()
    }

    fn write_cr4(&self, value: u64) {
        let changed = value ^ self.cr4.get();
        assert_eq!(changed & !(PGE | PCIDE), 0, "a bit of CR4 that is none of our business");
        assert!(value & PGE == 0 || self.features.pge, "#GP: no PGE");
        assert!(value & PCIDE == 0 || self.features.pcid, "#GP: no PCIDE");
        let sets_pcide = changed & value & PCIDE != 0;
        assert!(!sets_pcide || self.cr3.get() & 0xfff == 0, "#GP: PCIDE set under a PCID");
        self.did.borrow_mut().push(Did::Cr4(value));
        self.store_waits.set(false);
        self.cr4.set(value);
        if changed & PGE != 0 || changed & !value & PCIDE != 0 {
            self.forget(|_| true);
        }
    }

    fn read_cr4(&self) -> u64 {
        self.cr4.get()
    }

    fn invlpg(&self, address: u64) {
        self.did.borrow_mut().push(Did::Invlpg(address));
        self.store_waits.set(false);
        let keeps = self.invlpg_keeps_globals && self.pcide();
        let pcid = self.pcid();
        self.forget(|entry| {
            let own = entry.pcid == pcid;
            entry.upper && own
                || !entry.upper && entry.serves(address) && if entry.global { !keeps } else { own }
        });
    }

    fn invpcid(&self, kind: Invpcid, descriptor: [u64; 2]) {
        assert!(self.features.invpcid, "#UD: no INVPCID");
        assert_eq!(descriptor[0] >> 12, 0, "#GP: a reserved bit of the descriptor");
        let pcid = descriptor[0] as u16;
        let by_pcid = matches!(kind, Invpcid::Address | Invpcid::Context);
        assert!(!by_pcid || self.pcide() || pcid == 0, "#GP: a PCID without PCIDE");
        assert!(!self.store_waits.get(), "INVPCID overtakes a store to a table");
        self.did.borrow_mut().push(Did::Invpcid(kind as u64, descriptor));
        match kind {
            Invpcid::Address => {
                self.assert_canonical(descriptor[1]);
                // Upper levels stay: the manual can be read so.
                let page = descriptor[1];
                self.forget(|e| !e.global && !e.upper && e.pcid == pcid && e.serves(page));
            }
            Invpcid::Context => self.forget(|e| !e.global && e.pcid == pcid),
            Invpcid::All => self.forget(|_| true),
            Invpcid::AllButGlobal => self.forget(|e| !e.global),
        }
    }

    fn invlpgb(&self, rax: u64, ecx: u32, edx: u32) {
        let limit = self.features.invlpgb.expect("#UD: no INVLPGB").pages();
        assert!((ecx & 0xffff) < limit, "#GP: more pages than the limit");
        assert_eq!(ecx & 0x7fff_0000, 0, "#GP: a reserved bit of ECX");
        assert_eq!(edx >> 28, 0, "#GP: a reserved bit of EDX");
        assert!(rax & 2 == 0 || self.pcide(), "#GP: a PCID without PCIDE");
        assert_eq!(rax & 4, 4, "without an ASID, guests are hit too");
        assert_eq!(edx & 0xffff, 0, "the host is ASID 0");
        assert_eq!(rax & 0xfe0, 0, "nested or reserved");
        assert!(rax & 0x11 != 0x10, "final-only without an address");
        if rax & 1 == 1 {
            self.assert_canonical(rax);
        }
        assert!(!self.store_waits.get(), "INVLPGB overtakes a store to a table");
        self.did.borrow_mut().push(Did::Invlpgb(rax, ecx, edx));
        self.travelling.borrow_mut().push((rax, ecx, edx));
    }

    fn tlbsync(&self) {
        assert!(self.features.invlpgb.is_some(), "#UD: no TLBSYNC");
        self.did.borrow_mut().push(Did::Tlbsync);
        for operands in self.travelling.take() {
            Cpu::forget_broadcast(&mut self.here.borrow_mut(), operands);
            Cpu::forget_broadcast(&mut self.there.borrow_mut(), operands);
        }
    }

    fn mfence(&self) {
        self.did.borrow_mut().push(Did::Mfence);
        self.store_waits.set(false);
    }
}
