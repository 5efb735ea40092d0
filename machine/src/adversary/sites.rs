//! Where operations stand in the source: which places executions have come to.

use core::panic::Location;
use std::collections::BTreeSet;

/// How many places are looked up at once.
const RECENT: usize = 1024;

/// The places that programs have executed an operation at.
pub(crate) struct Sites {
    /// Places that are known, by their address: most operations stand at one of these.
    recent: Vec<Option<&'static Location<'static>>>,
    all: BTreeSet<&'static Location<'static>>,
}

impl Sites {
    pub(crate) fn new() -> Self {
        Self { recent: vec![None; RECENT], all: BTreeSet::new() }
    }

    /// A program is about to execute an operation there.
    #[inline]
    pub(crate) fn reach(&mut self, place: &'static Location<'static>) {
        let slot = &mut self.recent[(core::ptr::from_ref(place) as usize >> 3) % RECENT];
        if !slot.is_some_and(|known| core::ptr::eq(known, place)) {
            *slot = Some(place);
            self.all.insert(place);
        }
    }

    /// What was reached since this was called last.
    pub(crate) fn take(&mut self) -> BTreeSet<&'static Location<'static>> {
        self.recent.fill(None);
        core::mem::take(&mut self.all)
    }
}
