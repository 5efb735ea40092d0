//! Whole flushes on real threads, each a CPU whose hardware keeps all it may: whatever is gathered,
//! flushed, deferred, switched to or left, no CPU uses an entry whose page was given away, and no
//! walker reads a table that was.
//!
//! The explorer checks orderings; here are many CPUs, many spaces and long runs.

use core::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
};
use std::{collections::BTreeSet, sync::Mutex};

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Gather, GlobalAsids, PerCpuAsids, Platform, Tlb, VaRange,
    arch::{Held, Invalidation, Properties, Root, Scope, TableChange, Tag},
    flush::Batch,
    platform::{Costs, CpuId, CpuSet, OperationCosts, Ordering, Stuck, Targets, Word},
    tags::{GlobalAsidsConfig, Residents, Switched, Tags},
};
use lookaside_testkit::TestMmu;

/// CPUs that are up, and the numbers that they have: in words and groups of their own.
const CPUS: [u32; 4] = [0, 1, 33, 130];
const STORAGE: usize = 131;
const SPACES: usize = 4;
/// Pages of each space that are mapped.
const PAGES: usize = 8;
/// Tables of each space; each maps as many pages as the other.
const TABLES: usize = 2;
const PAGES_OF_TABLE: usize = PAGES / TABLES;

/// What a walk brought in: a page, or the place of a table, and how often it had been changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    tag: u16,
    space: usize,
    /// Pages, and after them tables.
    what: usize,
    version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    space: usize,
    tag: u16,
}

#[derive(Default)]
struct Core {
    named: Option<Named>,
    entries: BTreeSet<Entry>,
}

/// An entry in a page table, and what became of what it named.
#[derive(Default)]
struct Slot {
    /// How often it was changed: what a walk finds.
    version: AtomicU64,
    /// What it named before this version has another owner.
    given_away: AtomicU64,
}

struct Hardware {
    cores: Vec<Mutex<Core>>,
    tables: [[Slot; PAGES + TABLES]; SPACES + 1],
    broadcasts: bool,
    outlive: bool,
    moments: AtomicUsize,
}

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

impl Hardware {
    fn slot(&self, space: usize, what: usize) -> &Slot {
        &self.tables[space][what]
    }

    /// A walker fetches all that it can.
    fn walk(&self, core: &mut Core) {
        let Some(Named { space, tag }) = core.named else { return };
        for what in 0..PAGES + TABLES {
            let version = self.slot(space, what).version.load(Ordering::SeqCst);
            core.entries.insert(Entry { tag, space, what, version });
        }
    }

    fn act<R>(&self, cpu: u32, f: impl FnOnce(&mut Core) -> R) -> R {
        // There are fewer real CPUs than threads: others come in between here, and not only when a
        // thread has used up its time.
        if self.moments.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
            std::thread::yield_now();
        }
        let mut core = self.cores[cpu as usize].lock().unwrap();
        self.walk(&mut core);
        let result = f(&mut core);
        self.walk(&mut core);
        result
    }

    fn this_cpu<R>(&self, f: impl FnOnce(&mut Core) -> R) -> R {
        self.act(CPU.get(), f)
    }

    fn everywhere(&self, f: impl Fn(&mut Core)) {
        assert!(self.broadcasts);
        for cpu in CPUS {
            self.act(cpu, &f);
        }
    }

    /// User code on this CPU touches everything that it can.
    fn touch(&self) {
        self.this_cpu(|core| {
            let Some(Named { space, tag }) = core.named else { return };
            for entry in core.entries.iter().filter(|entry| entry.tag == tag) {
                assert_eq!(entry.space, space, "CPU {}: {entry:?} of another space", CPU.get());
                self.check(CPU.get(), entry);
            }
        });
    }

    fn check(&self, cpu: u32, entry: &Entry) {
        let gone = self.slot(entry.space, entry.what).given_away.load(Ordering::SeqCst);
        assert!(entry.version >= gone, "CPU {cpu} uses {entry:?}, given away at {gone}");
    }

    /// Tables were given away: no walker reads them, be its CPU lazy or not, and where walks outlive
    /// tags also if its CPU runs another space. What is held under tags that `space` had in earlier
    /// epochs goes when the CPU joins the present one.
    fn check_walkers(&self, space: usize, tag: Tag) {
        for cpu in CPUS {
            let core = self.cores[cpu as usize].lock().unwrap();
            let may_walk = |entry: &Entry| {
                let named = core.named.is_some_and(|named| named.tag == entry.tag);
                let outlives = self.outlive && entry.tag == tag.0 && entry.space == space;
                entry.what >= PAGES && (named || outlives)
            };
            for entry in core.entries.iter().filter(|&entry| may_walk(entry)) {
                self.check(cpu, entry);
            }
        }
    }
}

fn covers(ranges: &[VaRange], change: TableChange, entry: &Entry) -> bool {
    let (first, count) = match entry.what.checked_sub(PAGES) {
        None => (entry.what, 1),
        Some(_) if change == TableChange::LastLevel => return false,
        Some(table) => (table * PAGES_OF_TABLE, PAGES_OF_TABLE),
    };
    let (start, last) = ((first << 12) as u64, ((first + count) << 12) as u64 - 1);
    ranges.iter().any(|s| s.start() <= last && start <= s.last())
}

impl lookaside_testkit::Hardware for Hardware {
    fn properties(&self) -> Properties {
        Properties {
            broadcasts: self.broadcasts,
            walks_outlive_tags: self.outlive,
            ..Properties::plain(12, &COSTS)
        }
    }

    fn settle(&self) {
        core::sync::atomic::fence(Ordering::SeqCst);
    }

    fn load(&self, root: Root, tag: Tag, held: Held) {
        self.this_cpu(|core| {
            if held == Held::Drop {
                core.entries.retain(|entry| entry.tag != tag.0);
            }
            core.named = Some(Named { space: (root.table >> 12) as usize - 1, tag: tag.0 });
        });
    }

    fn park(&self) {
        self.this_cpu(|core| core.named = None);
    }

    fn flush(&self, entries: Invalidation<'_>, scope: Scope) {
        let stays = |entry: &Entry| match entries {
            Invalidation::All => false,
            Invalidation::Tag(tag) => entry.tag != tag.0,
            Invalidation::Ranges { tag, ranges, change } => {
                entry.tag != tag.0 || !covers(ranges, change, entry)
            }
            Invalidation::Kernel { ranges, .. } => !ranges.is_empty(),
        };
        match scope {
            Scope::Local => self.this_cpu(|core| core.entries.retain(stays)),
            Scope::Broadcast => self.everywhere(|core| core.entries.retain(stays)),
        }
    }

    fn operations(&self, range: &VaRange, _: TableChange, _: Scope) -> Option<u64> {
        Some(range.pages())
    }
}

/// A broadcast is dearer than one interrupt and cheaper than three; four pages are worth a tag; and
/// after three broadcasts for tables it pays to have everyone leave.
const COSTS: Costs = Costs {
    local: OperationCosts { address: 10, tag: 40, wait: 10, ceiling: u64::MAX },
    broadcast: OperationCosts { address: 10, tag: 10, wait: 100, ceiling: u64::MAX },
    refill: 3,
    useful_entries: 10,
    ipi: 60,
    ipi_more: 30,
    retag: 100,
};

struct Host {
    mmu: TestMmu<Hardware>,
    /// Who was interrupted and has not noticed.
    interrupted: Vec<AtomicBool>,
    interrupts: AtomicUsize,
}

// SAFETY: `CPU` is set to a number of its own by every thread that is a CPU.
unsafe impl Platform for Host {
    type Word = AtomicU64;
    type Mmu = TestMmu<Hardware>;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = &'static mut [AtomicU64];

    fn root(root: &Root) -> Root {
        *root
    }

    fn has_stopped(&self, _: CpuId) -> bool {
        true // A pretended CPU executes nothing unless the test says so.
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &TestMmu<Hardware> {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn send_ipi(&self, targets: Targets) {
        for cpu in targets.iter() {
            assert_ne!(cpu.0, CPU.get());
            self.interrupted[cpu.index()].store(true, Ordering::SeqCst);
            self.interrupts.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn relax(&self) {
        std::thread::yield_now();
    }

    fn stuck(&self, wait: &Stuck) {
        assert!(wait.rounds < 1 << 26, "{wait:?}");
    }
}

impl Host {
    fn new(broadcasts: bool, outlive: bool) -> Self {
        Self {
            mmu: TestMmu(Hardware {
                cores: (0..STORAGE).map(|_| Mutex::default()).collect(),
                tables: Default::default(),
                broadcasts,
                outlive,
                moments: AtomicUsize::new(0),
            }),
            interrupted: (0..STORAGE).map(|_| AtomicBool::new(false)).collect(),
            interrupts: AtomicUsize::new(0),
        }
    }
}

type Machine<T> = Tlb<'static, Host, T>;

fn words(count: usize) -> &'static mut [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::ZERO).collect())
}

fn machine<T: Tags<Host>>(host: Host, tags: T) -> (Machine<T>, Vec<AddressSpace<Host>>) {
    let cpus = Vec::leak((0..STORAGE).map(|_| Cpu::new()).collect());
    let tlb = Tlb::new(host, tags, cpus).unwrap();
    let spaces = (0..SPACES).map(|number| space(&tlb, number)).collect();
    (tlb, spaces)
}

fn space<T: Tags<Host>>(tlb: &Machine<T>, number: usize) -> AddressSpace<Host> {
    let residents = words(Residents::<AtomicU64>::words_for(STORAGE));
    tlb.space(Root::new((number as u64 + 1) << 12), residents).unwrap()
}

/// Tags are few: the epoch turns again and again.
fn epochs(host: Host) -> (Machine<GlobalAsids<'static, Host>>, Vec<AddressSpace<Host>>) {
    let config = GlobalAsidsConfig { tags: STORAGE as u32 + 3, ..Default::default() };
    let tags = GlobalAsids::new(&host, config, words(GlobalAsids::<Host>::words_for(config.tags)))
        .unwrap();
    machine(host, tags)
}

fn recent<const SLOTS: usize>(
    host: Host,
) -> (Machine<PerCpuAsids<SLOTS>>, Vec<AddressSpace<Host>>) {
    machine(host, PerCpuAsids::new())
}

/// What one CPU did.
#[derive(Default)]
struct Done {
    flushes: AtomicUsize,
    gifts: AtomicUsize,
}

/// One CPU of the machine, and what its thread needs.
struct Thread<'m, T: Tags<Host> + 'static> {
    tlb: &'m Machine<T>,
    spaces: &'m [AddressSpace<Host>],
    random: u64,
    lazy: bool,
    done: &'m Done,
}

/// A CPU that executes no more, be it because a check failed: nobody waits for it.
struct Leave<'m, T: Tags<Host> + 'static>(&'m Machine<T>);

impl<T: Tags<Host> + 'static> Drop for Leave<'_, T> {
    fn drop(&mut self) {
        // Reported by another one, which may be any: it executes nothing else here.
        let stopped = CPU.get();
        CPU.set(u32::from(stopped == 0));
        self.0.stopped(&(), CpuId(stopped)).unwrap();
        CPU.set(stopped);
    }
}

impl<T: Tags<Host> + 'static> Thread<'_, T> {
    fn this_cpu(&self) -> CurrentCpu<'_, Host, T> {
        self.tlb.this_cpu(&())
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1);
        (self.random >> 33) as usize % below
    }

    fn mmu(&self) -> &TestMmu<Hardware> {
        &self.tlb.platform().mmu
    }

    /// Interrupts arrive, user code runs, and somebody's walker has an idea.
    fn between(&mut self) {
        let pending = &self.tlb.platform().interrupted[CPU.get() as usize];
        if pending.swap(false, Ordering::SeqCst) {
            self.this_cpu().handle_ipi();
        }
        if !self.lazy {
            self.mmu().touch();
        }
        let cpu = CPUS[self.draw(CPUS.len())];
        self.mmu().act(cpu, |_| ());
    }

    fn step(&mut self) {
        self.between();
        match self.draw(32) {
            // Spaces that come and go use up tags and slots.
            0..2 => {
                let _ = self.this_cpu().switch(Box::leak(Box::new(space(self.tlb, SPACES))));
                self.lazy = false;
            }
            2..10 => {
                let next = self.draw(SPACES);
                let _: Switched = self.this_cpu().switch(&self.spaces[next]);
                self.lazy = false;
            }
            10..13 => {
                self.this_cpu().lazy();
                self.lazy = true;
            }
            13..15 => {
                let _ = self.this_cpu().park();
                self.lazy = false;
            }
            15..17 => self.drop_unflushed(),
            17..19 => self.defer(),
            19 => self.go_and_come(),
            n => self.flush(n % 2 == 0),
        }
    }

    /// Changes entries, and tells `gather`; says which, and to which version.
    fn change<F>(&mut self, space: usize, gather: &mut Gather<'_, Host, F>) -> Vec<(usize, u64)> {
        let mut changed = Vec::new();
        let mut change = |mmu: &Hardware, what: usize| {
            let now = mmu.slot(space, what).version.fetch_add(1, Ordering::SeqCst) + 1;
            changed.push((what, now));
        };
        for _ in 0..=self.draw(3) {
            let (first, kind) = (self.draw(PAGES), self.draw(12));
            let range = |first: usize, count: usize| {
                VaRange::new((first << 12) as u64, (count << 12) as u64, 12).unwrap()
            };
            match kind {
                0 => {
                    (0..PAGES + TABLES).for_each(|what| change(self.mmu(), what));
                    gather.revoke_everything();
                }
                1 | 2 => {
                    let table = first % TABLES;
                    let first = table * PAGES_OF_TABLE;
                    (first..first + PAGES_OF_TABLE).for_each(|what| change(self.mmu(), what));
                    change(self.mmu(), PAGES + table);
                    gather.unlink_table(range(first, PAGES_OF_TABLE));
                }
                _ => {
                    let count = 1 + self.draw(PAGES - first).min(2);
                    (first..first + count).for_each(|what| change(self.mmu(), what));
                    gather.revoke(range(first, count));
                }
            }
        }
        changed
    }

    /// What was changed gets another owner, if `released` says that it may.
    fn give_away(&self, space: usize, changed: &[(usize, u64)]) {
        for &(what, version) in changed {
            let slot = self.mmu().slot(space, what);
            slot.given_away.fetch_max(version, Ordering::SeqCst);
            self.done.gifts.fetch_add(1, Ordering::Relaxed);
        }
        self.mmu().check_walkers(space, self.spaces[space].cookie().tag());
    }

    fn flush(&mut self, early: bool) {
        let index = self.draw(SPACES);
        let spaces = self.spaces;
        let mut gather = Gather::holding(&spaces[index], Vec::new());
        let changed = self.change(index, &mut gather);
        changed.into_iter().for_each(|change| gather.hold_page(change));
        // With a table in it, an early answer is no earlier.
        let changed = if early {
            self.this_cpu().flush_early(gather).frames
        } else {
            self.this_cpu().flush(gather).frames
        };
        self.give_away(index, &changed);
        self.done.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// The frames are lost for good; and what a later flush gives away is really gone.
    fn drop_unflushed(&mut self) {
        let index = self.draw(SPACES);
        let spaces = self.spaces;
        let mut gather = Gather::new(&spaces[index]);
        let _ = self.change(index, &mut gather);
    }

    fn defer(&mut self) {
        let spaces = self.spaces;
        let mut storage: Vec<_> =
            (0..CpuSet::<AtomicU64>::words_for(STORAGE)).map(|_| AtomicU64::new(0)).collect();
        let mut batch = Batch::new(self.tlb, &mut storage).unwrap();
        let mut all = Vec::new();
        for _ in 0..=self.draw(4) {
            let index = self.draw(SPACES);
            let mut gather = Gather::new(&spaces[index]);
            all.push((index, self.change(index, &mut gather)));
            self.this_cpu().defer(gather, &mut batch);
            self.between();
            if self.draw(3) == 0 {
                let next = self.draw(SPACES);
                let _ = self.this_cpu().switch(&spaces[next]);
                self.lazy = false;
            }
        }
        let _ = self.this_cpu().flush_batch(batch);
        for (index, changed) in all {
            self.give_away(index, &changed);
        }
        self.done.flushes.fetch_add(1, Ordering::Relaxed);
    }

    fn go_and_come(&mut self) {
        self.this_cpu().offline();
        self.tlb.platform().interrupted[CPU.get() as usize].store(false, Ordering::SeqCst);
        std::thread::yield_now();
        self.tlb.online(&(), &()).unwrap();
        self.lazy = false;
    }
}

/// So many steps on each CPU.
fn run<T>((tlb, spaces): (Machine<T>, Vec<AddressSpace<Host>>), steps: usize, seed: u64)
where
    T: Tags<Host> + Sync + 'static,
    T::Cpu: Sync,
{
    let (done, up) = (Done::default(), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for cpu in CPUS {
            let (tlb, spaces, done, up) = (&tlb, &spaces[..], &done, &up);
            scope.spawn(move || {
                CPU.set(cpu);
                let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(cpu) << 32;
                let mut thread = Thread { tlb, spaces, random, lazy: false, done };
                tlb.online(&(), &()).unwrap();
                up.fetch_add(1, Ordering::SeqCst);
                while up.load(Ordering::SeqCst) < CPUS.len() as u32 {
                    std::thread::yield_now();
                }
                let _leave = Leave(tlb);
                for _ in 0..steps {
                    thread.step();
                }
                thread.this_cpu().offline();
            });
        }
    });
    let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let interrupts = load(&tlb.platform().interrupts);
    println!(
        "{} flushes, {} entries given away, {interrupts} interrupts",
        load(&done.flushes),
        load(&done.gifts)
    );
    assert!(load(&done.flushes) > steps / 2 && interrupts > 0);
}

const STEPS: usize = 20_000;

#[test]
fn pcid_09_no_generation_is_recorded_that_was_not_flushed() {
    run(recent::<2>(Host::new(false, false)), STEPS, 1);
    run(recent::<6>(Host::new(false, false)), STEPS, 2);
}

#[test]
fn local_02_no_cpu_uses_what_was_given_away_under_epochs_with_interrupts() {
    run(epochs(Host::new(false, false)), STEPS, 3);
}

#[test]
fn local_01_no_cpu_uses_what_was_given_away_under_epochs_with_broadcasts() {
    run(epochs(Host::new(true, false)), STEPS, 4);
}

#[test]
fn local_08_no_walker_reads_a_table_that_was_given_away_where_walks_outlive_tags() {
    run(epochs(Host::new(true, true)), STEPS, 5);
}
