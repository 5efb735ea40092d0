//! What is put into a source with one of each kind.

use std::collections::BTreeSet;

use super::*;
use crate::mutants::sites::Kind;

const SOURCE: &str = "\
const fn computed(a: u8) -> bool { if a > 1 { true } else { false } }
const LIMIT: usize = if cfg!(test) { 1 } else { 2 };
fn orders(word: &AtomicU64) {
    word.store(1, Ordering::Release);
    let _ = word.compare_exchange(1, 2, Ordering::SeqCst, Ordering::Acquire);
    word.fetch_add(1, Ordering::Relaxed);
}
fn barriers(insn: &I, scope: Scope) {
    insn.dsb(Dsb::Ish);
    match scope {
        Scope::Local => settle(insn),
        Scope::Broadcast => publish(insn, Scope::Broadcast),
    }
}
fn checks(a: u8, b: Option<u8>) -> bool {
    if let Some(b) = b && a == b {
        return true;
    }
    while a > 3 {}
    match a {
        1 if b.is_none() => a > 2 && LIMIT > 1,
        _ => a < 1 || a > 7,
    }
}
fn later(word: &AtomicU64, words: &[AtomicU64]) -> u64 {
    let now = word.load(Ordering::Relaxed);
    for word in words {
        word.store(now, Ordering::Relaxed);
    }
    if words.iter().any(|word| word.load(Ordering::Relaxed) == 0) { 0 } else { now }
}
#[cfg(test)]
mod tests {
    fn not_shipped(a: u8) -> bool { if a > 1 { true } else { false } }
}
";

fn instrumented() -> (Vec<Site>, String) {
    let mut edits = Edits::new(SOURCE);
    let syntax = syn::parse_file(SOURCE).unwrap();
    let effects = Effects::of([&syntax].into_iter());
    let whole = Whole { effects, ..Whole::default() };
    let sites = sites::find("a.rs", &syntax, &whole, 1, &mut edits);
    (sites, edits.apply().0)
}

#[test]
fn every_kind_is_found_and_nothing_that_is_computed_or_not_shipped() {
    let (sites, _) = instrumented();
    let found: Vec<(&str, usize, &str)> =
        sites.iter().map(|site| (&*site.id, site.line, &*site.changes[0])).collect();
    let expected = [
        ("a.rs::orders/swap-1", 4, "swapped"),
        ("a.rs::orders/ordering-1", 4, "Relaxed"),
        ("a.rs::orders/swap-2", 5, "swapped"),
        ("a.rs::orders/ordering-2", 5, "AcqRel"),
        ("a.rs::orders/ordering-3", 5, "Relaxed"),
        ("a.rs::barriers/instruction-1", 9, "dropped"),
        ("a.rs::barriers/extent-1", 9, "Ishst"),
        ("a.rs::barriers/flush-1", 11, "dropped"),
        ("a.rs::barriers/flush-2", 12, "dropped"),
        ("a.rs::barriers/extent-2", 12, "Local"),
        ("a.rs::checks/check-1", 16, "always"),
        ("a.rs::checks/check-2", 19, "never"),
        ("a.rs::checks/check-3", 21, "always"),
        ("a.rs::checks/operand-1", 21, "left-out"),
        ("a.rs::checks/operand-2", 21, "left-out"),
        ("a.rs::checks/operand-3", 22, "left-out"),
        ("a.rs::checks/operand-4", 22, "left-out"),
        ("a.rs::later/swap-1", 27, "swapped"),
        ("a.rs::later/loop-1", 27, "without-first"),
        ("a.rs::later/check-1", 30, "always"),
        ("a.rs::later/loop-2", 30, "without-first"),
        ("a.rs::later/reread-1", 30, "again"),
    ];
    assert_eq!(found, expected);
    assert_eq!(sites.iter().map(|site| site.kind).collect::<BTreeSet<_>>(), Kind::ALL.into());
    // No two changes have one number.
    let mut next = 1;
    for site in &sites {
        assert_eq!(site.first, next);
        next += site.changes.len() as u32;
    }
}

#[test]
fn instrumented_source_is_valid_rust_and_keeps_its_lines() {
    let (_, text) = instrumented();
    syn::parse_file(&text).unwrap();
    assert_eq!(text.lines().count(), SOURCE.lines().count());
    for (line, (old, new)) in SOURCE.lines().zip(text.lines()).enumerate() {
        let computed = !(2..32).contains(&line);
        assert!(!computed || old == new, "{new}");
    }
    let wrapped = [
        "word.store(1, crate::mutant::pick(2, Ordering::Release, \
         &[core::sync::atomic::Ordering::Relaxed, ]));",
        "{ if crate::mutant::keep(7) { insn.dsb(crate::mutant::pick(8, Dsb::Ish, \
         &[Dsb::Ishst])) } };",
        "if let Some(b) = b && crate::mutant::check(12, a == b) {",
        "while crate::mutant::forced(14, a > 3, false) {}",
        "crate::mutant::forced(17, a > 2, true) && crate::mutant::forced(18, LIMIT > 1, true)",
        "crate::mutant::forced(19, a < 1, false) || crate::mutant::forced(20, a > 7, false)",
        "    { if crate::mutant::keep(3) { word.fetch_add(1, Ordering::Relaxed) } };",
        "for word in crate::mutant::cut(22, words) {",
        "crate::mutant::cut(26, words.iter()).any(|word|",
        "else { (if crate::mutant::is(28) { word . load (Ordering :: Relaxed) } else { now }) }",
    ];
    for wrapped in wrapped {
        assert!(text.contains(wrapped), "{wrapped}\n{text}");
    }
    // What comes early is executed before the first of the two, and not at its own place.
    let early = "if crate::mutant::is(3) { word . fetch_add (1 , Ordering :: Relaxed); }";
    let of = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}"));
    assert!(of(&text, early) < of(&text, "= (match early_1 {"), "{text}");
    assert!(
        of(&text, "let early_21 = if crate::mutant::is(21)") < of(&text, "for word in"),
        "{text}"
    );
    assert!(text.contains("(match early_21 { Some(early) => early, None => if "), "{text}");
}

fn bodies(find: &str, replace: &str) -> Option<Vec<(Range<usize>, String)>> {
    assert_eq!(SOURCE.matches(find).count(), 1, "{find}");
    let mutated = SOURCE.replace(find, replace);
    let (old, new) = (syn::parse_file(SOURCE).unwrap(), syn::parse_file(&mutated).unwrap());
    changed_bodies((SOURCE, &old), (&mutated, &new))
}

#[test]
fn a_written_mutant_is_a_body_beside_the_original() {
    let changed = bodies("    insn.dsb(Dsb::Ish);\n", "").unwrap();
    let [(place, body)] = &changed[..] else { panic!("{changed:?}") };
    assert!(SOURCE[place.clone()].starts_with("{\n    insn.dsb"));
    assert!(!body.contains("dsb") && !body.contains('\n'), "{body}");
    // A comment is no change, and a body that the compiler computes cannot be chosen later.
    assert_eq!(bodies("    while a > 3 {}", "    // Waits.\n    while a > 3 {}"), None);
    assert_eq!(bodies("if a > 1 { true } else { false } }\nconst", "a > 2 }\nconst"), None);
    assert_eq!(bodies("{ 1 } else { 2 }", "{ 1 } else { 3 }"), None);
    assert_eq!(bodies("checks(a: u8, b", "checks(b: u8, a"), None);
}

#[test]
fn edits_that_end_at_a_position_close_before_others_open() {
    let mut edits = Edits::new("abcd");
    edits.wrap(0..4, "<", ">");
    edits.wrap(0..2, "(", ")");
    edits.wrap(2..4, "[", "]");
    assert_eq!(edits.apply().0, "<(ab)[cd]>");
}

#[test]
fn unviable_mutants_are_left_out_and_rename_no_others() {
    let (all, _) = instrumented();
    let mut edits = Edits::new(SOURCE);
    let syntax = syn::parse_file(SOURCE).unwrap();
    let unviable = ["a.rs::orders/swap-1", "a.rs::later/loop-1"].map(str::to_owned);
    let whole =
        Whole { effects: Effects::of([&syntax].into_iter()), unviable: unviable.clone().into() };
    let sites = sites::find("a.rs", &syntax, &whole, 1, &mut edits);
    let names = |sites: &[Site]| sites.iter().map(|site| site.id.clone()).collect::<Vec<_>>();
    let left: Vec<_> = names(&all).into_iter().filter(|name| !unviable.contains(name)).collect();
    assert_eq!(names(&sites), left);
    let numbers: BTreeSet<u32> = sites.iter().map(|site| site.first).collect();
    assert_eq!(numbers.len(), sites.len());
    let (text, inserted) = edits.apply();
    assert!(text.contains("let _ = word.comp") && text.contains("for word in words {"), "{text}");
    // Every insertion is where it is said to be.
    assert!(inserted.iter().all(|(place, site)| {
        text[place.clone()].is_empty()
            || [" } }", ")", " })"].contains(&&text[place.clone()])
            || text[place.clone()].contains(&site.to_string())
    }));
}
