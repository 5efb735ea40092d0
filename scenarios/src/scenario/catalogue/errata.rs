//! CPUs with the errata of the library's table.
//!
//! The machine has the erratum. No rule is broken as long as the library finds the row and applies it;
//! without the row each of these scenarios fails, which the mutants of `mutants/errata.toml` show.

use super::{
    blocks::{self, blocks},
    *,
};
use crate::scenario::blocks::{A55, A510, ArmAborts, C1Ultra, KryoSilver, mapped::USED};

/// A page is unmapped while user code's stores to it are under way on another CPU.
const STORE: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Write]];

/// A CPU switches away and back, parks, and comes back, and its pages are unmapped.
const APART: &[&[Act]] = &[&[Run(C), Unmap(A)], &[Run(A), Run(B), Park, Run(A)]];

/// A CPU comes back to code that it has executed before a broadcast.
const CODE: &[&[Act]] =
    &[&[Await, Run(A), Unmap(A)], &[Run(B), Read, Run(A), Tell, Read, Run(B), Read]];

/// A kernel page is unmapped.
const KERNEL: &[&[Act]] = &[&[Run(A), UnmapKernel], &[Run(A), Run(B)]];

/// Both CPUs come up within the execution: a CPU that comes up flushes everything.
const COMES_UP: &[&[Act]] = &[&[Up, Run(B), Unmap(A)], &[Up, Run(A), Run(B), Run(A)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_epoch!("late-accesses-arm", Late, THREE_TAGS, STORE, Exhaust,
        "Cortex-A76: stores through a revoked translation end with the second broadcast"),
    by_epoch!("mixed-roots-arm", Mixed, THREE_TAGS, APART, Exhaust,
        "Falkor: a walk may take the table of one root and the tag of the next"),
    by_epoch!("corrupt-code-arm", Corrupt, THREE_TAGS, CODE, Exhaust,
        "ThunderX: a broadcast corrupts what other spaces have in the instruction cache"),
    by_epoch!("spurious-aborts-arm", Aborting, THREE_TAGS, tags::UNMAP, Bounded(2),
        "ThunderX2: nothing is accessed while a new root is not in effect"),
    by_recency!("invlpg-globals-x86", Sparing, KERNEL, Bounded(2),
        "Alder Lake: INVLPG leaves global entries"),
    by_epoch!("undefined-invlpgb-x86", Boasting, THREE_TAGS, COMES_UP, Bounded(2),
        "Zen 2: INVLPGB is reported, and not there"),
    by_epoch!("fence-operands-riscv", Vain<Rv>, THREE_TAGS, flush::BACK, Exhaust,
        "FU740: a fence with operands removes nothing"),
    by_epoch!("fence-operands-riscv-interrupts", Vain<RvInterrupts>, THREE_TAGS, flush::BACK, Bounded(2),
        "as fence-operands-riscv, with interrupts"),
    blocks!("lost-dirty-a55-arm", A55, USED, blocks::PROTECT, Exhaust,
        "Cortex-A55: a block becomes read-only while user code stores through it"),
    blocks!("lost-dirty-a510-arm", A510, USED, blocks::UNMAP, Exhaust,
        "Cortex-A510: a block is unmapped while user code stores through it"),
    blocks!("lost-dirty-kryo-arm", KryoSilver, USED, blocks::UNMAP, Exhaust,
        "Kryo 4xx Silver: a block is unmapped while user code stores through it"),
    blocks!("conflict-aborts-arm", ArmAborts, USED, blocks::UNFOLD, Exhaust,
        "break-before-make level 2 alone: a block becomes pages while user code stores through it"),
    blocks!("conflict-aborts-c1-arm", C1Ultra, USED, blocks::UNFOLD, Exhaust,
        "C1-Ultra r1p0, whose level is not to be used: the same"),
];
