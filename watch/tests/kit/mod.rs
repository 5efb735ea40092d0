//! A machine for tests: memory, Sv39 or Arm tables in it, and CPUs whose events go to a shadow.
#![allow(dead_code, reason = "each test uses a part of it")]

use core::cell::RefCell;
use std::collections::BTreeMap;

use lookaside_hardware::{arm, riscv};
use lookaside_watch::{
    Access, Criterion, Fence, FrameMarks, Hit, Limits, Memory, Mode, Reach, Roots, Shadow, Strength,
};

#[derive(Default)]
pub(crate) struct Words(RefCell<BTreeMap<u64, u64>>);

impl Words {
    pub(crate) fn set(&self, address: u64, word: u64) {
        self.0.borrow_mut().insert(address, word);
    }
}

impl Memory for Words {
    fn word(&self, address: u64) -> Option<u64> {
        Some(self.0.borrow().get(&address).copied().unwrap_or(0))
    }
}

/// Tables are at these frames: for each root a top table, one below, and one below that.
const TABLES: u64 = 0x100;
pub(crate) const BYTES: u64 = 0x40_0000;

pub(crate) struct Machine {
    pub(crate) memory: Words,
    pub(crate) shadow: Shadow,
    arm: bool,
}

pub(crate) const USER: bool = true;

impl Machine {
    pub(crate) fn riscv(cpus: u32) -> Self {
        Self::new(cpus, false, Strength::Used)
    }

    /// One whose CPUs hold all that they are permitted to.
    pub(crate) fn permitted(cpus: u32) -> Self {
        Self::new(cpus, false, Strength::Permitted)
    }

    pub(crate) fn arm(cpus: u32) -> Self {
        Self::new(cpus, true, Strength::Used)
    }

    fn new(cpus: u32, arm: bool, strength: Strength) -> Self {
        let marks = FrameMarks::new(0, BYTES);
        let shadow = Shadow::new(cpus, &marks, Limits { strength, ..Limits::default() });
        let machine = Self { memory: Words::default(), shadow, arm };
        for root in 0..4 {
            for level in 0..2 {
                let table = (TABLES + root * 4 + level) << 12;
                machine.memory.set(table, machine.pointer(TABLES + root * 4 + level + 1));
            }
        }
        machine
    }

    fn pointer(&self, frame: u64) -> u64 {
        if self.arm { frame << 12 | 3 } else { frame << 10 | 1 }
    }

    /// An entry of a page.
    pub(crate) fn entry(&self, frame: u64, user: bool, global: bool) -> u64 {
        if self.arm {
            frame << 12 | 3 | u64::from(user) << 6 | u64::from(!global) << 11
        } else {
            frame << 10 | 0b1100_0111 | u64::from(user) << 4 | u64::from(global) << 5
        }
    }

    /// The entry of a page in the last table of a root.
    pub(crate) fn slot(root: u64, page: u64) -> u64 {
        ((TABLES + root * 4 + 2) << 12) + 8 * page
    }

    /// The entry that names the last table of a root.
    pub(crate) fn upper(root: u64) -> u64 {
        (TABLES + root * 4 + 1) << 12
    }

    /// The frame of the last table of a root.
    pub(crate) fn table(root: u64) -> u64 {
        TABLES + root * 4 + 2
    }

    pub(crate) fn run(&mut self, cpu: u32, root: u64, tag: u16) {
        let base = (TABLES + root * 4) << 12;
        let roots = if self.arm {
            // Three levels: T0SZ 25; ASIDs of 16 bits.
            Roots::Arm {
                ttbr0: base | u64::from(tag) << 48,
                ttbr1: 0,
                tcr: 25 | 25 << 16 | 1 << 36,
            }
        } else {
            Roots::Riscv { satp: 8 << 60 | u64::from(tag) << 44 | base >> 12 }
        };
        self.shadow.load_roots(&self.memory, cpu, roots);
    }

    pub(crate) fn mode(&mut self, cpu: u32, mode: Mode, task: u64) {
        self.shadow.enter_mode(cpu, 0x10, mode, Some(task));
    }

    pub(crate) fn touch(&mut self, cpu: u32, page: u64) -> Option<Hit> {
        self.shadow.access(&self.memory, Access { cpu, pc: 0x20, address: page << 12 })
    }

    /// A store by the kernel through its own mapping, which is at another address than every page here.
    pub(crate) fn store(&mut self, cpu: u32, task: Option<u64>, physical: u64, word: u64) {
        self.memory.set(physical, word);
        let address = 0xffff_0000_0000 | physical;
        self.shadow.store(&self.memory, (cpu, 0x30, task), address, physical, 8);
    }

    pub(crate) fn map(&mut self, cpu: u32, root: u64, page: u64, frame: u64, user: bool) {
        let entry = self.entry(frame, user, false);
        self.store(cpu, Some(u64::from(cpu)), Self::slot(root, page), entry);
    }

    pub(crate) fn unmap(&mut self, cpu: u32, root: u64, page: u64) {
        self.store(cpu, Some(u64::from(cpu)), Self::slot(root, page), 0);
    }

    pub(crate) fn sfence(&mut self, cpu: u32, page: Option<u64>, asid: Option<u16>) {
        let removes = riscv::fenced(page.map(|page| (page, page)), asid);
        let fence = Fence { cpu, pc: 0x40, removes, reach: Reach::Own, pending: false };
        self.shadow.fence(&self.memory, fence);
    }

    pub(crate) fn tlbi(&mut self, cpu: u32, kind: arm::TlbiKind, page: u64, asid: u16) {
        let removes = arm::tlbi(kind, u64::from(asid) << 48 | page, 16, &[0]).unwrap();
        let fence = Fence { cpu, pc: 0x44, removes, reach: Reach::All, pending: true };
        self.shadow.fence(&self.memory, fence);
    }

    pub(crate) fn found(&self) -> Vec<Criterion> {
        self.shadow.findings().iter().map(|finding| finding.criterion).collect()
    }
}
