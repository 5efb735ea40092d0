//! The library's own strategies.

use core::{cell::RefCell, mem::ManuallyDrop};

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Gather, GlobalAsids, KernelGather, PerCpuAsids, Platform as _,
    Tlb, VaRange,
    arch::{Mmu, Root},
    flush::Batch,
    platform::{CpuSet, Word as _},
    tags::{GlobalAsidsConfig, Residents, Tags},
};
use lookaside_machine::timed::{self, Arena, KERNEL, Platform, Word};
use lookaside_terminal::Refused;

use super::{
    Entry, Flush, Place, SpaceId, Strategy, flush_range,
    hardware::{self, Arm, Hardware, Rv, X86Cpu, X86Plain},
};
use crate::data::{Isa, Machine};

/// All of them.
pub(super) const STRATEGIES: &[Entry] = &[
    Entry {
        name: "lookaside",
        about: "the library as recommended: global ASIDs on Arm, RISC-V, INVLPGB; per-CPU ASIDs on x86",
        isas: &[Isa::Aarch64, Isa::Riscv64, Isa::X86_64],
        build: |place| recommended(place, false),
    },
    Entry {
        name: "lookaside-early",
        about: "the same; pages are acknowledged before they are flushed, as for ordinary memory",
        isas: &[Isa::Aarch64, Isa::Riscv64, Isa::X86_64],
        build: |place| recommended(place, true),
    },
    Entry {
        name: "lookaside-untagged",
        about: "the library where PCIDs are switched off",
        isas: &[Isa::X86_64],
        build: |place| recent::<X86Plain>(place, false),
    },
];

type Words<'a, H> = Platform<'a, <H as Hardware>::Mmu>;

fn recommended(place: Place<'_>, early: bool) -> Result<Box<dyn Strategy + '_>, Refused> {
    match place.machine.isa {
        Isa::Aarch64 => epochs::<Arm>(place, early),
        // The counterpart of what x86 does without PCIDs: no tag is given, and each switch flushes.
        Isa::Riscv64 if place.machine.features.tag_bits == 0 => recent::<Rv>(place, early),
        Isa::Riscv64 => epochs::<Rv>(place, early),
        Isa::X86_64 if place.machine.features.invlpgb => epochs::<X86Cpu>(place, early),
        Isa::X86_64 => recent::<X86Cpu>(place, early),
    }
}

fn platform<'a, H: Hardware>(machine: &Machine) -> Result<Words<'a, H>, Refused> {
    let mmu = H::mmu(machine).map_err(Refused::because)?;
    let costs = hardware::costs(machine, mmu.properties().typical_costs);
    Ok(Platform::new(mmu, costs))
}

fn epochs<'a, H: Hardware + 'a>(
    place: Place<'a>,
    early: bool,
) -> Result<Box<dyn Strategy + 'a>, Refused> {
    let platform = platform::<H>(place.machine)?;
    let tags = 1 << place.machine.features.tag_bits;
    let words = place.arena.fill(GlobalAsids::<Words<'a, H>>::words_for(tags), |_| Word::ZERO);
    timed::name(words, "map of tags");
    let tags = GlobalAsids::new(&platform, GlobalAsidsConfig::default(), words)
        .map_err(Refused::because)?;
    Library::<H, _>::build(place, platform, tags, early)
}

fn recent<'a, H: Hardware + 'a>(
    place: Place<'a>,
    early: bool,
) -> Result<Box<dyn Strategy + 'a>, Refused> {
    let platform = platform::<H>(place.machine)?;
    Library::<H, _>::build(place, platform, <PerCpuAsids>::new(), early)
}

/// A space begins a cache line, as one from a kernel's slab does. Nothing in an arena is dropped.
#[repr(align(64))]
struct Slot<P: lookaside::Platform>(ManuallyDrop<AddressSpace<P>>);

/// A space that may be freed.
type Shared<'a, P> = &'a RefCell<Slot<P>>;

/// The library behind the interface of the model kernel.
struct Library<'a, H: Hardware, T: Tags<Words<'a, H>>> {
    tlb: &'a Tlb<'a, Words<'a, H>, T>,
    machine: &'a Machine,
    arena: &'a Arena,
    spaces: RefCell<Vec<Option<Shared<'a, Words<'a, H>>>>>,
    /// Storage of batches that no CPU uses.
    batches: RefCell<Vec<&'a mut [Word]>>,
    early: bool,
}

impl<'a, H: Hardware + 'a, T: Tags<Words<'a, H>> + 'a> Library<'a, H, T> {
    fn build(
        place: Place<'a>,
        platform: Words<'a, H>,
        tags: T,
        early: bool,
    ) -> Result<Box<dyn Strategy + 'a>, Refused> {
        let Place { arena, machine, cpus } = place;
        let cpus = arena.fill(cpus, |_| Cpu::new());
        timed::name(cpus, "CPUs");
        let tlb = arena.put(Tlb::new(platform, tags, cpus).map_err(Refused::because)?);
        timed::name(tlb, "state of the machine");
        let (spaces, batches) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        Ok(Box::new(Self { tlb, machine, arena, spaces, batches, early }))
    }

    fn this_cpu(&self) -> CurrentCpu<'_, Words<'a, H>, T> {
        self.tlb.this_cpu(&())
    }

    fn space(&self, space: SpaceId) -> Shared<'a, Words<'a, H>> {
        self.spaces.borrow()[space.0 as usize].expect("the space is not gone")
    }

    /// Flushes pages that were taken away one by one.
    fn flush_batch(&self, space: &AddressSpace<Words<'a, H>>, flush: &Flush) {
        let this_cpu = self.this_cpu();
        // A task has storage of its own, as in Linux, and has it back when the batch is flushed.
        let words = self.batches.borrow_mut().pop().unwrap_or_else(|| {
            let count = CpuSet::<Word>::words_for(self.tlb.cpus().len());
            let words = self.arena.fill(count, |_| Word::ZERO);
            timed::name(words, "targets of batches");
            words
        });
        let mut batch = Batch::new(self.tlb, words).expect("words for all CPUs");
        for page in flush.first..flush.first + flush.pages {
            let mut gather = Gather::new(space);
            gather.revoke(range(page, 1, 0));
            this_cpu.defer(gather, &mut batch);
        }
        let _ = this_cpu.flush_batch(batch);
        self.batches.borrow_mut().push(words);
    }
}

fn range(first: u64, pages: u64, order: u8) -> VaRange {
    flush_range(first << 12, pages, order)
}

impl<'a, H: Hardware + 'a, T: Tags<Words<'a, H>> + 'a> Strategy for Library<'a, H, T> {
    fn online(&self) {
        timed::interrupts_off(|| {
            H::set_up(self.tlb.platform().mmu());
            self.tlb.online(&(), &H::features(self.machine)).expect("all CPUs are alike");
        });
    }

    fn add(&self, space: SpaceId, root: u64) {
        let words = Residents::<Word>::words_for(self.tlb.cpus().len());
        let residents = self.arena.fill(words, |_| Word::ZERO);
        timed::name(residents, "residents of spaces");
        let new = self.tlb.space(Root::new(root), residents);
        let new = Slot(ManuallyDrop::new(new.expect("a table's address is a root")));
        let slot = self.arena.put(RefCell::new(new));
        timed::name(slot, "spaces");
        // Another CPU may have added the next one meanwhile.
        let mut spaces = self.spaces.borrow_mut();
        let index = space.0 as usize;
        let count = spaces.len().max(index + 1);
        spaces.resize(count, None);
        assert!(spaces[index].replace(slot).is_none(), "each space has a number of its own");
    }

    fn switch(&self, next: SpaceId) {
        let _ = self.this_cpu().switch(&self.space(next).borrow().0);
    }

    fn idle(&self) {
        self.this_cpu().lazy();
    }

    fn flush(&self, flush: &Flush) {
        timed::interrupts_off(|| {
            let this_cpu = self.this_cpu();
            let Some(space) = flush.space else {
                let mut gather = KernelGather::new(self.tlb);
                gather.revoke(flush_range(KERNEL + (flush.first << 12), flush.pages, flush.order));
                let _ = this_cpu.flush_kernel(gather);
                return;
            };
            let slot = self.space(space).borrow();
            if flush.batch {
                return self.flush_batch(&slot.0, flush);
            }
            let mut gather = Gather::new(&slot.0);
            let named = || range(flush.first, flush.pages, flush.order);
            match flush {
                Flush { everything: true, .. } => gather.revoke_everything(),
                Flush { tables: true, .. } => gather.unlink_table(named()),
                _ => gather.revoke(named()),
            }
            if self.early {
                let _ = this_cpu.flush_early(gather);
            } else {
                let _ = this_cpu.flush(gather);
            }
        });
    }

    fn mapped(&self, space: SpaceId, first: u64, pages: u64) {
        timed::interrupts_off(|| {
            self.this_cpu().map(&self.space(space).borrow().0, range(first, pages, 0));
        });
    }

    fn handle_ipi(&self) {
        self.this_cpu().handle_ipi();
    }

    fn remove(&self, space: SpaceId) {
        let slot = self.spaces.borrow_mut()[space.0 as usize].take().expect("removed once");
        let mut slot = slot.borrow_mut();
        // A CPU that names the space lazily keeps its tag until it is used for another.
        let _ = self.this_cpu().release(&mut slot.0);
    }
}
