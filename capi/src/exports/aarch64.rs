//! The hardware of AArch64.

use core::arch::asm;

use lookaside::arch::{
    Sharing, Tag,
    aarch64::{self, Aarch64, AsidIn, Bbm, Config, IdRegisters, Native, Pairing},
};

use crate::error::Refused;

/// `LOOKASIDE_ARCH_AARCH64`.
pub(super) const ARCH: u32 = 2;

/// `struct lookaside_features`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Features {
    midr: u64,
    mmfr0: u64,
    mmfr1: u64,
    mmfr2: u64,
    mmfr3: u64,
    isar0: u64,
}

/// `struct lookaside_boot`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Boot {
    pub(super) cpus: u32,
    pub(super) tags: u32,
    pub(super) pins: u32,
    flags: u32,
    features: Features,
    reserved_root: u64,
    tcr: u64,
    kernel_root: u64,
    user_kernel_root: u64,
}

/// `LOOKASIDE_SHARED_TLBS`.
const SHARED_TLBS: u32 = 1;
/// `LOOKASIDE_ASID_PAIRS`.
const ASID_PAIRS: u32 = 2;
/// `LOOKASIDE_ASID_IN_TTBR1`.
const ASID_IN_TTBR1: u32 = 4;
/// `LOOKASIDE_BROADCASTS`.
const BROADCASTS: u32 = 8;

/// The hardware.
pub(super) type Mmu = Aarch64<Native>;

impl Features {
    #[expect(clippy::unnecessary_wraps, reason = "on other architectures it may be refused")]
    pub(super) fn decoded(&self) -> Result<aarch64::Features, Refused> {
        let decoded = aarch64::Features::decode(IdRegisters {
            midr: self.midr,
            mmfr0: self.mmfr0,
            mmfr1: self.mmfr1,
            mmfr2: self.mmfr2,
            mmfr3: self.mmfr3,
            isar0: self.isar0,
        });
        // C has no calls that change the sizes of blocks: no CPU is refused for what it lacks there.
        Ok(aarch64::Features { bbm: Bbm::Level0, ..decoded })
    }
}

pub(super) fn mmu(boot: &Boot) -> Result<Mmu, Refused> {
    if boot.flags & !(SHARED_TLBS | ASID_PAIRS | ASID_IN_TTBR1 | BROADCASTS) != 0 {
        return Err(Refused::Argument);
    }
    let has = |flag| boot.flags & flag != 0;
    let table = boot.kernel_root;
    let user_table = if boot.user_kernel_root == 0 { table } else { boot.user_kernel_root };
    let config = Config {
        features: boot.features.decoded()?,
        tcr: boot.tcr,
        reserved_root: boot.reserved_root,
        sharing: if has(SHARED_TLBS) { Sharing::Shared } else { Sharing::Private },
        pairing: if has(ASID_PAIRS) { Pairing::Paired } else { Pairing::Single },
        asid_in: if has(ASID_IN_TTBR1) {
            AsidIn::Ttbr1 { table, user_table }
        } else {
            AsidIn::Ttbr0
        },
    };
    // SAFETY: the kernel promises it, in the header: what it says of roots and of features is true, and nobody else
    // writes the root registers but as it says.
    Ok(Aarch64::new(unsafe { Native::new() }, config)?)
}

pub(super) const fn prefers_broadcasts(boot: &Boot) -> bool {
    boot.flags & BROADCASTS != 0
}

/// `PSTATE.I` in `DAIF`.
const MASKED: u64 = 1 << 7;

/// Whether this CPU certainly takes no IRQ; handlers of FIQ follow the header's rule for NMIs. A kernel that masks by priority has
/// to be asked.
#[inline]
pub(super) fn are_masked() -> bool {
    let daif: u64;
    // SAFETY: EL1 may read the register, and reading it changes nothing.
    unsafe { asm!("mrs {}, daif", out(reg) daif, options(nomem, nostack, preserves_flags)) };
    daif & MASKED != 0
}

pub(super) const fn trampoline_fences(_: &Mmu) -> bool {
    false
}

pub(super) const fn user_asid(mmu: &Mmu, tag: Tag) -> u16 {
    mmu.user_asid(tag)
}
