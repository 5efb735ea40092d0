//! Each kind of finding: the smallest run that has it, and the same run with its fence, which is quiet.

mod kit;

use kit::{Machine, USER};
use lookaside_hardware::arm::TlbiKind;
use lookaside_watch::{Criterion, Mode};

#[test]
fn a_page_that_is_mapped_anew_without_a_fence_is_a_wrong_frame() {
    for fenced in [false, true] {
        let mut machine = Machine::riscv(2);
        machine.run(1, 0, 7);
        machine.map(0, 0, 5, 0x20, !USER);
        assert_eq!(machine.touch(1, 5).unwrap().frame, 0x20);
        machine.unmap(0, 0, 5);
        if fenced {
            machine.sfence(1, Some(5), Some(7));
        }
        machine.map(0, 0, 5, 0x21, !USER);
        machine.touch(1, 5);
        assert_eq!(machine.found(), if fenced { vec![] } else { vec![Criterion::WrongFrame] });
        if !fenced {
            let finding = &machine.shadow.findings()[0];
            assert_eq!((finding.held, finding.now), (0x20, Some(0x21)));
            assert_eq!(finding.revoked.unwrap().slot, Machine::slot(0, 5));
            let missing = finding.missing.as_ref().unwrap();
            assert_eq!(missing.instruction, "sfence.vma of page 0x5000 and ASID 7");
            assert_eq!(missing.on, Some(1));
        }
    }
}

#[test]
fn a_fence_of_another_cpu_page_or_tag_is_none() {
    for (cpu, page, tag) in [(0, 5, 7), (1, 6, 7), (1, 5, 8)] {
        let mut machine = Machine::riscv(2);
        machine.run(1, 0, 7);
        machine.map(0, 0, 5, 0x20, !USER);
        machine.touch(1, 5);
        machine.unmap(0, 0, 5);
        machine.sfence(cpu, Some(page), Some(tag));
        machine.map(0, 0, 5, 0x21, !USER);
        machine.touch(1, 5);
        assert_eq!(machine.found(), [Criterion::WrongFrame]);
    }
}

#[test]
fn a_fence_that_is_ignored_is_counted_and_does_nothing() {
    let mut machine = Machine::riscv(1);
    machine.shadow.ignore(0x40);
    machine.run(0, 0, 7);
    machine.map(0, 0, 5, 0x20, !USER);
    machine.touch(0, 5);
    machine.unmap(0, 0, 5);
    machine.sfence(0, None, None);
    machine.map(0, 0, 5, 0x21, !USER);
    machine.touch(0, 5);
    assert_eq!(machine.found(), [Criterion::WrongFrame]);
    let (_, _, site) = machine.shadow.sites().next().unwrap();
    assert!(site.ignored && site.executed == 1 && site.removed == 0);
}

#[test]
fn an_entry_cleared_and_restored_was_never_revoked() {
    let mut machine = Machine::riscv(1);
    machine.run(0, 0, 7);
    machine.map(0, 0, 5, 0x20, !USER);
    machine.touch(0, 5);
    machine.unmap(0, 0, 5);
    machine.map(0, 0, 5, 0x20, !USER);
    machine.touch(0, 5);
    assert_eq!(machine.found(), []);
    assert_eq!(machine.shadow.revoked_now(), 0);
    assert_eq!(machine.shadow.counts().restored, 1);
}

#[test]
fn a_page_of_a_process_is_judged_when_its_revoker_has_returned() {
    for returned in [false, true] {
        let mut machine = Machine::riscv(2);
        machine.mode(0, Mode::User, 0);
        machine.run(1, 0, 7);
        machine.map(0, 0, 5, 0x20, USER);
        machine.touch(1, 5);
        machine.unmap(0, 0, 5);
        machine.map(0, 0, 5, 0x21, USER);
        if returned {
            machine.mode(0, Mode::User, 0);
        }
        machine.touch(1, 5);
        let wrong = machine.found().contains(&Criterion::WrongFrame);
        assert_eq!(wrong, returned);
        assert_eq!(machine.shadow.counts().overlaps, u64::from(!returned));
    }
}

#[test]
fn a_frame_that_is_used_again_while_a_process_may_reach_it_is_handed_on() {
    for fenced in [false, true] {
        let mut machine = Machine::riscv(2);
        machine.mode(0, Mode::User, 0);
        machine.run(1, 0, 7);
        machine.mode(1, Mode::User, 1);
        machine.map(0, 0, 5, 0x20, USER);
        machine.touch(1, 5);
        machine.unmap(0, 0, 5);
        if fenced {
            machine.sfence(1, Some(5), Some(7));
        }
        // Still at work: it may clear the page before it flushes.
        machine.store(0, Some(0), 0x20_000, 1);
        assert!(!machine.found().contains(&Criterion::FrameHandedOn));
        machine.mode(0, Mode::User, 0);
        machine.store(0, Some(2), 0x20_000, 1);
        let found = machine.found();
        assert_eq!(found.contains(&Criterion::FrameHandedOn), !fenced);
        assert_eq!(found.contains(&Criterion::UnfencedReturn), !fenced);
    }
}

#[test]
fn a_table_that_is_freed_needs_more_than_a_fence_of_pages() {
    for (page, expected) in [(Some(5), vec![Criterion::FreedTable]), (None, vec![])] {
        let mut machine = Machine::riscv(2);
        machine.mode(0, Mode::User, 0);
        machine.run(1, 0, 7);
        machine.map(0, 0, 5, 0x20, USER);
        machine.touch(1, 5);
        machine.unmap(0, 0, 5);
        machine.store(0, Some(0), Machine::upper(0), 0);
        machine.sfence(1, page, Some(7));
        machine.mode(0, Mode::User, 0);
        // Its page has another use now.
        machine.store(0, Some(2), Machine::table(0) << 12, 0x1235);
        assert_eq!(machine.found(), expected);
    }
}

#[test]
fn a_tag_that_two_roots_have_is_given_away() {
    for fenced in [false, true] {
        let mut machine = Machine::riscv(1);
        machine.map(0, 0, 5, 0x20, USER);
        machine.map(0, 1, 5, 0x21, USER);
        machine.run(0, 0, 7);
        machine.touch(0, 5);
        machine.run(0, 1, 7);
        if fenced {
            machine.sfence(0, None, Some(7));
        }
        machine.touch(0, 5);
        assert_eq!(machine.found(), if fenced { vec![] } else { vec![Criterion::TagGivenAway] });
    }
}

#[test]
fn a_tlbi_removes_nothing_before_the_dsb() {
    for completed in [false, true] {
        let mut machine = Machine::arm(2);
        machine.run(1, 0, 7);
        machine.map(0, 0, 5, 0x20, !USER);
        machine.touch(1, 5);
        machine.unmap(0, 0, 5);
        machine.tlbi(0, TlbiKind::Val, 5, 7);
        if completed {
            machine.shadow.complete(&machine.memory, 0, true);
        }
        machine.map(0, 0, 5, 0x21, !USER);
        machine.touch(1, 5);
        let unfinished = machine.found().contains(&Criterion::UnfinishedFence);
        assert_eq!(unfinished, !completed);
        assert_eq!(machine.found().is_empty(), completed);
    }
}

#[test]
fn a_valid_entry_over_a_valid_one_breaks_no_rule_but_arms() {
    let mut machine = Machine::arm(1);
    machine.run(0, 0, 7);
    machine.map(0, 0, 5, 0x20, !USER);
    machine.touch(0, 5);
    machine.map(0, 0, 5, 0x21, !USER);
    assert_eq!(machine.found(), [Criterion::BreakBeforeMake]);
    let mut machine = Machine::riscv(1);
    machine.run(0, 0, 7);
    machine.map(0, 0, 5, 0x20, !USER);
    machine.touch(0, 5);
    machine.map(0, 0, 5, 0x21, !USER);
    assert_eq!(machine.found(), []);
}

#[test]
fn entries_held_under_a_former_tag_need_no_break() {
    let mut machine = Machine::arm(1);
    machine.run(0, 0, 7);
    machine.map(0, 0, 5, 0x20, !USER);
    machine.touch(0, 5);
    machine.run(0, 0, 8);
    machine.map(0, 0, 5, 0x21, !USER);
    machine.touch(0, 5);
    assert_eq!(machine.found(), []);
}

#[test]
fn entries_of_a_space_that_a_cpu_has_left_need_no_break() {
    for left in [true, false] {
        let mut machine = Machine::arm(2);
        machine.run(0, 0, 7);
        machine.run(1, 0, 7);
        machine.map(0, 0, 5, 0x20, !USER);
        machine.touch(1, 5);
        if left {
            machine.run(1, 1, 8);
        }
        machine.map(0, 0, 5, 0x21, !USER);
        let expected: &[Criterion] = if left { &[] } else { &[Criterion::BreakBeforeMake] };
        assert_eq!(machine.found(), expected);
    }
}

#[test]
fn what_nobody_has_used_is_found_only_where_it_is_permitted() {
    let remap = |mut machine: Machine, fenced| {
        machine.run(1, 0, 7);
        machine.map(0, 0, 5, 0x20, !USER);
        machine.unmap(0, 0, 5);
        if fenced {
            machine.sfence(1, Some(5), None);
        }
        machine.map(0, 0, 5, 0x21, !USER);
        machine.touch(1, 5);
        machine.found()
    };
    assert_eq!(remap(Machine::riscv(2), false), []);
    assert_eq!(remap(Machine::permitted(2), false), [Criterion::PermittedOnly]);
    assert_eq!(remap(Machine::permitted(2), true), []);
}

#[test]
fn a_fence_before_the_store_removes_what_can_be_walked_to_again() {
    for (early, expected) in [(true, vec![Criterion::PermittedOnly]), (false, vec![])] {
        let mut machine = Machine::permitted(1);
        machine.run(0, 0, 7);
        machine.map(0, 0, 5, 0x20, !USER);
        if early {
            machine.sfence(0, None, None);
        }
        machine.unmap(0, 0, 5);
        if !early {
            machine.sfence(0, None, None);
        }
        machine.map(0, 0, 5, 0x21, !USER);
        machine.touch(0, 5);
        assert_eq!(machine.found(), expected);
    }
}
