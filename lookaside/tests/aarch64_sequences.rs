//! What is executed, instruction by instruction: every configuration against a sequence that is
//! written out.
//!
//! In the expectations, one line is one instruction. Values of root registers appear as
//! `tag:address`, with `+cnp` where the bit is set.

use core::{cell::RefCell, fmt::Write as _};

use lookaside::{
    Error, VaRange,
    arch::{
        Errata, Held, Mmu, Root, Sharing, Tag,
        aarch64::{
            Aarch64, AsidIn, Config, Dsb, Features, IdRegisters, Instructions, Level, Pairing,
            Park, RangeFlush, Reach, Scope, Stage2, Stage2Config, Tlbi, TlbiOp, errata,
            registers::{TCR_A1, TCR_AS, TCR_DS, TCR_EPD0},
        },
    },
};

// ---- The recorder

#[derive(Default)]
struct Recorder {
    lines: RefCell<Vec<String>>,
    tcr: RefCell<u64>,
}

impl Recorder {
    fn line(&self, line: impl Into<String>) {
        self.lines.borrow_mut().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        self.lines.take()
    }

    fn root(&self, register: &str, value: u64) {
        let mut line = format!("{register} {}:{:#x}", value >> 48, value & 0xffff_ffff_fffe);
        if value & 1 == 1 {
            line.push_str(" +cnp");
        }
        self.line(line);
    }
}

impl Instructions for &Recorder {
    fn tlbi(&self, Tlbi { op, scope, operand }: Tlbi) {
        let mut line = format!("tlbi {op:?}").to_lowercase();
        if scope == Scope::InnerShareable {
            line.push_str("is");
        }
        match op {
            TlbiOp::Vmall | TlbiOp::Vmalls12 | TlbiOp::Alle1 => assert_eq!(operand, 0),
            TlbiOp::Aside => {
                assert_eq!(operand << 16, 0);
                write!(line, " {}", operand >> 48).unwrap();
            }
            _ => write!(line, " {operand:#x}").unwrap(),
        }
        self.line(line);
    }

    fn dsb(&self, kind: Dsb) {
        self.line(format!("dsb {kind:?}").to_lowercase());
    }

    fn isb(&self) {
        self.line("isb");
    }

    fn write_ttbr0(&self, value: u64) {
        self.root("ttbr0", value);
    }

    fn read_ttbr1(&self) -> u64 {
        panic!("nothing depends on what TTBR1 holds")
    }

    fn write_ttbr1(&self, value: u64) {
        self.root("ttbr1", value);
    }

    fn read_tcr(&self) -> u64 {
        *self.tcr.borrow()
    }

    fn write_tcr(&self, value: u64) {
        let before = self.tcr.replace(value);
        assert_eq!(before ^ value, TCR_EPD0, "only EPD0 changes");
        self.line(if value & TCR_EPD0 == 0 { "epd0 off" } else { "epd0 on" });
    }

    fn ic_iallu(&self) {
        self.line("ic iallu");
    }
}

#[track_caller]
fn assert_executed(recorder: &Recorder, expected: &str) {
    let expected: Vec<_> = expected.split(';').map(str::trim).filter(|s| !s.is_empty()).collect();
    assert_eq!(recorder.take(), expected);
}

// ---- Configurations

/// 16-bit tags, 48-bit addresses, all granules, ranges, hints, CnP.
fn features() -> Features {
    Features::decode(IdRegisters {
        mmfr0: 5 | 2 << 4 | 1 << 20,
        mmfr1: 2 << 4,
        mmfr2: 1 | 1 << 48,
        isar0: 2 << 56,
        ..Default::default()
    })
}

const RESERVED: u64 = 0x1000;
const KERNEL: u64 = 0x9000;
const ROOT: Root = Root::new(0x5000);
/// T0SZ 16, 4 KiB; T1SZ 16, TG1 4 KiB; 48 bits; 16-bit tags.
const TCR: u64 = 16 | 16 << 16 | 0b10 << 30 | 5 << 32 | TCR_AS;

fn config() -> Config {
    Config {
        features: features(),
        tcr: TCR,
        park: Park::ReservedRoot(RESERVED),
        sharing: Sharing::Private,
        pairing: Pairing::Single,
        asid_in: AsidIn::Ttbr0,
    }
}

fn epd0() -> Config {
    Config { park: Park::Epd0, ..config() }
}

fn a1(park: Park) -> Config {
    Config { park, tcr: TCR | TCR_A1, asid_in: AsidIn::Ttbr1 { table: KERNEL }, ..config() }
}

fn paired() -> Config {
    Config { pairing: Pairing::Paired, ..config() }
}

/// Runs `f` on a machine so configured and compares what was executed.
#[track_caller]
fn runs(config: Config, f: impl FnOnce(&Aarch64<&Recorder>), expected: &str) {
    let recorder = Recorder::default();
    *recorder.tcr.borrow_mut() = config.tcr;
    let machine = Aarch64::new(&recorder, config).unwrap();
    assert_executed(&recorder, "");
    f(&machine);
    assert_executed(&recorder, expected);
}

fn keep(machine: &Aarch64<&Recorder>, errata: Errata) {
    machine.load(errata, ROOT, Tag(7), Held::Keep, Sharing::Shared);
}

fn drop_held(machine: &Aarch64<&Recorder>, errata: Errata) {
    machine.load(errata, ROOT, Tag(7), Held::Drop, Sharing::Shared);
}

// ---- Switching, tag in TTBR0

#[test]
fn settle_completes_invalidations_and_orders_walks() {
    runs(config(), |m| m.settle(), "dsb ish; isb");
}

#[test]
fn a_load_is_one_write() {
    runs(config(), |m| keep(m, Errata::NONE), "ttbr0 7:0x5000; isb");
}

#[test]
fn a_park_is_one_write() {
    runs(config(), |m| m.park(Errata::NONE), "ttbr0 0:0x1000; isb");
}

#[test]
fn dropping_parks_first_and_loads_last() {
    runs(
        config(),
        |m| drop_held(m, Errata::NONE),
        "ttbr0 0:0x1000; isb; tlbi aside 7; dsb nsh; isb; ttbr0 7:0x5000; isb",
    );
}

#[test]
fn paired_tags_load_the_even_asid_and_drop_both() {
    runs(paired(), |m| keep(m, Errata::NONE), "ttbr0 14:0x5000; isb");
    runs(
        paired(),
        |m| drop_held(m, Errata::NONE),
        "ttbr0 0:0x1000; isb; tlbi aside 14; tlbi aside 15; dsb nsh; isb; ttbr0 14:0x5000; isb",
    );
}

#[test]
fn cnp_is_set_only_if_machine_and_caller_agree() {
    let shared = Config { sharing: Sharing::Shared, ..config() };
    runs(shared, |m| keep(m, Errata::NONE), "ttbr0 7:0x5000 +cnp; isb");
    let private = |m: &Aarch64<&Recorder>| {
        m.load(Errata::NONE, ROOT, Tag(7), Held::Keep, Sharing::Private);
    };
    runs(shared, private, "ttbr0 7:0x5000; isb");
    runs(shared, |m| m.park(Errata::NONE), "ttbr0 0:0x1000; isb");
    let shared = Config { sharing: Sharing::Shared, ..a1(Park::ReservedRoot(RESERVED)) };
    runs(
        shared,
        |m| keep(m, Errata::NONE),
        "ttbr0 0:0x1000; isb; ttbr1 7:0x9000 +cnp; isb; ttbr0 0:0x5000 +cnp; isb",
    );
}

// ---- EPD0

#[test]
fn epd0_is_set_before_the_tag_leaves_and_cleared_after_the_root_arrived() {
    runs(epd0(), |m| m.park(Errata::NONE), "epd0 on; isb; ttbr0 0:0x0; isb");
    runs(
        epd0(),
        |m| {
            m.park(Errata::NONE);
            keep(m, Errata::NONE);
        },
        "epd0 on; isb; ttbr0 0:0x0; isb;
         ttbr0 7:0x5000; isb; epd0 off; isb",
    );
    // From space to space one write changes both, and walks may go on.
    runs(epd0(), |m| keep(m, Errata::NONE), "ttbr0 7:0x5000; isb");
    runs(
        epd0(),
        |m| drop_held(m, Errata::NONE),
        "epd0 on; isb; ttbr0 0:0x0; isb; tlbi aside 7; dsb nsh; isb;
         ttbr0 7:0x5000; isb; epd0 off; isb",
    );
}

// ---- Tag in TTBR1

#[test]
fn two_registers_are_written_while_nothing_can_be_walked() {
    let reserved = a1(Park::ReservedRoot(RESERVED));
    runs(
        reserved,
        |m| keep(m, Errata::NONE),
        "ttbr0 0:0x1000; isb; ttbr1 7:0x9000; isb; ttbr0 0:0x5000; isb",
    );
    runs(
        reserved,
        |m| drop_held(m, Errata::NONE),
        "ttbr0 0:0x1000; isb; ttbr1 0:0x9000; isb; tlbi aside 7; dsb nsh; isb;
         ttbr1 7:0x9000; isb; ttbr0 0:0x5000; isb",
    );
    runs(reserved, |m| m.park(Errata::NONE), "ttbr0 0:0x1000; isb; ttbr1 0:0x9000; isb");
    runs(
        a1(Park::Epd0),
        |m| keep(m, Errata::NONE),
        "epd0 on; isb; ttbr1 7:0x9000; isb; ttbr0 0:0x5000; isb; epd0 off; isb",
    );
    runs(
        a1(Park::Epd0),
        |m| drop_held(m, Errata::NONE),
        "epd0 on; isb; ttbr1 0:0x9000; isb; tlbi aside 7; dsb nsh; isb;
         ttbr1 7:0x9000; isb; ttbr0 0:0x5000; isb; epd0 off; isb",
    );
    runs(a1(Park::Epd0), |m| m.park(Errata::NONE), "epd0 on; isb; ttbr1 0:0x9000; isb");
}

#[test]
fn two_registers_and_pairs_combine() {
    let both = Config { pairing: Pairing::Paired, ..a1(Park::ReservedRoot(RESERVED)) };
    runs(
        both,
        |m| drop_held(m, Errata::NONE),
        "ttbr0 0:0x1000; isb; ttbr1 0:0x9000; isb;
         tlbi aside 14; tlbi aside 15; dsb nsh; isb;
         ttbr1 14:0x9000; isb; ttbr0 0:0x5000; isb",
    );
}

// ---- Errata in switches

#[test]
fn asid_13_icache_fix_follows_every_tag_change() {
    let e = errata::ICACHE_AFTER_LOAD;
    let fix = "ic iallu; dsb nsh; isb";
    runs(config(), |m| keep(m, e), &format!("ttbr0 7:0x5000; isb; {fix}"));
    runs(config(), |m| m.park(e), &format!("ttbr0 0:0x1000; isb; {fix}"));
    runs(
        config(),
        |m| drop_held(m, e),
        &format!(
            "ttbr0 0:0x1000; isb; {fix}; tlbi aside 7; dsb nsh; isb; ttbr0 7:0x5000; isb; {fix}"
        ),
    );
    runs(epd0(), |m| m.park(e), &format!("epd0 on; isb; ttbr0 0:0x0; isb; {fix}"));
    // With the tag in TTBR1, writes of TTBR0 change no tag.
    runs(
        a1(Park::ReservedRoot(RESERVED)),
        |m| keep(m, e),
        &format!("ttbr0 0:0x1000; isb; ttbr1 7:0x9000; isb; {fix}; ttbr0 0:0x5000; isb"),
    );
    runs(
        a1(Park::ReservedRoot(RESERVED)),
        |m| m.park(e),
        &format!("ttbr0 0:0x1000; isb; ttbr1 0:0x9000; isb; {fix}"),
    );
    // A switch that changes nothing, and flushes, need none.
    runs(config(), |m| m.settle(), "dsb ish; isb");
    runs(config(), |m| m.flush_tag(e, Tag(7)), "dsb nshst; tlbi aside 7; dsb nsh; isb");
}

#[test]
fn falkor_changes_tag_and_table_one_after_the_other() {
    let e = errata::TAG_AND_ROOT_APART;
    // Parking changes both; what the old table left under the reserved tag is removed.
    let park = "ttbr0 0:0x1000; isb; tlbi aside 0; dsb nsh; isb";
    runs(config(), |m| m.park(e), park);
    runs(config(), |m| keep(m, e), &format!("{park}; ttbr0 7:0x1000; isb; ttbr0 7:0x5000; isb"));
    runs(
        config(),
        |m| drop_held(m, e),
        &format!("{park}; tlbi aside 7; dsb nsh; isb; ttbr0 7:0x1000; isb; ttbr0 7:0x5000; isb"),
    );
    runs(
        epd0(),
        |m| keep(m, e),
        "epd0 on; isb; ttbr0 0:0x0; isb; ttbr0 7:0x5000; isb; epd0 off; isb",
    );
    // With two registers they are apart anyway.
    runs(
        a1(Park::ReservedRoot(RESERVED)),
        |m| keep(m, e),
        "ttbr0 0:0x1000; isb; ttbr1 7:0x9000; isb; ttbr0 0:0x5000; isb",
    );
}

#[test]
fn every_row_of_the_errata_table_changes_what_is_executed() {
    for row in errata::TABLE {
        let plain = |e: Errata| {
            let recorder = Recorder::default();
            let machine = Aarch64::new(&recorder, config()).unwrap();
            machine.load(e, ROOT, Tag(7), Held::Keep, Sharing::Private);
            machine.flush_all_everywhere(e);
            recorder.take()
        };
        let midr = u64::from(row.implementer) << 24
            | u64::from(row.revisions.1 >> 4) << 20
            | u64::from(row.parts.1) << 4
            | u64::from(row.revisions.1 & 0xf);
        let shared = Config { sharing: Sharing::Shared, ..config() };
        let cpu = Features { midr, ..features() };
        let recorder = Recorder::default();
        let machine = Aarch64::new(&recorder, config()).unwrap();
        let e = machine.admit(&cpu).unwrap();
        assert!(e.contains(row.errata), "{}", row.name);
        if row.errata == errata::NO_CNP {
            let machine = Aarch64::new(&recorder, shared).unwrap();
            assert!(matches!(machine.admit(&cpu), Err(Error::MissingFeature(_))), "{}", row.name);
            continue;
        }
        let text = plain(e).join("; ");
        assert_ne!(text, plain(Errata::NONE).join("; "), "{}", row.name);
        let extra = match row.errata {
            errata::ICACHE_AFTER_LOAD => "ttbr0 7:0x5000; isb; ic iallu; dsb nsh; isb",
            errata::TAG_AND_ROOT_APART => "ttbr0 7:0x1000; isb; ttbr0 7:0x5000; isb",
            errata::REPEAT_BROADCAST => "tlbi vmallis; dsb ish; tlbi valis 0x0; dsb ish; isb",
            other => panic!("{}: {other:?} has no expectation here", row.name),
        };
        assert!(text.contains(extra), "{}: {text}", row.name);
    }
}

// ---- Flushes

#[test]
fn asid_16_flushes_carry_the_tag_between_their_barriers() {
    let none = Errata::NONE;
    runs(config(), |m| m.flush_all(none), "dsb nshst; tlbi vmall; dsb nsh; isb");
    runs(config(), |m| m.flush_tag(none, Tag(7)), "dsb nshst; tlbi aside 7; dsb nsh; isb");
    runs(config(), |m| m.flush_all_everywhere(none), "dsb ishst; tlbi vmallis; dsb ish; isb");
    runs(
        config(),
        |m| m.flush_tag_everywhere(none, Tag(7)),
        "dsb ishst; tlbi asideis 7; dsb ish; isb",
    );
    runs(
        paired(),
        |m| m.flush_tag_everywhere(none, Tag(7)),
        "dsb ishst; tlbi asideis 14; tlbi asideis 15; dsb ish; isb",
    );
    runs(
        paired(),
        |m| m.flush_tag(none, Tag(7)),
        "dsb nshst; tlbi aside 14; tlbi aside 15; dsb nsh; isb",
    );
}

#[test]
fn the_second_broadcast_follows_each_completion_once() {
    let e = errata::REPEAT_BROADCAST;
    runs(
        config(),
        |m| m.flush_all_everywhere(e),
        "dsb ishst; tlbi vmallis; dsb ish; tlbi valis 0x0; dsb ish; isb",
    );
    runs(
        paired(),
        |m| m.flush_tag_everywhere(e, Tag(1)),
        "dsb ishst; tlbi asideis 2; tlbi asideis 3; dsb ish; tlbi valis 0x0; dsb ish; isb",
    );
    // Local invalidation is not affected.
    runs(config(), |m| m.flush_all(e), "dsb nshst; tlbi vmall; dsb nsh; isb");
}

fn three_pages(scope: Scope) -> RangeFlush {
    RangeFlush {
        range: VaRange::new(0x40_0000, 3 << 12, 12).unwrap(),
        reach: Reach::LastLevel,
        level: Some(Level::L3),
        scope,
    }
}

#[test]
fn asid_16_the_tag_is_loaded_after_the_store_barrier() {
    let recorder = Recorder::default();
    let machine = Aarch64::new(&recorder, config()).unwrap();
    machine.invalidate(Errata::NONE, &three_pages(Scope::InnerShareable), || {
        recorder.line("load tag");
        Some(Tag(7))
    });
    assert_executed(
        &recorder,
        "dsb ishst; load tag; tlbi rvalis 0x7406000000400; tlbi valis 0x7700000000402; dsb ish; isb",
    );
}

#[test]
fn asid_16_a_space_without_a_tag_needs_no_invalidation() {
    runs(
        config(),
        |m| m.invalidate(Errata::NONE, &three_pages(Scope::InnerShareable), || None),
        "dsb ishst",
    );
}

#[test]
fn a_range_of_a_pair_goes_out_for_both_and_completes_once() {
    runs(
        paired(),
        |m| {
            m.invalidate(errata::REPEAT_BROADCAST, &three_pages(Scope::InnerShareable), || {
                Some(Tag(1))
            })
        },
        "dsb ishst; tlbi rvalis 0x2406000000400; tlbi valis 0x2700000000402;
         tlbi rvalis 0x3406000000400; tlbi valis 0x3700000000402;
         dsb ish; tlbi valis 0x0; dsb ish; isb",
    );
    runs(
        config(),
        |m| m.invalidate(errata::REPEAT_BROADCAST, &three_pages(Scope::Local), || Some(Tag(1))),
        "dsb nshst; tlbi rval 0x1406000000400; tlbi val 0x1700000000402; dsb nsh; isb",
    );
}

#[test]
fn asid_16_kernel_ranges_name_all_tags_and_the_granule_of_their_half() {
    // TG1 is 64 KiB, TG0 4 KiB.
    let config = Config { tcr: TCR | 0b11 << 30, ..config() };
    let what = RangeFlush {
        range: VaRange::new(0xffff_8000_0000_0000, 2 << 16, 16).unwrap(),
        reach: Reach::AllLevels,
        level: None,
        scope: Scope::InnerShareable,
    };
    runs(
        config,
        |m| m.invalidate_all_tags(Errata::NONE, &what),
        "dsb ishst; tlbi rvaais 0xc01f80000000; dsb ish; isb",
    );
    // A reserved TG1 claims nothing: single pages of the smallest granule.
    let config = Config { tcr: TCR & !(0b11 << 30), ..config };
    let what =
        RangeFlush { range: VaRange::new(0xffff_8000_0000_0000, 2 << 12, 12).unwrap(), ..what };
    runs(
        config,
        |m| m.invalidate_all_tags(Errata::NONE, &what),
        "dsb ishst; tlbi vaais 0xff800000000; tlbi vaais 0xff800000001; dsb ish; isb",
    );
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "too wide")]
fn a_tag_that_would_be_cut_off_is_refused() {
    runs(paired(), |m| m.flush_tag(Errata::NONE, Tag(0x8000)), "");
}

// ---- Admission

fn refused(config: Config) -> Error {
    let recorder = Recorder::default();
    Aarch64::new(&recorder, config).err().expect("the configuration is impossible")
}

#[test]
fn asid_01_a_cpu_with_fewer_tag_bits_is_refused() {
    let recorder = Recorder::default();
    let eight = Features { asid_bits: 8, ..features() };
    let machine = Aarch64::new(&recorder, config()).unwrap();
    assert_eq!(machine.tag_bits(), 16);
    assert_eq!(machine.admit(&features()), Ok(Errata::NONE));
    assert_eq!(machine.admit(&eight), Err(Error::FewerTagBits { machine: 16, cpu: 8 }));
    let machine = Aarch64::new(&recorder, paired()).unwrap();
    assert_eq!(machine.tag_bits(), 15);
    assert_eq!(machine.admit(&eight), Err(Error::FewerTagBits { machine: 15, cpu: 7 }));
    // The machine that boots on the narrow CPU takes both.
    let narrow = Config { features: eight, tcr: TCR & !TCR_AS, ..config() };
    let machine = Aarch64::new(&recorder, narrow).unwrap();
    assert_eq!(machine.tag_bits(), 8);
    assert_eq!(machine.admit(&features()), Ok(Errata::NONE));
    assert_eq!(machine.admit(&eight), Ok(Errata::NONE));
}

#[test]
fn asid_03_tag_width_comes_from_the_register_and_not_from_the_cpu() {
    let recorder = Recorder::default();
    let cautious = Config { tcr: TCR & !TCR_AS, ..config() };
    assert_eq!(Aarch64::new(&recorder, cautious).unwrap().tag_bits(), 8);
    let bold = Config { features: Features { asid_bits: 8, ..features() }, ..config() };
    assert_eq!(refused(bold), Error::FewerTagBits { machine: 16, cpu: 8 });
}

#[test]
fn asid_02_a1_must_say_where_the_tag_is() {
    assert!(matches!(refused(Config { tcr: TCR | TCR_A1, ..config() }), Error::Unsupported(_)));
    let ttbr1 = a1(Park::Epd0);
    assert!(matches!(refused(Config { tcr: TCR, ..ttbr1 }), Error::Unsupported(_)));
}

#[test]
fn what_the_machine_uses_every_cpu_must_have() {
    let recorder = Recorder::default();
    let shared = Config { sharing: Sharing::Shared, ..config() };
    let missing = |config: Config, cpu: Features| {
        let answer = Aarch64::new(&recorder, config).unwrap().admit(&cpu);
        matches!(answer, Err(Error::MissingFeature(_)))
    };
    let full = features();
    assert!(missing(config(), Features { range_ops: false, ..full }));
    assert!(missing(config(), Features { level_hints: false, ..full }));
    assert!(missing(config(), Features { pa_bits: 40, ..full }));
    assert!(missing(shared, Features { cnp: false, ..full }));
    assert!(!missing(config(), Features { cnp: false, ..full }));
    let no_4k = lookaside::arch::aarch64::Granules { k4: Default::default(), ..full.stage1 };
    assert!(missing(config(), Features { stage1: no_4k, ..full }));
    // What the kernel holds back is not asked for.
    let modest = Features { range_ops: false, level_hints: false, ..full };
    assert!(!missing(Config { features: modest, ..config() }, modest));
}

#[test]
fn impossible_control_registers_are_refused() {
    assert!(matches!(refused(Config { tcr: TCR | 0b11 << 14, ..config() }), Error::Unsupported(_)));
    assert!(matches!(refused(Config { tcr: TCR | TCR_DS, ..config() }), Error::MissingFeature(_)));
    let park = Park::ReservedRoot(0x1800);
    assert_eq!(refused(Config { park, ..config() }), Error::BadRoot { address: 0x1800 });
    let asid_in = AsidIn::Ttbr1 { table: 0x20 };
    assert_eq!(refused(Config { asid_in, ..a1(Park::Epd0) }), Error::BadRoot { address: 0x20 });
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
    machine.load(Errata::NONE, root, Tag(1), Held::Keep, Sharing::Private);
    assert_executed(&recorder, "ttbr0 1:0xbc; isb");
    // IPS may say 52 bits without DS; the register then still holds 48.
    let config = Config { tcr: tcr & !TCR_DS & !0x3f | 16, ..config };
    let machine = Aarch64::new(&recorder, config).unwrap();
    assert!(machine.check_root(Root::new(1 << 50)).is_err());
}

// ---- Stage 2

/// 40 bits from level 1, 4 KiB, 44-bit output, 16-bit VMIDs.
const VTCR: u64 = 24 | 1 << 6 | 4 << 16 | 1 << 19;
const GUEST: Root = Root::new(0x8000);

fn stage2_config() -> Stage2Config {
    Stage2Config {
        features: features(),
        vtcr: VTCR,
        reserved_root: 0x2000,
        sharing: Sharing::Private,
    }
}

#[track_caller]
fn guests(config: Stage2Config, f: impl FnOnce(&Stage2<&Recorder>), expected: &str) {
    let recorder = Recorder::default();
    let stage2 = Stage2::new(&recorder, config).unwrap();
    f(&stage2);
    assert_executed(&recorder, expected);
}

#[test]
fn asid_15_vmids_have_their_own_register_width_and_flush() {
    let none = Errata::NONE;
    let c = stage2_config();
    guests(c, |s| assert_eq!((s.tag_bits(), s.broadcasts()), (16, true)), "");
    guests(c, |s| s.settle(), "dsb ish; isb");
    guests(c, |s| s.park(none), "ttbr0 0:0x2000; isb");
    let load =
        |held| move |s: &Stage2<&Recorder>| s.load(none, GUEST, Tag(300), held, Sharing::Shared);
    guests(c, load(Held::Keep), "ttbr0 300:0x8000; isb");
    // The VMID is named over the reserved root, so that the flush by VMID means it.
    guests(
        c,
        load(Held::Drop),
        "ttbr0 300:0x2000; isb; tlbi vmalls12; dsb nsh; isb; ttbr0 300:0x8000; isb",
    );
    guests(c, |s| s.flush_all(none), "dsb nshst; tlbi alle1; dsb nsh; isb");
    guests(c, |s| s.flush_all_everywhere(none), "dsb ishst; tlbi alle1is; dsb ish; isb");
    guests(c, |s| s.flush_tag(none, Tag(3)), "dsb nshst; tlbi alle1; dsb nsh; isb");
    guests(c, |s| s.flush_tag_everywhere(none, Tag(3)), "dsb ishst; tlbi alle1is; dsb ish; isb");
    guests(c, |s| s.flush_current_everywhere(none), "dsb ishst; tlbi vmalls12is; dsb ish; isb");
    let shared = Stage2Config { sharing: Sharing::Shared, ..c };
    guests(shared, load(Held::Keep), "ttbr0 300:0x8000 +cnp; isb");
}

#[test]
fn asid_15_errata_hold_for_guests_too() {
    guests(
        stage2_config(),
        |s| s.flush_current_everywhere(errata::REPEAT_BROADCAST),
        "dsb ishst; tlbi vmalls12is; dsb ish; tlbi valis 0x0; dsb ish; isb",
    );
    guests(
        stage2_config(),
        |s| s.park(errata::ICACHE_AFTER_LOAD),
        "ttbr0 0:0x2000; isb; ic iallu; dsb nsh; isb",
    );
}

#[test]
fn asid_15_vmid_width_is_read_back_and_checked() {
    let recorder = Recorder::default();
    let eight = Features { vmid_bits: 8, ..features() };
    let stage2 = Stage2::new(&recorder, stage2_config()).unwrap();
    assert_eq!(stage2.admit(&eight), Err(Error::FewerTagBits { machine: 16, cpu: 8 }));
    let narrow = Stage2Config { vtcr: VTCR & !(1 << 19), ..stage2_config() };
    let stage2 = Stage2::new(&recorder, narrow).unwrap();
    assert_eq!(stage2.tag_bits(), 8);
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
