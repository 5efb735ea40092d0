//! Translation hardware: for each CPU a register and a TLB that keeps every walked translation.

use core::cell::{RefCell, RefMut};

use lookaside::{
    Error,
    arch::{Errata, Held, Invalidation, Mmu, Properties, Root, Scope, Sharing, Tag, Wait},
    platform::{Costs, OperationCosts, Ordering, Word as _},
};
use loom::{cell::UnsafeCell, sync::atomic::fence};

use crate::{machine::this_cpu, word::Word};

/// The value of an unmapped page-table entry. Words begin with zero, which maps the frame.
const UNMAPPED: u64 = 1;
/// The contents of a frame after it was given to another owner.
const REUSED: u64 = 1;

/// Bits of a tag.
const TAG_BITS: u32 = 3;

/// The hardware of every CPU, page tables with one entry each, and the frames that these map.
///
/// It is as lax as the contract of [`Mmu`] lets it be: a walk is a relaxed load, it comes as early as it may,
/// its entry is kept until it is flushed, and neither a flush nor a write of the register orders any word.
pub struct Hardware {
    cpus: Vec<RefCell<Cpu>>,
    /// Number `n` belongs to the table at `(n + 1) * 4096`.
    entries: Vec<Word>,
    /// Read by user code, written by the next owner: loom reports accesses that are not ordered.
    frames: Vec<UnsafeCell<u64>>,
    /// Whether [`Mmu::publish`] is a barrier, as on Arm and RISC-V. On x86 it is nothing.
    barrier: bool,
}

#[derive(Default)]
struct Cpu {
    /// The space whose table the register names, and the tag.
    named: Option<(usize, Tag)>,
    /// Under this tag, the page of this space.
    held: Vec<(Tag, usize)>,
}

impl Hardware {
    pub(crate) fn new(cpus: usize, spaces: usize, barrier: bool) -> Self {
        Self {
            cpus: (0..cpus).map(|_| RefCell::default()).collect(),
            entries: (0..spaces).map(|_| Word::ZERO).collect(),
            frames: (0..spaces).map(|_| UnsafeCell::new(0)).collect(),
            barrier,
        }
    }

    /// The table of a space.
    pub(crate) fn root(space: usize) -> Root {
        Root::new((space as u64 + 1) * 4096)
    }

    /// User code reads its page; returns whether the page was mapped.
    ///
    /// # Panics
    ///
    /// If this CPU holds another space's page under the tag that its register names, or if the frame has
    /// another owner.
    pub fn touch(&self) -> bool {
        let Some((space, tag)) = self.cpu().named else { return false };
        if !self.holds(tag) {
            self.walk();
        }
        let held = self.cpu().held.iter().find(|held| held.0 == tag).copied();
        let Some((_, of)) = held else { return false };
        assert_eq!(of, space, "a page of one space is used in another one");
        // SAFETY: no thread writes it meanwhile, or loom reports it.
        let content = self.frames[of].with(|frame| unsafe { *frame });
        assert_ne!(content, REUSED, "a frame is used that has another owner");
        true
    }

    /// Takes the page of a space out of its table.
    pub fn unmap(&self, space: usize) {
        // Relaxed: `CurrentCpu::flush` publishes it.
        self.entries[space].store(UNMAPPED, Ordering::Relaxed);
    }

    /// Gives the frame of a space to another owner, who writes to it.
    pub fn reuse(&self, space: usize) {
        // SAFETY: no thread uses it meanwhile, or loom reports it.
        self.frames[space].with_mut(|frame| unsafe { *frame = REUSED });
    }

    fn cpu(&self) -> RefMut<'_, Cpu> {
        self.cpus[this_cpu().index()].borrow_mut()
    }

    fn holds(&self, tag: Tag) -> bool {
        self.cpu().held.iter().any(|held| held.0 == tag)
    }

    /// The walker looks the page up.
    fn walk(&self) {
        let Some((space, tag)) = self.cpu().named else { return };
        // Nothing is borrowed meanwhile: loom runs others before it.
        let entry = self.entries[space].load(Ordering::Relaxed);
        if entry != UNMAPPED {
            self.cpu().held.push((tag, space));
        }
    }

    fn drop_tag(&self, tag: Tag) {
        self.cpu().held.retain(|held| held.0 != tag);
    }

    /// After a flush the walker is at work again at once.
    fn walk_again(&self) {
        let named = self.cpu().named;
        if named.is_some_and(|(_, tag)| !self.holds(tag)) {
            self.walk();
        }
    }
}

impl Mmu for Hardware {
    type Features = ();

    fn properties(&self) -> Properties {
        Properties::plain(TAG_BITS, &COSTS)
    }

    fn admit(&self, (): &()) -> Result<Errata, Error> {
        Ok(Errata::NONE)
    }

    fn check_root(&self, _: Root) -> Result<(), Error> {
        Ok(())
    }

    fn settle(&self) {}

    fn publish(&self, _: Wait) {
        if self.barrier {
            fence(Ordering::SeqCst);
        }
    }

    unsafe fn load(&self, _: Errata, root: Root, tag: Tag, held: Held, _: Sharing) {
        if held == Held::Drop {
            self.drop_tag(tag);
        }
        self.cpu().named = Some(((root.table / 4096) as usize - 1, tag));
        self.walk_again();
    }

    fn park(&self, _: Errata) {
        self.cpu().named = None;
    }

    fn flush(&self, _: Errata, entries: Invalidation<'_>, scope: Scope) {
        assert_eq!(scope, Scope::Local, "nothing is broadcast");
        match entries {
            Invalidation::All => self.cpu().held.clear(),
            Invalidation::Tag(tag) | Invalidation::Ranges { tag, .. } => self.drop_tag(tag),
            Invalidation::Kernel { .. } => return,
        }
        self.walk_again();
    }
}

/// A new tag costs more than any flush, so that the library never retags instead.
const COSTS: Costs = {
    let each = OperationCosts { address: 1, tag: 1, wait: 1, ceiling: u64::MAX };
    Costs {
        local: each,
        broadcast: each,
        refill: 1,
        useful_entries: 1,
        ipi: 1,
        ipi_more: 1,
        retag: 100,
    }
};
