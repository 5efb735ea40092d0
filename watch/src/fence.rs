//! Fences: which entries they remove, and when.

use alloc::vec::Vec;

use lookaside_hardware::Invalidation;

use crate::{
    Memory, Shadow,
    finding::Place,
    held::{Held, Ident, Set},
    permitted::pages_of,
};

/// Which CPUs an invalidation reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// The one that issues it.
    Own,
    /// All: Arm's inner-shareable forms.
    All,
}

/// What an invalidation names, in words for a table of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Form {
    /// Everything.
    All,
    /// Everything that is not global.
    AllButGlobals,
    /// A tag.
    Tag,
    /// Pages under every tag.
    Pages,
    /// Pages of a tag.
    PagesOfTag,
}

impl Form {
    /// The form of an invalidation.
    #[must_use]
    pub fn of(removes: &Invalidation) -> Self {
        match (removes.pages == Invalidation::EVERYWHERE, removes.tag) {
            (true, None) if removes.globals => Self::All,
            (true, None) => Self::AllButGlobals,
            (true, Some(_)) => Self::Tag,
            (false, None) => Self::Pages,
            (false, Some(_)) => Self::PagesOfTag,
        }
    }

    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::All => "everything",
            Self::AllButGlobals => "all but globals",
            Self::Tag => "a tag",
            Self::Pages => "pages, any tag",
            Self::PagesOfTag => "pages of a tag",
        }
    }
}

/// An invalidation that a CPU executes.
#[derive(Clone, Copy, Debug)]
pub struct Fence {
    /// The CPU.
    pub cpu: u32,
    /// The address of the instruction.
    pub pc: u64,
    /// What it removes.
    pub removes: Invalidation,
    /// From which CPUs.
    pub reach: Reach,
    /// It is complete only at the next [`Shadow::complete`] of the CPU.
    pub pending: bool,
}

/// An invalidation that no barrier has completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    fence: Fence,
    /// Entries that were filled later stay.
    time: u64,
}

impl Pending {
    pub(crate) fn reaches(&self, cpu: u32) -> bool {
        self.fence.reach == Reach::All || self.fence.cpu == cpu
    }

    /// Whether an entry was held when it was issued.
    pub(crate) fn is_after(&self, held: &Held) -> bool {
        held.filled.time <= self.time
    }

    /// The bit of the CPU that issued it, if it names an entry of a CPU.
    pub(crate) fn names(&self, cpu: u32, held: &Held) -> u64 {
        u64::from(self.reaches(cpu) && self.fence.removes.names(&held.cached))
            << (self.fence.cpu % 64)
    }

    pub(crate) fn removes(&self) -> &Invalidation {
        &self.fence.removes
    }
}

/// Pages up to this many are looked up one by one; of more, all entries of the tags are looked through.
const FEW: u64 = 64;

impl Shadow {
    /// A CPU executes an invalidation.
    pub fn fence(&mut self, memory: &impl Memory, fence: Fence) {
        let time = self.tick();
        self.counts.fences += 1;
        let form = Form::of(&fence.removes);
        let ignored = self.is_ignored(fence.pc);
        let site = self.sites.entry((fence.pc, form)).or_default();
        site.executed += 1;
        site.ignored = ignored;
        if ignored {
            return;
        }
        self.cpus[fence.cpu as usize].remember_fence(Place { cpu: fence.cpu, pc: fence.pc, time });
        let pending = Pending { fence, time };
        if fence.pending {
            self.cpus[fence.cpu as usize].pending.push(pending);
            let later = self.tick();
            for cpu in (0..self.cpus.len() as u32).filter(|&cpu| pending.reaches(cpu)) {
                let by = Place { cpu, pc: fence.pc, time: later };
                self.spare_walked(memory, &fence.removes, by);
            }
        } else {
            self.carry_out(memory, &[pending]);
        }
    }

    /// A barrier of a CPU completes its pending invalidations: all, or those that reach no other CPU.
    pub fn complete(&mut self, memory: &impl Memory, cpu: u32, broadcasts: bool) {
        if self.cpus[cpu as usize].pending.is_empty() {
            return;
        }
        self.tick();
        let pending = core::mem::take(&mut self.cpus[cpu as usize].pending);
        let (done, kept): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|one| broadcasts || one.fence.reach == Reach::Own);
        self.cpus[cpu as usize].pending = kept;
        self.carry_out(memory, &done);
    }

    /// Removes what fences name, and then adds what can be walked to.
    fn carry_out(&mut self, memory: &impl Memory, fences: &[Pending]) {
        let (mut walk, mut only) = (0_u64, (u64::MAX, 0));
        for pending in fences {
            walk |= self.remove(pending);
            let (first, last) = pages_of(pending.removes());
            only = (only.0.min(first), only.1.max(last));
        }
        let Some(last) = fences.last() else { return };
        for cpu in (0..self.cpus.len() as u32).filter(|cpu| walk >> (cpu % 64) & 1 != 0) {
            let time = self.tick();
            self.walk_all(memory, Place { cpu, pc: last.fence.pc, time }, only);
        }
    }

    /// Removes what a fence names, and says from which CPUs something went, a bit for each (modulo 64).
    fn remove(&mut self, pending: &Pending) -> u64 {
        let fence = pending.fence;
        let mut walk = 0;
        let (mut removed, mut settled) = (0, 0);
        for cpu in 0..self.cpus.len() as u32 {
            if !pending.reaches(cpu) {
                continue;
            }
            let mut gone = Vec::new();
            self.named(cpu, &fence.removes, |id| gone.push(id));
            for id in gone {
                // A large page is found by each of its pages.
                let Some(held) = self.cpus[cpu as usize].entries.get(id) else { continue };
                if !pending.is_after(held) && held.doomed >> (fence.cpu % 64) & 1 == 0 {
                    continue;
                }
                removed += 1;
                settled += u64::from(held.revoked.is_some());
                self.forget(cpu, id);
                if cpu != fence.cpu {
                    // That CPU's fast path must see that it holds the page no longer.
                    self.turn();
                }
                walk |= 1 << (cpu % 64);
            }
        }
        let site = self.sites.entry((fence.pc, Form::of(&fence.removes))).or_default();
        site.removing += u64::from(removed > 0);
        site.needed += u64::from(settled > 0);
        site.removed += removed;
        site.settled += settled;
        self.counts.settled += settled;
        walk
    }

    /// The entries of a CPU that an invalidation names. Which are looked at is chosen here; which are named is for
    /// the hardware's rules to say.
    pub(crate) fn named(&self, cpu: u32, removes: &Invalidation, mut each: impl FnMut(Ident)) {
        let cpu = &self.cpus[cpu as usize];
        let mut look = |id| {
            if removes.names(&cpu.entries[id].cached) {
                each(id);
            }
        };
        let few = removes.pages.1.wrapping_sub(removes.pages.0) < FEW
            && removes.partial != lookaside_hardware::Partial::All;
        let one = |set: &Set, look: &mut dyn FnMut(Ident)| {
            if few {
                (removes.pages.0..=removes.pages.1).for_each(|page| set.holding(page, &mut *look));
            } else {
                set.all(&mut *look);
            }
        };
        if removes.globals {
            one(&cpu.globals, &mut look);
        }
        match removes.tag {
            Some(tag) => {
                if let Some(set) = cpu.tagged.get(&tag) {
                    one(set, &mut look);
                }
            }
            None => cpu.tagged.values().for_each(|set| one(set, &mut look)),
        }
    }
}
