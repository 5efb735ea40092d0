//! Where the code of a process comes from.

use crate::bytes::u64_at;

/// A place in a file that was mapped: the file by its number in [`super::Callers`], and the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: u32,
    pub(crate) offset: u64,
}

/// What a process has mapped, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maps(Vec<Mapping>);

/// One mapping: its addresses, and the place of the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) place: Place,
}

impl Maps {
    /// Adds a mapping, in place of one that began at the same address.
    pub(crate) fn insert(&mut self, mapping: Mapping) {
        let place = self.0.partition_point(|known| known.start < mapping.start);
        match self.0.get_mut(place) {
            Some(known) if known.start == mapping.start => *known = mapping,
            _ => self.0.insert(place, mapping),
        }
    }

    /// Whether nothing is mapped.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The place in a file that is mapped at this address.
    pub(crate) fn place(&self, address: u64) -> Option<Place> {
        let next = self.0.partition_point(|known| known.start <= address);
        let &Mapping { start, end, place: Place { file, offset } } =
            self.0.get(next.checked_sub(1)?)?;
        let place = Place { file, offset: (address - start).wrapping_add(offset) };
        (address < end).then_some(place)
    }

    /// The places of the addresses of a chain, of eight bytes each, up to the first that is in no mapping: it is no return
    /// address.
    pub(crate) fn places(&self, chain: &[u8]) -> Vec<Place> {
        let addresses = chain.chunks_exact(8).filter_map(|bytes| u64_at(bytes, 0));
        addresses.map_while(|address| self.place(address)).collect()
    }
}
