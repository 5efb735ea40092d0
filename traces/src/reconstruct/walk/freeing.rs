//! The end of threads and spaces: when a space is freed that its last thread has left, by its end or for another
//! program.

use super::{Operation, Walk};
use crate::{
    Event, Kind, Reason,
    reconstruct::{
        number::{ALL, RawAct},
        tasks::{Frees, Task, Tasks},
    },
};

impl Walk<'_> {
    /// A thread ends.
    pub(super) fn exit(&mut self, event: &Event, id: u32) {
        self.forget_call(id);
        let Some(task) = self.tasks.tasks.get_mut(&id) else { return };
        let space = task.space.take();
        task.ending = true;
        if space.is_none() {
            return;
        }
        let here = self.cpus[usize::from(event.cpu)].running == Some(id);
        if here {
            self.step(event, id, Operation::Exit, RawAct::Idle);
        }
        space.into_iter().for_each(|space| self.stop_writing_back(event, space));
        let before = space.map_or(0, |space| self.flushes_before_end(space));
        if !self.tasks.leave(space) {
            return;
        }
        if let Some(space) = space {
            self.frees(event, id, space, before);
        }
    }

    /// A thread has to free the space that it was the last to use: now, unless it is seen to do so later.
    pub(super) fn frees(&mut self, event: &Event, id: u32, space: u32, before: u32) {
        if let Some(task) = self.tasks.tasks.get_mut(&id) {
            task.frees = Some(Frees { space, before, told: false });
        }
        match self.ahead.is_ours(id, self.place) {
            true if self.ahead.frees.contains(&self.place) => {}
            true => self.free(event, id),
            // Nobody is known to share its pages.
            false => self.tasks.free(space),
        }
    }

    /// A thread that ends, or executes, is seen to flush, or to have freed its space. Others may have had its CPU since.
    pub(super) fn freed(&mut self, event: &Event) {
        // What a switch says comes under the name of the thread that was left.
        let runs = self.cpus[usize::from(event.cpu)].running == Some(event.task);
        if !runs || event.in_interrupt == Some(true) {
            return;
        }
        let Some(task) = self.tasks.tasks.get_mut(&event.task) else { return };
        let (executing, operation) = (task.executing, frees_in(task));
        let Some(frees) = &mut task.frees else { return };
        if let Kind::Flush { reason: Reason::Switch, .. } = event.kind
            && executing
        {
            // It turns to the new space.
            return;
        }
        if let Kind::Flush { reason, .. } = event.kind
            && frees.before > 0
        {
            // What others were told of it does itself, too; with that it leaves the space.
            let again = reason != Reason::Send && frees.told;
            frees.told = reason == Reason::Send;
            if !again {
                frees.before -= 1;
                let space = frees.space;
                self.step(event, event.task, operation, part_of_end(space));
            }
            return;
        }
        self.free(event, event.task);
    }

    /// The last thread of a space leaves it, and others may be in calls that write its pages back: what they have not flushed by
    /// now is still dirty.
    pub(super) fn stop_writing_back(&mut self, event: &Event, space: u32) {
        let Tasks { tasks, spaces, .. } = &mut self.tasks;
        if spaces[space as usize].users > 1 {
            return;
        }
        for task in tasks.values_mut() {
            let (Some(caller), Some(open)) = (task.space, &mut task.call) else { continue };
            // What has the time of the end may have come after it.
            let time = event.time.saturating_sub(self.start);
            let told = open.times.iter().filter(|(_, flushed)| *flushed < event.time).count();
            let steps = open
                .flushes
                .iter()
                .filter_map(|&(cpu, place, _)| self.cpus[usize::from(cpu)].steps.get(place));
            let said = told.max(steps.filter(|step| step.time < time).count());
            let dirty = open.written.space_ends(caller, space, said);
            spaces[space as usize].memory.dirty(&dirty);
        }
    }

    /// How many flushes the end of a space takes before that of its tables, if its last thread leaves it now.
    pub(super) fn flushes_before_end(&self, space: u32) -> u32 {
        let state = &self.tasks.spaces[space as usize];
        if state.users <= 1 { state.memory.flushes_before_end() } else { 0 }
    }

    /// The space that a thread was the last to use is freed.
    pub(super) fn free(&mut self, event: &Event, id: u32) {
        let Some(task) = self.tasks.tasks.get_mut(&id) else { return };
        let operation = frees_in(task);
        if let Some(Frees { space, before, .. }) = task.frees.take() {
            if self.ahead.is_ours(id, self.place) {
                for _ in 0..before {
                    self.step(event, id, operation, part_of_end(space));
                }
            }
            self.step(event, id, operation, RawAct::End(space));
            self.tasks.free(space);
        }
    }
}

/// The operation in which a thread frees the space that it left.
const fn frees_in(task: &Task) -> Operation {
    if task.executing { Operation::Execute } else { Operation::Exit }
}

/// Pages of a space that ends go, and all of it is flushed, while its page tables stay.
const fn part_of_end(space: u32) -> RawAct {
    RawAct::Unmap { space, first: 0, last: ALL, tables: false, whole: false }
}
