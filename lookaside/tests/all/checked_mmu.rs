//! Hardware that refuses loads which would mix translations, under allocators that never make it.

use core::sync::atomic::AtomicU64;

use lookaside::{
    AddressSpace, Cpu, GlobalAsids, PerCpuAsids, Platform, Tlb, VaRange,
    arch::{
        Errata, Held, Invalidation, KeptLoads, KernelEntriesLeft, Mmu as _, Properties, Root,
        Scope, Sharing, TableChange, Tag, Wait,
    },
    conformance::CheckedMmu,
    platform::{CpuId, Targets},
    tags::{GlobalAsidsConfig, Tags},
};
use lookaside_testkit::{COSTS, Hardware, TestMmu};

use crate::support::{on, this_cpu_number};

const CPUS: usize = 3;
const TAG_BITS: u32 = 4;

/// The hardware: nothing, with or without the bit by which CPUs use each other's entries.
#[derive(Clone, Copy)]
struct Shape {
    sharing: Sharing,
    broadcasts: bool,
}

impl Hardware for Shape {
    fn properties(&self) -> Properties {
        let Self { sharing, broadcasts } = *self;
        Properties { sharing, broadcasts, ..Properties::plain(TAG_BITS, &COSTS) }
    }
}

const ARM: Shape = Shape { sharing: Sharing::Private, broadcasts: true };
const ARM_WITH_CNP: Shape = Shape { sharing: Sharing::Shared, broadcasts: true };
const INTERRUPTS: Shape = Shape { sharing: Sharing::Private, broadcasts: false };

type Checked = CheckedMmu<'static, TestMmu<Shape>, AtomicU64>;

fn checked(shape: Shape) -> Checked {
    let words = (0..Checked::words_for(CPUS, TAG_BITS)).map(|_| AtomicU64::new(0));
    CheckedMmu::new(TestMmu(shape), Vec::leak(words.collect()), || CpuId(this_cpu_number()))
}

/// `cpu` loads a root, with entries kept.
fn load(mmu: &Checked, cpu: u32, table: u64, tag: u16, sharing: Sharing) {
    // SAFETY: there is no hardware.
    on(cpu, || unsafe { mmu.load(Errata::NONE, Root::new(table), Tag(tag), Held::Keep, sharing) });
}

const A: u64 = 0x1000;
const B: u64 = 0x2000;

/// Whether CPU 0 may load B under tag 5, which it loaded A under, after `between`.
fn takes_b_after(between: impl FnOnce(&Checked)) -> bool {
    let mmu = checked(ARM);
    load(&mmu, 0, A, 5, Sharing::Private);
    between(&mmu);
    std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        load(&mmu, 0, B, 5, Sharing::Private);
    }))
    .is_ok()
}

fn flush(mmu: &Checked, cpu: u32, entries: Invalidation<'_>, scope: Scope) {
    on(cpu, || mmu.flush(Errata::NONE, entries, scope));
}

#[test]
fn a_tag_is_anothers_after_a_flush_of_all_that_is_held_under_it() {
    let park = |mmu: &Checked| on(0, || mmu.park(Errata::NONE));
    let parked = |entries: Invalidation<'_>, by: u32, scope| {
        takes_b_after(|mmu| {
            park(mmu);
            flush(mmu, by, entries, scope);
        })
    };
    let kernel = Invalidation::kernel(&[], TableChange::FreedTables);
    for entries in [Invalidation::All, Invalidation::Tag(Tag(5)), kernel] {
        assert!(parked(entries, 0, Scope::Local) && parked(entries, 1, Scope::Broadcast));
        assert!(!parked(entries, 1, Scope::Local), "of another CPU");
    }
    assert!(!takes_b_after(|_| {}) && !takes_b_after(park));
    assert!(!parked(Invalidation::Tag(Tag(6)), 0, Scope::Local));
    let range = [VaRange::new(0x1000, 0x1000, 12).unwrap()];
    for part in [
        Invalidation::ranges(Tag(5), &range, TableChange::FreedTables),
        Invalidation::kernel(&range, TableChange::FreedTables),
    ] {
        assert!(!parked(part, 0, Scope::Local), "{part:?}");
    }
    let begun = |mmu: &Checked| {
        park(mmu);
        mmu.begin_broadcast(Errata::NONE, Invalidation::Tag(Tag(5)));
        mmu.complete_broadcast(Errata::NONE);
    };
    assert!(takes_b_after(begun));
    for (ranges, all) in [(&[][..], true), (&range, false)] {
        let flushed = takes_b_after(|mmu| {
            park(mmu);
            let change = TableChange::FreedTables;
            let _ = on(0, || mmu.flush_kernel_under(Errata::NONE, Tag(0), ranges, change));
        });
        assert_eq!(flushed, all);
    }
    let dropped = takes_b_after(|mmu| {
        on(0, || mmu.park_and_drop(Errata::NONE));
        flush(mmu, 0, Invalidation::Tag(Tag(5)), Scope::Local);
    });
    assert!(dropped, "the register names the tag no more");
}

#[test]
fn what_a_cpu_runs_it_walks_again_after_a_flush() {
    let flushed = |mmu: &Checked| flush(mmu, 0, Invalidation::All, Scope::Broadcast);
    assert!(!takes_b_after(flushed), "A was loaded until now");
    let foreign = |mmu: &Checked| {
        flushed(mmu);
        // SAFETY: there is no hardware.
        on(0, || unsafe { mmu.load_foreign(Errata::NONE, Root::new(B)) });
    };
    assert!(!takes_b_after(foreign));
    let comes_up = |mmu: &Checked| {
        let _ = on(0, || mmu.admit(&()));
        flushed(mmu);
    };
    assert!(takes_b_after(comes_up), "a CPU that comes up has nothing loaded");
}

#[test]
fn a_table_that_was_freed_is_another_root_under_each_tag() {
    let mmu = checked(ARM);
    load(&mmu, 0, A, 5, Sharing::Private);
    on(0, || mmu.park(Errata::NONE));
    load(&mmu, 0, A, 5, Sharing::Private);
    on(0, || mmu.park(Errata::NONE));
    assert_eq!(mmu.checked_loads(), 2);
    mmu.root_freed(A);
    let again = core::panic::AssertUnwindSafe(|| load(&mmu, 0, A, 5, Sharing::Private));
    let error = std::panic::catch_unwind(again).unwrap_err();
    let said = error.downcast_ref::<String>().unwrap();
    assert!(said.ends_with("holds under it, of a root that was freed"), "{said}");
}

#[test]
fn entries_of_other_cpus_count_where_they_may_be_used() {
    let of_another = |sharing| {
        let mmu = checked(ARM_WITH_CNP);
        load(&mmu, 1, A, 5, sharing);
        let other = core::panic::AssertUnwindSafe(|| load(&mmu, 0, B, 5, sharing));
        std::panic::catch_unwind(other).is_ok()
    };
    assert!(of_another(Sharing::Private) && !of_another(Sharing::Shared));
}

struct Hw(Checked);

// SAFETY: the tests say which CPU they are, and nothing interrupts them.
unsafe impl Platform for Hw {
    type Word = AtomicU64;
    type Mmu = Checked;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = [AtomicU64; 1];

    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &Checked {
        &self.0
    }

    fn cpu(&self) -> CpuId {
        CpuId(this_cpu_number())
    }

    fn irqs_are_off(&self) -> bool {
        true
    }

    fn send_ipi(&self, _: Targets) {}

    fn relax(&self) {
        panic!("nobody is waited for: no space runs on two CPUs when it is released");
    }
}

/// Spaces come and go on CPUs, each new one with the table of one that ended.
fn come_and_go<T: Tags<Hw>>(shape: Shape, tags: impl FnOnce(&Hw) -> T) {
    let hw = Hw(checked(shape));
    let tags = tags(&hw);
    let mut storage: Vec<_> = (0..CPUS).map(|_| Cpu::new()).collect();
    let tlb = Tlb::new(hw, tags, &mut storage).unwrap();
    for cpu in 0..CPUS as u32 {
        on(cpu, || tlb.online(&(), &()).unwrap());
    }
    let new = |number: usize| -> Box<AddressSpace<Hw>> {
        Box::new(tlb.space(Root::new((number as u64 + 1) << 12), [AtomicU64::new(0)]).unwrap())
    };
    let mut spaces: Vec<_> = (0..40).map(new).collect();
    let mut random = 1_u64;
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (cpu, number) = ((random >> 33) as u32 % 3, (random >> 40) as usize % spaces.len());
        if random >> 60 == 0 {
            // It ends where no CPU runs it.
            for cpu in 0..CPUS as u32 {
                let _ = on(cpu, || tlb.this_cpu(&()).park());
            }
            let _ = on(cpu, || tlb.this_cpu(&()).release(&mut spaces[number]));
            tlb.platform().0.root_freed((number as u64 + 1) << 12);
            spaces[number] = new(number);
        } else {
            let _ = on(cpu, || tlb.this_cpu(&()).switch(&spaces[number]));
        }
    }
    assert!(tlb.platform().0.checked_loads() > 10_000);
}

#[test]
fn allocators_give_no_tag_twice() {
    let config = GlobalAsidsConfig { tags: 16, ..Default::default() };
    let global = |hw: &Hw| {
        let words = (0..GlobalAsids::<Hw>::words_for(16)).map(|_| AtomicU64::new(0));
        GlobalAsids::new(hw, config, Vec::leak(words.collect())).unwrap()
    };
    for shape in [ARM, ARM_WITH_CNP, INTERRUPTS] {
        come_and_go(shape, global);
    }
    come_and_go(INTERRUPTS, |_| PerCpuAsids::<6>::new());
}

/// Hardware that keeps a log.
#[derive(Default)]
struct Logged(core::cell::RefCell<Vec<String>>);

impl Logged {
    fn log(&self, what: String) {
        self.0.borrow_mut().push(what);
    }
}

impl Hardware for Logged {
    fn settle(&self) {
        self.log("settle".into());
    }

    fn load(&self, root: Root, tag: Tag, held: Held) {
        self.log(format!("load {:#x} {} {held:?}", root.table, tag.0));
    }

    fn park(&self) {
        self.log("park".into());
    }

    fn flush(&self, entries: Invalidation<'_>, scope: Scope) {
        self.log(format!("flush {entries:?} {scope:?}"));
    }

    fn operations(&self, range: &VaRange, _: TableChange, _: Scope) -> Option<u64> {
        Some(range.pages() + 7)
    }
}

const LAST: TableChange = TableChange::LastLevel;
const LEFT_NOTHING: KernelEntriesLeft =
    KernelEntriesLeft { under_other_tags: false, in_user_half: false };

#[test]
fn all_of_it_reaches_the_hardware() {
    let words: Vec<_> = (0..CheckedMmu::<TestMmu<Logged>, AtomicU64>::words_for(1, 12))
        .map(|_| AtomicU64::new(0))
        .collect();
    let mmu = CheckedMmu::new(TestMmu(Logged::default()), &words, || CpuId(0));
    let did = |act: &dyn Fn()| {
        act();
        mmu.0.0.take().join(", ")
    };
    let (none, tag) = (Errata::NONE, Invalidation::Tag(Tag(3)));
    assert_eq!(did(&|| mmu.settle()), "settle");
    assert_eq!(did(&|| mmu.publish(Wait::Now)), "settle");
    assert_eq!(did(&|| mmu.complete_broadcast(none)), "settle");
    assert_eq!(did(&|| mmu.park(none)), "park");
    assert_eq!(did(&|| mmu.park_and_drop(none)), "flush Tag(Tag(0)) Local, park");
    let kernel = || assert_eq!(mmu.flush_kernel_under(none, Tag(3), &[], LAST), LEFT_NOTHING);
    let all = format!("flush {:?} Local", Invalidation::kernel(&[], LAST));
    assert_eq!(did(&kernel), all);
    // SAFETY: there is no hardware.
    let load = || unsafe { mmu.load(none, Root::new(A), Tag(3), Held::Drop, Sharing::Private) };
    assert_eq!(did(&load), "load 0x1000 3 Drop");
    // SAFETY: as above.
    let kept = || unsafe { mmu.load_kept(KeptLoads::OneWrite, Root::new(A), Tag(3)) };
    assert_eq!(did(&kept), "settle, load 0x1000 3 Keep");
    // SAFETY: as above.
    let foreign = || unsafe { mmu.load_foreign(none, Root::new(B)) };
    assert_eq!(did(&foreign), "load 0x2000 1 Drop");
    assert_eq!(did(&|| mmu.flush(none, tag, Scope::Local)), "flush Tag(Tag(3)) Local");
    assert_eq!(did(&|| mmu.begin_broadcast(none, tag)), "flush Tag(Tag(3)) Broadcast");
    let range = VaRange::new(0x1000, 0x3000, 12).unwrap();
    assert_eq!(mmu.operations(&range, LAST, Scope::Local), Some(10));
    assert_eq!(mmu.kernel_operations(&range, LAST, Scope::Local), Some(10));
    assert_eq!(mmu.properties().tag_bits, 12);
    // What it holds was loaded twice, and dropped by a flush: another root may have the tag.
    assert_eq!(mmu.checked_loads(), 2);
    // SAFETY: as above.
    let other = || unsafe { mmu.load_kept(KeptLoads::OneWrite, Root::new(B), Tag(3)) };
    assert_eq!(did(&other), "settle, load 0x2000 3 Keep");
}
