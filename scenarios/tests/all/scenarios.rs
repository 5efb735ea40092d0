//! Scenarios as tests, each with a few million steps, and named after the requirement that it covers.
//! `cargo lab check` explores deeper, with two pre-emptions everywhere.

use core::time::Duration;

use lookaside_machine::{
    adversary::oracle,
    explore::{Budget, Report, Schedule},
};
use lookaside_scenarios::scenario::{self, Depth};

/// The steps of one scenario that is not explored in full: a fraction of a second.
const STEPS: u64 = 3_000_000;

/// The steps of one scenario with the allocator chosen at run time. With the same allocator named it is explored further.
const CHOSEN_STEPS: u64 = 300_000;

/// Explores every execution with so many pre-emptions, within the budget of steps.
fn within(name: &str, preemptions: u32) -> Report {
    let entry = scenario::find(name).expect("a scenario of this name");
    let report = entry.open().explore(Depth::Bounded(preemptions), Budget::steps(STEPS));
    assert!(report.failure.is_none(), "{name}: {:?}", report.failure);
    report
}

/// Explores these scenarios exhaustively; no rule may be broken.
#[track_caller]
fn proved(names: &[&str]) {
    for name in names {
        let entry = scenario::find(name).expect("a scenario of this name");
        entry.open().explore(entry.depth, Budget::UNLIMITED).assert_proved();
    }
}

/// Explores these scenarios with one pre-emption, and with two within the budget of steps; no rule may be
/// broken.
#[track_caller]
fn sound(names: &[&str]) {
    for name in names {
        within(name, 1).assert_proved();
        let _ = within(name, 2);
    }
}

#[test]
fn tour() {
    proved(&["tour"]);
}

#[test]
fn asid_07_switch_in_against_rollover_is_proved() {
    // Two CPUs switch to the same space; a page is unmapped during a rollover; the last epoch begins.
    sound(&["together-arm", "unmap-arm", "unmap-riscv", "last-arm"]);
}

#[test]
fn asid_09_three_epochs_with_three_tags() {
    sound(&["rollover-arm", "rollover-riscv", "stays-arm"]);
    sound(&["rollover-arm-cnp", "stays-arm-cnp"]);
    // The scenario is not vacuous: the third epoch is reached in every order.
    let reached = within("rollover-arm", 2).outcomes;
    assert!(reached.iter().all(|&epoch| epoch >= 3), "{reached:?}");
}

#[test]
fn asid_09_a_space_leaves_its_tag_when_no_register_names_it() {
    sound(&["ended-arm", "ended-riscv"]);
    sound(&["flush-older-table-arm", "flush-older-table-x86", "flush-older-twice-arm"]);
    sound(&["flush-older-table-riscv", "flush-older-table-riscv-interrupts"]);
}

#[test]
fn asid_10_release_pin_park_and_firmware_during_rollovers() {
    sound(&["release-arm", "pin-arm", "park-arm", "firmware-arm", "restart-arm"]);
    sound(&["release-arm-cnp", "park-arm-cnp", "last-arm-cnp"]);
    sound(&["release-left-arm", "release-absent-arm"]);
}

#[test]
fn pcid_02_slots_hold_entries_of_their_space_only() {
    proved(&["recent-slots"]);
    sound(&["recent-unmap-no-invpcid", "recent-unmap-no-pcid"]);
}

#[test]
fn pcid_04_switch_in_against_flush_with_store_buffers() {
    sound(&["recent-unmap", "recent-unmap-riscv", "recent-leave", "recent-leave-riscv"]);
    sound(&["recent-park", "recent-firmware"]);
}

#[test]
fn pcid_06_lazy_cpus_catch_up_and_are_interrupted_for_tables() {
    sound(&["recent-lazy", "recent-lazy-riscv"]);
    sound(&["recent-lazy-table", "recent-lazy-table-no-pcid", "recent-lazy-table-riscv"]);
    // A lazy CPU is interrupted once, and keeps its root register if it is in a firmware call.
    proved(&["recent-lazy-once"]);
    sound(&["recent-lazy-firmware"]);
    sound(&["recent-lazy-several"]);
}

#[test]
fn pcid_08_spaces_in_other_slots_are_never_used_stale() {
    sound(&["recent-away", "recent-twice", "recent-crossfire"]);
}

#[test]
fn local_02_absent_cpus_flush_on_switch_in() {
    sound(&["flush-migrated-arm", "flush-back-arm", "flush-back-riscv", "flush-back-x86"]);
    sound(&["flush-third-arm", "flush-turn-arm", "flush-last-arm"]);
    sound(&["flush-turned-arm", "flush-short-arm"]);
}

#[test]
fn local_03_marking_absent_against_switch_in() {
    sound(&["flush-back-arm-cnp", "flush-stranger-riscv", "flush-back-recent"]);
    sound(&["flush-left-riscv-interrupts", "flush-turn-riscv-interrupts"]);
}

#[test]
fn local_05_lazy_cpus_devices_and_firmware() {
    sound(&["flush-lazy-arm", "flush-lazy-riscv", "flush-lazy-x86-interrupts"]);
    sound(&["flush-pinned-arm", "flush-restart-recent", "fresh-pinned-arm"]);
    sound(&["heard-arm"]);
    sound(&["heard-fresh-arm"]);
}

#[test]
fn local_08_no_walk_cache_keeps_a_table_that_was_freed() {
    sound(&["flush-table-arm", "flush-table-riscv", "flush-decay-arm", "flush-older-table-arm"]);
    sound(&["fresh-former-table-arm"]);
    sound(&["flush-leave-riscv-interrupts", "flush-lazy-table-arm", "fresh-table-arm"]);
}

#[test]
fn local_09_pending_flushes_of_others_are_not_relied_on() {
    sound(&["relies-arm", "relies-recent", "given-up-arm", "given-up-late-arm"]);
    sound(&["batch-arm", "batch-recent", "batch-zap-arm", "batch-handed-x86"]);
}

#[test]
fn local_01_a_migrated_process_flushes_locally() {
    // On these machines a broadcast or an interrupt for a flush is a failure.
    proved(&["quiet-arm", "quiet-riscv", "quiet-riscv-interrupts", "quiet-x86", "quiet-recent"]);
}

#[test]
fn local_01_retagging_replaces_a_flush() {
    sound(&["fresh-both-arm", "fresh-both-riscv", "fresh-both-x86", "fresh-turn-arm"]);
    sound(&["fresh-back-arm", "fresh-back-riscv-interrupts", "fresh-back-x86", "fresh-last-arm"]);
    sound(&["fresh-crossfire-arm", "fresh-former-arm", "fresh-former-riscv", "fresh-pins-arm"]);
    sound(&["fresh-shared-arm-cnp", "fresh-stranger-arm-cnp", "fresh-lazies-arm-cnp"]);
}

#[test]
fn flag_02_initiators_do_not_wait_for_each_other() {
    sound(&["crossfire-recent", "crossfire-riscv-interrupts"]);
    sound(&["two-spaces-recent", "merged-recent", "merged-riscv"]);
}

#[test]
fn flag_02_one_catch_up_serves_all_pending_requests() {
    sound(&["merged-recent", "merged-riscv", "crossfire-recent", "called-left-riscv"]);
    sound(&[
        "called-left-recent",
        "called-down-recent",
        "called-gone-recent",
        "called-gone-arm-recent",
    ]);
    sound(&["merged-late-recent", "called-late-recent", "called-next-no-pcid"]);
}

#[test]
fn flag_04_early_acknowledgement_ends_every_use() {
    sound(&["early-riscv-interrupts", "early-recent-riscv"]);
}

#[test]
fn flag_07_kernel_flushes_reach_cpus_that_go_offline_and_online() {
    sound(&["kernel-arm", "kernel-recent", "kernel-up-recent", "kernel-down-recent"]);
    sound(&["kernel-up-riscv-interrupts"]);
}

#[test]
fn pcid_04_nmis_access_user_memory_only_where_allowed() {
    let of_nmis = scenario::all().filter(|entry| entry.name.starts_with("nmi-"));
    let mut count = 0;
    for entry in of_nmis {
        within(entry.name, 1).assert_proved();
        let report = within(entry.name, 2);
        // None of them is vacuous. In the last epoch the answer is always no.
        let may = report.seen.contains("an NMI that may touch user memory");
        assert_eq!(may, entry.name != "nmi-x86-last", "{}", entry.name);
        let must_not = "an NMI that must leave user memory alone";
        assert!(report.seen.contains(must_not), "{}", entry.name);
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn cached_absent_entries_do_not_stop_progress() {
    for name in ["filled-riscv", "filled-recent", "filled-back-riscv", "filled-arm"] {
        let entry = scenario::find(name).expect("a scenario of this name");
        let report = entry.open().explore(entry.depth, Budget::UNLIMITED);
        report.assert_proved();
        assert!(report.seen.contains("a fault that was spurious"), "{name}");
    }
    sound(&["filled-riscv-interrupts"]);
}

#[test]
fn acquires_matter_with_early_loads() {
    // Loads may be satisfied early. The mutants in `mutants/loads.toml` are found here.
    sound(&["rollover-riscv-early", "meet-arm-early", "unmap-arm-early", "release-arm-early"]);
    sound(&["recent-unmap-riscv-early", "recent-leave-riscv-early", "recent-note-riscv-early"]);
    sound(&["flush-back-arm-early", "flush-table-arm-early", "fresh-table-riscv-early"]);
    sound(&["crossfire-riscv-early", "relies-arm-early"]);
    sound(&["swapped-arm-early", "swapped-riscv-early", "swapped-recent-early"]);
    sound(&["swapped-left-early", "given-up-arm-early"]);
    sound(&["asked-twice-riscv-early", "kernel-up-riscv-early"]);
    sound(&["called-left-riscv-early", "swapped-beside-riscv-early"]);
    sound(&["swapped-beside-recent-early", "swapped-beside-left-early"]);
}

#[test]
fn three_cpus_at_random() {
    proved(&["rollover-three-cpus", "rollover-three-cpus-cnp", "recent-crowd"]);
}

#[test]
fn a_kernel_in_c_uses_no_stale_translation() {
    let in_c: Vec<_> = scenario::all().filter(|entry| entry.name.starts_with("c-")).collect();
    assert!(in_c.len() > 60, "{}", in_c.len());
    for entry in in_c {
        within(entry.name, 1).assert_proved();
    }
    // Waits are waited for, and faults are spurious.
    for begun in ["c-begun-x86", "c-begun-riscv", "c-closed-x86", "c-kernel-begun-riscv"] {
        assert!(within(begun, 2).seen.contains("a flush that was waited for"), "{begun}");
    }
    for fault in ["c-allow-riscv", "c-allow-arm", "c-fill-riscv"] {
        assert!(within(fault, 2).seen.contains("a fault that was spurious"), "{fault}");
    }
}

#[test]
fn every_scenario_is_found_by_its_name_and_replays_its_default_schedule() {
    for entry in scenario::all() {
        assert!(scenario::find(entry.name).is_some());
        let replayed = entry.open().replay(&Schedule::default_of(entry.name)).expect("a schedule");
        assert!(replayed.is_none(), "{}", entry.name);
    }
}

#[test]
fn budgets_are_kept_and_reported() {
    let entry = scenario::find("rollover-arm").expect("a scenario of this name");
    let report = entry.open().explore(Depth::Exhaust, Budget::time(Duration::ZERO));
    assert!(!report.complete);
}

#[test]
fn scenarios_of_retagging_retag() {
    // A space whose tag is pinned, or is another space's by now, gets no other.
    let stays = ["fresh-pinned-arm", "fresh-foreign-arm", "fresh-foreign-x86"];
    let fresh = scenario::all()
        .filter(|entry| entry.name.starts_with("fresh-") && !stays.contains(&entry.name));
    for entry in fresh {
        let report = within(entry.name, 2);
        assert!(report.seen.contains("a fresh tag"), "{}: {:?}", entry.name, report.seen);
    }
}

#[test]
fn no_scenario_is_empty() {
    // A scenario without claims would be clean with any library. That the claims can be violated is shown
    // by the mutant that stands beside each scenario in `mutants/teeth.toml`.
    for entry in scenario::all() {
        let few = Budget::schedules(200);
        let report = entry.open().explore(Depth::Bounded(1), few);
        assert!(report.seen.contains(oracle::CLAIM), "{}: nothing is claimed", entry.name);
    }
}

#[test]
fn early_acknowledged_pages_are_relied_on_after_invalidation() {
    sound(&["early-gone-recent", "early-gone-arm-interrupts", "early-gone-riscv-interrupts"]);
    sound(&["early-gone-elsewhere-recent", "early-zap-recent", "early-zap-riscv-interrupts"]);
    sound(&["early-zap-batch-recent", "early-zap-both-recent", "early-other-recent"]);
    sound(&["early-table-recent", "early-lazy-recent", "early-away-recent", "early-twice-recent"]);
    sound(&["early-two-rely-recent", "given-up-twice-recent", "batch-later-recent"]);
    sound(&["batch-visible-recent", "batch-visible-riscv-interrupts"]);
}

#[test]
fn a_space_in_which_a_cpu_halted_is_released() {
    sound(&["halted-arm", "halted-last-arm", "recent-halted"]);
    sound(&["halted-back-arm", "halted-turned-arm", "halted-turned-riscv-interrupts"]);
}

#[test]
fn a_large_page_is_not_flushed_with_a_level_hint_for_small_ones() {
    sound(&["recent-large-arm", "recent-large"]);
}

#[test]
fn firmware_is_called_on_hardware_without_tags() {
    sound(&["recent-firmware-no-pcid"]);
}

#[test]
fn stores_of_user_code_are_done_when_a_flush_is_complete_on_every_architecture() {
    proved(&["user-arm", "user-x86", "user-riscv-sbi"]);
    sound(&["user-riscv", "user-recent"]);
    proved(&["user-others-riscv-sbi", "user-others-arm", "user-others-x86"]);
}

#[test]
fn scenarios_without_a_promise_of_the_platform_fail() {
    for entry in &scenario::RELIED_ON {
        let report = entry.open().explore(entry.depth, Budget::UNLIMITED);
        assert!(report.failure.is_some(), "{} is clean without what it relies on", entry.name);
    }
}

#[test]
fn the_allocator_that_is_chosen_at_run_time_is_sound_in_every_scenario() {
    let mut count = 0;
    for entry in scenario::all() {
        let Some(mut chosen) = entry.open_chosen() else { continue };
        // A space that gets another tag while it is flushed takes two pre-emptions.
        let (depth, steps) = match entry.name.starts_with("fresh-") {
            true => (Depth::Bounded(2), STEPS),
            false => (Depth::Bounded(1), CHOSEN_STEPS),
        };
        let report = chosen.explore(depth, Budget::steps(steps));
        assert!(report.failure.is_none(), "{} with `Asids`: {:?}", entry.name, report.failure);
        assert!(report.seen.contains(oracle::CLAIM), "{}: nothing is claimed", entry.name);
        count += 1;
    }
    assert!(count > 300, "{count}");
}
