//! What CPUID says about one CPU, as far as translation is concerned.
//!
//! Sources: SDM vol. 2, CPUID; APM vol. 3, appendix E.

use super::invlpgb::PageLimit;
use crate::arch::errata::{self, Feature};

/// Who made a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// `GenuineIntel`.
    Intel,
    /// `AuthenticAMD`.
    Amd,
    /// `HygonGenuine`.
    Hygon,
    /// Anybody else.
    Other,
}

impl Vendor {
    /// The vendor that the twelve letters in EBX, EDX, ECX of leaf 0 name.
    #[must_use]
    pub const fn from_registers(ebx: u32, edx: u32, ecx: u32) -> Self {
        const fn word(letters: &[u8; 4]) -> u32 {
            u32::from_le_bytes(*letters)
        }
        if ebx == word(b"Genu") && edx == word(b"ineI") && ecx == word(b"ntel") {
            Self::Intel
        } else if ebx == word(b"Auth") && edx == word(b"enti") && ecx == word(b"cAMD") {
            Self::Amd
        } else if ebx == word(b"Hygo") && edx == word(b"nGen") && ecx == word(b"uine") {
            Self::Hygon
        } else {
            Self::Other
        }
    }
}

/// What one CPU says about itself, as CPUID says and [`errata`] corrects.
///
/// The fields are public so that a machine in software, or a kernel that trusts its own list more
/// than CPUID, can describe a CPU. What the table of errata withdraws cannot be put back: a CPU counts as
/// [corrected](Self::corrected) wherever this crate is told of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Features {
    /// Who made it.
    pub vendor: Vendor,
    /// Its family, extended family added in.
    pub family: u32,
    /// Its model, extended model included.
    pub model: u32,
    /// Its stepping.
    pub stepping: u32,
    /// The revision of its microcode, where the kernel knows it: CPUID does not say. On Intel's it is in
    /// the upper half of `IA32_BIOS_SIGN_ID` (MSR 8Bh) after a write of 0 to that and a `CPUID` (SDM vol.
    /// 3, "Microcode Update Resources"). `None` counts as older than any.
    pub microcode: Option<u32>,
    /// Whether a hypervisor says it is there (leaf 1, ECX bit 31).
    pub hypervisor: bool,
    /// `CR4.PCIDE` can be set (leaf 1, ECX bit 17).
    pub pcid: bool,
    /// `INVPCID` (leaf 7, EBX bit 10).
    pub invpcid: bool,
    /// Global pages and `CR4.PGE` (leaf 1, EDX bit 13).
    pub pge: bool,
    /// Five levels of tables (leaf 7, ECX bit 16).
    pub la57: bool,
    /// `INVLPGB` and `TLBSYNC` (leaf 8000_0008, EBX bit 3), and how many pages one may name.
    pub invlpgb: Option<PageLimit>,
    /// `EFER.TCE`: invalidating an address can be told to spare the upper levels of other addresses
    /// (leaf 8000_0001, ECX bit 17).
    pub tce: bool,
    /// Bits of a physical address (leaf 8000_0008, EAX bits 7:0), up to the one that says that memory is encrypted (AMD's
    /// C-bit: leaf 8000_001F, EBX bits 5:0, with SME or SEV in EAX bits 0 and 1).
    pub physical_bits: u32,
    /// Bits of a linear address (leaf 8000_0008, EAX bits 15:8).
    pub linear_bits: u32,
}

impl Features {
    /// Decodes CPUID, and [corrects](Self::corrected) what it says. `cpuid` maps a leaf and a subleaf to EAX, EBX, ECX, EDX; it is asked only for
    /// leaves that leaves 0 and 8000_0000 say exist.
    #[must_use]
    pub fn decode(mut cpuid: impl FnMut(u32, u32) -> [u32; 4]) -> Self {
        let [last, b, c, d] = cpuid(0, 0);
        let vendor = Vendor::from_registers(b, d, c);
        let [last_extended, ..] = cpuid(0x8000_0000, 0);
        // A leaf that does not exist answers with something else's values: it reads as zeros here.
        let mut leaf = |number: u32| {
            let last = if number < 0x8000_0000 { last } else { last_extended };
            if number <= last { cpuid(number, 0) } else { [0; 4] }
        };
        let [signature, _, features_c, features_d] = leaf(1);
        let [_, structured_b, structured_c, _] = leaf(7);
        let [_, _, extended_c, _] = leaf(0x8000_0001);
        let [sizes, extended_b, _, limits] = leaf(0x8000_0008);
        let [encryption, encrypted, ..] = leaf(0x8000_001f);

        let base_family = signature >> 8 & 0xf;
        let base_model = signature >> 4 & 0xf;
        let extended_model = signature >> 16 & 0xf;
        let family =
            if base_family == 0xf { base_family + (signature >> 20 & 0xff) } else { base_family };
        let model = if base_family == 0x6 || base_family == 0xf {
            extended_model << 4 | base_model
        } else {
            base_model
        };
        let bit = |register: u32, bit: u32| register >> bit & 1 == 1;
        // Without the leaf, 36 and 48 bits: what every CPU in 64-bit mode has at least.
        let width = |field: u32, least: u32| if field & 0xff == 0 { least } else { field & 0xff };
        Self {
            vendor,
            family,
            model,
            stepping: signature & 0xf,
            microcode: None,
            hypervisor: bit(features_c, 31),
            pcid: bit(features_c, 17),
            invpcid: bit(structured_b, 10),
            pge: bit(features_d, 13),
            la57: bit(structured_c, 16),
            // The lower half of EDX; the upper half belongs to RDPRU.
            invlpgb: bit(extended_b, 3).then(|| PageLimit::from_cpuid(limits as u16)),
            tce: bit(extended_c, 17),
            physical_bits: match encryption & 0b11 {
                0 => width(sizes, 36),
                _ => width(sizes, 36).max((encrypted & 0x3f) + 1),
            },
            linear_bits: width(sizes >> 8, 48),
        }
        .corrected()
    }

    /// The same without what the table of [`errata`] withdraws from this CPU.
    #[must_use]
    pub const fn corrected(mut self) -> Self {
        if errata::of_x86(&self).withdraws(Feature::Invlpgb) {
            self.invlpgb = None;
        }
        self
    }

    /// Reads CPUID on the CPU that executes the call.
    #[cfg(target_arch = "x86_64")]
    #[must_use]
    pub fn read() -> Self {
        Self::decode(|leaf, subleaf| {
            #[allow(unused_unsafe, reason = "the intrinsic is unsafe in older compilers only")]
            // SAFETY: every x86-64 CPU has the instruction, and it changes nothing but its outputs.
            let result = unsafe { core::arch::x86_64::__cpuid_count(leaf, subleaf) };
            [result.eax, result.ebx, result.ecx, result.edx]
        })
    }
}
