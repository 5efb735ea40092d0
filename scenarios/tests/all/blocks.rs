//! Blocks on the adversarial machine: each test is a list of scenarios that are explored in full, or
//! as far as they say, within seconds. That they are not vacuous is shown by `mutants/contig.toml`.

use lookaside_machine::explore::Budget;
use lookaside_scenarios::scenario;

/// Explores these scenarios as deep as they state; no rule may be broken.
#[track_caller]
fn proved(names: &[&str]) {
    for name in names {
        let entry = scenario::find(name).expect("a scenario of this name");
        entry.open().explore(entry.depth, Budget::UNLIMITED).assert_proved();
    }
}

#[test]
fn cont_02_sizes_change_with_a_break_where_one_is_needed() {
    proved(&["block-unfold-arm", "block-both-arm", "block-both-riscv"]);
    // Without one where the machine is said to need none.
    proved(&["block-unfold-arm-free", "block-unfold-riscv-free", "block-fold-riscv-free"]);
    // And where nothing can be held.
    proved(&["block-part-arm-held"]);
}

#[test]
fn cont_03_no_flag_is_lost_while_hardware_sets_them_in_any_entry() {
    proved(&["block-unmap-arm", "block-unmap-fresh-arm", "block-unmap-riscv"]);
    proved(&["block-age-arm", "block-age-riscv", "block-clean-arm", "block-clean-riscv"]);
    proved(&["block-protect-arm", "block-protect-riscv"]);
    proved(&["block-protect-part-arm", "block-protect-part-riscv-free"]);
}

#[test]
fn cont_05_ragged_ends_two_blocks_and_the_end_of_the_table() {
    proved(&["block-part-arm", "block-part-arm-free", "block-part-arm-interrupts"]);
    proved(&["block-part-riscv", "block-part-riscv-free", "block-part-riscv-interrupts"]);
    proved(&["block-two-arm", "block-two-riscv-free", "block-halves-arm", "block-last-arm"]);
    // Blocks of sixteen pages, as they are shipped.
    proved(&["block-wide-arm", "block-wide-riscv"]);
}

#[test]
fn cont_06_a_space_that_no_cpu_runs_is_unmapped_in_parts() {
    proved(&["block-exit-arm", "block-exit-riscv"]);
}

#[test]
fn cont_07_lockless_readers_see_a_state_that_existed() {
    proved(&["block-look-unfold-arm", "block-look-fold-arm", "block-look-unmap-arm"]);
    proved(&["block-look-unfold-riscv"]);
    // With it: the entries of a block differ.
    proved(&["block-pieces-arm", "block-pieces-riscv"]);
}

#[test]
fn cont_08_a_fault_is_repaired_in_the_entry_that_faults() {
    proved(&["block-fault-arm", "block-fault-riscv", "block-fault-clean-arm"]);
    proved(&["block-repair-arm", "block-repair-riscv"]);
    proved(&["block-allow-arm", "block-allow-riscv"]);
}

#[test]
fn cont_11_pages_of_a_block_are_free_after_the_flush_of_the_gather() {
    // The oracle knows each frame, and each store that is under way to it.
    proved(&["block-unmap-arm", "block-part-arm", "block-part-riscv-interrupts"]);
}

/// The designs that batches replaced. `cargo xtask mutants` puts each back, and the explorer must find it.
#[test]
fn cont_13_the_three_ways_that_were_rejected_are_kept_as_bugs() {
    let mutants = include_str!("../../../mutants/contig.toml");
    let rejected = [
        "block-gathered-first-and-written-afterwards",
        "block-cut-and-left-in-pieces",
        "block-flags-gathered-from-absent-entries",
    ];
    for name in rejected {
        assert!(mutants.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
