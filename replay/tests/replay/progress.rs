//! How many replays there are is said before they are done, and is right in the end.

use core::sync::atomic::AtomicU64;
use std::{path::Path, sync::Mutex};

use lookaside_replay::{advice::Advising, inputs::Choice, plausible::Sampling};
use lookaside_simulation::reproduce::Book;
use lookaside_traces::import;

/// What was told after each replay.
#[derive(Default)]
struct Told(Mutex<Vec<u64>>);

impl Told {
    fn note(&self, all: u64) {
        self.0.lock().unwrap().push(all);
    }

    /// The last number is how many there were, and no number before is more.
    #[track_caller]
    fn check(self, what: &str) {
        let told = self.0.into_inner().unwrap();
        let count = told.len() as u64;
        assert!(count > 2 && told.last() == Some(&count), "{what}: {told:?}");
        assert!(told.iter().all(|&all| all <= count), "{what}: {told:?}");
    }
}

#[test]
fn the_number_of_replays_is_right() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/compile.trace");
    let trace = import::open(Path::new(path)).unwrap();
    let mut book = Book::shipped().unwrap();
    // With eight machines it is looked for what decides, with four it is not.
    for machines in [4, 8] {
        let strategies = ["linux-ipi-2025", "lookaside"].map(str::to_owned);
        let choice = Choice { strategies: &strategies, machine: Some("zen5"), ..Choice::default() };
        let inputs = choice.inputs(&trace, &mut book).unwrap();
        let machine = book.machine("zen5").unwrap();
        let (ranges, count) = (&book.ranges, Some(machines));
        let asked =
            Advising { inputs: &inputs, machine, ranges, machines: count, budget: 20, seed: 1 };
        let [refills, replays, plausible] = [0; 3].map(|_| Told::default());
        let of = asked.refills(&|all| refills.note(all)).unwrap();
        asked.advise(of, &|all| replays.note(all)).unwrap();
        let done = |all| plausible.note(all);
        let spent = AtomicU64::new(0);
        let of = Sampling { machines: count, most: None, seed: 1, spent: &spent };
        inputs.on_plausible_machines(machine, ranges, of, &done).unwrap().unwrap();
        let all = spent.into_inner();
        // Where their number is not given they are asked only if the least number of them fits.
        for (most, is_asked) in [(all, true), (all / 20, false), (0, false)] {
            let spent = AtomicU64::new(0);
            let of = Sampling { machines: None, most: Some(most), seed: 1, spent: &spent };
            let answer = inputs.on_plausible_machines(machine, ranges, of, &|_| ()).unwrap();
            assert_eq!(answer.is_some(), is_asked, "{most} events");
            // What one takes is known of the machine file alone; others may take a few more.
            let spent = spent.into_inner();
            assert!(spent <= most.max(all / 5) * 5 / 4, "{spent} events, and not {most}");
        }
        refills.check("refills");
        replays.check("advice");
        plausible.check("plausible machines");
    }
}
