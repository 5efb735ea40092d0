use super::*;

fn curve(strategy: &str, points: &[(f64, &[f64])]) -> Curve {
    Curve {
        machine: "m".to_owned(),
        strategy: strategy.to_owned(),
        points: points
            .iter()
            .map(|&(x, samples)| Point {
                x,
                cpus: Some(2),
                samples: Ok(samples.to_vec()),
                remark: None,
            })
            .collect(),
    }
}

fn swept(curves: Vec<Curve>) -> Swept {
    Swept {
        curves,
        metric: "time".to_owned(),
        unit: "ns".to_owned(),
        better: Better::Lower,
        events: 0,
    }
}

#[test]
fn curves_cross_where_their_medians_do_with_the_share_of_samples_that_agree() {
    let a = curve("a", &[(1.0, &[10.0, 10.0]), (4.0, &[20.0, 20.0]), (16.0, &[90.0, 90.0])]);
    let b = curve("b", &[(1.0, &[20.0, 20.0]), (4.0, &[25.0, 25.0]), (16.0, &[30.0, 95.0])]);
    let found = crossovers(&swept(vec![a, b]));
    assert_eq!(found.len(), 1);
    let one = &found[0];
    assert_eq!(one.strategies, ["a".to_owned(), "b".to_owned()]);
    assert_eq!((one.between, one.certainty), ([4.0, 16.0], 0.5));
    // ln(25/20) = 0.223, ln(62.5/90) = -0.365: 0.38 of the way in logarithms.
    assert!((one.at - 4.0 * 4.0_f64.powf(0.3796)).abs() < 0.01, "{}", one.at);
}

#[test]
fn curves_that_do_not_cross_have_no_crossover() {
    let a = curve("a", &[(1.0, &[10.0]), (4.0, &[20.0])]);
    let b = curve("b", &[(1.0, &[11.0]), (4.0, &[25.0])]);
    assert_eq!(crossovers(&swept(vec![a, b])), []);
}

/// The crossovers of two curves with a sample at each place.
fn crossings(better: Better, points: &[(f64, f64, f64)]) -> Vec<Crossover> {
    let of = |value: fn(&(f64, f64, f64)) -> f64| {
        points.iter().map(move |point| (point.0, [value(point)])).collect::<Vec<_>>()
    };
    let [a, b] = [of(|point| point.1), of(|point| point.2)];
    let slices = |all: &[(f64, [f64; 1])], name: &str| {
        curve(name, &all.iter().map(|(x, samples)| (*x, &samples[..])).collect::<Vec<_>>())
    };
    crossovers(&Swept { better, ..swept(vec![slices(&a, "a"), slices(&b, "b")]) })
}

#[test]
fn a_metric_of_0_leads_or_ties_and_curves_cross_at_a_number() {
    let none: [Crossover; 0] = [];
    // Both have none of it at the first point: no lead that is lost.
    let tie = [(1.0, 0.0, 0.0), (2.0, 3.0, 4.0), (4.0, 5.0, 6.0)];
    assert_eq!(crossings(Better::Lower, &tie), none);
    assert_eq!(
        crossings(Better::Lower, &[(1.0, 0.0, 2.0), (2.0, 0.0, 0.0), (4.0, 3.0, 4.0)]),
        none
    );
    // From none against 4 to 4 against none: in the middle, which of 1 and 4 is 2 by logarithms.
    let found = crossings(Better::Lower, &[(1.0, 0.0, 4.0), (4.0, 4.0, 0.0)]);
    assert_eq!((found.len(), found[0].at, found[0].certainty), (1, 2.0, 1.0));
    assert_eq!(found[0].strategies, ["a", "b"].map(str::to_owned));
    // More is better, one ratio is finite, and places have no logarithm.
    let found = crossings(Better::Higher, &[(0.0, 0.0, 3.0), (4.0, 2.0, 1.0)]);
    assert_eq!((found[0].at, found[0].between), (3.0, [0.0, 4.0]));
    assert_eq!(found[0].strategies, ["b", "a"].map(str::to_owned));
}

#[test]
fn curves_cross_over_points_at_which_they_tie() {
    let points = [(1.0, 1.0, 2.0), (2.0, 3.0, 3.0), (8.0, 0.0, 0.0), (16.0, 5.0, 4.0)];
    let found = crossings(Better::Lower, &points);
    assert_eq!((found.len(), found[0].between), (1, [1.0, 16.0]));
    assert_eq!(found[0].at, 4.0, "in the middle of where they tie");
    // Touching is no crossing.
    assert_eq!(crossings(Better::Lower, &[(1.0, 1.0, 2.0), (2.0, 3.0, 3.0), (4.0, 4.0, 5.0)]), []);
}

#[test]
fn names_are_of_cpus_prices_and_options() {
    assert_eq!(Over::of("cpus"), Over::Cpus);
    assert_eq!(Over::of("interrupt_deliver"), Over::Price(Price::InterruptDeliver));
    assert_eq!(Over::of("prices.walk"), Over::Price(Price::Walk));
    assert_eq!(Over::of("pages"), Over::Option("pages".to_owned()));
}

#[test]
fn a_sweep_has_every_point_and_says_what_is_missing() {
    let sweep = ParameterSweep {
        workload: "storm".to_owned(),
        machines: vec![Machine::named("zen5").unwrap()],
        strategies: vec!["lookaside".to_owned(), "linux-ipi-2025".to_owned()],
        over: ("cpus".to_owned(), vec![2.0, 4.0, 200.0]),
        options: Settings::from([("operations".to_owned(), 64.0)]),
        seeds: [1, 2],
        ..ParameterSweep::default()
    };
    let sweep = sweep.prepare().unwrap();
    let swept = sweep.run(&|| ()).unwrap();
    assert_eq!(swept.curves.len(), 2);
    for curve in &swept.curves {
        assert_eq!(curve.points[0].samples.as_ref().map(Vec::len), Ok(2));
        let why = curve.points[2].samples.as_ref().unwrap_err();
        assert!(why.contains("200 CPUs; machine `zen5` has 96"), "{why}");
    }
    let page = page::html(&swept, &page::Heading { title: "a <test>", over: "cpus", about: "" });
    assert!(page.contains("a &lt;test&gt;") && page.contains("prefers-color-scheme"));
    assert!(page.contains("<svg") && page.contains("200 CPUs"));
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing is fetched");
    assert_eq!(sweep.run(&|| ()).unwrap(), swept);

    // Sample by sample, from the last to the first: the same.
    let places: Vec<usize> = (0..sweep.runs()).rev().collect();
    let mut samples: Vec<_> =
        places.iter().map(|place| sweep.sample(place / 2, place % 2)).collect();
    samples.reverse();
    assert_eq!(sweep.gather(&samples).unwrap(), swept);
}

#[test]
fn an_option_that_nothing_reads_and_a_price_out_of_range_are_refused() {
    let sweep = |option: &str, over: &str| ParameterSweep {
        workload: "storm".to_owned(),
        machines: vec![Machine::named("zen5").unwrap()],
        strategies: vec!["lookaside".to_owned()],
        over: (over.to_owned(), vec![2.0]),
        options: Settings::from([("operations".to_owned(), 8.0), (option.to_owned(), 1.0)]),
        seeds: [1, 1],
        ..ParameterSweep::default()
    };
    let run = |option, over| sweep(option, over).prepare().unwrap().run(&|| ()).unwrap_err().0;
    assert!(run("operatons", "cpus").contains("did you mean `operations`"));
    assert!(run("operations", "cpu").contains("`cpu`"));
    assert!(price("walk", -1.0).unwrap_err().0.contains("from 0 to a second"));
    assert_eq!(price("prices.walk", 5.0), Ok((Price::Walk, 5.0)));
}

/// A page of two curves that cross twice near each other.
fn crossing() -> String {
    let low = curve("one", &[(1.0, &[1.0]), (2.0, &[3.0]), (3.0, &[1.0]), (1000.0, &[1.0])]);
    let high = curve("other", &[(1.0, &[2.0]), (2.0, &[2.0]), (3.0, &[2.0]), (1000.0, &[2.0])]);
    let swept = Swept {
        curves: vec![low, high],
        metric: "time".to_owned(),
        unit: "ns".to_owned(),
        better: Better::Lower,
        events: 0,
    };
    page::html(&swept, &page::Heading { title: "t", over: "cpus", about: "" })
}

#[test]
fn no_band_covers_a_line_and_labels_stand_below_each_other() {
    let page = crossing();
    let last_band = page.rfind("<polygon").unwrap();
    assert!(last_band < page.find("<polyline").unwrap());
    let marks: Vec<&str> = page.lines().filter(|line| line.contains("class=\"cross\"")).collect();
    assert_eq!(marks.len(), 2, "{marks:?}");
    let height = |line: &str| {
        let (_, text) = line.split_once("<text").unwrap();
        text.split_once("y=\"").unwrap().1.split_once('"').unwrap().0.parse::<f64>().unwrap()
    };
    assert!((height(marks[1]) - height(marks[0])).abs() >= 14.0, "{marks:?}");
    assert!(page.contains("time, ns"), "the axis says what it is");
}

#[test]
fn labels_of_an_axis_are_round_and_do_not_overlap() {
    let page = crossing();
    let label = |text: &str| page.contains(&format!("text-anchor=\"middle\">{text}</text>"));
    // On a logarithmic axis from 1 to 1000, 3 has room beside 1 and 1000, and all are written without zeros.
    assert!(label("1000") && label("1") && label("3"), "{page}");
    // From 0 to 3 in halves.
    for tick in ["0", "1", "2", "3"] {
        assert!(page.contains(&format!("text-anchor=\"end\">{tick}</text>")), "{tick}: {page}");
    }
    let crowded = curve("one", &[(1.0, &[1.0]), (1.01, &[1.0]), (9.0, &[1.0])]);
    let swept = Swept {
        curves: vec![crowded],
        metric: "time".to_owned(),
        unit: String::new(),
        better: Better::Lower,
        events: 0,
    };
    let page = page::html(&swept, &page::Heading { title: "t", over: "cpus", about: "" });
    let label = |text: &str| page.contains(&format!("text-anchor=\"middle\">{text}</text>"));
    assert!(label("9") && label("1.01") && !label("1"), "{page}");
}

#[test]
fn values_that_cannot_be_are_refused_before_anything_runs() {
    let sweep = |name: &str, values: &[f64]| ParameterSweep {
        workload: "storm".to_owned(),
        machines: vec![Machine::named("zen5").unwrap()],
        strategies: vec!["lookaside".to_owned()],
        over: (name.to_owned(), values.to_vec()),
        options: Settings::from([("operations".to_owned(), 64.0)]),
        prices: vec![(Price::Hit, 1.0)],
        seeds: [1, 1],
        ..ParameterSweep::default()
    };
    for (name, values, words) in [
        ("walk", [1e99], "`walk` is 1e99 ns; a price is from 0 to a second"),
        ("walk", [-5.0], "`walk` is -5 ns"),
        ("cpus", [1.5], "`cpus` has 1.5; a number of CPUs is whole"),
        ("cpus", [-1.0], "`cpus` has -1; a number of CPUs is whole and from 1"),
        ("cpus", [1e99], "and from 1 to 4096"),
        ("x", [1.5], "x is 1.5, and is the number of CPUs of `storm`"),
        ("operations", [5.0], "`operations` is swept over and given a value as well"),
        ("prices.hit", [5.0], "`prices.hit` is swept over and given a value as well"),
    ] {
        let why = sweep(name, &values).prepare().map(|_| ()).unwrap_err().0;
        let why = why.replace(&format!("{:?}", 1e99), "1e99").replace(&format!("{}", 1e99), "1e99");
        assert!(why.contains(words), "{why}");
    }
    let mut twice = sweep("cpus", &[2.0]);
    twice.strategies.push("lookaside".to_owned());
    let why = twice.prepare().map(|_| ()).unwrap_err().0;
    assert_eq!(why, "strategy `lookaside` is named twice");
}

#[test]
fn a_failure_is_one_line_and_no_room_is_none_where_a_machine_has_it() {
    assert_eq!(summary("stale translation: CPU 3\nhistory\nmore"), "stale translation: CPU 3");
    let sweep = ParameterSweep {
        workload: "storm".to_owned(),
        machines: vec![Machine::named("zen5").unwrap()],
        strategies: vec!["lookaside".to_owned(), "linux-invlpgb-2025".to_owned()],
        over: ("cpus".to_owned(), vec![2.0, 200.0]),
        options: Settings::from([("operations".to_owned(), 64.0)]),
        seeds: [1, 1],
        ..ParameterSweep::default()
    };
    let machines = vec![Machine::named("zen5").unwrap(), Machine::named("genoa").unwrap()];
    let with_room = ParameterSweep { machines, ..sweep.clone() }.prepare().unwrap();
    let swept = with_room.run(&|| ()).unwrap();
    assert_eq!(with_room.failed(&swept), [], "{swept:?}");
    // No machine of the sweep has 200 CPUs.
    let sweep = sweep.prepare().unwrap();
    let mut swept = sweep.run(&|| ()).unwrap();
    let failed = sweep.failed(&swept);
    assert!(failed.len() == 1 && failed[0].1 == 200.0, "{failed:?}");
    swept.curves[0].points[0].samples = Err("stale translation".to_owned());
    assert_eq!(sweep.failed(&swept).len(), 2);
}

/// A sweep of a short storm over how long its CPUs compute.
fn storm(over: &str, values: &[f64]) -> ParameterSweep {
    ParameterSweep {
        workload: "storm".to_owned(),
        machines: vec![Machine::named("zen5").unwrap()],
        strategies: vec!["lookaside".to_owned()],
        over: (over.to_owned(), values.to_vec()),
        options: Settings::from([("operations".to_owned(), 64.0)]),
        seeds: [1, 1],
        ..ParameterSweep::default()
    }
}

#[test]
fn a_metric_that_nothing_measures_is_refused_before_anything_runs() {
    let sweep = ParameterSweep { metric: Some("operatons".to_owned()), ..storm("cpus", &[2.0]) };
    let why = sweep.prepare().unwrap_err().0;
    assert!(why.contains("operatons") && why.contains("`operations`"), "{why}");
    let sweep = ParameterSweep { metric: Some("operations".to_owned()), ..storm("cpus", &[2.0]) };
    assert_eq!(sweep.prepare().unwrap().run(&|| ()).unwrap().metric, "operations");
}

#[test]
fn a_sweep_over_something_else_has_the_cpus_that_are_asked_for() {
    let sweep = ParameterSweep { cpus: Some(3), ..storm("walk", &[10.0, 20.0]) };
    let swept = sweep.prepare().unwrap().run(&|| ()).unwrap();
    assert_eq!(swept.cpus("walk").as_deref(), Some("3 CPUs"));
    let twice = ParameterSweep { cpus: Some(3), ..storm("cpus", &[2.0]) }.prepare().unwrap_err().0;
    assert!(twice.contains("`cpus` is swept over and given a value as well"), "{twice}");
}
