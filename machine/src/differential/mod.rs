//! Do two engines agree about what instructions do?
//!
//! Rules that stand in one place ([`lookaside_hardware`]) can still be put to use wrongly: too early, too late, on
//! the wrong CPU, or not at all. So every small program out of the operations that concern translations is run
//! twice, on engines that share the rules and nothing else, and the *sets* of final states must be equal:
//!
//! * the [adversary](crate::adversary)'s CPUs, under the explorer, as scenarios run on them;
//! * an engine of explicit states, written for this comparison (`states.rs`), on all three architectures;
//! * on Arm the [litmus engine](crate::litmus), where the operations are ones that it has, in order and out of order.
//!
//! A final state is what each CPU has read, which frame each access reached, and what memory holds.

mod explored;
mod out_of_order;
mod shape;
mod states;

use std::collections::BTreeSet;

use lookaside::arch::aarch64::TlbiOp;

pub use crate::adversary::Arch;
pub use shape::{CPUS, MOST, Operation, Place, Shape, Shapes, Space};

/// Something that the second engine does wrong, on purpose: to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A `TLBI` or a `SINVAL.VMA` waits for what stands before it.
    InvalidationsInOrder,
    /// `INVPCID` waits for the store buffer.
    InvpcidSerialises,
    /// A `DSB NSH` completes what was issued for all CPUs.
    LocalBarrierCompletesAll,
}

/// What is known of two sets that are not equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The program.
    pub shape: Shape,
    /// Which two engines.
    pub between: [&'static str; 2],
    /// Final states of the first only.
    pub first: BTreeSet<u64>,
    /// Final states of the second only.
    pub second: BTreeSet<u64>,
}

/// The engines, ready for any number of shapes of one architecture.
#[derive(Debug)]
pub struct Engines {
    arch: Arch,
    ets2: bool,
    flaw: Option<Flaw>,
    adversary: explored::Explored,
    /// On how many shapes the litmus engine was asked.
    pub litmus: u64,
    /// Of these, on how many it ends in states that only a CPU that runs out of order can end in.
    pub reordered: u64,
}

impl Engines {
    /// Those of an architecture; `ets2` is Arm's FEAT_ETS2.
    #[must_use]
    pub fn new(arch: Arch, ets2: bool) -> Self {
        let adversary = explored::Explored::new(arch, ets2);
        Self { arch, ets2, flaw: None, adversary, litmus: 0, reordered: 0 }
    }

    /// The same with something wrong in the second engine.
    #[must_use]
    pub fn with_flaw(self, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }

    /// Runs a shape on all engines that have its operations; nothing if they agree.
    ///
    /// # Errors
    ///
    /// What an engine finds wrong with the shape itself, such as an instruction that faults.
    ///
    /// # Panics
    ///
    /// If the shape is one of another architecture.
    pub fn compare(&mut self, shape: &Shape) -> Result<Option<Difference>, String> {
        assert_eq!(shape.arch, self.arch, "an engine is one of an architecture");
        let first = self.adversary.outcomes(shape)?;
        let second = states::outcomes(shape, self.ets2, self.flaw)?;
        if first != second {
            return Ok(Some(differ(shape, ["adversary", "states"], &first, &second)));
        }
        if let Some([in_order, any_order]) = out_of_order::outcomes(shape, self.ets2) {
            self.litmus += 1;
            if first != in_order {
                return Ok(Some(differ(
                    shape,
                    ["adversary", "litmus in order"],
                    &first,
                    &in_order,
                )));
            }
            if !first.is_subset(&any_order) {
                return Ok(Some(differ(shape, ["adversary", "litmus"], &first, &any_order)));
            }
            self.reordered += u64::from(first != any_order);
        }
        Ok(None)
    }
}

fn differ(
    shape: &Shape,
    between: [&'static str; 2],
    one: &BTreeSet<u64>,
    other: &BTreeSet<u64>,
) -> Difference {
    Difference { shape: *shape, between, first: one - other, second: other - one }
}

impl core::fmt::Display for Difference {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        writeln!(f, "{}", self.shape)?;
        writeln!(f, "  {} and {} differ", self.between[0], self.between[1])?;
        for (name, only) in self.between.iter().zip([&self.first, &self.second]) {
            for &ending in only {
                writeln!(f, "  {name} only: {}", in_words(ending))?;
            }
        }
        Ok(())
    }
}

/// How many bits an observation has.
const OBSERVATION: u32 = 3;
/// How many bits the observations of a CPU have.
const OBSERVATIONS: u32 = 1 + OBSERVATION * MOST as u32;

/// What a CPU has observed, after one more observation. It begins as 1.
fn seen(before: u64, value: u8) -> u64 {
    before << OBSERVATION | u64::from(value)
}

/// A final state in one word.
fn ending(seen: [u64; CPUS], memory: [u8; 4]) -> u64 {
    let memory = memory.iter().fold(0, |all, &value| all << OBSERVATION | u64::from(value));
    (memory << OBSERVATIONS | seen[1]) << OBSERVATIONS | seen[0]
}

/// A final state for people.
fn in_words(ending: u64) -> String {
    let observed = |mut seen: u64| {
        let mut all = Vec::new();
        while seen > 1 {
            all.push((seen & 7).to_string());
            seen >>= OBSERVATION;
        }
        all.reverse();
        all.join(" ")
    };
    let mask = (1 << OBSERVATIONS) - 1;
    let seen = [ending & mask, ending >> OBSERVATIONS & mask].map(observed);
    let memory = ending >> (2 * OBSERVATIONS);
    let value = |place: usize| memory >> (OBSERVATION * (3 - place as u32)) & 7;
    let memory = Place::ALL.map(|place| format!("{place:?}={}", value(place as usize)));
    format!("P0 sees [{}], P1 sees [{}], {}", seen[0], seen[1], memory.join(" "))
}

/// The operand of a `TLBI` of the address.
fn tlbi_operand(op: TlbiOp, tag: u16) -> u64 {
    let page = shape::VA >> 12;
    match op {
        TlbiOp::Vmall | TlbiOp::Vmalls12 | TlbiOp::Alle1 => 0,
        TlbiOp::Aside => u64::from(tag) << 48,
        _ => u64::from(tag) << 48 | page,
    }
}

/// `RAX` of an `INVLPGB` with these flags.
const fn invlpgb_address(flags: u64) -> u64 {
    if flags & 1 != 0 { shape::VA | flags } else { flags }
}
