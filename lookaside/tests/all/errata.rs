//! The table of errata: who is found by it, against the numbers that CPUs report, and what becomes of
//! their features.

use std::collections::BTreeSet;

use lookaside::{
    Error,
    arch::{
        Errata, Mmu as _, Sharing,
        aarch64::{
            Aarch64, AsidIn, Bbm, Config, Dsb, Features, HardwareUpdates, IdRegisters,
            Instructions, Pairing, Tlbi, registers,
        },
        errata::{self, Affected, Effect, Feature, Found},
        riscv64::{Identity, sbi},
        x86_64,
    },
    contig::SizeChange,
};

// ---- The table itself

#[test]
fn every_row_has_a_source_and_there_are_no_two_for_one_thing() {
    let mut seen = BTreeSet::new();
    for row in errata::rows() {
        assert!(!row.source.is_empty() && !row.erratum.is_empty(), "{}", row.cpus);
        let key = format!("{} {} {:?}", row.erratum, row.cpus, row.affected);
        assert!(seen.insert(key), "{} {}", row.erratum, row.cpus);
    }
    for (architecture, rows) in errata::TABLE.iter().enumerate() {
        for row in *rows {
            let own = match row.affected {
                Affected::Arm(_) => 0,
                Affected::X86(_) => 1,
                Affected::Riscv(_) => 2,
            };
            assert_eq!(own, architecture, "{}: in another architecture's rows", row.cpus);
        }
    }
}

#[test]
fn every_deviation_has_a_bit_a_name_and_a_row() {
    let mut bits = 0;
    for (errata, name) in errata::SEQUENCES.into_iter().chain(errata::ADVICE) {
        assert_eq!(errata.0.count_ones(), 1, "{name}");
        assert_eq!(bits & errata.0, 0, "{name}: its bit is another's");
        bits |= errata.0;
        let rows = || errata::rows().filter(|row| row.effect == Effect::Changes(errata));
        assert!(rows().count() > 0, "{name}: no row");
    }
    for row in errata::rows() {
        if let Effect::Changes(errata) = row.effect {
            assert_eq!(errata.0 & !bits, 0, "{}: a bit without a name", row.erratum);
        }
    }
    for (feature, name) in errata::FEATURES {
        let touches =
            |effect| effect == Effect::Withdraws(feature) || effect == Effect::Vouches(feature);
        assert!(errata::rows().any(|row| touches(row.effect)), "{name}: no row");
    }
}

/// The features that are withdrawn from a CPU, and those that are vouched for.
fn features_of(found: Found) -> (Vec<Feature>, Vec<Feature>) {
    let all = || errata::FEATURES.into_iter().map(|(feature, _)| feature);
    (
        all().filter(|&feature| found.withdraws(feature)).collect(),
        all().filter(|&feature| found.vouches(feature)).collect(),
    )
}

// ---- Arm

fn midr(implementer: u8, part: u16, revision: u8) -> u64 {
    u64::from(implementer) << 24
        | u64::from(revision >> 4) << 20
        | 0xf << 16
        | u64::from(part) << 4
        | u64::from(revision & 0xf)
}

#[test]
fn every_row_of_arm_matches_inside_its_range_and_not_outside() {
    for row in errata::TABLE[0] {
        let Affected::Arm(cpus) = row.affected else { panic!("{}", row.cpus) };
        let (first, last) = cpus.revisions;
        for part in [cpus.parts.0, cpus.parts.1] {
            for revision in [first, last] {
                assert!(cpus.contain(midr(cpus.implementer, part, revision)), "{}", row.cpus);
            }
        }
        for outside in [first.checked_sub(1), last.checked_add(1)].into_iter().flatten() {
            assert!(!cpus.contain(midr(cpus.implementer, cpus.parts.0, outside)), "{}", row.cpus);
        }
        for part in [cpus.parts.0.checked_sub(1), cpus.parts.1.checked_add(1)] {
            let Some(part) = part.filter(|part| *part < 1 << 12) else { continue };
            assert!(!cpus.contain(midr(cpus.implementer, part, first)), "{}", row.cpus);
        }
        let other = midr(cpus.implementer ^ 1, cpus.parts.0, first);
        assert!(!cpus.contain(other), "{}", row.cpus);
    }
}

/// Main ID registers as they are printed by machines that people have, and what must be found.
#[test]
fn arm_cpus_that_exist() {
    use Feature::{BreaklessSizeChange, HardwareDirty, HardwareFlags, SharedEntries};
    use errata::{
        BREAK_BEFORE_NO_EXECUTE, ICACHE_AFTER_LOAD, REPEAT_BROADCAST, SPECULATIVE_AT,
        SYNCHRONISED_HCR, TAG_AND_ROOT_APART,
    };
    const NONE: &[Feature] = &[];
    const DIRTY: &[Feature] = &[HardwareDirty];
    const FLAGS: &[Feature] = &[HardwareFlags];
    const SHARED: &[Feature] = &[SharedEntries];
    const SIZES: &[Feature] = &[BreaklessSizeChange];
    let nothing = Errata::NONE;
    for (midr, errata, withdrawn, vouched) in [
        (0x431f_0a11, ICACHE_AFTER_LOAD, NONE, NONE), // ThunderX T88 pass 2.1
        (0x431f_0a12, nothing, NONE, NONE),           // pass 2.2
        (0x430f_0a20, ICACHE_AFTER_LOAD, NONE, NONE), // ThunderX T81 pass 1.0
        (0x430f_0a21, nothing, NONE, NONE),
        (0x431f_0af1, nothing, NONE, NONE), // ThunderX2
        (0x510f_8000, TAG_AND_ROOT_APART.union(REPEAT_BROADCAST), NONE, NONE), // Falkor
        (0x511f_8000, nothing, NONE, NONE),
        (0x511f_2112, TAG_AND_ROOT_APART.union(REPEAT_BROADCAST), NONE, NONE), // Kryo of the 820
        (0x410f_d034, SPECULATIVE_AT, NONE, NONE),                             // Cortex-A53 r0p4
        (0x412f_d050, REPEAT_BROADCAST.union(SPECULATIVE_AT), DIRTY, NONE),    // Cortex-A55 r2p0
        (0x412f_d051, REPEAT_BROADCAST, DIRTY, NONE),
        (0x411f_d073, SPECULATIVE_AT, NONE, NONE), // Cortex-A57 r1p3
        (0x410f_d083, SPECULATIVE_AT, NONE, NONE), // Cortex-A72 r0p3
        (0x412f_d0b0, REPEAT_BROADCAST.union(SPECULATIVE_AT), NONE, NONE), // Cortex-A76 r2p0
        (0x414f_d0b1, REPEAT_BROADCAST, NONE, NONE), // r4p1
        (0x410f_d462, REPEAT_BROADCAST, DIRTY, NONE), // Cortex-A510 r0p2
        (0x410f_d463, REPEAT_BROADCAST, NONE, NONE), // r0p3
        (0x411f_d461, REPEAT_BROADCAST, NONE, NONE), // r1p1
        (0x411f_d462, nothing, NONE, NONE),        // r1p2
        (0x411f_d4d0, BREAK_BEFORE_NO_EXECUTE, NONE, SIZES), // Cortex-A715 r1p0
        (0x410f_d821, REPEAT_BROADCAST, NONE, NONE), // Cortex-X4 r0p1
        (0x410f_d823, REPEAT_BROADCAST, NONE, SIZES), // r0p3
        (0x410f_d8c0, REPEAT_BROADCAST, SIZES, NONE), // C1-Ultra r0p0
        (0x411f_d8c0, REPEAT_BROADCAST, SIZES, NONE), // r1p0
        (0x411f_d8c1, REPEAT_BROADCAST, NONE, SIZES), // r1p1
        (0x413f_d0c1, REPEAT_BROADCAST, NONE, NONE), // Neoverse-N1 r3p1
        (0x410f_d4f0, REPEAT_BROADCAST, NONE, NONE), // Neoverse-V2 r0p0
        (0x51df_804e, REPEAT_BROADCAST, NONE, NONE), // Kryo 4xx Gold
        (0x51df_805e, SPECULATIVE_AT, DIRTY, NONE), // Kryo 4xx Silver
        (0x4e0f_0040, nothing, SHARED, NONE),      // Carmel
        (0x4e0f_0100, REPEAT_BROADCAST, NONE, SIZES), // Olympus
        (0x480f_d020, nothing, SHARED, NONE),      // HIP09
        (0xc00f_ac30, nothing, FLAGS, NONE),       // AmpereOne
        (0xc00f_ac40, SYNCHRONISED_HCR, FLAGS, NONE), // AmpereOne AC04
        (0x610f_0220, nothing, NONE, NONE),        // Apple M1
        (0x000f_0510, nothing, NONE, SIZES),       // QEMU's max
    ] {
        let found = errata::of_arm(midr);
        assert_eq!(found.errata, errata, "{midr:#x}");
        assert_eq!(features_of(found), (withdrawn.to_vec(), vouched.to_vec()), "{midr:#x}");
    }
}

/// A CPU that reports everything.
fn boasting(midr: u64) -> IdRegisters {
    IdRegisters { midr, mmfr0: 5 | 2 << 4, mmfr1: 2, mmfr2: 1 | 2 << 52, ..IdRegisters::default() }
}

#[test]
fn features_withdrawn_by_errata_are_not_decoded() {
    let decoded = |midr| {
        let features = Features::decode(boasting(midr));
        (features.hardware_updates, features.cnp, features.bbm)
    };
    let (both, flag) = (HardwareUpdates::AccessedAndDirty, HardwareUpdates::Accessed);
    assert_eq!(decoded(0x410f_d083), (both, true, Bbm::Level2), "Cortex-A72");
    assert_eq!(decoded(0x412f_d050), (flag, true, Bbm::Level2), "Cortex-A55");
    assert_eq!(decoded(0x51df_805e), (flag, true, Bbm::Level2), "Kryo 4xx Silver");
    assert_eq!(decoded(0x410f_d462), (flag, true, Bbm::Level2), "Cortex-A510 r0p2");
    assert_eq!(decoded(0xc00f_ac30), (HardwareUpdates::None, true, Bbm::Level2), "AmpereOne");
    assert_eq!(decoded(0x4e0f_0040), (both, false, Bbm::Level2), "Carmel");
    assert_eq!(decoded(0x410f_d823), (both, true, Bbm::Level3), "Cortex-X4 r0p3");
    assert_eq!(decoded(0x411f_d8c0), (both, true, Bbm::Level0), "C1-Ultra r1p0");
    // Vouched for is what the level means, not that there is one.
    let silent = IdRegisters { mmfr2: 0, ..boasting(0x410f_d823) };
    assert_eq!(Features::decode(silent).bbm, Bbm::Level0);
    // What the register itself says.
    let reported = IdRegisters { mmfr2: 3 << 52, ..boasting(0x410f_d083) };
    assert_eq!(Features::decode(reported).bbm, Bbm::Level3);
    let less = IdRegisters { mmfr1: 1, ..boasting(0x412f_d050) };
    assert_eq!(Features::decode(less).hardware_updates, flag);
}

#[test]
fn sizes_change_without_a_break_where_that_never_aborts_and_nowhere_else() {
    let change = |midr| Features::decode(boasting(midr)).size_change();
    assert_eq!(change(0x410f_d083), SizeChange::Flushed, "level 2 may abort");
    assert_eq!(change(0x410f_d823), SizeChange::Free);
    assert_eq!(change(0x411f_d8c0), SizeChange::Flushed);
    // A kernel that puts a level back is not believed.
    let told = Features { bbm: Bbm::Level3, ..Features::decode(boasting(0x411f_d8c0)) };
    assert_eq!(told.size_change(), SizeChange::Flushed);
}

/// A CPU that executes nothing.
#[derive(Debug)]
struct Idle;

impl Instructions for Idle {
    fn tlbi(&self, _: Tlbi) {}
    fn dsb(&self, _: Dsb) {}
    fn isb(&self) {}
    fn write_ttbr0(&self, _: u64) {}
    fn read_ttbr1(&self) -> u64 {
        0
    }
    fn write_ttbr1(&self, _: u64) {}
    fn ic_iallu(&self) {}
}

fn arm(features: Features, more: u64, sharing: Sharing) -> Result<Aarch64<Idle>, Error> {
    let config = Config {
        features,
        tcr: 16 | 5 << 32 | 1 << 36 | more,
        reserved_root: 0x1000,
        sharing,
        pairing: Pairing::Single,
        asid_in: AsidIn::Ttbr0,
    };
    Aarch64::new(Idle, config)
}

#[test]
fn a_machine_does_not_run_with_what_is_withdrawn_from_one_of_its_cpus() {
    let (ha, hd) = (registers::TCR_HA, registers::TCR_HD);
    let good = Features::decode(boasting(0x410f_d083));
    let refused = |result: Result<_, Error>| matches!(result, Err(Error::MissingFeature(_)));
    for (midr, tcr, sharing) in [
        (0x412f_d050, ha | hd, Sharing::Private),
        (0x51df_805e, ha | hd, Sharing::Private),
        (0x410f_d462, ha | hd, Sharing::Private),
        (0xc00f_ac30, ha, Sharing::Private),
        (0x4e0f_0040, 0, Sharing::Shared),
        (0x480f_d020, 0, Sharing::Shared),
    ] {
        let bad = Features::decode(boasting(midr));
        // Whoever fills in by hand what the registers say is told the same.
        let told = Features { midr, ..good };
        for bad in [bad, told] {
            assert!(refused(arm(bad, tcr, sharing).map(|_| ())), "{midr:#x}");
            let machine = arm(good, tcr, sharing).unwrap();
            assert!(refused(machine.admit(&bad).map(|_| ())), "{midr:#x}");
            let without = arm(bad, 0, Sharing::Private).unwrap();
            assert!(without.admit(&good).is_ok() && without.admit(&bad).is_ok(), "{midr:#x}");
        }
    }
    // The access flag alone works on a Cortex-A55.
    assert!(arm(Features::decode(boasting(0x412f_d050)), ha, Sharing::Private).is_ok());
}

// ---- x86

/// CPUID of a CPU with this signature that says it has `INVLPGB`.
fn cpuid(vendor: &[u8; 12], signature: u32, hypervisor: bool) -> x86_64::Features {
    let word = |at: usize| u32::from_le_bytes(vendor[at..at + 4].try_into().unwrap());
    let (b, d, c) = (word(0), word(4), word(8));
    x86_64::Features::decode(|leaf, _| match leaf {
        0 => [7, b, c, d],
        1 => [signature, 0, 1 << 17 | u32::from(hypervisor) << 31, 1 << 13],
        7 => [0, 1 << 10, 0, 0],
        0x8000_0000 => [0x8000_0008, 0, 0, 0],
        0x8000_0008 => [48 | 48 << 8, 1 << 3, 0, 7],
        _ => [0; 4],
    })
}

#[test]
fn x86_cpus_that_exist() {
    const INTEL: &[u8; 12] = b"GenuineIntel";
    const AMD: &[u8; 12] = b"AuthenticAMD";
    for (vendor, signature, keeps_globals, broadcasts) in [
        (INTEL, 0x0009_0672, true, true),  // Alder Lake-S
        (INTEL, 0x0009_06a3, true, true),  // Alder Lake-P
        (INTEL, 0x000b_06e0, true, true),  // Alder Lake-N
        (INTEL, 0x000b_0671, true, true),  // Raptor Lake-S
        (INTEL, 0x000b_06a2, true, true),  // Raptor Lake-P
        (INTEL, 0x000b_06f2, true, true),  // Raptor Lake-S, from Alder Lake's die
        (INTEL, 0x0008_06f8, false, true), // Sapphire Rapids
        (INTEL, 0x000a_06a4, false, true), // Meteor Lake
        (AMD, 0x0080_0f12, false, true),   // Zen
        (AMD, 0x0080_0f82, false, true),   // Zen+
        (AMD, 0x0083_0f10, false, false),  // Zen 2, Rome
        (AMD, 0x0084_0f70, false, false),  // Zen 2, Cyan Skillfish
        (AMD, 0x0086_0f01, false, false),  // Zen 2, Renoir
        (AMD, 0x0087_0f10, false, false),  // Zen 2, Matisse
        (AMD, 0x0089_0f02, false, false),  // Zen 2, Van Gogh
        (AMD, 0x008a_0f00, false, false),  // Zen 2, Mendocino
        (AMD, 0x00a0_0f11, false, true),   // Zen 3, Milan
        (AMD, 0x00a1_0f11, false, true),   // Zen 4, Genoa
    ] {
        let features = cpuid(vendor, signature, false);
        let errata = errata::of_x86(&features).errata;
        assert_eq!(errata.contains(errata::INVLPG_KEEPS_GLOBALS), keeps_globals, "{signature:#x}");
        assert_eq!(features.invlpgb.is_some(), broadcasts, "{signature:#x}");
    }
    // Told back by hand, and in a guest.
    let zen2 = cpuid(AMD, 0x0087_0f10, true);
    assert_eq!(zen2.invlpgb, None);
    let zen3 = cpuid(AMD, 0x00a0_0f11, false);
    assert_eq!(x86_64::Features { invlpgb: zen3.invlpgb, ..zen2 }.corrected().invlpgb, None);
}

#[test]
fn intel_s_microcode_mends_invlpg() {
    for (signature, mended) in [
        (0x0009_0672, 0x2e),
        (0x0009_06a3, 0x42c),
        (0x000b_06e0, 0x11),
        (0x000b_0671, 0x118),
        (0x000b_06a2, 0x4117),
        (0x000b_06f2, 0x2e),
    ] {
        let found = |microcode, hypervisor| {
            let cpu = cpuid(b"GenuineIntel", signature, hypervisor);
            errata::of_x86(&x86_64::Features { microcode, ..cpu }).errata
        };
        assert_eq!(found(Some(mended), false), Errata::NONE, "{signature:#x}");
        assert_eq!(found(Some(mended + 1), false), Errata::NONE, "{signature:#x}");
        for (microcode, hypervisor) in
            [(Some(mended - 1), false), (None, false), (Some(mended), true)]
        {
            let affected = found(microcode, hypervisor);
            assert_eq!(affected, errata::INVLPG_KEEPS_GLOBALS, "{signature:#x} {microcode:?}");
        }
    }
}

// ---- RISC-V

#[test]
fn harts_that_exist() {
    const SIFIVE: u64 = 0x489;
    const U74: u64 = 0x8000_0000_0000_0007;
    for (vendor, architecture, implementation, affected) in [
        (SIFIVE, U74, 0x2018_1004, true),  // HiFive Unmatched, FU740
        (SIFIVE, U74, 0x0020_0630, true),  // the last
        (SIFIVE, U74, 0x0020_0631, false), // the first that is mended
        (SIFIVE, U74, 0x0120_0626, false), // mended before
        (SIFIVE, U74, 0x0220_0626, true),  // the number counts by its lower 24 bits
        (SIFIVE, U74, 0x0421_0427, false), // VisionFive 2, JH7110
        (SIFIVE, 1, 0x2018_1004, true),    // HiFive Unleashed, FU540
        (SIFIVE, 2, 0x2018_1004, false),
        (0, 1, 0x2018_1004, true), // Rocket
        (0, 0, 0, false),          // QEMU, and whoever says nothing
        (0, 42, 0, false),         // QEMU, and newer
        (0x5b7, 0, 0, false),      // T-Head C906
    ] {
        let hart = Identity { vendor, architecture, implementation };
        let expected = if affected { errata::FENCE_OPERANDS } else { Errata::NONE };
        assert_eq!(errata::of_riscv(hart).errata, expected, "{hart:x?}");
    }
}

#[test]
fn a_hart_is_asked_for_its_identity_by_the_base_extension() {
    let calls = sbi::Call::identity();
    assert_eq!(
        calls.map(|call| (call.extension, call.function)),
        [(0x10, 4), (0x10, 5), (0x10, 6)]
    );
    assert!(calls.iter().all(|call| call.arguments == [0; 5]));
}

// ---- The table in docs/errata.md

/// The rows as `docs/errata.md` has them: one line for each erratum and effect, and the CPUs in it.
fn table() -> String {
    let sequence = |errata| {
        let of = |names: &'static [(Errata, &'static str)]| {
            names.iter().find(|(named, _)| *named == errata).map(|(_, name)| *name)
        };
        static SEQUENCES: [(Errata, &str); 5] = errata::SEQUENCES;
        static ADVICE: [(Errata, &str); 3] = errata::ADVICE;
        match (of(&SEQUENCES), of(&ADVICE)) {
            (Some(name), _) => format!("changes `{name}`"),
            (_, Some(name)) => format!("advice: `{name}`"),
            _ => panic!("{errata:?} has no name"),
        }
    };
    let feature = |feature| {
        let known = |(known, _): &(Feature, _)| *known == feature;
        errata::FEATURES.into_iter().find(known).unwrap().1
    };
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for row in errata::rows() {
        let effect = match row.effect {
            Effect::Changes(errata) => sequence(errata),
            Effect::Withdraws(withdrawn) => format!("withdraws `{}`", feature(withdrawn)),
            Effect::Vouches(vouched) => format!("vouches for `{}`", feature(vouched)),
            Effect::Avoided => "avoided".to_owned(),
        };
        let line = format!("| {} | {{}} | {effect} | {} |", row.erratum, row.source);
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, cpus)) if cpus.contains(&row.cpus) => {}
            Some((_, cpus)) => cpus.push(row.cpus),
            None => lines.push((line, vec![row.cpus])),
        }
    }
    let lines = lines.into_iter().map(|(line, cpus)| line.replace("{}", &cpus.join("; ")) + "\n");
    "| erratum | CPUs | what is done | source |\n| --- | --- | --- | --- |\n".to_owned()
        + &lines.collect::<String>()
}

#[test]
fn the_document_has_the_rows_and_no_others() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/errata.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("<!-- rows -->\n").unwrap();
    let (rows, _) = rest.split_once("<!-- /rows -->").unwrap();
    let expected = table();
    assert!(rows == expected, "docs/errata.md must have between its marks:\n{expected}");
}
