//! The scenarios.

use lookaside::{Cookie, Epochs, Error, Recent};
use lookaside_machine::explore::Explorer;

use super::{
    Depth, Entry, Explored,
    act::Act::{self, *},
    hardware::{Arm, ArmShared, Hardware, Pcid, PcidOnly, Plain, Rv, RvInterrupts},
    script::{Few, Script, epochs},
    world::PlatformOf,
};

/// All scenarios, in the order in which they are best read.
#[must_use]
pub fn all() -> &'static [Entry] {
    CATALOGUE
}

/// The scenario of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    CATALOGUE.iter().find(|entry| entry.name == name)
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const E: usize = 4;
const F: usize = 5;

/// Three tags and six spaces, one of which runs on both CPUs: three epochs.
const ROLLOVER: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(D)], &[Run(E), Run(B), Run(F)]];

/// CPU 1 stays in A over two turnovers; CPU 0 comes back to A in between and after, and then takes
/// its page away.
const STAYS: &[&[Act]] =
    &[&[Run(A), Run(B), Run(C), Run(D), Run(A), Run(D), Run(E), Run(A), Unmap(A)], &[Run(A)]];

/// A CPU that an epoch has passed meets a space that got its tag in the new epoch, and the tag is
/// one that this CPU used before.
const MEET: &[&[Act]] = &[&[Run(D), Run(A), Run(B), Run(D)], &[Run(C), Run(D)]];

/// A CPU is passed while it moves to a space, whose page goes afterwards.
const LATE: &[&[Act]] = &[&[Run(B), Run(A), Run(B)], &[Run(C), Run(D), Run(B), Unmap(B)]];

/// One CPU, two tags, three spaces, again and again.
const ALONE: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(A), Run(B), Run(C), Run(A)]];

/// A space that was kept in the second epoch and not in the third is entered while the third begins.
const WINDOW: &[&[Act]] = &[&[Run(C), Run(D), Run(A)], &[Run(A), Run(E), Run(F)]];

/// A space is released while another CPU may still name it lazily.
const RELEASE_LAZY: &[&[Act]] = &[&[Await, Release(A), Run(B)], &[Run(A), Lazy, Tell, Run(B)]];

/// A page goes while the tags run out.
const UNMAP: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Run(C), Run(D), Run(A)]];

const RELEASE: &[&[Act]] =
    &[&[Run(A), Run(B), Release(A), Run(C), Run(D)], &[Run(E), Run(F), Run(E)]];

const PIN: &[&[Act]] =
    &[&[Pin(A), Run(A), Run(B), Unpin(A), Run(A)], &[Run(C), Run(D), Run(A), Run(E)]];

const PARK: &[&[Act]] = &[&[Run(A), Park, Run(B), Lazy, Run(B)], &[Run(C), Run(D), Run(E), Run(F)]];

const FIRMWARE: &[&[Act]] = &[&[Run(A), Firmware, Run(B)], &[Run(C), Run(D), Run(E), Run(F)]];

const RESTART: &[&[Act]] = &[&[Run(A), Restart, Run(A)], &[Run(C), Run(D), Run(E), Run(F)]];

const LAST: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(A)], &[Run(D), Run(B), Firmware, Run(D)]];

const THREE: &[&[Act]] = &[
    &[Run(A), Run(B), Run(C), Run(D)],
    &[Run(B), Run(E), Run(F), Run(A)],
    &[Run(F), Park, Run(A), Run(E), Unmap(A)],
];

/// Another CPU comes and goes.
const VISIT: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Run(B), Run(A)]];

const LAZY: &[&[Act]] = &[&[Unmap(A)], &[Run(A), Lazy, Run(A)]];

const LAZY_TABLE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Lazy, Run(A), Run(B)]];

/// A table goes from under a CPU that is leaving it.
const LEAVE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Run(B), Park]];

/// Two CPUs shoot at each other over one space.
const CROSSFIRE: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), FreeTable(A)]];

const SLOTS: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(A), Firmware, Run(B), Restart, Run(A)]];

/// Two flushes are missed, the second of a page.
const TWICE: &[&[Act]] =
    &[&[Run(B), Unmap(A), UnmapOther(A)], &[Run(A), Run(B), Run(A), Run(B), Run(A)]];

/// Two flushes of pages, one after the other, each of which may be paid by page.
const NOTE: &[&[Act]] = &[&[Unmap(A), UnmapOther(A)], &[Run(A), Run(B), Run(A), Run(B), Run(A)]];

const PARKED: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Park, Run(B)]];

const LENT: &[&[Act]] = &[&[Run(B), Unmap(A), FreeTable(A)], &[Run(A), Firmware, Run(B)]];

/// Both CPUs enter a space that has no tag yet.
const TOGETHER: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Run(B)]];

const FLUSHED_AWAY: &[&[Act]] =
    &[&[Run(B), Unmap(A), Unmap(C)], &[Run(A), Run(B), Run(C), Run(A), Run(C)]];

const CROWD: &[&[Act]] = &[
    &[Run(A), Unmap(B), Run(C), FreeTable(A)],
    &[Run(B), Run(A), Lazy, Run(A), Run(C)],
    &[Run(C), Run(B), Unmap(C), Run(A)],
];

const fn few(usable: u32) -> Few {
    Few { usable, pins: 0, last_epoch: Cookie::LAST_EPOCH }
}

const THREE_TAGS: Few = few(3);
const ONE_PIN: Few = Few { pins: 1, ..few(4) };
const SHORT: Few = Few { last_epoch: 2, ..few(3) };

/// A scenario in which tags are given by epoch.
macro_rules! by_epoch {
    ($name:literal, $hardware:ty, $few:expr, $cpus:expr, $depth:expr, $about:literal) => {
        Entry {
            name: $name,
            about: $about,
            depth: $depth,
            open: || on_epochs::<$hardware>($name, $cpus, |platform| epochs(platform, $few)),
        }
    };
}

/// A scenario in which each CPU has two slots.
macro_rules! by_recency {
    ($name:literal, $hardware:ty, $cpus:expr, $depth:expr, $about:literal) => {
        Entry {
            name: $name,
            about: $about,
            depth: $depth,
            open: || on_recent::<$hardware>($name, $cpus),
        }
    };
}

use Depth::{Bounded, Exhaust, Random};

#[rustfmt::skip]
static CATALOGUE: &[Entry] = &[
    by_epoch!("tour", Arm, THREE_TAGS, &[&[Run(A), Run(B)], &[Run(A), Park]], Exhaust,
        "two CPUs share a space and part: the example of the library's tour"),

    by_epoch!("rollover-arm", Arm, THREE_TAGS, ROLLOVER, Exhaust,
        "three epochs: 2 CPUs, 3 tags, 6 spaces, private TLBs"),
    by_epoch!("rollover-arm-cnp", ArmShared, THREE_TAGS, ROLLOVER, Exhaust,
        "three epochs: 2 CPUs, 3 tags, 6 spaces, shared TLBs"),
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
    by_epoch!("together-arm", Arm, THREE_TAGS, TOGETHER, Exhaust,
        "two CPUs enter a space at the same time, and its page goes"),
    by_epoch!("release-arm", Arm, THREE_TAGS, RELEASE, Exhaust,
        "a tag is released while the other CPU turns the epoch"),
    by_epoch!("release-arm-cnp", ArmShared, THREE_TAGS, RELEASE, Exhaust,
        "as release-arm, with shared TLBs"),
    by_epoch!("release-lazy-arm", Arm, THREE_TAGS, RELEASE_LAZY, Exhaust,
        "a space is released while a lazy CPU may still name it"),
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

    by_recency!("recent-slots", Pcid, SLOTS, Exhaust,
        "one CPU, three spaces, two slots, firmware and a restart"),
    by_recency!("recent-unmap", Pcid, VISIT, Exhaust,
        "a page goes while another CPU comes and goes"),
    by_recency!("recent-unmap-no-invpcid", PcidOnly, VISIT, Exhaust,
        "as recent-unmap, without INVPCID"),
    by_recency!("recent-unmap-no-pcid", Plain, VISIT, Exhaust,
        "as recent-unmap, without PCIDs"),
    by_recency!("recent-unmap-riscv", RvInterrupts, VISIT, Exhaust,
        "as recent-unmap, on RISC-V, where each hart may number spaces by itself"),
    by_recency!("recent-lazy", Pcid, LAZY, Exhaust,
        "a page goes while another CPU is lazy, and comes back"),
    by_recency!("recent-lazy-riscv", RvInterrupts, LAZY, Exhaust,
        "as recent-lazy, on RISC-V"),
    by_recency!("recent-lazy-table", Pcid, LAZY_TABLE, Exhaust,
        "a table goes while another CPU is lazy"),
    by_recency!("recent-leave", Pcid, LEAVE, Exhaust,
        "a table goes while another CPU leaves the space"),
    by_recency!("recent-leave-riscv", RvInterrupts, LEAVE, Exhaust,
        "as recent-leave, on RISC-V"),
    by_recency!("recent-park", Pcid, PARKED, Exhaust,
        "a table goes while another CPU parks"),
    by_recency!("recent-firmware", Pcid, LENT, Exhaust,
        "a page and a table go while another CPU calls firmware"),
    by_recency!("recent-twice", Pcid, TWICE, Exhaust,
        "two pages go while another CPU comes and goes"),
    by_recency!("recent-note-riscv", RvInterrupts, NOTE, Bounded(6),
        "the notes of two flushes, each missed and paid by page, on RISC-V"),
    by_recency!("recent-crossfire", Pcid, CROSSFIRE, Exhaust,
        "two CPUs shoot at each other over one space"),
    by_recency!("recent-away", Pcid, FLUSHED_AWAY, Exhaust,
        "pages go in spaces that a CPU remembers and does not run"),
    by_recency!("recent-crowd", Pcid, CROWD, Random(20_000),
        "three CPUs, three spaces, everything at once"),
];

fn on_epochs<H: Hardware>(
    name: &'static str,
    cpus: &'static [&'static [Act]],
    tags: MakeEpochs<PlatformOf<H>>,
) -> Box<dyn Explored> {
    Box::new(Explorer::new(Script::<H, _> { name, cpus, tags }))
}

type MakeEpochs<P> = fn(&P) -> Result<Epochs<'static, P>, Error>;

fn on_recent<H: Hardware>(
    name: &'static str,
    cpus: &'static [&'static [Act]],
) -> Box<dyn Explored> {
    Box::new(Explorer::new(Script::<H, Recent<2>> { name, cpus, tags: |_| Ok(Recent::new()) }))
}
