//! What must be gone after each operation, whatever the instructions were, on a CPU that forgets no
//! more than it must, with a store to a table still in the store buffer when the operation begins.

extern crate std;

use std::{collections::BTreeSet, vec::Vec};

use super::{
    super::{Config, Features, Tables, Use, UserFlush, X86, errata::INVLPG_KEEPS_GLOBALS},
    BROADCASTING, FULL, NO_INVPCID, NO_PCID, PLAIN,
    cpu::{Cpu, Entry},
};
use crate::{
    VaRange,
    arch::{Errata, Held, Mmu, Root, Sharing, Tag},
};

const PAGES: [u64; 3] = [0x4000, 0x7000, 0xffff_ffff_8000_0000];
const GLOBAL_PAGE: u64 = 0xffff_ffff_8000_0000;
const ROOT: Root = Root { table: 0x5_0000, user_table: 0x5_1000 };

/// One machine to test on.
struct Case {
    features: Features,
    config: Config,
    errata: Errata,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for features in [FULL, NO_INVPCID, NO_PCID, BROADCASTING] {
        for pcids in [Use::WherePresent, Use::Never] {
            for tables in [
                Tables::One,
                Tables::Separate(UserFlush::OnLoad),
                Tables::Separate(UserFlush::AtExit),
            ] {
                for errata in [Errata::NONE, INVLPG_KEEPS_GLOBALS] {
                    cases.push(Case {
                        features,
                        config: Config { pcids, tables, ..PLAIN },
                        errata,
                    });
                }
            }
        }
    }
    cases
}

impl Case {
    /// The PCIDs of a tag, decoded from the rule and not by the code under test.
    fn pcids(&self, tag: Tag) -> Vec<u16> {
        match (self.features.pcid && self.config.pcids == Use::WherePresent, self.config.tables) {
            (false, _) => [0].into(),
            (true, Tables::One) => [tag.0].into(),
            (true, Tables::Separate(_)) => [tag.0, tag.0 + 0x800].into(),
        }
    }

    fn tags(&self) -> Vec<Tag> {
        if self.pcids(Tag(1)) == [0] { [Tag(0)].into() } else { [1, 2, 3].map(Tag).into() }
    }

    /// Runs `operation` on a CPU that runs the first tag and may hold anything, with a store in its
    /// buffer; returns the CPU for inspection.
    fn run(&self, operation: impl Fn(&X86<&Cpu>)) -> Cpu {
        let mut cpu = Cpu::new(self.features);
        if self.errata != Errata::NONE {
            cpu = cpu.with_keeping_invlpg();
        }
        if self.pcids(Tag(1)) == [0] {
            cpu = cpu.without_pcide();
        }
        let x86 = X86::new(&cpu, &self.features, self.config).unwrap();
        x86.load(self.errata, ROOT, self.tags()[0], Held::Drop, Sharing::Private);
        let mut held = BTreeSet::new();
        let pcids = self.tags().into_iter().flat_map(|tag| self.pcids(tag)).chain([0]);
        for pcid in pcids.collect::<Vec<_>>() {
            for page in PAGES {
                held.insert(Entry { pcid, page, global: false });
                held.insert(Entry { pcid, page: GLOBAL_PAGE, global: true });
            }
        }
        cpu.here.replace(held.clone());
        cpu.there.replace(held);
        cpu.store_waits.set(true);
        operation(&x86);
        assert!(!cpu.store_waits.get(), "the store is still in the buffer");
        assert!(!cpu.broadcast_pending(), "a broadcast may not have arrived");
        cpu
    }

    fn of_tag(&self, tag: Tag) -> impl Fn(&Entry) -> bool {
        let pcids = self.pcids(tag);
        move |entry| !entry.global && pcids.contains(&entry.pcid)
    }
}

fn none(set: &core::cell::RefCell<BTreeSet<Entry>>, gone: impl Fn(&Entry) -> bool) -> bool {
    !set.borrow().iter().any(gone)
}

#[test]
fn pcid_10_a_tag_is_gone_after_its_flush() {
    for case in cases() {
        for tag in case.tags() {
            let cpu = case.run(|x86| x86.flush_tag(case.errata, tag));
            assert!(none(&cpu.here, case.of_tag(tag)), "{tag:?} {:?}", cpu.did());
        }
    }
}

#[test]
fn pcid_10_all_tags_are_gone_after_flushing_all() {
    for case in cases() {
        let cpu = case.run(|x86| x86.flush_all(case.errata));
        assert!(none(&cpu.here, |entry| !entry.global), "{:?}", cpu.did());
        let cpu = case.run(|x86| x86.flush_all_and_global());
        assert!(cpu.here.borrow().is_empty(), "{:?}", cpu.did());
    }
}

#[test]
fn pcid_03_what_a_load_drops_is_gone_before_user_mode_runs() {
    for case in cases() {
        for tag in case.tags() {
            let cpu = case.run(|x86| {
                x86.load(case.errata, ROOT, tag, Held::Drop, Sharing::Private);
            });
            let deferred = case.config.tables == Tables::Separate(UserFlush::AtExit);
            let (kernel, user) = (case.pcids(tag)[0], *case.pcids(tag).last().unwrap());
            assert!(none(&cpu.here, |entry| !entry.global && entry.pcid == kernel));
            if !deferred {
                assert!(none(&cpu.here, case.of_tag(tag)), "{:?}", cpu.did());
            } else if kernel != user {
                // Owed: this is what the documentation of the option warns of.
                assert!(!none(&cpu.here, case.of_tag(tag)), "no longer owed: say so");
            }
            // Leaving for user mode with what was owed.
            let x86 = X86::new(&cpu, &case.features, case.config).unwrap();
            let held = if deferred { Held::Drop } else { Held::Keep };
            super::super::Instructions::write_cr3(&&cpu, x86.user_cr3(ROOT, tag, held));
            assert!(none(&cpu.here, case.of_tag(tag)));
        }
    }
}

#[test]
fn a_page_is_gone_after_its_flush() {
    for case in cases() {
        for tag in case.tags() {
            for page in PAGES {
                let cpu = case.run(|x86| x86.flush_page(case.errata, tag, page).unwrap());
                let of_tag = case.of_tag(tag);
                assert!(none(&cpu.here, |entry| of_tag(entry) && entry.page == page));
            }
        }
        let cpu = case.run(|x86| x86.flush_global_page(case.errata, GLOBAL_PAGE).unwrap());
        assert!(none(&cpu.here, |entry| entry.global), "{:?}", cpu.did());
    }
}

#[test]
fn broadcasts_reach_the_other_cpu() {
    let range = VaRange::new(0x4000, 0x4000, 12).unwrap();
    let kernel = VaRange::new(GLOBAL_PAGE, 0x20_0000, 21).unwrap();
    for case in cases().into_iter().filter(|case| case.features.invlpgb.is_some()) {
        let cpu = case.run(|x86| x86.flush_all_everywhere(case.errata));
        assert!(none(&cpu.here, |entry| !entry.global) && none(&cpu.there, |entry| !entry.global));
        let cpu = case.run(|x86| x86.flush_global_range_everywhere(&kernel).unwrap());
        assert!(none(&cpu.here, |entry| entry.global) && none(&cpu.there, |entry| entry.global));
        for tag in case.tags() {
            let cpu = case.run(|x86| x86.flush_tag_everywhere(case.errata, tag));
            assert!(none(&cpu.here, case.of_tag(tag)) && none(&cpu.there, case.of_tag(tag)));
            let cpu = case.run(|x86| x86.flush_range_everywhere(tag, &range).unwrap());
            let of_tag = case.of_tag(tag);
            let gone = |entry: &Entry| of_tag(entry) && entry.page < 0x8000;
            assert!(none(&cpu.here, gone) && none(&cpu.there, gone));
        }
    }
}

#[test]
fn settle_completes_what_the_outgoing_thread_began() {
    use super::super::Instructions;
    for case in cases() {
        case.run(|x86| {
            x86.insn.mfence();
            if case.features.invlpgb.is_some() {
                // Pre-empted between INVLPGB and TLBSYNC.
                let began = super::super::invlpgb::Operands::ALL_BUT_GLOBAL;
                x86.insn.invlpgb(began.rax, began.ecx, began.edx);
            }
            x86.settle();
        });
    }
}

#[test]
fn set_up_leaves_nothing_from_before() {
    for case in cases() {
        let cpu = case.run(|x86| x86.set_up_cpu());
        assert!(cpu.here.borrow().is_empty());
    }
}
