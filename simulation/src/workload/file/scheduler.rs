//! The CPUs of a workload file: each has a queue of threads that are ready.

use core::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::{self, Arena, Distance, Price, Ps, Word, tables};

use super::{
    Count, Failed, List, Spinning, Workload,
    expression::Values,
    gate::{self, Gate},
    memory::KERNEL_PAGES,
    price_of,
    sharing::Sharing,
    statement::Act,
    thread::{Next, Thread},
    units::{Mapping, Memory},
};
use crate::{
    data::{Machine, Ranges},
    kernel::{Kernel, Process},
    line::Line,
    strategy::{
        SpaceId,
        blocks::{PageTables, Way},
    },
    workload::stage::{NS, START, US},
};

/// The place of a thread, which is not there while a CPU runs it and when it is over.
struct Place {
    thread: Option<Box<Thread>>,
    group: usize,
    /// Its CPU.
    home: usize,
    has_run: bool,
}

/// What it takes to interrupt a CPU that sleeps. Its way out of the halt is the path `halt`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    send: Ps,
    /// Until the handler is over on the CPU that slept, within a socket and between two.
    near: Ps,
    far: Ps,
}

impl Wake {
    pub(super) fn new(machine: &Machine, ranges: &Ranges) -> Self {
        let price = |price| price_of(machine, ranges, price);
        let handler = price(Price::InterruptEntry) + price(Price::InterruptExit);
        Self {
            send: price(Price::InterruptSend),
            near: handler + price(Price::InterruptDeliver),
            far: handler + price(Price::InterruptDeliverRemote),
        }
    }
}

/// Everything that threads share.
pub(super) struct State<'a> {
    pub(super) workload: &'a Workload,
    numbers: Vec<f64>,
    cpus: usize,
    /// What each way into the kernel takes besides with tables of its own.
    pub(super) isolated: Ps,
    /// Those of the file, and after them children that run beside their parents.
    threads: RefCell<Vec<Place>>,
    queues: Vec<List<usize>>,
    /// The process of each space that threads share, if any are there.
    pub(super) shared: Vec<Option<Process>>,
    /// The processes of each space of which every thread has one, in the order of the threads.
    pub(super) own: Vec<Vec<Process>>,
    /// Threads that sleep on each CPU, with when they wake.
    pub(super) sleepers: Vec<RefCell<Vec<(Ps, usize)>>>,
    /// What an idle CPU reads: it is written when a thread is made ready there.
    bells: &'a [Line],
    /// What it takes to wake a CPU that sleeps, if they do.
    wake: Option<Wake>,
    /// The CPUs that sleep.
    asleep: Vec<Cell<bool>>,
    /// What an interrupt takes that is under way to a CPU that slept.
    called: Vec<Cell<Ps>>,
    /// How many CPUs that slept were interrupted.
    pub(super) woken: Count,
    /// One gate, or one for each number that a thread of a group can have.
    pub(super) semaphores: Vec<Vec<Gate<'a>>>,
    pub(super) locks: Vec<Gate<'a>>,
    /// Words that all share.
    pub(super) words: &'a [Line],
    /// Threads that wait at the barrier, and how many meet there.
    pub(super) barrier: Gate<'a>,
    pub(super) meet: Count,
    /// How often each counter was passed, and how often and how long each timer ran: in all, and since [`Self::since`].
    pub(super) counters: [Vec<Count>; 2],
    pub(super) timers: [Vec<(Count, Cell<Ps>)>; 2],
    pub(super) sharing: RefCell<Sharing>,
    /// The processes whose memory comes in more than pages of 4 KiB.
    pub(super) memory: RefCell<BTreeMap<SpaceId, Memory>>,
    /// How blocks of contiguous entries are changed, if the strategy says, and a page of tables for each CPU then.
    pub(super) way: Option<Way>,
    pub(super) tables: Vec<PageTables<'a>>,
    /// Threads that have an end and have not come to it.
    bounded: Count,
    /// Threads that do not wait for others.
    pub(super) active: Count,
    over: Cell<bool>,
    /// What went wrong, with the line.
    pub(super) error: Failed,
    end: Option<Ps>,
    /// Where threads spin.
    pub(super) spinning: Spinning,
    /// When the last thread that has an end came to it.
    pub(super) last: Cell<Ps>,
}

impl<'a> State<'a> {
    #[expect(clippy::too_many_arguments, reason = "each is something else of one run")]
    pub(super) fn new(
        workload: &'a Workload,
        kernel: &Kernel<'a>,
        arena: &'a Arena,
        plan: Vec<[usize; 3]>,
        numbers: &[f64],
        cpus: usize,
        isolated: Ps,
        wake: Option<Wake>,
        end: Option<Ps>,
        way: Option<Way>,
    ) -> Self {
        let bells = arena.fill(cpus, |_| Line(Word::ZERO));
        timed::name(bells, "queues of threads");
        let program = &workload.program;
        let mut statements = workload.groups.iter().flat_map(|group| &group.statements);
        if statements.any(|one| matches!(one.act, Act::FlushKernel(_))) {
            tables::create_kernel(KERNEL_PAGES);
        }
        let words = arena.fill(program.words.len(), |_| Line(Word::ZERO));
        timed::name(words, "words");
        let locks = program.locks.iter().map(|_| Gate::new(arena, "locks", gate::WHOLE)).collect();
        let mut shared: Vec<Option<Process>> = vec![None; workload.spaces.len()];
        let mut own: Vec<Vec<Process>> = vec![Vec::new(); workload.spaces.len()];
        let counts: Vec<usize> = (0..workload.groups.len())
            .map(|which| plan.iter().filter(|one| one[0] == which).count())
            .collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        let semaphores = program.semaphores.iter().map(|one| {
            let gates = if one.each { most } else { 1 };
            (0..gates).map(|_| Gate::new(arena, "semaphores", one.first)).collect()
        });
        let semaphores = semaphores.collect();
        let sharing = RefCell::new(Sharing::default());
        let memory = RefCell::new(BTreeMap::new());
        let tables = way.map_or(0, |_| cpus);
        let tables = (0..tables).map(|_| PageTables::one(arena)).collect();
        let spawn = |space: usize, threads: usize, me: usize| {
            let space = &workload.spaces[space];
            let values = Values { parameters: numbers, cpus, threads, me, loops: [0, 0] };
            let pages = space.pages.value(values).clamp(1.0, 1e9) as u64;
            let mapped = space.mapped.value(values).max(0.0) as u64;
            let process = kernel.spawn(pages, mapped.min(pages));
            if space.private {
                sharing.borrow_mut().map_file(process.id);
            }
            let blocks = way.is_some_and(Way::has_blocks);
            let mapping = space.unit.as_ref().and_then(|unit| Mapping::new(unit, values, blocks));
            if let Some(mapping) = mapping {
                let new = mapping.begin(&process, mapped.min(pages));
                memory.borrow_mut().insert(process.id, new);
            }
            process
        };
        let mut threads = Vec::new();
        let queues: Vec<List<usize>> = (0..cpus).map(|_| List::default()).collect();
        let mut bounded = 0;
        let mut meet = 0;
        for (id, &[which, me, cpu]) in plan.iter().enumerate() {
            let group = &workload.groups[which];
            let process = match workload.spaces[group.space].each {
                true => {
                    let process = spawn(group.space, counts[which], me);
                    own[group.space].push(process);
                    process
                }
                false => *shared[group.space]
                    .get_or_insert_with(|| spawn(group.space, counts[which], me)),
            };
            bounded += u64::from(group.is_bounded);
            meet += u64::from(group.has_barrier);
            let thread = Thread::new(id, which, [me, counts[which]], process);
            let thread = Some(Box::new(thread));
            threads.push(Place { thread, group: which, home: cpu, has_run: false });
            queues[cpu].borrow_mut().push_back(id);
        }
        Self {
            workload,
            numbers: numbers.to_vec(),
            cpus,
            isolated,
            active: Cell::new(threads.len() as u64),
            threads: RefCell::new(threads),
            queues,
            shared,
            own,
            sleepers: (0..cpus).map(|_| RefCell::default()).collect(),
            bells,
            wake,
            asleep: (0..cpus).map(|_| Cell::new(false)).collect(),
            called: (0..cpus).map(|_| Cell::new(0)).collect(),
            woken: Cell::new(0),
            semaphores,
            locks,
            barrier: Gate::new(arena, "barrier", 0),
            meet: Cell::new(meet),
            counters: [(); 2].map(|()| workload.counters.iter().map(|_| Cell::new(0)).collect()),
            timers: [(); 2]
                .map(|()| workload.timers.iter().map(|_| (Cell::new(0), Cell::new(0))).collect()),
            sharing,
            memory,
            way,
            tables,
            words,
            bounded: Cell::new(bounded),
            over: Cell::new(false),
            error: Failed::default(),
            end,
            spinning: Spinning::default(),
            last: Cell::new(0),
        }
    }

    /// How many threads a group has, and how many of them have run.
    pub(super) fn have_run(&self, group: usize) -> [usize; 2] {
        let threads = self.threads.borrow();
        let of = || threads.iter().filter(|place| place.group == group);
        [of().count(), of().filter(|place| place.has_run).count()]
    }

    /// Takes a thread out of its place, unless it is over.
    fn take(&self, thread: usize) -> Option<Box<Thread>> {
        self.threads.borrow_mut()[thread].thread.take()
    }

    fn put_back(&self, id: usize, thread: Box<Thread>) {
        self.threads.borrow_mut()[id].thread = Some(thread);
    }

    /// Adds a thread that another one has made, which is not ready yet.
    pub(super) fn add(&self, thread: impl FnOnce(usize) -> Thread, cpu: usize) -> usize {
        let mut threads = self.threads.borrow_mut();
        let id = threads.len();
        let thread = thread(id);
        let group = thread.group;
        threads.push(Place { thread: Some(Box::new(thread)), group, home: cpu, has_run: false });
        self.active.set(self.active.get() + 1);
        let is_bounded = self.workload.groups[group].is_bounded;
        self.bounded.set(self.bounded.get() + u64::from(is_bounded));
        id
    }

    /// Moves a thread to another CPU, and says whether it is another one.
    pub(super) fn move_to(&self, thread: usize, cpu: usize) -> bool {
        core::mem::replace(&mut self.threads.borrow_mut()[thread].home, cpu) != cpu
    }

    /// How many CPUs there are.
    pub(super) const fn cpus(&self) -> usize {
        self.cpus
    }

    /// When counting begins.
    fn since(&self) -> Ps {
        START + self.end.map_or(0, |end| (end - START) / 10)
    }

    /// Whether the threads that have an end came to it before the time was up: all ended with them.
    pub(super) fn has_ended_early(&self) -> bool {
        let last = self.last.get();
        self.bounded.get() == 0 && last > 0 && self.end.is_some_and(|end| last < end)
    }

    /// When what is shown was counted. A run that ended before its time is counted from its beginning, as one without a
    /// time is: the tenth that is left out may be more than it lasted.
    pub(super) fn counted(&self) -> [Ps; 2] {
        match self.has_ended_early() {
            true => [START, self.last.get()],
            false => [self.since(), self.end.unwrap_or(self.last.get())],
        }
    }

    /// Which of the counts are shown.
    pub(super) fn shown(&self) -> usize {
        usize::from(!self.has_ended_early())
    }

    /// In which of the counts is what happens now.
    pub(super) fn counts(&self) -> impl Iterator<Item = usize> + use<> {
        let now = timed::now();
        let is_in = !self.over.get() && self.end.is_none_or(|end| now < end);
        let is_late = now >= self.since();
        (0..2).filter(move |&which| is_in && (which == 0 || is_late))
    }

    /// Whether loops without end are to end.
    pub(super) fn is_over(&self) -> bool {
        self.over.get() || self.end.is_some_and(|end| timed::now() >= end)
    }

    /// Whether everything is to stop.
    pub(super) fn has_failed(&self) -> bool {
        self.error.borrow().is_some()
    }

    pub(super) fn values(&self, thread: &Thread) -> Values<'_> {
        let [me, threads] = thread.place;
        let loops = thread.rounds();
        Values { parameters: &self.numbers, cpus: self.cpus, threads, me, loops }
    }

    pub(super) fn path(&self, kernel: &Kernel<'_>, name: &'static str) {
        kernel.path(name, kernel.machine().path_or_none(name));
    }

    /// Everything ends, with a message if something went wrong.
    pub(super) fn stop(&self, why: Option<String>) {
        if why.is_some() && self.error.borrow().is_none() {
            *self.error.borrow_mut() = why;
        }
        self.over.set(true);
        for bell in self.bells {
            bell.0.fetch_add(1, Ordering::Release);
        }
    }

    /// Puts a thread into the queue of its CPU.
    pub(super) fn ready(&self, kernel: &Kernel<'_>, thread: usize) {
        let cpu = self.threads.borrow()[thread].home;
        self.queues[cpu].borrow_mut().push_back(thread);
        if timed::cpu().index() != cpu {
            if let Some(wake) = self.wake.filter(|_| self.asleep[cpu].replace(false)) {
                timed::during("wake", || timed::work(wake.send));
                let model = &kernel.machine().model;
                let distance = model.topology.distance(timed::cpu().0, cpu as u32);
                let is_far = matches!(distance, Distance::Remote(_));
                let way = if is_far { wake.far } else { wake.near };
                self.called[cpu].set(way + distance.hops(&model.prices));
                self.woken.set(self.woken.get() + 1);
            }
            self.bells[cpu].0.fetch_add(1, Ordering::Release);
        }
    }

    /// Makes threads ready that waited.
    pub(super) fn wake(&self, kernel: &Kernel<'_>, threads: Vec<usize>) {
        for thread in threads {
            self.active.set(self.active.get() + 1);
            self.path(kernel, "wake");
            self.ready(kernel, thread);
        }
    }

    /// A thread begins to wait. If nobody is left who could wake it, that is a deadlock, unless the time is up.
    fn has_blocked(&self) {
        self.active.set(self.active.get() - 1);
        if self.active.get() > 0 || self.over.get() {
            return;
        }
        let is_over = self.end.is_some_and(|end| timed::now() >= end);
        let why = (!is_over).then(|| self.deadlock());
        self.stop(why);
    }

    /// Who waits where.
    fn deadlock(&self) -> String {
        let mut lines = BTreeSet::new();
        for place in self.threads.borrow().iter() {
            if let Some(line) = place.thread.as_ref().and_then(|thread| thread.waits_in) {
                lines.insert((line, self.workload.groups[place.group].name.clone()));
            }
        }
        let first = lines.first().map_or(0, |(line, _)| *line);
        let all: Vec<String> =
            lines.iter().map(|(line, name)| format!("`{name}` in line {line}")).collect();
        let list = all.join(", ");
        format!(
            "{first}: a deadlock: every thread waits: {list}; nobody is left who posts, unlocks or comes"
        )
    }

    fn next(&self, cpu: usize) -> Option<usize> {
        let now = timed::now();
        let mut sleepers = self.sleepers[cpu].borrow_mut();
        sleepers.sort_unstable();
        while sleepers.first().is_some_and(|&(time, _)| time <= now) {
            let (_, thread) = sleepers.remove(0);
            self.queues[cpu].borrow_mut().push_back(thread);
        }
        drop(sleepers);
        self.queues[cpu].borrow_mut().pop_front()
    }

    /// What a CPU does.
    pub(super) fn run_cpu(&self, kernel: &Kernel<'_>, cpu: usize) {
        let quantum = (self.workload.program.quantum * NS as f64) as Ps;
        let mut runs: Option<(usize, Process)> = None;
        loop {
            if self.over.get() {
                break;
            }
            let Some(id) = self.next(cpu) else {
                if runs.take().is_some() {
                    self.path(kernel, "switch");
                    kernel.idle();
                }
                self.rest(kernel, cpu);
                continue;
            };
            let Some(mut thread) = self.take(id) else { continue };
            // What comes on only when all is over has done nothing.
            if !self.is_over() {
                self.threads.borrow_mut()[id].has_run = true;
            }
            if runs.is_none_or(|(last, _)| last != id) {
                self.path(kernel, "switch");
                kernel.switch(&thread.process);
            }
            let until = timed::now() + quantum;
            let next = loop {
                match thread.step(self, kernel) {
                    Next::Go if timed::now() < until || thread.spins > 0 => {}
                    Next::Go if self.queues[cpu].borrow().is_empty() => {}
                    Next::Go => break Next::Again,
                    other => break other,
                }
                if self.has_failed() {
                    break Next::Over;
                }
            };
            let process = thread.process;
            let is_bounded = self.workload.groups[thread.group].is_bounded;
            self.put_back(id, thread);
            runs = Some((id, process));
            match next {
                Next::Go | Next::Again => self.queues[cpu].borrow_mut().push_back(id),
                Next::Sleeps => {}
                Next::Moved => self.ready(kernel, id),
                Next::Waits => self.has_blocked(),
                Next::Over => {
                    self.take(id);
                    self.leave(is_bounded);
                }
                Next::Exited => {
                    runs = None; // It has no space any more.
                    self.take(id);
                    self.leave(is_bounded);
                }
            }
        }
        if runs.is_some() {
            kernel.idle();
        }
    }

    /// A thread has come to its end.
    fn leave(&self, is_bounded: bool) {
        if is_bounded {
            self.bounded.set(self.bounded.get() - 1);
            self.last.set(self.last.get().max(timed::now()));
            if self.bounded.get() == 0 {
                return self.stop(None);
            }
        }
        self.has_blocked();
    }

    /// Waits until there is something to run.
    fn rest(&self, kernel: &Kernel<'_>, cpu: usize) {
        let nothing = |state: &Self| state.queues[cpu].borrow().is_empty() && !state.over.get();
        timed::during("idle", || {
            let next = self.sleepers[cpu].borrow().iter().map(|&(time, _)| time).min();
            if let Some(time) = next {
                // It looks for others again and again, who cannot interrupt a sleep.
                timed::idle_until(time.min(timed::now() + 5 * US));
                return;
            }
            self.asleep[cpu].set(true);
            if self.wake.is_some() {
                kernel.set_halted(kernel.machine().path_or_none("halt"));
            }
            while nothing(self) {
                let _ = self.bells[cpu].0.load(Ordering::Acquire);
                if nothing(self) {
                    timed::relax();
                }
            }
            self.asleep[cpu].set(false);
            kernel.set_halted(0);
        });
        let called = self.called[cpu].take();
        if called > 0 {
            timed::during("interrupt", || timed::work(called));
            self.path(kernel, "halt");
        }
    }
}
