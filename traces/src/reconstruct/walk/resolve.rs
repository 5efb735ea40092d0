//! What a thread does to its space: calls, faults, and flushes that the kernel recorded.

use super::{STACK, Walk};
use crate::{
    Call, Event, Pages, Reason, fault,
    reconstruct::{
        Flushes, Operation,
        linux::{self, Effect, Flush, Gathers},
        memory::Outcome,
        number::{ALL, RawAct},
        tasks::{Open, State, Tasks},
    },
};

/// A flush belongs to the fault before it if no more time is between them, in nanoseconds: enough for
/// a page to be copied, and for its thread to lose its turn meanwhile.
const FAULT: u64 = 1_000_000;

impl Walk<'_> {
    /// A call is over; `flushed` is when it flushed, where that had to be found out.
    pub(super) fn returned(&mut self, event: &Event, call: Call, value: i64, flushed: Option<u64>) {
        let Some(task) = self.tasks.tasks.get_mut(&event.task) else { return };
        (task.fault, task.told) = (None, false);
        let Some(space) = task.space else { return };
        let open = task.call.as_ref().is_some_and(|open| open.call == call);
        let how = match &task.call {
            Some(open) => linux::gathers(open.call, &open.arguments),
            None => Gathers::No,
        };
        let now = self.tasks.spaces[space as usize].crowded(how);
        let Some(Open {
            call, arguments, flushes, times, crowded, began, stopped, written, ..
        }) = self.forget_call(event.task)
        else {
            return;
        };
        // What gathers looks for others before its last flush.
        let crowded = if times.is_empty() { now } else { crowded };
        if !open || call == Call::Close && self.tasks.is_borrowed(space) {
            return;
        }
        let Tasks { spaces, frames, .. } = &mut self.tasks;
        let State { memory, users, batched, .. } = &mut spaces[space as usize];
        let late = if *batched { memory.walks(call, &arguments, value) } else { None };
        *batched &= late.is_none();
        let mut effect = memory.call(call, &arguments, value, frames, &mut self.budget);
        if *users > 1 {
            effect.defer(call, &arguments);
        }
        written.finish(space, value, spaces, &mut effect);
        if crowded {
            effect.crowd(call, &arguments, value);
        }
        effect.flushes.splice(..0, late.map(linux::everything));
        self.unknown.mappings += u64::from(effect.unknown);
        match self.source {
            Flushes::FromCalls => {
                // Where the kernel does not say when: halfway through the work. What goes is freed after that,
                // and others are waited for.
                let end = stopped.unwrap_or(event.time);
                let halfway = began.1 + end.saturating_sub(began.1) / 2;
                let somewhen = times.last().copied();
                let somewhen = somewhen.unwrap_or((began.0, flushed.unwrap_or(halfway)));
                // What nobody says is done before what is said next.
                let first = times.first().copied().unwrap_or(somewhen);
                let mut times = times.into_iter();
                let mut latest = None;
                for flush in &effect.flushes {
                    let said = flush.of.is_none_or(|other| other.said);
                    if said {
                        latest = times.next().or(Some(somewhen));
                    }
                    let (cpu, time) = latest.unwrap_or(first);
                    let flushed = Event { cpu, time, ..*event };
                    let crowded = crowded && flush.gathered;
                    let counted = if crowded { Pages::Everything } else { flush.counted };
                    if said {
                        self.expect(counted);
                    }
                    let few = flush.last - flush.first < 33;
                    let whole = crowded || few && counted == Pages::Everything;
                    self.step(
                        &flushed,
                        event.task,
                        Operation::Call(call),
                        act(space, flush, whole),
                    );
                }
            }
            Flushes::Recorded => self.refine(space, &flushes, &effect),
        }
        if let Some((first, last)) = effect.mapped {
            let act = RawAct::Map { space, first, last };
            self.step(event, event.task, Operation::Call(call), act);
        }
    }

    /// What a call did is known now: the flushes that were recorded in it get their pages.
    fn refine(&mut self, space: u32, flushes: &[(u16, usize, Pages)], effect: &Effect) {
        let said = |flush: &&Flush| flush.of.is_none_or(|other| other.said);
        let same = flushes.len() == effect.flushes.iter().filter(said).count();
        let mut rest = effect.flushes.iter().filter(said);
        for &(cpu, place, pages) in flushes {
            // As many as were found: one by one. Else those of the same size find each other.
            let found = if same {
                rest.next()
            } else {
                let mut ahead = rest.clone();
                let found = ahead.find(|flush| flush.counted == pages);
                if found.is_some() {
                    rest = ahead;
                }
                found
            };
            let Some(mut flush) = found.copied() else { continue };
            let mut whole = false;
            match (pages, flush.counted) {
                (Pages::Some(n), _) if pages != flush.counted && n > 0 => {
                    let had = flush.last - flush.first + 1;
                    self.unknown.unseen_pages += u64::from(n).saturating_sub(had);
                    flush.last = flush.first.saturating_add(u64::from(n) - 1).min(ALL - 1);
                }
                (Pages::Everything, Pages::Some(_)) => whole = true,
                (Pages::Everything, Pages::Everything) => whole = flush.last - flush.first < 33,
                _ => {}
            }
            let raw = act(space, &flush, whole);
            self.note(raw);
            if let Some(step) = self.cpus[usize::from(cpu)].steps.get_mut(place) {
                step.act = raw;
            }
        }
    }

    pub(super) fn fault(&mut self, event: &Event, page: u64, code: u64) {
        let Some(task) = self.tasks.tasks.get_mut(&event.task) else { return };
        task.fault = Some((page, event.time));
        task.told = false;
        let Some(space) = task.space else { return };
        const COPY: u64 = fault::PRESENT | fault::WRITE;
        if code & COPY == COPY {
            self.tasks.find_shared(space, page);
        }
        let Tasks { tasks, spaces, frames, .. } = &mut self.tasks;
        let memory = &mut spaces[space as usize].memory;
        // Who else has a page from before the trace nobody knows: it is taken for somebody's.
        let guessed = !memory.complete && !memory.has(page);
        let outcome = memory.fault(page, code, frames);
        if let Some(task) = tasks.get_mut(&event.task) {
            task.brings = matches!(outcome, Outcome::Mapped { .. });
        }
        let operation = Operation::Fault;
        self.unknown.mappings += u64::from(guessed && outcome == Outcome::Copied);
        match outcome {
            Outcome::Mapped { first, last } => {
                self.step(event, event.task, operation, RawAct::Map { space, first, last });
            }
            Outcome::Copied if self.source == Flushes::FromCalls => {
                let act = RawAct::Restrict { space, first: page, last: page, whole: false };
                self.step(event, event.task, operation, act);
                self.expect(Pages::Some(1));
            }
            Outcome::Copied | Outcome::Allowed | Outcome::Nothing => {}
        }
    }

    /// Whether a flush is one with which the kernel takes pages of a space away by itself, as nothing but the flush says: a
    /// batch (reason 2), or, where nobody else holds the space, a page alone in a fault that flushes nothing. The latter counts
    /// only in a space of which a batch was seen, or by a thread that does one at some time: other things that no event shows
    /// flush a page, too.
    pub(super) fn page_out(
        &mut self,
        place: usize,
        event: &Event,
        reason: Reason,
        pages: Pages,
    ) -> bool {
        if event.in_interrupt == Some(true) {
            return false;
        }
        let batch = self.ahead.page_outs.contains(&place);
        let batches = self.ahead.page_out_tasks.contains(&event.task);
        let Some(task) = self.tasks.tasks.get(&event.task) else { return false };
        let asked = task.call.as_ref().is_some_and(|it| linux::pages_out(it.call, &it.arguments));
        let alone = reason == Reason::LocalSpace
            && pages == Pages::Some(1)
            && !task.told
            && task.call.is_none()
            && task.brings
            && task.fault.is_some();
        let Some(space) = task.space else { return false };
        let operation = if task.fault.is_some() { Operation::Fault } else { Operation::Other };
        let state = &mut self.tasks.spaces[space as usize];
        if batch || (alone && (batches || state.paged_out)) {
            state.paged_out = true;
            state.batched |= batch;
            let page = state.memory.first_page().unwrap_or(STACK);
            self.step(event, event.task, operation, RawAct::PageOut { space, page });
            return true;
        }
        // Others were told of it, and that was the step.
        reason == Reason::Local && !asked
    }

    /// A flush of which others were told is of fewer pages than they were told.
    fn correct(&mut self, task: u32, pages: Pages) {
        let Some(task) = self.tasks.tasks.get_mut(&task) else { return };
        let Some(Open { flushes, .. }) = &mut task.call else { return };
        let Some((.., said)) = flushes.last_mut() else { return };
        if let (Pages::Some(fewer), Pages::Some(before)) = (pages, *said)
            && fewer < before
        {
            if let Some(count) = self.expected.get_mut(said) {
                *count -= 1;
            }
            *said = pages;
            self.expect(pages);
        }
    }

    /// The kernel recorded a flush, that it told others of it (`told`) or that it did it itself.
    pub(super) fn recorded(&mut self, place: usize, event: &Event, pages: Pages, told: bool) {
        if self.ahead.forks.contains(&place) {
            if told || !self.told_before(event.task) {
                self.expect(pages);
            }
            self.set_told(event.task, told);
            return;
        }
        if !told && self.told_before(event.task) {
            // If it is of more pages than others were told, it catches up with flushes that others
            // began meanwhile. If it is of fewer, only tables are gone: the kernel tells others how many pages they
            // span, and counts them in steps of a table itself.
            self.set_told(event.task, false);
            self.correct(event.task, pages);
            return;
        }
        self.introduce(event.task, None);
        self.set_told(event.task, told && !self.tells_of_another(event));
        let Some(task) = self.tasks.tasks.get_mut(&event.task) else {
            self.unknown.addresses += 1;
            return;
        };
        let Some(space) = task.space else {
            // What ends has nothing to flush that its end does not stand for.
            self.unknown.addresses += u64::from(!task.ending);
            return;
        };
        let near = task.fault.filter(|(_, time)| event.time.saturating_sub(*time) <= FAULT);
        let one = pages == Pages::Some(1);
        let (operation, first, last) = match (&task.call, near) {
            (_, Some((page, _))) if one => (Operation::Fault, page, page),
            _ if task.executing => (Operation::Execute, STACK, STACK),
            (Some(open), _) => {
                let operation = Operation::Call(open.call);
                match linux::subject(open.call, &open.arguments) {
                    Some(range) => (operation, range.start, range.end - 1),
                    None => (operation, 0, ALL),
                }
            }
            _ => (Operation::Other, 0, ALL),
        };
        let (first, last) = match (pages, last) {
            (Pages::Everything, _) => (first, last),
            (Pages::Some(_), ALL) => {
                self.unknown.addresses += u64::from(!matches!(operation, Operation::Call(_)));
                let first = self.tasks.spaces[space as usize].memory.first_page().unwrap_or(STACK);
                (first, first)
            }
            _ => (first, last),
        };
        if pages == Pages::Everything && last == ALL && operation == Operation::Other {
            self.unknown.addresses += 1;
        }
        let last = match pages {
            Pages::Some(n) if last != ALL => {
                first.saturating_add(u64::from(n).saturating_sub(1)).min(ALL - 1)
            }
            _ => last,
        };
        let whole = pages == Pages::Everything && (last == ALL || last - first < 33);
        let act = if operation == Operation::Execute {
            RawAct::Unmap { space, first, last, tables: whole, whole }
        } else {
            RawAct::Restrict { space, first, last, whole }
        };
        let step = self.cpus[usize::from(event.cpu)].steps.len();
        self.step(event, event.task, operation, act);
        self.expect(pages);
        if let Operation::Call(_) = operation
            && let Some(task) = self.tasks.tasks.get_mut(&event.task)
            && let Some(open) = &mut task.call
        {
            open.flushes.push((event.cpu, step, pages));
        }
    }

    /// The kernel says that a thread flushes, or tells others of it (`told`): of use is when.
    pub(super) fn flushes_now(&mut self, event: &Event, told: bool) {
        let of_another = self.tells_of_another(event);
        let Some(task) = self.tasks.tasks.get_mut(&event.task) else { return };
        // What others were told, the thread does itself, too.
        let again = !told && task.told;
        task.told = told && !of_another;
        if let Some(open) = &mut task.call
            && !again
            && task.fault.is_none()
        {
            open.times.push((event.cpu, event.time));
            let how = linux::gathers(open.call, &open.arguments);
            let state = task.space.map(|space| &self.tasks.spaces[space as usize]);
            open.crowded = state.is_some_and(|state| state.crowded(how));
        }
    }

    /// Whether a flush of which a thread tells others can be of another space alone, so that it does none itself: it writes
    /// back pages of other spaces too, and nobody but its CPU holds its own.
    fn tells_of_another(&self, event: &Event) -> bool {
        let Some(task) = self.tasks.tasks.get(&event.task) else { return false };
        let (Some(space), Some(open)) = (task.space, &task.call) else { return false };
        let held = self.tasks.spaces[space as usize].cpus.iter().any(|&cpu| cpu != event.cpu);
        open.written.has_others() && !held
    }

    fn told_before(&self, task: u32) -> bool {
        self.tasks.tasks.get(&task).is_some_and(|task| task.told)
    }

    fn set_told(&mut self, task: u32, told: bool) {
        if let Some(task) = self.tasks.tasks.get_mut(&task) {
            task.told = told;
        }
    }
}

/// A flush as a step.
fn act(space: u32, flush: &Flush, whole: bool) -> RawAct {
    let Flush { first, last, gone, tables, of, .. } = *flush;
    let space = of.map_or(space, |other| other.space);
    if gone {
        RawAct::Unmap { space, first, last, tables, whole }
    } else {
        RawAct::Restrict { space, first, last, whole }
    }
}
