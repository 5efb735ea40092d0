//! How many functions of the library, in how many files, a common path enters: what somebody reads who follows it.
//!
//! Counted in a build without optimisation, in which a function of the source is one of the program. A function with
//! several type parameters counts once for each set of them that the path uses.

use core::fmt::Write as _;
use std::{collections::BTreeSet, path::Path};

use crate::{
    callgrind::Bench,
    failure::{Failure, Result},
    workspace::Workspace,
};

/// A path, which the example knows by this name, and the most functions and files that it may enter.
struct Row(&'static str, usize, usize);

/// What the paths enter today, so that they grow no longer. The goals are 80 functions in 12 files for an unmap with
/// another CPU, and 25 in 6 for a switch.
const ROWS: [Row; 9] = [
    Row("arm64/switch", 37, 14),
    Row("riscv/switch", 39, 14),
    Row("x86-recent/switch", 56, 14),
    Row("arm64/unmap", 63, 21),
    Row("riscv/unmap", 64, 19),
    Row("x86-recent/unmap", 69, 20),
    Row("arm64/shootdown-1", 120, 25),
    Row("riscv/shootdown-1", 144, 28),
    Row("x86-recent/shootdown-1", 135, 29),
];

/// Counts the functions of all paths and fails if one enters more than it may; for `paths`, also names them.
pub(crate) fn run(workspace: &Workspace, paths: &[String]) -> Result<()> {
    if let Some(unknown) = paths.iter().find(|path| ROWS.iter().all(|Row(name, ..)| name != path)) {
        let known: Vec<_> = ROWS.iter().map(|Row(name, ..)| *name).collect();
        return Err(Failure::new(format!(
            "there is no path `{unknown}`: there are {}",
            known.join(", ")
        )));
    }
    let bench = Bench::new(workspace, "unoptimised")?;
    let source = workspace.root().join("lookaside/src");
    let (mut table, mut above) = (String::new(), Vec::new());
    for Row(path, most, most_files) in ROWS {
        if !paths.is_empty() && !paths.iter().any(|chosen| chosen == path) {
            continue;
        }
        let entered = bench.profile(path, 10)?.functions;
        let ours: Vec<_> = entered
            .iter()
            .filter_map(|(file, name)| {
                let file = Path::new(file).strip_prefix(&source).ok()?;
                Some((file.display().to_string(), name))
            })
            .collect();
        let files: BTreeSet<_> = ours.iter().map(|(file, _)| file).collect();
        let (functions, files) = (ours.len(), files.len());
        if functions == 0 {
            return Err(Failure::new(format!("{path}: no function was counted")));
        }
        if !paths.is_empty() {
            for (file, name) in &ours {
                println!("{file:<32} {name}");
            }
        }
        let _ = writeln!(
            table,
            "{path:<23} | {functions:>9} | {most:>7} | {files:>5} | {most_files:>7}"
        );
        if functions > most || files > most_files {
            above.push(path);
        }
    }
    println!("path                    | functions | at most | files | at most\n{table}");
    if above.is_empty() {
        return Ok(());
    }
    let above = above.join(", ");
    Err(Failure::new(format!(
        "longer than before: {above}. `cargo xtask path-length PATH` names the functions."
    )))
}
