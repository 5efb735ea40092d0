//! The scenarios.

use lookaside::{Epochs, Recent};

use super::{
    Depth, Entry, Explored,
    act::Act::{self, *},
    hardware::{Arm, ArmShared, Hardware, Pcid, Plain, Rv},
    script::{Script, epochs},
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

/// Two CPUs, three tags and six spaces, one of which runs on both: three epochs.
const ROLLOVER: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(D)], &[Run(E), Run(B), Run(F)]];

static CATALOGUE: &[Entry] = &[
    Entry {
        name: "tour",
        about: "two CPUs share one space, then part: the example of the library's tour",
        depth: Depth::Exhaust,
        open: || tags::<Arm>("tour", 2, &[&[Run(A), Run(B)], &[Run(A), Park]]),
    },
    Entry {
        name: "rollover-arm",
        about: "three epochs on Arm64: 2 CPUs, 3 tags, 6 spaces, private TLBs",
        depth: Depth::Exhaust,
        open: || tags::<Arm>("rollover-arm", 6, ROLLOVER),
    },
    Entry {
        name: "rollover-arm-cnp",
        about: "three epochs on Arm64: 2 CPUs, 3 tags, 6 spaces, shared TLBs",
        depth: Depth::Exhaust,
        open: || tags::<ArmShared>("rollover-arm-cnp", 6, ROLLOVER),
    },
    Entry {
        name: "rollover-riscv",
        about: "three epochs on RISC-V: 2 CPUs, 3 tags, 6 spaces",
        depth: Depth::Exhaust,
        open: || tags::<Rv>("rollover-riscv", 6, ROLLOVER),
    },
    Entry {
        name: "recent-unmap",
        about: "x86-64: a page is unmapped while another CPU comes and goes",
        depth: Depth::Exhaust,
        open: || recent::<Pcid>("recent-unmap", 2, &[&[Run(B), Unmap(A)], &[Run(A), Run(B), Run(A)]]),
    },
    Entry {
        name: "recent-plain-unmap",
        about: "as recent-unmap, without PCIDs",
        depth: Depth::Exhaust,
        open: || {
            recent::<Plain>("recent-plain-unmap", 2, &[&[Run(B), Unmap(A)], &[Run(A), Run(B), Run(A)]])
        },
    },
];

/// Epochs over three tags.
fn tags<H: Hardware>(
    name: &'static str,
    spaces: usize,
    cpus: &'static [&'static [Act]],
) -> Box<dyn Explored> {
    let tags = |platform: &PlatformOf<H>| epochs(platform, 3, 0);
    Script::<H, Epochs<'static, PlatformOf<H>>> { name, spaces, cpus, tags, unbuffered: false }
        .open()
}

/// Two slots for each CPU.
fn recent<H: Hardware>(
    name: &'static str,
    spaces: usize,
    cpus: &'static [&'static [Act]],
) -> Box<dyn Explored> {
    let tags = |_: &PlatformOf<H>| Ok(Recent::new());
    Script::<H, Recent<2>> { name, spaces, cpus, tags, unbuffered: false }.open()
}
