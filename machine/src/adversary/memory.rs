//! Memory and what stands before it: store buffers, and the log that takes an execution back.

use lookaside::platform::Ordering;

use super::{
    config::Buffers,
    cpu::{Buffered, Via},
    deviations::Deviations,
    hash::{mix, mix3},
    machine::{Machine, Phase},
    op::{Address, Rmw},
    replaced::Cause,
    violation::Rule,
    window::acquires,
};

/// A change of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) word: Address,
    /// What the word held before.
    pub(crate) old: u64,
    /// A CPU has changed a word of its own.
    pub(crate) private: bool,
}

/// What an execution has done to memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Every change.
    changes: Vec<Change>,
    /// The hash of the difference from the memory that the execution began with.
    pub(crate) hash: u64,
}

impl Memory {
    /// Writes without any effect but the log's.
    #[inline]
    pub(crate) fn write(&mut self, word: Address, value: u64, private: bool) -> u64 {
        // SAFETY: `word` came from a live `Word` (worlds are 'static), and this thread alone can
        // reach it.
        let old = unsafe { word.replace(value) };
        if old != value {
            self.changes.push(Change { word, old, private });
            self.hash ^= mix(word as u64, old) ^ mix(word as u64, value);
        }
        old
    }

    /// Every change, in order. How many there were before something is when that was.
    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }
}

/// Reads what memory holds.
#[inline]
pub(crate) fn read(word: Address) -> u64 {
    // SAFETY: as in `Memory::write`.
    unsafe { *word }
}

pub(super) fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

impl Machine {
    /// Puts memory back to what the execution began with.
    pub(crate) fn rewind_memory(&mut self) {
        while let Some(Change { word, old, .. }) = self.memory.changes.pop() {
            // SAFETY: as in `Memory::write`.
            unsafe { *word = old };
            if let Some((table, index)) = self.tables.locate(word) {
                self.tables.changed(table, index);
            }
        }
        self.memory.hash = 0;
    }

    /// Makes what memory holds now what executions begin with.
    pub(crate) fn forget_changes(&mut self) {
        self.memory.changes.clear();
        self.memory.hash = 0;
    }

    /// A store reaches memory. Walks see it.
    pub(crate) fn land(&mut self, by: usize, word: Address, value: u64) {
        self.land_because(by, word, value, Cause::Store(by));
    }

    /// A store of a CPU, or of its hardware, reaches memory.
    pub(crate) fn land_because(&mut self, by: usize, word: Address, value: u64, cause: Cause) {
        self.footprint.write(word);
        if read(word) == value {
            return;
        }
        let descriptor = self.tables.locate(word);
        if let Some((table, index)) = descriptor
            && self.invalidates_early()
        {
            self.descriptor_replaced(table, index, cause);
        }
        self.memory.write(word, value, false);
        self.changed |= !(1 << by);
        if let Some((table, index)) = descriptor {
            self.footprint.more();
            self.tables.changed(table, index);
            self.descriptor_landed(table, index);
        }
    }

    /// A store of user code through a translation: it waits in the buffer as any other, and the
    /// frame may be given away before it reaches memory.
    pub(crate) fn store_via(&mut self, cpu: usize, word: Address, value: u64, via: Via) {
        let order = Ordering::Relaxed;
        self.sharers.note(word, cpu);
        if self.config.deviations.contains(Deviations::SPURIOUS_ABORTS)
            && self.is_between_roots(cpu)
        {
            let name = self.name_of(word);
            let text = format!("CPU {cpu} touches {name} before its new root is in effect");
            return self.fail(Rule::Erratum, text);
        }
        if self.config.buffers == Buffers::None {
            self.data_landed(cpu, word);
        }
        self.store(cpu, word, value, order);
        if let Some(entry) = self.cpus[cpu].buffer.last_mut()
            && entry.word == word
        {
            entry.via = Some(via);
        }
    }

    /// The stores of other CPUs that went through a translation which `by` has invalidated reach
    /// memory: the completion of an Arm `TLBI` waits for them.
    pub(crate) fn finish_accesses(&mut self, by: usize) {
        for cpu in 0..self.cpus.len() {
            let mut index = 0;
            while let Some(entry) = self.cpus[cpu].buffer.get(index) {
                let named = entry.via.is_some_and(|via| {
                    self.cpus[by].pending.iter().any(|pending| via.is_named_by(&pending.what))
                });
                if named {
                    let word = entry.word;
                    self.drain_before(cpu, word);
                    index = 0;
                } else {
                    index += 1;
                }
            }
        }
    }

    /// What `cpu` has stored to page tables reaches memory; other stores may stay behind.
    pub(crate) fn drain_tables(&mut self, cpu: usize) {
        let table =
            |tables: &super::tables::Tables, entry: &Buffered| tables.locate(entry.word).is_some();
        while let Some(entry) =
            self.cpus[cpu].buffer.iter().find(|entry| table(&self.tables, entry))
        {
            let word = entry.word;
            self.drain_before(cpu, word);
        }
    }

    /// A store that does not pass through a buffer, of world construction.
    pub(crate) fn land_direct(&mut self, word: Address, value: u64) {
        self.land(self.running, word, value);
    }

    /// What `cpu` reads: its own youngest buffered store, or memory.
    pub(crate) fn view(&self, cpu: usize, word: Address) -> u64 {
        let own = self.cpus[cpu].buffer.iter().rev().find(|entry| entry.word == word);
        own.map_or_else(|| read(word), |entry| entry.value)
    }

    /// A load that is not early.
    pub(crate) fn load(&mut self, cpu: usize, word: Address, order: Ordering) -> u64 {
        self.footprint.read(word);
        self.drain_for_load(cpu, order);
        self.view(cpu, word)
    }

    /// What a load waits for reaches memory.
    pub(crate) fn drain_for_load(&mut self, cpu: usize, order: Ordering) {
        if order == Ordering::SeqCst
            && self.config.buffers == Buffers::Pso
            && let Some(last) = self.cpus[cpu].buffer.iter().rposition(|entry| entry.strong)
        {
            self.drain_first(cpu, last + 1);
        }
    }

    pub(crate) fn store(&mut self, cpu: usize, word: Address, value: u64, order: Ordering) {
        self.footprint.read(word);
        if self.view(cpu, word) != value {
            self.changed |= 1 << cpu;
        }
        let strong = order == Ordering::SeqCst;
        self.stored(cpu);
        match self.config.buffers {
            Buffers::None => self.land(cpu, word, value),
            Buffers::Tso if strong => {
                self.drain_all(cpu);
                self.land(cpu, word, value);
            }
            Buffers::Tso | Buffers::Pso => {
                let release = releases(order);
                let entry = Buffered { word, value, release, strong, via: None };
                self.cpus[cpu].buffer.push(entry);
                self.buffered |= 1 << cpu;
            }
        }
    }

    pub(crate) fn rmw(&mut self, cpu: usize, word: Address, rmw: Rmw, order: Ordering) -> u64 {
        self.drain_before(cpu, word);
        let order = match rmw {
            Rmw::Exchange { current, failure, .. } if read(word) != current => failure,
            _ => order,
        };
        if self.config.buffers == Buffers::Tso || releases(order) {
            self.drain_all(cpu);
        }
        self.footprint.read(word);
        let old = read(word);
        if self.loads_early() {
            self.satisfy_newest(cpu, word, order);
        }
        if let Some(new) = rmw.apply(old) {
            if new != old {
                self.changed |= 1 << cpu;
            }
            self.land(cpu, word, new);
            self.stored(cpu);
            if self.loads_early() {
                self.store_landed(cpu, word, order == Ordering::SeqCst, false);
            }
        }
        old
    }

    pub(crate) fn fence(&mut self, cpu: usize, order: Ordering) {
        if self.loads_early() && acquires(order) {
            self.close_read(cpu);
        }
        if order == Ordering::SeqCst {
            self.drain_all(cpu);
            self.close_now(cpu);
        } else if releases(order)
            && self.config.buffers == Buffers::Pso
            && self.cpus[cpu].buffer.last().is_some_and(|last| !last.word.is_null())
        {
            let word = core::ptr::null_mut();
            let (release, strong) = (true, false);
            self.cpus[cpu].buffer.push(Buffered { word, value: 0, release, strong, via: None });
        }
    }

    /// Drains what an access to `word` that does not pass through the buffer may not overtake: the
    /// earlier stores to the same word, what those may not overtake, and what stands before the
    /// last barrier.
    fn drain_before(&mut self, cpu: usize, word: Address) {
        let buffer = &self.cpus[cpu].buffer;
        if buffer.is_empty() {
            return;
        }
        let own = |entry: &Buffered| entry.word == word;
        if self.config.buffers == Buffers::Tso {
            if let Some(last) = buffer.iter().rposition(own) {
                self.drain_first(cpu, last + 1);
            }
            return;
        }
        let ordered = |entry: &Buffered| entry.word.is_null() || (own(entry) && entry.release);
        if let Some(last) = buffer.iter().rposition(ordered) {
            self.drain_first(cpu, last + 1);
        }
        while let Some(index) = self.cpus[cpu].buffer.iter().position(own) {
            self.drain_one(cpu, index);
        }
    }

    /// Everything that `cpu` has buffered reaches memory, in order.
    pub(crate) fn drain_all(&mut self, cpu: usize) {
        self.drain_first(cpu, self.cpus[cpu].buffer.len());
    }

    fn drain_first(&mut self, cpu: usize, count: usize) {
        let keep = self.cpus[cpu].buffer.len() - count;
        while self.cpus[cpu].buffer.len() > keep {
            self.drain_one(cpu, 0);
        }
    }

    /// One buffered store reaches memory.
    pub(crate) fn drain_one(&mut self, cpu: usize, index: usize) {
        let buffer = &mut self.cpus[cpu].buffer;
        let entry = buffer.remove(index);
        // A barrier at the front holds nothing back any more, so there never is one.
        while buffer.first().is_some_and(|first| first.word.is_null()) {
            buffer.remove(0);
        }
        if buffer.is_empty() {
            self.buffered &= !(1 << cpu);
        }
        if self.trace.is_some() {
            let text = format!("drain {} <- {:#x}", self.name_of(entry.word), entry.value);
            self.note(cpu, text);
        }
        if entry.via.is_some() {
            self.footprint.more();
            self.data_landed(cpu, entry.word);
        }
        self.land(cpu, entry.word, entry.value);
        // What a barrier for stores waits for comes after all that has happened by now.
        self.stored(cpu);
        if self.loads_early() {
            self.store_landed(cpu, entry.word, entry.strong, true);
        }
    }

    /// Calls `each` with the index of every buffered store of `cpu` that may reach memory next.
    pub(crate) fn drainable(&self, cpu: usize, mut each: impl FnMut(usize)) {
        let buffer = &self.cpus[cpu].buffer;
        if self.config.buffers == Buffers::Tso {
            if !buffer.is_empty() {
                each(0);
            }
            return;
        }
        for (index, entry) in buffer.iter().enumerate() {
            let earlier = &buffer[..index];
            if entry.word.is_null() {
                break;
            }
            if earlier.iter().any(|other| other.word == entry.word)
                || (entry.release && !earlier.is_empty())
            {
                continue;
            }
            each(index);
        }
    }

    /// Remembers that `cpu` touches a word, and whether it claims it for itself.
    #[inline]
    pub(crate) fn touch(&mut self, cpu: usize, word: Address, private: bool) {
        if self.phase != Phase::Running {
            return;
        }
        self.sharers.note(word, cpu);
        if !self.config.check_private {
            return;
        }
        let owner = if private {
            let (owner, new) = self.private.claim(word, cpu);
            if new {
                self.ghost_hash ^= mix3(word as u64, cpu as u64, 77);
            }
            Some(owner)
        } else {
            self.private.owner(word)
        };
        if let Some(owner) = owner
            && owner != cpu
        {
            let name = self.name_of(word);
            self.fail(
                Rule::PrivateWord,
                format!("CPU {cpu} touches {name}, which CPU {owner} uses as a word of its own"),
            );
        }
    }
}
