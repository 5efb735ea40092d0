//! Names of the kernel's functions, by address.

use std::fs;

use crate::{Purpose, functions};

/// How far behind its beginning a function is entered where the kernel lists entries alone.
const ENTRY: u64 = 16;

/// Functions by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symbols {
    /// Addresses and names, by address.
    functions: Vec<(u64, String)>,
    /// How far behind an address that is looked for its name may be listed.
    slack: u64,
}

impl Symbols {
    /// Those of the running kernel. Where it hides addresses in `/proc/kallsyms`, the list of functions
    /// of tracefs has most of them; `entries` is that list's text. Empty if both say nothing.
    pub(crate) fn of_kernel(entries: impl FnOnce() -> Option<String>) -> Self {
        let listed = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let symbols = Self::parse(&listed);
        if symbols.is_empty() {
            Self::parse_entries(&entries().unwrap_or_default())
        } else {
            symbols
        }
    }

    /// Reads the text of `/proc/kallsyms`: address, type, name. Hidden addresses are zeros.
    pub(crate) fn parse(text: &str) -> Self {
        Self::from_lines(text, 0, |words| {
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            matches!(kind, "t" | "T" | "w" | "W").then_some((address, name))
        })
    }

    /// Reads the text of `available_filter_functions_addrs`: address, name.
    pub(crate) fn parse_entries(text: &str) -> Self {
        Self::from_lines(text, ENTRY, |words| Some((words.next()?, words.next()?)))
    }

    fn from_lines<'t>(
        text: &'t str,
        slack: u64,
        read: impl Fn(&mut dyn Iterator<Item = &'t str>) -> Option<(&'t str, &'t str)>,
    ) -> Self {
        let mut functions: Vec<_> = text
            .lines()
            .filter_map(|line| read(&mut line.split_whitespace()))
            .filter(|(_, name)| !name.starts_with("__pfx_"))
            .filter_map(|(address, name)| Some((u64::from_str_radix(address, 16).ok()?, name)))
            .filter(|&(address, _)| address != 0)
            .map(|(address, name)| (address, name.to_owned()))
            .collect();
        functions.sort();
        Self { functions, slack }
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function that begins at this address.
    pub(crate) fn function(&self, address: u64) -> Option<&str> {
        let place = self.functions.partition_point(|&(start, _)| start < address);
        let (start, name) = self.functions.get(place)?;
        (start - address <= self.slack).then_some(name)
    }

    /// The function that this address is in.
    pub(crate) fn around(&self, address: u64) -> Option<&str> {
        let place = self.functions.partition_point(|&(start, _)| start <= address);
        self.functions.get(place.checked_sub(1)?).map(|(_, name)| name.as_str())
    }

    /// Whether the function at this address flushes a TLB.
    pub(crate) fn flushes(&self, address: u64) -> bool {
        self.function(address).is_some_and(|name| functions::flushes(name.as_bytes()))
    }

    /// The addresses of all functions that flush a TLB; none where only addresses close to them are known.
    pub(crate) fn flushers(&self) -> Vec<u64> {
        let flushers =
            self.functions.iter().filter(|(_, name)| functions::flushes(name.as_bytes()));
        flushers.filter(|_| self.slack == 0).map(|&(address, _)| address).collect()
    }

    /// What an interrupt is for that was sent from `site`, to make the target call `callback`.
    pub(crate) fn purpose(&self, site: u64, callback: u64) -> Purpose {
        match (callback, self.around(site)) {
            (0, _) => Purpose::Reschedule,
            (_, Some(site)) => functions::purpose(site.as_bytes()),
            (_, None) => Purpose::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\
ffffffff81000100 T on_each_cpu_cond_mask
ffffffff81000190 t __pfx_flush_tlb_func
ffffffff810001a0 t flush_tlb_func.constprop.0
ffffffff81000200 T generic_smp_call_function_single_interrupt
ffffffff81000300 t ttwu_queue_wakelist
ffffffff81000400 T irq_work_run
ffffffff81000500 D some_data
";

    #[test]
    fn functions_are_found_by_their_first_address_and_by_one_inside() {
        let symbols = Symbols::parse(LISTED);
        assert!(symbols.flushes(0xffff_ffff_8100_01a0));
        assert!(!symbols.flushes(0xffff_ffff_8100_01a1));
        assert!(!symbols.flushes(0xffff_ffff_8100_0200));
        assert_eq!(symbols.around(0xffff_ffff_8100_0120), Some("on_each_cpu_cond_mask"));
        assert_eq!(
            symbols.around(0xffff_ffff_8100_0500),
            Some("irq_work_run"),
            "data is no function"
        );
        assert_eq!(symbols.around(1), None);
        assert_eq!(symbols.flushers(), [0xffff_ffff_8100_01a0]);
    }

    #[test]
    fn the_purpose_of_an_interrupt_follows_from_its_sender() {
        let symbols = Symbols::parse(LISTED);
        let base = 0xffff_ffff_8100_0000;
        assert_eq!(symbols.purpose(base + 0x120, 0), Purpose::Reschedule);
        assert_eq!(symbols.purpose(base + 0x120, base + 0x200), Purpose::Functions);
        assert_eq!(symbols.purpose(base + 0x320, base + 0x200), Purpose::WakeUp);
        assert_eq!(symbols.purpose(base + 0x420, base + 0x200), Purpose::Other);
    }

    #[test]
    fn hidden_addresses_are_none_and_entries_of_functions_stand_in() {
        assert!(Symbols::parse("0000000000000000 t flush_tlb_func\n").is_empty());
        let symbols = Symbols::parse_entries("ffffffff810001a4 flush_tlb_func\n");
        assert!(symbols.flushes(0xffff_ffff_8100_01a0));
        assert!(!symbols.flushes(0xffff_ffff_8100_0180));
        assert!(symbols.flushers().is_empty(), "the address is that of a later instruction");
    }
}
