//! Every protocol of the zoo gets the verdict that is recorded for it.

use lookaside_machine::explore::Budget;
use lookaside_scenarios::{
    scenario::Depth,
    zoo::{self, Expected, Form, Judgement},
};

#[test]
fn every_protocol_gets_its_verdict() {
    let judgements: Vec<_> =
        zoo::all().map(|protocol| zoo::judge(protocol, Budget::UNLIMITED)).collect();
    let wrong: Vec<_> = judgements.iter().filter(|judgement| !judgement.agrees()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The table of how much was explored.
    let page = include_str!("../../../docs/zoo.md").replace(' ', "");
    for Judgement { name, schedules, steps, .. } in
        judgements.iter().filter(|judgement| judgement.expected == Expected::Sound)
    {
        let row = format!("\n|{name}|{schedules}|{steps}|\n");
        assert!(page.contains(&row), "docs/zoo.md does not say: {}", row.trim());
    }
}

#[test]
fn broken_protocols_have_a_repair_and_sound_ones_have_none() {
    for protocol in zoo::all() {
        let broken = protocol.expected != Expected::Sound;
        assert_eq!(protocol.repair.is_some(), broken, "{}", protocol.name);
    }
}

#[test]
fn sound_protocols_break_without_their_flushes() {
    for protocol in zoo::all().filter(|protocol| protocol.expected == Expected::Sound) {
        let report = protocol.open(Form::NoFlush).explore(Depth::Exhaust, Budget::UNLIMITED);
        assert!(report.failure.is_some(), "{} without flushes shows nothing", protocol.name);
    }
}

#[test]
fn schedules_replay_to_the_same_violation() {
    let protocol = zoo::find("fire-and-forget").expect("a protocol of this name");
    let judgement = zoo::judge(protocol, Budget::UNLIMITED);
    let schedule = judgement.schedule.expect("it breaks").parse().expect("a schedule");
    assert_eq!(zoo::of(&schedule).expect("its protocol").name, protocol.name);
    let failure = protocol.replay(&schedule).expect("the schedule fits").expect("it breaks again");
    assert_eq!(Some(failure.violation.rule), protocol.expected.rule());
}

#[test]
fn names_are_unique_and_each_has_a_section_in_the_docs() {
    let page = include_str!("../../../docs/zoo.md");
    let mut names: Vec<_> = zoo::all().map(|protocol| protocol.name).collect();
    for name in &names {
        assert!(page.contains(&format!("\n### {name}\n")), "docs/zoo.md has no section `{name}`");
    }
    let sections = page.lines().filter(|line| line.starts_with("### ")).count();
    assert_eq!(sections, names.len(), "docs/zoo.md has a section without a protocol");
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name is there twice");
}
