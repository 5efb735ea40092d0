//! What it costs to take 512 pages out of a table: as 32 blocks whose flags are gathered, as plain
//! pages through the same call, and as plain pages by bare swaps. The goal is that the first costs no
//! more than 1.15 times the last.
//!
//! Compare ratios within one run; the machines that run this are not quiet.

use core::{hint::black_box, sync::atomic::AtomicU64, time::Duration};
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lookaside::{
    VaRange,
    arch::aarch64::{AddressSize, Geometry, Granule, descriptor},
    contig::{Arm, Entries, Format, Full, Locked, Raw, SizeChange, Svnapot},
    platform::{Ordering, Word},
};

const PAGES: usize = 512;

type Table<F> = Locked<'static, AtomicU64, F>;

fn table<F: Format>(format: F) -> Table<F> {
    let words = Vec::leak((0..PAGES).map(|_| AtomicU64::ZERO).collect());
    // SAFETY: no hardware walks this table, and this thread alone knows it.
    unsafe { Entries::new(format, words, 0x4000_0000).unwrap().locked(SizeChange::Flushed) }
}

/// The time that `work` takes, with the table filled anew before each round.
fn rounds<F: Format>(
    count: u64,
    table: &mut Table<F>,
    first: Raw,
    mut work: impl FnMut(&mut Table<F>),
) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..count {
        table.set(0..PAGES, first).unwrap();
        let start = Instant::now();
        work(table);
        total += start.elapsed();
    }
    total
}

fn gather<F: Format>(table: &mut Table<F>) {
    let mut flush = |_: VaRange| unreachable!("no block is cut through");
    let _ = black_box(table.get_and_clear(black_box(0..PAGES), Full::No, &mut flush).unwrap());
}

fn clearing<F: Format>(criterion: &mut Criterion, name: &str, format: F, blocks: Raw, pages: Raw) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(PAGES as u64));
    let mut under_test = table(format);
    assert!(format.output(blocks).is_multiple_of(format.shape().block_bytes()));
    group.bench_function("blocks, gathered", |b| {
        b.iter_custom(|n| rounds(n, &mut under_test, blocks, gather));
    });
    group.bench_function("pages, gathered", |b| {
        b.iter_custom(|n| rounds(n, &mut under_test, pages, gather));
    });
    let words: &[AtomicU64] = Vec::leak((0..PAGES).map(|_| AtomicU64::ZERO).collect());
    // SAFETY: as above.
    let mut bare =
        unsafe { Entries::new(format, words, 0x4000_0000).unwrap().locked(SizeChange::Flushed) };
    group.bench_function("pages, bare swaps", |b| {
        b.iter_custom(|n| {
            rounds(n, &mut bare, pages, |_| {
                for word in black_box(words) {
                    black_box(word.swap(0, Ordering::Relaxed));
                }
            })
        });
    });
    group.finish();
}

fn contig(criterion: &mut Criterion) {
    let page = descriptor::VALID | descriptor::TABLE_OR_PAGE | descriptor::ACCESSED;
    let arm = Arm::new(Geometry::new(Granule::K4, AddressSize::Bits48));
    // A frame that is no block's first makes plain pages of all.
    let (blocks, pages) = (Raw(0x8000_0000 | page), Raw(0x8000_1000 | page));
    clearing(criterion, "clear 512, Arm", arm, blocks, pages);
    let (blocks, pages) = (Raw(0x8_0000 << 10 | 0x5f), Raw(0x8_0001 << 10 | 0x5f));
    clearing(criterion, "clear 512, Svnapot", Svnapot, blocks, pages);
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = contig
}
criterion_main!(benches);
