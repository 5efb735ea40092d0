//! Asking the firmware to fence on other harts: the SBI RFENCE extension.
//!
//! Sources: RISC-V Supervisor Binary Interface Specification, chapters "Binary Encoding" and
//! "RFENCE Extension". A call passes the extension in `a7`, the function in `a6` and arguments in
//! `a0` to `a4`; it returns an error code in `a0` and a value in `a1` and preserves everything else.
//!
//! Harts are named by *hart number*, which is the hardware's and not the kernel's number of a CPU:
//! the kernel passes hart numbers in.
//!
//! The specification says of success that the interrupt "was sent" and does not say that the fence
//! was executed. This library, like every kernel that uses the extension, takes the call to be
//! synchronous, as OpenSBI and RustSBI implement it: on return, the harts have fenced.

use core::iter::Fuse;

use super::fence::{Changed, Planner, Reach};
use crate::error::Error;

/// The number of the extension: "RFNC".
pub const EXTENSION: u64 = 0x5246_4e43;

/// The number of the base extension, which every firmware has.
const BASE: u64 = 0x10;

/// The functions of the extension that are of interest here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `FENCE.I`.
    RemoteFenceI = 0,
    /// `SFENCE.VMA` for all ASIDs, and global mappings.
    RemoteSfenceVma = 1,
    /// `SFENCE.VMA` for one ASID.
    RemoteSfenceVmaAsid = 2,
}

/// The registers of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// `a7`.
    pub extension: u64,
    /// `a6`.
    pub function: u64,
    /// `a0` to `a4`; those that the function does not take are zero.
    pub arguments: [u64; 5],
}

impl Call {
    /// `sbi_remote_fence_i`.
    #[must_use]
    pub const fn remote_fence_i(harts: HartMask) -> Self {
        Self::new(Function::RemoteFenceI, [harts.mask, harts.base, 0, 0, 0])
    }

    /// `sbi_remote_sfence_vma`, or `sbi_remote_sfence_vma_asid` if the request names an ASID.
    #[must_use]
    pub const fn remote_sfence_vma(harts: HartMask, request: Request) -> Self {
        let HartMask { mask, base } = harts;
        let Request { start, size, asid } = request;
        match asid {
            None => Self::new(Function::RemoteSfenceVma, [mask, base, start, size, 0]),
            Some(asid) => {
                Self::new(Function::RemoteSfenceVmaAsid, [mask, base, start, size, asid as u64])
            }
        }
    }

    /// `sbi_get_mvendorid`, `sbi_get_marchid` and `sbi_get_mimpid`, in the order of the fields of
    /// [`Identity`](super::Identity). They speak of the hart that calls; each returns its value in `a1`.
    #[must_use]
    pub const fn identity() -> [Self; 3] {
        [
            Self { extension: BASE, function: 4, arguments: [0; 5] },
            Self { extension: BASE, function: 5, arguments: [0; 5] },
            Self { extension: BASE, function: 6, arguments: [0; 5] },
        ]
    }

    const fn new(function: Function, arguments: [u64; 5]) -> Self {
        Self { extension: EXTENSION, function: function as u64, arguments }
    }
}

/// What the error code of a call means.
///
/// # Errors
///
/// [`Error::Unsupported`] for every code but success.
pub const fn check(code: i64) -> Result<(), Error> {
    Err(Error::Unsupported(match code {
        0 => return Ok(()),
        -1 => "the SBI remote fence: the call failed",
        -2 => "the SBI remote fence: the firmware lacks it",
        -3 => "the SBI remote fence: a hart in the mask is not available",
        -4 => "the SBI remote fence: denied",
        -5 => "the SBI remote fence: the addresses are not valid",
        _ => "the SBI remote fence: an unknown error",
    }))
}

/// What the harts are asked to fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The first address.
    pub start: u64,
    /// How many bytes; `u64::MAX` for every address.
    pub size: u64,
    /// The ASID, or all of them and global mappings too.
    pub asid: Option<u16>,
}

impl Request {
    /// Everything, global mappings too.
    pub const EVERYTHING: Self = Self::all(Reach::Global);

    /// Every address.
    ///
    /// The specification has two spellings of it; this is the one that no range can equal.
    #[must_use]
    pub const fn all(reach: Reach) -> Self {
        Self { start: 0, size: u64::MAX, asid: reach.asid() }
    }

    /// What other harts must fence after this change.
    ///
    /// A change of tables asks for every address: for a range the firmware executes the forms of
    /// `SFENCE.VMA` with an address, and those leave walk-cache entries alone.
    ///
    /// # Errors
    ///
    /// As for [`Planner::plan`].
    pub const fn new(planner: &Planner, changed: Changed, reach: Reach) -> Result<Self, Error> {
        match planner.span(changed) {
            Err(error) => Err(error),
            Ok(None) => Ok(Self { start: 0, size: u64::MAX, asid: planner.asid(reach) }),
            // No overflow: a canonical range is no longer than 2^56 bytes.
            Ok(Some((first, last))) => {
                Ok(Self { start: first, size: last - first + 1, asid: planner.asid(reach) })
            }
        }
    }
}

/// Up to 64 harts: bit `n` of the mask stands for hart `base + n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HartMask {
    /// The harts, counted from `base`.
    pub mask: u64,
    /// The hart that bit 0 stands for; `u64::MAX` for all harts, whatever the mask.
    pub base: u64,
}

impl HartMask {
    /// Every hart that the supervisor may use, the calling one included.
    pub const ALL: Self = Self { mask: 0, base: u64::MAX };

    const fn one(hart: u64) -> Self {
        Self { mask: 1, base: hart }
    }

    /// Adds a hart if it fits into the same 64 as those that are in already.
    const fn add(&mut self, hart: u64) -> bool {
        if hart >= self.base {
            let bit = hart - self.base;
            if bit < 64 {
                self.mask |= 1 << bit;
            }
            bit < 64
        } else {
            let shift = self.base - hart;
            let fits = shift <= self.mask.leading_zeros() as u64;
            if fits {
                *self = Self { mask: self.mask << shift | 1, base: hart };
            }
            fits
        }
    }
}

/// The masks for these harts, in as few calls as their order allows: ascending order is best, any
/// order and any repetition is right.
pub fn masks(harts: impl IntoIterator<Item = u64>) -> impl Iterator<Item = HartMask> {
    Masks { harts: harts.into_iter().fuse(), pending: None }
}

struct Masks<H> {
    harts: Fuse<H>,
    pending: Option<u64>,
}

impl<H: Iterator<Item = u64>> Iterator for Masks<H> {
    type Item = HartMask;

    fn next(&mut self) -> Option<HartMask> {
        let mut mask = HartMask::one(self.pending.take().or_else(|| self.harts.next())?);
        // The first hart that does not fit begins the next mask.
        self.pending = self.harts.by_ref().find(|&hart| !mask.add(hart));
        Some(mask)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::{collections::BTreeSet, vec, vec::Vec};

    use proptest::prelude::*;

    use super::{super::*, *};
    use crate::{
        VaRange,
        arch::{Errata, Tag, errata::FENCE_OPERANDS},
    };

    const HARTS: HartMask = HartMask { mask: 0b101, base: 64 };

    #[test]
    fn calls_have_their_numbers_and_arguments_in_order() {
        assert_eq!(EXTENSION.to_be_bytes()[4..], *b"RFNC");
        let call = Call::remote_fence_i(HARTS);
        assert_eq!((call.extension, call.function), (0x5246_4e43, 0));
        assert_eq!(call.arguments, [5, 64, 0, 0, 0]);
        let request = Request { start: 0x1000, size: 0x2000, asid: None };
        let call = Call::remote_sfence_vma(HARTS, request);
        assert_eq!((call.function, call.arguments), (1, [5, 64, 0x1000, 0x2000, 0]));
        let call = Call::remote_sfence_vma(HARTS, Request { asid: Some(0), ..request });
        assert_eq!((call.function, call.arguments), (2, [5, 64, 0x1000, 0x2000, 0]));
        let call = Call::remote_sfence_vma(HartMask::ALL, Request::all(Reach::Tag(Tag(0xffff))));
        assert_eq!((call.function, call.arguments), (2, [0, u64::MAX, 0, u64::MAX, 0xffff]));
    }

    #[test]
    fn only_zero_is_success() {
        for code in (-12..=12).chain([i64::MIN, i64::MAX]) {
            assert_eq!(check(code).is_ok(), code == 0);
            assert!(code == 0 || matches!(check(code), Err(Error::Unsupported(_))));
        }
    }

    #[test]
    fn a_change_of_tables_is_never_asked_for_as_a_range() {
        let planner = Planner::new(Mode::Sv39, Extensions::NONE, Errata::NONE, 8);
        let reach = Reach::Tag(Tag(3));
        let ask = |changed, reach| Request::new(&planner, changed, reach).unwrap();
        assert_eq!(
            ask(Changed::Tables, reach),
            Request { start: 0, size: u64::MAX, asid: Some(3) }
        );
        assert_eq!(ask(Changed::Tables, Reach::Global), Request::EVERYTHING);
        let pages = Changed::Leaves(VaRange::new(0, 0x8000, 12).unwrap());
        assert_eq!(ask(pages, reach), Request { start: 0, size: 0x8000, asid: Some(3) });
        let many = Changed::Leaves(VaRange::new(0, 0x9000, 12).unwrap());
        assert_eq!(ask(many, Reach::Global), Request::EVERYTHING);
        let top = Changed::Leaves(VaRange::new(u64::MAX - 0xfff, 0x1000, 12).unwrap());
        assert_eq!(ask(top, reach).size, 0x1000);
        let planner = Planner::new(Mode::Sv39, Extensions::NONE, FENCE_OPERANDS, 8);
        assert_eq!(Request::new(&planner, pages, reach), Ok(Request::EVERYTHING));
    }

    #[test]
    fn masks_of_written_out_sets() {
        let all = |harts: &[u64]| masks(harts.iter().copied()).collect::<Vec<_>>();
        assert_eq!(all(&[]), []);
        assert_eq!(all(&[0]), [HartMask { mask: 1, base: 0 }]);
        assert_eq!(all(&[1, 3, 64]), [HartMask { mask: 1 << 63 | 0b101, base: 1 }]);
        let split = [HartMask { mask: 0b101, base: 1 }, HartMask { mask: 1, base: 65 }];
        assert_eq!(all(&[1, 3, 65]), split);
        assert_eq!(all(&[63, 0]), [HartMask { mask: 1 << 63 | 1, base: 0 }]);
        assert_eq!(all(&[64, 0]).len(), 2);
        assert_eq!(all(&[u64::MAX - 1]), [HartMask { mask: 1, base: u64::MAX - 1 }]);
        // Hart number -1 is not one the encoding can name alone; what comes out is "all".
        assert_eq!(all(&[u64::MAX])[0].base, u64::MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        fn masks_name_every_hart_and_no_other(
            harts in prop::collection::vec(
                prop_oneof![0_u64..200, 0_u64..8, u64::MAX - 200..u64::MAX], 0..40),
            sorted in any::<bool>(),
        ) {
            let expected: BTreeSet<u64> = harts.iter().copied().collect();
            let harts = if sorted { expected.iter().copied().collect() } else { harts };
            let mut named = BTreeSet::new();
            let mut calls = 0;
            for HartMask { mask, base } in masks(harts) {
                prop_assert!(base != u64::MAX && mask != 0);
                named.extend((0..64).filter(|bit| mask >> bit & 1 == 1).map(|bit| base + bit));
                calls += 1;
            }
            prop_assert_eq!(&named, &expected);
            if sorted {
                // Greedy from below is the fewest there can be.
                let mut fewest = vec![];
                for hart in expected {
                    if fewest.last().is_none_or(|first| hart - first >= 64) {
                        fewest.push(hart);
                    }
                }
                prop_assert_eq!(calls, fewest.len());
            }
        }
    }
}
