//! Made-up documents, to look at the forms of reports and to test them. No number here was measured.

use lookaside_simulation::data;

use crate::{
    Blame, Latency, Operations, Replayed, Upkeep, WorkingSet,
    report::{About, Assumptions, Curve, CurvePoint, Document, Loss, Question, Sensitivity, Swing},
};

const MS: u64 = 1_000_000_000;

/// Three strategies that cost more or less of each cause; the second passes the first on the way from 4
/// to 8 CPUs.
pub(crate) fn ordinary() -> Document {
    let results = [("linux-ipi-2025", 1.0), ("lookaside", 0.5), ("freebsd-2019", 1.34)];
    let mut results: Vec<Replayed> =
        results.into_iter().map(|(name, more)| result(name, 8, more, &BLAMED)).collect();
    results[1].upkeep.refills += 30 * MS;
    results[1].blame[0].upkeep.refills += 30 * MS;
    results[1].total = results[1].upkeep.total();
    Document {
        version: Document::VERSION,
        question: question("postgres", "pgbench.trace"),
        machine: about(),
        results,
        scaling: vec![
            curve("linux-ipi-2025", &[0.0009, 0.0021, 0.005, 0.018, 0.043, 0.094, 0.2]),
            curve("lookaside", &[0.0012, 0.0028, 0.0061, 0.0094, 0.014, 0.023, 0.041]),
            curve("freebsd-2019", &[0.001, 0.0025, 0.0069, 0.024, 0.071, 0.19, 0.52]),
        ],
        certainty: Vec::new(),
        turned: None,
        plausible: None,
        assumptions: Assumptions {
            working_set: WorkingSet { window: 100_000, hot: 64, others: 16, pool: 512 },
            working_set_from: "It was not measured: these are the defaults.".into(),
            flushes_from: "As the kernel recorded them.".into(),
            lost: 0,
            unknown: vec![
                Loss {
                    what: "flushes without a known address",
                    count: 1_204,
                    instead: "they are of present pages of the space, as many as were flushed",
                },
                Loss { what: "threads whose origin was not seen", count: 3, instead: "alone" },
            ],
            notes: vec!["The numbers of this page are made up.".into()],
        },
        sensitivity: Some(sensitivity()),
    }
}

/// As many strategies and initiators as a page should bear.
pub(crate) fn crowded() -> Document {
    let names: Vec<(String, String)> = (0..1000)
        .map(|i| {
            let operation = ["munmap", "mprotect", "madvise", "fault", "exit"][i % 5];
            (format!("worker-{:03}", i / 5), operation.to_owned())
        })
        .collect();
    let names: Vec<(&str, &str)> = names.iter().map(|(p, d)| (p.as_str(), d.as_str())).collect();
    let strategy = |i: usize| format!("strategy-{i:02}");
    let more = |i: usize| 1.0 + 0.31 * ((i * 7) % 16) as f64;
    let mut document = ordinary();
    document.question = question("a build", "build.trace");
    document.results = (0..16).map(|i| result(&strategy(i), 64, more(i), &names)).collect();
    document.results[5].operations.broadcasts = 120_000;
    let shares = |i: usize| {
        let share = |k: usize| 0.0006 * more(i) * (1.25 + 0.03 * i as f64).powi(k as i32);
        (0..9).map(share).collect::<Vec<f64>>()
    };
    document.scaling = (0..16).map(|i| curve(&strategy(i), &shares(i))).collect();
    document.assumptions.lost = 2_400;
    document
}

/// Nothing was flushed.
pub(crate) fn idle() -> Document {
    let mut document = ordinary();
    document.question = question("sleep", "sleep.trace");
    for result in &mut document.results {
        (result.total, result.upkeep) = (0, Upkeep::default());
        result.operations = Operations::default();
        result.blame.clear();
        result.latencies.clear();
    }
    document.scaling.clear();
    document.sensitivity = None;
    document.assumptions.unknown.clear();
    document
}

/// Names that would do harm in a page that believes them.
pub(crate) fn hostile() -> Document {
    let mut document = ordinary();
    let names = [
        ("<script>", "</script><script>window.harm=1</script>"),
        ("\"><img src=x onerror=window.harm=1>", "a & b"),
        ("{{ 7 * 7 }}", "<!--"),
    ];
    for result in &mut document.results {
        for (blame, (process, operation)) in result.blame.iter_mut().zip(names) {
            (blame.process, blame.operation) = (process.to_owned(), operation.to_owned());
        }
    }
    document.question.subject = "<b>bold</b>".into();
    document.question.command = "lookaside replay '</code><script>window.harm=1</script>'".into();
    document.question.input = "</title><script>window.harm=1</script>.trace".into();
    document
}

const BLAMED: [(&str, &str); 9] = [
    ("postgres", "munmap"),
    ("postgres", "fault"),
    ("checkpointer", "madvise"),
    ("postgres", "mprotect"),
    ("autovacuum", "munmap"),
    ("bash", "fork"),
    ("pgbench", "exit"),
    ("kworker/3:1", "switch"),
    ("bash", "execve"),
];

fn question(subject: &str, input: &str) -> Question {
    Question {
        subject: subject.into(),
        input: input.into(),
        hash: Question::hash_of(input.as_bytes()),
        command: format!(
            "lookaside replay {input} --machine zen4 --strategy linux-ipi-2025,lookaside --report out"
        ),
        version: env!("CARGO_PKG_VERSION").into(),
        seed: 1,
    }
}

fn about() -> About {
    About::of(&data::Machine::named("zen4").expect("there is this machine"))
}

/// A result whose causes are shared out among some initiators, the first of whom get more.
fn result(strategy: &str, cpus: usize, more: f64, blamed: &[(&str, &str)]) -> Replayed {
    let weights: Vec<f64> = (0..blamed.len()).map(|i| 1.0 / (1 + i * i) as f64).collect();
    let all: f64 = weights.iter().sum();
    let blame =
        blamed.iter().zip(&weights).enumerate().map(|(i, (&(process, operation), weight))| {
            let part = |ms: f64, tilt: usize| {
                let tilted = 0.7 + 0.1 * ((i + tilt) % 7) as f64;
                (ms * more * tilted * weight / all * MS as f64) as u64
            };
            let upkeep = Upkeep {
                switches: part(90.0, 3),
                refills: part(160.0, 5),
                flushes: part(240.0, 1),
                waits: part(610.0, 0),
                interrupted: part(330.0, 2),
                fabric: 0,
            };
            let count = (9_000.0 * weight) as u64 + 1;
            let (process, operation) = (process.to_owned(), operation.to_owned());
            Blame { process, operation, count, upkeep, interrupts: count * 3 }
        });
    let blame: Vec<Blame> = blame.collect();
    let sum = |of: fn(&Upkeep) -> u64| blame.iter().map(|blame| of(&blame.upkeep)).sum();
    let upkeep = Upkeep {
        switches: sum(|upkeep| upkeep.switches),
        refills: sum(|upkeep| upkeep.refills),
        flushes: sum(|upkeep| upkeep.flushes),
        waits: sum(|upkeep| upkeep.waits),
        interrupted: sum(|upkeep| upkeep.interrupted),
        fabric: sum(|upkeep| upkeep.fabric),
    };
    let latency = |of, count, p50: f64| {
        let ps = |times: f64| (p50 * times * more * 1e3) as u64;
        Latency { of, count, p50: ps(1.0), p90: ps(2.2), p99: ps(6.1), max: ps(31.0) }
    };
    Replayed {
        machine: "zen4".into(),
        strategy: strategy.into(),
        cpus,
        traced: 10_000 * MS,
        total: upkeep.total(),
        upkeep,
        rest: Upkeep::default(),
        refills_band: None,
        operations: Operations {
            switches: 410_233,
            flushes: 181_720,
            interrupts: (402_881.0 * more) as u64,
            page_flushes: 903_410,
            full_flushes: 20_114,
            broadcasts: 0,
            walks: 7_340_982,
            accesses: 93_001_223,
        },
        latencies: vec![
            latency("flush", 181_720, 2_900.0),
            latency("switch", 410_233, 310.0),
            latency("handler", 402_881, 840.0),
        ],
        blame,
        steps: 1_204_881,
        events: 88_120_034,
        observed: None,
    }
}

fn curve(strategy: &str, shares: &[f64]) -> Curve {
    let point = |(i, &share): (usize, &f64)| {
        let cpus = 1 << i;
        CurvePoint { cpus, total: (share * cpus as f64 * 10_000.0 * MS as f64) as u64, share }
    };
    Curve { strategy: strategy.into(), points: shares.iter().enumerate().map(point).collect() }
}

fn sensitivity() -> Sensitivity {
    let swing = |(parameter, unit, value, at_low, at_high): (&str, &str, f64, f64, f64)| Swing {
        parameter: parameter.into(),
        unit: unit.into(),
        value,
        low: value / 2.0,
        high: value * 2.0,
        at_low,
        at_high,
    };
    Sensitivity {
        strategy: "lookaside".into(),
        baseline: "linux-ipi-2025".into(),
        factor: 0.52,
        swings: [
            ("prices.interrupt_deliver", "ns", 450.0, 0.66, 0.41),
            ("prices.interrupt_entry", "ns", 300.0, 0.6, 0.45),
            ("working_set.hot", "pages", 64.0, 0.47, 0.61),
            ("prices.walk", "cycles", 26.0, 0.48, 0.58),
            ("prices.line_cluster", "ns", 20.0, 0.53, 0.5),
            ("prices.flush_page", "cycles", 109.0, 0.51, 0.54),
            ("prices.atomic", "cycles", 8.0, 0.518, 0.523),
        ]
        .map(swing)
        .to_vec(),
    }
}
