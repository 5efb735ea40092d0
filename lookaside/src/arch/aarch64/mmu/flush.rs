//! Flushes: one barrier before the first invalidation, and one completion after the last.

use super::{
    super::{
        barriers::{complete, publish},
        instructions::{Instructions, Tlbi, TlbiOp},
        range::{Asid, Planner, Reach},
        registers::upper_geometry_of,
        tlbi::{Level, by_asid},
    },
    Aarch64, Pairing,
};
use crate::{
    arch::{Errata, Invalidation, Scope, TableChange, Tag},
    range::VaRange,
};

/// What to invalidate, apart from whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeFlush {
    /// The addresses.
    pub range: VaRange,
    /// Whether tables were unlinked.
    pub reach: Reach,
    /// The one level at which descriptors have changed, if that is known.
    pub level: Option<Level>,
    /// On which CPUs.
    pub scope: Scope,
}

impl<I: Instructions> Aarch64<I> {
    /// Invalidates `what` for the tag that `tag` returns, and waits for completion.
    ///
    /// `tag` is called *after* the barrier that makes the caller's page-table stores visible to all
    /// walks, because the space may get another tag at any moment before it; it must read the tag
    /// with one atomic load. `None` means that the space has no tag: no CPU holds anything of it,
    /// and nothing more is executed.
    ///
    /// With [`Scope::Local`] only this CPU's entries go.
    pub fn invalidate(&self, errata: Errata, what: &RangeFlush, tag: impl FnOnce() -> Option<Tag>) {
        publish(&self.insn, what.scope);
        let Some(tag) = tag() else { return };
        for asid in self.asids(tag) {
            self.execute(what, Asid::One(asid));
        }
        complete(&self.insn, errata, what.scope);
    }

    /// Invalidates `what` for every tag, and waits for completion: what kernel mappings need, global
    /// or not.
    pub fn invalidate_all_tags(&self, errata: Errata, what: &RangeFlush) {
        publish(&self.insn, what.scope);
        self.execute(what, Asid::Every);
        complete(&self.insn, errata, what.scope);
    }

    fn execute(&self, what: &RangeFlush, asid: Asid) {
        let planner = self.planner(what.range.start());
        self.tlbi(planner.plan(what.range, asid, what.reach, what.level, what.scope));
    }

    fn tlbi(&self, plan: impl IntoIterator<Item = Tlbi>) {
        for tlbi in plan {
            self.insn.tlbi(tlbi);
        }
    }

    /// Executes the invalidations after the stores of this CPU. They are complete some time later.
    #[inline(always)] // As `Mmu::flush` on this type.
    pub(super) fn begin(&self, entries: Invalidation<'_>, scope: Scope) {
        publish(&self.insn, scope);
        match entries {
            Invalidation::All => self.invalidate_everything(scope),
            Invalidation::Tag(tag) => self.invalidate_tag(tag, scope),
            Invalidation::Ranges { tag, ranges, change } => {
                self.invalidate_ranges(tag, ranges, change, scope);
            }
            Invalidation::Kernel { ranges, change } => {
                self.invalidate_kernel(ranges, change, scope)
            }
        }
    }

    /// Invalidates all ASIDs of a tag.
    pub(super) fn invalidate_tag(&self, tag: Tag, scope: Scope) {
        self.tlbi(self.asids(tag).map(|asid| Tlbi {
            op: TlbiOp::Aside,
            scope,
            operand: by_asid(asid),
        }));
    }

    /// Invalidates everything of stage 1, global entries too.
    fn invalidate_everything(&self, scope: Scope) {
        self.insn.tlbi(Tlbi { op: TlbiOp::Vmall, scope, operand: 0 });
    }

    /// Invalidates the ranges for all ASIDs of a tag, or the tag if there is a range among them
    /// that operands cannot name.
    #[inline]
    fn invalidate_ranges(&self, tag: Tag, ranges: &[VaRange], change: TableChange, scope: Scope) {
        // Most flushes are of one page, and need no plan.
        let [page] = ranges else {
            return self.invalidate_by_plan(tag, ranges, change, scope);
        };
        if change == TableChange::LastLevel
            && let Some(operand) = self.lower.user_page(page)
        {
            let page = |asid| Tlbi { op: TlbiOp::Val, scope, operand: by_asid(asid) | operand };
            self.check_width(tag);
            match self.config.pairing {
                Pairing::Single => self.insn.tlbi(page(tag.0)),
                Pairing::Paired => {
                    let [first, second] = self.config.pairing.asids(tag);
                    self.insn.tlbi(page(first));
                    self.insn.tlbi(page(second));
                }
            }
        } else {
            self.invalidate_one_by_plan(tag, *page, change, scope);
        }
    }

    /// As [`Self::invalidate_by_plan`]. By value: what is passed by reference would be in memory for those who need no plan, too.
    #[inline(never)]
    fn invalidate_one_by_plan(&self, tag: Tag, range: VaRange, change: TableChange, scope: Scope) {
        self.invalidate_by_plan(tag, &[range], change, scope);
    }

    #[inline(never)]
    fn invalidate_by_plan(&self, tag: Tag, ranges: &[VaRange], change: TableChange, scope: Scope) {
        if !self.can_name(ranges) {
            return self.invalidate_tag(tag, scope);
        }
        for asid in self.asids(tag) {
            self.invalidate_each(ranges, Asid::One(asid), change, scope);
        }
    }

    /// Invalidates the ranges for every ASID, or everything if there are none.
    fn invalidate_kernel(&self, ranges: &[VaRange], change: TableChange, scope: Scope) {
        if ranges.is_empty() || !self.can_name(ranges) {
            self.invalidate_everything(scope);
        } else {
            self.invalidate_each(ranges, Asid::Every, change, scope);
        }
    }

    /// Whether operands can name the ranges, and few enough: a flush of one page is not compared with that of its tag, and
    /// the page may be of a size that the granule has not.
    fn can_name(&self, ranges: &[VaRange]) -> bool {
        ranges.iter().all(|range| {
            self.planner_of(range).is_some_and(|planner| !planner.has_too_many_steps(range))
        })
    }

    fn invalidate_each(&self, ranges: &[VaRange], asid: Asid, change: TableChange, scope: Scope) {
        for range in ranges {
            if let Some(planner) = self.planner_of(range) {
                self.tlbi(planner.plan_range(range, asid, change, scope));
            }
        }
    }

    /// How the range is turned into instructions; `None` if it is not canonical, reaches into both
    /// halves, or lies in a half of which the granule is not known.
    pub(super) fn planner_of(&self, range: &VaRange) -> Option<&Planner> {
        let (first, last) = (range.start(), range.last());
        // Bit 55 selects the half. All bits above it are alike in an address that carries no tag.
        match (first >> 55, last >> 55) {
            (0, 0) => Some(&self.lower),
            (0x1ff, 0x1ff) if upper_geometry_of(self.config.tcr).is_some() => Some(&self.upper),
            _ => None,
        }
    }
}
