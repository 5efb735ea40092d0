//! Requests to every CPU: one board that all read, instead of a letter in each box.
//!
//! Who asks everybody takes the next number of the board, writes down beside it what is asked, and
//! interrupts those who are up. A CPU that looks at the board deals with all numbers that it has not
//! dealt with, and writes the last one to a word that nobody else writes. So an initiator writes one
//! cache line however many it asks, and a target reads one.
//!
//! A notice is two words, each with bits of its number; a target that finds other bits in either knows
//! that the notice is not written yet, or overwritten, and flushes everything. The bits are enough:
//! between taking a number and writing the notice an initiator answers nobody, and every other CPU has
//! at most one number under way that waits for its answer. So no number comes by meanwhile that is as
//! far away as [`crate::MAX_CPUS`], and words of two notices never pass for one.

use super::{
    inbox::{Asked, Demand, Inbox, Whose},
    sweep::Sweep,
};
use crate::{
    arch::Depth,
    cpuset::MAX_CPUS,
    platform::{CpuId, Ordering, Targets, Word},
    range::{Stretch, VaRange},
};

/// How many notices can be told apart: with the number, a pair of cache lines, of which most are read
/// in the first.
pub(crate) const KEPT: u64 = 7;

/// The board of one machine.
pub(crate) struct Board<W> {
    /// The latest number. Numbers begin with 1.
    latest: W,
    notices: [[W; 2]; KEPT as usize],
}

/// What is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// Who asks.
    from: CpuId,
    /// For which kernel addresses; or else for what the initiator has described in its request, which
    /// it does not change until all have answered.
    kernel: Option<(Stretch, Depth)>,
}

const TAG_SHIFT: u32 = 48;
const PAYLOAD: u64 = (1 << TAG_SHIFT) - 1;
/// Bits of a number.
const TAG: u64 = 0xffff;
const _: () = assert!(MAX_CPUS < TAG as usize);

const PAGES: u64 = (1 << 20) - 1;
const FROM_SHIFT: u32 = 20;
const FROM: u64 = (1 << 13) - 1;
const _: () = assert!(MAX_CPUS <= FROM as usize + 1, "every CPU fits a notice");
const DESCRIBED: u64 = 1 << 36;
const TABLES: u64 = 1 << 37;
const UNIFORM: u64 = 1 << 38;
const SIZE_SHIFT: u32 = 39;
/// The four bits of a page number that do not fit the first word.
const HIGH_SHIFT: u32 = 44;

impl Notice {
    /// What is to be written down of a demand.
    pub(crate) fn new(from: CpuId, demand: &Demand<'_>) -> Self {
        let kernel = match (demand.whose, demand.sweep.stretches()) {
            (Whose::Kernel, [only]) if !demand.sweep.is_everything() => {
                let fits = only.range.pages() <= PAGES && only.range.page_shift() >= 12;
                fits.then(|| (*only, demand.sweep.depth()))
            }
            _ => None,
        };
        Self { from, kernel }
    }

    /// Whether the initiator has to describe what it asks for.
    pub(crate) const fn is_described(&self) -> bool {
        self.kernel.is_none()
    }

    fn pack(self) -> [u64; 2] {
        let from = u64::from(self.from.0) << FROM_SHIFT;
        let Some((Stretch { range, uniform }, depth)) = self.kernel else {
            return [0, DESCRIBED | from];
        };
        let page = range.start() >> 12;
        let tables = if depth == Depth::Tables { TABLES } else { 0 };
        let uniform = if uniform { UNIFORM } else { 0 };
        let size = u64::from(range.page_shift() - 12) << SIZE_SHIFT;
        let high = page >> TAG_SHIFT << HIGH_SHIFT;
        [page & PAYLOAD, high | size | uniform | tables | from | range.pages()]
    }

    fn unpack([low, rest]: [u64; 2]) -> Option<Self> {
        let from = CpuId((rest >> FROM_SHIFT & FROM) as u32);
        if rest & DESCRIBED != 0 {
            return Some(Self { from, kernel: None });
        }
        let page = rest >> HIGH_SHIFT << TAG_SHIFT | low;
        let shift = (rest >> SIZE_SHIFT & 0x1f) as u32 + 12;
        let bytes = (rest & PAGES).checked_mul(1 << shift)?;
        let range = VaRange::new(page << 12, bytes, shift).ok()?;
        let depth = if rest & TABLES != 0 { Depth::Tables } else { Depth::Leaves };
        let stretch = Stretch { range, uniform: rest & UNIFORM != 0 };
        Some(Self { from, kernel: Some((stretch, depth)) })
    }
}

impl<W: Word> Board<W> {
    pub(crate) const NEW: Self =
        Self { latest: W::ZERO, notices: [const { [W::ZERO, W::ZERO] }; KEPT as usize] };

    /// Asks everybody, after the tables were changed: the number.
    pub(crate) fn post(&self, notice: Notice) -> u64 {
        // FENCE F-KERNEL (pairs with O-UP, O-NOTED): the tables were changed, and what is asked may be
        // described, before it is read who is up, and before anybody sees the number.
        let number = self.latest.fetch_add(1, Ordering::SeqCst) + 1;
        // Relaxed: a target that sees one word and not the other takes neither.
        for (word, half) in self.slot(number).iter().zip(notice.pack()) {
            word.store((number & TAG) << TAG_SHIFT | half, Ordering::Relaxed);
        }
        number
    }

    /// The latest number that anybody has taken.
    pub(crate) fn latest(&self) -> u64 {
        // ORDER O-NOTED (pairs with F-KERNEL): the number, then the tables that it is about and what
        // was described for it.
        self.latest.load(Ordering::Acquire)
    }

    /// As target `me`: what `number` asks for, where `of` finds the box of a CPU. `None` if `me` asks
    /// the others: then it does its own part without being told.
    pub(crate) fn asked<'c>(
        &self,
        number: u64,
        me: CpuId,
        of: impl Fn(CpuId) -> Option<&'c Inbox<W>>,
    ) -> Option<Asked>
    where
        W: 'c,
    {
        // Relaxed: the words say themselves whether they are those of the number.
        let words = self.slot(number).each_ref().map(|word| word.load(Ordering::Relaxed));
        if words.iter().any(|word| word >> TAG_SHIFT != number & TAG) {
            return Some(Asked::EVERYTHING);
        }
        let Some(notice) = Notice::unpack(words.map(|word| word & PAYLOAD)) else {
            return Some(Asked::EVERYTHING);
        };
        if notice.from == me {
            return None;
        }
        Some(match notice.kernel {
            Some((stretch, depth)) => {
                let mut sweep = Sweep::new();
                sweep.add(stretch);
                sweep.deepen(depth);
                Asked { whose: Whose::Kernel, sweep, early: false }
            }
            None => match of(notice.from).map(Inbox::read) {
                // A CPU that has come up since holds nothing that this is about, and is not waited for:
                // it may read what the initiator describes next, and must not take it for an answer to
                // what is owed on a space.
                None | Some(Asked { whose: Whose::Space { .. }, .. }) => Asked::EVERYTHING,
                Some(asked) => asked,
            },
        })
    }

    const fn slot(&self, number: u64) -> &[W; 2] {
        &self.notices[(number % KEPT) as usize]
    }
}

/// Which CPUs are up: whom a notice concerns. One bit for each.
pub(crate) struct Up<W> {
    words: [W; MAX_CPUS / 64],
}

impl<W: Word> Up<W> {
    pub(crate) const NEW: Self = Self { words: [const { W::ZERO }; MAX_CPUS / 64] };

    /// A CPU comes up, and will answer from here on.
    pub(crate) fn add(&self, cpu: CpuId) {
        // ORDER O-UP (pairs with O-UP-READ, F-KERNEL): before it empties its TLB.
        self.words[cpu.index() / 64].fetch_or(1 << (cpu.0 % 64), Ordering::SeqCst);
    }

    /// A CPU goes down. It holds nothing that it will use again.
    pub(crate) fn remove(&self, cpu: CpuId) {
        // Relaxed: whoever still asks it finds that it has answered.
        self.words[cpu.index() / 64].fetch_and(!(1 << (cpu.0 % 64)), Ordering::Relaxed);
    }

    /// Whether a CPU is up.
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        // Relaxed: nothing is concluded from it.
        self.words[cpu.index() / 64].load(Ordering::Relaxed) & 1 << (cpu.0 % 64) != 0
    }

    /// Those that are up, of CPUs `0..cpus`, in groups; also such as have none.
    pub(crate) fn groups(&self, cpus: usize) -> impl Iterator<Item = Targets> {
        self.words[..cpus.div_ceil(64)].iter().zip(0..).map(|(word, group)| {
            // ORDER O-UP-READ (pairs with O-UP): a CPU that comes up is seen here, or empties its TLB
            // after the tables were changed.
            Targets { first: CpuId(group * 64), mask: word.load(Ordering::SeqCst) }
        })
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn notices_survive_the_packing() {
        let range = |start, pages: u64, shift| VaRange::new(start, pages << shift, shift).unwrap();
        for range in
            [range(0, 1, 12), range(!0 << 30, 1, 30), range(0xffff_8000_0000_0000, 512, 21)]
        {
            for (uniform, depth) in [(true, Depth::Leaves), (false, Depth::Tables)] {
                let kernel = Some((Stretch { range, uniform }, depth));
                let notice = Notice { from: CpuId(MAX_CPUS as u32 - 1), kernel };
                let packed = notice.pack();
                assert!(packed.iter().all(|word| word & !PAYLOAD == 0));
                assert_eq!(Notice::unpack(packed), Some(notice));
            }
        }
        let described = Notice { from: CpuId(MAX_CPUS as u32 - 1), kernel: None };
        assert_eq!(Notice::unpack(described.pack()), Some(described));
    }

    #[test]
    fn what_cannot_be_told_is_everything() {
        let board = Board::<AtomicU64>::NEW;
        let range = VaRange::new(0x5000, 4096, 12).unwrap();
        let kernel = Some((Stretch::uniform(range), Depth::Leaves));
        let notice = Notice { from: CpuId(3), kernel };
        let ask = |number| board.asked(number, CpuId(4), |_| None).unwrap();
        assert!(ask(1).sweep.is_everything(), "not written yet");
        for number in 1..=KEPT + 1 {
            assert_eq!(board.post(notice), number);
        }
        assert!(ask(1).sweep.is_everything(), "overwritten");
        assert_eq!(ask(2).sweep.stretches(), [Stretch::uniform(range)]);
        assert!(board.asked(2, CpuId(3), |_| None).is_none(), "its own");
        board.slot(2)[1].store(0, Ordering::Relaxed);
        assert!(ask(2).sweep.is_everything(), "half of it");
    }
}
