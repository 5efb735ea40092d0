//! A kernel in miniature: spaces, shootdowns by interrupt, and a claim to the oracle for each promise of the
//! library.

mod batches;
mod begun;
mod cell;
mod claims;
mod flushes;
mod freed;
mod lives;
mod moves;

use core::cell::UnsafeCell;
use std::collections::BTreeSet;

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Error, KernelGather, Tlb,
    arch::{Mmu, Root, Tag},
    platform::{CpuId, Ordering, Word as _},
    tags::{RootState, Tags},
};
use lookaside_machine::adversary::{
    Access, Arch, Frame, Platform, Updates, Word, access, access_store, as_cpu, irq_off, irq_on,
    leak, oracle, power_off, power_on, relax, reset, saw, tables,
};

use self::{
    batches::{Carried, Pending},
    begun::Begun,
    cell::{Kernel, OWN, PAGES, SpaceCell, own_frame},
};
use super::{act::Act, hardware::Described};

/// The frame of the firmware's page.
const FIRMWARES: Frame = Frame(0x500);

/// The most acts in the script of one CPU.
pub(super) const LONGEST: usize = 16;
/// In [`World::runs`]: the CPU runs no user code in the space.
const RESTS: u64 = 1 << 32;

/// Pages of the kernel's.
const ONE: &[usize] = &[0];
const OTHER: &[usize] = &[1];
const BOTH: &[usize] = &[0, 1];

/// A CPU has signalled the others.
const SIGNALLED: u64 = 1;
/// The library knows that the CPU has halted.
const BURIED: u64 = 2;

/// What a strategy can do beyond [`Tags`].
pub(super) trait Strategy<P: lookaside::Platform>: Tags<P> + 'static {
    /// The parameters with which it is built.
    type Config: Copy + 'static;

    /// Builds it.
    ///
    /// # Errors
    ///
    /// Those of the library.
    fn make(platform: &P, config: Self::Config) -> Result<Self, Error>;

    /// Whether `spaces` spaces can always be pinned at one time.
    fn can_pin(config: Self::Config, spaces: usize) -> bool;

    /// Gives the numbers that prove freshness to the oracle, after `this_cpu` switched to `space`.
    fn witness(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>);

    /// How far an execution came, for [`lookaside_machine::adversary::outcome`].
    fn progress(&self) -> u64;

    /// Pins the tag of a space, and returns it.
    ///
    /// # Errors
    ///
    /// Those of the library.
    fn pin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<Tag, Error>;

    /// Unpins it.
    ///
    /// # Errors
    ///
    /// Those of the library.
    fn unpin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<(), Error>;
}

/// The state that the CPUs of a scenario share.
pub(super) struct World<M: Mmu + 'static, T: Strategy<Platform<M>>> {
    hardware: Described<M>,
    /// The script of each CPU.
    cpus: Vec<Vec<Act>>,
    /// Whether the library must grant every pin.
    can_pin: bool,
    tlb: Tlb<'static, Platform<M>, T>,
    spaces: Vec<SpaceCell<Platform<M>>>,
    firmware: Frame,
    reserved: Frame,
    kernel: Option<Kernel>,
    /// The device that translates through the tables of pinned spaces, as a CPU of the machine.
    device: Option<CpuId>,
    /// The space that each CPU runs, plus one, and whether it runs user code there. Private to the CPU.
    runs: Vec<Word>,
    /// The tag of each space that a device uses on behalf of each CPU. Private to the CPU.
    pinned: Vec<Word>,
    /// Whether a CPU has signalled the others.
    signalled: Word,
    /// Whether a CPU holds the lock of the page tables.
    lock: Word,
    /// Storage for the batch of each act.
    batch_words: Vec<UnsafeCell<Word>>,
    /// A batch, or a flush, whose thread is between two CPUs.
    pending: UnsafeCell<Option<Pending<M, T>>>,
    /// The flush that each act has begun.
    begun: Vec<UnsafeCell<Option<Begun<M, T>>>>,
}

impl<M: Mmu + 'static, T: Strategy<Platform<M>>> World<M, T> {
    /// A world in which each of `cpus` is up and parked, unless its script begins with
    /// [`Act::Up`], and the spaces never ran.
    ///
    /// # Panics
    ///
    /// If the library refuses what the scenario asks for.
    pub(super) fn new(hardware: Described<M>, config: T::Config, cpus: Vec<Vec<Act>>) -> Self {
        let acts = || cpus.iter().flatten();
        let count = acts().filter_map(|act| act.space()).max().map_or(0, |last| last + 1);
        let reserved = tables::allocate_reserved();
        let mmu = (hardware.mmu)(reserved).expect("hardware");
        let platform =
            Platform::new(mmu).with_costs((hardware.costs)()).with_observer(hardware.observe);
        let tags = T::make(&platform, config).expect("tags");
        let storage = Vec::leak(cpus.iter().map(|_| Cpu::new()).collect());
        let tlb = Tlb::new(platform, tags, storage).expect("storage that is large enough");
        let kernel = acts().any(|act| act.needs_kernel()).then(Kernel::new);
        let firmware = tables::allocate();
        tables::map(firmware, PAGES[0], FIRMWARES, Access::WRITE);
        if let Some(kernel) = kernel {
            [reserved, firmware].into_iter().for_each(|root| kernel.share(root));
        }
        let larges = |number| acts().any(|&act| act == Act::UnmapLarge(number));
        let tops = if hardware.more.roots { cpus.len() } else { 1 };
        let mut spaces: Vec<_> = (0..count)
            .map(|number| SpaceCell::new(&tlb, number, kernel, larges(number), tops))
            .collect();
        let machine = hardware.config(cpus.len());
        for (number, cell) in spaces.iter_mut().enumerate() {
            lives::assign(cell, number, &cpus, machine.arch);
        }
        if let (Arch::Arm, Updates::Dirty) = (machine.arch, machine.updates) {
            let second = spaces.len().min(2).saturating_sub(1);
            if let Some(cell) = spaces.get_mut(second) {
                cell.note_accesses();
            }
        }
        let pinned: BTreeSet<_> = acts()
            .filter_map(|act| if let Act::Pin(space) = act { Some(space) } else { None })
            .collect();
        let words = |count: usize| (0..count).map(|_| Word::ZERO).collect::<Vec<_>>();
        let world = Self {
            hardware,
            can_pin: T::can_pin(config, pinned.len()),
            tlb,
            firmware,
            reserved,
            kernel,
            device: has_device(machine.arch, &cpus).then_some(CpuId(cpus.len() as u32)),
            runs: words(cpus.len()),
            pinned: words(spaces.len() * cpus.len()),
            spaces,
            signalled: Word::ZERO,
            lock: Word::ZERO,
            batch_words: words(cpus.len() * LONGEST).into_iter().map(UnsafeCell::new).collect(),
            pending: UnsafeCell::new(None),
            begun: (0..cpus.len() * LONGEST).map(|_| UnsafeCell::new(None)).collect(),
            cpus,
        };
        world.device.into_iter().for_each(oracle::device);
        for (cpu, script) in world.cpus.iter().enumerate() {
            if script.first() != Some(&Act::Up) {
                as_cpu(CpuId(cpu as u32), || world.come_up());
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

    /// Executes the act at a place of the script of a CPU, which is the one that runs.
    pub(super) fn act(&'static self, cpu: CpuId, index: usize) {
        let act = self.cpus[cpu.index()][index];
        if act.is_open() {
            return self.act_openly(cpu, act);
        }
        irq_off();
        if act == Act::Up {
            oracle::goes_down();
        }
        if let Act::Up | Act::Rise = act {
            // The CPU is not online yet.
            if act == Act::Rise {
                self.wait_until_buried();
            }
            self.come_up();
        } else if self.enter_spaces(act) {
            self.act_closed(self.this_cpu(), act, cpu.index() * LONGEST + index);
            self.leave_spaces(act);
        } else if act.hands_over() {
            self.hand_nothing_over();
        } else if act.begins() {
            self.begin_nothing(cpu.index() * LONGEST + index);
        }
        // A CPU that is down cannot be interrupted.
        if !matches!(act, Act::Down | Act::Halt) {
            irq_on();
        }
    }

    fn act_closed(
        &'static self,
        this_cpu: CurrentCpu<'static, Platform<M>, T>,
        act: Act,
        ordinal: usize,
    ) {
        let gather = || KernelGather::new(&self.tlb);
        match act {
            Act::Run(number) => {
                let (space, runs) = (self.space(number), &self.runs[this_cpu.id().index()]);
                runs.set(0); // The outgoing thread runs no more user code here.
                let _ = this_cpu.switch(space);
                runs.set(number as u64 + 1);
                oracle::wakes();
                T::witness(&this_cpu, space);
                if self.hardware.more.roots {
                    let found = access(OWN);
                    let own = found == Some(own_frame(this_cpu.id()));
                    oracle::check(own, "a CPU does not run under its own root");
                }
            }
            Act::Lazy => self.rest(&this_cpu),
            Act::Park => {
                let _ = this_cpu.park();
                self.runs[this_cpu.id().index()].set(0);
            }
            Act::Firmware => self.call_firmware(this_cpu, || ()),
            Act::LongFirmware => self.call_firmware(this_cpu, || {
                irq_on();
                let found = access(PAGES[0]);
                oracle::check(found == Some(FIRMWARES), "firmware runs without its root");
                irq_off();
            }),
            Act::Restart => {
                self.go_down(this_cpu);
                power_off();
                self.come_up();
            }
            Act::Down => {
                self.go_down(this_cpu);
                reset();
            }
            Act::Up | Act::Rise => unreachable!("the CPU is not online yet"),
            Act::Halt => self.halt(&this_cpu),
            Act::Stop => self.stop(),
            Act::Bury => self.bury(&this_cpu),
            Act::Release(number) => self.release(&this_cpu, number, false),
            Act::End(number) => self.release(&this_cpu, number, true),
            Act::Pin(number) => self.pin(&this_cpu, number),
            Act::Unpin(number) => self.unpin(&this_cpu, number),
            // Release: a CPU in `Await` sees everything before this.
            Act::Tell => self.signalled.store(SIGNALLED, Ordering::Release),
            Act::Unmap(number) => self.unmap(&this_cpu, number, 0),
            Act::UnmapOpenly(number) => {
                irq_on();
                let taken = self.take_page(number, 0);
                irq_off();
                self.flush_page(&this_cpu, number, taken);
            }
            Act::UnmapOther(number) => self.unmap(&this_cpu, number, 1),
            Act::SwapOut(number) => self.swap_out(&this_cpu, number),
            Act::UnmapEarly(number) => self.unmap_early(&this_cpu, number),
            Act::FreeTable(number) => self.free_table(&this_cpu, number, false),
            Act::FreeTableEarly(number) => self.free_table_early(&this_cpu, number),
            Act::FreeAll(number) => self.free_table(&this_cpu, number, true),
            Act::FlushAll(number) => self.flush_all(&this_cpu, number),
            Act::UnmapLarge(number) => self.unmap_large(&this_cpu, number),
            Act::FindGone(number) => self.find_gone(&this_cpu, number),
            Act::Forgotten(number) => self.find_forgotten(&this_cpu, number),
            Act::Protect(number) => self.protect(&this_cpu, number, &[0]),
            Act::ProtectBoth(number) => self.protect(&this_cpu, number, &[0, 1]),
            Act::Allow(number) => self.allow(&this_cpu, number),
            Act::Abandon(number) => self.abandon(number, 0),
            Act::AbandonOther(number) => self.abandon(number, 1),
            Act::Zap(number) => self.zap(&this_cpu, number),
            Act::ZapInBatch(number) => self.zap_in_batch(&this_cpu, number, ordinal),
            Act::Visible(number) => {
                let visible = self.tlb.nmi_uaccess_okay(self.space(number));
                oracle::check(visible, "an NMI is kept from user memory without reason");
            }
            Act::Move(number) => self.move_page(&this_cpu, number),
            Act::UnmapMoved(number) => self.unmap_moved(&this_cpu, number),
            Act::MoveTable(number) => self.move_table(&this_cpu, number),
            Act::UnmapInMovedTable(number) => self.unmap_in_moved_table(&this_cpu, number),
            Act::Batch(one, other) => {
                let pending = self.begin_batch(&this_cpu, ordinal, [one, other]);
                self.complete_batch(&this_cpu, pending);
            }
            Act::Defer(one, other) => self.hand_over(&this_cpu, ordinal, [one, other]),
            Act::HandOver(number) => {
                let begun = self.begin_unmap(number);
                self.rest(&this_cpu);
                self.tell_of(Some(Pending::Flush(Box::new(begun))));
            }
            Act::Carry(number) => {
                let taken = self.take_page(number, 0);
                self.rest(&this_cpu);
                self.tell_of(Some(Pending::Gather(Box::new(Carried { number, taken }))));
            }
            Act::Complete => self.take_over(&this_cpu),
            Act::BeginUnmap(number) => self.keep(ordinal, self.begin_unmap(number)),
            Act::BeginFreeTable(number) => {
                self.keep(ordinal, self.begin_free_table(number));
            }
            Act::BeginUnmapKernel => self.keep(ordinal, self.begin_unmap_kernel(ONE)),
            Act::BeginUnmapKernelMany => self.keep(ordinal, self.begin_unmap_kernel(BOTH)),
            Act::Finish => self.first_begun(ordinal).into_iter().for_each(|b| self.wait_for(b)),
            Act::DropBegun => {
                self.first_begun(ordinal).into_iter().for_each(|b| self.drop_begun(&this_cpu, b))
            }
            Act::UnmapKernel => self.flush_kernel(&this_cpu, gather(), ONE, true),
            Act::UnmapKernelOpenly => {
                irq_on();
                let gather = gather();
                irq_off();
                self.flush_kernel(&this_cpu, gather, ONE, true);
            }
            Act::UnmapKernelOther => self.flush_kernel(&this_cpu, gather(), OTHER, true),
            Act::UnmapKernelMany => self.flush_kernel(&this_cpu, gather(), BOTH, true),
            Act::FreeKernelTable => self.free_kernel_table(&this_cpu),
            Act::FlushKernel => self.flush_kernel(&this_cpu, gather(), ONE, false),
            Act::ClaimKernel => self.claim_kernel(ONE),
            Act::Fill(number) => self.fill(&this_cpu, number, 3, ordinal),
            Act::Unfill(number) => self.unmap(&this_cpu, number, 3),
            Act::Remap(number) => self.fill(&this_cpu, number, 0, ordinal),
            Act::Await
            | Act::Read
            | Act::Write
            | Act::WriteKernel
            | Act::Retry(_)
            | Act::Touch(_)
            | Act::Look(_) => {}
        }
    }

    /// Executes an act with interrupts on.
    fn act_openly(&'static self, cpu: CpuId, act: Act) {
        match act {
            Act::Await => {
                // Acquire: everything that the other CPU did before its signal.
                while self.signalled.load(Ordering::Acquire) == 0 {
                    relax();
                }
            }
            Act::WriteKernel => {
                let _ = access_store(cell::KERNEL[0], 1);
            }
            // A lazy CPU runs no user code.
            _ if self.rests(cpu) => {}
            Act::Read => {
                oracle::check(self.reads_its_own(cpu), "user code reads what is not its own")
            }
            Act::Write => {
                let _ = access_store(PAGES[0], 1);
            }
            Act::Retry(number) => self.retry(cpu, number),
            Act::Touch(number) => self.touch(cpu, number),
            Act::Look(number) => {
                let _ = self.look(cpu, number);
            }
            _ => {}
        }
    }

    /// The CPU that runs, which is down, comes on with the root of the firmware.
    fn come_up(&self) {
        power_on(self.firmware);
        expect_accepted(self.tlb.online(&(), &(self.hardware.features)()));
        oracle::comes_up();
    }

    /// The handler of the interrupt that an initiator sends.
    pub(super) fn interrupt(&'static self) {
        self.this_cpu().handle_ipi();
    }

    /// The handler of an NMI: accesses user memory, if that is allowed.
    pub(super) fn nmi(&'static self) {
        for number in 0..self.spaces.len() {
            if !self.enter_space(number) {
                continue;
            }
            let may = self.tlb.nmi_uaccess_okay(self.space(number));
            saw(if may {
                "an NMI that may touch user memory"
            } else {
                "an NMI that must leave user memory alone"
            });
            // The answer no is never wrong.
            let found = if may { access(PAGES[0]) } else { None };
            let own = found.is_none_or(|frame| self.owner_of(frame) == Some(number));
            oracle::check(own, "an NMI has read what is not the space's");
            self.leave_space(number);
        }
    }

    fn this_cpu(&self) -> CurrentCpu<'_, Platform<M>, T> {
        self.tlb.this_cpu(&())
    }

    fn space(&self, number: usize) -> &AddressSpace<Platform<M>> {
        // SAFETY: scripts release a space only when no other CPU uses it.
        unsafe { &*self.spaces[number].space.get() }
    }

    fn call_firmware(&self, mut this_cpu: CurrentCpu<'_, Platform<M>, T>, run: impl FnOnce()) {
        let root = Root::new(self.firmware.0 << 12);
        expect_accepted(this_cpu.with_root(&root, run));
        // No entry of the firmware's tables is left, and the CPU runs the space that it ran before.
        if self.rests(this_cpu.id()) {
            return;
        }
        oracle::check(self.reads_its_own(this_cpu.id()), "firmware left its root behind");
    }

    /// Accesses the page of the space that this CPU, which is `cpu`, runs: whether it faults, or finds a frame that this
    /// space has or had.
    fn reads_its_own(&self, cpu: CpuId) -> bool {
        let own = self.runs[cpu.index()].get().checked_sub(1).map(|number| number as usize);
        access(PAGES[0]).is_none_or(|found| own.is_some() && self.owner_of(found) == own)
    }

    fn find_forgotten(&self, this_cpu: &CurrentCpu<'_, Platform<M>, T>, number: usize) {
        let Some(label) = T::context_id(&self.tlb, self.space(number)) else { return };
        for cpu in (0..self.runs.len() as u32).map(CpuId).filter(|&cpu| cpu != this_cpu.id()) {
            let names = T::root_state(&self.tlb, cpu, label);
            oracle::check(
                names == RootState::NotLoaded,
                "a CPU would be asked again that has nothing to do",
            );
        }
    }
}

/// Whether a device translates through the tables of spaces that are pinned: where broadcasts reach it.
pub(super) fn has_device(arch: Arch, cpus: &[Vec<Act>]) -> bool {
    arch == Arch::Arm && cpus.iter().flatten().any(|act| matches!(act, Act::Pin(_)))
}

/// Fails if the library refuses: no script provokes a refusal.
fn expect_accepted(result: Result<(), Error>) {
    if let Err(error) = result {
        oracle::fail(error.to_string());
    }
}

/// Keeps a world for ever.
pub(super) fn keep<M: Mmu + 'static, T: Strategy<Platform<M>>>(
    world: World<M, T>,
) -> &'static World<M, T> {
    let world = leak(world);
    world.name_words();
    world
}
