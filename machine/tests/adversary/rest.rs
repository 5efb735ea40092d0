//! CPUs that rest: pages may be taken from them unseen, tables may not, and waking ends it.

use crate::common::programs;
use lookaside::{
    arch::x86_64::Instructions,
    platform::{CpuId, Ordering::*, Word as _},
};
use lookaside_machine::adversary::{
    Access, Config, Frame, Rule, Word, as_cpu, oracle, tables, x86::Insn,
};
use lookaside_machine::explore::{Budget, Explorer};

struct World {
    root: Frame,
    table: Frame,
    pte: &'static Word,
    rests: Word,
}

fn build() -> World {
    let (root, table) = (tables::allocate(), tables::allocate());
    tables::word(root, 0).store(tables::table(table), Relaxed);
    tables::map(root, 0x1000, Frame(7), Access::WRITE);
    as_cpu(CpuId(1), || Insn.write_cr3(root.address()));
    World { root, table, pte: tables::pte(root, 0x1000), rests: Word::ZERO }
}

type Take = fn(&World, usize);

/// CPU 1 rests; CPU 0 takes something from it when it has seen that.
fn with(take: Take, wake: fn()) -> Option<Rule> {
    static TAKE: std::sync::Mutex<Option<Take>> = std::sync::Mutex::new(None);
    static WAKE: std::sync::Mutex<Option<fn()>> = std::sync::Mutex::new(None);
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *TAKE.lock().unwrap() = Some(take);
    *WAKE.lock().unwrap() = Some(wake);
    let config = Config::x86(2).with_levels(2);
    let report = Explorer::new(programs(config, build, |world, cpu| {
        if cpu == 1 {
            oracle::rests();
            world.rests.store(1, Release);
            while world.rests.load(Acquire) == 1 {
                lookaside_machine::adversary::relax();
            }
            let wake = WAKE.lock().unwrap().unwrap();
            wake();
        } else {
            while world.rests.load(Acquire) == 0 {
                lookaside_machine::adversary::relax();
            }
            let take = TAKE.lock().unwrap().unwrap();
            take(world, cpu);
            world.rests.store(2, Release);
        }
    }))
    .exhaust(Budget::UNLIMITED);
    report.failure.map(|failure| failure.violation.rule)
}

fn take_page(world: &World, _: usize) {
    world.pte.store(0, Relaxed);
    Word::fence(SeqCst);
    oracle::frame_freed(Frame(7));
}

fn take_table(world: &World, _: usize) {
    tables::word(world.root, 0).store(0, Relaxed);
    Word::fence(SeqCst);
    oracle::table_freed(world.table);
}

#[test]
fn a_page_may_be_taken_from_a_cpu_that_rests() {
    assert_eq!(with(take_page, || {}), None);
}

#[test]
fn a_table_may_not() {
    assert_eq!(with(take_table, || {}), Some(Rule::FreedFrame));
}

#[test]
fn waking_with_what_was_taken_is_stale_use() {
    assert_eq!(with(take_page, oracle::wakes), Some(Rule::StaleTranslation));
}

#[test]
fn waking_after_a_flush_is_not() {
    let flush = || {
        Insn.invlpg(0x1000);
        oracle::wakes();
    };
    assert_eq!(with(take_page, flush), None);
}
