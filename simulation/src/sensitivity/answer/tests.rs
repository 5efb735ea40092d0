use lookaside_machine::timed::Price;

use super::*;
use crate::data::Quality;

/// What plausible machines say of strategies whose times on each of them are these.
fn answer(times: &[&[f64]], tie: f64) -> Answer {
    nearly(times, tie, 0.0)
}

/// The same where strategies are near each other that are best on so many machines fewer.
fn nearly(times: &[&[f64]], tie: f64, near: f64) -> Answer {
    let strategies: Vec<String> = (0..times.len()).map(|i| i.to_string()).collect();
    let machine = Machine::named("zen4").unwrap();
    let question = Question {
        machine: &machine,
        ranges: &Ranges::default(),
        assumed: &[],
        strategies: &strategies,
        machines: times[0].len(),
        seed: 0,
        tie,
        near,
        influences: false,
        metric: None,
    };
    let ask = |_: &Machine, strategy: &str, seed: u64| {
        let value = times[strategy.parse::<usize>().unwrap()][seed as usize];
        Ok(vec![Metric { key: "time", unit: "s", value }])
    };
    question.answer(&ask).unwrap()
}

#[test]
fn the_best_are_counted_and_ties_for_none_of_the_two() {
    let of = answer(&[&[1.0, 3.0, 2.0, 2.0], &[2.0, 1.0, 2.01, 2.0], &[9.0; 4]], 0.01);
    assert_eq!((of.best, of.tied, of.pair), (vec![1, 1, 0], 2, [0, 1]));
    let of = answer(&[&[1.0, 3.0, 2.0, 2.0], &[2.0, 1.0, 2.01, 2.0], &[9.0; 4]], 0.0);
    assert_eq!((of.best, of.tied, of.pair), (vec![2, 1, 0], 1, [0, 1]));
    let of = answer(&[&[5.0; 3], &[5.0; 3]], 0.0);
    assert_eq!((of.best, of.tied), (vec![0, 0], 3));
}

#[test]
fn none_against_none_comes_to_the_same() {
    let of = answer(&[&[0.0; 4], &[0.0; 4]], 0.01);
    assert_eq!((of.tied, of.gain), (4, Interval { low: 1.0, median: 1.0, high: 1.0 }));
    assert!(of.is_tie());
    // None against some is better by no number of times.
    let of = answer(&[&[0.0; 4], &[2.0; 4]], 0.01);
    assert_eq!((of.best, of.pair, of.gain.low), (vec![4, 0], [0, 1], f64::INFINITY));
}

#[test]
fn two_that_come_to_the_same_leave_the_first_place_to_no_third() {
    let times: [&[f64]; 3] =
        [&[1.0, 1.0, 1.0, 9.0, 9.0], &[1.001, 1.001, 1.001, 9.0, 9.0], &[5.0, 5.0, 5.0, 1.0, 1.0]];
    let of = answer(&times, 0.01);
    assert_eq!((of.best, of.tied, of.pair), (vec![0, 0, 2], 3, [0, 1]));
}

#[test]
fn of_those_that_are_never_best_the_better_is_second() {
    assert_eq!(answer(&[&[9.0; 3], &[1.0; 3], &[2.0; 3]], 0.0).pair, [1, 2]);
    let alone = answer(&[&[3.0, 4.0]], 0.01);
    assert_eq!((alone.best, alone.tied, alone.pair), (vec![2], 0, [0, 0]));
}

#[test]
fn what_a_number_narrows_is_what_both_the_correlation_and_the_ends_allow() {
    let range = Interval { low: 1.0, median: 1.5, high: 2.0 };
    let of = |correlation, ends| Influence::narrowing(correlation, ends, &range);
    assert_eq!(of(0.0, [1.0, 2.0]), 0.0);
    // All of the range, and three fifths of the correlation's variance: 0.8 of its width is left.
    assert!((of(1.0, [2.0, 1.0]) - 0.5).abs() < 1e-9);
    assert!((of(0.6, [1.0, 2.0]) - (1.0 - 0.5_f64.powf(0.2))).abs() < 1e-9);
    // An accident: at its ends it does nothing.
    assert!(of(0.9, [1.5, 1.501]) < 0.001);
    // What hardly varies cannot get narrower.
    let flat = Interval { low: 1.0, median: 1.001, high: 1.002 };
    assert!(Influence::narrowing(0.99, [1.0, 1.3], &flat) < 0.002);
}

#[test]
fn another_is_best_at_an_end_beyond_a_tie() {
    let turns = |ends, tie| {
        let number = Uncertain {
            name: "prices.walk".into(),
            quality: Quality::Proxy,
            known: None,
            low: 1.0,
            high: 2.0,
            is_assumed: false,
        };
        Influence { number, correlation: 0.5, ends, narrows: 0.0 }.turns([0, 1], tie)
    };
    assert!(turns([0.995, 1.02], 0.0) && turns([1.02, 0.995], 0.0));
    assert!(!turns([0.995, 1.02], 0.01), "they come to the same there");
    assert!(turns([0.98, 1.02], 0.01) && turns([1.0, 0.98], 0.01));
    assert!(!turns([0.9, 0.95], 0.01), "the other is best at both");
    assert!(!turns([1.0, 1.5], 0.0) && !turns([1.0, 0.5], 0.0), "as before without a tie");
}

#[test]
fn a_number_is_named_that_turns_the_answer_or_narrows_it() {
    let machine = Machine::named("zen4").unwrap();
    let walk = machine.model.prices.charge(Price::Walk) as f64;
    let ranges = crate::data::Files::own().ranges().unwrap();
    let names = |times: f64, power: f64| -> Vec<String> {
        let question = Question {
            machine: &machine,
            ranges: &ranges,
            assumed: &[],
            strategies: &["one".to_owned(), "other".to_owned()],
            machines: 24,
            seed: 0,
            tie: 0.0,
            near: 0.0,
            influences: true,
            metric: None,
        };
        let ask = |machine: &Machine, strategy: &str, _: u64| {
            let walk = machine.model.prices.charge(Price::Walk) as f64 / walk;
            let value = if strategy == "one" { 1.0 } else { times * walk.powf(power) };
            Ok(vec![Metric { key: "time", unit: "s", value }])
        };
        let influences = question.answer(&ask).unwrap().influences;
        influences.into_iter().map(|one| one.number.name).collect()
    };
    assert_eq!(names(2.0, 1.0), ["prices.walk"], "it narrows the answer");
    assert_eq!(names(2.0, 0.02), [""; 0], "by 2 %, from twice to twice");
    assert_eq!(names(1.0, 0.02), ["prices.walk"], "by 2 %, from one to the other");
}

#[test]
fn of_two_that_are_nearly_as_often_best_the_one_that_loses_less_leads() {
    // The first is best on three of five machines by one, the other on two by ten.
    let times: [&[f64]; 2] = [&[1.0, 1.0, 1.0, 12.0, 12.0], &[2.0, 2.0, 2.0, 2.0, 2.0]];
    let of = nearly(&times, 0.01, 0.2);
    assert_eq!((of.pair, of.lost), ([1, 0], vec![[4.0, 10.0], [0.6, 1.0]]));
    assert_eq!(nearly(&times, 0.01, 0.1).pair, [0, 1], "one machine of five is more than a tenth");
    assert_eq!(answer(&times, 0.01).pair, [0, 1]);
    // One that is always second loses least, and is never best.
    let third = [times[0], times[1], &[1.5, 1.5, 1.5, 2.5, 2.5]];
    assert_eq!(nearly(&third, 0.01, 0.2).pair, [1, 0]);
}

#[test]
fn so_few_machines_show_no_correlation() {
    let least = |machines: usize| ERRORS / (machines as f64 - 1.0).sqrt();
    assert!(least(FEW) >= 1.0 && least(FEW + 1) < 1.0);
}

#[test]
fn between_the_ends_lie_as_many_as_is_said_however_few_there_are() {
    for count in 1..=100 {
        let values: Vec<f64> = (0..count).map(|i| f64::from(i * i)).collect();
        for tail in [0.05, 0.1] {
            let of = Interval::with_tails(values.clone(), tail).unwrap();
            let inside = values.iter().filter(|&&value| of.has(value)).count() as f64;
            let least = (1.0 - 2.0 * tail) * f64::from(count);
            assert!(inside >= least - 1e-9, "{inside} of {count}, {tail}");
            // Without its ends it would have fewer.
            assert!(inside - 2.0 < least + 1e-9, "{inside} of {count}, {tail}");
            assert!(of.has(of.median));
        }
    }
}

#[test]
fn an_interval_has_tails_of_the_size_that_was_asked_for() {
    let numbers: Vec<f64> = (0..=100).rev().map(f64::from).collect();
    let ends = |of: Option<Interval>| of.map(|of| [of.low, of.median, of.high].map(f64::round));
    assert_eq!(ends(Interval::of(numbers.clone())), Some([10.0, 50.0, 90.0]));
    assert_eq!(ends(Interval::with_tails(numbers, 0.05)), Some([5.0, 50.0, 95.0]));
}

/// What plausible machines say of two strategies by two metrics, whose values on each of them are these; the second decides
/// where that is asked for.
fn by_metrics(values: [&[[f64; 2]]; 2], metric: Option<&str>) -> Result<Answer, Refused> {
    let machine = Machine::named("zen4").unwrap();
    let question = Question {
        machine: &machine,
        ranges: &Ranges::default(),
        assumed: &[],
        strategies: &["0".to_owned(), "1".to_owned()],
        machines: values[0].len(),
        seed: 0,
        tie: 0.01,
        near: 0.0,
        influences: false,
        metric,
    };
    question.answer(&|_, strategy, seed| {
        let [allocs, time] = values[strategy.parse::<usize>().unwrap()][seed as usize];
        Ok(vec![
            Metric { key: "allocs", unit: "1/s", value: allocs },
            Metric { key: "time", unit: "ns", value: time },
        ])
    })
}

#[test]
fn the_metric_that_is_asked_for_decides_and_others_are_said_that_do_not_agree() {
    let values: [&[[f64; 2]]; 2] =
        [&[[9.0, 5.0], [9.0, 5.0], [9.0, 5.0]], &[[8.0, 1.0], [8.0, 1.0], [10.0, 5.0]]];
    let first = by_metrics(values, None).unwrap();
    assert_eq!((first.metric, &first.best[..], first.pair), ("allocs", &[2, 1][..], [0, 1]));
    let says = |metric, strategy, best_on| vec![Otherwise { metric, strategy, best_on }];
    assert_eq!(first.otherwise(), says("time", 1, 2));
    let second = by_metrics(values, Some("time")).unwrap();
    assert_eq!((second.metric, &second.best[..], second.pair), ("time", &[0, 2][..], [1, 0]));
    assert_eq!(second.otherwise(), says("allocs", 0, 2));
    let why = by_metrics(values, Some("tine")).unwrap_err().0;
    assert!(why.contains("tine") && why.contains("time"), "{why}");
}

#[test]
fn metrics_that_agree_or_come_to_the_same_are_not_said() {
    let values: [&[[f64; 2]]; 2] = [&[[9.0, 1.0], [9.0, 1.0]], &[[8.0, 1.0], [8.0, 1.001]]];
    assert_eq!(by_metrics(values, None).unwrap().otherwise(), []);
}

#[test]
fn what_differs_by_less_than_a_tie_is_none_of_the_two() {
    let values: [&[[f64; 2]]; 2] = [&[[9.0, 1.0], [9.0, 1.0]], &[[9.001, 1.0], [8.99, 1.0]]];
    let of = by_metrics(values, None).unwrap();
    assert!(of.is_tie() && of.tied == 2 && of.best == [0, 0], "{of:?}");
}

#[test]
fn fewer_interrupts_a_second_are_better() {
    let metric = |key, unit| best_of(&Metric { key, unit, value: 1.0 });
    assert_eq!(metric("interrupts", "1/s"), Better::Lower);
    assert_eq!(metric("allocs", "1/s"), Better::Higher);
}
