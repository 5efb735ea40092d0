//! The names of a test: variables, places, and the values that are written with names.

use lookaside_machine::litmus::{Descriptor, Register, address, descriptor_address};

use super::text::{Trouble, Words};

/// The variables, in the order in which they were named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<String>);

/// Something that has a value in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A register of a thread.
    Register(usize, Register),
    /// The frame of a variable.
    Contents(usize),
    /// The descriptor of a variable.
    Descriptor(usize),
}

impl Names {
    /// The number of a name, which is new if it was not named before.
    pub(super) fn number(&mut self, name: &str) -> usize {
        self.0.iter().position(|known| known == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The name of a variable.
    pub(super) fn name(&self, variable: usize) -> &str {
        &self.0[variable]
    }

    /// The variable whose descriptor is named here, if one is: `pte_x`, `PTE(x)`, `TTD(x)`.
    pub(super) fn descriptor(&mut self, words: &mut Words<'_>) -> Result<Option<usize>, Trouble> {
        self.of(words, "pte_", &["PTE", "TTD"])
    }

    fn of(
        &mut self,
        words: &mut Words<'_>,
        prefix: &str,
        functions: &[&str],
    ) -> Result<Option<usize>, Trouble> {
        let Some(word) = words.peek() else { return Ok(None) };
        if let Some(name) = word.strip_prefix(prefix) {
            words.next();
            return Ok(Some(self.number(name)));
        }
        if functions.iter().any(|name| name.eq_ignore_ascii_case(word))
            && words.ahead(1) == Some("(")
        {
            words.next();
            words.next();
            let name = identifier(words)?;
            words.expect(")")?;
            return Ok(Some(self.number(name)));
        }
        Ok(None)
    }

    /// A place: `x`, `[x]`, `pte_x`, `[PTE(x)]`, `0:X1`, `P0:X1`.
    pub(super) fn place(&mut self, words: &mut Words<'_>) -> Result<Place, Trouble> {
        if words.ahead(1) == Some(":") {
            let thread = thread(words)?;
            words.expect(":")?;
            let word = words.word("a register")?;
            return match register(word) {
                Some((register, _)) => Ok(Place::Register(thread, register)),
                None => words.fail(format!("`{word}` is no register")),
            };
        }
        let bracket = words.accept("[");
        let place = match self.descriptor(words)? {
            Some(variable) => Place::Descriptor(variable),
            None => Place::Contents(self.number(identifier(words)?)),
        };
        if bracket {
            words.expect("]")?;
        }
        Ok(place)
    }

    /// A value: a number, an address, or a descriptor. A descriptor that names no output leads to
    /// the frame of `own`.
    pub(super) fn value(
        &mut self,
        words: &mut Words<'_>,
        own: Option<usize>,
    ) -> Result<u64, Trouble> {
        if words.peek() == Some("(") {
            return Ok(self.fields(words, own)?.encode());
        }
        words.accept("&");
        if let Some(of) = self.descriptor(words)? {
            return Ok(descriptor_address(of));
        }
        let line = words.clone();
        let word = words.word("a value")?;
        if let Some(value) = number(word) {
            return Ok(value);
        }
        if !is_identifier(word) {
            return line.fail(format!("`{word}` is no value"));
        }
        Ok(address(self.number(word)))
    }

    /// A descriptor: `(oa:phy_x, valid:0)`.
    pub(super) fn fields(
        &mut self,
        words: &mut Words<'_>,
        own: Option<usize>,
    ) -> Result<Descriptor, Trouble> {
        words.expect("(")?;
        let mut descriptor = Descriptor::to(own.unwrap_or(usize::MAX));
        while !words.accept(")") {
            let field = words.word("a field of a descriptor")?;
            words.expect(":")?;
            if field.eq_ignore_ascii_case("oa") {
                match self.of(words, "phy_", &["PA"])? {
                    Some(output) => descriptor.output = output,
                    None => return words.fail("expected `PA(…)` or `phy_…`"),
                }
            } else {
                let on = match words.word("0 or 1")? {
                    "0" => false,
                    "1" => true,
                    other => return words.fail(format!("`{other}` is neither 0 nor 1")),
                };
                match field.to_ascii_lowercase().as_str() {
                    "valid" => descriptor.valid = on,
                    "af" => descriptor.accessed = on,
                    "db" => descriptor.dirty = on,
                    "dbm" => descriptor.managed = on,
                    "el0" => descriptor.user = on,
                    _ => return words.fail(format!("`{field}` is no field of a descriptor")),
                }
            }
            if !words.accept(",") && words.peek() != Some(")") {
                return words.fail("expected `,` or `)` after a field");
            }
        }
        if descriptor.output == usize::MAX {
            return words.fail("a descriptor without `oa`");
        }
        Ok(descriptor)
    }

    /// A value in words.
    pub(super) fn show(&self, value: u64) -> String {
        let Some(descriptor) = Descriptor::decode(value, self.count()) else {
            let known = (0..self.count()).find(|&of| address(of) == value);
            return known.map_or_else(|| value.to_string(), |of| self.name(of).to_owned());
        };
        let mut text = format!("(oa:PA({})", self.name(descriptor.output));
        let usual = Descriptor::to(descriptor.output);
        for (name, on, usually) in [
            ("af", descriptor.accessed, usual.accessed),
            ("db", descriptor.dirty, usual.dirty),
            ("dbm", descriptor.managed, usual.managed),
            ("valid", descriptor.valid, usual.valid),
            ("el0", descriptor.user, usual.user),
        ] {
            if on != usually {
                text.push_str(&format!(", {name}:{}", u8::from(on)));
            }
        }
        text.push(')');
        text
    }

    /// A place in words.
    pub(super) fn show_place(&self, place: Place) -> String {
        match place {
            Place::Register(thread, register) => format!("{thread}:X{}", register.0),
            Place::Contents(of) => format!("[{}]", self.name(of)),
            Place::Descriptor(of) => format!("[PTE({})]", self.name(of)),
        }
    }
}

/// The number of a thread: `0` or `P0`.
pub(super) fn thread(words: &mut Words<'_>) -> Result<usize, Trouble> {
    let line = words.clone();
    let word = words.word("a thread")?;
    thread_number(word).map_or_else(|| line.fail(format!("`{word}` is no thread")), Ok)
}

/// The largest number of threads.
const THREADS: usize = 64;

pub(super) fn thread_number(word: &str) -> Option<usize> {
    let digits = word.strip_prefix(['P', 'p']).unwrap_or(word);
    digits.parse().ok().filter(|&number| number < THREADS)
}

/// A register and whether it is named as one of 64 bits.
pub(super) fn register(word: &str) -> Option<(Register, bool)> {
    let wide = match word.as_bytes().first()? {
        b'X' | b'x' => true,
        b'W' | b'w' => false,
        _ => return None,
    };
    let number = word.get(1..)?;
    if number.eq_ignore_ascii_case("zr") {
        return Some((Register::ZERO, wide));
    }
    let number = number.parse().ok().filter(|&number: &u8| number <= 30)?;
    Some((Register(number), wide))
}

pub(super) fn number(word: &str) -> Option<u64> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None if digits.bytes().all(|c| c.is_ascii_digit()) => digits.parse().ok()?,
        None => return None,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

fn is_identifier(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

pub(super) fn identifier<'a>(words: &mut Words<'a>) -> Result<&'a str, Trouble> {
    let line = words.clone();
    let word = words.word("a name")?;
    if is_identifier(word) { Ok(word) } else { line.fail(format!("`{word}` is no name")) }
}
