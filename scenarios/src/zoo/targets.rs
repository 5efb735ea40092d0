//! Target sets: the CPUs that run a space, and when that set is read and written.

use lookaside::{
    arch::riscv64::Instructions as _,
    platform::{Ordering::*, Word as _},
};
use lookaside_machine::adversary::{Arch, Config, Rule, Word, riscv};

use super::{
    Expected, Protocol,
    acknowledge::{forget, load, untagged},
    kernel::{A, Act::*, B, Call, Change, Kernel, Operations, Scripts, TAGS, open},
    riscv::satp,
};

/// The step that comes at the wrong time, or is missing.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// The bit is cleared before the other root is loaded.
    ClearsEarly,
    /// The bit is set after the root is loaded.
    SetsLate,
    /// An initiator that does not run the space interrupts no CPU.
    OnlyCurrent,
}

/// The CPUs that run A, in a set.
struct Set {
    flaw: Flaw,
    runs: Word,
    call: Call,
}

impl Set {
    const fn new(flaw: Flaw) -> Self {
        Self { flaw, runs: Word::ZERO, call: Call::new() }
    }

    fn join(&self, cpu: usize, to: usize) {
        if to == A {
            self.runs.fetch_or(1 << cpu, SeqCst);
        }
    }

    fn leave(&self, cpu: usize, from: Option<usize>, to: usize) {
        if from == Some(A) && to != A {
            self.runs.fetch_and(!(1 << cpu), SeqCst);
        }
    }
}

impl Operations for Set {
    fn config(&self, cpus: usize) -> Config {
        untagged(cpus)
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![("runs A", core::slice::from_ref(&self.runs)), ("unacknowledged", self.call.words())]
    }

    fn switch(&self, kernel: &Kernel, cpu: usize, from: Option<usize>, to: usize) {
        if self.flaw != Flaw::SetsLate {
            self.join(cpu, to);
        }
        if self.flaw == Flaw::ClearsEarly {
            self.leave(cpu, from, to);
        }
        load(kernel, to);
        if self.flaw == Flaw::SetsLate {
            self.join(cpu, to);
        }
        if self.flaw != Flaw::ClearsEarly {
            self.leave(cpu, from, to);
        }
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, _: Change) {
        if self.flaw == Flaw::OnlyCurrent && kernel.current(cpu) != Some(A) {
            return;
        }
        self.call.send(self.runs.fetch_or(0, SeqCst) & kernel.others(cpu));
        forget();
        self.call.wait();
    }

    fn interrupt(&self, _: &Kernel, cpu: usize) {
        forget();
        self.call.acknowledge(cpu);
    }
}

/// The same on RISC-V, where a read of the set must be ordered after the stores to tables.
struct Racy {
    idiom: bool,
    runs: Word,
    call: Call,
}

impl Operations for Racy {
    fn config(&self, cpus: usize) -> Config {
        Config::riscv(cpus).with_interrupts()
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![("runs A", core::slice::from_ref(&self.runs)), ("unacknowledged", self.call.words())]
    }

    fn switch(&self, kernel: &Kernel, cpu: usize, from: Option<usize>, to: usize) {
        if to == A {
            self.runs.fetch_or(1 << cpu, Acquire);
        }
        satp(kernel, to);
        if let Some(from) = from.filter(|&from| from != to) {
            riscv::Insn.sfence_vma(None, Some(TAGS[from]));
            if from == A {
                self.runs.fetch_and(!(1 << cpu), Release);
            }
        }
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, _: Change) {
        let runs =
            if self.idiom { self.runs.fetch_or(0, Release) } else { self.runs.load(Relaxed) };
        self.call.send(runs & kernel.others(cpu));
        riscv::Insn.sfence_vma(None, Some(TAGS[A]));
        self.call.wait();
    }

    fn interrupt(&self, _: &Kernel, cpu: usize) {
        riscv::Insn.sfence_vma(None, Some(TAGS[A]));
        self.call.acknowledge(cpu);
    }
}

const PAGE: super::kernel::Act = Take(Change::Page(0));
const TABLE: super::kernel::Act = Take(Change::Table);
const LEAVES: &[super::kernel::Act] = &[Run(B)];
const COMES: &[super::kernel::Act] = &[Run(B), Run(A)];

pub(super) static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "clear-mask-before-switch",
        arch: Arch::X86,
        record: "Asterinas, `VmSpace::activate`, has this order (eco-A3, our own reading at 604948581). \
                 There it is sound: pre-emption is off and frames and tables retire through RCU, so that \
                 nothing is given back while the window is open. Without RCU it is not.",
        why: "A CPU that leaves a space takes itself out of the set, and then loads the other root. In \
              between it is not interrupted, and its walker goes on in the space that it has not left: it \
              keeps, and can still make, translations to what the initiator gives back.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("load the other root, then leave the set"),
        open: |name, form| {
            open(name, form, &[&[TABLE], LEAVES], |fixed| {
                Set::new(if fixed { Flaw::None } else { Flaw::ClearsEarly })
            })
        },
    },
    Protocol {
        name: "set-mask-after-switch",
        arch: Arch::X86,
        record: "No system is named for it. That the set comes first is what Linux demands on RISC-V \
                 (on record); Linux's 71b3c126 put barriers between the mask and `CR3` (2016, \
                 related).",
        why: "A CPU that enters a space loads the root, and then joins the set. In between its walker \
              caches what an initiator is taking away, and nobody asks it to let go.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("join the set, then load the root"),
        open: |name, form| {
            open(name, form, &[&[PAGE], COMES], |fixed| {
                Set::new(if fixed { Flaw::None } else { Flaw::SetsLate })
            })
        },
    },
    Protocol {
        name: "ask-only-if-current",
        arch: Arch::X86,
        record: "seL4 on x86-64 without PCIDs, SMP: #107 (thread; fixed).",
        why: "An unmap in a space that the initiator does not run returns early: nothing is cached here, \
              so nothing is to be flushed. But another CPU runs that space.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("interrupt the CPUs that run the space, whether or not the initiator does"),
        open: |name, form| {
            open(name, form, &[&[Run(B), PAGE], &[]], |fixed| {
                Set::new(if fixed { Flaw::None } else { Flaw::OnlyCurrent })
            })
        },
    },
    Protocol {
        name: "plain-read-of-the-set",
        arch: Arch::Riscv,
        record: "eco-M18, the form without fences: mutant 1 of the field's list, for which no system is named. \
                 Asterinas uses the repair below, Redox has a full fence on both sides (read in the \
                 source).",
        why: "The initiator clears a descriptor and reads the set with a plain load. The \
              store is still in its buffer when it reads that nobody does. Another CPU joins, loads the \
              root and walks the descriptor that memory still holds; then the store lands, and the \
              frame is given back.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("read the set with a read-modify-write that changes nothing, and `Release`"),
        open: |name, form| {
            open(name, form, &[&[PAGE], COMES], |fixed| Racy {
                idiom: fixed,
                runs: Word::ZERO,
                call: Call::new(),
            })
        },
    },
    Protocol {
        name: "read-modify-write-of-the-set",
        arch: Arch::Riscv,
        record: "Asterinas, `util/id_set.rs` (eco-M18, read in the source at 604948581): \
                 `fetch_or(0, Release)` on the word that a joining CPU modifies with `Acquire`.",
        why: "Both the initiator and a CPU that joins modify one word, and modifications of one word have \
              one order. If the initiator comes first, the joining CPU acquires what it released: \
              the descriptor is cleared before that CPU walks. If the joining CPU comes first, the \
              initiator sees it and asks it.",
        expected: Expected::Sound,
        repair: None,
        open: |name, form| {
            const SCRIPTS: Scripts = &[&[PAGE, TABLE], &[Run(B), Run(A), Load(1)]];
            open(name, form, SCRIPTS, |_| Racy { idiom: true, runs: Word::ZERO, call: Call::new() })
        },
    },
];
