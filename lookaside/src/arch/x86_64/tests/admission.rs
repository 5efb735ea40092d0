//! What is refused: machines, CPUs, roots and tags.

extern crate std;

use core::panic::AssertUnwindSafe;

use super::{
    super::{Config, Features, Levels, Pcid, X86, invlpgb::PageLimit},
    BROADCASTING, FULL, NO_INVPCID, PLAIN,
    cpu::{Cpu, PCIDE},
    sequences::{AT_EXIT, OFF, PAIR, ROOT, x86},
};
use crate::{
    Error,
    arch::{Errata, Held, Mmu, Root, Sharing, Tag},
};

#[test]
fn a_tag_that_does_not_fit_is_never_cut_off() {
    let refuses = |config: Config, tag: Tag| {
        let cpu = Cpu::new(FULL);
        let x86 = x86(&cpu, &FULL, config);
        // SAFETY: no hardware walks this root.
        let load = || unsafe { x86.load(Errata::NONE, ROOT, tag, Held::Drop, Sharing::Private) };
        std::panic::catch_unwind(AssertUnwindSafe(load)).is_err() && cpu.did().is_empty()
    };
    assert!(refuses(PLAIN, Tag(0x1000)));
    assert!(!refuses(PLAIN, Tag(0xfff)));
    assert!(refuses(AT_EXIT, Tag(0x800)), "0x800 is the user half of tag 0");
    assert!(!refuses(AT_EXIT, Tag(0x7ff)));
    assert!(refuses(OFF, Tag(1)));
}

#[test]
fn configs_that_the_boot_cpu_cannot_support_are_refused() {
    let cpu = Cpu::new(FULL);
    let refusal = |features: &Features, config| X86::new(&cpu, features, config).err();
    let five = Config { levels: Levels::Five, ..PLAIN };
    assert_eq!(refusal(&FULL, five), Some(Error::Unsupported("five levels of tables")));
    assert_eq!(refusal(&Features { la57: true, ..FULL }, five), None);
    let bare = Features { pge: false, ..NO_INVPCID };
    assert_eq!(refusal(&bare, PLAIN), Some(Error::Unsupported("INVPCID or CR4.PGE")));
    // Either is enough.
    assert_eq!(refusal(&Features { pge: false, ..FULL }, PLAIN), None);
    assert_eq!(refusal(&NO_INVPCID, PLAIN), None);
    for address in [0x1001, 1 << 46] {
        let config = Config { reserved_root: address, ..PLAIN };
        assert_eq!(refusal(&FULL, config), Some(Error::BadRoot { address }));
    }
}

#[test]
fn a_cpu_that_is_admitted_has_pcids_on_if_and_only_if_the_machine_uses_them() {
    for (config, wanted) in [(PLAIN, PCIDE), (OFF, 0)] {
        let cpu = Cpu::new(FULL);
        let machine = x86(&cpu, &FULL, config);
        // The next one to come up, as firmware has left it.
        cpu.cr4.set(cpu.cr4.get() ^ PCIDE);
        assert_eq!(machine.admit(&FULL), Ok(Errata::NONE));
        assert_eq!(cpu.cr4.get() & PCIDE, wanted);
    }
}

#[test]
fn a_cpu_must_do_what_the_machine_relies_on() {
    let cpu = Cpu::new(FULL);
    let machine = x86(&cpu, &BROADCASTING, PLAIN);
    assert_eq!(machine.admit(&BROADCASTING), Ok(Errata::NONE));
    let without = |change: fn(&mut Features)| {
        let mut features = BROADCASTING;
        change(&mut features);
        machine.admit(&features).unwrap_err()
    };
    assert_eq!(without(|f| f.pcid = false), Error::FewerTagBits { machine: 12, cpu: 0 });
    assert_eq!(without(|f| f.invpcid = false), Error::MissingFeature("INVPCID"));
    for fewer in [None, PageLimit::new(7)] {
        let features = Features { invlpgb: fewer, ..BROADCASTING };
        assert!(matches!(machine.admit(&features), Err(Error::MissingFeature(_))));
    }
    assert!(matches!(without(|f| f.physical_bits = 45), Error::MissingFeature(_)));
    let more = Features { invlpgb: PageLimit::new(9), physical_bits: 52, ..BROADCASTING };
    assert_eq!(machine.admit(&more), Ok(Errata::NONE));

    let toggling = x86(&cpu, &NO_INVPCID, PLAIN);
    let no_pge = Features { pge: false, ..FULL };
    assert_eq!(toggling.admit(&no_pge), Err(Error::MissingFeature("CR4.PGE")));
    assert_eq!(toggling.admit(&NO_INVPCID), Ok(Errata::NONE));
    assert_eq!(x86(&cpu, &FULL, PLAIN).admit(&no_pge), Ok(Errata::NONE));
    assert_eq!(x86(&cpu, &FULL, OFF).admit(&Features { pcid: false, ..FULL }), Ok(Errata::NONE));

    let wide = Features { la57: true, ..FULL };
    let five = x86(&cpu, &wide, Config { levels: Levels::Five, ..PLAIN });
    assert_eq!(five.admit(&FULL), Err(Error::MissingFeature("five levels of tables")));
    assert_eq!(five.admit(&wide), Ok(Errata::NONE));
}

#[test]
fn both_tables_of_a_root_are_checked() {
    let cpu = Cpu::new(FULL);
    let x86 = x86(&cpu, &FULL, AT_EXIT);
    assert_eq!(x86.check_root(PAIR), Ok(()));
    for address in [0x5_1800, 1 << 46, 1 << 63] {
        let refusal = Err(Error::BadRoot { address });
        assert_eq!(x86.check_root(Root { table: address, ..PAIR }), refusal);
        assert_eq!(x86.check_root(Root { user_table: address, ..PAIR }), refusal);
    }
    assert_eq!(Pcid::RESERVED.get(), Tag::RESERVED.0);
}
