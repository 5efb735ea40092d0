//! From what changed in the tables to the fences that make one hart let go of it.
//!
//! `SFENCE.VMA` has four forms, chosen by whether each operand is `x0`:
//!
//! | rs1 | rs2 | what goes (privileged manual, "Supervisor Memory-Management Fence Instruction") |
//! | --- | --- | --- |
//! | `x0` | `x0` | everything, global mappings too (`norm:sfence_vma_all_asid_va`) |
//! | `x0` | ASID | all levels of that ASID, except global mappings (`norm:sfence_vma_asid_only`) |
//! | address | `x0` | leaf entries of the address, every ASID, global too (`norm:sfence_vma_va_all_asid`) |
//! | address | ASID | leaf entries of the address in that ASID, except global (`norm:sfence_vma_va_asid`) |
//!
//! Two rules follow, and [`Fence`] can only be built in ways that obey them: a change of a *non-leaf*
//! entry needs rs1 = `x0`, because the forms with an address leave walk-cache entries alone; and if
//! *any* entry on the path is global, rs2 must be `x0`, because the forms with an ASID leave global
//! mappings alone.

use super::{Extensions, Instructions, Mode};
use crate::{
    arch::{Errata, Tag, errata::FENCE_OPERANDS},
    error::Error,
    range::VaRange,
};

/// In which address spaces the changed entries can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In the space with this tag only: no entry on the path from the root has the G bit.
    Tag(Tag),
    /// In all spaces: some entry on the path has the G bit, or may have.
    Global,
}

impl Reach {
    /// The operand `rs2`; `None` is `x0`.
    #[must_use]
    pub const fn asid(self) -> Option<u16> {
        match self {
            Self::Tag(tag) => Some(tag.0),
            Self::Global => None,
        }
    }
}

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Leaf entries of this range and nothing above them, none of which was or is part of a Svnapot
    /// block. The page size of the range is that of its *smallest* leaf.
    Leaves(VaRange),
    /// As [`Self::Leaves`], where some of the entries were or are part of 64 KiB Svnapot blocks.
    ///
    /// The range is widened to whole blocks and each of their sixteen pages is fenced, whatever
    /// the page size of the range. The manual asks for fences that cover all 4 KiB regions of the
    /// block (note in "Svnapot Extension"); it does not promise that one address inside a block
    /// removes what was cached for the others, and by `norm:Svnapot_cache_entries` each of the
    /// sixteen may be cached on its own.
    NapotLeaves(VaRange),
    /// Entries that point to tables, entries whose level is not known, or a whole space.
    Tables,
}

/// The operands of one `SFENCE.VMA` or `SINVAL.VMA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    address: Option<u64>,
    asid: Option<u16>,
}

impl Fence {
    /// Everything on this hart, global mappings included.
    pub const EVERYTHING: Self = Self::tables(Reach::Global);

    /// After a change of entries at any level.
    #[must_use]
    pub const fn tables(reach: Reach) -> Self {
        Self { address: None, asid: reach.asid() }
    }

    /// After a change of one leaf entry that maps `address`, of whatever size.
    ///
    /// # Errors
    ///
    /// [`Error::NonCanonical`] if `address` is none: hardware would ignore the instruction without
    /// a word (`norm:sfence_vma_invalid_va`). Pointers that carry a tag of their own in the upper
    /// bits must lose it first.
    pub const fn leaf(mode: Mode, address: u64, reach: Reach) -> Result<Self, Error> {
        if mode.is_canonical(address) {
            Ok(Self { address: Some(address), asid: reach.asid() })
        } else {
            Err(Error::NonCanonical { address })
        }
    }

    /// The operand `rs1`; `None` is `x0`.
    #[must_use]
    pub const fn address(self) -> Option<u64> {
        self.address
    }

    /// The operand `rs2`; `None` is `x0`.
    #[must_use]
    pub const fn asid(self) -> Option<u16> {
        self.asid
    }
}

/// One instruction of a [`Plan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `SFENCE.VMA`.
    SfenceVma(Fence),
    /// `SFENCE.W.INVAL`.
    SfenceWInval,
    /// `SINVAL.VMA`.
    SinvalVma(Fence),
    /// `SFENCE.INVAL.IR`.
    SfenceInvalIr,
}

impl Step {
    /// Executes the instruction.
    #[track_caller]
    pub fn execute<I: Instructions>(self, instructions: &I) {
        match self {
            Self::SfenceVma(fence) => instructions.sfence_vma(fence.address, fence.asid),
            Self::SfenceWInval => instructions.sfence_w_inval(),
            Self::SinvalVma(fence) => instructions.sinval_vma(fence.address, fence.asid),
            Self::SfenceInvalIr => instructions.sfence_inval_ir(),
        }
    }
}

/// Chooses the instructions for changes of page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planner {
    mode: Mode,
    svinval: bool,
    operands: bool,
    most_leaves: u64,
}

impl Planner {
    /// A planner for harts that run in `mode` with `extensions`; changes of more than `most_leaves`
    /// leaves are fenced as a whole space, which on a given machine is a matter of measured costs.
    ///
    /// With [`FENCE_OPERANDS`] in `errata`, every plan is [`Fence::EVERYTHING`].
    #[must_use]
    pub const fn new(mode: Mode, extensions: Extensions, errata: Errata, most_leaves: u64) -> Self {
        let svinval = extensions.contains(Extensions::SVINVAL);
        Self { mode, svinval, operands: !errata.contains(FENCE_OPERANDS), most_leaves }
    }

    /// The instructions that remove what the change made obsolete.
    ///
    /// One leaf or a whole space takes one `SFENCE.VMA`. Several leaves take one each, or, with
    /// Svinval, one `SINVAL.VMA` each between `SFENCE.W.INVAL` and `SFENCE.INVAL.IR`, which lets
    /// hardware overlap them.
    ///
    /// # Errors
    ///
    /// [`Error::NonCanonical`] with the offending end if the range is not canonical or runs from
    /// one half of the address space into the other.
    pub const fn plan(&self, changed: Changed, reach: Reach) -> Result<Plan, Error> {
        let asid = self.asid(reach);
        match self.leaves(changed) {
            Err(error) => Err(error),
            Ok(None) => Ok(Plan { stage: Stage::Whole, asid, next: 0, step: 0, left: 0 }),
            Ok(Some(leaves)) => {
                let stage =
                    if self.svinval && leaves.count > 1 { Stage::Begin } else { Stage::Each };
                let Leaves { start, step, count } = leaves;
                Ok(Plan { stage, asid, next: start, step, left: count })
            }
        }
    }

    /// The first and the last byte to name when other harts are asked to fence (SBI RFENCE, see
    /// [`super::sbi::Request`]); `None` for all addresses.
    ///
    /// # Errors
    ///
    /// As for [`Self::plan`].
    pub const fn span(&self, changed: Changed) -> Result<Option<(u64, u64)>, Error> {
        match self.leaves(changed) {
            Err(error) => Err(error),
            Ok(None) => Ok(None),
            Ok(Some(Leaves { start, step, count })) => {
                Ok(Some((start, start + (count - 1) * step + (step - 1))))
            }
        }
    }

    /// How many leaves a plan for the change fences one by one; `None` if it fences the whole space,
    /// or if there is no plan.
    #[must_use]
    pub const fn count(&self, changed: Changed) -> Option<u64> {
        match self.leaves(changed) {
            Ok(Some(leaves)) => Some(leaves.count),
            Ok(None) | Err(_) => None,
        }
    }

    /// The operands `rs1` of a plan for the change, for a caller who brackets several plans at once: none if the whole space is
    /// fenced, or if there is no plan.
    #[inline]
    pub(super) fn addresses(&self, changed: Changed) -> impl Iterator<Item = u64> + use<> {
        let none = Leaves { start: 0, step: 0, count: 0 };
        let Leaves { start, step, count } = self.leaves(changed).ok().flatten().unwrap_or(none);
        (0..count).map(move |leaf| start + leaf * step)
    }

    /// The operand `rs2`, where it can be relied upon; `None` is `x0`.
    pub(super) const fn asid(&self, reach: Reach) -> Option<u16> {
        if self.operands { reach.asid() } else { None }
    }

    /// The leaves to fence one by one; `None` if the whole space is to be fenced.
    const fn leaves(&self, changed: Changed) -> Result<Option<Leaves>, Error> {
        let (first, last, shift) = match changed {
            Changed::Tables => return Ok(None),
            Changed::Leaves(range) => {
                let shift = self.leaf_shift(range.page_shift());
                (range.start(), range.last(), shift)
            }
            Changed::NapotLeaves(range) => {
                let offset = (1 << super::svnapot::BLOCK_SHIFT) - 1;
                (range.start() & !offset, range.last() | offset, 12)
            }
        };
        if !self.mode.is_canonical(first) {
            return Err(Error::NonCanonical { address: first });
        }
        if !self.mode.is_canonical(last) || first >> 63 != last >> 63 {
            return Err(Error::NonCanonical { address: last });
        }
        // No overflow: both ends are in one half of at most 2^56 bytes.
        let count = ((last - first) >> shift) + 1;
        if count > self.most_leaves || !self.operands {
            return Ok(None);
        }
        Ok(Some(Leaves { start: first, step: 1 << shift, count }))
    }

    /// The largest leaf that is not larger than a page of the range. For a size that no level of
    /// tables has this is the next smaller one: more fences, never fewer.
    const fn leaf_shift(&self, page_shift: u32) -> u32 {
        let mut shift = 12;
        while shift + 9 <= page_shift && shift + 9 <= self.mode.largest_page_shift() {
            shift += 9;
        }
        shift
    }
}

#[derive(Clone, Copy)]
struct Leaves {
    start: u64,
    step: u64,
    count: u64,
}

/// The instructions for one change, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a plan does nothing until its steps are executed, all of them, on one hart"]
pub struct Plan {
    stage: Stage,
    asid: Option<u16>,
    next: u64,
    step: u64,
    left: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// One fence for the whole space.
    Whole,
    /// One `SFENCE.VMA` for each leaf.
    Each,
    /// Svinval: before the first leaf.
    Begin,
    /// Svinval: one `SINVAL.VMA` for each leaf.
    Batch,
    Done,
}

impl Plan {
    fn leaf(&mut self) -> Fence {
        let fence = Fence { address: Some(self.next), asid: self.asid };
        self.left -= 1;
        // Wraps after the leaf at the top of the address space, which is then the last.
        self.next = self.next.wrapping_add(self.step);
        fence
    }
}

impl Iterator for Plan {
    type Item = Step;

    #[inline]
    fn next(&mut self) -> Option<Step> {
        match self.stage {
            Stage::Whole => {
                self.stage = Stage::Done;
                Some(Step::SfenceVma(Fence { address: None, asid: self.asid }))
            }
            Stage::Each if self.left > 0 => Some(Step::SfenceVma(self.leaf())),
            Stage::Begin => {
                self.stage = Stage::Batch;
                // FENCE F-RV-W-INVAL (pairs with each SINVAL.VMA of the plan): the stores to the
                // tables come before the invalidations, or a walk could bring the old entry back
                // after its SINVAL.VMA
                // (`norm:Svinval_sfence_w_inval_orders_before_sinval_vma`).
                Some(Step::SfenceWInval)
            }
            Stage::Batch if self.left > 0 => Some(Step::SinvalVma(self.leaf())),
            Stage::Batch => {
                self.stage = Stage::Done;
                // FENCE F-RV-INVAL-IR (pairs with walks): SINVAL.VMA alone orders nothing; only
                // after this do walks of this hart stop using what was invalidated.
                Some(Step::SfenceInvalIr)
            }
            Stage::Each | Stage::Done => None,
        }
    }
}

#[cfg(test)]
mod tests;
