//! The statements of a workload file.

use lookaside_terminal::{Refused, names};

use super::{
    METRICS,
    expression::{Expression, Reader, Scope, quoted},
};
use crate::data::{Program, Words, list};

/// A statement and its line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statement {
    pub(super) act: Act,
    pub(super) line: usize,
}

/// Pages: the first and how many.
pub(super) type Pages = [Expression; 2];

/// What a thread does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    Work(Expression),
    Sleep(Expression),
    Touch(Pages),
    Write(Pages),
    /// Pages are there from now on, without faults.
    Populate(Pages),
    /// A call that does nothing else.
    Call,
    /// A path of the kernel, so many times.
    Path(&'static str, Expression),
    /// A read-modify-write of a word that all share.
    Atomic(usize),
    Map(Pages),
    Protect(Pages),
    Allow(Pages),
    Discard(Pages),
    Unmap(Pages),
    Free(Pages),
    /// Pages that stay are flushed, without a call.
    Flush(Pages),
    /// Pages that are taken away one by one; flushed in batches of so many, or each at once.
    Reclaim(Pages, Option<Expression>),
    /// A flush of kernel addresses on all CPUs.
    FlushKernel(Pages),
    /// Interrupts of so many CPUs from the first, which are waited for.
    Interrupt(Pages),
    /// The statement on the pages of another space, by its place in the file; where every thread has one, of that number.
    Of(usize, Option<Expression>, Box<Self>),
    /// Everything up to the statement of that number is done by a child of the process, which then exits.
    Fork(Child, usize),
    Exec(Expression),
    Exit,
    /// For writing.
    Lock(usize),
    /// For reading.
    Share(usize),
    Unlock(usize),
    Spin(usize),
    Leave(usize),
    /// At a semaphore; of one that every number has, that of the thread's or of the number that is said.
    Wait(usize, Option<Expression>),
    Post(usize, Expression, Option<Expression>),
    Barrier,
    Yield,
    Migrate(Expression),
    Count(usize),
    Begin(usize),
    End(usize),
    /// Everything up to the statement of that number again and again: so often, or until the time is up.
    Repeat(Option<Expression>, usize),
    /// Back to the loop of that number.
    Again(usize),
}

/// The child of a process.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Child {
    /// A copy, for which the parent waits.
    Copy,
    /// A copy that runs beside its parent, on this CPU.
    On(Expression),
    /// It runs in its parent's space until it executes another program, and the parent waits (Linux: `vfork`).
    Vfork,
}

/// The name of the kernel's addresses, unless a space of the file has it.
const KERNEL: &str = "kernel";

/// The words that begin a statement.
const ACTS: [&str; 38] = [
    "work",
    "sleep",
    "touch",
    "write",
    "populate",
    "flush",
    "call",
    "path",
    "atomic",
    "interrupt",
    "map",
    "protect",
    "allow",
    "discard",
    "unmap",
    "free",
    "reclaim",
    "fork",
    "vfork",
    "exec",
    "lock",
    "share",
    "unlock",
    "spin",
    "leave",
    "wait",
    "post",
    "send",
    "receive",
    "barrier",
    "yield",
    "migrate",
    "count",
    "begin",
    "end",
    "repeat",
    "forever",
    "done",
];

/// What is called otherwise elsewhere, and how it is written here.
const OTHERS: [(&str, &str); 11] = [
    ("if", "`repeat N` with what is 0 or 1: there is no `if`"),
    ("read", "`touch FIRST PAGES`"),
    ("mmap", "`map FIRST PAGES`"),
    ("munmap", "`unmap FIRST PAGES`"),
    ("mprotect", "`protect` or `allow FIRST PAGES`"),
    ("madvise", "`discard FIRST PAGES`, or what else it does to them"),
    ("membarrier", "`call`, and `interrupt FIRST CPUS` where others run the process"),
    ("clone", "`fork` or `vfork`; a thread is one of a group"),
    ("posix_spawn", "`vfork`, `exec PAGES`, what the program does, `done`"),
    ("waitpid", "`wait NAME`, for a semaphore that the child of a `fork on CPU` posts"),
    ("compute", "`work TIME`"),
];

/// What is declared while statements are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Declared {
    /// The paths of the kernel that there are: those with a range.
    pub(super) paths: Vec<&'static str>,
    /// Counters, in the order in which they are named.
    pub(super) counters: Vec<String>,
    /// Timers.
    pub(super) timers: Vec<String>,
    /// The parameters that something reads.
    pub(super) read: Vec<usize>,
    /// How many threads meet at barriers: all of those whose program has one.
    pub(super) has_barrier: bool,
}

/// The statements of a program.
pub(super) fn statements(
    program: &Program,
    words: &Words,
    declared: &mut Declared,
) -> Result<Vec<Statement>, Refused> {
    let mut all: Vec<Statement> = Vec::new();
    // Loops and forks that are open, by the number of their statement.
    let mut open: Vec<usize> = Vec::new();
    // A text of several lines begins in the line after its key.
    let first = words.line + usize::from(words.text.contains('\n'));
    for (i, text) in words.text.lines().enumerate() {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let line = first + i;
        let refuse =
            |why: String| Refused(format!("{}:{line}: {} {why}", program.file, quoted(text)));
        let mut reader = Reader::new(text, &program.parameters, Scope::Program);
        let word = reader.word().unwrap_or_default();
        let act = if word == "done" {
            let start = open.pop().ok_or_else(|| refuse("closes nothing".to_owned()))?;
            let here = all.len();
            match &mut all[start].act {
                Act::Repeat(_, end) => {
                    *end = here;
                    Act::Again(start)
                }
                Act::Fork(_, end) => {
                    *end = here;
                    Act::Exit
                }
                _ => unreachable!("only loops and forks are open"),
            }
        } else {
            let act = act(&word, &mut reader, program, declared).map_err(refuse)?;
            of(act, &mut reader, program).map_err(refuse)?
        };
        if let Some(more) = reader.word() {
            return Err(refuse(format!("has `{more}` too much")));
        }
        if matches!(act, Act::Repeat(..) | Act::Fork(..)) {
            open.push(all.len());
        }
        declared.read.append(&mut reader.read);
        all.push(Statement { act, line });
    }
    check_timers(program, &all, declared)?;
    match open.pop() {
        None if all.is_empty() => {
            let Words { line, .. } = words;
            Err(Refused(format!("{}:{line}: `program` has no statement", program.file)))
        }
        None => Ok(all),
        Some(start) => {
            let line = all[start].line;
            let text = words.text.lines().nth(line - first).unwrap_or_default();
            let text = quoted(text.split('#').next().unwrap_or_default().trim());
            Err(Refused(format!("{}:{line}: {text} lacks its `done`", program.file)))
        }
    }
}

/// Refuses a timer that begins and never ends.
fn check_timers(program: &Program, all: &[Statement], declared: &Declared) -> Result<(), Refused> {
    for one in all {
        let Act::Begin(timer) = one.act else { continue };
        if !all.iter().any(|other| other.act == Act::End(timer)) {
            let (file, line, name) = (&program.file, one.line, &declared.timers[timer]);
            return Err(Refused(format!("{file}:{line}: `begin {name}` lacks its `end {name}`")));
        }
    }
    Ok(())
}

/// A statement on the pages of another process, if it goes on with `of SPACE`.
fn of(act: Act, reader: &mut Reader<'_>, program: &Program) -> Result<Act, String> {
    if reader.peek() != Some("of") {
        return Ok(act);
    }
    let _ = reader.word();
    if let Act::Flush(pages) = &act
        && reader.peek() == Some(KERNEL)
        && program.spaces.iter().all(|space| space.name != KERNEL)
    {
        let _ = reader.word();
        return Ok(Act::FlushKernel(pages.clone()));
    }
    let can = ["protect", "discard", "unmap", "flush", "reclaim"];
    if !matches!(
        act,
        Act::Protect(_) | Act::Discard(_) | Act::Unmap(_) | Act::Flush(_) | Act::Reclaim(..)
    ) {
        return Err(format!("is of its own process alone; there are {} `of` another", list(&can)));
    }
    let names: Vec<&str> = program.spaces.iter().map(|space| space.name.as_str()).collect();
    let place = among(reader, "space", &names, "the file has none of that name")?;
    let space = &program.spaces[place];
    let name = &space.name;
    let whose = match space.each {
        true if reader.peek().is_none() => {
            return Err(format!(
                "is of `{name}`, of which every thread has one (`each`): say whose, as `of {name} 0` or `of {name} random(cpus)`"
            ));
        }
        true => Some(reader.number()?),
        false => None,
    };
    if !program.threads.iter().any(|threads| threads.space == *name) {
        return Err(format!("is of `{name}`, in which no thread is"));
    }
    Ok(Act::Of(place, whose, act.into()))
}

fn act(
    word: &str,
    reader: &mut Reader<'_>,
    program: &Program,
    declared: &mut Declared,
) -> Result<Act, String> {
    let mut pages = || Ok::<_, String>([reader.number()?, reader.number()?]);
    Ok(match word {
        "touch" => Act::Touch(pages()?),
        "write" => Act::Write(pages()?),
        "map" => Act::Map(pages()?),
        "populate" => Act::Populate(pages()?),
        "call" => Act::Call,
        "path" => {
            let path = among(
                reader,
                "path of the kernel",
                &declared.paths,
                "`published/ranges.toml` has none",
            )?;
            Act::Path(declared.paths[path], count(reader)?)
        }
        "atomic" => Act::Atomic(listed(reader, "word", &program.words)?),
        "protect" => Act::Protect(pages()?),
        "allow" => Act::Allow(pages()?),
        "discard" => Act::Discard(pages()?),
        "unmap" => Act::Unmap(pages()?),
        "free" => Act::Free(pages()?),
        "flush" => Act::Flush(pages()?),
        "interrupt" => Act::Interrupt(pages()?),
        "reclaim" => {
            let pages = pages()?;
            match reader.word().as_deref() {
                Some("each") => Act::Reclaim(pages, None),
                Some("batch") => Act::Reclaim(pages, Some(reader.number()?)),
                _ => return Err("says neither `each` nor `batch N`".to_owned()),
            }
        }
        "work" => Act::Work(reader.time()?),
        "sleep" => Act::Sleep(reader.time()?),
        "fork" if reader.peek() == Some("on") => {
            let _ = reader.word();
            Act::Fork(Child::On(reader.number()?), 0)
        }
        "fork" => Act::Fork(Child::Copy, 0),
        "vfork" => Act::Fork(Child::Vfork, 0),
        "exec" => Act::Exec(reader.number()?),
        "lock" => Act::Lock(listed(reader, "lock", &program.locks)?),
        "share" => Act::Share(listed(reader, "lock", &program.locks)?),
        "unlock" => Act::Unlock(listed(reader, "lock", &program.locks)?),
        "spin" => Act::Spin(listed(reader, "lock", &program.locks)?),
        "leave" => Act::Leave(listed(reader, "lock", &program.locks)?),
        "wait" | "receive" => {
            let which = semaphore(reader, program)?;
            Act::Wait(which, number_of(which, reader, program)?)
        }
        "post" | "send" => {
            let which = semaphore(reader, program)?;
            let count = count(reader)?;
            Act::Post(which, count, number_of(which, reader, program)?)
        }
        "barrier" => {
            declared.has_barrier = true;
            Act::Barrier
        }
        "yield" => Act::Yield,
        "migrate" => Act::Migrate(reader.number()?),
        "count" => Act::Count(named(reader, &mut declared.counters, &declared.timers)?),
        "begin" => Act::Begin(named(reader, &mut declared.timers, &declared.counters)?),
        "end" => Act::End(named(reader, &mut declared.timers, &declared.counters)?),
        "repeat" => Act::Repeat(Some(reader.number()?), 0),
        "forever" if program.time.is_none() => {
            return Err("needs `time` at the head of the file: how long it goes on".to_owned());
        }
        "forever" => Act::Repeat(None, 0),
        _ => {
            let other = OTHERS.iter().find(|(name, _)| *name == word);
            let help = match (other, names::nearest(word, ACTS.into_iter())) {
                (Some((_, here)), _) => format!("write {here}"),
                (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
                (None, None) => format!("there are {}", ACTS.join(", ")),
            };
            return Err(format!("begins with `{word}`, which is no statement; {help}"));
        }
    })
}

fn semaphore(reader: &mut Reader<'_>, program: &Program) -> Result<usize, String> {
    let known: Vec<String> = program.semaphores.iter().map(|one| one.name.clone()).collect();
    listed(reader, "semaphore", &known)
}

/// Of which number a semaphore is that every number has, if that is said: `of N`.
fn number_of(
    which: usize,
    reader: &mut Reader<'_>,
    program: &Program,
) -> Result<Option<Expression>, String> {
    if reader.peek() != Some("of") {
        return Ok(None);
    }
    let _ = reader.word();
    let semaphore = &program.semaphores[which];
    match semaphore.each {
        true => reader.number().map(Some),
        false => Err(format!(
            "is of one number, and `{}` is one for all; write `{} = {{ each = {} }}` for one for each",
            semaphore.name, semaphore.name, semaphore.first
        )),
    }
}

/// How often, which is once if nothing is said.
fn count(reader: &mut Reader<'_>) -> Result<Expression, String> {
    if reader.peek().is_some_and(|next| next != "of") {
        reader.number()
    } else {
        Ok(Expression::Number(1.0))
    }
}

/// A name that the head of the file declares.
fn listed(reader: &mut Reader<'_>, what: &str, known: &[String]) -> Result<usize, String> {
    among(reader, what, known, &format!("the head of the file declares none (`{what}s`)"))
}

fn among(
    reader: &mut Reader<'_>,
    what: &str,
    known: &[impl AsRef<str>],
    otherwise: &str,
) -> Result<usize, String> {
    let name = reader.word().ok_or_else(|| format!("names no {what}"))?;
    known.iter().position(|one| one.as_ref() == name).ok_or_else(|| {
        let help = match names::nearest(&name, known.iter().map(AsRef::as_ref)) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if known.is_empty() => otherwise.to_owned(),
            None => {
                format!("there are {}", list(&known.iter().map(AsRef::as_ref).collect::<Vec<_>>()))
            }
        };
        format!("names the {what} `{name}`, which is unknown; {help}")
    })
}

/// A name of a metric that is declared by its use.
fn named(
    reader: &mut Reader<'_>,
    known: &mut Vec<String>,
    others: &[String],
) -> Result<usize, String> {
    let name = reader.word().ok_or("needs a name")?;
    if METRICS.contains(&name.as_str()) || others.contains(&name) {
        return Err(format!("names `{name}`, which is another metric already; take another name"));
    }
    Ok(known.iter().position(|one| *one == name).unwrap_or_else(|| {
        known.push(name);
        known.len() - 1
    }))
}
