//! What the kernel takes besides the strategy.

use super::*;

#[test]
fn calls_and_paths_take_what_the_kernel_takes() {
    let time = |program: &str| {
        let text = one("", &format!("begin t\nrepeat 10\n{program}\ndone\nend t"));
        let outcome = run(1, &text.replace("mapped = 64", "mapped = 0"));
        outcome.unwrap().metric("t").unwrap() / 10.0
    };
    let ranges = Files::own().ranges().unwrap();
    let path = |name: &str| ranges.path(&zen5(), name).unwrap().middle().floor();
    assert!((time("call") - path("call")).abs() < 1.0, "{}", time("call"));
    assert!((time("path copy 3") - 3.0 * path("copy")).abs() < 3.0, "{}", time("path copy 3"));
    // Of pages that are not there (none was touched): what takes time is the area.
    for (program, area) in [
        ("map 0 8", "map"),
        ("unmap 0 8", "unmap"),
        ("discard 0 8", "discard"),
        ("protect 0 8", "protect"),
        ("allow 0 8", "protect"),
    ] {
        let expected = path("call") + path(area);
        assert!((time(program) - expected).abs() < 2.0, "{program}: {}", time(program));
    }
}

#[test]
fn paths_take_longer_where_the_clock_is_slower() {
    let ranges = Files::own().ranges().unwrap();
    let middle =
        |machine: &str| ranges.path(&Machine::named(machine).unwrap(), "unmap").unwrap().middle();
    // 1.8 and 3 GHz.
    assert!((middle("phytium_n80") / middle("skylake_sp") - 3.0 / 1.8).abs() < 1e-9);
}
