//! What commands print for programs has what they print for people, in plain numbers.

use serde_json::Value;

use super::lab;

const SORT: &str = "traces/sort.trace";

#[track_caller]
fn written(words: &[&str]) -> String {
    let (status, text, errors) = lab(words);
    assert!(status.is_some_and(|status| status < 2), "{words:?}: {errors}");
    text
}

#[track_caller]
fn json(words: &[&str]) -> Value {
    serde_json::from_str(&written(&[words, &["--format", "json"]].concat())).expect("JSON")
}

/// The header and the rows; each row has as many cells as the header.
#[track_caller]
fn csv(words: &[&str]) -> (Vec<String>, Vec<Vec<String>>) {
    let text = written(&[words, &["--format", "csv"]].concat());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let cells = |row: &csv::StringRecord| row.iter().map(str::to_owned).collect::<Vec<_>>();
    let header = cells(reader.headers().expect("a header"));
    let rows = reader.records().map(|row| cells(&row.expect("one table with rows of a length")));
    let rows = rows.collect();
    (header, rows)
}

/// All in one line: pages are wrapped.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_answer_comes_first_and_programs_get_it_too() {
    let what_if = ["what-if", SORT, "--seeds", "1", "--plausible", "4"];
    let diff = ["diff", SORT, "traces/sqlite.trace", "--seeds", "1", "--plausible", "4"];
    for (words, after) in [
        (&["replay", SORT, "--plausible", "4"][..], "seed 1 "),
        (&what_if, ""),
        (&[&what_if[..], &["ceiling=1"]].concat(), ""),
        (&diff, ""),
        (&["advise", SORT, "--machine", "turin", "--plausible", "4"], ""),
    ] {
        let answer = json(words)["answer"].as_str().expect("a sentence").to_owned();
        let page = flat(&written(words));
        let (_, rest) = page.split_once(after).expect("a heading");
        assert!(rest.starts_with(&flat(&answer)), "{words:?}: {answer}\n{page}");
        // What has no price stands at the end, and in words.
        let (above, below) = page.split_once(" what this rests on ").unwrap_or((&page, &page));
        let prices = "a memory fence";
        assert!(below.contains(prices), "{words:?}\n{page}");
        assert!(words[0] == "diff" || !above.contains(prices), "{words:?}\n{page}");
        for key in ["second_level", "flush_other_page", "root_flush", "flush_global"] {
            assert!(!below.contains(key), "{words:?}: {key}\n{page}");
        }
    }
}

#[test]
fn an_advice_has_plain_numbers_for_each_strategy() {
    let words = ["advise", SORT, "--machine", "turin", "--plausible", "4"];
    let (header, rows) = csv(&words);
    let of = json(&words);
    let mechanisms = of["mechanisms"].as_array().expect("mechanisms");
    assert_eq!(rows.len(), mechanisms.len());
    for (row, one) in rows.iter().zip(mechanisms) {
        let cell = |name: &str| {
            let place = header.iter().position(|column| column == name).expect("a column");
            row[place].parse::<f64>().expect("a number")
        };
        assert_eq!(one["strategy"], *row[0]);
        for (column, value) in [
            ("ms_per_second", &one["ms_per_second"]["median"]),
            ("ms_per_second_low", &one["ms_per_second"]["low"]),
            ("ms_per_second_high", &one["ms_per_second"]["high"]),
            ("file_ms_per_second", &one["file_ms_per_second"]),
            ("share", &one["share"]),
            ("best_on", &one["best_on"]),
            ("behind_on", &one["behind_on"]),
            ("machines", &of["machines"]),
            ("lost_ms_per_second_mean", &one["lost_ms_per_second"]["mean"]),
            ("lost_ms_per_second_most", &one["lost_ms_per_second"]["most"]),
            ("interrupts_per_second", &one["interrupts_per_second"]["median"]),
            ("broadcasts_per_second", &one["broadcasts_per_second"]["median"]),
        ] {
            // The reader of JSON may lose the last bit of a number.
            let (cell, value) = (cell(column), value.as_f64().expect("a number"));
            assert!((cell - value).abs() <= 1e-14 * value.abs(), "{column}: {cell}, {value}");
        }
        assert!(cell("refills_share_low") <= cell("refills_share_high"));
    }
}

#[test]
fn counts_that_are_judged_are_plain_numbers() {
    let words = ["replay", "traces/compile.trace", "--validate"];
    let (header, rows) = csv(&words);
    assert_eq!(header[..5], ["strategy", "count", "recorded", "modelled", "ratio"]);
    let of = json(&words);
    let strategy = &of["strategies"][0];
    let counts = strategy["rows"].as_array().expect("counts");
    assert_eq!(rows.len(), counts.len());
    for (row, one) in rows.iter().zip(counts) {
        assert_eq!(
            (&*row[0], &*row[1]),
            (strategy["strategy"].as_str().unwrap(), one["what"].as_str().unwrap())
        );
        for (place, key) in
            [(2, "recorded"), (3, "modelled"), (4, "ratio"), (5, "unknown"), (6, "limit")]
        {
            assert_eq!(row[place].parse::<f64>().ok(), one[key].as_f64(), "{key} of {row:?}");
        }
        let within = one["within"].as_bool().map(|within| if within { "1" } else { "0" });
        assert_eq!(row[7], within.unwrap_or_default());
        assert_eq!(row[8], one["how"].as_str().unwrap_or_default());
    }
}

#[test]
fn what_a_trace_holds_is_one_table() {
    let (header, rows) = csv(&["import", SORT]);
    assert_eq!(header, ["table", "row", "value"]);
    let of = json(&["import", SORT]);
    let value = |table: &str, row: &str| {
        let found = rows.iter().find(|cells| cells[0] == table && cells[1] == row);
        found.unwrap_or_else(|| panic!("{table} {row}"))[2].clone()
    };
    assert_eq!(value("trace", "guest"), "yes");
    assert_eq!(value("event", "all"), of["holds"]["events"].to_string());
    assert_eq!(value("event", "fault"), of["holds"]["kinds"]["fault"].to_string());
    assert_eq!(value("missing", "lost by the kernel"), "0");
    // An older recorder did not know these calls.
    for call in ["msync", "mlock", "mlockall"] {
        assert_eq!(value("absent", &format!("syscalls/sys_enter_{call}")), "");
    }
    let absent = of["absent"].as_array().expect("names").len();
    assert_eq!(rows.iter().filter(|cells| cells[0] == "absent").count(), absent);
}
