//! Huge pages and large folios.

use super::*;

/// A file whose space comes in some unit, with one group of threads.
fn of(pages: u64, keys: &str, program: &str) -> String {
    format!(
        "about = \"a test\"\n[[space]]\nname = \"app\"\npages = {pages}\n{keys}\n\
         [[threads]]\nname = \"all\"\nspace = \"app\"\nprogram = \"\"\"\n{program}\n\"\"\"\n"
    )
}

/// Of a run on one CPU of a Skylake: how often each of these paths was taken, in thousandths.
fn taken<const N: usize>(text: &str, paths: [&str; N]) -> [u64; N] {
    let machine = Machine::named("skylake_sp").unwrap();
    let ranges = Files::own().ranges().unwrap();
    let outcome = run_on("skylake_sp", "linux-ipi-2022", 1, text).unwrap();
    paths.map(|path| {
        let time = machine.paths.get(path).copied();
        let middle = || (ranges.path(&machine, path).unwrap().middle() * NS as f64) as Ps;
        let spent = outcome.report.spent_in(path);
        (spent as f64 / time.unwrap_or_else(middle) as f64 * 1000.0).round() as u64
    })
}

#[test]
fn a_fault_maps_a_huge_page_or_a_folio_at_once() {
    for (keys, faults, clear) in [
        ("", 1024, 0),
        ("size = \"2 MiB\"", 2, 1022),
        ("folio = \"64 KiB\"", 64, 960),
        ("folio = 4", 256, 768),
        ("size = 1", 1024, 0),
    ] {
        let text = of(1024, keys, "write 0 1024");
        if keys.is_empty() {
            assert_eq!(taken(&text, ["fault"]), [faults * 1000], "{keys}");
        } else {
            assert_eq!(
                taken(&text, ["fault", "clear"]),
                [faults, clear].map(|n| n * 1000),
                "{keys}"
            );
        }
        // The rest of a folio is there when one of its pages was touched.
        let every = taken(&of(1024, keys, "repeat 2\nwrite i * 512 1\ndone"), ["fault"]);
        assert_eq!(every, [2000], "{keys}");
    }
    // Pages that came back by themselves are none, and a folio needs all of its room.
    let again = "write 0 1024\ndiscard 0 8\nwrite 0 8\ndiscard 512 512\nwrite 600 1";
    assert_eq!(
        taken(&of(1024, "size = \"2 MiB\"", again), ["fault", "clear"]),
        [11_000, 1_533_000]
    );
}

#[test]
fn a_huge_page_takes_one_entry_of_a_tlb() {
    let walks = |machine: &str, keys: &str| {
        let text = of(1024, keys, "populate 0 1024\ntouch 0 1024\ntouch 0 1024");
        run_on(machine, "lookaside", 1, &text).unwrap().report.counters().walks
    };
    for machine in ["skylake_sp", "altra_1node", "jh7110"] {
        assert_eq!(walks(machine, "size = \"2 MiB\""), 2, "{machine}");
        assert!(walks(machine, "folio = \"2 MiB\"") >= 64, "{machine}");
    }
    // 64 KiB are sixteen entries, unless the hardware takes them for one: of this machine that is not known.
    assert!(walks("altra_1node", "size = \"64 KiB\"") >= 1024);
}

#[test]
fn flushes_of_huge_pages_have_their_stride() {
    let flushes = |pages: u64, strategy: &str, statement: &str| {
        let text = of(
            1 << 16,
            "mapped = \"65536\"\nsize = \"2 MiB\"",
            &format!("touch 0 65536\n{statement} 0 {pages}"),
        );
        let counters = run_on("skylake_sp", strategy, 1, &text).unwrap().report.counters();
        [counters.page_flushes, counters.full_flushes]
    };
    for statement in ["unmap", "protect", "discard", "flush"] {
        // Linux flushes up to 33 entries one by one.
        let [none, all] = flushes(0, "linux-ipi-2022", statement);
        assert_eq!(flushes(33 * 512, "linux-ipi-2022", statement), [none + 33, all], "{statement}");
        let [pages, all] = flushes(34 * 512, "linux-ipi-2022", statement);
        assert!(pages == none && (all > 0 || statement == "flush"), "{statement}");
        assert!(flushes(3 * 512, "lookaside", statement)[0] <= 4, "{statement}");
    }
}

#[test]
fn huge_pages_are_split_where_a_part_of_one_changes() {
    let size = "size = \"2 MiB\"";
    let paths = ["split", "freed", "entry", "freed_huge"];
    let split = |program: &str| {
        taken(&of(4096, size, &format!("populate 0 4096\n{program}")), paths).map(|n| n / 1000)
    };
    assert_eq!(split("unmap 0 4096"), [0, 0, 0, 8]);
    assert_eq!(split("discard 0 1"), [1, 1, 0, 0]);
    // The rest is of one folio still.
    assert_eq!(split("discard 0 1\nunmap 0 512"), [1, 2, 510, 0]);
    // From the middle of the second to the middle of the fifth.
    assert_eq!(split("unmap 768 1536"), [2, 2, 510, 2]);
    assert_eq!(split("discard 3 2\ndiscard 9 1\nunmap 0 1024"), [1, 5, 507, 1]);
    // Nobody splits what is gone, or what is pages already.
    assert_eq!(split("unmap 0 512\nunmap 3 4"), [0, 0, 0, 1]);
    let why = refused(&of(1 << 20, "size = \"1 GiB\"", "populate 0 262144\nunmap 0 512"));
    assert!(
        why.contains(
            "w.toml:11: pages 0 to 512 begin or end in the middle of one of the huge pages"
        ),
        "{why}"
    );
    assert!(why.contains("take multiples of 262144"), "{why}");
}

#[test]
fn entries_of_a_folio_change_together_unless_they_are_not_batched() {
    let of = |keys: &str, program: &str| {
        let text = of(1024, keys, &format!("populate 0 1024\n{program}"));
        taken(&text, ["freed", "entry", "unbatched", "forked", "page"]).map(|n| n / 1000)
    };
    let (folio, apart) = ("folio = 16", "folio = 16\nbatched = false");
    assert_eq!(of(folio, "unmap 0 1024"), [64, 960, 0, 0, 0]);
    assert_eq!(of(apart, "unmap 0 1024"), [64, 0, 960, 0, 0]);
    assert_eq!(of(folio, "discard 8 16"), [2, 14, 0, 0, 0]);
    assert_eq!(of(folio, "discard 0 1\nwrite 0 1\nunmap 0 16"), [3, 14, 0, 0, 0]);
    // A fork and an exit.
    assert_eq!(of(folio, "fork\ndone"), [0, 1920, 0, 128, 0]);
    assert_eq!(of(apart, "fork\ndone"), [0, 0, 0, 2048, 0]);
    // `mprotect` changes entries one by one, but those of huge pages.
    assert_eq!(of(folio, "protect 0 1024"), [0, 0, 0, 0, 1024]);
    assert_eq!(of("size = 512", "protect 0 1024"), [0, 0, 0, 0, 2]);
}

#[test]
fn a_fork_copies_one_entry_of_a_huge_page_and_a_write_splits_it() {
    let fork = |keys: &str, program: &str| {
        let text = of(1024, keys, &format!("write 0 1024\n{program}"));
        taken(&text, ["forked", "entry", "forked_huge", "split", "copy"]).map(|n| n / 1000)
    };
    let huge = "size = \"2 MiB\"";
    assert_eq!(fork(huge, "fork\ndone"), [0, 0, 4, 0, 0]);
    // The child copies two pages of the first, which is split there alone.
    assert_eq!(fork(huge, "fork\nwrite 7 2\ndone"), [3, 509, 3, 1, 2]);
    assert_eq!(fork(&format!("{huge}\nwhole = true"), "fork\nwrite 7 2\ndone"), [0, 0, 4, 0, 512]);
    // Whoever writes when the child is over has it alone.
    assert_eq!(fork(huge, "fork\ndone\nwrite 7 2"), [0, 0, 4, 0, 0]);
    let faults = |program: &str| {
        let text = of(1024, huge, &format!("write 0 1024\n{program}"));
        taken(&text, ["fault"])[0] / 1000
    };
    assert_eq!(
        faults("fork\ndone\nwrite 0 1024"),
        4,
        "two at first and one for each when it is written to"
    );
    assert_eq!(faults("protect 0 512\nwrite 0 512"), 3);
    // A child that has the rest still shares it.
    assert_eq!(faults("fork\nfork\nwrite 0 1\ndone\nwrite 0 512\ndone"), 2 + 1 + 512);
}

/// Broadcasts of a run on one CPU of an Altra, on which each page of a block takes one.
fn broadcasts(strategy: &str, keys: &str, program: &str) -> u64 {
    let text = of(1024, &format!("{keys}\nmapped = 1024"), program);
    run_on("altra_1node", strategy, 1, &text).unwrap().report.counters().broadcasts
}

#[test]
fn contiguous_blocks_become_pages_as_the_strategy_has_it() {
    let more = |strategy: &str, program: &str| {
        let with = broadcasts(strategy, "folio = \"64 KiB\"", program);
        with - broadcasts(strategy, "folio = \"32 KiB\"", program)
    };
    let each = "repeat 32\ndiscard i 1\ndone";
    for (strategy, unmap, discard, fork, protect) in [
        ("no-blocks", 0, 0, 0, 0),
        // 16 pages of 64 blocks; of two blocks; at a fork three times, and at the exit of the child; twice.
        ("unfold", 1024, 32, 4 * 1024, 2048),
        ("simple", 1024, 32, 0, 2048),
        ("robust", 1024, 32, 0, 2048),
        ("clear-ptes", 0, 32, 0, 2048),
    ] {
        assert_eq!(more(strategy, "unmap 0 1024"), unmap, "{strategy}");
        assert_eq!(more(strategy, each), discard, "{strategy}");
        assert_eq!(more(strategy, "fork\ndone"), fork, "{strategy}");
        assert_eq!(more(strategy, "protect 0 1024"), protect, "{strategy}");
        // Each is a block no more, and a write to one of its pages makes pages of a block.
        assert_eq!(more(strategy, &format!("{each}\ndiscard 0 32")), discard, "{strategy}");
    }
    // Of the library's a block at most is flushed for a change of a part of it.
    for program in ["unmap 0 1024", "fork\ndone", "protect 0 1024"] {
        assert_eq!(more("lookaside", program), 0, "{program}");
    }
}

#[test]
fn ways_to_change_blocks_are_refused_where_nothing_has_blocks() {
    let ways = ["no-blocks", "unfold", "simple", "robust", "clear-ptes"];
    for entry in strategy::all() {
        let ran = run_on("neoverse_n1", entry.name, 2, &one("", "unmap me 1"));
        match ways.contains(&entry.name) {
            true => {
                let why = ran.unwrap_err().0;
                assert!(why.contains("has them with `folio = \"64 KiB\"`"), "{}", entry.name);
            }
            false if entry.isas.contains(&Isa::Aarch64) => {
                assert!(!ran.is_err_and(|why| why.0.contains("blocks")), "{}", entry.name);
            }
            false => assert!(ran.is_err(), "{}", entry.name),
        }
    }
}

#[test]
fn no_strategy_is_stale_with_any_unit() {
    let program = "write 0 2048\nrepeat 3\nprotect 512 1024\nwrite 700 40\nflush 0 2048\nfork\nwrite 600 3\n\
                   discard 3 60\ndone\nwrite 1030 20\ndiscard 100 700\ntouch 0 2048\nunmap 512 512\nallow 0 2048\n\
                   write 0 2048\nfree 1024 512\ndone\nunmap 0 2048";
    let beside = "[[threads]]\nname = \"other\"\nspace = \"app\"\ncpu = 1\ncount = 1\nprogram = \"\"\"\n\
                  repeat 40\ntouch 0 2048\nwork 3 us\ndone\n\"\"\"\n";
    for machine in ["skylake_sp", "zen5", "altra_1node", "neoverse_v1", "sg2042"] {
        let isa = Machine::named(machine).unwrap().isa;
        for entry in strategy::all().filter(|entry| entry.isas.contains(&isa)) {
            for keys in [
                "size = \"2 MiB\"",
                "size = \"2 MiB\"\nwhole = 1",
                "folio = \"64 KiB\"",
                "folio = \"1 MiB\"",
            ] {
                let text = of(2048, keys, program);
                match run_on(machine, entry.name, 2, &format!("{text}{beside}")) {
                    Ok(_) => {}
                    Err(Refused(why)) => assert!(
                        why.contains("INVLPGB")
                            || why.contains("strategy `local-")
                            || why.contains("which no space of the file has")
                            || why.contains("machine `"),
                        "{machine} {}: {why}",
                        entry.name
                    ),
                }
            }
        }
    }
}

#[test]
fn units_that_are_wrong_are_refused_with_their_line() {
    for (keys, why) in [
        (
            "size = \"2 MB\"",
            "w.toml:5: `space.size` has the unknown unit `MB`; there are `KiB`, `MiB`, `GiB`",
        ),
        ("size = \"2MiB\"", "is no size; write it as \"2 MiB\""),
        (
            "size = \"64 KiB\"",
            "w.toml:5: `size` is 64 KiB, which x86-64 has not; it has 4 KiB, 2 MiB, 1 GiB",
        ),
        (
            "folio = \"12 KiB\"",
            "w.toml:5: `folio` is 12 KiB; a folio of Linux's anonymous memory is a power of two",
        ),
        ("folio = \"4 MiB\"", "up to 2 MiB"),
        ("folio = 0", "`folio` is 0 KiB"),
        ("folio = 16\nsize = 512", "stands beside `size`"),
        (
            "batched = true",
            "w.toml:5: `space.batched` says something of memory of another `size` or `folio`",
        ),
        ("size = 512\nbatched = 1", "goes with `folio`, and the space has a `size`"),
        ("folio = 16\nwhole = 1", "goes with `size`, and the space has a `folio`"),
        ("folio = 16\nprivate = true", "folios and huge pages of files are not modelled"),
        ("folio = 16\naround = 16", "folios and huge pages of files are not modelled"),
        (
            "size = \"2 MiB\"\nmapped = 100",
            "`mapped` is 100, and the memory comes in huge pages of 512 pages",
        ),
        ("size = \"large\"", "`large`"),
    ] {
        let said = refused(&of(1024, keys, "write 0 8"));
        assert!(said.starts_with("w.toml:") && said.contains(why), "{keys}: {said}");
    }
    let odd = refused(&of(1000, "size = \"2 MiB\"", "write 0 8"));
    assert!(
        odd.contains("w.toml:3: `pages` is 1000, and the memory comes in huge pages of 512"),
        "{odd}"
    );
    let part = refused(&of(1024, "folio = 16", "populate 8 16"));
    assert!(part.contains("in the middle of one of the folios"), "{part}");
    let reclaim = refused(&of(1024, "folio = 16", "reclaim 0 16 each"));
    assert!(reclaim.contains("`reclaim` is of pages of 4 KiB"), "{reclaim}");
    assert!(run_on("sg2042", "lookaside", 1, &of(1024, "size = \"64 KiB\"", "write 0 8")).is_ok());
}

#[test]
fn parameters_can_be_sizes() {
    let text = of(1024, "folio = \"folio\"", "write 0 1024");
    let text = text.replace("[[space]]", "[parameters]\nfolio = \"64 KiB\"\n[[space]]");
    assert_eq!(taken(&text, ["fault"]), [64_000]);
}
