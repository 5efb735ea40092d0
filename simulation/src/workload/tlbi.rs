//! A kernel module that times invalidations by address in batches.
//!
//! On one CPU with interrupts off: the invalidations for `x` pages one after the other, and one wait
//! for all of them. Where kernel and user have tables of their own there are two for each page. They
//! are the library's own sequences, whatever the strategy is.

use core::cell::Cell;

use lookaside::{
    VaRange,
    arch::{Errata, Invalidation, Mmu, Scope, TableChange, Tag},
};
use lookaside_machine::timed::{self, Arena, Price, Ps};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS},
};
use crate::{
    data::{Isa, Machine},
    strategy::hardware::{Arm, Hardware},
};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "tlbi",
    about: "a kernel module times batches of TLBI by address, local or `broadcast`, with host \
            `stage2` or not",
    x_name: Some("slots per batch"),
    run,
}];

const BATCHES: u64 = 10;

/// The machine as it is for a host that translates its own memory a second time (protected KVM): what
/// its TLBs hold is combined of both stages, and an invalidation by address costs the path
/// `tlbi_stage2` on the CPU that executes it.
///
/// # Errors
///
/// If the machine file does not say what that costs.
pub(super) fn with_stage2(machine: &Machine) -> Result<Machine, Refused> {
    let mut machine = machine.clone();
    let price = machine.path("tlbi_stage2")?;
    machine.model.prices.set(Price::FlushPage, price);
    machine.model.prices.set(Price::BroadcastIssue, price);
    Ok(machine)
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    if setup.machine.isa != Isa::Aarch64 {
        let key = &setup.machine.key;
        return Err(Refused(format!("machine `{key}` has no TLBI: it is no Arm machine")));
    }
    let slots = setup.x.or_else(|| setup.option("slots").ok()).ok_or_else(|| {
        Refused("the workload needs the number of slots, as `x` or as an option `slots`".to_owned())
    })? as u64;
    let broadcast = setup.option_or("broadcast", 0.0) != 0.0;
    let machine = match setup.option_or("stage2", 0.0) {
        0.0 => setup.machine.clone(),
        _ => with_stage2(setup.machine)?,
    };
    let setup = &Setup { machine: &machine, ..*setup };
    let mmu = Arm::mmu(&machine).map_err(Refused::because)?;
    let range = [VaRange::new(0, slots << 12, 12).map_err(Refused::because)?];
    let arena = Arena::new(1 << 24);
    let measured: Cell<Ps> = Cell::new(0);
    let cpus = setup.cpus.unwrap_or(machine.model.topology.cpus());
    let (_, report) = stage::run(
        setup,
        &arena,
        cpus,
        |_| (),
        |_, (), cpu| {
            if cpu > 0 {
                return;
            }
            let (errata, tag, depth) = (Errata::NONE, Tag(1), TableChange::LastLevel);
            let begin = timed::now();
            for _ in 0..BATCHES {
                timed::interrupts_off(|| {
                    if broadcast {
                        mmu.flush(
                            errata,
                            Invalidation::ranges(tag, &range, depth),
                            Scope::Broadcast,
                        );
                    } else {
                        mmu.flush(errata, Invalidation::ranges(tag, &range, depth), Scope::Local);
                    }
                });
            }
            measured.set(timed::now() - begin);
        },
    )?;
    let value = measured.get() as f64 / (BATCHES * slots) as f64 / NS as f64;
    Ok(Outcome {
        metrics: vec![Metric { key: "time_per_slot", unit: "ns", value }],
        report,
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_page_takes_two_where_user_and_kernel_have_tables_of_their_own() {
        let machine = Machine::named("phytium_n80").expect("a machine of the repository");
        let options = BTreeMap::new();
        let (x, strategy) = (Some(100.0), "lookaside");
        let setup = Setup {
            machine: &machine,
            strategy,
            cpus: Some(2),
            x,
            options: &options,
            seed: 1,
            timeline: 0,
        };
        let outcome = run(&setup).expect("the machine has what it takes");
        assert_eq!(outcome.report.counters().page_flushes, 2 * 100 * BATCHES);
        let prices = &machine.model.prices;
        let barriers = prices.charge(Price::Barrier) as f64 * 2.0 / 100.0;
        let expected = (2.0 * prices.charge(Price::FlushPage) as f64 + barriers) / NS as f64;
        let slot = outcome.metric("time_per_slot").expect("a metric");
        assert!((slot - expected).abs() < 1e-6, "{slot} {expected}");
    }
}
