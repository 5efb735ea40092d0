use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::tests::{Busy, keep, meanwhile};

fn page(start: u64) -> VaRange {
    VaRange::new(start, 4096, 12).unwrap()
}

#[test]
fn requests_survive_the_packing() {
    let pages = |start, pages: u64, shift| VaRange::new(start, pages << shift, shift).unwrap();
    for range in [pages(0, 1, 12), pages(1 << 47, 512, 21), pages(!0 << 30, 1, 30)] {
        for uniform in [true, false] {
            let range = if uniform { range } else { range.mixed() };
            assert_eq!(VaRange::from_words(range.to_words()), Some(range));
        }
    }
}

#[test]
fn scope_and_table_change_are_read_as_requested() {
    let initiator = DescribedRequest::<AtomicU64>::NEW;
    let space = FlushScope::AddressSpace { context: 7, first: 9, last: 9 };
    for scope in [space, FlushScope::Kernel, FlushScope::EverySpace] {
        for change in [TableChange::LastLevel, TableChange::FreedTables] {
            let mut ranges = FlushRanges::new();
            ranges.add(page(0x5000));
            ranges.add_change(change);
            initiator.describe(&FlushRequest { scope, ranges: &ranges, early: true });
            let read = initiator.read();
            assert_eq!((read.scope, read.ranges.change()), (scope, change));
            assert_eq!(
                read.early,
                change == TableChange::LastLevel,
                "nobody answers early if a table goes"
            );
        }
    }
}

#[test]
fn a_request_that_is_written_while_it_is_read_is_not_believed() {
    let initiator = keep(DescribedRequest::<Busy>::NEW);
    let scope = FlushScope::AddressSpace { context: 7, first: 9, last: 9 };
    let serial = &initiator.serial;
    let read = |context, generation| initiator.read_flush(context, generation).is_some();
    let mut ranges = FlushRanges::new();
    ranges.add(page(0x5000));
    initiator.describe(&FlushRequest { scope, ranges: &ranges, early: false });
    assert!(read(7, 9) && !read(7, 8) && !read(8, 9));
    // The next one was begun before it was looked at, and is not finished.
    serial.fetch_add(1, Relaxed);
    assert!(!read(7, 9));
    // The next one was begun, and may be finished, between the two looks.
    for added in [1, 2] {
        serial.fetch_add(1, Relaxed);
        serial.fetch_and(!1, Relaxed);
        let next = move || _ = serial.fetch_add(added, Relaxed);
        assert!(!meanwhile(2, next, || read(7, 9)));
    }
}
