//! What a switch executes, instruction by instruction: every configuration against a sequence that
//! is written out.

use crate::aarch64::*;
use lookaside::arch::{
    Errata, Held, Invalidation, Mmu, Scope, SeparateRoots, Sharing, Tag,
    aarch64::{
        Aarch64, AsidIn, Config, Features, Pairing, Stage2, Stage2Config, registers::TCR_EPD0,
    },
    errata,
};

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
fn a_load_in_place_of_another_space_settles_first() {
    // SAFETY: no hardware walks this root.
    let load_kept =
        |m: &Aarch64<&Recorder>| unsafe { m.load_kept(m.properties().kept_loads, ROOT, Tag(7)) };
    runs(config(), load_kept, "dsb ish; ttbr0 7:0x5000; isb");
    let steps = "dsb ish; ttbr0 0:0x1000; isb; ttbr1 7:0x9000; isb; ttbr0 0:0x5000; isb";
    runs(a1(), load_kept, steps);
    let paired = Config { pairing: Pairing::Paired, ..a1() };
    runs(paired, load_kept, &steps.replace("7:", "14:"));
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
    runs(paired(), |m| assert_eq!((m.asid(Tag(7)), m.user_asid(Tag(7))), (14, 15)), "");
    runs(config(), |m| assert_eq!((m.asid(Tag(7)), m.user_asid(Tag(7))), (7, 7)), "");
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
        // SAFETY: no hardware walks this root.
        unsafe { m.load(Errata::NONE, ROOT, Tag(7), Held::Keep, Sharing::Private) };
    };
    runs(shared, private, "ttbr0 7:0x5000; isb");
    runs(shared, |m| m.park(Errata::NONE), "ttbr0 0:0x1000; isb");
    let shared = Config { sharing: Sharing::Shared, ..a1() };
    runs(
        shared,
        |m| keep(m, Errata::NONE),
        "ttbr0 0:0x1000; isb; ttbr1 7:0x9000 +cnp; isb; ttbr0 0:0x5000 +cnp; isb",
    );
}

#[test]
fn epd0_is_the_kernels() {
    let stopped = Config { tcr: TCR | TCR_EPD0, ..config() };
    runs(stopped, |m| keep(m, Errata::NONE), "ttbr0 7:0x5000; isb");
    runs(
        stopped,
        |m| drop_held(m, Errata::NONE),
        "ttbr0 0:0x1000; isb; tlbi aside 7; dsb nsh; isb; ttbr0 7:0x5000; isb",
    );
}

// ---- Tag in TTBR1

#[test]
fn two_registers_are_written_while_nothing_can_be_walked() {
    let reserved = a1();
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
}

#[test]
fn two_registers_and_pairs_combine() {
    let both = Config { pairing: Pairing::Paired, ..a1() };
    runs(
        both,
        |m| drop_held(m, Errata::NONE),
        "ttbr0 0:0x1000; isb; ttbr1 0:0x9000; isb;
         tlbi aside 14; tlbi aside 15; dsb nsh; isb;
         ttbr1 14:0x9000; isb; ttbr0 0:0x5000; isb",
    );
}

// ---- The trampoline

#[test]
fn the_trampoline_changes_the_asid_and_with_it_the_table_of_the_register() {
    let roots = |config: Config, tag, sharing| {
        let recorder = Recorder::default();
        let machine = Aarch64::new(&recorder, config).unwrap();
        let user = machine.user_root(ROOT, Tag(tag), Held::Drop, sharing);
        let kernel = machine.kernel_root(ROOT, Tag(tag), sharing);
        assert_executed(&recorder, "");
        [user, kernel]
    };
    let asid = |asid: u64, table: u64| asid << 48 | table;
    assert_eq!(roots(paired(), 7, Sharing::Private), [asid(15, 0x5000), asid(14, 0x5000)]);
    let asid_in = AsidIn::Ttbr1 { table: KERNEL, user_table: 0xb000 };
    let a1 = Config { pairing: Pairing::Paired, asid_in, ..a1() };
    assert_eq!(roots(a1, 7, Sharing::Private), [asid(15, 0xb000), asid(14, KERNEL)]);
    // Entries are shared if those of the load are.
    let shared = Config { sharing: Sharing::Shared, ..paired() };
    assert_eq!(roots(shared, 7, Sharing::Shared), [asid(15, 0x5001), asid(14, 0x5001)]);
    assert_eq!(roots(shared, 7, Sharing::Private), [asid(15, 0x5000), asid(14, 0x5000)]);
    assert_eq!(roots(paired(), 7, Sharing::Shared), [asid(15, 0x5000), asid(14, 0x5000)]);
    // Without pairs the register stays as it is.
    assert_eq!(roots(config(), 7, Sharing::Private), [asid(7, 0x5000); 2]);
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
    // With the tag in TTBR1, writes of TTBR0 change no tag.
    runs(
        a1(),
        |m| keep(m, e),
        &format!("ttbr0 0:0x1000; isb; ttbr1 7:0x9000; isb; {fix}; ttbr0 0:0x5000; isb"),
    );
    runs(a1(), |m| m.park(e), &format!("ttbr0 0:0x1000; isb; ttbr1 0:0x9000; isb; {fix}"));
    // A switch that changes nothing, and flushes, need none.
    runs(config(), |m| m.settle(), "dsb ish; isb");
    runs(
        config(),
        |m| m.flush(e, Invalidation::Tag(Tag(7)), Scope::Local),
        "dsb nshst; tlbi aside 7; dsb nsh; isb",
    );
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
    // With two registers they are apart anyway.
    runs(a1(), |m| keep(m, e), "ttbr0 0:0x1000; isb; ttbr1 7:0x9000; isb; ttbr0 0:0x5000; isb");
}

#[test]
fn every_row_of_the_errata_table_changes_what_is_executed() {
    let extra = |errata| {
        let recorder = Recorder::default();
        let machine = Aarch64::new(&recorder, config()).unwrap();
        // SAFETY: no hardware walks this root.
        unsafe { machine.load(errata, ROOT, Tag(7), Held::Keep, Sharing::Private) };
        machine.flush(errata, Invalidation::All, Scope::Broadcast);
        recorder.take().join("; ")
    };
    let plain = extra(Errata::NONE);
    for row in errata::TABLE[0] {
        let errata::Affected::Arm(cpus) = row.affected else { panic!("{}", row.cpus) };
        let midr = u64::from(cpus.implementer) << 24
            | u64::from(cpus.revisions.1 >> 4) << 20
            | u64::from(cpus.parts.1) << 4
            | u64::from(cpus.revisions.1 & 0xf);
        let cpu = Features { midr, ..features() };
        let recorder = Recorder::default();
        let machine = Aarch64::new(&recorder, config()).unwrap();
        let admitted = machine.admit(&cpu).unwrap();
        let errata::Effect::Changes(changed) = row.effect else { continue };
        assert!(admitted.contains(changed), "{}", row.cpus);
        let text = extra(changed);
        if errata::ADVICE.iter().any(|(advice, _)| *advice == changed) {
            assert_eq!(text, plain, "{}: a matter of the caller", row.erratum);
            continue;
        }
        let expected = match changed {
            errata::ICACHE_AFTER_LOAD => "ttbr0 7:0x5000; isb; ic iallu; dsb nsh; isb",
            errata::TAG_AND_ROOT_APART => "ttbr0 7:0x1000; isb; ttbr0 7:0x5000; isb",
            errata::REPEAT_BROADCAST => "tlbi vmallis; dsb ish; tlbi valis 0x0; dsb ish; isb",
            other => panic!("{}: {other:?} has no expectation here", row.erratum),
        };
        assert!(text.contains(expected), "{}: {text}", row.erratum);
        assert!(!plain.contains(expected), "{}", row.erratum);
    }
}

#[test]
fn asid_15_vmids_have_their_own_register_width_and_flush() {
    let none = Errata::NONE;
    let c = stage2_config();
    guests(c, |s| assert_eq!((s.properties().tag_bits, s.properties().broadcasts), (16, true)), "");
    guests(c, |s| s.settle(), "dsb ish; isb");
    guests(c, |s| s.park(none), "ttbr0 0:0x2000; isb");
    let load = |held| {
        move |s: &Stage2<&Recorder>| {
            // SAFETY: no hardware walks this root.
            unsafe { s.load(none, GUEST, Tag(300), held, Sharing::Shared) };
        }
    };
    guests(c, load(Held::Keep), "ttbr0 300:0x8000; isb");
    // The VMID is named over the reserved root, so that the flush by VMID means it.
    guests(
        c,
        load(Held::Drop),
        "ttbr0 300:0x2000; isb; tlbi vmalls12; dsb nsh; isb; ttbr0 300:0x8000; isb",
    );
    guests(
        c,
        |s| s.flush(none, Invalidation::All, Scope::Local),
        "dsb nshst; tlbi alle1; dsb nsh; isb",
    );
    guests(
        c,
        |s| s.flush(none, Invalidation::All, Scope::Broadcast),
        "dsb ishst; tlbi alle1is; dsb ish; isb",
    );
    guests(
        c,
        |s| s.flush(none, Invalidation::Tag(Tag(3)), Scope::Local),
        "dsb nshst; tlbi alle1; dsb nsh; isb",
    );
    guests(
        c,
        |s| s.flush(none, Invalidation::Tag(Tag(3)), Scope::Broadcast),
        "dsb ishst; tlbi alle1is; dsb ish; isb",
    );
    guests(c, |s| s.flush_current_broadcast(none), "dsb ishst; tlbi vmalls12is; dsb ish; isb");
    let shared = Stage2Config { sharing: Sharing::Shared, ..c };
    guests(shared, load(Held::Keep), "ttbr0 300:0x8000 +cnp; isb");
}

#[test]
fn asid_15_errata_hold_for_guests_too() {
    guests(
        stage2_config(),
        |s| s.flush_current_broadcast(errata::REPEAT_BROADCAST),
        "dsb ishst; tlbi vmalls12is; dsb ish; tlbi valis 0x0; dsb ish; isb",
    );
    guests(
        stage2_config(),
        |s| s.park(errata::ICACHE_AFTER_LOAD),
        "ttbr0 0:0x2000; isb; ic iallu; dsb nsh; isb",
    );
}
