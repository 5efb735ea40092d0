//! Residency: which CPUs may hold translations of a space (`mm_cpumask` with two states more), in two bits for
//! each CPU.

use crate::{
    error::Error,
    ids::{CpuId, MAX_CPUS, Targets},
    word::{Ordering, Word},
};

/// The number of CPUs of one word. Each CPU has a bit in either half of the word, at the same place. A flush of pages looks at
/// CPUs whose lower bit is set, one of tables at those that have either. Both are set if the CPU is present, the lower one if it
/// is stale, and the upper one if it is lazy.
pub(crate) const CPUS_PER_WORD: u32 = 32;
/// The lower half of a word.
const LOWER: u64 = (1 << CPUS_PER_WORD) - 1;

/// What one CPU may hold of a space.
///
/// On switch-in a CPU publishes the space that it switches to, makes itself present, then loads the root. If
/// it was not present, it flushes what it may have missed first; so it does when it ends lazy mode. So a CPU in any state but
/// *present* flushes before it uses a page of the space. Only an initiator that holds the space's residency lock takes a CPU's
/// presence, and only then does it read whether the CPU is switching in: one of the two sees the other.
#[doc(alias = "mm_cpumask")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// The CPU does not run the space, and flushes before it does. Initiators skip it.
    Absent,
    /// As absent, but the CPU may have the root loaded (lazy mode), or hold walks of the tables. Initiators skip it unless tables
    /// are freed.
    Lazy,
    /// The CPU flushes at its next switch-in, but it may be running the space now.
    Stale,
    /// The CPU may hold any translation of the space, and has missed no flush.
    Present,
}

impl Residency {
    const fn of(word: u64, place: u32) -> Self {
        match (word >> place & 1 != 0, word >> place >> CPUS_PER_WORD & 1 != 0) {
            (true, true) => Self::Present,
            (true, false) => Self::Stale,
            (false, true) => Self::Lazy,
            (false, false) => Self::Absent,
        }
    }
}

/// The residency of every CPU in one space, in words that the caller provides.
#[derive(Debug)]
pub struct Residents<'a, W> {
    /// Prepared by [`Self::new`].
    pub(crate) words: &'a [W],
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

    /// The residency in `words`, for `cpus` CPUs, all of them absent.
    pub(crate) fn new(words: &'a [W], cpus: usize) -> Result<Self, Error> {
        if cpus == 0 || cpus > MAX_CPUS {
            return Err(Error::CpuCount { cpus });
        }
        let needed = Self::words_for(cpus);
        if words.len() < needed {
            return Err(Error::Storage { needed, given: words.len() });
        }
        for word in words {
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
            Word32::new(index, word.load(Ordering::Relaxed)).looked_at(true).iter()
        })
    }

    /// Whether the CPU that has these bits, and which is switching in, is present.
    #[inline]
    pub(crate) fn is_present(&self, me: CpuBits) -> bool {
        // ORDER O-PRESENT (pairs with O-MARK-STALE, F-GENERATION): this CPU has published that it is
        // switching in before it reads its residency. Either an initiator that takes its presence sees the
        // former, or this load sees that it is gone.
        let Some(word) = self.words.get(me.word as usize) else { return false };
        word.load(Ordering::SeqCst) | me.others == u64::MAX
    }

    /// Whether a flush, of tables if `tables`, need look at no CPU but the one that has these bits.
    #[inline]
    pub(crate) fn none_but(&self, me: CpuBits, tables: bool) -> bool {
        // The loads are as O-SCAN.
        match self.words {
            // Most machines; without a loop. The bit of a CPU that the space has room for is in a word that there is.
            [only] => looked_at(only.load(Ordering::SeqCst), tables) & !u64::from(me.mask) == 0,
            [first, second] => {
                let first = looked_at(first.load(Ordering::SeqCst), tables);
                let second = looked_at(second.load(Ordering::SeqCst), tables);
                (first | second << CPUS_PER_WORD) & !me.in_two_words == 0
            }
            words => none_of_many_but(words, (me.word, me.mask), tables),
        }
    }

    /// Marks a CPU that is switching in present, and returns its former residency.
    pub(crate) fn mark_present(&self, cpu: CpuId) -> Residency {
        let (index, place) = place(cpu);
        // ORDER O-MARK-PRESENT (pairs with O-SCAN, O-REMOVE, F-ANNOUNCE): before this CPU flushes and loads the root. An
        // initiator that skips it because it was not present has written the tables before either.
        let was = self.words[index].fetch_or((1 | 1 << CPUS_PER_WORD) << place, Ordering::SeqCst);
        Residency::of(was, place)
    }

    /// The words, each at one moment.
    pub(crate) fn scan(&self) -> impl Iterator<Item = Word32> + use<'a, W> {
        self.words.iter().enumerate().map(|(index, word)| {
            // ORDER O-SCAN (pairs with O-MARK-PRESENT, O-REMOVE, O-REMOVE-ALL): after F-GENERATION or F-ANNOUNCE.
            Word32::new(index, word.load(Ordering::SeqCst))
        })
    }

    /// Makes those of these CPUs stale that are not absent, so that they flush at their next switch-in. For the holder of
    /// the residency lock.
    pub(crate) fn mark_stale(&self, cpus: Targets) {
        let word = self.word(cpus);
        // Relaxed: a first guess.
        let mut now = word.load(Ordering::Relaxed);
        loop {
            let next = now & !(cpus.mask << CPUS_PER_WORD) | now >> CPUS_PER_WORD & cpus.mask;
            // ORDER O-MARK-STALE (pairs with O-PRESENT): before the holder reads whether they are switching in.
            match word.compare_exchange(now, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => now = found,
            }
        }
    }

    /// Makes those of these CPUs lazy that are in `lazy`, and the others absent, but none that has switched in since
    /// [`Self::mark_stale`]. For the holder of the residency lock, after it has made sure that they use no page of the space.
    pub(crate) fn remove(&self, cpus: Targets, lazy: u64) {
        let word = self.word(cpus);
        // Relaxed: a first guess.
        let mut now = word.load(Ordering::Relaxed);
        loop {
            // A CPU that is present has switched in meanwhile, and only the holder of the lock could mark
            // it stale again.
            let stale = cpus.mask & !(now >> CPUS_PER_WORD);
            let next = now & !stale | (lazy & stale) << CPUS_PER_WORD;
            // ORDER O-REMOVE (pairs with O-MARK-PRESENT, O-SCAN): a CPU that finds itself absent at switch-in also
            // finds the flag that absent CPUs may hold entries (O-STALE); and an initiator that skips a CPU as lazy or absent
            // sees all that its user code did, as the holder did (O-LAZY, O-LAZY-READ).
            match word.compare_exchange(now, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => now = found,
            }
        }
    }

    /// Makes every CPU absent. For the holder of the residency lock that is about to give the space a tag
    /// that no CPU has used, after `ResidencyLock::note_former_tag`.
    pub(crate) fn clear(&self) {
        for word in self.words {
            // Relaxed: CPUs switch in only under the tag that the space is about to have.
            if word.load(Ordering::Relaxed) != 0 {
                // ORDER O-REMOVE-ALL (pairs with O-SCAN): an initiator that has the former tag of the space,
                // and finds every CPU absent, finds the flag of `note_former_tag` as well (O-STALE-READ).
                word.store(0, Ordering::Release);
            }
        }
    }

    fn word(&self, cpus: Targets) -> &W {
        &self.words[(cpus.first.0 / CPUS_PER_WORD) as usize]
    }
}

/// The CPUs of a word that a flush looks at, of tables if `tables`.
#[inline]
const fn looked_at(word: u64, tables: bool) -> u64 {
    let all = if tables { word | word >> CPUS_PER_WORD } else { word };
    all & LOWER
}

/// [`Residents::none_but`] the CPU whose bit is `mask` in the word with the number `word`.
#[inline]
fn none_of_many_but<W: Word>(words: &[W], (word, mask): (u32, u32), tables: bool) -> bool {
    let (mine, own) = (word as usize, u64::from(mask));
    let is_free = |index: usize, word: &W| {
        let others = looked_at(word.load(Ordering::SeqCst), tables); // As O-SCAN.
        others == 0 || index == mine && others == own
    };
    if words.len() < BLOCK {
        return words.iter().enumerate().all(|(index, word)| is_free(index, word));
    }
    let (before, after) = words.split_at(mine.min(words.len()));
    let others = after.split_first().map_or(&[][..], |(_, others)| others);
    let own = after.first().is_none_or(|own| is_free(mine, own));
    own && none_of(before, tables) && none_of(others, tables)
}

/// So many words are looked at together where there are so many.
const BLOCK: usize = 16;

/// [`Residents::none_but`] nobody. A machine of 4096 CPUs has 128 words.
#[inline(never)]
fn none_of<W: Word>(words: &[W], tables: bool) -> bool {
    let looked_at = if tables { u64::MAX } else { LOWER };
    let none_of = |words: &[W]| {
        let all = words.iter().fold(0, |all, word| all | word.load(Ordering::SeqCst)); // As O-SCAN.
        all & looked_at == 0
    };
    match words.last_chunk::<BLOCK>() {
        None => none_of(words),
        // What does not fill a block is in this one, with words before it.
        Some(last) => {
            let (blocks, _) = words.as_chunks::<BLOCK>();
            blocks.iter().all(|block| none_of(block)) && none_of(last)
        }
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

    /// The CPUs that a flush looks at, of tables if `tables`: they may run the space, or hold entries of it.
    #[inline]
    pub(crate) const fn looked_at(self, tables: bool) -> Targets {
        Targets { first: self.first, mask: looked_at(self.bits, tables) }
    }

    /// The same, without the CPU that has these bits.
    #[inline]
    pub(crate) const fn looked_at_but(self, me: CpuBits, tables: bool) -> Targets {
        let all = self.looked_at(tables);
        let is_here = all.first.0 / CPUS_PER_WORD == me.word;
        Targets { mask: if is_here { all.mask & !(me.mask as u64) } else { all.mask }, ..all }
    }
}

/// Where the words of every space have the bits of one CPU, which asks for them at each switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuBits {
    word: u32,
    /// Its bit in one half of the word.
    mask: u32,
    /// All bits of the word but its two.
    others: u64,
    /// `mask` among the CPUs of two words, the first or the second of which is `word`.
    in_two_words: u64,
}

impl CpuBits {
    /// Those of a CPU without a number. All zero, so that storage for CPUs is in `.bss`.
    pub(crate) const UNSET: Self = Self { word: 0, mask: 0, others: 0, in_two_words: 0 };
    /// Those of no CPU.
    pub(crate) const NONE: Self = Self { word: u32::MAX, ..Self::UNSET };

    pub(crate) const fn of(cpu: CpuId) -> Self {
        let (word, place) = place(cpu);
        let in_two_words = 1 << (place + CPUS_PER_WORD * (word as u32 & 1));
        let others = !((1 | 1 << CPUS_PER_WORD) << place);
        Self { word: word as u32, mask: 1 << place, others, in_two_words }
    }
}

/// The word that has the bits of a CPU, and their place in either half of it.
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
        let words = [const { AtomicU64::ZERO }; 3];
        let residents = Residents::new(&words, 70).unwrap();
        for cpu in [CpuId(31), CpuId(32), CpuId(69)] {
            assert_eq!(residents.mark_present(cpu), Residency::Absent);
            assert!(residents.is_present(CpuBits::of(cpu)));
        }
        let all: Vec<_> = residents.iter().collect();
        assert_eq!(all, [CpuId(31), CpuId(32), CpuId(69)]);
    }

    #[test]
    fn a_present_cpu_becomes_absent_by_way_of_stale() {
        let words = [AtomicU64::ZERO];
        let residents = Residents::new(&words, 32).unwrap();
        let (a, b) = (CpuId(3), CpuId(31));
        residents.mark_present(a);
        residents.mark_present(b);
        residents.mark_stale(targets(&[3, 31]));
        assert_eq!([residents.get(a), residents.get(b)], [Residency::Stale; 2]);
        residents.remove(targets(&[3]), 0);
        assert_eq!([residents.get(a), residents.get(b)], [Residency::Absent, Residency::Stale]);
        assert_eq!(
            [residents.mark_present(a), residents.mark_present(b)],
            [Residency::Absent, Residency::Stale]
        );
        assert_eq!([residents.get(a), residents.get(b)], [Residency::Present; 2]);
    }

    #[test]
    fn remove_keeps_a_cpu_that_was_marked_present_again() {
        let words = [AtomicU64::ZERO];
        let residents = Residents::new(&words, 1).unwrap();
        residents.mark_present(CpuId(0));
        residents.mark_stale(targets(&[0]));
        residents.mark_present(CpuId(0));
        residents.remove(targets(&[0]), 1);
        assert_eq!(residents.get(CpuId(0)), Residency::Present);
    }

    #[test]
    fn a_lazy_cpu_is_looked_at_for_tables_alone_until_it_is_present_again() {
        let words = [AtomicU64::ZERO];
        let residents = Residents::new(&words, 32).unwrap();
        residents.mark_present(CpuId(4));
        residents.mark_stale(targets(&[3, 4]));
        residents.remove(targets(&[3, 4]), 1 << 4);
        assert_eq!(
            [3, 4].map(|cpu| residents.get(CpuId(cpu))),
            [Residency::Absent, Residency::Lazy]
        );
        let none_but_me = |tables| residents.none_but(CpuBits::of(CpuId(0)), tables);
        assert_eq!([false, true].map(none_but_me), [true, false]);
        assert!(!residents.is_present(CpuBits::of(CpuId(4))), "it must flush first");
        residents.mark_stale(targets(&[4]));
        assert_eq!(residents.get(CpuId(4)), Residency::Stale);
        residents.remove(targets(&[4]), 1 << 4);
        assert_eq!(residents.mark_present(CpuId(4)), Residency::Lazy);
        assert_eq!(residents.get(CpuId(4)), Residency::Present);
    }

    #[test]
    fn so_many_cpus_as_there_cannot_be_are_refused() {
        let words = [const { AtomicU64::ZERO }; 1];
        for cpus in [0, MAX_CPUS + 1] {
            let refused = Residents::new(&words, cpus).err();
            assert!(matches!(refused, Some(Error::CpuCount { cpus: given }) if given == cpus));
        }
        let refused = Residents::new(&words, MAX_CPUS).err();
        assert!(matches!(refused, Some(Error::Storage { .. })), "as many as there can be");
    }

    #[test]
    fn a_cpu_at_the_same_place_of_another_word_is_another_cpu() {
        let words = [const { AtomicU64::ZERO }; 3];
        let residents = Residents::new(&words, 70).unwrap();
        assert!(residents.none_but(CpuBits::of(CpuId(3)), false));
        residents.mark_present(CpuId(3));
        assert!(residents.none_but(CpuBits::of(CpuId(3)), false));
        for other in [35, 67] {
            assert!(!residents.none_but(CpuBits::of(CpuId(other)), false), "{other}");
        }
        residents.mark_present(CpuId(35));
        assert!(!residents.none_but(CpuBits::of(CpuId(3)), false));
    }

    #[test]
    fn one_resident_is_seen_wherever_it_is() {
        for count in [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 3, 8 * BLOCK] {
            let words: Vec<_> = (0..count).map(|_| AtomicU64::ZERO).collect();
            let residents = Residents::new(&words, count * CPUS_PER_WORD as usize).unwrap();
            let cpus = |index: usize| index as u32 * CPUS_PER_WORD + 5;
            for index in 0..count {
                residents.mark_present(CpuId(cpus(index)));
                for me in (0..count).map(cpus).chain([cpus(index) + 1]) {
                    let alone = me == cpus(index);
                    let bit = CpuBits::of(CpuId(me));
                    assert_eq!(residents.none_but(bit, false), alone, "{index} {me}");
                }
                assert!(!residents.none_but(CpuBits::NONE, false), "{index}");
                // Lazy, it is looked at for tables alone.
                residents.mark_stale(targets(&[cpus(index)]));
                residents.remove(targets(&[cpus(index)]), 1 << 5);
                for tables in [false, true] {
                    assert_eq!(residents.none_but(CpuBits::NONE, tables), !tables, "{index}");
                }
                residents.clear();
            }
            let none_but = |bits| residents.none_but(bits, false);
            assert!(none_but(CpuBits::NONE) && none_but(CpuBits::of(CpuId(0))));
        }
    }
}
