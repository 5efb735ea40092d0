//! Pieces of a script that stand for all of it, where to replay all of it takes too long.

use std::collections::BTreeMap;

use super::{Act, Script, Step};

/// Pieces of a script, put one behind the other.
#[derive(Clone, Debug)]
pub struct Excerpt {
    /// The pieces. Its length is the time in which they happened.
    pub script: Script,
    /// The part of the whole that they are, by the number of steps: what the whole takes is what they take, divided by this.
    pub part: f64,
}

/// A piece: from one moment of the script to another, and where it begins in the excerpt.
struct Piece {
    from: u64,
    to: u64,
    at: u64,
}

/// Where a moment of a script is in its excerpt.
enum Place {
    /// In a piece, at this time of the excerpt.
    Piece(u64),
    /// Before a piece that begins at this time of the excerpt, or behind the last one, at the end.
    Between(u64),
}

impl Script {
    /// So many pieces, spread evenly over the steps of the script, each with as many of them, which together are about `part` of it
    /// (more than 0). A program works at times and waits at others, so the pieces are not of equal length.
    ///
    /// Of what happened between two pieces remains what each CPU ran at the end: it turns to that where the later piece begins. So
    /// mappings, flushes, forks and exits are there in the proportion in which pieces have them, and a CPU has one switch more
    /// for each piece at most. The kernel's counts are of the whole script, and are not in the excerpt.
    ///
    /// # Panics
    ///
    /// If there are no pieces.
    #[must_use]
    pub fn excerpt(&self, pieces: usize, part: f64) -> Excerpt {
        assert!(pieces > 0, "an excerpt has pieces");
        // What is mapped takes no time of the TLB's, and comes by the hundred.
        let counts = |step: &&Step| !matches!(step.act, Act::Map { .. });
        let steps = self.cpus.iter().flatten().filter(counts);
        let mut times: Vec<u64> = steps.map(|step| step.time).collect();
        times.sort_unstable();
        let all = times.len();
        let each = ((all as f64 * part / pieces as f64) as usize).max(1);
        let moment = |step: usize| times.get(step).copied().unwrap_or(self.length + 1);
        let mut found: Vec<Piece> = Vec::new();
        let mut length = 0;
        for piece in 0..pieces {
            let first = piece * all / pieces;
            let from = found.last().map_or(0, |piece| piece.to).max(moment(first));
            let to = moment(first + each).max(from);
            found.push(Piece { from, to, at: length });
            length += to - from;
        }
        let place = |time: u64| {
            let next = found.partition_point(|piece| piece.to <= time);
            match found.get(next) {
                Some(piece) if piece.from <= time => Place::Piece(piece.at + time - piece.from),
                Some(piece) => Place::Between(piece.at),
                None => Place::Between(length),
            }
        };
        let kept = times.iter().filter(|&&time| matches!(place(time), Place::Piece(_))).count();
        let script = Self {
            spaces: self.spaces.clone(),
            initiators: self.initiators.clone(),
            cpus: self.cpus.iter().map(|steps| excerpt_of(steps, place)).collect(),
            length,
            unknown: self.unknown,
            expected: BTreeMap::new(),
            recorded: None,
            places: self.places.clone(),
        };
        Excerpt { script, part: kept as f64 / all.max(1) as f64 }
    }
}

/// The steps of one CPU that are in the excerpt.
fn excerpt_of(steps: &[Step], place: impl Fn(u64) -> Place) -> Vec<Step> {
    let mut excerpt: Vec<Step> = Vec::new();
    // What the CPU runs in the excerpt so far, and the latest turn that was left out.
    let (mut runs, mut left_out) = (None, None::<Step>);
    for step in steps {
        let (time, is_in_piece) = match place(step.time) {
            Place::Piece(time) => (time, true),
            Place::Between(time) => (time, false),
        };
        // Its piece has begun, or is over: other turns are to a later one.
        if let Some(turn) = left_out.take_if(|turn| is_in_piece || turn.time < time)
            && turn_of(&turn) != runs
        {
            runs = turn_of(&turn);
            excerpt.push(turn);
        }
        if is_in_piece {
            excerpt.push(Step { time, ..*step });
            runs = turn_of(step).or(runs);
        } else if turn_of(step).is_some() {
            left_out = Some(Step { time, counted: false, ..*step });
        }
    }
    excerpt.extend(left_out.filter(|turn| turn_of(turn) != runs));
    excerpt
}

/// What a CPU turns to by a step.
const fn turn_of(step: &Step) -> Option<(Act, u32)> {
    match step.act {
        Act::Run(_) | Act::Idle => Some((step.act, step.task)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Initiator, Operation, SpaceId},
        *,
    };

    fn script(cpus: &[&[(u64, Act)]], length: u64) -> Script {
        let initiator = Initiator {
            process: "p".into(),
            operation: Operation::User,
            function: None,
            recorded: true,
        };
        let step =
            |&(time, act): &(u64, Act)| Step { time, task: 1, initiator: 0, counted: true, act };
        Script {
            initiators: vec![initiator],
            cpus: cpus.iter().map(|steps| steps.iter().map(step).collect()).collect(),
            length,
            ..Script::default()
        }
    }

    fn acts(of: &Script) -> Vec<Vec<(u64, Act)>> {
        of.cpus
            .iter()
            .map(|steps| steps.iter().map(|step| (step.time, step.act)).collect())
            .collect()
    }

    const A: Act = Act::Run(SpaceId(0));
    const B: Act = Act::Run(SpaceId(1));

    fn map(page: u32) -> Act {
        Act::Map { space: SpaceId(0), first: page, pages: 1 }
    }

    fn unmap(page: u32) -> Act {
        Act::Unmap { space: SpaceId(0), first: page, pages: 1, tables: false, whole: false }
    }

    #[test]
    fn pieces_are_spread_over_the_steps_and_put_one_behind_the_other() {
        // Ten steps in each of ten bursts.
        let times: Vec<u64> = (0..100).map(|step| step / 10 * 1000 + step % 10).collect();
        let steps: Vec<(u64, Act)> = times.iter().map(|&time| (time, unmap(time as u32))).collect();
        let Excerpt { script: excerpt, part } = script(&[&steps], 10_000).excerpt(5, 0.1);
        assert_eq!((excerpt.length, part), (10, 0.1));
        let expected = [0, 1, 2000, 2001, 4000, 4001, 6000, 6001, 8000, 8001].map(unmap);
        assert_eq!(acts(&excerpt), [(0..).zip(expected).collect::<Vec<_>>()]);
        let Excerpt { script: whole, part } = script(&[&steps], 10_000).excerpt(5, 1.0);
        assert_eq!((part, &acts(&whole)[0]), (1.0, &steps));
    }

    #[test]
    fn a_cpu_runs_in_a_piece_what_it_ran_then() {
        // Of 16 steps that count, the pieces have four each: from 0 to 14, and from 18 to 25.
        let first = [(0, A), (15, B), (18, Act::Idle), (19, B), (21, map(7)), (25, A), (35, B)];
        // The second has no step in the later piece, and goes on to run there.
        let second = [(3, A), (12, A), (17, B), (39, Act::Idle)];
        let third = [(3, A), (14, B), (17, A), (20, unmap(1)), (21, unmap(2)), (34, unmap(3))];
        let Excerpt { script: excerpt, .. } =
            script(&[&first, &second, &third], 40).excerpt(2, 0.5);
        let expected = [
            vec![(0, A), (14, B), (14, Act::Idle), (15, B), (17, map(7))],
            vec![(3, A), (12, A), (14, B), (21, Act::Idle)],
            vec![(3, A), (16, unmap(1)), (17, unmap(2))],
        ];
        assert_eq!(acts(&excerpt), expected);
        let uncounted: Vec<u64> =
            excerpt.cpus[0].iter().filter(|step| !step.counted).map(|step| step.time).collect();
        assert_eq!(uncounted, [14], "the TLB is not what the kernel counted by");
    }
}
