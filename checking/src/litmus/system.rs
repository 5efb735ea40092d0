//! Reads tests of RISC-V and x86 that the explorer runs on its own CPUs ([`super::program`]).
//!
//! They look as herd's do: a name, what memory and registers hold at first, a column of instructions for each
//! CPU, and a condition. `docs/litmus.md` has the format.

use lookaside::platform::Ordering;
use lookaside_machine::{
    adversary::{Access, Arch},
    litmus::Register,
};

use super::{
    names::{Names, Place, identifier, number, register, thread},
    program::{Program, Space, Step, Value},
    text::{Trouble, Words},
};

/// What is read of the initial state.
#[derive(Default)]
pub(super) struct Initial {
    spaces: Vec<String>,
    contents: Vec<(usize, u64)>,
    descriptors: Vec<(Space, usize, u32, Value)>,
    registers: Vec<(usize, Register, Value)>,
    roots: Vec<(usize, Space, u16)>,
}

/// The space that there always is.
const MAIN: &str = "main";

impl Initial {
    /// Reads the initial state.
    pub(super) fn read(text: &str, first: usize, names: &mut Names) -> Result<Self, Trouble> {
        let mut words = Words::new(text, first);
        let mut initial = Self { spaces: vec![MAIN.to_owned()], ..Self::default() };
        while words.peek().is_some() {
            if words.accept(";") {
                continue;
            }
            initial.item(&mut words, names)?;
            if !words.accept(";") && words.peek().is_some() {
                return words.fail("expected `;`");
            }
        }
        Ok(initial)
    }

    fn item(&mut self, words: &mut Words<'_>, names: &mut Names) -> Result<(), Trouble> {
        if words.ahead(1) == Some(":") {
            let of = thread(words)?;
            words.expect(":")?;
            let word = words.word("a register")?;
            words.expect("=")?;
            if matches!(word, "satp" | "cr3") {
                let (space, tag) = self.root(words)?;
                self.roots.push((of, space, tag));
                return Ok(());
            }
            let Some((register, _)) = register(word) else {
                return words.fail(format!("`{word}` is no register"));
            };
            let value = self.value(words, names, None)?;
            self.registers.push((of, register, value));
            return Ok(());
        }
        if let Some((space, variable, level)) = self.descriptor(words, names)? {
            words.expect("=")?;
            let value = self.value(words, names, Some(variable))?;
            self.descriptors.push((space, variable, level, value));
            return Ok(());
        }
        let Place::Contents(variable) = names.place(words)? else {
            return words.fail("expected a variable");
        };
        if words.accept("=") {
            match self.value(words, names, None)? {
                Value::Number(value) => self.contents.push((variable, value)),
                _ => return words.fail("a variable holds a number"),
            }
        }
        Ok(())
    }

    fn space(&mut self, name: &str) -> Space {
        self.spaces.iter().position(|known| known == name).unwrap_or_else(|| {
            self.spaces.push(name.to_owned());
            self.spaces.len() - 1
        })
    }

    /// `PTE(x)`, `PTE(space, x)`; `TABLE(…)` is the descriptor of the level above.
    fn descriptor(
        &mut self,
        words: &mut Words<'_>,
        names: &mut Names,
    ) -> Result<Option<(Space, usize, u32)>, Trouble> {
        let level = match words.peek() {
            Some("PTE") => 0,
            Some("TABLE") => 1,
            _ => return Ok(None),
        };
        words.next();
        let (space, variable) = self.pair(words, names)?;
        Ok(Some((space, variable, level)))
    }

    /// `(x)`, `(space, x)`.
    fn pair(
        &mut self,
        words: &mut Words<'_>,
        names: &mut Names,
    ) -> Result<(Space, usize), Trouble> {
        words.expect("(")?;
        let first = identifier(words)?;
        let found = if words.accept(",") {
            (self.space(first), names.number(identifier(words)?))
        } else {
            (0, names.number(first))
        };
        words.expect(")")?;
        Ok(found)
    }

    /// `(space, tag)`.
    fn root(&mut self, words: &mut Words<'_>) -> Result<(Space, u16), Trouble> {
        words.expect("(")?;
        let space = identifier(words)?;
        let space = self.space(space);
        words.expect(",")?;
        let word = words.word("a tag")?;
        let Some(tag) = number(word).and_then(|tag| u16::try_from(tag).ok()) else {
            return words.fail(format!("`{word}` is no tag"));
        };
        words.expect(")")?;
        Ok((space, tag))
    }

    fn value(
        &mut self,
        words: &mut Words<'_>,
        names: &mut Names,
        own: Option<usize>,
    ) -> Result<Value, Trouble> {
        if words.peek() == Some("(") {
            return fields(words, names, own);
        }
        if let Some((space, variable, level)) = self.descriptor(words, names)? {
            return Ok(Value::Descriptor(space, variable, level));
        }
        if matches!(words.peek(), Some("satp" | "cr3")) {
            words.next();
            let (space, tag) = self.root(words)?;
            return Ok(Value::Root(space, tag));
        }
        if words.accept("NEXT") {
            let (space, variable) = self.pair(words, names)?;
            return Ok(Value::Table(space, variable));
        }
        if let Some(value) = words.peek().and_then(number) {
            words.next();
            return Ok(Value::Number(value));
        }
        Ok(Value::Address(names.number(identifier(words)?)))
    }

    /// The program with this initial state.
    pub(super) fn program(
        self,
        arch: Arch,
        variables: usize,
        code: Vec<Vec<Step>>,
    ) -> Result<Program, String> {
        let threads = code.len();
        let mut program = Program {
            arch,
            contents: vec![0; variables],
            descriptors: self.descriptors,
            spaces: self.spaces.len(),
            roots: vec![(0, 1); threads],
            registers: vec![Vec::new(); threads],
            handlers: vec![None; threads],
            code,
        };
        // So many have an address and a frame with contents.
        if variables > 15 {
            return Err("more than 15 variables".to_owned());
        }
        // Each space has two tables of its own, and one for each variable.
        if program.spaces * (2 + variables) > 32 {
            return Err("more tables than the machine has memory for".to_owned());
        }
        for (variable, value) in self.contents {
            program.contents[variable] = value;
        }
        let missing = || "a register of a thread that is not there".to_owned();
        for (thread, register, value) in self.registers {
            program.registers.get_mut(thread).ok_or_else(missing)?.push((register, value));
        }
        for (thread, space, tag) in self.roots {
            *program.roots.get_mut(thread).ok_or_else(missing)? = (space, tag);
        }
        Ok(program)
    }
}

/// A descriptor of the last level: `(oa:PA(y), w:0, g:1, valid:0)`.
fn fields(words: &mut Words<'_>, names: &mut Names, own: Option<usize>) -> Result<Value, Trouble> {
    words.expect("(")?;
    let (mut output, mut access, mut valid) = (own, Access::WRITE, true);
    while !words.accept(")") {
        let field = words.word("a field of a descriptor")?;
        words.expect(":")?;
        if field == "oa" {
            words.expect("PA")?;
            words.expect("(")?;
            output = Some(names.number(identifier(words)?));
            words.expect(")")?;
        } else {
            let on = match words.word("0 or 1")? {
                "0" => false,
                "1" => true,
                other => return words.fail(format!("`{other}` is neither 0 nor 1")),
            };
            match field {
                "valid" => valid = on,
                "w" => access.write = on,
                "g" => access.global = on,
                _ => return words.fail(format!("`{field}` is no field of a descriptor")),
            }
        }
        if !words.accept(",") && words.peek() != Some(")") {
            return words.fail("expected `,` or `)` after a field");
        }
    }
    match output {
        _ if !valid => Ok(Value::Number(0)),
        Some(output) => Ok(Value::Leaf { output, access }),
        None => words.fail("a descriptor without `oa`"),
    }
}

/// An instruction.
pub(super) fn step(arch: Arch, text: &str) -> Result<Step, String> {
    let unknown = || format!("`{text}` is no instruction that the explorer's CPUs have");
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let operands: Vec<&str> =
        rest.split(',').map(str::trim).filter(|operand| !operand.is_empty()).collect();
    let found = match arch {
        Arch::Riscv => riscv(word, &operands),
        Arch::X86 | Arch::Arm => x86(word, &operands),
    };
    found.ok_or_else(unknown)
}

fn plain(text: &str) -> Option<Register> {
    let (register, true) = register(text)? else { return None };
    (text.starts_with('x') && register != Register::ZERO).then_some(register)
}

/// An address in a register, in brackets of some kind.
fn at(text: &str, open: &str, close: char) -> Option<Register> {
    plain(text.strip_prefix(open)?.strip_suffix(close)?.trim())
}

fn riscv(word: &str, operands: &[&str]) -> Option<Step> {
    // `x0` names nothing.
    let optional = |text: &str| plain(text).map(|of| (of.0 != 0).then_some(of));
    let fenced = || match operands {
        [] => Some((None, None)),
        [address] => Some((optional(address)?, None)),
        [address, tag] => Some((optional(address)?, optional(tag)?)),
        _ => None,
    };
    let base = |text: &str| at(text, "0(", ')').or_else(|| at(text, "(", ')'));
    Some(match (word, operands) {
        ("li", [to, value]) => Step::Set(plain(to)?, number(value)?),
        ("ld", [to, from]) => Step::Load(plain(to)?, base(from)?),
        ("sd", [from, to]) => Step::Store(plain(from)?, base(to)?),
        ("amoswap.d", [to, from, of]) => Step::Swap(plain(to)?, plain(from)?, base(of)?),
        ("fence", [] | ["rw", "rw"]) => Step::Fence(Ordering::SeqCst),
        ("fence", ["w" | "rw", "w"]) => Step::Fence(Ordering::Release),
        ("fence", ["r", "r" | "rw"]) => Step::Fence(Ordering::Acquire),
        ("sfence.vma", _) => {
            let (address, tag) = fenced()?;
            Step::Sfence(address, tag)
        }
        ("sinval.vma", [_, _]) => {
            let (address, tag) = fenced()?;
            Step::Sinval(address, tag)
        }
        ("sfence.w.inval", []) => Step::SfenceWInval,
        ("sfence.inval.ir", []) => Step::SfenceInvalIr,
        ("csrw", ["satp", from]) => Step::WriteRoot(plain(from)?),
        _ => return None,
    })
}

fn x86(word: &str, operands: &[&str]) -> Option<Step> {
    let base = |text: &str| at(text, "[", ']');
    Some(match (word, operands) {
        ("mov", ["cr3", from]) => Step::WriteRoot(plain(from)?),
        ("mov", [to, what]) => match (plain(to), base(to)) {
            (Some(to), _) => match number(what) {
                Some(value) => Step::Set(to, value),
                None => Step::Load(to, base(what)?),
            },
            (None, Some(to)) => Step::Store(plain(what)?, to),
            (None, None) => return None,
        },
        ("xchg", [register, of]) => Step::Swap(plain(register)?, plain(register)?, base(of)?),
        ("mfence", []) => Step::Fence(Ordering::SeqCst),
        ("invlpg", [of]) => Step::Invlpg(base(of)?),
        _ => return None,
    })
}
