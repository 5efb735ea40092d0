//! Asking other CPUs, waiting for them, and answering them meanwhile.

use super::{
    broadcast_ring::{BroadcastRequest, KEPT},
    request_queue::{FlushRequest, FlushScope, IpiPending, ReceivedRequest, TOLD_APART},
};
use crate::{
    counts::Event,
    current_cpu::CurrentCpu,
    platform::{CpuId, Platform, Stuck, Targets},
    space::AddressSpace,
    tags::Tags,
};

/// How many groups of CPUs may be under way at one time. A group has up to 64; more than this many
/// at once only make the initiator wait for the first before it asks the last.
const WINDOW: usize = 16;

/// [`Platform::stuck`] is told after this many rounds of waiting, and whenever they have doubled. So
/// many take a millisecond at the very least: a thousand times what an answer takes.
const PATIENCE: u64 = 1 << 20;

/// One request to any number of CPUs.
pub(crate) struct Shootdown<'h, 't, P: Platform, T: Tags<P>> {
    this_cpu: &'h CurrentCpu<'t, P, T>,
    groups: [Targets; WINDOW],
    begun: usize,
    done: usize,
    targets: u32,
    rounds: u64,
    channel: Channel,
}

/// How the targets learn what is asked of them, and where they answer.
#[derive(Clone, Copy)]
enum Channel {
    /// Each by a number in its box.
    Queues,
    /// All by this number on the board.
    Ring(u64),
    /// They run a space, are called, and look up what they owe on it up to this generation.
    Generation { context: u64, generation: u64, lazily: bool, has_concurrent: bool },
}

impl<'h, 't, P: Platform, T: Tags<P>> Shootdown<'h, 't, P, T> {
    /// Writes down what will be asked.
    pub(crate) fn new(this_cpu: &'h CurrentCpu<'t, P, T>, request: &FlushRequest<'_>) -> Self {
        this_cpu.queue().describe(request);
        Self::begin(this_cpu, Channel::Queues)
    }

    /// Writes down, where those look who run the space that owes this, what will be asked. CPUs that are lazy
    /// in the space must act if `lazily`.
    pub(crate) fn of_generation(
        this_cpu: &'h CurrentCpu<'t, P, T>,
        space: &AddressSpace<'_, P>,
        request: &FlushRequest<'_>,
        lazily: bool,
    ) -> Self {
        let FlushScope::AddressSpace { context, last, .. } = request.scope else {
            return Self::new(this_cpu, request);
        };
        this_cpu.queue().describe(request);
        let has_concurrent = space.may_have_concurrent_flushes();
        Self::begin(
            this_cpu,
            Channel::Generation { context, generation: last, lazily, has_concurrent },
        )
    }

    /// Writes down, for every CPU to see, what will be asked. The tables have been changed before.
    pub(crate) fn to_all(this_cpu: &'h CurrentCpu<'t, P, T>, request: &FlushRequest<'_>) -> Self {
        let posted = BroadcastRequest::new(this_cpu.id(), request);
        if let BroadcastRequest::Described(_) = posted {
            this_cpu.queue().describe(request);
        }
        let number = this_cpu.tlb().ring().post(posted);
        this_cpu.queue().set_own_broadcast(number);
        Self::begin(this_cpu, Channel::Ring(number))
    }

    const fn begin(this_cpu: &'h CurrentCpu<'t, P, T>, channel: Channel) -> Self {
        let none = Targets { first: CpuId(0), mask: 0 };
        Self { this_cpu, groups: [none; WINDOW], begun: 0, done: 0, targets: 0, rounds: 0, channel }
    }

    /// Asks these CPUs. This one may be among them, if it holds something of a space that it does not run: it
    /// answers itself while it waits, so it is not interrupted.
    pub(crate) fn ask(&mut self, group: Targets) {
        if group.mask == 0 {
            return;
        }
        if self.begun - self.done == WINDOW {
            self.await_oldest();
        }
        let mut interrupted = group;
        for cpu in group.iter() {
            let Some(target) = self.this_cpu.tlb().queue(cpu) else { continue };
            match self.channel {
                Channel::Queues => target.post(self.this_cpu.id()),
                Channel::Ring(_) => break,
                Channel::Generation { has_concurrent, .. } => {
                    if !target.set_ipi_pending(self.this_cpu.id(), has_concurrent) {
                        interrupted.mask &= !(1 << (cpu.0 - group.first.0));
                    }
                }
            }
        }
        let own = self.this_cpu.id().0.wrapping_sub(group.first.0);
        if own < u64::BITS {
            interrupted.mask &= !(1 << own);
        }
        // Who called a CPU interrupts it, and does nothing before: others count on it.
        if interrupted.mask != 0 {
            self.this_cpu.tlb().platform().send_ipi(interrupted);
        }
        self.groups[self.begun % WINDOW] = group;
        self.begun += 1;
        self.targets += group.count();
    }

    /// Returns when all have answered: how many there were, and how long it took in rounds.
    pub(crate) fn wait(mut self) -> (u32, u64) {
        while self.done < self.begun {
            self.await_oldest();
        }
        (self.targets, self.rounds)
    }

    fn await_oldest(&mut self) {
        let group = self.groups[self.done % WINDOW];
        for cpu in group.iter() {
            self.await_one(cpu);
        }
        self.done += 1;
    }

    fn await_one(&mut self, cpu: CpuId) {
        let Some(target) = self.this_cpu.tlb().queue(cpu) else { return };
        // Somebody may have asked after us. To wait for that number too costs at most one more round
        // of the target, and spares us a note of ours for each target.
        let posted = match self.channel {
            Channel::Queues => target.latest(),
            Channel::Ring(number) => number,
            Channel::Generation { generation, .. } => generation,
        };
        let mut rounds = 0_u64;
        loop {
            let acknowledged = match self.channel {
                Channel::Queues => target.acknowledged(),
                Channel::Ring(_) => target.acknowledged_broadcast(),
                Channel::Generation { context, lazily, .. } => {
                    T::local_generation(self.this_cpu.tlb(), cpu, context, lazily)
                }
            };
            if acknowledged >= posted {
                break;
            }
            // The target may be waiting for us, with interrupts off as we are.
            self.this_cpu.handle_ipi();
            self.this_cpu.tlb().platform().relax();
            rounds += 1;
            if rounds >= PATIENCE && rounds.is_power_of_two() {
                let waiting = self.this_cpu.id();
                let stuck = Stuck { waiting, target: cpu, posted, acknowledged, rounds };
                self.this_cpu.tlb().platform().stuck(&stuck);
            }
        }
        self.rounds += rounds;
    }
}

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Answers what other CPUs ask of this one. The handler of [`Platform::send_ipi`] calls it, and
    /// so does every wait of this library; a kernel that spins with interrupts off, for a lock whose
    /// holder may flush, calls it in its own loop.
    ///
    /// When it returns, this CPU holds nothing that was asked for, or drops it before it loads the
    /// root of its space again.
    pub fn handle_ipi(&self) {
        self.handle_broadcasts();
        // The others last: nothing is read there between the last invalidation and the answer.
        self.handle_requests();
        if T::TRACKS_GENERATIONS {
            self.handle_generations();
        }
    }

    /// Pays what is owed on the space that this CPU runs, if it was called for that.
    fn handle_generations(&self) {
        let queue = self.queue();
        let called = queue.ipi_pending();
        if called == IpiPending::No {
            return;
        }
        let mut useful = 0;
        if let IpiPending::From(only) = called {
            useful = T::catch_up_with(&self.strategy(), only);
            // The call is taken back after the answer, so that nobody waits for that.
            if useful > 0 && queue.clear_pending_from(only) {
                return self.served(useful, useful);
            }
        }
        queue.clear_pending();
        useful += T::catch_up(&self.strategy());
        self.served(useful.max(1), useful);
    }

    /// Answers what was asked of every CPU.
    fn handle_broadcasts(&self) {
        let (queue, ring) = (self.queue(), self.tlb().ring());
        let processed = queue.processed_broadcast();
        let latest = ring.latest();
        if latest <= processed {
            return;
        }
        let requests = latest - processed;
        let useful = if requests <= KEPT {
            // What this CPU asks of the others it does without being told.
            let numbers =
                (processed + 1..=latest).filter(|&number| number != queue.own_broadcast());
            let asked = numbers.map(|number| ring.asked(number, |cpu| self.tlb().queue(cpu)));
            asked.map(|asked| self.process(&asked, 1)).sum()
        } else {
            self.process(&ReceivedRequest::EVERYTHING, requests)
        };
        queue.acknowledge_broadcast(latest);
        self.served(requests, useful);
    }

    /// Answers what was asked of this CPU.
    fn handle_requests(&self) {
        let queue = self.queue();
        let processed = queue.processed();
        let latest = queue.latest();
        if latest <= processed {
            return;
        }
        let requests = latest - processed;
        let useful = if requests == 1 {
            // Everything is read before the first invalidation, and one store follows the last:
            // both invalidations and the return from an interrupt may make a CPU wait for its loads.
            let asked = self.asked(latest);
            if asked.early {
                self.nmi_uaccess_disable();
                queue.acknowledge(latest);
                let useful = self.process(&asked, 1);
                self.nmi_uaccess_enable();
                return self.served(requests, useful);
            }
            self.process(&asked, 1)
        } else if requests <= TOLD_APART {
            self.process_several(processed + 1, latest)
        } else {
            self.process(&ReceivedRequest::EVERYTHING, requests)
        };
        queue.acknowledge(latest);
        self.served(requests, useful);
    }

    /// Meets several requests, successive ones for one space as one.
    fn process_several(&self, first: u64, last: u64) -> u64 {
        let mut useful = 0;
        let (mut sum, mut requests) = (self.asked(first), 1);
        for number in first + 1..=last {
            let asked = self.asked(number);
            if sum.add(&asked) {
                requests += 1;
            } else {
                useful += self.process(&sum, requests);
                (sum, requests) = (asked, 1);
            }
        }
        useful + self.process(&sum, requests)
    }

    fn asked(&self, number: u64) -> ReceivedRequest {
        self.queue().request(number, |cpu| self.tlb().queue(cpu))
    }

    /// Does what so many requests ask for, and says how many of them found anything to do.
    fn process(&self, asked: &ReceivedRequest, requests: u64) -> u64 {
        let useful = match asked.scope {
            FlushScope::AddressSpace { .. } => T::flush_local(&self.strategy(), &asked.request()),
            FlushScope::Kernel => {
                asked.ranges.flush_kernel(self.mmu(), self.errata());
                true
            }
            FlushScope::EverySpace => {
                T::flush_all_spaces(&self.strategy());
                true
            }
        };
        if useful { requests } else { 0 }
    }

    fn served(&self, requests: u64, useful: u64) {
        self.tlb().platform().observe(Event::Served { requests, useful });
    }
}
