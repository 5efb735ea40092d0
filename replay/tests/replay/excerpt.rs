//! Pieces of a trace tell strategies apart as all of it does, and times less well. The bounds are what was measured.

use std::path::Path;

use lookaside_replay::{inputs::Choice, replay};
use lookaside_simulation::reproduce::Book;
use lookaside_traces::import;

#[test]
fn a_tenth_of_a_trace_tells_strategies_apart_as_all_of_it_does() {
    let mut book = Book::shipped().unwrap();
    let strategies = ["linux-ipi-2025", "lookaside"].map(str::to_owned);
    for file in ["threads", "corpus/judged/gitlog", "corpus/judged/pool", "corpus/found/java-g1"] {
        let path = format!("{}/../traces/{file}.trace", env!("CARGO_MANIFEST_DIR"));
        let trace = import::open(Path::new(&path)).unwrap();
        let choice = Choice {
            strategies: &strategies,
            machine: Some("zen5"),
            cpus: Some(8),
            ..Choice::default()
        };
        let inputs = choice.inputs(&trace, &mut book).unwrap();
        let machine = book.machine("zen5").unwrap();
        let excerpt = inputs.script.excerpt(64, 0.1);
        let known = |script: &_, strategy: &String| {
            let mut setup = inputs.setup(machine, strategy, 1);
            setup.working_set = setup.working_set.hardly_used();
            replay(script, &setup).unwrap().known() as f64
        };
        let [linux, library] = strategies.each_ref().map(|strategy| {
            known(&excerpt.script, strategy) / excerpt.part / known(&inputs.script, strategy)
        });
        assert!((0.25..1.2).contains(&linux), "{file}: {linux} of the time");
        assert!((0.95..1.07).contains(&(library / linux)), "{file}: {}", library / linux);
    }
}
