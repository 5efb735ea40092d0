//! Whom flushes of a process's own pages reach, and those of pages that are taken away together.

use super::*;

#[test]
fn pages_are_flushed_by_every_call_on_every_cpu_of_the_space() {
    let program = "touch 0 64\nbarrier\nrepeat 5\nprotect me 1\ntouch me 1\ndone\nbarrier";
    let counters = run(4, &one("", program)).unwrap().report.counters();
    // All CPUs run the space when the first flush begins.
    assert!(counters.sent > 0 && counters.taken > 0, "{counters:?}");
    assert!(counters.page_flushes + counters.full_flushes >= 20);
}

#[test]
fn bystanders_lose_what_others_take() {
    let text = |flushes: &str| {
        format!(
            "about = \"a test\"\ntime = \"2 ms\"\n\
             [[space]]\nname = \"app\"\npages = 64\nmapped = 64\n\
             [[threads]]\nname = \"flusher\"\nspace = \"app\"\ncpu = 0\n\
             program = \"\"\"\nforever\n{flushes}\nwork 1 us\ndone\n\"\"\"\n\
             [[threads]]\nname = \"bystander\"\nspace = \"app\"\ncpu = 1\n\
             program = \"\"\"\nforever\nwork 1 us\ncount progress\ntouch 1 1\ndone\n\"\"\"\n"
        )
    };
    let progress = |flushes| run(2, &text(flushes)).unwrap().metric("progress").unwrap();
    assert!(progress("protect 0 1") < 0.95 * progress("touch 0 1"));
}

#[test]
fn reclaim_in_batches_waits_less_often() {
    let text = |how: &str| one("", &format!("touch 0 64\nbegin r\nreclaim 0 64 {how}\nend r"));
    let time = |machine, strategy, cpus, how| {
        let outcome = run_on(machine, strategy, cpus, &text(how)).unwrap();
        outcome.metric("r").unwrap()
    };
    for (machine, strategy, cpus) in
        [("altra_1node", "linux-broadcast", 1), ("skylake_sp", "lookaside", 4)]
    {
        let [each, batch] = ["each", "batch 32"].map(|how| time(machine, strategy, cpus, how));
        assert!(each > batch, "{strategy}: {each} {batch}");
    }
}

/// Linux: everything of each CPU on x86 (`arch_tlbbatch_flush`); each page, and one wait, on Arm64, however many.
#[test]
fn linux_flushes_a_batch_in_full_on_x86_and_page_by_page_on_arm() {
    let counters = |machine, strategy, cpus| {
        let head = "about = \"a test\"\n[[space]]\nname = \"app\"\npages = 600\n";
        let group = |name, place, program| {
            format!(
                "[[threads]]\nname = \"{name}\"\nspace = \"app\"\n{place}\nprogram = \"\"\"\n{program}\n\"\"\"\n"
            )
        };
        let reclaimer =
            group("reclaimer", "cpu = 0", "work 50 us\ntouch 0 600\nreclaim 0 600 batch 600");
        let other = group("other", "count = \"cpus - 1\"\ncpu = \"me + 1\"", "work 50 ms");
        let text = format!("{head}{reclaimer}{other}");
        run_on(machine, strategy, cpus, &text).unwrap().report.counters()
    };
    let few = counters("skylake_sp", "linux-ipi-2025", 2);
    assert!(few.page_flushes == 0 && few.full_flushes > 0 && few.sent > 0, "{few:?}");
    // Nobody else: nothing is put off. And so it was before 2015.
    let alone = counters("skylake_sp", "linux-ipi-2025", 1);
    assert!(alone.page_flushes >= 600, "{alone:?}");
    assert!(counters("skylake_sp", "page-by-page", 2).page_flushes >= 600);
    let all = counters("turin", "linux-invlpgb-2025", 2);
    assert!((1..10).contains(&all.broadcasts) && all.sent == 0, "{all:?}");
    for machine in ["altra_1node", "neoverse_v2"] {
        let many = counters(machine, "linux-broadcast", 2);
        assert!(many.broadcasts >= 600 && many.syncs < 100, "{machine}: {many:?}");
    }
}
