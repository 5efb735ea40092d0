//! Arm64: the instructions that matter, from their encodings (Arm ARM, DDI 0487, C5.1 and C6.2).

use lookaside_hardware::arm::{Barrier, Domain, TlbiKind};

use crate::special::Special;

/// What an instruction is.
pub(crate) fn decode(word: u32) -> Option<Special> {
    let register = (word & 31) as u8;
    // DSB: 1101 0101 0000 0011 0011 CRm 1 00 11111; the forms with nXS have op2 001 and CRm xx10.
    if word & 0xffff_f0ff == 0xd503_309f {
        return dsb(word >> 8 & 15);
    }
    if word & 0xffff_f3ff == 0xd503_323f {
        return Some(Special::Dsb { barrier: Barrier::Full, domain: Domain::Shared });
    }
    let fields = (word >> 16 & 7, word >> 12 & 15, word >> 8 & 15, word >> 5 & 7);
    match word & 0xfff8_0000 {
        // SYS.
        0xd508_0000 => match fields {
            (0, 8 | 9, crm, op2) => tlbi(crm, op2, register),
            (3, 7, 4, 1) => Some(Special::ZeroesBlock { register }), // DC ZVA
            (3, 7, 4, 4) => Some(Special::ZeroesBlock { register }), // DC GZVA
            (4, 8, 3, 4) => all_of_el1(register, true),              // ALLE1IS
            (4, 8, 7, 4) => all_of_el1(register, false),             // ALLE1
            _ => None,
        },
        // MSR of a register with op0 3.
        0xd518_0000 => match fields {
            (0, 2, 0, 0..=2) => Some(Special::WritesRoot), // TTBR0_EL1, TTBR1_EL1, TCR_EL1
            (0, 4, 1, 0) => Some(Special::WritesSpEl0 { register }),
            (0, 1, 0, 0) => Some(Special::WritesRoot), // SCTLR_EL1: translation on or off
            _ => None,
        },
        _ => None,
    }
}

fn all_of_el1(register: u8, shared: bool) -> Option<Special> {
    Some(Special::Tlbi { kind: TlbiKind::Alle1, register, shared })
}

/// The forms of EL1: CRm says the domain and whether a range is named, op2 the rest. The outer-shareable domain is
/// taken to be the inner one: there is one machine.
fn tlbi(crm: u32, op2: u32, register: u8) -> Option<Special> {
    use TlbiKind::{Aside, Rva, Rvaa, Rvaal, Rval, Va, Vaa, Vaal, Val, Vmall};
    let (range, shared) = match crm {
        1 | 3 => (false, true),
        2 | 5 => (true, true),
        6 => (true, false),
        7 => (false, false),
        _ => return None,
    };
    let kind = match (range, op2) {
        (false, 0) => Vmall,
        (false, 1) => Va,
        (false, 2) => Aside,
        (false, 3) => Vaa,
        (false, 5) => Val,
        (false, 7) => Vaal,
        (true, 1) => Rva,
        (true, 3) => Rvaa,
        (true, 5) => Rval,
        (true, 7) => Rvaal,
        _ => return None,
    };
    Some(Special::Tlbi { kind, register, shared })
}

/// The option of a barrier: domain in bits 3:2, what it waits for in bits 1:0.
fn dsb(option: u32) -> Option<Special> {
    let domain = if option >> 2 == 1 { Domain::Own } else { Domain::Shared };
    let barrier = match option & 3 {
        1 => Barrier::Loads,
        2 => Barrier::Stores,
        3 => Barrier::Full,
        _ => return None, // SSBB and PSSBB
    };
    Some(Special::Dsb { barrier, domain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_as_assemblers_write_them() {
        let of = |kind, register, shared| Some(Special::Tlbi { kind, register, shared });
        assert_eq!(decode(0xd508_871f), of(TlbiKind::Vmall, 31, false)); // tlbi vmalle1
        assert_eq!(decode(0xd508_831f), of(TlbiKind::Vmall, 31, true)); // tlbi vmalle1is
        assert_eq!(decode(0xd508_8320), of(TlbiKind::Va, 0, true)); // tlbi vae1is, x0
        assert_eq!(decode(0xd508_8341), of(TlbiKind::Aside, 1, true)); // tlbi aside1is, x1
        assert_eq!(decode(0xd508_83a2), of(TlbiKind::Val, 2, true)); // tlbi vale1is, x2
        assert_eq!(decode(0xd508_8363), of(TlbiKind::Vaa, 3, true)); // tlbi vaae1is, x3
        assert_eq!(decode(0xd508_82a4), of(TlbiKind::Rval, 4, true)); // tlbi rvale1is, x4
        let dsb = |barrier, domain| Some(Special::Dsb { barrier, domain });
        assert_eq!(decode(0xd503_3b9f), dsb(Barrier::Full, Domain::Shared)); // dsb ish
        assert_eq!(decode(0xd503_3a9f), dsb(Barrier::Stores, Domain::Shared)); // dsb ishst
        assert_eq!(decode(0xd503_379f), dsb(Barrier::Full, Domain::Own)); // dsb nsh
        assert_eq!(decode(0xd503_3f9f), dsb(Barrier::Full, Domain::Shared)); // dsb sy
        assert_eq!(decode(0xd518_2000), Some(Special::WritesRoot)); // msr ttbr0_el1, x0
        assert_eq!(decode(0xd518_2021), Some(Special::WritesRoot)); // msr ttbr1_el1, x1
        assert_eq!(decode(0xd518_4105), Some(Special::WritesSpEl0 { register: 5 }));
        assert_eq!(decode(0xd50b_7427), Some(Special::ZeroesBlock { register: 7 })); // dc zva, x7
        assert_eq!(decode(0xd503_3fdf), None); // isb
        assert_eq!(decode(0xd503_3bbf), None); // dmb ish
    }
}
