//! One execution: programs as coroutines, and the loop that lets them take steps.
//!
//! The programs never run at the same time. Each runs until it is about to execute an operation,
//! says which, and suspends itself; the loop executes local operations at once, lists what else
//! could happen next, has a [`Chooser`] choose, and does it.

use core::panic::{AssertUnwindSafe, Location};
use std::{collections::BTreeSet, panic};

use corosensei::{Coroutine, Yielder, stack::DefaultStack};
use lookaside::platform::{CpuId, Ordering};

pub(crate) use super::choice::{Choice, Chooser, Point};
use super::{
    callback,
    cpu::Handler,
    current::{self, Current},
    machine::{Machine, Phase},
    op::{Address, Op},
    scenario::{self, Programs, Scenario},
    tape::Tape,
    trace::Trace,
    violation::{Rule, Violation},
    window::Seen,
};

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Abandoned,
    Violated(Violation),
}

type Program = Coroutine<(), (), (), DefaultStack>;

const STACK: usize = 256 * 1024;

/// A scenario, its world and its machine, ready to be executed any number of times.
pub(crate) struct Executor {
    scenario: Box<dyn Programs>,
    /// Behind a pointer, because programs reach it while the executor is being used.
    machine: *mut Machine,
    programs: Vec<Option<Program>>,
    stacks: Vec<DefaultStack>,
    choices: Vec<Choice>,
    /// What a load may return.
    values: Vec<Seen>,
    /// Whether local operations are executed at once. Schedules are only valid if they are.
    pub(crate) reduce: bool,
    /// Steps of all executions.
    pub(crate) steps: u64,
    /// Executions.
    pub(crate) executions: u64,
}

impl Executor {
    pub(crate) fn new(scenario: impl Scenario) -> Self {
        callback::install_panic_hook();
        let machine = Box::into_raw(Box::new(Machine::new(scenario.config())));
        let scenario = {
            let _current = Current::enter(machine);
            scenario::build(scenario)
        };
        Self::of(scenario, machine)
    }

    /// An executor of programs on the machine that their world was built on.
    fn of(scenario: Box<dyn Programs>, machine: *mut Machine) -> Self {
        // SAFETY: the machine was just made, and nothing else refers to it.
        let count = unsafe {
            (*machine).freeze();
            (*machine).cpus.len()
        };
        Self {
            scenario,
            machine,
            programs: (0..count).map(|_| None).collect(),
            stacks: Vec::new(),
            choices: Vec::with_capacity(64),
            values: Vec::with_capacity(16),
            reduce: true,
            steps: 0,
            executions: 0,
        }
    }

    pub(crate) fn scenario(&self) -> &dyn Programs {
        &*self.scenario
    }

    /// Whether NMIs come.
    pub(crate) fn has_nmis(&mut self) -> bool {
        self.machine().config.nmis > 0
    }

    /// Whether hardware writes descriptors by itself.
    pub(crate) fn has_updates(&mut self) -> bool {
        !self.machine().tables.writes.is_empty()
    }

    /// How often it came up that CPUs share a word.
    pub(crate) fn news(&mut self) -> u64 {
        self.machine().sharers.news
    }

    fn machine(&mut self) -> &mut Machine {
        // SAFETY: the executor owns the machine. Programs reach it only while `resume` runs, and
        // no reference from here lives across that.
        unsafe { &mut *self.machine }
    }

    /// The machine as the last execution has left it.
    pub(crate) fn seen_machine(&mut self) -> &Machine {
        self.machine()
    }

    /// What the last execution recorded.
    pub(crate) fn outcome(&mut self) -> Option<u64> {
        self.machine().outcome
    }

    /// What has been seen to happen since this was called last.
    pub(crate) fn take_seen(&mut self) -> Vec<&'static str> {
        core::mem::take(&mut self.machine().seen)
    }

    /// Where operations were executed since this was called last.
    pub(crate) fn take_sites(&mut self) -> BTreeSet<&'static Location<'static>> {
        self.machine().sites.take()
    }

    /// Executes the scenario once, with all that happens written down.
    pub(crate) fn trace(&mut self, chooser: &mut impl Chooser) -> (End, Vec<super::trace::Line>) {
        self.machine().trace = Some(Trace::default());
        let end = self.execute(chooser);
        let trace = self.machine().trace.take();
        (end, trace.map(|trace| trace.lines).unwrap_or_default())
    }

    /// Executes the scenario once, with what it does to page tables kept.
    pub(crate) fn tape(&mut self, chooser: &mut impl Chooser) -> (End, Tape) {
        self.machine().tape = Some(Tape::default());
        let end = self.execute(chooser);
        let tape = self.machine().tape.take();
        (end, tape.unwrap_or_default())
    }

    /// Executes the scenario once.
    pub(crate) fn execute(&mut self, chooser: &mut impl Chooser) -> End {
        let _current = Current::enter(self.machine);
        callback::set_handlers(&raw const *self.scenario);
        self.machine().reset();
        self.machine().phase = Phase::Running;
        for cpu in 0..self.programs.len() {
            self.start(cpu);
            self.resume(cpu);
        }
        let mut last = 0;
        let end = loop {
            if let Some(end) = self.advance(&mut last, chooser) {
                break end;
            }
        };
        self.executions += 1;
        self.steps += self.machine().steps;
        self.abandon();
        let end = if end == End::Done { self.inspect() } else { end };
        callback::clear_handlers();
        self.machine().phase = Phase::Inspecting;
        end
    }

    /// Lets the scenario look at what the execution has left behind.
    fn inspect(&mut self) -> End {
        self.machine().phase = Phase::Inspecting;
        self.machine().running = 0;
        self.scenario.finish();
        match self.machine().violation.take() {
            Some(violation) => End::Violated(violation),
            None => End::Done,
        }
    }

    fn start(&mut self, cpu: usize) {
        let stack = self.stacks.pop().unwrap_or_else(|| {
            DefaultStack::new(STACK).expect("the system has memory for another stack")
        });
        let machine = self.machine;
        let scenario: *const dyn Programs = &raw const *self.scenario;
        let body = move |yielder: &Yielder<(), ()>, ()| {
            // SAFETY: the executor, which owns the machine and the scenario, resumes this
            // coroutine and abandons it before it goes.
            let scenario = unsafe {
                (&mut *machine).cpus[cpu].yielder = yielder;
                &*scenario
            };
            let id = CpuId(cpu as u32);
            let result: Result<core::convert::Infallible, _> =
                panic::catch_unwind(AssertUnwindSafe(|| {
                    scenario.run(id);
                    current::step(Op::End);
                    loop {
                        current::step(Op::Idle);
                    }
                }));
            let Err(cause) = result;
            drop(cause);
            let text = callback::take_panic();
            // SAFETY: as above; no other reference to the machine is in use.
            unsafe { (*machine).fail(Rule::Panic, format!("CPU {cpu}: {text}")) };
        };
        self.programs[cpu] = Some(Coroutine::with_stack(stack, body));
    }

    /// Lets a program run until it is about to execute its next operation.
    fn resume(&mut self, cpu: usize) {
        self.machine().running = cpu;
        if let Some(program) = &mut self.programs[cpu] {
            let _ = program.resume(());
        }
    }

    /// Executes all local operations, then one that is chosen.
    fn advance(&mut self, last: &mut usize, chooser: &mut impl Chooser) -> Option<End> {
        if self.machine().steps > self.machine().config.max_steps {
            let limit = self.machine().config.max_steps;
            let message = format!("no end after {limit} steps");
            return Some(End::Violated(Violation { rule: Rule::TooManySteps, message }));
        }
        if self.reduce {
            self.run_local(*last);
        }
        if let Some(violation) = self.machine().violation.take() {
            return Some(End::Violated(violation));
        }
        let goes_on = self.list_choices(*last);
        let index = match self.choices.len() {
            0 => return Some(self.stuck()),
            1 => 0,
            _ => {
                // SAFETY: as in `machine`; the chooser only reads.
                let machine = unsafe { &*self.machine };
                let point = Point { choices: &self.choices, goes_on, machine };
                match chooser.choose(&point) {
                    None => return Some(End::Abandoned),
                    Some(index) => {
                        self.machine().footprint.clear();
                        index
                    }
                }
            }
        };
        self.note_choice(self.choices[index]);
        match self.choices[index] {
            Choice::Step(cpu) => {
                *last = cpu;
                self.machine().cpus[cpu].early = false;
                let early = self.machine().loads_early();
                let done = match self.machine().cpus[cpu].op {
                    Op::Access(va) | Op::AccessStore(va, _) => self.access(cpu, va, chooser),
                    Op::Load(word, order) if early => self.load(cpu, word, order, chooser),
                    _ => {
                        self.machine().execute_announced(cpu);
                        true
                    }
                };
                if !done {
                    return Some(End::Abandoned);
                }
                if self.machine().violation.is_none() {
                    self.resume(cpu);
                }
            }
            Choice::Interrupt(cpu) => {
                *last = cpu;
                self.machine().interrupt(cpu, Handler::Interrupt);
                self.resume(cpu);
            }
            Choice::Nmi(cpu) => {
                *last = cpu;
                self.machine().interrupt(cpu, Handler::Nmi);
                self.resume(cpu);
            }
            Choice::Drain(cpu, index) => {
                let machine = self.machine();
                machine.steps += 1;
                machine.drain_one(cpu, index);
            }
            Choice::Update(word) => {
                let machine = self.machine();
                machine.steps += 1;
                machine.set_unasked(word);
            }
            Choice::Rest => return Some(self.stuck()),
            Choice::Value(_) => {}
        }
        None
    }

    /// Records which CPU's turn it is, and whether the transition can touch more than words.
    fn note_choice(&mut self, choice: Choice) {
        let machine = self.machine();
        match choice {
            Choice::Step(cpu) if machine.cpus[cpu].op.is_words() && !machine.loads_early() => {
                machine.footprint.goes_on(cpu);
            }
            Choice::Drain(cpu, _) if !machine.loads_early() => machine.footprint.goes_on(cpu),
            _ => machine.footprint.more(),
        }
    }

    /// Executes an access, whose value is a choice of its own.
    fn access(&mut self, cpu: usize, va: u64, chooser: &mut impl Chooser) -> bool {
        let store = matches!(self.machine().cpus[cpu].op, Op::AccessStore(..));
        let values = self.machine().choose_access(cpu, va, store);
        let choices: Vec<_> = (0..values.len()).map(Choice::Value).collect();
        // SAFETY: as in `machine`; the chooser only reads.
        let machine = unsafe { &*self.machine };
        let index = if values.len() > 1 {
            chooser.choose(&Point { choices: &choices, goes_on: false, machine })
        } else {
            Some(0)
        };
        let Some(index) = index else { return false };
        let machine = self.machine();
        machine.steps += 1;
        let op = machine.cpus[cpu].op;
        if machine.trace.is_some() {
            machine.trace_op(cpu, op);
            machine.trace_result(op, values[index].result);
        }
        machine.finish_access(cpu, op, values[index]);
        machine.tell(cpu, values[index].result);
        true
    }

    /// Executes a load that may be satisfied early. Which value it returns is a choice of its own: the
    /// newest, or, as an actor would have to come in between for that, a pre-emption.
    fn load(
        &mut self,
        cpu: usize,
        word: Address,
        order: Ordering,
        chooser: &mut impl Chooser,
    ) -> bool {
        let mut values = core::mem::take(&mut self.values);
        let machine = self.machine();
        machine.touch(cpu, word, false);
        machine.drain_for_load(cpu, order);
        machine.visible(cpu, word, order, &mut values);
        let index = if values.len() > 1 {
            let choices: Vec<_> = (0..values.len()).map(Choice::Value).collect();
            // SAFETY: as in `machine`; the chooser only reads.
            let machine = unsafe { &*self.machine };
            chooser.choose(&Point { choices: &choices, goes_on: true, machine })
        } else {
            Some(0)
        };
        let chosen = index.map(|index| (values[index], index > 0));
        self.values = values;
        let Some((seen, old)) = chosen else { return false };
        let machine = self.machine();
        machine.steps += 1;
        if machine.trace.is_some() {
            let op = machine.cpus[cpu].op;
            machine.trace_op(cpu, op);
            machine.trace_result(op, seen.value);
            if old {
                machine.note(cpu, "the load was early".to_owned());
            }
        }
        machine.satisfy(cpu, word, order, seen, old);
        if !old {
            machine.loaded(cpu);
        }
        machine.tell(cpu, seen.value);
        true
    }

    fn run_local(&mut self, first: usize) {
        let count = self.programs.len();
        let mut cpu = first;
        let mut idle = 0;
        // Until no CPU has a local operation: executing one can make another one local.
        while idle < count {
            if self.machine().is_local(cpu) {
                idle = 0;
                while self.machine().is_local(cpu) {
                    self.note_local(cpu);
                    self.machine().execute_announced(cpu);
                    self.machine().cpus[cpu].early = true;
                    if self.machine().violation.is_some() {
                        return;
                    }
                    self.resume(cpu);
                    if self.machine().violation.is_some()
                        || self.machine().steps > self.machine().config.max_steps
                    {
                        return;
                    }
                }
            }
            idle += 1;
            cpu = if cpu + 1 == count { 0 } else { cpu + 1 };
        }
    }

    /// Notes a local operation. Unless it waits, it commutes with every transition of other CPUs.
    fn note_local(&mut self, cpu: usize) {
        let machine = self.machine();
        machine.footprint.goes_on(cpu);
        if matches!(machine.cpus[cpu].op, Op::Relax) {
            machine.footprint.more();
        }
    }

    /// Lists what can happen; the CPU that executed the last step comes first if it can go on.
    fn list_choices(&mut self, last: usize) -> bool {
        let mut choices = core::mem::take(&mut self.choices);
        choices.clear();
        let machine = self.machine();
        let ready = machine.ready | machine.relaxing & machine.changed;
        let goes_on = ready & 1 << last != 0;
        if goes_on {
            choices.push(Choice::Step(last));
        }
        for cpu in bits(ready & !(1 << last)) {
            choices.push(Choice::Step(cpu));
        }
        for cpu in bits(machine.interrupted & machine.open) {
            choices.push(Choice::Interrupt(cpu));
        }
        for cpu in bits(machine.buffered) {
            machine.drainable(cpu, |index| choices.push(Choice::Drain(cpu, index)));
        }
        // What hardware may do it need not do: nobody can rely on it to go on.
        let before = choices.len();
        if machine.config.nmis > 0 {
            let cpus = 0..machine.cpus.len();
            choices.extend(cpus.filter(|&cpu| machine.takes_nmi(cpu)).map(Choice::Nmi));
        }
        if !machine.tables.writes.is_empty() {
            machine.settable(|word| choices.push(Choice::Update(word)));
        }
        if before == 0 && !choices.is_empty() {
            choices.insert(0, Choice::Rest);
        }
        self.choices = choices;
        goes_on
    }

    /// Nothing can happen: the end, if all programs have ended.
    fn stuck(&mut self) -> End {
        match self.machine().who_waits() {
            None => End::Done,
            Some(message) => End::Violated(Violation { rule: Rule::NoProgress, message }),
        }
    }

    /// Takes the stacks back from programs, wherever they are.
    fn abandon(&mut self) {
        for program in &mut self.programs {
            if let Some(mut program) = program.take() {
                if !program.done() {
                    // SAFETY: the contract of `Scenario`: no value on the stack needs to be
                    // dropped. Nothing refers to the stack, as the machine forgets the yielder
                    // when it is reset.
                    unsafe { program.force_reset() };
                }
                self.stacks.push(program.into_stack());
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.abandon();
        // SAFETY: it came from `Box::into_raw`, and all programs that could reach it are gone.
        drop(unsafe { Box::from_raw(self.machine) });
    }
}

fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let next = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (next < 64).then_some(next as usize)
    })
}
