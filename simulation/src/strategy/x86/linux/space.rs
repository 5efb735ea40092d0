//! What Linux keeps of each address space.

use core::cell::Cell;

use lookaside::platform::Word as _;
use lookaside_machine::timed::{self, Arena, Ps, Word};

use super::mask::Mask;

/// How often a flush goes to the whole mask.
const TRIM: Ps = 1_000_000_000_000;

/// A word in a line of its own.
#[repr(align(64))]
pub(super) struct Line(pub(super) Word);

impl Line {
    pub(super) const fn new() -> Self {
        Self(Word::ZERO)
    }
}

/// An address space.
#[repr(align(64))]
pub(super) struct Mm<'a> {
    pub(super) root: u64,
    /// The context id, never reused.
    pub(super) context: u64,
    /// The TLB generation: the number of flushes requested.
    pub(super) generation: Word,
    /// The number of its flushes under way, read by a CPU that finds a page absent.
    pub(super) pending: &'a Line,
    /// `mm_cpumask`: the CPUs to interrupt.
    pub(super) cpus: Mask<'a>,
    /// The tag that it has on all CPUs: see [`super::broadcast`].
    pub(super) tag: &'a Line,
    /// When the mask is to be trimmed next. Few read it, so that its time does not count.
    trim: Cell<Ps>,
}

impl<'a> Mm<'a> {
    pub(super) fn new(arena: &'a Arena, root: u64, context: u64, cpus: usize) -> &'a Self {
        let line = |name| -> &'a Line {
            let line = arena.put(Line::new());
            timed::name(line, name);
            line
        };
        let mm = arena.put(Self {
            root,
            context,
            generation: Word::ZERO,
            pending: line("flushes under way"),
            cpus: Mask::new(arena, cpus, "CPUs of spaces"),
            tag: line("tags of spaces"),
            trim: Cell::new(timed::now() + TRIM),
        });
        timed::name(&mm.generation, "generations of spaces");
        mm
    }

    /// The mask is due to be trimmed, as that of a space is whose last period is over.
    pub(super) fn make_due(&self) {
        self.trim.set(0);
    }

    /// Whether the mask is due to be trimmed; starts the next period if so.
    pub(super) fn is_due(&self) -> bool {
        let due = timed::now() >= self.trim.get();
        if due {
            self.trim.set(timed::now() + TRIM);
        }
        due
    }
}
