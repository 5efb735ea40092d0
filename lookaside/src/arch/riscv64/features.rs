//! What a hart can do, from what a kernel has on RISC-V: the device tree (or the ISA string of
//! ACPI's RHCT), and the probed width of an ASID.
//!
//! There are no ID registers to read in supervisor mode. The parsers here take the bytes of the
//! properties as they are, and never panic. What they do not understand they leave out: a feature
//! that is not recognised is not used.

use super::Mode;
use crate::error::Error;

/// Who made a hart, and which it is: what [`errata`](crate::arch::errata) looks it up by.
///
/// The firmware says it to the hart that asks (SBI base extension, [`super::sbi::Call::identity`]). A number that
/// is not implemented is 0. The default is a hart of which nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// `mvendorid`: JEDEC's number of who made it.
    pub vendor: u64,
    /// `marchid`: the base microarchitecture. The top bit is set where the vendor gave the number.
    pub architecture: u64,
    /// `mimpid`: the version of the implementation, as the vendor counts.
    pub implementation: u64,
}

/// What one hart says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The widest mode it can run in, as [`mode_from_mmu_type`] reads it.
    pub mode: Mode,
    /// How many ASID bits it has, 0 to 16, as [`super::probe_asid_bits`] finds on that hart.
    pub asid_bits: u32,
    /// Its extensions.
    pub extensions: Extensions,
    /// Who made it, and which it is.
    pub identity: Identity,
}

/// A set of the extensions that have to do with translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extensions(u32);

impl Extensions {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// Fine-grained invalidation: `SINVAL.VMA` and its fences.
    pub const SVINVAL: Self = Self(1 << 0);
    /// Blocks of 64 KiB.
    pub const SVNAPOT: Self = Self(1 << 1);
    /// An entry that becomes valid is seen within bounded time, without a fence.
    pub const SVVPTC: Self = Self(1 << 2);
    /// Hardware can be told to update accessed and dirty bits.
    pub const SVADU: Self = Self(1 << 3);
    /// A clear accessed or dirty bit faults. A tree may list this and [`Self::SVADU`] together:
    /// then the firmware lets the kernel choose. With neither, nothing is known.
    pub const SVADE: Self = Self(1 << 4);

    /// Every extension, its name in the device tree, and what to say if it is missing.
    pub(super) const NAMES: [(Self, &'static str); 5] = [
        (Self::SVINVAL, "svinval"),
        (Self::SVNAPOT, "svnapot"),
        (Self::SVVPTC, "svvptc"),
        (Self::SVADU, "svadu"),
        (Self::SVADE, "svade"),
    ];

    /// Whether all of `extensions` are in the set.
    #[must_use]
    pub const fn contains(self, extensions: Self) -> bool {
        self.0 & extensions.0 == extensions.0
    }

    /// The extensions of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The extensions of both sets: what two harts have in common.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Reads the property `riscv,isa-extensions`: names in lower case, each ended by a zero byte.
    #[must_use]
    pub fn from_list(property: &[u8]) -> Self {
        property.split(|&byte| byte == 0).fold(Self::NONE, |set, name| set.union(Self::named(name)))
    }

    /// Reads the property `riscv,isa`, or any ISA string by the unprivileged manual's chapter "ISA
    /// Extension Naming Conventions": `rv64imafdc_zicsr_svinval_svnapot1p0`. One zero byte at the
    /// end is allowed.
    ///
    /// Case does not matter. Names of several letters begin with `s`, `x` or `z`, are separated
    /// from each other by `_`, and may follow the single letters directly. A version may follow any
    /// name; another major version than 1 is another extension, and is left out.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the string does not begin with `rv64`.
    pub fn from_isa_string(isa: &[u8]) -> Result<Self, Error> {
        let isa = isa.strip_suffix(b"\0").unwrap_or(isa);
        match isa.split_at_checked(4) {
            Some((base, names)) if base.eq_ignore_ascii_case(b"rv64") => {
                let tokens = names.split(|&byte| byte == b'_');
                Ok(tokens.fold(Self::NONE, |set, token| set.union(Self::in_token(token))))
            }
            _ => Err(Error::Unsupported("an ISA other than RV64")),
        }
    }

    /// The extension at the end of `[single letters with versions][name of several letters]`.
    fn in_token(token: &[u8]) -> Self {
        let starts_name = |byte: &u8| matches!(byte.to_ascii_lowercase(), b's' | b'x' | b'z');
        match token.iter().position(starts_name) {
            Some(first) => Self::named(without_version_one(&token[first..])),
            None => Self::NONE,
        }
    }

    fn named(name: &[u8]) -> Self {
        let known = |(_, known): &&(Self, &str)| name.eq_ignore_ascii_case(known.as_bytes());
        Self::NAMES.iter().find(known).map_or(Self::NONE, |&(extension, _)| extension)
    }
}

/// Takes `1`, or `1p` and a minor version, from the end of a name.
fn without_version_one(name: &[u8]) -> &[u8] {
    let (rest, digits) = split_digits(name);
    let major = match rest.split_last() {
        Some((b'p' | b'P', major)) if !digits.is_empty() => major,
        _ => name,
    };
    // A `p` that belongs to the name, and not to a version, has no digit before it.
    match split_digits(major) {
        (stem, b"1") => stem,
        _ => name,
    }
}

/// A name and the digits at its end.
fn split_digits(name: &[u8]) -> (&[u8], &[u8]) {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    name.split_at(name.len() - digits)
}

/// Reads the property `mmu-type` of a CPU node: `riscv,sv39`, `riscv,sv48` or `riscv,sv57`, with or
/// without the zero byte at its end. `None` for anything else, `riscv,none` included.
#[must_use]
pub fn mode_from_mmu_type(property: &[u8]) -> Option<Mode> {
    match property.strip_suffix(b"\0").unwrap_or(property) {
        b"riscv,sv39" => Some(Mode::Sv39),
        b"riscv,sv48" => Some(Mode::Sv48),
        b"riscv,sv57" => Some(Mode::Sv57),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::{string::String, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    const ALL: Extensions = Extensions(0b1_1111);

    #[test]
    fn isa_strings() {
        let svinval = Extensions::SVINVAL;
        let cases: [(&str, Extensions); 23] = [
            ("rv64", Extensions::NONE),
            ("rv64imafdc", Extensions::NONE),
            ("rv64imafdch_zicsr_zifencei_svinval\0", svinval),
            ("RV64IMAFDC_SvInVaL", svinval),
            ("rv64imafdcsvinval", svinval),
            ("rv64gcsvinval_svnapot", svinval.union(Extensions::SVNAPOT)),
            ("rv64i2p1_m2p0_a2p1_svinval1p0", svinval),
            ("rv64i_svinval1", svinval),
            ("rv64i_svinval1p12", svinval),
            ("rv64i_svinval2p0", Extensions::NONE),
            ("rv64i_svinval11", Extensions::NONE),
            ("rv64i_svinval11p0", Extensions::NONE),
            ("rv64i_svinvalp1", Extensions::NONE),
            ("rv64i_svinval1p", Extensions::NONE),
            ("rv64i_svinvalx", Extensions::NONE),
            ("rv64i_xsvinval", Extensions::NONE),
            ("rv64i_zsvinval", Extensions::NONE),
            ("rv64i__svinval__", svinval),
            ("rv64imafdcsu_svvptc", Extensions::SVVPTC),
            ("rv64i_svade_svadu_svinval_svnapot_svvptc", ALL),
            ("rv64i_sv", Extensions::NONE),
            ("rv64i_1p1_p1_1_s1", Extensions::NONE),
            ("rv64i_svadu1p0_zvl128b", Extensions::SVADU),
        ];
        for (isa, expected) in cases {
            assert_eq!(Extensions::from_isa_string(isa.as_bytes()), Ok(expected), "{isa}");
        }
        for isa in ["", "rv6", "rv32i_svinval", "rv128i", "svinval", "64i", "\0", "xrv64i"] {
            let refused = Extensions::from_isa_string(isa.as_bytes());
            assert!(matches!(refused, Err(Error::Unsupported(_))), "{isa}");
        }
    }

    #[test]
    fn extension_lists() {
        let list = b"i\0m\0zicsr\0svinval\0svade\0";
        let expected = Extensions::SVINVAL.union(Extensions::SVADE);
        assert_eq!(Extensions::from_list(list), expected);
        assert_eq!(Extensions::from_list(b"svnapot"), Extensions::SVNAPOT);
        assert_eq!(Extensions::from_list(b"svinval_svnapot\0svinval1p0\0"), Extensions::NONE);
        assert_eq!(Extensions::from_list(b""), Extensions::NONE);
        assert_eq!(Extensions::from_list(b"svade\0svadu\0svinval\0svnapot\0svvptc\0"), ALL);
    }

    #[test]
    fn mmu_types() {
        assert_eq!(mode_from_mmu_type(b"riscv,sv39\0"), Some(Mode::Sv39));
        assert_eq!(mode_from_mmu_type(b"riscv,sv48"), Some(Mode::Sv48));
        assert_eq!(mode_from_mmu_type(b"riscv,sv57\0"), Some(Mode::Sv57));
        for other in ["", "\0", "riscv,none", "riscv,sv32", "sv39", "riscv,sv39\0\0"] {
            assert_eq!(mode_from_mmu_type(other.as_bytes()), None);
        }
    }

    #[test]
    fn sets() {
        let two = Extensions::SVADU.union(Extensions::SVNAPOT);
        assert!(two.contains(Extensions::SVADU) && two.contains(Extensions::NONE));
        assert!(!two.contains(Extensions::SVADE) && !Extensions::SVADU.contains(two));
        assert_eq!(two.intersection(ALL), two);
        assert_eq!(two.intersection(Extensions::SVADE), Extensions::NONE);
        let named = Extensions::NAMES.iter().fold(Extensions::NONE, |set, name| set.union(name.0));
        assert_eq!(named, ALL);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

        #[test]
        fn no_bytes_make_the_parsers_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Extensions::from_list(&bytes);
            let _ = mode_from_mmu_type(&bytes);
            let _ = Extensions::from_isa_string(&bytes);
            let prefixed: Vec<u8> = b"rv64".iter().copied().chain(bytes).collect();
            prop_assert!(Extensions::from_isa_string(&prefixed).is_ok());
        }

        #[test]
        fn no_isa_like_string_does_either(isa in "rv64[isxzpv0-9_]{0,24}") {
            prop_assert!(Extensions::from_isa_string(isa.as_bytes()).is_ok());
        }

        #[test]
        fn exactly_the_named_extensions_are_found(
            bits in 0_u32..32, singles in "[imafdcvhq]{0,8}", upper in any::<bool>(),
            version in prop_oneof![Just(""), Just("1"), Just("1p0"), Just("1p13")],
            other in "(zi|x|ss)[a-oq-z]{1,6}",
        ) {
            let mut isa = String::from("rv64") + &singles;
            let mut list = Vec::new();
            for (extension, name) in Extensions::NAMES {
                isa = isa + "_" + &other;
                list.extend(other.bytes().chain([0]));
                if Extensions(bits).contains(extension) {
                    isa = isa + "_" + name + version;
                    list.extend(name.bytes().chain([0]));
                }
            }
            if upper {
                isa.make_ascii_uppercase();
            }
            prop_assert_eq!(Extensions::from_isa_string(isa.as_bytes()), Ok(Extensions(bits)));
            prop_assert_eq!(Extensions::from_list(&list), Extensions(bits));
        }
    }
}
