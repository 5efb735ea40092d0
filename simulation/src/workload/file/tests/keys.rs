use super::*;

/// Half a page of parentheses would hide what is wrong with them.
#[test]
fn a_long_text_is_quoted_by_its_beginning() {
    let long = format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000));
    let good = one("sleeps = 0", "work 1 us");
    for text in
        [good.replace("1 us", &format!("{long} us")), good.replace("= 0", &format!("= \"{long}\""))]
    {
        let why = refused(&text);
        assert!(why.starts_with("w.toml:") && why.contains("(( ...` has more than 100"), "{why}");
        assert!(why.len() < 300, "{why}");
    }
}

#[test]
fn keys_of_the_head_have_no_names_of_programs() {
    let good = one("isolation = 0\nsleeps = 0", "work 1 us");
    for (key, before) in [
        ("isolation", "isolation = 0"),
        ("sleeps", "sleeps = 0"),
        ("count", "count = \"cpus\""),
        ("pages", "pages = 64"),
        ("mapped", "mapped = 64"),
    ] {
        let with = |value: &str| good.replace(before, &format!("{key} = \"{value}\""));
        let line = 1 + good.lines().position(|line| line == before).unwrap();
        for value in ["random(3)", "me", "i", "j"] {
            let why = refused(&with(value));
            assert!(why.starts_with(&format!("w.toml:{line}: `{value}` ")), "{key}: {why}");
        }
        let why = run(2, &with("threads")).err().map(|Refused(why)| why);
        match key {
            "pages" | "mapped" => assert!(why.is_none_or(|why| why.contains("map fewer"))),
            _ => assert!(why.unwrap().contains("names `threads`, which has no value here")),
        }
    }
    let cpu = |value: &str| {
        good.replace("count = \"cpus\"", &format!("count = \"cpus\"\ncpu = \"{value}\""))
    };
    assert!(run(2, &cpu("(me + threads) % cpus")).is_ok());
    assert!(refused(&cpu("random(2)")).contains("is for programs"));
    // A space of each thread may be larger for some, and that is checked for each.
    let each =
        good.replace("mapped = 64", "each = true").replace("pages = 64", "pages = \"1 + me * 7\"");
    assert!(run(2, &each).is_ok());
    assert!(
        refused(&each.replace("* 7", "* 1e9")).contains("`pages` is 1000000001 for thread 1 of 2")
    );
    // Two groups have no one number of threads.
    let threads = &good[good.find("[[threads]]").unwrap()..];
    let two = format!("{good}{}", threads.replace("\"all\"", "\"more\""));
    let why = refused(&two.replace("pages = 64", "pages = \"64 + threads\""));
    assert!(why.contains("names `threads`"), "{why}");
}
