//! The rules for numbers have teeth, and the data of the repository keep them.

use lookaside_simulation::{
    data::{self, Files, Machine},
    strategy, workload,
};

use super::{MACHINE, RESULTS, SOURCED, WORKLOADS, edited, files, place};

#[test]
fn the_rules_for_fitted_numbers_have_teeth() {
    let breach = |machine: &str, results: &str, at: &str, why: &str| {
        let breaches = files(machine, results, WORKLOADS).breaches();
        let expected = format!("{}{why}", place("machines/good.toml", machine, at));
        assert!(
            breaches.len() == 1 && breaches[0].starts_with(&expected),
            "{breaches:?}\nshould be\n{expected}"
        );
    };
    let fitted = |to: &str| edited(MACHINE, "fitted = \"switch\"", &format!("fitted = \"{to}\""));
    let cases = [
        ("swich", "is fitted to nothing: there is no result `swich`; did you mean `switch`?"),
        ("switch:2", "is fitted to nothing: `switch` has no variant 2, only 1"),
        ("switch:1", "is fitted to `switch:1`, which is to be predicted"),
        ("switch@1", "is fitted to nothing: `switch` has no point 1"),
        ("curve:1", "is fitted to nothing: `curve:1` is a curve; name a point of it with `@x`"),
        ("curve@1", "is fitted to `curve@1`, which is 0 by definition"),
        ("curve:1@2", "is fitted to `curve:1@2`, which is to be predicted"),
    ];
    for (to, why) in cases {
        breach(&fitted(to), RESULTS, "root_flush", &format!("`prices.root_flush` {why}"));
    }
    let both = edited(RESULTS, "fit_x = [1]", "fit_x = [1, 2]");
    let why = "`prices.root_flush` is fitted to `curve:1@2`, which is a value of `other`";
    breach(&fitted("curve:1@2"), &both, "root_flush", why);
    let why = "`paths.fault` is fitted to `curve:1@1`, and so is `root_flush`";
    breach(&fitted("curve:1@1.0"), RESULTS, "fault", &why.replace("`root_", "`prices.root_"));
}

#[test]
fn something_is_always_predicted() {
    // The machine has three published values: both of `switch`, and one of `curve` beside its
    // baseline, which is 0 by definition.
    let results = edited(RESULTS, "role = \"predict\"", "role = \"fit\"");
    let fault = "fitted = \"curve:1@1\" }";
    let third = edited(
        MACHINE,
        fault,
        &format!("{fault}\nmore = {{ value = 1, unit = \"us\", fitted = \"switch:1\" }}"),
    );
    let breaches = files(&third, &results, WORKLOADS).breaches();
    let expected =
        "machines/good.toml: 3 numbers are fitted and 3 values are published: nothing is predicted";
    assert_eq!(breaches, [expected]);
}

#[test]
fn a_fitted_number_can_be_shared_by_machines_if_it_is_the_same() {
    let mut files = files(MACHINE, RESULTS, WORKLOADS);
    let shared = r#"root_flush = { value = 0.1, unit = "us", fitted = "switch" }"#;
    let other = files.machines[1].text.clone();
    let sourced = shared.replace("fitted = \"switch\"", SOURCED);
    // On `other`, one value is published: one more must be, for something to be predicted.
    files.published[0].text =
        edited(RESULTS, "machines = [\"good\", \"other\"]", "machine = \"other\"");
    files.machines[0].text = edited(MACHINE, "fitted = \"curve:1@1\"", SOURCED);
    files.machines[1].text = edited(&other, &sourced, shared);
    assert_eq!(files.breaches(), [""; 0]);
    files.machines[1].text = edited(&other, &sourced, &shared.replace("0.1", "0.2"));
    let breaches = files.breaches();
    assert_eq!(breaches.len(), 1, "{breaches:?}");
    assert!(breaches[0].contains("`switch`, which is a value of `good`, where this is another"));
}

#[test]
fn a_source_that_nothing_uses_is_reported() {
    let text = edited(MACHINE, "[sources]", "[sources]\nidle = \"A book\"");
    let breaches = files(&text, RESULTS, WORKLOADS).breaches();
    let at = place("machines/good.toml", &text, "idle");
    assert_eq!(breaches, [format!("{at}`sources.idle` is used by nothing")]);
}

#[test]
fn the_data_of_the_repository_keep_the_rules() {
    let breaches = Files::own().breaches();
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    for name in data::machines() {
        let machine = Machine::named(name).expect(name);
        assert_eq!(machine.key, name);
    }
    for result in data::published().expect("good results") {
        let id = &result.id;
        let workload = workload::find(&result.workload).expect(id);
        // Along a curve, either the workload changes or the machine does.
        let curve = result.baseline.points[0].x.is_some() && result.machines.len() == 1;
        assert!(!curve || workload.x_name.is_some(), "{id} is a curve, and its workload has no x");
        for name in &result.machines {
            let machine = Machine::named(name).expect(id);
            for series in result.series().chain([&result.recommended]) {
                if let Err(why) = strategy::find(&series.strategy, &machine) {
                    panic!("{id}: {why}");
                }
            }
        }
    }
    let parameters = Files::own().parameters().expect("good parameters");
    for name in parameters.workloads.keys() {
        workload::find(name).expect("`workloads.toml` is about workloads that there are");
    }
}
