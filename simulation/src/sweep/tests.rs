use super::*;

fn curve(strategy: &str, points: &[(f64, &[f64])]) -> Curve {
    Curve {
        machine: "m".to_owned(),
        strategy: strategy.to_owned(),
        points: points
            .iter()
            .map(|&(x, samples)| Point { x, samples: Ok(samples.to_vec()) })
            .collect(),
    }
}

fn swept(curves: Vec<Curve>) -> Swept {
    Swept { curves, metric: "time", unit: "ns", better: Better::Lower, events: 0 }
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

#[test]
fn names_are_of_cpus_prices_and_options() {
    assert_eq!(Over::of("cpus"), Over::Cpus);
    assert_eq!(Over::of("interrupt_deliver"), Over::Price(Price::InterruptDeliver));
    assert_eq!(Over::of("prices.walk"), Over::Price(Price::Walk));
    assert_eq!(Over::of("pages"), Over::Option("pages".to_owned()));
}

#[test]
fn a_sweep_has_every_point_and_says_what_is_missing() {
    let machine = Machine::named("zen5").unwrap();
    let strategies = ["lookaside".to_owned(), "linux-ipi-2025".to_owned()];
    let options = BTreeMap::from([("operations".to_owned(), 64.0)]);
    let sweep = ParameterSweep {
        workload: "storm",
        machines: vec![&machine],
        strategies: &strategies,
        over: ("cpus".to_owned(), vec![2.0, 4.0, 200.0]),
        options: &options,
        prices: &[],
        seeds: [1, 2],
        plausible: None,
        metric: None,
    };
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
}
