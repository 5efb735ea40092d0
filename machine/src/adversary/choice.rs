//! The transitions that are possible next, and the trait that chooses among them.

use super::machine::Machine;

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A CPU executes its next operation.
    Step(usize),
    /// A CPU takes an interrupt.
    Interrupt(usize),
    /// A CPU takes an NMI.
    Nmi(usize),
    /// A buffered store reaches memory: the CPU and the index in its buffer.
    Drain(usize, usize),
    /// Hardware sets the accessed bit of a descriptor, unasked.
    Update(usize),
    /// Hardware does nothing more, though it could, and no CPU can go on.
    Rest,
    /// One of the values that an access may have.
    Value(usize),
}

/// A moment at which more than one thing can happen.
pub(crate) struct Point<'a> {
    /// What can happen. The first is what happens by default.
    pub(crate) choices: &'a [Choice],
    /// Whether the first is that the CPU that executed the last step goes on.
    pub(crate) goes_on: bool,
    pub(crate) machine: &'a Machine,
}

/// What decides.
pub(crate) trait Chooser {
    /// The index of the choice, or nothing to abandon the execution.
    fn choose(&mut self, point: &Point<'_>) -> Option<usize>;
}
