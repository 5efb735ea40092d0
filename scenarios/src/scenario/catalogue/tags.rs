//! Tags that are given by epoch.

use super::*;

/// Three tags and six spaces, one of which runs on both CPUs: three epochs.
pub(super) const ROLLOVER: &[&[Act]] =
    &[&[Run(A), Run(B), Run(C), Run(D)], &[Run(E), Run(B), Run(F)]];

/// CPU 1 stays in A over two turnovers; CPU 0 comes back to A in between and after, and then takes
/// its page away.
const STAYS: &[&[Act]] =
    &[&[Run(A), Run(B), Run(C), Run(D), Run(A), Run(D), Run(E), Run(A), Unmap(A)], &[Run(A)]];

/// A CPU that an epoch has passed meets a space that got its tag in the new epoch, and the tag is
/// one that this CPU used before.
pub(super) const MEET: &[&[Act]] = &[&[Run(D), Run(A), Run(B), Run(D)], &[Run(C), Run(D)]];

/// A CPU is passed while it moves to a space, whose page goes afterwards.
const LATE: &[&[Act]] = &[&[Run(B), Run(A), Run(B)], &[Run(C), Run(D), Run(B), Unmap(B)]];

/// One CPU, two tags, three spaces, again and again.
const ALONE: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(A), Run(B), Run(C), Run(A)]];

/// A space that was kept in the second epoch and not in the third is entered while the third begins.
pub(super) const WINDOW: &[&[Act]] = &[&[Run(C), Run(D), Run(A)], &[Run(A), Run(E), Run(F)]];

/// A space is released while another CPU may still name it lazily.
const RELEASE_LAZY: &[&[Act]] = &[&[Await, Release(A), Run(B)], &[Run(A), Lazy, Tell, Run(B)]];

/// A page goes while the tags run out.
pub(super) const UNMAP: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Run(C), Run(D), Run(A)]];

/// A space is released that another CPU has left, and its tag is another space's.
const RELEASE_LEFT: &[&[Act]] = &[&[Await, Release(A), Run(B)], &[Run(A), Run(C), Tell, Run(B)]];

/// The same, where a flush has found that the other CPU left.
const RELEASE_ABSENT: &[&[Act]] =
    &[&[Await, Unmap(A), Release(A), Run(B)], &[Run(A), Run(C), Tell, Run(B)]];

/// A space ends that another CPU is leaving, and that has had another tag since.
pub(super) const ENDED: &[&[Act]] =
    &[&[Await, Run(C), Run(D), Run(A), Run(C), End(A)], &[Run(B), Run(A), Tell, Run(B)]];

pub(super) const RELEASE: &[&[Act]] =
    &[&[Run(A), Run(B), Release(A), Run(C), Run(D)], &[Run(E), Run(F), Run(E)]];

const PIN: &[&[Act]] =
    &[&[Pin(A), Run(A), Run(B), Unpin(A), Run(A)], &[Run(C), Run(D), Run(A), Run(E)]];

const PARK: &[&[Act]] = &[&[Run(A), Park, Run(B), Lazy, Run(B)], &[Run(C), Run(D), Run(E), Run(F)]];

const FIRMWARE: &[&[Act]] = &[&[Run(A), Firmware, Run(B)], &[Run(C), Run(D), Run(E), Run(F)]];

const RESTART: &[&[Act]] = &[&[Run(A), Restart, Run(A)], &[Run(C), Run(D), Run(E), Run(F)]];

/// A CPU stops in a space, which is released then.
pub(super) const HALTED: &[&[Act]] = &[&[Bury, MustRelease(A), Run(B)], &[Run(A), Halt]];

/// It comes up again.
const HALTED_BACK: &[&[Act]] =
    &[&[Bury, Run(B), MustRelease(A), Unmap(B)], &[Run(A), Halt, Rise, Run(B)]];

/// Epochs pass it before it is buried, or afterwards.
const HALTED_TURNED: &[&[Act]] =
    &[&[Run(B), Run(C), Run(D), Bury, MustRelease(A), Run(E)], &[Run(A), Halt, Rise, Run(B)]];

/// The last epoch begins while a CPU goes on in the space from which it takes a page.
const LAST_LATE: &[&[Act]] = &[&[Run(A), Await, Unmap(A)], &[Run(B), Run(C), Run(D), Tell]];

/// A CPU pins a space that another one has never run, and both enter it.
const PIN_ENTER: &[&[Act]] = &[&[Pin(A), Run(A), Unmap(A)], &[Run(A), Run(B), Run(A)]];

const LAST: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(A)], &[Run(D), Run(B), Firmware, Run(D)]];

const THREE: &[&[Act]] = &[
    &[Run(A), Run(B), Run(C), Run(D)],
    &[Run(B), Run(E), Run(F), Run(A)],
    &[Run(F), Park, Run(A), Run(E), Unmap(A)],
];

/// A CPU says that it comes into a space, an epoch passes it, and the space is found under its tag of the
/// new epoch; what the CPU has left has lost its own.
const TURNED_BACK: &[&[Act]] =
    &[&[Run(A), Tell, Run(B), Run(D)], &[Run(B), Run(C), Await, Run(D), Run(B)]];

/// The same after an epoch has passed the CPU before, so that it has emptied its TLB on the way.
const TURNED_BACK_LATE: &[&[Act]] =
    &[&[Run(A), Tell, Run(B), Run(E)], &[Run(C), Run(D), Await, Run(B), Run(E), Run(B)]];

/// Both CPUs enter a space that has no tag yet, and each has one at hand.
const TOGETHER_STOCKED: &[&[Act]] = &[&[Run(B), Run(A), Unmap(A)], &[Run(C), Run(A), Run(C)]];

/// Both CPUs enter a space that has no tag yet.
const TOGETHER: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Run(B)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_epoch!("tour", Arm, THREE_TAGS, &[&[Run(A), Run(B)], &[Run(A), Park]], Exhaust,
        "two CPUs share a space and part: the example of the library's tour"),

    by_epoch!("rollover-arm", Arm, THREE_TAGS, ROLLOVER, Exhaust,
        "three epochs: 2 CPUs, 3 tags, 6 spaces, private TLBs"),
    by_epoch!("rollover-arm-cnp", ArmShared, THREE_TAGS, ROLLOVER, Exhaust,
        "three epochs: 2 CPUs, 3 tags, 6 spaces, shared TLBs"),
    by_epoch!("rollover-arm-cnp-noting", Noting<ArmShared>, THREE_TAGS, ROLLOVER, Exhaust,
        "as rollover-arm-cnp, and hardware writes the flags of the page of the space that runs on both"),
    by_epoch!("rollover-riscv", Rv, THREE_TAGS, ROLLOVER, Exhaust,
        "three epochs: 2 CPUs, 3 tags, 6 spaces"),
    by_epoch!("rollover-three-cpus", Arm, few(4), THREE, Random(20_000),
        "3 CPUs, 4 tags, 6 spaces, and a page that goes"),
    by_epoch!("rollover-three-cpus-cnp", ArmShared, few(4), THREE, Random(20_000),
        "as rollover-three-cpus, with shared TLBs"),
    by_epoch!("stays-arm", Arm, THREE_TAGS, STAYS, Exhaust,
        "a CPU stays in a space over two turnovers, and its page goes"),
    by_epoch!("stays-arm-cnp", ArmShared, THREE_TAGS, STAYS, Exhaust,
        "as stays-arm, with shared TLBs"),
    by_epoch!("turned-back-arm", Arm, THREE_TAGS, TURNED_BACK, Exhaust,
        "a CPU on its way into a space has to take another tag for it"),
    by_epoch!("turned-back-late-arm", Arm, THREE_TAGS, TURNED_BACK_LATE, Exhaust,
        "the same, after an epoch has passed it"),
    by_epoch!("alone-arm", Arm, few(2), ALONE, Exhaust,
        "one CPU, 2 tags, 3 spaces"),
    by_epoch!("alone-riscv", Rv, few(2), ALONE, Exhaust,
        "one CPU, 2 tags, 3 spaces"),
    by_epoch!("window-arm", Arm, THREE_TAGS, WINDOW, Bounded(4),
        "a space is entered while an epoch begins that no longer keeps its tag"),
    by_epoch!("meet-arm", Arm, THREE_TAGS, MEET, Bounded(4),
        "a CPU that was passed meets a space of the new epoch"),
    by_epoch!("meet-riscv", Rv, THREE_TAGS, MEET, Bounded(4),
        "a CPU that was passed meets a space of the new epoch"),
    by_epoch!("late-arm", Arm, THREE_TAGS, LATE, Exhaust,
        "a CPU is passed while it moves to a space, whose page goes afterwards"),
    by_epoch!("unmap-arm", Arm, THREE_TAGS, UNMAP, Exhaust,
        "a page goes while the tags run out"),
    by_epoch!("unmap-riscv", Rv, THREE_TAGS, UNMAP, Exhaust,
        "a page goes while the tags run out"),
    by_epoch!("together-stocked-arm", Arm, few(40), TOGETHER_STOCKED, Bounded(3),
        "two CPUs that have a stock of tags each enter a space at the same time"),
    by_epoch!("together-arm", Arm, THREE_TAGS, TOGETHER, Exhaust,
        "two CPUs enter a space at the same time, and its page goes"),
    by_epoch!("release-arm", Arm, THREE_TAGS, RELEASE, Exhaust,
        "a tag is released while the other CPU turns the epoch"),
    by_epoch!("release-arm-cnp", ArmShared, THREE_TAGS, RELEASE, Exhaust,
        "as release-arm, with shared TLBs"),
    by_epoch!("release-lazy-arm", Arm, THREE_TAGS, RELEASE_LAZY, Exhaust,
        "a space is released while a lazy CPU may still name it"),
    by_epoch!("release-left-arm", Arm, THREE_TAGS, RELEASE_LEFT, Exhaust,
        "a space is released that another CPU has left"),
    by_epoch!("release-absent-arm", Arm, THREE_TAGS, RELEASE_ABSENT, Exhaust,
        "the same, where a flush has found that it left"),
    by_epoch!("ended-arm", Arm, THREE_TAGS, ENDED, Bounded(3),
        "a space ends under another tag than that under which a CPU is leaving it"),
    by_epoch!("ended-riscv", Rv, THREE_TAGS, ENDED, Bounded(3),
        "as ended-arm, on RISC-V"),
    by_epoch!("pin-arm", Arm, ONE_PIN, PIN, Exhaust,
        "a tag is pinned and unpinned while the tags run out"),
    by_epoch!("park-arm", Arm, THREE_TAGS, PARK, Exhaust,
        "a CPU parks and rests while the tags run out"),
    by_epoch!("park-arm-cnp", ArmShared, THREE_TAGS, PARK, Exhaust,
        "as park-arm, with shared TLBs"),
    by_epoch!("firmware-arm", Arm, THREE_TAGS, FIRMWARE, Exhaust,
        "firmware borrows the register while the tags run out"),
    by_epoch!("restart-arm", Arm, THREE_TAGS, RESTART, Exhaust,
        "a CPU goes down and comes up while the tags run out"),
    by_epoch!("last-arm", Arm, SHORT, LAST, Exhaust,
        "the last epoch, which never ends"),
    by_epoch!("last-arm-cnp", ArmShared, SHORT, LAST, Exhaust,
        "the last epoch, with shared TLBs"),

    by_epoch!("last-late-arm-interrupts", ArmInterrupts, SHORT, LAST_LATE, Exhaust,
        "a page goes from a space in which a CPU goes on that the last epoch has passed"),
    by_epoch!("last-late-riscv-interrupts", RvInterrupts, SHORT, LAST_LATE, Exhaust,
        "as last-late-arm-interrupts, on RISC-V"),
    by_epoch!("halted-arm", Arm, THREE_TAGS, HALTED, Exhaust,
        "a space is released that a CPU ran when it stopped"),
    by_epoch!("halted-riscv-interrupts", RvInterrupts, THREE_TAGS, HALTED, Exhaust,
        "as halted-arm, on RISC-V with interrupts"),
    by_epoch!("halted-last-arm", Arm, FOR_EVER, HALTED, Exhaust,
        "as halted-arm, in the last epoch"),
    by_epoch!("halted-back-arm", ArmInterrupts, THREE_TAGS, HALTED_BACK, Bounded(4),
        "as halted-arm, and the CPU comes up again"),
    by_epoch!("halted-turned-arm", ArmInterrupts, THREE_TAGS, HALTED_TURNED, Bounded(3),
        "as halted-back-arm, while the tags run out"),
    by_epoch!("halted-turned-riscv-interrupts", RvInterrupts, THREE_TAGS, HALTED_TURNED, Bounded(3),
        "as halted-turned-arm, on RISC-V"),
    by_epoch!("pin-enter-riscv", Rv, ONE_PIN, PIN_ENTER, Bounded(4),
        "a space is pinned before anybody runs it"),
];
