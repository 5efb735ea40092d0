//! What a CPU may still hold.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::ops::{Index, IndexMut};

use lookaside_hardware::Cached;

use crate::{Mode, Place, Revoked, Rights, Root, Roots, fence::Pending};

/// A translation, or the upper part of a walk, that a CPU may hold. There are tens of thousands, so it is kept
/// small.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// What fences look at.
    pub(crate) cached: Cached,
    /// How many pages it translates or leads to, as a power of two.
    pub(crate) order: u8,
    /// The frame of its first page; of the upper part of a walk, the frame of the table that it leads to.
    pub(crate) frame: u64,
    pub(crate) rights: Rights,
    pub(crate) root: Root,
    /// The table entry that it ends at, the first of its group.
    pub(crate) slot: u64,
    /// How many entries of the table it depends on.
    pub(crate) group: u8,
    /// The access by which it was filled, through `root`.
    pub(crate) filled: Place,
    pub(crate) revoked: Option<Box<Revoked>>,
    /// How often its entry was stored to after it was revoked.
    pub(crate) stores: u8,
    /// The CPU has used it. If not, the architecture permits that the CPU holds it.
    pub(crate) used: bool,
    /// It was walked to by what fences that are not complete will remove, and that name it, too: a bit for each CPU
    /// that has issued such fences. The walk may have begun before them.
    pub(crate) doomed: u64,
    /// Of the upper part of a walk: what it leads to is global.
    pub(crate) leads_to_globals: bool,
}

impl Held {
    /// The frame of a page that it translates.
    pub(crate) const fn frame_of(&self, page: u64) -> u64 {
        self.frame + (page - self.cached.pages.0)
    }

    /// The store that took it away.
    pub(crate) fn revoked(&self) -> Option<Revoked> {
        self.revoked.as_deref().copied()
    }

    /// The tag that it is held under; nothing if it is global.
    pub(crate) fn tag(&self) -> Option<u16> {
        (!self.cached.global).then_some(self.cached.tag)
    }
}

/// The place of an entry in its CPU's [`Entries`].
pub(crate) type Ident = u32;

/// How many places are made at once. One vector of all would need twice the memory whenever it grows.
const CHUNK: usize = 256;

/// The entries of a CPU. Places are used again.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    chunks: Vec<Box<[Option<Held>]>>,
    free: Vec<Ident>,
    /// Where the search for an entry to evict goes on.
    hand: usize,
}

impl Entries {
    pub(crate) fn add(&mut self, held: Held) -> Ident {
        if self.free.is_empty() {
            let first = self.places();
            self.chunks.push((0..CHUNK).map(|_| None).collect());
            self.free.extend((first..first + CHUNK).rev().map(|id| id as Ident));
        }
        let id = self.free.pop().expect("there are places");
        *self.place(id).expect("the place is there") = Some(held);
        id
    }

    fn places(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    fn place(&mut self, id: Ident) -> Option<&mut Option<Held>> {
        self.chunks.get_mut(id as usize / CHUNK)?.get_mut(id as usize % CHUNK)
    }

    pub(crate) fn remove(&mut self, id: Ident) -> Option<Held> {
        let held = self.place(id)?.take()?;
        self.free.push(id);
        Some(held)
    }

    pub(crate) fn len(&self) -> usize {
        self.places() - self.free.len()
    }

    /// The next entry in the order of places.
    pub(crate) fn next_victim(&mut self) -> Option<Ident> {
        for _ in 0..self.places() {
            self.hand = (self.hand + 1) % self.places();
            if self.get(self.hand as Ident).is_some() {
                return Some(self.hand as Ident);
            }
        }
        None
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ident, &Held)> {
        let places = self.chunks.iter().flatten().enumerate();
        places.filter_map(|(id, held)| Some((id as Ident, held.as_ref()?)))
    }

    pub(crate) fn get(&self, id: Ident) -> Option<&Held> {
        self.chunks.get(id as usize / CHUNK)?.get(id as usize % CHUNK)?.as_ref()
    }
}

impl Index<Ident> for Entries {
    type Output = Held;

    fn index(&self, id: Ident) -> &Held {
        self.get(id).expect("the place is in use")
    }
}

impl IndexMut<Ident> for Entries {
    fn index_mut(&mut self, id: Ident) -> &mut Held {
        self.place(id).and_then(Option::as_mut).expect("the place is in use")
    }
}

/// Marks the upper part of a walk in a key.
const TABLE: u8 = 0x80;

/// The entries of one tag, or the global ones, by page.
#[derive(Debug, Default)]
pub(crate) struct Set {
    by_page: BTreeSet<(u64, u8, Ident)>,
    /// Which orders occurred, one bit each; of upper parts in the upper half.
    orders: u64,
}

impl Set {
    fn key(held: &Held, id: Ident) -> (u64, u8, Ident) {
        (held.cached.pages.0, if held.cached.table { held.order | TABLE } else { held.order }, id)
    }

    pub(crate) fn add(&mut self, held: &Held, id: Ident) {
        let bit = u32::from(held.order) / 2 + if held.cached.table { 32 } else { 0 };
        self.orders |= 1 << bit;
        self.by_page.insert(Self::key(held, id));
    }

    pub(crate) fn remove(&mut self, held: &Held, id: Ident) {
        self.by_page.remove(&Self::key(held, id));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_page.is_empty()
    }

    /// The entries that translate a page or lead to it.
    pub(crate) fn holding(&self, page: u64, mut each: impl FnMut(Ident)) {
        self.translating(page, &mut each);
        for order in [9, 18, 27, 36] {
            if self.orders & 1 << (32 + order / 2) != 0 {
                self.tables(page, order).for_each(&mut each);
            }
        }
    }

    /// The entries that translate a page.
    pub(crate) fn translating(&self, page: u64, mut each: impl FnMut(Ident)) {
        // Orders are 0, 4, 9, 13, 18 and 27; halved they stay apart.
        for order in [0_u8, 4, 9, 13, 18, 27] {
            if self.orders & 1 << (order / 2) == 0 {
                continue;
            }
            self.at(page & !((1 << order) - 1), order).for_each(&mut each);
        }
    }

    /// The upper parts of walks that lead to a page, by how many pages they lead to.
    pub(crate) fn tables(&self, page: u64, order: u8) -> impl Iterator<Item = Ident> + '_ {
        self.at(page & !((1 << order) - 1), order | TABLE)
    }

    /// The entries that begin at a page and are of a kind. Only where more is permitted than was used are there
    /// several.
    fn at(&self, first: u64, kind: u8) -> impl Iterator<Item = Ident> + '_ {
        self.by_page.range((first, kind, 0)..=(first, kind, Ident::MAX)).map(|&(_, _, id)| id)
    }

    /// The entries that begin at some pages.
    pub(crate) fn between(&self, first: u64, last: u64, each: impl FnMut(Ident)) {
        let range = (first, 0, 0)..=(last, u8::MAX, Ident::MAX);
        self.by_page.range(range).map(|&(_, _, id)| id).for_each(each);
    }

    pub(crate) fn all(&self, each: impl FnMut(Ident)) {
        self.by_page.iter().map(|&(_, _, id)| id).for_each(each);
    }
}

/// A CPU: what it may hold, and what it does.
#[derive(Debug)]
pub(crate) struct Cpu {
    pub(crate) entries: Entries,
    pub(crate) globals: Set,
    pub(crate) tagged: BTreeMap<u16, Set>,
    pub(crate) roots: Roots,
    pub(crate) mode: Mode,
    /// How often it has returned to user mode.
    pub(crate) returns: u64,
    /// The task that was last known to run on it.
    pub(crate) task: Option<u64>,
    pub(crate) pending: Vec<Pending>,
    /// The last fences.
    fences: Vec<Place>,
}

/// How many of its last fences a CPU remembers.
const LAST_FENCES: usize = 6;

impl Cpu {
    pub(crate) fn new() -> Self {
        Self {
            entries: Entries::default(),
            globals: Set::default(),
            tagged: BTreeMap::new(),
            roots: Roots::Off,
            mode: Mode::Kernel,
            returns: 0,
            task: None,
            pending: Vec::new(),
            fences: Vec::new(),
        }
    }

    pub(crate) fn remember_fence(&mut self, fence: Place) {
        if self.fences.len() == LAST_FENCES {
            self.fences.remove(0);
        }
        self.fences.push(fence);
    }

    pub(crate) fn last_fences(&self) -> Vec<Place> {
        self.fences.clone()
    }

    /// The set that an entry is in.
    pub(crate) fn set_of(&mut self, cached: &Cached) -> &mut Set {
        if cached.global { &mut self.globals } else { self.tagged.entry(cached.tag).or_default() }
    }

    pub(crate) fn drop_empty_set(&mut self, tag: u16) {
        if self.tagged.get(&tag).is_some_and(Set::is_empty) {
            self.tagged.remove(&tag);
        }
    }
}
