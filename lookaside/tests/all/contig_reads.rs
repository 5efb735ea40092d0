//! CONT-07: reading a block while others change it.

use crate::contig::hostile::act;
use crate::contig::hostile::{KINDS, Machine, flush, on};
use lookaside::{
    Error,
    contig::{ATTEMPTS, Flags, SizeChange},
};

/// What the reader finds in slot `index`: the frame and the flags, or why not.
fn read(machine: Machine, index: usize) -> (Result<Option<(u64, Flags)>, Error>, Machine) {
    let kind = machine.kind;
    let look = act!((index: usize) |table| -> Result<Option<(u64, Flags)>, Error> {
        let gathered = table.entries().get(index)?;
        Ok(gathered.is_present().then(|| (gathered.bits(), gathered.flags())))
    });
    let (found, machine) = on(machine, SizeChange::Flushed, look);
    assert_eq!(machine.count.writes(), 0, "who only looks writes nothing");
    let found = found.map(|found| found.map(|(bits, flags)| (kind.frame(bits, index), flags)));
    (found, machine)
}

#[test]
fn cont_07_a_quiet_block_is_read_at_the_first_attempt() {
    for kind in KINDS {
        for carrier in 0..kind.block() {
            let machine = Machine::blocks(kind, &[true, false])
                .with_memory(carrier, |raw| kind.used(raw, Flags::ALL).unwrap());
            for index in [0, 3, kind.block() - 1] {
                let frame = kind.frame(machine.memory[index], index);
                let (found, after) = read(machine.clone(), index);
                assert_eq!(found, Ok(Some((frame, Flags::ALL))));
                assert_eq!(after.count.loads, kind.block() + 1);
                let (found, after) = read(machine.clone(), kind.block() + index);
                assert_eq!(found.unwrap().unwrap().1, Flags::NONE);
                assert_eq!(after.count.loads, 1, "a plain page is one load");
            }
        }
    }
}

#[test]
fn cont_07_a_block_in_pieces_is_given_up_after_bounded_work() {
    for kind in KINDS {
        let n = kind.block();
        let clean = Machine::blocks(kind, &[true]);
        for odd in 0..n {
            for strange in [
                0,
                kind.marker(),
                kind.page(9),
                kind.page(5 * n as u64 + odd as u64),
                kind.folded(kind.page(9 * n as u64 + odd as u64)),
                kind.read_only(clean.memory[odd]),
            ] {
                let machine = clean.with_memory(odd, |_| strange);
                for index in [0, n - 1] {
                    if index == odd {
                        continue;
                    }
                    let (found, after) = read(machine.clone(), index);
                    assert_eq!(found, Err(Error::Torn { index }));
                    assert!(after.count.loads <= ATTEMPTS * (n + 1));
                }
            }
        }
    }
}

#[test]
fn cont_07_what_is_read_was_there() {
    for kind in KINDS {
        let n = kind.block();
        let index = n / 2;
        let before = Machine::blocks(kind, &[true])
            .with_memory(2, |raw| kind.used(raw, Flags::ALL).unwrap());
        // Another CPU maps other memory in its place, plain or as a block, all at once or slot by
        // slot, and what it maps is clean.
        for folded in [true, false] {
            for pace in [0, 1, 2] {
                for start in 0..2 * n + 4 {
                    let mut machine = before.clone();
                    let new = |slot: usize| {
                        let page = kind.page((20 * n + slot) as u64);
                        if folded { kind.folded(page) } else { page }
                    };
                    machine.stores = (0..n).map(|slot| (start + pace * slot, slot, 0)).collect();
                    let later = start + pace * n;
                    machine
                        .stores
                        .extend((0..n).map(|slot| (later + pace * slot, slot, new(slot))));
                    match read(machine, index).0 {
                        Ok(None) | Err(Error::Torn { .. }) => {}
                        Ok(Some((frame, flags))) if frame == (20 * n + index) as u64 => {
                            assert_eq!(flags, Flags::NONE, "flags of what was there before");
                        }
                        Ok(Some((frame, _))) => assert_eq!(frame, (5 * n + index) as u64),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    }
}

#[test]
fn cont_07_a_reader_beside_a_break_finds_nothing_or_all() {
    for kind in KINDS {
        let n = kind.block();
        let machine = Machine::blocks(kind, &[true])
            .with_memory(2, |raw| kind.used(raw, Flags::ALL).unwrap());
        let look = act!((n: usize) |table| -> Vec<bool> {
            let entries = table.entries();
            let mut dirty = Vec::new();
            let mut look = |range| {
                for index in 0..n {
                    assert!(!entries.get(index).unwrap().is_present());
                }
                flush(range);
            };
            table.unfold(3, &mut look).unwrap();
            dirty.extend((0..n).map(|index| entries.get(index).unwrap().dirty()));
            table.fold(3, &mut look).unwrap();
            dirty.extend((0..n).map(|index| entries.get(index).unwrap().dirty()));
            dirty
        });
        let (dirty, after) = on(machine, SizeChange::Flushed, look);
        after.assert_right();
        assert!(dirty.into_iter().all(|dirty| dirty));
    }
}

#[test]
fn cont_07_under_the_lock_what_is_left_of_a_block_counts_and_nothing_else() {
    for kind in KINDS {
        let n = kind.block();
        for gone in 0..n {
            // The bits of an absent entry look like flags and are none.
            let pieces = Machine::blocks(kind, &[true]).with_memory(gone, |_| kind.marker());
            for carrier in (0..n).filter(|slot| *slot != gone).step_by(3) {
                let machine =
                    pieces.with_memory(carrier, |raw| kind.used(raw, Flags::ACCESSED).unwrap());
                let look = act!((n: usize) |table| -> Vec<Flags> {
                    (0..n).map(|index| table.get(index).unwrap().flags()).collect()
                });
                let (told, after) = on(machine, SizeChange::Flushed, look);
                for (slot, flags) in told.into_iter().enumerate() {
                    let expected = if slot == gone { Flags::NONE } else { Flags::ACCESSED };
                    assert_eq!(flags, expected);
                }
                assert_eq!(after.count.writes(), 0);
            }
        }
    }
}

#[test]
fn cont_07_under_the_lock_a_plain_page_has_its_own_flags_and_a_search_ends_when_all_are_found() {
    fn look(machine: &Machine, index: usize) -> (Flags, usize) {
        let look = act!((index: usize) |table| -> Flags { table.get(index).unwrap().flags() });
        let (told, after) = on(machine.clone(), SizeChange::Flushed, look);
        (told, after.count.loads)
    }
    for kind in KINDS {
        let n = kind.block();
        let used = |raw| kind.used(raw, Flags::ALL).unwrap();
        for carrier in [0, 5, n - 1] {
            let pages = Machine::blocks(kind, &[false]).with_memory(carrier, used);
            let block = Machine::blocks(kind, &[true]).with_memory(carrier, used);
            for index in 0..n {
                let expected = if index == carrier { Flags::ALL } else { Flags::NONE };
                assert_eq!(look(&pages, index), (expected, 1));
                assert_eq!(look(&block, index), (Flags::ALL, 1 + carrier + 1));
            }
        }
    }
}
