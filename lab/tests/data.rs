//! The repository's machines and published results keep the rules for numbers, and files that do not
//! keep them are refused with the file, the line and the key.

use std::{fs, path::PathBuf};

use lookaside_lab::{
    data::{self, Confidence, Files, Isa, Machine, Origin, Role, Target, Text},
    strategy, workload,
};
use lookaside_machine::timed::{CacheShape, Price};

/// A machine that is right. Tests change a line of it.
const MACHINE: &str = r#"name = "A machine"
isa = "x86_64"

[topology]
threads = { value = 2, unit = "threads", source = "paper", confidence = "R" }
cores_per_cluster = { value = 4, unit = "cores", source = "paper", confidence = "R2" }

[cpu]
clock = { value = 2.5, unit = "GHz", source = "paper", confidence = "R" }

[tlb]
first = { value = 64, unit = "entries", source = "paper", confidence = "R" }
first_ways = { value = 4, unit = "ways", source = "paper", confidence = "R" }
second = { value = 1536, unit = "entries", source = "paper", confidence = "R" }

[prices]
walk = { value = 26, unit = "cycles", source = "paper", confidence = "D", note = "a sum" }
line_socket = { value = 20.5, unit = "ns", source = "ours", confidence = "V", proxy = true }
root_flush = { value = 0.1, unit = "us", fitted = "switch" }

[paths]
fault = { value = 1250, unit = "ps", fitted = "curve:1@1" }  # kept

[sources]
paper = "A paper"
ours = "Measured with a clock"
"#;

/// Results that are right.
const RESULTS: &str = r#"
[[result]]
id = "switch"
seed = 2
source = "paper"
confidence = "R"
machine = "good"
workload = "pingpong"
metric = "time"
measure = "time_per_iteration"
unit = "us"
scale = 0.001
better = "lower"
[result.baseline]
name = "old"
strategy = "lookaside"
value = 3
role = "fit"
[[result.variant]]
name = "new"
strategy = "lookaside"
options = { pages = 512 }
value = 2.0
role = "predict"
cause = "because"
[result.recommended]
strategy = "lookaside"

[[result]]
id = "curve"
source = "paper"
confidence = "R"
machines = ["good", "other"]
workload = "pingpong"
metric = "change"
measure = "time_per_iteration"
unit = "%"
relative = true
better = "higher"
x_name = "nodes"
[result.baseline]
name = "old"
strategy = "lookaside"
x = [1, 2]
values = [0, 0]
role = "fit"
[[result.variant]]
name = "new"
strategy = "lookaside"
x = [1, 2]
values = [-5.5, 7]
fit_x = [1]
role = "predict"
[result.recommended]
strategy = "lookaside"
options = { pages = 1 }

[sources]
paper = "A paper"
"#;

const WORKLOADS: &str = r#"
[pingpong]
own_pages = { value = 12, unit = "pages", source = "count", confidence = "V" }
[sources]
count = "Counted"
"#;

const SOURCED: &str = r#"source = "paper", confidence = "R""#;

/// The machine `good`, another one with nothing fitted, and the results.
fn files(machine: &str, results: &str, workloads: &str) -> Files {
    let other = MACHINE.replace(r#"fitted = "switch""#, SOURCED);
    let other = other.replace(r#"fitted = "curve:1@1""#, SOURCED);
    Files {
        machines: vec![
            Text::new("machines/good.toml", machine),
            Text::new("machines/other.toml", other),
        ],
        published: vec![
            Text::new("published/results.toml", results),
            Text::new("published/workloads.toml", workloads),
        ],
    }
}

/// A text in which the first `old` is `new` instead.
fn edited(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "`{old}` is not in the text");
    text.replacen(old, new, 1)
}

/// Where a part of a text is, as messages say it.
fn place(file: &str, text: &str, part: &str) -> String {
    let line = 1 + text.lines().position(|line| line.contains(part)).expect(part);
    format!("{file}:{line}: ")
}

#[test]
fn a_machine_file_is_read() {
    let machine = Machine::read(&Text::new("machines/good.toml", MACHINE)).expect("a good machine");
    assert_eq!((machine.key.as_str(), machine.isa), ("good", Isa::X86_64));
    assert_eq!(machine.model.topology.cpus(), 8);
    assert_eq!(machine.model.tlb.first, CacheShape { entries: 64, ways: 4 });
    assert_eq!(machine.model.tlb.second, Some(CacheShape::full(1536)));
    assert_eq!((machine.model.fabric_window, machine.model.interrupt_group), (1, 1));
    let prices = &machine.model.prices;
    let times =
        [Price::Walk, Price::LineSocket, Price::RootFlush, Price::Hit].map(|p| prices.get(p));
    assert_eq!(times, [Some(10_400), Some(20_500), Some(100_000), None]);
    assert_eq!(machine.path("fault").expect("a path"), 1250);
    let names: Vec<_> = machine.values.iter().map(|value| value.name.as_str()).collect();
    assert_eq!(names[..3], ["topology.threads", "topology.cores_per_cluster", "cpu.clock"]);
    let line_socket = machine.values.iter().find(|value| value.key() == "line_socket");
    let (key, confidence) = ("ours".to_owned(), Confidence::Measured);
    let origin = Origin::Source { key, confidence, proxy: true };
    assert_eq!(line_socket.expect("a price").origin, origin);
}

#[test]
fn files_of_results_are_read() {
    let files = files(MACHINE, RESULTS, WORKLOADS);
    assert_eq!(files.breaches(), [""; 0]);
    let published = files.published().expect("good results");
    let [switch, curve] = &published[..] else { panic!("two results: {published:?}") };
    assert_eq!((switch.seed, switch.scale, switch.relative), (Some(2), 0.001, false));
    assert_eq!((switch.confidence, switch.citation.as_str()), (Confidence::Read, "A paper"));
    assert_eq!(switch.causes, ["", "because"]);
    assert_eq!(switch.variants[0].options["pages"], 512.0);
    assert_eq!((curve.machine(0), curve.machine(1)), ("good", "other"));
    let roles: Vec<_> = curve.variants[0].points.iter().map(|point| point.role).collect();
    assert_eq!(roles, [Role::Fit, Role::Predict]);
    let target: Target = "curve:1@2".parse().expect("a target");
    let found = target.find(&published).expect("a point");
    assert_eq!((found.point.value, found.machine), (7.0, "other"));
    let parameters = files.parameters().expect("good parameters");
    assert_eq!(parameters.of("pingpong")["own_pages"], 12.0);
    assert!(parameters.of("another").is_empty());
}

#[test]
fn a_bad_machine_file_is_refused_with_file_key_and_line() {
    let sourced =
        |value: &str, unit: &str| format!("{{ value = {value}, unit = \"{unit}\", {SOURCED} }}");
    // What is replaced, by what, where the message points, and how it goes on.
    let walk =
        r#"{ value = 26, unit = "cycles", source = "paper", confidence = "D", note = "a sum" }"#;
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            "walk = {",
            "wlak = {",
            "wlak",
            "`prices.wlak` is no key of this table; did you mean `walk`?",
        ),
        (
            "[prices]",
            "[price]",
            "[price]",
            "`price` is no key of this table; did you mean `prices`?",
        ),
        (
            "value = 26",
            "valu = 26",
            "walk",
            "`prices.walk.valu` is no key of this table; did you mean `value`?",
        ),
        (", unit = \"cycles\"", "", "walk", "`prices.walk` has no unit"),
        (
            "\"cycles\"",
            "\"entries\"",
            "walk",
            "`prices.walk` has the unit `entries`, which does not fit",
        ),
        (
            "\"threads\"",
            "\"cores\"",
            "threads",
            "`topology.threads` has the unit `cores`, which does not fit",
        ),
        ("value = 26", "value = -26", "walk", "`prices.walk` is negative"),
        ("value = 26", "value = nan", "walk", "`prices.walk.value` is not finite"),
        ("value = 26", "value = inf", "walk", "`prices.walk.value` is not finite"),
        ("value = 26", "value = \"26\"", "walk", "`prices.walk.value` is a text, not a number"),
        ("value = 26, ", "", "walk", "`prices.walk.value` is missing"),
        ("value = 26", "value = 1e30", "walk", "`prices.walk` is longer than a quarter of an hour"),
        (walk, "26", "walk", "`prices.walk` is a bare number"),
        (
            "value = 4, unit = \"ways\"",
            "value = 0, unit = \"ways\"",
            "first_ways",
            "`tlb.first_ways` is zero",
        ),
        ("value = 64", "value = 0", "first =", "`tlb.first` is zero"),
        ("value = 64", "value = 6.5", "first =", "`tlb.first` is not a whole number"),
        (
            "value = 64",
            "value = 66",
            "first_ways",
            "`tlb.first_ways` is 4, which does not divide 66 entries",
        ),
        (
            "second = { value = 1536, unit = \"entries\"",
            "second_ways = { value = 1, unit = \"ways\"",
            "second_ways",
            "`tlb.second_ways` is there, but no `second`",
        ),
        ("first = {", "walk_cache = {", "first_ways", "`tlb.first_ways` is there, but no `first`"),
        ("[tlb]", "[unused]", "[unused]", "`unused` is no key of this table"),
        ("value = 2,", "value = 0,", "threads", "`topology.threads` is zero"),
        (
            "value = 4, unit = \"cores\"",
            "value = 4096, unit = \"cores\"",
            "[topology]",
            "`topology` makes 8192 CPUs; a machine can have 4096",
        ),
        (
            "source = \"paper\", confidence = \"D\", ",
            "",
            "walk",
            "`prices.walk` has neither `source` nor `fitted`",
        ),
        (
            "fitted = \"switch\"",
            "fitted = \"switch\", source = \"paper\"",
            "root_flush",
            "`prices.root_flush` has both `source` and `fitted`",
        ),
        (
            "fitted = \"switch\"",
            "fitted = \"switch\", confidence = \"R\"",
            "root_flush",
            "`prices.root_flush` is fitted: `confidence`",
        ),
        (
            "fitted = \"switch\"",
            "fitted = \"switch:x\"",
            "root_flush",
            "`prices.root_flush` is fitted to nothing",
        ),
        (
            "\"ours\", confidence",
            "\"our\", confidence",
            "line_socket",
            "`prices.line_socket.source` names an unknown source `our`; did you mean `ours`?",
        ),
        (
            "confidence = \"V\"",
            "confidence = \"M\"",
            "line_socket",
            "`prices.line_socket.confidence` cannot be `M`",
        ),
        (
            ", confidence = \"V\"",
            "",
            "line_socket",
            "`prices.line_socket` has a source but no `confidence`",
        ),
        (", note = \"a sum\"", "", "walk", "`prices.walk` is derived, but no `note` says how"),
        ("[cpu]", "[paths.more]", "clock", "`paths.more.clock` is no key of this table"),
        (
            "isa = \"x86_64\"",
            "isa = \"x86\"",
            "isa",
            "`isa` cannot be `x86`; did you mean `x86_64`?",
        ),
        ("isa = \"x86_64\"", "", "name", "`isa` is missing"),
        ("[prices]", "[prices]\nwalk = 1", "walk = {", "duplicate key"),
        ("[prices]", "[prices", "[prices", ""),
    ];
    for &(old, new, at, why) in cases {
        let text = edited(MACHINE, old, new);
        let refused = Machine::read(&Text::new("machines/good.toml", text.as_str()));
        let Err(refused) = refused else { panic!("`{old}` as `{new}` is accepted") };
        let expected = format!("{}{why}", place("machines/good.toml", &text, at));
        assert!(refused.0.starts_with(&expected), "{}\nshould be\n{expected}", refused.0);
    }
    // Without a clock, cycles are no time.
    let clock = format!("clock = {}", sourced("2.5", "GHz"));
    let text = edited(&edited(MACHINE, &clock, ""), "[cpu]", "");
    let refused = Machine::read(&Text::new("a.toml", text.as_str())).expect_err("no clock");
    let expected = format!("{}`prices.walk` is in cycles", place("a.toml", &text, "walk"));
    assert!(refused.0.starts_with(&expected), "{refused}");
    // A machine must have a TLB.
    let (before, rest) = MACHINE.split_once("[tlb]").expect("a TLB");
    let (_, after) = rest.split_once("[prices]").expect("prices");
    for (tlb, at, why) in [("", "name", "`tlb` is missing"), ("[tlb]\n", "[tlb]", "`tlb.first` is")]
    {
        let text = format!("{before}{tlb}[prices]{after}");
        let refused = Machine::read(&Text::new("a.toml", text.as_str())).expect_err("no TLB");
        assert!(
            refused.0.starts_with(&format!("{}{why}", place("a.toml", &text, at))),
            "{refused}"
        );
    }
}

#[test]
fn a_bad_file_of_results_is_refused_with_file_key_and_line() {
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            "seed = 2",
            "sed = 2",
            "sed",
            "`result.sed` is no key of this table; did you mean `seed`?",
        ),
        ("seed = 2", "seed = 5", "seed", "`result.seed` is not a whole number from 0 to 4"),
        ("unit = \"us\"\n", "", "[[result]]", "`result.unit` is missing"),
        (
            "machine = \"good\"",
            "machine = \"god\"",
            "god",
            "`result.machine` is wrong: there is no machine `god`; did you mean `good`?",
        ),
        ("machine = \"good\"\n", "", "[[result]]", "`result.machine` is missing"),
        (
            "machines = [\"good\", \"other\"]",
            "machines = [\"good\", \"other\", \"good\"]",
            "machines",
            "`result.machines` has 3 machines for 2 points",
        ),
        ("better = \"lower\"", "better = \"less\"", "better", "`result.better` cannot be `less`"),
        ("scale = 0.001", "scale = 0", "scale", "`result.scale` is not above zero"),
        (
            "source = \"paper\"",
            "source = \"papers\"",
            "papers",
            "`result.source` names an unknown source `papers`; did you mean `paper`?",
        ),
        ("confidence = \"R\"", "confidence = \"M\"", "\"M\"", "`result.confidence` cannot be `M`"),
        (
            "role = \"predict\"",
            "role = \"pedict\"",
            "pedict",
            "`result.variant.role` cannot be `pedict`; did you mean `predict`?",
        ),
        ("role = \"fit\"\n", "", "[result.baseline]", "`result.baseline.role` is missing"),
        (
            "value = 3\n",
            "",
            "[result.baseline]",
            "`result.baseline.value` is missing, and so is `values`",
        ),
        (
            "value = 3\n",
            "value = -3\n",
            "value = -3",
            "`result.baseline.value` has -3, which is below 0",
        ),
        (
            "value = 3\n",
            "value = 3\nfit_x = [1]\n",
            "fit_x",
            "`result.baseline.fit_x` is for curves",
        ),
        (
            "values = [-5.5, 7]",
            "values = [-5.5]",
            "[-5.5]",
            "`result.variant.values` has 1 values for 2 of `x`",
        ),
        (
            "values = [-5.5, 7]",
            "values = [-5.5, inf]",
            "inf",
            "`result.variant.values` has a number that is not finite",
        ),
        ("fit_x = [1]", "fit_x = [3]", "fit_x", "`result.variant.fit_x` has 3, which `x` has not"),
        (
            "values = [0, 0]",
            "values = [0, 0]\nfit_x = [1]",
            "fit_x",
            "`result.baseline.fit_x` is for a curve with the role `predict`",
        ),
        (
            "x = [1, 2]\nvalues = [-5.5",
            "x = [2, 1]\nvalues = [-5.5",
            "[2, 1]",
            "`result.variant.x` does not ascend",
        ),
        (
            "x = [1, 2]\nvalues = [-5.5",
            "x = [1, 3]\nvalues = [-5.5",
            "[1, 3]",
            "`result.variant.x` is not that of the baseline",
        ),
        ("x_name = \"nodes\"\n", "", "[[result]] # 2", "`result.x_name` is missing"),
        (
            "[result.recommended]\nstrategy = \"lookaside\"",
            "",
            "[[result]]",
            "`result.recommended` is missing",
        ),
        (
            "id = \"curve\"",
            "id = \"switch\"",
            "id = \"switch\" # 2",
            "`result.id` is `switch` a second time",
        ),
        ("id = \"curve\"", "id = \"a:b\"", "a:b", "`result.id` has a colon"),
    ];
    // Marks the second result for where that is meant.
    let marked = RESULTS.replace("id = \"curve\"", "id = \"curve\" # 2");
    let second = marked.rfind("[[result]]").expect("two results");
    let marked = format!("{}[[result]] # 2{}", &marked[..second], &marked[second + 10..]);
    for &(old, new, at, why) in cases {
        let text = edited(&marked, old, new);
        let Err(refused) = files(MACHINE, &text, WORKLOADS).published() else {
            panic!("`{old}` as `{new}` is accepted");
        };
        let expected = format!("{}{why}", place("published/results.toml", &text, at));
        assert!(refused.0.starts_with(&expected), "{}\nshould be\n{expected}", refused.0);
    }
    let text = edited(WORKLOADS, "unit = \"pages\", ", "");
    let refused = files(MACHINE, RESULTS, &text).parameters().expect_err("no unit");
    assert_eq!(refused.0, "published/workloads.toml:3: `pingpong.own_pages` has no unit");
}

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
    breach(&fitted("curve:1@1"), RESULTS, "fault", &why.replace("`root_", "`prices.root_"));
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
        let curve = result.baseline.points[0].x.is_some();
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

#[test]
fn a_machine_is_found_by_name_or_path() {
    let refused = Machine::named("no_such_machine").expect_err("no machine");
    assert!(refused.0.starts_with("there is no machine `no_such_machine`"), "{refused}");
    let refused = Machine::named("no/such.toml").expect_err("no file");
    assert!(refused.0.starts_with("no/such.toml: "), "{refused}");
    let file = Scratch::new("by-path");
    assert_eq!(Machine::named(file.path()).expect("a file").key, "good");
}

#[test]
fn a_fitted_number_is_written_back_and_nothing_else() {
    let file = Scratch::new("rewrite");
    data::rewrite(&file.0, "prices.root_flush", 0.25).expect("a fitted number");
    let expected = edited(MACHINE, "value = 0.1", "value = 0.25");
    assert_eq!(file.text(), expected);
    data::rewrite(&file.0, "paths.fault", 1300.0).expect("a fitted number");
    let expected = edited(&expected, "value = 1250", "value = 1300");
    assert_eq!(file.text(), expected);
    for (name, number, why) in [
        ("prices.walk", 1.0, "`prices.walk` has a source"),
        ("prices.root_flash", 1.0, "did you mean `prices.root_flush`?"),
        ("prices.root_flush", -1.0, "`prices.root_flush` is negative"),
        ("prices.root_flush", f64::NAN, "is not finite"),
    ] {
        let refused = data::rewrite(&file.0, name, number).expect_err(why);
        assert!(refused.0.contains(why), "{refused}");
        assert_eq!(file.text(), expected);
    }
    let folder = file.0.parent().expect("a folder");
    let count = fs::read_dir(folder).expect("a folder").count();
    assert_eq!(count, 1, "nothing but the file is left");
}

/// A machine file in a folder of its own, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the test");
        let path = folder.join("good.toml");
        fs::write(&path, MACHINE).expect("a file for the test");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).expect("the file of the test")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(folder) = self.0.parent() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}
