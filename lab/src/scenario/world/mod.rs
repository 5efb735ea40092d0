//! A kernel in miniature: spaces, a shootdown by interrupt, and the oracle told of every promise.

mod batches;
mod cell;
mod flushes;

use core::cell::{RefCell, UnsafeCell};

use lookaside::{
    Cpu, CpuId, Error, Here, KernelGather, Names, Ordering, Released, Space, Tags, Tlb, Word as _,
    arch::{Mmu as _, Root, Tag},
};
use lookaside_machine::adversary::{
    Access, Arch, Frame, Platform, Updates, Word, access, access_store, as_cpu, irq_off, irq_on,
    leak, oracle, relax, reset, saw, tables,
};

use self::{
    batches::Pending,
    cell::{PAGES, SpaceCell, share_kernel},
};
use super::{act::Act, hardware::Hardware};

/// The frame of the firmware's page.
const FIRMWARES: Frame = Frame(0x500);

/// A CPU has told the others.
const TOLD: u64 = 1;
/// The library knows of the CPU that has stopped.
const BURIED: u64 = 2;

/// What a strategy can do beyond [`Tags`].
pub(super) trait Strategy<P: lookaside::Platform>: Tags<P> + 'static {
    /// Gives the numbers that prove freshness to the oracle, after `here` switched to `space`.
    fn witness(here: &Here<'_, P, Self>, space: &Space<'_, P>);

    /// How far an execution came, for [`lookaside_machine::adversary::outcome`].
    fn progress(&self) -> u64;

    /// Pins the tag of a space, and returns it.
    ///
    /// # Errors
    ///
    /// What the library says.
    fn pin(here: &Here<'_, P, Self>, space: &Space<'_, P>) -> Result<Tag, Error>;

    /// Unpins it.
    ///
    /// # Errors
    ///
    /// What the library says.
    fn unpin(here: &Here<'_, P, Self>, space: &Space<'_, P>) -> Result<(), Error>;
}

/// The platform of a kind of hardware.
pub(super) type PlatformOf<H> = Platform<<H as Hardware>::Mmu>;

/// What the CPUs of a scenario share.
pub(super) struct World<H: Hardware, T: Strategy<PlatformOf<H>>> {
    tlb: Tlb<'static, PlatformOf<H>, T>,
    spaces: Vec<SpaceCell<PlatformOf<H>>>,
    firmware: Frame,
    /// The entry of the kernel's page, if there is one.
    kernel: Option<&'static Word>,
    /// Which space each CPU runs, plus one. Private to the CPU.
    runs: Vec<Word>,
    /// Which tag of each space a device uses. Private to the CPU that has pinned it.
    pinned: Vec<Word>,
    /// Whether a CPU has told.
    told: Word,
    /// Whether a CPU holds the lock of the page tables.
    lock: Word,
    /// Storage of batches, for each that the scripts make.
    batch_words: RefCell<Vec<&'static mut [Word]>>,
    /// A batch whose thread is between two CPUs.
    pending: UnsafeCell<Option<Pending<PlatformOf<H>>>>,
}

impl<H: Hardware, T: Strategy<PlatformOf<H>>> World<H, T> {
    /// A world in which each of `cpus` is up and parked, unless its script begins with
    /// [`Act::Up`], and `spaces` spaces never ran.
    ///
    /// # Panics
    ///
    /// If the library refuses what the scenario asks for.
    pub(super) fn new(
        cpus: &[&[Act]],
        spaces: usize,
        tags: impl FnOnce(&PlatformOf<H>) -> Result<T, Error>,
    ) -> Self {
        let reserved = tables::allocate_reserved();
        let mmu = H::mmu(reserved).expect("hardware");
        let platform = Platform::new(mmu).with_costs(H::costs()).with_observer(H::observe);
        let tags = tags(&platform).expect("tags");
        let storage = Vec::leak(cpus.iter().map(|_| Cpu::new()).collect());
        let tlb = Tlb::new(platform, tags, storage).expect("books");
        let kernel = cpus.iter().copied().flatten().any(|act| act.needs_kernel());
        let kernel = kernel.then(cell::kernel);
        let shared = kernel.map(|(descriptor, _)| descriptor);
        let firmware = tables::allocate();
        tables::map(firmware, PAGES[0], FIRMWARES, Access::WRITE);
        for root in [reserved, firmware] {
            share_kernel(root, shared);
        }
        let larges =
            |number| cpus.iter().copied().flatten().any(|&act| act == Act::UnmapLarge(number));
        let spaces: Vec<_> = (0..spaces)
            .map(|number| SpaceCell::new(&tlb, number, shared, larges(number)))
            .collect();
        let config = H::config(cpus.len());
        if let (Arch::Arm, Updates::Dirty) = (config.arch, config.updates) {
            spaces[1].note_accesses();
        }
        let words = || cpus.iter().map(|_| Word::ZERO).collect();
        let batches = cpus.iter().copied().flatten();
        let batches = batches
            .filter(|act| matches!(act, Act::Batch(..) | Act::Defer(..) | Act::ZapInBatch(_)));
        let world = Self {
            tlb,
            firmware,
            kernel: kernel.map(|(_, entry)| entry),
            runs: words(),
            pinned: (0..spaces.len()).map(|_| Word::ZERO).collect(),
            spaces,
            told: Word::ZERO,
            lock: Word::ZERO,
            batch_words: RefCell::new(batches.map(|_| Vec::leak(words())).collect()),
            pending: UnsafeCell::new(None),
        };
        for (cpu, script) in cpus.iter().enumerate() {
            if script.first() != Some(&Act::Up) {
                as_cpu(CpuId(cpu as u32), || world.come_up(&world.here()));
            }
        }
        world
    }

    /// Names the words of the world for reports. The world stays where it is from here on.
    pub(super) fn name_words(&'static self) {
        for (number, cell) in self.spaces.iter().enumerate() {
            cell.name_words(number);
        }
    }

    /// How far an execution came.
    pub(super) fn progress(&self) -> u64 {
        self.tlb.tags().progress()
    }

    /// Does one act on the CPU that runs.
    pub(super) fn act(&'static self, act: Act) {
        if act.is_open() {
            return self.act_openly(act);
        }
        irq_off();
        let here = self.here();
        match act {
            Act::Up => self.come_up(&here),
            Act::Run(number) => {
                let space = self.space(number);
                let _ = here.switch(space);
                self.runs[here.id().index()].set(number as u64 + 1);
                oracle::wakes();
                T::witness(&here, space);
            }
            Act::Lazy => {
                oracle::rests();
                here.lazy();
            }
            Act::Park => {
                let _ = here.park();
                self.runs[here.id().index()].set(0);
            }
            Act::Firmware => self.call_firmware(here, || ()),
            Act::LongFirmware => self.call_firmware(here, || {
                irq_on();
                let found = access(PAGES[0]);
                oracle::check(found == Some(FIRMWARES), "firmware runs without its root");
                irq_off();
            }),
            Act::Restart => {
                // SAFETY: it touches nothing until it comes up.
                unsafe { here.offline() };
                reset();
                self.runs[here.id().index()].set(0);
                self.come_up(&here);
            }
            Act::Down => {
                // SAFETY: it touches nothing until it comes up.
                unsafe { here.offline() };
                reset();
                self.runs[here.id().index()].set(0);
                // Nobody is there to be interrupted.
                return;
            }
            Act::Halt => {
                // The hardware stops, and the library believes what it believed before.
                here.mmu().park(here.errata());
                reset();
                self.runs[here.id().index()].set(0);
                self.told.store(TOLD, Ordering::Release); // Release: as below.
                return;
            }
            Act::Bury => {
                // Acquire: with it comes what the CPU did.
                while self.told.load(Ordering::Acquire) != TOLD {
                    here.serve();
                    relax();
                }
                // SAFETY: it executes nothing and its register names no space, until it comes up.
                told(unsafe { self.tlb.halted(CpuId(1)) });
                self.told.store(BURIED, Ordering::Release); // Release: with what was noted.
            }
            Act::Rise => {
                // Acquire: as above.
                while self.told.load(Ordering::Acquire) != BURIED {
                    relax();
                }
                self.come_up(&here);
            }
            Act::Release(number) => {
                let _ = self.release(&here, number);
            }
            Act::MustRelease(number) => {
                let released = self.release(&here, number);
                oracle::check(released, "a space that nobody runs cannot be released");
            }
            Act::End(number) => {
                if self.release(&here, number) {
                    oracle::table_freed(self.spaces[number].root);
                }
            }
            Act::Pin(number) => self.pin(&here, number),
            Act::Unpin(number) => self.unpin(&here, number),
            // Release: what was done before is seen by those who wait.
            Act::Tell => self.told.store(TOLD, Ordering::Release),
            Act::Unmap(number) => self.unmap(&here, number, 0),
            Act::UnmapOther(number) => self.unmap(&here, number, 1),
            Act::SwapOut(number) => self.swap_out(&here, number),
            Act::UnmapEarly(number) => self.unmap_early(&here, number),
            Act::FreeTable(number) => self.free_table(&here, number, false),
            Act::FreeAll(number) => self.free_table(&here, number, true),
            Act::FlushAll(number) => self.flush_all(&here, number),
            Act::UnmapLarge(number) => self.unmap_large(&here, number),
            Act::FindGone(number) => self.find_gone(&here, number),
            Act::Forgotten(number) => self.find_forgotten(&here, number),
            Act::Protect(number) => self.protect(&here, number),
            Act::ProtectBoth(number) => self.protect_both(&here, number),
            Act::Allow(number) => self.allow(&here, number),
            Act::Abandon(number) => self.abandon(number, 0),
            Act::AbandonOther(number) => self.abandon(number, 1),
            Act::Zap(number) => self.zap(&here, number),
            Act::ZapInBatch(number) => self.zap_in_batch(&here, number),
            Act::Visible(number) => {
                let visible = self.tlb.nmi_uaccess_okay(self.space(number));
                oracle::check(visible, "an NMI is kept from user memory without reason");
            }
            Act::Move(number) => self.move_page(&here, number),
            Act::UnmapMoved(number) => self.unmap_moved(&here, number),
            Act::Batch(one, other) => {
                let pending = self.begin_batch(&here, [one, other]);
                self.complete_batch(&here, pending);
            }
            Act::Defer(one, other) => self.hand_over(&here, [one, other]),
            Act::Complete => self.take_over(&here),
            Act::UnmapKernel => self.flush_kernel(&here, KernelGather::new(&self.tlb), true),
            Act::UnmapKernelOpenly => {
                irq_on();
                let gather = KernelGather::new(&self.tlb);
                irq_off();
                self.flush_kernel(&here, gather, true);
            }
            Act::FlushKernel => self.flush_kernel(&here, KernelGather::new(&self.tlb), false),
            Act::ClaimKernel => oracle::kernel_revoked(cell::KERNEL),
            Act::Fill(number) => self.fill(&here, number),
            Act::Await | Act::Read | Act::Write | Act::Retry(_) | Act::Touch(_) => {}
        }
        irq_on();
    }

    /// Does what is done with interrupts on.
    fn act_openly(&'static self, act: Act) {
        match act {
            Act::Await => {
                // Acquire: what was done before it was told.
                while self.told.load(Ordering::Acquire) == 0 {
                    relax();
                }
            }
            Act::Read => {
                let _ = access(PAGES[0]);
            }
            Act::Write => {
                let _ = access_store(PAGES[0], 1);
            }
            Act::Retry(number) => self.retry(number),
            Act::Touch(number) => self.touch(number),
            _ => {}
        }
    }

    fn come_up(&self, here: &Here<'_, PlatformOf<H>, T>) {
        H::set_up(here.mmu());
        told(here.online(&H::features()));
    }

    /// The handler of the interrupt that a revoker sends.
    pub(super) fn interrupt(&'static self) {
        self.here().serve();
    }

    /// The handler of an NMI: looks at user memory, if that is allowed.
    pub(super) fn nmi(&'static self) {
        for (number, cell) in self.spaces.iter().enumerate() {
            let may = self.tlb.nmi_uaccess_okay(self.space(number));
            saw(if may {
                "an NMI that may touch user memory"
            } else {
                "an NMI that must leave user memory alone"
            });
            // The answer no is never wrong.
            let found = if may { access(PAGES[0]) } else { None };
            let own = found.is_none_or(|frame| frame == cell.frames[0]);
            oracle::check(own, "an NMI has read what is not the space's");
        }
    }

    fn here(&self) -> Here<'_, PlatformOf<H>, T> {
        // SAFETY: interrupts are off in every act and handler, and a program never moves.
        unsafe { self.tlb.here() }.expect("every CPU has storage")
    }

    fn space(&self, number: usize) -> &Space<'static, PlatformOf<H>> {
        // SAFETY: scripts release a space only when no other CPU uses it.
        unsafe { &*self.spaces[number].space.get() }
    }

    fn call_firmware(&self, mut here: Here<'_, PlatformOf<H>, T>, run: impl FnOnce()) {
        let root = Root::new(self.firmware.0 << 12);
        // SAFETY: the firmware's tables are like any space's.
        told(unsafe { here.with_root(root, run) });
        // Nothing of the firmware's is left, and the CPU runs what it ran.
        let own = match self.runs[here.id().index()].get() {
            0 => None,
            number => Some(self.spaces[number as usize - 1].frames[0]),
        };
        let found = access(PAGES[0]);
        oracle::check(found.is_none() || found == own, "firmware left its root behind");
    }

    fn find_forgotten(&self, here: &Here<'_, PlatformOf<H>, T>, number: usize) {
        let Some(label) = T::label(&self.tlb, self.space(number)) else { return };
        for cpu in (0..self.runs.len() as u32).map(CpuId).filter(|&cpu| cpu != here.id()) {
            let names = T::names(&self.tlb, cpu, label);
            oracle::check(names == Names::No, "a CPU would be asked again that has nothing to do");
        }
    }

    fn pin(&self, here: &Here<'_, PlatformOf<H>, T>, number: usize) {
        match T::pin(here, self.space(number)) {
            Ok(tag) => self.pinned[number].set(u64::from(tag.0)),
            Err(error) => oracle::fail(error.to_string()),
        }
    }

    fn unpin(&self, here: &Here<'_, PlatformOf<H>, T>, number: usize) {
        let kept = u64::from(self.space(number).cookie().tag().0) == self.pinned[number].get();
        oracle::check(kept, "the tag has changed that a device uses");
        told(T::unpin(here, self.space(number)));
    }

    /// Says whether nobody runs the space any more.
    fn release(&self, here: &Here<'_, PlatformOf<H>, T>, number: usize) -> bool {
        let cell = &self.spaces[number];
        // SAFETY: it is looked at.
        let cookie = unsafe { self.space(number).tag_word() }.peek();
        // SAFETY: scripts release a space only when no other CPU uses it.
        let released = here.release(unsafe { &mut *cell.space.get() });
        // A CPU that only just went elsewhere may still be seen; a kernel tries again.
        if released == Ok(Released::AtOnce) && cookie != 0 {
            oracle::identity_ended("cookie", cookie);
        }
        released.is_ok()
    }
}

fn released<T, H>(result: Result<T, (H, Error)>) -> T {
    result.map_err(|(_, error)| error).expect("the proof is that of the gather")
}

/// A refusal that no script provokes is a failure.
fn told(result: Result<(), Error>) {
    if let Err(error) = result {
        oracle::fail(error.to_string());
    }
}

/// Keeps a world for ever.
pub(super) fn keep<H: Hardware, T: Strategy<PlatformOf<H>>>(
    world: World<H, T>,
) -> &'static World<H, T> {
    let world = leak(world);
    world.name_words();
    world
}
