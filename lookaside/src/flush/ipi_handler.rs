//! The IPI handler: what a target of shootdowns does.

use crate::{
    counts::Event,
    platform::Platform,
    request::{
        FlushRanges, FlushRequest, FlushScope, Initiators, MAX_DISTINCT, RING_SLOTS,
        ReceivedRequest,
    },
    tlb::{CurrentCpu, Tags},
};

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Processes the requests of other CPUs to this one. The IPI handler of [`Platform::send_ipi`] calls it,
    /// and so does every wait of this library; a kernel that spins with interrupts off, for a lock whose
    /// holder may flush, must call it in that loop.
    ///
    /// When it returns, this CPU holds none of the entries that were to be flushed, or flushes them before it
    /// loads the root of their space again.
    #[doc(alias = "flush_tlb_func")]
    pub fn handle_ipi(&self) {
        let queue = &self.cpu.queue;
        let (processed, latest) = (queue.processed_broadcast(), self.tlb.ring.latest());
        if latest > processed {
            self.handle_broadcasts(processed, latest);
        }
        // In either of these nothing is read between the last invalidation and the acknowledgement.
        let (processed, latest) = (queue.processed(), queue.latest());
        if latest > processed {
            self.handle_requests(processed, latest);
        }
        let pending = &queue.posted.pending_ipi;
        match pending.initiators() {
            Initiators::None => {}
            Initiators::One(only) => {
                let useful = T::catch_up_with(&self.for_allocator(), only.described_by());
                // Where generations are kept, the acknowledgement came before, so that nobody waits for the clear. Elsewhere the
                // clear is the acknowledgement.
                if useful > 0 && pending.clear_from(only) {
                    return self.observe(Event::Served { requests: useful, useful });
                }
                self.catch_up(useful);
            }
            Initiators::Several => self.catch_up(0),
        }
    }

    /// Catches up with all generations that this CPU has missed, after `useful` flushes that it has done already.
    #[inline(never)]
    fn catch_up(&self, useful: u64) {
        self.cpu.queue.posted.pending_ipi.clear();
        let useful = useful + T::catch_up(&self.for_allocator());
        self.observe(Event::Served { requests: useful.max(1), useful });
    }

    /// Processes requests to every CPU: those after `processed`, up to `latest`.
    #[inline(never)] // Rare: so the rest of the handler saves fewer registers.
    fn handle_broadcasts(&self, processed: u64, latest: u64) {
        let (queue, ring) = (&self.cpu.queue, &*self.tlb.ring);
        let requests = latest - processed;
        let useful = if requests <= RING_SLOTS {
            // An initiator does its own flush outside of this handler.
            let numbers = (processed + 1..=latest)
                .filter(|&number| number != queue.own_request.own_broadcast());
            let received = numbers.map(|number| ring.received(number, |cpu| self.tlb.queue(cpu)));
            received.map(|received| self.process(&received, 1)).sum()
        } else {
            self.process(&ReceivedRequest::EVERY_TAG, requests)
        };
        queue.acknowledge_broadcast(latest);
        self.observe(Event::Served { requests, useful });
    }

    /// Processes requests in the queue of this CPU: those after `processed`, up to `latest`.
    #[inline(never)] // As above.
    fn handle_requests(&self, processed: u64, latest: u64) {
        let queue = &self.cpu.queue;
        let requests = latest - processed;
        let useful = if requests == 1
            && let Some(useful) = self.process_range(latest)
        {
            useful.into()
        } else if requests == 1 {
            // All loads come before the first invalidation, and one store follows the last: both
            // invalidations and the return from an interrupt may make a CPU wait for its loads.
            let received = self.received(latest);
            if received.early {
                self.nmi_uaccess_disable();
                queue.acknowledge(latest);
                let useful = self.process(&received, 1);
                self.nmi_uaccess_enable();
                return self.observe(Event::Served { requests, useful });
            }
            self.process(&received, 1)
        } else if requests <= MAX_DISTINCT {
            self.process_several(processed + 1, latest)
        } else {
            self.process(&ReceivedRequest::EVERYTHING, requests)
        };
        queue.acknowledge(latest);
        self.observe(Event::Served { requests, useful });
    }

    /// Does the flush of request `number`, if that is one range of a space, and returns whether it found anything to do.
    #[inline(always)] // Out of line, the range would be in memory.
    fn process_range(&self, number: u64) -> Option<bool> {
        let initiator = self.tlb.queue(self.cpu.queue.initiator_of(number)?)?;
        let (scope, range) = initiator.own_request.read_range()?;
        let request = FlushRequest { scope, ranges: &FlushRanges::of(range), early: false };
        Some(T::flush_local(&self.for_allocator(), &request))
    }

    /// Processes several requests, successive ones for one space as one.
    fn process_several(&self, first: u64, last: u64) -> u64 {
        let mut useful = 0;
        let (mut sum, mut requests) = (self.received(first), 1);
        for number in first + 1..=last {
            let received = self.received(number);
            if sum.add(&received) {
                requests += 1;
            } else {
                useful += self.process(&sum, requests);
                (sum, requests) = (received, 1);
            }
        }
        useful + self.process(&sum, requests)
    }

    fn received(&self, number: u64) -> ReceivedRequest {
        self.cpu.queue.request(number, |cpu| self.tlb.queue(cpu))
    }

    /// Does the flush of `requests` requests, and returns how many of them found anything to do.
    fn process(&self, received: &ReceivedRequest, requests: u64) -> u64 {
        let useful = match received.scope {
            FlushScope::AddressSpace { .. } => {
                T::flush_local(&self.for_allocator(), &received.request())
            }
            FlushScope::Kernel => {
                T::flush_kernel(&self.for_allocator(), &received.ranges);
                true
            }
            FlushScope::EverySpace => {
                T::flush_all_spaces(&self.for_allocator());
                true
            }
            FlushScope::Leave { root } => {
                self.leave(root);
                true
            }
            FlushScope::Unknown => {
                T::flush_kernel(&self.for_allocator(), &received.ranges);
                self.leave_released();
                true
            }
        };
        if useful { requests } else { 0 }
    }
}
