//! `lookaside record --user-stacks` on programs whose calls are known, where this system lets us record. Elsewhere these tests
//! say that they were skipped.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use lookaside_traces::{Call, Kind, Trace, import};
use tempfile::TempDir;

const LAB: &str = env!("CARGO_BIN_EXE_lookaside");

/// A program that unmaps in one function, protects in another, and does both in a third that the C library calls. It removes
/// its own file first, and lives on for a second, in which the recorder reads its mappings however busy the machine is.
const C: &str = r#"
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) void free_chunk(char *p)
{
	munmap(p, 1 << 16);
	__asm__ volatile("");
}

__attribute__((noinline)) void shrink(char *p)
{
	mprotect(p, 1 << 16, PROT_READ);
	free_chunk(p);
	__asm__ volatile("");
}

__attribute__((noinline)) char *grow(void)
{
	char *p = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*p = 1;
	return p;
}

static void *worker(void *unused)
{
	for (int i = 0; i < 300; i++)
		shrink(grow());
	madvise(0, 0, MADV_DONTNEED);
	return unused;
}

int main(int count, char **words)
{
	pthread_t thread;

	unlink(words[count - 1]);
	pthread_create(&thread, 0, worker, 0);
	pthread_join(thread, 0);
	worker(0);
	sleep(1);
	return 0;
}
"#;

/// The same in Rust, with less.
const RUST: &str = r#"
unsafe extern "C" {
    fn mmap(at: usize, length: usize, protection: i32, flags: i32, file: i32, offset: usize) -> *mut u8;
    fn munmap(at: *mut u8, length: usize) -> i32;
}

#[inline(never)]
#[unsafe(no_mangle)]
fn free_chunk(at: *mut u8) {
    let status = unsafe { munmap(at, 1 << 16) };
    assert_eq!(status, 0);
}

#[inline(never)]
fn work() {
    for _ in 0..600 {
        let at = unsafe { mmap(0, 1 << 16, 3, 0x22, -1, 0) };
        unsafe { at.write(1) };
        free_chunk(at);
    }
    std::hint::black_box(0);
}

fn main() {
    work();
    std::thread::sleep(std::time::Duration::from_secs(1));
}
"#;

/// Compiles a program; none if there is no compiler.
fn compile(folder: &Path, compiler: &str, text: &str, words: &[&str]) -> Option<()> {
    fs::write(folder.join("source"), text).expect("a file");
    let mut command = Command::new(compiler);
    command.current_dir(folder).args(words).stdin(Stdio::null());
    let Ok(output) = command.output() else {
        eprintln!("skipped: there is no {compiler}");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// Records the program; none if nothing can be recorded here.
fn record(folder: &Path) -> Option<Trace> {
    let mut command = Command::new(LAB);
    command.current_dir(folder).args(["record", "--user-stacks", "--force", "-o", "out.trace"]);
    let output = command.args(["--", "./program"]).output().expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    for why in ["recording needs", "is not mounted", "are not recorded: "] {
        if errors.contains(why) {
            eprintln!("skipped: {errors}");
            return None;
        }
    }
    assert!(output.status.success(), "{errors}");
    Some(import::open(&folder.join("out.trace")).expect("a trace"))
}

/// The functions that the calls about 64 KiB come from, and how often; an empty name where it is not known.
fn callers(trace: &Trace, call: Call) -> BTreeMap<&str, usize> {
    let mut callers = BTreeMap::new();
    for (place, event) in trace.events.iter().enumerate() {
        let Kind::Call { call: known, arguments } = event.kind else { continue };
        if known != call || arguments[1] != 1 << 16 {
            continue;
        }
        let name = match trace.events[place - 1].kind {
            Kind::Caller { function } if trace.events[place - 1].task == event.task => {
                trace.names[function.0 as usize].as_str()
            }
            _ => "",
        };
        *callers.entry(name).or_default() += 1;
    }
    callers
}

#[test]
fn calls_have_the_functions_that_made_them() {
    let folder = TempDir::new().expect("a folder");
    let with = ["-O2", "-pthread", "-fno-omit-frame-pointer", "-xc", "source", "-o", "program"];
    let Some(()) = compile(folder.path(), "gcc", C, &with) else { return };
    let Some(trace) = record(folder.path()) else { return };
    assert!(!folder.path().join("program").exists(), "the names are those of a file that is gone");
    assert_eq!(callers(&trace, Call::Munmap), BTreeMap::from([("free_chunk", 600)]));
    assert_eq!(callers(&trace, Call::Mprotect), BTreeMap::from([("shrink", 600)]));
    assert_eq!(callers(&trace, Call::Mmap), BTreeMap::from([("grow", 600)]));
    // Each name is there once, and the walk itself left no fault at the end of a chain.
    let names = trace.names.iter().filter(|name| *name == "free_chunk");
    assert_eq!(names.count(), 1);
    let faults = trace.events.iter().filter(|event| {
        let in_kernel = |code: u64| code & lookaside_traces::fault::USER == 0;
        matches!(event.kind, Kind::Fault { address: 0, code } if in_kernel(code))
    });
    assert_eq!(faults.count(), 0);
}

#[test]
fn a_program_without_frame_pointers_has_no_functions_rather_than_wrong_ones() {
    let folder = TempDir::new().expect("a folder");
    let without = ["-O2", "-pthread", "-fomit-frame-pointer", "-xc", "source", "-o", "program"];
    let Some(()) = compile(folder.path(), "gcc", C, &without) else { return };
    let Some(trace) = record(folder.path()) else { return };
    for (call, right) in
        [(Call::Munmap, "free_chunk"), (Call::Mprotect, "shrink"), (Call::Mmap, "grow")]
    {
        let callers = callers(&trace, call);
        assert_eq!(callers.values().sum::<usize>(), 600);
        assert!(callers.keys().all(|&name| name.is_empty() || name == right), "{callers:?}");
    }
}

#[test]
fn a_stripped_program_has_places_in_its_file_for_names() {
    let folder = TempDir::new().expect("a folder");
    let words =
        ["-O2", "-pthread", "-fno-omit-frame-pointer", "-s", "-xc", "source", "-o", "program"];
    let Some(()) = compile(folder.path(), "gcc", C, &words) else { return };
    let Some(trace) = record(folder.path()) else { return };
    let callers = callers(&trace, Call::Munmap);
    assert!(callers.len() == 1 && callers.keys().all(|name| name.starts_with("program+0x")));
}

#[test]
fn a_program_that_is_linked_statically_has_functions() {
    let folder = TempDir::new().expect("a folder");
    let words = ["-O2", "-static-pie", "-fno-omit-frame-pointer", "-xc", "source", "-o", "program"];
    let Some(()) = compile(folder.path(), "gcc", C, &words) else { return };
    let Some(trace) = record(folder.path()) else { return };
    assert_eq!(callers(&trace, Call::Munmap), BTreeMap::from([("free_chunk", 600)]));
}

#[test]
fn a_program_in_rust_has_functions() {
    let folder = TempDir::new().expect("a folder");
    let words = ["--edition=2024", "-O", "-Cforce-frame-pointers=yes", "source", "-o", "program"];
    let Some(()) = compile(folder.path(), "rustc", RUST, &words) else { return };
    let Some(trace) = record(folder.path()) else { return };
    assert_eq!(callers(&trace, Call::Munmap), BTreeMap::from([("free_chunk", 600)]));
}
