//! What is wrong in a file is said with the file, the line and the key.

use lookaside_simulation::data::{Machine, Text};

use super::{MACHINE, RESULTS, SOURCED, WORKLOADS, edited, files, place};

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
