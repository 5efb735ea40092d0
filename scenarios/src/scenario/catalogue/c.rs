//! A kernel in C: all calls go through the C interface (`lookaside-c`).

use lookaside_machine::adversary::Platform;

use lookaside::{GlobalAsids, PerCpuAsids};

use super::{
    super::{
        Depth::{Bounded, Exhaust},
        Entry, Explored, Open,
        c::{Act::*, *},
        hardware::{
            self, Arm, ArmHints, ArmInterrupts, Described, Invalid, Nmis, Pcid, RvInterrupts,
        },
        script::Few,
    },
    A, B, THREE_TAGS,
};

/// A page is unmapped while another CPU uses it, leaves and comes back.
const UNMAP: &[&[Act]] = &[&[Unmap(A, 0)], &[Run(A), Write, Run(B), Run(A), Read]];
/// Both CPUs use the space.
const BOTH: &[&[Act]] = &[&[Run(A), Read, Unmap(A, 0)], &[Run(A), Write]];
/// A CPU unmaps in a space that it has left.
const LEFT: &[&[Act]] =
    &[&[Run(A), Read, Run(B), Unmap(A, 0), Unmap(A, 1), Run(A), Read], &[Run(A), Write]];
/// A CPU flushes one space after the other.
const TWO: &[&[Act]] = &[&[Unmap(B, 0), Unmap(A, 0)], &[Run(A), Write]];
const RANGE: &[&[Act]] = &[&[Run(A), UnmapBoth(A)], &[Run(A), Write]];
const LARGE: &[&[Act]] = &[&[UnmapLarge(A)], &[Run(A), Run(B), Run(A)]];
const PROTECT: &[&[Act]] = &[&[Protect(A)], &[Run(A), Write, Write]];
const TABLE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Read, Lazy, Run(A), Read]];
const CLEAR: &[&[Act]] = &[&[Run(A), Clear(A)], &[Run(A), Write]];
const LAZY: &[&[Act]] = &[&[Run(A), Unmap(A, 0)], &[Run(A), Write, Lazy, Run(A), Write]];
const PARK: &[&[Act]] = &[&[Unmap(A, 0)], &[Run(A), Write, Park, Run(A), Read]];
const BATCH: &[&[Act]] = &[&[Run(A), Batch(A, B)], &[Run(B), Write, Run(A), Write]];
const BEGUN: &[&[Act]] = &[&[Run(A), Begin(A), Finish], &[Run(A), Write]];
/// Two CPUs wait for each other.
const CROSSED: &[&[Act]] = &[&[Run(A), Begin(A), Finish], &[Run(A), Unmap(A, 1), Write]];
/// Two CPUs flush the space that the other one runs, and wait with interrupts off: each must answer the other.
const CLOSED: &[&[Act]] =
    &[&[Run(A), Begin(B), FinishClosed], &[Run(B), Begin(A), FinishClosed, Write]];
/// A second flush before the first is waited for.
const OVERTAKEN: &[&[Act]] = &[&[Begin(A), Unmap(A, 1), Finish], &[Run(A), Write]];
const KERNEL: &[&[Act]] = &[&[Run(A), UnmapKernel], &[Run(A), Unmap(A, 1)]];
const KERNEL_BEGUN: &[&[Act]] = &[&[BeginKernel, Finish], &[Run(A), Read]];
const FIRMWARE: &[&[Act]] = &[&[Unmap(A, 0)], &[Run(A), Write, Firmware, Write]];
/// A CPU that is lazy calls firmware while its space ends.
const END_FIRMWARE: &[&[Act]] = &[&[Await, End(A)], &[Run(A), Lazy, Signal, Firmware]];
const END: &[&[Act]] = &[&[Await, End(A), Run(B), Read], &[Run(A), Write, Lazy, Signal, Run(B)]];
const RESTART: &[&[Act]] = &[&[Unmap(A, 0)], &[Run(A), Write, Restart, Run(A), Read]];
const ALLOW: &[&[Act]] = &[&[Protect(A), Allow(A)], &[Run(A), Retry(A)]];
const FILL: &[&[Act]] = &[&[Fill(A)], &[Run(A), Touch(A)]];
const OWN_FILL: &[&[Act]] = &[&[Run(A), Touch(A), Fill(A), Use]];
/// More spaces than tags.
const ROLLOVER: &[&[Act]] =
    &[&[Run(A), Run(B), Run(2), Run(3), Unmap(A, 0)], &[Run(A), Write, Run(A), Read]];
const NMI: &[&[Act]] = &[&[Unmap(A, 0)], &[Run(A), Firmware, Lazy, Run(B), Run(A)]];
const VISIBLE: &[&[Act]] =
    &[&[Run(A), Visible(A), Lazy, Run(A), Visible(A), Firmware, Visible(A)], &[Unmap(B, 0)]];

fn global<H>(name: &'static str, cpus: &'static [&'static [Act]], tags: Few) -> Explored
where
    H: hardware::Hardware<Mmu: Hardware>,
{
    let hardware = Described::of::<H>();
    Explored::new(Script::<H::Mmu, GlobalAsids<'static, Platform<H::Mmu>>> {
        name,
        cpus,
        hardware,
        tags,
    })
}

fn per_cpu<H>(name: &'static str, cpus: &'static [&'static [Act]]) -> Explored
where
    H: hardware::Hardware<Mmu: Hardware>,
{
    let hardware = Described::of::<H>();
    Explored::new(Script::<H::Mmu, PerCpuAsids<2>> { name, cpus, hardware, tags: () })
}

macro_rules! calls {
    ($($name:literal, $on:ident::<$hardware:ty>($cpus:expr $(, $tags:expr)?), $depth:expr, $about:literal;)*) => {
        pub(super) static SCENARIOS: &[Entry] = &[$(Entry {
            name: $name,
            about: $about,
            depth: $depth,
            open: Open::By(|| $on::<$hardware>($name, $cpus $(, $tags)?)),
        }),*];
    };
}

calls! {
    "c-unmap-arm", global::<Arm>(UNMAP, THREE_TAGS), Bounded(4), "flush_range of a page that another CPU uses, leaves and comes back to";
    "c-unmap-arm-interrupts", global::<ArmInterrupts>(UNMAP, THREE_TAGS), Bounded(3), "as c-unmap-arm, where an interrupt is cheap";
    "c-unmap-riscv", global::<RvInterrupts>(UNMAP, THREE_TAGS), Bounded(3), "as c-unmap-arm, on RISC-V by interrupts";
    "c-unmap-x86", per_cpu::<Pcid>(UNMAP), Bounded(3), "as c-unmap-arm, on x86";
    "c-both-arm", global::<Arm>(BOTH, THREE_TAGS), Exhaust, "flush_range from one of two CPUs that run the space";
    "c-both-riscv", global::<RvInterrupts>(BOTH, THREE_TAGS), Bounded(4), "as c-both-arm, on RISC-V";
    "c-both-x86", per_cpu::<Pcid>(BOTH), Bounded(4), "as c-both-arm, on x86";
    "c-left-x86", per_cpu::<Pcid>(LEFT), Bounded(3), "flush_range twice in a space that the CPU has left";
    "c-two-x86", per_cpu::<Pcid>(TWO), Bounded(4), "flush_range of one space after another";
    "c-two-arm", global::<Arm>(TWO, THREE_TAGS), Bounded(4), "as c-two-x86, on Arm";
    "c-range-x86", per_cpu::<Pcid>(RANGE), Bounded(4), "flush_range of two pages";
    "c-range-riscv", global::<RvInterrupts>(RANGE, THREE_TAGS), Bounded(4), "as c-range-x86, on RISC-V";
    "c-large-arm", global::<ArmHints>(LARGE, THREE_TAGS), Bounded(3), "flush_range of a large page, with level hints";
    "c-large-x86", per_cpu::<Pcid>(LARGE), Bounded(3), "as c-large-arm, on x86";
    "c-protect-x86", per_cpu::<Pcid>(PROTECT), Bounded(4), "flush_page of a page that becomes read-only";
    "c-protect-riscv", global::<RvInterrupts>(PROTECT, THREE_TAGS), Bounded(4), "as c-protect-x86, on RISC-V";
    "c-table-arm", global::<Arm>(TABLE, THREE_TAGS), Bounded(4), "flush_range of a table that is freed while another CPU is lazy";
    "c-table-riscv", global::<RvInterrupts>(TABLE, THREE_TAGS), Bounded(3), "as c-table-arm, on RISC-V";
    "c-table-x86", per_cpu::<Pcid>(TABLE), Bounded(3), "as c-table-arm, on x86";
    "c-clear-arm", global::<Arm>(CLEAR, THREE_TAGS), Bounded(4), "flush_all";
    "c-clear-riscv", global::<RvInterrupts>(CLEAR, THREE_TAGS), Bounded(4), "as c-clear-arm, on RISC-V";
    "c-clear-x86", per_cpu::<Pcid>(CLEAR), Bounded(4), "as c-clear-arm, on x86";
    "c-lazy-arm", global::<Arm>(LAZY, THREE_TAGS), Bounded(4), "flush_range of a page while another CPU is lazy";
    "c-lazy-riscv", global::<RvInterrupts>(LAZY, THREE_TAGS), Bounded(3), "as c-lazy-arm, on RISC-V";
    "c-lazy-x86", per_cpu::<Pcid>(LAZY), Bounded(3), "as c-lazy-arm, on x86";
    "c-park-x86", per_cpu::<Pcid>(PARK), Bounded(4), "flush_range of a page while another CPU parks";
    "c-batch-arm", global::<Arm>(BATCH, THREE_TAGS), Bounded(3), "batch_add of two spaces, batch_flush";
    "c-batch-riscv", global::<RvInterrupts>(BATCH, THREE_TAGS), Bounded(3), "as c-batch-arm, on RISC-V";
    "c-batch-x86", per_cpu::<Pcid>(BATCH), Bounded(3), "as c-batch-arm, on x86";
    "c-begun-arm", global::<ArmInterrupts>(BEGUN, THREE_TAGS), Bounded(4), "flush_range with a wait, and wait with interrupts on";
    "c-begun-riscv", global::<RvInterrupts>(BEGUN, THREE_TAGS), Bounded(4), "as c-begun-arm, on RISC-V";
    "c-begun-x86", per_cpu::<Pcid>(BEGUN), Bounded(4), "as c-begun-arm, on x86";
    "c-crossed-riscv", global::<RvInterrupts>(CROSSED, THREE_TAGS), Bounded(3), "two CPUs flush one space, one of them in two steps";
    "c-crossed-x86", per_cpu::<Pcid>(CROSSED), Bounded(3), "as c-crossed-riscv, on x86";
    "c-closed-riscv", global::<RvInterrupts>(CLOSED, THREE_TAGS), Bounded(3), "two CPUs flush the space that the other one runs, and wait with interrupts off";
    "c-closed-x86", per_cpu::<Pcid>(CLOSED), Bounded(3), "as c-closed-riscv, on x86";
    "c-overtaken-riscv", global::<RvInterrupts>(OVERTAKEN, THREE_TAGS), Bounded(3), "a CPU flushes again before it waits";
    "c-overtaken-x86", per_cpu::<Pcid>(OVERTAKEN), Bounded(3), "as c-overtaken-riscv, on x86";
    "c-kernel-arm", global::<Arm>(KERNEL, THREE_TAGS), Bounded(4), "flush_kernel";
    "c-kernel-riscv", global::<RvInterrupts>(KERNEL, THREE_TAGS), Bounded(3), "as c-kernel-arm, on RISC-V";
    "c-kernel-x86", per_cpu::<Pcid>(KERNEL), Bounded(3), "as c-kernel-arm, on x86";
    "c-kernel-begun-riscv", global::<RvInterrupts>(KERNEL_BEGUN, THREE_TAGS), Bounded(4), "flush_kernel with a wait";
    "c-kernel-begun-x86", per_cpu::<Pcid>(KERNEL_BEGUN), Bounded(4), "as c-kernel-begun-riscv, on x86";
    "c-firmware-arm", global::<Arm>(FIRMWARE, THREE_TAGS), Bounded(4), "flush_range while another CPU is between root_begin and root_end";
    "c-firmware-riscv", global::<RvInterrupts>(FIRMWARE, THREE_TAGS), Bounded(3), "as c-firmware-arm, on RISC-V";
    "c-firmware-x86", per_cpu::<Pcid>(FIRMWARE), Bounded(3), "as c-firmware-arm, on x86";
    "c-end-arm", global::<ArmInterrupts>(END, THREE_TAGS), Bounded(3), "space_release while another CPU is lazy in the space";
    "c-end-riscv", global::<RvInterrupts>(END, THREE_TAGS), Bounded(3), "as c-end-arm, on RISC-V";
    "c-end-x86", per_cpu::<Pcid>(END), Bounded(3), "as c-end-arm, on x86";
    "c-end-firmware-riscv", global::<RvInterrupts>(END_FIRMWARE, THREE_TAGS), Bounded(3), "space_release while a lazy CPU calls firmware";
    "c-end-firmware-x86", per_cpu::<Pcid>(END_FIRMWARE), Bounded(3), "as c-end-firmware-riscv, on x86";
    "c-restart-riscv", global::<RvInterrupts>(RESTART, THREE_TAGS), Bounded(3), "flush_range while another CPU goes offline and comes online";
    "c-restart-x86", per_cpu::<Pcid>(RESTART), Bounded(3), "as c-restart-riscv, on x86";
    "c-allow-riscv", global::<RvInterrupts>(ALLOW, THREE_TAGS), Bounded(3), "a spurious fault, and map";
    "c-allow-arm", global::<Arm>(ALLOW, THREE_TAGS), Bounded(4), "as c-allow-riscv, on Arm";
    "c-fill-riscv", global::<Invalid<RvInterrupts>>(FILL, THREE_TAGS), Bounded(4), "a page is mapped whose absence another CPU remembers";
    "c-own-fill-riscv", global::<Invalid<RvInterrupts>>(OWN_FILL, THREE_TAGS), Exhaust, "a page is mapped whose absence the CPU remembers";
    "c-rollover-arm", global::<Arm>(ROLLOVER, THREE_TAGS), Bounded(2), "a space is switched to and flushed when the tags have run out";
    "c-rollover-riscv", global::<RvInterrupts>(ROLLOVER, THREE_TAGS), Bounded(2), "as c-rollover-arm, on RISC-V";
    "c-nmi-x86", per_cpu::<Nmis<Pcid>>(NMI), Bounded(2), "nmi_uaccess_okay, in an NMI at any place";
    "c-visible-x86", per_cpu::<Pcid>(VISIBLE), Bounded(4), "nmi_uaccess_okay is true of the space that a CPU runs";
    "c-visible-arm", global::<Arm>(VISIBLE, THREE_TAGS), Bounded(4), "as c-visible-x86, on Arm";
    "c-nmi-arm", global::<Nmis<Arm>>(NMI, THREE_TAGS), Bounded(2), "as c-nmi-x86, on Arm";
}
