//! Programs in which CPU 1 halts at any point, and another CPU reports that to the library.

use super::{
    draw::{Theme, any},
    random::Random,
};
use crate::scenario::act::Act;

/// How often the CPU comes up again.
const RISES: usize = 40;
/// How often the space that it ran is released.
const RELEASED: usize = 60;

/// Halts CPU 1 after its acts, and lets CPU 0 report it after its switches.
pub(super) fn halt(random: &mut Random, theme: &Theme, scripts: &mut [Vec<Act>]) {
    for acts in scripts.iter_mut() {
        // A program has one signal, and here it means that the CPU has halted.
        // And CPU 0 has its acts in another order, so that no wait would come after its begin.
        acts.retain(|act| {
            let waits = matches!(act, Act::Complete | Act::Finish | Act::Up | Act::Down);
            !(waits || act.hands_over() || act.begins())
        });
    }
    let stopped = &mut scripts[1];
    stopped.push(Act::Halt);
    let rises = random.percent(RISES);
    if rises {
        stopped.extend([Act::Rise, any(random, theme)]);
    }
    let notices = &mut scripts[0];
    let mut later: Vec<_> = notices.iter().copied().filter(|act| !act.asks_nobody()).collect();
    notices.retain(|act| act.asks_nobody());
    notices.push(Act::Bury);
    if !rises && random.percent(RELEASED) {
        later.insert(random.below(later.len() + 1), Act::Release(random.below(theme.spaces)));
    }
    notices.append(&mut later);
}
