//! Every specimen of the zoo gets its verdict, for its own reason.

use lookaside_machine::explore::Budget;
use lookaside_scenarios::{
    scenario::Depth,
    zoo::{self, Expected, Form},
};

#[test]
fn every_specimen_gets_its_verdict() {
    let wrong: Vec<_> = zoo::all()
        .map(|specimen| zoo::judge(specimen, Budget::UNLIMITED))
        .filter(|judgement| !judgement.agrees())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_broken_has_a_repair_and_what_is_sound_has_none() {
    for specimen in zoo::all() {
        let broken = specimen.expected != Expected::Sound;
        assert_eq!(specimen.repair.is_some(), broken, "{}", specimen.name);
    }
}

#[test]
fn what_is_sound_is_so_by_its_flushes() {
    for specimen in zoo::all().filter(|specimen| specimen.expected == Expected::Sound) {
        let report = specimen.open(Form::Mute).explore(Depth::Exhaust, Budget::UNLIMITED);
        assert!(report.failure.is_some(), "{} without flushes shows nothing", specimen.name);
    }
}

#[test]
fn schedules_are_seen_again() {
    let specimen = zoo::find("fire-and-forget").expect("a specimen of this name");
    let judgement = zoo::judge(specimen, Budget::UNLIMITED);
    let schedule = judgement.schedule.expect("it breaks").parse().expect("a schedule");
    assert_eq!(zoo::of(&schedule).expect("its specimen").name, specimen.name);
    let failure = specimen.replay(&schedule).expect("the schedule fits").expect("it breaks again");
    assert_eq!(Some(failure.violation.rule), specimen.expected.rule());
}

#[test]
fn names_are_unique_and_each_has_its_section() {
    let page = include_str!("../../docs/zoo.md");
    let mut names: Vec<_> = zoo::all().map(|specimen| specimen.name).collect();
    for name in &names {
        assert!(page.contains(&format!("\n### {name}\n")), "docs/zoo.md has no section `{name}`");
    }
    let sections = page.lines().filter(|line| line.starts_with("### ")).count();
    assert_eq!(sections, names.len(), "docs/zoo.md has a section without a specimen");
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name is there twice");
}
