//! Flushes of the kernel's addresses, and interrupts that flush nothing: whom they reach, and who waits.

use super::*;

/// CPU 0 does something while another one runs another process, and a third one sleeps.
fn beside_others(statement: &str, sleeps: bool) -> String {
    format!(
        "about = \"a test\"\nsleeps = {sleeps}\ntime = \"400 us\"\ncpus = 3\n\
         [[space]]\nname = \"app\"\npages = 8\nmapped = 8\neach = true\n\
         [[threads]]\nname = \"main\"\nspace = \"app\"\n\
         program = \"\"\"\nsleep 50 us\nrepeat 10\nbegin t\n{statement}\nend t\nwork 20 us\ndone\n\"\"\"\n\
         [[threads]]\nname = \"busy\"\nspace = \"app\"\ncpu = 1\nprogram = \"\"\"\nforever\nwork 1 us\ndone\n\"\"\"\n\
         [[threads]]\nname = \"short\"\nspace = \"app\"\ncpu = 2\nprogram = \"\"\"\nwork 1 us\n\"\"\"\n"
    )
}

#[test]
fn interrupts_that_flush_nothing_reach_the_cpus_that_are_named_and_are_waited_for() {
    for (machine, strategy) in [
        ("zen5", "lookaside"),
        ("zen5", "linux-ipi-2025"),
        ("neoverse_n1", "linux-broadcast"),
        ("jh7110", "lookaside"),
    ] {
        let of = |statement: &str| run_on(machine, strategy, 3, &beside_others(statement, false));
        let taken = |statement: &str| of(statement).unwrap().report.counters().taken;
        let none = taken("work 1 us");
        // Of itself nobody is interrupted.
        assert_eq!(
            ["interrupt 0 1", "interrupt 1 1", "interrupt 0 3"].map(|one| taken(one) - none),
            [0, 10, 20],
            "{machine}, {strategy}"
        );
        let time = |statement: &str| of(statement).unwrap().metric("t").unwrap();
        // The RISC-V machine has no price for any part of it.
        let waits = machine == "jh7110" || time("interrupt 0 3") > 50.0;
        assert!(time("interrupt 0 1") < 1.0 && waits, "{machine}");
    }
    let why = run(3, &beside_others("interrupt 1 3", false)).unwrap_err().0;
    assert!(why.ends_with("there is no CPU 3: there are 3"), "{why}");
}

#[test]
fn a_flush_of_kernel_addresses_reaches_all_cpus() {
    for strategy in ["lookaside", "linux-ipi-2025", "shared-counter"] {
        let of = |statement: &str| {
            run_on("skylake_sp", strategy, 3, &beside_others(statement, false)).unwrap()
        };
        // No other CPU runs this process.
        let taken = |statement: &str| of(statement).report.counters().taken;
        assert_eq!(taken("flush 0 2 of app 0") - taken("work 1 us"), 0, "{strategy}");
        assert_eq!(taken("flush 0 2 of kernel") - taken("work 1 us"), 20, "{strategy}");
    }
    let why = run(3, &beside_others("flush 4000 97 of kernel", false)).unwrap_err().0;
    assert!(why.ends_with("pages 4000 to 4097 of the kernel: there are 4096"), "{why}");
    let why = run(3, &beside_others("unmap 0 1 of kernel", false)).unwrap_err().0;
    assert!(why.contains("names the space `kernel`, which is unknown"), "{why}");
}

#[test]
fn who_interrupts_a_cpu_that_sleeps_waits_until_it_is_awake() {
    let halt = Files::own().ranges().unwrap().path(&zen5(), "halt").unwrap().middle();
    for statement in ["interrupt 2 1", "flush 0 2 of kernel"] {
        let time = |sleeps| {
            let outcome = run(3, &beside_others(statement, sleeps)).unwrap();
            outcome.metric("t").unwrap()
        };
        let more = time(true) - time(false);
        assert!((0.8 * halt..1.5 * halt).contains(&more), "{statement}: {more}, {halt}");
    }
}
