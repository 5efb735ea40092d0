//! A thread of a workload file.

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::{self, Ps};

use super::{
    expression::Expression,
    gate::{self, Gate},
    state::State,
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
    /// It is over, and so is its process.
    Exited,
}

/// The process of which a thread runs as the child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    pub(super) process: Process,
    /// Whether it waits for the child to exit, and is this thread.
    pub(super) waits: bool,
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
    pub(super) of: Option<usize>,
    /// Its parent, and the parent of that one, last first.
    pub(super) parents: Vec<Parent>,
    /// The next statement.
    pub(super) next: usize,
    /// Loops that it is in: the statement, the round, the number of rounds.
    pub(super) loops: Vec<(usize, u64, Option<u64>)>,
    pub(super) began: Vec<Option<Ps>>,
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

    pub(super) fn number(&self, state: &State<'_>, expression: &Expression) -> Result<u64, String> {
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
    pub(super) fn executions(&self, state: &State<'_>, more: Option<u64>) -> u64 {
        let around = self.loops.iter().filter_map(|(_, _, rounds)| *rounds);
        around.chain(more).fold(state.values(self).threads as u64, u64::saturating_mul)
    }

    /// The first of something and how many.
    pub(super) fn numbers(
        &self,
        state: &State<'_>,
        [first, count]: &Pages,
    ) -> Result<[u64; 2], String> {
        Ok([self.number(state, first)?, self.number(state, count)?])
    }

    /// Into the kernel and back.
    pub(super) fn call(state: &State<'_>, kernel: &Kernel<'_>) {
        state.path(kernel, "call");
        kernel.path("isolation", state.isolated);
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
            Act::Populate(pages) => return self.populate(state, kernel, pages),
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
                    let order = self.flush_order(state, first, pages);
                    kernel.change_entries(&self.process, [first, pages], order, Change::Restrict);
                }
            }
            Act::FlushKernel(pages) => self.flush_kernel(state, kernel, pages)?,
            Act::Interrupt(cpus) => {
                let [first, count] = self.numbers(state, cpus)?;
                let end = first.saturating_add(count);
                if end > state.cpus() as u64 {
                    return Err(no_cpu(state, end - 1));
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
            Act::Fork(child, end) => self.fork(state, kernel, child, *end)?,
            Act::Exec(pages) => self.exec(state, kernel, pages)?,
            Act::Exit => return self.exit(state, kernel),
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
                let cpu = self.cpu(state, cpu)?;
                Self::call(state, kernel);
                if state.move_to(self.id, cpu) {
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

    /// The number of a CPU.
    pub(super) fn cpu(&self, state: &State<'_>, cpu: &Expression) -> Result<usize, String> {
        let cpu = self.number(state, cpu)?;
        if cpu < state.cpus() as u64 { Ok(cpu as usize) } else { Err(no_cpu(state, cpu)) }
    }

    pub(super) fn must_not_spin(&self) -> Result<(), String> {
        match self.spins {
            0 => Ok(()),
            _ => {
                Err("it would sleep with a lock at which others spin; `leave` it before".to_owned())
            }
        }
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
        if self.parents.iter().any(|parent| !parent.waits) {
            return Err("a child that runs beside its parent comes to no `barrier`".to_owned());
        }
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

fn no_cpu(state: &State<'_>, cpu: u64) -> String {
    format!("there is no CPU {cpu}: there are {}", state.cpus())
}
