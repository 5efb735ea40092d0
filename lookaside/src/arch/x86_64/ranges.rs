//! Flushing a few addresses instead of a whole tag.

use super::{
    Instructions, X86,
    invlpgb::{Entries, Operands, Plan},
    invpcid::Command,
};
use crate::{
    arch::{
        Errata, Invalidation, KernelEntriesLeft, Scope, TableChange, Tag,
        errata::INVLPG_KEEPS_GLOBALS,
    },
    range::VaRange,
};

impl<I: Instructions> X86<I> {
    /// Removes entries of this CPU.
    #[inline(always)] // As `Mmu::flush` on this type.
    pub(super) fn flush_here(&self, errata: Errata, entries: Invalidation<'_>) {
        match entries {
            Invalidation::All => self.flush_every_tag(),
            Invalidation::Tag(tag) => self.flush_tag(tag),
            Invalidation::Ranges { tag, ranges, change } => self.flush_ranges(tag, ranges, change),
            Invalidation::Kernel { ranges, change } => self.flush_kernel(errata, ranges, change),
        }
    }

    fn flush_every_tag(&self) {
        if self.has_invpcid {
            self.invpcid(Command::ALL_BUT_GLOBAL);
        } else if self.has_pcids() {
            // A reload reaches one PCID only.
            self.toggle_pge();
        } else {
            self.reload();
        }
    }

    /// The current PCID goes by a reload of `CR3`: on Skylake `INVPCID` takes 1.85 times as long as
    /// that (D. Hansen, linux-mm, 13 Jan 2016), and both remove the same, entries and cached upper
    /// levels of that PCID alone (SDM vol. 3, 4.10.4.1).
    fn flush_tag(&self, tag: Tag) {
        let kernel = self.kernel_pcid(tag);
        let user = self.user_pcid(tag);
        if !self.has_pcids() {
            self.flush_every_tag();
        } else if self.is_current(kernel) && (user.is_none() || self.has_invpcid) {
            self.reload();
            if let Some(user) = user {
                self.drop_other(user);
            }
        } else if self.has_invpcid {
            self.invpcids([kernel].into_iter().chain(user).map(Command::context));
        } else {
            // A reload would have to name the other PCID, and with it a root.
            self.toggle_pge();
        }
    }

    /// Removes what this CPU holds for the ranges under `tag`, in both halves of a pair.
    ///
    /// `INVLPG` does it for the current PCID, cached upper levels of its walks included, and type 0
    /// of `INVPCID` for others. The manual says of the one that all upper levels of the PCID go, and
    /// of the other only that "mappings" of the address do (SDM vol. 3, 4.10.4.1; vol. 2, INVPCID).
    /// Where tables were unlinked, another PCID is therefore flushed as a whole.
    #[inline]
    fn flush_ranges(&self, tag: Tag, ranges: &[VaRange], change: TableChange) {
        match *ranges {
            // Most flushes are of one page of the space that runs.
            [page] if self.user_pages.is(&page) && self.invlpg_reaches(tag) => {
                self.invlpg(page.start());
            }
            [range] => self.flush_range(tag, range, change),
            _ => self.flush_by_address_or_tag(tag, ranges, change),
        }
    }

    /// As [`Self::flush_by_address_or_tag`], of a range that is in registers.
    #[inline(never)]
    fn flush_range(&self, tag: Tag, range: VaRange, change: TableChange) {
        self.flush_by_address_or_tag(tag, &[range], change);
    }

    #[inline(never)]
    fn flush_by_address_or_tag(&self, tag: Tag, ranges: &[VaRange], change: TableChange) {
        let kernel = self.kernel_pcid(tag);
        let user = self.user_pcid(tag);
        let current = !self.has_pcids() || self.is_current(kernel);
        let others = !current || user.is_some();
        let by_address = !others || self.has_invpcid && change == TableChange::LastLevel;
        if !by_address || !self.can_name(ranges) || ranges.iter().any(has_too_many_steps) {
            return self.flush_tag(tag);
        }
        if current {
            // Also where INVLPG_KEEPS_GLOBALS: what it keeps is no entry of a tag.
            self.invlpgs(ranges);
        }
        if others {
            let others = [(!current).then_some(kernel), user].into_iter().flatten();
            // Each address is canonical: the ranges were looked at above.
            self.invpcids(others.flat_map(|pcid| {
                addresses(ranges).flat_map(move |at| Command::address(pcid, at, self.levels))
            }));
        }
    }

    /// Begins to remove what any CPU holds for the ranges under `tag`, in both halves of a pair.
    pub(super) fn begin_ranges(&self, tag: Tag, ranges: &[VaRange], change: TableChange) {
        let kernel = self.kernel_pcid(tag);
        let user = self.user_pcid(tag);
        if !self.can_name(ranges) || ranges.iter().any(has_too_many_steps) {
            return self.begin_tag(tag);
        }
        // Matching by PCID faults where PCIDs are not in use.
        let own = if self.has_pcids() { Entries::Pcid(kernel) } else { Entries::EveryPcid };
        let scopes = [Some(own), user.map(Entries::Pcid)].into_iter().flatten();
        self.begin(scopes.flat_map(|scope| self.plans(ranges, scope, change)));
    }

    /// Begins to remove everything but global entries of `tag` on every CPU.
    pub(super) fn begin_tag(&self, tag: Tag) {
        let kernel = self.kernel_pcid(tag);
        if self.has_pcids() {
            let user = self.user_pcid(tag).map(Operands::context);
            self.begin([Operands::context(kernel)].into_iter().chain(user));
        } else {
            // Matching by PCID would fault.
            self.begin([Operands::ALL_BUT_GLOBAL]);
        }
    }

    /// Removes what this CPU holds for kernel addresses, global or not and of every PCID.
    ///
    /// `INVLPG` removes global entries and those of the current PCID. What is not global stays under
    /// the PCIDs of spaces that ran before, and so do their cached upper levels, also those that
    /// lead to global entries. With PCIDs it is therefore used only for leaves, and only if the
    /// kernel says that its entries are global.
    fn flush_kernel(&self, errata: Errata, ranges: &[VaRange], change: TableChange) {
        let only_pcid = !self.has_pcids();
        let global = self.kernel_is_global
            && change == TableChange::LastLevel
            && !errata.contains(INVLPG_KEEPS_GLOBALS);
        if (only_pcid || global) && !ranges.is_empty() && self.can_name(ranges) {
            self.invlpgs(ranges);
        } else {
            self.drop_everything();
        }
    }

    /// Removes what this CPU holds for kernel addresses that is global, or of the PCIDs of `tag`, which `CR3` names; or
    /// everything that [`Self::flush_kernel`] removes. Returns what may be left.
    ///
    /// `INVLPG` removes the addresses under the current PCID, and all cached upper levels of that PCID, whatever their address
    /// (SDM vol. 3, 4.10.4.1); with AMD's `EFER.TCE` those of the address. Other PCIDs keep theirs, and a CPU uses nothing of a
    /// PCID that `CR3` does not name but global entries (SDM vol. 3, 4.10.1), which `INVLPG` removes under all. So a table that was
    /// freed is safe until one of them is loaded, and then the load drops them.
    ///
    /// A user's table maps of the kernel what its trampoline needs: code and data at the same addresses as in the kernel's own
    /// table, a trap frame for example. Which addresses those are only the kernel knows, so the user's half loses every address
    /// that the kernel's half loses: by `INVPCID` 0 if no table was unlinked. If one was, or without `INVPCID`, it loses
    /// everything, at the exit to user mode where it can be left to that. A parked CPU has no user's half.
    pub(super) fn flush_current_kernel(
        &self,
        errata: Errata,
        tag: Tag,
        ranges: &[VaRange],
        change: TableChange,
    ) -> KernelEntriesLeft {
        let is_enough = self.kernel_is_global && change == TableChange::LastLevel;
        if !self.has_pcids()
            || is_enough
            || !self.flushes_kernel_by_pcid(errata)
            || ranges.is_empty()
            || !self.can_name(ranges)
            || !self.is_current(self.kernel_pcid(tag))
        {
            self.flush_kernel(errata, ranges, change);
            return KernelEntriesLeft::default();
        }
        self.invlpgs(ranges);
        let mut left = KernelEntriesLeft { under_other_tags: true, in_user_half: false };
        if let Some(user) = self.user_pcid(tag).filter(|_| tag != Tag::RESERVED) {
            if self.names_user_half(change) {
                // Each address is canonical: the ranges were looked at above.
                let commands =
                    addresses(ranges).flat_map(|at| Command::address(user, at, self.levels));
                self.invpcids(commands);
            } else if self.defers_user_flush() {
                left.in_user_half = true;
            } else {
                self.invpcid(Command::context(user));
            }
        }
        left
    }

    /// Whether flushes of kernel addresses may leave what other PCIDs hold to the next load of each. Not where `INVLPG` leaves
    /// global entries: also with separate user tables those of the trampoline may be global. Nor where the user's half goes by
    /// nothing less than a toggle of `PGE`, which takes everything.
    fn flushes_kernel_by_pcid(&self, errata: Errata) -> bool {
        let reaches_user_half = self.has_invpcid || !self.is_paired() || self.defers_user_flush();
        reaches_user_half && !errata.contains(INVLPG_KEEPS_GLOBALS)
    }

    /// Whether `INVPCID` 0 removes from the user's half what a flush of kernel addresses must.
    fn names_user_half(&self, change: TableChange) -> bool {
        self.has_invpcid && change == TableChange::LastLevel
    }

    /// Whether tags are pairs of PCIDs.
    fn is_paired(&self) -> bool {
        self.user_pcid(Tag::RESERVED).is_some()
    }

    /// Begins to remove what any CPU holds for kernel addresses, global or not and of every PCID.
    pub(super) fn begin_kernel(&self, ranges: &[VaRange], change: TableChange) {
        if ranges.is_empty() || !self.can_name(ranges) {
            self.begin([Operands::ALL]);
        } else {
            self.begin(self.plans(ranges, Entries::WithGlobal, change));
        }
    }

    /// How many invalidations one range takes; on this CPU, if the tag is the current one.
    pub(super) fn count(&self, range: &VaRange, change: TableChange, scope: Scope) -> Option<u64> {
        self.levels.check_range(range).ok()?;
        let paired = self.is_paired();
        let halves = if paired { 2 } else { 1 };
        let each = match scope {
            Scope::Local if paired && (!self.has_invpcid || change == TableChange::FreedTables) => {
                None
            }
            _ if has_too_many_steps(range) => None,
            Scope::Local => Some(range.pages() << (range.page_shift() - step(range))),
            Scope::Broadcast => {
                let plan = Plan::of(range, Entries::EveryPcid, change, self.invlpgb?, self.levels);
                Some(plan.ok()?.operations())
            }
        };
        Some(each? * halves)
    }

    /// As [`Self::count`] on this CPU, of kernel addresses.
    pub(super) fn count_kernel(&self, range: &VaRange, change: TableChange) -> Option<u64> {
        if self.levels.check_range(range).is_err()
            || has_too_many_steps(range)
            || !self.flushes_kernel_by_pcid(Errata::NONE)
        {
            return None;
        }
        let each = range.pages() << (range.page_shift() - step(range));
        Some(if self.is_paired() && self.names_user_half(change) { 2 * each } else { each })
    }

    /// Whether instructions can name the ranges. `INVLPG` does nothing for an address that is not
    /// canonical, and `INVPCID` and `INVLPGB` fault; nothing of that kind may depend on an address
    /// which somebody else may have chosen (XSA-279).
    fn can_name(&self, ranges: &[VaRange]) -> bool {
        ranges.iter().all(|range| self.levels.check_range(range).is_ok())
    }

    fn invlpgs(&self, ranges: &[VaRange]) {
        for address in addresses(ranges) {
            self.invlpg(address);
        }
    }

    /// The `INVLPGB`s for ranges that are canonical. None if the instruction is not in use.
    fn plans(
        &self,
        ranges: &[VaRange],
        entries: Entries,
        change: TableChange,
    ) -> impl Iterator<Item = Operands> {
        let plan = move |limit, range| Plan::of(range, entries, change, limit, self.levels);
        let limit = self.invlpgb.into_iter();
        limit.flat_map(move |limit| ranges.iter().flat_map(move |s| plan(limit, s)).flatten())
    }
}

/// The binary logarithm of the step from one address to the next: that of the smallest page that has changed, as an
/// invalidation by address removes a larger one, too, wherever in it the address is (SDM vol. 3, 4.10.4.1; APM vol. 3,
/// `INVLPG`, `INVLPGB`). A size that hardware has no pages of counts as the next smaller one.
pub(super) const fn step(range: &VaRange) -> u32 {
    match range.page_shift() {
        30.. => 30,
        21.. => 21,
        _ => 12,
    }
}

/// Whether one page of the range takes as many steps as a table has entries, or more: the entry is of a level that has no
/// pages. A flush of one page is not compared with the flush of its tag.
const fn has_too_many_steps(range: &VaRange) -> bool {
    range.page_shift() - step(range) >= 9
}

/// One address in each page of the ranges.
fn addresses(ranges: &[VaRange]) -> impl Iterator<Item = u64> {
    ranges.iter().flat_map(|range| {
        let step = step(range);
        let pages = range.pages() << (range.page_shift() - step);
        (0..pages).map(move |page| range.start() + (page << step))
    })
}
