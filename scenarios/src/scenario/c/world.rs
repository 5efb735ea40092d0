//! What such a kernel does, and a claim to the oracle for each promise of the header.

use core::{cell::UnsafeCell, ffi::c_int, mem::MaybeUninit, ptr};

use lookaside::{
    Cpu, Tlb,
    platform::{CpuId, Ordering, Word as _},
};
use lookaside_c::{Batch, Machine as Library, Space, Wait, error};
use lookaside_machine::adversary::{
    Access, Frame, Platform as Adversary, Word, access, access_store, as_cpu, irq_off, irq_on,
    leak, oracle, power_off, power_on, relax, saw, tables,
};

use super::{
    super::hardware::Described,
    Act, Allocator, Hardware, Modelled,
    space::{Cell, FILLED, KERNEL, LARGE, LARGE_SHIFT, PAGES, kernel, share_kernel},
};

/// What the foreign root maps at the address of the first page.
const FIRMWARES: Frame = Frame(0x500);
/// What [`Act::Fill`] maps.
const NEW: u64 = 0x700;

/// `LOOKASIDE_PAGES`, `LOOKASIDE_TABLES`.
const PAGES_ONLY: u32 = 0;
const WITH_TABLES: u32 = 2;
/// `LOOKASIDE_MAPPED`, `LOOKASIDE_FAULTED`.
const MAPPED: u32 = 0;
const FAULTED: u32 = 1;
/// `LOOKASIDE_EVERYTHING`.
const EVERYTHING: u64 = u64::MAX;

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// What the CPUs share.
pub(in super::super) struct World<M: Hardware, T: Allocator<M>> {
    hardware: Described<M>,
    library: &'static Library<Modelled<M, T>>,
    spaces: Vec<Cell<Modelled<M, T>>>,
    kernel: Option<&'static Word>,
    firmware: Frame,
    /// The space that each CPU runs user code in, plus one. Private to the CPU.
    runs: Vec<Word>,
    /// What C has as local variables of each CPU.
    waits: Vec<Slot<Wait<Modelled<M, T>>>>,
    batches: Vec<Slot<Batch<Modelled<M, T>>>>,
    /// What each CPU has begun to flush, plus one, or [`OF_KERNEL`]; and whether it is still to be waited for. Private
    /// to the CPU.
    begun: Vec<Word>,
    waiting: Vec<Word>,
    /// Whether a CPU has signalled.
    signal: Word,
}

/// In [`World::begun`]: the kernel's page.
const OF_KERNEL: u64 = 1 << 32;

/// The value of a call that must not be refused.
fn accepted(result: c_int) -> c_int {
    if result < 0 {
        oracle::fail(format!("refused: {}", error::sentence(result).to_string_lossy()));
    }
    result
}

impl<M: Hardware, T: Allocator<M>> World<M, T> {
    /// A world in which each CPU is up and parked, and the spaces never ran.
    pub(super) fn build(
        hardware: Described<M>,
        cpus: &[&[Act]],
        config: T::Config,
    ) -> &'static Self {
        let acts = || cpus.iter().copied().flatten();
        let count = acts().filter_map(|act| act.space()).max().map_or(0, |last| last + 1);
        let reserved = tables::allocate_reserved();
        let firmware = tables::allocate();
        tables::map(firmware, PAGES[0], FIRMWARES, Access::WRITE);
        let shared = acts().any(|act| act.needs_kernel()).then(kernel);
        let descriptor = shared.map_or(0, |(descriptor, _)| descriptor);
        for root in [reserved, firmware] {
            share_kernel(root, descriptor);
        }
        let platform = Adversary::new((hardware.mmu)(reserved).expect("hardware"))
            .with_costs((hardware.costs)())
            .with_observer(hardware.observe);
        let tags = T::make(&platform, config).expect("tags");
        let storage = Vec::leak(cpus.iter().map(|_| Cpu::new()).collect());
        let tlb = Tlb::new(platform, tags, storage).expect("storage that is large enough");
        let library = leak(Library::new(tlb));
        let words = || cpus.iter().map(|_| Word::ZERO).collect();
        let world = leak(Self {
            hardware,
            library,
            spaces: (0..count).map(|number| Cell::new(library, number, descriptor)).collect(),
            kernel: shared.map(|(_, entry)| entry),
            firmware,
            runs: words(),
            waits: cpus.iter().map(|_| UnsafeCell::new(MaybeUninit::zeroed())).collect(),
            batches: cpus.iter().map(|_| UnsafeCell::new(MaybeUninit::zeroed())).collect(),
            begun: words(),
            waiting: words(),
            signal: Word::ZERO,
        });
        for cpu in 0..cpus.len() {
            as_cpu(CpuId(cpu as u32), || world.come_up());
        }
        world
    }

    /// How far an execution came.
    pub(super) fn progress(&self) -> u64 {
        self.library.tlb().tags().progress()
    }

    /// The CPU that runs, which is down, comes on with the root of the firmware.
    fn come_up(&self) {
        power_on(self.firmware);
        accepted(self.library.online(&(self.hardware.features)()));
        oracle::comes_up();
    }

    /// The handler of the interrupt that an initiator sends.
    pub(super) fn interrupt(&self) {
        accepted(self.library.handle_ipi());
    }

    /// The handler of an NMI: accesses user memory, if that is allowed.
    pub(super) fn nmi(&self) {
        for cell in &self.spaces {
            // SAFETY: it is the space's struct. Scripts with NMIs release none.
            let may = unsafe { self.library.nmi_uaccess_okay(cell.at()) };
            saw(if may { "an NMI that may touch user memory" } else { "one that may not" });
            let found = if may { access(PAGES[0]) } else { None };
            let own = found.is_none_or(|frame| cell.frames.contains(&frame));
            oracle::check(own, "an NMI has read what is not the space's");
        }
    }

    /// Executes an act of a CPU, which is the one that runs.
    pub(super) fn act(&'static self, cpu: CpuId, act: Act) {
        match act {
            Act::Read => self.reaches(cpu, access(PAGES[0])),
            Act::Write => self.reaches(cpu, access_store(PAGES[0], 1)),
            Act::Use => {
                oracle::check(access(FILLED).is_some(), "a page that was mapped here faults")
            }
            Act::Retry(number) => self.retry(cpu, number),
            Act::Touch(number) => self.touch(cpu, number),
            Act::Await => {
                // Acquire: everything that the other CPU did before its signal.
                while self.signal.load(Ordering::Acquire) == 0 {
                    relax();
                }
            }
            _ => {
                irq_off();
                self.act_closed(cpu.index(), act);
                irq_on();
            }
        }
    }

    fn act_closed(&'static self, cpu: usize, act: Act) {
        let library = self.library;
        match act {
            Act::Run(number) => {
                self.runs[cpu].set(0); // The outgoing thread runs no more user code here.
                // SAFETY: it is the space's struct.
                accepted(unsafe { library.switch(self.at(number), cpu as u32) });
                self.runs[cpu].set(number as u64 + 1);
                oracle::wakes();
            }
            Act::Lazy => {
                oracle::rests();
                accepted(library.lazy());
                self.runs[cpu].set(0);
            }
            Act::Park => {
                self.runs[cpu].set(0);
                accepted(library.park());
            }
            Act::Firmware => self.call_firmware(),
            Act::Restart => {
                oracle::goes_down();
                accepted(library.offline());
                power_off();
                self.runs[cpu].set(0);
                self.come_up();
            }
            // Release: a CPU in `Await` sees everything before this.
            Act::Signal => self.signal.store(1, Ordering::Release),
            Act::Unmap(number, page) => {
                self.empty(number, page);
                self.flush(number, PAGES[page], 4096, 12, PAGES_ONLY);
                oracle::frame_freed(self.spaces[number].frames[page]);
            }
            Act::UnmapBoth(number) => {
                [0, 1].into_iter().for_each(|page| self.empty(number, page));
                self.flush(number, PAGES[0], 2 * 4096, 12, PAGES_ONLY);
                self.spaces[number].frames.into_iter().for_each(oracle::frame_freed);
            }
            Act::UnmapLarge(number) => {
                let cell = &self.spaces[number];
                cell.large_entry.store(0, Ordering::Release); // Release: as a kernel does.
                self.flush(number, LARGE, 1 << LARGE_SHIFT, LARGE_SHIFT, PAGES_ONLY);
                oracle::frame_freed(cell.large);
            }
            Act::Protect(number) => {
                let cell = &self.spaces[number];
                let page = tables::page(cell.frames[0], Access::READ);
                cell.entries[0].store(page, Ordering::Release); // Release: as a kernel does.
                let space = self.at(number);
                // SAFETY: it is the space's struct.
                let done = accepted(unsafe {
                    self.library.flush_page(
                        space,
                        PAGES[0],
                        PAGES_ONLY,
                        cpu as u32,
                        ptr::null_mut(),
                    )
                });
                oracle::check(done == 0, "a flush without a wait is not complete");
                oracle::revoked(cell.root, PAGES[0]);
            }
            Act::Allow(number) => {
                let cell = &self.spaces[number];
                let page = tables::page(cell.frames[0], Access::WRITE);
                cell.entries[0].store(page, Ordering::Release); // Release: as a kernel does.
            }
            Act::Fill(number) => {
                let page = tables::page(Frame(NEW + number as u64), Access::WRITE);
                // Release: as a kernel does.
                self.spaces[number].filled.store(page, Ordering::Release);
                // SAFETY: it is the space's struct.
                accepted(unsafe { library.map(self.at(number), FILLED, 4096, 12, MAPPED) });
            }
            Act::FreeTable(number) => {
                let cell = &self.spaces[number];
                tables::word(cell.root, 0).store(0, Ordering::Release); // Release: as a kernel does.
                self.flush(number, PAGES[0], 2 * 4096, 12, WITH_TABLES);
                cell.frames.into_iter().for_each(oracle::frame_freed);
                oracle::table_freed(cell.last_table);
            }
            Act::Clear(number) => {
                [0, 1].into_iter().for_each(|page| self.empty(number, page));
                self.flush(number, 0, EVERYTHING, 12, WITH_TABLES);
                self.spaces[number].frames.into_iter().for_each(oracle::frame_freed);
            }
            Act::Batch(one, other) => self.flush_in_batch(cpu, [one, other]),
            Act::Begin(number) => self.begin(cpu, number),
            Act::BeginKernel => self.begin_kernel(cpu),
            Act::Finish => self.finish(cpu, true),
            Act::FinishClosed => self.finish(cpu, false),
            Act::UnmapKernel => {
                self.empty_kernel();
                // SAFETY: there is no struct.
                accepted(unsafe {
                    library.flush_kernel(KERNEL, 4096, 12, PAGES_ONLY, ptr::null_mut())
                });
                oracle::kernel_revoked(KERNEL);
            }
            Act::End(number) => {
                if self.runs[cpu].get() == number as u64 + 1 {
                    self.runs[cpu].set(0); // Its thread was the last one.
                }
                let cell = &self.spaces[number];
                // SAFETY: it is the space's struct, which no script uses from here on.
                accepted(unsafe { library.space_release(self.at(number)) });
                cell.frames.into_iter().for_each(oracle::frame_freed);
                [cell.root, cell.last_table].into_iter().for_each(oracle::table_freed);
            }
            Act::Visible(number) => {
                // SAFETY: it is the space's struct.
                let visible = unsafe { library.nmi_uaccess_okay(self.at(number)) };
                oracle::check(visible, "an NMI is kept from user memory without reason");
            }
            Act::Read | Act::Write | Act::Use | Act::Retry(_) | Act::Touch(_) | Act::Await => {}
        }
    }

    /// Fails if user code of a CPU, which may have faulted, has reached a page that is not its space's.
    fn reaches(&self, cpu: CpuId, found: Option<Frame>) {
        if let (Some(frame), Some(number)) = (found, self.runs[cpu.index()].get().checked_sub(1)) {
            let own = self.spaces[number as usize].frames[0] == frame;
            oracle::check(own, "user code reaches a page that is not its space's");
        }
    }

    fn at(&self, number: usize) -> *mut Space<Modelled<M, T>> {
        self.spaces[number].at()
    }

    fn empty(&self, number: usize, page: usize) {
        self.spaces[number].entries[page].store(0, Ordering::Release); // Release: as a kernel does.
    }

    fn empty_kernel(&self) {
        // Relaxed: the flush makes it visible.
        self.kernel.expect("a kernel").store(0, Ordering::Relaxed);
    }

    /// `flush_range` that waits.
    fn flush(&'static self, number: usize, start: u64, bytes: u64, shift: u32, kind: u32) {
        let space = self.at(number);
        // SAFETY: it is the space's struct.
        let done = accepted(unsafe {
            self.library.flush_range(space, start, bytes, shift, kind, ptr::null_mut())
        });
        oracle::check(done == 0, "a flush without a wait is not complete");
    }

    fn flush_in_batch(&'static self, cpu: usize, spaces: [usize; 2]) {
        let batch = self.batches[cpu].get().cast();
        for number in spaces {
            self.empty(number, 0);
            let space = self.at(number);
            // SAFETY: they are this CPU's and the space's structs.
            accepted(unsafe {
                self.library.batch_add(batch, space, PAGES[0], 4096, 12, PAGES_ONLY)
            });
        }
        // SAFETY: it is this CPU's struct.
        accepted(unsafe { self.library.batch_flush(batch) });
        spaces.into_iter().for_each(|number| oracle::frame_freed(self.spaces[number].frames[0]));
    }

    fn begin(&'static self, cpu: usize, number: usize) {
        self.empty(number, 0);
        let (space, wait) = (self.at(number), self.waits[cpu].get().cast());
        // SAFETY: they are the space's and this CPU's structs.
        let waiting = accepted(unsafe {
            self.library.flush_range(space, PAGES[0], 4096, 12, PAGES_ONLY, wait)
        });
        self.begun[cpu].set(number as u64 + 1);
        self.waiting[cpu].set(waiting.max(0) as u64);
    }

    fn begin_kernel(&'static self, cpu: usize) {
        self.empty_kernel();
        let wait = self.waits[cpu].get().cast();
        // SAFETY: it is this CPU's struct.
        let waiting =
            accepted(unsafe { self.library.flush_kernel(KERNEL, 4096, 12, PAGES_ONLY, wait) });
        self.begun[cpu].set(OF_KERNEL);
        self.waiting[cpu].set(waiting.max(0) as u64);
    }

    fn finish(&'static self, cpu: usize, openly: bool) {
        if self.waiting[cpu].get() != 0 {
            saw("a flush that was waited for");
            if openly {
                irq_on();
            }
            // SAFETY: it is this CPU's struct.
            accepted(unsafe { self.library.wait(self.waits[cpu].get().cast()) });
            irq_off();
        }
        self.waiting[cpu].set(0);
        match self.begun[cpu].get() {
            OF_KERNEL => oracle::kernel_revoked(KERNEL),
            number => oracle::frame_freed(self.spaces[number as usize - 1].frames[0]),
        }
    }

    fn call_firmware(&'static self) {
        // SAFETY: it ends below.
        accepted(unsafe { self.library.root_begin(self.firmware.0 << 12) });
        irq_on();
        let found = access(PAGES[0]);
        oracle::check(found == Some(FIRMWARES), "firmware runs without its root");
        irq_off();
        // SAFETY: it was begun.
        accepted(unsafe { self.library.root_end() });
    }

    /// The kernel's handler of faults: whether the entry permits the access, which can then be repeated.
    fn was_spurious(
        &'static self,
        number: usize,
        va: u64,
        permitted: impl FnOnce() -> bool,
    ) -> bool {
        irq_off();
        let spurious = permitted();
        if spurious {
            // SAFETY: it is the space's struct.
            accepted(unsafe { self.library.map(self.at(number), va, 4096, 12, FAULTED) });
        }
        irq_on();
        spurious
    }

    fn retry(&'static self, cpu: CpuId, number: usize) {
        if access_store(PAGES[0], 1).is_some() || self.runs[cpu.index()].get() != number as u64 + 1
        {
            return;
        }
        let cell = &self.spaces[number];
        let writable = tables::page(cell.frames[0], Access::WRITE);
        // Acquire: what was removed before.
        let permitted = || cell.entries[0].load(Ordering::Acquire) == writable;
        if self.was_spurious(number, PAGES[0], permitted) {
            self.try_again(|| access_store(PAGES[0], 1).is_some());
        }
    }

    fn touch(&'static self, cpu: CpuId, number: usize) {
        if let Some(frame) = access(FILLED) {
            let message = "user code reaches another page than the one that was mapped";
            oracle::check(frame == Frame(NEW + number as u64), message);
            return;
        }
        if self.runs[cpu.index()].get() != number as u64 + 1 {
            return;
        }
        // Acquire: what was there before.
        let permitted = || self.spaces[number].filled.load(Ordering::Acquire) != 0;
        if self.was_spurious(number, FILLED, permitted) {
            self.try_again(|| access(FILLED).is_some());
        }
    }

    /// A repeated access must not fault: no script takes back what permits it.
    fn try_again(&self, access: impl Fn() -> bool) {
        saw("a fault that was spurious");
        // A fault that itself removes the cached entry may have come before the entry permitted the access.
        let forgets = lookaside::arch::Mmu::properties(lookaside::Platform::mmu(
            self.library.tlb().platform(),
        ))
        .faults_forget;
        oracle::check(access() || forgets && access(), "the fault came again");
    }
}
