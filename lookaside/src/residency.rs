//! Who may hold translations of a space, in two bits for each CPU.

use crate::{
    cpuset::MAX_CPUS,
    error::Error,
    platform::{CpuId, Ordering, Targets, Word},
};

/// How many CPUs one word speaks of. Each has a bit in the lower half of the word, which says that
/// it is present, and one at the same place in the upper half, which says that it is not absent.
pub(crate) const CPUS_PER_WORD: u32 = 32;

/// What one CPU may hold of a space.
///
/// The way into a space makes a CPU *present*, after it has said that it is on its way in and
/// before it loads the root, and unless it is present already it pays for what it may have missed.
/// So every state but *present* is a promise that the CPU pays on its next way in. Only a revoker
/// that holds the space's books takes a CPU out of *present*, and only then does it look whether
/// the CPU is on its way in: one of the two sees the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// It does not run the space and will pay before it does. A revoker passes it over.
    Absent,
    /// It will pay on its next way in, but it may be running the space now.
    Stale,
    /// It may hold anything, and has missed nothing.
    Present,
}

impl Residency {
    const fn of(word: u64, place: u32) -> Self {
        match (word >> place & 1 != 0, word >> place >> CPUS_PER_WORD & 1 != 0) {
            (true, _) => Self::Present,
            (false, true) => Self::Stale,
            (false, false) => Self::Absent,
        }
    }
}

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

    pub(crate) fn new(words: &'a mut [W], cpus: usize) -> Result<Self, Error> {
        if cpus == 0 || cpus > MAX_CPUS {
            return Err(Error::CpuCount { cpus });
        }
        let needed = Self::words_for(cpus);
        if words.len() < needed {
            return Err(Error::Storage { needed, given: words.len() });
        }
        let words = &mut words[..needed];
        for word in &mut *words {
            word.store(0, Ordering::Relaxed); // Relaxed: the storage is the space's alone.
        }
        Ok(Self { words })
    }

    /// The residency of one CPU, at some moment.
    #[must_use]
    pub fn get(&self, cpu: CpuId) -> Residency {
        let (index, place) = place(cpu);
        match self.words.get(index) {
            // Relaxed: a snapshot for people.
            Some(word) => Residency::of(word.load(Ordering::Relaxed), place),
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

    /// Whether a CPU is present that is on its way in.
    #[inline]
    pub(crate) fn is_present(&self, cpu: CpuId) -> bool {
        let (index, place) = place(cpu);
        // ORDER O-PRESENT (pairs with O-MARK-STALE, F-GENERATION): this CPU said that it is on its way in before it reads
        // its residency. A revoker that takes it away sees the one, or this load the other.
        self.words[index].load(Ordering::SeqCst) as u32 >> place & 1 != 0
    }

    /// Whether every CPU but this one is absent.
    #[inline]
    pub(crate) fn none_but(&self, me: CpuId) -> bool {
        let (mine, place) = place(me);
        self.words.iter().enumerate().all(|(index, word)| {
            let others = word.load(Ordering::SeqCst) >> CPUS_PER_WORD; // As O-SCAN.
            others == 0 || index == mine && others == 1 << place
        })
    }

    /// Makes a CPU present that is on its way in, and returns what it was.
    pub(crate) fn mark_present(&self, cpu: CpuId) -> Residency {
        let (index, place) = place(cpu);
        // ORDER O-MARK-PRESENT (pairs with O-SCAN, O-REMOVE): before this CPU pays and loads the root. A revoker that
        // passes it over because it was not present has written the tables before either.
        let was = self.words[index].fetch_or((1 | 1 << CPUS_PER_WORD) << place, Ordering::SeqCst);
        Residency::of(was, place)
    }

    /// The words themselves, for tests that count what is written to them.
    #[cfg(test)]
    pub(crate) const fn words(&self) -> &'a [W] {
        self.words
    }

    /// The words, each at one moment.
    pub(crate) fn scan(&self) -> impl Iterator<Item = Word32> + use<'a, W> {
        self.words.iter().enumerate().map(|(index, word)| {
            // ORDER O-SCAN (pairs with O-MARK-PRESENT, O-REMOVE-ALL): after F-GENERATION.
            Word32::new(index, word.load(Ordering::SeqCst))
        })
    }

    /// Has these CPUs pay on their next way in. For the holder of the space's books.
    pub(crate) fn mark_stale(&self, cpus: Targets) {
        // ORDER O-MARK-STALE (pairs with O-PRESENT): before the holder looks whether they are on their
        // way in.
        self.word(cpus).fetch_and(!cpus.mask, Ordering::SeqCst);
    }

    /// Makes those of these CPUs absent that have not entered since they were taken. For the holder
    /// of the space's books, who has made sure that they do not run the space.
    pub(crate) fn remove(&self, cpus: Targets) {
        let word = self.word(cpus);
        // Relaxed: a first guess.
        let mut now = word.load(Ordering::Relaxed);
        loop {
            // Who is present has entered meanwhile, and nobody else can take it again.
            let next = now & !((cpus.mask & !now) << CPUS_PER_WORD);
            // ORDER O-REMOVE (pairs with O-MARK-PRESENT): a CPU that finds itself absent on its way in also
            // finds the note that absent CPUs may hold something (O-STALE). For the rest Relaxed would
            // do: who enters later is not present, absent or owing.
            match word.compare_exchange(now, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => now = found,
            }
        }
    }

    /// Makes every CPU absent. For the holder of the books, who is about to give the space a tag that
    /// no CPU has met, and has noted that it leaves the former one.
    pub(crate) fn clear(&self) {
        for word in self.words {
            // Relaxed: nobody enters but under the tag that the space is about to have.
            if word.load(Ordering::Relaxed) != 0 {
                // ORDER O-REMOVE-ALL (pairs with O-SCAN): a revoker that knows the space by its former tag, and
                // finds everybody absent, finds the note as well (O-STALE-READ).
                word.store(0, Ordering::Release);
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
    bits: u64,
}

impl Word32 {
    const fn new(index: usize, bits: u64) -> Self {
        Self { first: CpuId(index as u32 * CPUS_PER_WORD), bits }
    }

    /// The CPUs that may run the space, or hold something of it.
    #[inline]
    pub(crate) const fn not_absent(self) -> Targets {
        Targets { first: self.first, mask: self.bits >> CPUS_PER_WORD }
    }

    /// The CPUs that do not know yet that they have to pay.
    #[inline]
    pub(crate) const fn present(self) -> Targets {
        Targets { first: self.first, mask: self.bits & ((1 << CPUS_PER_WORD) - 1) }
    }
}

/// Which word speaks of a CPU, and which place in either half of it.
#[inline]
const fn place(cpu: CpuId) -> (usize, u32) {
    ((cpu.0 / CPUS_PER_WORD) as usize, cpu.0 % CPUS_PER_WORD)
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
    fn a_cpu_is_absent_until_it_enters_and_the_neighbours_do_not_notice() {
        let mut words = [const { AtomicU64::ZERO }; 3];
        let residents = Residents::new(&mut words, 70).unwrap();
        for cpu in [CpuId(31), CpuId(32), CpuId(69)] {
            assert_eq!(residents.mark_present(cpu), Residency::Absent);
            assert!(residents.is_present(cpu));
        }
        let all: Vec<_> = residents.iter().collect();
        assert_eq!(all, [CpuId(31), CpuId(32), CpuId(69)]);
    }

    #[test]
    fn the_way_out_leads_over_owing() {
        let mut words = [AtomicU64::ZERO];
        let residents = Residents::new(&mut words, 32).unwrap();
        let (a, b) = (CpuId(3), CpuId(31));
        residents.mark_present(a);
        residents.mark_present(b);
        residents.mark_stale(targets(&[3, 31]));
        assert_eq!([residents.get(a), residents.get(b)], [Residency::Stale; 2]);
        residents.remove(targets(&[3]));
        assert_eq!([residents.get(a), residents.get(b)], [Residency::Absent, Residency::Stale]);
        assert_eq!(
            [residents.mark_present(a), residents.mark_present(b)],
            [Residency::Absent, Residency::Stale]
        );
        assert_eq!([residents.get(a), residents.get(b)], [Residency::Present; 2]);
    }

    #[test]
    fn who_has_entered_meanwhile_is_not_forgotten() {
        let mut words = [AtomicU64::ZERO];
        let residents = Residents::new(&mut words, 1).unwrap();
        residents.mark_present(CpuId(0));
        residents.mark_stale(targets(&[0]));
        residents.mark_present(CpuId(0));
        residents.remove(targets(&[0]));
        assert_eq!(residents.get(CpuId(0)), Residency::Present);
    }

    #[test]
    fn so_many_cpus_as_there_cannot_be_are_refused() {
        let mut words = [const { AtomicU64::ZERO }; 1];
        for cpus in [0, MAX_CPUS + 1] {
            let refused = Residents::new(&mut words, cpus).err();
            assert!(matches!(refused, Some(Error::CpuCount { cpus: given }) if given == cpus));
        }
        let refused = Residents::new(&mut words, MAX_CPUS).err();
        assert!(matches!(refused, Some(Error::Storage { .. })), "as many as there can be");
    }

    #[test]
    fn a_cpu_at_the_same_place_of_another_word_is_another_cpu() {
        let mut words = [const { AtomicU64::ZERO }; 3];
        let residents = Residents::new(&mut words, 70).unwrap();
        assert!(residents.none_but(CpuId(3)));
        residents.mark_present(CpuId(3));
        assert!(residents.none_but(CpuId(3)));
        for other in [35, 67] {
            assert!(!residents.none_but(CpuId(other)), "{other}");
        }
        residents.mark_present(CpuId(35));
        assert!(!residents.none_but(CpuId(3)));
    }
}
