//! One record of a trace, and how it is read.

/// A number of 64 bits: an address or a value.
pub type Word = u64;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub id: u64,
    /// The CPU.
    pub cpu: usize,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A word was written.
    Write {
        /// As a release.
        release: bool,
        /// Where.
        address: Word,
        /// What.
        value: Word,
    },
    /// A word was read.
    Read {
        /// Where.
        address: Word,
    },
    /// Memory was zeroed and is tracked from now on.
    Init {
        /// From where.
        address: Word,
        /// How many bytes.
        size: Word,
    },
    /// Memory is not tracked any more.
    Free {
        /// From where.
        address: Word,
        /// How many bytes.
        size: Word,
    },
    /// Memory was filled with a byte.
    Set {
        /// From where.
        address: Word,
        /// How many bytes.
        size: Word,
        /// The byte.
        value: u8,
    },
    /// `ISB`.
    Isb,
    /// `DSB ISHST`.
    DsbStores,
    /// `DSB ISH`.
    DsbFull,
    /// `DSB NSH`.
    DsbLocal,
    /// `TLBI`.
    Tlbi(Tlbi),
    /// A root register of stage 2 was written.
    Vttbr(Word),
    /// A root register of stage 1 was written.
    Ttbr(Word),
    /// Another register was written.
    Register,
    /// The lock of a tree was named.
    RootLock {
        /// The root.
        root: Word,
        /// The lock.
        lock: Word,
    },
    /// A table is given back.
    Release {
        /// The table.
        table: Word,
    },
    /// Something was said that does not matter here.
    Hint,
    /// A lock was taken.
    Lock(Word),
    /// A lock was given back.
    Unlock(Word),
}

/// What a `TLBI` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tlbi {
    /// Both stages of the current VMID.
    BothStages,
    /// Stage 1 of the current VMID.
    StageOne,
    /// Everything of every VMID.
    Everything,
    /// Everything of EL2.
    Hypervisor,
    /// One address of EL2.
    HypervisorAddress(Word),
    /// One address of stage 2 of the current VMID.
    StageTwoAddress(Word),
}

/// How many CPUs a trace may have.
const CPUS: usize = 4;

/// Reads a record.
///
/// # Errors
///
/// If the line is none: what is wrong with it.
pub fn read(line: &str) -> Result<Record, String> {
    let mut items = items(line)?.into_iter();
    let Some(Item::Word(kind)) = items.next() else {
        return Err("the record has no kind".into());
    };
    let mut fields = Fields(items.collect());
    let decimal = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
    let id = decimal(&fields.take("id")?)?;
    let cpu = decimal(&fields.take("tid")?)?;
    let cpu = usize::try_from(cpu).ok().filter(|&cpu| cpu < CPUS);
    let cpu = cpu.ok_or_else(|| format!("a trace has CPUs 0 to {}", CPUS - 1))?;
    let what = fields.what(&kind)?;
    let source = fields.take("src")?;
    if !source.contains(':') {
        return Err(format!("`{source}` is no FILE:LINE"));
    }
    if let Some(item) = fields.0.first() {
        return Err(format!("what is `{}`?", item.shown()));
    }
    Ok(Record { id, cpu, what })
}

/// A word, or a pair of a key and a word.
#[derive(Debug)]
enum Item {
    Word(String),
    Pair(String, String),
}

impl Item {
    fn shown(&self) -> &str {
        match self {
            Self::Word(word) | Self::Pair(word, _) => word,
        }
    }
}

/// The items of a record.
fn items(line: &str) -> Result<Vec<Item>, String> {
    let inner = line.trim().strip_prefix('(').and_then(|line| line.strip_suffix(')'));
    let inner = inner.ok_or("a record stands in parentheses")?;
    let mut items = Vec::new();
    let mut open: Option<Vec<String>> = None;
    let mut rest = inner.trim_start();
    while let Some(first) = rest.chars().next() {
        match first {
            '(' if open.is_none() => {
                open = Some(Vec::new());
                rest = &rest[1..];
            }
            ')' => {
                let words = open.take().ok_or("a `)` too many")?;
                let [key, value] = <[String; 2]>::try_from(words)
                    .map_err(|words| format!("`({})` is no pair", words.join(" ")))?;
                items.push(Item::Pair(key, value));
                rest = &rest[1..];
            }
            '(' => return Err("parentheses in parentheses".into()),
            _ => {
                let (word, after) = if let Some(quoted) = rest.strip_prefix('"') {
                    quoted.split_once('"').ok_or("a quote that does not end")?
                } else {
                    let ends = |c: char| c.is_whitespace() || c == '(' || c == ')';
                    rest.split_at(rest.find(ends).unwrap_or(rest.len()))
                };
                match &mut open {
                    Some(words) => words.push(word.to_owned()),
                    None => items.push(Item::Word(word.to_owned())),
                }
                rest = after;
            }
        }
        rest = rest.trim_start();
    }
    if open.is_some() { Err("a `(` that does not end".into()) } else { Ok(items) }
}

/// The fields of a record that have not been read.
struct Fields(Vec<Item>);

impl Fields {
    /// The field of a name, or else the first that has no name.
    fn take(&mut self, name: &str) -> Result<String, String> {
        let named = |item: &Item| matches!(item, Item::Pair(key, _) if key == name);
        let word = |item: &Item| matches!(item, Item::Word(_));
        let at = self.0.iter().position(named).or_else(|| self.0.iter().position(word));
        match at.map(|at| self.0.remove(at)) {
            Some(Item::Word(value) | Item::Pair(_, value)) => Ok(value),
            None => Err(format!("no `{name}`")),
        }
    }

    fn number(&mut self, name: &str) -> Result<Word, String> {
        let text = self.take(name)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        Word::from_str_radix(digits, 16).map_err(|_| format!("`{text}` is no number"))
    }

    fn aligned(&mut self, name: &str) -> Result<Word, String> {
        let number = self.number(name)?;
        if number % 8 == 0 {
            Ok(number)
        } else {
            Err(format!("`{name}` {number:#x} is no multiple of 8"))
        }
    }

    fn what(&mut self, kind: &str) -> Result<What, String> {
        Ok(match kind {
            "mem-write" => {
                let release = match self.take("mem-order")?.as_str() {
                    "plain" => false,
                    "release" => true,
                    other => return Err(format!("`{other}` is no order")),
                };
                let address = self.aligned("address")?;
                What::Write { release, address, value: self.number("value")? }
            }
            "mem-read" => {
                let address = self.aligned("address")?;
                self.number("value")?;
                What::Read { address }
            }
            "mem-init" => What::Init { address: self.aligned("address")?, size: self.size()? },
            "mem-free" => What::Free { address: self.aligned("address")?, size: self.size()? },
            "mem-set" => {
                let (address, size) = (self.aligned("address")?, self.size()?);
                let value = self.number("value")?;
                let value = u8::try_from(value).map_err(|_| format!("{value:#x} is no byte"))?;
                What::Set { address, size, value }
            }
            "barrier" => match self.bare()?.as_str() {
                "isb" => What::Isb,
                "dsb" => match self.take("kind")?.as_str() {
                    "ish" => What::DsbFull,
                    "ishst" => What::DsbStores,
                    "nsh" => What::DsbLocal,
                    other => return Err(format!("`{other}` is no kind of dsb")),
                },
                other => return Err(format!("`{other}` is no barrier")),
            },
            "tlbi" => {
                let name = self.bare()?;
                What::Tlbi(match name.as_str() {
                    "vmalls12e1" | "vmalls12e1is" => Tlbi::BothStages,
                    "vmalle1" | "vmalle1is" => Tlbi::StageOne,
                    "alle1" | "alle1is" => Tlbi::Everything,
                    "alle2" | "alle2is" => Tlbi::Hypervisor,
                    "vae2is" | "vale2is" => Tlbi::HypervisorAddress(self.address()?),
                    "ipas2e1is" => Tlbi::StageTwoAddress(self.address()?),
                    _ => return Err(format!("`{name}` is no tlbi")),
                })
            }
            "sysreg-write" => {
                let register = self.take("sysreg")?;
                let value = self.number("value")?;
                match register.as_str() {
                    "vttbr_el2" => What::Vttbr(value),
                    "ttbr0_el2" => What::Ttbr(value),
                    "vtcr_el2" | "tcr_el2" | "hcr_el2" | "sctlr_el2" | "mair_el2" => What::Register,
                    _ => return Err(format!("`{register}` is no register")),
                }
            }
            "hint" => {
                let kind = self.take("kind")?;
                let (location, value) = (self.number("location")?, self.number("value")?);
                match kind.as_str() {
                    "set_root_lock" => What::RootLock { root: location, lock: value },
                    "release_table" => What::Release { table: location },
                    "set_owner_root" | "set_pte_thread_owner" => What::Hint,
                    _ => return Err(format!("`{kind}` is no hint")),
                }
            }
            "lock" | "trylock" => What::Lock(self.number("address")?),
            "unlock" => What::Unlock(self.number("address")?),
            _ => return Err(format!("`{kind}` is no kind of record")),
        })
    }

    /// A size in bytes, of which a tracker keeps every word.
    fn size(&mut self) -> Result<Word, String> {
        let size = self.number("size")?;
        if size % 8 == 0 && size <= 1 << 24 {
            Ok(size)
        } else {
            Err(format!("{size:#x} is no size: a multiple of 8 up to 0x1000000"))
        }
    }

    /// The address of an operand: bits 55:12 in 43:0.
    fn address(&mut self) -> Result<Word, String> {
        Ok((self.number("value")? & 0xfff_ffff_ffff) << 12)
    }

    /// A word without a name.
    fn bare(&mut self) -> Result<String, String> {
        let at = self.0.iter().position(|item| matches!(item, Item::Word(_)));
        match at.map(|at| self.0.remove(at)) {
            Some(Item::Word(word)) => Ok(word),
            _ => Err("something without a name is missing".into()),
        }
    }
}
