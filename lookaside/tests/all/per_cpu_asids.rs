//! Per-CPU ASIDs on the host: slots, generations, lazy CPUs, and what is written.

use core::sync::atomic::AtomicU64;

use crate::support::{
    Fake, Op,
    machine::{self, flush, pages, space, this_cpu},
    on, words,
};
use lookaside::{
    AddressSpace, Cpu, Error, PerCpuAsids, Tlb, VaRange,
    arch::{Errata, Held, Invalidation, Mmu, Root, Scope, Sharing, Tag, Wait},
    counts::Outcome,
    platform::CpuId,
    tags::{PerCpuAsidsCpu, Released, Replacement, RoundRobin, Switched},
};

type Machine<const SLOTS: usize = 6, R = RoundRobin> = machine::Machine<PerCpuAsids<SLOTS, R>>;

fn machine<const SLOTS: usize, R: Replacement + 'static>(
    cpus: usize,
    fake: Fake,
) -> Machine<SLOTS, R> {
    machine::start(cpus, fake.without_broadcast(), PerCpuAsids::new())
}

/// What `cpu` did since the last call, barriers left out.
fn acts(tlb: Machine, cpu: u32) -> Vec<Op> {
    tlb.platform().log(cpu).into_iter().filter(Op::acts).collect()
}

/// What is revoked: one range of pages, or everything.
#[derive(Clone, Copy)]
enum Revoked {
    Pages(VaRange),
    Everything,
}

/// `cpu` flushes it.
fn revoke(tlb: Machine, cpu: u32, space: &AddressSpace<Fake>, what: Revoked) {
    let _ = flush(tlb, cpu, space, |gather| match what {
        Revoked::Pages(range) => gather.revoke(range),
        Revoked::Everything => gather.revoke_everything(),
    });
}

fn load(table: u64, tag: u16, held: Held) -> Op {
    Op::Load { table: table * 4096, tag, held, sharing: Sharing::Private }
}

#[test]
fn pcid_01_hit_stale_hit_and_miss_are_told_apart() {
    let tlb: Machine = machine(1, Fake::new(1, 12));
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Fresh);
    assert_eq!(this_cpu(tlb).switch(&b), Switched::Fresh);
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Kept);
    revoke(tlb, 0, &b, Revoked::Everything);
    assert_eq!(this_cpu(tlb).switch(&b), Switched::Flushed);
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Kept);
    assert_eq!(
        tlb.platform().log(0).into_iter().filter(Op::acts).collect::<Vec<_>>(),
        [
            load(1, 2, Held::Drop),
            load(2, 3, Held::Drop),
            load(1, 2, Held::Keep),
            load(2, 3, Held::Drop),
            load(1, 2, Held::Keep),
        ]
    );
}

#[test]
fn pcid_01_the_private_state_of_a_cpu_fills_two_cache_lines() {
    // One aligned line for what others read, and two cache lines (one aligned unit) of private state.
    assert_eq!(size_of::<PerCpuAsidsCpu<AtomicU64, 6>>(), 2 * 128);
    // What the register names, and three units of requests and answers.
    assert_eq!(size_of::<Cpu<Fake, PerCpuAsids>>(), (2 + 1 + 3) * 128);
    assert!(size_of::<Cpu<Fake, lookaside::GlobalAsids<'_, Fake>>>() <= 1024);
    assert!(size_of::<AddressSpace<Fake>>() <= 128);
}

#[test]
fn pcid_02_identifiers_are_never_given_twice() {
    let tlb: Machine = machine(1, Fake::new(1, 12));
    let mut latest = 0;
    for number in 1..100 {
        let mut space = space(tlb, number);
        assert!(space.id() > latest);
        latest = space.id();
        let _ = this_cpu(tlb).switch(&space);
        let _ = this_cpu(tlb).park();
        assert_eq!(this_cpu(tlb).release(&mut space), Released::Later);
    }
}

#[test]
fn pcid_03_entries_are_kept_only_on_a_hit_that_missed_no_flush() {
    let tlb: Machine<2> = machine(1, Fake::new(1, 12));
    let spaces: Vec<_> = (1..=3).map(|number| space(tlb, number)).collect();
    // Three spaces over two slots: each is a stranger again, and its slot held another.
    for round in 0..4 {
        for space in &spaces {
            assert_eq!(this_cpu(tlb).switch(space), Switched::Fresh, "round {round}");
        }
    }
    assert!(
        !tlb.platform().log(0).iter().any(|op| matches!(op, Op::Load { held: Held::Keep, .. }))
    );
}

/// What a CPU does when it comes back to the first space, of which `revoked` was flushed meanwhile.
fn away(
    tlb: Machine,
    [a, b]: &[AddressSpace<Fake>; 2],
    revoked: &[Revoked],
) -> (Switched, Vec<Op>) {
    let _ = this_cpu(tlb).switch(a);
    let _ = this_cpu(tlb).switch(b);
    for &what in revoked {
        revoke(tlb, 0, a, what);
    }
    tlb.platform().forget_logs();
    let switched = this_cpu(tlb).switch(a);
    (switched, acts(tlb, 0))
}

#[test]
fn where_another_tag_is_out_of_reach_the_load_of_the_root_drops_it() {
    let tlb: Machine = machine(1, Fake::new(1, 12).without_reach_to_other_tags());
    let page = Revoked::Pages(pages(0x5000, 1));
    let spaces = [1, 2].map(|table| space(tlb, table));
    assert_eq!(away(tlb, &spaces, &[page]), (Switched::Flushed, vec![load(1, 2, Held::Drop)]));
}

#[test]
fn pcid_05_one_missed_range_is_flushed_by_range_and_two_by_everything() {
    let tlb: Machine = machine(1, Fake::new(1, 12));
    let spaces = [1, 2].map(|table| space(tlb, table));
    let away = |revoked: &[Revoked]| away(tlb, &spaces, revoked);
    let page = |start, count| Revoked::Pages(pages(start, count));
    let _ = away(&[]);
    assert_eq!(away(&[]), (Switched::Kept, vec![load(1, 2, Held::Keep)]));
    assert_eq!(
        away(&[page(0x5000, 3)]),
        (Switched::Flushed, vec![Op::FlushRange(2, 0x5000, 3), load(1, 2, Held::Keep)])
    );
    let everything = (Switched::Flushed, vec![load(1, 2, Held::Drop)]);
    assert_eq!(away(&[Revoked::Everything]), everything);
    // Generation 2 is a full flush, 3 a range: to do the range alone would skip the full one.
    assert_eq!(away(&[Revoked::Everything, page(0x5000, 1)]), everything);
    assert_eq!(away(&[page(0x1000, 1), page(0x5000, 1)]), everything);
    assert_eq!(away(&[]), (Switched::Kept, vec![load(1, 2, Held::Keep)]));
}

#[test]
fn pcid_05_the_handler_flushes_once() {
    let tlb: Machine = machine(2, Fake::new(2, 12));
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let page = Revoked::Pages(pages(0x1000, 2));
    let _ = this_cpu(tlb).switch(&a);
    revoke(tlb, 1, &a, page);
    assert_eq!(acts(tlb, 0).last(), Some(&Op::FlushRange(2, 0x1000, 2)));
    this_cpu(tlb).handle_ipi();
    assert_eq!(acts(tlb, 0), [], "everything was served already");
    // A lazy CPU is not told of pages, and leaves when a table goes. A generation was missed: what it was
    // of is not known when this CPU comes back.
    this_cpu(tlb).lazy();
    revoke(tlb, 1, &a, page);
    assert_eq!(acts(tlb, 0), [], "a lazy CPU is not told of pages");
    let _ = flush(tlb, 1, &a, |gather| gather.unlink_table(pages(0x1000, 2)));
    assert_eq!(acts(tlb, 0), [Op::Park]);
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Flushed);
    assert_eq!(acts(tlb, 0), [load(1, 2, Held::Drop)]);
    revoke(tlb, 1, &b, Revoked::Everything);
    this_cpu(tlb).handle_ipi();
    assert_eq!(acts(tlb, 0), [], "what does not run here is flushed at switch-in");
}

#[test]
fn pcid_06_a_lazy_cpu_is_left_alone_and_catches_up() {
    let tlb: Machine = machine(2, Fake::new(2, 12));
    let a = space(tlb, 1);
    let _ = on(1, || this_cpu(tlb).switch(&a));
    on(1, || this_cpu(tlb).lazy());
    revoke(tlb, 0, &a, Revoked::Pages(pages(0x1000, 1)));
    assert_eq!(tlb.platform().outcome(), (Outcome::NoCpu, 0), "lazy");
    tlb.platform().forget_logs();
    assert_eq!(on(1, || this_cpu(tlb).switch(&a)), Switched::CaughtUp);
    assert_eq!(acts(tlb, 1), [Op::FlushRange(2, 0x1000, 1)]);
    on(1, || this_cpu(tlb).lazy());
    revoke(tlb, 0, &a, Revoked::Everything);
    assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, 1), "a table may have been freed");
    assert_eq!(acts(tlb, 1), [Op::Park], "it leaves");
    revoke(tlb, 0, &a, Revoked::Everything);
    assert_eq!(tlb.platform().outcome(), (Outcome::NoCpu, 0), "and is not asked again");
    tlb.platform().forget_logs();
    assert_eq!(on(1, || this_cpu(tlb).switch(&a)), Switched::Flushed);
    assert_eq!(acts(tlb, 1), [load(1, 2, Held::Drop)]);
    // Nothing was flushed meanwhile: coming back is free.
    on(1, || this_cpu(tlb).lazy());
    tlb.platform().forget_logs();
    assert_eq!(on(1, || this_cpu(tlb).switch(&a)), Switched::Unchanged);
    assert_eq!(acts(tlb, 1), []);
}

#[test]
fn a_lazy_cpu_that_flushes_tables_itself_leaves_instead() {
    // As at the end of a process, whose last thread turns lazy first.
    let tlb: Machine = machine(1, Fake::new(1, 12));
    let a = space(tlb, 1);
    let _ = this_cpu(tlb).switch(&a);
    this_cpu(tlb).lazy();
    tlb.platform().forget_logs();
    revoke(tlb, 0, &a, Revoked::Pages(pages(0x1000, 2)));
    assert_eq!(acts(tlb, 0), [Op::FlushRange(2, 0x1000, 2)], "pages alone are flushed");
    tlb.platform().forget_logs();
    revoke(tlb, 0, &a, Revoked::Everything);
    assert_eq!(tlb.platform().outcome(), (Outcome::Local, 0));
    assert_eq!(acts(tlb, 0), [Op::Park]);
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Flushed, "it has not forgotten what it missed");
    // Where walks outlive tags, the tables would be walked from another space.
    let tlb: Machine = machine(1, Fake::new(1, 12).with_walks_that_outlive_tags());
    let a = space(tlb, 1);
    let _ = this_cpu(tlb).switch(&a);
    this_cpu(tlb).lazy();
    tlb.platform().forget_logs();
    revoke(tlb, 0, &a, Revoked::Everything);
    assert_eq!(acts(tlb, 0), [Op::FlushTag(2)]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "the root register was written by others")]
fn pcid_07_a_debug_build_notices_that_others_wrote_the_register() {
    let tlb: Machine = machine(1, Fake::new(1, 12));
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let _ = this_cpu(tlb).switch(&a);
    assert!(this_cpu(tlb).register_is_ours());
    // The right root under another tag.
    // SAFETY: no hardware walks this root.
    unsafe {
        tlb.platform().mmu.load(Errata::NONE, a.root(), Tag(7), Held::Keep, Sharing::Private)
    };
    assert!(!this_cpu(tlb).register_is_ours());
    let _ = this_cpu(tlb).switch(&b);
}

#[test]
fn every_switch_settles_what_the_outgoing_thread_began() {
    let tlb = machine::<6, RoundRobin>(1, Fake::new(1, 12));
    let a = space(tlb, 1);
    let _ = machine::switch(tlb, 0, &a);
    tlb.platform().forget_logs();
    on(0, || this_cpu(tlb).lazy());
    assert_eq!(tlb.platform().log(0), [Op::Settle]);
    let _ = on(0, || this_cpu(tlb).park());
    assert_eq!(tlb.platform().log(0), [Op::Settle, Op::Park]);
    let _ = on(0, || this_cpu(tlb).park());
    assert_eq!(tlb.platform().log(0), [Op::Settle], "also where nothing changes");
}

#[test]
fn a_cpu_that_runs_no_space_stays_parked_through_being_lazy() {
    let tlb: Machine = machine(1, Fake::new(1, 12));
    let _ = this_cpu(tlb).switch(&space(tlb, 1));
    let _ = this_cpu(tlb).park();
    tlb.platform().forget_logs();
    this_cpu(tlb).lazy();
    assert_eq!(this_cpu(tlb).park(), Switched::Unchanged);
    assert_eq!(acts(tlb, 0), []);
}

#[test]
fn switch_in_publishes_present_before_the_root_is_loaded() {
    let tlb = machine::<6, RoundRobin>(1, Fake::new(1, 12));
    let a = space(tlb, 1);
    tlb.platform().forget_logs();
    let _ = machine::switch(tlb, 0, &a);
    assert_eq!(tlb.platform().log(0), [Op::Settle, Op::Publish(Wait::Now), load(1, 2, Held::Drop)]);
}

#[test]
fn pcid_08_a_cpu_that_runs_another_space_gets_no_ipi_and_flushes_on_return() {
    let tlb: Machine = machine(2, Fake::new(2, 12));
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let _ = on(1, || this_cpu(tlb).switch(&a));
    let _ = on(1, || this_cpu(tlb).switch(&b));
    revoke(tlb, 0, &a, Revoked::Everything);
    assert_eq!(tlb.platform().outcome(), (Outcome::NoCpu, 0));
    revoke(tlb, 0, &b, Revoked::Everything);
    assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, 1));
    assert_eq!(on(1, || this_cpu(tlb).switch(&a)), Switched::Flushed);
    let _ = on(1, || this_cpu(tlb).park());
    revoke(tlb, 0, &a, Revoked::Everything);
    assert_eq!(tlb.platform().outcome(), (Outcome::NoCpu, 0));
}

#[test]
fn pcid_09_flushing_more_than_was_missed_changes_nothing() {
    let tlb: Machine = machine(2, Fake::new(2, 12));
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    for space in [&a, &b] {
        let _ = this_cpu(tlb).switch(space);
    }
    // The hardware loses entries by itself, or another part of the kernel flushes.
    tlb.platform().mmu.flush(Errata::NONE, Invalidation::All, Scope::Local);
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Kept);
    revoke(tlb, 1, &a, Revoked::Everything);
    tlb.platform().forget_logs();
    for _ in 0..3 {
        this_cpu(tlb).handle_ipi();
        assert_eq!(this_cpu(tlb).switch(&a), Switched::Unchanged);
    }
    assert_eq!(tlb.platform().acts(), [], "what was flushed is not flushed twice");
}

#[test]
fn pcid_10_without_tags_every_load_drops_and_generations_are_kept() {
    let tlb: Machine = machine(2, Fake::new(2, 0));
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Fresh);
    assert_eq!(this_cpu(tlb).switch(&b), Switched::Fresh);
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Fresh);
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Unchanged);
    let _ = this_cpu(tlb).park();
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Fresh);
    this_cpu(tlb).lazy();
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Unchanged);
    this_cpu(tlb).lazy();
    revoke(tlb, 1, &a, Revoked::Pages(pages(0x1000, 1)));
    tlb.platform().forget_logs();
    assert_eq!(this_cpu(tlb).switch(&a), Switched::CaughtUp);
    assert_eq!(tlb.platform().acts(), [(0, Op::FlushRange(0, 0x1000, 1))]);
}

#[test]
fn pcid_10_tag_zero_is_for_parked_cpus_and_one_for_foreign_roots() {
    let tlb: Machine = machine(1, Fake::new(1, 12));
    for number in 1..20 {
        let _ = this_cpu(tlb).switch(&space(tlb, number));
        assert!(this_cpu(tlb).tag().0 >= 2);
    }
}

/// Least recently used, four bits a slot, the latest in the lowest bits.
enum Lru {}

impl Replacement for Lru {
    const NOTES_HITS: bool = true;

    fn hit(word: u64, slot: usize) -> u64 {
        let (mut rest, mut shift) = (0, 4);
        for place in 0..16 {
            let entry = word >> (4 * place) & 0xf;
            if entry != slot as u64 + 1 && entry != 0 {
                rest |= entry << shift;
                shift += 4;
            }
        }
        rest | (slot as u64 + 1)
    }

    fn victim(word: u64, slots: usize, _: usize) -> (usize, u64) {
        let used = (0..16).take_while(|place| word >> (4 * place) & 0xf != 0).count();
        let slot = if used < slots { used } else { (word >> (4 * (used - 1)) & 0xf) as usize - 1 };
        (slot, Self::hit(word, slot))
    }
}

/// Second chance: the hand above 32 bits, a used bit for each slot below.
enum Clock {}

impl Replacement for Clock {
    const NOTES_HITS: bool = true;

    fn hit(word: u64, slot: usize) -> u64 {
        word | 1 << slot
    }

    fn victim(mut word: u64, slots: usize, _: usize) -> (usize, u64) {
        loop {
            let slot = (word >> 32) as usize % slots;
            let used = word & 1 << slot != 0;
            let hand = ((slot as u64 + 1) % slots as u64) << 32;
            word = hand | (word & 0xffff_ffff & !(1 << slot));
            if !used {
                return (slot, word | 1 << slot);
            }
        }
    }
}

/// Round robin that does not look at the slot that is being left.
enum Blind {}

impl Replacement for Blind {
    const NOTES_HITS: bool = false;

    fn victim(word: u64, slots: usize, _: usize) -> (usize, u64) {
        RoundRobin::victim(word, slots, usize::MAX)
    }
}

/// How many of `steps` switches find their space, if it is drawn as `next` says.
fn hits<R: Replacement + 'static>(steps: usize, mut next: impl FnMut(usize) -> usize) -> usize {
    let tlb: Machine<6, R> = machine(1, Fake::new(1, 12));
    let spaces: Vec<_> = (1..=64).map(|number| space(tlb, number)).collect();
    (0..steps).filter(|&step| this_cpu(tlb).switch(&spaces[next(step)]) <= Switched::Kept).count()
}

#[test]
fn pcid_11_going_away_and_coming_back_finds_the_space_under_every_policy_but_blind_ones() {
    // A, stranger, A, stranger, ...: half of the switches are to A.
    let there_and_back = |step: usize| if step.is_multiple_of(2) { 0 } else { 1 + step / 2 % 63 };
    let steps = 2_000;
    assert_eq!(hits::<RoundRobin>(steps, there_and_back), steps / 2 - 1);
    assert_eq!(hits::<Lru>(steps, there_and_back), steps / 2 - 1);
    assert!(hits::<Blind>(steps, there_and_back) < steps / 2 - 100);
}

#[test]
fn pcid_11_policies_compared_on_a_working_set_that_shifts() {
    // Eight spaces in favour at a time, of which the first are the most likely.
    fn draw() -> impl FnMut(usize) -> usize {
        let mut random = 1_u64;
        move |step| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (step / 500 + (random >> 61).min(random >> 58 & 7) as usize) % 64
        }
    }
    let steps = 20_000;
    let (robin, lru) = (hits::<RoundRobin>(steps, draw()), hits::<Lru>(steps, draw()));
    let (clock, blind) = (hits::<Clock>(steps, draw()), hits::<Blind>(steps, draw()));
    println!("of {steps}: round robin {robin}, LRU {lru}, clock {clock}, blind {blind}");
    // The recommendation costs no write on a hit; the price is what LRU gains, and it is small.
    assert!(robin > blind, "{robin} and {blind}");
    assert!(lru - robin < steps / 20, "{robin} and {lru}");
}

#[test]
fn a_foreign_root_ends_with_the_root_of_before() {
    let tlb: Machine = machine(2, Fake::new(2, 12));
    let a = space(tlb, 1);
    let _ = this_cpu(tlb).switch(&a);
    tlb.platform().forget_logs();
    let mut cpu = this_cpu(tlb);
    let foreign = cpu.with_root(&Root::new(0xffff_0000), || {
        // A revoker still asks this CPU, and its handler pays under the space's tag.
        revoke(tlb, 1, &a, Revoked::Everything);
        tlb.platform().outcome()
    });
    assert_eq!(foreign, Ok((Outcome::Ipis, 1)));
    let firmware =
        Op::Load { table: 0xffff_0000, tag: 1, held: Held::Drop, sharing: Sharing::Private };
    assert_eq!(
        tlb.platform().log(0),
        [Op::Settle, firmware, Op::FlushTag(2), load(1, 2, Held::Keep), Op::FlushTag(1)]
    );
    let _ = this_cpu(tlb).park();
    let mut cpu = this_cpu(tlb);
    cpu.with_root(&Root::new(0xffff_0000), || ()).unwrap();
    assert!(tlb.platform().log(0).ends_with(&[Op::Park, Op::FlushTag(1)]));
}

#[test]
fn a_cpu_that_comes_back_online_holds_nothing_and_is_behind_the_generation() {
    let tlb: Machine = machine(2, Fake::new(2, 12));
    let a = space(tlb, 1);
    let _ = this_cpu(tlb).switch(&a);
    this_cpu(tlb).offline();
    revoke(tlb, 1, &a, Revoked::Everything);
    tlb.platform().forget_logs();
    tlb.online(&(), &12).unwrap();
    assert!(tlb.platform().log(0).contains(&Op::FlushKernel(vec![])));
    assert_eq!(this_cpu(tlb).switch(&a), Switched::Flushed);
}

#[test]
fn a_cpu_that_comes_up_names_the_reserved_root_whatever_it_named_before() {
    let storage = Vec::leak(vec![Cpu::new()]);
    let tlb = Tlb::new(Fake::new(1, 12), PerCpuAsids::<6>::new(), storage).unwrap();
    tlb.online(&(), &12).unwrap();
    let log = tlb.platform().log(0);
    assert_eq!(log.first(), Some(&Op::Park));
    assert_eq!(log.last(), Some(&Op::FlushKernel(vec![])));
}

#[test]
fn storage_that_another_tlb_has_used_is_refused() {
    let (mut cpus, fake) = ([Cpu::new()], || Fake::new(1, 12).without_broadcast());
    {
        let tlb = Tlb::new(fake(), PerCpuAsids::<6>::new(), &mut cpus).unwrap();
        let a = tlb.space(Root::new(4096), words(1)).unwrap();
        tlb.online(&(), &12).unwrap();
        let this_cpu = tlb.this_cpu(&());
        let _ = this_cpu.switch(&a);
        let _ = this_cpu.park();
    }
    let again = Tlb::new(fake(), PerCpuAsids::new(), &mut cpus).map(drop);
    assert_eq!(again, Err(Error::UsedStorage { cpu: CpuId(0) }));
}

#[test]
fn a_cpu_of_an_earlier_tlb_is_not_online() {
    let (mut cpus, fake) = ([Cpu::new()], || Fake::new(1, 12).without_broadcast());
    {
        let tlb = Tlb::new(fake(), PerCpuAsids::<6>::new(), &mut cpus).unwrap();
        tlb.online(&(), &12).unwrap();
        assert!(tlb.this_cpu_if_online(&()).is_some());
    }
    let tlb = Tlb::new(fake(), PerCpuAsids::<6>::new(), &mut cpus).unwrap();
    assert!(tlb.this_cpu_if_online(&()).is_none());
}

#[test]
fn bad_configurations_are_refused_with_the_reason() {
    let refusal =
        |fake| Tlb::new(fake, PerCpuAsids::<6>::new(), Vec::leak(vec![Cpu::new()])).map(drop);
    assert_eq!(refusal(Fake::new(1, 2)), Err(Error::TooFewTags { usable: 4, needed: 8 }));
    assert!(matches!(refusal(Fake::new(1, 12).shared()), Err(Error::Unsupported(_))));
}

#[test]
fn a_foreign_root_has_the_only_tag_where_there_are_no_others() {
    for (bits, tag) in [(0, 0), (12, 1)] {
        let tlb = machine::recent(1, Fake::new(1, bits));
        let a = space(tlb, 1);
        let _ = this_cpu(tlb).switch(&a);
        tlb.platform().forget_logs();
        let mut cpu = this_cpu(tlb);
        cpu.with_root(&Root::new(0xffff_0000), || ()).unwrap();
        let log = tlb.platform().log(0);
        let foreign = |op: &Op| matches!(op, Op::Load { table: 0xffff_0000, tag: under, held: Held::Drop, .. } if *under == tag);
        assert!(log.iter().any(foreign), "{log:?}");
    }
}
