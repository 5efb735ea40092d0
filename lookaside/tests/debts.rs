//! The recent strategy against hardware that keeps all it may: whatever is flushed, by page or by
//! tag, sooner or later, no CPU runs a space with an entry that was revoked before.

#[macro_use]
#[path = "support/idle.rs"]
mod idle;

use core::{
    cell::{Cell, RefCell},
    sync::atomic::AtomicU64,
};
use std::collections::{BTreeMap, BTreeSet};

use lookaside::{
    Cpu, CpuId, Debt, Here, Platform, Recent, Space, Stretch, Switched, Tlb, VaRange, Word,
    arch::{Depth, Errata, Held, Mmu, Root, Sharing, Tag},
};
use proptest::prelude::*;

const CPUS: u32 = 2;
const SPACES: u64 = 4;
/// Pages of each space that are mapped.
const PAGES: u64 = 4;

/// An entry: which page of which space, and how often the page had been revoked when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    tag: u16,
    table: u64,
    page: u64,
    version: u64,
}

#[derive(Default)]
struct Core {
    named: Option<(u64, u16)>,
    entries: BTreeSet<Entry>,
    flushes: usize,
}

struct Machine {
    cores: [RefCell<Core>; CPUS as usize],
    /// How often each page of each table was revoked.
    versions: RefCell<BTreeMap<(u64, u64), u64>>,
    cpu: Cell<u32>,
}

impl Machine {
    fn act(&self, f: impl FnOnce(&mut Core)) {
        let mut core = self.cores[self.cpu.get() as usize].borrow_mut();
        f(&mut core);
        drop(core);
        self.walk();
    }

    /// Every walker fetches all that it can.
    fn walk(&self) {
        for core in &self.cores {
            let mut core = core.borrow_mut();
            let Some((table, tag)) = core.named else { continue };
            for page in 0..PAGES {
                let version = self.version(table, page);
                core.entries.insert(Entry { tag, table, page, version });
            }
        }
    }

    fn version(&self, table: u64, page: u64) -> u64 {
        self.versions.borrow().get(&(table, page)).copied().unwrap_or(0)
    }

    fn revoke(&self, table: u64, pages: core::ops::Range<u64>) {
        for page in pages {
            *self.versions.borrow_mut().entry((table, page)).or_default() += 1;
        }
        self.walk();
    }

    /// The entries that `cpu` can use now and must not.
    fn wrong(&self, cpu: u32) -> Vec<Entry> {
        let core = self.cores[cpu as usize].borrow();
        let Some((table, tag)) = core.named else { return Vec::new() };
        let used = core.entries.iter().filter(|entry| entry.tag == tag);
        used.filter(|e| e.table != table || e.version != self.version(table, e.page))
            .copied()
            .collect()
    }
}

struct Host {
    machine: Machine,
}

// SAFETY: there is one thread, which is one CPU at a time.
unsafe impl Platform for Host {
    type Word = AtomicU64;
    type Mmu = Machine;

    fn mmu(&self) -> &Machine {
        &self.machine
    }

    fn cpu(&self) -> CpuId {
        CpuId(self.machine.cpu.get())
    }

    fn interrupt(&self, _: lookaside::Targets) {}

    fn relax(&self) {}
}

impl Mmu for Machine {
    idle_admission!();
    idle_kernel!();

    fn tag_bits(&self) -> u32 {
        12
    }

    fn broadcasts(&self) -> bool {
        false
    }

    fn load(&self, _: Errata, root: Root, tag: Tag, held: Held, _: Sharing) {
        self.act(|core| {
            core.named = Some((root.table, tag.0));
            if held == Held::Drop {
                core.entries.retain(|entry| entry.tag != tag.0);
                core.flushes += 1;
            }
        });
    }

    fn park(&self, _: Errata) {
        self.act(|core| core.named = None);
    }

    fn flush_all(&self, _: Errata) {
        self.act(|core| core.entries.clear());
    }

    fn flush_tag(&self, _: Errata, tag: Tag) {
        self.act(|core| {
            core.entries.retain(|entry| entry.tag != tag.0);
            core.flushes += 1;
        });
    }

    fn flush_all_everywhere(&self, _: Errata) {}

    fn flush_tag_everywhere(&self, _: Errata, _: Tag) {}

    fn names(&self, root: Root, tag: Tag) -> bool {
        let core = self.cores[self.cpu.get() as usize].borrow();
        core.named == Some((root.table, tag.0))
    }

    fn flush_stretches(&self, _: Errata, tag: Tag, stretches: &[Stretch], _: Depth) {
        for Stretch { range, .. } in stretches {
            let first = range.start() >> 12;
            let pages = first..first + range.pages();
            self.act(|core| {
                core.entries.retain(|entry| entry.tag != tag.0 || !pages.contains(&entry.page));
                core.flushes += 1;
            });
        }
    }
}

type Books<const SLOTS: usize> = Tlb<'static, Host, Recent<SLOTS>>;

fn words(count: usize) -> &'static [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::ZERO).collect())
}

fn books<const SLOTS: usize>() -> (Books<SLOTS>, Vec<Space<'static, Host>>) {
    let host = Host {
        machine: Machine {
            cores: Default::default(),
            versions: RefCell::default(),
            cpu: Cell::new(0),
        },
    };
    let cpus = Vec::leak((0..CPUS).map(|_| Cpu::new()).collect());
    let tlb = Tlb::new(host, Recent::new(), cpus).unwrap();
    for cpu in 0..CPUS {
        on(&tlb, cpu, |here| here.online(&()).unwrap());
    }
    // SAFETY: no hardware walks these roots.
    let space = |number| unsafe { tlb.space(Root::new(number << 12), words(1)) }.unwrap();
    let spaces = (1..=SPACES).map(space).collect();
    (tlb, spaces)
}

fn on<const SLOTS: usize, R>(
    tlb: &Books<SLOTS>,
    cpu: u32,
    f: impl FnOnce(Here<'_, Host, Recent<SLOTS>>) -> R,
) -> R {
    tlb.platform().machine.cpu.set(cpu);
    // SAFETY: the test's one thread is a CPU without interrupts.
    f(unsafe { tlb.here() }.unwrap())
}

/// Something that a kernel does.
#[derive(Clone, Debug)]
enum Step {
    Switch {
        cpu: u32,
        space: usize,
    },
    Lazy {
        cpu: u32,
    },
    Park {
        cpu: u32,
    },
    /// Pages are revoked, and the CPUs that must know are interrupted, twice.
    Revoke {
        space: usize,
        first: u64,
        pages: u64,
        everything: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let cpu = 0..CPUS;
    let space = 0..SPACES as usize;
    prop_oneof![
        4 => (cpu.clone(), space.clone()).prop_map(|(cpu, space)| Step::Switch { cpu, space }),
        1 => cpu.clone().prop_map(|cpu| Step::Lazy { cpu }),
        1 => cpu.prop_map(|cpu| Step::Park { cpu }),
        4 => (space, 0..PAGES, 1..=PAGES, any::<bool>()).prop_map(
            |(space, first, pages, everything)| {
                Step::Revoke { space, first, pages: pages.min(PAGES - first), everything }
            }
        ),
    ]
}

fn play<const SLOTS: usize>(steps: &[Step]) {
    let (tlb, spaces) = books::<SLOTS>();
    let machine = &tlb.platform().machine;
    // CPUs that run only kernel code may hold what was revoked, until they come back.
    let mut lazy = [false; CPUS as usize];
    for step in steps {
        match *step {
            Step::Switch { cpu, space } => {
                let _ = on(&tlb, cpu, |here| here.switch(&spaces[space]));
                lazy[cpu as usize] = false;
            }
            Step::Lazy { cpu } => {
                on(&tlb, cpu, |here| here.lazy());
                lazy[cpu as usize] = true;
            }
            Step::Park { cpu } => {
                let _ = on(&tlb, cpu, |here| here.park());
                lazy[cpu as usize] = false;
            }
            Step::Revoke { space, first, pages, everything } => {
                let space = &spaces[space];
                machine.revoke(space.root().table, first..first + pages);
                let debt = if everything {
                    Debt::Everything
                } else {
                    Debt::Pages(VaRange::new(first << 12, pages << 12, 12).unwrap())
                };
                space.owe(debt);
                for cpu in tlb.debtors(space, debt).collect::<Vec<_>>() {
                    on(&tlb, cpu.0, |here| here.pay(space));
                    on(&tlb, cpu.0, |here| here.pay(space));
                }
            }
        }
        for cpu in (0..CPUS).filter(|&cpu| !lazy[cpu as usize]) {
            assert_eq!(machine.wrong(cpu), [], "CPU {cpu} after {step:?}");
        }
    }
}

proptest! {
    #[test]
    fn pcid_09_whatever_is_flushed_nothing_is_recorded_that_was_not_paid(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        play::<2>(&steps);
        play::<6>(&steps);
    }
}

#[test]
fn pcid_09_paying_more_than_is_owed_changes_nothing() {
    let (tlb, spaces) = books::<6>();
    let flushes = || tlb.platform().machine.cores[0].borrow().flushes;
    let _ = on(&tlb, 0, |here| here.switch(&spaces[0]));
    let _ = on(&tlb, 0, |here| here.switch(&spaces[1]));
    // The hardware loses entries by itself, or another part of the kernel flushes.
    tlb.platform().machine.cpu.set(0);
    tlb.platform().machine.flush_all(Errata::NONE);
    assert_eq!(on(&tlb, 0, |here| here.switch(&spaces[0])), Switched::Kept);
    spaces[0].owe(Debt::Everything);
    on(&tlb, 0, |here| here.pay(&spaces[0]));
    let before = flushes();
    for _ in 0..3 {
        on(&tlb, 0, |here| here.pay(&spaces[0]));
        assert_eq!(on(&tlb, 0, |here| here.switch(&spaces[0])), Switched::Unchanged);
    }
    assert_eq!(flushes(), before, "what is paid is not paid twice");
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "the root register was written by others")]
fn pcid_07_a_debug_build_notices_that_others_wrote_the_register() {
    let (tlb, spaces) = books::<6>();
    let _ = on(&tlb, 0, |here| here.switch(&spaces[0]));
    assert!(on(&tlb, 0, |here| here.register_is_ours()));
    // The right root under another tag.
    let held = Held::Keep;
    tlb.platform().machine.load(Errata::NONE, spaces[0].root(), Tag(7), held, Sharing::Private);
    assert!(!on(&tlb, 0, |here| here.register_is_ours()));
    let _ = on(&tlb, 0, |here| here.switch(&spaces[1]));
}
