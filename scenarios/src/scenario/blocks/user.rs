//! Operations without the lock: user code, its fault handler, and readers.

use lookaside::{
    Gather,
    arch::Mmu,
    contig::{Access, Format, Raw},
    platform::{Ordering, Word as _},
};
use lookaside_machine::adversary::{access, access_store, irq_off, irq_on, oracle, tables};

use super::{
    Act,
    kernel::WRITTEN,
    va,
    world::{At, World},
};

impl<M: Mmu + 'static, F: Format + 'static> World<M, F> {
    pub(super) fn act_openly(&'static self, act: &Act) {
        match *act {
            Act::Await => self.wait(),
            Act::Load(slot) => drop(access(va(slot))),
            Act::Store(slot) => drop(access_store(va(slot), 1)),
            Act::Insist(slot) => self.insist(slot),
            _ => {}
        }
    }

    /// A store of user code, with the kernel's handler of faults. The page is there, and software
    /// writes its flags.
    fn insist(&'static self, slot: usize) {
        if access_store(va(slot), 1).is_some() {
            return;
        }
        irq_off();
        let this_cpu = self.this_cpu();
        self.acquire(&this_cpu);
        let mut flush = this_cpu.flush_blocks(&self.space);
        let repaired = self.table().set_access(slot, Access::STORE, &mut flush);
        oracle::check(repaired.is_ok(), "the page is there");
        // An entry that this CPU still caches may have caused the fault, and may cause it again.
        let mut gather = Gather::new(&self.space);
        gather.revoke(Self::addresses(&(slot..slot + 1)));
        let _ = this_cpu.flush(gather);
        // As long as the lock is held, no other CPU causes a fault.
        oracle::check(access_store(va(slot), 1).is_some(), "the fault came again");
        self.release();
        irq_on();
    }

    /// A reader without the lock sees a state that the page has had.
    pub(super) fn look(&self, slot: usize) {
        // A reader that finds the block changing each time takes the lock.
        let Ok(found) = self.entries().get(slot) else { return };
        if found.is_present() {
            let output = self.kind.format.output(Raw(found.bits()));
            oracle::check(output == self.kind.frame(slot).address(), "that page was never there");
            oracle::check(found.dirty(), "the page was never clean");
        }
    }

    /// A reader without the lock finds in a page what was written to it before it was mapped.
    pub(super) fn peruse(&self, slot: usize) {
        if self.entries().get(slot).is_ok_and(|found| found.is_present()) {
            // Relaxed: it is the entry that orders it.
            let contents = tables::contents(self.kind.frame(slot)).load(Ordering::Relaxed);
            oracle::check(contents == WRITTEN, "the page is found before what was written to it");
        }
    }

    /// A reader without the lock finds that a page cannot be stored to, and relies on that. A page that is gone says less:
    /// the entries of its block that are still there map it, too.
    pub(super) fn rely(&self, this_cpu: &At<'_, M>, slot: usize) {
        let Ok(found) = self.entries().get(slot) else { return };
        if !found.is_present() || self.kind.format.is_writable(Raw(found.bits())) {
            return;
        }
        let mut gather = Gather::new(&self.space);
        gather.relies_on(Self::addresses(&(slot..slot + 1)));
        let _ = this_cpu.flush(gather);
        // Nobody permits stores to the page again.
        oracle::revoked(self.root, va(slot));
    }
}
