//! The condition of a test, and what of a final state it asks for.

use std::collections::{BTreeMap, BTreeSet};

use lookaside_machine::litmus::{FaultKind, Final, Named, named};

use super::{
    names::{Names, Place, identifier, thread},
    read::Labels,
    text::{Trouble, Words},
};

/// A fault that a condition names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultAtom {
    /// The thread.
    pub thread: usize,
    /// The label of the instruction; any, if there is none.
    pub label: Option<String>,
    /// What was accessed; anything, if there is none.
    pub on: Option<Place>,
    /// Why; for any reason, if there is none.
    pub kind: Option<FaultKind>,
}

/// A proposition on a final state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposition {
    /// Always holds.
    True,
    /// A place has a value.
    Equal(Place, u64),
    /// A fault was taken.
    Fault(FaultAtom),
    /// Negation.
    Not(Box<Proposition>),
    /// Conjunction.
    And(Box<Proposition>, Box<Proposition>),
    /// Disjunction.
    Or(Box<Proposition>, Box<Proposition>),
}

/// A fault that was taken, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taken {
    /// The thread.
    pub thread: usize,
    /// The label of the instruction, if it has one.
    pub label: Option<String>,
    /// What was accessed.
    pub on: Option<Place>,
    /// Why.
    pub kind: Option<FaultKind>,
}

/// What a test shows of a final state.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Observation {
    /// The values.
    pub values: BTreeMap<Place, u64>,
    /// The faults.
    pub faults: BTreeSet<Taken>,
}

/// What a condition asks about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The places.
    pub places: BTreeSet<Place>,
    /// The faults.
    pub faults: BTreeSet<FaultAtom>,
}

impl Observed {
    pub(super) fn add(&mut self, proposition: &Proposition) {
        match proposition {
            Proposition::True => {}
            Proposition::Equal(place, _) => {
                self.places.insert(*place);
            }
            Proposition::Fault(atom) => {
                self.faults.insert(atom.clone());
            }
            Proposition::Not(of) => self.add(of),
            Proposition::And(one, other) | Proposition::Or(one, other) => {
                self.add(one);
                self.add(other);
            }
        }
    }

    /// What is shown of a final state.
    pub(super) fn of(&self, found: &Final, labels: &Labels) -> Observation {
        let variables = found.contents.len();
        let value = |place: &Place| match *place {
            Place::Register(thread, register) => {
                found.registers.get(thread).map_or(0, |of| of[usize::from(register.0)])
            }
            Place::Contents(of) => found.contents[of],
            Place::Descriptor(of) => found.descriptors[of],
        };
        let taken = found.faults.iter().map(|fault| Taken {
            thread: fault.thread,
            label: labels.name(fault.thread, fault.instruction).map(str::to_owned),
            on: match named(fault.address, variables) {
                Some(Named::Page(of)) => Some(Place::Contents(of)),
                Some(Named::Descriptor(of)) => Some(Place::Descriptor(of)),
                None => None,
            },
            kind: Some(fault.kind),
        });
        Observation {
            values: self.places.iter().map(|place| (*place, value(place))).collect(),
            faults: taken
                .filter(|taken| {
                    self.faults.iter().any(|atom| {
                        atom.is(taken) && (atom.kind.is_none() || atom.kind == taken.kind)
                    })
                })
                .collect(),
        }
    }
}

impl FaultAtom {
    /// Whether it names a fault; of those, the kind apart.
    fn is(&self, taken: &Taken) -> bool {
        self.thread == taken.thread
            && (self.label.is_none() || self.label == taken.label)
            && (self.on.is_none() || self.on == taken.on)
    }

    /// `fault(P0:L0,x,MMU:Translation)`, after its first word.
    pub(super) fn read(words: &mut Words<'_>, names: &mut Names) -> Result<Self, Trouble> {
        let taken = Taken::read(words, names)?;
        Ok(Self { thread: taken.thread, label: taken.label, on: taken.on, kind: taken.kind })
    }
}

impl Taken {
    /// `Fault(P0:L0,x,D-MMU:Translation,EL0)`, after its first word.
    pub(super) fn read(words: &mut Words<'_>, names: &mut Names) -> Result<Self, Trouble> {
        words.expect("(")?;
        let mut taken = Self { thread: thread(words)?, label: None, on: None, kind: None };
        if words.accept(":") {
            taken.label = Some(identifier(words)?.to_owned());
        }
        while words.accept(",") {
            match words.peek() {
                Some("MMU" | "D-MMU") => {
                    words.next();
                    words.expect(":")?;
                    let kind = words.word("a kind of fault")?;
                    taken.kind = Some(match kind {
                        "Translation" => FaultKind::Translation,
                        "AccessFlag" => FaultKind::AccessFlag,
                        "Permission" => FaultKind::Permission,
                        _ => return words.fail(format!("`{kind}` is no kind of fault")),
                    });
                }
                Some("EL0" | "EL1") => {
                    words.next();
                }
                _ => taken.on = Some(names.place(words)?),
            }
        }
        words.expect(")")?;
        Ok(taken)
    }
}

impl Proposition {
    /// Reads one.
    pub(super) fn read(words: &mut Words<'_>, names: &mut Names) -> Result<Self, Trouble> {
        Self::either(words, names, 0)
    }

    fn either(words: &mut Words<'_>, names: &mut Names, depth: u32) -> Result<Self, Trouble> {
        let mut left = Self::both(words, names, depth)?;
        while words.accept("\\/") {
            left = Self::Or(left.into(), Self::both(words, names, depth)?.into());
        }
        Ok(left)
    }

    fn both(words: &mut Words<'_>, names: &mut Names, depth: u32) -> Result<Self, Trouble> {
        let mut left = Self::one(words, names, depth)?;
        while words.accept("/\\") {
            left = Self::And(left.into(), Self::one(words, names, depth)?.into());
        }
        Ok(left)
    }

    fn one(words: &mut Words<'_>, names: &mut Names, depth: u32) -> Result<Self, Trouble> {
        if depth > 64 {
            return words.fail("a condition nested too deeply");
        }
        if words.accept("~") || words.accept("not") {
            return Ok(Self::Not(Self::one(words, names, depth + 1)?.into()));
        }
        if words.accept("(") {
            let inner = Self::either(words, names, depth + 1)?;
            words.expect(")")?;
            return Ok(inner);
        }
        if words.accept("fault") {
            return Ok(Self::Fault(FaultAtom::read(words, names)?));
        }
        if words.accept("true") {
            return Ok(Self::True);
        }
        let place = names.place(words)?;
        words.expect("=")?;
        let own = match place {
            Place::Descriptor(of) => Some(of),
            _ => None,
        };
        Ok(Self::Equal(place, names.value(words, own)?))
    }

    /// Whether it holds.
    #[must_use]
    pub fn holds(&self, in_state: &Observation) -> bool {
        match self {
            Self::True => true,
            Self::Equal(place, value) => in_state.values.get(place) == Some(value),
            Self::Fault(atom) => in_state
                .faults
                .iter()
                .any(|taken| atom.is(taken) && (atom.kind.is_none() || atom.kind == taken.kind)),
            Self::Not(of) => !of.holds(in_state),
            Self::And(one, other) => one.holds(in_state) && other.holds(in_state),
            Self::Or(one, other) => one.holds(in_state) || other.holds(in_state),
        }
    }
}
