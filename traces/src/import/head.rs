//! The beginning of a line: who, where and when.

use memchr::memchr_iter;

use super::field::{after_blanks, decimal};

/// How wide the name of a thread is printed.
const NAME: usize = 16;

/// How far into a line its name may reach.
const FAR: usize = 128;

/// A way in which tools print events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// tracefs, and `trace-cmd report`: `name-task (process) [cpu] flags time: event`, where process and
    /// flags may be missing.
    Ftrace,
    /// `perf script`: `name process/task [cpu] time: system:event:`, where the process may be missing.
    Perf,
}

/// Who, where and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'l> {
    /// The name of the thread.
    pub(super) name: &'l [u8],
    /// Its number; none where the thread was gone when the line was made.
    pub(super) task: Option<u32>,
    /// Its process.
    pub(super) process: Option<u32>,
    pub(super) cpu: u16,
    pub(super) in_interrupt: Option<bool>,
    /// In nanoseconds.
    pub(super) time: u64,
    /// What follows: the event.
    pub(super) rest: &'l [u8],
}

impl Dialect {
    /// Reads the head of a line.
    pub(super) fn head<'l>(self, line: &'l [u8]) -> Option<Head<'l>> {
        match self {
            Self::Ftrace => ftrace(line),
            Self::Perf => perf(line),
        }
    }

    /// The dialect of a line. What `perf` says of threads that are gone could be taken for the other.
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        [Self::Perf, Self::Ftrace].into_iter().find(|dialect| dialect.head(line).is_some())
    }
}

fn ftrace(line: &[u8]) -> Option<Head<'_>> {
    // A name may hold anything, so the column is a better guide than what looks like a number.
    if let found @ Some(_) = ftrace_at(line, NAME) {
        return found;
    }
    // `trace-cmd` puts the name of the instance before everything else.
    if !line.starts_with(b" ")
        && let Some(colon) = memchr_iter(b':', &line[..line.len().min(FAR)]).next()
        && line.get(colon + 1) == Some(&b' ')
        && let found @ Some(_) = ftrace_at(&line[colon + 2..], NAME)
    {
        return found;
    }
    memchr_iter(b'-', &line[..line.len().min(FAR)]).find_map(|dash| ftrace_at(line, dash))
}

/// If the name ends at that dash.
fn ftrace_at(line: &[u8], dash: usize) -> Option<Head<'_>> {
    if line.get(dash) != Some(&b'-') {
        return None;
    }
    let name = after_blanks(&line[..dash]);
    let (task, rest) = decimal(&line[dash + 1..])?;
    let mut rest = after_blanks(rest);
    let mut process = None;
    if let Some(inner) = rest.strip_prefix(b"(") {
        let close = inner.iter().position(|&byte| byte == b')')?;
        let inside = after_blanks(&inner[..close]);
        // Dashes are the idle loop, and threads whose process was not noted.
        if !inside.starts_with(b"-") {
            process = Some(u32::try_from(decimal(inside)?.0).ok()?);
        }
        rest = after_blanks(&inner[close + 1..]);
    }
    let (cpu, rest) = cpu(rest)?;
    let rest = after_blanks(rest);
    let (in_interrupt, time, rest) = match time(rest) {
        Some((time, rest)) => (None, time, rest),
        None => {
            let width = rest.iter().position(|&byte| byte == b' ')?;
            let flags = &rest[..width];
            if !(3..=8).contains(&width) {
                return None;
            }
            let (time, rest) = time(after_blanks(&rest[width..]))?;
            // `h` is a hardware interrupt, `H` one within a software interrupt; `z` and `Z` are
            // interrupts that cannot be masked.
            (Some(matches!(flags[2], b'h' | b'H' | b'z' | b'Z')), time, rest)
        }
    };
    let task = Some(u32::try_from(task).ok()?);
    Some(Head { name, task, process, cpu, in_interrupt, time, rest })
}

fn perf(line: &[u8]) -> Option<Head<'_>> {
    let near = &line[..line.len().min(FAR)];
    let wide = memchr_iter(b'[', near).filter(|&at| at > NAME);
    let narrow = memchr_iter(b'[', near).filter(|&at| at <= NAME);
    wide.chain(narrow).find_map(|bracket| perf_at(line, bracket))
}

/// If the CPU is at that bracket.
fn perf_at(line: &[u8], bracket: usize) -> Option<Head<'_>> {
    let before = line[..bracket].trim_ascii_end();
    let blank = before.iter().rposition(|&byte| byte == b' ')?;
    let name = before[..blank].trim_ascii();
    let numbers = &before[blank + 1..];
    let (process, task) = match numbers.iter().position(|&byte| byte == b'/') {
        Some(slash) => (number(&numbers[..slash])?, number(&numbers[slash + 1..])?),
        None => (None, number(numbers)?),
    };
    let (cpu, rest) = cpu(&line[bracket..])?;
    let (time, rest) = time(after_blanks(rest))?;
    // The system of the event has a name of its own.
    let system = rest.iter().position(|&byte| byte == b':')?;
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if system == 0 || !rest[..system].iter().all(word) {
        return None;
    }
    let rest = &rest[system + 1..];
    Some(Head { name, task, process, cpu, in_interrupt: None, time, rest })
}

/// A number of `perf`, all of the bytes; -1 is nobody.
fn number(bytes: &[u8]) -> Option<Option<u32>> {
    if bytes == b"-1" {
        return Some(None);
    }
    let (number, rest) = decimal(bytes)?;
    if rest.is_empty() { u32::try_from(number).ok().map(Some) } else { None }
}

/// `[001]`.
fn cpu(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (cpu, rest) = decimal(bytes.strip_prefix(b"[")?)?;
    Some((u16::try_from(cpu).ok()?, rest.strip_prefix(b"]")?))
}

/// `4223.516160:` with six digits or nine, and the blanks after it.
fn time(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (seconds, rest) = decimal(bytes)?;
    let digits = rest.strip_prefix(b".")?;
    let (fraction, rest) = decimal(digits)?;
    let nanoseconds = match digits.len() - rest.len() {
        6 => fraction * 1000,
        9 => fraction,
        _ => return None,
    };
    let time = seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?;
    Some((time, after_blanks(rest.strip_prefix(b":")?)))
}

/// What a line of `perf script` lacks that is printed without some of the fields, or has too much; none of other lines.
pub(super) fn defect(line: &[u8]) -> Option<&'static str> {
    let words = || line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let is_number = |word: &[u8], point: u8| {
        let inner = word.strip_suffix(b":").unwrap_or_default();
        let mut parts = inner.split(|&byte| byte == point);
        parts.next().is_some_and(digits) && parts.next().is_some_and(digits)
    };
    let bracket = |word: &&[u8]| word.starts_with(b"[") && word.ends_with(b"]");
    let is_thread = |word: &[u8]| word.split(|&byte| byte == b'/').all(digits);
    let after_time = || words().skip_while(|word| !is_number(word, b'.')).nth(1);
    let thread = words().position(is_thread)?;
    let time = words().any(|word| is_number(word, b'.'));
    if words().any(|word| is_number(word, b',')) {
        Some("has a comma in its time, where `LC_ALL=C perf script` prints a point")
    } else if !words().any(|word| bracket(&word)) {
        time.then_some("has no CPU in brackets")
    } else if !words().filter(bracket).any(|word| cpu(word).is_some()) {
        Some("has a number of a CPU that is above 65535")
    } else if !time {
        Some("has no time")
    } else if thread == 0 {
        Some("has no name of a thread")
    } else if after_time().is_some_and(digits) {
        Some("has a period between time and event")
    } else if after_time().is_some_and(|word| !word[..word.len() - 1].contains(&b':')) {
        Some("has an event without its provider, as `tlb:` is of `tlb:tlb_flush`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_of_perf_lacks_is_said() {
        let of = |line: &str| defect(line.as_bytes()).unwrap_or_default();
        for (line, words) in [
            (
                " perf 18/18 49.135779896:  csd:csd_function_entry: func=f, csd=0",
                "no CPU in brackets",
            ),
            (" perf 18/18 [000]  csd:csd_function_entry: func=f, csd=0", "no time"),
            (" perf 18/18 [99999999] 49.135779896: csd:csd_function_entry: func=f", "above 65535"),
            (" perf 18/18 [000] 49,135779896: csd:csd_function_entry: func=f", "a comma"),
            (" perf 18/18 [000] 49.135779896:  1 csd:csd_function_entry: func=f", "a period"),
            (" perf 18/18 [000] 49.135779896:  csd_function_entry: func=f", "without its provider"),
            ("18/18 [000] 49.135779896:  csd:csd_function_entry: func=f", "no name of a thread"),
        ] {
            assert!(of(line).contains(words), "{line}: {}", of(line));
        }
        for line in ["", "some text", " perf 18/18 [000] 49.135779896: tlb:tlb_flush: pages:1"] {
            assert_eq!(of(line), "", "{line}");
        }
    }

    fn head(line: &str) -> (Dialect, String, Option<u32>, Option<u32>, u16, u64) {
        let dialect = Dialect::of(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
        let head = dialect.head(line.as_bytes()).unwrap();
        assert!(head.rest.starts_with(b"tlb_flush:"), "{line}");
        let name = String::from_utf8_lossy(head.name).into_owned();
        (dialect, name, head.task, head.process, head.cpu, head.time)
    }

    #[test]
    fn heads_of_all_dialects_are_read() {
        use Dialect::{Ftrace, Perf};
        let cases = [
            (
                "          worker-4101    (   4101) [001] d.h1.  4223.516160: tlb_flush: x",
                (Ftrace, "worker", Some(4101), Some(4101), 1, 4_223_516_160_000),
            ),
            (
                "          <idle>-0       (-------) [000] d.h1. 4223.516160: tlb_flush: x",
                (Ftrace, "<idle>", Some(0), None, 0, 4_223_516_160_000),
            ),
            (
                " memfd:sealed-91-22715   [001] 4223.516160: tlb_flush: x",
                (Ftrace, "memfd:sealed-91", Some(22715), None, 1, 4_223_516_160_000),
            ),
            (
                "imp:  lto 8xp2o44tlru-20878 [000] 49447.940082534: tlb_flush:         x",
                (Ftrace, "lto 8xp2o44tlru", Some(20878), None, 0, 49_447_940_082_534),
            ),
            (
                "a b-12 [3] .... 1.000002: tlb_flush: x",
                (Ftrace, "a b", Some(12), None, 3, 1_000_002_000),
            ),
            (
                "          worker  4101/4102  [000]  4223.516174123:      tlb:tlb_flush: x",
                (Perf, "worker", Some(4102), Some(4101), 0, 4_223_516_174_123),
            ),
            (
                "     migration/0    18 [000] 49368.135779:    tlb:tlb_flush: x",
                (Perf, "migration/0", Some(18), None, 0, 49_368_135_779_000),
            ),
            (
                "             :-1 17663/-1    [000] 49368.139066591:  tlb:tlb_flush: x",
                (Perf, ":-1", None, Some(17663), 0, 49_368_139_066_591),
            ),
        ];
        for (line, (dialect, name, task, process, cpu, time)) in cases {
            assert_eq!(head(line), (dialect, name.to_owned(), task, process, cpu, time), "{line}");
        }
    }

    #[test]
    fn a_name_that_looks_like_a_head_is_a_name() {
        let line = " a-1 [0] 1.00000-22    [001] ..... 2.000003: tlb_flush: x";
        assert_eq!(head(line).1, "a-1 [0] 1.00000");
    }

    #[test]
    fn flags_say_what_is_an_interrupt() {
        for (flags, expected) in
            [(".....", false), ("d.h1.", true), ("dNH.", true), ("d.s2.", false), ("d.Z..", true)]
        {
            let line = format!("          worker-4101  [001] {flags} 1.000000: tlb_flush: x");
            assert_eq!(ftrace(line.as_bytes()).unwrap().in_interrupt, Some(expected), "{flags}");
        }
        let line = b"          worker-4101  [001] 1.000000: tlb_flush: x";
        assert_eq!(ftrace(line).unwrap().in_interrupt, None);
    }

    #[test]
    fn a_line_without_a_valid_head_has_no_dialect() {
        for line in [
            "",
            "-",
            "          worker-4101",
            "          worker-4101 [001",
            "          worker-4101 [99999] ..... 1.000000: x",
            "          worker-4101 [001] ..... 1.0000: x",
            "          worker-4101 [001] ..... 18446744073709551615.000000: x",
            "          worker-99999999999999999999 [001] ..... 1.000000: x",
            "          worker  4101/ [000]  4223.516174: tlb:tlb_flush: x",
            "          worker  4101 [000]  4223.516174: cycles x",
        ] {
            assert_eq!(Dialect::of(line.as_bytes()), None, "{line}");
        }
    }
}
