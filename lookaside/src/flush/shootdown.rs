//! Shootdowns: requests to other CPUs, and the wait for them.

use super::pending_targets::PendingTargets;
use crate::{
    ids::{CpuId, Targets},
    platform::{Platform, Stuck},
    range::VaRange,
    request::{
        BroadcastRequest, DescribedRequest, FlushRanges, FlushRequest, FlushScope, Outstanding,
        RequestQueue,
    },
    tlb::{CurrentCpu, RootState, Tags, Tlb},
};

/// [`Platform::stuck`] is called after this many rounds of waiting, and whenever they have doubled. With
/// [`core::hint::spin_loop`] they take at least a millisecond: a thousand times what an acknowledgement takes.
const PATIENCE: u64 = 1 << 20;

/// What a target of an inline request must acknowledge, until it has: more than any number.
const NO_NUMBER: u64 = u64::MAX;

/// One request to any number of CPUs.
pub(crate) struct Shootdown<'t, P: Platform, T: Tags<P>> {
    tlb: &'t Tlb<'t, P, T>,
    initiator: CpuId,
    pending: PendingTargets,
    /// What the first of them must acknowledge, once it was looked at.
    posted: Option<u64>,
    /// How many targets there are.
    pub(super) targets: u32,
    rounds: u64,
    /// Whether each target has got the inline request: none of their pending words was claimed by others.
    all_inline: bool,
    /// Once the request was described, or is inline.
    pub(super) channel: Option<Channel>,
}

/// How a target finds the request, and where it acknowledges.
pub(super) enum Channel {
    /// By a number in the queue of each target.
    Queues,
    /// Beside its pending word, which the target clears; by a number in its queue if the word was not free.
    Inline { context: u64, range: VaRange },
    /// By this number on the broadcast ring, where all of it is unless it was `described`.
    Ring { number: u64, described: bool },
    /// The targets run the space; their pending words are set, and they catch up to this generation. If it is `page` alone
    /// that they must flush, the request is inline, and nothing was described.
    Generation {
        context: u64,
        generation: u64,
        lazily: bool,
        has_concurrent: bool,
        page: Option<VaRange>,
    },
}

impl<'t, P: Platform, T: Tags<P>> Shootdown<'t, P, T> {
    /// A request to no CPU so far. It is large, so it is passed by reference from here to the wait.
    #[inline]
    pub(crate) const fn new(this_cpu: &CurrentCpu<'t, P, T>) -> Self {
        Self {
            tlb: this_cpu.tlb,
            initiator: this_cpu.cpu.id,
            pending: PendingTargets::none(),
            posted: None,
            targets: 0,
            rounds: 0,
            all_inline: true,
            channel: None,
        }
    }

    /// Describes the request, for the queue of each target.
    pub(crate) fn describe(&mut self, this_cpu: &CurrentCpu<'t, P, T>, request: &FlushRequest<'_>) {
        this_cpu.cpu.queue.own_request.describe(request);
        self.channel = Some(Channel::Queues);
    }

    /// Posts the request on the broadcast ring. The tables have been changed before.
    pub(crate) fn post_to_all(
        &mut self,
        this_cpu: &CurrentCpu<'t, P, T>,
        request: &FlushRequest<'_>,
    ) {
        let posted = BroadcastRequest::new(this_cpu.id(), request);
        let described = matches!(posted, BroadcastRequest::Described(_));
        if described {
            this_cpu.cpu.queue.own_request.describe(request);
        }
        let number = this_cpu.tlb.ring.post(posted);
        this_cpu.cpu.queue.own_request.set_own_broadcast(number);
        self.channel = Some(Channel::Ring { number, described });
    }

    /// Sends the request, which was described or is inline, to these CPUs. This one, `this_cpu`, may be among them, if it holds entries of a space that it
    /// does not run: it handles its own request while it waits, so it gets no IPI.
    pub(crate) fn send_to(&mut self, this_cpu: &CurrentCpu<'t, P, T>, group: Targets) {
        if group.mask == 0 {
            return;
        }
        let from = self.initiator;
        let mut interrupted = match self.channel {
            Some(Channel::Generation { context, generation, page: Some(page), .. })
                if T::tracks_generations(self.tlb) =>
            {
                let (name, mut all_inline) = ((context, generation), self.all_inline);
                let interrupted = self.post(group, |queue| {
                    match queue.posted.pending_ipi.post_page(from, name, page) {
                        Ok(()) => true,
                        Err(must_send) => {
                            all_inline = false;
                            must_send
                        }
                    }
                });
                self.all_inline = all_inline;
                interrupted
            }
            Some(Channel::Inline { context, range }) if !T::tracks_generations(self.tlb) => {
                let mut all_inline = self.all_inline;
                let interrupted = self.post(group, |queue| {
                    if !queue.posted.pending_ipi.post_range(from, context, range) {
                        if all_inline {
                            this_cpu.describe_range(context, range);
                            all_inline = false;
                        }
                        queue.post(from);
                    }
                    true
                });
                self.all_inline = all_inline;
                interrupted
            }
            _ => self.post_described(group),
        };
        let own = from.0.wrapping_sub(group.first.0);
        if own < u64::BITS {
            interrupted.mask &= !(1 << own);
        }
        // The initiator that set the pending word of a CPU sends the IPI at once: others rely on it.
        if interrupted.mask != 0 {
            self.tlb.platform.send_ipi(interrupted);
        }
        while !self.pending.add(group) {
            self.await_oldest(|| this_cpu.handle_ipi());
        }
    }

    /// Posts a request that was described to each CPU of `group`, and returns those that must be sent an IPI.
    #[inline(never)] // As `first_behind_described`.
    fn post_described(&mut self, group: Targets) -> Targets {
        let from = self.initiator;
        match self.channel {
            Some(Channel::Generation { has_concurrent, .. }) => {
                self.post(group, |queue| queue.posted.pending_ipi.set(from, has_concurrent))
            }
            Some(Channel::Queues) => self.post(group, |queue| {
                queue.post(from);
                true
            }),
            Some(Channel::Ring { .. } | Channel::Inline { .. }) | None => {
                self.post(group, |_| true)
            }
        }
    }

    /// Calls `post` with the queue of each CPU of `group`, and returns those for which it said that an IPI must be sent.
    #[inline(always)] // Once for each channel.
    fn post(
        &mut self,
        group: Targets,
        mut post: impl FnMut(&RequestQueue<P::Word>) -> bool,
    ) -> Targets {
        let (mut interrupted, mut targets) = (group, self.targets);
        for cpu in group.iter() {
            // Counted here: without an instruction for it, to count the bits of the mask takes twenty.
            targets += 1;
            if let Some(queue) = self.tlb.queue(cpu)
                && !post(queue)
            {
                interrupted.mask &= !(1 << (cpu.0 - group.first.0));
            }
        }
        self.targets = targets;
        interrupted
    }

    /// Returns when all targets have acknowledged: how many there were, and the rounds of waiting. The initiator waits
    /// with interrupts off, so it handles the requests of others: a target may be waiting for it in the same way.
    pub(crate) fn wait(&mut self, this_cpu: &CurrentCpu<'t, P, T>) -> (u32, u64) {
        while self.pending.oldest.mask != 0 {
            self.await_oldest(|| this_cpu.handle_ipi());
        }
        (self.targets, self.rounds)
    }

    /// As [`Self::wait`], on any CPU, with interrupts on.
    pub(super) fn wait_interruptibly(&mut self) {
        while self.pending.oldest.mask != 0 {
            self.await_oldest(|| ());
        }
    }

    /// Whether all targets have acknowledged.
    pub(super) fn is_complete(&mut self) -> bool {
        while self.pending.oldest.mask != 0 {
            if self.first_missing().is_some() {
                return false;
            }
        }
        true
    }

    /// Whether the request is on the broadcast ring.
    pub(super) const fn is_on_ring(&self) -> bool {
        matches!(self.channel, Some(Channel::Ring { .. }))
    }

    /// The queue of the initiator, and what is outstanding there until all targets have acknowledged.
    pub(super) fn outstanding(&self) -> Option<(&'t DescribedRequest<P::Word>, Outstanding)> {
        let outstanding = match self.channel {
            None | Some(Channel::Generation { page: Some(_), .. }) => return None,
            Some(Channel::Inline { .. }) if self.all_inline => return None,
            Some(Channel::Queues | Channel::Inline { .. } | Channel::Generation { .. }) => {
                Outstanding::DESCRIBED
            }
            Some(Channel::Ring { described: true, .. }) => Outstanding::DESCRIBED_ON_RING,
            Some(Channel::Ring { described: false, .. }) => Outstanding::ON_RING,
        };
        Some((&self.tlb.queue(self.initiator)?.own_request, outstanding))
    }

    /// Returns when the oldest group has acknowledged.
    fn await_oldest(&mut self, handle_requests: impl Fn()) {
        let (mut rounds, mut target) = (0_u64, None);
        while let Some(mut missing) = self.first_missing() {
            if target != Some(missing.target) {
                (rounds, target) = (0, Some(missing.target));
            }
            handle_requests();
            self.tlb.platform.relax();
            rounds += 1;
            self.rounds += 1;
            if rounds >= PATIENCE && rounds.is_power_of_two() {
                missing.rounds = rounds;
                self.tlb.platform.stuck(&missing);
            }
        }
    }

    /// The first target of the oldest group that has not acknowledged. If there is none, the group is done.
    fn first_missing(&mut self) -> Option<Stuck> {
        let mut left = self.pending.oldest;
        let (tlb, initiator) = (self.tlb, self.initiator);
        let behind = match self.channel {
            Some(Channel::Generation { page: Some(_), context, generation, lazily, .. })
                if self.all_inline && T::tracks_generations(tlb) =>
            {
                first_behind(&mut left, |target| match tlb.queue(target) {
                    Some(queue) if !queue.posted.pending_ipi.has_removed_page() => {
                        let space = (context, generation, lazily);
                        tlb.progress_of_inline(initiator, (target, queue), space)
                    }
                    _ => (0, 0),
                })
            }
            Some(Channel::Inline { .. }) if self.all_inline && !T::tracks_generations(tlb) => {
                first_behind(&mut left, |target| match tlb.queue(target) {
                    Some(queue) if queue.is_pending_from(initiator) => (NO_NUMBER, 0),
                    _ => (0, 0),
                })
            }
            _ => self.first_behind_described(&mut left),
        };
        self.pending.set_oldest(left);
        let (target, posted, acknowledged) = behind?;
        self.posted = Some(posted);
        Some(Stuck { waiting: self.initiator, target, posted, acknowledged, rounds: 0 })
    }

    /// As [`first_behind`], unless all targets have got the inline request.
    #[inline(never)] // So the rest of the wait saves fewer registers.
    fn first_behind_described(&mut self, left: &mut Targets) -> Option<(CpuId, u64, u64)> {
        let (tlb, initiator) = (self.tlb, self.initiator);
        let mut noted = self.posted.take().filter(|&number| number != NO_NUMBER);
        match self.channel {
            Some(Channel::Generation { context, generation, lazily, .. }) => {
                first_behind(left, |target| {
                    (generation, T::local_generation(tlb, target, context, lazily))
                })
            }
            Some(Channel::Ring { number, .. }) => first_behind(left, |target| {
                (number, tlb.queue(target).map_or(number, RequestQueue::acknowledged_broadcast))
            }),
            // Another initiator may have posted after us. To wait for its number too costs at most one more
            // round of the target, and we need not remember our number for each target.
            Some(Channel::Queues | Channel::Inline { .. }) | None => first_behind(left, |target| {
                let Some(queue) = tlb.queue(target) else { return (0, 0) };
                if queue.is_pending_from(initiator) {
                    return (NO_NUMBER, 0);
                }
                (noted.take().unwrap_or_else(|| queue.latest()), queue.acknowledged())
            }),
        }
    }
}

/// Removes from `left` the CPUs that have acknowledged, up to the first that has not, and returns that one, what it must
/// acknowledge and what it has. `progress` knows these two.
#[inline(always)] // Once for each channel.
fn first_behind(
    left: &mut Targets,
    mut progress: impl FnMut(CpuId) -> (u64, u64),
) -> Option<(CpuId, u64, u64)> {
    while let Some(target) = left.iter().next() {
        let (posted, acknowledged) = progress(target);
        if acknowledged < posted {
            return Some((target, posted, acknowledged));
        }
        left.mask &= left.mask - 1;
    }
    None
}

impl<P: Platform, T: Tags<P>> Tlb<'_, P, T> {
    /// What a target must acknowledge, and what it has, which has an inline request and has not said yet that it has removed the page. Its
    /// slots are in other lines than the request, which stay with it as long as they are not read.
    #[inline(never)]
    fn progress_of_inline(
        &self,
        initiator: CpuId,
        (target, queue): (CpuId, &RequestQueue<P::Word>),
        (context, generation, lazily): (u64, u64, bool),
    ) -> (u64, u64) {
        if !queue.is_pending_from(initiator) {
            return (generation, T::local_generation(self, target, context, lazily));
        }
        let is_missing = match T::root_state(self, target, context) {
            RootState::NotLoaded => false,
            RootState::Lazy => lazily,
            RootState::Loaded => true,
        };
        (if is_missing { NO_NUMBER } else { 0 }, 0)
    }
}

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Describes a request that could not be inline for one of its targets.
    #[cold]
    fn describe_range(&self, context: u64, range: VaRange) {
        let scope = FlushScope::AddressSpace { context, first: 0, last: 0 };
        let request = FlushRequest { scope, ranges: &FlushRanges::of(range), early: false };
        self.cpu.queue.own_request.describe(&request);
    }
}
