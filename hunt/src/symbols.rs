//! Names of addresses: from an ELF file, or from a Linux that has printed its own list.

use std::{fs, io::Read, path::Path};

use flate2::read::GzDecoder;
use object::{Object, ObjectSymbol, SymbolKind};

/// Functions by their address, in order, and variables that a description asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symbols {
    functions: Vec<(u64, String)>,
    variables: Vec<(u64, String)>,
}

impl Symbols {
    pub(crate) fn of_elf(file: &Path) -> Self {
        let Ok(data) = fs::read(file) else { return Self::default() };
        let Ok(elf) = object::File::parse(&*data) else { return Self::default() };
        let text = |symbol: &object::Symbol<'_, '_>| {
            matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown)
                && symbol.address() != 0
        };
        let named = |symbol: object::Symbol<'_, '_>| {
            Some((symbol.address(), plain(symbol.name().ok().filter(|name| is_function(name))?)))
        };
        Self::sorted(elf.symbols().filter(text).filter_map(named).collect())
    }

    /// Lines of `/proc/kallsyms`.
    pub(crate) fn of_kallsyms(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|&at| at != 0)?;
            let is_text = matches!(words.next()?, "t" | "T" | "w" | "W");
            Some((is_text, (address, plain(words.next().filter(|name| is_function(name))?))))
        };
        let (functions, variables): (Vec<_>, Vec<_>) =
            text.lines().filter_map(line).partition(|(is_text, _)| *is_text);
        let plain = |list: Vec<(bool, _)>| list.into_iter().map(|(_, symbol)| symbol).collect();
        Self { variables: plain(variables), ..Self::sorted(plain(functions)) }
    }

    /// What a Linux has printed between its two marks: base64 of gzip of the list.
    pub(crate) fn of_console(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("hunt: symbols")?;
        let (coded, _) = rest.split_once("hunt: end of symbols")?;
        let mut list = String::new();
        GzDecoder::new(&*base64(coded)).read_to_string(&mut list).ok()?;
        Some(Self::of_kallsyms(&list))
    }

    fn sorted(mut list: Vec<(u64, String)>) -> Self {
        list.sort();
        list.dedup_by_key(|(address, _)| *address);
        Self { functions: list, variables: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The list, as lines of `/proc/kallsyms`.
    pub(crate) fn to_text(&self) -> String {
        let line = |kind: char| {
            move |(address, name): &(u64, String)| format!("{address:016x} {kind} {name}\n")
        };
        self.functions.iter().map(line('t')).chain(self.variables.iter().map(line('d'))).collect()
    }

    /// `function+0x10`, if an address is in a function whose beginning is less than a MiB before.
    pub(crate) fn name(&self, address: u64) -> Option<String> {
        let at = self.functions.partition_point(|&(begin, _)| begin <= address);
        let (begin, name) = self.functions.get(at.checked_sub(1)?)?;
        let offset = address - begin;
        (offset < 1 << 20).then(|| format!("{name}+{offset:#x}"))
    }

    /// How the plugin finds the task: of `gs:NAME,NAME`, the first variable that the kernel has. Nothing if it has none of
    /// them.
    pub(crate) fn task(&self, described: &str) -> Option<String> {
        let Some(names) = described.strip_prefix("gs:") else { return Some(described.to_owned()) };
        let address = |name| self.variables.iter().find(|(_, own)| own == name).map(|&(at, _)| at);
        names.split(',').find_map(address).map(|offset| format!("gs+{offset:#x}"))
    }

    /// The addresses that a site of the command line means: a number, a function, or a place in one.
    pub(crate) fn addresses(&self, site: &str) -> Result<Vec<u64>, String> {
        let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        if let Some(address) = hex(site) {
            return Ok(vec![address]);
        }
        let (name, offset) = site.split_once('+').unwrap_or((site, "0x0"));
        let offset = hex(offset).ok_or_else(|| format!("`{site}`: an offset is 0x and digits"))?;
        let found: Vec<u64> = self
            .functions
            .iter()
            .filter(|(_, own)| own == name)
            .map(|(at, _)| at + offset)
            .collect();
        if found.is_empty() {
            return Err(format!(
                "--skip: there is no function `{name}`; an address is 0x and digits"
            ));
        }
        Ok(found)
    }
}

/// Marks of assemblers for code and data are no names.
fn is_function(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('$') && !name.starts_with(".L")
}

/// A mangled name of Rust (`_ZN4core3ptr5write17h0123456789abcdefE`) in its readable parts.
fn plain(name: &str) -> String {
    let Some(mut rest) = name.strip_prefix("_ZN") else { return name.to_owned() };
    let mut parts = Vec::new();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(length) = rest[..digits].parse::<usize>() else { break };
        let Some(part) = rest.get(digits..digits + length) else { break };
        parts.push(part);
        rest = &rest[digits + length..];
    }
    if parts.last().is_some_and(|last| last.len() == 17 && last.starts_with('h')) {
        parts.pop();
    }
    if parts.is_empty() { name.to_owned() } else { parts.join("::") }
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for value in text.bytes().filter_map(digit) {
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_name_of_the_function_before_them() {
        let symbols =
            Symbols::of_kallsyms("ffff0010 T two\nffff0000 t one\n0 t none\nffff0008 t $x\n");
        assert_eq!(symbols.name(0xffff_000c).as_deref(), Some("one+0xc"));
        assert_eq!(symbols.name(0xffff_0010).as_deref(), Some("two+0x0"));
        assert_eq!(symbols.name(0xfffe_ffff), None);
        assert_eq!(symbols.name(0x1_ffff_0010), None);
    }

    #[test]
    fn a_task_that_is_a_variable_is_found_by_its_name() {
        let symbols = Symbols::of_kallsyms("32480 D pcpu_hot\nffff0010 T two\n");
        assert_eq!(symbols.task("gs:current_task,pcpu_hot").as_deref(), Some("gs+0x32480"));
        assert_eq!(symbols.task("gs:current_task"), None);
        assert_eq!(symbols.name(0x3_2490), None);
        let kept = Symbols::of_kallsyms(&symbols.to_text());
        assert_eq!(kept.task("gs:pcpu_hot").as_deref(), Some("gs+0x32480"));
        assert_eq!(symbols.task("sp-el0").as_deref(), Some("sp-el0"));
    }

    #[test]
    fn mangled_names_are_made_readable() {
        assert_eq!(plain("_ZN4core3ptr5write17h0123456789abcdefE"), "core::ptr::write");
        assert_eq!(plain("memcpy"), "memcpy");
    }

    #[test]
    fn base64_ignores_what_is_none() {
        assert_eq!(base64("aGVs\r\nbG8=\n"), b"hello");
    }
}
