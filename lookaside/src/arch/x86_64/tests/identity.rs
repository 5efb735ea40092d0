//! CPUID and the errata table.

extern crate std;

use std::vec::Vec;

use super::{
    super::{Features, Vendor, invlpgb::PageLimit},
    FULL, PLAIN,
    cpu::{Cpu, Did},
};
use crate::{
    VaRange,
    arch::{
        Invalidation, Mmu, Scope, TableChange,
        errata::{self, INVLPG_KEEPS_GLOBALS},
    },
};

const INTEL: [u32; 3] = [0x756e_6547, 0x4965_6e69, 0x6c65_746e]; // EBX, EDX, ECX
const AMD: [u32; 3] = [0x6874_7541, 0x6974_6e65, 0x444d_4163];

/// A CPU as a list of leaves. Asked for one that it does not have, it answers with all ones, as bad
/// as can be.
fn decode(leaves: &[(u32, [u32; 4])]) -> Features {
    Features::decode(|leaf, subleaf| {
        assert_eq!(subleaf, 0);
        leaves.iter().find(|known| known.0 == leaf).map_or([u32::MAX; 4], |known| known.1)
    })
}

fn leaf_0(last: u32, [b, d, c]: [u32; 3]) -> (u32, [u32; 4]) {
    (0, [last, b, c, d])
}

#[test]
fn an_intel_desktop() {
    let features = decode(&[
        leaf_0(0x20, INTEL),
        (1, [0x000b_0671, 0, 1 << 17, 1 << 13]),
        (7, [2, 1 << 10, 0, 0]),
        (0x8000_0000, [0x8000_0008, 0, 0, 0]),
        (0x8000_0001, [0, 0, 0, 0]),
        (0x8000_0008, [0x302e, 0, 0, 0]),
    ]);
    let expected = Features {
        vendor: Vendor::Intel,
        family: 6,
        model: 0xb7,
        stepping: 1,
        microcode: None,
        hypervisor: false,
        pcid: true,
        invpcid: true,
        pge: true,
        la57: false,
        invlpgb: None,
        tce: false,
        physical_bits: 46,
        linear_bits: 48,
    };
    assert_eq!(features, expected);
    assert_eq!(errata::of_x86(&features).errata, INVLPG_KEEPS_GLOBALS);
}

#[test]
fn an_amd_server_in_a_guest() {
    let features = decode(&[
        leaf_0(0x10, AMD),
        (1, [0x00a1_0f11, 0, 1 << 31 | 1 << 17, 1 << 13]),
        (7, [0, 1 << 10, 1 << 16, 0]),
        (0x8000_0000, [0x8000_0028, 0, 0, 0]),
        (0x8000_0001, [0, 0, 1 << 17, 0]),
        (0x8000_0008, [0x3934, 1 << 3, 0, 0x0001_0007]),
        (0x8000_001f, [0; 4]),
    ]);
    let expected = Features {
        vendor: Vendor::Amd,
        family: 0x19,
        model: 0x11,
        stepping: 1,
        microcode: None,
        hypervisor: true,
        pcid: true,
        invpcid: true,
        pge: true,
        la57: true,
        invlpgb: PageLimit::new(7),
        tce: true,
        physical_bits: 52,
        linear_bits: 57,
    };
    assert_eq!(features, expected);
}

#[test]
fn each_bit_is_read_from_its_own_place() {
    // Everything set but one bit: exactly one feature disappears.
    let all = |register: u32, leaf: u32, bit: u32| {
        let mut leaves = [
            leaf_0(7, AMD),
            (1, [u32::MAX; 4]),
            (7, [u32::MAX; 4]),
            (0x8000_0000, [0x8000_0008, 0, 0, 0]),
            (0x8000_0001, [u32::MAX; 4]),
            (0x8000_0008, [u32::MAX; 4]),
        ];
        for (number, registers) in &mut leaves {
            if *number == leaf {
                registers[register as usize] &= !(1 << bit);
            }
        }
        let f = decode(&leaves);
        [f.hypervisor, f.pcid, f.invpcid, f.pge, f.la57, f.invlpgb.is_some(), f.tce]
    };
    for (place, (register, leaf, bit)) in [
        (2, 1, 31),
        (2, 1, 17),
        (1, 7, 10),
        (3, 1, 13),
        (2, 7, 16),
        (1, 0x8000_0008, 3),
        (2, 0x8000_0001, 17),
    ]
    .into_iter()
    .enumerate()
    {
        let mut expected = [true; 7];
        expected[place] = false;
        assert_eq!(all(register, leaf, bit), expected);
    }
}

#[test]
fn leaves_that_do_not_exist_are_not_asked_for() {
    let features = decode(&[
        leaf_0(1, INTEL),
        (1, [0x0000_06f6, 0, 0, 1 << 13]),
        (0x8000_0000, [0x8000_0001, 0, 0, 0]),
        (0x8000_0001, [0; 4]),
    ]);
    assert!(!features.invpcid && !features.la57 && !features.tce && features.invlpgb.is_none());
    assert_eq!((features.physical_bits, features.linear_bits), (36, 48));
    assert_eq!((features.family, features.model, features.stepping), (6, 0xf, 6));
}

#[test]
fn a_root_may_have_the_bit_of_encrypted_memory() {
    // AMD APM vol. 3, leaf 8000_001F: an EPYC 7003 has 48 bits, and the C-bit is 51; a guest may have fewer.
    let bits = |encryption, last: u32| {
        decode(&[
            leaf_0(1, AMD),
            (1, [0x00a0_0f11, 0, 0, 0]),
            (0x8000_0000, [last, 0, 0, 0]),
            (0x8000_0001, [0; 4]),
            (0x8000_0008, [0x3030, 0, 0, 0]),
            (0x8000_001f, [encryption, 51, 0, 0]),
        ])
        .physical_bits
    };
    for sme_or_sev in [1, 2, 3] {
        assert_eq!(bits(sme_or_sev, 0x8000_0023), 52);
    }
    assert_eq!((bits(0, 0x8000_0023), bits(3, 0x8000_0008)), (48, 48));
}

#[test]
fn the_extended_family_and_model_count_only_beside_the_families_that_have_them() {
    // SDM vol. 2, CPUID: the family's extension is family 15's, the model's that of family 6, too.
    for (signature, family, model) in
        [(0x0ff5_0543, 5, 4), (0x0ff5_0643, 6, 0x54), (0x01f5_0f43, 0xf + 0x1f, 0x54)]
    {
        let features = decode(&[
            leaf_0(1, INTEL),
            (1, [signature, 0, 0, 0]),
            (0x8000_0000, [0x8000_0000, 0, 0, 0]),
        ]);
        assert_eq!((features.family, features.model), (family, model), "{signature:#x}");
    }
}

#[test]
fn vendors() {
    let of = |[b, d, c]: [u32; 3]| Vendor::from_registers(b, d, c);
    assert_eq!(of(INTEL), Vendor::Intel);
    assert_eq!(of(AMD), Vendor::Amd);
    assert_eq!(of([0x6f67_7948, 0x6e65_476e, 0x656e_6975]), Vendor::Hygon);
    assert_eq!(of([INTEL[0], INTEL[2], INTEL[1]]), Vendor::Other);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn this_host_can_be_read() {
    let features = Features::read();
    assert!(features.pge && (36..=52).contains(&features.physical_bits));
    assert!(matches!(features.linear_bits, 48 | 57));
}

#[test]
fn every_affected_cpu_gets_the_longer_sequence_and_its_neighbours_do_not() {
    let did = |features: &Features| -> Vec<Did> {
        let cpu = Cpu::new(*features);
        let x86 = super::super::X86::new(&cpu, features, PLAIN).unwrap().with_global_kernel();
        let errata = x86.admit(features).unwrap();
        let page = VaRange::new(0x7000, 0x1000, 12).unwrap();
        x86.flush(errata, Invalidation::kernel(&[page], TableChange::LastLevel), Scope::Local);
        cpu.did()
    };
    let invlpg = [Did::Invlpg(0x7000)];
    let mut rows = 0;
    for row in errata::TABLE[1] {
        let errata::Affected::X86(cpus) = row.affected else { panic!("{}", row.cpus) };
        let errata::Effect::Changes(errata) = row.effect else { continue };
        assert_eq!(errata, INVLPG_KEEPS_GLOBALS);
        rows += 1;
        let model = cpus.models.0;
        let stepping = cpus.steppings.0;
        let affected =
            Features { vendor: cpus.vendor, family: cpus.family, model, stepping, ..FULL };
        assert_eq!(did(&affected), [Did::Mfence, Did::Invpcid(2, [0, 0])], "{}", row.cpus);
        assert_eq!(did(&Features { vendor: Vendor::Amd, ..affected }), invlpg);
        assert_eq!(did(&Features { family: cpus.family + 1, ..affected }), invlpg);
        assert_eq!(did(&Features { stepping: 16, ..affected }), invlpg);
        // Microcode that mends it, if it can be believed.
        let mended = cpus.mended_by.unwrap();
        let with = |revision| Features { microcode: Some(revision), ..affected };
        assert_eq!(did(&with(mended)), invlpg, "{}", row.cpus);
        assert_ne!(did(&with(mended - 1)), invlpg, "{}", row.cpus);
        assert_ne!(did(&Features { hypervisor: true, ..with(mended) }), invlpg, "{}", row.cpus);
    }
    assert_eq!(rows, 6);
}
