//! Coherence: one order of writes for each word of memory, which every thread's loads agree with.
//!
//! Loads run early, so a load may have read before an earlier access of its thread turns out to be one
//! of the same word. An execution in which they disagree is not one.

use super::{
    state::{Source, Step, instruction},
    test::{Instruction, Test},
};

/// Whether what a thread has read agrees with the order in which memory has been written.
pub(crate) fn coherent(test: &Test, thread: usize, steps: &[Step]) -> bool {
    let program = &test.threads[thread];
    let version = |step: &Step| match step.source {
        Some(Source::Own(of)) => steps[of].version(),
        _ => step.version(),
    };
    for (at, load) in steps.iter().enumerate() {
        let Instruction::Load { .. } = instruction(program, load) else { continue };
        let (Some(cell), Some(source)) = (load.cell(), load.source) else { continue };
        if let Source::Own(store) = source
            && steps[store].walk.is_some()
            && steps[store].cell() != Some(cell)
        {
            return false;
        }
        for (earlier_at, earlier) in steps[..at].iter().enumerate() {
            if earlier.cell() != Some(cell) {
                continue;
            }
            let fits = match (instruction(program, earlier), source) {
                (Instruction::Store { .. }, Source::Own(store)) => earlier_at <= store,
                (Instruction::Store { .. }, Source::Memory(read)) => {
                    earlier.version().is_some_and(|written| written <= read)
                }
                _ => match (version(earlier), version(load)) {
                    (Some(first), Some(second)) => first <= second,
                    _ => true,
                },
            };
            if !fits {
                return false;
            }
        }
    }
    true
}
