//! When the one who revoked an entry has finished.
//!
//! A kernel may defer its flush until the end of the system call, and may be pre-empted before. So not the CPU's
//! return to user mode counts, but the task's. Where tasks are not known, some hundred returns of the CPU stand in
//! for it: a task that was pre-empted in the kernel has run again by then.

use alloc::collections::BTreeMap;

use crate::Revoked;

/// How many returns to user mode of a CPU stand in for the return of a task that is not known.
const RETURNS: u64 = 300;

#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// When each task was last seen in user mode.
    returned: BTreeMap<u64, u64>,
}

impl Tasks {
    pub(crate) fn returns(&mut self, task: u64, time: u64) {
        self.returned.insert(task, time);
    }

    /// Whether what was revoked should have been fenced by now; `returns` is how often the CPU that revoked it has
    /// returned to user mode.
    pub(crate) fn is_finished(&self, revoked: &Revoked, returns: u64) -> bool {
        let returned = revoked.task.and_then(|task| self.returned.get(&task));
        match returned {
            Some(&at) => at > revoked.by.time,
            // Not known, or a thread of the kernel, which never returns to user mode.
            None => returns > revoked.returns + RETURNS,
        }
    }

    /// Whether the one who revoked it has been in user mode since, as far as is known. Until then a kernel may let
    /// other threads of a process put something else in the place of a page that is being discarded.
    pub(crate) fn has_returned(&self, revoked: &Revoked, returns: u64) -> bool {
        match revoked.task {
            Some(_) => self.is_finished(revoked, returns),
            None => returns > revoked.returns,
        }
    }
}
