//! Acknowledgements: what they guarantee, and whether the initiator waits for them.

use lookaside::{
    arch::{
        riscv64::Instructions as _,
        x86_64::{Instructions as _, Invpcid},
    },
    platform::{Ordering::*, Word as _},
};
use lookaside_machine::adversary::{Arch, Config, Rule, Word, interrupt, relax, riscv, x86};

use super::{
    Expected, Form, Protocol,
    kernel::{A, Act::*, B, CPUS, Call, Change, Kernel, Operations, PAGES, Scripts, each, open},
    riscv::satp,
};

/// A machine whose PCIDs are not used, as in most of these kernels: a switch flushes.
pub(super) fn untagged(cpus: usize) -> Config {
    Config::x86(cpus).with_interrupts()
}

/// Loads the root of a space, which flushes.
pub(super) fn load(kernel: &Kernel, to: usize) {
    x86::Insn.write_cr3(kernel.root(to).address());
}

/// Flushes everything on this CPU.
pub(super) fn forget() {
    x86::Insn.invpcid(Invpcid::Context, [0, 0]);
}

/// The order of flush, acknowledgement and wait.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// The target flushes and acknowledges, and the initiator waits.
    Right,
    /// The target acknowledges before it flushes.
    Early,
    /// The initiator does not wait.
    Forgets,
    /// The initiator polls this many times, then goes on.
    GivesUp(u32),
}

/// All other CPUs are interrupted.
struct Everybody {
    way: Way,
    call: Call,
}

impl Everybody {
    const fn new(way: Way) -> Self {
        Self { way, call: Call::new() }
    }
}

impl Operations for Everybody {
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
        match self.way {
            Way::Right | Way::Early => self.call.wait(),
            Way::Forgets => {}
            Way::GivesUp(rounds) => self.call.wait_for(rounds),
        }
    }

    fn interrupt(&self, _: &Kernel, cpu: usize) {
        if self.way == Way::Early {
            self.call.acknowledge(cpu);
        }
        forget();
        if self.way != Way::Early {
            self.call.acknowledge(cpu);
        }
    }
}

/// Acknowledgements are counted in one word, and the expected number is recomputed while waiting.
struct Counter {
    fixed: bool,
    /// The CPUs that run A.
    used_by: Word,
    acks: Word,
    asked: [Word; CPUS],
}

impl Operations for Counter {
    fn config(&self, cpus: usize) -> Config {
        untagged(cpus)
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        let one = core::slice::from_ref;
        vec![("used by", one(&self.used_by)), ("acks", one(&self.acks)), ("asked", &self.asked)]
    }

    fn switch(&self, kernel: &Kernel, cpu: usize, from: Option<usize>, to: usize) {
        if to == A {
            self.used_by.fetch_or(1 << cpu, SeqCst);
        }
        load(kernel, to);
        if from == Some(A) && to != A {
            self.used_by.fetch_and(!(1 << cpu), SeqCst);
        }
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, _: Change) {
        self.acks.store(0, Relaxed);
        let targets = self.used_by.fetch_or(0, SeqCst) & kernel.others(cpu);
        each(targets).for_each(|target| self.asked[target].store(1, Relaxed));
        interrupt(targets);
        forget();
        loop {
            let counted =
                if self.fixed { targets } else { self.used_by.load(SeqCst) & kernel.others(cpu) };
            if self.acks.load(Acquire) >= u64::from(counted.count_ones()) {
                return;
            }
            relax();
        }
    }

    fn interrupt(&self, _: &Kernel, cpu: usize) {
        if self.asked[cpu].swap(0, AcqRel) == 1 {
            forget();
            self.acks.fetch_add(1, Release);
        }
    }
}

/// The target's acknowledgement is relaxed, or, in the fixed variant, a release.
struct Weak {
    fixed: bool,
    done: Word,
}

impl Operations for Weak {
    fn config(&self, cpus: usize) -> Config {
        Config::riscv(cpus).with_interrupts()
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![("done", core::slice::from_ref(&self.done))]
    }

    fn switch(&self, kernel: &Kernel, _: usize, _: Option<usize>, to: usize) {
        satp(kernel, to);
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, _: Change) {
        interrupt(kernel.others(cpu));
        riscv::Insn.sfence_vma(None, None);
        while self.done.load(Acquire) == 0 {
            relax();
        }
    }

    fn interrupt(&self, _: &Kernel, _: usize) {
        riscv::Insn.sfence_vma(None, None);
        self.done.store(1, if self.fixed { Release } else { Relaxed });
    }
}

/// One shootdown at a time, and a counter of the acknowledgements that are missing.
struct Classic {
    lock: Word,
    left: Word,
}

impl Operations for Classic {
    fn config(&self, cpus: usize) -> Config {
        untagged(cpus)
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        let one = core::slice::from_ref;
        vec![("lock", one(&self.lock)), ("left", one(&self.left))]
    }

    fn switch(&self, kernel: &Kernel, _: usize, _: Option<usize>, to: usize) {
        load(kernel, to);
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, _: Change) {
        while self.lock.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            relax();
        }
        let targets = kernel.others(cpu);
        self.left.store(u64::from(targets.count_ones()), Relaxed);
        interrupt(targets);
        forget();
        while self.left.load(Acquire) != 0 {
            relax();
        }
        self.lock.store(0, Release);
    }

    fn interrupt(&self, _: &Kernel, _: usize) {
        forget();
        self.left.fetch_add(u64::MAX, Release);
    }
}

/// Each request has a generation, which a target writes to its slot before it flushes.
struct Scoreboard {
    generation: Word,
    slots: [Word; CPUS],
}

impl Operations for Scoreboard {
    fn config(&self, cpus: usize) -> Config {
        untagged(cpus)
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![("generation", core::slice::from_ref(&self.generation)), ("slot", &self.slots)]
    }

    fn switch(&self, kernel: &Kernel, _: usize, _: Option<usize>, to: usize) {
        load(kernel, to);
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, change: Change) {
        let generation = self.generation.fetch_add(1, Release) + 1;
        each(kernel.others(cpu)).for_each(|target| self.slots[target].store(0, Release));
        interrupt(kernel.others(cpu));
        change.pages().iter().for_each(|&va| x86::Insn.invlpg(va));
        for target in each(kernel.others(cpu)) {
            while self.slots[target].load(Acquire) != generation {
                relax();
            }
        }
    }

    fn interrupt(&self, _: &Kernel, cpu: usize) {
        if self.slots[cpu].load(Acquire) == 0 {
            let generation = self.generation.load(Acquire);
            self.slots[cpu].store(generation, Release);
        }
        PAGES.into_iter().for_each(|va| x86::Insn.invlpg(va));
    }
}

const PAGE: super::kernel::Act = Take(Change::Page(0));
const TABLE: super::kernel::Act = Take(Change::Table);

pub(super) static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "acknowledge-before-flush",
        arch: Arch::X86,
        record: "NrOS, `Shootdown::process` (eco-M9, read in the source at 38557a67); the TLB code that \
                 shipped with CortenMM, `do_remote_flush` (read in the source). Asterinas clears its flag \
                 after the call today. FreeBSD does it for pages, where it is sound: \
                 `early-acknowledgement`.",
        why: "A target acknowledges, and then flushes. For a page this is harmless as long as no \
              program runs on the target in between. A table is different: hardware walks at any time, \
              and between acknowledgement and flush the target can still walk through the table that the \
              initiator takes to be free.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("flush, then acknowledge"),
        open: |name, form| {
            open(name, form, &[&[TABLE], &[Run(B)]], |fixed| {
                Everybody::new(if fixed { Way::Right } else { Way::Early })
            })
        },
    },
    Protocol {
        name: "fire-and-forget",
        arch: Arch::X86,
        record: "Hermit on x86-64, `ipi_tlb_flush` (eco-M12, read in the source at b0678ba0); \
                 ruxos#104, with its fixes #108 and #114 (threads).",
        why: "The initiator interrupts the others and goes on. That the interrupt was sent says \
              nothing about when it is taken: a target with interrupts off, or one that is merely \
              late, uses the page after its frame has been given back.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("wait for the acknowledgement of each target"),
        open: |name, form| {
            open(name, form, &[&[PAGE], &[Load(0)]], |fixed| {
                Everybody::new(if fixed { Way::Right } else { Way::Forgets })
            })
        },
    },
    Protocol {
        name: "give-up-after-n-spins",
        arch: Arch::X86,
        record: "Twizzler, `ArchTlbMgr::finish` (eco-M11, read in the source at c09e6e38): 5000 spins, \
                 a line in the log, and on.",
        why: "The initiator looks for the acknowledgement a number of times, and then goes on \
              without it. A target may be late by any time: an interrupt storm, a virtual CPU that the host \
              has put aside. Here the initiator looks twice; with 5000 times the schedule would be \
              longer, and no other. A bound turns a hang, which is seen, into a stale translation, which \
              is not.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("wait without a bound, and report who is late"),
        open: |name, form| {
            open(name, form, &[&[PAGE], &[Load(0)]], |fixed| {
                Everybody::new(if fixed { Way::Right } else { Way::GivesUp(2) })
            })
        },
    },
    Protocol {
        name: "counter-over-acknowledges",
        arch: Arch::X86,
        record: "Suspected in Redox, `Flusher::flush` and `src/percpu.rs` (eco-M13, our own reading at \
                 663e6641, confirmed by nobody). That acknowledgements there go to whatever space is \
                 current on the target is not shown here.",
        why: "The initiator counts acknowledgements, and compares them with the number of CPUs that use \
              the space now. A CPU that is asked and then leaves the space is not counted any more, but \
              still acknowledges: its acknowledgement is counted for a CPU that has not flushed.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("count those who were asked, once, when they are asked"),
        open: |name, form| {
            open(name, form, &[&[PAGE], &[Run(B)], &[]], |fixed| Counter {
                fixed,
                used_by: Word::ZERO,
                acks: Word::ZERO,
                asked: [const { Word::ZERO }; CPUS],
            })
        },
    },
    Protocol {
        name: "relaxed-acknowledgement",
        arch: Arch::Riscv,
        record: "NrOS's acknowledgement and the counter of Theseus are stored and awaited with \
                 `Relaxed` (eco-A4, read in the source). On x86-64, where both run, the order of memory \
                 hides it; we show it on RISC-V.",
        why: "A store of user code has been translated and is still on its way when the interrupt \
              comes. `SFENCE.VMA` orders stores to page tables before walks, and waits for no others. A \
              relaxed acknowledgement overtakes the store; the frame is freed, and then the store \
              is performed on it.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("acknowledge with `Release`"),
        open: |name, form| {
            open(name, form, &[&[PAGE], &[Store(0)]], |fixed| Weak { fixed, done: Word::ZERO })
        },
    },
    Protocol {
        name: "counter-under-a-lock",
        arch: Arch::X86,
        record: "The textbook protocol, as in kernels since the first with several CPUs. Theseus has \
                 its shape: one global lock, one counter (read in the source; its orderings are \
                 `relaxed-acknowledgement`).",
        why: "One shootdown at a time. The targets are fixed under the lock, each target flushes and \
              then counts down once, and the initiator waits, with interrupts on, until all \
              have. Two initiators wait for the lock with interrupts on, so that each can acknowledge the \
              other's request.",
        expected: Expected::Sound,
        repair: None,
        open: |name, form| {
            const SCRIPTS: Scripts = &[&[PAGE], &[Take(Change::Page(1)), Store(0)], &[Store(0)]];
            let scripts = if form == Form::Small { &SCRIPTS[..2] } else { SCRIPTS };
            open(name, form, scripts, |_| Classic { lock: Word::ZERO, left: Word::ZERO })
        },
    },
    Protocol {
        name: "early-acknowledgement",
        arch: Arch::X86,
        record: "FreeBSD amd64, the scoreboard of `mp_machdep.c` (on record; that it would be wrong for what a kernel itself uses is our own analysis).",
        why: "As `acknowledge-before-flush`, but for pages of user code, and with a weaker claim: that no \
              program reaches the frame any more, not that no translation to it is left. The handler runs \
              to its end before any program does, so no program uses the translation that is left. \
              Generations keep a late acknowledgement of one request from counting for the next.",
        expected: Expected::Sound,
        repair: None,
        open: |name, form| {
            const FIRST: &[super::kernel::Act] = &[Take(Change::Quiet(0)), Take(Change::Quiet(1))];
            open(name, form, &[FIRST, &[Load(0), Store(1)]], |_| Scoreboard {
                generation: Word::ZERO,
                slots: [const { Word::ZERO }; CPUS],
            })
        },
    },
];
