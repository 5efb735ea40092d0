//! Programs of others on both kernels: Linux's own tests of memory, and stress-ng. What is compared is how each run ended, and how many
//! of the tests within it passed, failed and were skipped.

use core::{
    fmt::Write as _,
    hash::{Hash as _, Hasher as _},
};
use std::{
    collections::BTreeSet,
    fs,
    hash::DefaultHasher,
    path::{Path, PathBuf},
    process::Command,
};

use super::Architecture;
use crate::{
    failure::{Context, Result},
    process,
    workspace::Workspace,
};

/// What is run, and what is unpacked for it.
pub(super) struct Programs {
    /// The runs: huge pages, program, arguments.
    pub(super) list: String,
    /// Files, after their paths in the initramfs.
    pub(super) files: Vec<(String, PathBuf)>,
}

/// The command of each run in a list, without the number before it.
pub(super) fn commands(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| Some(line.split_once(' ')?.1))
}

/// Linux's own tests: compiled with its user-mode headers, statically, by one call of the compiler each.
pub(super) fn selftests(
    workspace: &Workspace,
    source: &Path,
    architecture: Architecture,
) -> Result<Programs> {
    let list = workspace.read("linux/runs/selftests")?;
    let linux = workspace.root().join(workspace.target()).join("linux");
    let headers = linux.join(format!("headers-{}", architecture.name()));
    if !headers.join("usr/include/linux/version.h").is_file() {
        make_folder(&headers)?;
        let mut make = Command::new("make");
        make.current_dir(source)
            .env_remove("MAKEFLAGS")
            .args(["-s", &format!("ARCH={}", architecture.linux())])
            .arg(format!("O={}", headers.display()))
            .arg("headers");
        process::run(&mut make)?;
    }
    let stand_ins = workspace.root().join("linux/runs/stand-ins");
    let folder = source.join("tools/testing/selftests/mm");
    let include = |path: PathBuf| format!("-I{}", path.display());
    // As `lib.mk` and the Makefile there have it. What one of them forgets to include (khugepaged.c), each is given.
    let flags = [
        "-std=gnu11".to_owned(),
        "-D_GNU_SOURCE=".to_owned(),
        "-O2".to_owned(),
        "-w".to_owned(),
        "-static".to_owned(),
        "-pthread".to_owned(),
        "-U_FORTIFY_SOURCE".to_owned(),
        "-include../kselftest.h".to_owned(),
        include(source.to_owned()),
        include(stand_ins),
        format!("-isystem{}", headers.join("usr/include").display()),
    ];
    let mut key = DefaultHasher::new();
    (&flags, fs::read(source.join("Makefile")).ok()).hash(&mut key);
    for file in workspace.files()?.iter().filter(|file| file.starts_with("linux/runs/stand-ins/")) {
        workspace.read(file)?.hash(&mut key);
    }
    let built = linux.join(format!("selftests-{}-{:x}", architecture.name(), key.finish()));
    make_folder(&built)?;
    // Linux's script writes it: liburing is not there.
    fs::write(built.join("local_config.h"), "").context(|| "writing local_config.h".into())?;
    let names: BTreeSet<_> =
        commands(&list).filter_map(|command| command.split(' ').next()).collect();
    let mut files = Vec::new();
    for name in names {
        let program = built.join(name);
        if !program.is_file() {
            let mut compile = Command::new(format!("{}gcc", architecture.cross()));
            compile
                .current_dir(&folder)
                .args(&flags)
                .arg(include(built.clone()))
                .arg("-o")
                .arg(&program)
                .args([&format!("{name}.c"), "vm_util.c", "thp_settings.c"])
                .args(name.starts_with("uffd-").then_some("uffd-common.c"))
                .args(["-lrt", "-lm"]);
            process::run(&mut compile)?;
        }
        files.push((format!("runs/{name}"), program));
    }
    Ok(Programs { list, files })
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))
}

/// How one run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    command: String,
    /// `exit 0`, `signal 11`, `hang 0`; or nothing: the kernel did not live to see it.
    end: String,
    passed: u32,
    failed: u32,
    skipped: u32,
    /// The names of those that failed.
    names: Vec<String>,
    /// What stress-ng says that it has done. It may do a few more than it is told.
    operations: u64,
}

impl Outcome {
    /// Whether another kernel has the same result.
    fn agrees(&self, other: &Self) -> bool {
        *self == Self { operations: self.operations, ..other.clone() }
    }

    /// As the programs say it: an exit with 4 is a test that this machine cannot run. Of stress-ng, 2 is a result that was not
    /// verified, 3 a want of resources, which is a failure here.
    fn word(&self) -> &'static str {
        match self.end.as_str() {
            "exit 0" => "PASS",
            "exit 4" if self.failed == 0 => "SKIP",
            _ => "FAIL",
        }
    }

    fn describe(&self) -> String {
        let mut text = self.word().to_owned();
        if text == "FAIL" {
            let end = if self.end.is_empty() { "no end" } else { &self.end };
            let _ = write!(text, " ({end})");
        }
        let mut separator = ": ";
        for (count, what) in
            [(self.passed, "passed"), (self.failed, "failed"), (self.skipped, "skipped")]
        {
            if count > 0 {
                let _ = write!(text, "{separator}{count} {what}");
                separator = ", ";
            }
        }
        if self.operations > 0 {
            let _ = write!(text, "{separator}{} operations", self.operations);
        }
        text
    }
}

/// The operations in a line of stress-ng's about a class: `stress-ng: metrc: [53] vm  2000  6.83 …`.
fn operations(line: &str) -> Option<u64> {
    let (_, after) = line.split_once("stress-ng: metrc: ")?;
    after.split_whitespace().nth(2)?.parse().ok()
}

/// How a line of the tests of userfaultfd begins, if a message of the kernel ends it: what the test says comes in the next line.
fn interrupted(line: &str) -> Option<&str> {
    let end = line.strip_prefix("Testing ")?.find("... ")? + "Testing ... ".len();
    let (begun, said) = line.split_at(end);
    let is_whole =
        said.ends_with("done") || said.contains("skipped [") || said.contains("failed [");
    (!is_whole).then_some(begun)
}

/// What the console says of each run. Lines of the Test Anything Protocol are counted, and those of the tests of userfaultfd, which
/// speak another.
pub(super) fn outcomes(list: &str, lines: &[String]) -> Vec<Outcome> {
    let mut all = Vec::new();
    for command in commands(list) {
        let begin = format!("RUN {command}");
        let mut one = Outcome { command: command.to_owned(), ..Outcome::default() };
        let mut begun: Option<String> = None;
        for line in lines.iter().skip_while(|line| **line != begin).skip(1) {
            if line.starts_with("RUN ") {
                break;
            }
            if let Some(end) = line.strip_prefix("RAN ").and_then(|end| end.strip_suffix(command)) {
                one.end = end.trim_end().to_owned();
                break;
            }
            let joined = begun.take().map(|begun| begun + line);
            let line = joined.as_deref().unwrap_or(line).trim_start();
            one.operations += operations(line).unwrap_or(0);
            let (test, userfault) = (line.contains("# SKIP"), line.starts_with("Testing "));
            if let Some(name) = interrupted(line) {
                begun = Some(name.to_owned());
                continue;
            }
            if line.starts_with("ok ") && test || userfault && line.contains("skipped [") {
                one.skipped += 1;
            } else if line.starts_with("ok ") || userfault && line.ends_with("done") {
                one.passed += 1;
            } else if line.starts_with("not ok ") || userfault && line.contains("failed [") {
                one.failed += 1;
                one.names.push(line.to_owned());
            }
        }
        all.push(one);
    }
    all
}

/// The runs, one column for each kernel, and the commands whose results differ.
pub(super) fn table(kernels: &[Vec<Outcome>]) -> (String, Vec<String>) {
    let mut text = String::from("| run | stock |");
    text.push_str(if kernels.len() == 2 { " on the library |\n" } else { "\n" });
    text.push_str(if kernels.len() == 2 { "| --- | --- | --- |\n" } else { "| --- | --- |\n" });
    let mut different = Vec::new();
    for (at, first) in kernels.first().into_iter().flatten().enumerate() {
        let _ = write!(text, "| `{}` |", first.command);
        for kernel in kernels {
            let described = kernel.get(at).map(Outcome::describe).unwrap_or_default();
            let _ = write!(text, " {described} |");
        }
        text.push('\n');
        if kernels.iter().any(|kernel| !kernel.get(at).is_some_and(|one| one.agrees(first))) {
            different.push(first.command.clone());
        }
    }
    (text, different)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Vec<Outcome> {
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        outcomes("0 cow\n128 uffd-stress anon 20 16\n0 mkdirty\n", &lines)
    }

    const STOCK: &str = "RUN cow\nok 1 a\n  ok 2 b # SKIP none\nTesting x... done\nRAN exit 0 cow\nRUN uffd-stress anon 20 16\n\
                         RAN exit 4 uffd-stress anon 20 16\nRUN mkdirty\nnot ok 1 write\nRAN signal 11 mkdirty\n";

    #[test]
    fn ends_and_tests_within_are_counted() {
        let stock = seen(STOCK);
        let described: Vec<_> = stock.iter().map(Outcome::describe).collect();
        assert_eq!(described, ["PASS: 2 passed, 1 skipped", "SKIP", "FAIL (signal 11): 1 failed"]);
        let (table, different) = table(&[stock.clone(), stock]);
        assert!(different.is_empty() && table.lines().all(|line| line.matches('|').count() == 4));
    }

    #[test]
    fn a_message_of_the_kernel_within_a_line_hides_no_test() {
        let said = |more: &str| {
            seen(&format!(
                "RUN cow\nTesting a on shmem... {more}done\nTesting b on anon... {more}failed [reason: x]\nRAN exit 0 cow\n"
            ))
        };
        let (whole, broken) = (said(""), said("hrtimer: interrupt took 42160200 ns\n"));
        assert_eq!(whole[0].describe(), "PASS: 1 passed, 1 failed");
        assert_eq!(whole, broken);
    }

    #[test]
    fn operations_of_stress_ng_are_counted_and_not_compared() {
        let said = "RUN cow\nstress-ng: metrc: [5] stressor  bogo ops real time\nstress-ng: metrc: [5]  (secs)\n\
                    stress-ng: metrc: [5] vm   2000   6.83\nRAN exit 0 cow\n";
        let (stock, ours) = (seen(said), seen(&said.replace("2000", "2001")));
        assert_eq!(stock[0].describe(), "PASS: 2000 operations");
        assert!(table(&[stock.clone(), ours]).1.is_empty());
        assert_eq!(table(&[stock, seen(&said.replace("exit 0", "exit 2"))]).1.len(), 1);
    }

    #[test]
    fn another_end_or_another_test_that_fails_is_a_difference() {
        let stock = seen(STOCK);
        for (from, to) in [("exit 4", "exit 1"), ("ok 1 write", "ok 1 read"), ("RAN signal", "")] {
            let ours = seen(&STOCK.replace(from, to));
            assert_eq!(table(&[stock.clone(), ours]).1.len(), 1, "{from}");
        }
    }
}
