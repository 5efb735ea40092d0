//! The conformance tests of what a kernel does to translations: they pass a good kernel, call each fault by
//! its name, and say where nothing was proved.

use core::{cell::Cell, sync::atomic::AtomicU64};
use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock},
};

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Gather, GlobalAsids, PerCpuAsids, Platform, Tlb, VaRange,
    arch::{Held, Invalidation, Properties, Root, Scope, Tag},
    conformance::{Fault, Scratch, ScratchSpace, Translations, check_translations},
    flush::Permissions,
    platform::{CpuId, Targets},
    tags::{GlobalAsidsConfig, Tags},
};
use lookaside_testkit::{COSTS, Hardware, TestMmu};

const CPUS: u32 = 3;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

fn on<R>(cpu: u32, f: impl FnOnce() -> R) -> R {
    let before = CPU.replace(cpu);
    let result = f();
    CPU.set(before);
    result
}

/// What is wrong with the kernel or its machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Pages are unmapped without a flush.
    NoFlush,
    /// Flushes go to the CPUs that run the space, past the library.
    OnlyRunning,
    /// Every root is loaded under one tag, and invalidations do nothing.
    OneTag,
    /// Invalidations do nothing on this CPU.
    Deaf(u32),
    /// Switches load no root.
    NoLoad,
    /// The page-fault handler does not call `spurious_fault`.
    NoSpurious,
    /// The page-fault handler kills what has faulted.
    Kills,
    /// This CPU has not come online.
    Offline(u32),
    /// Hardware holds nothing.
    Forgetful,
    /// Hardware holds nothing over a change of the root.
    ForgetfulSwitch,
}

use Wrong::*;

/// The entry of the one page: its word, and whether it can be written.
#[derive(Clone, Copy)]
struct Entry {
    word: u64,
    writable: bool,
}

#[derive(Default)]
struct Core {
    loaded: Option<(u64, u16)>,
    held: BTreeMap<u16, Entry>,
}

/// Hardware with one page under each root.
struct Soft {
    wrong: Wrong,
    faults_forget: bool,
    cores: [Mutex<Core>; CPUS as usize],
    tables: Mutex<BTreeMap<u64, Entry>>,
}

impl Soft {
    fn act<R>(&self, f: impl FnOnce(&mut Core) -> R) -> R {
        f(&mut self.cores[CPU.get() as usize].lock().unwrap())
    }

    /// An invalidation.
    fn remove(&self, gone: impl Fn(u16) -> bool) {
        if self.wrong != OneTag && self.wrong != Deaf(CPU.get()) {
            self.act(|core| core.held.retain(|&tag, _| !gone(tag)));
        }
    }

    fn read(&self) -> Option<u64> {
        self.act(|core| {
            let (root, tag) = core.loaded?;
            let held = core.held.get(&tag).copied();
            let found = held.or_else(|| self.tables.lock().unwrap().get(&root).copied())?;
            if self.wrong != Forgetful {
                core.held.insert(tag, found);
            }
            Some(found.word)
        })
    }
}

impl Hardware for Soft {
    fn properties(&self) -> Properties {
        Properties { faults_forget: self.faults_forget, ..Properties::plain(12, &COSTS) }
    }

    fn load(&self, root: Root, tag: Tag, held: Held) {
        if self.wrong == NoLoad && self.act(|core| core.loaded.is_some()) {
            return;
        }
        if held == Held::Drop {
            self.remove(|other| other == tag.0);
        }
        let tag = if self.wrong == OneTag { 1 } else { tag.0 };
        self.act(|core| {
            if self.wrong == ForgetfulSwitch && core.loaded != Some((root.table, tag)) {
                core.held.clear();
            }
            core.loaded = Some((root.table, tag));
        });
    }

    fn park(&self) {
        self.act(|core| core.loaded = None);
    }

    fn flush(&self, entries: Invalidation<'_>, _: Scope) {
        match entries {
            Invalidation::All => self.remove(|_| true),
            Invalidation::Tag(tag) | Invalidation::Ranges { tag, .. } => {
                self.remove(|other| other == tag.0)
            }
            Invalidation::Kernel { .. } => {}
        }
    }
}

/// A machine on which an IPI arrives at once.
struct Hw {
    mmu: TestMmu<Soft>,
    handler: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

// SAFETY: the CPU is the one that the test pretends to be.
unsafe impl Platform for Hw {
    type Word = AtomicU64;
    type Mmu = TestMmu<Soft>;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = [AtomicU64; 1];

    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &TestMmu<Soft> {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn send_ipi(&self, targets: Targets) {
        targets.iter().for_each(|cpu| on(cpu.0, || self.handler.get().unwrap()()));
    }

    fn relax(&self) {}
}

type Machine<T> = &'static Tlb<'static, Hw, T>;

/// A kernel, with all that the tests need.
struct Kernel<T: Tags<Hw> + 'static> {
    tlb: Machine<T>,
    spaces: [AddressSpace<Hw>; 2],
    cleared: Mutex<Option<Entry>>,
}

impl<T: Tags<Hw> + 'static> Kernel<T> {
    fn root(&self, which: ScratchSpace) -> u64 {
        self.space_of(which).tables().table
    }

    fn space_of(&self, which: ScratchSpace) -> &AddressSpace<Hw> {
        &self.spaces[which as usize]
    }

    fn mmu(&self) -> &TestMmu<Soft> {
        self.tlb.platform().mmu()
    }

    fn take(&self, which: ScratchSpace) -> Option<Entry> {
        self.mmu().tables.lock().unwrap().remove(&self.root(which))
    }

    fn set(&self, which: ScratchSpace, entry: Entry) {
        self.mmu().tables.lock().unwrap().insert(self.root(which), entry);
    }
}

impl<T: Tags<Hw> + Sync + 'static> Scratch<Hw, T> for Kernel<T>
where
    Tlb<'static, Hw, T>: Sync,
{
    fn cpus(&self) -> u32 {
        CPUS
    }

    fn run_on(&self, cpu: CpuId, work: &(dyn Fn(&CurrentCpu<'_, Hw, T>) + Sync)) {
        assert_ne!(cpu.0, CPU.get(), "that is this CPU");
        on(cpu.0, || work(&self.tlb.this_cpu(&())));
    }

    fn space(&self, which: ScratchSpace) -> &AddressSpace<Hw> {
        self.space_of(which)
    }

    fn page(&self) -> VaRange {
        VaRange::new(0x5000, 4096, 12).unwrap()
    }

    fn map(&self, which: ScratchSpace, word: u64) {
        self.set(which, Entry { word, writable: false });
    }

    fn unmap(&self, which: ScratchSpace) {
        self.take(which).expect("it is mapped");
        match self.mmu().wrong {
            NoFlush => {}
            OnlyRunning => {
                for core in &self.mmu().cores {
                    let mut core = core.lock().unwrap();
                    if let Some((_, tag)) =
                        core.loaded.filter(|&(root, _)| root == self.root(which))
                    {
                        core.held.remove(&tag);
                    }
                }
            }
            _ => {
                let mut gather = Gather::new(self.space_of(which));
                gather.revoke(self.page());
                let _ = self.tlb.this_cpu(&()).flush(gather);
            }
        }
    }

    fn clear(&self, which: ScratchSpace) {
        *self.cleared.lock().unwrap() = self.take(which);
    }

    fn restore(&self, which: ScratchSpace) {
        self.set(which, self.cleared.lock().unwrap().take().expect("it was cleared"));
    }

    fn allow_writes(&self, which: ScratchSpace) {
        let entry = self.take(which).expect("it is mapped");
        self.set(which, Entry { writable: true, ..entry });
    }

    fn write_fault(&self, which: ScratchSpace) -> bool {
        let entry = self.mmu().tables.lock().unwrap()[&self.root(which)];
        let wanted = Permissions { write: true, ..Permissions::default() };
        let allowed = Permissions { read: true, write: entry.writable, execute: false };
        let (this_cpu, space) = (self.tlb.this_cpu(&()), self.space_of(which));
        match self.mmu().wrong {
            Kills => false,
            NoSpurious => allowed.write,
            _ => this_cpu.spurious_fault(space, self.page(), wanted, allowed),
        }
    }

    fn read(&self) -> Option<u64> {
        self.mmu().read()
    }
}

fn start<T: Tags<Hw> + Sync + 'static>(hw: Hw, tags: T) -> Result<Translations, Fault>
where
    Tlb<'static, Hw, T>: Sync,
{
    let wrong = hw.mmu.wrong;
    let cpus = Vec::leak((0..CPUS).map(|_| Cpu::new()).collect());
    let tlb: Machine<T> = Box::leak(Box::new(Tlb::new(hw, tags, cpus).unwrap()));
    for cpu in (0..CPUS).filter(|&cpu| wrong != Offline(cpu)) {
        on(cpu, || tlb.online(&(), &()).unwrap());
    }
    let handler = Box::new(move || tlb.this_cpu(&()).handle_ipi());
    // The test begins on a CPU that is online.
    let tests = if wrong == Offline(1) { 0 } else { 1 };
    assert!(tlb.platform().handler.set(handler).is_ok());
    let space = |root| tlb.space(Root::new(root), [AtomicU64::new(0)]).unwrap();
    let kernel = Kernel { tlb, spaces: [space(0x1000), space(0x2000)], cleared: Mutex::default() };
    on(tests, || check_translations(&tlb.this_cpu(&()), &kernel))
}

fn hw(wrong: Wrong, faults_forget: bool) -> Hw {
    let (cores, tables) = ([const { Mutex::new(Core::NEW) }; CPUS as usize], Mutex::default());
    Hw { mmu: TestMmu(Soft { wrong, faults_forget, cores, tables }), handler: OnceLock::new() }
}

impl Core {
    const NEW: Self = Self { loaded: None, held: BTreeMap::new() };
}

/// The result with either ASID allocator.
fn results(wrong: Wrong) -> [Result<Translations, Fault>; 2] {
    let global = hw(wrong, false);
    let words =
        Vec::leak((0..GlobalAsids::<Hw>::words_for(64)).map(|_| AtomicU64::new(0)).collect());
    let config = GlobalAsidsConfig { tags: 64, ..GlobalAsidsConfig::default() };
    let tags = GlobalAsids::new(&global, config, words).unwrap();
    [start(global, tags), start(hw(wrong, false), PerCpuAsids::<6>::new())]
}

#[track_caller]
fn finds(wrong: Wrong, fault: Fault) {
    assert_eq!(results(wrong), [Err(fault); 2]);
}

#[test]
fn a_kernel_without_a_fault_passes_on_every_cpu() {
    let report = Translations { cpus: CPUS, kept: CPUS, kept_over_switch: CPUS };
    assert_eq!(results(Nothing), [Ok(report); 2]);
}

#[test]
fn what_proves_nothing_is_said() {
    let report = Translations { cpus: CPUS, kept: 0, kept_over_switch: 0 };
    assert_eq!(results(Forgetful), [Ok(report); 2]);
    let text = report.to_string();
    assert!(text.contains("no stale entry was seen on a CPU that runs the space"), "{text}");
    let report = Translations { kept: CPUS, ..report };
    assert_eq!(results(ForgetfulSwitch), [Ok(report); 2]);
    let text = report.to_string();
    assert!(text.contains("stale entries seen on a CPU that runs the space, on 3"), "{text}");
    assert!(text.contains("no stale entry was seen on a CPU that comes back to it"), "{text}");
}

#[test]
fn a_missing_flush_is_found() {
    finds(NoFlush, Fault::Stale { cpu: CpuId(0), returned: false });
}

#[test]
fn each_cpu_is_tested() {
    for cpu in 0..CPUS {
        finds(Deaf(cpu), Fault::Stale { cpu: CpuId(cpu), returned: false });
        finds(Offline(cpu), Fault::NotOnline { cpu: CpuId(cpu) });
    }
}

#[test]
fn a_cpu_that_comes_back_without_a_flush_is_found() {
    finds(OnlyRunning, Fault::Stale { cpu: CpuId(0), returned: true });
}

#[test]
fn one_tag_for_all_is_found() {
    finds(OneTag, Fault::OtherSpace { cpu: CpuId(0) });
    finds(NoLoad, Fault::OtherSpace { cpu: CpuId(0) });
}

#[test]
fn spurious_faults_that_are_not_handled_are_found() {
    finds(Kills, Fault::SpuriousFaultRefused { cpu: CpuId(0) });
    finds(NoSpurious, Fault::SpuriousFaultStays { cpu: CpuId(0) });
    // Hardware that forgets an entry when it faults needs no call.
    assert!(start(hw(NoSpurious, true), PerCpuAsids::<6>::new()).is_ok());
}

#[test]
fn each_fault_says_what_it_is() {
    let cpu = CpuId(2);
    for (fault, part) in [
        (Fault::NotOnline { cpu }, "CPU 2 is not online"),
        (Fault::Unreadable { cpu, found: Some(7) }, "CPU 2 reads 0x7"),
        (Fault::Unreadable { cpu, found: None }, "CPU 2 cannot read"),
        (Fault::Stale { cpu, returned: false }, "CPU 2 reads an unmapped page"),
        (Fault::Stale { cpu, returned: true }, "while it ran another space"),
    ] {
        assert!(fault.to_string().contains(part), "{fault}");
    }
}
