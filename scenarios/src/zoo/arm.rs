//! Broadcasts on Arm: no CPU is interrupted; correctness depends on the instruction and its barriers.

use lookaside::arch::aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp};
use lookaside_machine::adversary::{Access, Arch, Config, Rule, arm};

use super::{
    Expected, Protocol,
    kernel::{A, Act::*, B, Change, Kernel, Operations, PAGES, Scripts, TAGS, open},
};

/// The fault of the protocol.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// Everything is flushed on this CPU only.
    LocalFull,
    /// No barrier before the `TLBI`.
    NoPublish,
    /// The barrier behind it waits for this CPU only.
    Nsh,
    /// The barrier behind it is on another CPU.
    Elsewhere,
    /// Only leaves are invalidated when a table is freed.
    LeavesOnly,
    /// Nothing is invalidated when a table is freed.
    NothingForTables,
    /// Each CPU has tags of its own, and the initiator names its own.
    OwnTags,
    /// A live descriptor is overwritten.
    NoBreak,
}

struct Broadcast {
    flaw: Flaw,
    /// Whether each CPU has tags of its own.
    own_tags: bool,
}

impl Broadcast {
    const fn new(flaw: Flaw) -> Self {
        Self { flaw, own_tags: false }
    }

    /// The tag of a space on a CPU.
    fn tag(&self, cpu: usize, space: usize) -> u64 {
        u64::from(TAGS[space]) + if self.own_tags { 2 * cpu as u64 } else { 0 }
    }

    fn publish(&self) {
        if self.flaw != Flaw::NoPublish {
            arm::Insn.dsb(Dsb::Ishst);
        }
    }

    fn invalidate(&self, cpu: usize, change: Change) {
        if change == Change::Both {
            let local = self.flaw == Flaw::LocalFull;
            let scope = if local { Scope::Local } else { Scope::Broadcast };
            return arm::Insn.tlbi(Tlbi { op: TlbiOp::Vmall, scope, operand: 0 });
        }
        let leaves = change != Change::Table || self.flaw == Flaw::LeavesOnly;
        let every_tag = self.own_tags && self.flaw != Flaw::OwnTags;
        let op = match (leaves, every_tag) {
            (true, true) => TlbiOp::Vaal,
            (true, false) => TlbiOp::Val,
            (false, true) => TlbiOp::Vaa,
            (false, false) => TlbiOp::Va,
        };
        for va in change.pages() {
            let operand = self.tag(cpu, A) << 48 | va >> 12;
            arm::Insn.tlbi(Tlbi { op, scope: Scope::Broadcast, operand });
        }
    }

    fn finish(&self) {
        arm::Insn.dsb(if self.flaw == Flaw::Nsh { Dsb::Nsh } else { Dsb::Ish });
        arm::Insn.isb();
    }
}

impl Operations for Broadcast {
    fn config(&self, cpus: usize) -> Config {
        Config::arm(cpus)
    }

    fn switch(&self, kernel: &Kernel, cpu: usize, _: Option<usize>, to: usize) {
        arm::Insn.write_ttbr0(kernel.root(to).address() | self.tag(cpu, to) << 48);
        arm::Insn.isb();
    }

    fn flush(&self, _: &Kernel, cpu: usize, change: Change) {
        self.publish();
        if self.flaw != Flaw::NothingForTables {
            self.invalidate(cpu, change);
        }
        self.finish();
    }

    fn issue(&self, _: &Kernel, cpu: usize, change: Change) {
        self.publish();
        self.invalidate(cpu, change);
        if self.flaw != Flaw::Elsewhere {
            self.finish();
        }
    }

    fn complete(&self, _: &Kernel, _: usize) {
        self.finish();
    }

    fn remap(&self, kernel: &Kernel, cpu: usize) {
        if self.flaw == Flaw::NoBreak {
            // First the address, then the flags.
            kernel.remap(Access::WRITE);
        } else {
            kernel.clear(Change::Page(0));
            self.flush(kernel, cpu, Change::Page(0));
        }
        kernel.remap(Access::READ);
        arm::Insn.dsb(Dsb::Ishst);
    }
}

/// No flaw in the fixed variant, else `flaw`.
const fn with(flaw: Flaw, fixed: bool) -> Broadcast {
    Broadcast::new(if fixed { Flaw::None } else { flaw })
}

const PAGE: super::kernel::Act = Take(Change::Page(0));
const BOTH: super::kernel::Act = Take(Change::Both);
const TABLE: super::kernel::Act = Take(Change::Table);
const USES: &[super::kernel::Act] = &[Load(0)];

pub(super) static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "local-full-flush",
        arch: Arch::Arm,
        record: "`page_table_multiarch` 0.6.2 and `axcpu` 0.3.1 of the ArceOS family, and tgoskits#2008 \
                 (eco-M1, read in the source; the pull request was closed unmerged).",
        why: "A page is invalidated by address, for all CPUs. When there are too many pages, everything is \
              flushed instead, but with the form of the instruction that acts on this CPU only. It is \
              the larger operation that reaches less: the other CPUs keep all of it.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("`VMALLE1IS` instead of `VMALLE1`"),
        open: |name, form| {
            const SCRIPTS: Scripts = &[&[Take(Change::Protect(0)), BOTH], USES];
            open(name, form, SCRIPTS, |fixed| with(Flaw::LocalFull, fixed))
        },
    },
    Protocol {
        name: "no-barrier-before-tlbi",
        arch: Arch::Arm,
        record: "The same crates' flushes by address, `aarch64-paging` before 0.12.3, and Theseus, which has \
                 no barrier at all (eco-M2, read in the source).",
        why: "The store that clears the descriptor is still in the store buffer when the `TLBI` is \
              executed, which does not wait for it. A walker fetches the old descriptor once more, \
              behind the invalidation; the barrier that follows completes both and removes \
              nothing.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("`DSB ISHST` before the `TLBI`"),
        open: |name, form| open(name, form, &[&[PAGE], USES], |fixed| with(Flaw::NoPublish, fixed)),
    },
    Protocol {
        name: "non-shareable-completion",
        arch: Arch::Arm,
        record: "hvisor, stage 2: `tlbi vmalls12e1is` and then `dsb nsh` (eco-M16, read in the source at \
                 6a3fb78). Stage 2 is a regime like any other here.",
        why: "The invalidation is sent to all CPUs, and the barrier waits for it on this one. The others may \
              still use what they have when the frame is given back.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("`DSB ISH`"),
        open: |name, form| open(name, form, &[&[BOTH], USES], |fixed| with(Flaw::Nsh, fixed)),
    },
    Protocol {
        name: "completion-on-another-cpu",
        arch: Arch::Arm,
        record: "FreeBSD on arm64, fixed by a `DSB ISH` in every switch; Linux has one for the same \
                 reason (on record).",
        why: "A thread is pre-empted between its `TLBI` and its `DSB`, and goes on elsewhere. A `DSB` waits \
              for invalidations of the CPU that executes it. The thread's is another CPU's: its barrier \
              waits for nothing.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("`DSB ISH` before a thread leaves its CPU"),
        open: |name, form| {
            const SCRIPTS: Scripts =
                &[&[Issue(Change::Page(0)), Tell], &[Await, Complete(Change::Page(0))]];
            open(name, form, SCRIPTS, |fixed| with(Flaw::Elsewhere, fixed))
        },
    },
    Protocol {
        name: "leaves-only-for-a-table",
        arch: Arch::Arm,
        record: "A sub-table given back before its walk-cache entries were gone: the changelog of \
                 `aarch64-paging` 0.12.3 (eco-M5). How it came about there is not recorded; this is \
                 mutant 8 of the field's list.",
        why: "`TLBI VALE1IS` removes leaves, and may leave partial walks. A CPU keeps the one that ends at \
              the table, and walks on through the table after it was given back.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("`VAE1IS` when a table is freed"),
        open: |name, form| {
            open(name, form, &[&[TABLE], USES], |fixed| with(Flaw::LeavesOnly, fixed))
        },
    },
    Protocol {
        name: "table-freed-without-invalidation",
        arch: Arch::Arm,
        record: "tgoskits#2009, open when it was read (eco-A1, thread).",
        why: "The entry that names a table is cleared, and the table is given back at once: nothing is \
              mapped below it any more. But CPUs hold partial walks that end at the table, and walk on \
              through it.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("invalidate on all CPUs, and wait, before the table is given back"),
        open: |name, form| {
            // The pages have gone before, in good order.
            const SCRIPTS: Scripts = &[&[TABLE], USES];
            open(name, form, SCRIPTS, |fixed| with(Flaw::NothingForTables, fixed))
        },
    },
    Protocol {
        name: "broadcast-of-a-private-tag",
        arch: Arch::Arm,
        record: "gVisor, #5650 and #5736: broadcasts by tags that each virtual CPU gives out for \
                 itself; illumos on arm64, richlowe/illumos-gate#220 (threads).",
        why: "Each CPU gives a space a tag of its own, and an initiator broadcasts with the tag that it \
              has for the space. On another CPU that number is another space, which loses what it \
              had, and the space itself, under another number there, keeps what it should lose.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("invalidate under every tag"),
        open: |name, form| {
            open(name, form, &[&[PAGE], USES], |fixed| Broadcast {
                own_tags: true,
                ..with(Flaw::OwnTags, fixed)
            })
        },
    },
    Protocol {
        name: "remap-without-break",
        arch: Arch::Arm,
        record: "`page_table_multiarch`, `remap`: the address and then the flags are written into a live \
                 entry (eco-A5, read in the source).",
        why: "Another frame is put into a live descriptor. Until the old translation is gone, a CPU can \
              hold two for one address, which lead to different frames and may be written \
              through. Arm does not say what happens then.",
        expected: Expected::Breaks(Rule::BreakBeforeMake),
        repair: Some("clear, flush, and then write the new descriptor"),
        open: |name, form| open(name, form, &[&[Remap], USES], |fixed| with(Flaw::NoBreak, fixed)),
    },
    Protocol {
        name: "broadcast-with-barriers",
        arch: Arch::Arm,
        record: "The Arm sequence, as Linux has it (on record), and Hermit on arm64 \
                 (read in the source at b0678ba0).",
        why: "`DSB ISHST` puts the cleared descriptor into memory before the `TLBI`; that removes what was \
              cached, on all CPUs; the `DSB ISH` behind it waits for all of them, and for stores through \
              what was removed; the `ISB` settles the issuer's own. Who runs what does not matter.",
        expected: Expected::Sound,
        repair: None,
        open: |name, form| {
            const SCRIPTS: Scripts = &[
                &[Take(Change::Protect(0)), BOTH, TABLE, Load(0)],
                &[Store(1), Run(B), Run(A), Store(0)],
            ];
            open(name, form, SCRIPTS, |_| Broadcast::new(Flaw::None))
        },
    },
    Protocol {
        name: "break-before-make",
        arch: Arch::Arm,
        record: "What the architecture asks for, and Linux does (on record).",
        why: "The descriptor is cleared, the old translation is removed everywhere and completed, and only \
              then is the new one written. In between an access faults; at no time do two translations \
              exist.",
        expected: Expected::Sound,
        repair: None,
        open: |name, form| {
            const SCRIPTS: Scripts = &[&[Remap, Load(0)], &[Store(0), Run(B), Run(A), Load(0)]];
            open(name, form, SCRIPTS, |_| Broadcast::new(Flaw::None))
        },
    },
];

const _: () = assert!(PAGES.len() == 2, "both pages are more than are flushed by address");
