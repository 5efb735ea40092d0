//! What can be said of the overlay without Linux: in the gate, since Linux takes ten minutes of two processors to build.

use std::{collections::BTreeSet, process::Command};

use super::Architecture;
use crate::{
    failure::{Failure, Result},
    process,
    workspace::Workspace,
};

const DECLARED: &str = "linux/include/common/lookaside_mm.h";
const LICENCE: &str = "SPDX-License-Identifier: GPL-2.0 OR MIT";

/// Where the functions of an architecture are renamed.
struct Renaming {
    /// The file that renames, includes Linux's text, and gives the names back.
    file: &'static str,
    /// The last of Linux that it includes.
    included: &'static str,
    /// What is renamed and has nothing in its place: Linux uses it in what is included alone, so that a use of it elsewhere does
    /// not compile.
    only_there: &'static [&'static str],
}

impl Architecture {
    const fn renamings(self) -> &'static [Renaming] {
        match self {
            Self::Arm64 => &[Renaming {
                file: "linux/include/arm64/asm/tlbflush.h",
                included: "#include_next <asm/tlbflush.h>",
                only_there: &["__flush_tlb_page_nosync"],
            }],
            Self::Riscv64 => &[Renaming {
                file: "linux/kernel/riscv64.c",
                included: "#include \"tlbflush.c\"",
                only_there: &["arch_tlbflush_unmap_batch"],
            }],
            Self::X86_64 => &[
                Renaming {
                    file: "linux/include/x86_64/asm/tlbflush.h",
                    included: "#include_next <asm/tlbflush.h>",
                    only_there: &["arch_tlbflush_unmap_batch"],
                },
                Renaming {
                    file: "linux/kernel/x86_64.c",
                    included: "#include \"tlb.c\"",
                    // Ours is in the header.
                    only_there: &["arch_tlbflush_unmap_batch", "arch_tlbbatch_flush"],
                },
            ],
        }
    }
}

/// For each architecture: every function of Linux that is renamed has one of ours in its place, what the headers call is
/// declared and defined; and each file says its licence. Compiles the declarations against the header of the C interface, and
/// the programs, as C of this machine.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let declared = workspace.read(DECLARED)?;
    for architecture in Architecture::ALL {
        let name = architecture.name();
        for renaming in architecture.renamings() {
            let text = workspace.read(renaming.file)?;
            let renamed = renamed(renaming, &text)?;
            if let Some(name) = renamed
                .iter()
                .find(|name| !renaming.only_there.contains(*name) && !is_defined(&text, name))
            {
                return Err(Failure::new(format!(
                    "{} renames `{name}` and has nothing in its place",
                    renaming.file
                )));
            }
            println!(
                "linux: {} names are renamed in {}, and each but {} has one in its place",
                renamed.len(),
                renaming.file,
                renaming.only_there.join(", ")
            );
        }
        let defined = workspace.read("linux/kernel/mm.c")?
            + &workspace.read(&format!("linux/kernel/{name}.c"))?;
        if let Some(function) = ours(&declared).find(|function| !is_defined(&defined, function)) {
            return Err(Failure::new(format!(
                "{DECLARED} declares `{function}`, which is not defined for {name}"
            )));
        }
    }
    for file in workspace.files()?.iter().filter(|file| file.starts_with("linux/")) {
        let is_code = [".c", ".h", ".rs"].iter().any(|end| file.ends_with(end));
        if is_code && !workspace.read(file)?.contains(LICENCE) {
            return Err(Failure::new(format!("{file} does not say `{LICENCE}`")));
        }
    }
    let header = ["-x", "c", "linux/include/common/lookaside_mm.h"];
    let include = ["-Ilinux/check", "-Ilinux/include/common", "-Icapi/include"];
    compile(workspace, &[&include[..], &header].concat())?;
    let programs = ["init.c", "hunters.c", "parts.c", "runs.c", "works.c"]
        .map(|file| format!("linux/programs/{file}"));
    compile(workspace, &programs.each_ref().map(String::as_str))?;
    Ok(())
}

fn compile(workspace: &Workspace, what: &[&str]) -> Result<()> {
    let mut command = Command::new("cc");
    command.current_dir(workspace.root());
    process::run(
        command.args(["-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]).args(what),
    )
}

/// What is renamed before Linux's text is included, and given back after it.
fn renamed<'a>(renaming: &Renaming, text: &'a str) -> Result<BTreeSet<&'a str>> {
    let file = renaming.file;
    let (before, after) = text
        .split_once(&format!("{}\n#undef", renaming.included))
        .ok_or_else(|| Failure::new(format!("{file} includes nothing of Linux")))?;
    let mut names = BTreeSet::new();
    for line in before.lines().filter_map(|line| line.strip_prefix("#define ")) {
        let Some((name, other)) = line.split_once(' ') else { continue };
        if other != format!("stock_{name}") {
            return Err(Failure::new(format!("{file} renames `{name}` to `{other}`")));
        }
        if !after.contains(&format!("#undef {name}\n")) && !after.starts_with(&format!(" {name}\n"))
        {
            return Err(Failure::new(format!("{file} does not give `{name}` back")));
        }
        names.insert(name);
    }
    Ok(names)
}

/// Whether a text of C has a function of that name with a body.
fn is_defined(text: &str, name: &str) -> bool {
    let head = format!("{name}(");
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(&head).any(|(at, _)| {
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let (before, after) = (&text[line..at], &text[at..]);
        // A head begins its line with a type, and its parameters are followed by the body.
        !before.is_empty()
            && !before.starts_with(|c: char| !is_part(c))
            && !before.ends_with(is_part)
            && after.find(')').is_some_and(|end| after[end + 1..].starts_with("\n{"))
    })
}

/// The functions that a header declares.
fn ours(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with([' ', '/', '#', '\t'])).filter_map(|line| {
        let (before, _) = line.split_once('(')?;
        before.rsplit([' ', '*']).next().filter(|name| name.starts_with("lookaside_"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "#define a stock_a\n#define b stock_b\n#include_next <asm/tlbflush.h>\n#undef a\n#undef b\n";

    #[test]
    fn a_name_that_is_not_given_back_is_found() {
        let [renaming] = Architecture::Arm64.renamings() else { panic!("one file") };
        let renamed = |text: &str| renamed(renaming, text).map(|names| names.len());
        assert_eq!(renamed(HEADER).unwrap(), 2);
        assert!(renamed(&HEADER.replace("#undef b\n", "")).is_err());
        assert!(renamed(&HEADER.replace("stock_b", "stock_a")).is_err());
        assert!(renamed("nothing").is_err());
    }

    #[test]
    fn a_declaration_or_a_call_is_no_definition() {
        assert!(is_defined("void a(int b,\n       int c)\n{\n}\n", "a"));
        assert!(is_defined("static inline bool a(void)\n{\n}\n", "a"));
        assert!(!is_defined("void a(int b);\n", "a"));
        assert!(!is_defined("void stock_a(int b)\n{\n}\n", "a"));
        assert!(!is_defined("void b(void)\n{\n\ta();\n}\n", "a"));
    }

    #[test]
    fn declarations_are_found() {
        let text = "/* lookaside_no(x) */\nint lookaside_one(int x);\n\nvoid *lookaside_two(void);\nstruct a;\n";
        assert_eq!(ours(text).collect::<Vec<_>>(), ["lookaside_one", "lookaside_two"]);
    }
}
