//! Ways in which hardware can break its architecture, one for each deviation that changes what the library
//! executes or takes a feature away from it.
//!
//! By default there are none. A scenario that has one runs the library on CPUs whose identity the table
//! `lookaside::arch::errata` knows: then nothing may go wrong, and without the row it must.

/// A set of deviations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviations(u32);

impl Deviations {
    /// None.
    pub const NONE: Self = Self(0);
    /// Arm: a broadcast `TLBI; DSB` removes entries, and does not wait for what other CPUs have translated by
    /// them. The next such pair of the same CPU, for any operand, waits for that.
    pub const LATE_ACCESSES: Self = Self(1 << 0);
    /// Arm: while a write of `TTBR0` that changes table and ASID may or may not be in effect, walks may take
    /// the one from the old value and the other from the new. Not with ASID 0, under which no program runs: what
    /// is cached under it between the two is an offence only if it stays, which host tests ask about.
    pub const MIXED_ROOTS: Self = Self(1 << 1);
    /// Arm: a `TLBI` that is broadcast corrupts what instruction caches hold of the ASIDs that their CPUs do
    /// not run at that moment. `IC IALLU` removes it. A program that runs it is a violation.
    pub const CORRUPT_CODE: Self = Self(1 << 2);
    /// Arm: an access to memory between a write of `TTBR0` or `TTBR1` and the context synchronisation after
    /// it is a violation.
    pub const SPURIOUS_ABORTS: Self = Self(1 << 3);
    /// Arm: a store need not leave a trace in the descriptor that it goes through: when hardware comes to set
    /// the dirty state, the descriptor may have been changed.
    pub const LOST_DIRTY: Self = Self(1 << 4);
    /// Arm with [`Bbm::L2Abort`](super::Bbm::L2Abort): that an access takes a conflict abort is a violation. No
    /// kernel here has a handler for one.
    pub const CONFLICT_ABORTS: Self = Self(1 << 8);
    /// x86: `INVLPG` leaves global entries while `CR4.PCIDE` is set.
    pub const INVLPG_SPARES_GLOBALS: Self = Self(1 << 5);
    /// x86: `INVLPGB` and `TLBSYNC` are undefined instructions. That one is executed is a violation.
    pub const UNDEFINED_INVLPGB: Self = Self(1 << 6);
    /// RISC-V: `SFENCE.VMA` with an address or an ASID removes nothing, also where the firmware executes it.
    pub const FENCE_WITHOUT_OPERANDS: Self = Self(1 << 7);

    /// Whether all of `deviations` are in the set.
    #[must_use]
    pub const fn contains(self, deviations: Self) -> bool {
        self.0 & deviations.0 == deviations.0
    }

    /// The deviations of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
