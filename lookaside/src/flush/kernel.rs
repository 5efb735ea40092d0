//! Addresses that every CPU uses under every tag: the kernel's own.

use super::{flushed::Flushed, gather::Held, pending::PendingFlush, shootdown::Shootdown};
use crate::{
    arch::{Invalidation, Mmu, Scope, TableChange, Wait},
    counts::{Event, Outcome},
    flags::Flags,
    ids::TlbId,
    platform::Platform,
    range::VaRange,
    request::{FlushRanges, FlushRequest, FlushScope, MAX_OUTSTANDING, Outstanding},
    tlb::{CurrentCpu, Tags, Tlb},
};

/// Collects what changes in the kernel's half of the page tables, which all spaces share.
///
/// As [`super::Gather`]; every CPU that is online acts. Unlike that, one that is dropped leaves no trace: its addresses are not
/// flushed, now or later, and must not be used again before a [`CurrentCpu::flush_kernel`] of them. A CPU that acts on an absent entry must know by other means, a
/// lock for example, that the entry was flushed when it was cleared.
#[derive(Debug)]
#[must_use = "nothing is flushed, and what it holds is leaked, unless this is handed to `CurrentCpu::flush_kernel`"]
pub struct KernelGather<F = ()> {
    tlb: TlbId,
    ranges: FlushRanges,
    held: Held<F>,
    holds_page: bool,
}

impl KernelGather {
    /// Begins to gather changes, where no frame becomes free.
    pub fn new<P: Platform, T: Tags<P>>(tlb: &Tlb<'_, P, T>) -> Self {
        Self::holding(tlb, ())
    }
}

impl<F> KernelGather<F> {
    /// Begins to gather changes, and holds frames and tables in `frames`, as [`super::Gather::holding`].
    pub fn holding<P: Platform, T: Tags<P>>(tlb: &Tlb<'_, P, T>, frames: F) -> Self {
        let (ranges, held) = (FlushRanges::new(), Held::new(frames));
        Self { tlb: tlb.id, ranges, held, holds_page: false }
    }

    /// As [`super::Gather::revoke`].
    pub fn revoke(&mut self, range: VaRange) {
        self.ranges.add(range);
    }

    /// As [`super::Gather::revoke_mixed`].
    pub fn revoke_mixed(&mut self, range: VaRange) {
        self.ranges.add(range.mixed());
    }

    /// As [`super::Gather::unlink_table`].
    pub fn unlink_table(&mut self, range: VaRange) {
        self.revoke_mixed(range);
        self.ranges.add_change(TableChange::FreedTables);
    }

    /// As [`super::Gather::revoke_everything`], of the users' addresses too.
    pub fn revoke_everything(&mut self) {
        self.ranges.merge(&FlushRanges::everything());
    }

    /// As [`super::Gather::hold_page`].
    pub fn hold_page<T>(&mut self, page: T)
    where
        F: Extend<T>,
    {
        self.holds_page = true;
        self.held.add(page);
    }

    /// As [`super::Gather::hold_table`].
    pub fn hold_table<T>(&mut self, range: impl Into<Option<VaRange>>, table: T)
    where
        F: Extend<T>,
    {
        match range.into() {
            Some(range) => self.unlink_table(range),
            None => self.revoke_everything(),
        }
        self.held.add(table);
    }

    /// As [`super::Gather::held`].
    #[must_use]
    pub fn held(&self) -> &F {
        self.held.get()
    }
}

impl<P: Platform, T: Tags<P>> Tlb<'_, P, T> {
    /// As [`Self::begin_flush`], for what was gathered of the kernel's addresses.
    ///
    /// If eight flushes of kernel addresses that this CPU has begun are not complete, or a kernel flush was dropped, or more than 1024 CPUs are
    /// online, this one waits for targets, as [`CurrentCpu::flush_kernel`] does: no lock may be held for which another CPU spins without calling
    /// [`CurrentCpu::handle_ipi`].
    ///
    /// # Panics
    ///
    /// If the gather is of another [`Tlb`].
    #[track_caller]
    pub fn begin_flush_kernel<'t, F>(
        &'t self,
        irqs_off: &P::IrqsOff,
        gather: KernelGather<F>,
    ) -> PendingFlush<'static, 't, P, T, F> {
        let _ = irqs_off;
        let KernelGather { tlb, mut ranges, held, holds_page } = gather;
        let this_cpu = &CurrentCpu::executing(self);
        this_cpu.must_own(tlb);
        ranges.widen_if_unknown(holds_page);
        let mut pending = PendingFlush::new(this_cpu, held, Flags::default());
        let shootdown = &mut pending.request.shootdown;
        let outcome = this_cpu.start_on_all_online(&mut ranges, shootdown);
        let request = &this_cpu.cpu.queue.own_request;
        if request.has_dropped() || request.outstanding_on_ring() >= MAX_OUTSTANDING {
            let _ = this_cpu.wait_for_all_online(shootdown);
        }
        pending.begun(this_cpu, outcome);
        pending
    }
}

impl<'t, P: Platform, T: Tags<P>> CurrentCpu<'t, P, T> {
    /// Flushes what was gathered from the TLB of every CPU that is online. A CPU that comes online later holds
    /// nothing.
    ///
    /// Where this waits for IPIs, no lock may be held for which another CPU spins with interrupts off and does not call
    /// [`Self::handle_ipi`]: that CPU would never answer.
    ///
    /// # Panics
    ///
    /// If the gather is of another [`Tlb`].
    #[track_caller]
    pub fn flush_kernel<F>(&self, gather: KernelGather<F>) -> Flushed<F> {
        let KernelGather { tlb, mut ranges, held, holds_page } = gather;
        self.must_own(tlb);
        ranges.widen_if_unknown(holds_page);
        let mut shootdown = Shootdown::new(self);
        let outcome = self.start_on_all_online(&mut ranges, &mut shootdown);
        let (targets, rounds) = self.wait_for_all_online(&mut shootdown);
        self.observe(Event::Flushed { outcome, targets, rounds });
        Flushed { frames: held.into_frames(), flags: Flags::default() }
    }

    /// Waits for the targets. With this request they have acknowledged all that this CPU has posted before, those that were
    /// dropped too.
    fn wait_for_all_online(&self, shootdown: &mut Shootdown<'t, P, T>) -> (u32, u64) {
        let request = &self.cpu.queue.own_request;
        let dropped =
            if shootdown.is_on_ring() { request.take_dropped() } else { Outstanding::NONE };
        let waited = shootdown.wait(self);
        request.end_outstanding(dropped);
        waited
    }

    /// Flushes on this CPU, and sends requests to all others that are online.
    fn start_on_all_online(
        &self,
        ranges: &mut FlushRanges,
        shootdown: &mut Shootdown<'t, P, T>,
    ) -> Outcome {
        if ranges.is_empty() {
            return Outcome::NoCpu;
        }
        let mmu = self.mmu();
        let costs = self.tlb.platform.costs();
        let (scope, ceiling) = match mmu.properties().broadcasts {
            true => (Scope::Broadcast, costs.broadcast.ceiling),
            false => (Scope::Local, costs.local.ceiling),
        };
        ranges.widen_above(ceiling, mmu, scope);
        let request = &FlushRequest { scope: FlushScope::Kernel, ranges, early: false };
        mmu.publish(Wait::Now);
        if scope == Scope::Broadcast {
            let (ranges, change) = (request.ranges.kernel_ranges(), request.ranges.change());
            mmu.flush(self.errata(), Invalidation::kernel(ranges, change), Scope::Broadcast);
            return Outcome::Broadcast;
        }
        shootdown.post_to_all(self, request);
        for mut up in self.tlb.up.groups(self.tlb.cpus.len()) {
            let me = self.id().0.wrapping_sub(up.first.0);
            if me < 64 {
                up.mask &= !(1 << me);
            }
            shootdown.send_to(self, up);
        }
        T::flush_kernel(&self.for_allocator(), request.ranges);
        if shootdown.targets == 0 { Outcome::Local } else { Outcome::Ipis }
    }
}
