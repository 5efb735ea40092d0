//! The example kernel in C: compiled with the library of the host, run plainly and under the compiler's sanitizers, and
//! once with each of its faults, which it must notice.

use core::time::Duration;
use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use super::write;
use crate::{
    failure::{Context, Failure, Result},
    process,
    workspace::Workspace,
};

const EXAMPLES: &str = "capi/examples";
/// How long one run may take: a hundred times what it takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// Instrumentations that find mistakes in C. The library itself is not instrumented.
const SANITIZERS: [(&str, &[&str]); 3] = [
    ("plain", &["-O2"]),
    (
        "addresses and undefined behaviour",
        &["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    ),
    ("data races", &["-O1", "-fsanitize=thread"]),
];

/// Faults of the kernel and of its hardware.
const FAULTS: [&str; 2] = ["BREAK_UNMAP", "BREAK_FENCES"];

/// Whether there is a compiler of C.
pub(crate) fn is_compiler_here() -> bool {
    process::succeeds(Command::new(compiler()).arg("--version"))
}

/// Whether there is CMake.
pub(crate) fn is_cmake_here() -> bool {
    process::succeeds(Command::new("cmake").arg("--version"))
}

/// Why the step is skipped without it.
pub(crate) const CMAKE_NOT_HERE: &str = "there is no cmake (Debian: cmake)";

fn compiler() -> String {
    env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

/// Compiles and runs the examples with the library that is laid out in `prefix`.
pub(super) fn run(workspace: &Workspace, prefix: &Path) -> Result<()> {
    let folder = workspace.target().join("capi").join("examples");
    fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    let arguments = Arguments { workspace, prefix, folder: &folder };
    for (name, flags) in SANITIZERS {
        if !works(&folder, flags)? {
            println!("skipped: the compiler has no sanitizer for {name}");
            continue;
        }
        println!("examples, {name}");
        for program in ["refused", "trampoline", "kernel"] {
            let ended = arguments.compiled(program, flags)?.run(&[])?;
            if !ended.succeeded {
                return Err(Failure::new(format!(
                    "the example `{program}` ({name}) fails:\n{}",
                    ended.output
                )));
            }
            println!("{}", ended.output.lines().last().unwrap_or_default());
        }
    }
    for fault in FAULTS {
        let define = format!("-D{fault}");
        let ended = arguments.compiled("kernel", &["-O2", &define])?.run(&["20000"])?;
        if ended.succeeded || !ended.output.contains("STALE") {
            return Err(Failure::new(format!(
                "the example with {fault} notices nothing:\n{}",
                ended.output
            )));
        }
        println!("with {fault} it notices: {}", ended.output.lines().last().unwrap_or_default());
    }
    Ok(())
}

/// Compiles and runs an example with the debug build of the library that is laid out in `prefix`.
pub(super) fn run_checked(workspace: &Workspace, prefix: &Path) -> Result<()> {
    let folder = workspace.target().join("capi").join("examples-checked");
    fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    let arguments = Arguments { workspace, prefix, folder: &folder };
    let ended = arguments.compiled("kernel", &["-O2"])?.run(&[])?;
    match ended.output.lines().find(|line| line.ends_with(" loads of roots were checked")) {
        Some(line) if ended.succeeded => println!("example, checked build: {line}"),
        _ => {
            return Err(Failure::new(format!(
                "the example with the checked build fails, or nothing was checked:\n{}",
                ended.output
            )));
        }
    }
    Ok(())
}

/// Builds the examples as a kernel's CMake or pkg-config would, and runs one of each.
pub(super) fn with_cmake(workspace: &Workspace, prefix: &Path) -> Result<()> {
    let build = workspace.target().join("capi/cmake");
    if build.exists() {
        fs::remove_dir_all(&build).context(|| format!("removing {}", build.display()))?;
    }
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(workspace.root().join(EXAMPLES)).arg("-B").arg(&build);
    process::output(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())))?;
    process::output(Command::new("cmake").arg("--build").arg(&build))?;
    let ended = Program(build.join("kernel")).run(&["200"])?;
    if !ended.succeeded {
        return Err(Failure::new(format!("the example built by CMake fails:\n{}", ended.output)));
    }
    println!("CMake: {}", ended.output.lines().last().unwrap_or_default());
    if !process::succeeds(Command::new("pkg-config").arg("--version")) {
        println!("skipped: there is no pkg-config (Debian: pkg-config)");
        return Ok(());
    }
    let mut ask = Command::new("pkg-config");
    ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = process::output(ask.args(["--cflags", "--libs", "lookaside"]))?;
    let examples = workspace.root().join(EXAMPLES);
    let program = workspace.target().join("capi/examples/by-pkg-config");
    let mut compile = Command::new(compiler());
    compile.arg("-std=c11").arg(examples.join("refused.c")).arg(examples.join("shim.c"));
    process::output(
        compile.args(flags.split_whitespace()).arg("-pthread").arg("-o").arg(&program),
    )?;
    let ended = Program(program).run(&[])?;
    if !ended.succeeded {
        return Err(Failure::new(format!(
            "the example built by pkg-config fails:\n{}",
            ended.output
        )));
    }
    println!("pkg-config: {}", ended.output.lines().last().unwrap_or_default());
    Ok(())
}

/// Whether programs with these flags can be compiled and run.
fn works(folder: &Path, flags: &[&str]) -> Result<bool> {
    let (source, program) = (folder.join("probe.c"), folder.join("probe"));
    write(&source, "int main(void) { return 0; }\n")?;
    let mut compile = Command::new(compiler());
    compile.args(flags).arg(&source).arg("-o").arg(&program);
    Ok(process::succeeds(&mut compile) && process::succeeds(&mut Command::new(&program)))
}

struct Arguments<'a> {
    workspace: &'a Workspace,
    prefix: &'a Path,
    folder: &'a Path,
}

impl Arguments<'_> {
    fn compiled(&self, program: &str, flags: &[&str]) -> Result<Program> {
        let examples = self.workspace.root().join(EXAMPLES);
        let output = self.folder.join(program);
        let mut command = Command::new(compiler());
        command
            .args([
                "-std=c11",
                "-g",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-DLOOKASIDE_HOST",
            ])
            .args(flags)
            .arg("-I")
            .arg(self.prefix.join("include"))
            .args([examples.join(format!("{program}.c")), examples.join("shim.c")])
            .arg(self.prefix.join("lib/liblookaside.a"))
            .args(["-pthread", "-o"])
            .arg(&output);
        process::output(&mut command)?;
        Ok(Program(output))
    }
}

/// A program that may hang.
struct Program(std::path::PathBuf);

struct Ended {
    succeeded: bool,
    output: String,
}

impl Program {
    fn run(&self, arguments: &[&str]) -> Result<Ended> {
        let log = self.0.with_extension("log");
        let what = || format!("running {}", self.0.display());
        let file = fs::File::create(&log).context(what)?;
        let mut child = Command::new(&self.0)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone().context(what)?)
            .stderr(file)
            .spawn()
            .context(what)?;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().context(what)? {
                break Some(status);
            }
            if started.elapsed() > PATIENCE {
                child.kill().context(what)?;
                child.wait().context(what)?;
                break None;
            }
            thread::sleep(Duration::from_millis(20));
        };
        let mut output = String::from_utf8_lossy(&fs::read(&log).context(what)?).into_owned();
        if status.is_none() {
            output.push_str("it did not end in time\n");
        }
        Ok(Ended { succeeded: status.is_some_and(|status| status.success()), output })
    }
}
