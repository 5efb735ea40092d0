//! Violations of the rules.

use core::fmt;

/// The rule that an execution broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A translation was usable after its revocation had been reported as complete.
    StaleTranslation,
    /// One tag named two spaces on a CPU that could hold entries of either.
    TagNamesTwoSpaces,
    /// A frame or a table was usable after it had been given back.
    FreedFrame,
    /// An accessed or dirty bit that hardware had set was lost, or could not be set any more.
    LostFlag,
    /// Two translations of one address could be cached together that Arm forbids together.
    BreakBeforeMake,
    /// An identity that proves freshness was given out twice.
    Identity,
    /// A word that belongs to one CPU was touched by another.
    PrivateWord,
    /// An instruction raised a fault that no code expects, as `#GP` of x86.
    ProtectionFault,
    /// A scenario's own assertion.
    Assertion,
    /// A program panicked.
    Panic,
    /// No CPU can go on and not all have ended.
    NoProgress,
    /// An execution had more steps than the machine's configuration allows.
    TooManySteps,
    /// What a [deviation](super::Deviations) of the hardware forbids was done.
    Erratum,
    /// A program used the machine in a way that is not supported.
    Misuse,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StaleTranslation => "no stale use",
            Self::TagNamesTwoSpaces => "no tag names two spaces",
            Self::FreedFrame => "frames need proof",
            Self::LostFlag => "accessed and dirty bits survive",
            Self::BreakBeforeMake => "break before make",
            Self::Identity => "identities are never reused",
            Self::PrivateWord => "a private word is one CPU's",
            Self::ProtectionFault => "no instruction faults",
            Self::Assertion => "the scenario's assertion",
            Self::Panic => "programs do not panic",
            Self::NoProgress => "progress",
            Self::TooManySteps => "an execution ends",
            Self::Erratum => "errata are worked around",
            Self::Misuse => "the machine is used as it is",
        })
    }
}

/// The rule that one execution broke, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What happened.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.message)
    }
}
