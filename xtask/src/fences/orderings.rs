//! Orderings and barriers in code: each must say why it is there.

use super::comments::{self, Wrong};
use crate::source::{self, Line};

/// Orderings that need a name.
const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];
/// How many lines of code may stand between a name and the code it is for.
const NAME_REACH: usize = 6;
/// How many lines of code may stand between a word about `Relaxed` and the code it is for.
const RELAXED_REACH: usize = 8;
/// Files below `arch/` that only compute operands, execute instructions or decode registers: the
/// code that chooses the order is elsewhere.
const NO_ORDER_CHOSEN: [&str; 6] = ["encode", "insn", "native", "features", "errata", "operand"];

/// Whether the orderings in a file of the library must be explained.
pub(super) fn must_be_named(file: &str) -> bool {
    let mut parts: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    // A file `tests.rs`, or any below a folder of that name.
    let is_test = parts.contains(&"tests");
    let arch = parts.iter().position(|part| *part == "arch");
    let below_arch = arch.map_or(Vec::new(), |at| parts.split_off(at));
    !is_test && !below_arch.iter().any(|part| NO_ORDER_CHOSEN.contains(part))
}

/// The lines whose ordering is not explained.
pub(super) fn unexplained(lines: &[Line]) -> Wrong {
    let mut wrong = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.code.trim_start();
        if line.test || code.starts_with("use ") || code.starts_with("pub use ") {
            continue;
        }
        let strong = STRONG.into_iter().find(|word| source::has_word(code, word));
        let named =
            comment_above(lines, index, NAME_REACH, |text| comments::ids(text).next().is_some());
        if let Some(what) = strong.or_else(|| barrier(code))
            && !named
        {
            wrong.push((
                index,
                format!("`{what}` without a FENCE or ORDER name in the {NAME_REACH} lines of code above it"),
            ));
        }
        // One comment may explain both orderings of a compare-and-exchange.
        let explained = named
            || comment_above(lines, index, RELAXED_REACH, says_relaxed)
            || function_says_relaxed(lines, index);
        if source::has_word(code, "Relaxed") && !explained {
            wrong.push((index, "`Relaxed` without a word on why relaxed is enough".to_owned()));
        }
    }
    wrong
}

fn says_relaxed(comment: &str) -> bool {
    comment.to_ascii_lowercase().contains("relaxed")
}

/// Whether a comment satisfies `test` that stands on the line `index`, or above it in the same
/// function (or right above that) with at most `reach` lines of code between.
fn comment_above(lines: &[Line], index: usize, reach: usize, test: impl Fn(&str) -> bool) -> bool {
    if test(&lines[index].comment) {
        return true;
    }
    let mut distance = 0;
    let mut in_function = source::function_name(&lines[index].code).is_none();
    for line in lines[..index].iter().rev() {
        let attribute = line.code.trim_start().starts_with("#[");
        if !line.is_comment() && !attribute {
            distance += 1;
            if !in_function || distance > reach {
                return false;
            }
            in_function = source::function_name(&line.code).is_none();
        }
        if test(&line.comment) {
            return true;
        }
    }
    false
}

/// Whether the function around `index` says so, in its documentation or before `index`.
fn function_says_relaxed(lines: &[Line], index: usize) -> bool {
    let Some(start) =
        lines[..=index].iter().rposition(|line| source::function_name(&line.code).is_some())
    else {
        return false;
    };
    let documentation = lines[..start]
        .iter()
        .rev()
        .take_while(|line| line.is_comment() || line.code.trim_start().starts_with("#["));
    documentation.chain(&lines[start..=index]).any(|line| says_relaxed(&line.comment))
}

/// A call of a barrier: of `dsb`, `mfence`, `fence`, or of anything whose name ends in `_fence`.
///
/// A definition is no call, and neither is a call that only passes an ordering on.
fn barrier(code: &str) -> Option<&'static str> {
    if source::function_name(code).is_some() && code.trim_end().ends_with([';', '{']) {
        let body = code.split_once('{').map_or("", |(_, body)| body);
        return if body.trim().is_empty() { None } else { barrier(body) };
    }
    ["dsb", "mfence", "fence"].into_iter().find(|name| {
        code.match_indices(&format!("{name}(")).any(|(at, call)| {
            let before = &code[..at];
            let whole = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let forwards = code[at + call.len()..].starts_with("order)");
            (whole || (*name == "fence" && before.ends_with('_'))) && !forwards
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> Vec<usize> {
        unexplained(&source::lines(text)).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn a_strong_ordering_needs_a_name() {
        assert_eq!(wrong("fn f() {\n    x.load(Ordering::Acquire);\n}"), [1]);
        assert!(
            wrong(
                "fn f() {\n    // ORDER O-A (pairs with O-A): r\n    x.load(Ordering::Acquire);\n}"
            )
            .is_empty()
        );
        assert!(wrong("fn f() {\n    x.load(Ordering::Acquire); // As O-A.\n}").is_empty());
        assert!(wrong("use Ordering::Acquire;\n/// Acquire\nstruct Acquired;").is_empty());
    }

    #[test]
    fn a_name_reaches_six_lines_of_code_and_not_into_the_next_function() {
        let near = format!("// As O-A.\n{}x.load(SeqCst);", "y();\n".repeat(5));
        let far = format!("// As O-A.\n{}x.load(SeqCst);", "y();\n".repeat(7));
        assert!(wrong(&near).is_empty());
        assert_eq!(wrong(&far), [8]);
        assert_eq!(wrong("// As O-A.\nx();\n}\nfn g() {\n  x.load(SeqCst);"), [4]);
        let long =
            format!("// ORDER O-A (pairs with O-A): r\n{}x.load(SeqCst);", "// more\n".repeat(9));
        assert!(wrong(&long).is_empty());
    }

    #[test]
    fn barriers_need_a_name_where_they_are_called() {
        assert_eq!(wrong("self.insn.dsb(Dsb::Ish);"), [0]);
        assert_eq!(wrong("W::fence(o());"), [0]);
        assert_eq!(wrong("self.insn.mfence();"), [0]);
        assert_eq!(wrong("compiler_fence(x());"), [0]);
        assert_eq!(wrong("fn settle(&self) { self.insn.fence(); }"), [0]);
        assert!(
            wrong(
                "fn dsb(&self, kind: Dsb);\nfn fence(order: Ordering) {\n  atomic::fence(order);"
            )
            .is_empty()
        );
        assert!(wrong("self.defence(x);\nself.sfence_vma(None, None);").is_empty());
    }

    #[test]
    fn relaxed_needs_a_word() {
        assert_eq!(wrong("fn f() {\n  x.load(Ordering::Relaxed);"), [1]);
        assert!(
            wrong("fn f() {\n  // Relaxed is enough: r.\n  x.load(Ordering::Relaxed);").is_empty()
        );
        assert!(
            wrong(
                "/// All loads are relaxed: r.\n#[inline]\nfn f() {\n  x.load(Ordering::Relaxed);"
            )
            .is_empty()
        );
        let far = format!("fn f() {{\n // relaxed: r\n{}x.load(Relaxed);", "y();\n".repeat(20));
        assert!(wrong(&far).is_empty());
        let other = format!(
            "fn f() {{\n // relaxed: r\n{}}}\nfn g() {{\nx.load(Relaxed);",
            "y();\n".repeat(20)
        );
        assert_eq!(wrong(&other).len(), 1);
    }

    #[test]
    fn tests_and_encoders_are_left_alone() {
        assert!(wrong("#[cfg(test)]\nmod tests {\n  fn f() { x.load(SeqCst); }\n}").is_empty());
        assert!(must_be_named("lookaside/src/arch/aarch64/mod.rs"));
        assert!(must_be_named("lookaside/src/tags/epochs.rs"));
        assert!(must_be_named("lookaside/src/encode.rs"));
        assert!(!must_be_named("lookaside/src/arch/aarch64/encode.rs"));
        assert!(!must_be_named("lookaside/src/arch/aarch64/encode/range.rs"));
        assert!(!must_be_named("lookaside/src/tags/tests.rs"));
        assert!(!must_be_named("lookaside/src/tags/tests/late.rs"));
        assert!(!must_be_named("lookaside/src/arch/x86_64/tests/cpu.rs"));
    }
}
