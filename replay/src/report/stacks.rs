//! Collapsed stacks, as flame graph tools read them: `process;operation;cause` and whole nanoseconds.

use std::collections::BTreeMap;

use crate::Replayed;

/// The upkeep of a strategy by stack, one line each, sorted. Less than half a nanosecond is
/// left out.
#[must_use]
pub fn to_stacks(result: &Replayed) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for blame in &result.blame {
        let (process, operation) = (frame(&blame.process), frame(&blame.operation));
        for (cause, time) in blame.upkeep.iter() {
            *stacks.entry(format!("{process};{operation};{cause}")).or_default() += time;
        }
    }
    let nanoseconds = |time: u64| (time + 500) / 1000;
    let lines = stacks.into_iter().map(|(stack, time)| (stack, nanoseconds(time)));
    lines.filter(|&(_, ns)| ns > 0).map(|(stack, ns)| format!("{stack} {ns}\n")).collect()
}

/// A name as a frame: tools take `;` for the next frame and the last space for the end of the stack.
fn frame(name: &str) -> String {
    let plain = |c: char| if c == ';' || c.is_control() { '_' } else { c };
    let text: String = name.trim().chars().map(plain).collect();
    if text.is_empty() { "(no name)".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blame, Upkeep, report::sample};

    #[test]
    fn stacks_add_up_to_the_upkeep_in_nanoseconds() {
        let document = sample::ordinary();
        for result in &document.results {
            let text = to_stacks(result);
            let sum: u64 =
                text.lines().map(|l| l.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
            let blamed: u64 = result.blame.iter().map(|blame| blame.upkeep.total()).sum();
            let lines = text.lines().count() as u64;
            assert!(sum.abs_diff(blamed / 1000) <= lines, "{sum} {blamed}");
            assert!(lines > 3);
        }
    }

    #[test]
    fn names_do_not_break_the_lines() {
        let mut result = sample::ordinary().results.remove(0);
        let upkeep = Upkeep { waits: 1_499, ..Upkeep::default() };
        let blame = |process: &str, operation: &str| Blame {
            process: process.into(),
            operation: operation.into(),
            count: 1,
            upkeep,
            interrupts: 0,
        };
        result.blame =
            vec![blame("a;b\nc d", "munmap"), blame("", "x"), blame("a;b c d", "munmap")];
        result.blame[2].process = "a_b_c d".into();
        assert_eq!(to_stacks(&result), "(no name);x;waits 1\na_b_c d;munmap;waits 3\n");
    }
}
