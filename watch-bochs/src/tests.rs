//! The events of a run, without Bochs: which of them make a finding.

use core::cell::RefCell;
use std::collections::BTreeMap;

use lookaside_hardware::x86::{PCIDE, PG, PGE, Registers};
use lookaside_watch::{Criterion, front_end::Options};

use crate::{
    guest::Guest,
    watch::{Control, Cpu, Watch},
};

thread_local! {
    /// Each test has a thread of its own.
    static MEMORY: RefCell<BTreeMap<u64, u64>> = const { RefCell::new(BTreeMap::new()) };
}

extern "C" fn word(address: u64, value: &mut u64) -> bool {
    *value = MEMORY.with_borrow(|memory| memory.get(&address).copied().unwrap_or(0));
    true
}

const KEEP: u64 = 1 << 63;
const PRESENT_WRITABLE_USER: u64 = 7;
/// The tables of root `n` are at these frames, one for each level.
const TABLES: u64 = 0x100;
/// A page, the slot of its entry in the tables of root 0, and the frames that it is mapped to.
const PAGE: u64 = 0x1000;
const SLOT: u64 = (TABLES + 3) << 12 | 8;
const FIRST: u64 = 0x200;
const SECOND: u64 = 0x201;
/// Where an `INVPCID` descriptor is, by its linear and its physical address.
const DESCRIPTOR: u64 = 0x2000;
const DESCRIPTOR_FRAME: u64 = 0x300;

/// Two CPUs with PCIDs, whose kernel maps a page. The first does everything, unless a test says otherwise.
struct Machine {
    watch: Watch,
    cpu: Cpu,
}

impl Machine {
    fn new() -> Self {
        for root in 0..2 {
            for level in 0..3 {
                let table = TABLES + root * 4 + level;
                set(table << 12, (table + 1) << 12 | PRESENT_WRITABLE_USER);
            }
        }
        set(SLOT, FIRST << 12 | PRESENT_WRITABLE_USER);
        set(SLOT + 8, DESCRIPTOR_FRAME << 12 | PRESENT_WRITABLE_USER);
        let options = Options::parse("x86_64", ["base=0", "report=/nowhere/report"]).unwrap();
        let watch = Watch::new(options, 2, Guest { word, bytes: 0x40_0000 });
        let registers = Registers { cr3: TABLES << 12 | 1, cr4: PCIDE | PGE };
        let cpu =
            Cpu { number: 0, pc: 0x10, user: false, cr0: PG, efer: 1 << 10, registers, gs_base: 0 };
        Self { watch, cpu }
    }

    fn cr3(&mut self, root: u64, bits: u64) {
        let value = (TABLES + root * 4) << 12 | bits;
        self.watch.control(&self.cpu, Control::Cr3, value);
        self.cpu.registers.cr3 = value & !KEEP;
    }

    fn uses_the_page(&mut self) {
        self.watch.access(&self.cpu, PAGE);
    }

    /// The kernel maps the page to another frame, by physical addresses that no table is needed for.
    fn remaps(&mut self) {
        set(SLOT, SECOND << 12 | PRESENT_WRITABLE_USER);
        self.watch.store(&self.cpu, SLOT, SLOT, 8);
        self.returns_to_user_mode();
    }

    /// Whoever has revoked is back in user mode: from here on a stale access is an error.
    fn returns_to_user_mode(&mut self) {
        for user in [true, false] {
            self.cpu.user = user;
            self.watch.access(&self.cpu, DESCRIPTOR);
        }
    }

    fn found(&self) -> Vec<Criterion> {
        self.watch.findings().iter().map(|finding| finding.criterion).collect()
    }
}

fn set(address: u64, value: u64) {
    MEMORY.with_borrow_mut(|memory| {
        memory.insert(address, value);
    });
}

#[test]
fn a_translation_that_nothing_removes_is_found() {
    let mut machine = Machine::new();
    machine.uses_the_page();
    machine.remaps();
    machine.uses_the_page();
    assert_eq!(machine.found(), [Criterion::WrongFrame]);
}

#[test]
fn invlpg_removes_it() {
    let mut machine = Machine::new();
    machine.uses_the_page();
    machine.remaps();
    machine.watch.invlpg(&machine.cpu, PAGE + 0x123);
    machine.uses_the_page();
    assert_eq!(machine.found(), []);
}

#[test]
fn a_load_of_the_root_keeps_it_if_bit_63_says_so_and_not_otherwise() {
    for (bits, found) in [(1 | KEEP, &[Criterion::WrongFrame][..]), (1, &[])] {
        let mut machine = Machine::new();
        machine.uses_the_page();
        machine.remaps();
        machine.cr3(1, 2 | KEEP);
        machine.cr3(0, bits);
        machine.uses_the_page();
        assert_eq!(machine.found(), found, "{bits:#x}");
    }
}

#[test]
fn invpcid_removes_what_its_descriptor_names() {
    for (kind, pcid, address, found) in [
        (0, 1, PAGE, &[][..]),
        (0, 2, PAGE, &[Criterion::WrongFrame]),
        (0, 1, PAGE + 0x1000, &[Criterion::WrongFrame]),
        (1, 1, 0, &[]),
        (3, 0, 0, &[]),
    ] {
        let mut machine = Machine::new();
        machine.uses_the_page();
        machine.remaps();
        set(DESCRIPTOR_FRAME << 12 | 0x40, pcid);
        set(DESCRIPTOR_FRAME << 12 | 0x48, address);
        machine.watch.invpcid(&machine.cpu, kind, DESCRIPTOR + 0x40);
        machine.uses_the_page();
        assert_eq!(machine.found(), found, "type {kind}, PCID {pcid}, {address:#x}");
    }
}

#[test]
fn invlpgb_removes_from_every_cpu_once_its_own_cpu_has_executed_tlbsync() {
    const PCID: u32 = 1 << 16;
    let nothing: &[Criterion] = &[];
    let (wrong, unfinished) = (&[Criterion::WrongFrame][..], &[Criterion::UnfinishedFence][..]);
    for (operands, syncs, found) in [
        ((PAGE | 0b111, 0, PCID), Some(0), nothing),
        ((0b111, 1, PCID), Some(0), nothing),
        ((0b110, 0, PCID), Some(0), nothing),
        ((0b1100, 0, 0), Some(0), nothing),
        ((PAGE | 0b111, 0, 2 * PCID), Some(0), wrong),
        ((PAGE | 0b111, 0x1_0000, PCID), Some(0), wrong),
        ((0b111, 0, PCID), Some(0), wrong),
        ((PAGE | 0b111, 0, PCID), Some(1), unfinished),
        ((PAGE | 0b111, 0, PCID), None, unfinished),
    ] {
        let mut machine = Machine::new();
        let other = Cpu { number: 1, ..machine.cpu };
        machine.watch.access(&other, PAGE);
        machine.remaps();
        machine.watch.invlpgb(&machine.cpu, operands);
        if let Some(number) = syncs {
            machine.watch.tlbsync(&Cpu { number, ..machine.cpu });
        }
        machine.watch.access(&other, PAGE);
        assert_eq!(machine.found(), found, "{operands:x?}, TLBSYNC on {syncs:?}");
    }
}

#[test]
fn what_is_not_in_long_mode_is_not_watched() {
    let mut machine = Machine::new();
    machine.cpu.efer = 0;
    machine.uses_the_page();
    machine.remaps();
    machine.uses_the_page();
    assert_eq!(machine.found(), []);
    // And is from the moment on at which it is.
    machine.cpu.efer = 1 << 10;
    machine.uses_the_page();
    set(SLOT, FIRST << 12 | PRESENT_WRITABLE_USER);
    machine.watch.store(&machine.cpu, SLOT, SLOT, 8);
    machine.returns_to_user_mode();
    machine.uses_the_page();
    assert_eq!(machine.found(), [Criterion::WrongFrame]);
}
