//! From a range of addresses to the instructions that invalidate it.

use super::{
    instructions::{Tlbi, TlbiOp},
    tlbi::{self, Geometry, Level, Span},
};
use crate::{
    arch::{Scope, TableChange},
    range::{UserPage, VaRange},
};

/// Whose translations are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asid {
    /// Those of one ASID, and global ones.
    One(u16),
    /// Those of every ASID, and global ones: what kernel mappings need.
    Every,
}

/// Which cached levels of a walk must go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// All of them. Needed as soon as a table was unlinked: the walk caches hold its address.
    AllLevels,
    /// Only pages and blocks. Enough as long as no table was unlinked.
    LastLevel,
}

/// What all plans of a machine have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Planner {
    /// The granule and address size that `TCR_EL1` selects for the half of the address space.
    pub geometry: Geometry,
    /// Whether every CPU has the range instructions (FEAT_TLBIRANGE).
    pub range_ops: bool,
    /// Whether every CPU takes level hints (FEAT_TTL).
    pub level_hints: bool,
    /// The hint in the operand of a page of the granule, or 0.
    page_hint: u64,
    /// The ranges that are one page of the granule in the lower half, which bit 55 selects.
    user_pages: UserPage,
}

impl Planner {
    /// What plans have in common where every CPU has range instructions, or takes level hints, if it says so.
    #[must_use]
    pub const fn new(geometry: Geometry, range_ops: bool, level_hints: bool) -> Self {
        let page_hint =
            if level_hints { tlbi::by_address(geometry, 0, 0, Some(Level::L3)) } else { 0 };
        let user_pages = UserPage::new(geometry.granule.shift(), 55);
        Self { geometry, range_ops, level_hints, page_hint, user_pages }
    }

    /// The instructions that invalidate `range` for `asid`.
    ///
    /// `level` says that all descriptors that have changed are pages or blocks of that level. It is
    /// honoured with [`Reach::LastLevel`] only; where it is honoured the instructions step from
    /// block to block. A level that the geometry does not have counts as "unknown". A range that is
    /// not made of whole pages, or of whole blocks of `level`, is widened until it is: too much is
    /// always legal, too little never.
    ///
    /// Addresses are taken as hardware takes them: bits above the sign bit are dropped.
    ///
    /// The plan has one instruction for each page without range instructions, and about one for
    /// each 2^21 pages, at most four more, and those up to an alignment of 64 KiB, with them. A
    /// caller for whom that is too many flushes the whole tag instead; see [`Plan::fits`].
    pub const fn plan(
        &self,
        range: VaRange,
        asid: Asid,
        reach: Reach,
        level: Option<Level>,
        scope: Scope,
    ) -> Plan {
        let page = self.geometry.granule.shift();
        let (level, leaf) = match (reach, level) {
            (Reach::LastLevel, Some(level)) => match self.geometry.leaf_shift(level) {
                Some(leaf) => (Some(level), leaf),
                None => (None, page),
            },
            _ => (None, page),
        };
        self.stepping(range, asid, reach, (level, leaf), scope)
    }

    /// The instructions that invalidate a range for `asid`.
    ///
    /// They step by the largest page or block that is not larger than the pages of the range: each
    /// descriptor that has changed is then named at least once, and an instruction that names any
    /// address of a block, or of a table, removes what was cached of its descriptor. Blocks that the
    /// contiguous bit makes may be cached one by one, and are named one by one.
    ///
    /// The level is hinted at only where it is certain: the range is uniform, its page size is
    /// that of exactly one level, and no table was unlinked.
    pub const fn plan_range(
        &self,
        range: &VaRange,
        asid: Asid,
        change: TableChange,
        scope: Scope,
    ) -> Plan {
        let uniform = range.is_uniform();
        let (level, leaf) = self.leaf_within(range.page_shift());
        let exact = leaf == range.page_shift();
        let (reach, level) = match change {
            TableChange::LastLevel if uniform && exact => (Reach::LastLevel, Some(level)),
            TableChange::LastLevel => (Reach::LastLevel, None),
            TableChange::FreedTables => (Reach::AllLevels, None),
        };
        self.stepping(*range, asid, reach, (level, leaf), scope)
    }

    /// The binary logarithm of the size of a page of the granule, in bytes.
    #[inline]
    pub(super) const fn page_shift(&self) -> u32 {
        self.geometry.granule.shift()
    }

    /// The operand that names one page of the granule in the lower half, but for its ASID: what
    /// [`Self::plan_range`] comes to for it. `None` for anything else.
    #[inline]
    pub(super) const fn user_page(&self, range: &VaRange) -> Option<u64> {
        if !self.user_pages.is(range) {
            return None;
        }
        // As `tlbi::by_address`, with the hint composed before.
        Some(range.start() >> 12 | if range.is_uniform() { self.page_hint } else { 0 })
    }

    /// Whether one page of the range takes as many steps as a table has entries, or more: no descriptor maps so much.
    pub(super) const fn has_too_many_steps(&self, range: &VaRange) -> bool {
        let (_, leaf) = self.leaf_within(range.page_shift());
        range.page_shift().saturating_sub(leaf) >= self.page_shift() - 3
    }

    /// The largest page or block that is not larger than `1 << page_shift` bytes, or a page.
    const fn leaf_within(&self, page_shift: u32) -> (Level, u32) {
        let mut levels: &[Level] = &[Level::L0, Level::L1, Level::L2];
        while let [level, smaller @ ..] = levels {
            match self.geometry.leaf_shift(*level) {
                Some(leaf) if leaf <= page_shift => return (*level, leaf),
                _ => levels = smaller,
            }
        }
        (Level::L3, self.geometry.granule.shift())
    }

    /// A plan that steps by leaves of `1 << leaf` bytes and hints at `level`.
    const fn stepping(
        &self,
        range: VaRange,
        asid: Asid,
        reach: Reach,
        (level, leaf): (Option<Level>, u32),
        scope: Scope,
    ) -> Plan {
        let page = self.geometry.granule.shift();
        let within = (1 << leaf) - 1;
        let start = range.start() & !within;
        let last = range.last() | within;
        Plan {
            planner: *self,
            asid,
            reach,
            level,
            scope,
            next: start,
            left: ((last - start) >> page) + 1,
            stride: 1 << (leaf - page),
        }
    }
}

/// The instructions that invalidate a range: an iterator without storage of its own.
#[derive(Clone, Debug)]
#[must_use = "a plan invalidates nothing until its instructions are executed"]
pub struct Plan {
    planner: Planner,
    asid: Asid,
    reach: Reach,
    level: Option<Level>,
    scope: Scope,
    /// The first address that no instruction covers yet.
    next: u64,
    /// How many pages of the granule are not covered yet.
    left: u64,
    /// How many pages of the granule one page or block has.
    stride: u64,
}

impl Plan {
    /// Whether the plan has at most `ceiling` instructions. Takes `ceiling` steps to find out.
    #[must_use]
    pub fn fits(&self, ceiling: usize) -> bool {
        self.clone().nth(ceiling).is_none()
    }

    /// How many instructions the plan has. Takes a bounded number of steps, however many they are.
    #[must_use]
    pub fn operations(&self) -> u64 {
        let mut rest = self.clone();
        let mut counted = 0;
        while rest.left > 0 {
            // What follows is all alike: single pages or blocks, or the widest spans.
            let (alike, each) = match rest.span() {
                None if !rest.takes_spans() => (rest.left / rest.stride, rest.stride),
                None => (1, rest.stride),
                Some(span) => (rest.left / span.pages(), span.pages()),
            };
            counted += alike;
            rest.advance(alike * each);
        }
        counted
    }

    /// Whether range instructions may gain anything: they exist, and no block exceeds all spans.
    const fn takes_spans(&self) -> bool {
        self.planner.range_ops && self.stride < Span::WIDEST.pages()
    }

    /// The widest span that may come next, if a range instruction may.
    const fn span(&self) -> Option<Span> {
        let unit = self.planner.geometry.range_base_shift();
        // One page or block takes one by-address instruction. BaseADDR drops the bits below its
        // unit, so up to the first multiple of it (with 52-bit addresses and small pages) only
        // single pages are exact.
        let expressible = self.next & ((1 << unit) - 1) == 0;
        if self.takes_spans() && self.left > self.stride && expressible {
            Span::widest_within(self.left)
        } else {
            None
        }
    }

    const fn advance(&mut self, pages: u64) {
        self.left -= pages;
        // Wraps to 0 exactly when the range ends at the top of the address space.
        self.next = self.next.wrapping_add(pages << self.planner.geometry.granule.shift());
    }
}

impl Iterator for Plan {
    type Item = Tlbi;

    /// Wide spans come first, so that with 52-bit addresses every span but the narrowest ends on a
    /// 64 KiB boundary, where the next may begin; the narrowest scale is used at most once, and an
    /// odd page remains for the end.
    fn next(&mut self) -> Option<Tlbi> {
        if self.left == 0 {
            return None;
        }
        let Planner { geometry, level_hints, .. } = self.planner;
        let asid = match self.asid {
            Asid::One(asid) => asid,
            Asid::Every => 0,
        };
        let (op, operand, pages) = if let Some(span) = self.span() {
            let op = match (self.asid, self.reach) {
                (Asid::One(_), Reach::AllLevels) => TlbiOp::Rva,
                (Asid::One(_), Reach::LastLevel) => TlbiOp::Rval,
                (Asid::Every, Reach::AllLevels) => TlbiOp::Rvaa,
                (Asid::Every, Reach::LastLevel) => TlbiOp::Rvaal,
            };
            let operand = tlbi::by_range(geometry, asid, self.next, span, self.level);
            (op, operand, span.pages())
        } else {
            let op = match (self.asid, self.reach) {
                (Asid::One(_), Reach::AllLevels) => TlbiOp::Va,
                (Asid::One(_), Reach::LastLevel) => TlbiOp::Val,
                (Asid::Every, Reach::AllLevels) => TlbiOp::Vaa,
                (Asid::Every, Reach::LastLevel) => TlbiOp::Vaal,
            };
            // Without FEAT_TTL bits 47:44 are RES0. Range operands have their own hint.
            let level = if level_hints { self.level } else { None };
            (op, tlbi::by_address(geometry, asid, self.next, level), self.stride)
        };
        self.advance(pages);
        Some(Tlbi { op, scope: self.scope, operand })
    }
}
