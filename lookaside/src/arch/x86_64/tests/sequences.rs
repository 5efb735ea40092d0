//! The instructions of every operation in every configuration, written out.

extern crate std;

use std::vec::Vec;

use super::{
    super::{Config, Features, Tables, Use, UserFlush, X86, cr3},
    BROADCASTING, FULL, NO_INVPCID, NO_PCID, PLAIN,
    cpu::{Cpu, Did, PCIDE, PGE},
};
use crate::arch::{Errata, Held, Invalidation, Mmu, Root, Scope, Sharing, Tag};

pub(super) const ROOT: Root = Root::new(0x5_0000);
pub(super) const PAIR: Root = Root { table: 0x5_0000, user_table: 0x5_1000 };
pub(super) const TAG: Tag = Tag(5);

pub(super) const OFF: Config = Config { pcids: Use::Never, ..PLAIN };
pub(super) const AT_EXIT: Config = Config { tables: Tables::Separate(UserFlush::AtExit), ..PLAIN };
pub(super) const ON_LOAD: Config = Config { tables: Tables::Separate(UserFlush::OnLoad), ..PLAIN };

pub(super) fn x86<'c>(cpu: &'c Cpu, features: &Features, config: Config) -> X86<&'c Cpu> {
    X86::new(cpu, features, config).unwrap()
}

/// The sequence of one operation on a CPU that runs `TAG`, or tag 0 where there is no other.
pub(super) fn emitted(
    features: Features,
    config: Config,
    operation: impl Fn(&X86<&Cpu>),
) -> Vec<Did> {
    let mut cpu = Cpu::new(features);
    let mut tag = TAG;
    if !features.pcid || config.pcids == Use::Never {
        cpu = cpu.without_pcide();
        tag = Tag::RESERVED;
    }
    let x86 = x86(&cpu, &features, config);
    // SAFETY: no hardware walks this root.
    unsafe { x86.load(Errata::NONE, PAIR, tag, Held::Drop, Sharing::Private) };
    cpu.did();
    operation(&x86);
    cpu.did()
}

fn load(held: Held, tag: Tag) -> impl Fn(&X86<&Cpu>) {
    // SAFETY: no hardware walks this root.
    move |x86| unsafe { x86.load(Errata::NONE, ROOT, tag, held, Sharing::Private) }
}

const CR4: u64 = PGE | PCIDE;
pub(super) const TOGGLE: [Did; 2] = [Did::Cr4(PCIDE), Did::Cr4(CR4)];

#[test]
fn pcid_10_how_many_tags_there_are() {
    for (features, config, bits) in [
        (FULL, PLAIN, 12),
        (NO_INVPCID, PLAIN, 12),
        (FULL, AT_EXIT, 11),
        (FULL, ON_LOAD, 11),
        (NO_PCID, PLAIN, 0),
        (NO_PCID, AT_EXIT, 0),
        (FULL, OFF, 0),
        (FULL, Config { tables: AT_EXIT.tables, ..OFF }, 0),
    ] {
        let cpu = Cpu::new(features);
        let x86 = x86(&cpu, &features, config);
        assert_eq!(x86.properties().tag_bits, bits, "{features:?} {config:?}");
        assert_eq!(x86.properties().sharing, Sharing::Private);
        assert!(!x86.properties().broadcasts);
    }
}

#[test]
fn pcid_03_load_keeps_only_what_it_is_told_to_keep() {
    for features in [FULL, NO_INVPCID] {
        assert_eq!(
            emitted(features, PLAIN, load(Held::Keep, TAG)),
            [Did::Cr3(0x8000_0000_0005_0005)]
        );
        assert_eq!(emitted(features, PLAIN, load(Held::Drop, TAG)), [Did::Cr3(0x5_0005)]);
        assert_eq!(emitted(features, PLAIN, load(Held::Drop, Tag(0xfff))), [Did::Cr3(0x5_0fff)]);
    }
}

#[test]
fn pcid_10_without_pcids_every_load_flushes() {
    for (features, config) in [(NO_PCID, PLAIN), (FULL, OFF), (NO_PCID, ON_LOAD)] {
        for held in [Held::Keep, Held::Drop] {
            assert_eq!(emitted(features, config, load(held, Tag::RESERVED)), [Did::Cr3(0x5_0000)]);
        }
    }
}

#[test]
fn a_pair_is_dropped_in_both_halves() {
    let half = Did::Invpcid(1, [0x805, 0]);
    let drop = load(Held::Drop, TAG);
    assert_eq!(emitted(FULL, AT_EXIT, &drop), [Did::Cr3(0x5_0005)]);
    assert_eq!(emitted(FULL, ON_LOAD, &drop), [Did::Cr3(0x5_0005), Did::Mfence, half]);
    assert_eq!(emitted(NO_INVPCID, ON_LOAD, &drop), [Did::Cr3(0x5_0005), TOGGLE[0], TOGGLE[1]]);
    for config in [AT_EXIT, ON_LOAD] {
        let keep = load(Held::Keep, TAG);
        assert_eq!(emitted(FULL, config, keep), [Did::Cr3(0x8000_0000_0005_0005)]);
        let flush = |x86: &X86<&Cpu>| x86.flush_user_half(TAG);
        assert_eq!(emitted(FULL, config, flush), [Did::Mfence, half]);
        assert_eq!(emitted(NO_INVPCID, config, flush), TOGGLE);
    }
    assert_eq!(emitted(FULL, PLAIN, |x86| x86.flush_user_half(TAG)), []);
}

#[test]
fn the_exit_to_user_mode_names_the_user_half() {
    let cpu = Cpu::new(FULL);
    for config in [AT_EXIT, ON_LOAD] {
        let x86 = x86(&cpu, &FULL, config);
        assert_eq!(x86.user_cr3(PAIR, TAG, Held::Keep), 0x8000_0000_0005_1805);
        assert_eq!(x86.user_cr3(PAIR, TAG, Held::Drop), 0x5_1805);
        assert_eq!(x86.kernel_cr3(PAIR, TAG), 0x8000_0000_0005_0005);
    }
    let one = x86(&cpu, &FULL, PLAIN);
    assert_eq!(one.user_cr3(PAIR, TAG, Held::Keep), 0x8000_0000_0005_0005);
    let off = x86(&cpu, &FULL, Config { tables: AT_EXIT.tables, ..OFF });
    assert_eq!(off.user_cr3(PAIR, Tag::RESERVED, Held::Keep), 0x5_1000);
    assert_eq!(off.kernel_cr3(PAIR, Tag::RESERVED), 0x5_0000);
}

#[test]
fn pcid_10_park_keeps_what_the_reserved_root_maps() {
    const KEPT: u64 = 0x8000_0000_0000_1000;
    for (features, config, cr3) in [
        (FULL, PLAIN, KEPT),
        (NO_INVPCID, PLAIN, KEPT),
        (FULL, AT_EXIT, KEPT),
        (NO_PCID, PLAIN, 0x1000),
        (FULL, OFF, 0x1000),
    ] {
        assert_eq!(emitted(features, config, |x86| x86.park(Errata::NONE)), [Did::Cr3(cr3)]);
        // The other one drops it.
        let dropped = emitted(features, config, |x86| x86.park_and_drop(Errata::NONE));
        assert_eq!(dropped, [Did::Cr3(0x1000)]);
    }
}

#[test]
fn pcid_10_flush_all() {
    let flush = |x86: &X86<&Cpu>| x86.flush(Errata::NONE, Invalidation::All, Scope::Local);
    let type_3 = [Did::Mfence, Did::Invpcid(3, [0, 0])];
    assert_eq!(emitted(FULL, PLAIN, flush), type_3);
    assert_eq!(emitted(FULL, AT_EXIT, flush), type_3);
    assert_eq!(emitted(FULL, OFF, flush), type_3);
    assert_eq!(emitted(NO_INVPCID, PLAIN, flush), TOGGLE);
    assert_eq!(emitted(NO_INVPCID, ON_LOAD, flush), TOGGLE);
    assert_eq!(emitted(NO_PCID, PLAIN, flush), [Did::Cr3(0x5_0000)]);
    assert_eq!(emitted(NO_INVPCID, OFF, flush), [Did::Cr3(0x5_0000)]);
}

#[test]
fn pcid_10_flush_tag() {
    let current = |x86: &X86<&Cpu>| x86.flush(Errata::NONE, Invalidation::Tag(TAG), Scope::Local);
    let other = |x86: &X86<&Cpu>| x86.flush(Errata::NONE, Invalidation::Tag(Tag(6)), Scope::Local);
    let only =
        |x86: &X86<&Cpu>| x86.flush(Errata::NONE, Invalidation::Tag(Tag::RESERVED), Scope::Local);
    let fence = Did::Mfence;
    assert_eq!(emitted(FULL, PLAIN, current), [Did::Cr3(0x5_0005)]);
    assert_eq!(
        emitted(FULL, AT_EXIT, current),
        [Did::Cr3(0x5_0005), fence, Did::Invpcid(1, [0x805, 0])]
    );
    assert_eq!(emitted(FULL, PLAIN, other), [fence, Did::Invpcid(1, [6, 0])]);
    assert_eq!(
        emitted(FULL, AT_EXIT, other),
        [fence, Did::Invpcid(1, [6, 0]), Did::Invpcid(1, [0x806, 0])]
    );
    assert_eq!(emitted(NO_INVPCID, PLAIN, current), [Did::Cr3(0x5_0005)]);
    assert_eq!(emitted(NO_INVPCID, PLAIN, other), TOGGLE);
    assert_eq!(emitted(NO_INVPCID, AT_EXIT, current), TOGGLE);
    assert_eq!(emitted(NO_PCID, PLAIN, only), [Did::Cr3(0x5_0000)]);
    assert_eq!(emitted(FULL, OFF, only), [fence, Did::Invpcid(3, [0, 0])]);
}

#[test]
fn the_toggle_puts_back_what_it_found() {
    let cpu = Cpu::new(NO_INVPCID);
    cpu.cr4.set(PCIDE);
    x86(&cpu, &NO_INVPCID, PLAIN).flush(Errata::NONE, Invalidation::All, Scope::Local);
    assert_eq!(cpu.did(), [Did::Cr4(CR4), Did::Cr4(PCIDE)]);
}

#[test]
fn settling_executes_nothing_and_waiting_for_broadcasts_nothing_where_there_are_none() {
    let never = Config { invlpgb: Use::Never, ..PLAIN };
    let complete = |x86: &X86<&Cpu>| x86.complete_broadcast(Errata::NONE);
    for (features, config) in
        [(FULL, PLAIN), (NO_INVPCID, PLAIN), (NO_PCID, PLAIN), (FULL, OFF), (BROADCASTING, never)]
    {
        assert_eq!(emitted(features, config, complete), []);
    }
    assert_eq!(emitted(BROADCASTING, PLAIN, complete), [Did::Tlbsync]);
    assert_eq!(emitted(BROADCASTING, PLAIN, |x86| x86.settle()), []);
}

#[test]
fn broadcasts() {
    let (fence, sync) = (Did::Mfence, Did::Tlbsync);
    let all = |x86: &X86<&Cpu>| x86.flush(Errata::NONE, Invalidation::All, Scope::Broadcast);
    let tag = |x86: &X86<&Cpu>| x86.flush(Errata::NONE, Invalidation::Tag(TAG), Scope::Broadcast);
    let only = |x86: &X86<&Cpu>| {
        x86.flush(Errata::NONE, Invalidation::Tag(Tag::RESERVED), Scope::Broadcast)
    };
    let everything = [fence, Did::Invlpgb(4, 0, 0), sync];
    assert_eq!(emitted(BROADCASTING, PLAIN, all), everything);
    assert_eq!(emitted(BROADCASTING, OFF, all), everything);
    assert_eq!(emitted(BROADCASTING, OFF, only), everything);
    assert_eq!(emitted(BROADCASTING, PLAIN, tag), [fence, Did::Invlpgb(6, 0, 0x5_0000), sync]);
    assert_eq!(
        emitted(BROADCASTING, AT_EXIT, tag),
        [fence, Did::Invlpgb(6, 0, 0x5_0000), Did::Invlpgb(6, 0, 0x805_0000), sync]
    );
}

#[test]
fn pcid_07_the_register_is_compared_root_and_tag() {
    let cpu = Cpu::new(FULL);
    let x86 = x86(&cpu, &FULL, PLAIN);
    for held in [Held::Drop, Held::Keep] {
        // SAFETY: no hardware walks this root.
        unsafe { x86.load(Errata::NONE, ROOT, TAG, held, Sharing::Private) };
        assert!(x86.hardware_matches(ROOT, TAG));
        assert!(!x86.hardware_matches(ROOT, Tag(6)));
        assert!(!x86.hardware_matches(Root::new(0x6_0000), TAG));
    }
    // A driver that knows nothing of PCIDs puts back the root alone.
    cpu.cr3.set(cpu.cr3.get() & cr3::ROOT_MASK);
    assert!(!x86.hardware_matches(ROOT, TAG));
    x86.park(Errata::NONE);
    assert!(x86.hardware_matches(Root::new(0x1000), Tag::RESERVED));
}

#[test]
fn pcid_10_set_up_makes_the_register_fit_the_configuration() {
    let (fence, all) = (Did::Mfence, Did::Invpcid(2, [0, 0]));
    let cpu = Cpu::new(FULL).without_pcide();
    // As firmware may leave it: cached write-through.
    cpu.cr3.set(0x9_0008);
    x86(&cpu, &FULL, PLAIN).set_up_cpu();
    assert_eq!(cpu.did(), [Did::Cr3(0x9_0000), Did::Cr4(CR4), fence, all]);
    x86(&cpu, &FULL, PLAIN).set_up_cpu();
    assert_eq!(cpu.did(), [fence, all]);
    cpu.cr3.set(0x9_0007);
    x86(&cpu, &FULL, OFF).set_up_cpu();
    assert_eq!(cpu.did(), [Did::Cr3(0x9_0000), Did::Cr4(PGE), fence, all]);

    let old = Cpu::new(NO_PCID);
    x86(&old, &NO_PCID, PLAIN).set_up_cpu();
    assert_eq!(old.did(), [Did::Cr4(0), Did::Cr4(PGE)]);
}
