//! Reads Isla's tests of page tables: TOML, with the page tables in a language of their own. They run on the
//! explorer's CPUs.
//!
//! Read are tests of one stage with pages of the last level: mappings, several spaces, ASIDs, switches
//! of `TTBR0`, and handlers that go on after the instruction that faulted.

use lookaside::{
    arch::aarch64::{Dsb, Scope, TlbiOp},
    platform::Ordering,
};
use lookaside_machine::{
    adversary::{Access, Arch},
    litmus::{Descriptor, Register},
};
use toml_edit::{Document, Item};

use super::{
    Labels, Litmus, Observed, Place, Program, Proposition, Quantifier, Runs, Space, Step, Value,
    names::Names, program::virtual_address,
};

/// What the page tables of a test are.
#[derive(Default)]
struct Tables {
    names: Names,
    physical: Vec<String>,
    spaces: Vec<String>,
    /// Space, variable, and what its descriptor is.
    mapped: Vec<(Space, usize, Value)>,
    contents: Vec<(usize, u64)>,
}

/// The space that a test has without naming it.
const BASE: &str = "page_table_base";

/// A register that no test names, for sums of addresses.
const SCRATCH: Register = Register(30);

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0b") {
        Some(bits) => u64::from_str_radix(bits, 2).ok(),
        None => super::names::number(text),
    }
}

/// The arguments of a call of a function.
fn call<'t>(text: &'t str, name: &str) -> Option<Vec<&'t str>> {
    let inner = text.trim().strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?;
    Some(inner.split(',').map(str::trim).collect())
}

impl Tables {
    fn read(text: &str) -> Result<Self, String> {
        let mut tables = Self { spaces: vec![BASE.to_owned()], ..Self::default() };
        let mut space = 0;
        let text: String = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or(""))
            .collect::<Vec<_>>()
            .join(" ");
        // A table's braces are statements of their own.
        let text = text.replace('{', ";{;").replace('}', ";};");
        let mut named = None;
        // Addresses of the first stage's output: a test may declare some and map none.
        let mut intermediate = Vec::new();
        for statement in text.split(';').map(str::trim).filter(|text| !text.is_empty()) {
            let words: Vec<&str> = statement.split_whitespace().collect();
            match words.as_slice() {
                ["{"] => space = named.take().ok_or("a table without a name")?,
                ["}"] => space = 0,
                ["physical", names @ ..] => {
                    for name in names {
                        tables.names.number(name);
                        tables.physical.push((*name).to_owned());
                    }
                }
                ["intermediate", names @ ..] => intermediate.extend_from_slice(names),
                [name, "|->" | "?->", ..] if intermediate.contains(name) => {
                    return Err(format!("`{statement}`: a second stage"));
                }
                ["virtual", names @ ..] => {
                    for name in names {
                        tables.names.number(name);
                    }
                }
                ["s1table", name, _] => {
                    tables.spaces.push((*name).to_owned());
                    named = Some(tables.spaces.len() - 1);
                }
                ["identity", ..] | ["option", ..] | [_, "?->", ..] => {
                    if statement.contains(" at level") && !statement.contains("level 3") {
                        return Err(format!("`{statement}`: a level above the last"));
                    }
                }
                [name, "|->", what, with @ ..] => {
                    let own = tables.names.number(name);
                    let access = match with {
                        [] => Access::WRITE,
                        _ => attributes(&with.join(" ")).ok_or_else(|| format!("`{statement}`"))?,
                    };
                    let value = match *what {
                        "invalid" => Value::Number(0),
                        what if tables.physical.iter().any(|name| name == what) => {
                            Value::Leaf { output: tables.names.number(what), access }
                        }
                        _ => return Err(format!("`{statement}`")),
                    };
                    tables.mapped.push((space, own, value));
                }
                [place, "=", value] if place.starts_with('*') => {
                    let value = number(value).ok_or_else(|| format!("`{statement}`"))?;
                    let own = tables.names.number(&place[1..]);
                    tables.contents.push((tables.frame(own), value));
                }
                _ => return Err(format!("`{statement}`")),
            }
        }
        Ok(tables)
    }

    /// The frame that a name stands for: its own, or what it is mapped to.
    fn frame(&self, own: usize) -> usize {
        let mapped = self.mapped.iter().find(|mapped| mapped.1 == own);
        match mapped {
            Some((_, _, Value::Leaf { output, .. })) => *output,
            _ => own,
        }
    }

    fn space(&self, name: &str) -> Option<Space> {
        self.spaces.iter().position(|known| known == name.trim())
    }

    fn known(&mut self, name: &str) -> Option<usize> {
        (0..self.names.count()).find(|&of| self.names.name(of) == name.trim())
    }

    /// A value in the language of the tests.
    fn value(&mut self, text: &str) -> Option<Value> {
        let text = text.trim();
        if let Some(value) = number(text) {
            return Some(Value::Number(value));
        }
        if let Some([value, _]) = call(text, "extz").as_deref() {
            if let Some([name]) = call(value, "page").as_deref() {
                return Some(Value::Number(virtual_address(self.known(name)?) >> 12));
            }
            return number(value).map(Value::Number);
        }
        for (name, level) in [("pte3", 0), ("pte2", 1)] {
            if let Some([of, space]) = call(text, name).as_deref() {
                return Some(Value::Descriptor(self.space(space)?, self.known(of)?, level));
            }
        }
        if let Some([of, space]) = call(text, "desc3").as_deref() {
            let (space, of) = (self.space(space)?, self.known(of)?);
            let mapped = self.mapped.iter().find(|mapped| (mapped.0, mapped.1) == (space, of));
            return Some(mapped.map_or(Value::Number(0), |mapped| mapped.2));
        }
        if let Some([output, with @ ..]) = call(text, "mkdesc3").as_deref() {
            let output = self.known(output.strip_prefix("oa=")?)?;
            let access = match with {
                [] => Access::WRITE,
                [with] => attributes(&format!("[{}]", with.replace('=', " = ")))?,
                _ => return None,
            };
            return Some(Value::Leaf { output, access });
        }
        if let Some([asid]) = call(text, "asid").as_deref() {
            return Some(Value::Number(number(asid)? << 48));
        }
        if let Some([asid, base]) = call(text, "ttbr").as_deref() {
            let asid = u16::try_from(number(asid.strip_prefix("asid=")?)?).ok()?;
            return Some(Value::Root(self.space(base.strip_prefix("base=")?)?, asid));
        }
        self.known(text).map(Value::Address)
    }
}

/// What `[AP = 0b11] and default` permits: nothing else of it matters here.
fn attributes(text: &str) -> Option<Access> {
    let inner = text.trim().strip_prefix("with").unwrap_or(text).trim();
    let inner = inner.strip_suffix("and default").unwrap_or(inner).trim();
    if inner == "default" || inner == "at level 3" {
        return Some(Access::WRITE);
    }
    let value = inner.strip_prefix('[')?.strip_suffix(']')?.trim().strip_prefix("AP")?.trim();
    let permissions = number(value.strip_prefix('=')?)?;
    // What user code may not use the explorer's CPUs do not tell from what it may.
    if permissions & 0b01 == 0 {
        return None;
    }
    Some(if permissions & 0b10 == 0 { Access::WRITE } else { Access::READ })
}

fn register(text: &str) -> Option<Register> {
    let (register, wide) = super::names::register(text.trim())?;
    wide.then_some(register)
}

/// The instructions of a thread. `resume` is the label that an `ERET` goes on at.
fn code(text: &str, resume: Option<&str>) -> Result<Vec<Step>, String> {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or("").trim())
        .filter(|line| !line.is_empty())
        .collect();
    let mut steps = Vec::new();
    for (at, &line) in lines.iter().enumerate() {
        if line.ends_with(':') {
            continue;
        }
        // Where this label stands next, nothing is jumped over.
        let next = |label: &str| {
            lines
                .get(at + 1)
                .is_some_and(|next| next.trim_end_matches(':') == label && next.ends_with(':'))
        };
        let unknown = || format!("`{line}`");
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let upper = word.to_ascii_uppercase();
        let operands: Vec<&str> = rest.split(',').map(str::trim).collect();
        match (upper.as_str(), operands.as_slice()) {
            ("ISB", _) => steps.push(Step::Isb),
            ("NOP", _) => {}
            ("ERET", _) if resume.is_some_and(next) => steps.push(Step::Isb),
            ("CBNZ" | "CBZ", [_, label]) if next(label) => {}
            ("DSB", ["SY" | "ISH"]) => steps.push(Step::Dsb(Dsb::Ish)),
            ("DSB", ["ST" | "ISHST"]) => steps.push(Step::Dsb(Dsb::Ishst)),
            ("DMB", ["SY" | "ISH"]) => steps.push(Step::Fence(Ordering::SeqCst)),
            ("DMB", ["ST" | "ISHST"]) => steps.push(Step::Fence(Ordering::Release)),
            ("DMB", ["LD"]) => steps.push(Step::Fence(Ordering::Acquire)),
            ("MSR", ["TTBR0_EL1", from]) => {
                steps.push(Step::WriteRoot(register(from).ok_or_else(unknown)?));
            }
            ("MOV", [to, what]) => {
                let to = register(to).ok_or_else(unknown)?;
                match (register(what), number(what.trim_start_matches('#'))) {
                    (Some(from), _) => steps.push(Step::Xor(to, from, Register::ZERO)),
                    (None, Some(value)) => steps.push(Step::Set(to, value)),
                    (None, None) => return Err(unknown()),
                }
            }
            ("EOR", [to, one, other]) => {
                let of = |text| register(text).ok_or_else(unknown);
                steps.push(Step::Xor(of(to)?, of(one)?, of(other)?));
            }
            ("LDR" | "STR", [data, base @ ..]) => {
                let data = register(data).ok_or_else(unknown)?;
                let inner = base.join(",");
                let inner = inner.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
                let parts: Vec<_> = inner.ok_or_else(unknown)?.split(',').map(register).collect();
                let base = match parts.as_slice() {
                    [Some(base)] => *base,
                    [Some(base), Some(index)] => {
                        steps.push(Step::Add(SCRATCH, *base, *index));
                        SCRATCH
                    }
                    _ => return Err(unknown()),
                };
                let load = upper == "LDR";
                steps.push(if load { Step::Load(data, base) } else { Step::Store(data, base) });
            }
            ("TLBI", [op, operand @ ..]) => {
                let op = op.to_ascii_uppercase();
                let (name, scope) = match op.strip_suffix("IS") {
                    Some(name) => (name, Scope::Broadcast),
                    None => (op.as_str(), Scope::Local),
                };
                let op = match name {
                    "VMALLE1" => TlbiOp::Vmall,
                    "VAE1" => TlbiOp::Va,
                    "VAAE1" => TlbiOp::Vaa,
                    "VALE1" => TlbiOp::Val,
                    "ASIDE1" => TlbiOp::Aside,
                    _ => return Err(unknown()),
                };
                let operand = match operand {
                    [] => None,
                    [of] => Some(register(of).ok_or_else(unknown)?),
                    _ => return Err(unknown()),
                };
                steps.push(Step::Tlbi(op, scope, operand));
            }
            _ => return Err(unknown()),
        }
    }
    Ok(steps)
}

/// What a handler does before it goes on after the instruction that faulted.
fn handler(text: &str) -> Result<Vec<Step>, String> {
    let returns = |line: &&str| {
        let upper = line.to_ascii_uppercase();
        !(upper.starts_with("MRS X") && upper.ends_with("ELR_EL1")
            || upper.starts_with("MSR ELR_EL1")
            || upper.starts_with("ADD X") && upper.ends_with("#4")
            || upper.starts_with("ERET"))
    };
    if !text.contains("ERET") || !text.contains("#4") {
        return Err("a handler that does not go on after the fault".to_owned());
    }
    let own: Vec<&str> = text.lines().map(str::trim).filter(returns).collect();
    code(&own.join("\n"), None)
}

/// The condition: a conjunction of values, some of them negated.
fn condition(text: &str, tables: &mut Tables) -> Option<Proposition> {
    let mut all = Proposition::True;
    for part in text.split('&') {
        let part = part.trim();
        if part == "true" {
            continue;
        }
        let (part, negated) = match part.strip_prefix('~') {
            Some(part) => (part.trim_start_matches('(').trim_end_matches(')'), true),
            None => (part, false),
        };
        let (place, value) = part.split_once('=')?;
        // `mkdesc3(oa=pa1)` has an equals sign of its own, after the first.
        let value = match tables.value(value)? {
            Value::Number(value) => value,
            Value::Leaf { output, access } => {
                Descriptor { dirty: access.write, ..Descriptor::to(output) }.encode()
            }
            _ => return None,
        };
        let place = match place.trim().strip_prefix('*') {
            Some(name) => {
                let own = tables.known(name)?;
                Place::Contents(tables.frame(own))
            }
            None => {
                let (thread, of) = place.trim().split_once(':')?;
                let of = format!("X{}", of.trim().trim_start_matches(['X', 'R']));
                Place::Register(super::names::thread_number(thread.trim())?, register(&of)?)
            }
        };
        let one = Proposition::Equal(place, value);
        let one = if negated { Proposition::Not(one.into()) } else { one };
        all = match all {
            Proposition::True => one,
            all => Proposition::And(all.into(), one.into()),
        };
    }
    Some(all)
}

impl Litmus {
    /// Reads a test in Isla's format.
    ///
    /// # Errors
    ///
    /// If the text is not one, or uses what cannot be run.
    pub fn read_isla(text: &str) -> Result<Self, String> {
        let document = Document::parse(text).map_err(|error| error.message().to_owned())?;
        let string = |item: Option<&Item>| item.and_then(Item::as_str).map(str::to_owned);
        let name = string(document.get("name")).ok_or("no name")?;
        let setup = string(document.get("page_table_setup")).ok_or("no page tables")?;
        let mut symbolic = String::new();
        if let Some(names) = document.get("symbolic").and_then(Item::as_array) {
            for name in names.iter().filter_map(|name| name.as_str()) {
                symbolic.push_str(&format!("virtual {name};"));
            }
        }
        let mut tables = Tables::read(&format!("{symbolic}{setup}"))?;
        let threads = document.get("thread").and_then(Item::as_table_like).ok_or("no threads")?;
        let mut program = Program {
            arch: Arch::Arm,
            contents: Vec::new(),
            descriptors: Vec::new(),
            spaces: tables.spaces.len(),
            roots: Vec::new(),
            registers: Vec::new(),
            code: Vec::new(),
            handlers: Vec::new(),
        };
        for number_of in 0..threads.len() {
            let thread = threads.get(&number_of.to_string()).ok_or("threads out of order")?;
            let mut registers = Vec::new();
            let (mut root, mut resume) = ((0, 0), None);
            for table in ["init", "reset"] {
                let Some(items) = thread.get(table).and_then(Item::as_table_like) else { continue };
                for (key, item) in items.iter() {
                    let value = item.as_str().unwrap_or_default();
                    if let Some(register) =
                        key.strip_prefix(['R', 'X']).and_then(|of| register(&format!("X{of}")))
                    {
                        let known = tables.value(value).ok_or_else(|| format!("`{value}`"))?;
                        registers.push((register, known));
                    } else if key == "TTBR0_EL1" {
                        match tables.value(value) {
                            Some(Value::Root(space, tag)) => root = (space, tag),
                            _ => return Err(format!("`{value}`")),
                        }
                    } else if key == "ELR_EL1" {
                        resume = Some(value.trim_end_matches(':').to_owned());
                    } else if !matches!(key, "VBAR_EL1" | "PSTATE.EL" | "PSTATE.SP" | "SPSR_EL1") {
                        return Err(format!("the register `{key}`"));
                    }
                }
            }
            let text = string(thread.get("code")).ok_or("a thread without code")?;
            program.code.push(code(&text, resume.as_deref())?);
            let section = document.get("section").and_then(Item::as_table_like);
            let own = section.and_then(|of| of.get(&format!("thread{number_of}_el1_handler")));
            let own = own.and_then(|of| string(of.get("code")));
            program.handlers.push(own.map(|text| handler(&text)).transpose()?);
            program.registers.push(registers);
            program.roots.push(root);
        }
        let assertion = string(document.get("final").and_then(|of| of.get("assertion")));
        let assertion = assertion.ok_or("no assertion")?;
        let proposition =
            condition(&assertion, &mut tables).ok_or_else(|| format!("`{assertion}`"))?;
        let variables = tables.names.count();
        if variables > 15 || tables.spaces.len() * (2 + variables) > 32 {
            return Err("more variables than there is memory for".to_owned());
        }
        program.contents = vec![0; variables];
        for &(variable, value) in &tables.contents {
            program.contents[variable] = value;
        }
        // What is not mapped is not.
        for space in 0..tables.spaces.len() {
            for variable in 0..variables {
                let mapped = tables.mapped.iter().find(|of| (of.0, of.1) == (space, variable));
                let value = mapped.map_or(Value::Number(0), |mapped| mapped.2);
                program.descriptors.push((space, variable, 0, value));
            }
        }
        let mut observed = Observed::default();
        observed.add(&proposition);
        Ok(Self {
            name,
            runs: Runs::Explored(program),
            names: tables.names,
            labels: Labels::default(),
            observed,
            quantifier: Quantifier::Exists,
            proposition,
        })
    }
}
