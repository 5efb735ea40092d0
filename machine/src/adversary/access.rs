//! Accesses of user code: the translations they may use, and stores on their way to a frame.

use super::{
    block,
    config::{Arch, Bbm, Updates},
    cpu::{Cpu, Live, Via},
    current::step,
    deviations::Deviations,
    flags::{self, Flag, Flags},
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
/// Returns the frame, or nothing for a fault, which a translation that permits no stores is.
#[track_caller]
pub fn access_store(va: u64, value: u64) -> Option<Frame> {
    step(Op::AccessStore(va, value)).checked_sub(1).map(Frame)
}

/// What an access may come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Outcome {
    /// 0 is a fault, `frame + 1` a page.
    pub(crate) result: u64,
    /// What hardware writes on the way: which descriptor, and its new value.
    write: Option<(usize, u64)>,
    /// What is thereby noted of the frame, or should be.
    accessed: bool,
    dirty: bool,
    /// The translation is one that no program may use any more.
    quiet: bool,
    /// The fault is a conflict abort that the program does not expect.
    conflict: bool,
    /// It was revoked: no CPU holds it but one that rests, and this one should.
    revoked: bool,
}

const FAULT: Outcome = Outcome {
    result: 0,
    write: None,
    accessed: false,
    dirty: false,
    quiet: false,
    conflict: false,
    revoked: false,
};

impl Outcome {
    fn at(frame: Frame) -> Self {
        Self { result: frame.0 + 1, ..FAULT }
    }
}

impl Machine {
    /// Does what an access does once its translation is chosen.
    pub(crate) fn finish_access(&mut self, cpu: usize, op: Op, choice: Outcome) {
        self.check_accessing(cpu);
        let Some(frame) = choice.result.checked_sub(1).map(Frame) else {
            if choice.conflict {
                self.fail(Rule::Erratum, format!("CPU {cpu}: a program takes a conflict abort"));
            }
            if self.faults_wait(cpu) {
                self.drain_all(cpu);
            }
            if self.config.arch == Arch::X86 {
                self.page_fault(cpu, op);
            }
            if self.config.invalid_entries {
                self.faulted(cpu, op);
            }
            return;
        };
        self.execute_code(cpu);
        if choice.quiet {
            let text = format!(
                "CPU {cpu}: a program uses a translation to frame {:#x}, which none may reach",
                frame.0
            );
            self.fail(Rule::StaleTranslation, text);
        }
        if choice.revoked {
            let text = format!(
                "CPU {cpu}: a program uses a translation to frame {:#x}, which was revoked",
                frame.0
            );
            self.fail(Rule::StaleTranslation, text);
        }
        if choice.accessed {
            self.note_flag(frame, Flag::Accessed);
        }
        if choice.dirty {
            self.note_flag(frame, Flag::Dirty);
        }
        if let Some((word, value)) = choice.write {
            self.write_descriptor(word, value);
        }
        if let Op::AccessStore(va, value) = op
            && let Some(word) = self.tables.contents(frame)
        {
            let (page, bits) = (va >> 12, self.config.index_bits);
            let tag = self.cpus[cpu].live.first().map_or(0, |live| live.tag);
            let global = self.cpus[cpu].tlb.iter().any(|entry| {
                entry.is(Entry::GLOBAL) && !entry.is(Entry::TABLE) && entry.covers(page, bits)
            });
            self.store_via(cpu, word.address(), value, Via { page, tag, global });
        }
    }

    /// A fault is taken where CPUs remember that nothing was mapped.
    #[cold]
    fn faulted(&mut self, cpu: usize, op: Op) {
        if self.trace.is_some()
            && let Op::Access(va) | Op::AccessStore(va, _) = op
            && self.remembers_absence(cpu, va >> 12)
        {
            self.note(cpu, "it remembers that nothing was mapped there".to_owned());
        }
        // Taking an exception synchronises the context.
        self.synchronise_absent(cpu);
    }

    /// A store of user code reaches a frame.
    pub(crate) fn data_landed(&mut self, cpu: usize, word: Address) {
        if let Some(frame) = self.tables.data_frame(word)
            && (self.ghost.freed.contains(&frame) || self.ghost.quiet.contains(&frame))
        {
            let text = format!(
                "a store of CPU {cpu}, translated before, reaches frame {:#x} after it was given back",
                frame.0
            );
            self.fail(Rule::FreedFrame, text);
        }
    }

    /// What an access to `va` may come to.
    fn access_choices(&self, cpu: usize, va: u64, store: bool) -> Vec<Outcome> {
        let page = va >> 12;
        let bits = self.config.index_bits;
        let mut choices = Vec::new();
        let mut size = None;
        let mut conflict = false;
        for holder in 0..self.cpus.len() {
            // Sizes conflict in the TLB, where what lingers is not any more.
            let held = self.cpus[holder].tlb.len();
            let lingering = if holder == cpu { &self.cpus[cpu].lingering[..] } else { &[] };
            for (index, entry) in self.cpus[holder].tlb.iter().chain(lingering).enumerate() {
                if entry.is(Entry::TABLE) || !entry.covers(page, bits) {
                    continue;
                }
                let usable = |live: &&Live| Self::usable(live, cpu, holder, entry);
                if let Some(live) = self.cpus[cpu].live.iter().find(usable) {
                    let own = (entry.level, self.is_contiguous(entry));
                    conflict |= index < held && *size.get_or_insert(own) != own;
                    self.through_entry(live, entry, page, store, &mut choices);
                }
            }
        }
        let live = &self.cpus[cpu].live;
        for live in live.iter().filter(|_| self.cpus[cpu].walks) {
            self.through_walk(live, page, store, &mut choices);
        }
        // A walk that begins now faults if memory holds no translation, and one that began before if it held
        // none then.
        let absent = live.is_empty()
            || !self.cpus[cpu].walks
            || self.remembers_absence(cpu, page)
            || live.iter().any(|live| !self.is_mapped(live, page));
        if absent && !(self.faults_wait(cpu) && self.is_about_to_change(cpu, page)) {
            choices.push(FAULT);
        }
        // Two sizes at once may raise a conflict abort.
        if conflict && self.config.arch == Arch::Arm && self.config.bbm != Bbm::L2NoAbort {
            let conflict = self.config.deviations.contains(Deviations::CONFLICT_ABORTS);
            choices.push(Outcome { conflict, ..FAULT });
        }
        choices.sort_unstable();
        choices.dedup();
        choices
    }

    /// Whether a walk of `cpu` faults only after stores that wait in its buffer (FEAT_ETS2).
    fn faults_wait(&self, cpu: usize) -> bool {
        let ordered = self.config.arch == Arch::Arm && self.config.ets2;
        ordered && !self.cpus[cpu].buffer.is_empty()
    }

    /// Whether a descriptor of the page waits in the store buffer of `cpu`.
    fn is_about_to_change(&self, cpu: usize, page: u64) -> bool {
        let Cpu { live, buffer, .. } = &self.cpus[cpu];
        let of_root = |live: &Live| {
            (0..self.config.levels).any(|level| {
                let word = self.descriptor(live.table as usize, page, level);
                word.is_some_and(|word| buffer.iter().any(|entry| entry.word == word.address()))
            })
        };
        live.iter().any(of_root)
    }

    /// What an access may come to. If that depends on stores that it waits for, they reach memory first.
    pub(crate) fn choose_access(&mut self, cpu: usize, va: u64, store: bool) -> Vec<Outcome> {
        let choices = self.access_choices(cpu, va, store);
        if choices.is_empty() && self.faults_wait(cpu) {
            self.drain_all(cpu);
            return self.access_choices(cpu, va, store);
        }
        choices
    }

    /// Whether memory holds a translation that a walk could use now.
    fn is_mapped(&self, live: &Live, page: u64) -> bool {
        (0..self.config.levels).any(|level| {
            let Some(word) = self.descriptor(live.table as usize, page, level) else {
                return false;
            };
            if level == 0
                && let Some(word) = self.written_for(live, page)
            {
                let leaf = self.written_leaf(word);
                let accessed = |leaf| flags::read(self.config.arch, leaf).accessed;
                return leaf.is_some_and(|(leaf, _)| {
                    accessed(leaf) || self.config.updates >= Updates::Accessed
                });
            }
            let leaf = matches!(decode(self.config.arch, level, word.peek()), Decoded::Leaf { .. });
            leaf && (level > 0 || block::bits(&self.config, word.peek()).is_some())
        })
    }

    /// What an access through a cached translation may come to.
    fn through_entry(
        &self,
        live: &Live,
        entry: &Entry,
        page: u64,
        store: bool,
        choices: &mut Vec<Outcome>,
    ) {
        let arch = self.config.arch;
        let within = page & ((1 << (u32::from(entry.level) * self.config.index_bits)) - 1);
        let frame = Frame(self.target(entry).0 | within);
        let (quiet, revoked) = (self.is_quiet(entry), entry.is(Entry::REVOKED));
        let plain = Outcome { quiet, revoked, ..Outcome::at(frame) };
        if !store {
            return choices.push(plain);
        }
        if !flags::writable(arch, entry.descriptor) {
            return choices.push(FAULT);
        }
        let dirty = flags::read(arch, entry.descriptor).dirty;
        let word = self.written_for(live, page).filter(|_| entry.level == 0);
        let manages = self.config.updates == Updates::Dirty;
        match word {
            // Arm without TCR.HD does not look at DBM.
            None if arch == Arch::Arm && !dirty && !manages => choices.push(FAULT),
            None => choices.push(plain),
            // The CPU knows the page as dirty, and writes nothing, whatever memory says.
            Some(_) if dirty => {
                let noted = self.is_flagged(frame, Flag::Dirty, None);
                choices.push(Outcome { dirty: !noted, ..plain });
            }
            Some(_) if !manages => choices.push(FAULT),
            Some(word) => self.set_dirty(word, entry.descriptor, page, plain, choices),
        }
    }

    /// Hardware looks at memory again before it sets the dirty bit, and sets it in any descriptor
    /// of the block. If memory has changed it walks anew, which is another choice.
    fn set_dirty(
        &self,
        word: usize,
        cached: u64,
        page: u64,
        plain: Outcome,
        choices: &mut Vec<Outcome>,
    ) {
        let arch = self.config.arch;
        let Some((leaf, bits)) = self.written_leaf(word) else { return };
        let held = block::for_page(arch, bits, leaf, page);
        let late_dirty = arch == Arch::X86 && self.config.late_dirty;
        let forgiven = if late_dirty { 1 << 1 } else { 0 };
        if !flags::alike(arch, held | forgiven, cached | forgiven) {
            return;
        }
        if self.config.deviations.contains(Deviations::LOST_DIRTY) {
            choices.push(Outcome { dirty: true, ..plain });
        }
        for alias in self.aliases(word) {
            let Some((leaf, _)) = self.written_leaf(alias) else { continue };
            // The look at memory is one at the descriptor that is written.
            if alias != word && !flags::writable(arch, leaf) {
                continue;
            }
            let write = (!flags::read(arch, leaf).dirty)
                .then(|| (alias, flags::set(arch, leaf, Flag::Dirty)));
            choices.push(Outcome { write, dirty: true, ..plain });
        }
    }

    /// What an access may come to that walks through a descriptor which is not accessed, and has
    /// hardware set that. Walks through others are cached already.
    fn through_walk(&self, live: &Live, page: u64, store: bool, choices: &mut Vec<Outcome>) {
        let arch = self.config.arch;
        if self.config.updates < Updates::Accessed {
            return;
        }
        let Some(word) = self.written_for(live, page) else { return };
        let Some((leaf, bits)) = self.written_leaf(word) else { return };
        let Flags { accessed, dirty } = flags::read(arch, leaf);
        if accessed {
            return;
        }
        let marks = store && !dirty;
        if store && !flags::writable(arch, leaf) || marks && self.config.updates < Updates::Dirty {
            return choices.push(FAULT);
        }
        let own = flags::set(arch, block::for_page(arch, bits, leaf, page), Flag::Accessed);
        let Decoded::Leaf { frame, .. } = decode(arch, 0, own) else { return };
        let quiet = self.ghost.quiet.contains(&frame);
        for alias in self.aliases(word) {
            let Some((leaf, _)) = self.written_leaf(alias) else { continue };
            if marks && !flags::writable(arch, leaf) {
                continue; // As above.
            }
            let mut value = flags::set(arch, leaf, Flag::Accessed);
            if marks {
                value = flags::set(arch, value, Flag::Dirty);
            }
            let write = (value != leaf).then_some((alias, value));
            choices.push(Outcome {
                write,
                accessed: true,
                dirty: marks,
                quiet,
                ..Outcome::at(frame)
            });
        }
    }

    fn is_contiguous(&self, entry: &Entry) -> bool {
        entry.level == 0 && block::is_contiguous(self.config.arch, entry.descriptor)
    }
}
