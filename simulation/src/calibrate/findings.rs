//! What follows from what was measured: a number with its spread, or why there is none.

use super::{
    capacity::{self, Point},
    facts::Facts,
    lines,
    probe::{CALLED, PAGES, Probe, Samples},
    series::{LEAST, Summary},
    topology::Apart,
};

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The number, in the unit of the finding.
    pub value: f64,
    /// How it is spread; none for what was read or counted.
    pub summary: Option<Summary>,
    /// Whether arithmetic is in it, not only a median.
    pub derived: bool,
    /// How it was come by.
    pub remark: String,
}

/// One quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its name in a machine file; none for what has no place there.
    pub key: Option<&'static str>,
    /// What it is.
    pub about: String,
    /// The unit.
    pub unit: &'static str,
    /// The number, or why there is none.
    pub outcome: Result<Known, String>,
    /// What the model does without it.
    pub without: &'static str,
}

/// A series is cut into so many parts in the order of time; what needs several series is worked out for
/// each part, so that its spread is known.
const PARTS: usize = LEAST;

fn needed(samples: &Samples, probe: Probe) -> Result<Summary, String> {
    samples.get(&probe).map_or_else(|| Err("it was not measured".to_owned()), |one| one.summary())
}

/// Works something out of several series, part by part.
fn by_parts(
    samples: &Samples,
    probes: &[Probe],
    of: impl Fn(&[f64]) -> Result<f64, String>,
) -> Result<Summary, String> {
    for &probe in probes {
        needed(samples, probe)?;
    }
    let part = |probe: &Probe, part: usize| {
        let kept = &samples[probe].kept;
        Summary::of(&kept[part * kept.len() / PARTS..(part + 1) * kept.len() / PARTS]).median
    };
    let results: Vec<Result<f64, String>> = (0..PARTS)
        .map(|i| of(&probes.iter().map(|probe| part(probe, i)).collect::<Vec<_>>()))
        .collect();
    let good: Vec<f64> = results.iter().filter_map(|result| result.clone().ok()).collect();
    match results.into_iter().find_map(Result::err) {
        Some(why) if 4 * good.len() < 3 * PARTS => Err(why),
        _ => Ok(Summary::of(&good)),
    }
}

fn measured(summary: Summary, remark: impl Into<String>) -> Known {
    Known { value: summary.median, summary: Some(summary), derived: false, remark: remark.into() }
}

fn derived(summary: Summary, remark: impl Into<String>) -> Known {
    Known { derived: true, ..measured(summary, remark) }
}

fn read(value: f64, remark: impl Into<String>) -> Known {
    Known { value, summary: None, derived: false, remark: remark.into() }
}

/// Everything that follows without the model.
#[must_use]
pub fn findings(samples: &Samples, facts: &Facts) -> Vec<Finding> {
    let mut all = shape(facts);
    all.extend(features(facts));
    all.extend(translations(samples, facts));
    all.extend(words(samples));
    all.extend(flushes(samples));
    all.extend(shown(samples));
    all
}

fn finding(
    key: Option<&'static str>,
    about: &str,
    unit: &'static str,
    outcome: Result<Known, String>,
    without: &'static str,
) -> Finding {
    Finding { key, about: about.to_owned(), unit, outcome, without }
}

fn shape(facts: &Facts) -> Vec<Finding> {
    let count = facts.cpus.numbers().count();
    let (shape, remark) = match facts.cpus.shape() {
        Ok(shape) => (shape, "as the kernel describes it".to_owned()),
        Err(why) => ([1, count, 1, 1], format!("taken as cores of one cluster: {why}")),
    };
    let keys = [
        ("topology.threads", "threads of a core", "threads"),
        ("topology.cores_per_cluster", "cores that share the last cache", "cores"),
        ("topology.clusters", "such clusters of a socket", "clusters"),
        ("topology.sockets", "sockets", "sockets"),
    ];
    let one = |((key, about, unit), number): ((_, &str, _), usize)| {
        finding(Some(key), about, unit, Ok(read(number as f64, remark.clone())), "one")
    };
    keys.into_iter().zip(shape).map(one).collect()
}

fn features(facts: &Facts) -> Vec<Finding> {
    let flag = |yes: bool, remark: &str| Ok(read(f64::from(u8::from(yes)), remark));
    let x86 = |flag_name: &str, yes: f64| match facts.virtualised() {
        None => Err("programs cannot see it on this architecture".to_owned()),
        Some(_) => Ok(read(if facts.has(flag_name) { yes } else { 0.0 }, "from CPUID")),
    };
    let virtualised = match facts.virtualised() {
        Some(yes) => flag(yes, "from CPUID"),
        None => Err("nothing says so on this architecture".to_owned()),
    };
    vec![
        finding(Some("features.virtualised"), "a guest", "flag", virtualised, "nothing follows"),
        finding(Some("features.tag_bits"), "bits of a tag", "bits", x86("pcid", 12.0), "no tags"),
        finding(Some("features.invpcid"), "INVPCID", "flag", x86("invpcid", 1.0), "none"),
        finding(Some("features.invlpgb"), "INVLPGB", "flag", x86("invlpgb", 1.0), "none"),
        finding(
            Some("features.paired"),
            "kernel and user apart",
            "flag",
            flag(facts.isolated, "as the kernel says"),
            "not",
        ),
    ]
}

/// The sizes from `least` to `most` pages of which the chases can be compared. Where the lines of the
/// control alone no longer fit into a cache, neither do the page tables: the curve is that cache's.
fn sizes(samples: &Samples, [least, most]: [usize; 2]) -> Vec<usize> {
    let control = |size| needed(samples, Probe::Lines(size)).map_or(0.0, |all| all.median);
    let usual = control(USUAL);
    let fits = |&size: &usize| size <= USUAL || control(size) <= 1.5 * usual;
    PAGES.into_iter().filter(|&size| size >= least && size <= most).take_while(fits).collect()
}

/// So many lines are in the second cache of any machine, and in the first of none.
const USUAL: usize = 2048;

/// What a step of the chase over pages takes beyond one of the control, by size.
fn curve(
    samples: &Samples,
    between: [usize; 2],
    of: impl Fn(&[Point]) -> Result<f64, String>,
) -> Result<Summary, String> {
    let sizes = sizes(samples, between);
    let probes: Vec<Probe> =
        sizes.iter().flat_map(|&size| [Probe::Pages(size), Probe::Lines(size)]).collect();
    by_parts(samples, &probes, |values| {
        let beyond = values.chunks(2).map(|pair| pair[0] - pair[1]);
        of(&sizes.iter().copied().zip(beyond).collect::<Vec<_>>())
    })
}

fn translations(samples: &Samples, facts: &Facts) -> Vec<Finding> {
    let near = [0, 512];
    let far = [512, usize::MAX];
    // Sizes are eight apart: one of them is 8 % of 96.
    let first = curve(samples, near, |points| Ok(capacity::first(points)?.entries as f64))
        .and_then(|summary| summary.within(0.09));
    let beyond = curve(samples, near, |points| Ok(capacity::first(points)?.beyond))
        .and_then(|summary| summary.within(0.1));
    let hit = beyond.as_ref().map(|summary| summary.median).map_err(String::clone);
    let level = |of: fn(capacity::Second) -> f64| {
        let hit = hit.clone()?;
        curve(samples, far, |points| Ok(of(capacity::second(points, hit)?)))
    };
    let second = level(|found| found.entries as f64).and_then(|summary| summary.within(0.2));
    let walk = level(|found| found.walk).and_then(|summary| summary.within(0.3));
    let least = |why: String| {
        let hit = hit.clone()?;
        let fit = curve(samples, far, |points| Ok(capacity::fits(points, hit)? as f64))?;
        let remark = format!("only that it has these at least; its size is {why}");
        Ok(Known { value: fit.lower.round(), ..derived(fit, remark) })
    };
    let next = |entries: f64| {
        let more = PAGES.into_iter().find(|&size| size as f64 > entries);
        more.map_or(String::new(), |more| format!("; {more} pages do not fit"))
    };
    let whole = |known: Known| Known { value: known.value.round(), ..known };
    let first = first.map(|summary| {
        let remark = format!("where a chase over pages begins to miss{}", next(summary.median));
        whole(measured(summary, remark))
    });
    let second = second.map(|summary| {
        let remark = "that fits the curve best if what goes is chosen at random; the knee is soft";
        whole(derived(summary, remark))
    });
    let second = second.or_else(least);
    let beyond = beyond
        .map(|summary| derived(summary, "a chase over pages beyond the first level, less control"));
    let walk = walk.map(|summary| {
        derived(
            summary,
            "with the size of the second level, from chases over more pages than it holds",
        )
    });
    let ways = || Err("a chase in one order cannot tell them".to_owned());
    let large = if facts.virtualised() == Some(false) {
        "not tried: a machine file has no number for them"
    } else {
        "the host may back them with smaller ones, and programs cannot see whether"
    };
    vec![
        finding(Some("tlb.first"), "first level", "entries", first, "no file without it"),
        finding(Some("tlb.first_ways"), "its ways", "ways", ways(), "fully associative"),
        finding(Some("tlb.second"), "second level", "entries", second, "there is none"),
        finding(Some("tlb.second_ways"), "its ways", "ways", ways(), "fully associative"),
        finding(Some("prices.second_level"), "a hit there", "ns", beyond, "for nothing"),
        finding(Some("prices.walk"), "a walk", "ns", walk, "for nothing"),
        finding(None, "pages of 2 MiB", "ns", Err(large.to_owned()), "pages are of 4 KiB"),
    ]
}

fn words(samples: &Samples) -> Vec<Finding> {
    let simple = |probe, bound, remark: &str| {
        needed(samples, probe)?.within(bound).map(|summary| measured(summary, remark))
    };
    let mut all = vec![
        finding(
            Some("prices.hit"),
            "a load that hits",
            "ns",
            simple(Probe::Lines(16), 0.1, "a chase through 16 lines"),
            "for nothing",
        ),
        finding(
            Some("prices.atomic"),
            "an atomic addition",
            "ns",
            simple(Probe::Atomic, 0.1, "each of the value that the one before it gave"),
            "for nothing",
        ),
    ];
    for apart in Apart::ALL {
        let (key, about) = match apart {
            Apart::Thread => ("prices.line_thread", "a line from the core's other thread"),
            Apart::Cluster => ("prices.line_cluster", "a line from the cluster"),
            Apart::Socket => ("prices.line_socket", "a line from the socket"),
            Apart::Remote => ("prices.line_remote", "a line from another socket"),
        };
        let outcome = match samples.get(&Probe::Transfer(apart)) {
            None => Err("no two CPUs that may be used are so far apart".to_owned()),
            Some(series) => series
                .summary()
                .and_then(|summary| summary.within(0.25))
                .map(|all| derived(all.scaled(0.5), "half a round trip of loads and stores")),
        };
        all.push(finding(Some(key), about, "ns", outcome, "for nothing"));
    }
    all
}

/// What a fit of `mprotect` over pages gives, part by part.
pub(super) fn ranged(
    samples: &Samples,
    of: fn(lines::Ranged) -> f64,
    bound: f64,
) -> Result<Summary, String> {
    let probes = CALLED.map(|pages| Probe::Protect { pages, others: 0 });
    let summary = by_parts(samples, &probes, |values| {
        let points: Vec<_> = CALLED.into_iter().zip(values.iter().copied()).collect();
        lines::ranged(&points).map(of)
    })?;
    summary.within(bound)
}

fn flushes(samples: &Samples) -> Vec<Finding> {
    let limit = ranged(samples, |found| found.limit as f64, 0.05);
    let table = ranged(samples, |found| found.table, 0.15);
    let page = ranged(samples, |found| found.page, 0.2);
    let all = ranged(samples, |found| found.all, 0.5);
    let slope = "mprotect over pages: the slope below the limit less that above it";
    let step = "mprotect over pages: the step at the limit";
    let alone = |processes| {
        needed(samples, Probe::PingPong { processes, pages: 0, apart: false })?.within(0.15)
    };
    let root = alone(true).and_then(|processes| Ok((processes, alone(false)?)));
    let root = root.and_then(|(processes, threads)| {
        let more = processes.minus(&threads).scaled(0.5);
        if more.lower > 0.0 {
            return Ok(derived(
                more,
                "half of what a round trip of processes takes more than one of \
                                     threads",
            ));
        }
        Err("round trips of processes and of threads are the same within their spread".to_owned())
    });
    vec![
        finding(Some("prices.root"), "a root that keeps", "ns", root, "for nothing"),
        finding(
            Some("prices.root_flush"),
            "a root that flushes",
            "ns",
            all.clone().map(|summary| derived(summary, step)),
            "for nothing",
        ),
        finding(
            Some("prices.flush_page"),
            "a flush of a page",
            "ns",
            page.map(|summary| derived(summary, slope)),
            "for nothing",
        ),
        finding(
            Some("prices.flush_all"),
            "a flush of everything",
            "ns",
            all.map(|summary| {
                derived(summary, "as root_flush, which is such a flush but for tags")
            }),
            "for nothing",
        ),
        finding(
            None,
            "pages flushed one by one",
            "pages",
            limit.map(|summary| derived(summary, "the last before the step")),
            "the strategy's",
        ),
        finding(
            None,
            "mprotect in the table, a page",
            "ns",
            table.map(|summary| derived(summary, "the slope above the limit")),
            "in paths",
        ),
    ]
}

/// What has no place in a machine file, and tells whether the rest can be believed.
fn shown(samples: &Samples) -> Vec<Finding> {
    let more = |with: Probe, alone: Probe| {
        let summary = needed(samples, with)?.minus(&needed(samples, alone)?).within(0.5)?;
        Ok(derived(summary, "with a thread on another CPU, less without"))
    };
    let one = |pages, others| {
        [
            Probe::Protect { pages, others },
            Probe::Discard { pages, others },
            Probe::Unmap { pages, others },
            Probe::Barrier { others },
        ]
    };
    let names = ["mprotect", "madvise DONTNEED", "munmap", "membarrier"];
    let mut all = Vec::new();
    for (name, (with, alone)) in names.into_iter().zip(one(1, 1).into_iter().zip(one(1, 0))) {
        let about = format!("{name}: another CPU");
        all.push(finding(None, &about, "ns", more(with, alone), "not used"));
    }
    let call = needed(samples, Probe::Call).and_then(|summary| summary.within(0.15));
    let call = call.map(|summary| measured(summary, "getppid"));
    all.push(finding(None, "a system call", "ns", call, "in paths"));
    all
}
