//! Reads litmus tests in the format of herd, as far as tests of address translation use it.

use lookaside_machine::{
    adversary::Arch,
    litmus::{Descriptor, OnFault, Test, Thread},
};

use super::{
    condition::{FaultAtom, Observed, Proposition},
    instruction::instruction,
    names::{self, Names, Place},
    program::{Program, Step},
    system::{Initial, step},
    text::{Trouble, Words, without_comments},
};

/// Where labels stand: thread, name, instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<(usize, String, usize)>);

impl Labels {
    /// The label of an instruction.
    pub(super) fn name(&self, thread: usize, instruction: usize) -> Option<&str> {
        let mut labels = self.0.iter();
        labels.find(|label| label.0 == thread && label.2 == instruction).map(|label| &*label.1)
    }
}

/// How the condition is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// In some execution.
    Exists,
    /// In none.
    NotExists,
    /// In all.
    Forall,
}

/// What a test runs, and on what.
#[derive(Clone, Debug)]
pub enum Runs {
    /// On CPUs that run out of order, with one level of table: Arm.
    OutOfOrder(Test),
    /// On the explorer's CPUs: RISC-V and x86.
    Explored(Program),
}

/// A test as it stands in a file.
#[derive(Clone, Debug)]
pub struct Litmus {
    /// Its name.
    pub name: String,
    /// What runs, and on what.
    pub runs: Runs,
    /// The names of its variables.
    pub names: Names,
    /// Its labels.
    pub labels: Labels,
    /// What is shown of a final state.
    pub observed: Observed,
    /// How the condition is meant.
    pub quantifier: Quantifier,
    /// What the condition says.
    pub proposition: Proposition,
}

#[derive(Default)]
struct Header {
    user: Vec<usize>,
    accessed: Vec<usize>,
    dirty: Vec<usize>,
    everywhere: (bool, bool),
    retry: bool,
}

impl Litmus {
    /// Reads a test.
    ///
    /// # Errors
    ///
    /// If the text is not one, or uses what the machine does not have. The line says where.
    pub fn read(text: &str) -> Result<Self, Trouble> {
        let text = without_comments(text)?;
        let fail = |line, what: &str| Err(Trouble { line, what: what.to_owned() });
        let Some(open) = text.find('{') else {
            return fail(1, "no `{` that begins the initial state");
        };
        let Some(length) = text[open..].find('}') else {
            return fail(line_of(&text, open), "no `}` that ends the initial state");
        };
        let close = open + length;
        let (arch, name, header) = head(&text[..open])?;
        let mut names = Names::default();
        let first = line_of(&text, open + 1);
        let begin = &text[open + 1..close];
        let (rows, tail) = table(&text, close + 1)?;
        let mut labels = Labels::default();
        let parts = match arch {
            Arch::Arm => {
                let initial = initial(begin, first, &mut names)?;
                Parts::Arm(initial, threads(&rows, &mut labels)?)
            }
            Arch::Riscv | Arch::X86 => {
                let initial = Initial::read(begin, first, &mut names)?;
                let code = columns(&rows, &mut labels, |cell, _| step(arch, cell))?;
                Parts::Explored(initial, code.into_iter().map(|of| of.code).collect())
            }
        };

        let mut words = Words::new(&text[tail..], line_of(&text, tail));
        let mut observed = Observed::default();
        let located = words.accept("locations");
        if located {
            words.expect("[")?;
            while !words.accept("]") {
                if words.accept("fault") {
                    observed.faults.insert(FaultAtom::read(&mut words, &mut names)?);
                } else {
                    observed.places.insert(names.place(&mut words)?);
                }
                if !words.accept(";") && words.peek() != Some("]") {
                    return words.fail("expected `;` or `]`");
                }
            }
        }
        let quantifier = if words.accept("exists") {
            Quantifier::Exists
        } else if words.accept("forall") {
            Quantifier::Forall
        } else if words.accept("~") && words.accept("exists") {
            Quantifier::NotExists
        } else if words.peek().is_none() && located {
            // All that is asked is what the locations hold.
            Quantifier::Forall
        } else {
            return words.fail("expected a condition");
        };
        let proposition = if words.peek().is_none() {
            Proposition::True
        } else {
            Proposition::read(&mut words, &mut names)?
        };
        if let Some(word) = words.peek() {
            return words.fail(format!("`{word}` after the condition"));
        }
        observed.add(&proposition);

        let runs = match parts {
            Parts::Arm(initial, threads) => {
                Runs::OutOfOrder(assemble(initial, threads, &header, &names, first)?)
            }
            Parts::Explored(initial, code) => {
                let program = initial.program(arch, names.count(), code);
                Runs::Explored(program.map_err(|what| Trouble { line: first, what })?)
            }
        };
        Ok(Self { name, runs, names, labels, observed, quantifier, proposition })
    }
}

/// What is read before the condition.
enum Parts {
    Arm(InitialItems, Vec<Thread>),
    Explored(Initial, Vec<Vec<Step>>),
}

/// The test of threads with an initial state.
fn assemble(
    initial: InitialItems,
    mut threads: Vec<Thread>,
    header: &Header,
    names: &Names,
    first: usize,
) -> Result<Test, Trouble> {
    let fail = |line, what: &str| Err(Trouble { line, what: what.to_owned() });
    let mut test = Test {
        contents: vec![0; names.count()],
        descriptors: (0..names.count()).map(Descriptor::to).collect(),
        threads: Vec::new(),
    };
    for (place, value, descriptor) in initial {
        match (place, descriptor) {
            (Place::Descriptor(of), Some(descriptor)) => test.descriptors[of] = descriptor,
            (Place::Descriptor(_), None) => {
                return fail(first, "a descriptor that is a number");
            }
            (Place::Contents(of), _) => test.contents[of] = value,
            (Place::Register(thread, register), _) => {
                let Some(thread) = threads.get_mut(thread) else {
                    return fail(first, "a register of a thread that is not there");
                };
                thread.registers.push((register, value));
            }
        }
    }
    for (number, thread) in threads.iter_mut().enumerate() {
        thread.user = header.user.contains(&number);
        thread.dirty = header.everywhere.1 || header.dirty.contains(&number);
        thread.accessed = thread.dirty || header.everywhere.0 || header.accessed.contains(&number);
        if header.retry && thread.on_fault == OnFault::Stop {
            thread.on_fault = OnFault::Retry;
        }
    }
    test.threads = threads;
    Ok(test)
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The first lines: architecture and name, and what the hardware does.
fn head(text: &str) -> Result<(Arch, String, Header), Trouble> {
    let mut lines = text.lines().enumerate();
    let first = lines.next().map_or("", |(_, line)| line).trim();
    let (arch, name) = first.split_once(char::is_whitespace).unwrap_or((first, ""));
    let arch = match arch {
        "AArch64" => Some(Arch::Arm),
        "RISCV" => Some(Arch::Riscv),
        "X86_64" => Some(Arch::X86),
        _ => None,
    };
    let name = name.trim().to_owned();
    let Some(arch) = arch.filter(|_| !name.is_empty()) else {
        let what = "the first line is not `AArch64`, `RISCV` or `X86_64` and a name".to_owned();
        return Err(Trouble { line: 1, what });
    };
    let mut header = Header::default();
    for (index, line) in lines {
        let fail = |what| Err(Trouble { line: index + 1, what });
        let Some((key, value)) = line.split_once('=') else {
            // A description in quotes may stand here.
            if line.trim().is_empty() || line.trim().starts_with('"') {
                continue;
            }
            return fail(format!("`{}` is not of the form KEY=VALUE", line.trim()));
        };
        let parts = value.split([',', ' ']).map(str::trim).filter(|part| !part.is_empty());
        match key.trim() {
            "TTHM" => {
                for part in parts {
                    let (thread, what) = match part.split_once(':') {
                        Some((thread, what)) => (names::thread_number(thread), what),
                        None => (None, part),
                    };
                    match (thread, what) {
                        (Some(thread), "HA") => header.accessed.push(thread),
                        (Some(thread), "HD") => header.dirty.push(thread),
                        (None, "HA") => header.everywhere.0 = true,
                        (None, "HD") => header.everywhere.1 = true,
                        (_, "SW") => {}
                        _ => return fail(format!("`{part}` is nothing that hardware does")),
                    }
                }
            }
            "EL0" => {
                for part in parts {
                    match names::thread_number(part) {
                        Some(thread) => header.user.push(thread),
                        None => return fail(format!("`{part}` is no thread")),
                    }
                }
            }
            "Variant" | "variant" => {
                for part in parts {
                    match part.to_ascii_lowercase().as_str() {
                        "imprecise" | "handled" => header.retry = true,
                        "vmsa" | "fatal" | "precise" => {}
                        _ => return fail(format!("the variant `{part}` is not known")),
                    }
                }
            }
            _ => {}
        }
    }
    Ok((arch, name, header))
}

type InitialItems = Vec<(Place, u64, Option<Descriptor>)>;

/// The initial state.
fn initial(text: &str, first: usize, names: &mut Names) -> Result<InitialItems, Trouble> {
    let mut words = Words::new(text, first);
    let mut found = Vec::new();
    while words.peek().is_some() {
        if words.accept(";") {
            continue;
        }
        for kind in ["int64_t", "uint64_t", "int32_t", "uint32_t", "int", "pteval_t"] {
            if words.accept(kind) {
                words.accept("*");
                break;
            }
        }
        let place = names.place(&mut words)?;
        if words.accept("=") {
            if words.peek() == Some("(") {
                let own = match place {
                    Place::Descriptor(of) => Some(of),
                    _ => None,
                };
                let descriptor = names.fields(&mut words, own)?;
                found.push((place, descriptor.encode(), Some(descriptor)));
            } else {
                found.push((place, names.value(&mut words, None)?, None));
            }
        }
        if !words.accept(";") && words.peek().is_some() {
            return words.fail("expected `;`");
        }
    }
    Ok(found)
}

/// A cell of the table of instructions, and the line it stands in.
type Cell<'a> = (&'a str, usize);

/// The rows of the table of instructions, and where they end.
fn table(text: &str, mut at: usize) -> Result<(Vec<Vec<Cell<'_>>>, usize), Trouble> {
    let mut rows = Vec::new();
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start();
        let start = at + (rest.len() - trimmed.len());
        let ends = ["locations", "exists", "~", "forall", "filter"];
        if trimmed.is_empty() || ends.iter().any(|word| trimmed.starts_with(word)) {
            return Ok((rows, start));
        }
        let Some(length) = trimmed.find(';') else {
            let what = "a row of instructions without `;`".to_owned();
            return Err(Trouble { line: line_of(text, start), what });
        };
        let mut from = start;
        let mut row = Vec::new();
        for cell in trimmed[..length].split('|') {
            let blank = cell.len() - cell.trim_start().len();
            row.push((cell.trim(), line_of(text, from + blank)));
            from += cell.len() + 1;
        }
        rows.push(row);
        at = start + length + 1;
    }
}

/// A column of the table of instructions.
#[derive(Default)]
struct Column<T> {
    code: Vec<T>,
    /// What runs after a fault, if a column says so.
    handler: Option<Vec<T>>,
}

/// The threads, from the table of instructions.
fn threads(rows: &[Vec<Cell<'_>>], labels: &mut Labels) -> Result<Vec<Thread>, Trouble> {
    let thread = |column: Column<_>| Thread {
        code: column.code,
        on_fault: column.handler.map_or(OnFault::Stop, OnFault::Handler),
        ..Thread::default()
    };
    Ok(columns(rows, labels, instruction)?.into_iter().map(thread).collect())
}

/// The columns of the table of instructions. `read` reads an instruction, and is told where the labels
/// of its thread stand.
fn columns<T>(
    rows: &[Vec<Cell<'_>>],
    labels: &mut Labels,
    read: impl Fn(&str, &dyn Fn(&str) -> Option<usize>) -> Result<T, String>,
) -> Result<Vec<Column<T>>, Trouble> {
    let Some((heads, rows)) = rows.split_first() else {
        return Err(Trouble { line: 1, what: "no instructions".into() });
    };
    let mut columns = Vec::new();
    let mut threads: Vec<Column<T>> = Vec::new();
    for &(head, line) in heads {
        let (name, handler) = match head.split_once('.') {
            Some((name, "F")) => (name.trim(), true),
            _ => (head, false),
        };
        let known = names::thread_number(name).filter(|number| {
            if handler { *number < threads.len() } else { *number == threads.len() }
        });
        let Some(number) = known else {
            return Err(Trouble { line, what: format!("`{head}` does not head a column") });
        };
        if handler {
            threads[number].handler = Some(Vec::new());
        } else {
            threads.push(Column { code: Vec::new(), handler: None });
        }
        columns.push((number, handler));
    }
    // A branch may lead to a label further on, so labels are read first.
    let mut cells = Vec::new();
    let mut counts = vec![[0_usize; 2]; threads.len()];
    let mut targets = Labels::default();
    for row in rows {
        for (column, &(cell, line)) in row.iter().enumerate() {
            let Some(&(number, handler)) = columns.get(column) else {
                if cell.is_empty() {
                    continue;
                }
                return Err(Trouble { line, what: "more columns than threads".into() });
            };
            let count = &mut counts[number][usize::from(handler)];
            let mut cell = cell;
            while let Some((label, rest)) = cell.split_once(':') {
                if !handler {
                    targets.0.push((number, label.trim().to_owned(), *count));
                }
                cell = rest.trim();
            }
            if !cell.is_empty() {
                *count += 1;
                cells.push((number, handler, cell, line));
            }
        }
    }
    for (number, handler, cell, line) in cells {
        let target = |label: &str| {
            let found = targets.0.iter().find(|of| of.0 == number && of.1 == label);
            found.map(|&(_, _, target)| target).filter(|_| !handler)
        };
        let found = read(cell, &target).map_err(|what| Trouble { line, what })?;
        let thread = &mut threads[number];
        thread.handler.as_mut().filter(|_| handler).unwrap_or(&mut thread.code).push(found);
    }
    labels.0.append(&mut targets.0);
    Ok(threads)
}
