//! Generations: a CPU that switches back to a space compares its local generation with the space's.

use lookaside::{
    arch::x86_64::{Instructions as _, Invpcid},
    platform::{Ordering::*, Word as _},
};
use lookaside_machine::adversary::{Arch, Config, Rule, Word, x86};

use super::{
    Expected, Protocol,
    kernel::{A, Act::*, B, CPUS, Call, Change, Kernel, Operations, Scripts, TAGS, each, open},
};

/// The step that is left out.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// On switch-in a CPU does not compare generations.
    NoCompare,
    /// A CPU in mid-switch is not interrupted.
    SkipsSwitching,
    /// A switching CPU has no fence between publishing its state and reading the generation.
    NoFence,
    /// Lazy CPUs are not interrupted, not even when a table is freed.
    SkipsLazy,
    /// A CPU that leaves lazy mode does not compare generations.
    WakesBlindly,
}

/// In `loaded`: the CPU is between two spaces. Otherwise `loaded` is the space it runs, plus one.
const SWITCHING: u64 = 7;

/// PCIDs, the generation of A, and the generation up to which each CPU has flushed.
struct Generations {
    flaw: Flaw,
    generation: Word,
    loaded: [Word; CPUS],
    lazy: [Word; CPUS],
    /// Private to each CPU.
    local_generation: [Word; CPUS],
    call: Call,
}

impl Generations {
    const fn new(flaw: Flaw) -> Self {
        Self {
            flaw,
            generation: Word::ZERO,
            loaded: [const { Word::ZERO }; CPUS],
            lazy: [const { Word::ZERO }; CPUS],
            local_generation: [const { Word::ZERO }; CPUS],
            call: Call::new(),
        }
    }

    /// Flushes A on this CPU, and records up to which generation.
    fn catch_up(&self, cpu: usize) {
        // Read before the flush, which does not cover later generations.
        let generation = self.generation.load(Acquire);
        x86::Insn.invpcid(Invpcid::Context, [u64::from(TAGS[A]), 0]);
        self.local_generation[cpu].set(generation);
    }

    /// Whether `target` must be interrupted.
    fn needs_flush(&self, target: usize, change: Change) -> bool {
        let loaded = self.loaded[target].load(Acquire);
        let this_cpu =
            loaded == A as u64 + 1 || self.flaw != Flaw::SkipsSwitching && loaded == SWITCHING;
        let tables = change == Change::Table && self.flaw != Flaw::SkipsLazy;
        this_cpu && (tables || self.lazy[target].load(Acquire) == 0)
    }
}

impl Operations for Generations {
    fn config(&self, cpus: usize) -> Config {
        Config::x86(cpus).with_interrupts()
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![
            ("generation", core::slice::from_ref(&self.generation)),
            ("loaded", &self.loaded),
            ("lazy", &self.lazy),
            ("local generation", &self.local_generation),
            ("unacknowledged", self.call.words()),
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
            keep = self.flaw == Flaw::NoCompare || self.local_generation[cpu].get() == generation;
            self.local_generation[cpu].set(generation);
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
        let behind = self.generation.load(Acquire) != self.local_generation[cpu].get();
        if behind && self.flaw != Flaw::WakesBlindly {
            self.catch_up(cpu);
        }
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, change: Change) {
        self.generation.fetch_add(1, SeqCst);
        let targets = each(kernel.others(cpu)).filter(|&target| self.needs_flush(target, change));
        self.call.send(targets.fold(0, |mask, target| mask | 1 << target));
        self.catch_up(cpu);
        self.call.wait();
    }

    fn interrupt(&self, _: &Kernel, cpu: usize) {
        // A CPU that has left A since compares generations on switch-in.
        if self.loaded[cpu].load(Relaxed) == A as u64 + 1 {
            self.catch_up(cpu);
        }
        self.call.acknowledge(cpu);
    }
}

const PAGE: super::kernel::Act = Take(Change::Page(0));
const TABLE: super::kernel::Act = Take(Change::Table);
const BACK: &[super::kernel::Act] = &[Run(B), Run(A)];
/// Switches back to A after the page was unmapped.
const BACK_AFTER: &[super::kernel::Act] = &[Run(B), Await, Run(A)];
const IDLES: &[super::kernel::Act] = &[Lazy, Wake];

pub(super) static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "no-generation-compare-on-return",
        arch: Arch::X86,
        record: "Linux's switch without its comparison of `tlb_gen` (on record); no system is known to \
                 leave it out. Mutant 9 of the field's list is the same idea.",
        why: "With PCIDs a CPU that leaves a space keeps its entries. An initiator does not interrupt CPUs \
              that run another space: they flush on their next switch-in. A CPU that does not compare \
              generations there misses that it needs a flush, loads the root with the old entries \
              kept, and uses a page that is unmapped.",
        expected: Expected::Breaks(Rule::StaleTranslation),
        repair: Some("compare generations on switch-in, and flush if behind"),
        open: |name, form| {
            open(name, form, &[&[PAGE, Tell], BACK_AFTER], |fixed| {
                Generations::new(if fixed { Flaw::None } else { Flaw::NoCompare })
            })
        },
    },
    Protocol {
        name: "switching-counts-as-away",
        arch: Arch::X86,
        record: "Linux, CVE-2025-37964, fixed by fea4e317f9e7 (commit).",
        why: "A CPU that switches to a space has read the generation and decided that it needs no \
              flush, but has not yet published that it runs the space. An initiator that raises the \
              generation now sees a CPU that runs another space, and skips it. The CPU loads the root \
              with the old entry kept.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("interrupt CPUs in mid-switch"),
        open: |name, form| {
            open(name, form, &[&[PAGE], BACK], |fixed| {
                Generations::new(if fixed { Flaw::None } else { Flaw::SkipsSwitching })
            })
        },
    },
    Protocol {
        name: "no-fence-before-the-generation",
        arch: Arch::X86,
        record: "Linux, fixed by 83b0177a6c48 in 2025 (commit): the mask bit was set \
                 already, so that no locked operation came between.",
        why: "A CPU publishes the space it switches to with a plain store, and reads the generation. The \
              store is still in its buffer while it reads the old value; an initiator raises the \
              generation, sees a CPU that runs another space, and skips it. The frame is freed, and \
              then the CPU loads the root with the old entry kept.",
        expected: Expected::Breaks(Rule::StaleTranslation),
        repair: Some("a full fence between the store and the load"),
        open: |name, form| {
            open(name, form, &[&[PAGE], BACK], |fixed| {
                Generations::new(if fixed { Flaw::None } else { Flaw::NoFence })
            })
        },
    },
    Protocol {
        name: "lazy-skipped-for-tables",
        arch: Arch::X86,
        record: "Linux, fixed by 2ff6ddf1 (commit).",
        why: "A lazy CPU runs no user code, so a page may be unmapped without interrupting it: it compares \
              generations when it leaves lazy mode. But its root register still names the space, and its \
              walker goes on. If a table is freed without interrupting it, hardware walks through \
              the next contents of that page.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("interrupt lazy CPUs, too, when a table is freed"),
        open: |name, form| {
            open(name, form, &[&[PAGE, TABLE], IDLES], |fixed| {
                Generations::new(if fixed { Flaw::None } else { Flaw::SkipsLazy })
            })
        },
    },
    Protocol {
        name: "wake-without-compare",
        arch: Arch::X86,
        record: "Linux's switch without the comparison when a lazy CPU resumes the same space (on \
                 record): mutant 16 of the field's list. No system is known to leave it out.",
        why: "A CPU that was lazy while a page was unmapped was not interrupted. It resumes the same space \
              without comparing generations, and uses the old entry.",
        expected: Expected::Breaks(Rule::StaleTranslation),
        repair: Some("compare generations when leaving lazy mode, and flush if behind"),
        open: |name, form| {
            open(name, form, &[&[PAGE], IDLES], |fixed| {
                Generations::new(if fixed { Flaw::None } else { Flaw::WakesBlindly })
            })
        },
    },
    Protocol {
        name: "generation-and-mask",
        arch: Arch::X86,
        record: "Linux on x86-64 since 4.14 (on record). Ours selects targets by \
                 what each CPU has loaded, and always flushes the whole PCID.",
        why: "Each flush raises the space's generation and interrupts the CPUs that run the space or are in \
              mid-switch; all others flush on switch-in. A switching CPU has a full fence between \
              publishing its state and reading the generation, and the initiator has one between raising \
              the generation and reading that state: one of the two sees the other. Lazy CPUs are \
              interrupted for tables, but not for pages.",
        expected: Expected::Sound,
        repair: None,
        open: |name, form| {
            const SCRIPTS: Scripts = &[&[PAGE, TABLE], &[Run(B), Lazy, Wake, Run(A), Lazy, Wake]];
            open(name, form, SCRIPTS, |_| Generations::new(Flaw::None))
        },
    },
];
