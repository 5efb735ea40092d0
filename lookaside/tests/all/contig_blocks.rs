//! CONT-01, 02, 05, 09, 10: what is a block, when it is broken, and what that costs.

use core::{ops::Range, sync::atomic::AtomicU64};

use crate::contig::hostile::act;
use crate::contig::hostile::{Act, KINDS, Kind, Machine, START, flush, on, raw};
use lookaside::{
    Error, VaRange,
    arch::aarch64::{AddressSize, Geometry, Granule},
    contig::{Access, Arm, Entries, Flags, Format, Full, Raw, Shape, SizeChange, Svnapot},
    platform::Word,
};

fn clear(slots: Range<usize>, full: Full) -> impl Act<Result<usize, Error>> {
    act!((slots: Range<usize>, full: Full) |table| -> Result<usize, Error> {
        table.clear(slots, full, &mut flush)
    })
}

fn set(slots: Range<usize>, first: u64) -> impl Act<Result<(), Error>> {
    act!((slots: Range<usize>, first: u64) |table| -> Result<(), Error> {
        table.set(slots, raw(first))
    })
}

fn fold(index: usize) -> impl Act<Result<bool, Error>> {
    act!((index: usize) |table| -> Result<bool, Error> { table.fold(index, &mut flush) })
}

fn unfold(index: usize) -> impl Act<Result<bool, Error>> {
    act!((index: usize) |table| -> Result<bool, Error> { table.unfold(index, &mut flush) })
}

fn used(kind: Kind, machine: &Machine, slot: usize) -> Machine {
    machine.with_memory(slot, |raw| kind.used(raw, Flags::ACCESSED).unwrap())
}

#[test]
fn cont_01_sizes_are_those_of_the_manuals() {
    let sizes = |shape: Shape| {
        (shape.page_bytes(), shape.block_pages(), shape.block_bytes(), shape.table_entries())
    };
    assert_eq!(sizes(Shape::arm(Granule::K4)), (4 << 10, 16, 64 << 10, 512));
    assert_eq!(sizes(Shape::arm(Granule::K16)), (16 << 10, 128, 2 << 20, 2048));
    assert_eq!(sizes(Shape::arm(Granule::K64)), (64 << 10, 32, 2 << 20, 8192));
    assert_eq!(sizes(Svnapot.shape()), (4 << 10, 16, 64 << 10, 512));
}

#[test]
fn cont_01_large_addresses_survive_folding() {
    for granule in [Granule::K4, Granule::K16, Granule::K64] {
        let arm = Arm::new(Geometry::new(granule, AddressSize::Bits52));
        let output = 0xf_1234_5680_0000 & !(arm.shape().block_bytes() - 1);
        let page = arm.at(Raw(0b11 | 1 << 51), output);
        assert_eq!(arm.output(page), output);
        assert_eq!(arm.unfold(arm.fold(page), 0), page);
        let next = arm.at(page, output + arm.shape().page_bytes());
        assert_eq!(arm.attributes(page), arm.attributes(next));
        assert_eq!(arm.output(next), output + arm.shape().page_bytes());
    }
    let arm = Arm::new(Geometry::new(Granule::K4, AddressSize::Bits48));
    assert!(arm.with_dirty_bit(58).is_ok());
    for bit in [0, 54, 59, 63, 64, u32::MAX] {
        assert!(arm.with_dirty_bit(bit).is_err());
    }
}

#[test]
fn cont_01_whole_blocks_are_marked_and_nothing_else() {
    for kind in KINDS {
        let n = kind.block();
        for (slots, shift) in [
            (0..3 * n, 0),
            (1..3 * n, 1),
            (0..n, 0),
            (n..2 * n, 0),
            (0..n - 1, 0),
            (n - 1..2 * n + 1, n - 1),
            // Where the address and the memory are not aligned alike, there is no block.
            (0..3 * n, 1),
        ] {
            let machine = Machine::new(kind, vec![0; 3 * n]);
            let first = kind.page((7 * n + shift) as u64);
            let aligned = slots.start % n == shift;
            let (result, after) = on(machine, SizeChange::Flushed, set(slots.clone(), first));
            after.assert_right();
            assert_eq!((result, after.count.flushes), (Ok(()), 0));
            for (slot, entry) in after.memory.iter().enumerate() {
                if !slots.contains(&slot) {
                    assert_eq!(*entry, 0);
                    continue;
                }
                let block = after.block_of(slot);
                let whole = slots.start <= block.start && block.end <= slots.end;
                assert_eq!(kind.is_folded(*entry), whole && aligned, "{kind:?} {slots:?} {slot}");
                let frame = 7 * n + shift + slot - slots.start;
                assert_eq!(kind.frame(*entry, slot), frame as u64);
                assert_eq!(kind.flags(*entry), Flags::NONE);
            }
        }
    }
}

#[test]
fn cont_02_a_change_of_size_is_flushed_unless_the_machine_says_otherwise() {
    use SizeChange::{Flushed, FlushedIfHeld, Free};
    for kind in KINDS {
        for folded in [false, true] {
            let new = Machine::blocks(kind, &[folded]);
            let old = used(kind, &new, 5);
            for (size_change, machine, flushes) in [
                (Flushed, new.clone(), 1),
                (Flushed, old.clone(), 1),
                // What has no access flag, an Arm CPU does not hold; a RISC-V hart may.
                (FlushedIfHeld, new.clone(), usize::from(!kind.is_arm())),
                (FlushedIfHeld, old.clone(), 1),
                (Free, new.clone().free(), 0),
                (Free, old.clone().free(), 0),
            ] {
                let (done, after) = if folded {
                    on(machine, size_change, unfold(9))
                } else {
                    on(machine, size_change, fold(9))
                };
                after.assert_right();
                assert_eq!((done, after.count.flushes), (Ok(true), flushes));
            }
        }
    }
}

/// The checker of this file does see a missing flush.
#[test]
fn cont_02_the_machine_notices_a_flush_that_is_missing() {
    for kind in KINDS {
        for folded in [false, true] {
            let machine = used(kind, &Machine::blocks(kind, &[folded]), 5);
            let (_, after) = if folded {
                on(machine, SizeChange::Free, unfold(0))
            } else {
                on(machine, SizeChange::Free, fold(0))
            };
            assert!(!after.wrong.is_empty());
        }
    }
}

#[test]
fn cont_02_the_flush_is_of_the_whole_block_between_taking_and_writing() {
    for kind in KINDS {
        let n = kind.block();
        let machine = Machine::blocks(kind, &[true, true]);
        let seen = act!((n: usize) |table| -> Vec<(u64, u64, usize)> {
            let mut seen = Vec::new();
            let entries = table.entries();
            let mut look = |range: VaRange| {
                let empty = (n..2 * n).filter(|i| !entries.get(*i).unwrap().is_present());
                seen.push((range.start(), range.pages(), empty.count()));
                flush(range);
            };
            table.unfold(n + 3, &mut look).unwrap();
            table.fold(n + 4, &mut look).unwrap();
            seen
        });
        let (seen, after) = on(machine, SizeChange::Flushed, seen);
        after.assert_right();
        let start = START + ((n as u64) << kind.page_shift());
        assert_eq!(seen, [(start, n as u64, n); 2]);
    }
}

#[test]
fn cont_05_only_the_blocks_that_are_cut_are_broken() {
    for kind in KINDS {
        let n = kind.block();
        for shapes in [[true; 3], [true, false, true], [false, true, false]] {
            let machine = used(kind, &Machine::blocks(kind, &shapes), n / 2);
            for start in 0..3 * n {
                for end in start + 1..=3 * n {
                    let near = |at: usize| at % n < 2 || at % n > n - 2 || at % n == n / 2;
                    if n > 16 && !(near(start) && near(end)) {
                        continue;
                    }
                    check_clear(&machine, start..end);
                }
            }
        }
    }
}

fn check_clear(machine: &Machine, slots: Range<usize>) {
    let kind = machine.kind;
    let (result, mut after) =
        on(machine.clone(), SizeChange::Flushed, clear(slots.clone(), Full::No));
    after.assert_right();
    assert_eq!(result, Ok(slots.len()));
    let mut broken = 0;
    for block in (0..3).map(|block| machine.block_of(block * kind.block())) {
        let touched = slots.start < block.end && block.start < slots.end;
        let whole = slots.start <= block.start && block.end <= slots.end;
        let folded = kind.is_folded(machine.memory[block.start]);
        let cut = folded && touched && !whole;
        broken += usize::from(cut);
        for slot in block {
            let (before, now) = (machine.memory[slot], after.memory[slot]);
            if slots.contains(&slot) {
                assert_eq!((now, after.written[slot]), (0, 1), "taken once");
            } else if cut {
                assert!(kind.is_valid(now) && !kind.is_folded(now));
                assert_eq!(kind.frame(now, slot), kind.frame(before, slot));
                assert_eq!(kind.is_writable(now), kind.is_writable(before));
            } else {
                assert_eq!((now, after.written[slot]), (before, 0), "left alone");
            }
        }
    }
    assert_eq!(after.count.flushes, broken);
    assert!(broken <= 2);
    // After the caller's flush nothing that went can be held, or come to be held again.
    let pages = slots.len() as u64;
    let start = START + ((slots.start as u64) << kind.page_shift());
    let shift = kind.page_shift();
    after.flush(VaRange::new(start, pages << shift, shift).unwrap());
    assert!(slots.clone().all(|slot| !after.holds(slot)), "{kind:?} {slots:?}");
}

#[test]
fn cont_05_a_block_across_two_areas_goes_in_two_halves() {
    for kind in KINDS {
        let n = kind.block();
        let machine = Machine::blocks(kind, &[true])
            .with_memory(n - 1, |raw| kind.used(raw, Flags::ALL).unwrap());
        let halves = act!((n: usize) |table| -> [(Flags, usize); 2] {
            [0..5, 5..n].map(|slots| {
                let cleared = table.get_and_clear(slots, Full::No, &mut flush).unwrap();
                (cleared.first.flags(), cleared.present)
            })
        });
        let (told, after) = on(machine, SizeChange::Flushed, halves);
        after.assert_right();
        // Either half may be the one that was written to.
        assert_eq!(told, [(Flags::ALL, 5), (Flags::ALL, n - 5)]);
        assert_eq!(after.count.flushes, 1);
        assert!(after.memory.iter().all(|raw| *raw == 0));
    }
}

#[test]
fn cont_05_ends_of_protection_are_unfolded_and_the_middle_is_not() {
    for kind in KINDS {
        let n = kind.block();
        for slots in [n / 2..2 * n + 3, 0..n, n..2 * n + 1, 3 * n - 1..3 * n, 0..3 * n, 2..5] {
            let which = slots.clone();
            let protect = act!((which: Range<usize>) |table| -> bool {
                table.write_protect(which, &mut flush).unwrap()
            });
            let (_, after) = on(Machine::blocks(kind, &[true; 3]), SizeChange::Flushed, protect);
            after.assert_right();
            for slot in 0..3 * n {
                let block = after.block_of(slot);
                let touched = slots.start < block.end && block.start < slots.end;
                let whole = slots.start <= block.start && block.end <= slots.end;
                assert_eq!(kind.is_folded(after.memory[slot]), whole || !touched);
            }
        }
    }
}

#[test]
fn cont_09_markers_go_into_empty_slots_and_break_nothing() {
    for kind in KINDS {
        let n = kind.block();
        let marker = kind.marker();
        let page = kind.page(1);
        let swap_out = act!((n: usize, marker: u64, page: u64) |table| -> usize {
            let _ = table.get_and_clear(3..n, Full::No, &mut flush).unwrap();
            for index in 3..n {
                table.set_absent(index, raw(marker)).unwrap();
                assert_eq!(table.get(index).unwrap().flags(), Flags::NONE);
                assert_eq!(table.get(index).unwrap().bits(), marker);
            }
            // Neither pages nor other markers are mistaken for one another.
            assert!(table.set_absent(0, raw(marker)).is_err());
            assert!(table.set_absent(3, raw(page)).is_err());
            table.set_absent(4, raw(0)).unwrap();
            // Nor are they disturbed by what is done around them.
            table.write_protect(0..n, &mut flush).unwrap();
            table.clear_flags(0..n, Flags::ALL).unwrap();
            assert_eq!(table.fold(0, &mut flush), Err(Error::EntryAbsent { index: 3 }));
            assert!(!table.unfold(3, &mut flush).unwrap());
            assert_eq!(
                table.set_access(5, Access::LOAD, &mut flush),
                Err(Error::EntryAbsent { index: 5 })
            );
            table.clear(n..2 * n, Full::No, &mut flush).unwrap()
        });
        let machine = Machine::blocks(kind, &[true, true]);
        let (cleared, after) = on(machine, SizeChange::Flushed, swap_out);
        after.assert_right();
        assert_eq!((cleared, after.count.flushes), (n, 1));
        for slot in 3..n {
            assert_eq!(after.memory[slot], if slot == 4 { 0 } else { marker });
        }
    }
}

/// A block in pieces, as no method of the library leaves one behind.
#[test]
fn cont_09_markers_inside_a_block_are_no_flags_and_survive() {
    for kind in KINDS {
        let machine = Machine::blocks(kind, &[true]).with_memory(6, |_| kind.marker());
        let marker = kind.marker();
        let look = act!((marker: u64) |table| -> usize {
            assert_eq!(table.get(2).unwrap().flags(), Flags::NONE);
            assert_eq!(table.clear_flags(0..1, Flags::ALL).unwrap(), Flags::NONE);
            table.unfold(2, &mut flush).unwrap();
            assert_eq!(table.get(6).unwrap().bits(), marker);
            let cleared = table.get_and_clear(0..16, Full::No, &mut flush).unwrap();
            assert_eq!(cleared.first.flags(), Flags::NONE);
            cleared.present
        });
        let (present, after) = on(machine, SizeChange::Flushed, look);
        after.assert_right();
        assert_eq!(present, 15);
    }
}

#[test]
fn cont_10_each_entry_is_touched_once_and_nothing_is_flushed() {
    for kind in KINDS {
        let entries = kind_shape(kind).table_entries();
        let blocks = vec![true; entries / kind.block()];
        let machine = Machine::blocks(kind, &blocks);
        let (cleared, after) = on(machine, SizeChange::Flushed, clear(0..entries, Full::No));
        assert_eq!(cleared, Ok(entries));
        assert_eq!((after.count.swaps, after.count.writes()), (entries, entries));
        assert!(after.count.loads <= 1 && after.count.flushes == 0);
        assert!(after.written.iter().all(|times| *times == 1));
    }
}

#[test]
fn cont_10_other_batches_are_linear_too() {
    for kind in KINDS {
        let n = kind.block();
        for blocks in [1, 4, 8] {
            let size = blocks * n;
            let machine = Machine::blocks(kind, &vec![true; blocks]);
            let protect = act!((size: usize) |table| -> bool {
                table.write_protect(0..size, &mut flush).unwrap()
            });
            let (_, after) = on(machine.clone(), SizeChange::Flushed, protect);
            assert_eq!(after.count.writes(), size);
            assert!(after.count.loads <= size && after.count.flushes == 0);
            let young = act!((size: usize) |table| -> bool {
                table.clear_accessed(0..size).unwrap()
            });
            let (_, after) = on(machine.clone(), SizeChange::Flushed, young);
            // Nothing was set, so nothing is written.
            assert_eq!((after.count.writes(), after.count.flushes), (0, 0));
            assert!(after.count.loads <= 2 * size);
            let machine = Machine::new(kind, vec![0; size]);
            let page = kind.page(8 * n as u64);
            let (_, after) = on(machine, SizeChange::Flushed, set(0..size, page));
            assert_eq!((after.count.writes(), after.count.loads), (size, size));
        }
    }
}

fn kind_shape(kind: Kind) -> Shape {
    match kind {
        Kind::K4 => Shape::ARM_4K,
        Kind::K16 => Shape::ARM_16K,
        Kind::K64 => Shape::ARM_64K,
        Kind::Napot => Shape::SVNAPOT,
    }
}

#[test]
fn refusals_change_nothing() {
    for kind in KINDS {
        let n = kind.block();
        let blocks = Machine::blocks(kind, &[false, true]);
        let page = blocks.memory[0];
        #[track_caller]
        fn refused<R: PartialEq + core::fmt::Debug>(
            machine: &Machine,
            act: impl Act<Result<R, Error>>,
            error: Error,
        ) {
            let (result, after) = on(machine.clone(), SizeChange::Flushed, act);
            assert_eq!(result, Err(error));
            assert_eq!((after.count.writes(), after.count.flushes), (0, 0));
            assert_eq!(after.memory, machine.memory);
        }
        let beyond = |end| Error::BeyondTable { end, entries: 2 * n };
        refused(&blocks, clear(n..2 * n + 1, Full::No), beyond(2 * n + 1));
        refused(&blocks, clear(3..3, Full::No), Error::EmptyRange);
        refused(&blocks, set(3..usize::MAX, page), beyond(usize::MAX));
        refused(&blocks, fold(2 * n), beyond(2 * n + 1));
        refused(&blocks, unfold(usize::MAX), beyond(usize::MAX));
        refused(&blocks, set(0..3, page), Error::EntryPresent { index: 0 });
        let empty = Machine::new(kind, vec![0; 2 * n]);
        refused(&empty, fold(1), Error::EntryAbsent { index: 0 });
        for bad in [0, kind.marker(), kind.folded(page)] {
            refused(&empty, set(0..3, bad), Error::NotAPage { entry: bad });
        }
        let top = if kind.is_arm() { 48 } else { 56 } - kind.page_shift();
        let last = kind.page((1 << top) - 1);
        let start = ((1 << top) - 1) << kind.page_shift();
        let bytes = 2 << kind.page_shift();
        refused(&empty, set(0..2, last), Error::OutputOverflow { start, bytes });
        // Blocks that are none.
        let strange = blocks.with_memory(4, |raw| kind.read_only(raw));
        refused(&strange, fold(1), Error::EntriesDisagree { index: 4 });
        let strange = blocks.with_memory(4, |_| kind.page(3));
        refused(&strange, fold(1), Error::EntriesDisagree { index: 4 });
        let strange = blocks.with_memory(4, |raw| kind.folded(raw));
        refused(&strange, fold(1), Error::EntriesDisagree { index: 4 });
        let shifted = (0..n as u64).map(|slot| kind.page(3 * n as u64 + 1 + slot)).collect();
        let output = (3 * n as u64 + 1) << kind.page_shift();
        refused(&Machine::new(kind, shifted), fold(1), Error::UnalignedOutput { output });
    }
}

#[test]
fn tables_that_are_none_are_refused() {
    let words = [const { AtomicU64::ZERO }; 513];
    let new = |count: usize, start| Entries::new(Svnapot, &words[..count], start).map(|_| ());
    assert_eq!(new(512, 0x20_0000), Ok(()));
    assert_eq!(new(16, 0x3f_0000), Ok(()));
    assert_eq!(new(16, 0xffff_ffff_ffff_0000), Ok(()));
    assert_eq!(new(0, 0x20_0000), Err(Error::EmptyRange));
    assert!(matches!(new(17, 0x20_0000), Err(Error::UnalignedRange { .. })));
    assert!(matches!(new(16, 0x20_1000), Err(Error::UnalignedRange { .. })));
    assert_eq!(new(513, 0x20_0000), Err(Error::BeyondTable { end: 513, entries: 512 }));
    assert_eq!(new(32, 0x3f_0000), Err(Error::BeyondTable { end: 528, entries: 512 }));
}
