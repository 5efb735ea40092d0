//! Accesses of user code: the translations they may use, and stores on their way to a frame.

use super::{
    cpu::{Live, Via},
    current::step,
    format::{Decoded, Frame, decode},
    machine::Machine,
    op::{Address, Op},
    tlb::Entry,
    violation::Rule,
};

/// Uses the translation of `va` on the CPU that runs, as user code would: any that the CPU may
/// have cached, or a new walk. The explorer chooses. Returns the frame, or nothing for a fault.
#[track_caller]
#[must_use]
pub fn access(va: u64) -> Option<Frame> {
    step(Op::Access(va)).checked_sub(1).map(Frame)
}

/// Stores to `va` on the CPU that runs, as user code would. The translation is chosen now; the
/// store itself waits in the store buffer, and must not reach the frame after that was given back.
/// Returns the frame, or nothing for a fault.
#[track_caller]
pub fn access_store(va: u64, value: u64) -> Option<Frame> {
    step(Op::AccessStore(va, value)).checked_sub(1).map(Frame)
}

impl Machine {
    /// Does what an access does once its translation is chosen.
    pub(crate) fn finish_access(&mut self, cpu: usize, op: Op, choice: u64) {
        if let (Op::AccessStore(va, value), Some(frame)) = (op, choice.checked_sub(1))
            && let Some(word) = self.tables.contents(Frame(frame))
        {
            let (page, bits) = (va >> 12, self.config.index_bits);
            let tag = self.cpus[cpu].live.first().map_or(0, |live| live.tag);
            let global = self.cpus[cpu].tlb.iter().any(|entry| {
                entry.is(Entry::GLOBAL) && !entry.is(Entry::TABLE) && entry.covers(page, bits)
            });
            self.store_via(cpu, word.address(), value, Via { page, tag, global });
        }
    }

    /// A store of user code reaches a frame.
    pub(crate) fn data_landed(&mut self, cpu: usize, word: Address) {
        if let Some(frame) = self.tables.data_frame(word)
            && self.ghost.freed.contains(&frame)
        {
            let text = format!(
                "a store of CPU {cpu}, translated before, reaches frame {:#x} after it was given back",
                frame.0
            );
            self.fail(Rule::FreedFrame, text);
        }
    }

    /// What an access to `va` may come to: 0 is a fault, `frame + 1` a page.
    pub(crate) fn access_choices(&self, cpu: usize, va: u64) -> Vec<u64> {
        let page = va >> 12;
        let bits = self.config.index_bits;
        let mut choices = Vec::new();
        let mut add = |choice: u64| {
            if !choices.contains(&choice) {
                choices.push(choice);
            }
        };
        for holder in 0..self.cpus.len() {
            let lingering = if holder == cpu { &self.cpus[cpu].lingering[..] } else { &[] };
            for entry in self.cpus[holder].tlb.iter().chain(lingering) {
                let usable = |live: &Live| Self::usable(live, cpu, holder, entry);
                if !entry.is(Entry::TABLE)
                    && entry.covers(page, bits)
                    && self.cpus[cpu].live.iter().any(usable)
                {
                    let within = page & ((1 << (u32::from(entry.level) * bits)) - 1);
                    add((self.target(entry).0 | within) + 1);
                }
            }
        }
        // A walk that begins now faults if memory holds no translation.
        let mapped = |live: &Live| {
            (0..self.config.levels).any(|level| {
                let word = self.descriptor(live.table as usize, page, level);
                let decoded = word.map(|word| decode(self.config.arch, level, word.peek()));
                matches!(decoded, Some(Decoded::Leaf { .. }))
            })
        };
        let live = &self.cpus[cpu].live;
        if live.is_empty() || !self.cpus[cpu].walks || live.iter().any(|live| !mapped(live)) {
            add(0);
        }
        choices.sort_unstable();
        choices
    }
}
