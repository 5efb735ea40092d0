//! What needs the model: lengths of time of kernel code are what was measured less what the model
//! charges beside, so that nothing is counted twice.
//!
//! Fitted are, each to one series: the path `pingpong` to a ping-pong that touches nothing; the paths
//! `mprotect_read`, `mprotect_write`, `madvise` and `fault` to calls of one thread; the delivery of an
//! interrupt to the barrier that one CPU has another execute. What [`super::predict`] compares is none
//! of these.

use lookaside_machine::timed::{Price, Ps};
use lookaside_terminal::Refused;

use super::{
    facts::Facts,
    file,
    findings::{self, Finding, Known},
    probe::{Probe, Samples},
    series::Summary,
};
use crate::{
    data::{Files, Isa, Machine, Text},
    workload::{self, Outcome, Setup},
};

/// The strategy of the kernel that was measured.
#[must_use]
pub fn strategy(facts: &Facts) -> &'static str {
    // Whether a kernel flushes when more is allowed was counted.
    if facts.flushes > 1 { "linux-ipi-2022-promote" } else { "linux-ipi-2022" }
}

/// Runs a workload with its parameters, and other options over them.
pub(super) fn run(
    machine: &Machine,
    facts: &Facts,
    workload: &str,
    cpus: Option<usize>,
    options: &[(&str, f64)],
) -> Result<Outcome, Refused> {
    let mut all = Files::own().parameters()?.of(workload);
    all.extend(options.iter().map(|&(name, value)| (name.to_owned(), value)));
    let (strategy, x, seed) = (strategy(facts), None, 1);
    let setup = Setup { machine, strategy, cpus, x, options: &all, seed, timeline: 0 };
    (workload::find(workload)?.run)(&setup)
}

/// The metric of a run, in nanoseconds, of a machine with these paths only.
fn charged(
    machine: &Machine,
    facts: &Facts,
    (workload, cpus): (&str, Option<usize>),
    metric: &str,
    paths: &[(&str, f64)],
) -> Result<f64, String> {
    let mut machine = machine.clone();
    machine.paths = paths.iter().map(|&(name, ns)| (name.to_owned(), (ns * 1e3) as Ps)).collect();
    let outcome = run(&machine, facts, workload, cpus, &[]).map_err(|Refused(why)| why)?;
    outcome.metric(metric).map_err(|Refused(why)| why)
}

/// What was measured less what is charged beside.
fn less(summary: Summary, charged: f64, what: &str) -> Result<Known, String> {
    let rest = Summary {
        lower: summary.lower - charged,
        median: summary.median - charged,
        upper: summary.upper - charged,
        ..summary
    };
    if rest.median <= 0.0 {
        let took = summary.median;
        return Err(format!("the model charges {charged:.0} ns where {took:.0} were measured"));
    }
    let took = summary.median;
    let remark =
        format!("{what} took {took:.0} ns, of which the model charges {charged:.1} beside");
    Ok(Known { value: rest.median, summary: Some(rest), derived: true, remark })
}

/// Adds what needs the model to what was found without it.
///
/// # Errors
///
/// If what was found makes no machine.
pub fn complete(
    findings: &mut Vec<Finding>,
    samples: &Samples,
    facts: &Facts,
) -> Result<(), Refused> {
    let first = findings.iter().find(|finding| finding.key == Some("tlb.first"));
    if let Some(Err(why)) = first.map(|finding| &finding.outcome) {
        return Err(Refused(format!(
            "no machine without the first level of its TLB: {why}. Try again when the machine, and its host, is less busy"
        )));
    }
    let machine = Machine::read(&Text::new("calibrated.toml", file::text(findings, facts)))?;
    let fits = Fits { machine, samples, facts };
    let [send, deliver] = fits.interrupts();
    let paths: [(&'static str, &str, Result<Known, String>); 11] = [
        ("paths.pingpong", "half a round trip of two processes", fits.ping_pong()),
        ("paths.fault", "a fault on a page that is not there", fits.fault()),
        ("paths.madvise", "to give a page back", fits.madvise()),
        ("paths.mprotect_read", "to make a page read-only", fits.mprotect("time_of_read")),
        ("paths.mprotect_write", "to make it writable again", fits.mprotect("time_of_write")),
        ("paths.call", "a call that does nothing", fits.call()),
        ("paths.protect", "the area of an mprotect", fits.protect()),
        ("paths.page", "each page of it", fits.page()),
        (
            "paths.discard",
            "the area of an madvise",
            fits.area(Probe::Discard { pages: 1, others: 0 }, "madvise of a page"),
        ),
        (
            "paths.unmap",
            "the area of a munmap",
            fits.area(Probe::Unmap { pages: 1, others: 0 }, "munmap of a page"),
        ),
        ("paths.freed", "each page that goes", fits.freed()),
    ];
    let none = "for nothing";
    let finding = |key, about: &str, outcome, without| Finding {
        key: Some(key),
        about: about.to_owned(),
        unit: "ns",
        outcome,
        without,
    };
    findings.push(finding("prices.interrupt_send", "each further target", send, none));
    findings.push(finding(
        "prices.interrupt_deliver",
        "an interrupt and its answer",
        deliver,
        none,
    ));
    let without = "what needs it cannot be run";
    findings.extend(paths.map(|(key, about, outcome)| finding(key, about, outcome, without)));
    Ok(())
}

struct Fits<'a> {
    machine: Machine,
    samples: &'a Samples,
    facts: &'a Facts,
}

impl Fits<'_> {
    fn series(&self, probe: Probe, bound: f64) -> Result<Summary, String> {
        let series = self.samples.get(&probe).ok_or("it was not measured")?;
        series.summary()?.within(bound)
    }

    fn has_strategy(&self) -> Result<(), String> {
        if self.machine.isa == Isa::X86_64 {
            return Ok(());
        }
        Err("only worked out with a strategy for x86".to_owned())
    }

    fn ping_pong(&self) -> Result<Known, String> {
        self.has_strategy()?;
        let round =
            self.series(Probe::PingPong { processes: true, pages: 0, apart: false }, 0.15)?;
        let none = [("pingpong", 0.0)];
        let run = ("pingpong", None);
        let charged = charged(&self.machine, self.facts, run, "time_per_iteration", &none)?;
        less(round.scaled(0.5), charged, "it")
    }

    fn fault(&self) -> Result<Known, String> {
        // The model charges a walk beside, at most.
        let walk = self.machine.model.prices.charge(Price::Walk) as f64 / 1e3;
        less(self.series(Probe::Fault, 0.15)?, walk, "it")
    }

    fn madvise(&self) -> Result<Known, String> {
        self.has_strategy()?;
        let call = self.series(Probe::Discard { pages: 1, others: 0 }, 0.15)?;
        less(call, self.flush_of_a_page()?, "it")
    }

    /// What the model charges for one.
    fn flush_of_a_page(&self) -> Result<f64, String> {
        // The flush, and the walk of the touch before it, which is in the path `fault`.
        let run = ("madvise", Some(1));
        let both =
            charged(&self.machine, self.facts, run, "time_per_iteration", &[("madvise", 0.0)])?;
        let walk = self.machine.model.prices.charge(Price::Walk) as f64 / 1e3;
        Ok((both - walk).max(0.0))
    }

    /// A part of what was measured: `what` of it is known.
    fn part(&self, whole: Probe, known: f64, what: &str) -> Result<Known, String> {
        self.has_strategy()?;
        less(self.series(whole, 0.15)?, known, what)
    }

    fn call(&self) -> Result<Known, String> {
        let roots = if self.facts.isolated { 2.0 } else { 0.0 };
        let root = self.machine.model.prices.charge(Price::Root) as f64 / 1e3;
        self.part(Probe::Call, roots * root, "getppid")
    }

    fn page(&self) -> Result<Known, String> {
        let found = findings::ranged(self.samples, |found| found.table, 0.15)?;
        less(found, 0.0, "a page of mprotect, above the limit,")
    }

    fn protect(&self) -> Result<Known, String> {
        let flush = self.mprotect_of(&self.machine, 1, "time_of_read")?;
        let known = flush + self.call()?.value + self.page()?.value;
        self.part(Probe::Protect { pages: 1, others: 0 }, known, "mprotect of a page")
    }

    /// What a page adds to a call, its flush apart: Linux flushes so many one by one.
    fn freed(&self) -> Result<Known, String> {
        const FEW: usize = 32;
        let of = |pages| self.series(Probe::Discard { pages, others: 0 }, 0.15);
        let more = of(FEW)?.minus(&of(1)?).scaled(1.0 / (FEW - 1) as f64);
        let flush = self.machine.model.prices.charge(Price::FlushPage) as f64 / 1e3;
        self.has_strategy()?;
        less(more, flush, "each further page of 32")
    }

    /// A call that takes one page out.
    fn area(&self, probe: Probe, what: &str) -> Result<Known, String> {
        let known = self.flush_of_a_page()? + self.call()?.value + self.freed()?.value;
        self.part(probe, known, what)
    }

    fn mprotect(&self, metric: &str) -> Result<Known, String> {
        self.has_strategy()?;
        let probe = match metric {
            "time_of_read" => Probe::Protect { pages: 1, others: 0 },
            _ => Probe::Allow { pages: 1, others: 0 },
        };
        let call = self.series(probe, 0.15)?;
        let charged = self.mprotect_of(&self.machine, 1, metric)?;
        less(call, charged, "it")
    }

    fn mprotect_of(&self, machine: &Machine, cpus: usize, metric: &str) -> Result<f64, String> {
        let none = [("mprotect_read", 0.0), ("mprotect_write", 0.0)];
        charged(machine, self.facts, ("mprotect_pair", Some(cpus)), metric, &none)
    }

    /// What each further target takes, and what the first one does.
    fn interrupts(&self) -> [Result<Known, String>; 2] {
        let barrier = |others| self.series(Probe::Barrier { others }, 0.3);
        let most = (1..=8).take_while(|&others| barrier(others).is_ok()).last();
        let send = match most {
            None | Some(1) => Err("it takes three CPUs to tell".to_owned()),
            Some(most) => barrier(most).and_then(|all| {
                let each = all.minus(&barrier(1)?).scaled(1.0 / (most - 1) as f64);
                if each.lower <= 0.0 {
                    return Err("further targets take nothing more within the spread".to_owned());
                }
                let remark = format!("a barrier on {most} CPUs less one on one, by {}", most - 1);
                let value = each.median;
                Ok(Known { value, summary: Some(each), derived: true, remark })
            }),
        };
        let sent = send.as_ref().map_or(0.0, |send| send.value);
        let deliver = self.has_strategy().and_then(|()| {
            let round = barrier(1)?.minus(&barrier(0)?).within(0.3)?;
            less(
                round,
                self.lines_of_a_call()? + sent,
                "a barrier on another CPU, less one on none,",
            )
        });
        [send, deliver]
    }

    /// What the model charges for the cache lines of a call that one CPU makes on another, with
    /// interrupts and flushes for nothing.
    fn lines_of_a_call(&self) -> Result<f64, String> {
        let mut machine = self.machine.clone();
        for price in [Price::FlushPage, Price::RootFlush, Price::FlushAll] {
            machine.model.prices.set(price, 0);
        }
        let [alone, two] = [1, 2].map(|cpus| self.mprotect_of(&machine, cpus, "time_of_read"));
        Ok((two? - alone?).max(0.0))
    }
}
