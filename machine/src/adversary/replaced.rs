//! What an invalidation may be too early for: translations that memory has stopped yielding since the last
//! barrier that holds back the invalidations of a CPU.
//!
//! A `TLBI` waits for a `DSB` before it in its program, and for nothing else: not for the stores before it, not for
//! a `DMB` or an acquire or a release, not for an atomic operation, though other CPUs may have read already what
//! that has written. (In the terms of the model of herd7: `DSB-ob` orders `TLBI`s, `bob` and `aob` do not.) So it
//! may take effect at any time between that `DSB` and its place in the program, and what could still be walked at
//! any time in between may be in the TLB again afterwards. RISC-V's `SINVAL.VMA` waits likewise for
//! `SFENCE.W.INVAL` or `SFENCE.VMA`.
//!
//! When a descriptor is replaced in memory, and when a CPU stops using a root, the machine therefore notes which
//! walks could be made until then, and for which CPUs an invalidation that they issue now may have happened before.
//! Such an invalidation leaves those entries where they are. What ends that, for the CPU that executes it:
//!
//! | | for |
//! | --- | --- |
//! | `DSB ISH` | everything: a later `TLBI` comes after all that has happened by now |
//! | `DSB ISHST` | the CPU's own stores, and what came before the last store or atomic operation that it executed |
//! | `DSB ISHLD` | what others had replaced before the last load of an ordinary word that the CPU executed |
//! | `DSB NSH`, `DSB NSHST` | the same, but what the CPU has itself replaced only in its own TLB: other CPUs are not in the domain |
//! | a load of an ordinary word | what others have replaced, where invalidations depend on loads ([`Config::dependencies`]) |
//! | an interrupt or an NMI | everything: what the handler does comes after it was taken |
//! | `SFENCE.W.INVAL`, `SFENCE.VMA` | everything that the hart holds |
//!
//! A `TLBI` whose execution or operand depends on a load comes after the load (`ctrl` and `addr` in the model of
//! herd7). A compiled program does not say what depends on what. So every load counts, unless the machine is
//! configured as having no dependencies: a bug stays hidden that needs an invalidation which depends on none
//! of the loads before it, and litmus tests are there to ask for that. Atomic operations do not count, since
//! what they write may be later than what they read.
//!
//! Where this is stronger than the architecture, it alarms falsely: a plain store counts as performed when it
//! is executed, in what a store-only `DSB` makes of the stores of *others*.

#[cfg(doc)]
use super::Config;
use super::{
    config::Arch,
    hash::{mix, mix3},
    machine::{Machine, Phase},
    op::Op,
    tlb::Entry,
};

/// What a barrier waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Everything that came before it.
    Everything,
    /// The stores of its own CPU.
    Stores,
    /// The loads of its own CPU.
    Loads,
}

/// Why a walk cannot be made any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A CPU has stored to a descriptor.
    Store(usize),
    /// Hardware has written it.
    Hardware,
    /// Its CPU has left the root.
    Root,
}

/// A walk that could be made until something was replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    /// The CPU that could make it.
    holder: usize,
    entry: Entry,
    /// The partial walk that it went on from; nothing if it began at a root.
    parent: Option<Entry>,
    cause: Cause,
    /// The CPUs whose next invalidation may have happened before.
    open: u64,
    /// Those of them of which that is still true after a barrier for stores.
    open_to_stores: u64,
    /// Those that have loaded a word since, where no invalidation depends on a load.
    loaded_since: u64,
}

impl Replaced {
    fn hash(&self) -> u64 {
        let parent = self.parent.map_or(0, |parent| parent.identity());
        let cause = match self.cause {
            Cause::Store(by) => by as u64,
            Cause::Hardware => 64,
            Cause::Root => 65,
        };
        let hash = mix3(self.entry.identity(), parent, (self.holder as u64) << 8 | cause);
        mix3(hash, self.open, self.open_to_stores ^ self.loaded_since.rotate_left(32))
    }
}

impl Machine {
    /// Whether invalidations can be early here.
    #[inline]
    pub(crate) fn invalidates_early(&self) -> bool {
        self.phase == Phase::Running && self.config.arch != Arch::X86
    }

    /// A walk that `holder` could make is about to be none any more.
    pub(crate) fn note_replaced(
        &mut self,
        holder: usize,
        entry: Entry,
        parent: Option<Entry>,
        cause: Cause,
    ) {
        let mut open = 0;
        for (cpu, state) in self.cpus.iter().enumerate() {
            // Who has ended issues nothing unless it is interrupted first.
            let ended = matches!(state.op, Op::Idle) && state.depth == 0;
            // Harts invalidate on themselves only.
            let reaches = self.config.arch == Arch::Arm || cpu == holder;
            // A CPU leaves a root of its own at an ISB, which comes before what follows it.
            let left = cause == Cause::Root && cpu == holder;
            open |= u64::from(!ended && reaches && !left) << cpu;
        }
        let found = self.replaced.iter().position(|old| {
            old.holder == holder && old.entry.same(&entry) && same(old.parent, parent)
        });
        if let Some(found) = found {
            self.replaced.swap_remove(found);
        }
        if open != 0 {
            let (open_to_stores, loaded_since) = (open, 0);
            self.replaced.push(Replaced {
                holder,
                entry,
                parent,
                cause,
                open,
                open_to_stores,
                loaded_since,
            });
        }
    }

    /// What was noted of an entry does not count any more: it is gone, or can be walked to again.
    #[inline]
    pub(crate) fn forget_replaced(&mut self, holder: usize, entry: &Entry) {
        if !self.replaced.is_empty() {
            self.replaced.retain(|noted| noted.holder != holder || !noted.entry.same(entry));
        }
    }

    /// Invalidations of `cpu` come after everything that has happened.
    pub(crate) fn invalidates_from_now(&mut self, cpu: usize) {
        self.hold_invalidations(cpu, Waits::Everything, true);
    }

    /// `cpu` has left a root at a barrier that its later invalidations come after, and begins no walk there
    /// any more: not even one that ends at what was replaced since. A walk that goes on from a partial one
    /// needs no root.
    pub(crate) fn root_left(&mut self, cpu: usize, owner: u32, tag: u16) {
        let bit = 1u64 << cpu;
        self.replaced.retain_mut(|noted| {
            let Entry { owner: of, tag: under, .. } = noted.entry;
            if noted.holder == cpu && noted.parent.is_none() && (of, under) == (owner, tag) {
                noted.open &= !bit;
                noted.open_to_stores &= !bit;
            }
            noted.open != 0
        });
    }

    /// `cpu` executes a barrier that its later invalidations wait for.
    pub(crate) fn hold_invalidations(&mut self, cpu: usize, waits: Waits, everywhere: bool) {
        let bit = 1u64 << cpu;
        self.replaced.retain_mut(|noted| {
            let own = noted.cause == Cause::Store(cpu);
            let waited_for = match waits {
                Waits::Everything => true,
                Waits::Stores => own || noted.open_to_stores & bit == 0,
                Waits::Loads => !own && noted.loaded_since & bit != 0,
            };
            if waited_for && (everywhere || !own || noted.holder == cpu) {
                noted.open &= !bit;
                noted.open_to_stores &= !bit;
            }
            noted.open != 0
        });
    }

    /// `cpu` executes a store, or writes in an atomic operation.
    #[inline]
    pub(crate) fn stored(&mut self, cpu: usize) {
        for noted in &mut self.replaced {
            noted.open_to_stores &= !(1 << cpu);
        }
    }

    /// `cpu` has read what an ordinary word contains now. What it does next depends on that.
    #[inline]
    pub(crate) fn loaded(&mut self, cpu: usize) {
        if self.replaced.is_empty() || self.config.arch != Arch::Arm {
            return;
        }
        let bit = 1u64 << cpu;
        self.replaced.retain_mut(|noted| {
            if !self.config.dependencies {
                noted.loaded_since |= noted.open & bit;
            } else if noted.cause != Cause::Store(cpu) {
                noted.open &= !bit;
                noted.open_to_stores &= !bit;
            }
            noted.open != 0
        });
    }

    /// Of the entries that `by` has just doomed, as CPUs and indices, those live on that could be walked to
    /// when the invalidation may have happened.
    pub(crate) fn spare(&mut self, by: usize, everywhere: bool, doomed: &[(usize, usize)]) {
        // From the top down: what is derived from a partial walk needs that.
        for level in (0..self.config.levels as u8).rev() {
            let mut spared = 0u64;
            for index in 0..self.replaced.len() {
                let noted = self.replaced[index];
                if noted.open & 1 << by == 0 || noted.entry.level != level {
                    continue;
                }
                let fresh = doomed.iter().find(|&&(cpu, at)| {
                    cpu == noted.holder && self.cpus[cpu].tlb[at].same(&noted.entry)
                });
                if let Some(&(cpu, at)) = fresh
                    && noted.parent.is_none_or(|parent| self.leads_on(cpu, &parent, by, everywhere))
                {
                    let entry = self.cpus[cpu].tlb[at];
                    self.amend(cpu, at, entry.undoomed(by, everywhere));
                    spared |= 1 << cpu;
                    if self.trace.is_some() {
                        let text = format!(
                            "= {}: the invalidation may have come before the store",
                            self.describe_entry(&entry)
                        );
                        self.note(cpu, text);
                    }
                }
            }
            for cpu in 0..self.cpus.len() {
                if level > 0 && (spared & 1 << cpu != 0 || (spared != 0 && self.config.cnp)) {
                    self.walk_all(cpu);
                }
            }
        }
    }

    /// Whether a partial walk that `cpu` could go on from is not doomed by `by`.
    fn leads_on(&self, cpu: usize, parent: &Entry, by: usize, everywhere: bool) -> bool {
        self.cpus.iter().enumerate().any(|(holder, state)| {
            state.tlb.iter().any(|entry| {
                (holder == cpu || entry.is(Entry::SHARED))
                    && entry.same(parent)
                    && entry.undoomed(by, everywhere) == *entry
            })
        })
    }

    /// The hash of what is noted.
    pub(crate) fn replaced_hash(&self) -> u64 {
        self.replaced.iter().fold(0, |hash, noted| hash ^ mix(noted.hash(), 0x0e1d))
    }
}

fn same(one: Option<Entry>, other: Option<Entry>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.same(&other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
