//! What a run has shown.

use core::fmt;

use super::{
    account::{Account, Cause, Counters},
    bill::{self, AccountId, Bill},
    machine::Machine,
    model::BadModel,
    price::Ps,
    timeline::Timeline,
};

/// Where the time of a run went.
#[derive(Clone, Debug)]
pub struct Report {
    /// When the last program ended, in picoseconds.
    pub elapsed: Ps,
    /// How many steps were simulated.
    pub events: u64,
    /// What programs said they were doing.
    pub activities: Vec<&'static str>,
    /// One for each CPU.
    pub cpus: Vec<CpuReport>,
    /// By the account that caused it, if bills were kept. All of them together are what all
    /// CPUs spent.
    pub bills: Vec<Bill>,
    /// Cache lines by the name of what is in them, those first on which most time was spent.
    pub lines: Vec<LineReport>,
    /// What happened when, if [`Options::timeline`](super::Options::timeline) asked for it.
    pub timeline: Option<Timeline>,
}

/// Where the time of one CPU went.
#[derive(Clone, Debug)]
pub struct CpuReport {
    /// When its program ended, in picoseconds.
    pub ended: Ps,
    /// When it did something for the last time: it answers interrupts for longer than its program
    /// runs. All that it spent adds up to this.
    pub elapsed: Ps,
    /// How often things happened.
    pub counters: Counters,
    account: Account,
}

/// What cache lines cost that go by one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineReport {
    /// The name.
    pub name: &'static str,
    /// How many lines have it.
    pub lines: usize,
    /// How often they went from one CPU to another.
    pub moves: u64,
    /// How long CPUs waited for them, in picoseconds.
    pub spent: Ps,
}

impl CpuReport {
    /// What was spent on a cause in an activity, by its place in [`Report::activities`].
    #[must_use]
    pub fn spent(&self, activity: usize, cause: Cause) -> Ps {
        self.account.get(activity, cause)
    }
}

impl Report {
    pub(crate) fn new(mut machine: Machine) -> Self {
        let timeline = machine.take_timeline();
        let mut lines: Vec<LineReport> = Vec::new();
        let mut names = vec!["unnamed"; machine.lines.len()];
        for &(first, end, name) in &machine.names {
            let end = end.min(names.len());
            names[first.min(end)..end].fill(name);
        }
        for (line, name) in machine.lines.iter().zip(names) {
            if line.moves == 0 {
                continue;
            }
            match lines.iter_mut().find(|report| report.name == name) {
                Some(report) => {
                    report.lines += 1;
                    report.moves += line.moves;
                    report.spent += line.spent;
                }
                None => {
                    lines.push(LineReport { name, lines: 1, moves: line.moves, spent: line.spent });
                }
            }
        }
        lines.sort_by_key(|report| (core::cmp::Reverse(report.spent), report.name));
        let cpu = |cpu: super::cpu::Cpu| CpuReport {
            ended: cpu.ended.unwrap_or(cpu.now),
            elapsed: cpu.now,
            counters: cpu.counters,
            account: cpu.account,
        };
        let cpus: Vec<_> = machine.cpus.into_iter().map(cpu).collect();
        let mut report = Self {
            elapsed: cpus.iter().map(|cpu| cpu.ended).max().unwrap_or(0),
            events: machine.events,
            activities: machine.activities,
            cpus,
            bills: machine.bills,
            lines,
            timeline,
        };
        let stolen = report.spent_on(Cause::Stolen);
        bill::share(&mut report.bills, stolen);
        report
    }

    /// What all CPUs spent on a cause.
    #[must_use]
    pub fn spent_on(&self, cause: Cause) -> Ps {
        let activities = 0..self.activities.len();
        self.cpus.iter().flat_map(|cpu| activities.clone().map(|a| cpu.spent(a, cause))).sum()
    }

    /// What all CPUs spent on a cause in one activity.
    #[must_use]
    pub fn spent(&self, activity: &str, cause: Cause) -> Ps {
        match self.activities.iter().position(|&name| name == activity) {
            Some(activity) => self.cpus.iter().map(|cpu| cpu.spent(activity, cause)).sum(),
            None => 0,
        }
    }

    /// What all CPUs spent in one activity.
    #[must_use]
    pub fn spent_in(&self, activity: &str) -> Ps {
        Cause::ALL.iter().map(|&cause| self.spent(activity, cause)).sum()
    }

    /// What all CPUs spent in one activity on a cause, on behalf of one account.
    #[must_use]
    pub fn billed(&self, account: AccountId, activity: &str, cause: Cause) -> Ps {
        let activity = self.activities.iter().position(|&name| name == activity);
        let bill = self.bills.get(account.0 as usize);
        bill.zip(activity).map_or(0, |(bill, activity)| bill.spent(activity, cause))
    }

    /// The counters of all CPUs.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.cpus.iter().for_each(|cpu| sum.add(&cpu.counters));
        sum
    }
}

/// Why a run was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The machine cannot exist.
    Model(BadModel),
    /// More CPUs than the machine has, or none.
    Cpus {
        /// How many were asked for.
        asked: usize,
        /// How many there are.
        limit: usize,
    },
    /// The system has no memory for another stack.
    Memory,
    /// A CPU used a translation after a flush of it was said to be complete.
    Stale {
        /// Which CPU.
        cpu: u32,
        /// Which page, by its number.
        page: u64,
        /// When, in picoseconds.
        time: Ps,
        /// What came before.
        history: Vec<String>,
    },
    /// Every CPU that has not ended waits for another.
    Deadlock {
        /// The CPU, and since when.
        waiting: Vec<(u32, Ps)>,
        /// What came before.
        history: Vec<String>,
    },
    /// The run took longer than it might, in simulated time.
    OutOfTime {
        /// How long it might have taken, in picoseconds.
        limit: Ps,
    },
}

impl From<BadModel> for Failure {
    fn from(bad: BadModel) -> Self {
        Self::Model(bad)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(bad) => bad.fmt(f),
            Self::Cpus { asked: 0, limit } => write!(f, "no CPUs; the machine has {limit}"),
            Self::Cpus { asked, limit } => write!(f, "{asked} CPUs; the machine has {limit}"),
            Self::Memory => f.write_str("the system has no memory for another stack"),
            Self::Stale { cpu, page, time, history } => {
                writeln!(f, "stale translation: CPU {cpu} used page {page:#x} at {time} ps")?;
                history.iter().try_for_each(|line| writeln!(f, "{line}"))
            }
            Self::Deadlock { waiting, history } => {
                write!(f, "no CPU can go on:")?;
                for (cpu, since) in waiting.iter().take(16) {
                    write!(f, " CPU {cpu} since {since} ps;")?;
                }
                writeln!(f)?;
                history.iter().try_for_each(|line| writeln!(f, "{line}"))
            }
            Self::OutOfTime { limit } => {
                write!(f, "the run is not over after {:.3} s of the model", *limit as f64 / 1e12)
            }
        }
    }
}

impl core::error::Error for Failure {}
