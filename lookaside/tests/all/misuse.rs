//! That each misuse in `compile_fail/misuse.md` is refused for the reason that is given.
//!
//! The document's examples are tests of the documentation: the right uses compile, the misuses do
//! not. That a misuse differs from its right use in one line only is checked here. The two together
//! pin down the line that is refused, on any compiler: what compilers say of it changes too often to
//! be compared.

const DOCUMENT: &str = include_str!("../compile_fail/misuse.md");

/// The examples: what their fence says, and their lines.
fn examples(document: &str) -> Vec<(&str, Vec<&str>)> {
    let mut examples = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        match line.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(kind) => {
                inside = true;
                examples.push((kind, Vec::new()));
            }
            None if inside => examples.last_mut().expect("it was just begun").1.push(line),
            None => {}
        }
    }
    examples
}

/// Whether `wrong` is `right` with exactly one line replaced.
fn differ_in_one_line(right: &[&str], wrong: &[&str]) -> bool {
    right.len() == wrong.len() && right.iter().zip(wrong).filter(|(a, b)| a != b).count() == 1
}

#[test]
fn each_misuse_differs_from_its_right_use_in_one_line() {
    let examples = examples(DOCUMENT);
    let (pairs, []) = examples.as_chunks::<2>() else { panic!("a right use or a misuse is alone") };
    assert!(pairs.len() >= 40, "{} misuses", pairs.len());
    for [(right, use_), (wrong, misuse)] in pairs {
        assert_eq!(*right, "rust");
        assert!(wrong.starts_with("compile_fail"), "{wrong}");
        assert!(differ_in_one_line(use_, misuse), "{misuse:#?}");
    }
}

#[test]
fn a_misuse_that_differs_in_more_is_noticed() {
    assert!(differ_in_one_line(&["a", "b"], &["a", "c"]));
    assert!(!differ_in_one_line(&["a", "b"], &["a", "b"]));
    assert!(!differ_in_one_line(&["a", "b"], &["c", "d"]));
    assert!(!differ_in_one_line(&["a", "b"], &["a", "b", "c"]));
    assert_eq!(
        examples("x\n```rust\na\n```\ny\n```compile_fail\nb\n```"),
        [("rust", vec!["a"]), ("compile_fail", vec!["b"])]
    );
}
