//! Invalidations that reach this CPU only, which the hunters must notice, or that do nothing, under one tag for all
//! spaces, which the conformance tests must notice. For tests of the tests.

use lookaside::arch::aarch64::{Dsb, Instructions, Native, Scope, Tlbi};

/// Where `TTBR0_EL1` has its ASID.
const ASID_SHIFT: u32 = 48;

/// The instructions of this CPU, without the remote part of any.
pub(crate) struct Alone(Native);

impl Alone {
    /// # Safety
    ///
    /// As for [`Native::new`], and nobody trusts this kernel.
    pub(super) unsafe fn new() -> Self {
        // SAFETY: the caller has promised it.
        Self(unsafe { Native::new() })
    }
}

impl Instructions for Alone {
    fn tlbi(&self, op: Tlbi) {
        if !cfg!(feature = "one-tag") {
            self.0.tlbi(Tlbi { scope: Scope::Local, ..op });
        }
    }

    fn dsb(&self, kind: Dsb) {
        self.0.dsb(kind);
    }

    fn isb(&self) {
        self.0.isb();
    }

    fn write_ttbr0(&self, value: u64) {
        let tag = if cfg!(feature = "one-tag") { 1 } else { value >> ASID_SHIFT };
        self.0.write_ttbr0(value & ((1 << ASID_SHIFT) - 1) | tag << ASID_SHIFT);
    }

    fn read_ttbr1(&self) -> u64 {
        self.0.read_ttbr1()
    }

    fn write_ttbr1(&self, value: u64) {
        self.0.write_ttbr1(value);
    }

    fn tcr_at_boot(&self) -> Option<u64> {
        self.0.tcr_at_boot()
    }

    fn ic_iallu(&self) {
        self.0.ic_iallu();
    }
}
