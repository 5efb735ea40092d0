//! Requests in queues.

use lookaside::platform::{Ordering::*, Word as _};
use lookaside_machine::adversary::{Arch, Config, Rule, Word, interrupt, relax};

use super::{
    Expected, Protocol,
    acknowledge::{forget, load, untagged},
    kernel::{Act::*, Change, Kernel, Operations, open},
};

/// A request for each page, and one target, whose queue holds one request.
struct Queue {
    fixed: bool,
    /// The page that is requested, plus one.
    queue: Word,
    /// Further pages that were requested while the queue was full, a bit each.
    wide: Word,
    /// The pages that the target has acknowledged.
    done: Word,
}

impl Operations for Queue {
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
            if full && self.fixed {
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

pub(super) static PROTOCOLS: &[Protocol] = &[Protocol {
    name: "overflow-drops-the-request",
    arch: Arch::X86,
    record: "NrOS, `enqueue`: the result of the push is thrown away (eco-M10, read in the source at \
             38557a67). The record does not say what its initiator does then; ours waits for its \
             answer.",
    why: "Each CPU has a queue of requests. When it is full, a request is dropped without an error. \
          An initiator that waits for the answer to it waits for ever; one that counts only what it \
          could queue gives back a frame that the target may still use. Here the queue holds one \
          request, and one initiator with two pages fills it; a longer one takes more of either.",
    expected: Expected::Breaks(Rule::NoProgress),
    repair: Some("when the queue is full, request a full flush in a word that cannot be full"),
    open: |name, form| {
        open(name, form, &[&[Take(Change::Both)], &[Load(0)]], |fixed| Queue {
            fixed,
            queue: Word::ZERO,
            wide: Word::ZERO,
            done: Word::ZERO,
        })
    },
}];
