//! What the programs of simulated CPUs can do besides what the library does for them.

use lookaside::platform::{CpuId, Targets};

use super::{
    account::{Cause, Counters},
    bill::{AccountId, Bill},
    current::{self, step, wait},
    machine::Machine,
    price::Ps,
    queue::key,
    random as generator,
};

impl Machine {
    /// The number of an activity.
    pub(crate) fn activity(&mut self, name: &'static str) -> usize {
        let known =
            self.activities.iter().position(|&known| core::ptr::eq(known, name) || known == name);
        known.unwrap_or_else(|| {
            self.activities.push(name);
            self.activities.len() - 1
        })
    }
}

/// The CPU that runs the program.
#[must_use]
#[inline]
pub fn cpu() -> CpuId {
    current::with(|machine| CpuId(machine.running as u32))
}

/// Its time, in picoseconds since the machine was started. No other CPU acts meanwhile, so the value may
/// be written to what all programs share.
#[must_use]
#[inline]
pub fn now() -> Ps {
    current::with(|machine| machine.cpu().now)
}

/// How often things have happened on this CPU so far. Takes no time.
#[must_use]
pub fn counters() -> Counters {
    current::with(|machine| machine.cpu().counters)
}

/// Computes for so long. Interrupts, if they are on, are taken meanwhile and come on top; so does what
/// the broadcasts of others take.
pub fn work(time: Ps) {
    let mut left = time;
    // What other threads of the core take from it meanwhile. Interrupts are taken in that time as well.
    let mut late = 0;
    let robbed = || current::with(|machine| machine.is_robbed());
    while left + late > 0 {
        let (on, free) = current::with(|machine| {
            let cpu = machine.running;
            let c = &machine.cpus[cpu];
            // With interrupts off, or if nobody acts before, it is over in one go.
            (
                c.interrupts,
                key(c.now + left + late, cpu) < machine.queue.min() && c.pending.is_empty(),
            )
        });
        if !on || free && !robbed() {
            current::with(|machine| {
                machine.charge(Cause::Work, left);
                machine.charge(Cause::Siblings, late);
            });
            return;
        }
        current::turn();
        let (cause, rest) =
            if left > 0 { (Cause::Work, &mut left) } else { (Cause::Siblings, &mut late) };
        let until = now() + *rest;
        *rest -= wait(cause, Some(until)).min(*rest);
        late += current::with(|machine| core::mem::take(&mut machine.cpu().late));
    }
    if robbed() {
        current::turn();
    }
}

/// Puts what `f` does down to an activity.
#[inline]
pub fn during<R>(activity: &'static str, f: impl FnOnce() -> R) -> R {
    let outer = current::with(|machine| {
        machine.note_begin(activity);
        let activity = machine.activity(activity);
        core::mem::replace(&mut machine.cpu().activity, activity)
    });
    let result = f();
    current::with(|machine| {
        machine.note_end();
        machine.cpu().activity = outer;
    });
    result
}

/// Keeps a bill for each account below `accounts`: see [`super::Report::bills`]. Called while a world is
/// being built.
pub fn keep_bills(accounts: u32) {
    current::with(|machine| machine.bills.resize(accounts as usize, Bill::default()));
}

/// Charges the time of `f` to an account, and with it that of handlers on other CPUs that `f` interrupts.
#[inline]
pub fn on_behalf<R>(account: AccountId, f: impl FnOnce() -> R) -> R {
    let outer = current::with(|machine| core::mem::replace(&mut machine.cpu().initiator, account));
    let result = f();
    current::with(|machine| machine.cpu().initiator = outer);
    result
}

/// The account that the CPU that runs charges its time to: in a handler, that of the sender of the interrupt.
#[must_use]
#[inline]
pub fn initiator() -> AccountId {
    current::with(|machine| machine.cpu().initiator)
}

/// The next load of this CPU is of an address that the loads before bring, as in a walk along a list: it begins when
/// they are over. Takes no time.
#[inline]
pub fn follow() {
    current::with(|machine| machine.cpu().loads.end());
}

/// Takes the interrupts that have arrived by now, if they are on: a CPU does so before its next instruction,
/// and also before one that turns them off.
pub fn take_interrupts() {
    current::turn();
}

/// Calls `f` with interrupts off. Those that have arrived and were not taken yet come after it: see
/// [`take_interrupts`].
#[inline]
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    let were_on = current::with(|machine| core::mem::replace(&mut machine.cpu().interrupts, false));
    let result = f();
    if were_on {
        current::with(|machine| machine.cpu().interrupts = true);
        current::turn();
    }
    result
}

/// What somebody else has measured of the interrupts that an operation sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// When those to these CPUs arrive, instead of after [`super::Price::InterruptDeliver`], but not before they are sent.
    pub arrivals: Vec<(CpuId, Ps)>,
    /// When the sender goes on, instead of after [`super::Price::InterruptSend`], and with what.
    pub until: Option<(Ps, Next)>,
}

/// With what a CPU goes on that has sent interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// With its own part, before interrupts that were sent to it meanwhile.
    Own,
    /// With an interrupt that was sent to it meanwhile.
    Interrupt,
}

/// Runs `f`, the interrupts of which are sent and arrive as measured.
pub fn sending<R>(sent: Sent, f: impl FnOnce() -> R) -> R {
    let before = current::with(|machine| core::mem::replace(&mut machine.cpu().sent, sent));
    let result = f();
    current::with(|machine| machine.cpu().sent = before);
    result
}

/// With what this CPU goes on after it has sent interrupts, if that was measured: see [`Sent::until`].
#[must_use]
pub fn next_after_send() -> Option<Next> {
    current::with(|machine| machine.cpu().sent.until.map(|(_, next)| next))
}

/// The time of an operation between two moments that somebody else has measured: when the first was, and how much later
/// the second, if that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// When the operation was begun here.
    entered: Ps,
    first: Ps,
    length: Option<Ps>,
}

/// Runs `f`, an operation of which somebody else has measured when it got to some place ([`reached`]), and how much later
/// to another, if that is known. The first of these moments is `first`.
pub fn pausing<R>(first: Ps, length: Option<Ps>, f: impl FnOnce() -> R) -> R {
    let before = current::with(|machine| {
        let cpu = machine.cpu();
        cpu.span.replace(Span { entered: cpu.now, first, length })
    });
    let result = f();
    current::with(|machine| machine.cpu().span = before);
    result
}

/// The operation of [`pausing`] is at the first of its places.
pub fn reached() {
    current::with(|machine| {
        let cpu = machine.cpu();
        if let Some(span) = cpu.span {
            cpu.lead = cpu.now - span.entered;
        }
    });
}

/// How long this CPU took from the beginning of its latest operation that said so to the place where it [`reached`] the
/// first place. An operation that begins so much before a measured moment gets there about then.
#[must_use]
pub fn lead() -> Ps {
    current::with(|machine| machine.cpu().lead)
}

/// An operation goes on at the moment that `place` tells of the time between the two that [`pausing`] says, or of `usual`,
/// counted from the first of them; outside of [`pausing`] from now.
pub fn pause(usual: Ps, place: impl FnOnce(Ps) -> Ps) {
    let left = current::with(|machine| {
        let cpu = machine.cpu();
        let (first, length) = match cpu.span {
            Some(Span { first, length, .. }) => (first, length.unwrap_or(usual)),
            None => (cpu.now, usual),
        };
        (first + place(length)).saturating_sub(cpu.now)
    });
    work(left);
}

/// Lets time pass in a loop that waits for another CPU: until another CPU writes one of the cache lines
/// that the loop has read, or an interrupt is taken. A loop that has read nothing, or more lines than
/// can be watched, goes on after [`super::Price::LineCluster`] or a nanosecond, so that time passes.
pub fn relax() {
    let taken = current::with(|machine| {
        let cpu = machine.cpu();
        cpu.arrived.failed = false;
        cpu.counters.taken
    });
    current::turn();
    let watches = current::with(|machine| {
        let cpu = machine.running;
        let c = &machine.cpus[cpu];
        if c.counters.taken != taken {
            return false; // The handler may have done what the loop waits for.
        }
        if c.must_poll() {
            let poll = machine.model.prices.charge(super::Price::LineCluster).max(1000);
            machine.charge(Cause::Waiting, poll);
            machine.note_wait(Cause::Waiting, poll);
            machine.cpu().forget_watched();
            return false;
        }
        let held = |&line: &usize| machine.lines[line].is_held_by(cpu as u16);
        let all = c.watched().iter().all(held);
        machine.cpu().watching = all;
        all
    });
    if watches {
        wait(Cause::Waiting, None);
    }
    current::with(|machine| {
        machine.cpu().watching = false;
        machine.cpu().forget_watched();
    });
    current::turn();
}

/// Interrupts CPUs: [`World::interrupt`](super::World::interrupt) is called on each.
pub fn send_ipi(targets: Targets) {
    step(|machine| machine.interrupt(targets.first.0, targets.mask));
}

/// Does nothing until `time`, or until an interrupt was taken.
pub fn idle_until(time: Ps) {
    current::turn();
    if time > now() {
        wait(Cause::Idle, Some(time));
        current::turn();
    }
}

/// A pseudo-random number of this CPU.
#[must_use]
pub fn random() -> u64 {
    current::with(|machine| generator::next(&mut machine.cpu().random))
}

/// A pseudo-random number below `limit`.
#[must_use]
pub fn random_below(limit: u64) -> u64 {
    ((u128::from(random()) * u128::from(limit)) >> 64) as u64
}

/// Accesses `pages` pages from page `first` on, through the root register.
///
/// # Errors
///
/// The number of the first page that is not mapped: a page fault.
#[inline]
pub fn touch(first: u64, pages: u64) -> Result<(), u64> {
    let result = step(|machine| machine.touch(first..first + pages, false, false));
    current::turn(); // A stale translation ends the run here.
    result
}

/// Accesses pages, each by its number, through the root register, at one time. Those that are not
/// mapped are passed over.
#[inline]
pub fn touch_mapped(pages: impl Iterator<Item = u64>) {
    // Nothing stands in the way of pages that are not mapped.
    let _ = step(|machine| machine.touch(pages, false, true));
    current::turn();
}

/// Accesses `pages` pages of the kernel from page `first` on.
///
/// # Errors
///
/// As [`touch`].
#[inline]
pub fn touch_kernel(first: u64, pages: u64) -> Result<(), u64> {
    let result = step(|machine| machine.touch(first..first + pages, true, false));
    current::turn();
    result
}

/// Gives what is in the arena at `value` a name, for reports.
pub fn name<T: ?Sized>(value: &T, name: &'static str) {
    let start = core::ptr::from_ref(value).cast::<u64>().cast_mut();
    let size = size_of_val(value);
    current::with(|machine| {
        let first = machine.line(start);
        let last = machine.line(start.wrapping_byte_add(size.saturating_sub(1)));
        machine.names.push((first, last + 1, name));
    });
}
