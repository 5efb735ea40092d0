//! Which machines and which CPUs are refused.

use crate::aarch64::*;
use lookaside::{
    Error,
    arch::{
        Errata, Held, Mmu, Root, Sharing, Tag,
        aarch64::{
            Aarch64, AsidIn, Bbm, Config, Features, IdRegisters, Pairing, Stage2, Stage2Config,
            registers::{TCR_A1, TCR_AS, TCR_DS, TCR_EPD0, VTCR_DS, VTCR_SL2, VTCR_T0SZ, VTCR_VS},
        },
    },
};

fn refused(config: Config) -> Error {
    let recorder = Recorder::default();
    Aarch64::new(&recorder, config).err().expect("the configuration is impossible")
}

#[test]
fn asid_01_a_cpu_with_fewer_tag_bits_is_refused() {
    let recorder = Recorder::default();
    let eight = Features { asid_bits: 8, ..features() };
    let machine = Aarch64::new(&recorder, config()).unwrap();
    assert_eq!(machine.properties().tag_bits, 16);
    assert_eq!(machine.admit(&features()), Ok(Errata::NONE));
    assert_eq!(machine.admit(&eight), Err(Error::FewerTagBits { machine: 16, cpu: 8 }));
    let machine = Aarch64::new(&recorder, paired()).unwrap();
    assert_eq!(machine.properties().tag_bits, 15);
    assert_eq!(machine.admit(&eight), Err(Error::FewerTagBits { machine: 15, cpu: 7 }));
    // The machine that boots on the narrow CPU takes both.
    let narrow = Config { features: eight, tcr: TCR & !TCR_AS, ..config() };
    let machine = Aarch64::new(&recorder, narrow).unwrap();
    assert_eq!(machine.properties().tag_bits, 8);
    assert_eq!(machine.admit(&features()), Ok(Errata::NONE));
    assert_eq!(machine.admit(&eight), Ok(Errata::NONE));
}

#[test]
fn asid_03_tag_width_comes_from_the_register_and_not_from_the_cpu() {
    let recorder = Recorder::default();
    let cautious = Config { tcr: TCR & !TCR_AS, ..config() };
    assert_eq!(Aarch64::new(&recorder, cautious).unwrap().properties().tag_bits, 8);
    let bold = Config { features: Features { asid_bits: 8, ..features() }, ..config() };
    assert_eq!(refused(bold), Error::FewerTagBits { machine: 16, cpu: 8 });
}

#[test]
fn asid_02_a1_must_say_where_the_tag_is() {
    assert!(matches!(refused(Config { tcr: TCR | TCR_A1, ..config() }), Error::Unsupported(_)));
    let ttbr1 = a1();
    assert!(matches!(refused(Config { tcr: TCR, ..ttbr1 }), Error::Unsupported(_)));
}

#[test]
fn a_cpu_whose_register_has_another_a1_or_as_is_refused() {
    let recorder = Recorder::default();
    let admitted = |config: Config, register| {
        recorder.tcr_at_boot.set(Some(register));
        Aarch64::new(&recorder, config).unwrap().admit(&features())
    };
    // The value was computed, and not written: 16 bits of ASID are promised, of which hardware looks at 8.
    assert!(matches!(admitted(config(), TCR & !TCR_AS), Err(Error::MissingFeature(_))));
    assert!(matches!(admitted(config(), TCR | TCR_A1), Err(Error::MissingFeature(_))));
    assert!(matches!(admitted(a1(), TCR), Err(Error::MissingFeature(_))));
    // The rest may differ: `EPD0` does.
    assert_eq!(admitted(config(), TCR), Ok(Errata::NONE));
    assert_eq!(admitted(a1(), TCR | TCR_A1 | TCR_EPD0), Ok(Errata::NONE));
}

#[test]
fn a_cpu_that_lacks_a_feature_in_use_is_refused() {
    let recorder = Recorder::default();
    let shared = Config { sharing: Sharing::Shared, ..config() };
    let missing = |config: Config, cpu: Features| {
        let acknowledge = Aarch64::new(&recorder, config).unwrap().admit(&cpu);
        matches!(acknowledge, Err(Error::MissingFeature(_)))
    };
    let full = features();
    assert!(missing(config(), Features { range_ops: false, ..full }));
    assert!(missing(config(), Features { level_hints: false, ..full }));
    assert!(missing(config(), Features { pa_bits: 40, ..full }));
    assert!(missing(shared, Features { cnp: false, ..full }));
    assert!(!missing(config(), Features { cnp: false, ..full }));
    let no_4k = lookaside::arch::aarch64::Granules { k4: Default::default(), ..full.stage1 };
    assert!(missing(config(), Features { stage1: no_4k, ..full }));
    // The trampoline of paired ASIDs flushes no instruction cache (ThunderX T88, revision 1.1).
    let paired = Config { pairing: Pairing::Paired, ..config() };
    let thunder = Features { midr: 0x431f_0a11, ..full };
    assert!(missing(paired, thunder) && !missing(config(), thunder) && !missing(paired, full));
    // The size of a block is changed without a flush, which the other CPU cannot do.
    let free = Features { bbm: Bbm::Level3, ..full };
    assert!(missing(Config { features: free, ..config() }, full));
    assert!(!missing(Config { features: free, ..config() }, free) && !missing(config(), free));
    // What the kernel holds back is not asked for.
    let modest = Features { range_ops: false, level_hints: false, ..full };
    assert!(!missing(Config { features: modest, ..config() }, modest));
}

#[test]
fn impossible_control_registers_are_refused() {
    assert!(matches!(refused(Config { tcr: TCR | 0b11 << 14, ..config() }), Error::Unsupported(_)));
    assert!(matches!(refused(Config { tcr: TCR | TCR_DS, ..config() }), Error::MissingFeature(_)));
    let reserved_root = 0x1800;
    assert_eq!(refused(Config { reserved_root, ..config() }), Error::BadRoot { address: 0x1800 });
    for (table, user_table) in [(0x20, 0x40), (0x40, 0x20)] {
        let asid_in = AsidIn::Ttbr1 { table, user_table };
        assert_eq!(refused(Config { asid_in, ..a1() }), Error::BadRoot { address: 0x20 });
    }
}

#[test]
fn a_root_must_fit_the_register() {
    let recorder = Recorder::default();
    let machine = Aarch64::new(&recorder, config()).unwrap();
    let check = |address| machine.check_root(Root::new(address));
    assert_eq!(check(0x1000), Ok(()));
    assert_eq!(check(0xffff_ffff_f000), Ok(()));
    for bad in [0x1040, 0x800, 1, 1 << 48, u64::MAX << 12] {
        assert_eq!(check(bad), Err(Error::BadRoot { address: bad }));
    }
    // 40-bit physical addresses, and a root table of two entries (T0SZ 24).
    let small = Config { tcr: TCR & !(7 << 32) & !0x3f | 2 << 32 | 24, ..config() };
    let machine = Aarch64::new(&recorder, small).unwrap();
    assert_eq!(machine.check_root(Root::new(0x1040)), Ok(()));
    assert!(machine.check_root(Root::new(0x1020)).is_err());
    assert!(machine.check_root(Root::new(1 << 40)).is_err());
}

#[test]
fn a_root_above_48_bits_fits_only_with_52_bit_addresses() {
    let recorder = Recorder::default();
    let features = Features::decode(IdRegisters {
        mmfr0: 6 | 2 << 4 | 1 << 28,
        mmfr2: 1 | 1 << 48,
        isar0: 2 << 56,
        ..Default::default()
    });
    // 52-bit addresses, T0SZ 12: the root has sixteen entries.
    let tcr = 12 | 12 << 16 | 0b10 << 30 | 6 << 32 | TCR_AS | TCR_DS;
    let config = Config { features, tcr, ..config() };
    let machine = Aarch64::new(&recorder, config).unwrap();
    let root = Root::new(0x000f_0000_0000_0080);
    assert_eq!(machine.check_root(root), Ok(()));
    assert!(machine.check_root(Root::new(0x40)).is_err());
    // SAFETY: no hardware walks this root.
    unsafe { machine.load(Errata::NONE, root, Tag(1), Held::Keep, Sharing::Private) };
    assert_executed(&recorder, "ttbr0 1:0xbc; isb");
    // IPS may say 52 bits without DS; the register then still holds 48.
    let config = Config { tcr: tcr & !TCR_DS & !0x3f | 16, ..config };
    let machine = Aarch64::new(&recorder, config).unwrap();
    assert!(machine.check_root(Root::new(1 << 50)).is_err());
}

// ---- Stage 2

#[test]
fn asid_15_vmid_width_is_read_back_and_checked() {
    let recorder = Recorder::default();
    let eight = Features { vmid_bits: 8, ..features() };
    let stage2 = Stage2::new(&recorder, stage2_config()).unwrap();
    assert_eq!(stage2.admit(&eight), Err(Error::FewerTagBits { machine: 16, cpu: 8 }));
    let narrow = Stage2Config { vtcr: VTCR & !(1 << 19), ..stage2_config() };
    let stage2 = Stage2::new(&recorder, narrow).unwrap();
    assert_eq!(stage2.properties().tag_bits, 8);
    assert_eq!(stage2.admit(&eight), Ok(Errata::NONE));
    // Two concatenated tables: aligned to 8 KiB, within 44 bits.
    assert_eq!(stage2.check_root(Root::new(0x1000)), Err(Error::BadRoot { address: 0x1000 }));
    assert!(stage2.check_root(Root::new(1 << 44)).is_err());
    let reserved = Stage2Config { vtcr: VTCR | 0b11 << 14, ..stage2_config() };
    assert!(matches!(Stage2::new(&recorder, reserved).err(), Some(Error::Unsupported(_))));
    let wide = Stage2Config { vtcr: VTCR | 1 << 32, ..stage2_config() };
    assert!(matches!(Stage2::new(&recorder, wide).err(), Some(Error::MissingFeature(_))));
    let shared = Stage2Config { sharing: Sharing::Shared, ..stage2_config() };
    let stage2 = Stage2::new(&recorder, shared).unwrap();
    assert!(stage2.admit(&Features { cnp: false, ..features() }).is_err());
    let carmel = Features { midr: 0x4e0f_0040, ..features() };
    assert!(stage2.admit(&carmel).is_err());
}

#[test]
fn guests_need_addresses_as_wide_as_the_register_says() {
    let recorder = Recorder::default();
    let stage2 = Stage2::new(&recorder, stage2_config()).unwrap();
    assert_eq!(stage2.admit(&Features { pa_bits: 44, ..features() }), Ok(Errata::NONE));
    let narrow = stage2.admit(&Features { pa_bits: 42, ..features() });
    let missing = "physical addresses as wide as VTCR_EL2.PS says";
    assert_eq!(narrow, Err(Error::MissingFeature(missing)));
}

#[test]
fn a_guests_root_above_48_bits_fits_only_with_52_bit_addresses() {
    let recorder = Recorder::default();
    let features = Features::decode(IdRegisters {
        mmfr0: 6 | 2 << 4 | 1 << 28,
        mmfr1: 2 << 4,
        ..Default::default()
    });
    // 52-bit addresses from level -1, T0SZ 12: the root has sixteen entries.
    let vtcr = 12 | 6 << 16 | VTCR_VS | VTCR_DS | VTCR_SL2;
    let config = Stage2Config { features, vtcr, ..stage2_config() };
    let stage2 = Stage2::new(&recorder, config).unwrap();
    let root = Root::new(0x000f_0000_0000_0080);
    assert_eq!(stage2.check_root(root), Ok(()));
    assert!(stage2.check_root(Root::new(0x40)).is_err());
    // SAFETY: no hardware walks this root.
    unsafe { stage2.load(Errata::NONE, root, Tag(1), Held::Keep, Sharing::Private) };
    assert_executed(&recorder, "ttbr0 1:0xbc; isb");
    // PS may say 52 bits without DS; the register then still holds 48.
    let vtcr = VTCR & !VTCR_T0SZ | 24 | 6 << 16;
    let stage2 = Stage2::new(&recorder, Stage2Config { vtcr, ..config }).unwrap();
    assert_eq!(stage2.check_root(Root::new(1 << 47)), Ok(()));
    assert!(stage2.check_root(Root::new(1 << 50)).is_err());
}
