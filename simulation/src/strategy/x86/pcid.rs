//! Linux with PCIDs, as it was proposed in July 2017 ("x86/mm: Try to preserve old TLB entries using
//! PCID", version 5): each CPU has six slots for the spaces that it ran last, with the generation of
//! flushes that each has caught up with, and replaces them in turn. A CPU that goes idle leaves the
//! space's mask and is not interrupted; it catches up when it comes back.

use lookaside::{
    arch::x86_64::{Instructions as _, X86},
    platform::{Ordering, Word as _},
};
use lookaside_machine::timed::{self, x86::Insn};
use lookaside_terminal::Refused;

use super::{
    linux::{Common, Mm, Request, me},
    slots::{Cpu, KEEP, SLOTS},
};
use crate::{
    data::Isa,
    strategy::{
        Entry, Flush, Place, SpaceId, Strategy,
        hardware::{Hardware, X86Cpu, X86Plain},
    },
};

/// All of them.
pub(super) const STRATEGIES: &[Entry] = &[
    Entry {
        name: "pcid-2017",
        about: "Linux with PCIDs as first merged (July 2017): six slots a CPU, generations, no \
                interrupts for lazy CPUs",
        isas: &[Isa::X86_64],
        build: |place| Pcid::<X86Cpu>::build(place, Ways::OF_2017),
    },
    Entry {
        name: "pcid-2017-off",
        about: "the same with `nopcid`: the state is kept, and every switch flushes",
        isas: &[Isa::X86_64],
        build: |place| Pcid::<X86Plain>::build(place, Ways { slots: 1, ..Ways::OF_2017 }),
    },
    Entry {
        name: "ipi-2022-promote",
        about: "Linux 5.17: the same state, the initiator flushes while the others do; it flushes \
                when more is allowed, too",
        isas: &[Isa::X86_64],
        build: |place| Pcid::<X86Cpu>::build(place, Ways { promotions: true, ..Ways::OF_2022 }),
    },
    Entry {
        name: "ipi-2022",
        about: "the same without the flush when more is allowed (March 2022)",
        isas: &[Isa::X86_64],
        build: |place| Pcid::<X86Cpu>::build(place, Ways::OF_2022),
    },
];

/// Differences between the strategies of this module.
#[derive(Clone, Copy)]
struct Ways {
    /// Slots in use: 1 without PCIDs, where the slot is loaded anew with each space.
    slots: usize,
    /// Whether the initiator flushes after it has sent its interrupts, not before.
    concurrent: bool,
    /// Whether flushes under way are counted.
    pending: bool,
    promotions: bool,
}

impl Ways {
    const OF_2017: Self =
        Self { slots: SLOTS, concurrent: false, pending: false, promotions: false };
    const OF_2022: Self = Self { concurrent: true, pending: true, ..Self::OF_2017 };
}

struct Pcid<'a, H: Hardware> {
    common: Common<'a, H>,
    cpus: &'a [Cpu],
    ways: Ways,
}

impl<'a, H: Hardware<Mmu = X86<Insn>> + 'a> Pcid<'a, H> {
    fn build(place: Place<'a>, ways: Ways) -> Result<Box<dyn Strategy + 'a>, Refused> {
        let cpus = place.arena.fill(place.cpus, |_| Cpu::new());
        timed::name(cpus, "CPUs");
        let ways =
            if place.machine.features.tag_bits == 0 { Ways { slots: 1, ..ways } } else { ways };
        Ok(Box::new(Self { common: Common::new(place)?, cpus, ways }))
    }

    fn cpu(&self) -> &'a Cpu {
        &self.cpus[me().index()]
    }

    /// The slot for a space, and whether the slot's entries must be flushed. `generation` was read after this
    /// CPU was set in the space's mask.
    fn choose(&self, cpu: &Cpu, next: &Mm<'_>, generation: u64) -> (usize, bool) {
        if self.ways.slots == 1 {
            return (0, true);
        }
        let (slot, caught_up) = cpu.find(next.context, self.ways.slots);
        (slot, caught_up.is_none_or(|caught_up| caught_up < generation))
    }

    fn load(&self, root: u64, slot: u64, flush: bool) {
        let keep = if flush { 0 } else { KEEP };
        Insn.write_cr3(root | slot | keep);
    }

    /// Processes a request for the space that this CPU has loaded. Interrupts are off.
    fn process(&self, cpu: &Cpu, mm: &Mm<'_>, request: &Request) {
        // Read before the flush, so that no more is recorded than was flushed.
        let latest = mm.generation.load(Ordering::SeqCst);
        let slot = cpu.current();
        let caught_up = slot.generation.get();
        if !mm.cpus.has(me()) || caught_up == latest {
            return;
        }
        let next = request.generation == caught_up + 1 && request.generation == latest;
        if request.is_range() && next {
            request.flush_pages();
        } else {
            self.load(mm.root, cpu.number(), true);
        }
        slot.generation.set(latest);
    }
}

impl<'a, H: Hardware<Mmu = X86<Insn>> + 'a> Strategy for Pcid<'a, H> {
    fn online(&self) {
        self.common.online();
        // Slot 0 is where a CPU starts.
        self.cpu().start(self.ways.slots);
    }

    fn add(&self, space: SpaceId, root: u64) {
        self.common.add(space, root);
    }

    fn switch(&self, next: SpaceId) {
        let (cpu, next) = (self.cpu(), self.common.space(next));
        let previous = cpu.loaded.get();
        if previous == next.context {
            if next.cpus.has(me()) {
                return;
            }
            next.cpus.add(me());
            let latest = next.generation.load(Ordering::SeqCst);
            let slot = cpu.current();
            if slot.generation.get() < latest {
                slot.generation.set(latest);
                self.load(next.root, cpu.number(), true);
            }
            return;
        }
        if previous != 0 {
            let previous = self.common.named(previous);
            if previous.cpus.has(me()) {
                previous.cpus.remove(me());
            }
        }
        next.cpus.add(me());
        let generation = next.generation.load(Ordering::SeqCst);
        let (slot, flush) = self.choose(cpu, next, generation);
        if flush {
            cpu.give(slot, next.context, generation);
        }
        self.load(next.root, slot as u64, flush);
        cpu.loaded.set(next.context);
        cpu.set_current(slot);
    }

    fn idle(&self) {
        let loaded = self.cpu().loaded.get();
        if loaded != 0 {
            let mm = self.common.named(loaded);
            if mm.cpus.has(me()) {
                mm.cpus.remove(me());
            }
        }
    }

    fn flush(&self, flush: &Flush) {
        let Some(space) = flush.space else { return self.common.flush_kernel(flush) };
        let (cpu, mm) = (self.cpu(), self.common.space(space));
        let count = |change: u64| {
            if self.ways.pending {
                let _ = mm.pending.0.fetch_add(change, Ordering::Relaxed);
            }
        };
        count(1);
        let generation = mm.generation.fetch_add(1, Ordering::SeqCst) + 1;
        let request = self.common.request(flush, generation);
        let here = || {
            if cpu.loaded.get() == mm.context {
                timed::interrupts_off(|| self.process(cpu, mm, &request));
            }
        };
        if self.ways.concurrent {
            self.common.send(mm.cpus, &request, here);
        } else {
            here();
            self.common.send(mm.cpus, &request, || ());
        }
        count(1_u64.wrapping_neg());
    }

    fn handle_ipi(&self) {
        let cpu = self.cpu();
        self.common.handle_ipi(|request| {
            if cpu.loaded.get() == request.space {
                self.process(cpu, self.common.named(request.space), request);
            }
        });
    }

    fn remove(&self, _: SpaceId) {
        // Context numbers are never reused, so that slots of the space are never found again.
    }

    fn flushes_promotions(&self) -> bool {
        self.ways.promotions
    }
}
