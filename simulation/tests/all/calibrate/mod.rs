//! Calibration: what follows from series that were recorded, and what is refused.
#![cfg(target_os = "linux")]

use lookaside_simulation::{
    calibrate::{
        Recording,
        counts::Disturbance,
        file,
        findings::{self, Finding},
        fit,
        predict::{self, BOUND, COMPARED},
        probe::Probe,
        series::Series,
    },
    data::{Program, Quality, Text, Value},
    workload::{Setup, file::Workload},
};
use lookaside_terminal::Refused;

/// A guest with two CPUs (Zen 5, KVM), while compilers ran beside it; every series thinned to 48 blocks.
const GUEST: &str = include_str!("guest.json");

fn guest() -> Recording {
    serde_json::from_str(GUEST).expect("the recording can be read")
}

/// All that follows.
fn findings(recording: &Recording) -> Result<Vec<Finding>, Refused> {
    let Recording { facts, samples } = recording;
    let mut findings = findings::findings(samples, facts);
    fit::complete(&mut findings, samples, facts)?;
    Ok(findings)
}

fn text(recording: &Recording) -> String {
    file::text(&findings(recording).expect("a machine"), &recording.facts)
}

#[track_caller]
fn find<'f>(findings: &'f [Finding], about: &str) -> &'f Finding {
    let found = |finding: &&Finding| finding.key == Some(about) || finding.about == about;
    findings.iter().find(found).expect("there is such a finding")
}

/// The value of a finding.
#[track_caller]
fn value(findings: &[Finding], about: &str) -> f64 {
    find(findings, about).outcome.as_ref().expect("it is known").value
}

/// Why there is none.
#[track_caller]
fn refused(findings: &[Finding], about: &str) -> String {
    find(findings, about).outcome.as_ref().expect_err("it is refused").clone()
}

#[test]
fn a_recording_gives_the_machine_that_it_was_made_on() {
    let findings = findings(&guest()).unwrap();
    assert_eq!(value(&findings, "tlb.first"), 96.0);
    // 4096, of which the knee is soft.
    let second = value(&findings, "tlb.second");
    assert!((3700.0..4500.0).contains(&second), "{second}");
    assert_eq!(value(&findings, "pages flushed one by one"), 33.0);
    assert_eq!(value(&findings, "features.virtualised"), 1.0);
    assert_eq!(value(&findings, "topology.cores_per_cluster"), 2.0);
    let page = value(&findings, "prices.flush_page");
    assert!((36.0..50.0).contains(&page), "{page}");
    // What cannot be known of a guest with two CPUs.
    assert!(refused(&findings, "pages of 2 MiB").contains("host"));
    assert!(refused(&findings, "prices.line_socket").contains("no two CPUs"));
    assert!(refused(&findings, "prices.interrupt_send").contains("three CPUs"));
    assert!(refused(&findings, "tlb.first_ways").contains("cannot tell"));
}

#[test]
fn the_file_is_a_machine_by_all_rules_with_the_very_numbers() {
    let recording = guest();
    let (findings, text) = (findings(&recording).unwrap(), text(&recording));
    let machine = file::check("mine.toml", &text).unwrap();
    let known = findings.iter().filter_map(|one| Some((one.key?, one.outcome.as_ref().ok()?)));
    let mut count = 0;
    for (key, known) in known {
        let found = machine.values.iter().find(|value| value.name == key).expect(key);
        // What the target loses is apart, and assumed: the sum is what was measured.
        let part = machine.values.iter().find(|value| value.part_of == [found.key()]);
        let sum = found.number + part.map_or(0.0, |part| part.number);
        assert!((sum - file::number(known.value)).abs() < 1.0, "{key}: {sum}");
        assert!(part.is_some() || sum == file::number(known.value), "{key}: {sum}");
        assert!(found.note.as_ref().is_some_and(|note| note.contains(&known.remark)), "{key}");
        count += 1;
    }
    let target = ["interrupt_entry", "interrupt_exit"]
        .map(|key| machine.values.iter().find(|value| value.key() == key).map(Value::quality));
    assert_eq!(target, [Some(Quality::Assumed); 2]);
    assert_eq!(machine.values.len(), count + target.len());
    assert!(machine.note.as_ref().unwrap().contains("No prices.interrupt_send: it takes three"));
    // A number without a source is no machine file, wherever it comes from.
    let Refused(why) =
        file::check("mine.toml", &text.replace("source = \"here\", confidence = \"V\", ", ""))
            .unwrap_err();
    assert!(why.contains("neither `source` nor `fitted`"), "{why}");
    let unused = text.clone() + "elsewhere = \"nothing\"\n";
    assert!(file::check("mine.toml", &unused).unwrap_err().0.contains("used by nothing"));
}

/// What was measured comes out again, where a workload does what the probe did.
#[test]
fn calls_of_a_workload_take_what_was_measured() {
    let recording = guest();
    let machine = file::check("mine.toml", &text(&recording)).unwrap();
    let took = |probe: Probe| recording.samples[&probe].summary().unwrap().median;
    let (pages, others) = (1, 0);
    for (statement, measured) in [
        ("call", took(Probe::Call)),
        ("protect 0 1", took(Probe::Protect { pages, others })),
        ("discard 0 1", took(Probe::Discard { pages, others })),
        ("discard 0 32", took(Probe::Discard { pages: 32, others })),
        ("unmap 0 1", took(Probe::Unmap { pages, others })),
        ("unmap 0 32", took(Probe::Unmap { pages: 32, others })),
    ] {
        let text = format!(
            "about = \"a call\"\ncpus = 1\n[[space]]\nname = \"app\"\npages = 32\n\
             [[threads]]\nname = \"one\"\nspace = \"app\"\nprogram = \"\"\"\n\
             repeat 50\nwrite 0 32\nbegin t\n{statement}\nend t\nallow 0 32\ndone\n\"\"\"\n"
        );
        let options = std::collections::BTreeMap::new();
        let setup = Setup {
            machine: &machine,
            strategy: fit::strategy(&recording.facts),
            cpus: None,
            x: None,
            options: &options,
            seed: 1,
            timeline: 0,
        };
        let program = Program::read(&Text::new("w.toml", text)).unwrap();
        let outcome = Workload::new(program).unwrap().run(&setup).unwrap();
        let off = outcome.metric("t").unwrap() / measured - 1.0;
        // No path was made for 32 pages that are unmapped: theirs are those of `madvise`.
        let bound = if statement == "unmap 0 32" { 0.15 } else { 0.02 };
        assert!(off.abs() < bound, "{statement}: {measured} ns, off by {off}");
    }
}

#[test]
fn predictions_of_a_recording_are_within_the_bound() {
    let recording = guest();
    let machine = file::check("mine.toml", &text(&recording)).unwrap();
    let all = predict::predictions(&machine, &recording.samples, &recording.facts);
    let judged: Vec<_> = all.iter().filter_map(|one| one.is_right()).collect();
    assert_eq!(judged, [true; 3], "{all:?}");
    for one in all.iter().filter(|one| one.beyond.is_none()) {
        assert!(one.error().unwrap().abs() < BOUND, "{one:?}");
    }
    // A machine whose interrupts take twice as long is found out.
    let mut slow = machine;
    let deliver = lookaside_machine::timed::Price::InterruptDeliver;
    slow.model.prices.set(deliver, 2 * slow.model.prices.charge(deliver));
    let all = predict::predictions(&slow, &recording.samples, &recording.facts);
    assert_eq!(all[2].is_right(), Some(false), "{all:?}");
}

#[test]
fn no_number_knows_what_is_predicted() {
    let recording = guest();
    let mut other = recording.clone();
    for probe in COMPARED {
        let series = other.samples.get_mut(&probe).expect("it was measured");
        series.kept.iter_mut().for_each(|value| *value *= 3.0);
    }
    assert_eq!(text(&recording), text(&other));
    // It is these series that predictions are compared with.
    let machine = file::check("mine.toml", &text(&recording)).unwrap();
    let all = predict::predictions(&machine, &other.samples, &other.facts);
    assert!(all.iter().all(|one| one.error().unwrap() < -0.5), "{all:?}");
}

#[test]
fn unstable_or_disturbed_series_are_refused_and_noted_in_file() {
    let mut recording = guest();
    let barrier = recording.samples.get_mut(&Probe::Barrier { others: 1 }).unwrap();
    barrier.kept.iter_mut().step_by(2).for_each(|value| *value *= 2.0);
    let discarded = [(Disturbance::Preempted, 20)].into_iter().collect();
    let few = Series { kept: vec![5.2; 3], discarded };
    recording.samples.insert(Probe::Atomic, few);
    let findings = findings(&recording).unwrap();
    let why = refused(&findings, "prices.interrupt_deliver");
    assert!(why.contains("unstable"), "{why}");
    let why = refused(&findings, "prices.atomic");
    assert_eq!(why, "3 of 23 blocks could be used, 20: preempted");
    let machine = file::check("mine.toml", &text(&recording)).unwrap();
    assert!(machine.values.iter().all(|value| value.name != "prices.interrupt_deliver"));
    let note = machine.note.as_ref().unwrap();
    assert!(note.contains("No prices.atomic: 3 of 23 blocks could be used"), "{note}");
    assert!(note.contains("without it: for nothing"), "{note}");
}

#[test]
fn of_a_second_level_that_cannot_be_told_there_is_a_bound() {
    let mut recording = guest();
    for (probe, series) in &mut recording.samples {
        if let Probe::Pages(2500..9000) = probe {
            // Others use the second level too, in every other quarter of the time.
            let quarter = series.kept.len() / 4;
            for (i, value) in series.kept.iter_mut().enumerate() {
                *value *= if i / quarter % 2 == 0 { 3.0 } else { 1.0 };
            }
        }
    }
    let findings = findings(&recording).unwrap();
    let second = find(&findings, "tlb.second").outcome.as_ref().unwrap();
    assert!((1024.0..3000.0).contains(&second.value), "{second:?}");
    assert!(second.remark.starts_with("only that it has these at least"), "{second:?}");
}

#[test]
fn a_machine_without_a_first_level_is_no_machine() {
    let mut recording = guest();
    for (probe, series) in &mut recording.samples {
        if let Probe::Pages(pages) = probe {
            // Something evicts what the chase brings in, now and then.
            let noise = (pages * 7919 % 13) as f64;
            series.kept.iter_mut().for_each(|value| *value += noise);
        }
    }
    let Refused(why) = findings(&recording).unwrap_err();
    assert!(why.starts_with("no machine without the first level of its TLB"), "{why}");
}
