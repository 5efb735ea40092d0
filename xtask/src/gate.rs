//! Everything that must hold before a change lands, one named step after the other.

use std::process::Command;

use clap::ValueEnum;

use crate::{
    beside::{self, Beside},
    boot::{self, Architecture, Emulator, Options, build},
    callgrind, capi, dependencies,
    failure::{Failure, Result},
    fences, first_build, imports, instructions, integration, linux, litmus, loom, map, miri,
    mutants,
    optimised::{self, EXPLORER, LAB, Program},
    package::{self, LIBRARIES},
    path_length, process, python,
    registry::{self, TARGETS_OF_DOCS},
    report, root_names, sanitizer, seeds,
    setup::{self, BareMetal, TARGETS},
    site,
    stage::Selection,
    step::{Gate, Outcome},
    words,
    workspace::Workspace,
};

/// The step that boots Linux.
const LINUX: &str = "linux, arm64";
/// The step that packs and builds what is published.
const PACKAGES: &str = "packages";
/// The step that builds the wheel of the Python package.
const WHEEL: &str = "python, wheel";
/// A file longer than this is one that newcomers will fear.
const LONG_FILE: usize = 600;

/// Runs the steps, and fails if one of them did. Set-up comes first whatever is selected: without it nothing else
/// can run.
pub(crate) fn run(workspace: &Workspace, selection: Selection) -> Result<()> {
    println!("test: {}", selection.announced());
    let bare = setup::run(workspace, false)?;
    let mut gate = Gate::new(selection);
    steps(&mut gate, workspace, &bare);
    gate.close()
}

fn steps(gate: &mut Gate, workspace: &Workspace, bare: &BareMetal) {
    // What is asked for by name is done in full.
    let quick = gate.selection.only.is_empty() && gate.selection.stage < 3;
    let (beside, no_linux) = begin_beside(gate, workspace);
    gate.step("format", || cargo(workspace, &["fmt", "--all", "--check"]));
    gate.step("long files", || long_files(workspace));
    gate.step("words", || words::run(workspace).map(|()| Outcome::Passed));
    gate.step("map", || map::run(workspace).map(|()| Outcome::Passed));
    gate.step("root names", || root_names::run(workspace).map(|()| Outcome::Passed));
    gate.step("imports", || imports::run(workspace).map(|()| Outcome::Passed));
    gate.step("fences", || fences::run(workspace).map(|()| Outcome::Passed));
    gate.step("seeds", || seeds::run(workspace).map(|()| Outcome::Passed));
    // Before other steps build what it measures: where nothing is built yet, it is built once.
    gate.step("first build", || {
        if !first_build::is_measurable() {
            return Ok(Outcome::Skipped(first_build::NOT_LINUX));
        }
        first_build::run(workspace).map(|()| Outcome::Passed)
    });
    gate.step("lint, libraries", || {
        let packages = LIBRARIES.map(|package| format!("--package={package}"));
        let mut command = setup::cargo();
        command.arg("clippy").args(packages).args(["--lib", "--", "-Dwarnings"]);
        in_workspace(workspace, &mut command)
    });
    gate.step("tests, libraries", || {
        let packages = LIBRARIES.map(|package| format!("--package={package}"));
        let mut command = setup::cargo();
        in_workspace(workspace, command.args(["test", "--lib", "--tests"]).args(packages))
    });
    gate.step("lint, host", || {
        cargo(workspace, &["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"])
    });
    gate.step("lint, explorer alone", || {
        let alone = ["--package", EXPLORER, "--all-targets"];
        cargo(workspace, &[&["clippy"], &alone[..], &["--", "-Dwarnings"]].concat())
    });
    // What a newcomer builds first has fewer features than what the others need.
    gate.step("lint, reproduce alone", || {
        let alone = ["--package", LAB, "--no-default-features"];
        cargo(workspace, &[&["clippy"], &alone[..], &["--", "-Dwarnings"]].concat())
    });
    for target in TARGETS {
        gate.step(&format!("lint, {target}"), || {
            if !bare.is_installed(target) {
                return Ok(Outcome::Skipped("clippy needs the compiled target"));
            }
            of_libraries(target, |package| {
                let mut command = bare.cargo_for(package, "core", "clippy", target);
                in_workspace(workspace, command.args(["--", "-Dwarnings"]))
            })
        });
        gate.step(&format!("build, {target}"), || {
            of_libraries(target, |package| {
                let mut command = bare.cargo_for(package, "core", "build", target);
                in_workspace(workspace, command.arg("--release"))
            })
        });
    }
    gate.step("build, oldest Rust", || {
        if quick {
            return Ok(Outcome::Skipped(QUICK));
        }
        let Some(mut command) = setup::oldest_cargo(workspace)? else {
            return Ok(Outcome::Skipped("rustup could not install it"));
        };
        // Their unit tests run there, too: that they compile does not show that they work.
        command.args(["test", "--lib", "--quiet"]);
        in_workspace(workspace, command.args(libraries().map(|name| format!("--package={name}"))))?;
        // The tool promises the same.
        let Some(mut command) = setup::oldest_cargo(workspace)? else {
            return Ok(Outcome::Skipped("rustup could not install it"));
        };
        in_workspace(workspace, command.args(["check", "--locked", "--package", LAB]))
    });
    gate.step("dependencies", || {
        if !dependencies::is_checkable() {
            return Ok(Outcome::Skipped(dependencies::NOT_HERE));
        }
        dependencies::run(workspace).map(|()| Outcome::Passed)
    });
    gate.step("tests, tools and documentation", || {
        // The libraries' own programs have run ("tests, libraries"); with the features that the workspace needs they would
        // all be compiled once more.
        let others =
            optimised::PACKAGES.iter().chain(&LIBRARIES).flat_map(|package| ["--exclude", package]);
        cargo(workspace, &["test", "--workspace"].into_iter().chain(others).collect::<Vec<_>>())?;
        let packages = LIBRARIES.iter().flat_map(|package| ["--package", package]);
        cargo(workspace, &["test", "--doc"].into_iter().chain(packages).collect::<Vec<_>>())
    });
    c_steps(gate, workspace, bare);
    // Linux on the other architectures: `cargo xtask linux riscv64|x86_64 --tests`.
    gate.step("linux, overlay", || {
        if !capi::is_compiler_here() {
            return Ok(Outcome::Skipped("there is no compiler of C"));
        }
        linux::overlay::check(workspace).map(|()| Outcome::Passed)
    });
    // Optimised, because the explorer takes millions of steps.
    gate.step("tests, optimised", || {
        process::run(&mut optimised::cargo(workspace, "test")).map(|()| Outcome::Passed)
    });
    gate.step("loom", || {
        if quick {
            return Ok(Outcome::Skipped(QUICK));
        }
        loom::run(workspace).map(|()| Outcome::Passed)
    });
    gate.step("Miri", || {
        if quick {
            return Ok(Outcome::Skipped(QUICK));
        }
        if !miri::is_here() {
            return Ok(Outcome::Skipped(miri::NOT_HERE));
        }
        miri::run(workspace).map(|()| Outcome::Passed)
    });
    gate.step("litmus", || {
        let Some(folder) = litmus::folder(workspace) else {
            return Ok(Outcome::Skipped(litmus::NOT_HERE));
        };
        litmus::run(workspace, &folder).map(|()| Outcome::Passed)
    });
    gate.step("check", || {
        let deep: &[&str] = if quick {
            &["--steps", "1000000", "--budget", "600"]
        } else {
            &["--preemptions", "2", "--steps", "1500000000"]
        };
        lookaside(workspace, &[&["check", "--zoo"], deep].concat())
    });
    gate.step("check, generated programs", || {
        // Three minutes on two cores.
        let scripts = if quick { "1000" } else { "36000" };
        let limits = ["--scripts", scripts, "--seed", "1", "--budget", "3600"];
        lookaside(workspace, &[&["check", "--generate"][..], &limits].concat())
    });
    gate.step("against Linux", || against_linux(workspace, quick));
    gate.step("instructions", || {
        if !callgrind::is_here() {
            return Ok(Outcome::Skipped(callgrind::NOT_HERE));
        }
        if !instructions::is_comparable()? {
            return Ok(Outcome::Skipped("the figures are another compiler's"));
        }
        instructions::run(workspace, &[], false).map(|()| Outcome::Passed)
    });
    gate.step("path length", || {
        if !callgrind::is_here() {
            return Ok(Outcome::Skipped(callgrind::NOT_HERE));
        }
        path_length::run(workspace, &[]).map(|()| Outcome::Passed)
    });
    gate.step("differential", || {
        let few = ["differential", "--ops", "2", "--budget", "60"];
        let random = ["differential", "--random", "20000", "--seed", "1", "--budget", "60"];
        lookaside(workspace, &few)?;
        lookaside(workspace, &random)
    });
    gate.step("report, in a browser", || {
        if quick {
            return Ok(Outcome::Skipped(QUICK));
        }
        report::run(workspace).map(|()| Outcome::Passed)
    });
    gate.step("documentation", || {
        if quick {
            return Ok(Outcome::Skipped(QUICK));
        }
        let mut command = setup::cargo();
        command.env("RUSTDOCFLAGS", "-Dwarnings").args(["doc", "--workspace", "--no-deps"]);
        in_workspace(workspace, &mut command)
    });
    for target in TARGETS_OF_DOCS {
        gate.step(&format!("documentation, {target}"), || {
            if quick {
                return Ok(Outcome::Skipped(QUICK));
            }
            if !bare.is_installed(target) {
                return Ok(Outcome::Skipped("rustdoc needs the compiled target"));
            }
            of_libraries(target, |package| {
                let command = bare.cargo_for(package, "core", "doc", target);
                registry::document(workspace, command).map(|()| Outcome::Passed)
            })
        });
    }
    gate.step("site", || {
        if quick {
            return Ok(Outcome::Skipped(QUICK));
        }
        let Some(mdbook) = site::mdbook(workspace) else {
            return Ok(Outcome::Skipped(site::NOT_HERE));
        };
        site::build(workspace, &mdbook).map(|()| Outcome::Passed)
    });
    gate.step("playground, in a browser", || {
        if quick {
            return Ok(Outcome::Skipped(QUICK));
        }
        if site::mdbook(workspace).is_none() {
            return Ok(Outcome::Skipped(site::NOT_HERE));
        }
        site::try_out(workspace).map(|()| Outcome::Passed)
    });
    kernel_steps(gate, workspace, bare, quick);
    gate.step(PACKAGES, || {
        let packages = || package::run(workspace, bare, &LIBRARIES, &TARGETS_OF_DOCS);
        beside.wait(PACKAGES).unwrap_or_else(packages).map(|()| Outcome::Passed)
    });
    gate.step(WHEEL, || {
        let beside = beside.wait(WHEEL);
        let Some(python) = python::get(workspace) else {
            return Ok(Outcome::Skipped(python::NOT_HERE));
        };
        beside.unwrap_or_else(|| python::build(workspace, &python)).map(|()| Outcome::Passed)
    });
    gate.step("python, package", || {
        let Some(python) = python::get(workspace) else {
            return Ok(Outcome::Skipped(python::NOT_HERE));
        };
        python::run(workspace, &python).map(|()| Outcome::Passed)
    });
    gate.step("mutants fit the source", || mutants::fit(workspace).map(|()| Outcome::Passed));
    // That every mutant is found takes longer than all the rest: `cargo xtask mutants`.
    gate.step("every scenario finds a mutant", || {
        if quick {
            return Ok(Outcome::Skipped(QUICK));
        }
        mutants::teeth(workspace).map(|()| Outcome::Passed)
    });
    gate.step(LINUX, || {
        if let Some(failure) = no_linux {
            println!("{failure}");
            return Ok(Outcome::Skipped("what builds and boots Linux cannot be installed"));
        }
        let Some(built) = beside.wait(LINUX) else { return Ok(Outcome::Skipped(QUICK)) };
        Ok(if linux::background::test(workspace, built)? {
            Outcome::Passed
        } else {
            Outcome::Skipped("Debian's linux-source-6.12 cannot be fetched")
        })
    });
}

/// Begins what takes minutes, in folders of its own, beside the other steps, which do not need both processors all the time: the build of Linux,
/// and in a run that is not of single steps those of the packages. Returns why there is none of Linux, too.
fn begin_beside(gate: &Gate, workspace: &Workspace) -> (Beside, Option<Failure>) {
    let (mut commands, mut no_linux) = (Vec::new(), None);
    if gate.selection.contains(LINUX) {
        match linux::background::build() {
            Ok(build) => commands.push((LINUX, build)),
            Err(failure) => no_linux = Some(failure),
        }
    }
    let of_all = [PACKAGES, WHEEL].into_iter().filter(|_| gate.selection.only.is_empty());
    for name in of_all.filter(|name| gate.selection.contains(name)) {
        if let Ok(program) = beside::this_program() {
            let mut command = Command::new(program);
            command.args(["test", "--only", name]);
            commands.push((name, command));
        }
    }
    let beside = Beside::begin(&workspace.target().join("beside"), commands);
    // Without it, the steps do it themselves.
    (beside.unwrap_or_default(), no_linux)
}

/// The most that the library may take of Linux's time on any trace and machine, with refills and of what is known, and
/// the medians: what it takes today, so that it does not grow. The goals are 1.02 and 1.00, and 0.9 for both medians.
const AGAINST_LINUX: [&str; 4] = ["--most", "1.03", "--most-known", "1.05"];
const MEDIANS: [&str; 4] = ["--median", "0.96", "--median-known", "0.61"];

/// The library's time as part of Linux's, on every trace: on some machines, about 20 seconds of one CPU, or on all,
/// which takes 60.
fn against_linux(workspace: &Workspace, quick: bool) -> Result<Outcome> {
    let traces = ["against-linux", "traces", "traces/corpus/found", "traces/corpus/judged"];
    let some = ["--machine", "zen2,zen5,skylake_sp,haswell_desktop,milan_72cpu,neoverse_n1"];
    let machines = if quick { &some[..] } else { &MEDIANS };
    lookaside(workspace, &[&traces[..], &AGAINST_LINUX, machines].concat())
}

/// The interface to C: the objects that kernels link, and an example kernel in a program.
fn c_steps(gate: &mut Gate, workspace: &Workspace, bare: &BareMetal) {
    gate.step("lint, C library", || {
        let exports = ["clippy", "--package", "lookaside-c", "--features", "exports", "--lib"];
        cargo(workspace, &[&exports[..], &["--", "-Dwarnings"]].concat())
    });
    for target in capi::Target::KERNELS {
        gate.step(&format!("C library, {}", target.name()), || {
            capi::build(workspace, bare, &capi::Build::of(target)).map(|_| Outcome::Passed)
        });
    }
    gate.step("C example", || {
        if !capi::is_compiler_here() {
            return Ok(Outcome::Skipped("there is no compiler of C"));
        }
        capi::examples(workspace, bare).map(|()| Outcome::Passed)
    });
    gate.step("C example, CMake and pkg-config", || {
        if !capi::is_compiler_here() || !capi::is_cmake_here() {
            return Ok(Outcome::Skipped(capi::CMAKE_NOT_HERE));
        }
        capi::with_cmake(workspace, bare).map(|()| Outcome::Passed)
    });
}

/// The kernel is a workspace of its own, so it has its own steps.
fn kernel_steps(gate: &mut Gate, workspace: &Workspace, bare: &BareMetal, quick: bool) {
    gate.step("format, kernel", || {
        let mut command = setup::cargo();
        command.current_dir(workspace.root().join(build::KERNEL.directory));
        process::run(command.args(["fmt", "--all", "--check"])).map(|()| Outcome::Passed)
    });
    gate.step("lines of the integration", || integration::run(workspace).map(|()| Outcome::Passed));
    for architecture in Architecture::ALL {
        gate.step(&format!("lint, kernel, {architecture}"), || {
            if !bare.is_installed(architecture.target()) {
                return Ok(Outcome::Skipped("clippy needs the compiled target"));
            }
            lint_kernel(workspace, bare, architecture).map(|()| Outcome::Passed)
        });
        gate.step(&format!("boot, {architecture}"), || {
            if quick {
                return Ok(Outcome::Skipped(QUICK));
            }
            let options = Options::short(architecture);
            boot::passes(workspace, bare, &options).map(|()| Outcome::Passed)
        });
        gate.step(&format!("boot, {architecture}, no remote flushes"), || {
            if quick {
                return Ok(Outcome::Skipped(QUICK));
            }
            let options = Options::short(architecture);
            boot::bites(workspace, bare, &options).map(|()| Outcome::Passed)
        });
        for &fault in build::Fault::value_variants() {
            if !fault.shows_on(architecture) {
                continue;
            }
            gate.step(&format!("conformance, {architecture}, {fault:?}"), || {
                if quick {
                    return Ok(Outcome::Skipped(QUICK));
                }
                let options = Options::short(architecture);
                boot::conformance_finds(workspace, bare, &options, fault).map(|()| Outcome::Passed)
            });
        }
    }
    for architecture in sanitizer::ARCHITECTURES {
        gate.step(&format!("hunt, {architecture}"), || {
            if quick {
                return Ok(Outcome::Skipped(QUICK));
            }
            let Some(hunt) = sanitizer::get(workspace)? else {
                return Ok(Outcome::Skipped(sanitizer::NOT_HERE));
            };
            sanitizer::run(workspace, bare, &hunt, architecture).map(|()| Outcome::Passed)
        });
    }
    gate.step("hunt, x86_64, Bochs", || {
        if quick {
            return Ok(Outcome::Skipped(QUICK));
        }
        let Some(hunt) = sanitizer::get(workspace)? else {
            return Ok(Outcome::Skipped(sanitizer::NOT_HERE));
        };
        let is_here = sanitizer::run_in_bochs(workspace, bare, &hunt)?;
        Ok(if is_here { Outcome::Passed } else { Outcome::Skipped(sanitizer::NO_BOCHS) })
    });
    gate.step("boot, x86_64, Bochs", || {
        if quick {
            return Ok(Outcome::Skipped(QUICK));
        }
        let short = Options::short(Architecture::X86_64);
        let options = Options { emulator: Emulator::Bochs, cpus: 2, ..short };
        boot::passes(workspace, bare, &options).map(|()| Outcome::Passed)
    });
}

fn lint_kernel(workspace: &Workspace, bare: &BareMetal, architecture: Architecture) -> Result<()> {
    let deny = ["--", "-Dwarnings"];
    let user = build::user(workspace, bare, architecture)?;
    let mut programs = build::cargo(workspace, bare, "clippy", build::USER, architecture);
    process::run(programs.args(deny))?;
    let mut kernel = build::cargo(workspace, bare, "clippy", build::KERNEL, architecture);
    process::run(kernel.env(build::USER_VARIABLE, user).args(deny))
}

/// The adapters for crates that make page tables, and the architectures that these crates know: how the names of their
/// targets begin.
const ADAPTERS: [(&str, &[&str]); 6] = [
    ("lookaside-changes", &[""]),
    ("lookaside-x86_64", &["x86_64"]),
    ("lookaside-page-table-multiarch", &["x86_64", "aarch64", "riscv64"]),
    ("lookaside-aarch64-paging", &["aarch64"]),
    ("lookaside-rmm", &["x86_64", "aarch64", "riscv64"]),
    ("lookaside-ostd", &["x86_64", "aarch64", "riscv64"]),
];

/// All that kernels link.
pub(crate) fn libraries() -> impl Iterator<Item = &'static str> {
    LIBRARIES.into_iter().chain(ADAPTERS.map(|(package, _)| package))
}

/// Does something for each of the libraries that there is on this target.
fn of_libraries(target: &str, work: impl FnMut(&str) -> Result<Outcome>) -> Result<Outcome> {
    let fits = |names: &[&str]| names.iter().any(|name| target.starts_with(name));
    let adapters =
        ADAPTERS.into_iter().filter_map(|(package, names)| fits(names).then_some(package));
    LIBRARIES.into_iter().chain(adapters).map(work).try_for_each(|done| done.map(drop))?;
    Ok(Outcome::Passed)
}

const QUICK: &str = "of the last stage";

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Result<Outcome> {
    in_workspace(workspace, setup::cargo().args(arguments))
}

/// The command line.
fn lookaside(workspace: &Workspace, arguments: &[&str]) -> Result<Outcome> {
    let mut command = Program::Lookaside.command(workspace)?;
    process::run(command.args(arguments)).map(|()| Outcome::Passed)
}

fn in_workspace(workspace: &Workspace, command: &mut Command) -> Result<Outcome> {
    process::run(command.current_dir(workspace.root())).map(|()| Outcome::Passed)
}

/// Names the files that have grown long. A long file is not wrong, so this only says so.
fn long_files(workspace: &Workspace) -> Result<Outcome> {
    let mut long = 0;
    for file in workspace.files()?.iter().filter(|file| file.ends_with(".rs")) {
        let lines = workspace.read(file)?.lines().count();
        if lines > LONG_FILE {
            long += 1;
            println!("{file}: {lines} lines: can it be two concepts in two files?");
        }
    }
    if long == 0 {
        println!("no source file is longer than {LONG_FILE} lines");
    }
    Ok(Outcome::Passed)
}
