//! Instructions by function of the kernel: what one of the two executes more than the other, for each operation.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use super::table::Counted;
use crate::failure::{Failure, Result};

/// What differs by less, for each operation, is not printed.
const LEAST: f64 = 2.0;

/// The functions of a kernel by their addresses: `System.map`.
pub(super) struct Symbols(BTreeMap<u64, String>);

impl Symbols {
    pub(super) fn new(map: &str) -> Self {
        let symbols = map.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            // Of one address the first that is named; marks of sections and of the assembler are no functions.
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?;
            (is_code && !name.starts_with('$')).then(|| (address, plain(name)))
        });
        let mut all = BTreeMap::new();
        for (address, name) in symbols {
            all.entry(address).or_insert(name);
        }
        Self(all)
    }

    /// Kernels are in the upper half.
    fn function(&self, address: u64) -> &str {
        match self.0.range(..=address).next_back() {
            Some((_, name)) if address >> 63 == 1 => name,
            _ => "(user mode)",
        }
    }
}

/// The last part of a mangled name of Rust, or the name.
fn plain(name: &str) -> String {
    let Some(mut rest) = name.strip_prefix("_ZN") else { return name.to_owned() };
    let mut parts = Vec::new();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, more) = rest.split_at(digits);
        let Some((part, more)) = number.parse().ok().and_then(|end| more.split_at_checked(end))
        else {
            break;
        };
        parts.push(part);
        rest = more;
    }
    // The very last is a hash.
    match parts.as_slice() {
        [.., name, _] => format!("{name} (Rust)"),
        _ => name.to_owned(),
    }
}

/// Instructions of one kernel by function, for each operation.
pub(super) fn by_function(symbols: &Symbols, blocks: &str) -> Result<Vec<BTreeMap<String, u64>>> {
    let mut all = Vec::new();
    let mut one = BTreeMap::new();
    for line in blocks.lines() {
        if line == "end" {
            all.push(core::mem::take(&mut one));
            continue;
        }
        let block = line.split_once(' ').and_then(|(address, count)| {
            Some((u64::from_str_radix(address, 16).ok()?, count.parse::<u64>().ok()?))
        });
        let (address, count) =
            block.ok_or_else(|| Failure::new(format!("`{line}` is no block")))?;
        *one.entry(symbols.function(address).to_owned()).or_default() += count;
    }
    Ok(all)
}

/// For each operation the functions that the two kernels do not execute alike, those first of which the second executes most more.
pub(super) fn differences(works: &[Counted], kernels: &[Vec<BTreeMap<String, u64>>; 2]) -> String {
    let mut text = String::new();
    let [stock, ours] = kernels;
    for ((work, stock), ours) in works.iter().zip(stock).zip(ours) {
        let each = |counts: &BTreeMap<String, u64>, name: &str| {
            counts.get(name).copied().unwrap_or(0) as f64 / work.times.max(1) as f64
        };
        let mut rows: Vec<_> = stock
            .keys()
            .chain(ours.keys().filter(|name| !stock.contains_key(*name)))
            .map(|name| (each(ours, name) - each(stock, name), name))
            .filter(|(more, _)| more.abs() >= LEAST)
            .collect();
        rows.sort_by(|one, other| other.0.total_cmp(&one.0));
        let _ = writeln!(
            text,
            "\n{}: instructions each by function, on the library, and on stock",
            work.work
        );
        for (more, name) in rows {
            let (ours, stock) = (each(ours, name), each(stock, name));
            let _ = writeln!(text, "{more:+10.1} {ours:10.1} {stock:10.1}  {name}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::table;

    const MAP: &str = "ffff000000000000 T first\nffff000000000010 t $x\nffff000000000020 t \
                       _ZN9lookaside5flush12await_oldest17hc6238c5ded5a6612E\nffff000000000080 D data\n";

    #[test]
    fn blocks_are_of_the_function_before_them() {
        let symbols = Symbols::new(MAP);
        let seen = by_function(
            &symbols,
            "ffff000000000014 30\nffff000000000000 6\nffff000000000020 5\n400000 9\nend\nend\n",
        )
        .unwrap();
        let one: Vec<_> = seen[0].iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(one, [("(user mode)", 9), ("await_oldest (Rust)", 5), ("first", 36)]);
        assert!(seen[1].is_empty());
        assert!(by_function(&symbols, "x 1\n").is_err());
    }

    #[test]
    fn what_differs_most_stands_first() {
        let counted = table::counted(
            &["COUNT 10 0 pipe".to_owned()],
            "instructions 100 local 0 broadcast 0 dsb 0 isb 0 root0 0 root1 0 traps 0\n",
        )
        .unwrap();
        let counts = |list: &[(&str, u64)]| {
            vec![list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()]
        };
        let text = differences(
            &counted,
            &[
                counts(&[("a", 500), ("b", 500), ("c", 10)]),
                counts(&[("a", 100), ("b", 503), ("d", 30)]),
            ],
        );
        let names: Vec<_> =
            text.lines().skip(2).filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(names, ["d", "a"], "{text}");
    }
}
