//! The instructions, as a trait that hardware and a machine in software both implement.

use crate::arch::Scope;

/// The instructions that the library uses on Arm64, one method each.
///
/// `Native` executes them, on the word of its maker; a machine in software implements the
/// same trait.
pub trait Instructions {
    /// `TLBI`.
    #[track_caller]
    fn tlbi(&self, op: Tlbi);
    /// `DSB`.
    #[track_caller]
    fn dsb(&self, kind: Dsb);
    /// `ISB`.
    #[track_caller]
    fn isb(&self);
    /// `MSR TTBR0_EL1` (for stage 2: `MSR VTTBR_EL2`).
    #[track_caller]
    fn write_ttbr0(&self, value: u64);
    /// `MSR TTBR0_EL1; ISB` (for stage 2: `MSR VTTBR_EL2; ISB`), with no access to memory in between.
    ///
    /// An access there may take a spurious abort on Cavium ThunderX2 (erratum 219, see
    /// [`errata`](crate::arch::errata)). Instructions that are executed keep both in one piece of
    /// assembly; a machine in software may leave it at what is given here.
    #[track_caller]
    #[inline]
    fn set_ttbr0(&self, value: u64) {
        self.write_ttbr0(value);
        self.isb();
    }
    /// `MRS TTBR1_EL1`.
    #[track_caller]
    fn read_ttbr1(&self) -> u64;
    /// `MSR TTBR1_EL1`.
    #[track_caller]
    fn write_ttbr1(&self, value: u64);
    /// `MSR TTBR1_EL1; ISB`, as [`Self::set_ttbr0`].
    #[track_caller]
    #[inline]
    fn set_ttbr1(&self, value: u64) {
        self.write_ttbr1(value);
        self.isb();
    }
    /// `MRS TCR_EL1` of a CPU that comes up, to be compared with the configuration; `None` where there is nothing to
    /// compare, as on a machine in software. A type that wraps another passes it on.
    #[track_caller]
    fn tcr_at_boot(&self) -> Option<u64> {
        None
    }
    /// `IC IALLU`.
    #[track_caller]
    fn ic_iallu(&self);
}

/// A `TLBI` instruction: what it names, how far it reaches, and its operand (0 where there is none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tlbi {
    /// What is invalidated.
    pub op: TlbiOp,
    /// On which CPUs.
    pub scope: Scope,
    /// The register operand; 0 for the forms that take none.
    pub operand: u64,
}

/// What a `TLBI` names. The suffix `E1` of the mnemonics is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlbiOp {
    /// `VMALLE1`: everything of stage 1.
    Vmall,
    /// `ASIDE1`: everything of one ASID.
    Aside,
    /// `VAE1`: one address of one ASID, all levels.
    Va,
    /// `VAAE1`: one address of all ASIDs, all levels.
    Vaa,
    /// `VALE1`: one address of one ASID, last level only.
    Val,
    /// `VAALE1`: one address of all ASIDs, last level only.
    Vaal,
    /// `RVAE1`: a range of one ASID, all levels.
    Rva,
    /// `RVAAE1`: a range of all ASIDs, all levels.
    Rvaa,
    /// `RVALE1`: a range of one ASID, last level only.
    Rval,
    /// `RVAALE1`: a range of all ASIDs, last level only.
    Rvaal,
    /// `VMALLS12E1`: everything of the current VMID, both stages.
    Vmalls12,
    /// `ALLE1`: everything of every VMID, both stages.
    Alle1,
}

/// The kinds of `DSB` that the library uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dsb {
    /// `NSH`: all accesses, this CPU.
    Nsh,
    /// `NSHST`: stores, this CPU.
    Nshst,
    /// `ISH`: all accesses, inner-shareable domain.
    Ish,
    /// `ISHLD`: loads, inner-shareable domain.
    Ishld,
    /// `ISHST`: stores, inner-shareable domain.
    Ishst,
}
