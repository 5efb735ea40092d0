//! Flushes that were begun with interrupts off, and are waited for with interrupts on.

use core::fmt;

use super::{
    flushed::Flushed,
    gather::{Changes, Held},
    shootdown::Shootdown,
};
use crate::{
    counts::{Event, Outcome},
    flags::Flags,
    platform::Platform,
    request::{DescribedRequest, Outstanding},
    tlb::{CurrentCpu, Tags},
};

/// A flush that was begun ([`crate::Tlb::begin_flush`], [`crate::Tlb::begin_flush_kernel`]): this CPU has
/// flushed, and the others have got their requests but may not have handled them yet.
///
/// [`Self::wait`] hands the frames back when they have. Between the two the thread may be interrupted, preempted, and
/// moved to another CPU, and the first CPU may switch spaces, go offline, and flush again. What holds for a gather that is
/// not flushed yet holds until the wait is over: the entries may still be in a TLB, and a gather that relies on their
/// absence includes them ([`crate::Gather::relies_on`]). The space cannot be released before.
///
/// # How long it takes
///
/// As long as the slowest target keeps interrupts off. A virtual CPU that its hypervisor has descheduled is as slow as its
/// next turn: milliseconds, and nothing shortens that but a hypercall that runs or kicks the target, for which
/// [`crate::Platform::stuck`] and [`crate::Platform::relax`] are the places. A flush that is waited for with interrupts
/// off ([`crate::CurrentCpu::flush`]) makes this CPU as slow for all others; this one makes only its own thread wait.
///
/// # Dropping
///
/// As with [`crate::Gather`], no flush is lost: the frames are leaked, and the next flush of the space flushes everything.
/// What was gathered of the kernel's addresses is flushed all the same, some time later.
#[must_use = "the flush is complete, and its frames are free, when `wait` returns"]
pub struct PendingFlush<'g, 't, P: Platform, T: Tags<P> = crate::tags::Asids<'static, P>, F = ()> {
    pub(super) request: OutstandingRequest<'t, P, T>,
    /// If it is the flush of a space, and not complete.
    pub(super) changes: Option<Changes<'g, P>>,
    held: Held<F>,
    flags: Flags,
}

/// A shootdown whose request stays readable for its targets while its initiator executes something else.
pub(super) struct OutstandingRequest<'t, P: Platform, T: Tags<P>> {
    pub(super) shootdown: Shootdown<'t, P, T>,
    /// Where the request is, and which requests are outstanding with it.
    outstanding: Option<(&'t DescribedRequest<P::Word>, Outstanding)>,
}

impl<P: Platform, T: Tags<P>> OutstandingRequest<'_, P, T> {
    fn hold_request(&mut self) {
        self.outstanding = self.shootdown.outstanding();
        if let Some((request, outstanding)) = self.outstanding {
            request.add_outstanding(outstanding);
        }
    }

    /// All targets have acknowledged.
    fn end(&mut self) {
        if let Some((request, outstanding)) = self.outstanding.take() {
            request.end_outstanding(outstanding);
        }
    }
}

/// If not all targets have acknowledged, some may look for the request when a later one is in its place. If this is the
/// flush of a space, its gather is dropped with it, and the next flush of the space makes up for it. The flush of kernel
/// addresses keeps its request until the next one.
impl<P: Platform, T: Tags<P>> Drop for OutstandingRequest<'_, P, T> {
    fn drop(&mut self) {
        match self
            .outstanding
            .take_if(|_| self.shootdown.is_on_ring() && !self.shootdown.is_complete())
        {
            Some((request, outstanding)) => request.drop_outstanding(outstanding),
            None => self.end(),
        }
    }
}

impl<'g, 't, P: Platform, T: Tags<P>, F> PendingFlush<'g, 't, P, T, F> {
    /// Nothing was flushed so far, and no request was sent. It is large: it is made where it stays until the kernel has it.
    #[inline]
    pub(super) fn new(this_cpu: &CurrentCpu<'t, P, T>, held: Held<F>, flags: Flags) -> Self {
        let request = OutstandingRequest { shootdown: Shootdown::new(this_cpu), outstanding: None };
        Self { request, changes: None, held, flags }
    }

    /// This CPU has flushed, and has sent the requests.
    pub(super) fn begun(&mut self, this_cpu: &CurrentCpu<'t, P, T>, outcome: Outcome) {
        let targets = self.request.shootdown.targets;
        if targets > 0 {
            self.request.hold_request();
            // This CPU may be a target, and has sent itself no IPI.
            this_cpu.handle_ipi();
        }
        this_cpu.observe(Event::Flushed { outcome, targets, rounds: 0 });
    }

    /// Whether no CPU has to act any more, so that [`Self::wait`] returns at once. Where it is called again and again
    /// with interrupts off, [`crate::CurrentCpu::handle_ipi`] is called in between.
    pub fn is_complete(&mut self) -> bool {
        self.request.shootdown.is_complete()
    }

    /// Returns when no CPU holds what was gathered any more, with the frames.
    ///
    /// It is called with interrupts on, on any CPU, and calls [`Platform::relax`] and [`Platform::stuck`] as it waits: with
    /// interrupts off, two CPUs could wait for each other for ever.
    pub fn wait(mut self) -> Flushed<F> {
        self.complete();
        let Self { held, flags, .. } = self;
        Flushed { frames: held.into_frames(), flags }
    }

    fn complete(&mut self) {
        self.request.shootdown.wait_interruptibly();
        self.request.end();
        if let Some(changes) = self.changes.take() {
            changes.complete_others();
            changes.end();
        }
    }
}

impl<P: Platform, T: Tags<P>> PendingFlush<'_, '_, P, T> {
    /// As [`Self::wait`], where no frame is held, and without moving what is some hundred bytes. Afterwards nothing is left to do,
    /// and it may be dropped.
    pub fn wait_in_place(&mut self) {
        self.complete();
    }
}

/// Without the frames.
impl<P: Platform, T: Tags<P>, F> fmt::Debug for PendingFlush<'_, '_, P, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingFlush")
            .field("targets", &self.request.shootdown.targets)
            .finish_non_exhaustive()
    }
}
