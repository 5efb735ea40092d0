//! Asking other CPUs, waiting for them, and answering them meanwhile.

use super::{
    board::{KEPT, Notice},
    inbox::{Asked, Called, Demand, TOLD_APART, Whose},
};
use crate::{
    counts::Event,
    here::Here,
    platform::{CpuId, Platform, Stuck, Targets},
    space::Space,
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
    way: Way,
}

/// How the targets learn what is asked of them, and where they answer.
#[derive(Clone, Copy)]
enum Way {
    /// Each by a number in its box.
    Boxes,
    /// All by this number on the board.
    Board(u64),
    /// They run a space, are called, and look up what they owe on it up to this generation.
    Debts { label: u64, generation: u64, lazily: bool, crowded: bool },
}

impl<'h, 't, P: Platform, T: Tags<P>> Shootdown<'h, 't, P, T> {
    /// Writes down what will be asked.
    pub(crate) fn new(here: &'h Here<'t, P, T>, demand: &Demand<'_>) -> Self {
        here.inbox().describe(demand);
        Self::begin(here, Way::Boxes)
    }

    /// Writes down, where those look who run the space that owes this, what will be asked. CPUs that are lazy
    /// in the space must act if `lazily`.
    pub(crate) fn of_debtors(
        here: &'h Here<'t, P, T>,
        space: &Space<'_, P>,
        demand: &Demand<'_>,
        lazily: bool,
    ) -> Self {
        let Whose::Space { label, last, .. } = demand.whose else { return Self::new(here, demand) };
        here.inbox().describe(demand);
        let crowded = space.is_crowded();
        Self::begin(here, Way::Debts { label, generation: last, lazily, crowded })
    }

    /// Writes down, for every CPU to see, what will be asked. The tables have been changed before.
    pub(crate) fn of_everyone(here: &'h Here<'t, P, T>, demand: &Demand<'_>) -> Self {
        let notice = Notice::new(here.id(), demand);
        if let Notice::Described(_) = notice {
            here.inbox().describe(demand);
        }
        let number = here.tlb().board().post(notice);
        here.inbox().note_own(number);
        Self::begin(here, Way::Board(number))
    }

    const fn begin(here: &'h Here<'t, P, T>, way: Way) -> Self {
        let none = Targets { first: CpuId(0), mask: 0 };
        Self { here, groups: [none; WINDOW], begun: 0, done: 0, targets: 0, rounds: 0, way }
    }

    /// Asks these CPUs. This one may be among them, if it holds something of a space that it does not run: it
    /// answers itself while it waits, so it is not interrupted.
    pub(crate) fn ask(&mut self, group: Targets) {
        if group.mask == 0 {
            return;
        }
        if self.begun - self.done == WINDOW {
            self.await_oldest();
        }
        let mut interrupted = group;
        for cpu in group.iter() {
            let Some(target) = self.here.tlb().inbox(cpu) else { continue };
            match self.way {
                Way::Boxes => target.post(self.here.id()),
                Way::Board(_) => break,
                Way::Debts { crowded, .. } => {
                    if !target.call(self.here.id(), crowded) {
                        interrupted.mask &= !(1 << (cpu.0 - group.first.0));
                    }
                }
            }
        }
        let own = self.here.id().0.wrapping_sub(group.first.0);
        if own < u64::BITS {
            interrupted.mask &= !(1 << own);
        }
        // Who called a CPU interrupts it, and does nothing before: others count on it.
        if interrupted.mask != 0 {
            self.here.tlb().platform().interrupt(interrupted);
        }
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
        let posted = match self.way {
            Way::Boxes => target.latest(),
            Way::Board(number) => number,
            Way::Debts { generation, .. } => generation,
        };
        let mut rounds = 0_u64;
        loop {
            let acknowledged = match self.way {
                Way::Boxes => target.answered(),
                Way::Board(_) => target.answered_on_board(),
                Way::Debts { label, lazily, .. } => T::paid(self.here.tlb(), cpu, label, lazily),
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
        self.serve_board();
        // The others last: nothing is read there between the last invalidation and the answer.
        self.serve_box();
        if T::PAYS_BY_GENERATION {
            self.serve_calls();
        }
    }

    /// Pays what is owed on the space that this CPU runs, if it was called for that.
    fn serve_calls(&self) {
        let inbox = self.inbox();
        let called = inbox.called();
        if called == Called::No {
            return;
        }
        let mut useful = 0;
        if let Called::By(only) = called {
            useful = T::pay_asker(&self.strategy(), only);
            // The call is taken back after the answer, so that nobody waits for that.
            if useful > 0 && inbox.heed_one(only) {
                return self.served(useful, useful);
            }
        }
        inbox.heed();
        useful += T::catch_up(&self.strategy());
        self.served(useful.max(1), useful);
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
                self.bar();
                inbox.answer(latest);
                let useful = self.meet(&asked, 1);
                self.unbar();
                return self.served(requests, useful);
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
            Whose::Space { .. } => T::pay(&self.strategy(), &asked.demand()),
            Whose::Kernel => {
                asked.sweep.flush_kernel(self.mmu(), self.errata());
                true
            }
            Whose::EverySpace => {
                T::pay_all(&self.strategy());
                true
            }
        };
        if useful { requests } else { 0 }
    }

    fn served(&self, requests: u64, useful: u64) {
        self.tlb().platform().observe(Event::Served { requests, useful });
    }
}
