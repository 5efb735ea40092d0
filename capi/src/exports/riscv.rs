//! The structs and the configuration of a RISC-V machine, real or modelled.

use lookaside::{
    Error,
    arch::{
        Root, Tag,
        riscv64::{self, Config, Extensions, Identity, Instructions, Mode, Remote, Riscv, Tables},
    },
};

use crate::error::Refused;

/// `struct lookaside_features`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Features {
    mode: u32,
    asid_bits: u32,
    extensions: u32,
    reserved: u32,
    vendor: u64,
    architecture: u64,
    implementation: u64,
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

/// `LOOKASIDE_OWN_ROOT`.
const OWN_ROOT: u32 = 0x100;
/// `LOOKASIDE_SBI_FENCES`.
const SBI_FENCES: u32 = 0x200;

/// `LOOKASIDE_SVINVAL` and so on, in the order of their bits.
const EXTENSIONS: [Extensions; 5] = [
    Extensions::SVINVAL,
    Extensions::SVNAPOT,
    Extensions::SVVPTC,
    Extensions::SVADU,
    Extensions::SVADE,
];

impl Features {
    pub(super) fn decoded(&self) -> Result<riscv64::Features, Refused> {
        let mode = Mode::from_number(u64::from(self.mode)).ok_or(Refused::Argument)?;
        if self.extensions >> EXTENSIONS.len() != 0 || self.reserved != 0 {
            return Err(Refused::Argument);
        }
        let has = |(bit, _): &(usize, Extensions)| self.extensions >> bit & 1 != 0;
        let extensions = EXTENSIONS
            .into_iter()
            .enumerate()
            .filter(has)
            .fold(Extensions::NONE, |all, (_, one)| all.union(one));
        let identity = Identity {
            vendor: self.vendor,
            architecture: self.architecture,
            implementation: self.implementation,
        };
        Ok(riscv64::Features { mode, asid_bits: self.asid_bits, extensions, identity })
    }
}

/// The hardware, of which the kernel may rely on `wanted` if all harts have it.
pub(super) fn mmu<I: Instructions>(
    instructions: I,
    boot: &Boot,
    wanted: Extensions,
    can_call_firmware: bool,
) -> Result<Riscv<I>, Refused> {
    let known = OWN_ROOT | if can_call_firmware { SBI_FENCES } else { 0 };
    if boot.flags & !known != 0 {
        return Err(Refused::Argument);
    }
    let features = boot.features.decoded()?;
    let has = |flag, yes, no| if boot.flags & flag != 0 { yes } else { no };
    let config = Config {
        mode: features.mode,
        relies_on: features.extensions.intersection(wanted),
        reserved: Root::new(boot.reserved_root),
        tables: if boot.flags & OWN_ROOT != 0 { Tables::Separate } else { Tables::One },
        remote: has(SBI_FENCES, Remote::Sbi, Remote::Interrupts),
    };
    Riscv::new(instructions, &features, config).map_err(|error: Error| error.into())
}

pub(super) const fn prefers_broadcasts(_: &Boot) -> bool {
    false
}

pub(super) fn trampoline_fences<I: Instructions>(mmu: &Riscv<I>) -> bool {
    mmu.trampoline_fences()
}

pub(super) const fn user_asid<I: Instructions>(_: &Riscv<I>, tag: Tag) -> u16 {
    tag.0
}
