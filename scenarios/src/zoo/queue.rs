//! Requests in queues.

use lookaside::{Ordering::*, Word as _};
use lookaside_machine::adversary::{Arch, Config, Rule, Word, interrupt, relax};

use super::{
    Expected, Specimen,
    acknowledge::{forget, load, untagged},
    kernel::{Act::*, Change, Kernel, Protocol, open},
};

/// A request for each page, and one target, whose queue holds one request.
struct Queue {
    repaired: bool,
    /// Which page is asked for, plus one.
    queue: Word,
    /// Which pages are asked for besides, a bit each, where the queue was full.
    wide: Word,
    /// Which pages the target has answered for.
    done: Word,
}

impl Protocol for Queue {
    fn config(&self, cpus: usize) -> Config {
        untagged(cpus)
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        let one = core::slice::from_ref;
        vec![("queue", one(&self.queue)), ("overflow", one(&self.wide)), ("done", one(&self.done))]
    }

    fn switch(&self, kernel: &Kernel, _: usize, _: Option<usize>, to: usize) {
        load(kernel, to);
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, change: Change) {
        let pages = change.pages().len();
        for page in 0..pages {
            let request = page as u64 + 1;
            let full = self.queue.compare_exchange(0, request, Release, Relaxed).is_err();
            if full && self.repaired {
                self.wide.fetch_or(1 << page, Release);
            }
            interrupt(kernel.others(cpu));
        }
        forget();
        while self.done.load(Acquire) != (1 << pages) - 1 {
            relax();
        }
    }

    fn interrupt(&self, _: &Kernel, _: usize) {
        let first = self.queue.swap(0, Acquire);
        let asked = self.wide.swap(0, Acquire) | (1 << first) >> 1;
        forget();
        self.done.fetch_or(asked, Release);
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
          request, and one initiator with two pages fills it; a longer one takes more of either.",
    expected: Expected::Breaks(Rule::NoProgress),
    repair: Some("when the queue is full, ask for a full flush in a word that cannot be"),
    open: |name, form| {
        open(name, form, &[&[Take(Change::Both)], &[Load(0)]], |repaired| Queue {
            repaired,
            queue: Word::ZERO,
            wide: Word::ZERO,
            done: Word::ZERO,
        })
    },
}];
