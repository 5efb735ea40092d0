//! The shadow against the model machine: ten thousand programs drawn at random, for three architectures.
//!
//! Each program stores to page tables and table entries, loads roots under tags, and fences, on the CPUs of the model
//! machine and through the shadow. Then one CPU accesses a page. The explorer exhausts which translations it may use;
//! with [`Strength::Permitted`] the shadow must name exactly the same frames, and report a finding if one of
//! them is not the one that memory names. With [`Strength::Used`] it must name no other frames.

use core::cell::{Cell, RefCell};
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use lookaside::{
    arch::{
        aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp},
        riscv64::Instructions as _,
        x86_64::Instructions as _,
    },
    platform::{CpuId, Ordering::Relaxed, Word as _},
};
use lookaside_hardware::{Invalidation, arm as arm_rules, riscv as riscv_rules, x86 as x86_rules};
use lookaside_machine::{
    adversary::{
        Access as Rights, Arch, Buffers, Config, Frame, Scenario, access, arm, as_cpu, leak,
        outcome, riscv, tables, x86,
    },
    explore::{Budget, Explorer},
};
use lookaside_watch::{
    Access, Criterion, Fence, FrameMarks, Limits, Memory, Mode, Reach, Roots, Shadow, Strength,
};

const CPUS: u32 = 2;
const ROOTS: usize = 2;
const PAGES: u64 = 3;
/// Tag 0 is left out: x86 has its own rules for it while PCIDs are switched on.
const TAGS: [u16; 2] = [1, 2];
const LENGTH: u64 = 24;

/// How many tables the machine has memory for: the shadow marks frames up to the last of them.
const TABLES: usize = 10;

/// The bits of `TCR_EL1`: 39 bits of an address below, nothing above, ASIDs of 16 bits.
const TCR: u64 = 25 | 1 << 23 | 25 << 16 | 1 << 36;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// An entry of the last level: which table, which page, and its new value.
    Page(usize, u64, Option<(u64, bool)>),
    /// An entry above the last level: of which root, and the table that it names.
    Table(usize, Option<usize>),
    /// A root under a tag. On x86 the entries of the tag may stay.
    Load(u32, usize, u16, bool),
    /// Pages and a tag, or all of them.
    Fence(u32, Option<u64>, Option<u16>),
    /// Arm: what was fenced is complete.
    Complete(u32),
    /// An access, which the machine does not need: it holds everything that it may.
    Touch(u32, u64),
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn program(&mut self) -> Vec<Operation> {
        (0..LENGTH).map(|_| self.operation()).collect()
    }

    fn operation(&mut self) -> Operation {
        let cpu = self.below(u64::from(CPUS)) as u32;
        let (table, page) = (self.below(ROOTS as u64 + 1) as usize, self.below(PAGES));
        let (root, tag) = (self.below(ROOTS as u64) as usize, TAGS[self.below(2) as usize]);
        match self.below(10) {
            // The last page is global.
            0..=2 if self.below(3) > 0 => {
                Operation::Page(table, page, Some((1 + self.below(3), page == PAGES - 1)))
            }
            0..=2 => Operation::Page(table, page, None),
            3 => Operation::Table(root, [None, Some(root), Some(ROOTS)][self.below(3) as usize]),
            4 | 5 => Operation::Load(cpu, root, tag, self.below(2) == 0),
            6 | 7 => {
                let page = (self.below(2) == 0).then_some(page);
                Operation::Fence(cpu, page, (self.below(2) == 0).then_some(tag))
            }
            8 => Operation::Complete(cpu),
            _ => Operation::Touch(cpu, page),
        }
    }
}

/// The same words as the machine's tables, by their physical address.
#[derive(Default)]
struct Words(RefCell<BTreeMap<u64, u64>>);

impl Memory for Words {
    fn word(&self, address: u64) -> Option<u64> {
        Some(self.0.borrow().get(&address).copied().unwrap_or(0))
    }
}

/// A machine and two shadows, to which the same is done.
struct Both {
    arch: Arch,
    /// Of each root the tables from the top; then another table of the last level.
    roots: [Vec<Frame>; ROOTS],
    spare: Frame,
    memory: Words,
    used: Shadow,
    permitted: Shadow,
    /// x86: what is in the control registers.
    registers: [x86_rules::Registers; CPUS as usize],
}

impl Both {
    fn new(arch: Arch) -> Self {
        let levels = levels(arch) as usize;
        let roots = [0; ROOTS].map(|_| (0..levels).map(|_| tables::allocate()).collect::<Vec<_>>());
        let spare = tables::allocate();
        let marks = FrameMarks::new(0, (tables::FIRST_TABLE + TABLES as u64) << 12);
        let shadow = |strength| Shadow::new(CPUS, &marks, Limits { strength, ..Limits::default() });
        let registers = x86_rules::Registers { cr3: 0, cr4: x86_rules::PCIDE | x86_rules::PGE };
        let mut both = Self {
            arch,
            roots: roots.clone(),
            spare,
            memory: Words::default(),
            used: shadow(Strength::Used),
            permitted: shadow(Strength::Permitted),
            registers: [registers; CPUS as usize],
        };
        for pair in roots.iter().flat_map(|root| root.windows(2)) {
            both.store(0, pair[0], 0, tables::table(pair[1]));
        }
        for cpu in 0..CPUS {
            both.load(cpu, 0, TAGS[0], false);
        }
        both
    }

    fn store(&mut self, cpu: u32, table: Frame, index: u64, value: u64) {
        let word = tables::word(table, index as usize);
        as_cpu(CpuId(cpu), || word.store(value, Relaxed));
        let physical = table.address() + 8 * index;
        self.memory.0.borrow_mut().insert(physical, value);
        for shadow in [&mut self.used, &mut self.permitted] {
            shadow.store(&self.memory, (cpu, 0x30, None), u64::MAX << 40, physical, 8);
        }
    }

    fn fence(&mut self, cpu: u32, removes: Invalidation) {
        let on_arm = self.arch == Arch::Arm;
        let reach = if on_arm { Reach::All } else { Reach::Own };
        let fence = Fence { cpu, pc: 0x40, removes, reach, pending: on_arm };
        for shadow in [&mut self.used, &mut self.permitted] {
            shadow.fence(&self.memory, fence);
        }
    }

    fn load(&mut self, cpu: u32, root: usize, tag: u16, keep: bool) {
        let top = self.roots[root][0];
        let mut removes = None;
        let tagged = u64::from(tag);
        let roots = match self.arch {
            Arch::Riscv => {
                let satp = 8 << 60 | tagged << 44 | top.0;
                as_cpu(CpuId(cpu), || riscv::Insn.write_satp(satp));
                Roots::Riscv { satp }
            }
            Arch::Arm => {
                let ttbr0 = top.address() | tagged << 48;
                as_cpu(CpuId(cpu), || {
                    arm::Insn.write_ttbr0(ttbr0);
                    arm::Insn.isb();
                });
                Roots::Arm { ttbr0, ttbr1: 0, tcr: TCR }
            }
            Arch::X86 => {
                let cr3 = top.address() | tagged | u64::from(keep) << 63;
                as_cpu(CpuId(cpu), || x86::Insn.write_cr3(cr3));
                let registers = &mut self.registers[cpu as usize];
                let effect = x86_rules::mov_to_cr3(*registers, cr3).expect("it does not fault");
                *registers = effect.registers;
                removes = effect.removes;
                Roots::X86(*registers)
            }
        };
        self.change(cpu, roots, removes);
    }

    /// x86: what is removed goes before the new root can produce anything, and after the old one has gone.
    fn change(&mut self, cpu: u32, roots: Roots, removes: Option<Invalidation>) {
        if let Some(removes) = removes {
            for shadow in [&mut self.used, &mut self.permitted] {
                shadow.load_roots(&self.memory, cpu, Roots::Off);
            }
            self.fence(cpu, removes);
        }
        for shadow in [&mut self.used, &mut self.permitted] {
            shadow.load_roots(&self.memory, cpu, roots);
        }
    }

    /// The last table of a root, or the spare one.
    fn last(&self, root: usize) -> Frame {
        self.roots.get(root).and_then(|root| root.last()).copied().unwrap_or(self.spare)
    }

    fn execute(&mut self, operation: Operation) {
        match operation {
            Operation::Page(table, page, entry) => {
                let table = self.last(table);
                let value = entry.map_or(0, |(frame, global)| {
                    tables::page(Frame(frame), Rights { write: false, global })
                });
                self.store(0, table, page, value);
            }
            Operation::Table(root, below) => {
                let value = below.map_or(0, |table| tables::table(self.last(table)));
                let above = self.roots[root].len() - 2;
                self.store(0, self.roots[root][above], 0, value);
            }
            Operation::Load(cpu, root, tag, keep) => self.load(cpu, root, tag, keep),
            Operation::Fence(cpu, page, tag) => self.invalidate(cpu, page, tag),
            Operation::Complete(cpu) => {
                if self.arch == Arch::Arm {
                    as_cpu(CpuId(cpu), || {
                        arm::Insn.dsb(Dsb::Ish);
                        arm::Insn.isb();
                    });
                }
                for shadow in [&mut self.used, &mut self.permitted] {
                    shadow.complete(&self.memory, cpu, true);
                }
            }
            Operation::Touch(cpu, page) => {
                let access = Access { cpu, pc: 0x20, address: page << 12 };
                self.used.access(&self.memory, access);
            }
        }
    }

    fn invalidate(&mut self, cpu: u32, page: Option<u64>, tag: Option<u16>) {
        match self.arch {
            Arch::Riscv => {
                let address = page.map(|page| page << 12);
                as_cpu(CpuId(cpu), || riscv::Insn.sfence_vma(address, tag));
                self.fence(cpu, riscv_rules::fenced(page.map(|page| (page, page)), tag));
            }
            Arch::Arm => {
                let (op, kind) = match (page, tag) {
                    (Some(_), Some(_)) => (TlbiOp::Va, arm_rules::TlbiKind::Va),
                    (Some(_), None) => (TlbiOp::Vaal, arm_rules::TlbiKind::Vaal),
                    (None, Some(_)) => (TlbiOp::Aside, arm_rules::TlbiKind::Aside),
                    (None, None) => (TlbiOp::Vmall, arm_rules::TlbiKind::Vmall),
                };
                let operand = u64::from(tag.unwrap_or(0)) << 48 | page.unwrap_or(0);
                as_cpu(CpuId(cpu), || {
                    arm::Insn.dsb(Dsb::Ishst);
                    arm::Insn.tlbi(Tlbi { op, scope: Scope::Broadcast, operand });
                });
                let removes = arm_rules::tlbi(kind, operand, 16, &[0]).expect("it names something");
                self.fence(cpu, removes);
            }
            Arch::X86 => {
                let registers = self.registers[cpu as usize];
                if let Some(page) = page {
                    as_cpu(CpuId(cpu), || x86::Insn.invlpg(page << 12));
                    let effect = x86_rules::invlpg(registers, page << 12);
                    self.fence(cpu, effect.removes.expect("the address is canonical"));
                } else {
                    for cr4 in [registers.cr4 & !x86_rules::PGE, registers.cr4] {
                        as_cpu(CpuId(cpu), || x86::Insn.write_cr4(cr4));
                        let before = &mut self.registers[cpu as usize];
                        let effect =
                            x86_rules::mov_to_cr4(*before, cr4).expect("it does not fault");
                        *before = effect.registers;
                        let after = *before;
                        self.change(cpu, Roots::X86(after), effect.removes);
                    }
                }
            }
        }
    }
}

/// A program, and in the end an access.
struct Trial {
    arch: Arch,
    program: Vec<Operation>,
    probe: (u32, u64),
    both: Rc<RefCell<Option<Both>>>,
}

impl Scenario for Trial {
    type World = Cell<u64>;

    fn name(&self) -> String {
        "watch".to_owned()
    }

    fn config(&self) -> Config {
        let config = match self.arch {
            Arch::Riscv => Config::riscv(CPUS as usize),
            Arch::Arm => Config::arm(CPUS as usize).with_ets2(),
            Arch::X86 => Config::x86(CPUS as usize),
        };
        let mut config = config.with_buffers(Buffers::None).with_levels(levels(self.arch));
        config.protocols = false;
        config.tables = TABLES;
        config.frames = 4;
        config
    }

    fn build(&self) -> &'static Cell<u64> {
        let mut both = Both::new(self.arch);
        for &operation in &self.program {
            both.execute(operation);
        }
        *self.both.borrow_mut() = Some(both);
        leak(Cell::new(0))
    }

    fn run(&self, reached: &'static Cell<u64>, cpu: CpuId) {
        if cpu.0 == self.probe.0 {
            reached.set(access(self.probe.1 << 12).map_or(0, |frame| frame.0));
        }
    }

    fn finish(&self, reached: &'static Cell<u64>) {
        outcome(reached.get());
    }
}

/// Of the tables: Sv39, 39 bits, and the four levels of x86-64.
const fn levels(arch: Arch) -> u32 {
    match arch {
        Arch::X86 => 4,
        Arch::Arm | Arch::Riscv => 3,
    }
}

/// What one program has shown: whether a stale frame was reached, and whether nobody had used it.
fn compare(arch: Arch, seed: u64) -> (bool, bool) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..10 {
        random.below(2);
    }
    let program = random.program();
    let probe = (random.below(u64::from(CPUS)) as u32, random.below(PAGES));
    let both = Rc::new(RefCell::new(None));
    let trial = Trial { arch, program: program.clone(), probe, both: both.clone() };
    let report = Explorer::new(trial).exhaust(Budget::UNLIMITED);
    let context = || format!("{arch:?}, seed {seed}: {program:?}, then {probe:?}");
    assert!(report.failure.is_none() && report.complete, "{:?}: {}", report.failure, context());
    let reached: BTreeSet<u64> = report.outcomes.into_iter().filter(|&frame| frame != 0).collect();
    let mut both = both.borrow_mut().take().expect("the world was built");
    let (cpu, address) = (probe.0, probe.1 << 12);
    let permitted = both.permitted.may_reach(&both.memory, cpu, address);
    assert_eq!(reached, permitted, "{}", context());
    let used = both.used.may_reach(&both.memory, cpu, address);
    assert!(used.is_subset(&reached), "{used:?} of {reached:?}: {}", context());
    // What can be reached and is not what memory names is reported, as one finding or several.
    // All stores were those of CPU 0, which has finished.
    both.permitted.enter_mode(0, 0x10, Mode::User, None);
    let before = both.permitted.findings().len();
    let hit = both.permitted.access(&both.memory, Access { cpu, pc: 0x24, address });
    let new = &both.permitted.findings()[before..];
    let stale = hit.is_some_and(|hit| reached.iter().any(|&frame| frame != hit.frame));
    assert_eq!(!new.is_empty(), stale, "{reached:?}, {hit:?}, {new:?}: {}", context());
    assert!(new.iter().all(|finding| finding.criterion == Criterion::PermittedOnly));
    (stale, stale && used.len() < reached.len())
}

fn run(arch: Arch) {
    let (mut stale, mut unused) = (0, 0);
    for seed in 1..=PROGRAMS {
        let (reached, not_used) = compare(arch, seed);
        stale += u64::from(reached);
        unused += u64::from(not_used);
    }
    // Otherwise the programs would show nothing.
    assert!(stale > PROGRAMS / 100 && unused > PROGRAMS / 100, "{arch:?}: {stale}, {unused}");
    println!("{arch:?}: {stale} programs reach a stale frame, {unused} one that nobody had used");
}

/// Of each architecture.
const PROGRAMS: u64 = 3_400;

#[test]
fn riscv_programs_reach_what_the_shadow_says() {
    run(Arch::Riscv);
}

#[test]
fn arm_programs_reach_what_the_shadow_says() {
    run(Arch::Arm);
}

#[test]
fn x86_programs_reach_what_the_shadow_says() {
    run(Arch::X86);
}
