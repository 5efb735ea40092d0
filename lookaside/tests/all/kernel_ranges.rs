//! Addresses of the kernel: every CPU that is up, every tag, globals too.

use crate::support::{
    Answer, Fake, Op,
    machine::{Machine, Strategy, epochs, pages, recent, space, switch, this_cpu},
    on,
};
use lookaside::{
    KernelGather,
    arch::{TableChange, Wait},
    counts::Outcome,
    flush::Flushed,
};

const CPUS: usize = 200;
const START: u64 = 0xffff_8000_0000_0000;

fn flush_kernel<T: Strategy>(
    tlb: Machine<T>,
    cpu: u32,
    tell: impl FnOnce(&mut KernelGather),
) -> Flushed {
    let mut gather = KernelGather::new(tlb);
    tell(&mut gather);
    tlb.platform().forget_logs();
    on(cpu, || this_cpu(tlb).flush_kernel(gather))
}

fn every_cpu_that_is_up_is_asked_whatever_it_runs<T: Strategy>(tlb: Machine<T>) {
    let a = space(tlb, 1);
    let _ = switch(tlb, 5, &a);
    on(7, || this_cpu(tlb).lazy());
    // Some are down, across words of the set; one has halted.
    let down = [0, 63, 64, 130];
    for cpu in down {
        on(cpu, || this_cpu(tlb).offline());
    }
    tlb.stopped(&(), lookaside::platform::CpuId(199)).unwrap();
    let _ = flush_kernel(tlb, 70, |gather| gather.revoke(pages(START, 2)));
    let asked = CPUS as u32 - 4 - 1 - 1;
    assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, asked));
    let acts = tlb.platform().acts();
    let op = Op::FlushKernel(vec![(START, 2)]);
    let mut flushed: Vec<_> =
        acts.iter().filter(|(_, done)| *done == op).map(|(cpu, _)| *cpu).collect();
    flushed.sort_unstable();
    let expected: Vec<_> =
        (0..CPUS as u32).filter(|cpu| !down.contains(cpu) && *cpu != 199).collect();
    assert_eq!(flushed, expected, "each once");
    // Who comes up later holds nothing, and needs not be asked before.
    tlb.platform().forget_logs();
    let bits = tlb.platform().mmu.properties.tag_bits;
    on(0, || tlb.online(&(), &bits).unwrap());
    assert!(tlb.platform().log(0).contains(&Op::FlushKernel(vec![])), "everything it held");
    assert_eq!(tlb.platform().mmu.kernel_depth(), Some(TableChange::FreedTables), "of tables too");
    let _ = flush_kernel(tlb, 70, |gather| gather.revoke(pages(START, 2)));
    assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, asked + 1));
}

#[test]
fn flag_07_every_cpu_that_is_up_flushes_kernel_addresses_whatever_it_runs() {
    every_cpu_that_is_up_is_asked_whatever_it_runs(recent(CPUS, Fake::new(CPUS, 12)));
    let fake = Fake::new(CPUS, 16).without_broadcast();
    every_cpu_that_is_up_is_asked_whatever_it_runs(epochs(CPUS, fake));
}

#[test]
fn kernel_addresses_are_broadcast_where_hardware_can() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let _ = flush_kernel(tlb, 70, |gather| {
        gather.revoke(pages(START, 2));
        gather.revoke_mixed(pages(START + (1 << 30), 4));
    });
    let all = vec![(START, 2), (START + (1 << 30), 4)];
    assert_eq!(tlb.platform().log(70), [Op::Publish(Wait::Now), Op::FlushKernelEverywhere(all)]);
    assert_eq!(tlb.platform().mmu.kernel_depth(), Some(TableChange::LastLevel));
    let _ = flush_kernel(tlb, 70, |gather| gather.unlink_table(pages(START, 512)));
    let table = Op::FlushKernelEverywhere(vec![(START, 512)]);
    assert_eq!(tlb.platform().log(70), [Op::Publish(Wait::Now), table]);
    assert_eq!(tlb.platform().mmu.kernel_depth(), Some(TableChange::FreedTables));
    let _ = flush_kernel(tlb, 70, KernelGather::revoke_everything);
    assert_eq!(tlb.platform().log(70), [Op::Publish(Wait::Now), Op::FlushKernelEverywhere(vec![])]);
    // Pages that were told before are part of everything, and are not all of it.
    let _ = flush_kernel(tlb, 70, |gather| {
        gather.revoke(pages(START, 2));
        gather.revoke_everything();
    });
    assert_eq!(tlb.platform().log(70), [Op::Publish(Wait::Now), Op::FlushKernelEverywhere(vec![])]);
    assert_eq!(tlb.platform().counts[70].flushes(Outcome::Broadcast), 4);
}

#[test]
fn a_range_of_kernel_addresses_above_the_ceiling_takes_everything_with_it() {
    for broadcast in [false, true] {
        let fake = Fake::new(2, 16);
        let tlb = epochs(2, if broadcast { fake } else { fake.without_broadcast() });
        tlb.platform().set_costs(|costs| {
            let scope = if broadcast { &mut costs.broadcast } else { &mut costs.local };
            scope.ceiling = 512;
        });
        let everything = |op: &Op| match op {
            Op::FlushKernel(ranges) | Op::FlushKernelEverywhere(ranges) => Some(ranges.is_empty()),
            _ => None,
        };
        for (count, is_everything) in [(512, false), (513, true), (1 << 18, true)] {
            let _ = flush_kernel(tlb, 0, |gather| gather.revoke(pages(START, count)));
            let acts = tlb.platform().acts();
            let flushed: Vec<_> = acts.iter().filter_map(|(_, op)| everything(op)).collect();
            assert!(!flushed.is_empty() && flushed.iter().all(|&all| all == is_everything));
        }
    }
}

#[test]
fn an_empty_gather_of_kernel_addresses_asks_nobody() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let _ = flush_kernel(tlb, 3, |_| ());
        assert_eq!(tlb.platform().outcome(), (Outcome::NoCpu, 0));
        assert_eq!(tlb.platform().acts(), []);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_machine_of_one_cpu_interrupts_nobody() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let _ = flush_kernel(tlb, 0, |gather| gather.revoke(pages(!0xfff, 1)));
        assert_eq!(tlb.platform().outcome(), (Outcome::Local, 0));
        assert_eq!(tlb.platform().acts(), [(0, Op::FlushKernel(vec![(!0xfff, 1)]))]);
    }
    check(recent(1, Fake::new(1, 12)));
    check(epochs(1, Fake::new(1, 16).without_broadcast()));
}

#[test]
fn flag_08_this_cpu_flushes_kernel_addresses_while_the_others_do() {
    let tlb = recent(CPUS, Fake::new(CPUS, 12));
    tlb.platform().set_answer(Answer::WhenWaitedFor);
    let _ = flush_kernel(tlb, 70, |gather| gather.revoke(pages(START, 1)));
    let acts = tlb.platform().acts();
    let at = |cpu: u32| {
        let done = |(at, op): &(u32, Op)| *at == cpu && matches!(op, Op::FlushKernel(_));
        acts.iter().position(done).unwrap()
    };
    assert!(at(70) < at(0) && at(70) < at(199), "before it waits for the first of them");
}

#[test]
fn flag_09_a_map_of_4096_cpus_is_asked_in_groups() {
    const MANY: usize = 4096;
    let tlb = recent(MANY, Fake::new(MANY, 12));
    tlb.platform().set_answer(Answer::WhenWaitedFor);
    let _ = flush_kernel(tlb, 4000, |gather| gather.revoke(pages(START, 1)));
    assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, 4095));
    let acts = tlb.platform().acts();
    let sent = acts.iter().filter(|(_, op)| matches!(op, Op::Interrupt(_))).count();
    assert_eq!(sent, 64, "one send for 64 CPUs");
    let flushed = acts.iter().filter(|(_, op)| matches!(op, Op::FlushKernel(_))).count();
    assert_eq!(flushed, MANY);
}

#[test]
fn everything_is_everything_whatever_else_was_told() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let everything = |gather: &mut KernelGather| {
            gather.revoke(pages(START, 2));
            gather.revoke_everything();
        };
        let _ = flush_kernel(tlb, 0, everything);
        for (cpu, op) in tlb.platform().acts() {
            let asked = matches!(op, Op::Interrupt(_));
            let all = [Op::FlushKernel(vec![]), Op::FlushKernelEverywhere(vec![])];
            assert!(asked || all.contains(&op), "{cpu}: {op:?}");
        }
        assert_eq!(tlb.platform().mmu.kernel_depth(), Some(TableChange::FreedTables));
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}
