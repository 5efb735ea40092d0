//! Reads litmus tests in the format of herd, as far as tests of address translation use it.

use lookaside::arch::aarch64::{Scope, TlbiOp};
use lookaside_machine::litmus::{
    Barrier, Descriptor, Instruction, OnFault, Register, Test, Thread, Width,
};

use super::{
    condition::{FaultAtom, Observed, Proposition},
    names::{self, Names, Place, number, register},
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

/// A test as it stands in a file.
#[derive(Clone, Debug)]
pub struct Litmus {
    /// Its name.
    pub name: String,
    /// What the machine runs.
    pub test: Test,
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
        let (name, header) = head(&text[..open])?;
        let mut names = Names::default();
        let first = line_of(&text, open + 1);
        let initial = initial(&text[open + 1..close], first, &mut names)?;

        let (rows, tail) = table(&text, close + 1)?;
        let mut labels = Labels::default();
        let mut threads = threads(&rows, &mut labels)?;

        let mut words = Words::new(&text[tail..], line_of(&text, tail));
        let mut observed = Observed::default();
        if words.accept("locations") {
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
        } else {
            return words.fail("expected a condition");
        };
        let proposition = Proposition::read(&mut words, &mut names)?;
        if let Some(word) = words.peek() {
            return words.fail(format!("`{word}` after the condition"));
        }
        observed.add(&proposition);

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
            thread.accessed =
                thread.dirty || header.everywhere.0 || header.accessed.contains(&number);
            if header.retry && thread.on_fault == OnFault::Stop {
                thread.on_fault = OnFault::Retry;
            }
        }
        test.threads = threads;
        Ok(Self { name, test, names, labels, observed, quantifier, proposition })
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The first lines: architecture and name, and what the hardware does.
fn head(text: &str) -> Result<(String, Header), Trouble> {
    let mut lines = text.lines().enumerate();
    let first = lines.next().map_or("", |(_, line)| line).trim();
    let name = match first.split_once(char::is_whitespace) {
        Some(("AArch64", name)) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => {
            let what = "the first line is not `AArch64` and a name".to_owned();
            return Err(Trouble { line: 1, what });
        }
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
    Ok((name, header))
}

type Initial = Vec<(Place, u64, Option<Descriptor>)>;

/// The initial state.
fn initial(text: &str, first: usize, names: &mut Names) -> Result<Initial, Trouble> {
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

/// The threads, from the table of instructions.
fn threads(rows: &[Vec<Cell<'_>>], labels: &mut Labels) -> Result<Vec<Thread>, Trouble> {
    let Some((heads, rows)) = rows.split_first() else {
        return Err(Trouble { line: 1, what: "no instructions".into() });
    };
    let mut columns = Vec::new();
    let mut threads: Vec<Thread> = Vec::new();
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
        if !handler {
            threads.push(Thread::default());
        }
        columns.push((number, handler));
    }
    let mut handled = Vec::new();
    for row in rows {
        for (column, &(cell, line)) in row.iter().enumerate() {
            let Some(&(number, handler)) = columns.get(column) else {
                if cell.is_empty() {
                    continue;
                }
                return Err(Trouble { line, what: "more columns than threads".into() });
            };
            let mut cell = cell;
            while let Some((label, rest)) = cell.split_once(':') {
                let at = threads[number].code.len();
                if !handler {
                    labels.0.push((number, label.trim().to_owned(), at));
                }
                cell = rest.trim();
            }
            if cell.is_empty() {
                continue;
            }
            let read = instruction(cell).map_err(|what| Trouble { line, what })?;
            if handler {
                handled.push((number, read));
            } else {
                threads[number].code.push(read);
            }
        }
    }
    for (number, handler) in columns {
        if handler {
            let own = handled.iter().filter(|(of, _)| *of == number);
            threads[number].on_fault = OnFault::Handler(own.map(|(_, what)| *what).collect());
        }
    }
    Ok(threads)
}

/// An instruction.
fn instruction(text: &str) -> Result<Instruction, String> {
    let unknown = || format!("`{text}` is no instruction that the machine has");
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let upper = word.to_ascii_uppercase();
    let operands: Vec<_> = rest.split(',').map(str::trim).collect();
    let barrier = || match rest.trim().to_ascii_uppercase().as_str() {
        "SY" | "ISH" | "OSH" | "NSH" => Ok(Barrier::Full),
        "LD" | "ISHLD" | "OSHLD" | "NSHLD" => Ok(Barrier::Loads),
        "ST" | "ISHST" | "OSHST" | "NSHST" => Ok(Barrier::Stores),
        _ => Err(unknown()),
    };
    let plain = |text: &str| register(text).ok_or_else(unknown);
    let constant = |text: &str| number(text.strip_prefix('#').unwrap_or(text));
    match (upper.as_str(), operands.as_slice()) {
        ("NOP", [""]) => Ok(Instruction::Nop),
        ("ISB", [""]) => Ok(Instruction::Isb),
        ("DMB", _) => barrier().map(Instruction::Dmb),
        ("DSB", _) => barrier().map(Instruction::Dsb),
        ("MOV", [to, what]) => {
            let (to, wide) = plain(to)?;
            match (register(what), constant(what)) {
                (Some((from, _)), _) if wide || from == Register::ZERO => {
                    Ok(Instruction::Copy { to, from })
                }
                (None, Some(value)) => {
                    let value = if wide { value } else { value & 0xffff_ffff };
                    Ok(Instruction::Move { to, value })
                }
                _ => Err(unknown()),
            }
        }
        ("LSR", [to, from, bits]) => {
            let ((to, wide), (from, also)) = (plain(to)?, plain(from)?);
            match constant(bits) {
                Some(bits @ 0..64) if wide && also => {
                    Ok(Instruction::ShiftRight { to, from, bits: bits as u32 })
                }
                _ => Err(unknown()),
            }
        }
        ("LDR" | "STR", [data, address @ ..]) => {
            let (data, wide) = plain(data)?;
            let width = if wide { Width::Double } else { Width::Word };
            let last = address.len().checked_sub(1).ok_or_else(unknown)?;
            let first = address[0].strip_prefix('[').ok_or_else(unknown)?;
            let mut parts = vec![first.trim()];
            parts.extend(&address[1..]);
            parts[last] = parts[last].strip_suffix(']').ok_or_else(unknown)?.trim();
            let (base, index) = match parts.as_slice() {
                [base] => (*base, None),
                [base, index, extend] if extend.eq_ignore_ascii_case("SXTW") => {
                    let (index, wide) = plain(index)?;
                    (*base, (!wide).then_some(index).ok_or_else(unknown)?.into())
                }
                _ => return Err(unknown()),
            };
            let (base, true) = plain(base)? else { return Err(unknown()) };
            Ok(if upper == "LDR" {
                Instruction::Load { to: data, width, base, index }
            } else {
                Instruction::Store { from: data, width, base, index }
            })
        }
        ("TLBI", [op, operand @ ..]) => {
            let op = op.to_ascii_uppercase();
            let (name, scope) = match op.strip_suffix("IS") {
                Some(name) => (name, Scope::InnerShareable),
                None => (op.as_str(), Scope::Local),
            };
            let op = match name {
                "VMALLE1" => TlbiOp::Vmall,
                "VAE1" => TlbiOp::Va,
                "VAAE1" => TlbiOp::Vaa,
                "VALE1" => TlbiOp::Val,
                "VAALE1" => TlbiOp::Vaal,
                "ASIDE1" => TlbiOp::Aside,
                _ => return Err(unknown()),
            };
            let operand = match (op, operand) {
                (TlbiOp::Vmall, []) => None,
                (TlbiOp::Vmall, _) => return Err(unknown()),
                (_, [of]) => Some(plain(of)?.0),
                _ => return Err(unknown()),
            };
            Ok(Instruction::Tlbi { op, scope, operand })
        }
        _ => Err(unknown()),
    }
}
