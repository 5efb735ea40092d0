//! What a kernel prints, line by line, and what that says about it.

use super::emulator::Ending;

/// How the lines that count begin.
const PASSED: &str = "PASS ";
const FAILED: &str = "FAIL ";
const STALE: &str = "STALE";
const EXIT: &str = "exit ";
/// What the kernel says whose use of the library is wrong.
const DOES_NOT_CONFORM: &str = "the kernel does not conform: ";
/// What a panic says, of the kernel and of a user program, after the name of who it is.
const PANICKED: &str = "panicked at ";
/// How the kernel's panic ends that has found a freed frame changed: that was a stale translation.
const WRITTEN: &str = "was written to while it was free";

/// The console of one run.
#[derive(Debug, Default)]
pub(super) struct Console {
    /// The line that is not at its end.
    partial: Vec<u8>,
    /// The last line that was no empty one.
    last: String,
    passed: usize,
    /// The lines that must not be, and that say so: of tests, of panics, of stale translations.
    failed: Vec<String>,
    panicked: Vec<String>,
    stale: Vec<String>,
    /// Whether the last line began a panic: the next one says why.
    panicking: bool,
    exit: Option<u8>,
    /// What the library's conformance tests have found.
    conformance_fault: Option<String>,
}

impl Console {
    /// Takes what was printed next, and passes each line on that is now whole.
    pub(super) fn take(&mut self, bytes: &[u8], mut show: impl FnMut(&str)) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_line(&mut show);
            } else {
                self.partial.push(byte);
            }
        }
    }

    /// No more will come: what there is of a line is a line.
    pub(super) fn close(&mut self, mut show: impl FnMut(&str)) {
        if !self.partial.is_empty() {
            self.end_line(&mut show);
        }
    }

    fn end_line(&mut self, show: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.partial);
        let whole = text.trim_end_matches('\r');
        // Whatever the kernel prints, it does not get to steer our terminal.
        let plain =
            |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
        let line: String = whole.chars().map(plain).collect();
        self.partial.clear();
        show(&line);
        self.judge(&line);
        if !line.trim().is_empty() {
            self.last = line;
        }
    }

    fn judge(&mut self, line: &str) {
        if core::mem::take(&mut self.panicking)
            && let Some(panic) = self.panicked.last_mut()
        {
            *panic = format!("{panic} {line}");
        }
        if line.starts_with(PASSED) {
            self.passed += 1;
        } else if line.starts_with(FAILED) {
            self.failed.push(line.to_owned());
        } else if is_panic(line) {
            self.panicked.push(line.to_owned());
            self.panicking = true;
        } else if let Some(code) = line.strip_prefix(EXIT) {
            self.exit = code.trim().parse().ok();
        } else if let Some(fault) = line.strip_prefix(DOES_NOT_CONFORM) {
            self.conformance_fault = Some(fault.to_owned());
        }
        if line.starts_with(STALE) || line.ends_with(WRITTEN) {
            self.stale.push(line.to_owned());
        }
    }

    /// How many tests have passed.
    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// How many tests have failed.
    pub(super) fn failed(&self) -> usize {
        self.failed.len()
    }

    /// Whether a stale translation was seen, or a panic of the kernel, which a stale one of its own causes.
    pub(super) fn is_broken(&self) -> bool {
        !self.stale.is_empty() || self.panicked.iter().any(|line| line.starts_with("CPU "))
    }

    /// The exit code, if the kernel has printed it: not every emulator can hand it on.
    pub(super) fn exit(&self) -> Option<u8> {
        self.exit
    }

    /// What the library's conformance tests have found.
    pub(super) fn conformance_fault(&self) -> Option<&str> {
        self.conformance_fault.as_deref()
    }

    /// The reasons why this run is not a good one.
    pub(super) fn wrong(&self, ending: &Ending) -> Vec<String> {
        let lines = [&self.failed, &self.panicked, &self.stale];
        let mut wrong: Vec<String> = lines.into_iter().flatten().cloned().collect();
        if *ending != Ending::Code(0) {
            wrong.push(format!("it {ending}; its last line was `{}`", self.last));
        }
        if self.passed == 0 {
            wrong.push("no test passed".to_owned());
        }
        wrong
    }
}

/// Whether a line begins a panic: `panicked at ...` or `CPU 3: panicked at ...`.
fn is_panic(line: &str) -> bool {
    line.starts_with(PANICKED) || line.contains(&format!(": {PANICKED}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a run that printed `text` and left with 0.
    fn wrong(text: &str) -> Vec<String> {
        console(text).wrong(&Ending::Code(0))
    }

    fn console(text: &str) -> Console {
        let mut console = Console::default();
        console.take(text.as_bytes(), |_| {});
        console.close(|_| {});
        console
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let mut console = Console::default();
        let mut shown = Vec::new();
        for part in ["PA", "SS one\r\nhel", "lo\n\nFAIL", " two: \x1b[2J", "9"] {
            console.take(part.as_bytes(), |line| shown.push(line.to_owned()));
        }
        console.close(|line| shown.push(line.to_owned()));
        assert_eq!(shown, ["PASS one", "hello", "", "FAIL two: \u{fffd}[2J9"]);
        assert_eq!((console.passed(), console.failed()), (1, 1));
    }

    #[test]
    fn a_run_is_good_if_something_passes_and_nothing_fails() {
        assert_eq!(wrong("CPU 1 is up\nPASS fork (12 ms)\nPASS moves"), [""; 0]);
        assert_eq!(wrong("a test that did not PASS nor FAIL "), ["no test passed"]);
        assert_eq!(wrong("PASS one\nFAIL two: why\nPASS three\n"), ["FAIL two: why"]);
        assert_eq!(wrong("PASS one\nSTALE: page 3 holds 7\n"), ["STALE: page 3 holds 7"]);
    }

    #[test]
    fn a_panic_is_never_good() {
        let ours = "CPU 2: panicked at src/lock.rs:9:5:";
        assert_eq!(
            wrong(&format!("PASS one\n\n{ours}\nset twice\nexit 0\n")),
            [format!("{ours} set twice")]
        );
        assert_eq!(
            wrong("PASS one\npanicked at user/src/main.rs:1:1:"),
            ["panicked at user/src/main.rs:1:1:"]
        );
        assert_eq!(wrong("PASS nobody panicked at all"), [""; 0]);
    }

    #[test]
    fn a_bad_end_is_told_with_the_last_line() {
        let console = console("PASS one\nwaiting for CPU 3\n\n");
        for (ending, expected) in [
            (
                Ending::Code(101),
                "it left with exit code 101; its last line was `waiting for CPU 3`",
            ),
            (
                Ending::NoProgress,
                "it was stopped: no test had ended for too long; its last line was \
                 `waiting for CPU 3`",
            ),
        ] {
            assert_eq!(console.wrong(&ending), [expected]);
        }
    }

    #[test]
    fn a_stale_translation_is_seen_by_hunters_by_the_poison_and_by_the_kernel() {
        assert!(console("STALE: page 1 is old").is_broken());
        assert!(console("panicked:\nframe 0x8000 was written to while it was free").is_broken());
        assert!(console("CPU 2: panicked at src/lock.rs:9:5:\nset twice").is_broken());
        assert!(!console("panicked at user/src/main.rs:1:1:").is_broken());
        assert!(!console("PASS no STALE page\nFAIL two").is_broken());
    }

    #[test]
    fn what_the_conformance_tests_find_is_read() {
        let fault = console("memory\nthe kernel does not conform: CPU 1 is not online\n");
        assert_eq!(fault.conformance_fault(), Some("CPU 1 is not online"));
        assert_eq!(console("translations: 4 CPUs\nPASS one").conformance_fault(), None);
    }

    #[test]
    fn the_exit_code_may_be_printed() {
        assert_eq!(console("PASS one\nexit 0\n").exit(), Some(0));
        assert_eq!(console("exit 101").exit(), Some(101));
        assert_eq!(console("exit soon\nto exit 3\nexit 256").exit(), None);
    }
}
