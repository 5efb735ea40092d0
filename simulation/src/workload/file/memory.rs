//! What threads do to the memory of processes: accesses, calls that change areas, copies.

use core::ops::Range;

use lookaside_machine::timed::{self, tables};

use super::{
    MOST_PAGES, Space,
    expression::Expression,
    sharing::FirstWrite,
    state::State,
    statement::Pages,
    thread::{Next, Thread},
};
use crate::kernel::{Change, Kernel};

/// The most pages that all threads of a statement may take, with the rounds of the loops around it.
const PAGES: u64 = 100_000_000;
/// The pages of the kernel, where a statement flushes any.
pub(super) const KERNEL_PAGES: u64 = 4096;

impl Thread {
    /// The first page and how many, which are in the space.
    pub(super) fn pages(&self, state: &State<'_>, pages: &Pages) -> Result<[u64; 2], String> {
        let [first, pages] = self.numbers(state, pages)?;
        let all = self.process.pages;
        if first + pages > all {
            let end = first + pages;
            return Err(format!(
                "pages {first} to {end} of a space that has {all}; give it more `pages`"
            ));
        }
        self.check_often(state, pages)?;
        Ok([first, pages])
    }

    /// Refuses a statement that takes so many pages each time, if that is too many in all.
    fn check_often(&self, state: &State<'_>, pages: u64) -> Result<(), String> {
        let often = pages.saturating_mul(self.executions(state, None));
        match often > PAGES {
            true => Err(format!(
                "{often} pages of all threads, with the rounds of the loops around it, are more than {PAGES}: take fewer"
            )),
            false => Ok(()),
        }
    }

    /// The pages of a new program, which are not more than a space can have.
    pub(super) fn new_pages(&self, state: &State<'_>, pages: &Expression) -> Result<u64, String> {
        let pages = self.number(state, pages)?.max(1);
        if pages as f64 > MOST_PAGES {
            return Err(format!("a program of {pages} pages: a space has at most {MOST_PAGES}"));
        }
        self.check_often(state, pages)?;
        Ok(pages)
    }

    /// A call that finds and changes an area, which takes `path` besides.
    pub(super) fn area_call(state: &State<'_>, kernel: &Kernel<'_>, path: &'static str) {
        Self::call(state, kernel);
        state.path(kernel, path);
    }

    pub(super) fn change(
        &self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        pages: &Pages,
        (area, page, change): (&'static str, &'static str, Change),
    ) -> Result<Next, String> {
        let [first, pages] = self.pages(state, pages)?;
        Self::area_call(state, kernel, area);
        if state.has_units(self.process.id) {
            self.change_units(state, kernel, [first, pages], (page, change))?;
            return Ok(Next::Go);
        }
        // A kernel flushes from the first page that was there to the last, and has no work with those that were not. Whoever
        // frees tables flushes what they were for.
        let there = match change {
            Change::Free => Some([first, pages, pages]),
            _ => tables::mapped(self.process.root, first, pages),
        };
        let there = there.filter(|_| pages > 0);
        if let Some([.., count]) = there {
            kernel.path(page, count * kernel.machine().path_or_none(page));
        }
        self.set_permission(state, first..first + pages, change);
        if let Some([first, pages, _]) = there {
            kernel.change(&self.process, first, pages, change);
        }
        if matches!(change, Change::Unmap | Change::Free) {
            self.forget_copies(state, [first, pages]);
        }
        Ok(Next::Go)
    }

    /// What later writes notice of a change: they fault if it took permission, and not if it gave it or the pages went.
    pub(super) fn set_permission(&self, state: &State<'_>, pages: Range<u64>, change: Change) {
        let mut sharing = state.sharing.borrow_mut();
        match change {
            Change::Restrict => sharing.protect(self.process.id, pages),
            _ => {
                sharing.allow(self.process.id, pages);
            }
        }
    }

    /// The space of the file whose pages a statement is about: that which it runs in, unless it is that of a child.
    fn space<'s>(&self, state: &'s State<'_>) -> Option<&'s Space> {
        let workload = state.workload;
        let own = || self.is_in_first_space().then(|| workload.groups[self.group].space);
        self.of.or_else(own).map(|space| &workload.spaces[space])
    }

    /// Pages that were unmapped are the file's again, where a file is mapped privately.
    pub(super) fn forget_copies(&self, state: &State<'_>, [first, pages]: [u64; 2]) {
        if self.space(state).is_some_and(|space| space.private) {
            state.sharing.borrow_mut().unmap_file(self.process.id, first..first + pages);
        }
    }

    /// Reads pages. A fault maps the aligned pages around as well, where the space says so.
    pub(super) fn touch(&self, state: &State<'_>, kernel: &Kernel<'_>, [first, pages]: [u64; 2]) {
        let around = self.space(state).map_or(1, |space| space.around);
        let mut from = first;
        while let Err(missing) = timed::touch(from, first + pages - from) {
            if state.has_units(self.process.id) {
                self.fault(state, kernel, missing);
                from = missing;
                continue;
            }
            state.path(kernel, "fault");
            let begin = missing - missing % around;
            let count = around.min(self.process.pages - begin);
            tables::map(self.process.root, begin, count, 0);
            from = missing;
        }
    }

    /// Accesses a page for a write.
    fn touch_one(&self, state: &State<'_>, kernel: &Kernel<'_>, page: u64) {
        match state.has_units(self.process.id) {
            true => self.touch(state, kernel, [page, 1]),
            false => kernel.touch(&self.process, page, 1),
        }
    }

    /// Writes to pages. A page that is shared is copied first; one that was protected is made writable.
    pub(super) fn write(
        &self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        pages: &Pages,
    ) -> Result<(), String> {
        let [first, pages] = self.pages(state, pages)?;
        for page in first..first + pages {
            let first = state.sharing.borrow_mut().write(self.process.id, page);
            if first == FirstWrite::No {
                timed::during("touch", || self.touch_one(state, kernel, page));
                continue;
            }
            let was_there = timed::during("touch", || timed::touch(page, 1)).is_ok();
            if was_there {
                state.path(kernel, "fault");
            }
            let is_file = self.space(state).is_some_and(|space| space.private);
            let is_copy = first == FirstWrite::Copy;
            let ([begin, count], order) = match was_there && state.has_units(self.process.id) {
                true => self.write_unit(state, kernel, page, is_copy),
                false => ([page, 1], 0),
            };
            if is_copy && (was_there || is_file) {
                kernel.path("copy", count * kernel.machine().path_or_none("copy"));
            }
            if was_there {
                // A copy is another page; one that is reused may be written to from now on.
                let change = match first {
                    FirstWrite::Copy => Change::Restrict,
                    _ => Change::Promote,
                };
                kernel.change_entries(&self.process, [begin, count], order, change);
            }
            timed::during("touch", || self.touch_one(state, kernel, page));
        }
        Ok(())
    }

    /// Takes pages away one by one.
    pub(super) fn reclaim(
        &self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        pages: &Pages,
        batch: Option<&Expression>,
    ) -> Result<(), String> {
        let [first, pages] = self.pages(state, pages)?;
        if state.has_units(self.process.id) {
            let why = "`reclaim` is of pages of 4 KiB: the space has a `size` or a `folio`; write `discard`, which takes them at once";
            return Err(why.to_owned());
        }
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

    /// Flushes pages of the kernel on every CPU.
    pub(super) fn flush_kernel(
        &self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        pages: &Pages,
    ) -> Result<(), String> {
        let [first, pages] = self.numbers(state, pages)?;
        let end = first.saturating_add(pages);
        if end > KERNEL_PAGES {
            return Err(format!("pages {first} to {end} of the kernel: there are {KERNEL_PAGES}"));
        }
        if pages > 0 {
            kernel.recycle_kernel(first, pages);
        }
        Ok(())
    }
}
