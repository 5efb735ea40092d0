//! The program of a modelled CPU: it executes steps, and computes in between.

use core::cell::Cell;

use lookaside::platform::CpuId;
use lookaside_machine::timed::{self, AccountId, Price, Ps, Sent};
use lookaside_simulation::{
    kernel::{Kernel, Process},
    strategy::Flush,
};
use lookaside_traces::reconstruct::{Act, Operation, SpaceId, Step};

use super::{
    accesses::{Cursor, Pages},
    interrupts::Arrivals,
    plan::Wait,
    player::{NS, Player, START, Space, US},
};

/// How long a CPU waits at least, and at most, before it looks again whether a step of another is over.
const PATIENCE: [Ps; 2] = [200 * NS, 100 * US];

/// Pieces of so many pages are aligned in a space, as in the script.
const PIECE: u32 = 512;

/// The steps of a recorded CPU that a modelled CPU executes.
pub(super) struct Duty<'a> {
    steps: &'a [Step],
    waits: &'a [Wait],
    /// Its place among all duties.
    number: usize,
    next: Cell<usize>,
    next_wait: Cell<usize>,
    /// The space that it runs, if it runs user code.
    running: Cell<Option<SpaceId>>,
    cursor: Cursor,
}

impl<'a> Duty<'a> {
    /// These steps, of which none is done; `number` is its place among all duties.
    pub(super) fn new(steps: &'a [Step], waits: &'a [Wait], number: usize) -> Self {
        Self {
            steps,
            waits,
            number,
            next: Cell::new(0),
            next_wait: Cell::new(0),
            running: Cell::new(None),
            cursor: Cursor::default(),
        }
    }
}

/// The program of one modelled CPU.
pub(super) struct Program<'p, 'a> {
    player: &'p Player<'a>,
    kernel: &'p Kernel<'a>,
    copy: usize,
    duties: Vec<Duty<'a>>,
    /// The duty whose program has the CPU; if that duty runs no program, the kernel has the CPU.
    current: Cell<usize>,
}

impl<'p, 'a> Program<'p, 'a> {
    pub(super) const fn new(
        player: &'p Player<'a>,
        kernel: &'p Kernel<'a>,
        copy: usize,
        duties: Vec<Duty<'a>>,
    ) -> Self {
        Self { player, kernel, copy, duties, current: Cell::new(0) }
    }

    /// Executes all steps of its duties.
    pub(super) fn run(&self) {
        while let Some(number) = self.next_duty() {
            let duty = &self.duties[number];
            let place = duty.next.get();
            let step = &duty.steps[place];
            self.compute_until(self.time(step.time) - self.lead(step));
            self.wait(duty, place);
            self.execute(number, step);
            duty.next.set(place + 1);
            self.player.done[duty.number].set(place as u32 + 1);
            self.player.steps.set(self.player.steps.get() + 1);
        }
        self.compute_until(self.time(self.player.script.length));
    }

    /// The time of a script event on this CPU.
    fn time(&self, time: u64) -> Ps {
        START + self.player.shifts[self.copy] + time * NS
    }

    /// The duty with the next step.
    fn next_duty(&self) -> Option<usize> {
        if let [only] = &self.duties[..] {
            return (only.next.get() < only.steps.len()).then_some(0);
        }
        let time = |(number, duty): (usize, &Duty<'_>)| {
            duty.steps.get(duty.next.get()).map(|step| (step.time, number))
        };
        self.duties.iter().enumerate().filter_map(time).min().map(|(_, number)| number)
    }

    /// Waits until the steps that must precede this one are over.
    fn wait(&self, duty: &Duty<'_>, place: usize) {
        let recorded = self.player.script.cpus.len();
        while let Some(wait) = duty.waits.get(duty.next_wait.get()) {
            if wait.step as usize != place {
                return;
            }
            let done = &self.player.done[self.copy * recorded + wait.other.cpu as usize];
            let mut patience = PATIENCE[0];
            while done.get() <= wait.other.step {
                timed::idle_until(timed::now() + patience);
                patience = PATIENCE[1].min(2 * patience);
            }
            duty.next_wait.set(duty.next_wait.get() + 1);
        }
    }

    fn space(&self, space: SpaceId) -> &Space {
        // Threads of one process are threads of one process in every copy.
        let shared = self.player.script.spaces[space.0 as usize].threads > 1;
        let copy = if shared { 0 } else { self.copy };
        &self.player.spaces[copy * self.player.script.spaces.len() + space.0 as usize]
    }

    /// The first page of a copy's own part of a space. Pages from before the trace come first.
    fn first_page(&self, space: SpaceId) -> u32 {
        let space = &self.player.script.spaces[space.0 as usize];
        let copy = if space.threads > 1 { self.copy as u32 } else { 0 };
        self.player.setup.working_set.room() + copy * part(space.pages)
    }

    /// The process of a space, made if it is not there yet; none if it has ended.
    fn process(&self, id: SpaceId) -> Option<Process> {
        let space = self.space(id);
        if space.ended.get() {
            return None;
        }
        if let Some(process) = space.process.get() {
            return Some(process);
        }
        let set = &self.player.setup.working_set;
        let recorded = &self.player.script.spaces[id.0 as usize];
        let copies = if recorded.threads > 1 { self.player.plan.copies } else { 1 };
        let pages = set.room() + copies as u32 * part(recorded.pages);
        let process = self.kernel.spawn(pages.into(), set.pages().into());
        if recorded.older {
            self.kernel.strategy().is_older(process.id);
        }
        if let Some(other) = space.process.get() {
            // Another CPU was quicker.
            self.kernel.release(&process);
            return Some(other);
        }
        space.process.set(Some(process));
        *space.pages.borrow_mut() = Pages::new(set);
        Some(process)
    }

    /// The program that has the CPU computes until `end`; without one the CPU idles.
    fn compute_until(&self, end: Ps) {
        let duty = &self.duties[self.current.get()];
        let Some(id) = duty.running.get() else {
            while timed::now() < end {
                timed::idle_until(end);
            }
            return;
        };
        let set = &self.player.setup.working_set;
        let user = self.player.accounts.user(id);
        let refills = &self.player.refills[timed::cpu().index()];
        timed::during("program", || {
            loop {
                let now = timed::now();
                if now >= end {
                    return;
                }
                let part = (end - now).min(set.window * NS);
                let (account, until) = refills.get();
                let account = if now < until { account } else { user };
                timed::on_behalf(account, || {
                    duty.cursor.access(set, &self.space(id).pages, part);
                });
                // The time of the accesses is part of the computing time.
                let left = (now + part).saturating_sub(timed::now());
                timed::on_behalf(user, || timed::work(left));
            }
        });
    }

    fn execute(&self, number: usize, step: &Step) {
        let account = self.player.accounts.initiator(step.initiator);
        timed::on_behalf(account, || self.act(number, step, account));
    }

    fn act(&self, number: usize, step: &Step, account: AccountId) {
        let duty = &self.duties[number];
        match step.act {
            Act::Run(id) => {
                let Some(_) = self.process(id) else { return };
                let before = duty.running.replace(Some(id));
                if before != Some(id) {
                    let runners = &self.space(id).runners;
                    runners.set(runners.get() + 1);
                }
                let operation = self.player.script.initiators[step.initiator as usize].operation;
                let turn = match step.counted {
                    _ if operation == Operation::Execute => Kernel::execute,
                    true => Kernel::switch,
                    false => Kernel::switch_uncounted,
                };
                let look = self.recorded().and_then(|all| all.look(duty.number, step.time));
                let first = self.time(step.time).max(timed::now());
                timed::pausing(first, look.map(|time| time * NS), || {
                    self.turn_to(number, account, turn);
                });
                if before != Some(id) {
                    self.leave(before);
                }
                return;
            }
            Act::Idle => {
                let before = duty.running.take();
                self.rest(number, step.task == 0, account);
                return self.leave(before);
            }
            _ => {}
        }
        if self.current.get() != number && duty.running.get().is_some() {
            self.turn_to(number, account, Kernel::switch);
        }
        match step.act {
            Act::Run(_) | Act::Idle => {}
            Act::Map { space, first, pages } => {
                let Some(process) = self.process(space) else { return };
                let first = self.first_page(space) + first;
                self.kernel.map(&process, first.into(), pages.into());
                self.space(space).pages.borrow_mut().add(first, pages);
            }
            Act::Restrict { space, first, pages, whole } => {
                let change = || self.change(space, (first, pages), true, false, whole, account);
                self.as_recorded(duty, step, change);
            }
            Act::Unmap { space, first, pages, tables, whole } => {
                let change = || self.change(space, (first, pages), false, tables, whole, account);
                self.as_recorded(duty, step, change);
            }
            Act::PageOut { space, page } => {
                self.as_recorded(duty, step, || self.page_out(space, page, account));
            }
            Act::Fork { parent, child } => {
                let (Some(old), Some(new)) = (self.process(parent), self.process(child)) else {
                    return;
                };
                let pages = self.space(parent).pages.borrow().clone();
                *self.space(child).pages.borrow_mut() = pages;
                self.flush(account, || self.kernel.fork(&old, &new));
            }
            Act::End(space) if self.player.script.initiators[step.initiator as usize].recorded => {
                self.end(number, space, account);
            }
            Act::End(_) => self.kernel.leave(),
        }
    }

    /// What the trace says of the time in which single operations did their parts, if the CPUs are the recorded ones.
    fn recorded(&self) -> Option<&Arrivals> {
        let Player { setup, plan, script, .. } = self.player;
        let as_recorded = plan.copies == 1 && plan.cpus == script.cpus.len();
        setup.arrivals.filter(|_| as_recorded)
    }

    /// Executes a flush, in the time that its parts took where the trace says so.
    fn as_recorded(&self, duty: &Duty<'_>, step: &Step, change: impl FnOnce()) {
        let ask = self.recorded().and_then(|all| all.ask(duty.number, step.time));
        let first = self.flushes_at(step);
        timed::sending(self.sent(duty, step, first), || {
            timed::pausing(first, ask.map(|time| time * NS), change);
        });
    }

    /// When a flush that begins now raises the space's generation.
    fn flushes_at(&self, step: &Step) -> Ps {
        self.time(step.time).max(timed::now() + self.lead(step))
    }

    /// How much before its time a step begins: the kernel says that it flushes when it has raised the space's generation.
    fn lead(&self, step: &Step) -> Ps {
        let flushes =
            matches!(step.act, Act::Restrict { .. } | Act::Unmap { .. } | Act::PageOut { .. });
        if flushes && self.recorded().is_some() { timed::lead() } else { 0 }
    }

    /// What the trace says of the interrupts of a step whose flush is at `first`: when they arrived, and when their sender
    /// went on.
    fn sent(&self, duty: &Duty<'_>, step: &Step, first: Ps) -> Sent {
        let Some(all) = self.recorded() else { return Sent::default() };
        // A request's handler is recorded behind the entry of its interrupt, and so the interrupt comes before the moment that
        // is recorded. That the sender goes on is put before by as much: which came first is as recorded.
        let entry = self.player.setup.machine.model.prices.charge(Price::InterruptEntry);
        let at = |recorded: u64| first + (recorded * NS).saturating_sub(entry);
        let arrivals = all.near(duty.number, step.time).into_iter();
        Sent {
            arrivals: arrivals.map(|(target, time)| (CpuId(target.into()), at(time))).collect(),
            until: all.goes_on(duty.number, step.time).map(|(time, next)| (at(time), next)),
        }
    }

    fn flush(&self, account: AccountId, f: impl FnOnce()) {
        self.player.count(account);
        self.player.flushes.set(self.player.flushes.get() + 1);
        self.player.timed(0, 0, f);
        self.player.refills_for(account);
    }

    fn change(
        &self,
        space: SpaceId,
        (first, pages): (u32, u32),
        stays: bool,
        tables: bool,
        whole: bool,
        account: AccountId,
    ) {
        let Some(process) = self.process(space) else { return };
        let (first, pages) = (u64::from(self.first_page(space) + first), u64::from(pages));
        let mut flush = Flush { tables, ..Flush::pages(process.id, first, pages) };
        // With all the pages of the space nobody knows for the sake of which.
        flush.everything = whole || pages == self.player.script.spaces[space.0 as usize].pages;
        // A full flush does not record whether tables were freed: they may have been, and are in one that everything was
        // made of because another thread gathered. Only the end of a space says that they stay.
        flush.tables |= flush.everything && (whole || stays);
        // What was flushed was there, whether somebody saw it come or not.
        timed::tables::map(process.root, first, pages, 0);
        self.flush(account, || self.kernel.change_and(&process, first, pages, stays, &flush));
    }

    /// Takes a page away, as a batch of one.
    fn page_out(&self, space: SpaceId, page: u32, account: AccountId) {
        let Some(process) = self.process(space) else { return };
        let page = u64::from(self.first_page(space) + page);
        let flush = Flush { batch: true, ..Flush::pages(process.id, page, 1) };
        timed::tables::map(process.root, page, 1, 0);
        self.flush(account, || self.kernel.change_and(&process, page, 1, false, &flush));
    }

    /// Gives the CPU to a program, or to the new program of an `execve`; `turn` selects which.
    fn turn_to(&self, number: usize, account: AccountId, turn: fn(&Kernel<'a>, &Process)) {
        let Some(id) = self.duties[number].running.get() else { return };
        let Some(process) = self.process(id) else { return };
        self.current.set(number);
        self.player.count(account);
        // Of a recording of a command, switches to other programs are not its own.
        let recorded = self.player.accounts.who(account).is_none_or(|who| who.recorded);
        if recorded {
            self.player.switches.set(self.player.switches.get() + 1);
            self.player.timed(1, 0, || turn(self.kernel, &process));
        } else {
            turn(self.kernel, &process);
        }
        self.player.refills_for(account);
    }

    /// A duty has no program any more. Another's gets the CPU, if there is one.
    fn rest(&self, number: usize, halts: bool, account: AccountId) {
        if self.current.get() != number && self.duties[self.current.get()].running.get().is_some() {
            return;
        }
        if let Some(other) = self.duties.iter().position(|duty| duty.running.get().is_some()) {
            return self.turn_to(other, account, Kernel::switch);
        }
        if halts { self.kernel.halt() } else { self.kernel.idle() }
    }

    /// A recorded CPU has left a space.
    fn leave(&self, space: Option<SpaceId>) {
        let Some(id) = space else { return };
        let space = self.space(id);
        space.runners.set(space.runners.get() - 1);
        self.release(space);
    }

    fn end(&self, number: usize, id: SpaceId, account: AccountId) {
        let Some(process) = self.process(id) else { return };
        let (space, duty) = (self.space(id), &self.duties[number]);
        if duty.running.get() == Some(id) {
            // Who exits has no space of its own from here on.
            duty.running.set(None);
            self.rest(number, false, account);
            space.runners.set(space.runners.get() - 1);
        }
        let shared = self.player.script.spaces[id.0 as usize].threads > 1;
        space.ends.set(space.ends.get() + 1);
        if shared && space.ends.get() < self.player.plan.copies as u32 {
            return; // Other copies have threads in it, which may be there for longer.
        }
        self.flush(account, || self.kernel.unmap_all(&process));
        space.ended.set(true);
        *space.pages.borrow_mut() = Pages::default();
        self.release(space);
    }

    /// Gives a space back that has ended and that nobody runs.
    fn release(&self, space: &Space) {
        if space.ended.get()
            && space.runners.get() == 0
            && let Some(process) = space.process.take()
        {
            self.kernel.release(&process);
        }
    }
}

/// The pages of a space, in whole pieces.
pub(super) fn part(pages: u64) -> u32 {
    (pages as u32).next_multiple_of(PIECE)
}
