//! The values of `TTBRn_EL1`, `TCR_EL1`, `VTTBR_EL2` and `VTCR_EL2`.
//!
//! ```text
//! TTBRn   63      48 47                              2 1  0
//!         |  ASID   |   BADDR[47:6]     |[51:48]|  0  |CnP|    (bits 5:2: 52-bit addresses only)
//! TCR     59  40 39 36 34 32 31 30 23  22 21 16 15 14  7   5  0
//!         |DS |HD|HA|AS| IPS | TG1 |EPD1|A1|T1SZ| TG0 |EPD0|T0SZ|
//! ```
//!
//! Source: manual D24.2, `TTBR0_EL1`, `TCR_EL1`, `VTTBR_EL2`, `VTCR_EL2`. Every constant is a
//! `u64`: `AS` is bit 36 and does not exist in 32 bits.

use super::{
    features::Features,
    tlbi::{AddressSize, Geometry, Granule},
};

/// `TTBRn_EL1.CnP`, `VTTBR_EL2.CnP`: the tables are the same on every CPU that sets it.
pub const TTBR_CNP: u64 = 1 << 0;
/// Where the ASID or VMID begins in `TTBRn_EL1` and `VTTBR_EL2`.
pub const TTBR_TAG_SHIFT: u32 = 48;

/// `TCR_EL1.T0SZ`: the lower half of the address space has `64 - T0SZ` bits.
pub const TCR_T0SZ: u64 = 0x3f;
/// `TCR_EL1.EPD0`: a miss in the lower half faults instead of walking.
pub const TCR_EPD0: u64 = 1 << 7;
/// `TCR_EL1.TG0`: granule of the lower half.
pub const TCR_TG0: u64 = 0b11 << 14;
/// `TCR_EL1.A1`: the ASID is the one in `TTBR1_EL1`.
pub const TCR_A1: u64 = 1 << 22;
/// `TCR_EL1.IPS`: size of physical addresses.
pub const TCR_IPS: u64 = 0b111 << 32;
/// `TCR_EL1.AS`: ASIDs have 16 bits instead of 8.
pub const TCR_AS: u64 = 1 << 36;
/// `TCR_EL1.HA`: hardware sets the access flag.
pub const TCR_HA: u64 = 1 << 39;
/// `TCR_EL1.HD`: hardware sets the dirty state, too.
pub const TCR_HD: u64 = 1 << 40;
/// `TCR_EL1.DS`: 52-bit addresses with granules of 4 KiB and 16 KiB (FEAT_LPA2).
pub const TCR_DS: u64 = 1 << 59;

/// `VTCR_EL2.T0SZ`.
pub const VTCR_T0SZ: u64 = 0x3f;
/// `VTCR_EL2.SL0`: level at which walks begin, coded by granule.
pub const VTCR_SL0: u64 = 0b11 << 6;
/// `VTCR_EL2.TG0`: granule, coded as in `TCR_EL1`.
pub const VTCR_TG0: u64 = 0b11 << 14;
/// `VTCR_EL2.PS`: size of physical addresses, coded as `TCR_EL1.IPS`.
pub const VTCR_PS: u64 = 0b111 << 16;
/// `VTCR_EL2.VS`: VMIDs have 16 bits instead of 8.
pub const VTCR_VS: u64 = 1 << 19;
/// `VTCR_EL2.DS`: 52-bit addresses with granules of 4 KiB and 16 KiB.
pub const VTCR_DS: u64 = 1 << 32;
/// `VTCR_EL2.SL2`: with `DS` and a 4 KiB granule, walks begin at level -1.
pub const VTCR_SL2: u64 = 1 << 33;

const _: () = assert!(TCR_AS == 0x10_0000_0000);
const _: () = assert!(TCR_A1 == 0x40_0000);

/// The value of `TTBRn_EL1` (or `VTTBR_EL2`) for `table`, a physical address in bytes, under
/// `tag`.
///
/// With 52-bit addresses bits 51:48 of the table stand in bits 5:2 of the register, which is why a
/// table is then aligned to 64 bytes at least. A table below 2^48 has the same value in both
/// layouts. The caller adds [`TTBR_CNP`].
#[must_use]
pub const fn ttbr(table: u64, tag: u16) -> u64 {
    let low = table & 0x0000_ffff_ffff_ffc0;
    let high = (table >> 48 & 0xf) << 2;
    (tag as u64) << TTBR_TAG_SHIFT | low | high
}

/// `TCR_EL1` for a machine with these features, from `base`: the fields that are the kernel's
/// choice (sizes, granules, cacheability, `A1`, `DS`, hardware updates).
///
/// Sets `AS` from `ASIDBits`, as wide as the CPU has tags, and `IPS` from `PARange`, 48 bits at
/// most where the granule of the lower half cannot express more.
#[must_use]
pub const fn tcr(base: u64, features: &Features) -> u64 {
    let wide = match geometry_of(base | TCR_IPS) {
        Some(geometry) => matches!(geometry.addresses, AddressSize::Bits52),
        None => false,
    };
    let bits = if features.pa_bits > 48 && !wide { 48 } else { features.pa_bits };
    let tags = if features.asid_bits == 16 { TCR_AS } else { 0 };
    base & !(TCR_IPS | TCR_AS) | ips_of(bits) << 32 | tags
}

/// How many bits an ASID has, read back from the control register: hardware without 16-bit ASIDs
/// ignores a write of `AS`, so this and not the request is the truth.
#[must_use]
pub const fn tag_bits_of(tcr: u64) -> u32 {
    if tcr & TCR_AS == 0 { 8 } else { 16 }
}

/// How many bits a VMID has, read back from `VTCR_EL2`.
#[must_use]
pub const fn vmid_bits_of(vtcr: u64) -> u32 {
    if vtcr & VTCR_VS == 0 { 8 } else { 16 }
}

/// How many bits a physical address has, by `TCR_EL1.IPS`.
#[must_use]
pub const fn pa_bits_of(tcr: u64) -> u32 {
    size_of(tcr >> 32)
}

/// How many bits a physical address has, by `VTCR_EL2.PS`.
#[must_use]
pub const fn stage2_pa_bits_of(vtcr: u64) -> u32 {
    size_of(vtcr >> 16)
}

/// The granule and address size of the lower half of the address space; `None` for the reserved
/// code of `TG0`.
#[must_use]
pub const fn geometry_of(tcr: u64) -> Option<Geometry> {
    geometry(tcr >> 14, tcr & TCR_DS != 0, pa_bits_of(tcr))
}

/// The granule and address size of the upper half of the address space, by `TCR_EL1.TG1`, whose
/// codes differ from those of `TG0`; `None` for the reserved code.
#[must_use]
pub const fn upper_geometry_of(tcr: u64) -> Option<Geometry> {
    let as_tg0 = match tcr >> 30 & 0b11 {
        0b01 => 0b10,
        0b10 => 0b00,
        0b11 => 0b01,
        _ => return None,
    };
    geometry(as_tg0, tcr & TCR_DS != 0, pa_bits_of(tcr))
}

/// The granule and address size of stage 2; `None` for the reserved code of `TG0`.
#[must_use]
pub const fn stage2_geometry_of(vtcr: u64) -> Option<Geometry> {
    geometry(vtcr >> 14, vtcr & VTCR_DS != 0, stage2_pa_bits_of(vtcr))
}

/// The size in bytes of the table that `TTBR0_EL1` names, which is also its alignment: 64 at least.
///
/// Source: manual D8.2, alignment of the translation table base. `None` for the reserved code of `TG0`.
#[must_use]
pub const fn root_bytes_of(tcr: u64) -> Option<u64> {
    let Some(Geometry { granule, .. }) = geometry_of(tcr) else { return None };
    let resolved = (64 - (tcr & TCR_T0SZ) as u32).saturating_sub(granule.shift());
    // The top level resolves what the full levels below leave over, and at least one bit.
    let top = match resolved % granule.bits_per_level() {
        0 => granule.bits_per_level(),
        bits => bits,
    };
    Some(at_least_64(8 << top))
}

/// The size in bytes of the table or concatenated tables that `VTTBR_EL2` names, which is also the
/// alignment: 64 at least.
///
/// Source: manual D8.2, concatenated translation tables. `None` for reserved codes of `TG0` and `SL0`.
#[must_use]
pub const fn stage2_root_bytes_of(vtcr: u64) -> Option<u64> {
    let Some(Geometry { granule, .. }) = stage2_geometry_of(vtcr) else { return None };
    let levels_below = match (granule, vtcr & VTCR_SL2 != 0, (vtcr & VTCR_SL0) >> 6) {
        (Granule::K4, true, 0) => 4,
        (Granule::K4, false, code @ 0..=2) => code as u32 + 1,
        (Granule::K4, false, 3) => 0,
        (Granule::K16, false, code @ 0..=3) | (Granule::K64, false, code @ 0..=2) => code as u32,
        _ => return None,
    };
    let resolved = (64 - (vtcr & VTCR_T0SZ) as u32).saturating_sub(granule.shift());
    // Up to sixteen tables stand side by side at the first level, so it may resolve four bits more
    // than a table does.
    let top = resolved.saturating_sub(levels_below * granule.bits_per_level());
    if top > granule.bits_per_level() + 4 {
        return None;
    }
    Some(at_least_64(8 << top))
}

const fn at_least_64(bytes: u64) -> u64 {
    if bytes < 64 { 64 } else { bytes }
}

const fn geometry(tg0: u64, ds: bool, pa_bits: u32) -> Option<Geometry> {
    let granule = match tg0 & 0b11 {
        0b00 => Granule::K4,
        0b01 => Granule::K64,
        0b10 => Granule::K16,
        _ => return None,
    };
    let wide = match granule {
        Granule::K4 | Granule::K16 => ds,
        Granule::K64 => pa_bits > 48,
    };
    let addresses = if wide { AddressSize::Bits52 } else { AddressSize::Bits48 };
    Some(Geometry { granule, addresses })
}

/// `PARange`, `IPS` and `PS` share one code. 56-bit addresses need 128-bit descriptors, which this
/// crate does not operate, so that code means 52 here.
const fn size_of(code: u64) -> u32 {
    match code & 0b111 {
        0 => 32,
        1 => 36,
        2 => 40,
        3 => 42,
        4 => 44,
        5 => 48,
        _ => 52,
    }
}

const fn ips_of(bits: u32) -> u64 {
    match bits {
        52.. => 6,
        48.. => 5,
        44.. => 4,
        42.. => 3,
        40.. => 2,
        36.. => 1,
        _ => 0,
    }
}
