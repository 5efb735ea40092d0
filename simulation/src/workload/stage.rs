//! What all workloads share: a model kernel, a program for each CPU, and a common beginning.

use core::cell::{Cell, OnceCell};

use lookaside::platform::CpuId;
use lookaside_machine::timed::{self, Arena, Failure, Options, Ps, Report, World};
use lookaside_terminal::Refused;

use super::Setup;
use crate::{kernel::Kernel, strategy::Place};

/// A nanosecond, in picoseconds.
pub(crate) const NS: Ps = 1000;
/// A microsecond, in picoseconds.
pub(crate) const US: Ps = 1000 * NS;
/// A millisecond, in picoseconds.
pub(crate) const MS: Ps = 1000 * US;

/// When programs begin: by then every CPU is up.
pub(crate) const START: Ps = 50 * MS;
/// Programs begin at most so long after each other, at random: real ones do not march in step.
const JITTER: Ps = US;
/// A run that takes longer than this, in simulated time, is stuck.
const LIMIT: Ps = 600_000 * MS;

thread_local! {
    /// Whether workloads on this thread end where they would begin to run.
    static REHEARSES: Cell<bool> = const { Cell::new(false) };
}

/// Calls a workload up to where it would begin to run: by then it has looked for its options. Returns whether it came so
/// far, or why not.
pub(super) fn rehearse<T>(workload: impl FnOnce() -> Result<T, Refused>) -> Result<(), Refused> {
    REHEARSES.set(true);
    let outcome = workload();
    match (REHEARSES.replace(false), outcome) {
        (true, Err(why)) => Err(why),
        _ => Ok(()),
    }
}

struct Stage<'a, S, F> {
    kernel: Result<Kernel<'a>, Refused>,
    state: OnceCell<S>,
    program: F,
}

impl<'a, S, F: Fn(&Kernel<'a>, &S, usize)> World for Stage<'a, S, F> {
    fn run(&self, cpu: CpuId) {
        let (Ok(kernel), Some(state)) = (&self.kernel, self.state.get()) else { return };
        // One after the other, as kernels bring CPUs up.
        timed::idle_until(u64::from(cpu.0) * US);
        kernel.online();
        assert!(timed::now() < START, "a CPU takes too long to come up");
        let begin = START + timed::random_below(JITTER);
        timed::during("start", || timed::idle_until(begin));
        (self.program)(kernel, state, cpu.index());
    }

    fn interrupt(&self) {
        if let Ok(kernel) = &self.kernel {
            kernel.handle_ipi();
        }
    }
}

/// Runs `program` on each of `cpus` CPUs, with what `build` has made before: the same, with what the
/// programs have noted in it, and where the time went.
///
/// # Errors
///
/// If the machine has fewer CPUs or not this strategy, or if the run fails.
pub(crate) fn run<'a, S>(
    setup: &Setup<'a>,
    arena: &'a Arena,
    cpus: usize,
    build: impl FnOnce(&Kernel<'a>) -> S,
    program: impl Fn(&Kernel<'a>, &S, usize),
) -> Result<(S, Report), Refused> {
    let Setup { machine, strategy, seed, timeline, .. } = *setup;
    let limit = machine.model.topology.cpus();
    if cpus == 0 || cpus > limit {
        let key = &machine.key;
        return Err(Refused(format!("{cpus} CPUs; machine `{key}` has {limit}")));
    }
    if REHEARSES.replace(false) {
        return Err(Refused("a rehearsal".to_owned()));
    }
    let options = Options { cpus, seed, limit: LIMIT, timeline };
    let (stage, report) = timed::simulate(&machine.charged(), arena, options, || {
        let kernel = Kernel::new(Place { arena, machine, cpus }, strategy);
        let state = OnceCell::new();
        if let Ok(kernel) = &kernel {
            let _ = state.set(build(kernel));
        }
        Stage { kernel, state, program }
    })
    .map_err(|failure| match failure {
        // Whatever is run, no strategy may do that.
        Failure::Stale { .. } => {
            Refused(format!("strategy `{strategy}`: {}", failure.to_string().trim_end()))
        }
        other => Refused::because(other),
    })?;
    let _ = stage.kernel?;
    let state = stage.state.into_inner();
    Ok((state.expect("there is a state where there is a kernel"), report))
}
