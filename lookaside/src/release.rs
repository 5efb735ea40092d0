//! The end of a space: every CPU leaves it, and its tag and its tables become free.
//!
//! No CPU switches to the space any more, since the caller has the only reference. But CPUs may still have its root
//! loaded: lazy ones, CPUs that are about to switch away from it, and CPUs that have called firmware from it
//! ([`CurrentCpu::with_root`]). Each of them gets a request to leave, and parks in its IPI handler (Linux:
//! `leave_mm`). A CPU in mid-switch handles the request when it has switched.

use crate::{
    arch::Mmu,
    flush::shootdown::Shootdown,
    ids::Targets,
    platform::Platform,
    request::{FlushRanges, FlushRequest, FlushScope},
    space::AddressSpace,
    tlb::{CurrentCpu, Released, RootState, Tags},
    word::{Ordering, Word},
};

impl<'t, P: Platform, T: Tags<P>> CurrentCpu<'t, P, T> {
    /// Ends a space: makes every CPU leave it, and frees its tag. When this returns, no CPU uses its tables and none
    /// holds a translation that could be used again, so the kernel may free tables and frames without a flush. The
    /// space is then as one that never ran: it may be moved, dropped, used anew, or taken apart
    /// ([`AddressSpace::into_tables`]).
    ///
    /// No thread of the space may run any more; one that did would take page faults. A CPU may have the root loaded
    /// all the same, in lazy mode or because it has not switched away yet: it gets an IPI, parks, and this waits for
    /// it as a flush does ([`Self::flush`]).
    ///
    /// # Panics
    ///
    /// If a device may use the tag ([`Self::unpin`] was called less often than [`Self::pin`]), or if the space is of
    /// another [`crate::Tlb`].
    #[doc(alias = "exit_mmap")]
    #[doc(alias = "pmap_release")]
    #[track_caller]
    pub fn release(&self, space: &mut AddressSpace<P>) -> Released {
        self.must_own(space.tlb);
        let space = &*space;
        self.make_all_leave(space);
        if self.mmu().properties().walks_outlive_tags && !T::has_global_tags(self.tlb) {
            // The tables are freed, and CPUs may hold walks of them under tags of their own.
            self.flush_everything(space);
        }
        let released = T::release(&self.for_allocator(), space);
        space.residents().clear();
        // What absent CPUs and devices hold is under a tag that the space has no more.
        space.lock_residency(&self.tlb.platform).set_stale(false);
        released
    }

    /// Returns when no root register names `space`.
    fn make_all_leave(&self, space: &AddressSpace<P>) {
        self.leave(space.root_on(self.id()).table);
        let Some(context) = T::context_id(self.tlb, space) else { return };
        let mut under_way = None;
        for word in space.residents().scan() {
            let resident = word.looked_at(true);
            let mut targets = Targets { mask: 0, ..resident };
            let mut named = 0;
            for cpu in resident.iter().filter(|&cpu| cpu != self.id()) {
                if T::root_state(self.tlb, cpu, context) == RootState::NotLoaded {
                    continue;
                }
                let root = space.root_on(cpu).table;
                if targets.mask != 0 && root != named {
                    self.ask_to_leave(&mut under_way, named, targets);
                    targets.mask = 0;
                }
                named = root;
                targets.mask |= 1 << (cpu.0 - targets.first.0);
            }
            if targets.mask != 0 {
                self.ask_to_leave(&mut under_way, named, targets);
            }
        }
        self.wait_until_left(under_way);
    }

    /// Asks CPUs that may have `root` loaded to park. One request names one root: where CPUs have roots of their own,
    /// those of the root before have left it first.
    fn ask_to_leave(
        &self,
        under_way: &mut Option<(u64, Shootdown<'t, P, T>)>,
        root: u64,
        targets: Targets,
    ) {
        if under_way.as_ref().is_some_and(|(named, _)| *named != root) {
            self.wait_until_left(under_way.take());
        }
        let (_, shootdown) = under_way.get_or_insert_with(|| {
            self.set_leaving(Some(root));
            let mut shootdown = Shootdown::new(self);
            let (scope, ranges) = (FlushScope::Leave { root }, FlushRanges::new());
            shootdown.describe(self, &FlushRequest { scope, ranges: &ranges, early: false });
            (root, shootdown)
        });
        shootdown.send_to(self, targets);
    }

    fn wait_until_left(&self, under_way: Option<(u64, Shootdown<'t, P, T>)>) {
        if let Some((_, mut shootdown)) = under_way {
            let _ = shootdown.wait(self);
            self.set_leaving(None); // A later table may have the same address.
        }
    }

    /// Says which root other CPUs are asked to leave, or that they have.
    pub(crate) fn set_leaving(&self, root: Option<u64>) {
        // Relaxed: O-POST of the request follows the 1, and the acknowledgements come before it is taken back.
        let more = if root.is_some() { 1 } else { u64::MAX };
        self.tlb.leaving.fetch_add(more, Ordering::Relaxed);
        self.cpu.queue.own_request.set_leaving(root);
    }

    /// Parks this CPU if the root that it has loaded is at this address, or would be loaded again after a foreign
    /// one.
    pub(crate) fn leave(&self, root: u64) {
        if self.loaded_root().table == root {
            let _ = self.park();
        }
    }

    /// Parks this CPU if its root is being released. For a CPU that could not read a request: it looks at what all
    /// initiators release.
    pub(crate) fn leave_released(&self) {
        // Relaxed: after the number of the request was read (O-POSTED). Most often there is none, and on a large machine many
        // requests cannot be read.
        if self.tlb.leaving.load(Ordering::Relaxed) == 0 {
            return;
        }
        for root in self.tlb.cpus.iter().filter_map(|cpu| cpu.queue.own_request.leaving()) {
            self.leave(root);
        }
    }
}
