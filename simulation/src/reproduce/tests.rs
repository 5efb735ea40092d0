//! Comparisons with made-up machines, publications and results.

use super::*;
use lookaside_terminal::Refused;

use crate::{
    data::{Files, Machine, Text},
    workload::Metric,
};

fn machine(key: &str, numbers: &str) -> Text {
    let text = format!(
        "name = \"{key}, made up\"\nisa = \"x86_64\"\n\
         [tlb]\nfirst = {{ value = 64, unit = \"entries\", source = \"s\", confidence = \"R\" }}\n\
         {numbers}\n[sources]\ns = \"nobody\"\n"
    );
    Text::new(format!("machines/{key}.toml"), text)
}

const RESULTS: &str = r#"
[[result]]
id = "times"
seed = 2
source = "s"
confidence = "R"
machine = "one"
workload = "pingpong"
metric = "time per iteration"
measure = "time"
unit = "us"
scale = 0.001
better = "lower"
[result.baseline]
name = "the old way"
strategy = "old"
value = 4.0
role = "fit"
[[result.variant]]
name = "the new way"
strategy = "new"
value = 1.0
role = "predict"
[[result.variant]]
name = "half way"
strategy = "half"
value = 2.0
role = "predict"
cause = "half of it is not modelled"
[result.recommended]
strategy = "lookaside"

[[result]]
id = "changes"
source = "s"
confidence = "R"
machines = ["one", "two"]
workload = "pingpong"
metric = "time against the old way"
measure = "time"
unit = "% change"
scale = 1.0
relative = true
better = "lower"
x_name = "nodes"
[result.baseline]
name = "the old way"
strategy = "old"
x = [1, 2]
values = [0, 0]
role = "fit"
[[result.variant]]
name = "the new way"
strategy = "new"
x = [1, 2]
values = [50, 100]
role = "fit"
[result.recommended]
strategy = "lookaside"

[sources]
s = "nobody"
"#;

const ONE: &str = "[paths]\npingpong = { value = 4, unit = \"us\", fitted = \"times\" }\n\
                   extra = { value = 1, unit = \"us\", fitted = \"changes:1@1\" }";

fn book() -> Book {
    book_of(RESULTS)
}

fn book_of(results: &str) -> Book {
    let files = Files {
        machines: vec![machine("one", ONE), machine("two", "")],
        published: vec![Text::new("published/made-up.toml", results)],
    };
    Book::of(&files).expect("the files are well formed")
}

/// What a model might give: the path of the machine for the old way, and others from it.
fn modelled(machine: &Machine, run: &Run) -> Result<Measured, Refused> {
    let (path, extra) = (machine.path_or_none("pingpong"), machine.path_or_none("extra"));
    let base = if path == 0 { 1000.0 } else { path as f64 / 1e3 };
    let value = match (run.strategy.as_str(), run.x) {
        ("old", _) => base,
        ("new", None) => 0.26 * base,
        ("new", Some(_)) => 1.25 * base + extra as f64 / 1e3,
        ("half", _) => 0.6 * base,
        ("lookaside", _) => 0.13 * base,
        (other, _) => return Err(Refused(format!("`{other}` is for another machine"))),
    };
    let metrics = vec![Metric { key: "time", unit: "ns", value }];
    Ok(Measured { metrics, elapsed: 5_000_000, cpus: 2, events: 1000 })
}

fn reproduce<'b>(book: &'b Book, request: &Request) -> Reproduction<'b> {
    let plan = Plan::new(book, request).expect("the names exist");
    plan.execute(book, &modelled, &|| (), request.machine.is_some())
}

#[test]
fn each_run_is_executed_once() {
    let book = book();
    let plan = Plan::new(&book, &Request::default()).unwrap();
    // Four for `times`, and three for each point of `changes`.
    assert_eq!(plan.runs.len(), 10);
    let twice = Request { ids: vec!["times".into(), "times".into()], ..Request::default() };
    let plan = Plan::new(&book, &twice).unwrap();
    assert_eq!((plan.groups.len(), plan.runs.len()), (1, 4));
}

#[test]
fn the_table_shows_both_and_says_what_it_comes_to() {
    let book = book();
    let text = table::to_text(&reproduce(&book, &Request::default()));
    let expected = "\
times (seed 2): time per iteration, us; lower is better
pingpong on one; source: s
  strategy                         published   modelled      gain,      gain,     error         role
                                                         published   modelled
  the old way                              4      4.000      1.00x      1.00x    +0.0 %       fitted
  the new way                              1      1.040      4.00x      3.85x    +4.0 %    predicted
  half way                                 2      2.400      2.00x      1.67x   +20.0 %    predicted
  > lookaside                                    0.5200                 7.69x             2.00x best

changes: time against the old way, % change; lower is better
pingpong on one, two; x: nodes; source: s
    old: the old way
    new: the new way
  strategy                      x  published   modelled      gain,      gain,     error         role
                                                         published   modelled
  old                           1          0          0      1.00x      1.00x    +0.0 %        given
  new                           1         50      50.00      0.67x      0.67x    +0.0 %       fitted
  > lookaside                   1                -87.00                 7.69x            11.54x best
  old                           2          0          0      1.00x      1.00x    +0.0 %        given
  new                           2        100      25.00      0.50x      0.80x   -37.5 %    predicted
  > lookaside                   2                -87.00                 7.69x             9.62x best

gain: times as good as the first line. error: of the gain, for the first line of the value. >: the
  recommended strategy, and in the last column how many times as good as the best of the published
  variants in the model.
7 published values: 2 fitted, 3 predicted, of these 1 within 10 %. 3 of the predictions are gains,
  of these 1 within 10 %.
Of the predictions that could have failed 1 of 3 are within 10 %, of the gains among them, which
  differ from 1 by more than 10 %, 1 of 3. The others: 0 of 0 controls, 0 of 0 interpolations, 0 of
  0 repeats.
  Off: times:2 by +20.0 %: half of it is not modelled
  Off: changes:1@2 by -37.5 %: the cause is not known
Curves and ties, not as published:
  changes:1 from 1 to 2: published +33.3 %, modelled -16.7 %
The recommended strategy (>) is never worse than the best published variant.
0.0 million events; 0.000 simulated seconds.
";
    assert!(text == expected, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn json_has_the_documented_keys_in_their_order() {
    let book = book();
    let text = to_json(&reproduce(&book, &Request::default()));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["events"], 10_000);
    assert_eq!(value["seconds"], 5e-5);
    let rows = value["results"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    let row = &rows[1];
    let keys = [
        "id",
        "seed",
        "source",
        "machine",
        "workload",
        "x",
        "variant",
        "strategy",
        "metric",
        "unit",
        "better",
        "published",
        "modelled",
        "ratio_published",
        "ratio_modelled",
        "error",
        "role",
        "test",
        "least",
        "greatest",
        "plausible_low",
        "plausible_high",
        "turns_on",
        "recommended",
        "recommended_strategy",
        "recommended_over_best",
        "cause",
        "problem",
    ];
    let mut from = 0;
    for key in keys {
        let at = text[from..].find(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("{key}"));
        from += at;
    }
    assert_eq!(row.as_object().unwrap().len(), keys.len());
    assert_eq!(row["id"], "times");
    assert_eq!(row["seed"], 2);
    assert_eq!(row["machine"], "one");
    assert_eq!(row["variant"], "the new way");
    assert_eq!(row["published"], 1.0);
    assert_eq!(row["role"], "predicted");
    assert!((row["modelled"].as_f64().unwrap() - 1.04).abs() < 1e-9);
    assert!((row["error"].as_f64().unwrap() - 0.04).abs() < 1e-9);
    assert!((row["recommended"].as_f64().unwrap() - 0.52).abs() < 1e-9);
    assert_eq!(rows[3]["seed"], serde_json::Value::Null);
    assert_eq!(rows[6]["machine"], "two");
}

#[test]
fn values_that_depend_on_the_seed_are_said_and_long_runs_have_one() {
    let book = book();
    let by_seed = |machine: &Machine, run: &Run| {
        let mut measured = modelled(machine, run)?;
        if run.strategy == "new" && run.x.is_none() {
            measured.metrics[0].value *= if run.seed.is_multiple_of(2) { 1.0 } else { 2.0 };
        }
        Ok(measured)
    };
    let with = |most: u64| {
        let request = Request { seeds: 6, most, ..Request::default() };
        let plan = Plan::new(&book, &request).unwrap();
        Summary::of(&plan.execute(&book, &by_seed, &|| (), false))
    };
    let all = with(1000);
    assert_eq!((all.single, all.chaotic.len()), (0, 1));
    let says = "times:1 (over the baseline) is bistable: about 0.2600 with 3 seeds, about 0.5200";
    assert!(all.chaotic[0].starts_with(says), "{}", all.chaotic[0]);
    let none = with(999);
    assert_eq!((none.single, none.chaotic.len()), (7, 0));
}

#[test]
fn predictions_that_could_not_fail_are_counted_apart() {
    let summary = |results: &str| {
        let book = book_of(results);
        Summary::of(&reproduce(&book, &Request::default()))
    };
    let base = summary(RESULTS);
    assert_eq!((base.failable, base.gains, base.easy), ((3, 1), (3, 1), [(0, 0); 3]));
    // A gain of less than a tenth.
    let level = summary(&RESULTS.replacen("value = 2.0", "value = 3.9", 1));
    assert_eq!((level.failable.0, level.easy[0]), (2, (1, 0)));
    // Two names for one run.
    let twice = summary(&RESULTS.replacen("strategy = \"half\"", "strategy = \"new\"", 1));
    assert_eq!((twice.failable.0, twice.easy[2].0), (2, 1));
    // What was published as the same and is modelled apart.
    let tie = summary(&RESULTS.replacen("value = 2.0", "value = 1.0", 1));
    let step = "changes:1 from 1 to 2: published +33.3 %, modelled -16.7 %";
    assert_eq!(base.unlike, [step]);
    let same = "times:2 and times:1: published the same, modelled +130.8 %";
    assert_eq!(tie.unlike, [same, step]);
    assert!(base.reversed.is_empty() && base.is_sound());
}

#[test]
fn csv_and_markdown_have_every_row() {
    let book = book();
    let reproduction = reproduce(&book, &Request::default());
    let csv = to_csv(&reproduction);
    assert_eq!(csv.lines().count(), 8);
    assert!(csv.starts_with("id,seed,source,machine,workload,x,variant,"));
    let markdown = table::to_markdown(&reproduction);
    assert!(markdown.contains("### changes"));
    assert!(markdown.contains("* new: the new way"));
    assert_eq!(markdown.lines().filter(|line| line.starts_with("| new ")).count(), 2);
    assert_eq!(markdown.lines().filter(|line| line.starts_with("| the new way ")).count(), 1);
}

#[test]
fn a_wrong_direction_is_found() {
    let book = book();
    let plan = Plan::new(&book, &Request::default()).unwrap();
    let wrong = |machine: &Machine, run: &Run| {
        let mut measured = modelled(machine, run)?;
        // Now the new way is slower than half of it, where it was published to be faster.
        if run.strategy == "new" && run.x.is_none() {
            measured.metrics[0].value *= 3.0;
        }
        Ok(measured)
    };
    let summary = Summary::of(&plan.execute(&book, &wrong, &|| (), false));
    assert_eq!(summary.reversed, ["times:2 over times:1: published +100.0 %, modelled -23.1 %"]);
    assert!(!summary.is_sound());
}

#[test]
fn elsewhere_there_is_nothing_published() {
    let book = book();
    let request = Request { machine: Some("two".into()), ..Request::default() };
    let reproduction = reproduce(&book, &request);
    let rows = reproduction.comparisons.iter().flat_map(|c| &c.places).flat_map(|p| &p.rows);
    assert!(rows.clone().all(|row| row.published.is_none() && row.standing.is_none()));
    assert!(rows.clone().all(|row| row.modelled.is_some()));
    assert!(table::to_text(&reproduction).contains("Nothing to compare with"));
    assert_eq!(Summary::of(&reproduction).rows, 0);
}

#[test]
fn strategies_can_be_chosen_and_added() {
    let book = book();
    let strategies = vec!["lookaside-early".to_owned()];
    let request = Request { ids: vec!["times".into()], strategies, ..Request::default() };
    let reproduction = reproduce(&book, &request);
    let rows = &reproduction.comparisons[0].places[0].rows;
    let names: Vec<_> = rows.iter().map(|row| row.strategy.as_str()).collect();
    assert_eq!(names, ["old", "lookaside-early"]);
    assert_eq!(rows[1].problem.as_deref(), Some("`lookaside-early` is for another machine"));
    let summary = Summary::of(&reproduction);
    assert_eq!(summary.failed.len(), 1);
    let text = table::to_text(&reproduction);
    assert!(text.contains("times with `lookaside-early`: `lookaside-early` is for"), "{text}");
}

#[test]
fn names_that_do_not_exist_are_refused_with_the_nearest() {
    let book = book();
    let refuse = |request: Request| Plan::new(&book, &request).unwrap_err().0;
    let ids = Request { ids: vec!["tims".into()], ..Request::default() };
    assert_eq!(refuse(ids), "there is no result `tims`; did you mean `times`?");
    let machine = Request { machine: Some("tow".into()), ..Request::default() };
    assert_eq!(refuse(machine), "there is no machine `tow`; did you mean `two`?");
    let strategies = vec!["lookasid".to_owned()];
    let strategy = Request { strategies, ..Request::default() };
    assert_eq!(refuse(strategy), "there is no strategy `lookasid`; did you mean `lookaside`?");
}

#[test]
fn where_series_are_conditions_the_recommended_strategy_meets_each_of_them() {
    let published = r#"
[[result]]
id = "weather"
source = "s"
confidence = "R"
machine = "one"
workload = "pingpong"
metric = "time"
measure = "time"
unit = "ns"
better = "lower"
conditions = true
[result.baseline]
name = "warm"
strategy = "old"
value = 4
role = "predict"
[[result.variant]]
name = "cold"
strategy = "old"
options = { cold = 1 }
value = 8
role = "predict"
[result.recommended]
strategy = "lookaside"
[sources]
s = "nobody"
"#;
    let files = Files {
        machines: vec![machine("one", "")],
        published: vec![Text::new("published/weather.toml", published)],
    };
    let book = Book::of(&files).unwrap();
    let plan = Plan::new(&book, &Request::default()).unwrap();
    assert_eq!(plan.runs.len(), 4);
    let execute = |_: &Machine, run: &Run| {
        let value = match (run.strategy.as_str(), run.options.contains_key("cold")) {
            ("old", false) => 4.0,
            ("old", true) => 8.0,
            (_, false) => 5.0,
            (_, true) => 4.0,
        };
        let metrics = vec![Metric { key: "time", unit: "ns", value }];
        Ok(Measured { metrics, ..Measured::default() })
    };
    let reproduction = plan.execute(&book, &execute, &|| (), false);
    let text = table::to_text(&reproduction);
    for over in ["0.80x best", "2.00x best"] {
        assert_eq!(text.matches(over).count(), 1, "{text}");
    }
    assert!(text.contains("weather:recommended: 0.80x the best published"), "{text}");
    let json = to_json(&reproduction);
    assert_eq!(json.matches("\"recommended_over_best\": 0.8").count(), 2, "{json}");
    assert!(json.contains("\"recommended\": 5.0") && json.contains("\"recommended\": 4.0"));
}

#[test]
fn fitting_meets_all_values_at_once() {
    let mut book = book();
    for (name, number) in [("paths.pingpong", 1.0), ("paths.extra", 0.1)] {
        book.machines[0].set_number(name, number).unwrap();
    }
    let fitted = fit(&book, &[], &modelled, 1).unwrap();
    let found: Vec<_> = fitted.iter().map(|n| (n.name.as_str(), n.old, n.is_met())).collect();
    // Numbers of a table may come in any order.
    assert_eq!(found.len(), 2);
    assert!(found.contains(&("paths.pingpong", 1.0, true)), "{fitted:?}");
    assert!(found.contains(&("paths.extra", 0.1, true)), "{fitted:?}");
    let new = |name: &str| fitted.iter().find(|n| n.name == name).unwrap().new;
    assert!((new("paths.pingpong") - 4.0).abs() < 0.005);
    assert!((new("paths.extra") - 1.0).abs() < 0.02);
    assert!(fit(&book, &["on".into()], &modelled, 1).is_err());
}

/// What `modelled` gives, but that the new way takes what the path `extra` does.
fn modelled_of_two_paths(machine: &Machine, run: &Run) -> Result<Measured, Refused> {
    let mut measured = modelled(machine, run)?;
    if run.strategy == "new" && run.x.is_none() {
        measured.metrics[0].value = machine.path_or_none("extra") as f64 / 1e3;
    }
    Ok(measured)
}

#[test]
fn plausible_machines_say_where_a_gain_lies_and_on_what_it_turns() {
    let mut book = book();
    book.ranges = Files::own().ranges().expect("the file is well formed");
    let request = Request { ids: vec!["times".to_owned()], ..Request::default() };
    let plan = Plan::new(&book, &request).expect("the names exist");
    let execute: &Execute<'_> = &modelled_of_two_paths;
    let mut reproduction = plan.execute(&book, execute, &|| (), false);
    let mut ask = |machines, most| {
        let sample = Sample { machines, most, seed: 1 };
        reproduction.ask_plausible(&book, &plan, sample, execute).expect("all can be run");
        reproduction.certainties()
    };
    assert!(ask(Some(0), u64::MAX).is_empty(), "nobody was asked");
    assert!(ask(None, 1999).is_empty(), "two runs of 1000 events are too long");
    let lines = ask(None, 2000);
    assert!(lines[0].contains("24 plausible machines each: 1 of 2 have"), "{lines:?}");
    // Both paths are fitted, and a fourth off either way; the published ratio is 1 to 4, as the numbers of the file are.
    let row = |number: usize| reproduction.comparisons[0].places[0].rows[number].certainty.clone();
    let certainty = row(1).expect("it was asked for");
    let (low, high) = (certainty.interval.low, certainty.interval.high);
    assert!(
        low > 0.25 / 1.5625 && low < 0.23 && high > 0.27 && high < 0.25 * 1.5625,
        "{low} {high}"
    );
    assert!(
        ["paths.extra", "paths.pingpong"].contains(&certainty.turns_on().expect("one stands out"))
    );
    // The other variant is three fifths of the baseline on every machine, and a half was published.
    let certainty = row(2).expect("it was asked for");
    assert_eq!((certainty.turns_on(), certainty.interval.has(0.5)), (None, false));
    assert!(
        lines[2].ends_with("1.67x to 1.67x, published 2.00x (outside); no single price decides"),
        "{lines:?}"
    );
}
