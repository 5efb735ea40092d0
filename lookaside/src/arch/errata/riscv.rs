//! The rows of RISC-V harts.

use super::{Affected, Effect, FENCE_OPERANDS, RiscvHarts, Row};

/// JEDEC's number of SiFive, as `mvendorid` codes it.
const SIFIVE: u64 = 0x489;
/// Of an implementation that nobody sells.
const NONE: u64 = 0;

/// `marchid`: 1 is Rocket; SiFive's own have the top bit.
const ROCKET: u64 = 1;
const SIFIVE_7: u64 = 1 << 63 | 7;

const fn fence_operands(
    (erratum, cpus): (&'static str, &'static str),
    harts: RiscvHarts,
    source: &'static str,
) -> Row {
    let effect = Effect::Changes(FENCE_OPERANDS);
    Row { erratum, cpus, affected: Affected::Riscv(harts), effect, source }
}

/// Implementations up to 30 June 2020 but for one.
const fn cip_1200(cpus: &'static str, architecture: u64) -> Row {
    let harts = RiscvHarts {
        vendor: SIFIVE,
        architecture,
        mask: 0xff_ffff,
        implementations: (0, 0x20_0630),
        except: Some(0x0120_0626),
    };
    fence_operands(
        ("CIP-1200", cpus),
        harts,
        "SiFive FU740 Errata, 2021; Linux arch/riscv/errata/sifive/errata.c",
    )
}

pub(super) const ROWS: &[Row] = &[
    cip_1200("SiFive 7 series", SIFIVE_7),
    cip_1200("SiFive, Rocket cores", ROCKET),
    // A refill of the instruction TLB in the same cycle survives. Rocket's `mimpid` does not tell the mended
    // ones (June 2020) from the others.
    fence_operands(
        ("rocket-chip#2534", "Rocket"),
        RiscvHarts {
            vendor: NONE,
            architecture: ROCKET,
            mask: u64::MAX,
            implementations: (0, u64::MAX),
            except: None,
        },
        "chipsalliance/rocket-chip, pull request 2534",
    ),
];
