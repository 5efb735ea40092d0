//! The hardware of x86-64.

use core::arch::asm;

use lookaside::arch::{
    Tag,
    x86_64::{self, Config, Levels, Native, Tables, Use, UserFlush, X86},
};

use crate::error::Refused;

/// `LOOKASIDE_ARCH_X86_64`.
pub(super) const ARCH: u32 = 4;

/// `struct lookaside_features`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Features {
    microcode: u64,
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
}

/// `LOOKASIDE_NO_PCID`.
const NO_PCID: u32 = 0x1_0000;
/// `LOOKASIDE_USER_TABLES`.
const USER_TABLES: u32 = 0x2_0000;
/// `LOOKASIDE_FLUSH_AT_EXIT`.
const FLUSH_AT_EXIT: u32 = 0x4_0000;
/// `LOOKASIDE_FIVE_LEVELS`.
const FIVE_LEVELS: u32 = 0x8_0000;
/// `LOOKASIDE_GLOBAL_KERNEL`.
const GLOBAL_KERNEL: u32 = 0x10_0000;
/// `LOOKASIDE_NO_INVLPGB`.
const NO_INVLPGB: u32 = 0x20_0000;

/// The hardware.
pub(super) type Mmu = X86<Native>;

impl Features {
    pub(super) fn decoded(&self) -> Result<x86_64::Features, Refused> {
        let microcode = match u32::try_from(self.microcode) {
            Ok(0) => None,
            Ok(revision) => Some(revision),
            Err(_) => return Err(Refused::Argument),
        };
        Ok(x86_64::Features { microcode, ..x86_64::Features::read() })
    }
}

pub(super) fn mmu(boot: &Boot) -> Result<Mmu, Refused> {
    let known = NO_PCID | USER_TABLES | FLUSH_AT_EXIT | FIVE_LEVELS | GLOBAL_KERNEL | NO_INVLPGB;
    let has = |flag| boot.flags & flag != 0;
    if boot.flags & !known != 0 || has(FLUSH_AT_EXIT) && !has(USER_TABLES) {
        return Err(Refused::Argument);
    }
    let flush = if has(FLUSH_AT_EXIT) { UserFlush::AtExit } else { UserFlush::OnLoad };
    let config = Config {
        pcids: if has(NO_PCID) { Use::Never } else { Use::WherePresent },
        invlpgb: if has(NO_INVLPGB) { Use::Never } else { Use::WherePresent },
        tables: if has(USER_TABLES) { Tables::Separate(flush) } else { Tables::One },
        levels: if has(FIVE_LEVELS) { Levels::Five } else { Levels::Four },
        reserved_root: boot.reserved_root,
    };
    // SAFETY: the kernel promises it, in the header: what it says of roots is true, it runs in ring 0, and nobody else
    // writes `CR3` but as it says, nor `CR4.PCIDE`.
    let mmu = X86::new(unsafe { Native::new() }, &boot.features.decoded()?, config)?;
    Ok(if has(GLOBAL_KERNEL) { mmu.with_global_kernel() } else { mmu })
}

pub(super) const fn prefers_broadcasts(_: &Boot) -> bool {
    false
}

pub(super) const fn trampoline_fences(_: &Mmu) -> bool {
    false
}

pub(super) const fn user_asid(_: &Mmu, tag: Tag) -> u16 {
    tag.0
}

/// `RFLAGS.IF`.
const INTERRUPTS: u64 = 1 << 9;

/// Whether this CPU certainly takes no interrupt. Under a hypervisor for which the flag means nothing, the kernel has to be asked.
#[inline]
pub(super) fn are_masked() -> bool {
    let flags: u64;
    // SAFETY: the flags are read, by way of the stack, and nothing is changed.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags & INTERRUPTS == 0
}
