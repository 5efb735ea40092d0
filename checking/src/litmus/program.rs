//! Tests that the explorer runs on its own CPUs: programs over page tables of several levels, with
//! spaces, tags and root registers.
//!
//! These CPUs run their programs in order, with store buffers and with TLBs that hold all that the
//! architecture lets them hold. So a state that is found shows that the rules of translation allow it, and a
//! test that needs loads that overtake each other does not show all of its states here.

use core::cell::RefCell;
use std::rc::Rc;

use lookaside::{
    arch::{
        aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp},
        riscv64::Instructions as _,
        x86_64::Instructions as _,
    },
    platform::{CpuId, Ordering, Word as _},
};
use lookaside_machine::{
    adversary::{
        self as machine, Access, Arch, Config, Frame, Scenario, Word, arm, leak, riscv, tables, x86,
    },
    explore::{Budget, Explorer},
    litmus::{Fault, FaultKind, Final, Outcomes, Register, address, descriptor_address},
};

use super::bound::Bound;

/// The number of registers of a CPU.
const REGISTERS: usize = 32;
/// How many pages one variable is away from the next: each has tables of its own.
const APART: u32 = 16;

/// A space: which tree of tables.
pub type Space = usize;

/// What a register, a word or a descriptor holds at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// The virtual address of a variable.
    Address(usize),
    /// Where the descriptor of a variable lies.
    Descriptor(Space, usize, u32),
    /// A descriptor of the last level.
    Leaf {
        /// Whose frame.
        output: usize,
        /// What it permits.
        access: Access,
    },
    /// A descriptor that names the table of the last level that a variable has in a space.
    Table(Space, usize),
    /// A value of the root register.
    Root(Space, u16),
}

/// An instruction. Addresses are in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A constant.
    Set(Register, u64),
    /// A load.
    Load(Register, Register),
    /// A store: what, and where.
    Store(Register, Register),
    /// An atomic exchange: what was read, what is written, and where.
    Swap(Register, Register, Register),
    /// A fence of loads and stores: `Acquire`, `Release` or `SeqCst`.
    Fence(Ordering),
    /// `SFENCE.VMA`: address and tag, if they are named.
    Sfence(Option<Register>, Option<Register>),
    /// `SINVAL.VMA`, likewise.
    Sinval(Option<Register>, Option<Register>),
    /// `SFENCE.W.INVAL`.
    SfenceWInval,
    /// `SFENCE.INVAL.IR`.
    SfenceInvalIr,
    /// The root register is written.
    WriteRoot(Register),
    /// `INVLPG`.
    Invlpg(Register),
    /// `TLBI`.
    Tlbi(TlbiOp, Scope, Option<Register>),
    /// `DSB`.
    Dsb(Dsb),
    /// `ISB`, or what synchronises as one does.
    Isb,
    /// A sum of two registers: to, and of what.
    Add(Register, Register, Register),
    /// An exclusive or, likewise.
    Xor(Register, Register, Register),
}

/// A program for each CPU, and the memory that they begin with.
#[derive(Clone, Debug)]
pub struct Program {
    /// The architecture.
    pub arch: Arch,
    /// What each variable's frame holds.
    pub contents: Vec<u64>,
    /// What descriptors hold that do not lead to the variable's own frame: space, variable, level.
    pub descriptors: Vec<(Space, usize, u32, Value)>,
    /// How many spaces there are.
    pub spaces: usize,
    /// Each CPU's root register.
    pub roots: Vec<(Space, u16)>,
    /// The registers that do not begin as zero.
    pub registers: Vec<Vec<(Register, Value)>>,
    /// What each CPU runs.
    pub code: Vec<Vec<Step>>,
    /// What each CPU runs after a fault, before it goes on with the next instruction. Without it, it
    /// ends.
    pub handlers: Vec<Option<Vec<Step>>>,
}

/// What the programs share.
struct World {
    registers: Vec<[Word; REGISTERS]>,
    /// Of each CPU, one more than the number of the instruction that faulted, and where.
    faults: Vec<[Word; 2]>,
    /// The first values of registers.
    values: Vec<Vec<(usize, u64)>>,
    /// Descriptors by space and variable: of the last level, and of the level above.
    descriptors: Vec<Vec<[&'static Word; 2]>>,
}

/// Where the word for an address that a program uses lies.
enum Target {
    Page(u64),
    Word(&'static Word),
    Nothing,
}

struct Run {
    program: Program,
    finals: Rc<RefCell<Vec<Final>>>,
}

pub(super) fn virtual_address(variable: usize) -> u64 {
    ((variable as u64 + 1) * u64::from(APART)) << 12
}

fn frame(variable: usize) -> Frame {
    Frame(variable as u64 + 1)
}

/// What a program calls the descriptor of a variable.
fn descriptor_name(space: Space, variable: usize, level: u32) -> u64 {
    descriptor_address(variable) + ((space as u64) << 20) + (u64::from(level) << 16)
}

impl Run {
    fn value(&self, roots: &[Frame], value: Value) -> u64 {
        match value {
            Value::Number(number) => number,
            Value::Address(variable) => virtual_address(variable),
            Value::Descriptor(space, variable, level) => descriptor_name(space, variable, level),
            Value::Leaf { output, access } => tables::page(frame(output), access),
            Value::Table(space, variable) => {
                // What the descriptor above says when nothing has changed yet.
                tables::entry(roots[space], virtual_address(variable), 1).peek()
            }
            Value::Root(space, tag) => self.root(roots[space], tag),
        }
    }

    fn root(&self, root: Frame, tag: u16) -> u64 {
        match self.program.arch {
            Arch::Riscv => root.0 | u64::from(tag) << 44 | 8 << 60,
            Arch::X86 => root.address() | u64::from(tag),
            Arch::Arm => root.address() | u64::from(tag) << 48,
        }
    }

    fn write_root(&self, value: u64) {
        match self.program.arch {
            Arch::Riscv => riscv::Insn.write_satp(value),
            Arch::X86 => x86::Insn.write_cr3(value),
            Arch::Arm => arm::Insn.write_ttbr0(value),
        }
    }

    fn target(&self, world: &World, at: u64) -> Target {
        for (space, variables) in world.descriptors.iter().enumerate() {
            for (variable, words) in variables.iter().enumerate() {
                for (level, word) in words.iter().enumerate() {
                    if at == descriptor_name(space, variable, level as u32) {
                        return Target::Word(word);
                    }
                }
            }
        }
        let known = (0..self.program.contents.len()).any(|of| virtual_address(of) == at);
        if known { Target::Page(at) } else { Target::Nothing }
    }

    /// Runs one instruction; nothing after a fault.
    fn step(&self, world: &World, registers: &mut [u64; REGISTERS], step: Step) -> Option<()> {
        let get = |registers: &[u64; REGISTERS], of: Register| registers[usize::from(of.0)];
        let named = |of: Option<Register>| of.map(|of| get(registers, of));
        let tag = |of: Option<Register>| named(of).map(|tag| tag as u16);
        let read = match step {
            Step::Set(to, value) => Some((to, value)),
            Step::Load(to, at) => match self.target(world, get(registers, at)) {
                Target::Page(va) => Some((to, tables::contents(machine::access(va)?).get())),
                Target::Word(word) => Some((to, word.load(Ordering::Relaxed))),
                Target::Nothing => return None,
            },
            Step::Store(from, at) => {
                let value = get(registers, from);
                match self.target(world, get(registers, at)) {
                    Target::Page(va) => {
                        machine::access_store(va, value)?;
                    }
                    Target::Word(word) => word.store(value, Ordering::Relaxed),
                    Target::Nothing => return None,
                }
                None
            }
            Step::Swap(to, from, at) => match self.target(world, get(registers, at)) {
                Target::Word(word) => Some((to, word.swap(get(registers, from), Ordering::SeqCst))),
                Target::Page(_) | Target::Nothing => return None,
            },
            Step::Fence(Ordering::SeqCst) if self.program.arch == Arch::Riscv => {
                riscv::Insn.fence();
                None
            }
            Step::Fence(order) => {
                Word::fence(order);
                None
            }
            Step::Sfence(at, of) => {
                riscv::Insn.sfence_vma(named(at), tag(of));
                None
            }
            Step::Sinval(at, of) => {
                riscv::Insn.sinval_vma(named(at), tag(of));
                None
            }
            Step::SfenceWInval => {
                riscv::Insn.sfence_w_inval();
                None
            }
            Step::SfenceInvalIr => {
                riscv::Insn.sfence_inval_ir();
                None
            }
            Step::WriteRoot(from) => {
                self.write_root(get(registers, from));
                None
            }
            Step::Tlbi(op, scope, operand) => {
                let operand = named(operand).unwrap_or(0);
                arm::Insn.tlbi(Tlbi { op, scope, operand });
                None
            }
            Step::Dsb(kind) => {
                arm::Insn.dsb(kind);
                None
            }
            Step::Isb => {
                arm::Insn.isb();
                None
            }
            Step::Add(to, one, other) => {
                Some((to, get(registers, one).wrapping_add(get(registers, other))))
            }
            Step::Xor(to, one, other) => Some((to, get(registers, one) ^ get(registers, other))),
            Step::Invlpg(at) => {
                x86::Insn.invlpg(get(registers, at));
                None
            }
        };
        if let Some((to, value)) = read
            // RISC-V's x0 is zero.
            && (to.0 != 0 || self.program.arch != Arch::Riscv)
        {
            registers[usize::from(to.0)] = value;
        }
        Some(())
    }
}

impl Scenario for Run {
    type World = World;

    fn name(&self) -> String {
        "litmus".to_owned()
    }

    fn config(&self) -> Config {
        let cpus = self.program.code.len();
        let mut config = match self.program.arch {
            Arch::Riscv => Config::riscv(cpus).with_invalid_entries(),
            Arch::X86 => Config::x86(cpus),
            Arch::Arm => Config::arm(cpus).with_ets2(),
        };
        // A load reads the frame in the step in which it is translated.
        config.check_private = false;
        config.without_protocols().without_dependencies()
    }

    fn build(&self) -> &'static World {
        let variables = self.program.contents.len();
        let roots: Vec<Frame> = (0..self.program.spaces).map(|_| tables::allocate()).collect();
        for root in &roots {
            for variable in 0..variables {
                tables::map(*root, virtual_address(variable), frame(variable), Access::WRITE);
            }
        }
        let descriptor =
            |root: Frame, variable, level| tables::entry(root, virtual_address(variable), level);
        let descriptors: Vec<Vec<_>> = roots
            .iter()
            .map(|root| {
                let both =
                    |variable| [descriptor(*root, variable, 0), descriptor(*root, variable, 1)];
                (0..variables).map(both).collect()
            })
            .collect();
        let registers = self.program.registers.iter().map(|of| {
            let value = |&(register, value): &(Register, Value)| {
                (usize::from(register.0), self.value(&roots, value))
            };
            of.iter().map(value).collect()
        });
        let values = registers.collect();
        for &(space, variable, level, value) in &self.program.descriptors {
            let word: &Word = descriptors[space][variable][level as usize];
            word.store(self.value(&roots, value), Ordering::Relaxed);
        }
        for (variable, &value) in self.program.contents.iter().enumerate() {
            tables::contents(frame(variable)).store(value, Ordering::Relaxed);
        }
        for (cpu, &(space, tag)) in self.program.roots.iter().enumerate() {
            machine::as_cpu(CpuId(cpu as u32), || {
                let root = self.root(roots[space], tag);
                if self.program.arch == Arch::X86 {
                    // PGE and PCIDE.
                    x86::Insn.write_cr4(1 << 7 | 1 << 17);
                }
                self.write_root(root);
                if self.program.arch == Arch::Arm {
                    arm::Insn.isb();
                }
            });
        }
        let cpus = 0..self.program.code.len();
        leak(World {
            registers: cpus.clone().map(|_| [const { Word::ZERO }; REGISTERS]).collect(),
            faults: cpus.map(|_| [const { Word::ZERO }; 2]).collect(),
            values,
            descriptors,
        })
    }

    fn run(&self, world: &'static World, cpu: CpuId) {
        let cpu = cpu.index();
        let mut registers = [0; REGISTERS];
        for &(register, value) in &world.values[cpu] {
            registers[register] = value;
        }
        for (index, &step) in self.program.code[cpu].iter().enumerate() {
            if self.step(world, &mut registers, step).is_none() {
                let at = match step {
                    Step::Load(_, at) | Step::Store(_, at) => registers[usize::from(at.0)],
                    _ => 0,
                };
                world.faults[cpu][0].set(index as u64 + 1);
                world.faults[cpu][1].set(at);
                let Some(handler) = &self.program.handlers[cpu] else { break };
                // Taking an exception synchronises, and so does returning from it.
                arm::Insn.isb();
                for &step in handler {
                    let _ = self.step(world, &mut registers, step);
                }
            }
        }
        for (word, value) in world.registers[cpu].iter().zip(registers) {
            word.set(value);
        }
    }

    fn finish(&self, world: &'static World) {
        let variables = self.program.contents.len();
        let faults = world.faults.iter().enumerate().filter_map(|(thread, fault)| {
            let instruction = usize::try_from(fault[0].peek()).ok()?.checked_sub(1)?;
            let of = (0..variables).find(|&of| virtual_address(of) == fault[1].peek());
            // Which kind of fault it is the explorer's CPUs do not say.
            let kind = FaultKind::Translation;
            Some(Fault { thread, instruction, address: of.map_or(0, address), kind })
        });
        let found = Final {
            contents: (0..variables).map(|of| tables::contents(frame(of)).peek()).collect(),
            descriptors: world.descriptors[0].iter().map(|words| words[0].peek()).collect(),
            registers: world
                .registers
                .iter()
                .map(|of| core::array::from_fn(|register| of[register].peek()))
                .collect(),
            faults: faults.collect(),
        };
        let mut finals = self.finals.borrow_mut();
        if !finals.contains(&found) {
            finals.push(found);
        }
    }
}

impl Program {
    /// Runs every execution; nothing if that is not finished within a bound. An execution that breaks
    /// break-before-make ends there, and the exploration with it.
    #[must_use]
    pub fn explore(&self, bound: Bound) -> Option<Outcomes> {
        let finals = Rc::default();
        let run = Run { program: self.clone(), finals: Rc::clone(&finals) };
        let budget = bound.left().map_or(Budget::UNLIMITED, Budget::time);
        let report = Explorer::new(run).exhaust(budget);
        let broke = report.failure.is_some();
        let states = usize::try_from(report.states).unwrap_or(usize::MAX);
        let finals = finals.take().into_iter().collect();
        (report.complete || broke).then_some(Outcomes { finals, broke, states })
    }
}
