//! x86-64: what each of its instructions leaves behind, page by page and table by table.

mod kit;

use kit::{BYTES, Words};
use lookaside_hardware::{
    Invalidation,
    x86::{self, LA57, PCIDE, PGE, Registers},
};
use lookaside_watch::{Access, Criterion, Fence, FrameMarks, Limits, Mode, Reach, Roots, Shadow};

const PRESENT: u64 = 1;
const WRITE: u64 = 2;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const PAGE: u64 = PRESENT | WRITE;

/// The frame of the top table of a root; its tables for address 0 are at the frames behind, level by level.
const TABLES: u64 = 0x100;

/// A machine whose tables have as many levels as `CR4` says.
struct Machine {
    memory: Words,
    shadow: Shadow,
    registers: Vec<Registers>,
    levels: u64,
}

impl Machine {
    fn new(cr4: u64) -> Self {
        let levels = if cr4 & LA57 == 0 { 4 } else { 5 };
        let shadow = Shadow::new(2, &FrameMarks::new(0, BYTES), Limits::default());
        let registers = vec![Registers { cr3: 0, cr4 }; 2];
        let machine = Self { memory: Words::default(), shadow, registers, levels };
        for root in 0..2 {
            for level in (1..levels).rev() {
                machine.memory.set(machine.slot(root, level, 0), machine.link(root, level - 1));
            }
        }
        machine
    }

    fn table(&self, root: u64, level: u64) -> u64 {
        TABLES + root * 8 + (self.levels - 1 - level)
    }

    fn link(&self, root: u64, level: u64) -> u64 {
        self.table(root, level) << 12 | PAGE
    }

    /// The entry of a table on the way to address 0.
    fn slot(&self, root: u64, level: u64, index: u64) -> u64 {
        (self.table(root, level) << 12) + 8 * index
    }

    /// `MOV` to `CR3`; the lower bits are a PCID, and bit 63 keeps its entries.
    fn cr3(&mut self, cpu: usize, root: u64, bits: u64) {
        let value = self.table(root, self.levels - 1) << 12 | bits;
        let effect = x86::mov_to_cr3(self.registers[cpu], value).unwrap();
        self.fence(cpu, effect.removes);
        self.registers[cpu] = effect.registers;
        self.shadow.load_roots(&self.memory, cpu as u32, Roots::X86(effect.registers));
    }

    fn toggle_globals(&mut self, cpu: usize) {
        for _ in 0..2 {
            let effect =
                x86::mov_to_cr4(self.registers[cpu], self.registers[cpu].cr4 ^ PGE).unwrap();
            self.fence(cpu, effect.removes);
            self.registers[cpu] = effect.registers;
            self.shadow.load_roots(&self.memory, cpu as u32, Roots::X86(effect.registers));
        }
    }

    fn invlpg(&mut self, cpu: usize, address: u64) {
        self.fence(cpu, x86::invlpg(self.registers[cpu], address).removes);
    }

    fn invpcid(&mut self, cpu: usize, kind: u64, descriptor: [u64; 2]) {
        self.fence(cpu, x86::invpcid(self.registers[cpu], kind, descriptor).unwrap().removes);
    }

    fn fence(&mut self, cpu: usize, removes: Option<Invalidation>) {
        if let Some(removes) = removes {
            let cpu = cpu as u32;
            let fence = Fence { cpu, pc: 0x40, removes, reach: Reach::Own, pending: false };
            self.shadow.fence(&self.memory, fence);
        }
    }

    /// A store by CPU 0's kernel, by its own mapping.
    fn store(&mut self, physical: u64, word: u64) {
        self.memory.set(physical, word);
        let by = (0, 0x30, Some(0));
        self.shadow.store(&self.memory, by, 0xffff_8000_0000_0000 | physical, physical, 8);
    }

    fn touch(&mut self, cpu: u32, address: u64) -> Option<u64> {
        let access = Access { cpu, pc: 0x20, address };
        self.shadow.access(&self.memory, access).map(|hit| hit.frame)
    }

    fn found(&self) -> Vec<Criterion> {
        self.shadow.findings().iter().map(|finding| finding.criterion).collect()
    }

    fn missing(&self) -> &str {
        &self.shadow.findings()[0].missing.as_ref().unwrap().instruction
    }
}

/// CPU 1 uses page 5, which is then given another frame, with something in between.
fn remap(cr4: u64, bits: u64, between: impl FnOnce(&mut Machine)) -> Machine {
    let mut machine = Machine::new(cr4);
    machine.cr3(1, 0, 0);
    let slot = machine.slot(0, 0, 5);
    machine.store(slot, 0x20 << 12 | PAGE | bits);
    assert_eq!(machine.touch(1, 0x5123), Some(0x20));
    machine.store(slot, 0);
    between(&mut machine);
    machine.store(slot, 0x21 << 12 | PAGE | bits);
    machine.touch(1, 0x5123);
    machine
}

#[test]
fn a_page_wants_an_invlpg_of_its_own_cpu_and_address() {
    let wrong = [Criterion::WrongFrame];
    for cr4 in [0, PGE, PGE | LA57] {
        let bare = remap(cr4, 0, |_| ());
        assert_eq!(
            (bare.found().as_slice(), bare.missing()),
            (&wrong[..], "INVLPG of page 0x5000")
        );
        assert_eq!(remap(cr4, 0, |machine| machine.invlpg(1, 0x5fff)).found(), []);
        assert_eq!(remap(cr4, 0, |machine| machine.invlpg(0, 0x5000)).found(), wrong);
        assert_eq!(remap(cr4, 0, |machine| machine.invlpg(1, 0x6000)).found(), wrong);
        assert_eq!(remap(cr4, 0, |machine| machine.cr3(1, 0, 0)).found(), []);
    }
    // Of an address that is not canonical it does nothing; with five levels it is.
    let far = 1 << 47 | 0x5000;
    assert_eq!(remap(PGE, 0, |machine| machine.invlpg(1, far)).found(), wrong);
}

#[test]
fn a_global_page_outlives_a_write_of_cr3() {
    let reload = |machine: &mut Machine| machine.cr3(1, 0, 0);
    assert_eq!(remap(PGE, GLOBAL, reload).found(), [Criterion::WrongFrame]);
    assert_eq!(remap(PGE, GLOBAL, |machine| machine.toggle_globals(1)).found(), []);
    assert_eq!(remap(PGE, GLOBAL, |machine| machine.invlpg(1, 0x5000)).found(), []);
    // Without CR4.PGE the bit means nothing.
    assert_eq!(remap(0, GLOBAL, reload).found(), []);
    let kinds = |kind| {
        remap(PGE | PCIDE, GLOBAL, |machine| machine.invpcid(1, kind, [0, 0x5000])).found().len()
    };
    assert_eq!([0, 1, 2, 3].map(kinds), [1, 1, 0, 1]);
}

#[test]
fn a_pcid_keeps_its_entries_while_another_runs() {
    let away = |keep: u64| {
        move |machine: &mut Machine| {
            machine.cr3(1, 1, 2);
            machine.cr3(1, 0, keep);
        }
    };
    assert_eq!(remap(PGE | PCIDE, 0, away(x86::KEEP)).found(), [Criterion::WrongFrame]);
    assert_eq!(remap(PGE | PCIDE, 0, away(0)).found(), []);
    assert_eq!(remap(PGE, 0, away(0)).found(), []);
    // The same PCID for two roots.
    let mut machine = Machine::new(PGE | PCIDE);
    for root in 0..2 {
        let slot = machine.slot(root, 0, 5);
        machine.store(slot, (0x20 + root) << 12 | PAGE);
    }
    machine.cr3(1, 0, 3);
    machine.touch(1, 0x5000);
    machine.cr3(1, 1, 3 | x86::KEEP);
    machine.touch(1, 0x5000);
    assert_eq!(machine.found(), [Criterion::TagGivenAway]);
}

#[test]
fn a_large_page_goes_with_any_of_its_addresses() {
    for level in [1, 2] {
        let pages = 1 << (9 * level);
        for fenced in [false, true] {
            let mut machine = Machine::new(PGE);
            machine.cr3(1, 0, 0);
            let slot = machine.slot(0, level, 1);
            machine.store(slot, pages << 12 | PAGE | LARGE);
            let address = (pages + 3) << 12;
            assert_eq!(machine.touch(1, address), Some(pages + 3));
            machine.store(slot, 0);
            if fenced {
                machine.invlpg(1, (pages + pages / 2) << 12);
            }
            machine.store(slot, (2 * pages) << 12 | PAGE | LARGE);
            machine.touch(1, address);
            let expected: &[Criterion] = if fenced { &[] } else { &[Criterion::WrongFrame] };
            assert_eq!(machine.found(), expected);
        }
    }
}

#[test]
fn a_large_page_that_is_split_into_its_own_frames_is_not_revoked() {
    let mut machine = Machine::new(PGE);
    machine.cr3(1, 0, 0);
    let small = 0x300;
    machine.store(machine.slot(0, 1, 1), 512 << 12 | PAGE | LARGE);
    machine.touch(1, 0x20_3000);
    for index in 0..512 {
        machine.memory.set((small << 12) + 8 * index, (512 + index) << 12 | PAGE);
    }
    machine.store(machine.slot(0, 1, 1), small << 12 | PAGE);
    machine.touch(1, 0x20_3000);
    assert_eq!((machine.found().len(), machine.shadow.counts().revoked), (0, 0));
}

#[test]
fn a_freed_table_wants_an_instruction_that_drops_partial_walks() {
    let freed = |fence: fn(&mut Machine)| {
        let mut machine = Machine::new(PGE | PCIDE);
        machine.shadow.enter_mode(0, 0x10, Mode::User, Some(0));
        machine.cr3(1, 0, 1);
        machine.store(machine.slot(0, 0, 5), 0x20 << 12 | PAGE);
        machine.touch(1, 0x5000);
        machine.store(machine.slot(0, 0, 5), 0);
        machine.store(machine.slot(0, 1, 0), 0);
        fence(&mut machine);
        machine.shadow.enter_mode(0, 0x10, Mode::User, Some(0));
        // The page of the last table has another use now.
        machine.store(machine.slot(0, 0, 7), 0x1235);
        machine.found()
    };
    assert_eq!(freed(|machine| machine.invpcid(1, 0, [1, 0x5000])), [Criterion::FreedTable]);
    assert_eq!(freed(|machine| machine.invlpg(1, 0x5000)), []);
    assert_eq!(freed(|machine| machine.invlpg(1, 0x9000_0000)), []);
    assert_eq!(freed(|machine| machine.invpcid(1, 1, [1, 0])), []);
    assert_eq!(freed(|machine| machine.invpcid(1, 1, [2, 0])), [Criterion::FreedTable]);
}

#[test]
fn tables_are_read_as_the_manual_has_them() {
    let machine = Machine::new(PGE);
    let root = Roots::X86(Registers { cr3: TABLES << 12 | 0x18, cr4: PGE }).root(0).unwrap();
    machine.memory.set(machine.slot(0, 0, 1), 0x20 << 12 | PAGE | GLOBAL | 1 << 63);
    let walk = root.walk(&machine.memory, 0x1000).unwrap();
    assert_eq!((walk.frame, walk.global, walk.top, walk.level), (0x20, true, 3, 0));
    // PS is no size in the top table, and bit 7 of the last level is PAT.
    machine.memory.set(machine.slot(0, 0, 2), 0x21 << 12 | PAGE | LARGE);
    assert_eq!(root.walk(&machine.memory, 0x2000).unwrap().order, 0);
    machine.memory.set(machine.slot(0, 3, 1), machine.link(0, 2) | LARGE);
    assert_eq!(root.walk(&machine.memory, 1 << 39 | 0x1000), None);
    machine.memory.set(machine.slot(0, 3, 1), machine.link(0, 2));
    assert!(root.walk(&machine.memory, 1 << 39 | 0x1000).is_some());
}
