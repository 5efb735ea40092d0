//! The repository's machines and published results keep the rules for numbers, and files that do not
//! keep them are refused with the file, the line and the key.

mod refused;
mod rules;

use std::{fs, path::PathBuf};

use lookaside_machine::timed::{CacheShape, Price};
use lookaside_simulation::data::{
    self, Confidence, Files, Isa, Machine, Origin, Role, Target, Text,
};

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
fn an_assumed_number_has_a_range_and_a_reason() {
    let line = MACHINE.lines().find(|line| line.starts_with("line_socket")).expect("a price");
    let read = |number: &str| {
        let text = edited(MACHINE, line, &format!("interrupt_entry = {{ {number} }}"));
        Machine::read(&Text::new("machines/good.toml", text))
    };
    let good = "value = 132, unit = \"ns\", assumed = { low = 50, high = 350 }, note = \"why\"";
    let machine = read(good).expect("a good machine");
    let entry = machine.values.iter().find(|value| value.key() == "interrupt_entry");
    assert_eq!(entry.expect("a price").origin, Origin::Assumed { low: 50.0, high: 350.0 });
    for (old, new, why) in [
        (", note = \"why\"", "", "no `note` says why"),
        ("low = 50", "low = 140", "is not between the ends"),
        ("high = 350", "high = 350, middle = 1", "is no key of this table"),
        ("note", "source = \"paper\", note", "are for numbers that are not"),
        ("note", "part_of = [\"way\"], note", "is part of `way`, which is no price"),
    ] {
        let refused = read(&edited(good, old, new)).expect_err(why);
        assert!(refused.0.contains(why), "{refused}");
    }
}

#[test]
fn what_is_a_part_is_one_of_a_sum_that_was_measured() {
    let line = MACHINE.lines().find(|line| line.starts_with("line_socket")).expect("a price");
    let read = |entry: &str, whole: &str| {
        let entry =
            format!("interrupt_entry = {{ value = 132, unit = \"ns\", {entry}, note = \"why\" }}");
        let text = edited(MACHINE, line, &format!("{line}\n{entry}\n{whole}"));
        let place = 1 + text.lines().position(|line| line.starts_with("interrupt_entry")).unwrap();
        (Machine::read(&Text::new("machines/good.toml", text)), format!("good.toml:{place}: "))
    };
    let part = |of: &str| format!("part_of = [{of}], assumed = {{ low = 50, high = 350 }}");
    let whole = |number: &str| {
        format!(
            "interrupt_deliver = {{ value = {number}, unit = \"ns\", source = \"paper\", confidence = \"R\" }}"
        )
    };
    let deliver = "\"interrupt_deliver\"";
    assert!(read(&part(deliver), &whole("218")).0.is_ok(), "350 of 350");
    let assumed = "interrupt_deliver = { value = 500, unit = \"ns\", note = \"why\", assumed = { low = 400, high = 900 } }";
    let both = whole("500").replace(" }", ", part_of = [\"interrupt_exit\"] }");
    for (of, whole, why) in [
        ("\"interrupt_entry\"", whole("500"), "is part of itself"),
        ("\"interrupt_exit\"", whole("500"), "`interrupt_exit`, for which the file has no price"),
        (&format!("{deliver}, {deliver}"), whole("500"), "is part of `interrupt_deliver` twice"),
        (deliver, assumed.to_owned(), "is part of `interrupt_deliver`, which is assumed"),
        (deliver, both, "is part of `interrupt_deliver`, which is a part itself"),
        (deliver, whole("217"), "may be 350 ns, which is more than the 349 ns of both"),
    ] {
        let (read, place) = read(&part(of), &whole);
        let refused = read.expect_err(why).0;
        assert!(refused.contains(why) && refused.contains(&place), "{why}: {refused}");
    }
    let path = edited(
        MACHINE,
        "[paths]",
        "[paths]\nsend = { value = 1, unit = \"ns\", part_of = [\"hit\"], source = \"paper\", confidence = \"R\" }",
    );
    let refused = Machine::read(&Text::new("machines/good.toml", path)).expect_err("a path").0;
    assert!(refused.contains("only a price is part of another"), "{refused}");
}

/// On plausible machines, which may have less than was measured, too: but for 1.4 ns of Haswell's 350, whose sum is fitted.
#[test]
fn the_sums_of_shipped_machines_leave_room_for_their_parts() {
    let ranges = Files::own().ranges().expect("ranges");
    for machine in Files::own().machines().expect("machines") {
        for part in machine.values.iter().filter(|value| !value.part_of.is_empty()) {
            let Origin::Assumed { high, .. } = part.origin else { panic!("{}", part.name) };
            for name in &part.part_of {
                let whole =
                    machine.values.iter().find(|value| value.key() == name).expect("a price");
                let least = (part.number + whole.number) / ranges.factor(whole.quality());
                assert!(least > 0.99 * high, "{} {name}: {least}", machine.key);
            }
        }
    }
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
