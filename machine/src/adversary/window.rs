//! Early loads: the past values of memory that a CPU may still read.
//!
//! A CPU executes its loads in program order and each may be *satisfied* before: it returns a value that
//! memory held at some earlier time, as if it had been moved up past what stands before it. A time is a number
//! of changes of memory, and the log of changes, which takes an execution back, says what memory held at
//! each. Only loads move, and only up: no effect of a CPU is visible before the CPU executes it.
//!
//! What holds a load back, as Arm and RISC-V have it, and no more:
//!
//! | after | a load is not satisfied before |
//! | --- | --- |
//! | an acquiring load or read-modify-write | the value that this has read was there |
//! | an acquiring fence, a `DSB` for loads | every value that the CPU has read before was there |
//! | a `SeqCst` fence, a full `DSB`, `FENCE rw, rw` | the fence |
//! | a `DSB` for stores | the CPU's last store reached memory |
//! | a `SeqCst` store or read-modify-write, if the load is `SeqCst` itself | that reached memory |
//! | an interrupt | it was taken |
//! | a load of, or a store to, the same word | what that has read, or written, was there |
//!
//! A read-modify-write acts on the newest value, and what follows it may be satisfied between its read and its
//! write, as between two exclusives: as a barrier, an acquiring one is an acquiring load and no more.

use lookaside::platform::Ordering;

use super::{
    config::Loads,
    hash::{mix, mix3},
    machine::{Machine, Phase},
    memory,
    op::{Address, Op},
};

/// When the loads of a CPU may be satisfied.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// No load is, before this.
    since: usize,
    /// When the last of the values that the CPU has read came to be there.
    read: usize,
    /// When the CPU's last store reached memory.
    wrote: usize,
    /// When its last `SeqCst` store did.
    strong: usize,
    floors: Vec<Floor>,
}

/// What a CPU knows of one word.
#[derive(Clone, Copy, Debug)]
struct Floor {
    word: Address,
    /// When what it last read or wrote there came to be there.
    from: usize,
    /// It was written by a plain store of this CPU, which its own loads need not wait for.
    own: bool,
    /// It was read since the CPU last waited.
    looked: bool,
}

/// A value that a load may return, and since when it was there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) value: u64,
    from: usize,
}

pub(crate) fn acquires(order: Ordering) -> bool {
    matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

impl Window {
    pub(crate) fn clear(&mut self) {
        (self.since, self.read, self.wrote, self.strong) = (0, 0, 0, 0);
        self.floors.clear();
    }

    fn floor(&self, word: Address) -> Option<&Floor> {
        self.floors.iter().find(|floor| floor.word == word)
    }

    /// No load is satisfied before `time` any more.
    fn close(&mut self, time: usize) {
        if time > self.since {
            self.since = time;
            self.floors.retain(|floor| floor.from > time || floor.looked);
        }
    }

    /// What the CPU has read or written at `word` was there since `from`.
    fn raise(&mut self, word: Address, from: usize, own: bool, looked: bool) {
        match self.floors.iter_mut().find(|floor| floor.word == word) {
            Some(floor) => {
                floor.looked |= looked;
                if from > floor.from {
                    (floor.from, floor.own) = (from, own);
                }
            }
            None if from > self.since || looked => {
                self.floors.push(Floor { word, from, own, looked });
            }
            None => {}
        }
    }
}

impl Machine {
    /// Whether loads may be satisfied early.
    #[inline]
    pub(crate) fn loads_early(&self) -> bool {
        self.config.loads == Loads::Early && self.phase == Phase::Running
    }

    /// Lists what a load may return, the newest value first. Stores that it waits for have reached memory.
    pub(crate) fn visible(
        &self,
        cpu: usize,
        word: Address,
        order: Ordering,
        values: &mut Vec<Seen>,
    ) {
        values.clear();
        let state = &self.cpus[cpu];
        let window = &state.window;
        // A CPU's own store is all it sees until that has reached memory, and holds nothing back.
        if let Some(entry) = state.buffer.iter().rev().find(|entry| entry.word == word) {
            return values.push(Seen { value: entry.value, from: 0 });
        }
        let floor = window.floor(word);
        let from = floor.map_or(0, |floor| floor.from);
        let mut first = from.max(window.since);
        if order == Ordering::SeqCst {
            first = first.max(window.strong);
        }
        let mut newer = memory::read(word);
        let changes = self.memory.changes();
        for (time, change) in changes.iter().enumerate().skip(first).rev() {
            if change.word == word {
                // It was there again: from the earliest time on it may have been read.
                see(values, Seen { value: newer, from: time + 1 });
                // A word of the CPU's own is as it has left it.
                if change.private {
                    return;
                }
                newer = change.old;
            }
        }
        let forwarded = floor.is_some_and(|floor| floor.own && floor.from == first);
        see(values, Seen { value: newer, from: if forwarded { 0 } else { first } });
    }

    /// Until when memory held what a CPU has read last at a word, which may be long ago where loads are early.
    pub(crate) fn last_read_until(&self, cpu: usize, word: Address) -> usize {
        if !self.loads_early() {
            return usize::MAX;
        }
        let window = &self.cpus[cpu].window;
        let from = window.floor(word).map_or(0, |floor| floor.from).max(window.since);
        let changes = self.memory.changes();
        let next = changes[from..].iter().position(|change| change.word == word);
        next.map_or(usize::MAX, |next| from + next)
    }

    /// A load returns one of the values that were visible.
    pub(crate) fn satisfy(
        &mut self,
        cpu: usize,
        word: Address,
        order: Ordering,
        seen: Seen,
        old: bool,
    ) {
        // There is something newer to wait for.
        if old {
            self.changed |= 1 << cpu;
        }
        let window = &mut self.cpus[cpu].window;
        window.raise(word, seen.from, false, true);
        window.read = window.read.max(seen.from);
        if acquires(order) {
            window.close(seen.from);
        }
    }

    /// A read-modify-write has read the newest value of a word.
    pub(crate) fn satisfy_newest(&mut self, cpu: usize, word: Address, order: Ordering) {
        let from = self.newest_since(cpu, word);
        let window = &mut self.cpus[cpu].window;
        window.raise(word, from, false, true);
        window.read = window.read.max(from);
        if acquires(order) {
            window.close(from);
        }
    }

    /// Since when memory holds what it holds at a word; the beginning of the window, if it is longer.
    fn newest_since(&self, cpu: usize, word: Address) -> usize {
        let since = self.cpus[cpu].window.since;
        let changes = self.memory.changes();
        let last = changes[since..].iter().rposition(|change| change.word == word);
        let from = last.map_or(since, |last| since + last + 1);
        let forwarded = |floor: &Floor| floor.own && floor.from == from;
        if self.cpus[cpu].window.floor(word).is_some_and(forwarded) { 0 } else { from }
    }

    /// A store of `cpu` has reached memory.
    pub(crate) fn store_landed(&mut self, cpu: usize, word: Address, strong: bool, plain: bool) {
        let now = self.memory.changes().len();
        let window = &mut self.cpus[cpu].window;
        window.wrote = now;
        if strong {
            window.strong = now;
        }
        window.raise(word, now, plain, false);
    }

    /// An acquiring fence of `cpu`, or a barrier for loads.
    pub(crate) fn close_read(&mut self, cpu: usize) {
        let read = self.cpus[cpu].window.read;
        self.cpus[cpu].window.close(read);
    }

    /// A barrier after which no access comes before the stores that stand before it.
    pub(crate) fn close_wrote(&mut self, cpu: usize) {
        let wrote = self.cpus[cpu].window.wrote;
        self.cpus[cpu].window.close(wrote);
    }

    /// Loads of `cpu` are satisfied from now on.
    pub(crate) fn close_now(&mut self, cpu: usize) {
        let now = self.memory.changes().len();
        self.cpus[cpu].window.close(now);
    }

    /// `cpu` waits: of the words that it has read meanwhile it will read no older value than the present one.
    /// Every store is seen in the end.
    pub(crate) fn close_looked(&mut self, cpu: usize) {
        for index in 0..self.cpus[cpu].window.floors.len() {
            let Floor { word, looked, .. } = self.cpus[cpu].window.floors[index];
            if looked {
                let from = self.newest_since(cpu, word);
                self.cpus[cpu].window.raise(word, from, false, false);
            }
        }
        self.forget_looked(cpu);
    }

    /// `cpu` waits for none of the words that it has read.
    pub(crate) fn forget_looked(&mut self, cpu: usize) {
        let window = &mut self.cpus[cpu].window;
        let since = window.since;
        window.floors.retain_mut(|floor| {
            floor.looked = false;
            floor.from > since
        });
    }

    /// The hash of what the loads of `cpu` may still return, and of what reading it would hold back.
    /// Times count only in how they lie to each other.
    pub(crate) fn window_hash(&self, cpu: usize) -> u64 {
        let state = &self.cpus[cpu];
        let window = &state.window;
        let changes = &self.memory.changes()[window.since..];
        // A program that has ended loads nothing, and an interrupt closes the window.
        if changes.is_empty() || matches!(state.op, Op::Idle) && state.depth == 0 {
            return 0;
        }
        // Which of the changes the CPU can tell from their having happened always, as bits.
        let mut readable = 0u128;
        let mut hash = 0;
        // Long windows are compared as they are.
        let exact = changes.len() > 128;
        for (index, change) in changes.iter().enumerate() {
            let from = window.floor(change.word).map_or(0, |floor| floor.from);
            if window.since + index >= from && !change.private {
                readable |= 1 << (index & 127);
                let place = if exact { index as u64 } else { 0 };
                hash = mix(mix3(hash, change.word as u64, change.old), place);
            }
        }
        let place = |time: usize| {
            let time = time.saturating_sub(window.since);
            let before = if time >= 128 { u128::MAX } else { (1 << time) - 1 };
            if exact { time as u64 } else { u64::from((readable & before).count_ones()) }
        };
        for (kind, time) in [window.read, window.wrote, window.strong].into_iter().enumerate() {
            hash = mix3(hash, kind as u64, place(time));
        }
        // The order in which words were met does not count.
        let mut floors = 0u64;
        for floor in &window.floors {
            let place = place(floor.from);
            let waits = floor.looked && self.has_older(window.since.max(floor.from), floor.word);
            if place > 0 || waits {
                let flags = u64::from(floor.own) | u64::from(waits) << 1;
                floors ^= mix3(floor.word as u64, place, flags);
            }
        }
        mix(hash, floors)
    }

    /// Whether a word has changed since `time`.
    fn has_older(&self, time: usize, word: Address) -> bool {
        self.memory.changes()[time..].iter().any(|change| change.word == word)
    }
}

fn see(values: &mut Vec<Seen>, seen: Seen) {
    match values.iter_mut().find(|other| other.value == seen.value) {
        Some(other) => other.from = seen.from,
        None => values.push(seen),
    }
}
