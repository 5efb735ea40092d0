//! Tags that are the same on all CPUs, and rollover: `GlobalAsids`.

use super::*;

/// Three tags and six spaces, one of which runs on both CPUs: three epochs.
pub(super) const ROLLOVER: &[&[Act]] =
    &[&[Run(A), Run(B), Run(C), Run(D)], &[Run(E), Run(B), Run(F)]];

/// CPU 1 stays in A over two rollovers; CPU 0 switches back to A in between and afterwards, and then
/// unmaps its page.
const STAYS: &[&[Act]] =
    &[&[Run(A), Run(B), Run(C), Run(D), Run(A), Run(D), Run(E), Run(A), Unmap(A)], &[Run(A)]];

/// A CPU that has not adopted the new epoch switches to a space that got its tag in it, and this CPU used
/// that tag before.
pub(super) const MEET: &[&[Act]] = &[&[Run(D), Run(A), Run(B), Run(D)], &[Run(C), Run(D)]];

/// A rollover happens while a CPU is in mid-switch to a space, whose page is unmapped afterwards.
const LATE: &[&[Act]] = &[&[Run(B), Run(A), Run(B)], &[Run(C), Run(D), Run(B), Unmap(B)]];

/// One CPU, two tags, three spaces, again and again.
const ALONE: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(A), Run(B), Run(C), Run(A)]];

/// A CPU switches, while the third epoch begins, to a space whose tag was reserved in the second epoch only.
pub(super) const WINDOW: &[&[Act]] = &[&[Run(C), Run(D), Run(A)], &[Run(A), Run(E), Run(F)]];

/// A space is released while another CPU may still be lazy in it.
const RELEASE_LAZY: &[&[Act]] = &[&[Await, Release(A), Run(B)], &[Run(A), Lazy, Tell, Run(B)]];

/// A page is unmapped during rollovers.
pub(super) const UNMAP: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Run(C), Run(D), Run(A)]];

/// A space is released that another CPU has left, and its tag is given to another space.
const RELEASE_LEFT: &[&[Act]] = &[&[Await, Release(A), Run(B)], &[Run(A), Run(C), Tell, Run(B)]];

/// The same, after a flush has marked the other CPU absent.
const RELEASE_ABSENT: &[&[Act]] =
    &[&[Await, Unmap(A), Release(A), Run(B)], &[Run(A), Run(C), Tell, Run(B)]];

/// A space is retired while another CPU is leaving it, and it has got another tag since.
pub(super) const ENDED: &[&[Act]] =
    &[&[Await, Run(C), Run(D), Run(A), Run(C), End(A)], &[Run(B), Run(A), Tell, Run(B)]];

pub(super) const RELEASE: &[&[Act]] =
    &[&[Run(A), Run(B), Release(A), Run(C), Run(D)], &[Run(E), Run(F), Run(E)]];

const PIN: &[&[Act]] =
    &[&[Pin(A), Run(A), Run(B), Unpin(A), Run(A)], &[Run(C), Run(D), Run(A), Run(E)]];

const PARK: &[&[Act]] = &[&[Run(A), Park, Run(B), Lazy, Run(B)], &[Run(C), Run(D), Run(E), Run(F)]];

const FIRMWARE: &[&[Act]] = &[&[Run(A), Firmware, Run(B)], &[Run(C), Run(D), Run(E), Run(F)]];

const RESTART: &[&[Act]] = &[&[Run(A), Restart, Run(A)], &[Run(C), Run(D), Run(E), Run(F)]];

/// A CPU halts while it runs a space, which is released then.
pub(super) const HALTED: &[&[Act]] = &[&[Bury, Forgotten(A), Release(A), Run(B)], &[Run(A), Halt]];

/// The halted CPU comes up again.
const HALTED_BACK: &[&[Act]] =
    &[&[Bury, Forgotten(A), Run(B), Release(A), Unmap(B)], &[Run(A), Halt, Rise, Run(B)]];

/// Rollovers happen before the CPU is reported as halted, or afterwards.
const HALTED_TURNED: &[&[Act]] =
    &[&[Run(B), Run(C), Run(D), Bury, Forgotten(A), Release(A), Run(E)], &[Run(A), Halt, Rise]];

/// The last epoch begins while a CPU runs the space in which it then unmaps a page.
const LAST_LATE: &[&[Act]] = &[&[Run(A), Await, Unmap(A)], &[Run(B), Run(C), Run(D), Tell]];

/// A CPU pins a space that no CPU has run, and both switch to it.
const PIN_ENTER: &[&[Act]] = &[&[Pin(A), Run(A), Unmap(A)], &[Run(A), Run(B), Run(A)]];

const LAST: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(A)], &[Run(D), Run(B), Firmware, Run(D)]];

const THREE: &[&[Act]] = &[
    &[Run(A), Run(B), Run(C), Run(D)],
    &[Run(B), Run(E), Run(F), Run(A)],
    &[Run(F), Park, Run(A), Run(E), Unmap(A)],
];

/// A CPU publishes the space it switches to, a rollover happens, and the space has another tag in the
/// new epoch; the space that the CPU left has lost its tag.
const TURNED_BACK: &[&[Act]] =
    &[&[Run(A), Tell, Run(B), Run(D)], &[Run(B), Run(C), Await, Run(D), Run(B)]];

/// The same after an earlier rollover, so that the CPU has emptied its TLB during the switch.
const TURNED_BACK_LATE: &[&[Act]] =
    &[&[Run(A), Tell, Run(B), Run(E)], &[Run(C), Run(D), Await, Run(B), Run(E), Run(B)]];

/// Both CPUs switch to a space that has no tag yet, and each has tags in its `asid_cache`.
const TOGETHER_CACHED: &[&[Act]] = &[&[Run(B), Run(A), Unmap(A)], &[Run(C), Run(A), Run(C)]];

/// Both CPUs switch to a space that has no tag yet.
const TOGETHER: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Run(B)]];

/// The only CPU that runs a pinned space unmaps a page, which a device may use.
const PIN_ALONE: &[&[Act]] = &[&[Pin(A), Run(A), Unmap(A)]];

/// A page is unmapped after a device has let go of the tag, and another device gets it.
const PIN_AGAIN: &[&[Act]] = &[&[Pin(A), Unpin(A), Run(A), Unmap(A)], &[Pin(A)]];

/// Two CPUs pin a space, and one unpins it.
const PIN_CROSSED: &[&[Act]] = &[&[Pin(A), Unpin(A)], &[Pin(A), Unmap(A)]];

/// A space ends while a CPU has called firmware from it.
const END_FIRMWARE: &[&[Act]] = &[&[Run(A), LongFirmware], &[End(A)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_epoch!("tour", Arm, THREE_TAGS, &[&[Run(A), Run(B)], &[Run(A), Park]], Exhaust,
        "two CPUs share a space, then one switches away and one parks: the example of the library's tour"),

    by_epoch!("rollover-arm", Arm, THREE_TAGS, ROLLOVER, Exhaust,
        "three epochs: 2 CPUs, 3 tags, 6 spaces, private TLBs"),
    by_epoch!("rollover-arm-cnp", ArmShared, THREE_TAGS, ROLLOVER, Exhaust,
        "three epochs: 2 CPUs, 3 tags, 6 spaces, shared TLBs"),
    by_epoch!("rollover-arm-cnp-noting", Noting<ArmShared>, THREE_TAGS, ROLLOVER, Exhaust,
        "as rollover-arm-cnp, and hardware writes the flags of the page of the space that runs on both"),
    by_epoch!("rollover-riscv", Rv, THREE_TAGS, ROLLOVER, Exhaust,
        "three epochs: 2 CPUs, 3 tags, 6 spaces"),
    by_epoch!("rollover-three-cpus", Arm, few(4), THREE, Random(20_000),
        "3 CPUs, 4 tags, 6 spaces, and an unmapped page"),
    by_epoch!("rollover-three-cpus-cnp", ArmShared, few(4), THREE, Random(20_000),
        "as rollover-three-cpus, with shared TLBs"),
    by_epoch!("stays-arm", Arm, THREE_TAGS, STAYS, Exhaust,
        "a CPU stays in a space over two rollovers, and its page is unmapped"),
    by_epoch!("stays-arm-cnp", ArmShared, THREE_TAGS, STAYS, Exhaust,
        "as stays-arm, with shared TLBs"),
    by_epoch!("turned-back-arm", Arm, THREE_TAGS, TURNED_BACK, Exhaust,
        "a CPU in mid-switch to a space has to take another tag for it"),
    by_epoch!("turned-back-late-arm", Arm, THREE_TAGS, TURNED_BACK_LATE, Exhaust,
        "as turned-back-arm, after an earlier rollover"),
    by_epoch!("alone-arm", Arm, few(2), ALONE, Exhaust,
        "one CPU, 2 tags, 3 spaces"),
    by_epoch!("alone-riscv", Rv, few(2), ALONE, Exhaust,
        "one CPU, 2 tags, 3 spaces"),
    by_epoch!("window-arm", Arm, THREE_TAGS, WINDOW, Bounded(4),
        "a CPU switches to a space during a rollover that no longer reserves its tag"),
    by_epoch!("meet-arm", Arm, THREE_TAGS, MEET, Bounded(4),
        "a CPU that has not adopted the epoch switches to a space with a tag of it"),
    by_epoch!("meet-riscv", Rv, THREE_TAGS, MEET, Bounded(4),
        "a CPU that has not adopted the epoch switches to a space with a tag of it"),
    by_epoch!("late-arm", Arm, THREE_TAGS, LATE, Exhaust,
        "a rollover finds a CPU in mid-switch to a space, whose page is unmapped afterwards"),
    by_epoch!("unmap-arm", Arm, THREE_TAGS, UNMAP, Exhaust,
        "a page is unmapped during rollovers"),
    by_epoch!("unmap-riscv", Rv, THREE_TAGS, UNMAP, Exhaust,
        "a page is unmapped during rollovers"),
    by_epoch!("together-cached-arm", Arm, few(40), TOGETHER_CACHED, Bounded(3),
        "two CPUs with cached tags switch to a space without a tag at the same time"),
    by_epoch!("together-arm", Arm, THREE_TAGS, TOGETHER, Exhaust,
        "two CPUs switch to a space at the same time, and its page is unmapped"),
    by_epoch!("release-arm", Arm, THREE_TAGS, RELEASE, Exhaust,
        "a tag is released during a rollover on the other CPU"),
    by_epoch!("release-arm-cnp", ArmShared, THREE_TAGS, RELEASE, Exhaust,
        "as release-arm, with shared TLBs"),
    by_epoch!("release-lazy-arm", Arm, THREE_TAGS, RELEASE_LAZY, Exhaust,
        "a space is released while a CPU may still be lazy in it"),
    by_epoch!("release-left-arm", Arm, THREE_TAGS, RELEASE_LEFT, Exhaust,
        "a space is released that another CPU has left"),
    by_epoch!("release-absent-arm", Arm, THREE_TAGS, RELEASE_ABSENT, Exhaust,
        "as release-left-arm, after a flush has marked that CPU absent"),
    by_epoch!("ended-arm", Arm, THREE_TAGS, ENDED, Bounded(3),
        "a space is retired under another tag than that under which a CPU is leaving it"),
    by_epoch!("ended-riscv", Rv, THREE_TAGS, ENDED, Bounded(3),
        "as ended-arm, on RISC-V"),
    by_epoch!("pin-arm", Arm, ONE_PIN, PIN, Exhaust,
        "a tag is pinned and unpinned during rollovers"),
    by_epoch!("park-arm", Arm, THREE_TAGS, PARK, Exhaust,
        "a CPU parks and becomes lazy during rollovers"),
    by_epoch!("park-arm-cnp", ArmShared, THREE_TAGS, PARK, Exhaust,
        "as park-arm, with shared TLBs"),
    by_epoch!("firmware-arm", Arm, THREE_TAGS, FIRMWARE, Exhaust,
        "a firmware call runs under its own root during rollovers"),
    by_epoch!("restart-arm", Arm, THREE_TAGS, RESTART, Exhaust,
        "a CPU goes offline and online during rollovers"),
    by_epoch!("last-arm", Arm, SHORT, LAST, Exhaust,
        "the last epoch, which never ends"),
    by_epoch!("last-arm-cnp", ArmShared, SHORT, LAST, Exhaust,
        "the last epoch, with shared TLBs"),

    by_epoch!("last-late-arm-interrupts", ArmInterrupts, SHORT, LAST_LATE, Exhaust,
        "a CPU unmaps a page of the space it runs, after the last epoch has begun"),
    by_epoch!("last-late-riscv-interrupts", RvInterrupts, SHORT, LAST_LATE, Exhaust,
        "as last-late-arm-interrupts, on RISC-V"),
    by_epoch!("halted-arm", Arm, THREE_TAGS, HALTED, Exhaust,
        "a space is released that a CPU ran when it halted"),
    by_epoch!("halted-riscv-interrupts", RvInterrupts, THREE_TAGS, HALTED, Exhaust,
        "as halted-arm, on RISC-V with interrupts"),
    by_epoch!("halted-last-arm", Arm, FOR_EVER, HALTED, Exhaust,
        "as halted-arm, in the last epoch"),
    by_epoch!("halted-back-arm", ArmInterrupts, THREE_TAGS, HALTED_BACK, Bounded(4),
        "as halted-arm, and the CPU comes online again"),
    by_epoch!("halted-turned-arm", ArmInterrupts, THREE_TAGS, HALTED_TURNED, Bounded(3),
        "as halted-back-arm, during rollovers"),
    by_epoch!("halted-turned-riscv-interrupts", RvInterrupts, THREE_TAGS, HALTED_TURNED, Bounded(3),
        "as halted-turned-arm, on RISC-V"),
    by_epoch!("pin-alone-arm", Arm, ONE_PIN, PIN_ALONE, Exhaust,
        "the only CPU that runs a pinned space unmaps a page, which a device may use"),
    by_epoch!("pin-again-arm", Arm, ONE_PIN, PIN_AGAIN, Bounded(2),
        "a page is unmapped between the pins of two devices"),
    by_epoch!("pin-crossed-arm", Arm, ONE_PIN, PIN_CROSSED, Exhaust,
        "a space is pinned while another CPU unpins it"),
    by_epoch!("release-firmware-riscv-interrupts", RvInterrupts, THREE_TAGS, END_FIRMWARE, Exhaust,
        "a space ends while a CPU has called firmware from it"),
    by_epoch!("pin-enter-riscv", Rv, ONE_PIN, PIN_ENTER, Bounded(4),
        "a space is pinned before any CPU runs it"),
];
