//! Accessed and dirty flags that hardware sets in descriptors, and whether software has lost any.

use core::ops::Range;

use super::super::{
    flags::{self, Flag, Flags},
    machine::Machine,
    tlb::Entry,
    violation::Rule,
};

impl Machine {
    pub(super) fn harvest(&mut self, frames: Range<u64>, found: Flags) {
        self.forget_flags(|frame, flag| {
            let taken = match flag {
                Flag::Accessed => found.accessed,
                Flag::Dirty => found.dirty,
            };
            taken && frames.contains(&frame.0)
        });
        let lost = self.ghost.noted.iter().find(|&&(frame, flag)| {
            frames.contains(&frame.0) && !self.is_flagged(frame, flag, Some(self.running))
        });
        if let Some(&(frame, flag)) = lost {
            let text = format!(
                "frame {:#x} was {} since software last took note, and nothing says so any more",
                frame.0,
                match flag {
                    Flag::Accessed => "looked up",
                    Flag::Dirty => "stored to",
                }
            );
            self.fail(Rule::LostFlag, text);
        }
    }

    pub(super) fn clean(&mut self, frames: Range<u64>) {
        for cpu in 0..self.cpus.len() {
            for index in 0..self.cpus[cpu].tlb.len() {
                let entry = self.cpus[cpu].tlb[index];
                if entry.is(Entry::TABLE) {
                    continue;
                }
                let frame = self.target(&entry);
                let arch = self.config.arch;
                if frames.contains(&frame.0)
                    && flags::writable(arch, entry.descriptor)
                    && flags::read(arch, entry.descriptor).dirty
                    && !self.is_flagged(frame, Flag::Dirty, None)
                {
                    self.mark(cpu, index, Entry::REVOKED, Rule::LostFlag);
                }
            }
        }
    }
}
