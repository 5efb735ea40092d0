//! What the common paths cost, in accesses to memory that CPUs share: words that count.
//!
//! A word belongs to the CPU whose storage it is in, to the space whose storage it is in, or to
//! everybody. On the common paths nothing of the last kind may be written, because each such write
//! takes a cache line away from every other CPU.

mod machine;

use core::{
    cell::{Cell, RefCell},
    ops::Range,
};
use std::{collections::BTreeSet, rc::Rc};

use lookaside::{
    AddressSpace, CurrentCpu, Gather, VaRange,
    arch::Root,
    tags::{Released, Residents, Switched, Tags},
};

use machine::{
    ACCESSES, CPU, CPUS, Counted, FLUSHED_AT, FLUSHES, Host, HostMmu, Kind, MANY, Machine, SERVE,
    epochs, epochs_of, epochs_on, recent, words,
};

/// A space, and where its residents are.
struct Spaced {
    space: AddressSpace<Host>,
    storage: Range<usize>,
}

impl core::ops::Deref for Spaced {
    type Target = AddressSpace<Host>;

    fn deref(&self) -> &Self::Target {
        &self.space
    }
}

fn space<T: Tags<Host>>(tlb: &Machine<T>, number: u64) -> Spaced {
    let residents = words(Residents::<Counted>::words_for(tlb.cpus().len()));
    let storage = bytes(residents);
    let space = tlb.space(Root::new(number << 12), residents).unwrap();
    Spaced { space, storage }
}

fn on<T: Tags<Host>, R>(
    cpu: u32,
    tlb: &Machine<T>,
    f: impl FnOnce(CurrentCpu<'_, Host, T>) -> R,
) -> R {
    CPU.set(cpu);
    f(tlb.this_cpu(&()))
}

// ---- The account

/// What one operation did to memory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Account {
    /// Reads, modifies and writes in one, wherever.
    rmws: usize,
    /// Writes of either kind to the storage of the CPU that executes.
    own: usize,
    /// Writes of either kind to the storage of the space.
    space: usize,
    /// Writes of either kind to anything else.
    shared: usize,
    /// Invalidations.
    flushes: usize,
}

fn bytes<T: ?Sized>(value: &T) -> Range<usize> {
    let start = core::ptr::from_ref(value).cast::<u8>().addr();
    start..start + size_of_val(value)
}

/// Runs `f`, and says how often something was invalidated and what was done to words.
fn noted<R>(f: impl FnOnce() -> R) -> (R, usize, Vec<(usize, Kind)>) {
    ACCESSES.take();
    FLUSHES.set(0);
    let result = f();
    (result, FLUSHES.get(), ACCESSES.take())
}

/// Runs `f` on a CPU that has just been told of nothing, and says what it did.
fn account<T: Tags<Host>, R>(
    cpu: u32,
    tlb: &Machine<T>,
    space: &Spaced,
    f: impl FnOnce(CurrentCpu<'_, Host, T>) -> R,
) -> (R, Account) {
    let own = bytes(&tlb.cpus()[cpu as usize]);
    let of_space = [bytes(&**space), space.storage.clone()];
    let (result, flushes, accesses) = noted(|| on(cpu, tlb, f));
    let mut account = Account { flushes, ..Account::default() };
    for (address, kind) in accesses {
        account.rmws += usize::from(kind == Kind::Rmw);
        if kind == Kind::Load {
        } else if own.contains(&address) {
            account.own += 1;
        } else if of_space.iter().any(|bytes| bytes.contains(&address)) {
            account.space += 1;
        } else {
            account.shared += 1;
        }
    }
    (result, account)
}

// ---- What is promised

#[test]
fn asid_17_a_switch_within_the_epoch_is_one_rmw_and_writes_only_the_cpus_own_words() {
    let tlb = epochs();
    let spaces = [space(tlb, 1), space(tlb, 2)];
    // Each CPU has run each space, and runs the one that is not entered next.
    for cpu in [0, 1] {
        for space in &spaces {
            let _ = on(cpu, tlb, |this_cpu| this_cpu.switch(space));
        }
    }
    for cpu in [0, 1] {
        for space in &spaces {
            let (switched, cost) = account(cpu, tlb, space, |this_cpu| this_cpu.switch(space));
            assert_eq!(switched, Switched::Kept);
            assert_eq!((cost.rmws, cost.space, cost.shared), (1, 0, 0), "{cost:?}");
            assert_eq!(cost.flushes, 0, "a switch invalidates nothing");
            assert!(cost.own > 0, "{cost:?}");
        }
    }
}

#[test]
fn the_first_visit_of_a_cpu_to_a_space_writes_only_to_that_space() {
    let tlb = epochs();
    let space = space(tlb, 1);
    let _ = on(0, tlb, |this_cpu| this_cpu.switch(&space));
    // CPU 1 must adopt the epoch first; afterwards only its residency is new, under the residency lock.
    let _ = on(1, tlb, |this_cpu| this_cpu.switch(&another(tlb)));
    let (switched, cost) = account(1, tlb, &space, |this_cpu| this_cpu.switch(&space));
    assert_eq!(switched, Switched::Kept);
    assert_eq!((cost.rmws, cost.space, cost.shared), (3, 3, 0), "{cost:?}");
}

/// Any space that is not looked at further.
fn another<T: Tags<Host>>(tlb: &Machine<T>) -> Spaced {
    space(tlb, 99)
}

#[test]
fn asid_11_a_tag_from_the_asid_cache_writes_only_words_of_the_cpu_and_of_the_space() {
    let tlb = epochs();
    let _ = on(0, tlb, |this_cpu| this_cpu.switch(&another(tlb)));
    // The first switch has filled the ASID cache with 62 tags, of which it took one.
    for number in 1..=61 {
        let space = space(tlb, number);
        let (switched, cost) = account(0, tlb, &space, |this_cpu| this_cpu.switch(&space));
        assert_eq!(switched, Switched::Fresh);
        assert_eq!(cost.shared, 0, "space {number}: {cost:?}");
        assert_eq!((cost.rmws, cost.flushes), (3, 0), "residency lock, residency, active");
    }
    // The 63rd space takes the lock and fills the ASID cache: that is what the others are spared.
    let space = space(tlb, 62);
    let (_, cost) = account(0, tlb, &space, |this_cpu| this_cpu.switch(&space));
    assert!(cost.shared > 0, "{cost:?}");
}

#[test]
fn a_released_tag_comes_back_without_a_write_to_shared_words() {
    let tlb = epochs_on(CPUS, HostMmu { broadcasts: true, arm: true });
    let mut gone = space(tlb, 1);
    let _ = on(0, tlb, |this_cpu| this_cpu.switch(&gone));
    let _ = on(0, tlb, |this_cpu| this_cpu.switch(&another(tlb)));
    let range = bytes(&gone.space);
    let (own, _) = (bytes(&tlb.cpus()[0]), ACCESSES.take());
    assert_eq!(on(0, tlb, |this_cpu| this_cpu.release(&mut gone.space)), Released::AtOnce);
    for (address, kind) in ACCESSES.take() {
        let of_space = range.contains(&address) || gone.storage.contains(&address);
        let private = own.contains(&address) || of_space;
        assert!(kind == Kind::Load || private, "{kind:?} of a shared word");
    }
}

#[test]
fn a_switch_between_recent_spaces_is_one_rmw_and_writes_only_the_cpus_own_words() {
    let tlb = recent(CPUS);
    let spaces = [space(tlb, 1), space(tlb, 2)];
    for space in &spaces {
        let _ = on(0, tlb, |this_cpu| this_cpu.switch(space));
    }
    for space in &spaces {
        let (switched, cost) = account(0, tlb, space, |this_cpu| this_cpu.switch(space));
        assert_eq!(switched, Switched::Kept);
        assert_eq!((cost.rmws, cost.space, cost.shared, cost.flushes), (1, 0, 0, 0), "{cost:?}");
    }
}

#[test]
fn a_switch_to_the_present_space_writes_nothing() {
    fn check<T: Tags<Host>>(tlb: &Machine<T>) {
        let space = space(tlb, 1);
        let _ = on(0, tlb, |this_cpu| this_cpu.switch(&space));
        let (switched, cost) = account(0, tlb, &space, |this_cpu| this_cpu.switch(&space));
        assert_eq!((switched, cost), (Switched::Unchanged, Account::default()));
    }
    check(epochs());
    check(recent(CPUS));
}

// ---- Flushes

/// This CPU takes a page from `space`.
fn flush<T: Tags<Host>>(this_cpu: &CurrentCpu<'_, Host, T>, space: &Spaced) {
    let mut gather = Gather::new(space);
    gather.revoke(VaRange::new(0x5000, 0x1000, 12).unwrap());
    let _ = this_cpu.flush(gather);
}

#[test]
fn local_10_a_switch_writes_no_shared_word_whatever_is_flushed_elsewhere() {
    fn check<T: Tags<Host>>(tlb: &Machine<T>) {
        let (a, b, c) = (space(tlb, 1), space(tlb, 2), space(tlb, 3));
        let _ = on(1, tlb, |this_cpu| this_cpu.switch(&c));
        for _ in 0..2 {
            for space in [&a, &b] {
                let _ = on(0, tlb, |this_cpu| this_cpu.switch(space));
            }
        }
        for _ in 0..10 {
            on(1, tlb, |this_cpu| flush(&this_cpu, &c));
            for space in [&a, &b] {
                let (switched, cost) = account(0, tlb, space, |this_cpu| this_cpu.switch(space));
                assert_eq!(switched, Switched::Kept);
                assert_eq!((cost.rmws, cost.space, cost.shared, cost.flushes), (1, 0, 0, 0));
            }
        }
    }
    check(epochs());
    check(epochs_of(CPUS, false));
    check(recent(CPUS));
}

#[test]
fn local_03_a_flush_writes_nothing_about_cpus_that_are_stale_already() {
    fn check<T: Tags<Host>>(tlb: &Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [100, 200, 4000] {
            let _ = on(cpu, tlb, |this_cpu| this_cpu.switch(&a));
            let _ = on(cpu, tlb, |this_cpu| this_cpu.park());
        }
        let _ = on(70, tlb, |this_cpu| this_cpu.switch(&a));
        // One that rests in the space, and cannot be made absent.
        let _ = on(300, tlb, |this_cpu| this_cpu.switch(&a));
        on(300, tlb, |this_cpu| this_cpu.lazy());
        let residents = a.storage.clone();
        let written = || {
            let ((), _, accesses) = noted(|| on(70, tlb, |this_cpu| flush(&this_cpu, &a)));
            let writes = accesses.iter().filter(|(_, kind)| *kind != Kind::Load);
            writes.filter(|(address, _)| residents.contains(address)).count()
        };
        assert!(written() > 0, "four CPUs get no IPI, and become stale");
        for _ in 0..10 {
            assert_eq!(written(), 0, "they are stale already");
        }
        // One of them comes back and leaves: it is the only one to be written of.
        let _ = on(200, tlb, |this_cpu| this_cpu.switch(&a));
        let _ = on(200, tlb, |this_cpu| this_cpu.park());
        assert!((1..=3).contains(&written()), "one CPU is stale again");
        assert_eq!(written(), 0);
    }
    check(epochs_of(MANY, true));
    check(epochs_of(MANY, false));
    check(recent(MANY));
}

#[test]
fn a_cpu_becomes_lazy_by_a_locked_operation_which_waits_for_non_temporal_stores() {
    fn check<T: Tags<Host>>(tlb: &Machine<T>) {
        let a = space(tlb, 1);
        let _ = on(0, tlb, |this_cpu| this_cpu.switch(&a));
        let ((), cost) = account(0, tlb, &a, |this_cpu| this_cpu.lazy());
        assert_eq!((cost.rmws, cost.own, cost.space, cost.shared), (1, 1, 0, 0), "{cost:?}");
    }
    check(epochs());
    check(recent(CPUS));
}

#[test]
fn a_broadcast_looks_at_no_cpu_that_has_left_the_space_twice() {
    // One page, or a table.
    for tables in [false, true] {
        let tlb = epochs_on(MANY, HostMmu { broadcasts: true, arm: true });
        let (a, other) = (space(tlb, 1), space(tlb, 2));
        let cpus = bytes(tlb.cpus());
        for cpu in (100..600).step_by(5) {
            let _ = on(cpu, tlb, |this_cpu| this_cpu.switch(&a));
            let _ = on(cpu, tlb, |this_cpu| this_cpu.switch(&other));
        }
        // Two CPUs run the space, the other one after those that have left it.
        let _ = on(70, tlb, |this_cpu| this_cpu.switch(&a));
        let _ = on(4000, tlb, |this_cpu| this_cpu.switch(&a));
        let size = cpus.len() / MANY;
        let looked_at = |last: usize| {
            let ((), _, accesses) = noted(|| {
                on(70, tlb, |this_cpu| {
                    let mut gather = Gather::new(&a);
                    gather.revoke(VaRange::page(0x1000));
                    if tables {
                        gather.unlink_table(VaRange::new(0, 0x20_0000, 12).unwrap());
                    }
                    let _ = this_cpu.flush(gather);
                });
            });
            let of_cpus = accesses.iter().filter(|(address, _)| cpus.contains(address));
            let looked_at = of_cpus.map(|(address, _)| (address - cpus.start) / size);
            let looked_at: BTreeSet<_> = looked_at.filter(|&cpu| cpu != 70).collect();
            assert!(looked_at.contains(&last), "{looked_at:?}");
            looked_at.len()
        };
        assert!(looked_at(4000) > 90, "which CPUs run the space is not known to begin with");
        for _ in 0..10 {
            assert_eq!(looked_at(4000), 1, "it runs the space still");
        }
        // A thread moves: the others are looked at once more.
        let _ = on(4001, tlb, |this_cpu| this_cpu.switch(&a));
        let _ = on(4000, tlb, |this_cpu| this_cpu.switch(&other));
        assert!(looked_at(4001) > 90);
        assert_eq!(looked_at(4001), 1);
    }
}

#[test]
fn a_flush_that_needs_nobody_else_writes_only_to_its_space_and_its_cpu() {
    fn check<T: Tags<Host>>(tlb: &Machine<T>) {
        let a = space(tlb, 1);
        let _ = on(0, tlb, |this_cpu| this_cpu.switch(&a));
        on(0, tlb, |this_cpu| flush(&this_cpu, &a));
        let (accesses, cost) = account(0, tlb, &a, |this_cpu| {
            flush(&this_cpu, &a);
            ACCESSES.with_borrow(Clone::clone)
        });
        assert_eq!((cost.shared, cost.flushes), (0, 1), "{cost:?}");
        // Begun, the generation and the note of it, over.
        assert!(cost.rmws <= 4 && cost.space <= 6, "{cost:?}");
        let written = accesses.iter().filter(|(_, kind)| *kind != Kind::Load);
        let lines: BTreeSet<_> = written.map(|(address, _)| address / 64).collect();
        assert!(lines.len() <= 4, "{lines:?}");
    }
    check(epochs());
    check(recent(CPUS));
}

/// How many accesses to words, and to how many lines of 64 bytes, it takes to flush a page of a space
/// that `targets` other CPUs run, all of them together.
fn shootdown<T: Tags<Host>>(tlb: &Machine<T>, targets: u32) -> (usize, usize) {
    let a = space(tlb, 1);
    let _ = on(0, tlb, |this_cpu| this_cpu.switch(&a));
    // Not side by side, nor all in one group.
    let run: Vec<_> = (0..targets).map(|index| 1 + index * 4).collect();
    for &cpu in &run {
        let _ = on(cpu, tlb, |this_cpu| this_cpu.switch(&a));
    }
    on(0, tlb, |this_cpu| flush(&this_cpu, &a));
    let ((), flushes, accesses) = noted(|| on(0, tlb, |this_cpu| flush(&this_cpu, &a)));
    assert_eq!(flushes, 1 + targets as usize);
    let lines: BTreeSet<_> = accesses.iter().map(|(address, _)| address / 64).collect();
    for cpu in run {
        let _ = on(cpu, tlb, |this_cpu| this_cpu.park());
    }
    let _ = on(0, tlb, |this_cpu| this_cpu.park());
    (accesses.len(), lines.len())
}

#[test]
fn flag_09_a_shootdown_costs_in_proportion_to_its_targets() {
    fn check<T: Tags<Host>>(name: &str, tlb: &Machine<T>) {
        // What is independent of the targets: two bits of residency for each CPU are looked through.
        let (none, lines) = shootdown(tlb, 0);
        println!("{name}, {MANY} CPUs: no target: {none} accesses, {lines} lines");
        assert!(none < 300, "{none}");
        for targets in [1, 2, 64, 1000] {
            let (accesses, lines) = shootdown(tlb, targets);
            let each = (accesses - none) / targets as usize;
            println!("{name}, {targets} targets: {accesses} accesses, {lines} lines");
            // With what is described once for all of them.
            assert!(each < 50, "{each} accesses for each of {targets}");
            assert!(lines < 40 + 10 * targets as usize, "{lines} lines for {targets}");
        }
    }
    check("recent", recent(MANY));
    check("epochs", epochs_of(MANY, false));
}

#[test]
fn flag_01_a_target_writes_one_word_that_others_wait_for_and_nobody_else_writes_it() {
    fn check<T: Tags<Host>>(tlb: &Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [0, 1, 2] {
            let _ = on(cpu, tlb, |this_cpu| this_cpu.switch(&a));
        }
        // Everything that is written while CPU 1 serves.
        let serve = SERVE.take().unwrap();
        let written = Rc::new(RefCell::new(Vec::new()));
        let note = Rc::clone(&written);
        SERVE.set(Some(Rc::new(move |cpu| {
            let before = ACCESSES.with_borrow(Vec::len);
            serve(cpu);
            let after = ACCESSES.with_borrow(|all| all[before..].to_vec());
            note.borrow_mut().push((cpu, before, after));
        })));
        let start = ACCESSES.with_borrow(Vec::len);
        // Two ranges: a target that is told one answers where it was told.
        on(0, tlb, |this_cpu| {
            let mut gather = Gather::new(&a);
            for start in [0x5000, 0x10_0000] {
                gather.revoke(VaRange::new(start, 0x1000, 12).unwrap());
            }
            let _ = this_cpu.flush(gather);
        });
        let mut others = ACCESSES.with_borrow(Clone::clone);
        for (_, before, accesses) in written.borrow().iter().rev() {
            others.drain(*before..before + accesses.len());
        }
        others.drain(..start);
        others.retain(|(_, kind)| *kind != Kind::Load);
        for (cpu, _, mut accesses) in written.take() {
            // After the answer it looks whether it was told something meanwhile, and a call is taken back.
            while accesses.pop_if(|(_, kind)| *kind != Kind::Store).is_some() {}
            let own = bytes(&tlb.cpus()[cpu as usize]);
            let stores: Vec<_> = accesses.iter().filter(|(_, kind)| *kind != Kind::Load).collect();
            assert!(
                stores
                    .iter()
                    .all(|(address, kind)| { own.contains(address) && *kind == Kind::Store })
            );
            // The answer comes last, once, and nobody else writes its line.
            let (acknowledge, _) = stores.last().unwrap();
            let same = accesses.iter().filter(|(address, _)| address / 128 == acknowledge / 128);
            let own_answers = same.filter(|(_, kind)| *kind == Kind::Store).count();
            assert_eq!((own_answers, accesses.last().unwrap()), (1, &(*acknowledge, Kind::Store)));
            let alone = |(address, _): &(usize, Kind)| address / 128 != acknowledge / 128;
            assert!(others.iter().all(alone), "a line of its own");
        }
    }
    check(recent(4));
    check(epochs_of(4, false));
}

#[test]
fn flag_01_a_target_that_is_told_a_page_answers_in_the_line_where_it_was_told() {
    fn check<T: Tags<Host>>(tlb: &Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [0, 1] {
            let _ = on(cpu, tlb, |this_cpu| this_cpu.switch(&a));
        }
        let serve = SERVE.take().unwrap();
        let served = Rc::new(Cell::new((0, 0)));
        let note = Rc::clone(&served);
        SERVE.set(Some(Rc::new(move |cpu| {
            let before = ACCESSES.with_borrow(Vec::len);
            serve(cpu);
            note.set((before, ACCESSES.with_borrow(Vec::len)));
        })));
        let start = ACCESSES.with_borrow(Vec::len);
        on(0, tlb, |this_cpu| flush(&this_cpu, &a));
        let target = bytes(&tlb.cpus()[1]);
        let all = ACCESSES.with_borrow(Clone::clone);
        let (before, after) = served.get();
        let lines = |accesses: &[(usize, Kind)]| {
            let own = accesses.iter().filter(|(address, _)| target.contains(address));
            let mut lines: Vec<_> = own.map(|(address, _)| address / 64).collect();
            lines.dedup();
            lines
        };
        let told: Vec<_> =
            all[start..before].iter().filter(|(_, kind)| *kind == Kind::Rmw).copied().collect();
        let told = lines(&told);
        assert_eq!(told.len(), 1, "one line of the target's is written");
        assert_eq!(lines(&all[after..]), told, "and no other is waited for");
    }
    check(recent(2));
    check(epochs_of(2, false));
}

#[test]
fn flag_04_a_target_reads_all_before_it_invalidates_and_answers_once_after() {
    fn check<T: Tags<Host>>(tlb: &Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [0, 1] {
            let _ = on(cpu, tlb, |this_cpu| this_cpu.switch(&a));
        }
        let serve = SERVE.take().unwrap();
        let times = Rc::new(RefCell::new(Vec::new()));
        let note = Rc::clone(&times);
        SERVE.set(Some(Rc::new(move |cpu| {
            FLUSHED_AT.take();
            let before = ACCESSES.with_borrow(Vec::len);
            serve(cpu);
            let kinds: Vec<_> =
                ACCESSES.with_borrow(|all| all[before..].iter().map(|(_, kind)| *kind).collect());
            let at: Vec<_> = FLUSHED_AT.take().into_iter().map(|at| at - before).collect();
            note.borrow_mut().push((kinds, at));
        })));
        on(0, tlb, |this_cpu| flush(&this_cpu, &a));
        let [(kinds, at)] = &mut times.take()[..] else { panic!("served once") };
        // A call is taken back after the answer to it.
        kinds.pop_if(|kind| *kind == Kind::Rmw);
        let [at] = at[..] else { panic!("flushed once: {at:?}") };
        assert!(kinds[at..].iter().all(|kind| *kind == Kind::Store), "no read: {kinds:?} {at}");
        assert!(kinds[..at].iter().all(|kind| *kind == Kind::Load), "no write: {kinds:?} {at}");
    }
    check(recent(4));
    check(epochs_of(4, false));
}
