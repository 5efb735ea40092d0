//! The workflow that kernels copy (`templates/tlb-check.yml`): its commands of ours exist, and take what they are given.

#![cfg(unix)]

use std::{env, fs, path::Path, process::Command};

fn template() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../templates/tlb-check.yml");
    fs::read_to_string(file).expect("the template is in the repository")
}

/// The one line of a step that has this text, without what YAML puts before it.
fn run(template: &str, text: &str) -> String {
    let mut lines = template.lines().filter(|line| line.contains(text));
    let (Some(line), None) = (lines.next(), lines.next()) else {
        panic!("the template has not one line with `{text}`");
    };
    let (_, command) = line.split_once("run: ").expect("it is the line of a step");
    command.to_owned()
}

/// Runs a line as the shell of a runner does, with the program of this build.
fn shell(line: &str, scenarios: &str) -> std::process::Output {
    let program = Path::new(env!("CARGO_BIN_EXE_lookaside"));
    let path = env::join_paths(
        [program.parent().expect("it lies in a folder").to_path_buf()]
            .into_iter()
            .chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    )
    .expect("the PATH can be extended");
    let mut command = Command::new("bash");
    command.args(["-e", "-c", line]).env("PATH", path).env("SCENARIOS", scenarios);
    command.output().expect("there is a shell")
}

#[test]
fn the_explorer_is_called_as_it_can_be() {
    let line = run(&template(), "lookaside check ");
    assert!(line.contains("--budget 600"), "{line}");
    let output = shell(&line.replace("--budget 600", "--budget 1 --rounds 1"), "tour");
    assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
}

/// The lines of a step that find from where the command line is installed.
fn script() -> String {
    let template = template();
    let (_, after) = template.split_once("--locked | python3 -c '\n").expect("a script");
    let (script, _) = after.split_once("')\n").expect("its end");
    script.lines().map(|line| line.trim_start().to_owned() + "\n").collect()
}

#[test]
fn the_explorer_is_that_of_the_library_in_the_lock_file() {
    if Command::new("python3").arg("-V").output().is_err() {
        return;
    }
    for (source, from) in [
        (
            "git+https://example.org/lookaside?rev=0123abc#0123abcdef",
            "--git https://example.org/lookaside --rev 0123abcdef\n",
        ),
        (
            "git+https://example.org/lookaside#0123abcdef",
            "--git https://example.org/lookaside --rev 0123abcdef\n",
        ),
        ("registry+https://example.org/index", "--version =0.1.2\n"),
    ] {
        let metadata = format!(
            r#"{{"packages": [{{"name": "k", "version": "1.0.0", "source": null}}, {{"name": "lookaside", "version": "0.1.2", "source": "{source}"}}]}}"#
        );
        let line = format!("python3 -c '{}' <<< '{metadata}'", script());
        let output = shell(&line, "");
        assert_eq!(String::from_utf8_lossy(&output.stdout), from, "{output:?}");
    }
}

#[test]
fn the_sanitizer_is_called_as_it_can_be() {
    let line = run(&template(), "release/lookaside-hunt ");
    // `lookaside hunt` takes the same words. It gets as far as an architecture that nobody watches.
    let line = line.replace(".lookaside/target/release/lookaside-hunt", "lookaside hunt");
    let line = line.replace("$IMAGE", "Cargo.toml").replace("$ARCH", "m68k");
    let output = shell(&line, "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}: {said}");
    assert!(said.contains("there is no sanitizer for m68k"), "{line}: {said}");
}

#[test]
fn what_is_built_and_called_is_there() {
    let template = template();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |file: &str| fs::read_to_string(root.join(file)).expect("the repository has it");
    let packages = template.split("--package ").skip(1);
    let packages: Vec<&str> = packages.filter_map(|rest| rest.split_whitespace().next()).collect();
    assert_eq!(packages, ["lookaside-hunt", "lookaside-watch-qemu"]);
    let hunt = read("hunt/Cargo.toml");
    let (_, program) = hunt.split_once("[[bin]]").expect("it has a program");
    assert!(program.contains("\nname = \"lookaside-hunt\"\n"), "{program}");
    assert!(read("watch-qemu/Cargo.toml").contains("name = \"lookaside-watch-qemu\""));
    assert!(template.contains("cargo install --locked lookaside-cli $from"));
    assert!(read("lab/Cargo.toml").contains("name = \"lookaside-cli\""));
    for (function, file) in [("check", "platform"), ("check_translations", "translations")] {
        assert!(template.contains(&format!("{function}`")), "{function}");
        let source = read(&format!("lookaside/src/conformance/{file}.rs"));
        assert!(source.contains(&format!("pub fn {function}<")), "{function}");
    }
}
