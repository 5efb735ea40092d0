//! The machine: its state, and how it executes one operation.

use core::panic::Location;
use std::collections::HashMap;

use super::{
    config::{Arch, Config},
    cpu::{Cpu, Handler, Registers, Round},
    footprint::Footprint,
    hash::{mix, mix3},
    memory::Memory,
    op::{Arm, Op},
    oracle::Ghost,
    private::Private,
    replaced::Replaced,
    sharers::Sharers,
    sites::Sites,
    tables::Tables,
    tape::Tape,
    trace::Trace,
    violation::{Rule, Violation},
};
use corosensei::Yielder;

/// What the machine is being used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A scenario builds its world: operations act directly.
    Building,
    /// Programs run: operations are steps.
    Running,
    /// A scenario inspects what an execution has left behind: operations act directly.
    Inspecting,
}

/// What a handler puts back when it ends.
pub(crate) struct Interrupted {
    /// The results that the interrupted program had got.
    history: u64,
    round: Round,
    /// Whether it took interrupts, in its bit.
    open: u64,
}

/// The state of the machine.
pub(crate) struct Machine {
    pub(crate) config: Config,
    pub(crate) phase: Phase,
    /// The CPU whose program runs, or as which construction code runs.
    pub(crate) running: usize,
    pub(crate) cpus: Vec<Cpu>,
    /// What the CPUs were when the world had been built.
    snapshot: Vec<Cpu>,
    pub(crate) memory: Memory,
    pub(crate) tables: Tables,
    pub(crate) ghost: Ghost,
    pub(crate) private: Private,
    pub(crate) sharers: Sharers,
    /// What invalidations may be too early for.
    pub(crate) replaced: Vec<Replaced>,
    pub(crate) violation: Option<Violation>,
    /// What went wrong while the world was built: every execution ends with it.
    broken_at_start: Option<Violation>,
    pub(crate) trace: Option<Trace>,
    pub(crate) tape: Option<Tape>,
    pub(crate) names: HashMap<usize, String>,
    pub(crate) outcome: Option<u64>,
    /// What was seen to happen, in all executions.
    pub(crate) seen: Vec<&'static str>,
    /// Where operations were executed, in all executions.
    pub(crate) sites: Sites,

    // Sets of CPUs, as masks.
    /// Those for which something has changed since they last relaxed.
    pub(crate) changed: u64,
    /// Those that have buffered stores.
    pub(crate) buffered: u64,
    /// Those about to execute something that is neither `Relax` nor `Idle`.
    pub(crate) ready: u64,
    /// Those about to relax.
    pub(crate) relaxing: u64,
    /// Those that an interrupt waits for.
    pub(crate) interrupted: u64,
    /// Those that take interrupts.
    pub(crate) open: u64,
    /// Those that access no user memory: see [`super::oracle::rests`].
    pub(crate) resting: u64,
    /// Those that are down: see [`super::oracle::goes_down`].
    pub(crate) down: u64,
    /// Those whose hardware is off: see [`super::power`].
    pub(crate) stopped: u64,
    /// Those that are on again, and not up: their root is that of boot code.
    pub(crate) booting: u64,
    /// The descriptors whose accessed bit hardware has set without an access: see [`super::updates`].
    pub(crate) spent: u64,

    // Hashes of sets: see `hash`.
    pub(crate) tlb_hash: u64,
    pub(crate) ghost_hash: u64,
    snapshot_tlb_hash: u64,
    pub(crate) steps: u64,
    /// What happened since the last choice.
    pub(crate) footprint: Footprint,
}

impl Machine {
    pub(crate) fn new(config: Config) -> Self {
        config.check();
        let mut cpus: Vec<_> = (0..config.cpus).map(|_| Cpu::new()).collect();
        for cpu in &mut cpus {
            cpu.nmis = config.nmis;
            cpu.registers = Registers::initial(config.arch);
            cpu.rehash();
        }
        Self {
            tables: Tables::new(&config),
            config,
            phase: Phase::Building,
            running: 0,
            cpus,
            snapshot: Vec::new(),
            memory: Memory::default(),
            ghost: Ghost::default(),
            private: Private::new(),
            sharers: Sharers::new(),
            replaced: Vec::new(),
            violation: None,
            broken_at_start: None,
            trace: None,
            tape: None,
            names: HashMap::new(),
            outcome: None,
            seen: Vec::new(),
            sites: Sites::new(),
            changed: 0,
            buffered: 0,
            ready: 0,
            relaxing: 0,
            interrupted: 0,
            open: 0,
            resting: 0,
            down: 0,
            stopped: 0,
            booting: 0,
            spent: 0,
            tlb_hash: 0,
            ghost_hash: 0,
            snapshot_tlb_hash: 0,
            steps: 0,
            footprint: Footprint::NONE,
        }
    }

    /// Makes the present state the one that every execution begins with.
    pub(crate) fn freeze(&mut self) {
        self.forget_changes();
        self.snapshot = core::mem::take(&mut self.cpus);
        self.cpus = self.snapshot.iter().map(|_| Cpu::new()).collect();
        self.snapshot_tlb_hash = self.tlb_hash;
        self.ghost = Ghost::default();
    }

    /// Puts the machine back to how it was frozen.
    pub(crate) fn reset(&mut self) {
        self.rewind_memory();
        self.tables.reset();
        for (cpu, snapshot) in self.cpus.iter_mut().zip(&self.snapshot) {
            cpu.restore(snapshot);
        }
        self.ghost.reset();
        self.private.clear();
        self.replaced.clear();
        self.violation = self.broken_at_start.clone();
        self.outcome = None;
        let all = u64::MAX >> (64 - self.cpus.len());
        self.changed = all;
        self.buffered = 0;
        self.ready = 0;
        self.relaxing = 0;
        self.interrupted = 0;
        self.open = all;
        self.resting = 0;
        self.down = 0;
        self.stopped = 0;
        self.booting = 0;
        self.spent = 0;
        self.tlb_hash = self.snapshot_tlb_hash;
        self.ghost_hash = 0;
        self.steps = 0;
        self.begin_tape();
    }

    /// Records the first thing that goes wrong.
    #[cold]
    pub(crate) fn fail(&mut self, rule: Rule, message: String) {
        if self.phase == Phase::Building {
            let message = format!("while the world was being built: {message}");
            self.broken_at_start.get_or_insert(Violation { rule, message });
        } else {
            self.violation.get_or_insert(Violation { rule, message });
        }
    }

    /// A program says what it is about to do.
    pub(crate) fn announce(
        &mut self,
        cpu: usize,
        op: Op,
        location: &'static Location<'static>,
    ) -> *const Yielder<(), ()> {
        let bit = 1 << cpu;
        self.cpus[cpu].op = op;
        self.cpus[cpu].location = location;
        self.sites.reach(location);
        self.ready &= !bit;
        self.relaxing &= !bit;
        match op {
            Op::Idle => {}
            Op::Relax => {
                // Whether something changed before or after is a part of the state.
                self.footprint.more();
                self.relaxing |= bit;
            }
            _ => self.ready |= bit,
        }
        self.cpus[cpu].yielder
    }

    /// The result of the operation, or what interrupts the program before it.
    pub(crate) fn resumed(&self, cpu: usize) -> Result<u64, Handler> {
        let cpu = &self.cpus[cpu];
        cpu.deliver.map_or(Ok(cpu.result), Err)
    }

    /// A CPU is about to take an interrupt or an NMI.
    pub(crate) fn interrupt(&mut self, cpu: usize, handler: Handler) {
        self.steps += 1;
        match handler {
            Handler::Interrupt => self.interrupted &= !(1 << cpu),
            Handler::Nmi => self.cpus[cpu].nmis -= 1,
        }
        self.cpus[cpu].deliver = Some(handler);
        self.cpus[cpu].early = false;
        if self.trace.is_some() {
            let what = match handler {
                Handler::Interrupt => "takes an interrupt",
                Handler::Nmi => "takes an NMI",
            };
            self.trace_event(cpu, what.to_owned());
        }
    }

    /// Enters a handler, and returns what is to be put back when it ends.
    pub(crate) fn enter_handler(&mut self, cpu: usize, handler: Handler) -> Interrupted {
        let bit = 1 << cpu;
        let history = self.cpus[cpu].history;
        let open = self.open & bit;
        self.open &= !bit;
        self.cpus[cpu].deliver = None;
        self.cpus[cpu].depth += 1;
        self.cpus[cpu].in_nmi = handler == Handler::Nmi;
        self.close_now(cpu);
        self.invalidates_from_now(cpu);
        // Taking an exception synchronises the context.
        if self.config.arch == Arch::Arm {
            self.execute_arm(cpu, Arm::Isb);
        }
        self.cpus[cpu].history = mix(history, 0x1d7 + handler as u64);
        let round = core::mem::take(&mut self.cpus[cpu].round);
        Interrupted { history, round, open }
    }

    pub(crate) fn leave_handler(&mut self, cpu: usize, handler: Handler, before: Interrupted) {
        self.cpus[cpu].depth -= 1;
        self.cpus[cpu].in_nmi = false;
        if self.config.arch == Arch::Arm {
            self.execute_arm(cpu, Arm::Isb);
        }
        self.cpus[cpu].history = before.history;
        self.cpus[cpu].round = before.round;
        self.open |= before.open;
        if self.trace.is_some() {
            let what = match handler {
                Handler::Interrupt => "interrupt ends",
                Handler::Nmi => "NMI ends",
            };
            self.note(cpu, what.to_owned());
        }
    }

    /// Whether a program runs on a CPU with interrupts on.
    pub(crate) fn takes_interrupts(&self, cpu: usize) -> bool {
        self.phase == Phase::Running && self.config.interrupts && self.open & 1 << cpu != 0
    }

    /// Whether an NMI may come to a CPU now.
    pub(crate) fn takes_nmi(&self, cpu: usize) -> bool {
        self.cpus[cpu].nmis > 0 && !self.cpus[cpu].in_nmi && self.stopped & 1 << cpu == 0
    }

    /// Executes the operation that `cpu` has announced.
    pub(crate) fn execute_announced(&mut self, cpu: usize) {
        self.steps += 1;
        let op = self.cpus[cpu].op;
        if self.trace.is_some() {
            self.trace_op(cpu, op);
        }
        let result = self.execute(cpu, op);
        if self.trace.is_some() {
            self.trace_result(op, result);
        }
        if self.tape.is_some() {
            self.note_op(cpu, op, result);
        }
        // A claim tells the program nothing, whether or not it had to wait for its turn.
        if !matches!(op, Op::Claim) {
            self.tell(cpu, result);
        }
        if matches!(op, Op::Relax) {
            self.cpus[cpu].went_around();
        }
    }

    /// Gives a program the result of its operation.
    pub(crate) fn tell(&mut self, cpu: usize, result: u64) {
        let cpu = &mut self.cpus[cpu];
        cpu.result = result;
        cpu.observed(result);
        if let Op::Load(word, _) | Op::Rmw(word, ..) = cpu.op {
            cpu.round.observed = mix(cpu.round.observed, word as u64);
        }
    }

    /// Executes an operation now.
    pub(crate) fn execute(&mut self, cpu: usize, op: Op) -> u64 {
        match op {
            Op::Idle | Op::Claim | Op::Own => 0,
            Op::End => {
                self.drain_all(cpu);
                self.invalidates_from_now(cpu);
                // A CPU that is off takes none.
                self.open |= 1 << cpu & !self.stopped;
                0
            }
            Op::Load(word, order) => {
                self.touch(cpu, word, false);
                let value = self.load(cpu, word, order);
                self.loaded(cpu);
                value
            }
            Op::Store(word, value, order) => {
                self.touch(cpu, word, false);
                if self.phase == Phase::Running {
                    self.store(cpu, word, value, order);
                } else {
                    self.land_direct(word, value);
                }
                0
            }
            Op::Rmw(word, rmw, order) => {
                self.touch(cpu, word, false);
                self.rmw(cpu, word, rmw, order)
            }
            Op::Fence(order) => {
                self.fence(cpu, order);
                0
            }
            Op::Interrupt(mask) => {
                self.drain_all(cpu);
                let mask = mask & !(1 << cpu);
                if !self.config.interrupts && self.phase == Phase::Running {
                    self.fail(Rule::Misuse, "the machine is configured without interrupts".into());
                } else if mask & !(u64::MAX >> (64 - self.cpus.len())) != 0 {
                    self.fail(Rule::Misuse, format!("interrupt of CPUs {mask:#x}: no such CPU"));
                } else {
                    self.interrupted |= mask;
                }
                0
            }
            Op::Relax => {
                self.changed &= !(1 << cpu);
                if self.loads_early() {
                    self.close_looked(cpu);
                }
                0
            }
            Op::IrqOff => {
                self.open &= !(1 << cpu);
                0
            }
            Op::Reset => {
                self.drain_all(cpu);
                self.close_now(cpu);
                self.invalidates_from_now(cpu);
                self.interrupted &= !(1 << cpu);
                0
            }
            Op::PowerOff => {
                self.execute(cpu, Op::Reset);
                self.power_off(cpu);
                0
            }
            Op::Stop(other) => {
                self.stop(other);
                0
            }
            Op::PowerOn(root) => {
                self.execute(cpu, Op::Reset);
                self.power_on(cpu, root);
                0
            }
            // Executions choose: see `execution`. Elsewhere the first will do.
            Op::Access(va) | Op::AccessStore(va, _) => {
                let store = matches!(op, Op::AccessStore(..));
                let choice = self.choose_access(cpu, va, store).first().copied();
                let choice = choice.unwrap_or_default();
                self.finish_access(cpu, op, choice);
                choice.result
            }
            Op::Arm(instruction) => self.execute_arm(cpu, instruction),
            Op::X86(instruction) => self.execute_x86(cpu, instruction),
            Op::Riscv(instruction) => self.execute_riscv(cpu, instruction),
        }
    }

    /// The hash of everything that decides what can happen from here.
    pub(crate) fn hash(&self) -> u64 {
        let masks = mix(mix3(self.changed, self.interrupted, self.resting), self.open);
        let masks = if self.down == 0 {
            masks
        } else {
            mix3(masks, self.down, mix(self.stopped, self.booting))
        };
        let mut hash =
            self.memory.hash ^ self.tlb_hash ^ self.ghost_hash ^ self.replaced_hash() ^ masks;
        let early = self.loads_early();
        for (index, cpu) in self.cpus.iter().enumerate() {
            let window = if early { self.window_hash(index) } else { 0x5eed };
            hash ^= mix3(cpu.hash(), index as u64, window);
        }
        hash
    }
}
