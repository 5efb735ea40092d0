//! `lookaside experiments`: which files it runs.

use super::lab;

#[test]
fn a_file_that_is_named_twice_counts_once() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads");
    let [one, other] =
        ["getppid.toml", "../workloads/getppid.toml"].map(|name| format!("{folder}/{name}"));
    let of = |files: &[&str]| {
        let more = ["--seeds", "1", "--format", "csv"];
        String::from_utf8(lab(&[&["experiments"], files, &more].concat()).stdout).expect("text")
    };
    let once = of(&[&one]);
    assert_eq!(of(&[&one, &other, &one]), once);
    assert!(once.starts_with("file,what,unit,published,"), "{once}");
    assert!(once.contains(",ns,"), "the unit has a column of its own: {once}");
}
