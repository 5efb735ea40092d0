//! What a CPU is permitted to hold without having used it: everything that a walk from one of its roots, or from the
//! upper part of a walk that it may hold under its tag, can reach at any moment.
//!
//! Kept as a set that is closed under walking, as the model machine keeps it: a root that is loaded and a table entry
//! that is stored to add entries, and fences remove them, after which what can still be walked is added again.

use alloc::boxed::Box;

use lookaside_hardware::{Cached, Invalidation, Partial};

use crate::{
    Memory, PAGE_SHIFT, Place, Revoked, Root, Shadow,
    format::Entry,
    held::{Held, Ident},
};

/// How much a CPU is taken to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strength {
    /// What it has used.
    #[default]
    Used,
    /// What the architecture permits: hardware may walk to a page that nobody has touched.
    Permitted,
}

/// Stands for the root in the place of an entry: of the lower half of the addresses, or the upper.
const ROOTS: [Ident; 2] = [Ident::MAX - 1, Ident::MAX];

/// A table that a CPU may read next.
#[derive(Clone, Copy)]
struct Reading {
    cpu: u32,
    root: Root,
    /// The physical address of the table.
    table: u64,
    level: u8,
    /// The first page that it leads to.
    first: u64,
    /// Which half of the addresses, for the top table.
    upper: bool,
    leads_to_globals: bool,
    /// The table is reached by what was revoked, and so is everything in it.
    revoked: Option<Revoked>,
    /// It is reached by what fences will remove that are not complete: those of these CPUs, a bit for each.
    doomed: u64,
    /// The first and the last page that matter.
    only: (u64, u64),
}

impl Reading {
    fn of_root(cpu: u32, root: Root, upper: bool) -> Self {
        let only = Invalidation::EVERYWHERE;
        let level = root.levels() - 1;
        let (table, first) = (root.base, 0);
        Self {
            cpu,
            root,
            table,
            level,
            first,
            upper,
            leads_to_globals: false,
            revoked: None,
            doomed: 0,
            only,
        }
    }

    fn below(cpu: u32, held: &Held, doomed: u64) -> Self {
        Self {
            only: Invalidation::EVERYWHERE,
            doomed,
            cpu,
            root: held.root,
            table: held.frame << PAGE_SHIFT,
            level: held.cached.level - 1,
            first: held.cached.pages.0,
            upper: false,
            leads_to_globals: held.leads_to_globals,
            revoked: held.revoked(),
        }
    }

    fn is_top(&self) -> bool {
        self.level + 1 == self.root.levels()
    }

    fn entries(&self) -> u64 {
        self.root.index_mask(self.is_top()) + 1
    }

    fn page(&self, index: u64) -> u64 {
        if self.is_top() {
            self.root.top_page(index, self.upper)
        } else {
            self.first | index << (9 * u32::from(self.level))
        }
    }
}

/// The pages of which a fence removes something.
pub(crate) fn pages_of(removes: &Invalidation) -> (u64, u64) {
    if removes.partial == Partial::All { Invalidation::EVERYWHERE } else { removes.pages }
}

impl Shadow {
    fn permits(&self) -> bool {
        self.limits.strength == Strength::Permitted
    }

    /// A CPU has loaded roots, or has fenced some pages: it may hold what can be walked to now.
    pub(crate) fn walk_all(&mut self, memory: &impl Memory, by: Place, only: (u64, u64)) {
        if !self.permits() {
            return;
        }
        let halves = self.cpus[by.cpu as usize].roots.halves();
        for (at, root) in halves.into_iter().enumerate() {
            if let Some(root) = root {
                let reading = Reading::of_root(by.cpu, root, at == 1);
                self.read_table(memory, Reading { only, ..reading }, by);
            }
        }
        // What can be walked to from the upper part of a walk whose entry memory holds no more.
        let state = &self.cpus[by.cpu as usize];
        let mut stale = alloc::vec::Vec::new();
        if let Some(set) = state.tagged.get(&state.roots.tag()) {
            set.all(|id| {
                let held = &state.entries[id];
                if held.cached.table
                    && (held.revoked.is_some() || !halves.contains(&Some(held.root)))
                {
                    stale.push(id);
                }
            });
        }
        // From the top down: what is below may be reached by what is above.
        stale.sort_by_key(|&id| core::cmp::Reverse(state.entries[id].cached.level));
        for id in stale {
            let Some(held) = self.cpus[by.cpu as usize].entries.get(id) else { continue };
            let reading = Reading::below(by.cpu, held, self.doom(by.cpu, held));
            self.read_table(memory, Reading { only, ..reading }, by);
        }
    }

    /// The CPU's roots are no more, or others: stores to their top tables are not followed for it.
    pub(crate) fn leave_roots(&mut self, cpu: u32) {
        self.watch_roots(cpu, false);
    }

    /// Stores to the CPU's top tables are followed.
    pub(crate) fn enter_roots(&mut self, cpu: u32) {
        self.watch_roots(cpu, true);
    }

    fn watch_roots(&mut self, cpu: u32, watch: bool) {
        if !self.permits() {
            return;
        }
        let halves = self.cpus[cpu as usize].roots.halves();
        for (root, id) in halves.into_iter().zip(ROOTS) {
            let Some(root) = root else { continue };
            let frame = root.base >> PAGE_SHIFT;
            if watch {
                self.reached.add(frame, (cpu, id));
            } else {
                self.reached.remove(frame, (cpu, id));
            }
        }
    }

    /// A CPU comes to hold the upper part of a walk, or holds it no longer: it may read the table that this leads to.
    pub(crate) fn watch_below(&mut self, held: &Held, holder: (u32, Ident), watch: bool) {
        if !self.permits() || !held.cached.table {
            return;
        }
        if watch {
            self.reached.add(held.frame, holder);
        } else {
            self.reached.remove(held.frame, holder);
        }
    }

    /// Somebody has stored to a page that walkers may read: they may read the new entries.
    pub(crate) fn walk_stored(
        &mut self,
        memory: &impl Memory,
        by: Place,
        physical: u64,
        bytes: u64,
    ) {
        if !self.permits() {
            return;
        }
        for (cpu, id) in self.reached.get(physical >> PAGE_SHIFT).to_vec() {
            let state = &self.cpus[cpu as usize];
            let reading = if let Some(at) = ROOTS.iter().position(|&root| root == id) {
                state.roots.halves()[at].map(|root| Reading::of_root(cpu, root, at == 1))
            } else {
                let held =
                    state.entries.get(id).filter(|held| held.cached.tag == state.roots.tag());
                held.map(|held| Reading::below(cpu, held, self.doom(cpu, held)))
            };
            let Some(reading) = reading else { continue };
            for slot in (physical & !7..physical + bytes).step_by(8) {
                let index = slot.wrapping_sub(reading.table) / 8;
                if slot >= reading.table && index < reading.entries() {
                    self.read_entry(memory, reading, index, by);
                }
            }
        }
    }

    /// A fence that is not complete yet spares what can be walked to after it has begun.
    pub(crate) fn spare_walked(&mut self, memory: &impl Memory, removes: &Invalidation, by: Place) {
        if !self.permits() {
            return;
        }
        let mut any = false;
        self.named(by.cpu, removes, |_| any = true);
        if any {
            self.walk_all(memory, by, pages_of(removes));
        }
    }

    /// The CPUs whose fences, when they are complete, will remove an entry: a bit for each.
    fn doom(&self, cpu: u32, held: &Held) -> u64 {
        let pending = self.cpus.iter().flat_map(|cpu| &cpu.pending);
        let named = pending.filter(|one| one.is_after(held));
        named.fold(held.doomed, |doomed, one| doomed | one.names(cpu, held))
    }

    fn read_table(&mut self, memory: &impl Memory, reading: Reading, by: Place) {
        let pages = (1 << (9 * u32::from(reading.level))) - 1;
        for index in 0..reading.entries() {
            let first = reading.page(index);
            if first <= reading.only.1 && first + pages >= reading.only.0 {
                self.read_entry(memory, reading, index, by);
            }
        }
    }

    fn read_entry(&mut self, memory: &impl Memory, reading: Reading, index: u64, by: Place) {
        let slot = reading.table + 8 * index;
        let Some(word) = memory.word(slot) else { return };
        let Reading { root, level, cpu, .. } = reading;
        let page = reading.page(index);
        let order = 9 * level;
        let tag = self.cpus[cpu as usize].roots.tag();
        let filled = Place { cpu, ..by };
        let inherited = reading.leads_to_globals;
        let pages = |order: u8| {
            let first = page & !((1 << order) - 1);
            (first, first + ((1 << order) - 1))
        };
        let (frame, rights, global, order, group, table) = match root.read(word, level) {
            Entry::Invalid => return,
            Entry::Table { table, global } => {
                (table >> PAGE_SHIFT, crate::Rights::default(), global || inherited, order, 1, true)
            }
            Entry::Leaf { frame, rights, global, group_order } => {
                if !root.may_be_cached(word) {
                    return;
                }
                let order = order + group_order;
                let frame = frame & !((1 << order) - 1);
                (frame, rights, global || inherited, order, 1 << group_order, false)
            }
        };
        let mut held = Held {
            // As in `Shadow::fill`: fences of a tag remove the upper parts of walks.
            cached: Cached { tag, global: global && !table, pages: pages(order), level, table },
            order,
            frame,
            rights,
            root,
            slot: slot & !(u64::from(group) * 8 - 1),
            group,
            filled,
            revoked: reading.revoked.map(Box::new),
            stores: 0,
            used: false,
            doomed: 0,
            leads_to_globals: global && table,
        };
        let pending = self.cpus.iter().flat_map(|cpu| &cpu.pending);
        held.doomed =
            pending.fold(0, |doomed, one| doomed | one.names(cpu, &held)) & reading.doomed;
        let below = table.then(|| Reading::below(cpu, &held, held.doomed));
        self.hold_once(cpu, held);
        if let Some(below) = below {
            self.read_table(memory, Reading { only: reading.only, ..below }, by);
        }
    }

    /// Holds an entry unless the CPU holds it already; then it is as good as new.
    fn hold_once(&mut self, cpu: u32, held: Held) {
        let state = &self.cpus[cpu as usize];
        let set = if held.cached.global {
            Some(&state.globals)
        } else {
            state.tagged.get(&held.cached.tag)
        };
        let mut known = None;
        if let Some(set) = set {
            let mut look = |id| {
                let other = &state.entries[id];
                let same = other.cached == held.cached && other.order == held.order;
                if same && other.frame == held.frame && other.slot == held.slot {
                    known = Some(id);
                }
            };
            let page = held.cached.pages.0;
            if held.cached.table {
                set.tables(page, held.order).for_each(&mut look);
            } else {
                set.translating(page, &mut look);
            }
        }
        let Some(id) = known else {
            self.hold(cpu, held);
            return;
        };
        let was_revoked = state.entries[id].revoked.is_some();
        match held.revoked {
            None if was_revoked => self.restore(cpu, id, held.root),
            Some(_) if !was_revoked => return,
            _ => {}
        }
        // It goes with a fence only if both walks may have begun before that.
        let doomed = self.doom(cpu, self.held(cpu, id));
        let known = &mut self.cpus[cpu as usize].entries[id];
        known.root = held.root;
        known.rights = known.rights.union(held.rights);
        if held.doomed & doomed != doomed {
            known.doomed = held.doomed & doomed;
            known.filled.time = held.filled.time;
        }
    }

    /// The frames that a CPU may reach by an address now: by what it may hold, and by what the tables say.
    #[must_use]
    pub fn may_reach(
        &self,
        memory: &impl Memory,
        cpu: u32,
        address: u64,
    ) -> alloc::collections::BTreeSet<u64> {
        let state = &self.cpus[cpu as usize];
        let mut frames = alloc::collections::BTreeSet::new();
        let Some(root) = state.roots.root(address) else { return frames };
        let page = root.page(address);
        frames.extend(root.walk(memory, address).map(|walk| walk.frame_of(page)));
        let mut add = |id| {
            frames.insert(state.entries[id].frame_of(page));
        };
        state.globals.translating(page, &mut add);
        if let Some(set) = state.tagged.get(&state.roots.tag()) {
            set.translating(page, &mut add);
        }
        frames
    }
}
