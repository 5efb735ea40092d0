//! Break-before-make: pairs of translations that Arm hardware must never be able to hold together.
//!
//! The set of a CPU is what its hardware could be holding, so the rule is an invariant of the set:
//! when a walk is added, no other may be there for the same address and tag that differs from it
//! in a way that asks for a break (Arm ARM D8.16; the table in [`super`], A10). Permissions may
//! differ, and read-only pages may lead to different frames, for whose contents the machine takes
//! the kernel's word.

use super::{
    block,
    config::{Bbm, Config},
    flags,
    machine::{Machine, Phase},
    tlb::Entry,
    violation::Rule,
};

/// AttrIndx: memory type and cacheability.
const MEMORY_TYPE: u64 = 0b111 << 2;
/// SH, a change of which asks for a break as well (rule R_WHZWS).
const SHAREABILITY: u64 = 0b11 << 8;
const NOT_GLOBAL: u64 = 1 << 11;

impl Machine {
    /// A translation has been added to what `cpu`, which is of Arm, may hold.
    pub(crate) fn check_break(&mut self, cpu: usize, added: &Entry) {
        if added.is(Entry::TABLE) || self.phase == Phase::Building || !self.config.protocols {
            return;
        }
        for holder in 0..self.cpus.len() {
            if holder != cpu && !(self.config.cnp && added.is(Entry::SHARED)) {
                continue;
            }
            for index in 0..self.cpus[holder].tlb.len() {
                let other = self.cpus[holder].tlb[index];
                let reachable = holder == cpu || other.is(Entry::SHARED);
                if reachable
                    && self.meets(&other, added)
                    && let Some(why) = clash(&self.config, &other, added)
                {
                    let text = format!(
                        "CPU {cpu} can hold {} and {}, which differ in {why}",
                        self.describe_entry(&other),
                        self.describe_entry(added)
                    );
                    return self.fail(Rule::BreakBeforeMake, text);
                }
            }
        }
    }

    /// Whether two translations serve one address under one tag.
    fn meets(&self, one: &Entry, other: &Entry) -> bool {
        let global = one.is(Entry::GLOBAL) || other.is(Entry::GLOBAL);
        let level = u32::from(one.level.max(other.level));
        let prefix = |entry: &Entry| {
            entry.vpn >> ((level - u32::from(entry.level)) * self.config.index_bits)
        };
        !one.is(Entry::TABLE)
            && prefix(one) == prefix(other)
            && (global || (one.tag == other.tag && one.owner == other.owner))
    }
}

/// What two translations of one address differ in, if it asks for a break.
pub(crate) fn clash(config: &Config, one: &Entry, other: &Entry) -> Option<&'static str> {
    let arch = config.arch;
    let contiguous =
        |entry: &Entry| entry.level == 0 && block::is_contiguous(arch, entry.descriptor);
    let sizes = [one, other].map(|entry| (entry.level, contiguous(entry)));
    if sizes[0] != sizes[1] && config.bbm == Bbm::L0 {
        return Some("size");
    }
    let differ = |mask: u64| (one.descriptor ^ other.descriptor) & mask != 0;
    if differ(MEMORY_TYPE) {
        return Some("memory type");
    }
    if differ(SHAREABILITY) {
        return Some("shareability");
    }
    if differ(NOT_GLOBAL) {
        return Some("whether they are global");
    }
    let writable = |entry: &Entry| flags::writable(arch, entry.descriptor);
    // The common page is the smaller one's.
    let level = one.level.min(other.level);
    let page = if one.level == level { one.vpn } else { other.vpn };
    let frame = |entry: &Entry| {
        let span = (u32::from(entry.level) - u32::from(level)) * config.index_bits;
        let low = u32::from(level) * config.index_bits;
        (entry.target(arch).0 >> low) + (page & ((1 << span) - 1))
    };
    (frame(one) != frame(other) && (writable(one) || writable(other))).then_some("output")
}
