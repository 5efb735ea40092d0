use lookaside_machine::timed::Price;

use super::*;
use crate::{
    sensitivity::{TIE, Uncertain},
    workload::Metric,
};

/// An answer on nine machines of ten that turns on these prices, each with the answer at both ends of its range.
fn answer(influences: &[(&str, [f64; 2])]) -> Answer {
    let influence = |&(key, ends): &(&str, [f64; 2])| {
        let (name, quality) = (format!("prices.{key}"), Quality::Proxy);
        let number =
            Uncertain { name, quality, known: None, low: 1e3, high: 2e3, is_assumed: false };
        Influence { number, correlation: 0.5, ends, narrows: 0.12 }
    };
    Answer {
        machines: 10,
        outcomes: Vec::new(),
        intervals: Vec::new(),
        metric: "time",
        best: vec![9, 1],
        tied: 0,
        tie: 0.0,
        lost: vec![[0.0; 2]; 2],
        pair: [0, 1],
        gain: Interval { low: 0.9, median: 1.5, high: 2.0 },
        influences: influences.iter().map(influence).collect(),
        gaps: Gaps::default(),
        readings: Vec::new(),
    }
}

#[test]
fn which_ranges_are_assumed_is_said() {
    let names = |keys: &[&str]| keys.iter().map(|key| format!("prices.{key}")).collect();
    let of = |unpriced: &[&str], assumed: &[&str]| {
        let (unpriced, assumed): (Vec<String>, _) = (names(unpriced), names(assumed));
        let tag_as = unpriced.contains(&"prices.flush_tag".to_owned()).then_some("root_flush");
        gaps(&Gaps { unpriced, assumed, tag_as }, "turin")
    };
    assert_eq!(of(&[], &[]), None);
    let all = of(&["hit", "fence", "fabric_sync"], &["interrupt_exit", "fabric_sync"]).unwrap();
    assert!(all.contains("no price for a cache hit, a memory fence: "), "{all}");
    assert!(
        all.contains("Nor for a wait's part of the interconnect: ")
            && all.contains("an assumed range"),
        "{all}"
    );
    assert!(all.contains("Its file assumes the return from an interrupt"), "{all}");
    let read = of(&["hit"], &[]).unwrap();
    assert!(!read.contains("assumed") && read.contains("range from the literature"), "{read}");
    let tag = of(&["hit", "flush_tag"], &[]).unwrap();
    assert!(tag.contains("no price for a cache hit: free with"), "{tag}");
    assert!(
        tag.contains("none for a flush of one tag (PCID, ASID) either, which takes as long as a switch of page tables that flushes"),
        "{tag}"
    );
    let tag = of(&["flush_tag"], &[]).unwrap();
    assert!(
        tag.starts_with("turin has no price for a flush of one tag (PCID, ASID), which takes as long as a switch"),
        "{tag}"
    );
    let alone = of(&["fabric_sync"], &["fabric_sync"]).unwrap();
    assert!(!alone.contains("literature"), "{alone}");
}

#[test]
fn every_price_has_words_of_its_own() {
    let mut all: Vec<&str> = Price::ALL.iter().map(|price| about(price.key())).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), Price::ALL.len());
    assert!(Price::ALL.iter().all(|price| about(price.key()).contains(' ')), "no raw keys");
}

#[test]
fn the_price_that_turns_the_answer_is_measured_or_said_not_to_be() {
    let of = answer(&[("walk", [1.1, 1.2]), ("flush_page", [0.9, 2.0])]);
    assert_eq!(measurement(&of), Some("flush_page"), "the other price never turns it");
    let all = reasons(&of).concat();
    assert!(all.contains(
        "What settles it most: on such a machine, `lookaside calibrate --only flush_page`: it may turn the answer, and \
         the range of the ratio would be 12 % smaller."
    ));
    let of = answer(&[("walk", [1.1, 1.2]), ("fabric_sync", [0.9, 2.0])]);
    assert_eq!(unmeasured(&of).unwrap().number.name, "prices.fabric_sync");
    let all = reasons(&of).concat();
    assert!(
        !all.contains("settles")
            && all.contains("`lookaside calibrate` cannot measure fabric_sync")
    );
    let helps = "this helps most: `lookaside calibrate --only walk`: the range of the ratio would be 12 % smaller.";
    assert!(all.contains(helps), "{all}");
    let mut of = answer(&[("flush_page", [0.9, 2.0])]);
    of.influences[0].number.name = "paths.protect".to_owned();
    let all = reasons(&of).concat();
    let file =
        "`lookaside calibrate --output FILE`, whose file has paths.protect: it may turn the answer";
    assert!(all.contains(file) && measurement(&of).is_none() && unmeasured(&of).is_none(), "{all}");
    let settled = Answer { best: vec![10, 0], ..answer(&[("flush_page", [1.1, 2.0])]) };
    assert_eq!((measurement(&settled), unmeasured(&settled)), (None, None));
}

/// An answer of two strategies whose metrics on ten machines are these, by the first of them.
fn compared(of: [[f64; 2]; 2], gain: [f64; 3], best: [usize; 2]) -> Answer {
    let metrics = |[allocs, time]: [f64; 2]| {
        vec![
            Metric { key: "allocs", unit: "1/s", value: allocs },
            Metric { key: "time", unit: "ns", value: time },
        ]
    };
    let outcomes = of.map(|values| vec![metrics(values); 10]).to_vec();
    let [low, median, high] = gain;
    let (metric, gain) = ("allocs", Interval { low, median, high });
    let tied = 10 - best.iter().sum::<usize>();
    Answer { outcomes, metric, gain, tied, tie: TIE, best: best.to_vec(), ..answer(&[]) }
}

fn said(answer: &Answer) -> String {
    sentences(answer, &["linux".to_owned(), "lookaside".to_owned()], "zen4").join("\n")
}

#[test]
fn the_metric_is_named_and_another_that_says_otherwise_as_well() {
    let all = said(&compared([[9.0, 5.0], [8.0, 1.0]], [1.1, 1.2, 1.3], [9, 1]));
    assert!(all.starts_with("By `allocs`, linux is best on 90 % of 10 plausible"), "{all}");
    assert!(
        all.contains("\nAnother is best by other metrics: lookaside by `time`, on 100 %."),
        "{all}"
    );
    let agree = said(&compared([[9.0, 1.0], [8.0, 5.0]], [1.1, 1.2, 1.3], [9, 1]));
    assert!(!agree.contains("other metrics"), "{agree}");
}

#[test]
fn what_comes_to_the_same_is_no_win() {
    for gain in [[1.0, 1.001, 1.004], [0.995, 1.0, 1.01]] {
        let all = said(&compared([[9.0, 1.0], [9.0, 1.0]], gain, [1, 0]));
        let same = "By `allocs`, linux and lookaside come to the same, to 1 %, on at least 80 % of 10 plausible machines";
        assert!(all.starts_with(same) && !all.contains("1.00x to"), "{all}");
    }
    // By the time one of them is better, whichever was named first.
    for times in [[5.0, 1.0], [1.0, 5.0]] {
        let of = compared([[9.0, times[0]], [9.0, times[1]]], [1.0, 1.0, 1.0], [0, 0]);
        let best = if times[0] < times[1] { "linux" } else { "lookaside" };
        let line = format!("One is best by other metrics: {best} by `time`, on 100 %.");
        assert!(said(&of).contains(&line), "{}", said(&of));
    }
}

#[test]
fn where_there_is_no_ratio_it_is_said_of_what_there_is_none() {
    let none = f64::INFINITY;
    // More allocations are better, and there are none with the second.
    let some = said(&compared([[9.0, 1.0], [0.0, 1.0]], [2.0, none, none], [9, 1]));
    let words = "linux is best on 90 % of 10 plausible machines of this kind, at least 2.00x as good as lookaside on at least 80 % \
                 of them; on some there is no ratio, as `allocs` of lookaside is 0.";
    assert!(some.contains(words) && !some.contains("inf"), "{some}");
    let all = said(&compared([[9.0, 1.0], [0.0, 1.0]], [none; 3], [10, 0]));
    let words = "of this kind; on at least 80 % of them there is no ratio, as `allocs` of lookaside is 0 and that of linux is not.";
    assert!(all.contains(words) && !all.contains("inf"), "{all}");
}

#[test]
fn settings_are_several() {
    let names = ["the recorded settings".to_owned(), "cpus=8".to_owned()];
    let of = compared([[9.0, 1.0], [8.0, 1.0]], [1.1, 1.2, 1.3], [9, 1]);
    assert!(certainty(&of, &names)[0].starts_with("the recorded settings are best on 90 %"));
}
