//! What only later events tell about earlier ones.
//!
//! A program that executes another turns to its new space well before the event that says so, and a
//! fork flushes before there is a child. Both are found by reading ahead once.

use std::collections::{HashMap, HashSet};

use super::ends::{self, End};
use crate::trace::{CLONE_VM, Kind, Pages, Reason, Trace};

/// What is known before the walk through the events begins.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// By the place of an event: here a thread turns to the space of another program, and is known
    /// by its new number from here on. New number, old number.
    pub(super) executes: HashMap<usize, (u32, u32)>,
    /// The places of flushes that belong to the making of a child.
    pub(super) forks: HashSet<usize>,
    /// Threads that took faults, called the kernel, or executed: no threads of the kernel.
    pub(super) programs: HashSet<u32>,
    /// Whether any program did anything.
    pub(super) any: bool,
    /// By the place of an event: the calls that end with it, where returns are not recorded.
    pub(super) ends: HashMap<usize, Vec<End>>,
}

/// What a thread did since it last ran its own code.
#[derive(Default)]
struct Since {
    /// The place of the event that renamed it.
    renamed: Option<usize>,
    /// The places of flushes of everything.
    flushes: [Option<usize>; 2],
}

impl Ahead {
    /// Reads all events.
    pub(super) fn read(trace: &Trace) -> Self {
        let mut ahead = Self { ends: ends::find(trace), ..Self::default() };
        let kernel = trace.tasks.iter().filter(|task| task.kernel).map(|task| task.id);
        let kernel: HashSet<u32> = kernel.chain([0]).collect();
        let mut tasks: HashMap<u32, Since> = HashMap::new();
        for (place, event) in trace.events.iter().enumerate() {
            match event.kind {
                Kind::Call { .. } | Kind::Return { .. } => {
                    tasks.remove(&event.task);
                    ahead.programs.insert(event.task);
                }
                Kind::Fault { address, code } if address < crate::trace::fault::KERNEL => {
                    // The kernel writes to the new space's stack between its beginning and the event.
                    let since = tasks.entry(event.task).or_default();
                    since.flushes = [None; 2];
                    if code & crate::trace::fault::USER != 0 {
                        since.renamed = None;
                    }
                    ahead.programs.insert(event.task);
                }
                Kind::Rename { task, .. } => {
                    tasks.entry(task).or_default().renamed = Some(place);
                }
                Kind::Execute { task, old } => {
                    let renamed = tasks.remove(&task).and_then(|since| since.renamed);
                    ahead.executes.insert(renamed.unwrap_or(place), (task, old));
                    ahead.programs.insert(task);
                }
                Kind::Flush { reason: Reason::LocalSpace | Reason::Send, pages } => {
                    let since = tasks.entry(event.task).or_default();
                    since.flushes = match pages {
                        Pages::Everything => [since.flushes[1], Some(place)],
                        Pages::Some(_) => [None; 2],
                    };
                }
                Kind::Create { flags, .. } => {
                    ahead.any |= !kernel.contains(&event.task);
                    let since = tasks.remove(&event.task).unwrap_or_default();
                    if flags & CLONE_VM == 0 {
                        ahead.forks.extend(pair(trace, since.flushes));
                    }
                }
                Kind::Exit => {
                    ahead.any |= !kernel.contains(&event.task);
                    tasks.remove(&event.task);
                }
                _ => {}
            }
        }
        ahead.any |= !ahead.programs.is_empty();
        ahead
    }
}

/// The events of the last of these flushes: that it was sent, and that it was done here.
fn pair(trace: &Trace, [before, last]: [Option<usize>; 2]) -> impl Iterator<Item = usize> {
    let reason = |place: usize| match trace.events[place].kind {
        Kind::Flush { reason, .. } => Some(reason),
        _ => None,
    };
    let both = before.and_then(reason) == Some(Reason::Send)
        && last.and_then(reason) == Some(Reason::LocalSpace);
    last.into_iter().chain(before.filter(|_| both))
}
