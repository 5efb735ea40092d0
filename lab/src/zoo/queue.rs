//! Requests in queues.

use lookaside::{Ordering::*, Word as _};
use lookaside_machine::adversary::{Arch, Config, Rule, Word, interrupt, relax};

use super::{
    Expected, Specimen,
    acknowledge::{forget, load, untagged},
    kernel::{Act::*, CPUS, Change, Kernel, Protocol, Scripts, each, open},
};

/// Each target has a queue of one request.
struct Queue {
    repaired: bool,
    /// Who asks each target, plus one.
    queue: [Word; CPUS],
    /// Who asks each target besides, where the queue was full.
    wide: [Word; CPUS],
    /// Who has answered each initiator.
    done: [Word; CPUS],
}

impl Protocol for Queue {
    fn config(&self, cpus: usize) -> Config {
        untagged(cpus)
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![("queue", &self.queue), ("overflow", &self.wide), ("done for", &self.done)]
    }

    fn switch(&self, kernel: &Kernel, _: usize, _: Option<usize>, to: usize) {
        load(kernel, to);
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, _: Change) {
        for target in each(kernel.others(cpu)) {
            let own = cpu as u64 + 1;
            let full = self.queue[target].compare_exchange(0, own, Release, Relaxed).is_err();
            if full && self.repaired {
                self.wide[target].fetch_or(1 << cpu, Release);
            }
        }
        interrupt(kernel.others(cpu));
        forget();
        while self.done[cpu].load(Acquire) != kernel.others(cpu) {
            relax();
        }
    }

    fn interrupt(&self, _: &Kernel, cpu: usize) {
        let first = self.queue[cpu].swap(0, Acquire);
        let asked = self.wide[cpu].swap(0, Acquire) | (1 << first) >> 1;
        forget();
        each(asked).for_each(|initiator| {
            self.done[initiator].fetch_or(1 << cpu, Release);
        });
    }
}

pub(super) static SPECIMENS: &[Specimen] = &[Specimen {
    name: "overflow-drops-the-request",
    arch: Arch::X86,
    record: "NrOS, `enqueue`: the result of the push is thrown away (eco-M10, read in the source at \
             38557a67). What its initiator does then the record does not say; ours waits for its \
             answer.",
    why: "Each CPU has a queue of requests. When it is full, a request is dropped and nobody is told. \
          An initiator that waits for the answer to it waits for ever; one that counts only what it \
          could queue gives back a frame that the target may still use. Here the queue holds one \
          request, and two initiators are enough; a longer one takes more of them.",
    expected: Expected::Breaks(Rule::NoProgress),
    repair: Some("when the queue is full, ask for a full flush in a word that cannot be"),
    open: |name, form| {
        const SCRIPTS: Scripts = &[&[Take(Change::Page(0))], &[], &[Take(Change::Page(1))]];
        open(name, form, SCRIPTS, |repaired| Queue {
            repaired,
            queue: [const { Word::ZERO }; CPUS],
            wide: [const { Word::ZERO }; CPUS],
            done: [const { Word::ZERO }; CPUS],
        })
    },
}];
