//! Coherence: one order of writes for each word of memory, which every thread's loads agree with.
//!
//! Loads run early, so a load may have read before an earlier access of its thread turns out to be one
//! of the same word. An execution in which they disagree is not one.

use super::{
    state::{Source, Step, fails, instruction},
    test::Test,
};

/// Whether what a thread has read agrees with the order in which memory has been written.
pub(crate) fn coherent(test: &Test, thread: usize, steps: &[Step]) -> bool {
    let program = &test.threads[thread];
    let version = |step: &Step| match step.source? {
        Source::Own(of) => steps[of].written,
        Source::Memory(version) => Some(version),
    };
    for (at, load) in steps.iter().enumerate() {
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
            let order = match (version(earlier), version(load)) {
                (Some(first), Some(second)) => first <= second,
                _ => true,
            };
            // Whether a `CAS` writes may turn out later.
            let writes = instruction(program, earlier).writes()
                && fails(program, steps, earlier_at) == Some(false);
            let fits = !writes
                || match source {
                    Source::Own(store) => earlier_at <= store,
                    Source::Memory(read) => earlier.written.is_some_and(|written| written <= read),
                };
            if !(order && fits) {
                return false;
            }
        }
    }
    true
}
