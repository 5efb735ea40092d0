//! The space, its table, and their construction.

use core::ops::Range;

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, GlobalAsids, Tlb, VaRange,
    arch::{Mmu, Root},
    contig::{self, Entries, Format, Locked, Raw},
    platform::{CpuId, Ordering, Word as _},
};
use lookaside_machine::adversary::{
    Access, Flags, Frame, Platform, Word, as_cpu, irq_off, irq_on, leak, name, oracle, relax,
    tables,
};

use super::{Act, Described, Mapped, START, Script, va};
use crate::scenario::script::{Few, epochs};

pub(super) type At<'h, M> = CurrentCpu<'h, Platform<M>, GlobalAsids<'static, Platform<M>>>;

/// The state that the CPUs share.
pub(in crate::scenario) struct World<M: Mmu + 'static, F> {
    pub(super) kind: Described<M, F>,
    pub(super) tlb: Tlb<'static, Platform<M>, GlobalAsids<'static, Platform<M>>>,
    pub(super) space: AddressSpace<Platform<M>>,
    pub(super) root: Frame,
    /// The last-level entries.
    pub(super) words: &'static [Word],
    /// Whether a CPU has signalled the others.
    signalled: Word,
    /// The lock of the table, if more than one CPU takes it.
    lock: Option<Word>,
    /// A change may be refused.
    pub(super) refusals: bool,
}

impl<M: Mmu + 'static, F: Format + 'static> World<M, F> {
    pub(super) fn build(script: &Script<M, F>) -> &'static Self {
        let reserved = tables::allocate_reserved();
        let kind = script.kind;
        let mmu = (kind.hardware.mmu)(reserved).expect("hardware");
        let platform = Platform::new(mmu).with_costs((kind.hardware.costs)());
        let few = Few { usable: 4, pins: 0, last_epoch: lookaside::tags::Cookie::LAST_EPOCH };
        let tags = epochs(&platform, few).expect("tags");
        let storage = Vec::leak(script.cpus.iter().map(|_| Cpu::new()).collect());
        let tlb = Tlb::new(platform, tags, storage).expect("storage that is large enough");

        let (root, last) = (tables::allocate(), tables::allocate());
        // Relaxed: the world is being built.
        tables::word(root, (START >> 16) as usize).store(tables::table(last), Ordering::Relaxed);
        let words = tables::words(last);
        let residents = Box::new([Word::ZERO]);
        let space = tlb.space(Root::new(root.0 << 12), residents).expect("a space");
        let lockers = script.cpus.iter().filter(|acts| acts.iter().any(Act::locks)).count();
        let lock = (lockers > 1).then_some(Word::ZERO);
        let refusals = script.refusals;
        let signalled = Word::ZERO;
        let world = leak(Self { kind, tlb, space, root, words, signalled, lock, refusals });

        script.mapped.iter().for_each(|mapped| world.map(mapped));
        for (slot, word) in words.iter().enumerate() {
            name(word, format!("pte{slot}"));
            let written = script.written.is_empty() || script.written.contains(&slot);
            if written && word.peek() & 1 != 0 {
                tables::hardware_writes(word);
            }
        }
        for cpu in 0..script.cpus.len() {
            as_cpu(CpuId(cpu as u32), || {
                world.tlb.online(&(), &(kind.hardware.features)()).expect("a CPU that fits");
                if cpu > 0 {
                    let _ = world.this_cpu().switch(&world.space);
                }
            });
        }
        world
    }

    /// The entry of the page in a slot, which can be stored to.
    pub(super) fn page(&self, slot: usize, flags: Flags) -> u64 {
        tables::with_flags(tables::page(self.kind.frame(slot), Access::WRITE), flags)
    }

    fn map(&self, mapped: &Mapped) {
        let flags = Flags { accessed: mapped.flags.accessed, dirty: mapped.flags.dirty };
        let pages = self.kind.block_pages();
        let mut next = mapped.slots.start;
        while next < mapped.slots.end {
            let end = (next / pages * pages + pages).min(mapped.slots.end);
            let page = self.page(next, flags);
            if mapped.plain {
                for slot in next..end {
                    let page = self.kind.format.at(Raw(page), self.kind.frame(slot).address());
                    self.words[slot].store(page.0, Ordering::Relaxed); // Relaxed: as above.
                }
            } else {
                self.table().set(next..end, Raw(page)).expect("free slots");
            }
            next = end;
        }
        if let Some(marker) = mapped.marker {
            let word = &self.words[marker];
            let marker = tables::with_flags(word.peek(), Flags::BOTH) & !1; // Absent.
            word.store(marker, Ordering::Relaxed);
        }
        if let Some(dirty) = mapped.dirty {
            let word = &self.words[dirty];
            word.store(tables::with_flags(word.peek(), Flags::BOTH), Ordering::Relaxed);
        }
    }

    /// Does one act on the CPU that runs.
    pub(super) fn act(&'static self, act: &Act) {
        match act {
            Act::Await | Act::Load(_) | Act::Store(_) | Act::Insist(_) => self.act_openly(act),
            _ => {
                irq_off();
                self.act_closed(&self.this_cpu(), act);
                irq_on();
            }
        }
    }

    fn act_closed(&'static self, this_cpu: &At<'_, M>, act: &Act) {
        if act.locks() {
            self.acquire(this_cpu);
        }
        match act {
            Act::Run => drop(this_cpu.switch(&self.space)),
            Act::Park => drop(this_cpu.park()),
            // Release: a CPU in `Await` sees everything before this.
            Act::Tell => self.signalled.store(1, Ordering::Release),
            Act::Look(slot) => self.look(*slot),
            Act::Peruse(slot) => self.peruse(*slot),
            Act::Rely(slot) => self.rely(this_cpu, *slot),
            act => self.change(this_cpu, act),
        }
        if act.locks() {
            self.release();
        }
    }

    /// Acquire: everything that the other CPU did before its signal.
    pub(super) fn wait(&self) {
        while self.signalled.load(Ordering::Acquire) == 0 {
            relax();
        }
    }

    pub(super) fn acquire(&self, this_cpu: &At<'_, M>) {
        if let Some(lock) = &self.lock {
            // Acquire and Release: a lock.
            while lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
                this_cpu.handle_ipi();
                relax();
            }
        }
    }

    pub(super) fn release(&self) {
        if let Some(lock) = &self.lock {
            lock.store(0, Ordering::Release);
        }
    }

    pub(super) fn this_cpu(&self) -> At<'_, M> {
        self.tlb.this_cpu(&())
    }

    pub(super) fn entries(&self) -> Entries<'static, Word, F> {
        Entries::new(self.kind.format, self.words, START).expect("a whole table")
    }

    /// The table, for the holder of its lock.
    pub(super) fn table(&self) -> Locked<'static, Word, F> {
        // SAFETY: the lock is held, or no other CPU takes it; the adversary changes flags only; the
        // kind is given in the machine's configuration.
        unsafe { self.entries().locked(self.kind.size_change) }
    }

    /// The slots of all blocks that `slots` touches.
    pub(super) fn around(&self, slots: &Range<usize>) -> Range<usize> {
        let pages = self.kind.block_pages();
        slots.start / pages * pages..slots.end.next_multiple_of(pages)
    }

    pub(super) fn addresses(slots: &Range<usize>) -> VaRange {
        VaRange::new(va(slots.start), (slots.len() as u64) << 12, 12).expect("some pages")
    }

    /// Checks that the flags that hardware set for these pages are in `found`, or still in the table.
    pub(super) fn claim(&self, slots: Range<usize>, found: contig::Flags) {
        let found = Flags { accessed: found.accessed, dirty: found.dirty };
        for slot in slots {
            oracle::harvested(self.kind.frame(slot), 1, found);
        }
    }

    /// The same of all that is mapped in the end: what its state says is found.
    pub(super) fn claim_rest(&self) {
        let table = self.table();
        for slot in 0..self.words.len() {
            match table.get(slot) {
                Ok(page) if page.is_present() => self.claim(slot..slot + 1, page.flags()),
                _ => {}
            }
        }
    }
}
