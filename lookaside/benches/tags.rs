//! What the allocators cost without the hardware's part: a switch within an epoch, a tag from the ASID cache,
//! and a storm of rollovers on two CPUs against the same with one lock.
//!
//! Compare ratios within one run; the machines that run this are not quiet.

#[path = "support/host.rs"]
mod host;
#[path = "support/locked.rs"]
mod locked;

use core::{sync::atomic::AtomicU64, time::Duration};
use std::{sync::Barrier, time::Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use host::{Host, become_cpu};
use locked::Locked;
use lookaside::{
    AddressSpace, Cpu, GlobalAsids, PerCpuAsids, Platform, Tlb,
    arch::Root,
    platform::Word,
    tags::{GlobalAsidsConfig, Tags},
};

fn words(count: usize) -> &'static mut [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::ZERO).collect())
}

fn machine<T: Tags<Host>>(tags: T, bits: u32, cpus: usize) -> Tlb<'static, Host, T> {
    let storage = Vec::leak((0..cpus).map(|_| Cpu::new()).collect());
    Tlb::new(Host::new(bits), tags, storage).unwrap()
}

fn epochs(tags: u32, cpus: usize) -> Tlb<'static, Host, GlobalAsids<'static, Host>> {
    let config = GlobalAsidsConfig { tags, ..Default::default() };
    let words = words(GlobalAsids::<Host>::words_for(tags));
    machine(GlobalAsids::new(&Host::new(16), config, words).unwrap(), 16, cpus)
}

fn spaces<T: Tags<Host>>(tlb: &Tlb<'static, Host, T>, count: u64) -> Vec<AddressSpace<Host>> {
    (1..=count).map(|n| tlb.space(Root::new(n << 12), words(1)).unwrap()).collect()
}

fn switch<P: Platform<IrqsOff = ()>, T: Tags<P>>(tlb: &Tlb<'_, P, T>, space: &AddressSpace<P>) {
    let _ = tlb.this_cpu(&()).switch(space);
}

/// `CPUS` threads switch among 10 000 spaces at random, `steps` times each.
fn storm<T>(tlb: &Tlb<'static, Host, T>, spaces: &[AddressSpace<Host>], steps: u64) -> Duration
where
    T: Tags<Host> + Sync,
    T::Cpu: Sync,
{
    let start = Barrier::new(CPUS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CPUS)
            .map(|cpu| {
                let start = &start;
                scope.spawn(move || {
                    become_cpu(cpu as u32);
                    let mut random = cpu as u64 + 1;
                    start.wait();
                    let began = Instant::now();
                    for _ in 0..steps {
                        random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                        switch(tlb, &spaces[(random >> 33) as usize % spaces.len()]);
                    }
                    began.elapsed()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    })
}

const CPUS: usize = 2;

fn residency(c: &mut Criterion) {
    become_cpu(0);
    let tlb = epochs(1 << 16, 1);
    let two = spaces(&tlb, 2);
    c.bench_function("epochs: switch within an epoch", |b| {
        b.iter(|| {
            switch(&tlb, &two[0]);
            switch(&tlb, &two[1]);
        });
    });
    let tlb = machine(PerCpuAsids::<6>::new(), 12, 1);
    let two = spaces(&tlb, 2);
    c.bench_function("recent: switch to a known space", |b| {
        b.iter(|| {
            switch(&tlb, &two[0]);
            switch(&tlb, &two[1]);
        });
    });
}

fn storms(c: &mut Criterion) {
    let mut group = c.benchmark_group("storm: 10 000 spaces, 256 tags, 2 CPUs");
    group.throughput(Throughput::Elements(CPUS as u64));
    let tlb = epochs(256, CPUS);
    let many = spaces(&tlb, 10_000);
    group.bench_function("stocks", |b| b.iter_custom(|steps| storm(&tlb, &many, steps)));
    let tlb = machine(Locked::<AtomicU64>::new(256), 16, CPUS);
    let many = spaces(&tlb, 10_000);
    group.bench_function("one lock", |b| b.iter_custom(|steps| storm(&tlb, &many, steps)));
    group.finish();
}

criterion_group!(benches, residency, storms);
criterion_main!(benches);
