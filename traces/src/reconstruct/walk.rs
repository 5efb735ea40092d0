//! The walk through the events, from the first to the last: who runs where, and in which space.

mod freeing;
mod resolve;

use std::collections::{BTreeMap, HashMap};

use crate::{
    CLONE_THREAD, CLONE_VM, Call, Event, Kind, NameId, Pages, Reason, Trace, fault,
    reconstruct::{
        Flushes, Initiator, Operation, Unknown,
        ahead::Ahead,
        frames::Budget,
        linux::{self, Gathers, Written},
        memory::Memory,
        number::{ALL, Pieces, Raw, RawAct},
        tasks::{Open, State, Tasks},
    },
};

/// The page below the highest address of a program, where the kernel builds the stack of a new one.
const STACK: u64 = 0x7_ffff_fffe;
/// Names of threads of the kernel begin with one of these.
const KERNEL: [&str; 18] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "rcu_",
    "rcub/",
    "rcuc/",
    "rcuog/",
    "rcuop/",
    "rcuos/",
    "cpuhp/",
    "kswapd",
    "kcompactd",
    "khugepaged",
    "kthreadd",
    "jbd2/",
    "irq/",
    "watchdogd",
    "oom_reaper",
];

/// A CPU.
#[derive(Debug, Default)]
struct Cpu {
    steps: Vec<Raw>,
    /// The thread that runs, once known.
    running: Option<u32>,
}

/// Where the walk is.
#[derive(Debug)]
pub(super) struct Walk<'t> {
    trace: &'t Trace,
    source: Flushes,
    ahead: &'t Ahead,
    /// The place of the event at which the walk is.
    place: usize,
    start: u64,
    budget: Budget,
    cpus: Vec<Cpu>,
    tasks: Tasks,
    pieces: Pieces,
    initiators: Initiators,
    unknown: Unknown,
    expected: BTreeMap<Pages, u64>,
}

/// What the walk found.
pub(super) struct Found {
    pub(super) steps: Vec<Vec<Raw>>,
    pub(super) spaces: Vec<State>,
    pub(super) initiators: Vec<Initiator>,
    pub(super) pieces: Pieces,
    pub(super) unknown: Unknown,
    pub(super) expected: BTreeMap<Pages, u64>,
}

/// Who does things: a process, its operation, whether it was recorded, and the function that called.
type Who = (Option<NameId>, Operation, bool, Option<NameId>);

/// Who does things, each once.
#[derive(Debug, Default)]
struct Initiators {
    numbers: HashMap<Who, u32>,
    order: Vec<Who>,
}

impl Initiators {
    fn number(&mut self, who: Who) -> u32 {
        *self.numbers.entry(who).or_insert_with(|| {
            self.order.push(who);
            (self.order.len() - 1) as u32
        })
    }
}

/// The name, or a word for it.
pub(super) fn name(trace: &Trace, name: Option<NameId>) -> String {
    let known = name.and_then(|name| trace.names.get(name.0 as usize));
    known.cloned().unwrap_or_else(|| "unknown".into())
}

impl<'t> Walk<'t> {
    /// Before the first event.
    pub(super) fn new(trace: &'t Trace, source: Flushes, ahead: &'t Ahead) -> Self {
        let cpus = trace.events.iter().map(|event| usize::from(event.cpu) + 1).max().unwrap_or(0);
        let cpus = cpus.max((trace.origin.cpus as usize).min(1 << 16));
        Self {
            trace,
            source,
            ahead,
            place: 0,
            start: trace.events.first().map_or(0, |event| event.time),
            budget: Budget::new(trace.events.len()),
            cpus: core::iter::repeat_with(Cpu::default).take(cpus).collect(),
            tasks: Tasks::first(trace),
            pieces: Pieces::default(),
            initiators: Initiators::default(),
            unknown: Unknown::default(),
            expected: BTreeMap::new(),
        }
    }

    /// Goes through all events.
    pub(super) fn all(mut self) -> Found {
        for (place, event) in self.trace.events.iter().enumerate() {
            self.place = place;
            if let Some(&(task, old)) = self.ahead.executes.get(&place) {
                self.turn(event, task, old);
            }
            self.event(place, event);
            for end in self.ahead.ends.get(&place).into_iter().flatten() {
                self.returned(&Event { task: end.task, ..*event }, end.call, 0, Some(end.flushed));
            }
        }
        let order = self.initiators.order.into_iter();
        Found {
            steps: self.cpus.into_iter().map(|cpu| in_order(cpu.steps)).collect(),
            spaces: self.tasks.spaces,
            initiators: order
                .map(|(who, operation, recorded, function)| Initiator {
                    process: name(self.trace, who),
                    operation,
                    function: function.map(|_| name(self.trace, function)),
                    recorded,
                })
                .collect(),
            pieces: self.pieces,
            unknown: self.unknown,
            expected: self.expected,
        }
    }

    fn event(&mut self, place: usize, event: &Event) {
        if shows_its_thread(&event.kind) {
            self.present(event);
        }
        if let Kind::Flush { .. } | Kind::Unmapped { .. } = event.kind {
            self.freed(event);
        }
        match event.kind {
            Kind::Switch { next, name, runnable } => {
                let counted = self.ahead.is_ours(next, place);
                self.switch(event, next, name, runnable, counted);
            }
            Kind::Create { task, name, flags } => self.create(event, task, name, flags),
            Kind::Execute { task, .. } => {
                self.free(event, task);
                if let Some(task) = self.tasks.tasks.get_mut(&task) {
                    (task.executing, task.told, task.fault) = (false, false, None);
                }
            }
            Kind::Exit => self.exit(event, event.task),
            Kind::Rename { task, name } => {
                if let Some(known) = self.tasks.tasks.get(&task) {
                    let process = &mut self.tasks.processes[known.process];
                    if process.leader == task {
                        process.name = name;
                        if let Some(space) = known.space {
                            self.tasks.spaces[space as usize].name = Some(name);
                        }
                    }
                }
            }
            Kind::Flush {
                reason: reason @ (Reason::LocalSpace | Reason::Local | Reason::Send),
                pages,
            } => {
                let told = reason == Reason::Send;
                if self.page_out(place, event, reason, pages) {
                    return;
                }
                match self.source {
                    Flushes::Recorded => self.recorded(place, event, pages, told),
                    Flushes::FromCalls => self.flushes_now(event, told),
                }
            }
            Kind::Caller { function } => {
                if let Some(task) = self.tasks.tasks.get_mut(&event.task) {
                    (task.caller, task.called) = (Some(function), true);
                }
            }
            Kind::Call { call, arguments } => {
                self.forget_call(event.task);
                self.called(event.task);
                let space = self.tasks.tasks.get(&event.task).and_then(|task| task.space);
                let written = match space {
                    Some(space) if Call::WRITE_BACK.contains(&call) => {
                        self.tasks.write_back(space, event.cpu, call, &arguments)
                    }
                    _ => Written::default(),
                };
                let Some(task) = self.tasks.tasks.get_mut(&event.task) else { return };
                (task.fault, task.told) = (None, false);
                task.call = Some(Open {
                    call,
                    arguments,
                    written,
                    flushes: Vec::new(),
                    times: Vec::new(),
                    crowded: false,
                    waits: false,
                    began: (event.cpu, event.time),
                    slept: false,
                    stopped: None,
                });
                if let Some(space) = task.space {
                    let how = linux::gathers(call, &arguments);
                    self.tasks.spaces[space as usize].gather(how, true);
                }
            }
            Kind::Return { call, value } => self.returned(event, call, value, None),
            Kind::Fault { address, code } if address < fault::KERNEL => {
                self.called(event.task);
                self.fault(event, address / 4096, code);
            }
            Kind::Lost { .. } => {
                self.unknown.gaps += 1;
                // Calls may have returned unseen, and others begun.
                let tasks: Vec<u32> = self.tasks.tasks.keys().copied().collect();
                for task in tasks {
                    self.forget_call(task);
                }
            }
            _ => {}
        }
    }

    /// A thread does something: by the function that was told just before, else by one that nobody knows.
    fn called(&mut self, task: u32) {
        if let Some(task) = self.tasks.tasks.get_mut(&task)
            && !core::mem::take(&mut task.called)
        {
            task.caller = None;
        }
    }

    /// The thread of an event runs on its CPU. If another was believed to, a switch is missing.
    fn present(&mut self, event: &Event) {
        match self.cpus[usize::from(event.cpu)].running {
            Some(running) if running == event.task => {}
            Some(_) => {
                self.unknown.switches += 1;
                self.turn_to(event, event.task, None, false);
            }
            None => self.run(event, event.task, None, true),
        }
    }

    /// A CPU turns from the thread of an event to another. Whether the kernel's counts cover it is `counted`.
    fn switch(&mut self, event: &Event, next: u32, name: NameId, runnable: bool, counted: bool) {
        // Who sleeps in a call that works alone waits for its turn, and does not gather yet.
        self.wait(event.task, !runnable);
        if let Some(open) =
            self.tasks.tasks.get_mut(&event.task).and_then(|task| task.call.as_mut())
        {
            open.slept = !runnable;
            open.stopped = open.stopped.or(Some(event.time));
        }
        self.turn_to(event, next, Some(name), counted);
    }

    /// A CPU turns to a thread, which goes on with the call that it was in.
    fn turn_to(&mut self, event: &Event, next: u32, name: Option<NameId>, counted: bool) {
        self.run(event, next, name, counted);
        self.wait(next, false);
        if let Some(open) = self.tasks.tasks.get_mut(&next).and_then(|task| task.call.as_mut())
            && open.slept
        {
            (open.began, open.slept, open.stopped) = ((event.cpu, event.time), false, None);
        }
    }

    /// A thread in a call waits for others to end theirs, or does not any more.
    fn wait(&mut self, task: u32, waits: bool) {
        let Some(task) = self.tasks.tasks.get_mut(&task) else { return };
        let (Some(space), Some(open)) = (task.space, &mut task.call) else { return };
        let how = linux::gathers(open.call, &open.arguments);
        if how == Gathers::Alone && open.waits != waits {
            open.waits = waits;
            self.tasks.spaces[space as usize].gather(how, !waits);
        }
    }

    fn run(&mut self, event: &Event, task: u32, name: Option<NameId>, counted: bool) {
        self.introduce(task, name);
        self.cpus[usize::from(event.cpu)].running = Some(task);
        let act = match self.tasks.tasks.get(&task).and_then(|task| task.space) {
            Some(space) => RawAct::Run(space),
            None => RawAct::Idle,
        };
        self.count_step(event, task, Operation::Switch, act, counted);
    }

    /// A thread that nobody introduced is introduced.
    fn introduce(&mut self, task: u32, name: Option<NameId>) {
        if task == 0 || self.tasks.tasks.contains_key(&task) {
            return;
        }
        self.unknown.tasks += 1;
        let text = name.and_then(|name| self.trace.names.get(name.0 as usize));
        let kernel = text.is_some_and(|text| KERNEL.iter().any(|prefix| text.starts_with(prefix)));
        let program = !kernel || self.ahead.programs.contains(&task);
        self.tasks.stranger(task, name.unwrap_or(NameId(u32::MAX)), program);
    }

    fn create(&mut self, event: &Event, child: u32, name: NameId, flags: u64) {
        if child == 0 {
            return;
        }
        if self.tasks.tasks.contains_key(&child) {
            // Its end was not seen, or that it has freed its pages, and its number is given away again.
            self.exit(event, child);
            self.free(event, child);
        }
        let Some(parent) = self.tasks.tasks.get_mut(&event.task) else {
            self.introduce(child, Some(name));
            return;
        };
        (parent.fault, parent.told) = (None, false);
        let (process, space) = (parent.process, parent.space);
        let process = if flags & CLONE_THREAD != 0 {
            process
        } else {
            let name = self.tasks.processes[process].name;
            self.tasks.processes.push(crate::reconstruct::tasks::Process { name, leader: child });
            self.tasks.processes.len() - 1
        };
        let Some(parent) = space.filter(|_| flags & CLONE_VM == 0) else {
            self.tasks.add(child, process, space);
            return;
        };
        if !self.ahead.is_ours(event.task, self.place) {
            // Its flushes were not recorded, that of the fork included: what it shares with the child
            // is of no use.
            let space = self.tasks.family_and_space(name, Memory::default());
            self.tasks.add(child, process, Some(space));
            return;
        }
        let Tasks { spaces, frames, .. } = &mut self.tasks;
        let state = &mut spaces[parent as usize];
        let (family, who) = (state.family, state.name);
        let memory = state.memory.fork(frames, &mut self.budget).unwrap_or_else(|| {
            self.unknown.mappings += 1;
            Memory::default()
        });
        let space = self.tasks.space(who.unwrap_or(name), family, memory);
        self.tasks.add(child, process, Some(space));
        self.step(event, event.task, Operation::Fork, RawAct::Fork { parent, child: space });
        if self.source == Flushes::FromCalls {
            self.expect(Pages::Everything);
        }
    }

    /// A thread turns to the space of another program.
    fn turn(&mut self, event: &Event, id: u32, old: u32) {
        if id != old
            && let Some(task) = self.tasks.tasks.remove(&old)
        {
            // It takes the number of its process's first thread, which has ended.
            if self.tasks.tasks.contains_key(&id) {
                self.exit(event, id);
            }
            self.tasks.tasks.insert(id, task);
        }
        self.introduce(id, None);
        self.forget_call(id);
        let Some(task) = self.tasks.tasks.get_mut(&id) else { return };
        let before = task.space.take();
        let process = task.process;
        (task.executing, task.ending, task.fault, task.told) = (true, false, None, false);
        let who = self.tasks.processes[process].name;
        let space = self.tasks.family_and_space(who, Memory::fresh());
        self.tasks.enter(Some(space));
        if let Some(task) = self.tasks.tasks.get_mut(&id) {
            task.space = Some(space);
        }
        if let Some(cpu) = self.cpus.get_mut(usize::from(event.cpu)) {
            cpu.running = Some(id);
        }
        self.step(event, id, Operation::Execute, RawAct::Run(space));
        let recorded = self.ahead.is_ours(id, self.place);
        // Of a command its own programs are recorded, and not what its process was before it executed the first.
        let had = self.ahead.was_ours(old, self.place);
        if let Some(before) = before {
            self.stop_writing_back(event, before);
            let flushes = self.flushes_before_end(before);
            if self.tasks.leave(Some(before)) {
                match recorded && had {
                    true => self.frees(event, id, before, flushes),
                    false => self.tasks.free(before),
                }
            }
        }
        if self.source == Flushes::FromCalls && recorded {
            // The stack is built at the top, and moved to where it is to be. Then the tables between
            // go.
            let act =
                RawAct::Unmap { space, first: STACK, last: STACK, tables: false, whole: false };
            self.step(event, id, Operation::Execute, act);
            let act = RawAct::Unmap { space, first: STACK, last: STACK, tables: true, whole: true };
            self.step(event, id, Operation::Execute, act);
            self.expect(Pages::Some(1));
            self.expect(Pages::Everything);
        }
    }

    /// A thread is not in a call any more.
    fn forget_call(&mut self, id: u32) -> Option<Open> {
        let task = self.tasks.tasks.get_mut(&id)?;
        let open = task.call.take()?;
        if let Some(space) = task.space.filter(|_| !open.waits) {
            let how = linux::gathers(open.call, &open.arguments);
            self.tasks.spaces[space as usize].gather(how, false);
        }
        Some(open)
    }

    fn expect(&mut self, pages: Pages) {
        *self.expected.entry(pages).or_default() += 1;
    }

    fn step(&mut self, event: &Event, task: u32, operation: Operation, act: RawAct) {
        self.count_step(event, task, operation, act, true);
    }

    fn count_step(
        &mut self,
        event: &Event,
        task: u32,
        operation: Operation,
        act: RawAct,
        counted: bool,
    ) {
        let recorded = self.ahead.is_ours(task, self.place);
        if let (true, RawAct::Run(space) | RawAct::Fork { child: space, .. }) = (recorded, act) {
            self.tasks.spaces[space as usize].recorded = true;
        }
        let by_function =
            matches!(operation, Operation::Call(_) | Operation::Fault | Operation::Other);
        let function = self.tasks.tasks.get(&task).and_then(|task| task.caller);
        let who = (self.tasks.name(task), operation, recorded, function.filter(|_| by_function));
        let initiator = self.initiators.number(who);
        self.note(act);
        self.hold(event.cpu, act);
        let time = event.time.saturating_sub(self.start);
        self.cpus[usize::from(event.cpu)].steps.push(Raw { time, task, initiator, counted, act });
    }

    /// Which CPUs may hold translations of a space: those that run it join, and the others leave when page tables are freed.
    fn hold(&mut self, cpu: u16, act: RawAct) {
        match act {
            RawAct::Run(space) => _ = self.tasks.spaces[space as usize].cpus.insert(cpu),
            RawAct::Unmap { space, tables: true, .. } => {
                let Tasks { tasks, spaces, .. } = &mut self.tasks;
                let runs = |cpu: &u16| {
                    let task = self.cpus[usize::from(*cpu)].running;
                    let task = task.and_then(|task| tasks.get(&task));
                    task.is_some_and(|task| task.space == Some(space))
                };
                spaces[space as usize].cpus.retain(runs);
            }
            _ => {}
        }
    }

    /// The pages of an act get numbers.
    fn note(&mut self, act: RawAct) {
        let (space, first, last) = match act {
            RawAct::Map { space, first, last }
            | RawAct::Restrict { space, first, last, .. }
            | RawAct::Unmap { space, first, last, .. } => (space, first, last),
            RawAct::PageOut { space, page } => (space, page, page),
            _ => return,
        };
        if last != ALL {
            let family = self.tasks.spaces[space as usize].family;
            self.pieces.add(family, first);
            self.pieces.add(family, last);
        }
    }
}

/// Whether an event of this kind is one of the thread that its CPU runs. Not so what a switch says of the TLB,
/// which comes after the switch under the name of the thread that was left; and around the execution of a
/// program threads have numbers that they did not have before.
const fn shows_its_thread(kind: &Kind) -> bool {
    match kind {
        Kind::Switch { .. }
        | Kind::Create { .. }
        | Kind::Exit
        | Kind::Call { .. }
        | Kind::Return { .. }
        | Kind::Fault { .. }
        | Kind::Ask { .. }
        | Kind::Serve { .. } => true,
        Kind::Flush { reason, .. } => !matches!(reason, Reason::Switch),
        _ => false,
    }
}

/// Steps by time: flushes are known only when their call returns, which is later.
fn in_order(mut steps: Vec<Raw>) -> Vec<Raw> {
    steps.sort_by_key(|step| step.time);
    steps
}
