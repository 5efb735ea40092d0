//! The shadow: what every CPU may still hold, kept up to date with what they do.

use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering};

use lookaside_hardware::Cached;

use crate::{
    Criterion, Fill, Finding, FrameMarks, Memory, Place, Rights, Root, Roots, Strength, Walk,
    finding::Findings,
    held::{Cpu, Held, Ident},
    remedy,
    site::{Site, Sites},
    task::Tasks,
    watched::Watched,
};

/// What a CPU may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Supervisor mode, EL1, ring 0.
    Kernel,
    /// User mode, EL0, ring 3.
    User,
}

/// A load or store by virtual address, after it has happened.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The CPU.
    pub cpu: u32,
    /// The address of the instruction.
    pub pc: u64,
    /// The virtual address.
    pub address: u64,
}

/// What an access used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The page, as operands of fences count them.
    pub page: u64,
    /// The frame that the tables name.
    pub frame: u64,
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Entries of each CPU. One more evicts another, which is counted.
    pub entries: usize,
    /// How much a CPU is taken to hold.
    pub strength: Strength,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 1 << 16, strength: Strength::Used }
    }
}

/// What happened, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counts {
    /// Accesses that were looked at; most end before, in a [`Lane`](crate::Lane).
    pub accesses: u64,
    /// Entries that CPUs came to hold.
    pub filled: u64,
    /// Stores to table entries that somebody held a translation of.
    pub table_stores: u64,
    /// Held entries that a store revoked.
    pub revoked: u64,
    /// Revoked entries that were restored before anybody could tell.
    pub restored: u64,
    /// Accesses by a revoked entry whose revocation was not finished: two threads at the same page at once.
    pub overlaps: u64,
    /// Revoked entries that a fence removed.
    pub settled: u64,
    /// Fences.
    pub fences: u64,
    /// Writes of root registers.
    pub roots: u64,
    /// Returns to user mode.
    pub returns: u64,
    /// Entries that were forgotten because there were too many. Errors about them are missed.
    pub evicted: u64,
    /// Accesses by addresses that the tables do not translate in a way that is modelled.
    pub untranslated: u64,
    /// Findings of another kind than all that are listed, of which there were too many.
    pub unlisted: u64,
    /// The most entries that were held at one time.
    pub most_held: u64,
}

/// What becomes of an entry that was compared with the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is the CPU's entry of the page.
    Stays,
    /// It is not held any more, or was told of.
    Gone,
    /// It is wrong, and may be until the one who revoked it has finished.
    Waits,
}

/// What each CPU may still hold, and what was found.
#[derive(Debug)]
pub struct Shadow {
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) slots: Watched,
    pub(crate) stale: Watched,
    /// Frames that a walker may read as tables, where more is permitted than was used.
    pub(crate) reached: Watched,
    pub(crate) findings: Findings,
    pub(crate) sites: Sites,
    pub(crate) tasks: Tasks,
    pub(crate) counts: Counts,
    pub(crate) owed: crate::store::Owed,
    generation: Arc<AtomicU64>,
    ignored: Vec<u64>,
    pub(crate) limits: Limits,
    found: Vec<Ident>,
    held: usize,
    time: u64,
}

impl Shadow {
    /// Of a machine with so many CPUs, none of which holds anything.
    #[must_use]
    pub fn new(cpus: u32, marks: &FrameMarks, limits: Limits) -> Self {
        Self {
            cpus: (0..cpus).map(|_| Cpu::new()).collect(),
            slots: Watched::slots(marks),
            stale: Watched::frames(marks),
            reached: Watched::tables(marks),
            findings: Findings::default(),
            sites: Sites::new(),
            tasks: Tasks::default(),
            counts: Counts::default(),
            owed: crate::store::Owed::default(),
            generation: Arc::new(AtomicU64::new(1)),
            ignored: Vec::new(),
            limits,
            found: Vec::new(),
            held: 0,
            time: 0,
        }
    }

    /// A number that changes whenever what a CPU remembers on its fast path may be wrong.
    #[must_use]
    pub fn generation(&self) -> Arc<AtomicU64> {
        self.generation.clone()
    }

    /// Treats the fence instruction at an address as if it did nothing. The guest does not notice: this shows
    /// whether its absence would be found.
    pub fn ignore(&mut self, pc: u64) {
        self.ignored.push(pc);
    }

    /// What was found, in the order in which each was first seen.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        self.findings.list()
    }

    /// What happened, in numbers.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { unlisted: self.findings.dropped, ..self.counts }
    }

    /// The fence instructions that were executed: address, form, and what they were good for.
    pub fn sites(&self) -> impl Iterator<Item = (u64, crate::Form, Site)> + '_ {
        self.sites.iter().map(|(&(pc, form), &site)| (pc, form, site))
    }

    /// How many revoked entries are held now.
    #[must_use]
    pub fn revoked_now(&self) -> u64 {
        let entries = self.cpus.iter().flat_map(|cpu| cpu.entries.iter());
        entries.filter(|(_, held)| held.revoked.is_some()).count() as u64
    }

    /// A CPU's root registers have new values. Nothing is removed by that: where the architecture says otherwise,
    /// [`Roots::Off`] and a [`Shadow::fence`] come first.
    pub fn load_roots(&mut self, memory: &impl Memory, cpu: u32, roots: Roots) {
        if self.cpus[cpu as usize].roots == roots {
            return;
        }
        self.leave_roots(cpu);
        self.cpus[cpu as usize].roots = roots;
        self.enter_roots(cpu);
        self.counts.roots += 1;
        let time = self.tick();
        let by = Place { cpu, pc: 0, time };
        self.walk_all(memory, by, lookaside_hardware::Invalidation::EVERYWHERE);
    }

    /// A CPU runs in another mode than before. `task` is the kernel's name of the task that runs in user mode, where
    /// it is known.
    pub fn enter_mode(&mut self, cpu: u32, pc: u64, mode: Mode, task: Option<u64>) {
        let time = self.tick();
        let entered = &mut self.cpus[cpu as usize];
        entered.mode = mode;
        if mode == Mode::Kernel {
            return;
        }
        entered.returns += 1;
        entered.task = task.or(entered.task);
        self.counts.returns += 1;
        if let Some(task) = task {
            self.tasks.returns(task, time);
        }
        self.judge_return(Place { cpu, pc, time }, task);
    }

    /// A CPU has accessed memory by a virtual address. Says which frame the tables name.
    pub fn access(&mut self, memory: &impl Memory, access: Access) -> Option<Hit> {
        self.counts.accesses += 1;
        let Access { cpu, pc, address } = access;
        let roots = self.cpus[cpu as usize].roots;
        let root = roots.root(address)?;
        let page = root.page(address);
        let tag = roots.tag();
        let mut found = core::mem::take(&mut self.found);
        found.clear();
        let state = &mut self.cpus[cpu as usize];
        state.globals.translating(page, |id| found.push(id));
        if let Some(set) = state.tagged.get(&tag) {
            set.translating(page, |id| found.push(id));
        }
        let as_before = |&id: &Ident| {
            let held = &state.entries[id];
            held.revoked.is_none() && held.root == root
        };
        let hit = if let Some(&id) = found.first()
            && found.iter().all(as_before)
        {
            let held = &mut state.entries[id];
            held.used |= found.len() == 1;
            Some(Hit { page, frame: held.frame_of(page) })
        } else {
            self.look(memory, (root, tag, page), address, Place { cpu, pc, time: 0 }, &found)
        };
        self.found = found;
        hit
    }

    /// An access for which a CPU holds nothing, or something else than the tables may say.
    fn look(
        &mut self,
        memory: &impl Memory,
        (root, tag, page): (Root, u16, u64),
        address: u64,
        by: Place,
        found: &[Ident],
    ) -> Option<Hit> {
        let shown = Place { time: self.tick(), ..by };
        let Some(walk) = root.walk(memory, address) else {
            self.counts.untranslated += 1;
            return None;
        };
        let mut kept = false;
        for &id in found {
            match self.compare(id, &walk, root, page, shown) {
                Fate::Waits => return None,
                Fate::Stays => kept = true,
                Fate::Gone => {}
            }
        }
        if !kept {
            self.fill(memory, root, tag, &walk, shown);
        }
        Some(Hit { page, frame: walk.frame_of(page) })
    }

    /// Compares an entry that a CPU may use for a page with what the tables say.
    fn compare(&mut self, id: Ident, walk: &Walk, root: Root, page: u64, shown: Place) -> Fate {
        let cpu = shown.cpu;
        let held = self.held(cpu, id);
        if held.frame_of(page) != walk.frame_of(page) {
            if let Some(revoked) = &held.revoked
                && held.rights.contains(Rights::USER)
                && !self.tasks.has_returned(revoked, self.cpus[revoked.by.cpu as usize].returns)
            {
                self.counts.overlaps += 1;
                return Fate::Waits;
            }
            let pending = self.cpus.iter().flat_map(|cpu| &cpu.pending);
            let unfinished =
                pending.filter(|one| one.reaches(cpu)).any(|one| one.removes().names(&held.cached));
            let criterion = match (held.revoked.is_some(), unfinished) {
                (false, _) if held.root != root => Criterion::TagGivenAway,
                (_, true) => Criterion::UnfinishedFence,
                _ => Criterion::WrongFrame,
            };
            self.report(criterion, cpu, id, shown, None, Some((page, walk.frame_of(page))));
            // It was told; from here on the CPU is taken to hold what the tables say.
            self.forget(cpu, id);
            return Fate::Gone;
        }
        let lost = !walk.rights.contains(held.rights);
        let same = walk.order == held.order && walk.leaf() == held.slot;
        if lost {
            // It may still be used with rights that are gone: a store through it would fault here, and not there.
            return Fate::Stays;
        }
        if same {
            let (global, frame) = (held.cached.global, held.frame);
            if global == walk.global && frame == walk.frame {
                self.restore(cpu, id, root);
                self.cpus[cpu as usize].entries[id].used = true;
                return Fate::Stays;
            }
        }
        if self.limits.strength == Strength::Permitted {
            // Hardware may hold both.
            return Fate::Gone;
        }
        // The same frame by other tables, or by a page of another size: as good as new.
        self.forget(cpu, id);
        Fate::Gone
    }

    /// A CPU comes to hold the leaf of a walk, and the parts of the walk above it.
    fn fill(&mut self, memory: &impl Memory, root: Root, tag: u16, walk: &Walk, by: Place) {
        let pages = |order: u8| {
            let first = walk.first & !((1 << order) - 1);
            (first, first + ((1 << order) - 1))
        };
        let leaf = Held {
            cached: Cached {
                tag,
                global: walk.global,
                pages: pages(walk.order),
                level: walk.level,
                table: false,
            },
            order: walk.order,
            frame: walk.frame,
            rights: walk.rights,
            root,
            slot: walk.leaf(),
            group: walk.group,
            filled: by,
            revoked: None,
            stores: 0,
            used: true,
            doomed: 0,
            leads_to_globals: false,
        };
        self.hold(by.cpu, leaf.clone());
        let mut next = walk.tables().map(|(slot, _)| slot).skip(1);
        for (slot, level) in walk.tables() {
            let below = next.next().unwrap_or(leaf.slot) >> crate::PAGE_SHIFT;
            let order = 9 * level;
            let known = |cpu: &Cpu| {
                let set = cpu.tagged.get(&tag);
                set.is_some_and(|set| set.tables(walk.first, order).next().is_some())
            };
            if known(&self.cpus[by.cpu as usize]) || memory.word(slot).is_none() {
                continue;
            }
            // The parts above a leaf are not taken to be global: the weaker assumption is that fences of a tag
            // remove them.
            let cached = Cached { tag, global: false, pages: pages(order), level, table: true };
            let table = Held { cached, order, frame: below, slot, group: 1, ..leaf.clone() };
            self.hold(by.cpu, table);
        }
    }

    pub(crate) fn hold(&mut self, cpu: u32, held: Held) {
        if self.cpus[cpu as usize].entries.len() >= self.limits.entries
            && let Some(victim) = self.cpus[cpu as usize].entries.next_victim()
        {
            self.counts.evicted += 1;
            self.forget(cpu, victim);
        }
        self.counts.filled += 1;
        self.held += 1;
        self.counts.most_held = self.counts.most_held.max(self.held as u64);
        let state = &mut self.cpus[cpu as usize];
        let id = state.entries.add(held);
        let held = state.entries[id].clone();
        state.set_of(&held.cached).add(&held, id);
        self.watch(&held, (cpu, id));
        self.watch_below(&held, (cpu, id), true);
        if held.revoked.is_some() {
            for frame in crate::store::stale_frames(&held) {
                self.stale.add(frame, (cpu, id));
            }
        }
    }

    /// Makes stores to the table entries of `held` known.
    fn watch(&mut self, held: &Held, holder: (u32, Ident)) {
        for at in 0..u64::from(held.group) {
            self.slots.add(held.slot + 8 * at, holder);
        }
    }

    fn unwatch(&mut self, held: &Held, holder: (u32, Ident)) {
        for at in 0..u64::from(held.group) {
            self.slots.remove(held.slot + 8 * at, holder);
        }
        if held.revoked.is_some() {
            for frame in crate::store::stale_frames(held) {
                self.stale.remove(frame, holder);
            }
        }
    }

    /// A CPU holds an entry no longer.
    pub(crate) fn forget(&mut self, cpu: u32, id: Ident) {
        let state = &mut self.cpus[cpu as usize];
        let Some(held) = state.entries.remove(id) else { return };
        self.held -= 1;
        state.set_of(&held.cached).remove(&held, id);
        state.drop_empty_set(held.cached.tag);
        self.unwatch(&held, (cpu, id));
        self.watch_below(&held, (cpu, id), false);
    }

    /// The tables say again what an entry says.
    pub(crate) fn restore(&mut self, cpu: u32, id: Ident, root: Root) {
        let held = self.held(cpu, id);
        if held.revoked.is_none() {
            // Only the root is another, as of kernel pages at each switch.
            self.cpus[cpu as usize].entries[id].root = root;
            return;
        }
        let held = held.clone();
        self.unwatch(&held, (cpu, id));
        let held = &mut self.cpus[cpu as usize].entries[id];
        self.counts.restored += 1;
        held.revoked = None;
        held.stores = 0;
        held.root = root;
        let held = held.clone();
        self.watch(&held, (cpu, id));
    }

    pub(crate) fn held(&self, cpu: u32, id: Ident) -> &Held {
        &self.cpus[cpu as usize].entries[id]
    }

    /// Writes a finding down. `now` is the page that was used, and its frame.
    pub(crate) fn report(
        &mut self,
        criterion: Criterion,
        holder: u32,
        id: Ident,
        shown: Place,
        through: Option<u64>,
        now: Option<(u64, u64)>,
    ) {
        let held = &self.cpus[holder as usize].entries[id];
        let criterion = match criterion {
            _ if held.used => criterion,
            // A policy is about what is there, not about what might be.
            Criterion::UnfencedReturn => return,
            _ => Criterion::PermittedOnly,
        };
        let fences = || self.cpus[holder as usize].last_fences();
        let revoked = held.revoked();
        self.findings.add(criterion, revoked.map(|revoked| revoked.by), shown, || Finding {
            criterion,
            holder,
            address: held.root.address(now.map_or(held.cached.pages.0, |(page, _)| page)),
            tag: held.tag(),
            pages: 1 << held.order,
            held: now.map_or(held.frame, |(page, _)| held.frame_of(page)),
            now: now.map(|(_, frame)| frame),
            shown,
            through,
            filled: Fill { by: held.filled, root: held.root.base },
            revoked,
            missing: remedy::weakest(held.root.regime, &held.cached, holder),
            fences: fences(),
            count: 1,
        });
    }

    pub(crate) fn is_ignored(&self, pc: u64) -> bool {
        self.ignored.contains(&pc)
    }

    /// One event more.
    pub(crate) fn tick(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    /// Fast paths must look again.
    pub(crate) fn turn(&self) {
        // Release: a CPU that sees the number finds, under the lock, what made it change.
        self.generation.fetch_add(1, Ordering::Release);
    }
}
