//! Shells that run short programs one after the other: 256 loops of 32 runs of `sort`, on 32 CPUs.
//!
//! Each run forks the shell, copies what shell and child write to meanwhile, executes `sort`, which
//! sets itself up, sorts and exits. Each of these changes pages that are present, so each is a flush;
//! how many there are was counted. What a run computes is the path `sort` of the machine, spread
//! over its flushes at random.
//!
//! The interconnect is nearly busy all the time when each flush is broadcast, so it is throughput
//! that is measured: so many flushes in a span of time, in the midst of the run.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;

use lookaside_machine::timed::{self, Arena, Lock, Ps};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    intervals::{exponential, happens},
    stage::{self, MS, START},
};
use crate::kernel::{Change, Kernel, Process};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "sort",
    about: "shells on each CPU that run `sort` again and again: forks, copies, execs, exits",
    x_name: None,
    run,
}];

const WARM_UP: Ps = 20 * MS;
const MEASURED: Ps = 300 * MS;

/// Addresses of a `sort`, with its buffer, which is larger than any flush by page.
const SORT_ADDRESSES: u64 = 1024;
const BUFFER: u64 = 448;

/// One flush of a run, and what goes with it.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The shell is write-protected.
    Fork,
    /// The shell writes to a page that it shares with the child.
    ShellWrites(u64),
    /// The child, to which the CPU is switched first, does.
    ChildWrites(u64),
    /// The stack of the new program is moved, before it runs.
    MoveStack,
    /// And tables of it freed.
    FreeStack,
    /// The new program replaces the child.
    Start,
    /// It writes to a page that it shares.
    Writes(u64),
    /// It protects some pages.
    Protects(u64),
    /// It unmaps some.
    Unmaps(u64),
    /// It ends, and the shell goes on.
    Exit,
}

/// How a run goes.
fn steps(setup: &Setup<'_>) -> Result<Vec<Step>, Refused> {
    let shell = setup.option("shell_copies")? as u64;
    let child = setup.option("child_copies")? as u64;
    let own = setup.option("sort_copies")? as u64;
    let mut steps = vec![Step::Fork];
    steps.extend((0..shell / 2).map(Step::ShellWrites));
    steps.extend((0..child).map(Step::ChildWrites));
    steps.extend([Step::MoveStack, Step::FreeStack, Step::Start]);
    steps.extend((0..own).map(Step::Writes));
    steps.extend([4, 2, 1].map(Step::Protects));
    steps.extend([10, SORT_ADDRESSES - BUFFER].map(Step::Unmaps));
    steps.push(Step::Exit);
    steps.extend((shell / 2..shell).map(Step::ShellWrites));
    Ok(steps)
}

/// A shell and what it runs.
#[derive(Clone, Copy)]
struct Job {
    shell: Process,
    child: Option<Process>,
    /// What the child is about to become, or has become.
    program: Option<Process>,
    /// Which of the three a CPU runs that runs the job.
    runs: Process,
    next: usize,
}

/// The jobs that wait for a CPU, and the lock that they are under.
struct Queue<'a> {
    lock: &'a Lock,
    jobs: RefCell<VecDeque<Job>>,
}

impl Queue<'_> {
    /// Adds a job, if there is one to add, and takes the one that has waited longest.
    fn exchange(&self, job: Option<Job>) -> Job {
        self.lock.with(|| {
            let mut jobs = self.jobs.borrow_mut();
            jobs.extend(job);
            jobs.pop_front().expect("each CPU has more jobs than it runs")
        })
    }
}

/// What does not change while a run lasts.
struct Workload {
    steps: Vec<Step>,
    shell_pages: u64,
    sort_pages: u64,
    /// What is computed before each step, in the mean.
    think: Ps,
    /// How probable it is after a step that another job gets the CPU.
    preempted: f64,
    /// How probable it is that a job which loses the CPU gets another.
    migrates: f64,
}

impl Workload {
    fn new(setup: &Setup<'_>) -> Result<Self, Refused> {
        let steps = steps(setup)?;
        let preemptions = setup.option("preemptions")?;
        let workload = Self {
            shell_pages: setup.option("shell_pages")? as u64,
            sort_pages: setup.option("sort_pages")? as u64,
            think: setup.machine.path("sort")? / steps.len() as u64,
            preempted: preemptions / steps.len() as f64,
            migrates: setup.option("migrations")? / preemptions,
            steps,
        };
        let copied = |kind: fn(&Step) -> Option<u64>| workload.steps.iter().filter_map(kind).max();
        let in_shell = copied(|step| match *step {
            Step::ShellWrites(page) | Step::ChildWrites(page) => Some(page),
            _ => None,
        });
        let in_sort = copied(|step| match *step {
            Step::Writes(page) => Some(page),
            _ => None,
        });
        let too_many = in_shell.is_some_and(|page| page >= workload.shell_pages)
            || in_sort.is_some_and(|page| page >= workload.sort_pages)
            || workload.sort_pages > BUFFER
            || workload.sort_pages < 4;
        if too_many {
            return Err(Refused(format!(
                "a program copies at most the pages that it has; `sort` has 4 to {BUFFER}"
            )));
        }
        Ok(workload)
    }

    /// Computes until the next flush of a job, and does that.
    fn advance(&self, kernel: &Kernel<'_>, job: &mut Job) {
        kernel.path("sort", exponential(self.think));
        let step = self.steps[job.next];
        job.next = (job.next + 1) % self.steps.len();
        let write = |process: Process, page| {
            kernel.touch(&process, page, 1);
            kernel.change(&process, page, 1, Change::Restrict);
            kernel.touch(&process, page, 1);
        };
        match step {
            Step::Fork => kernel.change(&job.shell, 0, self.shell_pages, Change::Restrict),
            Step::ShellWrites(page) => write(job.shell, page),
            Step::ChildWrites(page) => {
                let child = *job.child.get_or_insert_with(|| {
                    let child = kernel.spawn(self.shell_pages, self.shell_pages);
                    kernel.switch(&child);
                    child
                });
                job.runs = child;
                write(child, page);
            }
            Step::MoveStack => {
                let program = kernel.spawn(SORT_ADDRESSES, self.sort_pages);
                kernel.change(&program, 0, 1, Change::Restrict);
                job.program = Some(program);
            }
            Step::Writes(page) => write(job.runs, page),
            Step::Protects(pages) => {
                kernel.touch(&job.runs, 0, pages);
                kernel.change(&job.runs, 0, pages, Change::Restrict);
            }
            Step::Unmaps(pages) => {
                let first = if pages < BUFFER { BUFFER - pages } else { BUFFER };
                kernel.change(&job.runs, first, pages, Change::Unmap);
            }
            Step::FreeStack | Step::Start | Step::Exit => self.replace(kernel, job, step),
        }
    }

    /// The steps at which a program takes the place of another.
    fn replace(&self, kernel: &Kernel<'_>, job: &mut Job, step: Step) {
        let Some(program) = job.program else { return };
        match (step, job.child) {
            (Step::FreeStack, _) => kernel.change(&program, 1, 1, Change::Free),
            (Step::Start, Some(child)) => {
                job.runs = program;
                kernel.exit(&child, Some(&program));
            }
            _ => {
                (job.runs, job.child, job.program) = (job.shell, None, None);
                kernel.exit(&program, Some(&job.shell));
            }
        }
    }
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let workload = Workload::new(setup)?;
    let shells = setup.option("shells_per_cpu")? as usize;
    let sorts = setup.option("sorts_per_cpu")?;
    if shells < 2 {
        return Err(Refused("each CPU has at least two shells".into()));
    }
    let cpus = setup.cpus.unwrap_or(setup.machine.model.topology.cpus());
    let arena = Arena::new((1 << 26) + cpus * (1 << 18));
    let done = Cell::new(0_u64);
    let (_, report) = stage::run(
        setup,
        &arena,
        cpus,
        |kernel| {
            let job = |_| {
                let shell = kernel.spawn(workload.shell_pages, workload.shell_pages);
                Job { shell, child: None, program: None, runs: shell, next: 0 }
            };
            let queue = |_| {
                let lock = arena.put(Lock::new());
                timed::name(lock, "run queues");
                Queue { lock, jobs: RefCell::new((0..shells).map(job).collect()) }
            };
            (0..cpus).map(queue).collect::<Vec<_>>()
        },
        |kernel, queues, cpu| {
            let mut job = queues[cpu].exchange(None);
            kernel.switch(&job.runs);
            while timed::now() < START + WARM_UP + MEASURED {
                workload.advance(kernel, &mut job);
                let counts = START + WARM_UP..START + WARM_UP + MEASURED;
                done.set(done.get() + u64::from(counts.contains(&timed::now())));
                if happens(workload.preempted) {
                    let elsewhere = happens(workload.migrates);
                    let to =
                        if elsewhere { timed::random_below(cpus as u64) as usize } else { cpu };
                    job = queues[to].exchange(Some(job));
                    kernel.switch(&job.runs);
                }
            }
        },
    )?;
    let rate = done.get() as f64 / workload.steps.len() as f64 / cpus as f64 / MEASURED as f64;
    let metrics = vec![Metric { key: "elapsed", unit: "s", value: sorts / rate / 1e12 }];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
