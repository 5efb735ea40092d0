//! Asking other CPUs, waiting for them, and answering them meanwhile.

use super::{
    board::{KEPT, Notice},
    inbox::{Asked, Demand, TOLD_APART, Whose},
};
use crate::{
    arch::Mmu,
    counts::Event,
    here::Here,
    platform::{CpuId, Platform, Stuck, Targets},
    tags::Tags,
};

/// How many groups of CPUs may be under way at one time. A group has up to 64; more than this many
/// at once only make the initiator wait for the first before it asks the last.
const WINDOW: usize = 16;

/// [`Platform::stuck`] is told after this many rounds of waiting, and whenever they have doubled. So
/// many take a millisecond at the very least: a thousand times what an answer takes.
const PATIENCE: u64 = 1 << 20;

/// One request to any number of CPUs.
pub(crate) struct Shootdown<'h, 't, P: Platform, T: Tags<P>> {
    here: &'h Here<'t, P, T>,
    groups: [Targets; WINDOW],
    begun: usize,
    done: usize,
    targets: u32,
    rounds: u64,
    /// The number on the board, if everyone is asked there.
    number: Option<u64>,
}

impl<'h, 't, P: Platform, T: Tags<P>> Shootdown<'h, 't, P, T> {
    /// Writes down what will be asked.
    pub(crate) fn new(here: &'h Here<'t, P, T>, demand: &Demand<'_>) -> Self {
        here.inbox().describe(demand);
        Self::begin(here, None)
    }

    /// Writes down, for every CPU to see, what will be asked. The tables have been changed before.
    pub(crate) fn of_everyone(here: &'h Here<'t, P, T>, demand: &Demand<'_>) -> Self {
        let notice = Notice::new(here.id(), demand);
        if let Notice::Described(_) = notice {
            here.inbox().describe(demand);
        }
        let number = here.tlb().board().post(notice);
        here.inbox().note_own(number);
        Self::begin(here, Some(number))
    }

    const fn begin(here: &'h Here<'t, P, T>, number: Option<u64>) -> Self {
        let none = Targets { first: CpuId(0), mask: 0 };
        Self { here, groups: [none; WINDOW], begun: 0, done: 0, targets: 0, rounds: 0, number }
    }

    /// Asks these CPUs, of which this one is none.
    pub(crate) fn ask(&mut self, group: Targets) {
        if group.mask == 0 {
            return;
        }
        if self.begun - self.done == WINDOW {
            self.await_oldest();
        }
        if self.number.is_none() {
            for cpu in group.iter() {
                if let Some(target) = self.here.tlb().inbox(cpu) {
                    target.post(self.here.id());
                }
            }
        }
        self.here.tlb().platform().interrupt(group);
        self.groups[self.begun % WINDOW] = group;
        self.begun += 1;
        self.targets += group.count();
    }

    /// Returns when all have answered: how many there were, and how long it took in rounds.
    pub(crate) fn wait(mut self) -> (u32, u64) {
        while self.done < self.begun {
            self.await_oldest();
        }
        (self.targets, self.rounds)
    }

    fn await_oldest(&mut self) {
        let group = self.groups[self.done % WINDOW];
        for cpu in group.iter() {
            self.await_one(cpu);
        }
        self.done += 1;
    }

    fn await_one(&mut self, cpu: CpuId) {
        let Some(target) = self.here.tlb().inbox(cpu) else { return };
        // Somebody may have asked after us. To wait for that number too costs at most one more round
        // of the target, and spares us a note of ours for each target.
        let posted = self.number.unwrap_or_else(|| target.latest());
        let mut rounds = 0_u64;
        loop {
            let acknowledged = match self.number {
                Some(_) => target.answered_on_board(),
                None => target.answered(),
            };
            if acknowledged >= posted {
                break;
            }
            // The target may be waiting for us, with interrupts off as we are.
            self.here.serve();
            self.here.tlb().platform().relax();
            rounds += 1;
            if rounds >= PATIENCE && rounds.is_power_of_two() {
                let waiting = self.here.id();
                let stuck = Stuck { waiting, target: cpu, posted, acknowledged, rounds };
                self.here.tlb().platform().stuck(&stuck);
            }
        }
        self.rounds += rounds;
    }
}

impl<P: Platform, T: Tags<P>> Here<'_, P, T> {
    /// Answers what other CPUs ask of this one. The handler of [`Platform::interrupt`] calls it, and
    /// so does every wait of this library; a kernel that spins with interrupts off, for a lock whose
    /// holder may flush, calls it in its own loop.
    ///
    /// When it returns, this CPU holds nothing that was asked for, or drops it before it loads the
    /// root of its space again.
    pub fn serve(&self) {
        // The box last: nothing is read there between the last invalidation and the answer.
        self.serve_board();
        self.serve_box();
    }

    /// Answers what was asked of every CPU.
    fn serve_board(&self) {
        let (inbox, board) = (self.inbox(), self.tlb().board());
        let dealt_with = inbox.dealt_with_on_board();
        let latest = board.latest();
        if latest <= dealt_with {
            return;
        }
        let requests = latest - dealt_with;
        let useful = if requests <= KEPT {
            // What this CPU asks of the others it does without being told.
            let numbers = (dealt_with + 1..=latest).filter(|&number| number != inbox.own());
            let asked = numbers.map(|number| board.asked(number, |cpu| self.tlb().inbox(cpu)));
            asked.map(|asked| self.meet(&asked, 1)).sum()
        } else {
            self.meet(&Asked::EVERYTHING, requests)
        };
        inbox.answer_board(latest);
        self.served(requests, useful);
    }

    /// Answers what was asked of this CPU.
    fn serve_box(&self) {
        let inbox = self.inbox();
        let dealt_with = inbox.dealt_with();
        let latest = inbox.latest();
        if latest <= dealt_with {
            return;
        }
        let requests = latest - dealt_with;
        let useful = if requests == 1 {
            // Everything is read before the first invalidation, and one store follows the last:
            // both invalidations and the return from an interrupt may make a CPU wait for its loads.
            let asked = self.asked(latest);
            if asked.early {
                inbox.answer(latest);
                return self.served(requests, self.meet(&asked, 1));
            }
            self.meet(&asked, 1)
        } else if requests <= TOLD_APART {
            self.meet_several(dealt_with + 1, latest)
        } else {
            self.meet(&Asked::EVERYTHING, requests)
        };
        inbox.answer(latest);
        self.served(requests, useful);
    }

    /// Meets several requests, successive ones for one space as one.
    fn meet_several(&self, first: u64, last: u64) -> u64 {
        let mut useful = 0;
        let (mut sum, mut requests) = (self.asked(first), 1);
        for number in first + 1..=last {
            let asked = self.asked(number);
            if sum.add(&asked) {
                requests += 1;
            } else {
                useful += self.meet(&sum, requests);
                (sum, requests) = (asked, 1);
            }
        }
        useful + self.meet(&sum, requests)
    }

    fn asked(&self, number: u64) -> Asked {
        self.inbox().demand(number, |cpu| self.tlb().inbox(cpu))
    }

    /// Does what so many requests ask for, and says how many of them found anything to do.
    fn meet(&self, asked: &Asked, requests: u64) -> u64 {
        let useful = match asked.whose {
            _ if asked.sweep.is_empty() => false,
            Whose::Space { .. } => T::pay(self, &asked.demand()),
            Whose::Kernel => {
                asked.sweep.flush_kernel(self.mmu(), self.errata());
                true
            }
            Whose::EverySpace => {
                self.mmu().flush_all(self.errata());
                true
            }
        };
        if useful { requests } else { 0 }
    }

    fn served(&self, requests: u64, useful: u64) {
        self.tlb().platform().observe(Event::Served { requests, useful });
    }
}
