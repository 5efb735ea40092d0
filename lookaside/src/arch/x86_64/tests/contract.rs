//! What must be gone after each operation, whatever the instructions were, on a CPU that forgets no
//! more than it must, with a store to a table still in the store buffer when the operation begins.

extern crate std;

use core::cell::Cell;
use std::{collections::BTreeSet, vec::Vec};

use super::{
    super::{Config, Features, Tables, Use, UserFlush, X86},
    BROADCASTING, FULL, NO_INVPCID, NO_PCID, PLAIN,
    cpu::{Cpu, Did, Entry},
};
use crate::{
    VaRange,
    arch::{
        Errata, Held, Invalidation, Mmu, Root, Scope, Sharing, TableChange, Tag, Wait,
        errata::INVLPG_KEEPS_GLOBALS,
    },
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
        // SAFETY: no hardware walks this root.
        unsafe { x86.load(self.errata, ROOT, self.tags()[0], Held::Drop, Sharing::Private) };
        let mut held = BTreeSet::new();
        let pcids = self.tags().into_iter().flat_map(|tag| self.pcids(tag)).chain([0]);
        for pcid in pcids.collect::<Vec<_>>() {
            for page in PAGES {
                held.insert(Entry { pcid, page, global: false, upper: false });
                held.insert(Entry { pcid, page: page & !0x1f_ffff, global: false, upper: true });
            }
            held.insert(Entry { pcid, page: GLOBAL_PAGE, global: true, upper: false });
        }
        cpu.this_cpu.replace(held.clone());
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
            let cpu = case.run(|x86| x86.flush(case.errata, Invalidation::Tag(tag), Scope::Local));
            assert!(none(&cpu.this_cpu, case.of_tag(tag)), "{tag:?} {:?}", cpu.did());
        }
    }
}

#[test]
fn pcid_10_all_tags_are_gone_after_flushing_all() {
    for case in cases() {
        let cpu = case.run(|x86| x86.flush(case.errata, Invalidation::All, Scope::Local));
        assert!(none(&cpu.this_cpu, |entry| !entry.global), "{:?}", cpu.did());
        let cpu = case.run(|x86| x86.flush_all_and_global());
        assert!(cpu.this_cpu.borrow().is_empty(), "{:?}", cpu.did());
    }
}

#[test]
fn pcid_03_what_a_load_drops_is_gone_before_user_mode_runs() {
    for case in cases() {
        for tag in case.tags() {
            let cpu = case.run(|x86| {
                // SAFETY: no hardware walks this root.
                unsafe { x86.load(case.errata, ROOT, tag, Held::Drop, Sharing::Private) };
            });
            let deferred = case.config.tables == Tables::Separate(UserFlush::AtExit);
            let (kernel, user) = (case.pcids(tag)[0], *case.pcids(tag).last().unwrap());
            assert!(none(&cpu.this_cpu, |entry| !entry.global && entry.pcid == kernel));
            if !deferred {
                assert!(none(&cpu.this_cpu, case.of_tag(tag)), "{:?}", cpu.did());
            } else if kernel != user {
                // The flush is pending: this is what the documentation of the option warns of.
                assert!(!none(&cpu.this_cpu, case.of_tag(tag)), "no longer pending: say so");
            }
            // Leaving for user mode, with the pending flush.
            let x86 = X86::new(&cpu, &case.features, case.config).unwrap();
            let held = if deferred { Held::Drop } else { Held::Keep };
            super::super::Instructions::write_cr3(&&cpu, x86.user_cr3(ROOT, tag, held));
            assert!(none(&cpu.this_cpu, case.of_tag(tag)));
        }
    }
}

fn page(address: u64) -> VaRange {
    VaRange::new(address, 0x1000, 12).unwrap()
}

/// What a flush must remove of a page: what was translated, and how, if tables were unlinked.
fn revoked(change: TableChange, page: u64) -> impl Fn(&Entry) -> bool {
    move |entry| entry.serves(page) && (change == TableChange::FreedTables || !entry.upper)
}

#[test]
fn eco_m5_a_page_and_its_tables_are_gone_after_their_flush() {
    for case in cases() {
        for tag in case.tags() {
            let of_tag = case.of_tag(tag);
            for change in [TableChange::LastLevel, TableChange::FreedTables] {
                for at in PAGES {
                    let missed = revoked(change, at);
                    let cpu = case.run(|x86| {
                        x86.flush(
                            case.errata,
                            Invalidation::ranges(tag, &[page(at)], change),
                            Scope::Local,
                        )
                    });
                    let gone = |entry: &Entry| of_tag(entry) && missed(entry);
                    assert!(
                        none(&cpu.this_cpu, gone),
                        "{tag:?} {change:?} {at:#x} {:?}",
                        cpu.did()
                    );
                }
                let all = PAGES.map(page);
                let cpu = case.run(|x86| {
                    x86.flush(case.errata, Invalidation::ranges(tag, &all, change), Scope::Local)
                });
                let gone =
                    |e: &Entry| of_tag(e) && (change == TableChange::FreedTables || !e.upper);
                assert!(none(&cpu.this_cpu, gone), "{tag:?} {change:?} {:?}", cpu.did());
            }
        }
    }
}

#[test]
fn kernel_pages_are_gone_under_every_pcid() {
    for case in cases() {
        for change in [TableChange::LastLevel, TableChange::FreedTables] {
            let missed = revoked(change, GLOBAL_PAGE);
            let kernel = [page(GLOBAL_PAGE)];
            let cpu = case.run(|x86| {
                x86.flush(case.errata, Invalidation::kernel(&kernel, change), Scope::Local)
            });
            assert!(none(&cpu.this_cpu, &missed), "{change:?} {:?}", cpu.did());
            let cpu = case
                .run(|x86| x86.flush(case.errata, Invalidation::kernel(&[], change), Scope::Local));
            assert!(cpu.this_cpu.borrow().is_empty(), "{:?}", cpu.did());
            if case.features.invlpgb.is_some() {
                let cpu = case.run(|x86| {
                    x86.flush(case.errata, Invalidation::kernel(&kernel, change), Scope::Broadcast)
                });
                assert!(
                    none(&cpu.this_cpu, &missed) && none(&cpu.there, &missed),
                    "{:?}",
                    cpu.did()
                );
                let cpu = case.run(|x86| {
                    x86.flush(case.errata, Invalidation::kernel(&[], change), Scope::Broadcast)
                });
                assert!(cpu.this_cpu.borrow().is_empty() && cpu.there.borrow().is_empty());
            }
        }
    }
}

#[test]
fn kernel_pages_are_gone_where_they_can_be_used_and_elsewhere_it_is_said() {
    for case in cases() {
        let tags = case.tags();
        for (tag, parked) in tags.iter().map(|&tag| (tag, false)).chain([(Tag::RESERVED, true)]) {
            for change in [TableChange::LastLevel, TableChange::FreedTables] {
                let (missed, said) = (revoked(change, GLOBAL_PAGE), Cell::new([false; 2]));
                let cpu = case.run(|x86| {
                    if parked {
                        x86.park(case.errata);
                    }
                    let kernel = [page(GLOBAL_PAGE)];
                    let left = x86.flush_kernel_under(case.errata, tag, &kernel, change);
                    said.set([left.under_other_tags, left.in_user_half]);
                });
                let [under_other_tags, in_user_half] = said.get();
                let (own, user) = (case.pcids(tag)[0], *case.pcids(tag).last().unwrap());
                let stays = |entry: &Entry| {
                    let is_user = entry.pcid == user && user != own;
                    let is_other = entry.pcid != own && !is_user;
                    !entry.global && (is_user && in_user_half || is_other && under_other_tags)
                };
                let gone = |entry: &Entry| missed(entry) && !stays(entry);
                assert!(none(&cpu.this_cpu, gone), "{tag:?} {change:?} {:?}", cpu.did());
                let is_current = parked || tag == tags[0];
                assert!(is_current || !under_other_tags, "a foreign root is loaded");
            }
        }
    }
}

#[test]
fn what_is_held_of_the_reserved_root_is_gone_after_a_park_that_drops_it() {
    for case in cases() {
        let cpu = case.run(|x86| x86.park_and_drop(case.errata));
        assert!(none(&cpu.this_cpu, |entry| !entry.global && entry.pcid == 0), "{:?}", cpu.did());
    }
}

#[test]
fn a_kernel_that_is_global_loses_its_global_pages_and_all_tables() {
    for case in cases() {
        for change in [TableChange::LastLevel, TableChange::FreedTables] {
            let missed = revoked(change, GLOBAL_PAGE);
            let cpu = case.run(|x86| {
                // The promise: no entry of a kernel address belongs to one PCID.
                x86.insn
                    .this_cpu
                    .borrow_mut()
                    .retain(|e| e.global || e.upper || e.page != GLOBAL_PAGE);
                let x86 = X86::new(x86.insn, &case.features, case.config).unwrap();
                let x86 = x86.with_global_kernel();
                x86.flush(
                    case.errata,
                    Invalidation::kernel(&[page(GLOBAL_PAGE)], change),
                    Scope::Local,
                );
            });
            assert!(none(&cpu.this_cpu, missed), "{change:?} {:?}", cpu.did());
        }
    }
}

#[test]
fn broadcasts_reach_the_other_cpu() {
    let range = VaRange::new(0x4000, 0x4000, 12).unwrap();
    for case in cases().into_iter().filter(|case| case.features.invlpgb.is_some()) {
        let cpu = case.run(|x86| x86.flush(case.errata, Invalidation::All, Scope::Broadcast));
        assert!(
            none(&cpu.this_cpu, |entry| !entry.global) && none(&cpu.there, |entry| !entry.global)
        );
        for tag in case.tags() {
            let of_tag = case.of_tag(tag);
            let cpu =
                case.run(|x86| x86.flush(case.errata, Invalidation::Tag(tag), Scope::Broadcast));
            assert!(none(&cpu.this_cpu, &of_tag) && none(&cpu.there, &of_tag));
            for change in [TableChange::LastLevel, TableChange::FreedTables] {
                let gone = |e: &Entry| {
                    of_tag(e) && e.page < 0x8000 && (change == TableChange::FreedTables || !e.upper)
                };
                let (ranges, errata) = (&[range], case.errata);
                let entries = Invalidation::ranges(tag, ranges, change);
                for wait in [Wait::Now, Wait::Later] {
                    let cpu = case.run(|x86| match wait {
                        Wait::Now => x86.flush(errata, entries, Scope::Broadcast),
                        Wait::Later => {
                            x86.begin_broadcast(errata, entries);
                            x86.complete_broadcast(errata);
                        }
                    });
                    assert!(none(&cpu.this_cpu, gone) && none(&cpu.there, gone), "{:?}", cpu.did());
                }
            }
        }
    }
}

#[test]
fn later_is_not_now() {
    let cases = cases();
    let case = cases.iter().find(|case| case.features.invlpgb.is_some()).unwrap();
    let pending = case.run(|x86| {
        let (tag, page) = (case.tags()[0], [page(0x4000)]);
        x86.begin_broadcast(case.errata, Invalidation::ranges(tag, &page, TableChange::LastLevel));
        assert!(x86.insn.broadcast_pending());
        x86.complete_broadcast(case.errata);
    });
    assert!(!pending.broadcast_pending());
}

#[test]
fn operations_are_counted_as_they_are_executed() {
    let ranges = [
        page(0x4000),
        VaRange::new(0x40_0000, 37 << 12, 12).unwrap(),
        VaRange::new(0x40_0000, 0x60_0000, 21).unwrap(),
        VaRange::new(0x40_0000, 0x20_0000, 21).unwrap().mixed(),
        VaRange::new(0x4000_0000, 0x8000_0000, 30).unwrap(),
        VaRange::new(1 << 47, 0x1000, 12).unwrap(),
    ];
    for case in cases() {
        let tag = case.tags()[0];
        for range in ranges {
            for change in [TableChange::LastLevel, TableChange::FreedTables] {
                let (errata, ranges) = (case.errata, &[range]);
                let of_tag = Invalidation::Tag(tag);
                let whole = case.run(|x86| x86.flush(errata, of_tag, Scope::Local)).did();
                let entries = Invalidation::ranges(tag, ranges, change);
                let this_cpu = case.run(|x86| x86.flush(errata, entries, Scope::Local));
                let this_cpu = this_cpu.did();
                let cpu = case.run(|x86| x86.flush(case.errata, Invalidation::All, Scope::Local));
                let x86 = X86::new(&cpu, &case.features, case.config).unwrap();
                match x86.operations(&range, change, Scope::Local) {
                    Some(count) => assert_eq!(count, invalidations(&this_cpu)),
                    None => assert_eq!(this_cpu, whole),
                }
                if case.features.invlpgb.is_none() {
                    assert_eq!(x86.operations(&range, change, Scope::Broadcast), None);
                    continue;
                }
                let whole = case
                    .run(|x86| x86.flush(case.errata, Invalidation::Tag(tag), Scope::Broadcast))
                    .did();
                let entries = Invalidation::ranges(tag, ranges, change);
                let all = case.run(|x86| x86.flush(case.errata, entries, Scope::Broadcast));
                let all = all.did();
                match x86.operations(&range, change, Scope::Broadcast) {
                    Some(count) => assert_eq!(count, invalidations(&all)),
                    None => assert_eq!(all, whole),
                }
            }
        }
    }
}

/// How many of the instructions remove something by address, after the load with which a run begins.
fn invalidations(did: &[Did]) -> u64 {
    let counts = |did: &&Did| matches!(did, Did::Invlpg(_) | Did::Invpcid(0, _) | Did::Invlpgb(..));
    did.iter().filter(counts).count() as u64
}

#[test]
fn what_the_outgoing_thread_began_can_be_completed() {
    use super::super::Instructions;
    for case in cases() {
        case.run(|x86| {
            x86.insn.mfence();
            if case.features.invlpgb.is_some() {
                // Pre-empted between INVLPGB and TLBSYNC.
                let began = super::super::invlpgb::Operands::ALL_BUT_GLOBAL;
                x86.insn.invlpgb(began.rax, began.ecx, began.edx);
            }
            x86.complete_broadcast(case.errata);
        });
    }
}

#[test]
fn set_up_leaves_nothing_from_before() {
    for case in cases() {
        let cpu = case.run(|x86| x86.set_up_cpu());
        assert!(cpu.this_cpu.borrow().is_empty());
    }
}
