//! `lookaside record` on this very system, where it lets us: root, and a tracing file system. Elsewhere these
//! tests say that they were skipped.
#![cfg(target_os = "linux")]

use core::time::Duration;
use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Instant,
};

use lookaside_traces::{
    Call, Kind, Trace, import,
    reconstruct::{Act, Flushes, reconstruct},
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const LAB: &str = env!("CARGO_BIN_EXE_lookaside");
const INSTANCES: [&str; 2] =
    ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
/// When a test hangs rather than is slow: a loaded host is no failure.
const HANGS: Duration = Duration::from_secs(1200);

/// Where instances are; none if nothing can be recorded here.
fn instances() -> Option<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    let place = INSTANCES.map(PathBuf::from).into_iter().find(|place| {
        let probe =
            place.join(format!("probe-{}-{:?}", std::process::id(), thread::current().id()));
        fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok()
    });
    if !root || place.is_none() {
        eprintln!("skipped: recording needs root and a tracing file system");
        return None;
    }
    place
}

fn lab(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(LAB);
    command.current_dir(folder).arg("record").args(words).stdin(Stdio::null());
    command
}

fn output(folder: &Path, words: &[&str]) -> Output {
    lab(folder, words).output().expect("the program runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The instances of a recorder.
fn of_recorder(instances: &Path, recorder: u32) -> Vec<PathBuf> {
    let prefix = format!("lookaside-{recorder}-");
    let entries = fs::read_dir(instances).expect("instances").flatten();
    let own = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(&prefix);
    entries.filter(|entry| own(&entry.file_name())).map(|entry| entry.path()).collect()
}

#[track_caller]
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < HANGS, "{what}: not within {HANGS:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a recording, and returns when it is under way.
fn under_way(instances: &Path, folder: &Path, words: &[&str]) -> Child {
    let mut child = lab(folder, words).stderr(Stdio::null()).spawn().expect("the program runs");
    let on = |instance: &PathBuf| {
        fs::read_to_string(instance.join("tracing_on")).is_ok_and(|on| on.trim() == "1")
    };
    let id = child.id();
    // A new instance is on; ours is switched off first, and on again when it is set up.
    let sized = |instance: &PathBuf| {
        fs::read_to_string(instance.join("events/sched/sched_switch/enable"))
            .is_ok_and(|on| on.trim() == "1")
    };
    wait_until("the recording", || {
        let ended = child.try_wait().expect("it can be asked");
        assert_eq!(ended, None, "it ended before it had begun to record");
        of_recorder(instances, id).iter().any(|instance| sized(instance) && on(instance))
    });
    child
}

fn send(child: &Child, signal: Signal) {
    let id = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(id, signal).expect("it lives");
}

fn open(file: &Path) -> Trace {
    import::open(file).expect("a trace")
}

#[test]
fn a_command_is_recorded_with_its_family_and_without_strangers() {
    let Some(instances) = instances() else { return };
    let folder = TempDir::new().expect("a folder");
    let script = "cat /proc/self/stat > own; (exec ls / > /dev/null); exit 7";
    let output = output(folder.path(), &["-o", "a.trace", "--", "/bin/sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    assert!(errors(&output).contains("a.trace: "), "{}", errors(&output));
    let trace = open(&folder.path().join("a.trace"));
    assert_eq!(trace.origin.command[..2], ["sh", "-c"]);
    let root = trace.origin.root.expect("a root");
    let of = |kind: fn(&Kind) -> bool| trace.events.iter().filter(move |event| kind(&event.kind));
    // The shell, cat and ls are executed.
    assert!(of(|kind| matches!(kind, Kind::Execute { .. })).any(|event| event.task == root));
    let names: BTreeSet<&str> = trace.names.iter().map(String::as_str).collect();
    assert!(["sh", "cat", "ls"].iter().all(|name| names.contains(name)), "{names:?}");
    let known: BTreeSet<_> = ["sh", "cat", "ls", "other", "kernel"].into();
    assert!(names.is_subset(&known), "{names:?}");
    // Every caller is a process of the command.
    let mut family = BTreeSet::from([root]);
    for event in &trace.events {
        match event.kind {
            Kind::Create { task, .. } if family.contains(&event.task) => drop(family.insert(task)),
            Kind::Call { .. } | Kind::Fault { .. } => {
                assert!(family.contains(&event.task), "{event:?}");
            }
            _ => {}
        }
    }
    let own = fs::read_to_string(folder.path().join("own")).expect("the command ran");
    let cat: u32 = own.split(' ').next().expect("a number").parse().expect("a number");
    assert!(family.contains(&cat));
    assert!(of(|kind| matches!(kind, Kind::Call { call: Call::Mmap, .. })).count() > 10);
    assert!(trace.events.is_sorted_by_key(|event| event.time));
    assert_eq!(trace.origin.losses.damaged, 0);
    assert!(fs::read_dir(&instances).expect("instances").flatten().all(|entry| {
        let name = entry.file_name();
        !name.to_string_lossy().starts_with(&format!("lookaside-{root}"))
    }));
}

/// What [`a_fresh_recording_goes_all_the_way`] records: two threads that map, touch and unmap pages.
#[test]
#[ignore = "it is a program to be recorded"]
fn threads_that_map_and_unmap() {
    let work = || {
        // Each time more than before: then the memory is mapped for it, and given back at once.
        for round in 0..100 {
            let bytes = vec![1_u8; (1 << 20) + round * (1 << 14)];
            assert_eq!(
                bytes.iter().step_by(4096).filter(|&&byte| byte == 1).count(),
                bytes.len().div_ceil(4096)
            );
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
}

#[test]
fn a_fresh_recording_goes_all_the_way() {
    let Some(_) = instances() else { return };
    let folder = TempDir::new().expect("a folder");
    let own = std::env::current_exe().expect("a program");
    let own = own.to_str().expect("its name is text");
    let program = [own, "--ignored", "--exact", "threads_that_map_and_unmap"];
    for lean in [false, true] {
        let mut words = vec!["-o", "fresh.trace", "--force", "--"];
        words.extend(program);
        if lean {
            words.insert(0, "--lean");
        }
        let recorded = output(folder.path(), &words);
        assert!(recorded.status.success(), "{}", errors(&recorded));
        let trace = open(&folder.path().join("fresh.trace"));
        let unmaps = trace
            .events
            .iter()
            .filter(|event| matches!(event.kind, Kind::Call { call: Call::Munmap, .. }));
        assert!(unmaps.count() >= 100, "threads give back what they were given");
        for flushes in [Flushes::FromCalls, Flushes::Recorded] {
            let x86 = trace.origin.architecture.as_deref() == Some("x86_64");
            if flushes == Flushes::Recorded && !x86 {
                continue; // Other kernels record none.
            }
            let script = reconstruct(&trace, flushes).expect("a script");
            assert_eq!(script.unknown.tasks, 0, "{:?}", script.unknown);
            let large = script.cpus.iter().flatten().filter(|step| match step.act {
                Act::Unmap { pages, .. } | Act::Restrict { pages, .. } => pages >= 256,
                _ => false,
            });
            let large = large.count();
            assert!(large >= 100, "{flushes:?}, lean {lean}: {large} flushes of 1 MiB and more");
        }
    }
    let lab = |words: &[&str]| {
        let mut command = Command::new(LAB);
        let output = command.current_dir(folder.path()).args(words).output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{words:?}: {}", errors(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(lab(&["import", "fresh.trace"]).contains("lost by the kernel"));
    let replayed =
        lab(&["replay", "fresh.trace", "--report", "out", "--perfetto", "fresh.pftrace"]);
    assert!(replayed.contains("munmap"), "{replayed}");
    let page = fs::read_to_string(folder.path().join("out/index.html")).expect("a page");
    assert!(page.contains("fresh.trace") && page.contains("munmap"));
    assert!(fs::metadata(folder.path().join("fresh.pftrace")).expect("a file").len() > 1000);
}

#[test]
fn a_recorder_that_is_killed_leaves_nothing_on() {
    let Some(instances) = instances() else { return };
    let folder = TempDir::new().expect("a folder");
    let mut child = under_way(&instances, folder.path(), &["--seconds", "6000"]);
    send(&child, Signal::KILL);
    child.wait().expect("it ends");
    wait_until("its instance goes", || of_recorder(&instances, child.id()).is_empty());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "half a trace is none");
}

#[test]
fn without_a_subject_nothing_is_recorded() {
    let folder = TempDir::new().expect("a folder");
    let output = output(folder.path(), &["-o", "nothing.trace"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("--system"), "{}", errors(&output));
}

#[test]
fn a_recorder_that_is_interrupted_writes_what_there_is() {
    let Some(instances) = instances() else { return };
    let folder = TempDir::new().expect("a folder");
    for (signal, words, code) in [
        (Signal::TERM, &["-o", "t.trace", "--", "sleep", "6000"][..], 128 + 15),
        (Signal::HUP, &["-o", "h.trace", "--seconds", "6000"], 128 + 1),
        (Signal::INT, &["-o", "i.trace", "--system"], 0),
    ] {
        let mut child = under_way(&instances, folder.path(), words);
        send(&child, signal);
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(code), "{signal:?}");
        assert!(of_recorder(&instances, child.id()).is_empty(), "{signal:?}");
        open(&folder.path().join(words[1]));
    }
}

/// A process that unmaps pages, and a child of it that does the same, until this is dropped.
struct TwoThatUnmap(Child);

impl TwoThatUnmap {
    /// Returns when both run. `python3` may be a script, which has other children before.
    fn begin(folder: &Path) -> Self {
        // Each ends when its parent does: a test that is killed leaves none behind.
        let script = "import mmap, os\nchild = os.fork() == 0\nparent = os.getppid()\n\
                      open(f'ready-{os.getpgrp()}-{child}', 'w').close()\n\
                      while os.getppid() == parent:\n  \
                      m = mmap.mmap(-1, 1 << 16)\n  m[0] = 1\n  m.close()\n";
        let mut command = Command::new("python3");
        command.args(["-c", script]).current_dir(folder).process_group(0).stdin(Stdio::null());
        let both = Self(command.spawn().expect("python3"));
        let ready = ["True", "False"].map(|of| folder.join(format!("ready-{}-{of}", both.id())));
        wait_until("both run", || ready.iter().all(|file| file.exists()));
        both
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for TwoThatUnmap {
    fn drop(&mut self) {
        let id = Pid::from_raw(self.id().cast_signed()).expect("a process");
        // They may have ended; a second panic would hide the first.
        let _ = rustix::process::kill_process_group(id, Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_process_is_followed_with_its_descendants() {
    let Some(instances) = instances() else { return };
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: python3 is what is recorded");
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let child = TwoThatUnmap::begin(folder.path());
    let stranger = TwoThatUnmap::begin(folder.path());
    let id = child.id().to_string();
    let children = format!("/proc/{id}/task/{id}/children");
    let output = output(folder.path(), &["-o", "p.trace", "--pid", &id, "--duration", "2"]);
    assert!(output.status.success(), "{}", errors(&output));
    let listed = fs::read_to_string(&children).expect("it lives");
    let mut family: BTreeSet<u32> =
        listed.split_whitespace().map(|id| id.parse().expect("a number")).collect();
    family.insert(child.id());
    let trace = open(&folder.path().join("p.trace"));
    assert_eq!(trace.origin.members.iter().copied().collect::<BTreeSet<_>>(), family);
    assert_eq!((trace.origin.command.len(), trace.origin.root), (1, None));
    let callers: BTreeSet<u32> = trace
        .events
        .iter()
        .filter(|event| matches!(event.kind, Kind::Call { call: Call::Munmap, .. }))
        .map(|event| event.task)
        .collect();
    assert_eq!(callers, family, "both, and not the stranger");
    let script = reconstruct(&trace, Flushes::Recorded).expect("a script");
    assert!(script.spaces.iter().any(|space| space.recorded));
    // The recording ends with what it follows, and writes what there is.
    let words = ["-o", "gone.trace", "--pid", &id];
    let mut recorder = under_way(&instances, folder.path(), &words);
    drop(child);
    assert_eq!(recorder.wait().expect("it ends").code(), Some(0));
    assert!(of_recorder(&instances, recorder.id()).is_empty());
    open(&folder.path().join("gone.trace"));
    // Ctrl-C leaves nothing on either.
    let words = ["-o", "stopped.trace", "--pid", &stranger.id().to_string()];
    let mut recorder = under_way(&instances, folder.path(), &words);
    send(&recorder, Signal::INT);
    assert_eq!(recorder.wait().expect("it ends").code(), Some(0));
    assert!(of_recorder(&instances, recorder.id()).is_empty());
    drop(stranger);
}

#[test]
fn what_cannot_be_followed_is_refused_in_one_sentence() {
    let Some(_) = instances() else { return };
    let folder = TempDir::new().expect("a folder");
    for (words, why) in [
        (&["--pid", "4194999"][..], "there is no process 4194999"),
        (&["--pid", "2"], "thread of the kernel"),
        (&["--cgroup", "no/such/group"], "there is no control group no/such/group"),
    ] {
        let output = output(folder.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let errors = errors(&output);
        assert!(errors.contains(why) && errors.trim().lines().count() == 1, "{errors}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn leftovers_of_a_dead_recorder_are_removed_and_no_others() {
    let Some(instances) = instances() else { return };
    let folder = TempDir::new().expect("a folder");
    let id = std::process::id();
    // No process has lived since before the system was started.
    let (stale, other) =
        (instances.join(format!("lookaside-{id}-1")), instances.join(format!("lookalike-{id}-1")));
    fs::create_dir(&stale).expect("an instance");
    fs::create_dir(&other).expect("an instance");
    let output = output(folder.path(), &["--seconds", "0.1"]);
    let (stale_left, other_left) = (stale.exists(), other.exists());
    fs::remove_dir(&other).expect("it is still there");
    assert!(output.status.success(), "{}", errors(&output));
    assert!(!stale_left && other_left);
    assert!(folder.path().join("system.trace").exists());
}

#[test]
fn refusals_say_what_to_do_and_leave_nothing() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("true.trace"), "mine").expect("a file");
    let exists = output(folder.path(), &["--", "true"]);
    assert_eq!(exists.status.code(), Some(2));
    assert!(errors(&exists).contains("true.trace exists; --force"), "{}", errors(&exists));
    assert_eq!(fs::read(folder.path().join("true.trace")).expect("it stays"), b"mine");
    let nowhere = output(folder.path(), &["-o", "no/a.trace", "--", "true"]);
    assert!(errors(&nowhere).contains("no such folder"), "{}", errors(&nowhere));
    fs::create_dir(folder.path().join("dir")).expect("a folder");
    for words in [&["-o", "dir", "--", "true"][..], &["--force", "-o", "dir", "--", "true"]] {
        let directory = output(folder.path(), words);
        assert_eq!(directory.status.code(), Some(2));
        assert_eq!(errors(&directory), "error: `dir` is a directory\n");
    }
    let standard = output(folder.path(), &["-o", "-", "--", "true"]);
    assert!(errors(&standard).contains("not to standard output"), "{}", errors(&standard));
    assert!(!folder.path().join("-").exists());

    let Some(_) = instances() else { return };
    let missing = output(folder.path(), &["-o", "m.trace", "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127), "{}", errors(&missing));
    assert!(errors(&missing).contains("no-such-program: "), "{}", errors(&missing));
    let barred = output(folder.path(), &["-o", "m.trace", "--", "/"]);
    assert_eq!(barred.status.code(), Some(126), "{}", errors(&barred));
    assert!(!folder.path().join("m.trace").exists());
    let large = output(folder.path(), &["--buffer", "99999999999", "-o", "m.trace", "--", "true"]);
    assert_eq!(large.status.code(), Some(2), "{}", errors(&large));
    assert!(errors(&large).contains(" of 99999999999 KiB, one for each CPU: --buffer takes fewer"));
    // A device is not replaced: nothing there is lost.
    let device = output(folder.path(), &["-o", "/dev/null", "--", "true"]);
    assert_eq!(device.status.code(), Some(0), "{}", errors(&device));
    assert!(!folder.path().join("m.trace").exists());
    // Somebody who is not root.
    let open_to_all = std::env::temp_dir();
    let mut command = lab(&open_to_all, &["-o", "never.trace", "--", "true"]);
    if let Ok(output) = command.uid(65_534).output() {
        assert_eq!(output.status.code(), Some(2));
        assert!(errors(&output).contains("needs root: "), "{}", errors(&output));
    }
}
