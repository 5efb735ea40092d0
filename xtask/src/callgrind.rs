//! The example `instructions` of the library under callgrind, and what callgrind writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Command,
};

use crate::{
    failure::{Context, Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// Why a count is left out.
pub(crate) const NOT_HERE: &str = "valgrind is not here and could not be installed";

/// Whether valgrind is here, or could be installed.
pub(crate) fn is_here() -> bool {
    let runs = || process::succeeds(Command::new("valgrind").arg("--version"));
    runs() || (setup::debian("valgrind", &["valgrind"]).is_ok() && runs())
}

/// The example, built, and where callgrind writes.
pub(crate) struct Bench {
    example: PathBuf,
    output: PathBuf,
}

impl Bench {
    /// Builds the example with this profile of cargo.
    pub(crate) fn new(workspace: &Workspace, profile: &str) -> Result<Self> {
        if !process::succeeds(Command::new("valgrind").arg("--version")) {
            return Err(Failure::new(
                "valgrind counts the instructions, and it is missing.\n\
                 `cargo xtask setup --bench` installs it, or says how.",
            ));
        }
        let mut build = setup::cargo();
        build.current_dir(workspace.root()).args([
            "build",
            "--profile",
            profile,
            "--quiet",
            "--package",
            "lookaside",
            "--example",
            "instructions",
        ]);
        process::run(&mut build)?;
        let output = workspace.target().join("instructions");
        fs::create_dir_all(&output).context(|| format!("creating {}", output.display()))?;
        let example = workspace.target().join(profile).join("examples/instructions");
        Ok(Self { example, output })
    }

    /// Where the instructions of `count` times the path are.
    pub(crate) fn profile(&self, path: &str, count: u64) -> Result<Profile> {
        let file = self.output.join(format!("{}.{count}", path.replace('/', "-")));
        let mut command = Command::new("valgrind");
        command
            .args(["--quiet", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no"])
            // The measured functions have this in their names, whatever else the compiler adds.
            .arg("--toggle-collect=*counted_*")
            .arg(format!("--callgrind-out-file={}", file.display()))
            .arg(&self.example)
            .args([path, &count.to_string()]);
        process::output(&mut command)?;
        let text = fs::read_to_string(&file).context(|| format!("reading {}", file.display()))?;
        Profile::parse(&text).ok_or_else(|| {
            Failure::new(format!("{} is not what callgrind 3.19 writes", file.display()))
        })
    }
}

/// What callgrind counted in one run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) total: u64,
    /// By file and line, code that was inlined under the file that it came from.
    pub(crate) lines: BTreeMap<(String, u64), u64>,
    /// The functions that were entered, each with its file.
    pub(crate) functions: BTreeSet<(String, String)>,
}

impl Profile {
    /// Reads what callgrind wrote, with names and positions not compressed. The lines must add up
    /// to the total, or they were misunderstood.
    fn parse(text: &str) -> Option<Self> {
        let mut profile = Self::default();
        let (mut summary, mut file, mut call) = (None, "", false);
        let (mut begins_in, mut function) = ("", "");
        for line in text.lines() {
            if let Some(total) = line.strip_prefix("summary: ") {
                summary = Some(total.trim().parse().ok()?);
            } else if let Some((key, value)) = line.split_once('=') {
                match key {
                    "fl" => (file, begins_in) = (value, value),
                    "fi" | "fe" => file = value,
                    "fn" => function = value,
                    // The line after this is the cost of what was called, which is counted there.
                    "calls" => call = true,
                    _ => {}
                }
            } else if line.starts_with(|c: char| c.is_ascii_digit()) {
                let (at, cost) = line.trim_end().split_once(' ')?;
                if !call {
                    let cost: u64 = cost.parse().ok()?;
                    *profile.lines.entry((file.to_owned(), at.parse().ok()?)).or_default() += cost;
                    profile.total += cost;
                    profile.functions.insert((begins_in.to_owned(), function.to_owned()));
                }
                call = false;
            }
        }
        (summary == Some(profile.total)).then_some(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "# callgrind format\nversion: 1\ncmd:  ./instructions arm64/stay 1\n\
        positions: line\nevents: Ir\nsummary: 12\n\n\nob=/x\nfl=/a/main.rs\nfn=main\ncfn=b\n\
        calls=2 5\n9 11\n7 1\nfn=b\n5 4\nfi=/a/inlined.rs\n31 6\nfe=/a/main.rs\n5 1\n";

    #[test]
    fn costs_are_summed_by_line_and_calls_are_not_counted_twice() {
        let profile = Profile::parse(WRITTEN).unwrap();
        let lines = [(("/a/inlined.rs", 31), 6), (("/a/main.rs", 5), 5), (("/a/main.rs", 7), 1)];
        let lines = lines.map(|((file, line), cost)| ((file.to_owned(), line), cost));
        let functions = [("/a/main.rs", "b"), ("/a/main.rs", "main")];
        let functions = functions.map(|(file, name)| (file.to_owned(), name.to_owned()));
        let expected = Profile { total: 12, lines: lines.into(), functions: functions.into() };
        assert_eq!(profile, expected);
    }

    #[test]
    fn a_profile_that_does_not_add_up_is_refused() {
        assert_eq!(Profile::parse(&WRITTEN.replace("summary: 12", "summary: 13")), None);
        assert_eq!(Profile::parse("no profile"), None);
    }
}
