//! Frames that no program may reach any more, though translations to them may remain cached.

use super::{
    super::{format::Frame, hash::mix3, machine::Machine, tlb::Entry, violation::Rule},
    QUIET,
};

impl Machine {
    pub(super) fn quieten(&mut self, frame: Frame) {
        if !self.ghost.quiet.contains(&frame) {
            self.ghost.quiet.push(frame);
            self.ghost_hash ^= mix3(frame.0, 1, QUIET);
        }
        for cpu in 0..self.cpus.len() {
            for index in 0..self.cpus[cpu].tlb.len() {
                let mut entry = self.cpus[cpu].tlb[index];
                if !entry.is(Entry::TABLE) && self.reaches(&entry, frame) {
                    entry.flags |= Entry::QUIET;
                    self.amend(cpu, index, entry);
                }
            }
            for index in 0..self.cpus[cpu].lingering.len() {
                if self.reaches(&self.cpus[cpu].lingering[index], frame) {
                    self.cpus[cpu].lingering[index].flags |= Entry::QUIET;
                }
            }
        }
        self.check_in_flight(frame);
    }

    /// A CPU may access user memory again: no entry that it can use may lead to a quiet frame.
    pub(super) fn check_quiet(&mut self, cpu: usize) {
        for holder in 0..self.cpus.len() {
            if holder != cpu && !self.config.cnp {
                continue;
            }
            for index in 0..self.cpus[holder].tlb.len() {
                let entry = self.cpus[holder].tlb[index];
                if self.is_quiet(&entry) && self.exposed(cpu, holder, &entry) {
                    let why = "leads to a frame that no program reaches any more";
                    self.fail_entry(Rule::StaleTranslation, cpu, holder, &entry, why);
                }
            }
        }
    }

    /// Whether no program may use the entry, though it may be cached.
    pub(crate) fn is_quiet(&self, entry: &Entry) -> bool {
        entry.is(Entry::QUIET)
            || (!entry.is(Entry::TABLE)
                && self.ghost.quiet.iter().any(|&frame| self.reaches(entry, frame)))
    }

    /// No store of user code to the frame may still be under way.
    pub(super) fn check_in_flight(&mut self, frame: Frame) {
        for cpu in 0..self.cpus.len() {
            let reaches = self.cpus[cpu].buffer.iter().any(|entry| {
                entry.via.is_some() && self.tables.data_frame(entry.word) == Some(frame)
            });
            if reaches {
                let text = format!(
                    "a store of CPU {cpu}, translated before, is on its way to frame {:#x}",
                    frame.0
                );
                self.fail(Rule::FreedFrame, text);
            }
        }
    }
}
