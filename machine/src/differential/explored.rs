//! A shape on the adversary's CPUs, under the explorer.

use core::cell::Cell;
use std::{collections::BTreeSet, rc::Rc};

use lookaside::{
    arch::{
        aarch64::{Instructions as _, Tlbi},
        riscv64::Instructions as _,
        x86_64::Instructions as _,
    },
    platform::{
        CpuId,
        Ordering::{Relaxed, SeqCst},
        Word as _,
    },
};

use super::shape::{CPUS, OTHER, OWN, Operation, Place, Shape, Space, VA};
use crate::{
    adversary::{
        Access, Arch, Config, Frame, Scenario, Word, access, arm, as_cpu, leak, outcome, riscv,
        tables, x86,
    },
    explore::{Budget, Explorer},
};

impl core::fmt::Debug for Explored {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Explored").finish_non_exhaustive()
    }
}

/// One world for all shapes: what is run in it changes.
pub(super) struct Explored {
    explorer: Explorer,
    shape: Rc<Cell<Shape>>,
}

impl Explored {
    pub(super) fn new(arch: Arch, ets2: bool) -> Self {
        let code = [[None; super::shape::MOST]; CPUS];
        let shape = Rc::new(Cell::new(Shape { arch, code }));
        let runner = Runner { arch, ets2, shape: shape.clone() };
        Self { explorer: Explorer::new(runner), shape }
    }

    /// Every way in which the shape can end.
    ///
    /// # Errors
    ///
    /// What the machine finds wrong with it.
    pub(super) fn outcomes(&mut self, shape: &Shape) -> Result<BTreeSet<u64>, String> {
        self.shape.set(*shape);
        let report = self.explorer.exhaust(Budget::UNLIMITED);
        match report.failure {
            Some(failure) => Err(failure.violation.to_string()),
            None => Ok(report.outcomes.into_iter().collect()),
        }
    }
}

struct Runner {
    arch: Arch,
    ets2: bool,
    shape: Rc<Cell<Shape>>,
}

struct World {
    roots: [Frame; 2],
    x: Word,
    y: Word,
    page: &'static Word,
    table: &'static Word,
    /// What the values of a place are in memory.
    pages: [u64; 3],
    tables: [u64; 3],
    /// What each CPU has observed.
    seen: [Cell<u64>; CPUS],
}

impl World {
    fn word(&self, place: Place) -> &Word {
        match place {
            Place::X => &self.x,
            Place::Y => &self.y,
            Place::Page => self.page,
            Place::Table => self.table,
        }
    }

    fn encode(&self, place: Place, value: u8) -> u64 {
        match place {
            Place::X | Place::Y => value.into(),
            Place::Page => self.pages[usize::from(value)],
            Place::Table => self.tables[usize::from(value)],
        }
    }

    fn decode(&self, place: Place, value: u64) -> u8 {
        (0..3).find(|&of| self.encode(place, of) == value).unwrap_or(7)
    }
}

/// The frames `A` to `D`.
const FRAMES: [Frame; 4] = [Frame(1), Frame(2), Frame(3), Frame(4)];

impl Scenario for Runner {
    type World = World;

    fn name(&self) -> String {
        "differential".to_owned()
    }

    fn config(&self) -> Config {
        let mut config = match self.arch {
            Arch::Arm => Config::arm(CPUS),
            Arch::X86 => Config::x86(CPUS),
            Arch::Riscv => Config::riscv(CPUS),
        };
        config.ets2 = self.ets2;
        config.levels = 2;
        config.tables = 8;
        config.check_private = false;
        config.dependencies = false;
        config
    }

    fn build(&self) -> &'static World {
        let [own, other, spare] = [0; 3].map(|_| tables::allocate());
        // Of pages that permit no store, Arm lets two be held at one time.
        for (root, frame) in [(own, FRAMES[0]), (spare, FRAMES[2]), (other, FRAMES[3])] {
            tables::map(root, VA, frame, Access::READ);
        }
        let (page, table) = (tables::pte(own, VA), tables::entry(own, VA, 1));
        let world = World {
            roots: [own, other],
            x: Word::ZERO,
            y: Word::ZERO,
            page,
            table,
            pages: [0, page.peek(), tables::page(FRAMES[1], Access::READ)],
            tables: [0, table.peek(), tables::entry(spare, VA, 1).peek()],
            seen: [const { Cell::new(0) }; CPUS],
        };
        for cpu in 0..CPUS {
            as_cpu(CpuId(cpu as u32), || {
                self.load(&world, Space::Own, false);
                if self.arch == Arch::Arm {
                    arm::Insn.isb();
                }
            });
        }
        leak(world)
    }

    fn run(&self, world: &'static World, cpu: CpuId) {
        let cpu = cpu.index();
        let seen = &world.seen[cpu];
        seen.set(1);
        let shape = self.shape.get();
        for operation in shape.code[cpu] {
            let Some(operation) = operation else { return };
            let value = self.execute(world, cpu, operation);
            if operation.observes() {
                seen.set(super::seen(seen.get(), value));
            }
            if matches!(operation, Operation::Access) && value == 0 {
                return;
            }
        }
    }

    fn finish(&self, world: &'static World) {
        let memory = Place::ALL.map(|place| world.decode(place, world.word(place).peek()));
        outcome(super::ending([world.seen[0].get(), world.seen[1].get()], memory));
    }
}

impl Runner {
    fn load(&self, world: &World, space: Space, keep: bool) {
        let (root, tag) = match space {
            Space::Own => (world.roots[0], OWN),
            Space::Other => (world.roots[1], OTHER),
        };
        let tag = u64::from(tag);
        match self.arch {
            Arch::Arm => arm::Insn.write_ttbr0(root.address() | tag << 48),
            Arch::X86 => x86::Insn.write_cr3(root.address() | tag | u64::from(keep) << 63),
            Arch::Riscv => riscv::Insn.write_satp(8 << 60 | tag << 44 | root.0),
        }
    }

    fn execute(&self, world: &World, cpu: usize, operation: Operation) -> u8 {
        match operation {
            Operation::Load(place) => {
                return world.decode(place, world.word(place).load(Relaxed));
            }
            Operation::Store(place, value) => {
                let value = world.encode(place, Shape::stored(cpu, place, value));
                world.word(place).store(value, Relaxed);
            }
            Operation::Swap(place, value, full) => {
                let value = world.encode(place, Shape::stored(cpu, place, value));
                let order = if full { SeqCst } else { Relaxed };
                return world.decode(place, world.word(place).swap(value, order));
            }
            Operation::Access => {
                let frame = access(VA);
                return frame.map_or(0, |frame| frame.0 as u8);
            }
            Operation::Fence => match self.arch {
                Arch::Arm => Word::fence(SeqCst),
                Arch::X86 => x86::Insn.mfence(),
                Arch::Riscv => riscv::Insn.fence(),
            },
            Operation::Root(space, keep) => self.load(world, space, keep),
            Operation::Tlbi(op, scope, tag) => {
                let operand = super::tlbi_operand(op, tag);
                arm::Insn.tlbi(Tlbi { op, scope, operand });
            }
            Operation::Dsb(kind) => arm::Insn.dsb(kind),
            Operation::Isb => arm::Insn.isb(),
            Operation::Invlpg => x86::Insn.invlpg(VA),
            Operation::Invpcid(kind, tag) => x86::Insn.invpcid(kind, [tag.into(), VA]),
            Operation::Invlpgb(flags, tag) => {
                x86::Insn.invlpgb(super::invlpgb_address(flags), 0, u32::from(tag) << 16);
            }
            Operation::Tlbsync => x86::Insn.tlbsync(),
            Operation::Toggle => {
                let value = x86::Insn.read_cr4();
                x86::Insn.write_cr4(value ^ lookaside_hardware::x86::PGE);
                x86::Insn.write_cr4(value);
            }
            Operation::Sfence(named, asid) => {
                riscv::Insn.sfence_vma(named.then_some(VA), asid);
            }
            Operation::Sinval(named, asid) => {
                riscv::Insn.sinval_vma(named.then_some(VA), asid);
            }
            Operation::SfenceWInval => riscv::Insn.sfence_w_inval(),
            Operation::SfenceInvalIr => riscv::Insn.sfence_inval_ir(),
            Operation::Remote(named, asid) => {
                let (start, size) = if named { (VA, 0x1000) } else { (0, u64::MAX) };
                let all = u64::MAX;
                let _ = riscv::Insn.remote_sfence_vma(0, all, start, size, asid);
            }
        }
        0
    }
}
