//! How many lines of the kernel it takes to use the library, for each architecture.
//!
//! Counted are the two files that an integrator writes, without comments and empty lines, and every
//! line of the rest of the kernel that calls what they export or gathers what is to be flushed.

use crate::{
    boot::Architecture,
    failure::{Failure, Result},
    source::{self, Line},
    workspace::Workspace,
};

/// Fewer lines than this, for each architecture.
const GOAL: usize = 121;

const SOURCE: &str = "kernel/src/";
/// The part that all architectures share.
const COMMON: &str = "kernel/src/tlb.rs";
/// What tests the integration, and the faults of one that tests of these tests build in.
const TESTS: [&str; 2] = ["kernel/src/conformance.rs", "kernel/src/faults.rs"];
const ARCHITECTURES: &str = "kernel/src/arch/";
/// What a line holds that uses the library.
const CALLS: [&str; 5] = ["tlb::", "this_cpu.", "gather.", "Gather", "KernelGather"];

/// Where the integration is shown.
const SHOWN: &str = "README.md";

/// Counts, and prints a table; and compares what is shown with what is there.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    for (file, code) in excerpts(&workspace.read(SHOWN)?) {
        if !workspace.read(file)?.contains(code) {
            return Err(Failure::new(format!("{SHOWN} shows code that is not in {file}")));
        }
    }
    let mut files = Vec::new();
    for file in workspace.files()? {
        if file.starts_with(SOURCE) && file.ends_with(".rs") {
            let lines = source::lines(&workspace.read(&file)?);
            files.push((file, lines));
        }
    }
    let mut over = Vec::new();
    println!("{:<10}{:>10}{:>10}{:>10}{:>10}", "", "tlb.rs", "its own", "calls", "in all");
    for architecture in Architecture::ALL {
        let Lines { common, own, calls } = count(&files, architecture.name());
        let all = common + own + calls;
        println!("{:<10}{common:>10}{own:>10}{calls:>10}{all:>10}", architecture.name());
        if all >= GOAL {
            over.push(architecture.name());
        }
    }
    if over.is_empty() {
        println!("integration: fewer than {GOAL} lines on each architecture");
        return Ok(());
    }
    Err(Failure::new(format!("{GOAL} lines of integration or more on {}", over.join(", "))))
}

/// The blocks of code that begin with a comment that names a file of the kernel: the file, and the code.
fn excerpts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("```rust\n// ").skip(1).filter_map(|block| {
        let (file, rest) = block.split_once('\n')?;
        let (code, _) = rest.split_once("\n```")?;
        file.starts_with(SOURCE).then_some((file, code))
    })
}

/// The lines of one architecture.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines {
    /// Of the file that all architectures share.
    common: usize,
    /// Of the file that is its own.
    own: usize,
    /// Of the rest, those that use the library.
    calls: usize,
}

fn count(files: &[(String, Vec<Line>)], architecture: &str) -> Lines {
    let ours = format!("{ARCHITECTURES}{architecture}/");
    let own = format!("{ours}tlb.rs");
    let mut counted = Lines::default();
    for (file, lines) in files {
        let code = || lines.iter().filter(|line| !line.code.trim().is_empty());
        let rest = file.strip_prefix(ARCHITECTURES);
        let is_foreign = rest.is_some_and(|rest| rest.contains('/')) && !file.starts_with(&ours);
        if file == COMMON {
            counted.common += code().count();
        } else if *file == own {
            counted.own += code().count();
        } else if !is_foreign && !TESTS.contains(&file.as_str()) {
            counted.calls += code().filter(|line| is_call(&line.code)).count();
        }
    }
    counted
}

fn is_call(code: &str) -> bool {
    CALLS.iter().any(|call| {
        let in_name = |c: char| c.is_alphanumeric() || c == '_';
        code.match_indices(call).any(|(at, _)| !code[..at].ends_with(in_name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_that_name_a_file_are_found() {
        let text = "```rust\nlet a;\n```\n```rust\n// kernel/src/b.rs\nlet c;\nlet d;\n```\n\
                    ```rust\n// of another\nlet e;\n```\n";
        assert_eq!(excerpts(text).collect::<Vec<_>>(), [("kernel/src/b.rs", "let c;\nlet d;")]);
    }

    #[test]
    fn lines_are_counted_where_they_belong() {
        let files: Vec<(String, Vec<Line>)> = [
            ("kernel/src/tlb.rs", "//! Words.\n\nuse a;\nfn b() {\n    // why\n    c(); // d\n}\n"),
            ("kernel/src/arch/mod.rs", "// tlb::no\nuse crate::tlb;\n"),
            ("kernel/src/arch/aarch64/tlb.rs", "fn e() {}\n"),
            ("kernel/src/arch/aarch64/trap.rs", "tlb::handle_ipi();\n"),
            ("kernel/src/arch/x86_64/tlb.rs", "fn f() {}\nfn g() {}\n"),
            ("kernel/src/map.rs", "let gather = h(\"tlb::\");\ngather.pages(i);\nmytlb::j();\n"),
            (TESTS[0], "tlb::this_cpu();\n"),
            (TESTS[1], "tlb::this_cpu();\n"),
            ("kernel/src/vmap.rs", "let gather = KernelGather::new();\nthis_cpu.flush(gather);\n"),
            ("kernel/src/frame.rs", "fn k(gather: &mut Gather<'_>) {}\n"),
        ]
        .map(|(file, text)| (file.to_owned(), source::lines(text)))
        .into();
        assert_eq!(count(&files, "aarch64"), Lines { common: 4, own: 1, calls: 5 });
        assert_eq!(count(&files, "x86_64"), Lines { common: 4, own: 2, calls: 4 });
        assert_eq!(count(&files, "riscv64"), Lines { common: 4, own: 0, calls: 4 });
    }
}
