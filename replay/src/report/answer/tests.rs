use super::*;
use crate::report::sample;

#[test]
fn a_name_cannot_end_before_its_end() {
    let mut document = sample::ordinary();
    document.question.subject = "a`b` on nothing".into();
    let text = answer(&document);
    assert!(text.starts_with("`a'b' on nothing` on "), "{text}");
}

#[test]
fn the_first_sentence_has_the_share_and_the_factor() {
    let mut document = sample::ordinary();
    let share = percent(part(document.baseline(), document.baseline().known()));
    let text = answer(&document);
    let begin = format!("`postgres` on {} with 8 CPUs spends {share}", document.machine.name);
    assert!(text.starts_with(&begin), "{text}");
    let known = |i: usize| document.results[i].known() as f64;
    let [other, ratio] = [
        percent(part(&document.results[1], document.results[1].known())),
        factor(known(0) / known(1)),
    ];
    let end = format!("with `lookaside` it would be {other}, {ratio} times less.");
    assert!(text.ends_with(&end), "{text}");
    // What is assumed is said as such, and changes nothing in the sentence before.
    document.results[0].refills_band = Some([1_000_000_000, 2_000_000_000_000]);
    let with = answer(&document);
    assert!(with.starts_with(&text) && with.contains("not known from a trace"), "{with}");
    document.results[0].refills_band = None;

    // Only worse ones are left.
    document.results.remove(1);
    assert!(answer(&document).ends_with("1.34 times more."), "{}", answer(&document));
    let third = document.results[1].clone();
    document.results.push(third);
    assert!(answer(&document).contains("none of the 2 others does better"));
    document.results.truncate(1);
    let alone = answer(&document);
    assert!(alone.contains("under `linux-ipi-2025`") && !alone.contains("would"), "{alone}");
}

#[test]
fn what_has_no_price_is_not_said_to_take_no_time() {
    let mut document = sample::idle();
    document.results.truncate(1);
    document.results[0].operations.switches = 3;
    let text = answer(&document);
    assert!(text.contains("is not known") && !text.contains("no time"), "{text}");
}

#[test]
fn an_order_that_turns_on_plausible_machines_is_in_the_answer() {
    let mut document = sample::ordinary();
    document.turned = Some("On plausible machines the order turns.".into());
    assert!(answer(&document).ends_with(" times less. On plausible machines the order turns."));
}

/// The ordinary document with ranges from so many times what is known to so many times it.
fn with_ranges(ends: [[f64; 3]; 3]) -> Document {
    let mut document = sample::ordinary();
    let of = |(result, ends): (&Replayed, [f64; 3])| {
        ends.map(|times| (result.known() as f64 * times) as u64)
    };
    let known = document.results.iter().zip(ends).map(of).collect();
    document.plausible = Some(Plausible { machines: 64, known });
    document
}

#[test]
fn the_headline_has_the_range_of_each_share() {
    let document = with_ranges([[0.5, 1.1, 2.0]; 3]);
    let text = answer(&document);
    let [first, low, high] = [1.0, 0.5, 2.0].map(|times| {
        let known = document.baseline().known() as f64 * times;
        percent(part(document.baseline(), known as u64))
    });
    assert!(text.contains(&format!("spends {first} ({low} to {high}) of the time")), "{text}");
    assert!(
        text.ends_with("In brackets: where at least 80 % of 64 plausible machines are."),
        "{text}"
    );
}

#[test]
fn medians_lead_where_a_value_of_the_file_is_outside_of_its_range() {
    let document = with_ranges([[5.0, 8.0, 9.0], [0.5, 1.0, 2.0], [0.5, 1.0, 2.0]]);
    let text = answer(&document);
    let share = |place: usize, times: f64| {
        let result = &document.results[place];
        percent(part(result, (result.known() as f64 * times) as u64))
    };
    let [median, low, high, file] = [8.0, 5.0, 9.0, 1.0].map(|times| share(0, times));
    assert!(text.contains(&format!("spends {median} ({low} to {high}) of the time")), "{text}");
    assert!(text.contains("That is the median of 64 plausible machines"), "{text}");
    assert!(text.contains(&format!("they give {file} under `linux-ipi-2025`")), "{text}");
    let times = document.known()[0] as f64 / document.known()[1] as f64;
    assert!(text.contains(&format!(", {} times less.", factor(times))), "{text}");
}

#[test]
fn nothing_is_divided_by_nothing() {
    let mut document = sample::idle();
    assert!(answer(&document).ends_with("spends no time on TLB flushes and switches."));
    document.results.truncate(1);
    assert!(answer(&document).ends_with("spends no time on TLB flushes and switches."));
    let mut document = sample::ordinary();
    (document.results[1].total, document.results[1].upkeep) = (0, crate::Upkeep::default());
    assert!(answer(&document).ends_with("with `lookaside` it would be 0\u{a0}%."));
    document.results.swap(0, 1);
    document.results.truncate(2);
    assert!(answer(&document).contains("under `linux-ipi-2025` it would spend"));
}

fn curve(strategy: &str, points: &[(usize, f64)]) -> Curve {
    let point = |&(cpus, share): &(usize, f64)| CurvePoint { cpus, total: 0, share };
    Curve { strategy: strategy.into(), points: points.iter().map(point).collect() }
}

#[test]
fn lines_cross_where_they_do_on_logarithmic_axes() {
    // At 4 of 2 to 8 CPUs, by symmetry.
    let a = curve("a", &[(2, 0.01), (8, 0.04)]);
    let b = curve("b", &[(2, 0.04), (8, 0.01)]);
    let found = crossovers(&[a, b]);
    let [one] = &found[..] else { panic!("{found:?}") };
    assert_eq!((one.better.as_str(), one.worse.as_str()), ("b", "a"));
    assert_eq!((one.after, one.by), (2, 8));
    assert!((one.cpus - 4.0).abs() < 1e-9 && (one.share - 0.02).abs() < 1e-9, "{one:?}");
}

#[test]
fn of_many_crossings_those_count_that_change_the_answer() {
    let first = curve("first", &[(1, 0.1), (2, 0.1)]);
    let leader = curve("leader", &[(1, 0.01), (2, 0.01)]);
    // These two pass each other above the leader and below the first.
    let c = curve("c", &[(1, 0.02), (2, 0.05)]);
    let d = curve("d", &[(1, 0.05), (2, 0.02)]);
    assert_eq!(crossovers(&[first.clone(), leader, c.clone(), d.clone()]), []);
    // Without the leader it changes who is the cheapest.
    assert_eq!(crossovers(&[first, c, d]).len(), 1);
    // Less than half a percent is the same, and no passing; beyond it the last that differed counts.
    let same = curve("same", &[(1, 0.1002), (2, 0.0999), (4, 0.1001)]);
    let flat = curve("flat", &[(1, 0.1), (2, 0.1), (4, 0.1)]);
    assert_eq!(crossovers(&[flat.clone(), same]), []);
    // 4.4 % and 4.3 % are the same, for a model that may be off by 5 %.
    let [one, other] = [[0.044, 0.043], [0.043, 0.044]].map(|[a, b]| curve("x", &[(1, a), (2, b)]));
    assert_eq!(crossovers(&[one, other]), []);
    let late = crossovers(&[flat, curve("late", &[(1, 0.2), (2, 0.1), (4, 0.05)])]);
    assert_eq!((late[0].after, late[0].by, late.len()), (1, 4, 1));
    assert!((late[0].cpus - 2.0).abs() < 1e-9 && (late[0].share - 0.1).abs() < 1e-9, "{late:?}");
    // Who touches does not pass, and numbers of CPUs that only one has say nothing.
    let flat = curve("flat", &[(1, 0.1), (2, 0.1), (4, 0.1)]);
    assert_eq!(crossovers(&[flat.clone(), curve("e", &[(1, 0.2), (2, 0.1)])]), []);
    assert_eq!(crossovers(&[flat, curve("e", &[(3, 0.2), (4, 0.01)])]), []);
}
