//! Linux before PCIDs, as it was in the summer of 2017 (commit a4eb8b993554): every switch to another space
//! flushes, and a CPU that idles keeps its space loaded and stays in its mask. A flush interrupts the idle
//! CPU once; it then leaves the space, and loads it again when it has a thread to run.

use lookaside::{
    arch::x86_64::{Instructions as _, X86},
    platform::Word as _,
};
use lookaside_machine::timed::{self, Word, x86::Insn};
use lookaside_terminal::Refused;

use super::{
    call::Mask,
    linux::{Common, Request, me},
};
use crate::{
    data::Isa,
    strategy::{
        Entry, Flush, Place, SpaceId, Strategy,
        hardware::{Hardware, RESERVED, X86Plain},
    },
};

/// All of them.
pub(super) const STRATEGIES: &[Entry] = &[Entry {
    name: "cr3-flush",
    about: "Linux before PCIDs (July 2017): a switch flushes, a flush interrupts lazy CPUs once",
    isas: &[Isa::X86_64],
    build: |place| Untagged::<X86Plain>::build(place),
}];

/// State of a CPU.
#[repr(align(64))]
struct Cpu {
    /// The context of the space that it runs, or ran when it went idle; 0 for none.
    active: Word,
    /// 1 if it runs no user code.
    lazy: Word,
}

struct Untagged<'a, H: Hardware> {
    common: Common<'a, H>,
    cpus: &'a [Cpu],
}

impl<'a, H: Hardware<Mmu = X86<Insn>> + 'a> Untagged<'a, H> {
    fn build(place: Place<'a>) -> Result<Box<dyn Strategy + 'a>, Refused> {
        let cpu = |_| Cpu { active: Word::ZERO, lazy: Word::ZERO };
        let cpus = place.arena.fill(place.cpus, cpu);
        timed::name(cpus, "CPUs");
        Ok(Box::new(Self { common: Common::new(place)?, cpus }))
    }

    fn cpu(&self) -> &'a Cpu {
        &self.cpus[me().index()]
    }

    /// Leaves the space that this CPU has loaded and does not run.
    fn leave(&self, cpus: Mask<'_>) {
        if cpus.has(me()) {
            cpus.remove(me());
            Insn.write_cr3(RESERVED);
        }
    }

    /// Processes a request for the space that this CPU has loaded.
    fn process(&self, request: &Request) {
        if request.is_range() {
            request.flush_pages();
        } else {
            Insn.write_cr3(Insn.read_cr3());
        }
    }
}

impl<'a, H: Hardware<Mmu = X86<Insn>> + 'a> Strategy for Untagged<'a, H> {
    fn online(&self) {
        self.common.online();
    }

    fn add(&self, space: SpaceId, root: u64) {
        self.common.add(space, root);
    }

    fn switch(&self, next: SpaceId) {
        let (cpu, next) = (self.cpu(), self.common.space(next));
        let previous = cpu.active.get();
        cpu.lazy.set(0);
        if previous == next.context {
            if !next.cpus.has(me()) {
                // An initiator has made this CPU leave meanwhile.
                next.cpus.add(me());
                Insn.write_cr3(next.root);
            }
            return;
        }
        cpu.active.set(next.context);
        next.cpus.add(me());
        Insn.write_cr3(next.root);
        if previous != 0 {
            self.common.named(previous).cpus.remove(me());
        }
    }

    fn idle(&self) {
        self.cpu().lazy.set(1);
    }

    fn flush(&self, flush: &Flush) {
        let Some(space) = flush.space else { return self.common.flush_kernel(flush) };
        let (cpu, mm) = (self.cpu(), self.common.space(space));
        let request = self.common.request(flush, 0);
        if cpu.active.get() == mm.context {
            timed::interrupts_off(|| {
                if cpu.lazy.get() == 0 {
                    self.process(&request);
                } else {
                    self.leave(mm.cpus);
                }
            });
        } else {
            Word::fence(lookaside::platform::Ordering::SeqCst);
        }
        self.common.send(mm.cpus, &request, || ());
    }

    fn handle_ipi(&self) {
        let cpu = self.cpu();
        self.common.handle_ipi(|request| {
            if cpu.active.get() != request.space {
                return;
            }
            if cpu.lazy.get() == 0 {
                self.process(request);
            } else {
                self.leave(self.common.named(request.space).cpus);
            }
        });
    }

    fn remove(&self, _: SpaceId) {
        // Context numbers are never reused, and lazy CPUs leave on their own.
    }
}
