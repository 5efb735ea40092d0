//! What the README, `docs/costs.md` and `docs/advise.md` show of `lookaside reproduce`, `run`, `explore`, `replay` and
//! `advise` is what they print, and what the README and `docs/evidence.md` count is there so many times.

use std::process::Command;

use lookaside_scenarios::zoo::{self, Expected};

use crate::program::reproduced;

const README: &str = include_str!("../../../README.md");
const EVIDENCE: &str = include_str!("../../../docs/evidence.md");
const ADVISE: &str = include_str!("../../../docs/advise.md");
const COSTS: &str = include_str!("../../../docs/costs.md");

/// Finds the pieces that a page shows after a mark, in their order, in what was printed.
#[track_caller]
fn shows(page: &str, mark: &str, printed: &str) {
    let (_, after) = page.split_once(&format!("<!-- {mark} -->\n```text\n")).unwrap();
    let (shown, _) = after.split_once("```").unwrap();
    let mut rest = printed;
    for piece in shown.split("...\n") {
        let piece = piece.trim_end();
        let at = rest.find(piece);
        let at = at.unwrap_or_else(|| panic!("not printed, or not in this order:\n{piece}"));
        rest = &rest[at + piece.len()..];
    }
}

/// What a command prints.
fn printed(arguments: &[&str]) -> String {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    lab.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(arguments);
    let output = lab.output().expect("the program can be started");
    String::from_utf8(output.stdout).expect("text")
}

/// The files that the commands of a page write into the folder in which they run.
fn written(page: &str) -> Vec<&str> {
    let commands = page.lines().map(|line| line.split('#').next().unwrap_or(line));
    let commands = commands.filter(|line| {
        ["$ cc ", "lab ", "lookaside ", "perf "].iter().any(|word| line.contains(word))
    });
    let options = ["-o", "--report", "--perfetto", "--output"];
    commands
        .flat_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let pairs = words.windows(2).filter(|pair| options.contains(&pair[0]));
            pairs.map(|pair| pair[1]).collect::<Vec<_>>()
        })
        .filter(|name| !name.contains(['/', '`']))
        .collect()
}

#[test]
fn what_the_commands_write_is_ignored_by_git() {
    let pages = [
        README,
        ADVISE,
        include_str!("../../../docs/server.md"),
        include_str!("../../../docs/replay.md"),
    ];
    let mut names: Vec<&str> = pages.into_iter().flat_map(written).collect();
    for name in ["threads", "mine.trace", "out", "t.pftrace", "mine.toml", "server.trace"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    // Where `record` is given no name it takes that of the command.
    names.extend(["COMMAND.trace", "pid-4711.trace"]);
    for name in names {
        let mut git = Command::new("git");
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        // A folder is matched by its name with a slash.
        let name = if name.contains('.') || name == "threads" {
            name.to_owned()
        } else {
            format!("{name}/")
        };
        let ignored = git.current_dir(root).args(["check-ignore", "--quiet", "--no-index", &name]);
        match ignored.status() {
            Ok(status) if status.code() == Some(128) => return, // no checkout
            Ok(status) => assert!(status.success(), "{name} is left in the checkout"),
            Err(_) => return,
        }
    }
}

#[test]
fn the_costs_are_what_comes_out() {
    let printed = str::from_utf8(&reproduced().stdout).expect("text");
    shows(COSTS, "lookaside reproduce", printed);
    // The page says how long that is, in tens of lines.
    let lines = printed.lines().count().div_ceil(10) * 10;
    let (_, after) = COSTS.split_once("(some ").expect("it says so");
    let (said, _) = after.split_once(" lines").expect("it says so");
    let said: usize = said.parse().expect("a number");
    assert!(said.abs_diff(lines) <= 10, "the page says {said}, they are about {lines}");
}

#[test]
fn the_costs_say_what_a_storm_gives() {
    let run = ["run", "storm", "--machine", "zen5", "--strategy", "lookaside,linux-ipi-2025"];
    for more in [&[][..], &["--option", "kernel=1"]] {
        let command = [&run[..], &["--cpus", "32", "--seeds", "9"], more].concat();
        let printed = printed(&command);
        let line = printed
            .lines()
            .find(|line| line.contains("operation_time") && line.contains("linux-ipi-2025"));
        let ratio = line.and_then(|line| line.split_whitespace().last()).unwrap();
        let factor = ratio.strip_suffix('x').unwrap();
        assert!(COSTS.contains(&format!("{factor} times")), "{command:?} prints {ratio}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "assertions of the library take steps, too")]
fn the_readme_shows_what_the_tour_comes_to() {
    let printed = printed(&["explore", "tour"]);
    // Not what time it took.
    let clean = printed.lines().find(|line| line.starts_with("clean: ")).expect("a result");
    let (counted, _) = clean.split_once(" states, ").expect("it counts states");
    assert!(README.contains(&format!("\n{counted} states, ")), "{clean}");
}

#[test]
fn the_readme_shows_a_replay() {
    shows(
        README,
        "lookaside replay traces/threads.trace",
        &printed(&["replay", "traces/threads.trace"]),
    );
}

#[test]
fn the_page_on_mechanisms_shows_what_is_advised() {
    for advise in [
        "advise traces/corpus/judged/zstd.trace --machine turin --cpus 96 --plausible 24",
        "advise traces/corpus/judged/zstd.trace --machine neoverse_v2 --cpus 96 --plausible 24",
    ] {
        let words: Vec<&str> = advise.split_whitespace().collect();
        shows(ADVISE, &format!("lookaside {advise}"), &printed(&words));
    }
}

/// What `docs/against-linux.md` says below a table.
fn against_linux(table: usize) -> &'static str {
    const PAGE: &str = include_str!("../../../docs/against-linux.md");
    PAGE.lines().filter(|line| line.contains(" pairs: median ")).nth(table).unwrap()
}

/// The number in `line` after these words.
fn number(line: &'static str, after: &str) -> &'static str {
    let (_, rest) = line.split_once(after).unwrap();
    rest.split([',', ' ', ';']).next().unwrap().trim_end_matches('.')
}

fn rounded(digits: &str) -> String {
    format!("{:.2}", digits.parse::<f64>().unwrap())
}

#[test]
fn the_readme_says_how_the_library_compares_with_linux() {
    let text = README.split_whitespace().collect::<Vec<_>>().join(" ");
    let [known, refills] = [against_linux(0), against_linux(1)];
    let [median, with_refills] = [known, refills].map(|line| rounded(number(line, "median ")));
    let [largest, most] = [known, refills].map(|line| rounded(number(line, "largest ")));
    let machine = known.split('`').nth(1).unwrap();
    let [without, both] = [known, refills].map(|line| number(line, "the median of 414 pairs is "));
    for said in [
        format!(
            "takes {median} of Linux's time in the median, of what is known, and {with_refills} with refills"
        ),
        format!("at most {largest} of what is known (on `{machine}`;"),
        format!("and {most} with refills."),
        format!("without them the medians are {without} and {both}, "),
    ] {
        assert!(text.contains(&said), "{said}");
    }
}

/// Finds each of these sentences, or parts of them, in a page.
#[track_caller]
fn says(page: &str, parts: &[String]) {
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(text.contains(part), "not said: {part}");
    }
}

#[test]
fn the_pages_say_how_many_scenarios_there_are() {
    let listed = printed(&["explore"]);
    let all = listed.lines().count();
    let in_c = listed.lines().filter(|line| line.starts_with("c-")).count();
    says(README, &[format!("{all} scenarios, on a machine that does whatever")]);
    says(
        EVIDENCE,
        &[
            format!("in each of {all} scenarios"),
            format!("of which {in_c} are those of the C interface"),
            format!("Each of {all} scenarios finds one."),
        ],
    );
}

/// How many machines a program may name that begins as this one does, which names none.
fn machines(program: &str) -> usize {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    let output = lab.args(["explore", program]).output().expect("the program can be started");
    let why = String::from_utf8(output.stderr).expect("text");
    let (_, names) = why.split_once(": they are ").unwrap_or_else(|| panic!("{why}"));
    names.split(", ").count()
}

#[test]
fn the_pages_say_on_how_many_machines_programs_are_drawn() {
    let spaces = machines("none epochs(3) [Run(A)]");
    let [blocks, pairs] = ["blocks-none used [Run]", "pair-none [Run(A)]"].map(machines);
    let all = spaces + blocks + pairs;
    says(README, &[format!("Programs of random operations on {all} machines")]);
    says(
        EVIDENCE,
        &[format!(
            "Programs of random operations are run on {spaces} machines, and programs of contiguous entries on {blocks}, programs of \
             kernels with two roots on {pairs},"
        )],
    );
}

#[test]
fn the_pages_say_how_many_protocols_were_rebuilt() {
    let all = zoo::all().count();
    let sound = zoo::all().filter(|protocol| protocol.expected == Expected::Sound).count();
    let broken = all - sound;
    says(README, &[format!("{all} shootdown protocols of other systems, rebuilt")]);
    says(
        EVIDENCE,
        &[
            format!(
                "Of {all} shootdown protocols of other systems, rebuilt from descriptions, {broken} break"
            ),
            format!("repaired in one place; {sound} are sound"),
            format!(
                "of {all} protocols of other systems, rebuilt from descriptions, {broken} break"
            ),
            format!("clean when repaired, {sound} are sound"),
            format!("each of {all} protocols on the playground"),
        ],
    );
}

/// The numbers in the row of `docs/mutants.md` that begins so: mutants, found by exploration, by a test, excused, not known.
fn mutants(row: &str) -> [usize; 5] {
    const PAGE: &str = include_str!("../../../docs/mutants.md");
    let (_, table) = PAGE.split_once("<!-- written by ").expect("the table");
    let begin = format!("| {row} | ");
    let numbers = table.lines().find_map(|line| line.strip_prefix(&begin)).expect("the row");
    let cells: Vec<usize> = numbers
        .trim_end_matches(" |")
        .split(" | ")
        .map(|cell| cell.parse().expect("a number"))
        .collect();
    cells.try_into().expect("five numbers")
}

/// `cargo xtask mutants` holds the table to what there is.
#[test]
fn the_pages_say_what_the_table_of_mutants_says() {
    let [by_hand, by_exploration, by_test, ..] = mutants("written by hand");
    let [generated, explored, tested, excused, unknown] = mutants("all that are generated");
    let moved: usize = ["`swap`", "`reread`", "`loop`"].map(|kind| mutants(kind)[4]).iter().sum();
    let in_c = include_str!("../../../mutants/c.toml").matches("[[mutant]]").count();
    assert_eq!(by_hand, by_exploration + by_test, "all are found");
    says(
        README,
        &[
            format!("Of {by_hand} that are put in by hand"),
            format!(
                "Of {generated} small changes that are made to the source by rule it finds {};",
                explored + tested
            ),
            format!("{excused} are excused in writing, and {unknown} it has not found"),
        ],
    );
    says(
        EVIDENCE,
        &[
            format!(
                "{by_hand} bugs, most of them of the record and {in_c} of them mistakes in the C layer"
            ),
            format!("all are found: {by_exploration} by exploration, {by_test} by tests."),
            format!(
                "Of {generated} that are made from the source, exploration finds {explored} and tests {tested}, and {excused} are \
                 excused in writing; of **{unknown} no find is known**"
            ),
            format!(
                "and {moved} are of the three kinds that execute code at another time or once less"
            ),
        ],
    );
}

/// What `docs/litmus.md` says of a suite: its tests, and how many end as they should.
fn suite(row: &str) -> [&'static str; 2] {
    const PAGE: &str = include_str!("../../../docs/litmus.md");
    let begin = format!("| {row} | ");
    let cells = PAGE.lines().find_map(|line| line.strip_prefix(&begin)).expect("the row");
    let cells: Vec<&str> = cells.split(" | ").collect();
    [cells[0], cells[1]]
}

#[test]
fn the_pages_say_what_the_table_of_litmus_tests_says() {
    let [complete, exact] = suite("herd's tests below, complete sets, FEAT_ETS2 off, on");
    assert_eq!(exact, format!("{complete}, {complete}"));
    let [all, off] = suite("the whole catalogue of herd, verdicts, FEAT_ETS2 off");
    let [_, on] = suite("the same, FEAT_ETS2 on");
    says(README, &[format!("{complete} litmus tests that others wrote end in exactly")]);
    says(
        EVIDENCE,
        &[
            format!("On {complete} litmus tests of address translation that others wrote"),
            format!(
                "Of all {all} of the public catalogue {off} ({on} with FEAT_ETS2) have the recorded verdict"
            ),
            format!("on {complete} published tests the rules of translation"),
        ],
    );
}
