//! The fast path: the last translations of a CPU, for which nothing has to be looked up.

/// How many pages a lane remembers.
const PLACES: usize = 256;

/// What a CPU has used since its own last fence and since anybody's last revocation.
///
/// It belongs to one CPU, and needs no lock.
#[derive(Debug)]
pub struct Lane {
    generation: u64,
    pages: [u64; PLACES],
    frames: [u64; PLACES],
}

/// Not a page number: those have at most 52 bits.
const EMPTY: u64 = u64::MAX;

impl Default for Lane {
    fn default() -> Self {
        Self { generation: 0, pages: [EMPTY; PLACES], frames: [0; PLACES] }
    }
}

impl Lane {
    /// The frame of a page that was used in this generation.
    #[inline]
    #[must_use]
    pub fn get(&self, generation: u64, page: u64) -> Option<u64> {
        let at = page as usize % PLACES;
        (self.generation == generation && self.pages[at] == page).then(|| self.frames[at])
    }

    /// Remembers that a page was used. `generation` is what [`Shadow::generation`](crate::Shadow::generation)
    /// said before the page was looked up.
    pub fn put(&mut self, generation: u64, page: u64, frame: u64) {
        if self.generation != generation {
            self.pages.fill(EMPTY);
            self.generation = generation;
        }
        let at = page as usize % PLACES;
        self.pages[at] = page;
        self.frames[at] = frame;
    }

    /// Forgets everything: this CPU has fenced, or loaded a root, or changed its mode.
    pub fn clear(&mut self) {
        self.pages.fill(EMPTY);
    }
}
