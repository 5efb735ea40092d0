//! What the kernel counts while something is measured, and what follows for it: a block of which the
//! counts are not those expected was disturbed and is discarded, whatever it measured.

use core::{fmt, time::Duration};
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// Ticks of a second in `/proc/stat`: on all architectures of today.
const TICKS: f64 = 100.0;

/// Interrupts that one CPU asks of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For the sake of TLBs.
    Flush,
    /// To call a function.
    Call,
}

/// Interrupts by CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    flushes: Vec<u64>,
    calls: Vec<u64>,
}

impl Interrupts {
    /// What a text like `/proc/interrupts` says; `cpus` are the columns that it has. On x86 there are
    /// rows for both kinds. On Arm there is one for calls, and flushes interrupt nobody.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let cpus: Vec<usize> = text.lines().next().map_or_else(Vec::new, |header| {
            header
                .split_whitespace()
                .filter_map(|cpu| cpu.strip_prefix("CPU")?.parse().ok())
                .collect()
        });
        let row = |is: &dyn Fn(&str, &str) -> bool| {
            let mut counts = vec![0; cpus.iter().max().map_or(0, |most| most + 1)];
            for line in text.lines().skip(1) {
                let Some((name, rest)) = line.split_once(':') else { continue };
                if is(name.trim(), rest) {
                    for (&cpu, count) in cpus.iter().zip(rest.split_whitespace()) {
                        counts[cpu] = count.parse().unwrap_or(0);
                    }
                }
            }
            counts
        };
        let is_call = |name: &str, rest: &str| {
            name == "CAL" || name.starts_with("IPI") && rest.contains("Function call")
        };
        Self { flushes: row(&|name, _| name == "TLB"), calls: row(&is_call) }
    }

    fn of(&self, kind: Kind, cpu: usize) -> u64 {
        let counts = match kind {
            Kind::Flush => &self.flushes,
            Kind::Call => &self.calls,
        };
        counts.get(cpu).copied().unwrap_or(0)
    }
}

/// Time that the host took from each CPU, in ticks: what a text like `/proc/stat` says.
#[must_use]
pub fn stolen(text: &str) -> Vec<u64> {
    let mut ticks = Vec::new();
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        let cpu = fields.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
        if let Some(cpu) = cpu {
            ticks.resize(ticks.len().max(cpu + 1), 0);
            // user, nice, system, idle, iowait, irq, softirq, steal
            ticks[cpu] = fields.nth(7).and_then(|field| field.parse().ok()).unwrap_or(0);
        }
    }
    ticks
}

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Interrupts.
    pub interrupts: Interrupts,
    /// Ticks that the host took, by CPU.
    pub stolen: Vec<u64>,
    /// How often the measuring thread was made to give up its CPU.
    pub forced: u64,
}

impl Counts {
    /// As they are now, for this thread.
    pub(super) fn now() -> io::Result<Self> {
        Ok(Self {
            interrupts: Interrupts::read(&fs::read_to_string("/proc/interrupts")?),
            stolen: stolen(&fs::read_to_string("/proc/stat")?),
            forced: super::system::switches()[1],
        })
    }

    /// Which thousandth of the time the host has taken from these CPUs since then.
    pub(super) fn stolen_since(&self, before: &Self, cpus: &[usize], elapsed: Duration) -> u64 {
        let of = |counts: &Self, cpu: usize| counts.stolen.get(cpu).copied().unwrap_or(0);
        let ticks: u64 =
            cpus.iter().map(|&cpu| of(self, cpu).saturating_sub(of(before, cpu))).sum();
        let available = elapsed.as_secs_f64() * cpus.len() as f64 * TICKS;
        (ticks as f64 / available.max(1.0) * 1000.0) as u64
    }

    /// How much oftener than before a CPU was interrupted.
    pub(super) fn more(&self, before: &Self, kind: Kind, cpu: usize) -> u64 {
        self.interrupts.of(kind, cpu).saturating_sub(before.interrupts.of(kind, cpu))
    }
}

/// What is expected of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The CPU that measures.
    pub cpu: usize,
    /// The CPUs that are interrupted.
    pub targets: Vec<usize>,
    /// By what, and how often each.
    pub interrupts: Option<(Kind, u64)>,
}

/// Why a block is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disturbance {
    /// Something else ran in between on the CPU that measures, or on one that it needs.
    Preempted,
    /// A target was interrupted less often than it should have been.
    Few,
    /// A CPU was interrupted more often than it should have been.
    Many,
    /// The host took time.
    Stolen,
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Preempted => "preempted",
            Self::Few => "too few interrupts",
            Self::Many => "too many interrupts",
            Self::Stolen => "time stolen by the host",
        })
    }
}

/// Says whether a block was disturbed between two counts. So many of the interrupts of a target may be
/// missing or too many: 2 %, and five, which other programs of the machine cause now and then.
pub(super) fn disturbance(
    before: &Counts,
    after: &Counts,
    expected: &Expected,
) -> Option<Disturbance> {
    let of = |counts: &Counts, cpu: usize| counts.stolen.get(cpu).copied().unwrap_or(0);
    let involved = || core::iter::once(&expected.cpu).chain(&expected.targets);
    if after.forced > before.forced {
        return Some(Disturbance::Preempted);
    }
    let more = |kind, cpu| after.more(before, kind, cpu);
    for &target in &expected.targets {
        let Some((kind, count)) = expected.interrupts else { continue };
        let slack = count / 50 + 5;
        match more(kind, target) {
            // Those that the measurement itself lost cannot be made up for by others' slack.
            seen if seen < count - count / 50 => return Some(Disturbance::Few),
            seen if seen > count + slack => return Some(Disturbance::Many),
            _ => {}
        }
    }
    // Some kernels count a flush among the calls too.
    let foreign = |&cpu: &usize| {
        let (flushes, calls) = (more(Kind::Flush, cpu), more(Kind::Call, cpu));
        match expected.interrupts {
            Some((Kind::Flush, _)) if cpu != expected.cpu => calls.min(calls.abs_diff(flushes)),
            Some((Kind::Call, _)) if cpu != expected.cpu => flushes,
            _ => flushes.max(calls),
        }
    };
    if involved().any(|cpu| foreign(cpu) > 5) {
        return Some(Disturbance::Many);
    }
    involved().any(|&cpu| of(after, cpu) > of(before, cpu)).then_some(Disturbance::Stolen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "            CPU0       CPU1
  0:         12          0  IR-IO-APIC    2-edge      timer
LOC:   10150083   10634758   Local timer interrupts
CAL:       5303       4826   Function call interrupts
TLB:       3958       4106   TLB shootdowns
ERR:          0
";

    #[test]
    fn the_rows_of_flushes_and_calls_are_found_among_the_others() {
        let counts = Interrupts::read(X86);
        assert_eq!((counts.of(Kind::Flush, 1), counts.of(Kind::Call, 0)), (4106, 5303));
        // On Arm calls have another name, and nobody is interrupted for the sake of a TLB.
        let arm = "   CPU0   CPU2\nIPI0:  1  2  Rescheduling interrupts\nIPI1:  7  9  Function call interrupts\n";
        let counts = Interrupts::read(arm);
        assert_eq!((counts.of(Kind::Call, 2), counts.of(Kind::Call, 1)), (9, 0));
        assert_eq!(counts.of(Kind::Flush, 2), 0);
        assert_eq!(Interrupts::read(""), Interrupts::default());
        assert_eq!(Interrupts::read("CPUs\nTLB: x y\n").of(Kind::Flush, 0), 0);
    }

    #[test]
    fn stolen_time_is_the_eighth_number_of_a_cpu() {
        let text = "cpu  9 9 9 9 9 9 9 21 1 0\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 13 9 10\nintr 5\n";
        assert_eq!(stolen(text), [8, 13]);
    }

    fn counts(flushes: [u64; 2], calls: [u64; 2]) -> Counts {
        let interrupts = Interrupts { flushes: flushes.to_vec(), calls: calls.to_vec() };
        Counts { interrupts, stolen: vec![0, 0], forced: 0 }
    }

    #[test]
    fn a_block_with_the_expected_counts_stays_and_any_other_goes() {
        let before = counts([10, 100], [5, 5]);
        let pair = Expected { cpu: 0, targets: vec![1], interrupts: Some((Kind::Flush, 100)) };
        let judge = |after: &Counts| disturbance(&before, after, &pair);
        assert_eq!(judge(&counts([10, 200], [5, 5])), None);
        assert_eq!(judge(&counts([10, 198], [5, 5])), None);
        assert_eq!(judge(&counts([10, 197], [5, 5])), Some(Disturbance::Few));
        assert_eq!(judge(&counts([10, 207], [5, 5])), None);
        assert_eq!(judge(&counts([10, 208], [5, 5])), Some(Disturbance::Many));
        assert_eq!(judge(&counts([10, 200], [11, 5])), Some(Disturbance::Many));
        // A kernel that counts flushes among calls, and one more call for each.
        assert_eq!(judge(&counts([10, 200], [5, 105])), None);
        assert_eq!(judge(&counts([10, 200], [5, 205])), Some(Disturbance::Many));
        let stolen = Counts { stolen: vec![0, 1], ..counts([10, 200], [5, 5]) };
        assert_eq!(judge(&stolen), Some(Disturbance::Stolen));
        let forced = Counts { forced: 1, ..counts([10, 200], [5, 5]) };
        assert_eq!(judge(&forced), Some(Disturbance::Preempted));
        // Alone nothing is expected; what happens to a CPU that is not involved is no matter.
        let alone = Expected { cpu: 0, targets: Vec::new(), interrupts: None };
        assert_eq!(disturbance(&before, &counts([10, 900], [5, 5]), &alone), None);
        assert_eq!(
            disturbance(&before, &counts([16, 100], [5, 5]), &alone),
            Some(Disturbance::Many)
        );
    }
}
