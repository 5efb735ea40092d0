//! Which stores matter: table entries that held translations came from, and frames that revoked ones point to.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    vec::Vec,
};
use core::sync::atomic::{AtomicU8, Ordering};

use crate::PAGE_SHIFT;

/// A held entry: the CPU that may hold it, and its place there.
pub(crate) type Holder = (u32, u32);

/// One byte for each frame of the guest, so that a store to any other frame costs one load.
#[derive(Clone, Debug)]
pub struct FrameMarks {
    first: u64,
    marks: Arc<[AtomicU8]>,
}

/// The frame holds table entries that are watched.
const TABLE: u8 = 1;
/// A revoked entry points to the frame.
const STALE: u8 = 2;
/// A walker may read the frame as a table.
const REACHED: u8 = 4;

impl FrameMarks {
    /// Of the memory that begins at a physical address and has so many bytes.
    #[must_use]
    pub fn new(base: u64, bytes: u64) -> Self {
        let frames = bytes >> PAGE_SHIFT;
        let marks = (0..frames).map(|_| AtomicU8::new(0)).collect();
        Self { first: base >> PAGE_SHIFT, marks }
    }

    fn of(&self, frame: u64) -> Option<&AtomicU8> {
        self.marks.get(usize::try_from(frame.checked_sub(self.first)?).ok()?)
    }

    /// Whether a store to the frame has to be told to [`Shadow::store`](crate::Shadow::store).
    #[inline]
    #[must_use]
    pub fn matters(&self, frame: u64) -> bool {
        // Relaxed: the store's own CPU or the lock of the shadow has ordered what led to the mark; a mark that is
        // made at this very moment by another CPU may be missed, as the store may have come before it.
        self.of(frame).is_some_and(|mark| mark.load(Ordering::Relaxed) != 0)
    }

    fn set(&self, frame: u64, bit: u8, on: bool) {
        let Some(mark) = self.of(frame) else { return };
        // Relaxed: as in `matters`. Marks change under the lock of the shadow alone.
        if on {
            mark.fetch_or(bit, Ordering::Relaxed);
        } else {
            mark.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// Who depends on something. Nearly always that is one, so the others are boxed: there are tens of thousands of these.
#[derive(Debug)]
#[expect(clippy::box_collection, reason = "the vector itself would make all of them larger")]
enum Holders {
    One(Holder),
    Many(Box<Vec<Holder>>),
}

impl Holders {
    fn all(&self) -> &[Holder] {
        match self {
            Self::One(holder) => core::slice::from_ref(holder),
            Self::Many(holders) => holders,
        }
    }

    fn add(&mut self, holder: Holder) {
        match self {
            Self::One(first) => *self = Self::Many(Box::new([*first, holder].into())),
            Self::Many(holders) => holders.push(holder),
        }
    }

    /// Whether somebody is left.
    fn remove(&mut self, holder: Holder) -> bool {
        match self {
            Self::One(only) => *only != holder,
            Self::Many(holders) => {
                holders.retain(|&of| of != holder);
                !holders.is_empty()
            }
        }
    }
}

/// Things at physical addresses, with those who depend on them, and a mark for each frame that has any.
#[derive(Debug)]
pub(crate) struct Watched {
    holders: BTreeMap<u64, Holders>,
    bit: u8,
    /// A key is shifted so much to the right for its frame.
    shift: u32,
    marks: FrameMarks,
}

impl Watched {
    /// Of table entries, by their physical address.
    pub(crate) fn slots(marks: &FrameMarks) -> Self {
        Self { holders: BTreeMap::new(), bit: TABLE, shift: PAGE_SHIFT, marks: marks.clone() }
    }

    /// Of frames, by their number.
    pub(crate) fn frames(marks: &FrameMarks) -> Self {
        Self { holders: BTreeMap::new(), bit: STALE, shift: 0, marks: marks.clone() }
    }

    /// Of frames that walkers may read, by their number.
    pub(crate) fn tables(marks: &FrameMarks) -> Self {
        Self { holders: BTreeMap::new(), bit: REACHED, shift: 0, marks: marks.clone() }
    }

    pub(crate) fn add(&mut self, key: u64, holder: Holder) {
        match self.holders.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Holders::One(holder));
                self.marks.set(key >> self.shift, self.bit, true);
            }
            Entry::Occupied(mut holders) => {
                if !holders.get().all().contains(&holder) {
                    holders.get_mut().add(holder);
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, key: u64, holder: Holder) {
        let Some(holders) = self.holders.get_mut(&key) else { return };
        if holders.remove(holder) {
            return;
        }
        self.holders.remove(&key);
        let frame = key >> self.shift;
        let (first, last) = (frame << self.shift, ((frame + 1) << self.shift) - 1);
        if self.holders.range(first..=last).next().is_none() {
            self.marks.set(frame, self.bit, false);
        }
    }

    /// Those who depend on a key.
    pub(crate) fn get(&self, key: u64) -> &[Holder] {
        self.holders.get(&key).map_or(&[], Holders::all)
    }

    /// The keys between two, the second excluded, that somebody depends on.
    pub(crate) fn keys(&self, from: u64, to: u64) -> impl Iterator<Item = u64> + '_ {
        self.holders.range(from..to).map(|(&key, _)| key)
    }
}
