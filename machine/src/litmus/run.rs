//! What happens when something happens.

use lookaside::arch::aarch64::{Scope, Tlbi};

use crate::adversary::{arm::decode_tlbi, clash::clash, config::Arch, tlb::Entry};

use super::{
    coherence::coherent,
    descriptor::{cacheable, with_accessed},
    order::{Event, Rules},
    state::{
        Cell, Source, State, Step, address, data, fails, instruction, is_settled, names, register,
        straight,
    },
    test::{Condition, Fault, Final, Instruction, Named, OnFault, Register},
    translate::{descriptor_cell, entry},
};

/// How often a branch may lead backwards to one instruction. Executions in which it does so more often
/// are not counted.
const ROUNDS: usize = 2;

impl Rules<'_> {
    /// The state that a test begins in: every translation that the first descriptors allow may be
    /// held.
    pub(crate) fn initial(&self) -> State {
        let test = self.test;
        let words = test.contents.iter().copied();
        let descriptors = test.descriptors.iter().map(|descriptor| descriptor.encode());
        let cells = words.chain(descriptors).map(|value| Cell { value, version: 0 });
        let cells: Vec<_> = cells.collect();
        let held = |page: usize| {
            let word = cells[descriptor_cell(test, page)].value;
            cacheable(word).then(|| entry(page, word, 0))
        };
        let tlb: Vec<_> = (0..test.contents.len()).filter_map(held).collect();
        let steps = |code: &Vec<_>| straight(code, 0);
        State {
            tlbs: vec![tlb; test.threads.len()],
            threads: test.threads.iter().map(|thread| steps(&thread.code)).collect(),
            cells,
            broke: false,
        }
    }

    /// The state after an event, unless no execution has it.
    pub(crate) fn after(&self, state: &State, event: &Event) -> Option<State> {
        let mut next = state.clone();
        match *event {
            Event::Touch { variable } => {
                let cell = descriptor_cell(self.test, variable);
                let word = with_accessed(next.cells[cell].value);
                self.write(&mut next, cell, word);
            }
            Event::Guess { thread, step, guess } => {
                let program = &self.test.threads[thread];
                let steps = &mut next.threads[thread];
                steps[step].guess = Some(guess);
                if let Instruction::Branch { target, .. } = instruction(program, &steps[step]) {
                    let own = usize::from(steps[step].at);
                    let on = if guess { target } else { own + 1 };
                    let times = steps.iter().filter(|step| usize::from(step.at) == target).count();
                    if guess && target <= own && times > ROUNDS {
                        return None;
                    }
                    steps.extend(straight(&program.code, on));
                }
            }
            Event::Walk { thread, step, walk } => {
                let steps = &mut next.threads[thread];
                steps[step].walk = Some(walk);
                if walk.fault.is_some() {
                    // What comes after it does not run: nothing of it may have been seen.
                    // A barrier that was passed, and completed nothing, is seen by nobody.
                    let program = &self.test.threads[thread];
                    let forgettable = |step: &Step| {
                        step.unseen()
                            || match instruction(program, step) {
                                Instruction::Dmb(_) => true,
                                Instruction::Dsb(kind) => !kind.completes_tlbis(),
                                _ => false,
                            }
                    };
                    if !steps[step + 1..].iter().all(forgettable) {
                        return None;
                    }
                    steps.truncate(step + 1);
                    let faults = steps.iter().filter(|step| step.faults());
                    let retries = self.test.threads[thread].on_fault == OnFault::Retry;
                    if retries && faults.count() > 1 {
                        return None;
                    }
                }
                if !coherent(self.test, thread, steps) {
                    return None;
                }
            }
            Event::Update { thread, step } => {
                let walk = next.threads[thread][step].walk.as_mut()?;
                let word = walk.update.take()?;
                walk.updated = true;
                let version = walk.version;
                let Some(Named::Page(page)) = names(self.test, thread, &next.threads[thread], step)
                else {
                    return None;
                };
                let cell = descriptor_cell(self.test, page);
                // Nothing came between the look and the write.
                if Some(next.cells[cell].version) != version {
                    return None;
                }
                self.write(&mut next, cell, word);
            }
            Event::Read { thread, step, source } => {
                let program = &self.test.threads[thread];
                let steps = &mut next.threads[thread];
                let cell = steps[step].cell()?;
                let value = match source {
                    Source::Memory(_) => next.cells[cell].value,
                    Source::Own(store) => data(program, steps, store)?,
                };
                let what = instruction(program, &steps[step]);
                steps[step].value = what.width()?.of(value);
                steps[step].source = Some(source);
                steps[step].done = !what.writes();
                if !coherent(self.test, thread, steps) {
                    return None;
                }
            }
            Event::Do { thread, step } => self.act(&mut next, thread, step)?,
        }
        Some(next)
    }

    fn act(&self, state: &mut State, thread: usize, at: usize) -> Option<()> {
        let program = &self.test.threads[thread];
        let no_write = fails(program, &state.threads[thread], at) == Some(true);
        let step = &mut state.threads[thread][at];
        step.done = true;
        if step.faults() {
            let code = program.code.len();
            let resumes = usize::from(step.at);
            match &program.on_fault {
                OnFault::Stop => {}
                OnFault::Retry => {
                    state.threads[thread].extend(straight(&program.code, resumes));
                }
                OnFault::Handler(handler) if resumes < code => {
                    let handler = code..code + handler.len();
                    state.threads[thread].extend(handler.map(Step::new));
                }
                OnFault::Handler(_) => {}
            }
            return Some(());
        }
        match instruction(program, step) {
            Instruction::Atomic { .. } if no_write => {
                coherent(self.test, thread, &state.threads[thread]).then_some(())
            }
            Instruction::Store { .. } | Instruction::Atomic { .. } => {
                let cell = step.cell()?;
                // Nobody wrote between the read and the write of an atomic.
                let read = match step.source {
                    None => None,
                    Some(Source::Memory(version)) => Some(version),
                    Some(Source::Own(of)) => Some(state.threads[thread][of].written?),
                };
                if read.is_some_and(|version| state.cells[cell].version != version) {
                    return None;
                }
                let value = data(program, &state.threads[thread], at)?;
                self.write(state, cell, value);
                let written = state.cells[cell].version;
                state.threads[thread][at].written = Some(written);
                coherent(self.test, thread, &state.threads[thread]).then_some(())
            }
            Instruction::Tlbi { op, scope, operand } => {
                let operand = operand
                    .map_or(Some(0), |of| register(program, &state.threads[thread], at, of))?;
                self.invalidate(state, thread, Tlbi { op, scope, operand });
                Some(())
            }
            Instruction::Dsb(kind) if kind.completes_tlbis() => {
                complete(state, thread);
                Some(())
            }
            _ => Some(()),
        }
    }

    /// A word reaches memory. Every CPU may walk what it now leads to.
    fn write(&self, state: &mut State, cell: usize, value: u64) {
        let Cell { version, .. } = state.cells[cell];
        state.cells[cell] = Cell { value, version: version + 1 };
        let Some(page) = cell.checked_sub(self.test.contents.len()) else { return };
        if !cacheable(value) {
            return;
        }
        let added = entry(page, value, version + 1);
        for tlb in 0..state.tlbs.len() {
            let clashes = state.tlbs[tlb].iter().any(|held| self.clashes(state, held, &added));
            state.broke |= clashes;
            state.tlbs[tlb].push(added);
        }
    }

    /// Whether two translations of one page must never be held together: what the adversary says,
    /// and read-only pages of different contents.
    fn clashes(&self, state: &State, held: &Entry, added: &Entry) -> bool {
        if held.vpn != added.vpn {
            return false;
        }
        let config = &self.hardware.config();
        let contents = |of: &Entry| {
            let frame = of.target(Arch::Arm).0;
            let cell = usize::try_from(frame).ok().and_then(|frame| frame.checked_sub(1));
            cell.and_then(|cell| state.cells.get(cell)).map(|cell| cell.value)
        };
        clash(config, held, added).is_some() || contents(held) != contents(added)
    }

    /// A `TLBI` is issued. What it names stays usable until the CPU completes it, but for what a
    /// walk could read anew.
    fn invalidate(&self, state: &mut State, by: usize, tlbi: Tlbi) {
        let config = self.hardware.config();
        let Some(what) = decode_tlbi(tlbi, config.tag_bits, &[0]) else { return };
        let everywhere = tlbi.scope == Scope::Broadcast;
        let variables = self.test.contents.len();
        let State { cells, tlbs, threads, .. } = state;
        for (cpu, tlb) in tlbs.iter_mut().enumerate() {
            if !everywhere && cpu != by {
                continue;
            }
            for entry in tlb.iter_mut() {
                let stale = cells[variables + entry.vpn as usize - 1].version != entry.owner;
                if stale && what.names(&entry.cached(config.index_bits)) {
                    entry.doomed |= 1 << by;
                }
            }
            if cpu == by {
                continue;
            }
            // So is what was translated before, and may still be on its way.
            for at in 0..threads[cpu].len() {
                let Some(Named::Page(page)) = names(self.test, cpu, &threads[cpu], at) else {
                    continue;
                };
                let Some(walk) = &mut threads[cpu][at].walk else { continue };
                let Some(version) = walk.version else { continue };
                let used = entry(page, 0, version);
                let stale = cells[variables + page].version != version;
                if stale && what.names(&used.cached(config.index_bits)) {
                    walk.doomed |= 1 << by;
                }
            }
        }
    }

    /// What a finished run has left behind; nothing for one that is not finished.
    pub(crate) fn finished(&self, state: &State) -> Option<Final> {
        let mut faults = Vec::new();
        let mut registers = Vec::new();
        for (thread, steps) in state.threads.iter().enumerate() {
            let program = &self.test.threads[thread];
            for (at, step) in steps.iter().enumerate() {
                let what = instruction(program, step);
                let finished = match what {
                    Instruction::Nop
                    | Instruction::Move { .. }
                    | Instruction::Copy { .. }
                    | Instruction::Compute { .. }
                    | Instruction::Compare { .. } => true,
                    Instruction::Select { .. } => is_settled(program, steps, at),
                    Instruction::Branch { condition, target } => {
                        let next = usize::from(step.at) + 1;
                        let went = condition == Condition::Always && target >= next
                            || target == next
                            || step.guess.is_some();
                        went && is_settled(program, steps, at)
                    }
                    _ => step.done,
                };
                if !finished || step.walk.is_some_and(|walk| walk.update.is_some()) {
                    return None;
                }
                if what.is_access()
                    && let Some(kind) = step.walk.and_then(|walk| walk.fault)
                    && let Some(address) = address(program, steps, at)
                {
                    let instruction = usize::from(step.at);
                    faults.push(Fault { thread, instruction, address, kind });
                }
            }
            let value = |number: u8| {
                register(program, steps, steps.len(), Register(number)).unwrap_or_default()
            };
            registers.push(core::array::from_fn(|number| value(number as u8)));
        }
        faults.sort_unstable();
        faults.dedup();
        let values = state.cells.iter().map(|cell| cell.value);
        let mut contents: Vec<_> = values.collect();
        let descriptors = contents.split_off(self.test.contents.len());
        Some(Final { contents, descriptors, registers, faults })
    }
}

/// A full `DSB` completes what its CPU has invalidated.
fn complete(state: &mut State, by: usize) {
    for tlb in &mut state.tlbs {
        tlb.retain(|entry| entry.doomed & 1 << by == 0);
    }
    for walk in state.threads.iter_mut().flatten().filter_map(|step| step.walk.as_mut()) {
        walk.doomed &= !(1 << by);
    }
}
