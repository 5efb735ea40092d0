//! One call that tries a platform out: it passes a good one, and says what is wrong with others.

use crate::support::{
    Answer, Fake, Op,
    machine::{Machine, Strategy, epochs, recent, this_cpu},
    on,
};
use lookaside::{
    arch::Wait,
    conformance::*,
    platform::{Costs, CpuId, OperationCosts},
};

const CPUS: usize = 130;
const PATIENCE: u64 = 1000;

fn check_from<T: Strategy>(cpu: u32, tlb: Machine<T>) -> Result<Report, Fault> {
    on(cpu, || check(&this_cpu(tlb), PATIENCE))
}

#[test]
fn a_platform_that_keeps_its_promises_passes_under_either_strategy() {
    for acknowledge in [Answer::AtOnce, Answer::WhenWaitedFor] {
        let tlb = epochs(CPUS, Fake::new(CPUS, 12));
        tlb.platform().set_answer(acknowledge);
        let report = check_from(77, tlb).unwrap();
        // Each gets requests without an IPI, too, which it answers only when the IPI comes.
        assert_eq!((report.cpus, report.polling, report.interrupts), (129, 0, 129 * 3 * 64));
        let tlb = recent(CPUS, Fake::new(CPUS, 12));
        tlb.platform().set_answer(acknowledge);
        assert_eq!(check_from(0, tlb).unwrap().cpus, 129);
    }
}

#[test]
fn cpus_that_answer_without_an_ipi_are_counted() {
    let tlb = epochs(3, Fake::new(3, 12));
    tlb.platform().set_answer(Answer::Polls(3));
    let report = check_from(0, tlb).unwrap();
    assert_eq!((report.cpus, report.polling, report.interrupts), (2, 2, 2 * 2 * 64));
}

#[test]
fn cpus_that_are_down_are_left_alone() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 12));
    for cpu in [0, 64, 129] {
        on(cpu, || this_cpu(tlb).offline());
    }
    assert_eq!(check_from(1, tlb).unwrap().cpus, 126);
}

#[test]
fn an_interrupt_that_gets_lost_is_found() {
    let tlb = epochs(3, Fake::new(3, 12));
    tlb.platform().set_answer(Answer::Never);
    assert_eq!(check_from(0, tlb), Err(Fault::NoAnswer { cpu: CpuId(1) }));
}

#[test]
fn a_cpu_whose_number_changes_is_found() {
    let tlb = epochs(3, Fake::new(3, 12));
    let result = on(0, || {
        let this_cpu = this_cpu(tlb);
        on(2, || check(&this_cpu, PATIENCE))
    });
    assert_eq!(result, Err(Fault::CpuChanges { before: CpuId(0), now: CpuId(2) }));
}

#[test]
fn costs_that_decide_nothing_are_found() {
    let with = |change: fn(&mut Costs)| {
        let tlb = epochs(2, Fake::new(2, 12));
        let free = OperationCosts { address: 0, tag: 0, wait: 0, ceiling: u64::MAX };
        tlb.platform().set_costs(|costs| {
            *costs = Costs {
                local: free,
                broadcast: free,
                refill: 0,
                useful_entries: 0,
                ipi: 0,
                ipi_more: 0,
                retag: 0,
            };
            change(costs);
        });
        check_from(0, tlb).map(|report| report.cpus)
    };
    assert_eq!(with(|_| ()), Err(Fault::NoCosts));
    // One of these is enough to choose by.
    assert_eq!(with(|costs| (costs.refill, costs.useful_entries) = (1, 1)), Ok(1));
    assert_eq!(with(|costs| costs.local.tag = 1), Ok(1));
    assert_eq!(with(|costs| costs.ipi = 1), Ok(1));
}

#[test]
fn every_instruction_is_tried_under_a_tag_that_nobody_runs() {
    let tried = |tag| {
        let (few, many) = ((0x20_0000, 1), (0x20_0000, 512));
        vec![
            Op::Settle,
            Op::Publish(Wait::Now),
            Op::FlushRange(tag, few.0, few.1),
            Op::FlushTables(tag, few.0, few.1),
            Op::FlushTables(tag, many.0, many.1),
            Op::FlushTag(tag),
        ]
    };
    let everywhere = |tag| [tried(tag), vec![Op::FlushTagEverywhere(tag)]].concat();
    let tlb = epochs(1, Fake::new(1, 12));
    check_from(0, tlb).unwrap();
    assert_eq!(tlb.platform().log(0), everywhere(1));
    // Nothing is broadcast where nothing can be; and without tags there is only that of everybody.
    for (bits, tag) in [(12, 1), (0, 0)] {
        let tlb = recent(1, Fake::new(1, bits));
        check_from(0, tlb).unwrap();
        assert_eq!(tlb.platform().log(0), tried(tag));
    }
}
