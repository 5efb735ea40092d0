//! The rows of Arm CPUs.

use super::{
    Affected, ArmCpus, BREAK_BEFORE_NO_EXECUTE,
    Effect::{self, *},
    Feature::*,
    ICACHE_AFTER_LOAD, REPEAT_BROADCAST, Row, SPECULATIVE_AT, SYNCHRONISED_HCR, TAG_AND_ROOT_APART,
};

/// `MIDR_EL1.Implementer`.
const SOFTWARE: u8 = 0x00;
const ARM: u8 = 0x41;
const BROADCOM: u8 = 0x42;
const CAVIUM: u8 = 0x43;
const HISILICON: u8 = 0x48;
const NVIDIA: u8 = 0x4e;
const QUALCOMM: u8 = 0x51;
const MICROSOFT: u8 = 0x6d;
const AMPERE: u8 = 0xc0;

/// `Documentation/arch/arm64/silicon-errata.rst` of Linux, which lists vendor, part and number.
const SILICON_ERRATA: &str = "Linux silicon-errata.rst, arch/arm64/kernel/cpu_errata.c";
/// Flags of Trusted Firmware-A, beside which it says which revisions are affected.
const TF_A: &str = "Trusted Firmware-A, lib/cpus/cpu-ops.mk";
/// The mitigations published so far name parts and no revisions.
const CVE: &str = "CVE-2025-10263; Linux silicon-errata.rst";
const BROKEN_DIRTY: &str = "Linux silicon-errata.rst, arch/arm64/kernel/cpufeature.c";
/// Implementers have said of these parts that they raise no conflict aborts.
const NO_ABORTS: &str = "Linux 5aa4b625762e and f8d0751426dd, arch/arm64/kernel/cpufeature.c";

/// Some revisions of one part.
const fn row(
    (erratum, cpus): (&'static str, &'static str),
    (implementer, part): (u8, u16),
    revisions: (u8, u8),
    effect: Effect,
    source: &'static str,
) -> Row {
    let affected = Affected::Arm(ArmCpus { implementer, parts: (part, part), revisions });
    Row { erratum, cpus, affected, effect, source }
}

/// A part of which all revisions count as affected.
const fn all(
    name: (&'static str, &'static str),
    part: (u8, u16),
    effect: Effect,
    source: &'static str,
) -> Row {
    row(name, part, ALL, effect, source)
}

/// Kryo is a family of parts 0x200 to 0x2ff that shares Falkor's errata.
const fn kryo(erratum: &'static str, effect: Effect) -> Row {
    let affected =
        Affected::Arm(ArmCpus { implementer: QUALCOMM, parts: (0x200, 0x2ff), revisions: ALL });
    Row { erratum, cpus: "Kryo", affected, effect, source: SILICON_ERRATA }
}

const ALL: (u8, u8) = (0x00, 0xff);
const REPEAT: Effect = Changes(REPEAT_BROADCAST);

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    // Sequences of a switch.
    row(("27456", "Cavium ThunderX T88"), (CAVIUM, 0x0a1), (0x00, 0x11), Changes(ICACHE_AFTER_LOAD), SILICON_ERRATA),
    row(("27456", "Cavium ThunderX T81"), (CAVIUM, 0x0a2), (0x00, 0x00), Changes(ICACHE_AFTER_LOAD), SILICON_ERRATA),
    row(("E1003", "Falkor"), (QUALCOMM, 0x800), (0x00, 0x00), Changes(TAG_AND_ROOT_APART), SILICON_ERRATA),
    kryo("E1003", Changes(TAG_AND_ROOT_APART)),
    // A load, store or prefetch between a write of a root register and the context synchronisation after
    // it may take a spurious abort, on any thread of the core. `Instructions::set_ttbr0` and `set_ttbr1`
    // are both in one piece of assembly.
    all(("219", "Cavium ThunderX2"), (CAVIUM, 0x0af), Avoided, SILICON_ERRATA),
    all(("219", "Broadcom Vulcan"), (BROADCOM, 0x516), Avoided, SILICON_ERRATA),

    // Broadcasts that complete too early.
    row(("E1009", "Falkor"), (QUALCOMM, 0x800), (0x00, 0x00), REPEAT, SILICON_ERRATA),
    kryo("E1009", REPEAT),
    row(("1286807", "Cortex-A76"), (ARM, 0xd0b), (0x00, 0x30), REPEAT, SILICON_ERRATA),
    row(("1286807", "Kryo 4xx Gold"), (QUALCOMM, 0x804), (0xce, 0xfe), REPEAT, SILICON_ERRATA),
    all(("2441007", "Cortex-A55"), (ARM, 0xd05), REPEAT, SILICON_ERRATA),
    row(("2441009", "Cortex-A510"), (ARM, 0xd46), (0x00, 0x11), REPEAT, SILICON_ERRATA),
    all(("4193800", "Cortex-A76"), (ARM, 0xd0b), REPEAT, CVE),
    all(("4193801", "Cortex-A76AE"), (ARM, 0xd0e), REPEAT, CVE),
    all(("CVE-2025-10263", "Cortex-A77"), (ARM, 0xd0d), REPEAT, CVE),
    all(("CVE-2025-10263", "Cortex-A78"), (ARM, 0xd41), REPEAT, CVE),
    all(("4193793", "Cortex-A78AE"), (ARM, 0xd42), REPEAT, CVE),
    all(("4193794", "Cortex-A78C"), (ARM, 0xd4b), REPEAT, CVE),
    all(("4193788", "Cortex-A710"), (ARM, 0xd47), REPEAT, CVE),
    all(("4193791", "Cortex-X1"), (ARM, 0xd44), REPEAT, CVE),
    all(("4193792", "Cortex-X1C"), (ARM, 0xd4c), REPEAT, CVE),
    all(("4193788", "Cortex-X2"), (ARM, 0xd48), REPEAT, CVE),
    all(("4193786", "Cortex-X3"), (ARM, 0xd4e), REPEAT, CVE),
    all(("4118414", "Cortex-X4"), (ARM, 0xd82), REPEAT, CVE),
    all(("4193781", "Cortex-X925"), (ARM, 0xd85), REPEAT, CVE),
    all(("4193800", "Neoverse-N1"), (ARM, 0xd0c), REPEAT, CVE),
    all(("4193789", "Neoverse-N2"), (ARM, 0xd49), REPEAT, CVE),
    all(("4193790", "Neoverse-V1"), (ARM, 0xd40), REPEAT, CVE),
    all(("4193787", "Neoverse-V2"), (ARM, 0xd4f), REPEAT, CVE),
    all(("4193784", "Neoverse-V3"), (ARM, 0xd84), REPEAT, CVE),
    all(("4193784", "Neoverse-V3AE"), (ARM, 0xd83), REPEAT, CVE),
    all(("CVE-2025-10263", "C1-Ultra"), (ARM, 0xd8c), REPEAT, CVE),
    all(("CVE-2025-10263", "C1-Premium"), (ARM, 0xd90), REPEAT, CVE),
    all(("T410-OLY-1029", "NVIDIA Olympus"), (NVIDIA, 0x010), REPEAT, CVE),
    all(("4193789", "Microsoft Cobalt 100"), (MICROSOFT, 0xd49), REPEAT, CVE),

    // Dirty states that get lost: an update may be wrong if software changes the descriptor without
    // break-before-make (1024718), or is not ordered (2051678).
    all(("1024718", "Cortex-A55"), (ARM, 0xd05), Withdraws(HardwareDirty), BROKEN_DIRTY),
    row(("1024718", "Kryo 4xx Silver"), (QUALCOMM, 0x805), (0xde, 0xde), Withdraws(HardwareDirty), BROKEN_DIRTY),
    row(("2051678", "Cortex-A510"), (ARM, 0xd46), (0x00, 0x02), Withdraws(HardwareDirty), "Linux 297ae1eb23b0"),
    // Not reported by the ID registers, and flags may be set in an entry after it was made invalid.
    all(("AC03_CPU_38", "AmpereOne"), (AMPERE, 0xac3), Withdraws(HardwareFlags), SILICON_ERRATA),
    all(("AC03_CPU_38", "AmpereOne AC04"), (AMPERE, 0xac4), Withdraws(HardwareFlags), SILICON_ERRATA),

    // Shared entries that are not removed, or shared too widely.
    all(("CnP", "NVIDIA Carmel"), (NVIDIA, 0x004), Withdraws(SharedEntries), SILICON_ERRATA),
    all(("162100125", "HiSilicon HIP09"), (HISILICON, 0xd02), Withdraws(SharedEntries), "linux-arm-kernel, June 2026, arm64: kernel: Disable CNP on HiSilicon HIP09"),

    // Sizes that change without a break. AmpereOne (0xac3, 0xac4) is left out: its ID register does not
    // say level 2, and a level that is not reported is not raised here.
    row(("BBML2", "Cortex-X4"), (ARM, 0xd82), (0x03, 0xff), Vouches(BreaklessSizeChange), NO_ABORTS),
    row(("BBML2", "Neoverse-V3"), (ARM, 0xd84), (0x02, 0xff), Vouches(BreaklessSizeChange), NO_ABORTS),
    row(("BBML2", "Neoverse-V3AE"), (ARM, 0xd83), (0x02, 0xff), Vouches(BreaklessSizeChange), NO_ABORTS),
    all(("BBML2", "NVIDIA Olympus"), (NVIDIA, 0x010), Vouches(BreaklessSizeChange), NO_ABORTS),
    all(("BBML2", "Cortex-A520AE"), (ARM, 0xd88), Vouches(BreaklessSizeChange), NO_ABORTS),
    all(("BBML2", "Cortex-A715"), (ARM, 0xd4d), Vouches(BreaklessSizeChange), NO_ABORTS),
    all(("BBML2", "Cortex-A720AE"), (ARM, 0xd89), Vouches(BreaklessSizeChange), NO_ABORTS),
    all(("BBML2", "Cortex-A725"), (ARM, 0xd87), Vouches(BreaklessSizeChange), NO_ABORTS),
    all(("BBML2", "Neoverse-N3"), (ARM, 0xd8e), Vouches(BreaklessSizeChange), NO_ABORTS),
    all(("BBML2", "C1-Nano"), (ARM, 0xd8a), Vouches(BreaklessSizeChange), NO_ABORTS),
    all(("BBML2", "C1-Pro"), (ARM, 0xd8b), Vouches(BreaklessSizeChange), NO_ABORTS),
    row(("BBML2", "C1-Ultra"), (ARM, 0xd8c), (0x11, 0xff), Vouches(BreaklessSizeChange), NO_ABORTS),
    row(("BBML2", "C1-Premium"), (ARM, 0xd90), (0x11, 0xff), Vouches(BreaklessSizeChange), NO_ABORTS),
    // Without a break they may never come to an end of looking entries up.
    row(("3683289", "C1-Ultra"), (ARM, 0xd8c), (0x00, 0x10), Withdraws(BreaklessSizeChange), NO_ABORTS),
    row(("3683289", "C1-Premium"), (ARM, 0xd90), (0x00, 0x10), Withdraws(BreaklessSizeChange), NO_ABORTS),
    // The implementer's code that Arm keeps for software, and QEMU's part. Its TLB holds one entry for an address. Another
    // hypervisor may use the code too, on hardware that raises conflict aborts.
    Row {
        erratum: "BBML2",
        cpus: "CPUs in software (QEMU's max)",
        affected: Affected::Arm(ArmCpus { implementer: SOFTWARE, parts: (0x051, 0x051), revisions: ALL }),
        effect: Vouches(BreaklessSizeChange),
        source: "QEMU target/arm/tcg/cpu64.c, accel/tcg/cputlb.c",
    },

    // Matters of the kernel or the hypervisor.
    all(("2645198", "Cortex-A715"), (ARM, 0xd4d), Changes(BREAK_BEFORE_NO_EXECUTE), "Linux 44ecda71fd8a"),
    row(("1165522", "Cortex-A76"), (ARM, 0xd0b), (0x00, 0x20), Changes(SPECULATIVE_AT), SILICON_ERRATA),
    all(("1319537", "Cortex-A57"), (ARM, 0xd07), Changes(SPECULATIVE_AT), SILICON_ERRATA),
    all(("1319367", "Cortex-A72"), (ARM, 0xd08), Changes(SPECULATIVE_AT), SILICON_ERRATA),
    all(("1530924", "Cortex-A53"), (ARM, 0xd03), Changes(SPECULATIVE_AT), TF_A),
    row(("1530923", "Cortex-A55"), (ARM, 0xd05), (0x00, 0x20), Changes(SPECULATIVE_AT), SILICON_ERRATA),
    row(("1530923", "Kryo 4xx Silver"), (QUALCOMM, 0x805), (0xde, 0xde), Changes(SPECULATIVE_AT), SILICON_ERRATA),
    all(("AC04_CPU_23", "AmpereOne AC04"), (AMPERE, 0xac4), Changes(SYNCHRONISED_HCR), SILICON_ERRATA),
];
