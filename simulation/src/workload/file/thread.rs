//! A thread of a workload file.

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::{self, Ps, tables};

use super::{
    Space,
    expression::Expression,
    gate::{self, Gate},
    scheduler::State,
    statement::{Act, Pages},
};
use crate::{
    data::LONGEST,
    kernel::{Change, Kernel, Process},
    workload::stage::NS,
};

/// What becomes of a thread after a statement.
pub(super) enum Next {
    /// It goes on.
    Go,
    /// Others have their turn.
    Again,
    /// It waits until its time has come.
    Sleeps,
    /// It has another CPU.
    Moved,
    /// It waits for another thread.
    Waits,
    /// It is over.
    Over,
}

/// A thread.
pub(super) struct Thread {
    id: usize,
    /// The group, and the place in it with how many are in it.
    pub(super) group: usize,
    pub(super) place: [usize; 2],
    /// The space that it runs in.
    pub(super) process: Process,
    /// The space whose pages its statement is about, if it is not its own.
    of: Option<usize>,
    /// The spaces of those that wait for it to exit.
    parents: Vec<Process>,
    /// The next statement.
    next: usize,
    /// Loops that it is in: the statement, the round, the number of rounds.
    loops: Vec<(usize, u64, Option<u64>)>,
    began: Vec<Option<Ps>>,
    /// How many locks it has that others spin at.
    pub(super) spins: usize,
    /// Which they are.
    held: Vec<usize>,
    /// The line in which it waits.
    pub(super) waits_in: Option<usize>,
    /// When its time passed last, and how many statements it has executed since.
    still: (Ps, u64),
}

/// So many statements that take no time are an endless loop.
const STILL: u64 = 1_000_000;
/// So many rounds of a loop by all threads of a group, with the rounds of those around it, are a mistake: they take minutes.
const ROUNDS: u64 = 10_000_000;
/// And so many pages, with the rounds of the loops around the statement.
const PAGES: u64 = 100_000_000;
/// The pages of the kernel, where a statement flushes any.
pub(super) const KERNEL_PAGES: u64 = 4096;

impl Thread {
    pub(super) fn new(id: usize, group: usize, place: [usize; 2], process: Process) -> Self {
        Self {
            id,
            group,
            place,
            process,
            of: None,
            parents: Vec::new(),
            next: 0,
            loops: Vec::new(),
            began: Vec::new(),
            spins: 0,
            held: Vec::new(),
            waits_in: None,
            still: (0, 0),
        }
    }

    /// The rounds of the innermost two loops.
    pub(super) fn rounds(&self) -> [u64; 2] {
        let round = |back: usize| {
            self.loops.len().checked_sub(back).and_then(|i| self.loops.get(i)).map_or(0, |l| l.1)
        };
        [round(1), round(2)]
    }

    /// Executes one statement.
    pub(super) fn step(&mut self, state: &State<'_>, kernel: &Kernel<'_>) -> Next {
        let workload = state.workload;
        let Some(statement) = workload.groups[self.group].statements.get(self.next) else {
            return Next::Over;
        };
        self.next += 1;
        self.waits_in = None;
        let line = statement.line;
        let acted = self.act(&statement.act, line, state, kernel);
        match acted.and_then(|next| self.must_take_time().map(|()| next)) {
            Ok(next) => {
                if matches!(next, Next::Waits) {
                    self.waits_in = Some(statement.line);
                }
                next
            }
            Err(why) => {
                state.stop(Some(format!("{}: {why}", statement.line)));
                Next::Over
            }
        }
    }

    fn number(&self, state: &State<'_>, expression: &Expression) -> Result<u64, String> {
        let value = expression.value(state.values(self));
        match (0.0..1e15).contains(&value) {
            true => Ok(value as u64),
            false => {
                Err(format!("a number is {value}, and has to be 0 or more and less than 1e15"))
            }
        }
    }

    fn time(&self, state: &State<'_>, expression: &Expression) -> Result<Ps, String> {
        let value = expression.value(state.values(self));
        match (0.0..=LONGEST).contains(&value) {
            true => Ok((value * NS as f64) as Ps),
            false => Err(format!("a time is {value} ns, and has to be from 0 to a second")),
        }
    }

    /// How often a statement is executed here, by all threads of the group, in so many rounds of one more loop. Rounds without
    /// end are not counted: their time is bounded.
    fn executions(&self, state: &State<'_>, more: Option<u64>) -> u64 {
        let around = self.loops.iter().filter_map(|(_, _, rounds)| *rounds);
        around.chain(more).fold(state.values(self).threads as u64, u64::saturating_mul)
    }

    /// The first of something and how many.
    fn numbers(&self, state: &State<'_>, [first, count]: &Pages) -> Result<[u64; 2], String> {
        Ok([self.number(state, first)?, self.number(state, count)?])
    }

    /// The first page and how many, which are in the space.
    fn pages(&self, state: &State<'_>, pages: &Pages) -> Result<[u64; 2], String> {
        let [first, pages] = self.numbers(state, pages)?;
        let all = self.process.pages;
        if first + pages > all {
            let end = first + pages;
            return Err(format!(
                "pages {first} to {end} of a space that has {all}; give it more `pages`"
            ));
        }
        let often = pages.saturating_mul(self.executions(state, None));
        if often > PAGES {
            return Err(format!(
                "{often} pages of all threads, with the rounds of the loops around it, are more than {PAGES}: take fewer"
            ));
        }
        Ok([first, pages])
    }

    /// Into the kernel and back.
    fn call(state: &State<'_>, kernel: &Kernel<'_>) {
        state.path(kernel, "call");
        kernel.path("isolation", state.isolated);
    }

    /// A call that finds and changes an area, which takes `path` besides.
    fn area_call(state: &State<'_>, kernel: &Kernel<'_>, path: &'static str) {
        Self::call(state, kernel);
        state.path(kernel, path);
    }

    fn change(
        &self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        pages: &Pages,
        (area, page, change): (&'static str, &'static str, Change),
    ) -> Result<Next, String> {
        let [first, pages] = self.pages(state, pages)?;
        Self::area_call(state, kernel, area);
        // A kernel flushes from the first page that was there to the last, and has no work with those that were not. Whoever
        // frees tables flushes what they were for.
        let there = match change {
            Change::Free => Some([first, pages, pages]),
            _ => tables::mapped(self.process.root, first, pages),
        };
        if let Some([first, pages, count]) = there.filter(|_| pages > 0) {
            kernel.path(page, count * kernel.machine().path_or_none(page));
            kernel.change(&self.process, first, pages, change);
        }
        if matches!(change, Change::Unmap | Change::Free) {
            self.forget_copies(state, [first, pages]);
        }
        Ok(Next::Go)
    }

    /// Refuses a loop in which nothing takes time: it would go on for ever.
    fn must_take_time(&mut self) -> Result<(), String> {
        let now = timed::now();
        self.still = if self.still.0 == now { (now, self.still.1 + 1) } else { (now, 0) };
        match self.still.1 < STILL {
            true => Ok(()),
            false => Err(format!(
                "{STILL} statements have taken no time: put something into the loop that takes some, such as `work 1 us`"
            )),
        }
    }

    fn act(
        &mut self,
        act: &Act,
        line: usize,
        state: &State<'_>,
        kernel: &Kernel<'_>,
    ) -> Result<Next, String> {
        match act {
            Act::Work(time) => {
                let time = self.time(state, time)?;
                timed::during("program", || timed::work(time));
            }
            Act::Sleep(time) => {
                self.must_not_spin()?;
                let time = self.time(state, time)?;
                Self::call(state, kernel);
                let cpu = timed::cpu().index();
                state.sleepers[cpu].borrow_mut().push((timed::now() + time, self.id));
                return Ok(Next::Sleeps);
            }
            Act::Touch(pages) => {
                let pages = self.pages(state, pages)?;
                timed::during("touch", || self.touch(state, kernel, pages));
            }
            Act::Populate(pages) => {
                let [first, pages] = self.pages(state, pages)?;
                kernel.map(&self.process, first, pages);
            }
            Act::Call => Self::call(state, kernel),
            Act::Path(path, times) => {
                let times = self.number(state, times)?;
                kernel.path(path, times * kernel.machine().path_or_none(path));
            }
            Act::Atomic(which) => {
                let word = &state.words[*which].0;
                timed::during("words", || word.fetch_add(1, Ordering::AcqRel));
            }
            Act::Write(pages) => self.write(state, kernel, pages)?,
            Act::Map(pages) => {
                self.pages(state, pages)?;
                Self::area_call(state, kernel, "map");
            }
            Act::Protect(pages) => {
                return self.change(state, kernel, pages, ("protect", "page", Change::Restrict));
            }
            Act::Allow(pages) => {
                return self.change(state, kernel, pages, ("protect", "page", Change::Promote));
            }
            Act::Discard(pages) => {
                return self.change(state, kernel, pages, ("discard", "freed", Change::Unmap));
            }
            Act::Unmap(pages) => {
                return self.change(state, kernel, pages, ("unmap", "freed", Change::Unmap));
            }
            Act::Free(pages) => {
                return self.change(state, kernel, pages, ("unmap", "freed", Change::Free));
            }
            Act::Flush(pages) => {
                let [first, pages] = self.pages(state, pages)?;
                if pages > 0 {
                    kernel.change(&self.process, first, pages, Change::Restrict);
                }
            }
            Act::FlushKernel(pages) => {
                let [first, pages] = self.numbers(state, pages)?;
                if first.saturating_add(pages) > KERNEL_PAGES {
                    return Err(format!(
                        "pages {first} to {} of the kernel: there are {KERNEL_PAGES}",
                        first.saturating_add(pages)
                    ));
                }
                if pages > 0 {
                    kernel.recycle_kernel(first, pages);
                }
            }
            Act::Interrupt(cpus) => {
                let [first, count] = self.numbers(state, cpus)?;
                let end = first.saturating_add(count);
                if end > state.sleepers.len() as u64 {
                    return Err(format!(
                        "there is no CPU {}: there are {}",
                        end - 1,
                        state.sleepers.len()
                    ));
                }
                kernel.call_functions(first as usize..end as usize);
            }
            Act::Reclaim(pages, batch) => self.reclaim(state, kernel, pages, batch.as_ref())?,
            Act::Of(space, whose, act) => {
                let other = self.other(state, *space, whose.as_ref())?;
                let own = core::mem::replace(&mut self.process, other);
                self.of = Some(*space);
                let next = self.act(act, line, state, kernel);
                (self.process, self.of) = (own, None);
                return next;
            }
            Act::Fork(_) => self.fork(state, kernel),
            Act::Exec(pages) => self.exec(state, kernel, pages)?,
            Act::Exit => {
                let parent = self.parents.pop().ok_or("there is no parent")?;
                state.path(kernel, "exit");
                self.all_entries(kernel);
                state.copied.borrow_mut().remove(&self.process.id);
                kernel.exit(&self.process, Some(&parent));
                self.process = parent;
            }
            Act::Lock(which) => return self.take(state, kernel, &state.locks[*which], gate::WHOLE),
            Act::Share(which) => return self.take(state, kernel, &state.locks[*which], 1),
            Act::Unlock(which) => {
                Self::call(state, kernel);
                state.wake(kernel, state.locks[*which].unlock()?);
            }
            Act::Spin(which) => {
                if self.held.contains(which) {
                    return Err("it has this lock already, and would wait for itself".to_owned());
                }
                let cpu = timed::cpu().index();
                state.spinning.borrow_mut().insert(cpu, (line, self.group));
                timed::during("locks", || state.locks[*which].spin.take());
                state.spinning.borrow_mut().remove(&cpu);
                self.spins += 1;
                self.held.push(*which);
            }
            Act::Leave(which) => {
                let held = self.held.iter().position(|held| held == which);
                self.held.swap_remove(held.ok_or("it does not have this lock")?);
                self.spins -= 1;
                state.locks[*which].spin.leave();
            }
            Act::Wait(which, whose) => {
                let semaphore = self.semaphore(state, *which, whose.as_ref())?;
                return self.take(state, kernel, semaphore, 1);
            }
            Act::Post(which, count, whose) => {
                let count = self.number(state, count)?;
                let semaphore = self.semaphore(state, *which, whose.as_ref())?;
                Self::call(state, kernel);
                state.wake(kernel, semaphore.give(count));
            }
            Act::Barrier => return self.meet(state, kernel),
            Act::Yield => {
                self.must_not_spin()?;
                Self::call(state, kernel);
                return Ok(Next::Again);
            }
            Act::Migrate(cpu) => {
                self.must_not_spin()?;
                let cpu = self.number(state, cpu)? as usize;
                if cpu >= state.sleepers.len() {
                    return Err(format!(
                        "there is no CPU {cpu}: there are {}",
                        state.sleepers.len()
                    ));
                }
                Self::call(state, kernel);
                if state.homes[self.id].replace(cpu) != cpu {
                    return Ok(Next::Moved);
                }
            }
            Act::Count(which) => {
                for counters in state.counts().map(|i| &state.counters[i]) {
                    counters[*which].set(counters[*which].get() + 1);
                }
            }
            Act::Begin(which) => {
                self.began.resize(self.began.len().max(which + 1), None);
                self.began[*which] = Some(timed::now());
            }
            Act::End(which) => {
                let began = self.began.get_mut(*which).and_then(Option::take);
                let began = began.ok_or("it has not begun")?;
                for timers in state.counts().map(|i| &state.timers[i]) {
                    let (count, time) = &timers[*which];
                    count.set(count.get() + 1);
                    time.set(time.get() + timed::now() - began);
                }
            }
            Act::Repeat(count, end) => {
                let rounds = count.as_ref().map(|count| self.number(state, count)).transpose()?;
                let all = self.executions(state, rounds);
                if rounds.is_some() && all > ROUNDS {
                    return Err(format!(
                        "{all} rounds of all threads, with those of the loops around it, are more than {ROUNDS}: take fewer, or \
                         write `forever` and a `time` at the head of the file"
                    ));
                }
                if rounds == Some(0) || (rounds.is_none() && state.is_over()) {
                    self.next = end + 1;
                } else {
                    self.loops.push((self.next - 1, 0, rounds));
                }
            }
            Act::Again(start) => {
                let (_, round, rounds) = self.loops.last_mut().ok_or("there is no loop")?;
                *round += 1;
                let goes_on = match rounds {
                    Some(rounds) => *round < *rounds,
                    None => !state.is_over(),
                };
                if goes_on {
                    self.next = start + 1;
                } else {
                    self.loops.pop();
                }
            }
        }
        Ok(Next::Go)
    }

    /// The process of another space: of which every thread has one, that of a number.
    fn other(
        &self,
        state: &State<'_>,
        space: usize,
        whose: Option<&Expression>,
    ) -> Result<Process, String> {
        let Some(whose) = whose else {
            let shared = state.shared[space];
            return shared.ok_or_else(|| "that space has no thread: its `count` is 0".to_owned());
        };
        let (which, all) = (self.number(state, whose)?, &state.own[space]);
        all.get(which as usize).copied().ok_or_else(|| {
            let name = &state.workload.program.spaces[space].name;
            format!("there is no `{name}` {which}: there are {}, from 0 on", all.len())
        })
    }

    /// A semaphore, or of one that every number has, that of this thread's or of the number that is said.
    fn semaphore<'s, 'a>(
        &self,
        state: &'s State<'a>,
        which: usize,
        whose: Option<&Expression>,
    ) -> Result<&'s Gate<'a>, String> {
        let gates = &state.semaphores[which];
        let Some(whose) = whose else {
            return Ok(gates.get(self.place[0]).unwrap_or(&gates[0]));
        };
        let number = self.number(state, whose)?;
        gates.get(number as usize).ok_or_else(|| {
            let name = &state.workload.program.semaphores[which].name;
            format!("there is no `{name}` {number}: there are {}, from 0 on", gates.len())
        })
    }

    fn must_not_spin(&self) -> Result<(), String> {
        match self.spins {
            0 => Ok(()),
            _ => {
                Err("it would sleep with a lock at which others spin; `leave` it before".to_owned())
            }
        }
    }

    /// The space of the file whose pages a statement is about: that which it runs in, unless it is a copy of the process or another program.
    fn space<'s>(&self, state: &'s State<'_>) -> Option<&'s Space> {
        let workload = state.workload;
        let own = || self.parents.is_empty().then(|| workload.groups[self.group].space);
        self.of.or_else(own).map(|space| &workload.spaces[space])
    }

    /// Pages that were unmapped are the file's again, where a file is mapped privately.
    fn forget_copies(&self, state: &State<'_>, [first, pages]: [u64; 2]) {
        if self.space(state).is_some_and(|space| space.private)
            && let Some(copied) = state.copied.borrow_mut().get_mut(&self.process.id)
        {
            (first..first + pages).for_each(|page| {
                copied.remove(&page);
            });
        }
    }

    /// Reads pages. A fault maps the aligned pages around as well, where the space says so.
    fn touch(&self, state: &State<'_>, kernel: &Kernel<'_>, [first, pages]: [u64; 2]) {
        let around = self.space(state).map_or(1, |space| space.around);
        let mut from = first;
        while let Err(missing) = timed::touch(from, first + pages - from) {
            state.path(kernel, "fault");
            let begin = missing - missing % around;
            let count = around.min(self.process.pages - begin);
            tables::map(self.process.root, begin, count, 0);
            from = missing;
        }
    }

    /// Writes to pages: to one that is shared until it is written to, to a copy of its own.
    fn write(&self, state: &State<'_>, kernel: &Kernel<'_>, pages: &Pages) -> Result<(), String> {
        let [first, pages] = self.pages(state, pages)?;
        let id = self.process.id;
        let is_shared = |page: u64| {
            state.copied.borrow().get(&id).is_some_and(|copied| !copied.contains(&page))
        };
        let copied = |page: u64| {
            if let Some(copied) = state.copied.borrow_mut().get_mut(&id) {
                copied.insert(page);
            }
        };
        for page in first..first + pages {
            if !is_shared(page) {
                timed::during("touch", || kernel.touch(&self.process, page, 1));
                continue;
            }
            let was_there = timed::during("touch", || timed::touch(page, 1)).is_ok();
            copied(page);
            if was_there {
                state.path(kernel, "fault");
                state.path(kernel, "copy");
                kernel.change(&self.process, page, 1, Change::Restrict);
            } else if self.space(state).is_some_and(|space| space.private) {
                state.path(kernel, "copy");
            }
            timed::during("touch", || kernel.touch(&self.process, page, 1));
        }
        Ok(())
    }

    /// Takes pages away one by one.
    fn reclaim(
        &self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        pages: &Pages,
        batch: Option<&Expression>,
    ) -> Result<(), String> {
        let [first, pages] = self.pages(state, pages)?;
        let batch = batch.map_or(Ok(1), |batch| self.number(state, batch))?;
        if batch == 0 {
            return Err("a batch is of 1 page at least, and here of 0".to_owned());
        }
        let change = if batch > 1 { Change::Batch } else { Change::Unmap };
        let freed = kernel.machine().path_or_none("freed");
        let mut next = first;
        while next < first + pages {
            let count = batch.min(first + pages - next);
            kernel.path("freed", count * freed);
            kernel.change(&self.process, next, count, change);
            next += count;
        }
        self.forget_copies(state, [first, pages]);
        Ok(())
    }

    /// What it takes to copy the entries of all pages that are there, or to take them out.
    fn all_entries(&self, kernel: &Kernel<'_>) {
        let there = tables::mapped(self.process.root, 0, self.process.pages);
        let count = there.map_or(0, |[.., count]| count);
        kernel.path("forked", count * kernel.machine().path_or_none("forked"));
    }

    /// A copy of the process goes on, and this waits for it to exit.
    fn fork(&mut self, state: &State<'_>, kernel: &Kernel<'_>) {
        state.path(kernel, "fork");
        self.all_entries(kernel);
        let child = kernel.spawn(self.process.pages, 0);
        kernel.fork(&self.process, &child);
        let mut copied = state.copied.borrow_mut();
        for id in [self.process.id, child.id] {
            copied.insert(id, std::collections::BTreeSet::new());
        }
        drop(copied);
        self.parents.push(self.process);
        self.process = child;
        state.path(kernel, "switch");
        kernel.switch(&child);
    }

    fn exec(
        &mut self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        pages: &Expression,
    ) -> Result<(), String> {
        if self.parents.is_empty() {
            return Err("`exec` is for a copy: it stands between `fork` and its `done`".to_owned());
        }
        let pages = self.number(state, pages)?.max(1);
        state.path(kernel, "exec");
        self.all_entries(kernel);
        let new = kernel.spawn(pages, 0);
        let old = core::mem::replace(&mut self.process, new);
        state.copied.borrow_mut().remove(&old.id);
        kernel.unmap_all(&old);
        kernel.execute(&new);
        kernel.release(&old);
        Ok(())
    }

    /// Takes so much of a gate, or waits at it.
    fn take(
        &self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        gate: &Gate<'_>,
        amount: u64,
    ) -> Result<Next, String> {
        self.must_not_spin()?;
        Self::call(state, kernel);
        Ok(if gate.take(self.id, amount) { Next::Go } else { Next::Waits })
    }

    /// Waits for all others whose program has a barrier.
    fn meet(&self, state: &State<'_>, kernel: &Kernel<'_>) -> Result<Next, String> {
        self.must_not_spin()?;
        let gate = &state.barrier;
        Self::call(state, kernel);
        gate.touch();
        if gate.waiters() as u64 + 1 < state.meet.get() {
            gate.wait(self.id, 1);
            return Ok(Next::Waits);
        }
        state.wake(kernel, gate.all());
        Ok(Next::Go)
    }
}
