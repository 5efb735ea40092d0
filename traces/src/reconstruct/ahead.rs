//! What only later events tell about earlier ones.
//!
//! A program that executes another turns to its new space well before the event that says so, and a
//! fork flushes before there is a child. Both are found by reading ahead once.

use std::collections::{HashMap, HashSet};

use lookaside_terminal::Refused;

use super::{
    ends::{self, End},
    linux,
};
use crate::{CLONE_VM, Kind, Pages, Reason, Trace};

/// What is known before the walk through the events begins.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// By the place of an event: here a thread turns to the space of another program, and is known
    /// by its new number from here on. New number, old number.
    pub(super) executes: HashMap<usize, (u32, u32)>,
    /// The places of flushes that belong to the making of a child.
    pub(super) forks: HashSet<usize>,
    /// The places of ends of threads, and of turns to another program, after which the thread is seen to have
    /// freed the space that it left.
    pub(super) frees: HashSet<usize>,
    /// The places of flushes with which the kernel takes pages away by itself: where it tells others, or, if it tells
    /// nobody, where it flushes.
    pub(super) page_outs: HashSet<usize>,
    /// The threads that did so at some time.
    pub(super) page_out_tasks: HashSet<u32>,
    /// Threads that took faults, called the kernel, or executed: no threads of the kernel.
    pub(super) programs: HashSet<u32>,
    /// Whether any program did anything.
    pub(super) any: bool,
    /// By the place of an event: the calls that end with it, where returns are not recorded.
    pub(super) ends: HashMap<usize, Vec<End>>,
    /// By number: from which event on a thread is one of the command that was recorded. None where everybody
    /// was: a whole system, or a command beside everything else (`lab record --all`).
    ours: Option<HashMap<u32, usize>>,
}

/// What a thread did since it last ran its own code.
#[derive(Default)]
struct Since {
    /// The place of the event that renamed it.
    renamed: Option<usize>,
    /// The place of the latest flush at a switch that none between threads explains: it turned to another
    /// space.
    turned: Option<usize>,
    /// The place of the event that says that it has freed a space.
    freed: Option<usize>,
    /// The places of flushes of everything.
    flushes: [Option<usize>; 2],
    /// The place of the flush that it told others of, if it did not do it itself yet.
    sent: Option<usize>,
    /// Whether it pages out because it was told to (`MADV_PAGEOUT`).
    told_to: bool,
}

impl Ahead {
    /// Reads all events.
    pub(super) fn read(trace: &Trace) -> Self {
        let ours = first(trace);
        let members: HashSet<u32> = trace.origin.members.iter().copied().collect();
        let mut ahead = Self { ends: ends::find(trace), ours, ..Self::default() };
        // By CPU: the thread that it left, if it did not yet say what that meant for the TLB.
        let mut left: HashMap<u16, u32> = HashMap::new();
        let kernel = trace.tasks.iter().filter(|task| task.kernel).map(|task| task.id);
        let kernel: HashSet<u32> = kernel.chain([0]).collect();
        let mut tasks: HashMap<u32, Since> = HashMap::new();
        let mut exits: HashMap<u32, usize> = HashMap::new();
        // Whether another program did something, which the recorder of a command drops.
        let mut others = false;
        for (place, event) in trace.events.iter().enumerate() {
            if let (Kind::Call { .. } | Kind::Return { .. } | Kind::Fault { .. }, Some(ours)) =
                (event.kind, &ahead.ours)
            {
                others |= trace.origin.root != Some(event.task) && !ours.contains_key(&event.task);
            }
            match event.kind {
                Kind::Call { .. } | Kind::Return { .. } => {
                    let told_to = matches!(event.kind, Kind::Call { call, arguments }
                        if linux::pages_out(call, &arguments));
                    tasks.insert(event.task, Since { told_to, ..Since::default() });
                    ahead.programs.insert(event.task);
                }
                Kind::Fault { address, code } if address < crate::fault::KERNEL => {
                    // The kernel writes to the new space's stack between its beginning and the event.
                    let since = tasks.entry(event.task).or_default();
                    since.flushes = [None; 2];
                    if code & crate::fault::USER != 0 {
                        (since.renamed, since.turned) = (None, None);
                    }
                    ahead.programs.insert(event.task);
                }
                Kind::Rename { task, .. } => {
                    tasks.entry(task).or_default().renamed = Some(place);
                }
                Kind::Execute { task, old } => {
                    let since = tasks.remove(&task).unwrap_or_default();
                    let turns = since.turned.or(since.renamed).unwrap_or(place);
                    ahead.executes.insert(turns, (task, old));
                    ahead.frees.extend(since.freed.filter(|freed| *freed > turns).map(|_| turns));
                    ahead.programs.insert(task);
                    if let Some(ours) = &mut ahead.ours
                        && (ours.contains_key(&old) || trace.origin.root == Some(task))
                    {
                        ours.entry(task).or_insert(turns);
                    }
                }
                Kind::Flush { reason: Reason::Local, .. } => {
                    let since = tasks.entry(event.task).or_default();
                    let place = since.sent.take().unwrap_or(place);
                    if !since.told_to {
                        ahead.page_outs.insert(place);
                        ahead.page_out_tasks.insert(event.task);
                    }
                }
                Kind::Flush { reason: reason @ (Reason::LocalSpace | Reason::Send), pages } => {
                    let since = tasks.entry(event.task).or_default();
                    let all = reason == Reason::Send && pages == Pages::Everything;
                    since.sent = all.then_some(place);
                    since.flushes = match pages {
                        Pages::Everything => [since.flushes[1], Some(place)],
                        Pages::Some(_) => [None; 2],
                    };
                }
                Kind::Switch { .. } => drop(left.insert(event.cpu, event.task)),
                Kind::Flush { reason: Reason::Switch, .. } => {
                    let inside = event.in_interrupt == Some(true);
                    if !inside && left.remove(&event.cpu) != Some(event.task) {
                        tasks.entry(event.task).or_default().turned = Some(place);
                    }
                }
                Kind::Create { task, flags, .. } => {
                    exits.remove(&task);
                    if let Some(ours) = &mut ahead.ours {
                        match ours.contains_key(&event.task) || members.contains(&task) {
                            true => drop(ours.insert(task, place)),
                            false => drop(ours.remove(&task)),
                        }
                    }
                    ahead.any |= !kernel.contains(&event.task);
                    let since = tasks.remove(&event.task).unwrap_or_default();
                    if flags & CLONE_VM == 0 {
                        ahead.forks.extend(pair(trace, since.flushes));
                    }
                }
                Kind::Unmapped { .. } => {
                    ahead.frees.extend(exits.remove(&event.task));
                    tasks.entry(event.task).or_default().freed = Some(place);
                }
                Kind::Exit => {
                    exits.insert(event.task, place);
                    ahead.any |= !kernel.contains(&event.task);
                    tasks.remove(&event.task);
                }
                _ => {}
            }
        }
        ahead.any |= !ahead.programs.is_empty();
        if others {
            ahead.ours = None;
        }
        ahead
    }

    /// Whether there is anything to follow.
    pub(super) fn check(&self, trace: &Trace) -> Result<(), Refused> {
        let why = match (self.any, trace.origin.losses.truncated) {
            (true, _) => return Ok(()),
            (false, true) => {
                "the end of the trace is missing, and the rest has no events of programs"
            }
            (false, false) => "the trace has no events of programs",
        };
        Err(Refused(format!("{why}: nothing to replay")))
    }

    /// Whether what a thread flushes was recorded, at the event at `place`.
    pub(super) fn is_ours(&self, task: u32, place: usize) -> bool {
        let ours = |ours: &HashMap<u32, usize>| ours.get(&task).is_some_and(|from| *from <= place);
        self.ours.as_ref().is_none_or(ours)
    }

    /// Whether it was before the event at `place`.
    pub(super) fn was_ours(&self, task: u32, place: usize) -> bool {
        let ours = |ours: &HashMap<u32, usize>| ours.get(&task).is_some_and(|from| *from < place);
        self.ours.as_ref().is_none_or(ours)
    }
}

/// Who belongs to the subject of a recording at first; none where that is the whole system.
fn first(trace: &Trace) -> Option<HashMap<u32, usize>> {
    let members = &trace.origin.members;
    if members.is_empty() {
        return trace.origin.root.map(|root| first_of(root, trace));
    }
    let followed = trace.tasks.iter().filter(|task| members.contains(&task.process));
    Some(followed.map(|task| (task.id, 0)).collect())
}

/// Who belongs to a command at first: nobody, where its process is seen to turn to it.
fn first_of(root: u32, trace: &Trace) -> HashMap<u32, usize> {
    let executes = |kind| matches!(kind, Kind::Execute { task, .. } if task == root);
    match trace.events.iter().any(|event| executes(event.kind)) {
        true => HashMap::new(),
        false => HashMap::from([(root, 0)]),
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
