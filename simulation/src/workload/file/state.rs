//! Everything that the threads of a workload file share.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::{self, Arena, Ps, Word, tables};

use super::{
    Count, Failed, List, Spinning, Workload,
    expression::Values,
    gate::{self, Gate},
    memory::KERNEL_PAGES,
    scheduler::{Place, Wake},
    sharing::Sharing,
    statement::Act,
    thread::Thread,
    units::{Mapping, Memory},
};
use crate::{
    kernel::{Kernel, Process},
    line::Line,
    strategy::{
        SpaceId,
        blocks::{PageTables, Way},
    },
    workload::stage::START,
};

/// Everything that threads share.
pub(super) struct State<'a> {
    pub(super) workload: &'a Workload,
    numbers: Vec<f64>,
    cpus: usize,
    /// What each way into the kernel takes besides with tables of its own.
    pub(super) isolated: Ps,
    /// Those of the file, and after them children that run beside their parents.
    pub(super) threads: RefCell<Vec<Place>>,
    pub(super) queues: Vec<List<usize>>,
    /// The process of each space that threads share, if any are there.
    pub(super) shared: Vec<Option<Process>>,
    /// The processes of each space of which every thread has one, in the order of the threads.
    pub(super) own: Vec<Vec<Process>>,
    /// Threads that sleep on each CPU, with when they wake.
    pub(super) sleepers: Vec<RefCell<Vec<(Ps, usize)>>>,
    /// What an idle CPU reads: it is written when a thread is made ready there.
    pub(super) bells: &'a [Line],
    /// What it takes to wake a CPU that sleeps, if they do.
    pub(super) wake: Option<Wake>,
    /// The CPUs that sleep.
    pub(super) asleep: Vec<Cell<bool>>,
    /// What an interrupt takes that is under way to a CPU that slept.
    pub(super) called: Vec<Cell<Ps>>,
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
    pub(super) bounded: Count,
    /// Threads that do not wait for others.
    pub(super) active: Count,
    pub(super) over: Cell<bool>,
    /// What went wrong, with the line.
    pub(super) error: Failed,
    pub(super) end: Option<Ps>,
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
}
