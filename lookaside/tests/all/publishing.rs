//! What comes first: each flush and each new mapping makes the stores to the tables visible to walks before anything else.

use crate::support::{
    Fake, Op,
    machine::{Machine, Strategy, What, epochs, flush, pages, recent, space, switch, this_cpu},
    on,
};
use lookaside::{AddressSpace, KernelGather, arch::Wait};

const CPUS: usize = 3;
const KERNEL: u64 = 0xffff_8000_0000_0000;

/// What CPU 0 does first when it does `act`, while it and another CPU run a space.
fn first<T: Strategy>(
    tlb: Machine<T>,
    act: impl FnOnce(Machine<T>, &AddressSpace<Fake>),
) -> Option<Op> {
    let a = space(tlb, 1);
    for cpu in [0, 1] {
        let _ = switch(tlb, cpu, &a);
    }
    tlb.platform().forget_logs();
    on(0, || act(tlb, &a));
    tlb.platform().log(0).into_iter().next()
}

#[test]
fn every_flush_publishes_before_it_does_anything_else() {
    fn check<T: Strategy>(machine: impl Fn() -> Machine<T>) {
        let published = Some(Op::Publish(Wait::Now));
        for what in What::ALL {
            let flushed = first(machine(), |tlb, a| {
                let _ = flush(tlb, 0, a, |gather| what.tell(gather));
            });
            assert_eq!(flushed, published, "{what:?}");
        }
        let kernel = first(machine(), |tlb, _| {
            let mut gather = KernelGather::new(tlb);
            gather.revoke(pages(KERNEL, 1));
            let _ = this_cpu(tlb).flush_kernel(gather);
        });
        assert_eq!(kernel, published, "kernel addresses");
    }
    check(|| recent(CPUS, Fake::new(CPUS, 12).without_broadcast()));
    check(|| epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
    check(|| epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_new_mapping_is_published() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let mapped = first(tlb, |tlb, a| this_cpu(tlb).map(a, pages(0x5000, 1)));
        assert_eq!(mapped, Some(Op::Publish(Wait::Now)));
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_new_mapping_of_the_kernel_is_in_order_with_the_next_access() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let mapped = first(tlb, |tlb, _| this_cpu(tlb).map_kernel(pages(KERNEL, 1)));
        assert_eq!(mapped, Some(Op::Settle), "`publish` alone is no barrier for this CPU's walks");
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_switch_to_the_same_space_settles_whatever_the_cpu_does_besides() {
    for fake in [Fake::new(CPUS, 16), Fake::new(CPUS, 16).shared()] {
        let stays = first(epochs(CPUS, fake), |tlb, a| {
            let _ = switch(tlb, 0, a);
        });
        assert_eq!(stays, Some(Op::Settle));
    }
}
