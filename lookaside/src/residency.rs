//! Who may hold translations of a space, in two bits for each CPU.

use crate::{
    cpuset::MAX_CPUS,
    error::Error,
    platform::{CpuId, Ordering, Targets, Word},
};

/// How many CPUs one word speaks of.
pub(crate) const CPUS_PER_WORD: u32 = 32;

/// What one CPU may hold of a space.
///
/// The way into a space makes a CPU *present*, after it has said that it is on its way in and
/// before it loads the root, and unless it is present already it pays for what it may have missed.
/// So every state but *present* is a promise that the CPU pays on its next way in. Only revokers
/// take a CPU out of *present*, and only then do they look whether it is on its way in: one of the
/// two sees the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// It does not run the space and will pay before it does. A revoker passes it over.
    Absent = 0b00,
    /// It may hold anything, and has missed nothing.
    Present = 0b01,
    /// On its way to [`Self::Absent`]: the revoker that holds the space's books is making sure that
    /// it does not run the space.
    Leaving = 0b10,
    /// It will pay on its next way in, but it may be running the space now.
    Owing = 0b11,
}

impl Residency {
    const fn of(word: u64, shift: u32) -> Self {
        match word >> shift & 0b11 {
            0b00 => Self::Absent,
            0b01 => Self::Present,
            0b10 => Self::Leaving,
            _ => Self::Owing,
        }
    }
}

/// The lower bit of each pair.
const LOW: u64 = 0x5555_5555_5555_5555;

/// The residency of every CPU in one space, in words that the caller provides.
#[derive(Debug)]
pub struct Residents<'a, W> {
    words: &'a [W],
}

impl<W> Clone for Residents<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Residents<'_, W> {}

impl<'a, W: Word> Residents<'a, W> {
    /// How many words `cpus` CPUs need.
    #[must_use]
    pub const fn words_for(cpus: usize) -> usize {
        cpus.div_ceil(CPUS_PER_WORD as usize)
    }

    pub(crate) fn new(words: &'a [W], cpus: usize) -> Result<Self, Error> {
        if cpus == 0 || cpus > MAX_CPUS {
            return Err(Error::CpuCount { cpus });
        }
        let needed = Self::words_for(cpus);
        if words.len() < needed {
            return Err(Error::Storage { needed, given: words.len() });
        }
        let words = &words[..needed];
        for word in words {
            word.store(0, Ordering::Relaxed); // Relaxed: nobody else knows the space yet.
        }
        Ok(Self { words })
    }

    /// The residency of one CPU, at some moment.
    #[must_use]
    pub fn get(&self, cpu: CpuId) -> Residency {
        let (index, shift) = place(cpu);
        match self.words.get(index) {
            // Relaxed: a snapshot for people.
            Some(word) => Residency::of(word.load(Ordering::Relaxed), shift),
            None => Residency::Absent,
        }
    }

    /// The CPUs that are not [`Residency::Absent`], at some moment.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + use<'a, W> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            // Relaxed: a snapshot for people.
            Word32::new(index, word.load(Ordering::Relaxed)).not_absent().iter()
        })
    }

    /// The residency of a CPU that is on its way in.
    #[inline]
    pub(crate) fn on_the_way_in(&self, cpu: CpuId) -> Residency {
        let (index, shift) = place(cpu);
        // ORDER O-PRESENT (pairs with O-TAKE, O-MARK): this CPU said that it is on its way in before
        // it reads its residency. A revoker that takes it away sees the one, or this load the other.
        Residency::of(self.words[index].load(Ordering::SeqCst), shift)
    }

    /// Makes a CPU present that is on its way in, and returns what it was.
    pub(crate) fn enter(&self, cpu: CpuId) -> Residency {
        let (index, shift) = place(cpu);
        // ORDER O-ENTER (pairs with O-SCAN): before this CPU pays and loads the root. A revoker that
        // passes it over because it was not present has written the tables before either.
        let present = (Residency::Present as u64) << shift;
        let was = update(&self.words[index], |now| now & !(0b11 << shift) | present);
        Residency::of(was, shift)
    }

    /// Has a CPU that is present pay on its next way in.
    pub(crate) fn mark(&self, cpu: CpuId) {
        let (index, shift) = place(cpu);
        // ORDER O-MARK (pairs with O-PRESENT): before the revoker looks whether the CPU is on its
        // way in.
        self.words[index].fetch_or(0b10 << shift, Ordering::SeqCst);
    }

    /// The words, each at one moment.
    pub(crate) fn scan(&self) -> impl Iterator<Item = Word32> + use<'a, W> {
        self.words.iter().enumerate().map(|(index, word)| {
            // ORDER O-SCAN (pairs with O-ENTER): after F-OWE.
            Word32::new(index, word.load(Ordering::SeqCst))
        })
    }

    /// Makes these CPUs, which are not absent, *leaving*. For the holder of the space's books.
    pub(crate) fn take(&self, cpus: Targets) {
        let pairs = spread(cpus.mask);
        let word = self.word(cpus);
        // ORDER O-TAKE (pairs with O-PRESENT): before the holder looks whether they are on their
        // way in.
        update(word, |now| {
            let not_absent = (now | now >> 1) & pairs;
            (now & !(pairs * 0b11)) | not_absent << 1
        });
    }

    /// Makes those of these CPUs absent that are still leaving. For the holder of the space's books.
    pub(crate) fn forget(&self, cpus: Targets) {
        let pairs = spread(cpus.mask);
        // As O-TAKE. A CPU that entered meanwhile is not leaving any more, and only the holder could
        // have made it so.
        update(self.word(cpus), |now| now & !((now >> 1 & !now & pairs) << 1));
    }

    /// Makes these CPUs owing instead of leaving, unless they have entered meanwhile. For the holder
    /// of the space's books.
    pub(crate) fn give_back(&self, cpus: Targets) {
        // As O-TAKE.
        self.word(cpus).fetch_or(spread(cpus.mask), Ordering::SeqCst);
    }

    /// Makes every CPU absent. For whoever gives the space a tag that no CPU has met, and has not
    /// told anybody yet.
    pub(crate) fn clear(&self) {
        for word in self.words {
            // ORDER O-CLEAR (pairs with O-FRESH): published with the tag. What is nonzero only by
            // accident is not written.
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
    }

    fn word(&self, cpus: Targets) -> &W {
        &self.words[(cpus.first.0 / CPUS_PER_WORD) as usize]
    }
}

/// The residency of 32 CPUs at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Word32 {
    first: CpuId,
    pairs: u64,
}

impl Word32 {
    fn new(index: usize, pairs: u64) -> Self {
        Self { first: CpuId(index as u32 * CPUS_PER_WORD), pairs }
    }

    /// The CPUs that may run the space, or hold something of it.
    #[inline]
    pub(crate) fn not_absent(self) -> Targets {
        Targets { first: self.first, mask: gather((self.pairs | self.pairs >> 1) & LOW) }
    }

    /// The CPUs that are on their way to being absent.
    pub(crate) fn leaving(self) -> Targets {
        Targets { first: self.first, mask: gather(self.pairs >> 1 & !self.pairs & LOW) }
    }

    /// What `cpu`, which is one of the 32, is.
    pub(crate) fn get(self, cpu: CpuId) -> Residency {
        Residency::of(self.pairs, 2 * (cpu.0 - self.first.0))
    }
}

const fn place(cpu: CpuId) -> (usize, u32) {
    ((cpu.0 / CPUS_PER_WORD) as usize, 2 * (cpu.0 % CPUS_PER_WORD))
}

/// From one bit a CPU to the lower bit of each pair.
const fn spread(mask: u64) -> u64 {
    let mut bits = mask & 0xffff_ffff;
    bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & LOW
}

/// From the lower bit of each pair to one bit a CPU.
const fn gather(pairs: u64) -> u64 {
    let mut bits = pairs & LOW;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
    (bits | bits >> 16) & 0xffff_ffff
}

/// Changes a word of which other CPUs change other parts, and returns what it was.
fn update<W: Word>(word: &W, change: impl Fn(u64) -> u64) -> u64 {
    // Relaxed: a first guess.
    let mut now = word.load(Ordering::Relaxed);
    // Also if nothing changes: the caller's order rests on the write.
    while let Err(found) =
        word.compare_exchange(now, change(now), Ordering::SeqCst, Ordering::Relaxed)
    {
        now = found;
    }
    now
}

#[cfg(test)]
mod tests {
    extern crate std;
    use core::sync::atomic::AtomicU64;
    use std::vec::Vec;

    use super::*;

    fn targets(cpus: &[u32]) -> Targets {
        let first = cpus[0] / CPUS_PER_WORD * CPUS_PER_WORD;
        let mask = cpus.iter().fold(0, |mask, cpu| mask | 1 << (cpu - first));
        Targets { first: CpuId(first), mask }
    }

    #[test]
    fn pairs_and_bits_are_each_others_image() {
        for mask in [0, 1, 0x8000_0000, 0xdead_beef, 0xffff_ffff] {
            assert_eq!(gather(spread(mask)), mask);
            assert_eq!(spread(mask).count_ones(), mask.count_ones());
        }
        assert_eq!(spread(0b1011), 0b100_0101);
    }

    #[test]
    fn a_cpu_is_absent_until_it_enters_and_the_neighbours_do_not_notice() {
        let words = [const { AtomicU64::ZERO }; 3];
        let residents = Residents::new(&words, 70).unwrap();
        for cpu in [CpuId(31), CpuId(32), CpuId(69)] {
            assert_eq!(residents.enter(cpu), Residency::Absent);
            assert_eq!(residents.on_the_way_in(cpu), Residency::Present);
        }
        let all: Vec<_> = residents.iter().collect();
        assert_eq!(all, [CpuId(31), CpuId(32), CpuId(69)]);
    }

    #[test]
    fn the_ways_out_and_back() {
        let words = [AtomicU64::ZERO];
        let residents = Residents::new(&words, 32).unwrap();
        let (a, b) = (CpuId(3), CpuId(30));
        residents.enter(a);
        residents.enter(b);
        residents.mark(a);
        assert_eq!(residents.get(a), Residency::Owing);
        residents.take(targets(&[3, 30, 31]));
        assert_eq!([a, b, CpuId(31)].map(|cpu| residents.get(cpu)), {
            [Residency::Leaving, Residency::Leaving, Residency::Absent]
        });
        assert_eq!(residents.enter(a), Residency::Leaving);
        residents.forget(targets(&[3, 30]));
        assert_eq!([residents.get(a), residents.get(b)], [Residency::Present, Residency::Absent]);
        residents.take(targets(&[3]));
        residents.give_back(targets(&[3]));
        assert_eq!(residents.get(a), Residency::Owing);
        assert_eq!(residents.enter(a), Residency::Owing);
        assert_eq!(residents.get(a), Residency::Present);
    }

    #[test]
    fn giving_back_does_not_undo_an_entry() {
        let words = [AtomicU64::ZERO];
        let residents = Residents::new(&words, 1).unwrap();
        residents.enter(CpuId(0));
        residents.take(targets(&[0]));
        residents.enter(CpuId(0));
        residents.give_back(targets(&[0]));
        assert_eq!(residents.get(CpuId(0)), Residency::Present);
    }
}
