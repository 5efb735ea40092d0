//! Waits that never end.

use lookaside::platform::{Ordering::*, Word as _};
use lookaside_machine::adversary::{
    Arch, Config, Rule, Word, interrupt, irq_off, irq_on, relax, reset,
};

use super::{
    Expected, Protocol,
    acknowledge::{forget, load, untagged},
    kernel::{A, Act::*, CPUS, Call, Change, Kernel, Operations, Scripts, each, open},
};

/// Initiators wait with interrupts off.
struct Deaf {
    fixed: bool,
    /// For each initiator, the CPUs that have not acknowledged its request.
    unacknowledged: [Word; CPUS],
}

impl Deaf {
    /// Flushes for every initiator that waits for `cpu`, and acknowledges.
    fn serve(&self, kernel: &Kernel, cpu: usize) {
        for initiator in each(kernel.others(cpu)) {
            if self.unacknowledged[initiator].load(Acquire) & 1 << cpu != 0 {
                forget();
                self.unacknowledged[initiator].fetch_and(!(1 << cpu), Release);
            }
        }
    }
}

impl Operations for Deaf {
    fn config(&self, cpus: usize) -> Config {
        untagged(cpus)
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![("unacknowledged", &self.unacknowledged)]
    }

    fn switch(&self, kernel: &Kernel, _: usize, _: Option<usize>, to: usize) {
        load(kernel, to);
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, _: Change) {
        irq_off();
        self.unacknowledged[cpu].store(kernel.others(cpu), Relaxed);
        interrupt(kernel.others(cpu));
        forget();
        while self.unacknowledged[cpu].load(Acquire) != 0 {
            if self.fixed {
                self.serve(kernel, cpu);
            }
            relax();
        }
        irq_on();
    }

    fn interrupt(&self, kernel: &Kernel, cpu: usize) {
        self.serve(kernel, cpu);
    }
}

/// All CPUs that count as up are interrupted.
struct Roll {
    fixed: bool,
    up: Word,
    call: Call,
}

impl Operations for Roll {
    fn config(&self, cpus: usize) -> Config {
        untagged(cpus)
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![("up", core::slice::from_ref(&self.up)), ("unacknowledged", self.call.words())]
    }

    fn switch(&self, kernel: &Kernel, cpu: usize, from: Option<usize>, to: usize) {
        if from.is_none() {
            self.up.fetch_or(1 << cpu, SeqCst);
        }
        load(kernel, to);
    }

    fn online(&self, kernel: &Kernel, cpu: usize) {
        // Initialising the interrupt controller loses interrupts that were sent before.
        if self.fixed {
            reset();
        }
        self.up.fetch_or(1 << cpu, SeqCst);
        if !self.fixed {
            reset();
        }
        load(kernel, A);
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, _: Change) {
        self.call.send(self.up.fetch_or(0, SeqCst) & kernel.others(cpu));
        forget();
        self.call.wait();
    }

    fn interrupt(&self, _: &Kernel, cpu: usize) {
        forget();
        self.call.acknowledge(cpu);
    }
}

pub(super) static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "wait-with-interrupts-off",
        arch: Arch::X86,
        record: "eco-M14: Uros#317 and Quark#527 (threads); Asterinas had #1602 (thread) and panics today \
                 rather than wait so; Redox polls in six places against it (read in the source).",
        why: "Two CPUs take a page each, at the same time and with interrupts off. Each waits for the \
              other to acknowledge, neither takes the other's interrupt, and both wait for ever. A lock that \
              a target spins on with interrupts off while the initiator holds it does the same.",
        expected: Expected::Breaks(Rule::NoProgress),
        repair: Some("handle requests while waiting"),
        open: |name, form| {
            const SCRIPTS: Scripts = &[&[Take(Change::Page(0))], &[Take(Change::Page(1))]];
            open(name, form, SCRIPTS, |fixed| Deaf {
                fixed,
                unacknowledged: [const { Word::ZERO }; CPUS],
            })
        },
    },
    Protocol {
        name: "online-before-interrupts",
        arch: Arch::X86,
        record: "tgoskits#1179, fixed in #1196 (eco-M15, threads). On RISC-V, `hart_start` returns before \
                 the hart runs, which invites the same.",
        why: "A CPU counts as up before it can take interrupts. An initiator interrupts it, the request \
              reaches an interrupt controller that is not set up, and is lost; the initiator waits for \
              ever for the answer. One that would not wait would find the CPU with a stale translation.",
        expected: Expected::Breaks(Rule::NoProgress),
        repair: Some("count the CPU as up when it can take interrupts"),
        open: |name, form| {
            open(name, form, &[&[Take(Change::Page(0))], &[Online]], |fixed| Roll {
                fixed,
                up: Word::ZERO,
                call: Call::new(),
            })
        },
    },
];
