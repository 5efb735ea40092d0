//! The rows of x86 CPUs.

use super::{
    super::x86_64::Vendor::{self, Amd, Intel},
    Affected, Effect, Feature, INVLPG_KEEPS_GLOBALS, Row, X86Cpus,
};

/// Intel's specification updates for the 12th and 13th generation: ADL063 and RPL042. The revisions of
/// microcode are those of Intel's release of 12 March 2024.
const INVLPG: &str = "Intel 682436 (ADL063), 740518 (RPL042), microcode-20240312";

const fn row(
    (erratum, cpus): (&'static str, &'static str),
    (vendor, family): (Vendor, u32),
    models: (u32, u32),
    (effect, mended_by): (Effect, Option<u32>),
    source: &'static str,
) -> Row {
    let affected = Affected::X86(X86Cpus { vendor, family, models, steppings: (0, 15), mended_by });
    Row { erratum, cpus, affected, effect, source }
}

/// A model on which `INVLPG` leaves global entries, and the microcode that mends it.
const fn invlpg(erratum: &'static str, cpus: &'static str, model: u32, mended_by: u32) -> Row {
    let effect = Effect::Changes(INVLPG_KEEPS_GLOBALS);
    row((erratum, cpus), (Intel, 6), (model, model), (effect, Some(mended_by)), INVLPG)
}

/// Zen 2, which does not have the instructions, whatever CPUID says.
const fn zen2(models: (u32, u32)) -> Row {
    let effect = Effect::Withdraws(Feature::Invlpgb);
    row(("INVLPGB", "Zen 2"), (Amd, 0x17), models, (effect, None), "Linux a74bb5f202da")
}

pub(super) const ROWS: &[Row] = &[
    invlpg("ADL063", "Alder Lake, desktop", 0x97, 0x2e),
    invlpg("ADL063", "Alder Lake, mobile", 0x9a, 0x42c),
    invlpg("ADL063", "Alder Lake N (Gracemont cores alone)", 0xbe, 0x11),
    invlpg("RPL042", "Raptor Lake, desktop", 0xb7, 0x118),
    invlpg("RPL042", "Raptor Lake, mobile", 0xba, 0x4117),
    invlpg("RPL042", "Raptor Lake, small desktop", 0xbf, 0x2e),
    zen2((0x30, 0x4f)),
    zen2((0x60, 0x7f)),
    zen2((0x90, 0x91)),
    zen2((0xa0, 0xaf)),
];
