//! Programs in which CPU 1 stops in the middle, and another CPU tells the library.

use super::{
    draw::{Theme, any},
    random::Random,
};
use crate::scenario::act::Act;

/// How often the CPU comes up again.
const RISES: usize = 40;
/// How often what it ran is released.
const RELEASED: usize = 60;

/// Has CPU 1 stop after what it does, and CPU 0 notice it after its switches.
pub(super) fn halt(random: &mut Random, theme: &Theme, scripts: &mut [Vec<Act>]) {
    for acts in scripts.iter_mut() {
        // One word is told in a program, and here it says that the CPU has stopped.
        acts.retain(|act| !matches!(act, Act::Defer(..) | Act::Complete | Act::Up | Act::Down));
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
        later.insert(random.below(later.len() + 1), Act::MustRelease(random.below(theme.spaces)));
    }
    notices.append(&mut later);
}
