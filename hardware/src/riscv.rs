//! RISC-V: the privileged specification, `satp`, `SFENCE.VMA` and Svinval.

use crate::{Invalidation, Partial};

/// What an instruction orders and completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Earlier stores of the hart to page tables come before later walks of the hart.
    pub stores_before_walks: bool,
    /// The `SINVAL.VMA`s that the hart has executed are complete.
    pub completes: bool,
    /// Earlier accesses come before later accesses.
    pub accesses: bool,
}

impl Order {
    const NOTHING: Self = Self { stores_before_walks: false, completes: false, accesses: false };

    /// `SFENCE.VMA`, which is local: it orders stores that this hart sees before implicit reads of this hart.
    /// What it removes goes at once.
    pub const SFENCE_VMA: Self = Self { stores_before_walks: true, ..Self::NOTHING };

    /// `SFENCE.W.INVAL`: stores before it come before the `SINVAL.VMA`s after it.
    pub const SFENCE_W_INVAL: Self = Self { stores_before_walks: true, ..Self::NOTHING };

    /// `SINVAL.VMA` by itself orders nothing.
    pub const SINVAL_VMA: Self = Self::NOTHING;

    /// `SFENCE.INVAL.IR`: `SINVAL.VMA`s before it come before implicit reads after it.
    pub const SFENCE_INVAL_IR: Self = Self { completes: true, ..Self::NOTHING };

    /// `FENCE rw, rw`. It says nothing of walks by itself; a store that has reached memory is seen by them.
    pub const FENCE: Self = Self { accesses: true, ..Self::NOTHING };

    /// A write of `satp`: takes effect at once, and implies no order.
    pub const WRITE_SATP: Self = Self::NOTHING;
}

/// What `SFENCE.VMA` or `SINVAL.VMA` removes of some pages (or all) and one ASID (or all).
///
/// Naming an ASID spares global entries; naming an address spares every partial walk.
#[must_use]
pub fn fenced(pages: Option<(u64, u64)>, asid: Option<u16>) -> Invalidation {
    Invalidation {
        tag: asid,
        globals: asid.is_none(),
        pages: pages.unwrap_or(Invalidation::EVERYWHERE),
        stride: 1,
        partial: if pages.is_some() { Partial::No } else { Partial::All },
        level: None,
    }
}

/// What `satp` holds after a write, on a hart that keeps the bits of an ASID that are set in `mask`: the others
/// read as zero.
#[must_use]
pub const fn satp(value: u64, mask: u16) -> u64 {
    value & !(0xffff << 44) | (value >> 44 & mask as u64) << 44
}

/// The physical address of the top table that `satp` names, and its ASID; nothing if translation is off.
#[must_use]
pub const fn root(satp: u64) -> Option<(u64, u16)> {
    if satp >> 60 == 0 { None } else { Some((satp << 20 >> 8, (satp >> 44) as u16)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cached;

    #[test]
    fn a_fence_names_the_entries_of_its_pages_and_asid() {
        let page = Cached { tag: 2, global: false, pages: (5, 5), level: 0, table: false };
        let global = Cached { global: true, ..page };
        let table = Cached { table: true, level: 1, pages: (0, 511), ..page };
        let names = |pages, asid: Option<u16>| {
            [page, global, table].map(|cached| fenced(pages, asid).names(&cached))
        };
        assert_eq!(names(None, None), [true, true, true]);
        assert_eq!(names(None, Some(2)), [true, false, true]);
        assert_eq!(names(None, Some(3)), [false, false, false]);
        assert_eq!(names(Some((5, 5)), None), [true, true, false]);
        assert_eq!(names(Some((5, 5)), Some(2)), [true, false, false]);
        assert_eq!(names(Some((6, 6)), None), [false, false, false]);
    }

    #[test]
    fn a_root_and_its_asid() {
        let value = satp(8 << 60 | 0x1f << 44 | 0x1234, 0xf);
        assert_eq!(root(value), Some((0x123_4000, 0xf)));
        assert_eq!(root(satp(0x1f << 44 | 0x1234, 0xf)), None);
    }
}
