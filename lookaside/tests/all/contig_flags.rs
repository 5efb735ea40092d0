//! CONT-03, 04, 06, 08: accessed and dirty flags, while hardware sets them whenever it likes.

use core::ops::Range;

use crate::contig::hostile::act;
use crate::contig::hostile::{Act, KINDS, Kind, Machine, Use, flush, on};
use lookaside::contig::{Access, Flags, Full, SizeChange};

const USES: [Flags; 2] = [Flags::ACCESSED, Flags::ALL];

/// Some blocks, with slots that are interesting in them.
fn layouts(kind: Kind) -> Vec<Machine> {
    let mut machines = Vec::new();
    let all = [[true, true], [false, true], [true, false], [false, false]];
    for folded in if kind.block() == 16 { &all[..] } else { &all[..1] } {
        let plain = Machine::blocks(kind, folded);
        // Flags that are there from the beginning, in one entry only.
        for flags in if folded == &[true; 2] { &USES[..] } else { &USES[1..] } {
            machines.push(plain.with_memory(3, |raw| kind.used(raw, *flags).unwrap()));
        }
        machines.push(plain);
    }
    machines
}

/// Slots of two blocks; fewer choices for the large ones, whose every operation is looked at too.
fn ranges(n: usize) -> Vec<Range<usize>> {
    if n > 16 {
        return vec![0..n, n / 2..n + n / 2, 3..n / 2];
    }
    [0..n, 0..2 * n, n..2 * n, 0..1, n - 1..n, n - 1..n + 1, 3..n / 2, 0..n / 2, n / 2..n]
        .into_iter()
        .chain([n / 2..n + n / 2, 1..2 * n, 0..2 * n - 1])
        .collect()
}

fn used_slots(kind: Kind) -> Vec<usize> {
    let n = kind.block();
    match n {
        16 => vec![0, 1, 3, 7, 8, n - 1, n, n + 2, n + 7, n + 8, 2 * n - 1],
        _ => vec![1, n / 2, n + n / 2],
    }
}

/// Does `act` to `machine` with one use by hardware, for every use there can be, and each time lets
/// `judge` look at the outcome.
fn with_every_use<R, A: Act<R> + Clone>(
    machine: &Machine,
    size_change: SizeChange,
    act: &A,
    mut judge: impl FnMut(R, Machine),
) {
    let (result, quiet) = on(machine.clone(), size_change, act.clone());
    let steps = quiet.steps;
    quiet.assert_right();
    judge(result, quiet);
    for step in 0..steps {
        for slot in used_slots(machine.kind).into_iter().filter(|i| *i < machine.memory.len()) {
            for flags in USES {
                let machine = machine.clone().with_uses(&[Use { step, slot, flags }]);
                let (result, machine) = on(machine, size_change, act.clone());
                machine.assert_right();
                judge(result, machine);
            }
        }
    }
}

/// No flag that a page had is neither there nor told, and none is invented.
#[track_caller]
fn account(machine: &Machine, told: Flags) {
    let there = machine.all_visible();
    let all = |had: &[Flags]| had.iter().fold(Flags::NONE, |all, had| all | *had);
    let n = machine.kind.block();
    for (had, there) in machine.had.chunks(n).zip(there.chunks(n)) {
        let any = all(had);
        for (had, there) in had.iter().zip(there) {
            assert!((*there | told).contains(*had), "a flag is lost");
            assert!(any.contains(*there), "a flag is from nowhere");
        }
    }
    assert!(all(&machine.had).contains(told), "a flag was told that nobody set");
}

#[test]
fn cont_03_get_and_clear_loses_no_flag_and_clears_none_that_stays() {
    for kind in KINDS {
        for slots in ranges(kind.block()) {
            let taken = slots.clone();
            let take = act!((taken: Range<usize>) |table| -> (Flags, usize) {
                let cleared = table.get_and_clear(taken, Full::No, &mut flush).unwrap();
                (cleared.first.flags(), cleared.present)
            });
            for machine in layouts(kind) {
                let visible = machine.all_visible();
                with_every_use(&machine, SizeChange::Flushed, &take, |(told, count), after| {
                    account(&after, told);
                    assert_eq!(count, slots.len());
                    let now = after.all_visible();
                    for (slot, before) in visible.iter().enumerate() {
                        let stays = !slots.contains(&slot);
                        assert_eq!(kind.is_valid(after.memory[slot]), stays);
                        // What stays has lost nothing at all, told or not.
                        assert!(!stays || now[slot].contains(*before | after.had[slot]));
                    }
                });
            }
        }
    }
}

#[test]
fn cont_04_the_first_entry_and_all_flags_are_told_once() {
    for kind in KINDS {
        let n = kind.block();
        for slots in ranges(n) {
            for machine in layouts(kind) {
                for carrier in used_slots(kind) {
                    let used = |raw| kind.used(raw, Flags::ALL).unwrap();
                    let machine = machine.with_memory(carrier, used);
                    let (first, before) = (slots.start, machine.memory[slots.start]);
                    let expected =
                        slots.clone().fold(Flags::NONE, |all, slot| all | machine.visible(slot));
                    let taken = slots.clone();
                    let take = act!((taken: Range<usize>) |table| -> (u64, Flags, bool) {
                        let first =
                            table.get_and_clear(taken, Full::No, &mut flush).unwrap().first;
                        (first.bits(), first.flags(), first.is_folded())
                    });
                    let ((bits, told, folded), after) = on(machine, SizeChange::Flushed, take);
                    after.assert_right();
                    assert_eq!((told, folded), (expected, kind.is_folded(before)));
                    assert!(!kind.is_folded(bits) && kind.is_valid(bits));
                    assert_eq!(kind.frame(bits, first), kind.frame(before, first));
                    assert_eq!(kind.flags(bits), expected);
                    assert_eq!(kind.is_writable(bits), kind.is_writable(before));
                }
            }
        }
    }
}

/// Bug 25 of the field's list: one entry carries the block's flag, and the pages are asked one by one.
#[test]
fn cont_04_a_flag_of_a_block_is_told_for_every_page_of_it() {
    for kind in KINDS {
        let machine = Machine::blocks(kind, &[true, true])
            .with_memory(3, |raw| kind.used(raw, Flags::ALL).unwrap());
        for full in [Full::No, Full::Yes] {
            let one_by_one = act!((full: Full) |table| -> Vec<Flags> {
                (0..table.entries().len())
                    .map(|i| table.get_and_clear(i..i + 1, full, &mut flush).unwrap().first.flags())
                    .collect()
            });
            let machine = if full == Full::Yes { machine.clone().free() } else { machine.clone() };
            let (told, after) = on(machine, SizeChange::Flushed, one_by_one);
            after.assert_right();
            let n = kind.block();
            assert_eq!(told, [vec![Flags::ALL; n], vec![Flags::NONE; n]].concat());
        }
    }
}

#[test]
fn cont_06_the_hint_changes_the_flushes_and_nothing_else() {
    for kind in KINDS {
        for slots in ranges(kind.block()) {
            for machine in layouts(kind) {
                let run = |full: Full, machine: Machine| {
                    let taken = slots.clone();
                    let take = act!((taken: Range<usize>, full: Full) |table| -> (u64, Flags, usize) {
                        let cleared = table.get_and_clear(taken, full, &mut flush).unwrap();
                        (cleared.first.bits(), cleared.first.flags(), cleared.present)
                    });
                    on(machine, SizeChange::Flushed, take)
                };
                let (told, after) = run(Full::No, machine.clone());
                let (told_full, after_full) = run(Full::Yes, machine.clone().free());
                assert_eq!((told, &after.memory), (told_full, &after_full.memory));
                assert_eq!(after_full.count.flushes, 0);
            }
        }
    }
    // And its flags are as exact under fire.
    let machine = Machine::blocks(Kind::K4, &[true, true]).free();
    for taken in ranges(16) {
        let take = act!((taken: Range<usize>) |table| -> Flags {
            table.get_and_clear(taken, Full::Yes, &mut flush).unwrap().first.flags()
        });
        with_every_use(&machine, SizeChange::Flushed, &take, |told, after| {
            account(&after, told);
        });
    }
}

/// Mutant 27 of the field's list lives here.
#[test]
fn cont_03_fold_and_unfold_keep_every_flag() {
    for kind in KINDS {
        for size_change in [SizeChange::Flushed, SizeChange::FlushedIfHeld, SizeChange::Free] {
            for machine in layouts(kind) {
                let machine =
                    if size_change == SizeChange::Free { machine.free() } else { machine };
                for index in [0, 3, kind.block() - 1, kind.block() + 2] {
                    let there = act!((index: usize) |table| -> bool {
                        table.fold(index, &mut flush).unwrap()
                    });
                    let back = act!((index: usize) |table| -> bool {
                        table.unfold(index, &mut flush).unwrap()
                    });
                    let folded = kind.is_folded(machine.memory[index]);
                    with_every_use(&machine, size_change, &there, |done, after| {
                        account(&after, Flags::NONE);
                        assert_eq!(done, !folded);
                        assert!(kind.is_folded(after.memory[index]));
                    });
                    with_every_use(&machine, size_change, &back, |done, after| {
                        account(&after, Flags::NONE);
                        assert_eq!(done, folded);
                        for slot in after.block_of(index) {
                            assert!(!kind.is_folded(after.memory[slot]));
                            let frame = kind.frame(machine.memory[slot], slot);
                            assert_eq!(kind.frame(after.memory[slot], slot), frame);
                        }
                    });
                }
            }
        }
    }
}

#[test]
fn cont_04_write_protection_takes_no_flag() {
    for kind in KINDS {
        for slots in ranges(kind.block()) {
            let which = slots.clone();
            let protect = act!((which: Range<usize>) |table| -> bool {
                table.write_protect(which, &mut flush).unwrap()
            });
            for machine in layouts(kind) {
                let machine = machine.keeping(Flags::ALL);
                with_every_use(&machine, SizeChange::Flushed, &protect, |changed, after| {
                    account(&after, Flags::NONE);
                    assert!(changed);
                    for (slot, raw) in after.memory.iter().enumerate() {
                        assert_eq!(kind.is_writable(*raw), !slots.contains(&slot));
                    }
                });
            }
        }
    }
}

#[test]
fn cont_04_young_and_dirty_are_cleared_for_the_block_and_told_once() {
    for kind in KINDS {
        for slots in ranges(kind.block()) {
            for asked in [Flags::ACCESSED, Flags::DIRTY, Flags::ALL] {
                let which = slots.clone();
                let clear = act!((which: Range<usize>, asked: Flags) |table| -> Flags {
                    table.clear_flags(which, asked).unwrap()
                });
                for machine in layouts(kind) {
                    let others = Flags { accessed: !asked.accessed, dirty: !asked.dirty };
                    let machine = machine.keeping(others);
                    let shapes: Vec<_> =
                        machine.memory.iter().map(|raw| kind.is_folded(*raw)).collect();
                    with_every_use(&machine, SizeChange::Flushed, &clear, |told, after| {
                        account(&after, told);
                        assert_eq!(after.count.flushes, 0);
                        let now: Vec<_> =
                            after.memory.iter().map(|raw| kind.is_folded(*raw)).collect();
                        assert_eq!(now, shapes, "no block is broken for this");
                    });
                    let (_, after) = on(machine, SizeChange::Flushed, clear.clone());
                    for slot in slots.clone() {
                        assert_eq!(after.visible(slot).only(asked), Flags::NONE);
                    }
                }
            }
        }
    }
}

#[test]
fn cont_04_one_name_for_each_flag() {
    for kind in KINDS {
        let machine = Machine::blocks(kind, &[true])
            .with_memory(5, |raw| kind.used(raw, Flags::ALL).unwrap());
        let clear = act!(() |table| -> [bool; 4] {
            let mut twice = || table.clear_dirty(0..1).unwrap();
            let dirty = [twice(), twice()];
            let mut twice = || table.clear_accessed(9..10).unwrap();
            [dirty[0], dirty[1], twice(), twice()]
        });
        let (told, after) = on(machine, SizeChange::Flushed, clear);
        assert_eq!(told, [true, false, true, false]);
        // Stores are allowed as before, and noted again.
        assert!(after.memory.iter().all(|raw| kind.is_writable(*raw) && !kind.stores_freely(*raw)));
    }
}

#[test]
fn cont_08_a_fault_is_repaired_in_every_entry_that_lacks_something() {
    // Bug 24 of the field's list: a sibling is dirty, and the entry that a device walks is not.
    for kind in KINDS {
        let machine = Machine::blocks(kind, &[true])
            .with_memory(3, |raw| kind.used(raw, Flags::ALL).unwrap())
            .keeping(Flags::ALL);
        for index in [0, 3, kind.block() - 1] {
            let repair = act!((index: usize) |table| -> [bool; 3] {
                assert!(table.get(index).unwrap().dirty(), "gathered, nothing is to be done");
                let mut repair = || table.set_access(index, Access::STORE, &mut flush).unwrap();
                [repair(), repair(), repair()]
            });
            with_every_use(&machine, SizeChange::Flushed, &repair, |changed, after| {
                account(&after, Flags::NONE);
                assert_eq!(changed, [true, false, false]);
                assert_eq!(after.count.flushes, 0);
                for raw in &after.memory {
                    assert!(kind.is_folded(*raw) && kind.stores_freely(*raw));
                    assert_eq!(kind.flags(*raw), Flags::ALL);
                }
            });
        }
    }
}

#[test]
fn cont_08_a_permission_is_one_pages_and_breaks_its_block() {
    for kind in KINDS {
        let n = kind.block();
        let memory = (0..n as u64)
            .map(|slot| kind.folded(kind.read_only(kind.page(n as u64 * 7 + slot))))
            .collect();
        let machine = Machine::new(kind, memory);
        let repair = act!((n: usize) |table| -> [bool; 2] {
            let mut repair = || table.set_access(n / 2, Access::STORE, &mut flush).unwrap();
            [repair(), repair()]
        });
        with_every_use(&machine, SizeChange::Flushed, &repair, |changed, after| {
            // A fault sets flags that no use set.
            assert_eq!(changed, [true, false]);
            assert_eq!(after.count.flushes, 1);
            for (slot, raw) in after.memory.iter().enumerate() {
                assert!(!kind.is_folded(*raw));
                assert_eq!(kind.is_writable(*raw), slot == n / 2);
                assert_eq!(kind.stores_freely(*raw), slot == n / 2);
                assert!(kind.flags(*raw).contains(after.had[slot]));
            }
        });
    }
}

/// What was dirty, protected, and made writable again is not taken for "a store goes through".
#[test]
fn cont_08_dirty_by_software_is_not_writable_by_hardware() {
    for kind in KINDS {
        let machine = Machine::blocks(kind, &[true])
            .with_memory(3, |raw| kind.used(raw, Flags::ALL).unwrap());
        let fork_and_write = act!(() |table| -> [bool; 2] {
            let n = table.entries().len();
            table.write_protect(0..n, &mut flush).unwrap();
            assert!(table.get(0).unwrap().dirty());
            let mut repair = || table.set_access(3, Access::STORE, &mut flush).unwrap();
            [repair(), repair()]
        });
        let (changed, after) = on(machine, SizeChange::Flushed, fork_and_write);
        after.assert_right();
        assert_eq!(changed, [true, false]);
        for (slot, raw) in after.memory.iter().enumerate() {
            assert_eq!(kind.stores_freely(*raw), slot == 3);
            assert!(kind.flags(*raw).dirty);
        }
    }
}

/// Long runs of whatever comes, with hardware at work all the time.
#[test]
fn cont_03_nothing_is_lost_in_any_sequence() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = move |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit as u64) as usize
    };
    for kind in KINDS {
        let n = kind.block();
        for _ in 0..if n > 32 { 50 } else { 500 } {
            let machine = Machine::blocks(kind, &[below(2) == 0, below(2) == 0]);
            let uses: Vec<_> = (0..12)
                .map(|_| Use { step: below(12 * n), slot: below(2 * n), flags: USES[below(2)] })
                .collect();
            let plan: Vec<_> = (0..5).map(|_| (below(5), below(2 * n), below(2 * n))).collect();
            let run = act!((plan: Vec<(usize, usize, usize)>) |table| -> Flags {
                let mut told = Flags::NONE;
                for (what, a, b) in plan {
                    let slots = a.min(b)..a.max(b) + 1;
                    match what {
                        0 => {
                            let cleared = table.get_and_clear(slots, Full::No, &mut flush).unwrap();
                            told |= cleared.flags;
                        }
                        1 => drop(table.fold(a, &mut flush)),
                        2 => drop(table.unfold(a, &mut flush)),
                        3 => drop(table.write_protect(slots, &mut flush)),
                        _ => told |= table.clear_flags(slots, Flags::ACCESSED).unwrap(),
                    }
                }
                told
            });
            let (told, after) = on(machine.with_uses(&uses), SizeChange::Flushed, run);
            after.assert_right();
            for slot in 0..2 * n {
                assert!((after.visible(slot) | told).contains(after.had[slot]), "page {slot}");
            }
        }
    }
}
