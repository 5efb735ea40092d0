//! When frames may be freed, and what an empty entry proves.

use lookaside::{
    arch::{
        aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp},
        x86_64::{Instructions as _, Invpcid},
    },
    platform::{Ordering::*, Word as _},
};
use lookaside_machine::adversary::{Arch, Config, Rule, Word, arm, x86};

use super::{
    Expected, Protocol,
    acknowledge::{forget, load, untagged},
    kernel::{A, Act::*, B, Call, Change, Kernel, Operations, PAGES, TAGS, open},
};

/// The frame is freed before the flush.
struct Hasty {
    fixed: bool,
    call: Call,
}

impl Operations for Hasty {
    fn config(&self, cpus: usize) -> Config {
        untagged(cpus)
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![("unacknowledged", self.call.words())]
    }

    fn switch(&self, kernel: &Kernel, _: usize, _: Option<usize>, to: usize) {
        load(kernel, to);
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, _: Change) {
        self.call.send(kernel.others(cpu));
        forget();
        self.call.wait();
    }

    fn take(&self, kernel: &Kernel, cpu: usize, change: Change) {
        kernel.clear(change);
        if self.fixed {
            self.flush(kernel, cpu, change);
            kernel.claim(change);
        } else {
            kernel.claim(change);
            self.flush(kernel, cpu, change);
        }
    }

    fn interrupt(&self, _: &Kernel, cpu: usize) {
        forget();
        self.call.acknowledge(cpu);
    }
}

/// A CPU that finds the entry empty does not flush.
struct Trusting {
    fixed: bool,
}

impl Operations for Trusting {
    fn config(&self, cpus: usize) -> Config {
        Config::arm(cpus)
    }

    fn switch(&self, kernel: &Kernel, _: usize, _: Option<usize>, to: usize) {
        arm::Insn.write_ttbr0(kernel.root(to).address() | u64::from(TAGS[to]) << 48);
        arm::Insn.isb();
    }

    fn flush(&self, _: &Kernel, _: usize, _: Change) {
        arm::Insn.dsb(Dsb::Ishst);
        let operand = u64::from(TAGS[A]) << 48 | PAGES[0] >> 12;
        arm::Insn.tlbi(Tlbi { op: TlbiOp::Val, scope: Scope::Broadcast, operand });
        arm::Insn.dsb(Dsb::Ish);
        arm::Insn.isb();
    }

    fn take(&self, kernel: &Kernel, cpu: usize, change: Change) {
        if kernel.pte(0).swap(0, AcqRel) != 0 || self.fixed {
            self.flush(kernel, cpu, change);
        }
        kernel.claim(change);
    }
}

/// One PCID for all spaces, flushed at the switch.
struct FlushesFirst {
    fixed: bool,
}

impl Operations for FlushesFirst {
    fn config(&self, cpus: usize) -> Config {
        Config::x86(cpus)
    }

    fn switch(&self, kernel: &Kernel, _: usize, _: Option<usize>, to: usize) {
        let keep = u64::from(!self.fixed) << 63;
        if !self.fixed {
            x86::Insn.invpcid(Invpcid::Context, [u64::from(TAGS[A]), 0]);
        }
        x86::Insn.write_cr3(kernel.root(to).address() | u64::from(TAGS[A]) | keep);
    }

    fn flush(&self, _: &Kernel, _: usize, _: Change) {
        x86::Insn.invpcid(Invpcid::Context, [u64::from(TAGS[A]), 0]);
    }
}

const PAGE: super::kernel::Act = Take(Change::Page(0));

pub(super) static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "freed-before-the-flush",
        arch: Arch::X86,
        record: "litebox, repaired by #848; Quark, repaired by #639; asterinas#862 and #970 (eco-M8, threads).",
        why: "The entry is cleared, the frame goes back to the allocator, and then the others are asked \
              to flush. Until they have, they read and write a frame that is somebody else's.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("free the frame when the flush is complete"),
        open: |name, form| {
            open(name, form, &[&[PAGE], &[Load(0)]], |fixed| Hasty { fixed, call: Call::new() })
        },
    },
    Protocol {
        name: "trust-an-empty-entry",
        arch: Arch::Arm,
        record: "Linux, fixed by 3ea277194daa (commit, from memory) and, of the same \
                 kind, 60bae7370896 (commit).",
        why: "One CPU clears an entry and flushes later. Another wants the same page gone, finds the \
              entry empty, has nothing to flush, and reports that the page is gone. It is not: the first \
              one's flush is still to come.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("flush where a flush may be pending, though the entry is empty"),
        open: |name, form| open(name, form, &[&[PAGE], &[PAGE]], |fixed| Trusting { fixed }),
    },
    Protocol {
        name: "flush-before-the-switch",
        arch: Arch::X86,
        record: "Xen, XSA-292 (the advisory).",
        why: "A PCID is flushed, and then the root of another space is loaded under it, with what is cached \
              kept. Between the two the old root is still loaded and hardware still walks: entries of the \
              old space come back under the PCID, and the new space uses them.",
        expected: Expected::Breaks(Rule::TagNamesTwoSpaces),
        repair: Some("flush with the load itself"),
        open: |name, form| open(name, form, &[&[Run(B)]], |fixed| FlushesFirst { fixed }),
    },
];
