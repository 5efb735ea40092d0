//! Children of processes: `fork`, `vfork`, `exec` and the exit.

use lookaside_machine::timed::tables;

use super::{
    expression::Expression,
    state::State,
    statement::Child,
    thread::{Next, Parent, Thread},
};
use crate::kernel::{Kernel, Process};

impl Thread {
    /// A child of the process begins. The statements that it executes come next, for it; for a parent that does not wait, those
    /// after the statement number `end`.
    pub(super) fn fork(
        &mut self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        child: &Child,
        end: usize,
    ) -> Result<(), String> {
        match child {
            Child::Copy => {
                let process = self.copy(state, kernel);
                self.parents.push(Parent { process: self.process, waits: true });
                self.process = process;
                state.path(kernel, "switch");
                kernel.switch(&process);
            }
            Child::On(cpu) => {
                self.must_not_spin()?;
                let cpu = self.cpu(state, cpu)?;
                let process = self.copy(state, kernel);
                let child = state.add(|id| self.child(id, process), cpu);
                state.path(kernel, "wake");
                state.ready(kernel, child);
                self.next = end + 1;
            }
            // The two take turns in one space. The path is all that both do, its switches and the exit too.
            Child::Vfork => {
                state.path(kernel, "vfork");
                self.parents.push(Parent { process: self.process, waits: true });
            }
        }
        Ok(())
    }

    /// A copy of the process, with its pages.
    fn copy(&self, state: &State<'_>, kernel: &Kernel<'_>) -> Process {
        state.path(kernel, "fork");
        let child = kernel.spawn(self.process.pages, 0);
        Self::entries_of(state, kernel, &self.process, Some(&child));
        state.map_child(self.process.id, child.id);
        kernel.fork(&self.process, &child);
        state.sharing.borrow_mut().fork(self.process.id, child.id);
        child
    }

    /// The thread of a child that runs beside this one, before its first statement.
    fn child(&self, id: usize, process: Process) -> Self {
        let mut child = Self::new(id, self.group, self.place, process);
        child.parents.clone_from(&self.parents);
        child.parents.push(Parent { process: self.process, waits: false });
        child.next = self.next;
        child.loops.clone_from(&self.loops);
        child.began.clone_from(&self.began);
        child
    }

    /// Whether it runs in its parent's space: between `vfork` and `exec`.
    fn borrows_space(&self) -> bool {
        self.parents.last().is_some_and(|parent| parent.process.id == self.process.id)
    }

    /// Whether it runs in the space that the file says.
    pub(super) fn is_in_first_space(&self) -> bool {
        self.parents.iter().all(|parent| parent.process.id == self.process.id)
    }

    /// The child runs another program.
    pub(super) fn exec(
        &mut self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        pages: &Expression,
    ) -> Result<(), String> {
        if self.parents.is_empty() {
            let why = "`exec` is for a child: it stands between `fork` or `vfork` and its `done`";
            return Err(why.to_owned());
        }
        let pages = self.new_pages(state, pages)?;
        state.path(kernel, "exec");
        let borrowed = self.borrows_space();
        let new = kernel.spawn(pages, 0);
        let old = core::mem::replace(&mut self.process, new);
        if borrowed {
            kernel.execute(&new);
            return Ok(());
        }
        Self::entries_of(state, kernel, &old, None);
        state.sharing.borrow_mut().end(old.id);
        state.end_memory(old.id);
        kernel.unmap_all(&old);
        kernel.execute(&new);
        kernel.release(&old);
        Ok(())
    }

    /// The child exits, and its parent goes on if it has waited.
    pub(super) fn exit(&mut self, state: &State<'_>, kernel: &Kernel<'_>) -> Result<Next, String> {
        let borrowed = self.borrows_space();
        let parent = self.parents.pop().ok_or("there is no parent")?;
        if !borrowed {
            state.path(kernel, "exit");
            Self::entries_of(state, kernel, &self.process, None);
            state.sharing.borrow_mut().end(self.process.id);
            state.end_memory(self.process.id);
            kernel.exit(&self.process, parent.waits.then_some(&parent.process));
        }
        self.process = parent.process;
        Ok(if parent.waits { Next::Go } else { Next::Exited })
    }

    /// What it takes to copy the entries of all pages that are there for a child, or to take them out.
    fn entries_of(
        state: &State<'_>,
        kernel: &Kernel<'_>,
        process: &Process,
        child: Option<&Process>,
    ) {
        if state.has_units(process.id) {
            return state.charge_all(kernel, process, child);
        }
        let there = tables::mapped(process.root, 0, process.pages);
        let count = there.map_or(0, |[.., count]| count);
        kernel.path("forked", count * kernel.machine().path_or_none("forked"));
    }
}
