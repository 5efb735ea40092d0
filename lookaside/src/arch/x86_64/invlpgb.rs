//! The operands of AMD's `INVLPGB`, and how a range becomes a sequence of them.
//!
//! ```text
//!      63                       12 11    6   5      4      3     2     1     0
//! RAX ┌───────────────────────────┬───────┬──────┬─────┬──────┬─────┬─────┬─────┐
//!     │ linear address            │   0   │nested│final│global│ASID │PCID │ VA  │
//!     │                           │       │      │only │ too  │valid│valid│valid│
//!     └───────────────────────────┴───────┴──────┴─────┴──────┴─────┴─────┴─────┘
//!      31        30            16 15                                            0
//! ECX ┌─────────┬────────────────┬───────────────────────────────────────────────┐
//!     │2M stride│       0        │ pages after the first                         │
//!     └─────────┴────────────────┴───────────────────────────────────────────────┘
//!      31    28 27             16 15                                            0
//! EDX ┌────────┬─────────────────┬───────────────────────────────────────────────┐
//!     │   0    │ PCID            │ ASID                                          │
//!     └────────┴─────────────────┴───────────────────────────────────────────────┘
//! ```
//!
//! Sources: APM vol. 3, INVLPGB and TLBSYNC; APM vol. 2, 5.5; CPUID Fn8000_0008 in APM vol. 3,
//! appendix E.
//!
//! * **ASID valid is always set, with ASID 0.** The host is ASID 0; in a guest, hardware puts the
//!   guest's own ASID in its place. Without the bit the instruction would hit every guest.
//! * **PCID valid may only be set with `CR4.PCIDE` set**; otherwise the instruction faults.
//! * **Final only is set where no table was unlinked** ([`TableChange::LastLevel`]), and nowhere else: it
//!   leaves cached upper levels of the walk.
//! * **Nested is never set**: it concerns hypervisors' translations for guests.
//! * The instruction is *weakly ordered*: it may overtake earlier stores, and it completes some
//!   time later on the other CPUs. `TLBSYNC` waits until they have completed those that **this**
//!   CPU issued, and no others.

use super::{Levels, Pcid, ranges};
use crate::{arch::TableChange, error::Error, range::VaRange};

const VA_VALID: u64 = 1 << 0;
const PCID_VALID: u64 = 1 << 1;
const ASID_VALID: u64 = 1 << 2;
const INCLUDE_GLOBAL: u64 = 1 << 3;
const FINAL_ONLY: u64 = 1 << 4;
const STRIDE_2M: u32 = 1 << 31;

/// The three register operands of one `INVLPGB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operands {
    /// Address and what is to be matched.
    pub rax: u64,
    /// Count and stride.
    pub ecx: u32,
    /// ASID and PCID.
    pub edx: u32,
}

impl Operands {
    /// Everything but global entries.
    pub const ALL_BUT_GLOBAL: Self = Self { rax: ASID_VALID, ecx: 0, edx: 0 };

    /// Everything, global entries too.
    pub const ALL: Self = Self { rax: ASID_VALID | INCLUDE_GLOBAL, ecx: 0, edx: 0 };

    /// Everything but global entries of one PCID.
    #[must_use]
    pub const fn context(pcid: Pcid) -> Self {
        Self { rax: ASID_VALID | PCID_VALID, ecx: 0, edx: (pcid.get() as u32) << 16 }
    }
}

/// Which entries of a range a plan removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entries {
    /// Those of one PCID that are not global. Needs `CR4.PCIDE` set.
    Pcid(Pcid),
    /// Those of every PCID that are not global.
    EveryPcid,
    /// Those of every PCID, global ones too.
    WithGlobal,
}

/// How many pages one `INVLPGB` may name: 1 to 65536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageLimit(u32);

impl PageLimit {
    /// The limit of that many pages; `None` unless it is 1 to 65536.
    #[must_use]
    pub const fn new(pages: u32) -> Option<Self> {
        if pages >= 1 && pages <= 1 << 16 { Some(Self(pages)) } else { None }
    }

    /// The limit that CPUID Fn8000_0008 EDX\[15:0\] states.
    ///
    /// The manual describes the field twice, and the descriptions differ by one: as the largest
    /// *count* (of pages after the first) where it describes the instruction, and as the largest
    /// *number of pages* where it describes CPUID. A count above the limit faults. The smaller
    /// reading is right under both: it never faults and never invalidates less, at the price of one
    /// more instruction for some ranges. Zero means one page, under either.
    #[must_use]
    pub const fn from_cpuid(field: u16) -> Self {
        Self(if field == 0 { 1 } else { field as u32 })
    }

    /// The limit in pages.
    #[must_use]
    pub const fn pages(self) -> u32 {
        self.0
    }
}

/// The `INVLPGB`s that cover a range: an iterator over their operands.
///
/// They cover every page of the range and nothing else, and none names more pages than the limit.
/// Their order does not matter; they run in parallel until the `TLBSYNC` that must follow the last.
#[derive(Clone, Debug)]
pub struct Plan {
    rax: u64,
    stride: u32,
    edx: u32,
    limit: u64,
    next: u64,
    left: u64,
    stride_shift: u32,
}

impl Plan {
    /// Plans the invalidation of `range`, all levels of the walks included.
    ///
    /// Ranges of pages of 2 MiB and more are covered in steps of 2 MiB. An instruction with that
    /// stride names one address in each 2 MiB, so **the page size of `range` must not be larger
    /// than that of the pages that were mapped**; smaller is always right.
    ///
    /// # Errors
    ///
    /// [`Error::NonCanonical`] if the range has an address that is not canonical; it names the
    /// first such address.
    pub const fn new(
        range: &VaRange,
        entries: Entries,
        limit: PageLimit,
        levels: Levels,
    ) -> Result<Self, Error> {
        Self::stepping(range, range.page_shift(), VA_VALID | ASID_VALID, entries, limit, levels)
    }

    /// Plans the invalidation of `range`.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub const fn of(
        range: &VaRange,
        entries: Entries,
        change: TableChange,
        limit: PageLimit,
        levels: Levels,
    ) -> Result<Self, Error> {
        let flags = match change {
            TableChange::LastLevel => VA_VALID | ASID_VALID | FINAL_ONLY,
            TableChange::FreedTables => VA_VALID | ASID_VALID,
        };
        Self::stepping(range, ranges::step(range), flags, entries, limit, levels)
    }

    const fn stepping(
        range: &VaRange,
        step: u32,
        flags: u64,
        entries: Entries,
        limit: PageLimit,
        levels: Levels,
    ) -> Result<Self, Error> {
        if let Err(error) = levels.check_range(range) {
            return Err(error);
        }
        let (stride, stride_shift) = if step >= 21 { (STRIDE_2M, 21) } else { (0, 12) };
        let (more_flags, edx) = match entries {
            Entries::Pcid(pcid) => (PCID_VALID, (pcid.get() as u32) << 16),
            Entries::EveryPcid => (0, 0),
            Entries::WithGlobal => (INCLUDE_GLOBAL, 0),
        };
        Ok(Self {
            rax: flags | more_flags,
            stride,
            edx,
            limit: limit.pages() as u64,
            next: range.start(),
            left: range.pages() << (range.page_shift() - stride_shift),
            stride_shift,
        })
    }

    /// How many instructions are left.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.left.div_ceil(self.limit)
    }
}

impl Iterator for Plan {
    type Item = Operands;

    fn next(&mut self) -> Option<Operands> {
        if self.left == 0 {
            return None;
        }
        let pages = self.left.min(self.limit);
        // At most 65536, so one less fits the 16 bits of the count.
        let more = (pages - 1) as u32;
        let operands =
            Operands { rax: self.next | self.rax, ecx: self.stride | more, edx: self.edx };
        self.left -= pages;
        // Wraps only past the last page of the address space, when nothing is left.
        self.next = self.next.wrapping_add(pages << self.stride_shift);
        Some(operands)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.operations()) {
            Ok(exact) => (exact, Some(exact)),
            Err(_) => (usize::MAX, None),
        }
    }
}
