//! What the library takes of memory, by the number of CPUs that the kernel is configured for.

use core::fmt::Write as _;
use std::{fs, path::Path, process::Command};

use object::{Object as _, ObjectSymbol as _};

use super::Architecture;
use crate::{
    capi,
    failure::{Context, Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// `CONFIG_NR_CPUS` of the rows.
const CPUS: [u32; 3] = [8, 256, 4096];

/// Memory for so many CPUs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    cpus: u32,
    /// In `mm_context_t`.
    mm: u64,
    /// In `task_struct`.
    task: u64,
    /// Static, for each CPU.
    cpu: u64,
    /// Static, once.
    once: u64,
}

/// Builds the library for each number of CPUs, and prints the table.
pub(super) fn print(workspace: &Workspace, architecture: Architecture) -> Result<()> {
    let bare = setup::run(workspace, false)?;
    let mut rows = Vec::new();
    for cpus in CPUS {
        let prefix = capi::build(
            workspace,
            &bare,
            &capi::Build { max_cpus: Some(cpus), ..capi::Build::of(architecture.capi()) },
        )?;
        let prefix = workspace.root().join(prefix);
        let [mm, task] = structs(&prefix, cpus)?;
        let object = prefix.join("lib/lookaside.o");
        let bytes = fs::read(&object).context(|| format!("reading {}", object.display()))?;
        let file = object::File::parse(&*bytes)
            .map_err(|error| Failure::new(format!("{}: {error}", object.display())))?;
        let symbols: Vec<_> = file
            .symbols()
            .filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.size())))
            .collect();
        let [per_cpu, counts, machine, tags] = [
            &["init", "CPUS"],
            &["platform", "COUNTS"],
            &["init", "MACHINE"],
            &["allocator", "WORDS"],
        ]
        .map(|path| size(&symbols, path));
        let cpu = (per_cpu? + counts?) / u64::from(cpus);
        rows.push(Memory { cpus, mm, task, cpu, once: machine? + tags? });
    }
    print!("\n{}", table(architecture, &rows));
    Ok(())
}

/// The sizes of `struct lookaside_space` and `struct lookaside_batch`, as a compiler says.
fn structs(prefix: &Path, cpus: u32) -> Result<[u64; 2]> {
    let (source, program) = (prefix.join("sizes.c"), prefix.join("sizes"));
    let text = "#include <lookaside.h>\n#include <stdio.h>\nint main(void) { printf(\"%zu %zu\\n\", sizeof(struct lookaside_space), sizeof(struct lookaside_batch)); }\n";
    fs::write(&source, text).context(|| format!("writing {}", source.display()))?;
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", &format!("-DLOOKASIDE_MAX_CPUS={cpus}"), "-I"]);
    process::output(compile.arg(prefix.join("include")).arg(&source).arg("-o").arg(&program))?;
    let printed = process::output(&mut Command::new(&program))?;
    let mut numbers = printed.split_whitespace().map_while(|word| word.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(mm), Some(task)) => Ok([mm, task]),
        _ => Err(Failure::new(format!("`{}` printed no sizes", program.display()))),
    }
}

/// The size of a static, whose mangled name has these words, each after its length.
fn size(symbols: &[(String, u64)], path: &[&str]) -> Result<u64> {
    let words: String = path.iter().map(|word| format!("{}{word}", word.len())).collect();
    let is_it = |(name, size): &&(String, u64)| name.contains(&words) && *size != 0;
    let found = symbols.iter().find(is_it).map(|(_, size)| *size);
    found.ok_or_else(|| Failure::new(format!("the library has no static {}", path.join("::"))))
}

fn table(architecture: Architecture, rows: &[Memory]) -> String {
    let mut text = format!(
        "| {}, NR_CPUS | each mm | each task | each CPU | once |\n| ---: | ---: | ---: | ---: | ---: |\n",
        architecture.name()
    );
    for Memory { cpus, mm, task, cpu, once } in rows {
        let _ = writeln!(text, "| {cpus} | {mm} | {task} | {cpu} | {once} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_is_found_by_its_path() {
        let symbols = [("_ZN1a4init4CPUS17h0E", 0), ("_ZN1a4init4CPUS17h1E", 96), ("x", 1)]
            .map(|(name, size)| (name.to_owned(), size));
        assert_eq!(size(&symbols, &["init", "CPUS"]).unwrap(), 96);
        assert!(size(&symbols, &["init", "COUNTS"]).is_err());
        let row = Memory { cpus: 8, mm: 120, task: 56, cpu: 12, once: 9 };
        let table = table(Architecture::Riscv64, &[row]);
        assert_eq!(table.lines().last().unwrap(), "| 8 | 120 | 56 | 12 | 9 |");
    }
}
