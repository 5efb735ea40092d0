//! The state of pretended machines, for either allocator, whose CPUs handle IPIs.

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Gather, GlobalAsids, PerCpuAsids, Tlb, VaRange,
    arch::Root,
    flush::Flushed,
    platform::CpuId,
    tags::{Asids, AsidsConfig, GlobalAsidsConfig, Residents, Switched, Tags},
};

use super::{Fake, on, words};

/// The state of the machine, for as long as the test lasts.
pub(crate) type Machine<T> = &'static Tlb<'static, Fake, T>;

/// Tags of Arm and RISC-V.
pub(crate) type ByEpochs = Machine<GlobalAsids<'static, Fake>>;
/// Tags of x86.
pub(crate) type ByRecent = Machine<PerCpuAsids>;

/// Either, chosen at run time.
pub(crate) type ByChoice = Machine<Asids<'static, Fake>>;

/// An allocator whose state threads can share.
pub(crate) trait Strategy: Tags<Fake, Cpu: Sync> + Sync + 'static {}

impl<T: Tags<Fake, Cpu: Sync> + Sync + 'static> Strategy for T {}

/// A machine whose CPUs are all up and serve when they are interrupted.
pub(crate) fn start<T: Strategy>(cpus: usize, fake: Fake, tags: T) -> Machine<T> {
    let storage = Vec::leak((0..cpus).map(|_| Cpu::new()).collect());
    let tlb: Machine<T> = Box::leak(Box::new(Tlb::new(fake, tags, storage).unwrap()));
    let bits = tlb.platform().mmu.properties.tag_bits;
    for cpu in 0..cpus as u32 {
        on(cpu, || tlb.online(&(), &bits).unwrap());
    }
    let handle = move |cpu| {
        // A CPU that is down takes no interrupt.
        if tlb.is_online(CpuId(cpu)) {
            on(cpu, || this_cpu(tlb).handle_ipi());
        }
    };
    tlb.platform().set_handler(handle);
    tlb.platform().forget_logs();
    tlb
}

/// The generation of a space after so many flushes: only CPUs with tags of their own need to know.
pub(crate) fn generations<T: Strategy>(tlb: Machine<T>, flushes: u64) -> u64 {
    if T::tracks_generations(tlb) { flushes } else { 0 }
}

pub(crate) fn recent(cpus: usize, fake: Fake) -> ByRecent {
    start(cpus, fake.without_broadcast(), PerCpuAsids::new())
}

pub(crate) fn epochs(cpus: usize, fake: Fake) -> ByEpochs {
    epochs_with(cpus, fake, GlobalAsidsConfig { pins: 2, ..Default::default() })
}

pub(crate) fn epochs_with(cpus: usize, fake: Fake, config: GlobalAsidsConfig) -> ByEpochs {
    let storage = words(GlobalAsids::<Fake>::words_for(config.tags));
    let tags = GlobalAsids::new(&fake, config, storage).unwrap();
    start(cpus, fake, tags)
}

pub(crate) fn chosen(cpus: usize, fake: Fake, config: AsidsConfig) -> ByChoice {
    start(cpus, fake, Asids::new(config, words(Asids::<Fake>::words_for(config.global.tags))))
}

/// The CPU that the test is.
pub(crate) fn this_cpu<T: Strategy>(tlb: Machine<T>) -> CurrentCpu<'static, Fake, T> {
    tlb.this_cpu(&())
}

pub(crate) fn space<T: Strategy>(tlb: Machine<T>, number: u64) -> AddressSpace<Fake> {
    let residents = words(Residents::<core::sync::atomic::AtomicU64>::words_for(tlb.cpus().len()));
    tlb.space(Root::new(number * 4096), residents).unwrap()
}

/// `cpu` switches to `space`.
pub(crate) fn switch<T: Strategy>(
    tlb: Machine<T>,
    cpu: u32,
    space: &AddressSpace<Fake>,
) -> Switched {
    on(cpu, || this_cpu(tlb).switch(space))
}

/// `cpu` leaves whatever it runs.
pub(crate) fn park<T: Strategy>(tlb: Machine<T>, cpu: u32) {
    let _ = on(cpu, || this_cpu(tlb).park());
}

/// `cpu` flushes what `gather` is told.
pub(crate) fn flush<T: Strategy>(
    tlb: Machine<T>,
    cpu: u32,
    space: &AddressSpace<Fake>,
    tell: impl FnOnce(&mut Gather<'_, Fake>),
) -> Flushed {
    let mut gather = Gather::new(space);
    tell(&mut gather);
    on(cpu, || this_cpu(tlb).flush(gather))
}

/// So many base pages.
pub(crate) fn pages(start: u64, pages: u64) -> VaRange {
    VaRange::new(start, pages << 12, 12).unwrap()
}

/// What is asked of a flush in most tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Page,
    Range,
    AddressSpace,
    /// A table that mapped 2 MiB was unlinked.
    Table,
}

impl What {
    pub(crate) const LEAVES: [Self; 2] = [Self::Page, Self::Range];
    pub(crate) const ALL: [Self; 4] = [Self::Page, Self::Range, Self::AddressSpace, Self::Table];

    pub(crate) fn tell(self, gather: &mut Gather<'_, Fake>) {
        match self {
            Self::Page => gather.revoke(pages(0x5000, 1)),
            Self::Range => gather.revoke(pages(0x10_0000, 9)),
            Self::AddressSpace => gather.revoke_everything(),
            Self::Table => gather.unlink_table(pages(0x20_0000, 512)),
        }
    }
}
