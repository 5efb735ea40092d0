//! The names of what workloads measure, which are known before one runs.

use lookaside_terminal::{Refused, names};

use super::{file, find, opened};

/// What the workloads that are built in measure. `build` has `elapsed` on machines where somebody measured a build.
const BUILT_IN: &[(&str, &[&str])] = &[
    ("build", &["slowdown", "elapsed"]),
    ("exit_group", &["exit_time", "exit_share"]),
    ("fileserver", &["shootdown_time", "useful_share", "handler_time", "invalidate_time", "rate"]),
    ("flush_range", &["flush_cycles", "miss_cost"]),
    ("fresh_spaces", &["time_per_switch"]),
    ("lat_ctx", &["time_per_switch"]),
    ("madvise", &["time_per_iteration"]),
    ("migrate", &["time_per_iteration"]),
    ("mprotect", &["time_per_iteration"]),
    ("mprotect_pair", &["time_of_read", "time_of_write"]),
    ("munmap", &["munmap_time"]),
    ("munmap_cores", &["munmap_time"]),
    ("pingpong", &["time_per_iteration", "misses_per_iteration"]),
    ("pthread_mmap", &["elapsed"]),
    ("sort", &["elapsed"]),
    ("storm", &["operation_time", "operations"]),
    ("tcmalloc", &["elapsed"]),
    ("tlb_flush2", &["iterations", "flush_share"]),
    ("tlbi", &["time_per_slot"]),
];

/// Refuses a metric that the workload of that name, or of that file, does not measure.
///
/// # Errors
///
/// With the nearest metric, or if there is no such workload.
pub fn check_metric(workload: &str, metric: &str) -> Result<(), Refused> {
    let unknown = |all: &[&str]| match all.contains(&metric) {
        true => Ok(()),
        false => Err(names::unknown("metric", metric, all.iter().copied())),
    };
    if file::is_path(workload) {
        return unknown(&opened(workload)?.measures());
    }
    let name = find(workload)?.name;
    match BUILT_IN.iter().find(|(of, _)| *of == name) {
        Some((_, all)) => unknown(all),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        data::{Machine, Text},
        workload::{Setup, admit, all, run},
    };

    /// A workload that counts `allocs`, times `un`, and ends or does not.
    fn file(name: &str, last: &str) -> String {
        let text = format!(
            "about = \"a test\"\ntime = \"20 us\"\ncpus = 2\n[[space]]\nname = \"a\"\npages = 8\n[[threads]]\nname = \"t\"\n\
             space = \"a\"\nprogram = \"\"\"\n{last}\n  begin un # count others\n  unmap 0 1\n  end un\n  count allocs\n  count allocs\ndone\n\"\"\"\n"
        );
        admit(&Text::new(name, text)).unwrap()
    }

    #[test]
    fn what_a_file_measures_is_known_before_it_runs() {
        let machine = Machine::named("zen4").unwrap();
        for (name, last, ends) in [("a.toml", "forever", false), ("b.toml", "repeat 3", true)] {
            let name = file(name, last);
            let options = BTreeMap::new();
            let (cpus, x) = (None, None);
            let strategy = "lookaside";
            let setup = Setup {
                machine: &machine,
                strategy,
                cpus,
                x,
                options: &options,
                seed: 1,
                timeline: 0,
            };
            let outcome = run(&name, &setup).unwrap();
            let mut measured: Vec<&str> = outcome.metrics.iter().map(|one| one.key).collect();
            let workload = opened(&name).unwrap();
            let mut known = workload.measures();
            measured.sort_unstable();
            known.sort_unstable();
            assert_eq!(known, measured);
            assert_eq!(check_metric(&name, "elapsed").is_ok(), ends);
            let why = check_metric(&name, "alocs").unwrap_err().0;
            assert!(why.contains("`alocs`") && why.contains("`allocs`"), "{why}");
            let why = check_metric(&name, "zzzzzzzz").unwrap_err().0;
            assert!(why.contains("there are `allocs`, `un`, "), "own ones first, each once: {why}");
            check_metric(&name, "un").unwrap();
            check_metric(&name, "others").unwrap_err();
        }
    }

    #[test]
    fn what_is_built_in_says_what_it_measures() {
        let known = |name: &str| BUILT_IN.iter().find(|(of, _)| *of == name).map(|(_, all)| *all);
        for entry in all() {
            let all = known(entry.name).unwrap_or_else(|| panic!("{}: no metrics", entry.name));
            check_metric(entry.name, all[0]).unwrap();
            check_metric(entry.name, "nope").unwrap_err();
        }
        let (machine, options) =
            (Machine::named("zen4").unwrap(), BTreeMap::from([("operations".to_owned(), 20.0)]));
        let (cpus, x, strategy) = (Some(2), None, "lookaside");
        let setup =
            Setup { machine: &machine, strategy, cpus, x, options: &options, seed: 1, timeline: 0 };
        let outcome = run("storm", &setup).unwrap();
        let measured: Vec<&str> = outcome.metrics.iter().map(|one| one.key).collect();
        assert_eq!(known("storm"), Some(&measured[..]));
    }
}
