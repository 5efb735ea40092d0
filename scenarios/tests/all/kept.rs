//! Scenarios that are kept as text.

use lookaside_machine::explore::Budget;
use lookaside_scenarios::scenario::{Depth, read_kept};

#[test]
fn kept_scenarios_are_read_and_malformed_ones_refused() {
    let text = "# why\nabout = a page goes\ndepth = 1\nprogram = arm epochs(3) [Run(A) Unmap(A)]\n";
    let entry = read_kept("page-goes", text).expect("a scenario");
    assert_eq!((entry.name, entry.about), ("page-goes", "a page goes"));
    assert_eq!(entry.depth, Depth::Bounded(1));
    entry.open().explore(entry.depth, Budget::UNLIMITED).assert_proved();
    for (wrong, why) in [
        ("program = arm epochs(3) [Run(A)]", "about"),
        ("about = x", "no program"),
        ("about = x\nprogram = arm", "looks like"),
        ("about = x\ndepth = many\n", "pre-emptions"),
        ("colour = red", "none of"),
        ("nothing", "says nothing"),
    ] {
        let error = read_kept("wrong", wrong).err().expect(wrong);
        assert!(error.contains(why), "{wrong}: {error}");
    }
}
