//! What the kernel itself counted: the numbers that a replay is compared with.

use std::collections::{HashMap, HashSet};

use crate::{Event, KernelCounts, Kind, Pages, Purpose, Reason, Trace, reconstruct::ahead::Ahead};

/// A CPU, as far as its counts go.
#[derive(Default)]
struct Cpu {
    /// The thread that it left, if it did not yet say what that meant for the TLB. The kernel says it
    /// while it still takes itself for that thread.
    left: Option<u32>,
    /// Whether it left it for a thread whose flushes are recorded.
    known: bool,
    /// Whether it handles an interrupt from another CPU.
    interrupted: bool,
    /// The flush that it was asked for: what it came to so far, by place in [`KernelCounts::fates`].
    serving: Option<usize>,
    /// Whether it serves one that nobody is known to have asked for.
    strange: bool,
    /// Whether it serves it in an interrupt.
    inside: Option<bool>,
    /// Interrupts that were sent to it for the sake of a flush, where requests are not recorded.
    sent: u64,
}

const FLUSHED: usize = 0;
const DROPPED: usize = 1;
const WRONG: usize = 2;
const NOTHING: usize = 3;

/// Counts; and how many flushes were asked for by nobody who is known.
pub(super) fn count(trace: &Trace, ahead: &Ahead) -> (Option<KernelCounts>, u64) {
    let any = trace.events.iter().any(|event| matches!(event.kind, Kind::Flush { .. }));
    if !any {
        return (None, 0);
    }
    let requests = trace.events.iter().any(|event| matches!(event.kind, Kind::Ask { .. }));
    let mut counts = Counts {
        recorded: KernelCounts::default(),
        senders: 0,
        asked: HashSet::new(),
        cpus: HashMap::new(),
        lonely: HashMap::new(),
        requests,
    };
    for (place, event) in trace.events.iter().enumerate() {
        counts.event(event, ahead.is_ours(next(event), place));
        // What is said of the turn to another program may be the event itself.
        if ahead.executes.contains_key(&place) {
            counts.execute(event.task);
        }
    }
    let Counts { recorded, cpus, .. } = &mut counts;
    cpus.values_mut().for_each(|cpu| cpu.end_request(recorded));
    (Some(counts.recorded), counts.senders)
}

/// The thread that a CPU turns to, or that it runs.
fn next(event: &Event) -> u32 {
    if let Kind::Switch { next, .. } = event.kind { next } else { event.task }
}

impl Cpu {
    /// It does not serve a request any more.
    fn end_request(&mut self, recorded: &mut KernelCounts) {
        if let Some(fate) = self.serving.take() {
            // What nobody asked for in the trace was asked before it, or by a program that was not recorded.
            recorded.fates[fate] += u64::from(!core::mem::take(&mut self.strange));
        }
    }
}

struct Counts {
    recorded: KernelCounts,
    senders: u64,
    /// Requests to flush that were not served yet.
    asked: HashSet<(u16, u64)>,
    cpus: HashMap<u16, Cpu>,
    /// By thread: the last flush at a switch for which no switch was seen.
    lonely: HashMap<u32, Pages>,
    /// Whether requests are recorded, or only the interrupts for them.
    requests: bool,
}

impl Counts {
    /// Counts an event of a thread that was recorded (`known`), or of another; a switch by whom it is to.
    fn event(&mut self, event: &Event, known: bool) {
        let Self { recorded, cpus, asked, .. } = self;
        let cpu = cpus.entry(event.cpu).or_default();
        if self.requests && !event.is_of_request(cpu.inside) {
            cpu.end_request(recorded);
        }
        match event.kind {
            Kind::Switch { .. } => (cpu.left, cpu.known) = (Some(event.task), known),
            Kind::Flush { reason, pages } => self.flush(event, reason, pages),
            Kind::Interrupt => {
                cpu.interrupted = true;
                if !self.requests && cpu.sent > 0 {
                    cpu.sent -= 1;
                    cpu.serving = Some(NOTHING);
                }
            }
            Kind::Resume => {
                cpu.interrupted = false;
                if !self.requests {
                    cpu.end_request(recorded);
                }
            }
            Kind::Ask { target, request, flush: true } if target != event.cpu => {
                recorded.sends += 1;
                asked.insert((target, request));
            }
            Kind::Serve { request, flush: true } if request != 0 => {
                cpu.strange = !asked.remove(&(event.cpu, request));
                self.senders += u64::from(cpu.strange);
                (cpu.serving, cpu.inside) = (Some(NOTHING), event.in_interrupt);
            }
            Kind::Served { request, flush: true } if request != 0 => cpu.end_request(recorded),
            Kind::Send { target, purpose: Purpose::Functions } if !self.requests => {
                recorded.sends += 1;
                cpus.entry(target).or_default().sent += 1;
            }
            Kind::SendMany { targets, purpose: Purpose::Functions } if !self.requests => {
                recorded.sends += u64::from(targets.count_ones());
                for target in (0..64).filter(|target| targets >> target & 1 != 0) {
                    cpus.entry(target).or_default().sent += 1;
                }
            }
            // A thread that runs has been switched to: nothing was said because nothing changed.
            Kind::Call { .. } | Kind::Return { .. } | Kind::Fault { .. } => cpu.left = None,
            _ => {}
        }
    }

    /// A thread has turned to the space of another program. What was said of that looks like a flush
    /// for which there was no switch.
    fn execute(&mut self, task: u32) {
        if let Some(pages) = self.lonely.remove(&task) {
            self.recorded.patching -= 1;
            *self.recorded.flushes.entry((Reason::Switch, pages)).or_default() += 1;
        }
    }

    fn flush(&mut self, event: &Event, reason: Reason, pages: Pages) {
        let Self { recorded, .. } = self;
        let cpu = self.cpus.entry(event.cpu).or_default();
        let inside = event.in_interrupt.unwrap_or(cpu.interrupted) || cpu.serving.is_some();
        match reason {
            Reason::Switch if inside => {
                recorded.dropped += 1;
                cpu.serving = cpu.serving.map(|_| DROPPED);
                return;
            }
            Reason::Switch if cpu.left == Some(event.task) => {
                cpu.left = None;
                if !cpu.known {
                    recorded.strange += 1;
                    return;
                }
                match pages {
                    Pages::Some(_) => recorded.hits += 1,
                    Pages::Everything => recorded.misses += 1,
                }
            }
            Reason::Switch => {
                recorded.patching += 1;
                self.lonely.insert(event.task, pages);
                return;
            }
            Reason::Remote => {
                if cpu.serving.is_none() && !self.requests {
                    self.senders += 1;
                }
                cpu.serving = cpu.serving.map(|_| FLUSHED);
            }
            Reason::WrongSpace => cpu.serving = cpu.serving.map(|_| WRONG),
            Reason::Local | Reason::LocalSpace | Reason::Send => {}
        }
        if cpu.strange && matches!(reason, Reason::Remote | Reason::WrongSpace) {
            return;
        }
        *recorded.flushes.entry((reason, pages)).or_default() += 1;
    }
}
