//! CONT-03, 04, 08: what was not asked for stays as it is, in the pages beside and in the page itself.

use core::ops::Range;

use crate::contig::hostile::act;
use crate::contig::hostile::{KINDS, Kind, Machine, flush, on};
use lookaside::{
    Error,
    arch::aarch64::descriptor::{DIRTY_BIT_MODIFIER, READ_ONLY},
    contig::{Access, Flags, Full, SizeChange},
};

/// Two blocks, the first of them plain pages, each of which was written to.
fn written(kind: Kind) -> Machine {
    let memory = Machine::blocks(kind, &[false, true]).memory;
    Machine::new(kind, memory.iter().map(|raw| kind.used(*raw, Flags::ALL).unwrap()).collect())
}

#[track_caller]
fn assert_untouched(before: &Machine, after: &Machine, mut slots: Range<usize>) {
    after.assert_right();
    assert!(
        slots.all(|slot| (after.memory[slot], after.written[slot]) == (before.memory[slot], 0))
    );
}

#[test]
fn cont_04_plain_pages_beside_those_that_lose_a_flag_keep_theirs() {
    for kind in KINDS {
        let n = kind.block();
        let clear = act!(() |table| -> Flags { table.clear_flags(3..5, Flags::ALL).unwrap() });
        let machine = written(kind);
        let (told, after) = on(machine.clone(), SizeChange::Flushed, clear);
        assert_eq!(told, Flags::ALL);
        assert_eq!(after.all_visible()[3..5], [Flags::NONE; 2]);
        assert_untouched(&machine, &after, 0..3);
        assert_untouched(&machine, &after, 5..2 * n);
    }
}

#[test]
fn cont_04_clean_pages_are_clean_when_they_are_protected() {
    for kind in KINDS {
        let machine = Machine::blocks(kind, &[false, true])
            .with_memory(3, |raw| kind.used(raw, Flags::ALL).unwrap());
        let visible = machine.all_visible();
        let protect = act!(() |table| -> bool {
            let n = table.entries().len();
            table.write_protect(0..n, &mut flush).unwrap()
        });
        let (changed, after) = on(machine, SizeChange::Flushed, protect);
        after.assert_right();
        assert!(changed && after.memory.iter().all(|raw| !kind.is_writable(*raw)));
        assert_eq!(after.all_visible(), visible);
    }
}

#[test]
fn cont_04_an_absent_first_page_gets_no_flags_of_the_others_and_hides_none() {
    for kind in KINDS {
        let machine = written(kind).with_memory(2, |_| kind.marker());
        let take = act!(() |table| -> (u64, Flags, Flags, usize) {
            let cleared = table.get_and_clear(2..5, Full::No, &mut flush).unwrap();
            assert!(!cleared.first.is_present());
            (cleared.first.bits(), cleared.first.flags(), cleared.flags, cleared.present)
        });
        let (told, after) = on(machine, SizeChange::Flushed, take);
        after.assert_right();
        assert_eq!(told, (kind.marker(), Flags::NONE, Flags::ALL, 2));
    }
}

#[test]
fn cont_03_what_is_a_block_is_folded_no_second_time_and_pages_are_unfolded_none() {
    for kind in KINDS {
        let n = kind.block();
        let machine = written(kind);
        let act = act!((n: usize) |table| -> [bool; 2] {
            [table.fold(n + 3, &mut flush).unwrap(), table.unfold(3, &mut flush).unwrap()]
        });
        let (done, after) = on(machine.clone(), SizeChange::Flushed, act);
        assert_eq!((done, after.count.flushes), ([false; 2], 0));
        assert_untouched(&machine, &after, 0..2 * n);
    }
}

#[test]
fn cont_08_a_load_that_faults_is_given_no_permission_to_store() {
    for kind in KINDS {
        let memory = Machine::blocks(kind, &[true]).memory;
        let memory = memory.iter().map(|raw| kind.read_only(*raw)).collect();
        let repair = act!(() |table| -> [bool; 2] {
            let mut repair = || table.set_access(3, Access::LOAD, &mut flush).unwrap();
            [repair(), repair()]
        });
        let (changed, after) = on(Machine::new(kind, memory), SizeChange::Flushed, repair);
        after.assert_right();
        assert_eq!((changed, after.count.flushes), ([true, false], 0));
        for raw in &after.memory {
            assert!(kind.is_folded(*raw) && !kind.is_writable(*raw));
            assert_eq!(kind.flags(*raw), Flags::ACCESSED);
        }
    }
}

#[test]
fn cont_08_a_page_that_takes_any_store_has_nothing_to_be_repaired() {
    for kind in KINDS {
        // On Arm, one that hardware does not watch: nobody could tell whether it is dirty.
        let unwatched = |raw: u64| if kind.is_arm() { raw & !DIRTY_BIT_MODIFIER } else { raw };
        let machine = written(kind).with_memory(3, unwatched);
        assert!(!kind.is_arm() || machine.memory[3] & READ_ONLY == 0);
        let repair = act!(() |table| -> bool {
            table.set_access(3, Access::STORE, &mut flush).unwrap()
        });
        let (changed, after) = on(machine.clone(), SizeChange::Flushed, repair);
        assert!(!changed);
        assert_untouched(&machine, &after, 0..2 * kind.block());
    }
}

#[test]
fn cont_04_a_page_that_is_clean_again_may_still_be_written_to() {
    for kind in KINDS {
        // As above: neither hardware nor a flag of the kernel's says that stores are permitted, but that it takes them.
        let unwatched = |raw: u64| if kind.is_arm() { raw & !DIRTY_BIT_MODIFIER } else { raw };
        let machine = written(kind).with_memory(3, unwatched);
        let clear = act!(() |table| -> bool { table.clear_dirty(3..4).unwrap() });
        let (told, after) = on(machine, SizeChange::Flushed, clear);
        assert!(told && kind.is_writable(after.memory[3]) && !kind.stores_freely(after.memory[3]));
    }
}

#[test]
fn cont_07_a_plain_page_is_read_as_it_stands_wherever_it_leads() {
    for kind in KINDS {
        let elsewhere = kind.page(3);
        let machine = Machine::blocks(kind, &[false]).with_memory(4, |_| elsewhere);
        let look = act!(() |table| -> u64 { table.get(4).unwrap().bits() });
        let (told, _) = on(machine, SizeChange::Flushed, look);
        assert_eq!(told, elsewhere);
    }
}

#[test]
fn cont_03_a_page_without_the_right_to_be_written_is_in_no_block_with_others() {
    for kind in KINDS.into_iter().filter(|kind| kind.is_arm()) {
        // Where hardware does not set the dirty bit, *read-only* is what the kernel means by it.
        let memory = Machine::blocks(kind, &[false]).memory;
        let plain = memory.iter().map(|raw| raw & !(DIRTY_BIT_MODIFIER | READ_ONLY)).collect();
        let machine = Machine::new(kind, plain).with_memory(4, |raw| raw | READ_ONLY);
        let fold = act!(() |table| -> Result<bool, Error> { table.fold(1, &mut flush) });
        let (told, after) = on(machine.clone(), SizeChange::Flushed, fold);
        assert_eq!(told, Err(Error::EntriesDisagree { index: 4 }));
        assert_untouched(&machine, &after, 0..kind.block());
    }
}
