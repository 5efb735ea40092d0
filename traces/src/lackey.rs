//! Memory traces of valgrind's lackey: which pages a program uses while it computes.
//!
//! `valgrind --tool=lackey --trace-mem=yes --trace-sched=yes --log-file=FILE PROGRAM` writes a line for
//! each fetch, load and store. There is no time in it, so windows are so many references. Threads are
//! known from the lines of the scheduler; without them everything is the first thread's.

use std::{collections::HashMap, fs::File, path::Path};

use serde::Serialize;

use super::{
    BadPlace, BadTrace, Losses,
    import::{
        Bad,
        lines::{End, Lines},
        unpacked,
    },
};

/// How many references a window has if nobody says otherwise: what a CPU does in some 50 microseconds.
pub const WINDOW: u64 = 100_000;

/// The size of a page, in bytes.
pub const PAGE: u64 = 4096;

/// A page is hot if it is used in so many of a hundred windows.
pub const HOT_PERCENT: u64 = 90;

/// The longest reference, in bytes; more is a sign of damage.
const LONGEST: u64 = PAGE;

/// Which pages a program uses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pattern {
    /// How many references a window has.
    pub window: u64,
    /// Of each thread that has a whole window, by its number in valgrind.
    pub threads: Vec<Thread>,
    /// How many references there are, of all threads.
    pub references: u64,
    /// What could not be read.
    #[serde(skip)]
    pub losses: Losses,
}

/// Which pages a thread uses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Thread {
    /// Its number.
    pub id: u32,
    /// How many whole windows it has.
    pub windows: u64,
    /// Pages that it fetches instructions from.
    pub instructions: Use,
    /// Pages that it loads from or stores to.
    pub data: Use,
    /// Both together: a page that is used for both counts once.
    pub both: Use,
}

/// Which pages are used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Use {
    /// How many pages are used at all.
    pub pages: u64,
    /// How many are hot: used in nearly every window.
    pub hot: u64,
    /// How many others are used in a window, on average.
    pub others: f64,
    /// How many pages are used in each window, hot or not, in the order of the windows.
    pub in_window: Vec<u32>,
}

/// Finds out which pages a program uses, from the log of lackey, which may be compressed with gzip or zstd.
///
/// # Errors
///
/// If it cannot be read, is no such log, or is shorter than a window.
pub fn working_set(file: &Path) -> Result<Pattern, BadTrace> {
    working_set_in(file, WINDOW)
}

/// The same in windows of so many references.
///
/// # Errors
///
/// As [`working_set`].
///
/// # Panics
///
/// If a window has no references.
pub fn working_set_in(file: &Path, window: u64) -> Result<Pattern, BadTrace> {
    assert!(window > 0, "a window has references");
    let whole = |why: String| Bad(BadPlace::Whole, why).of(file);
    let cannot = |error: std::io::Error| whole(format!("it cannot be read: {error}"));
    let (_, from) = File::open(file).and_then(unpacked).map_err(cannot)?;
    let mut lines = Lines::new(from);
    let mut reader = Reader { window, ..Reader::default() };
    reader.run(1);
    loop {
        let number = lines.number() + 1;
        let line = lines.next().map_err(|error| Bad::reading(number, &error).of(file))?;
        let Some(line) = line else { break };
        match line.end {
            End::Whole => reader.line(line.bytes),
            End::TooLong => reader.losses.damaged += 1,
            End::Cut => reader.losses.truncated = true,
        }
        if reader.references == 0 && reader.losses.damaged > DAMAGED_FIRST {
            let why = "it is no log of valgrind's lackey with --trace-mem=yes".into();
            return Err(Bad(BadPlace::Line(line.number), why).of(file));
        }
    }
    reader.losses.truncated |= lines.cut();
    if reader.references == 0 {
        return Err(whole("it has no references: was lackey run with --trace-mem=yes?".into()));
    }
    let pattern = reader.finish();
    if pattern.threads.is_empty() {
        let references = pattern.references;
        return Err(whole(format!("its {references} references make no whole window of {window}")));
    }
    Ok(pattern)
}

/// With so many lines that are nothing known and no reference yet, it is another kind of file.
const DAMAGED_FIRST: u64 = 100;

#[derive(Default)]
struct Reader {
    window: u64,
    threads: Vec<(u32, Windows)>,
    /// The place of the thread that runs.
    running: usize,
    references: u64,
    losses: Losses,
}

impl Reader {
    fn line(&mut self, line: &[u8]) {
        if let Some((instruction, address, size)) = reference(line) {
            self.references += 1;
            self.threads[self.running].1.refer(instruction, address, size, self.window);
            return;
        }
        match remark(line) {
            Some(Remark::Runs(thread)) => self.run(thread),
            Some(Remark::Other) => {}
            None => self.losses.damaged += 1,
        }
    }

    fn run(&mut self, thread: u32) {
        let known = self.threads.iter().position(|(id, _)| *id == thread);
        self.running = known.unwrap_or_else(|| {
            self.threads.push((thread, Windows::default()));
            self.threads.len() - 1
        });
    }

    fn finish(self) -> Pattern {
        let Self { window, mut threads, references, losses, .. } = self;
        threads.sort_by_key(|(id, _)| *id);
        let threads = threads
            .into_iter()
            .filter(|(_, windows)| windows.whole > 0)
            .map(|(id, windows)| Thread {
                id,
                windows: windows.whole,
                instructions: windows.instructions.usage(windows.whole),
                data: windows.data.usage(windows.whole),
                both: windows.both.usage(windows.whole),
            })
            .collect();
        Pattern { window, threads, references, losses }
    }
}

/// `I  0401ab70,3`, ` S 1fff000658,8`: whether it is the fetch of an instruction, address and size.
fn reference(line: &[u8]) -> Option<(bool, u64, u64)> {
    let (instruction, rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (true, rest),
        [b' ', b'S' | b'L' | b'M', b' ', rest @ ..] => (false, rest),
        _ => return None,
    };
    let mut address: u64 = 0;
    let mut digits = 0;
    while let Some(digit) = rest.get(digits).and_then(|&byte| (byte as char).to_digit(16)) {
        address = address << 4 | u64::from(digit);
        digits += 1;
    }
    let size = rest[digits..].strip_prefix(b",")?;
    let size: u64 = core::str::from_utf8(size).ok()?.parse().ok()?;
    let fits = (1..=16).contains(&digits) && (1..=LONGEST).contains(&size);
    (fits && address.checked_add(size).is_some()).then_some((instruction, address, size))
}

/// What else stands in a log.
enum Remark {
    /// A thread runs from here on.
    Runs(u32),
    /// Banners, system calls and their results.
    Other,
}

fn remark(line: &[u8]) -> Option<Remark> {
    let line = line.trim_ascii();
    // Lines may be glued: what the scheduler says can stand after a system call.
    if let Some(at) = memchr::memmem::find(line, b"SCHED[") {
        let (thread, rest) = super::import::decimal(&line[at + b"SCHED[".len()..])?;
        if !rest.strip_prefix(b"]:")?.trim_ascii_start().starts_with(b"acquired lock") {
            return Some(Remark::Other);
        }
        return Some(Remark::Runs(u32::try_from(thread).ok()?));
    }
    let known = [&b"=="[..], b"--", b"SYSCALL[", b"-->", b"... ["];
    let other = line.is_empty() || known.iter().any(|start| line.starts_with(start));
    other.then_some(Remark::Other)
}

/// The windows of a thread.
#[derive(Default)]
struct Windows {
    /// How many are whole.
    whole: u64,
    /// References in the one that is not.
    within: u64,
    instructions: Pages,
    data: Pages,
    both: Pages,
}

impl Windows {
    fn refer(&mut self, instruction: bool, address: u64, size: u64, window: u64) {
        let own = if instruction { &mut self.instructions } else { &mut self.data };
        for page in address / PAGE..=(address + size - 1) / PAGE {
            if own.latest != Some(page) {
                own.refer(page, self.whole);
                self.both.refer(page, self.whole);
            }
        }
        self.within += 1;
        if self.within == window {
            self.within = 0;
            self.whole += 1;
            for pages in [&mut self.instructions, &mut self.data, &mut self.both] {
                pages.end_window();
            }
        }
    }
}

/// Pages that were used.
#[derive(Default)]
struct Pages {
    pages: HashMap<u64, Page>,
    /// The page that was used last in this window.
    latest: Option<u64>,
    /// How many were used in each whole window, and in the one that is not whole.
    in_window: Vec<u32>,
    now: u32,
}

/// A page.
struct Page {
    /// In how many whole windows it was used, and in the latest.
    windows: u64,
    /// The number of the latest.
    latest: u64,
}

impl Pages {
    fn refer(&mut self, page: u64, window: u64) {
        self.latest = Some(page);
        let new = Page { windows: 0, latest: u64::MAX };
        let page = self.pages.entry(page).or_insert(new);
        if page.latest != window {
            page.latest = window;
            page.windows += 1;
            self.now += 1;
        }
    }

    fn end_window(&mut self) {
        self.in_window.push(self.now);
        self.now = 0;
        self.latest = None;
    }

    /// What was used in the `whole` windows.
    fn usage(self, whole: u64) -> Use {
        let in_whole = |page: &Page| page.windows - u64::from(page.latest == whole);
        let counts = self.pages.values().map(in_whole);
        let hot =
            counts.clone().filter(|&windows| windows * 100 >= whole * HOT_PERCENT && windows > 0);
        let (number, uses) =
            hot.fold((0, 0), |(number, uses), windows| (number + 1, uses + windows));
        let all: u64 = self.in_window.iter().map(|&pages| u64::from(pages)).sum();
        Use {
            pages: counts.filter(|&windows| windows > 0).count() as u64,
            hot: number,
            others: (all - uses) as f64 / whole as f64,
            in_window: self.in_window,
        }
    }
}
