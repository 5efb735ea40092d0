//! What can be said of the overlay without Linux: in the gate, since Linux takes ten minutes of two processors to build.

use std::{collections::BTreeSet, process::Command};

use crate::{
    failure::{Failure, Result},
    process,
    workspace::Workspace,
};

const FLUSHES: &str = "linux/include/arm64/asm/tlbflush.h";
const DECLARED: &str = "linux/include/common/lookaside_mm.h";
/// Linux calls it in the header that is included alone, so that a call of it elsewhere does not compile.
const OF_THE_HEADER: &str = "__flush_tlb_page_nosync";
const LICENCE: &str = "SPDX-License-Identifier: GPL-2.0 OR MIT";

/// Every function of Linux that is renamed has one of ours in its place, what the headers call is declared and defined, and
/// each file says its licence. Compiles the declarations against the header of the C interface, and the programs, as C of this machine.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let flushes = workspace.read(FLUSHES)?;
    let renamed = renamed(&flushes)?;
    for name in renamed.iter().filter(|name| **name != OF_THE_HEADER) {
        if !flushes.contains(&format!("static inline void {name}("))
            && !flushes.contains(&format!("static inline bool {name}("))
        {
            return Err(Failure::new(format!(
                "{FLUSHES} renames `{name}` and has nothing in its place"
            )));
        }
    }
    let declared = workspace.read(DECLARED)?;
    let defined = workspace.read("linux/kernel/mm.c")? + &workspace.read("linux/kernel/arm64.c")?;
    for name in ours(&declared) {
        if !defined.contains(&format!("{name}(")) {
            return Err(Failure::new(format!(
                "{DECLARED} declares `{name}`, which is not defined"
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
    let programs = ["init.c", "hunters.c", "works.c"].map(|file| format!("linux/programs/{file}"));
    compile(workspace, &programs.each_ref().map(String::as_str))?;
    println!(
        "linux: {} functions of arm64 are renamed, and each but {OF_THE_HEADER} has one in its place",
        renamed.len()
    );
    Ok(())
}

fn compile(workspace: &Workspace, what: &[&str]) -> Result<()> {
    let mut command = Command::new("cc");
    command.current_dir(workspace.root());
    process::run(
        command.args(["-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]).args(what),
    )
}

/// What is renamed before Linux's header is included, and given back after it.
fn renamed(text: &str) -> Result<BTreeSet<&str>> {
    let (before, after) = text
        .split_once("#include_next <asm/tlbflush.h>\n#undef")
        .ok_or_else(|| Failure::new(format!("{FLUSHES} includes nothing of Linux")))?;
    let mut names = BTreeSet::new();
    for line in before.lines().filter_map(|line| line.strip_prefix("#define ")) {
        let Some((name, other)) = line.split_once(' ') else { continue };
        if other != format!("stock_{name}") {
            return Err(Failure::new(format!("{FLUSHES} renames `{name}` to `{other}`")));
        }
        if !after.contains(&format!("#undef {name}\n")) && !after.starts_with(&format!(" {name}\n"))
        {
            return Err(Failure::new(format!("{FLUSHES} does not give `{name}` back")));
        }
        names.insert(name);
    }
    Ok(names)
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
        assert_eq!(renamed(HEADER).unwrap(), BTreeSet::from(["a", "b"]));
        assert!(renamed(&HEADER.replace("#undef b\n", "")).is_err());
        assert!(renamed(&HEADER.replace("stock_b", "stock_a")).is_err());
        assert!(renamed("nothing").is_err());
    }

    #[test]
    fn declarations_are_found() {
        let text = "/* lookaside_no(x) */\nint lookaside_one(int x);\n\nvoid *lookaside_two(void);\nstruct a;\n";
        assert_eq!(ours(text).collect::<Vec<_>>(), ["lookaside_one", "lookaside_two"]);
    }
}
