//! Generations: a CPU that comes back compares what it has paid with what is owed.

use lookaside::{
    Ordering::*,
    Word as _,
    arch::x86_64::{Instructions as _, Invpcid},
};
use lookaside_machine::adversary::{Arch, Config, Rule, Word, x86};

use super::{
    Expected, Specimen,
    kernel::{A, Act::*, B, CPUS, Call, Change, Kernel, Protocol, Scripts, TAGS, each, open},
};

/// What is forgotten.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// A CPU that returns does not look at the generation.
    NoCompare,
    /// A CPU that is between two spaces is not asked.
    SkipsSwitching,
    /// Nothing orders what a switching CPU says before what it reads.
    NoFence,
    /// Lazy CPUs are not asked, not even if a table goes.
    SkipsLazy,
    /// A CPU that wakes does not look at the generation.
    WakesBlindly,
}

/// In `loaded`: what a CPU runs, plus one, or that it is on its way.
const SWITCHING: u64 = 7;

/// PCIDs, a generation of A, and up to which each CPU has paid.
struct Generations {
    flaw: Flaw,
    generation: Word,
    loaded: [Word; CPUS],
    lazy: [Word; CPUS],
    /// Private to each CPU.
    paid: [Word; CPUS],
    call: Call,
}

impl Generations {
    const fn new(flaw: Flaw) -> Self {
        Self {
            flaw,
            generation: Word::ZERO,
            loaded: [const { Word::ZERO }; CPUS],
            lazy: [const { Word::ZERO }; CPUS],
            paid: [const { Word::ZERO }; CPUS],
            call: Call::new(),
        }
    }

    /// Flushes A on this CPU, and notes up to where.
    fn pay(&self, cpu: usize) {
        // Before the flush: what comes later is not paid by it.
        let generation = self.generation.load(Acquire);
        x86::Insn.invpcid(Invpcid::Context, [u64::from(TAGS[A]), 0]);
        self.paid[cpu].set(generation);
    }

    /// Whether `target` must be asked.
    fn owes(&self, target: usize, change: Change) -> bool {
        let loaded = self.loaded[target].load(Acquire);
        let this_cpu =
            loaded == A as u64 + 1 || self.flaw != Flaw::SkipsSwitching && loaded == SWITCHING;
        let tables = change == Change::Table && self.flaw != Flaw::SkipsLazy;
        this_cpu && (tables || self.lazy[target].load(Acquire) == 0)
    }
}

impl Protocol for Generations {
    fn config(&self, cpus: usize) -> Config {
        Config::x86(cpus).with_interrupts()
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![
            ("generation", core::slice::from_ref(&self.generation)),
            ("loaded", &self.loaded),
            ("lazy", &self.lazy),
            ("paid", &self.paid),
            ("owed", self.call.words()),
        ]
    }

    fn switch(&self, kernel: &Kernel, cpu: usize, _: Option<usize>, to: usize) {
        self.loaded[cpu].store(SWITCHING, Release);
        if self.flaw != Flaw::NoFence {
            Word::fence(SeqCst);
        }
        let mut keep = true;
        if to == A {
            let generation = self.generation.load(Acquire);
            keep = self.flaw == Flaw::NoCompare || self.paid[cpu].get() == generation;
            self.paid[cpu].set(generation);
        }
        let root = kernel.root(to).address();
        x86::Insn.write_cr3(root | u64::from(TAGS[to]) | u64::from(keep) << 63);
        self.loaded[cpu].store(to as u64 + 1, Release);
    }

    fn lazy(&self, _: &Kernel, cpu: usize) {
        self.lazy[cpu].store(1, Release);
    }

    fn wake(&self, _: &Kernel, cpu: usize) {
        self.lazy[cpu].store(0, Relaxed);
        Word::fence(SeqCst);
        let behind = self.generation.load(Acquire) != self.paid[cpu].get();
        if behind && self.flaw != Flaw::WakesBlindly {
            self.pay(cpu);
        }
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, change: Change) {
        self.generation.fetch_add(1, SeqCst);
        let owing = each(kernel.others(cpu)).filter(|&target| self.owes(target, change));
        self.call.send(owing.fold(0, |mask, target| mask | 1 << target));
        self.pay(cpu);
        self.call.wait();
    }

    fn interrupt(&self, _: &Kernel, cpu: usize) {
        // One that has left since compares when it returns.
        if self.loaded[cpu].load(Relaxed) == A as u64 + 1 {
            self.pay(cpu);
        }
        self.call.answer(cpu);
    }
}

const PAGE: super::kernel::Act = Take(Change::Page(0));
const TABLE: super::kernel::Act = Take(Change::Table);
const BACK: &[super::kernel::Act] = &[Run(B), Run(A)];
/// Comes back when the page has gone.
const LATE: &[super::kernel::Act] = &[Run(B), Await, Run(A)];
const IDLES: &[super::kernel::Act] = &[Lazy, Wake];

pub(super) static SPECIMENS: &[Specimen] = &[
    Specimen {
        name: "no-generation-compare-on-return",
        arch: Arch::X86,
        record: "The look that Linux's switch takes at `tlb_gen` (on record), left out; no system is \
                 named that leaves it out. Mutant 9 of the field's list is the same idea.",
        why: "With PCIDs a CPU that leaves a space keeps what it has cached of it. An initiator does not \
              interrupt CPUs that run something else: they owe a flush, and pay when they return. One \
              that does not compare generations does not know that it owes anything, loads the root \
              with the old entries kept, and uses a page that is gone.",
        expected: Expected::Breaks(Rule::StaleTranslation),
        repair: Some("compare generations on return, and flush if behind"),
        open: |name, form| {
            open(name, form, &[&[PAGE, Tell], LATE], |repaired| {
                Generations::new(if repaired { Flaw::None } else { Flaw::NoCompare })
            })
        },
    },
    Specimen {
        name: "switching-counts-as-away",
        arch: Arch::X86,
        record: "Linux, CVE-2025-37964, fixed by fea4e317f9e7 (commit).",
        why: "A CPU on its way into a space has read the generation and decided that it owes \
              nothing; that it runs the space is not yet written down. An initiator that raises \
              the generation then sees a CPU that runs something else, and skips it. The CPU arrives \
              with the entry that it had kept.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("ask CPUs that are between two spaces"),
        open: |name, form| {
            open(name, form, &[&[PAGE], BACK], |repaired| {
                Generations::new(if repaired { Flaw::None } else { Flaw::SkipsSwitching })
            })
        },
    },
    Specimen {
        name: "no-fence-before-the-generation",
        arch: Arch::X86,
        record: "Linux, fixed by 83b0177a6c48 in 2025 (commit): the mask bit was set \
                 already, so that no locked operation came between.",
        why: "A CPU on its way into a space says so with a plain store, and reads the generation. The \
              store is still in its buffer while it reads the old value; an initiator raises the \
              generation, sees a CPU that runs something else, and skips it. The frame goes, and \
              then the CPU loads the root with the old entry kept.",
        expected: Expected::Breaks(Rule::StaleTranslation),
        repair: Some("a full fence between the two"),
        open: |name, form| {
            open(name, form, &[&[PAGE], BACK], |repaired| {
                Generations::new(if repaired { Flaw::None } else { Flaw::NoFence })
            })
        },
    },
    Specimen {
        name: "lazy-skipped-for-tables",
        arch: Arch::X86,
        record: "Linux, fixed by 2ff6ddf1 (commit).",
        why: "A lazy CPU runs no user code, so a page may be taken from it unseen: it compares \
              generations when it wakes. Its root register still names the space, though, and its \
              walker goes on. If a table is given back without asking it, hardware walks through \
              whatever the page holds next.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("ask lazy CPUs, too, when a table goes"),
        open: |name, form| {
            open(name, form, &[&[PAGE, TABLE], IDLES], |repaired| {
                Generations::new(if repaired { Flaw::None } else { Flaw::SkipsLazy })
            })
        },
    },
    Specimen {
        name: "wake-without-compare",
        arch: Arch::X86,
        record: "The look that Linux takes when a lazy CPU resumes the same space (on record), left \
                 out: mutant 16 of the field's list. No system is named.",
        why: "A CPU that was lazy while a page went was not asked, and goes on in the same space without \
              a look at the generation: it uses the entry that it was spared to drop.",
        expected: Expected::Breaks(Rule::StaleTranslation),
        repair: Some("compare generations on waking, and flush if behind"),
        open: |name, form| {
            open(name, form, &[&[PAGE], IDLES], |repaired| {
                Generations::new(if repaired { Flaw::None } else { Flaw::WakesBlindly })
            })
        },
    },
    Specimen {
        name: "generation-and-mask",
        arch: Arch::X86,
        record: "Linux on x86-64 since 4.14 (on record). Ours asks by \
                 what each CPU has loaded, and always flushes the whole PCID.",
        why: "Each flush raises the space's generation and asks those who run it, or are on their way; \
              all others owe. What a CPU says of itself and what it then reads have a full fence \
              between, as have the initiator's raise and its look: one of the two sees the other. Lazy \
              CPUs are spared for pages, and asked for tables.",
        expected: Expected::Sound,
        repair: None,
        open: |name, form| {
            const SCRIPTS: Scripts = &[&[PAGE, TABLE], &[Run(B), Lazy, Wake, Run(A), Lazy, Wake]];
            open(name, form, SCRIPTS, |_| Generations::new(Flaw::None))
        },
    },
];
