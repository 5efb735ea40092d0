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
    /// If some CPUs may not have acknowledged yet.
    request: Option<KeptRequest<'t, P, T>>,
    /// If it is the flush of a space.
    changes: Option<Changes<'g, P>>,
    held: Held<F>,
    flags: Flags,
}

/// A shootdown whose request stays readable for its targets while its initiator executes something else.
struct KeptRequest<'t, P: Platform, T: Tags<P>>(Shootdown<'t, P, T>);

impl<'t, P: Platform, T: Tags<P>> KeptRequest<'t, P, T> {
    fn new(shootdown: Shootdown<'t, P, T>) -> Self {
        if let Some((request, kept)) = shootdown.kept() {
            request.keep(kept);
        }
        Self(shootdown)
    }
}

/// If not all targets have acknowledged, some may look for the request when a later one is in its place. If this is the
/// flush of a space, its gather is dropped with it, and the next flush of the space makes up for it. The flush of kernel
/// addresses keeps its request until the next one.
impl<P: Platform, T: Tags<P>> Drop for KeptRequest<'_, P, T> {
    fn drop(&mut self) {
        let Some((request, kept)) = self.0.kept() else { return };
        if self.0.is_on_ring() && !self.0.is_complete() {
            request.drop_kept(kept);
        } else {
            request.end_kept(kept);
        }
    }
}

impl<'g, 't, P: Platform, T: Tags<P>, F> PendingFlush<'g, 't, P, T, F> {
    /// This CPU has flushed, and has sent the requests.
    pub(super) fn new(
        this_cpu: &CurrentCpu<'t, P, T>,
        outcome: Outcome,
        shootdown: Shootdown<'t, P, T>,
        changes: Option<Changes<'g, P>>,
        held: Held<F>,
        flags: Flags,
    ) -> Self {
        let targets = shootdown.targets();
        let request = (targets > 0).then(|| KeptRequest::new(shootdown));
        if request.is_some() {
            // This CPU may be a target, and has sent itself no IPI.
            this_cpu.handle_ipi();
        }
        this_cpu.observe(Event::Flushed { outcome, targets, rounds: 0 });
        Self { request, changes, held, flags }
    }

    /// Whether no CPU has to act any more, so that [`Self::wait`] returns at once. Where it is called again and again
    /// with interrupts off, [`crate::CurrentCpu::handle_ipi`] is called in between.
    pub fn is_complete(&mut self) -> bool {
        self.request.as_mut().is_none_or(|request| request.0.is_complete())
    }

    /// Returns when no CPU holds what was gathered any more, with the frames.
    ///
    /// It is called with interrupts on, on any CPU, and calls [`Platform::relax`] and [`Platform::stuck`] as it waits: with
    /// interrupts off, two CPUs could wait for each other for ever.
    pub fn wait(self) -> Flushed<F> {
        let Self { mut request, changes, held, flags } = self;
        if let Some(KeptRequest(shootdown)) = &mut request {
            shootdown.wait_interruptibly();
        }
        drop(request);
        if let Some(changes) = changes {
            changes.complete_others();
            changes.end();
        }
        Flushed { frames: held.into_frames(), flags }
    }
}

/// Without the frames.
impl<P: Platform, T: Tags<P>, F> fmt::Debug for PendingFlush<'_, '_, P, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingFlush")
            .field("targets", &self.request.as_ref().map_or(0, |request| request.0.targets()))
            .finish_non_exhaustive()
    }
}
