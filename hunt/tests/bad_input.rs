//! Whatever is wrong is said in one sentence, and no run that has shown nothing passes for a quiet one. The emulator here
//! is a script, which says and leaves what QEMU would.
#![cfg(unix)]

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use lookaside_watch::{Counts, front_end::Report};

/// What the emulator says of itself.
const NEW: &str = "QEMU emulator version 10.0.2";
const HELP: &str = "-plugin [file=]<file>[,<argname>=<argvalue>]";

struct Stage(PathBuf);

impl Drop for Stage {
    fn drop(&mut self) {
        // What is left behind is left in a folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Stage {
    /// An emulator of a version that can do what its help says, and does something when it runs a kernel.
    fn new(name: &str, version: &str, help: &str, runs: &str) -> Self {
        let folder = env::temp_dir().join(format!("hunt-{name}-{}", std::process::id()));
        let programs = folder.join("usr/bin");
        fs::create_dir_all(&programs).unwrap();
        let text = format!(
            "#!/bin/sh\ncase \"$1\" in\n--version) echo '{version}'; exit 0;;\n-help) echo '{help}'; exit \
             0;;\nesac\nfor word; do case \"$word\" in *report=*) report=${{word#*report=}}; \
             report=${{report%%,*}};; esac; done\n{runs}\n"
        );
        for architecture in ["riscv64", "aarch64", "x86_64"] {
            let program = programs.join(format!("qemu-system-{architecture}"));
            fs::write(&program, &text).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(folder.join("kernel"), "no kernel").unwrap();
        fs::write(folder.join("plugin"), "no plugin").unwrap();
        Self(folder)
    }

    /// One that leaves a report.
    fn reporting(name: &str, counts: Counts) -> Self {
        let report = serde_json::to_string(&Report { counts, ..Report::default() }).unwrap();
        let runs = format!("echo 'last words'; cat > \"$report\" <<'END'\n{report}\nEND");
        Self::new(name, NEW, HELP, &runs)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// The exit status, and everything that is said.
    fn hunt(&self, words: &[&str]) -> (i32, String) {
        let image = self.file("kernel");
        let all = [&["--image", &image, "--seconds", "5"], words].concat();
        hunt(Some(&self.0), &all)
    }
}

fn hunt(qemu: Option<&Path>, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lookaside-hunt"));
    if let Some(folder) = qemu {
        command.env("LOOKASIDE_QEMU", folder).env("LOOKASIDE_WATCH", folder.join("plugin"));
    }
    let output = command.args(words).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[track_caller]
fn says(result: (i32, String), status: i32, words: &[&str]) {
    let (code, said) = result;
    assert_eq!(code, status, "{said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}

#[test]
fn an_emulator_that_is_too_old_or_has_no_plugins() {
    let old = Stage::new("old", "QEMU emulator version 7.2.22", HELP, "");
    says(
        old.hunt(&[]),
        2,
        &["has version 7", "before 10 cannot read registers", "lookaside hunt --setup"],
    );
    let none = Stage::new("none", NEW, "-monitor dev", "");
    says(none.hunt(&[]), 2, &["was built without plugins", "lookaside hunt --setup"]);
    says(hunt(Some(&none.0), &["--check"]), 2, &["was built without plugins"]);
}

#[test]
fn an_emulator_that_has_no_such_cpu() {
    let runs = "echo 'unable to find CPU model `rv64`' >&2; exit 1";
    let stage = Stage::new("cpu", NEW, HELP, runs);
    says(stage.hunt(&[]), 2, &["has left no report", "unable to find CPU model"]);
}

#[test]
fn an_image_that_does_not_boot_or_is_not_there() {
    let stage = Stage::reporting("boot", Counts::default());
    says(stage.hunt(&[]), 1, &["nothing was watched", "proves nothing", "last words"]);
    let missing = hunt(Some(&stage.0), &["--image", "/nowhere/kernel"]);
    says(missing, 2, &["there is no file", "/nowhere/kernel"]);
}

#[test]
fn a_run_without_revocations_proves_nothing() {
    let quiet = Stage::reporting("quiet", Counts { filled: 5, ..Counts::default() });
    says(quiet.hunt(&[]), 1, &["revocations: 0", "proves nothing about them"]);
    let counts = Counts { filled: 5, revoked: 3, ..Counts::default() };
    says(Stage::reporting("good", counts).hunt(&[]), 0, &["0 certain findings", "3 revocations"]);
}

#[test]
fn tables_that_are_not_modelled_and_a_full_shadow() {
    let counts =
        Counts { accesses: 10, untranslated: 9, filled: 1, revoked: 1, ..Counts::default() };
    says(
        Stage::reporting("five", counts).hunt(&[]),
        0,
        &["9 of 10", "tables that are not modelled"],
    );
    let counts = Counts { filled: 9, revoked: 1, evicted: 7, ..Counts::default() };
    says(
        Stage::reporting("full", counts).hunt(&[]),
        0,
        &["the shadow was full 7 times", "--entries"],
    );
}

#[test]
fn a_script_that_waits_for_what_never_comes() {
    let counts = Counts { filled: 5, revoked: 3, ..Counts::default() };
    let stage = Stage::reporting("script", counts);
    let (good, bad) = (stage.file("good"), stage.file("bad"));
    fs::write(&good, "login: => root\n").unwrap();
    fs::write(&bad, "login: root\n").unwrap();
    let words = ["waited", "for `login:`, to say `root`, and it never came"];
    says(stage.hunt(&["--console", &good]), 0, &words);
    says(stage.hunt(&["--console", &bad]), 2, &["`login: root` is not WAIT => SAY"]);
}

#[test]
fn a_run_that_is_interrupted_ends_its_emulator_and_tells_what_it_found() {
    let counts = Counts { filled: 5, revoked: 3, ..Counts::default() };
    let report = serde_json::to_string(&Report { counts, ..Report::default() }).unwrap();
    let runs = format!(
        "echo \"$report\" >&2; cat > \"$report\" <<'END'\n{report}\nEND\nkill $PPID; exec sleep 3"
    );
    let stage = Stage::new("interrupted", NEW, HELP, &runs);
    let result = stage.hunt(&[]);
    let (_, said) = result.clone();
    says(result, 2, &["the run was interrupted after", "3 revocations", "error: interrupted"]);
    let report = said.lines().find_map(|line| line.strip_prefix("remark: QEMU says: ")).unwrap();
    assert!(!Path::new(report).parent().unwrap().exists(), "{report}");
}

#[test]
fn words_of_the_command_line_that_mean_nothing() {
    let stage = Stage::reporting("words", Counts::default());
    says(hunt(None, &["plan9"]), 2, &["there is no kernel `plan9`", "octox, xv6"]);
    says(hunt(None, &[]), 2, &["which kernel?"]);
    says(stage.hunt(&["--arch", "mips"]), 2, &["there is no sanitizer for mips"]);
    says(stage.hunt(&["--deny", "Z"]), 2, &["there is no finding `Z`"]);
    says(stage.hunt(&["--skip", "flush"]), 2, &["there is no function `flush`"]);
    says(stage.hunt(&["--skip", "flush+8"]), 2, &["an offset is 0x and digits"]);
    says(stage.hunt(&["--drive", "/nowhere/disk"]), 2, &["/nowhere/disk"]);
}
