//! Stores: to table entries, which may revoke what CPUs hold, and to frames that revoked entries point to.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

use crate::{
    Criterion, Memory, Mode, PAGE_SHIFT, Place, Revoked, Root, Shadow, Walk,
    held::{Held, Ident},
};

/// Revocations that nobody has finished: by task, or by CPU where tasks are not known. Each is a CPU that may hold
/// the entry, the entry's place, and the time of its revocation.
pub(crate) type Owed = BTreeMap<(Option<u64>, u32), Vec<(u32, Ident, u64)>>;

/// A revoked entry is looked at again at so many stores to its table entry; then only at the next use.
const STORES: u8 = 4;

/// Of a large page that was revoked, so many frames are watched for being handed on.
const FRAMES: u64 = 512;

/// The frames that a revoked entry points to and that are watched.
pub(crate) fn stale_frames(held: &Held) -> core::ops::Range<u64> {
    let pages = if held.cached.table { 1 } else { (1 << held.order).min(FRAMES) };
    held.frame..held.frame + pages
}

/// What a store does to an entry.
enum Change {
    None,
    Restored,
    Revoked { rights_only: bool, now: Option<Walk> },
}

impl Shadow {
    /// A CPU has stored `bytes` bytes at a physical address. `address` is the virtual address that it used, and
    /// `task` the kernel's name of the task that ran, where it is known.
    pub fn store(
        &mut self,
        memory: &impl Memory,
        (cpu, pc, task): (u32, u64, Option<u64>),
        address: u64,
        physical: u64,
        bytes: u64,
    ) {
        let time = self.tick();
        let by = Place { cpu, pc, time };
        let slots: Vec<u64> = self.slots.keys(physical & !7, physical + bytes).collect();
        for slot in slots {
            self.counts.table_stores += 1;
            let holders = self.slots.get(slot).to_vec();
            for (holder, id) in holders {
                self.change(memory, (holder, id), slot, by, task);
            }
        }
        self.walk_stored(memory, by, physical, bytes);
        let frame = physical >> PAGE_SHIFT;
        for (holder, id) in self.stale.get(frame).to_vec() {
            let Some(held) = self.cpus[holder as usize].entries.get(id) else { continue };
            if held.cached.table {
                self.judge_table(memory, (holder, id), by, address, physical);
            } else {
                self.judge_frame(memory, (holder, id), by, address, frame);
            }
        }
    }

    fn change(
        &mut self,
        memory: &impl Memory,
        (holder, id): (u32, Ident),
        slot: u64,
        by: Place,
        task: Option<u64>,
    ) {
        let Some(held) = self.cpus[holder as usize].entries.get(id) else { return };
        let root = held.root;
        let change = judge(memory, held, slot);
        match change {
            Change::None => {}
            Change::Restored => self.restore(holder, id, root),
            Change::Revoked { rights_only, now } => {
                // What is made between the break and its fence by another thread, while the one who broke it is at
                // work, is between two users of one page, as in `Shadow::access`.
                let broken = held.revoked();
                let in_flight = broken.is_some_and(|broken| {
                    !self.tasks.has_returned(&broken, self.cpus[broken.by.cpu as usize].returns)
                });
                let overwritten = now.is_some_and(|now| breaks_needed(held, &now, slot))
                    && self.runs(holder, held);
                self.counts.overlaps += u64::from(overwritten && in_flight);
                let overwritten = overwritten && !in_flight;
                let table = held.cached.table;
                let pages = held.cached.pages;
                let entry = &mut self.cpus[holder as usize].entries[id];
                entry.stores = entry.stores.saturating_add(1);
                let stores = entry.stores;
                if entry.revoked.is_none() {
                    let returns = self.cpus[by.cpu as usize].returns;
                    let revoked = Revoked { by, slot, task, returns, rights_only };
                    let entry = &mut self.cpus[holder as usize].entries[id];
                    entry.revoked = Some(Box::new(revoked));
                    for frame in stale_frames(entry) {
                        self.stale.add(frame, (holder, id));
                    }
                    self.counts.revoked += u64::from(!table);
                    let key = if task.is_some() { (task, 0) } else { (None, by.cpu) };
                    self.judge_later(key, (holder, id, by.time));
                    self.turn();
                } else if let Some(revoked) = &mut entry.revoked {
                    revoked.rights_only &= rights_only;
                }
                if overwritten {
                    self.report(Criterion::BreakBeforeMake, holder, id, by, None, None);
                }
                if stores > STORES {
                    self.stop_watching(holder, id);
                }
                if table && stores == 1 {
                    self.change_below(memory, holder, root, pages, by, task);
                }
            }
        }
    }

    /// Whether the CPU that may hold an entry runs the address space that it belongs to. A kernel need not break
    /// before it makes what a CPU holds of another space: it may give that space another tag, or let the CPU flush
    /// the tag when it comes back.
    fn runs(&self, holder: u32, held: &Held) -> bool {
        let address = held.root.address(held.cached.pages.0);
        let cpu = &self.cpus[holder as usize];
        (held.cached.global || cpu.roots.tag() == held.cached.tag)
            && cpu.roots.root(address) == Some(held.root)
    }

    /// An entry above others has changed: those below it are looked at, too.
    fn change_below(
        &mut self,
        memory: &impl Memory,
        holder: u32,
        root: Root,
        pages: (u64, u64),
        by: Place,
        task: Option<u64>,
    ) {
        let mut below = Vec::new();
        let cpu = &self.cpus[holder as usize];
        let sets = cpu.tagged.values().chain([&cpu.globals]);
        sets.for_each(|set| set.between(pages.0, pages.1, |id| below.push(id)));
        for id in below {
            let held = self.held(holder, id);
            if held.root == root && !held.cached.table && held.revoked.is_none() {
                let slot = held.slot;
                self.change(memory, (holder, id), slot, by, task);
            }
        }
    }

    /// Something was revoked that is to be judged when its task is back in user mode. A thread of the kernel never is: what
    /// is not held any more is left out now and then.
    fn judge_later(&mut self, key: (Option<u64>, u32), entry: (u32, Ident, u64)) {
        let owed = self.owed.entry(key).or_default();
        if owed.len() == owed.capacity() && owed.len() >= 64 {
            let cpus = &self.cpus;
            owed.retain(|&(holder, id, time)| {
                let held = cpus[holder as usize].entries.get(id);
                held.and_then(Held::revoked).is_some_and(|revoked| revoked.by.time == time)
            });
        }
        owed.push(entry);
    }

    /// Stores to the table entry of a revoked entry are not followed any more.
    fn stop_watching(&mut self, holder: u32, id: Ident) {
        let held = self.held(holder, id);
        let (slot, group) = (held.slot, u64::from(held.group));
        for at in 0..group {
            self.slots.remove(slot + 8 * at, (holder, id));
        }
    }

    /// Somebody stores to the frame of a revoked entry.
    fn judge_frame(
        &mut self,
        memory: &impl Memory,
        (holder, id): (u32, Ident),
        by: Place,
        address: u64,
        frame: u64,
    ) {
        let held = self.held(holder, id);
        let Some(revoked) = held.revoked() else { return };
        let page = held.cached.pages.0 + (frame - held.frame);
        let state = &self.cpus[holder as usize];
        let usable = state.mode == Mode::User
            && held.rights.contains(crate::Rights::USER)
            && state.roots.root(held.root.address(page)) == Some(held.root)
            && (held.cached.global || held.cached.tag == state.roots.tag());
        let finished = |shadow: &Self| {
            shadow.tasks.is_finished(&revoked, shadow.cpus[revoked.by.cpu as usize].returns)
        };
        if !usable || held.root.page(address) == page || revoked.rights_only || !finished(self) {
            return;
        }
        let root = held.root;
        let walk = root.walk(memory, root.address(page));
        if walk.is_some_and(|walk| walk.frame_of(page) == frame) {
            return;
        }
        self.report(Criterion::FrameHandedOn, holder, id, by, Some(address), None);
    }

    /// Somebody stores to a page that held tables, and that a CPU may still walk.
    fn judge_table(
        &mut self,
        memory: &impl Memory,
        (holder, id): (u32, Ident),
        by: Place,
        address: u64,
        physical: u64,
    ) {
        let held = self.held(holder, id);
        let state = &self.cpus[holder as usize];
        // Only what is stored by others than the owner of the tables is known to be something else: the owner
        // may still clear entries, or move the whole table.
        let Some(revoked) = held.revoked() else { return };
        let finished = self.tasks.is_finished(&revoked, self.cpus[revoked.by.cpu as usize].returns);
        let active = held.cached.tag == state.roots.tag()
            && state.roots.root(held.root.address(held.cached.pages.0)) == Some(held.root);
        let valid = memory.word(physical & !7).is_some_and(Root::is_valid);
        if valid && finished && active && reads(memory, held) != Some(held.frame) {
            self.report(Criterion::FreedTable, holder, id, by, Some(address), None);
        }
    }

    /// A CPU is back in user mode: what its task has revoked should be fenced.
    pub(crate) fn judge_return(&mut self, shown: Place, task: Option<u64>) {
        let key = if task.is_some() { (task, 0) } else { (None, shown.cpu) };
        let Some(owed) = self.owed.remove(&key) else { return };
        let mut later = Vec::new();
        for (holder, id, time) in owed {
            let Some(held) = self.cpus[holder as usize].entries.get(id) else { continue };
            let Some(revoked) = held.revoked().filter(|revoked| revoked.by.time == time) else {
                continue;
            };
            if !self.tasks.is_finished(&revoked, self.cpus[revoked.by.cpu as usize].returns) {
                later.push((holder, id, time));
                continue;
            }
            let roots = self.cpus[holder as usize].roots;
            let active = roots.root(held.root.address(held.cached.pages.0)) == Some(held.root)
                && (held.cached.global || held.cached.tag == roots.tag());
            if active && !held.cached.table && held.rights.contains(crate::Rights::USER) {
                self.report(Criterion::UnfencedReturn, holder, id, shown, None, None);
            }
        }
        if !later.is_empty() {
            self.owed.insert(key, later);
        }
    }
}

/// The table that the upper part of a walk leads to now.
fn reads(memory: &impl Memory, held: &Held) -> Option<u64> {
    held.root.table_of(memory.word(held.slot)?, held.cached.level)
}

/// What a store to `slot` did to an entry.
fn judge(memory: &impl Memory, held: &Held, slot: u64) -> Change {
    if held.cached.table {
        return match reads(memory, held) {
            Some(table) if table == held.frame => back(held),
            _ => Change::Revoked { rights_only: false, now: None },
        };
    }
    // The page of the group that this entry of the table is for.
    let in_group = (slot - held.slot) >> 3;
    let each = (1 << held.order) / u64::from(held.group);
    let page = held.cached.pages.0 + in_group * each;
    let address = held.root.address(page);
    match held.root.walk(memory, address) {
        Some(walk) if walk.frame_of(page) == held.frame_of(page) => {
            if walk.rights.contains(held.rights) {
                back(held)
            } else {
                Change::Revoked { rights_only: true, now: Some(walk) }
            }
        }
        now => Change::Revoked { rights_only: false, now },
    }
}

fn back(held: &Held) -> Change {
    if held.revoked.is_some() { Change::Restored } else { Change::None }
}

/// Whether Arm wants an entry to be invalid, and fenced, between what is held and what is there now (D8.16.1).
fn breaks_needed(held: &Held, now: &Walk, slot: u64) -> bool {
    matches!(held.root.regime, crate::Regime::Arm { .. })
        && !held.cached.table
        && now.leaf() <= slot
        && (now.frame_of(held.cached.pages.0.max(now.first))
            != held.frame_of(held.cached.pages.0.max(now.first)))
}
