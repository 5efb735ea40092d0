//! Broadcasts on x86: `INVLPGB` and `TLBSYNC`.

use lookaside::arch::x86_64::Instructions as _;
use lookaside_machine::adversary::{Arch, Config, Rule, x86};

use super::{
    Expected, Protocol,
    kernel::{A, Act::*, B, Change, Kernel, Operations, Scripts, TAGS, open},
};

/// One tag for a space on all CPUs.
struct Broadcast {
    /// Whether a thread may leave its CPU between the two instructions.
    leaves: bool,
}

impl Operations for Broadcast {
    fn config(&self, cpus: usize) -> Config {
        Config::x86(cpus)
    }

    fn switch(&self, kernel: &Kernel, _: usize, _: Option<usize>, to: usize) {
        x86::Insn.write_cr3(kernel.root(to).address() | u64::from(TAGS[to]) | 1 << 63);
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, change: Change) {
        self.issue(kernel, cpu, change);
        self.complete(kernel, cpu);
    }

    fn issue(&self, _: &Kernel, _: usize, _: Change) {
        // INVLPGB does not wait for stores.
        x86::Insn.mfence();
        // By PCID (flag 1): pages and partial walks.
        x86::Insn.invlpgb(1 << 1, 0, u32::from(TAGS[A]) << 16);
        if !self.leaves {
            x86::Insn.tlbsync();
        }
    }

    fn complete(&self, _: &Kernel, _: usize) {
        x86::Insn.tlbsync();
    }
}

pub(super) static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "tlbsync-on-another-cpu",
        arch: Arch::X86,
        record: "The `INVLPGB` series for Linux, v3 to v5, found in review by Jann Horn (thread); a \
                 missed `need_tlbsync` after the merge was the same (on record).",
        why: "A thread broadcasts an invalidation, is moved to another CPU and executes `TLBSYNC` there. \
              `TLBSYNC` waits for what its own CPU has sent: it returns at once, and the frame is given \
              back while the invalidation is under way.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("`TLBSYNC` before the thread leaves its CPU"),
        open: |name, form| {
            const SCRIPTS: Scripts =
                &[&[Issue(Change::Page(0)), Tell], &[Await, Complete(Change::Page(0))]];
            open(name, form, SCRIPTS, |fixed| Broadcast { leaves: !fixed })
        },
    },
    Protocol {
        name: "invlpgb-and-tlbsync",
        arch: Arch::X86,
        record: "Linux since 6.15 (on record), COCONUT-SVSM (read in the source at \
                 f4bc4bcd).",
        why: "A space has one tag on all CPUs. Its initiator makes its stores visible, broadcasts by that \
              tag, and waits with `TLBSYNC` on the same CPU. Who runs what does not matter.",
        expected: Expected::Sound,
        repair: None,
        open: |name, form| {
            const FIRST: &[super::kernel::Act] =
                &[Take(Change::Protect(0)), Take(Change::Page(0)), Take(Change::Table)];
            const SCRIPTS: Scripts = &[FIRST, &[Store(1), Run(B), Run(A), Store(0)]];
            open(name, form, SCRIPTS, |_| Broadcast { leaves: false })
        },
    },
];
