//! The model kernel: what a kernel does around a strategy, so that programs can be run on it.
//!
//! It has address spaces with pages, page faults, and the calls that change page tables. What its own
//! code costs are lengths of time from the machine file (`[paths]`); what translations, cache lines,
//! interrupts and invalidations cost comes out of the machine.

use core::{cell::Cell, ops::Range};

use lookaside_machine::timed::{self, Ps, tables};
use lookaside_terminal::Refused;

use crate::{
    calls::Calls,
    data::Machine,
    strategy::{self, Flush, Place, SpaceId, Strategy},
};

/// A model kernel on a machine, with a strategy.
pub struct Kernel<'a> {
    strategy: Box<dyn Strategy + 'a>,
    machine: &'a Machine,
    spaces: Cell<u32>,
    /// The time of a page fault without the machine's part.
    fault: Ps,
    /// The time of an interrupt handler before and after its work, without the machine's part.
    handler: Ps,
    calls: Calls<'a>,
    /// By CPU, what it takes out of a halt when an interrupt comes: nothing if it does not halt now.
    halted: Vec<Cell<Ps>>,
}

/// An address space of the model kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub id: SpaceId,
    /// Its page tables.
    pub root: u64,
    /// How many pages it has addresses for.
    pub pages: u64,
}

/// What becomes of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They allow less than before.
    Restrict,
    /// They allow more than before. Only strategies that know no better flush for this.
    Promote,
    /// They go.
    Unmap,
    /// They go, one by one, and are flushed together: what reclaim and migration do.
    Batch,
    /// They go, and tables with them.
    Free,
}

impl<'a> Kernel<'a> {
    /// A kernel with the strategy of that name. Called while a world is being built.
    ///
    /// # Errors
    ///
    /// If there is no such strategy for the machine, or the machine cannot have it.
    pub fn new(place: Place<'a>, strategy: &str) -> Result<Self, Refused> {
        let entry = strategy::find(strategy, place.machine)?;
        Ok(Self {
            strategy: (entry.build)(place)?,
            machine: place.machine,
            spaces: Cell::new(0),
            fault: place.machine.path_or_none("fault"),
            handler: place.machine.path_or_none("handler"),
            calls: Calls::new(place.arena, place.cpus),
            halted: (0..place.cpus).map(|_| Cell::new(0)).collect(),
        })
    }

    /// The machine.
    #[must_use]
    pub const fn machine(&self) -> &'a Machine {
        self.machine
    }

    /// The strategy.
    #[must_use]
    pub fn strategy(&self) -> &(dyn Strategy + 'a) {
        &*self.strategy
    }

    /// What each CPU does first.
    pub fn online(&self) {
        timed::during("boot", || self.strategy.online());
    }

    /// A new space with addresses for `pages` pages, of which the first `mapped` are mapped. Takes no
    /// time.
    pub fn spawn(&self, pages: u64, mapped: u64) -> Process {
        let root = tables::create(pages);
        tables::map(root, 0, mapped, 0);
        let id = SpaceId(self.spaces.replace(self.spaces.get() + 1));
        self.strategy.add(id, root);
        Process { id, root, pages }
    }

    /// Switches this CPU to a process.
    pub fn switch(&self, next: &Process) {
        timed::during("switch", || timed::interrupts_off(|| self.strategy.switch(next.id)));
    }

    /// The same, but its TLB hits and misses are not counted.
    pub fn switch_uncounted(&self, next: &Process) {
        timed::during("switch", || {
            timed::interrupts_off(|| self.strategy.switch_uncounted(next.id))
        });
    }

    /// The thread that this CPU runs becomes another process.
    pub fn execute(&self, next: &Process) {
        timed::during("switch", || timed::interrupts_off(|| self.strategy.execute(next.id)));
    }

    /// This CPU has nothing to run but kernel code.
    pub fn idle(&self) {
        timed::during("switch", || timed::interrupts_off(|| self.strategy.idle()));
    }

    /// A process that this CPU ran last ends, and nothing is known of its flushes.
    pub fn leave(&self) {
        timed::during("switch", || timed::interrupts_off(|| self.strategy.leave()));
    }

    /// This CPU has nothing to run at all.
    pub fn halt(&self) {
        timed::during("switch", || timed::interrupts_off(|| self.strategy.halt()));
    }

    /// A path of the kernel that takes so long.
    pub fn path(&self, name: &'static str, time: Ps) {
        timed::during(name, || timed::work(time));
    }

    /// Maps pages of a process that were not mapped, as page faults do. What that takes is no part of a flush.
    pub fn map(&self, process: &Process, first: u64, pages: u64) {
        self.map_entries(process, first, pages, 0);
    }

    /// The same by entries of that order.
    pub fn map_entries(&self, process: &Process, first: u64, pages: u64, order: u8) {
        tables::map(process.root, first, pages, order);
        timed::during("fault", || self.strategy.mapped(process.id, first, pages));
    }

    /// Changes pages of a process and flushes them on every CPU.
    pub fn change(&self, process: &Process, first: u64, pages: u64, change: Change) {
        self.change_entries(process, [first, pages], 0, change);
    }

    /// The same of pages that are mapped by entries of that order: so wide is the stride of the flush.
    pub fn change_entries(
        &self,
        process: &Process,
        [first, pages]: [u64; 2],
        order: u8,
        change: Change,
    ) {
        if change == Change::Promote && !self.strategy.flushes_promotions() {
            return;
        }
        let tables = change == Change::Free;
        let batch = change == Change::Batch;
        let flush = Flush { tables, batch, order, ..Flush::pages(process.id, first, pages) };
        let stays = matches!(change, Change::Restrict | Change::Promote);
        self.change_and(process, first, pages, stays, &flush);
    }

    /// Changes pages of a process, and has every CPU forget what `flush` says, which is those pages or
    /// more. They stay mapped, or not.
    pub fn change_and(
        &self,
        process: &Process,
        first: u64,
        pages: u64,
        stays: bool,
        flush: &Flush,
    ) {
        let stamp = tables::revoke(process.root, first, pages, stays);
        timed::during("flush", || self.strategy.flush(flush));
        tables::flushed(process.root, first, pages, stamp);
    }

    /// Unmaps pages of the kernel and has every CPU forget them; they are mapped again at once.
    pub fn recycle_kernel(&self, first: u64, pages: u64) {
        let stamp = tables::revoke(tables::kernel(), first, pages, true);
        timed::during("flush", || self.strategy.flush(&Flush::kernel(first, pages)));
        tables::flushed(tables::kernel(), first, pages, stamp);
    }

    /// Interrupts CPUs and waits for their answers, which flush nothing.
    pub fn call_functions(&self, cpus: Range<usize>) {
        timed::during("call", || self.calls.call(cpus));
    }

    /// This CPU halts from now on, and takes so long to leave that when an interrupt comes; with 0 it does not halt any more.
    pub fn set_halted(&self, wakes: Ps) {
        self.halted[timed::cpu().index()].set(wakes);
    }

    /// Accesses pages of the process that this CPU runs. Those that are not mapped fault, and are
    /// mapped then.
    pub fn touch(&self, process: &Process, first: u64, pages: u64) {
        let mut from = first;
        while let Err(missing) = timed::touch(from, first + pages - from) {
            self.path("fault", self.fault);
            tables::map(process.root, missing, 1, 0);
            from = missing;
        }
    }

    /// A process shares its pages with a child, which has none yet: both have them from here on, and
    /// neither may write to them.
    pub fn fork(&self, parent: &Process, child: &Process) {
        tables::map_alike(child.root, parent.root);
        self.change_all(parent, true);
    }

    /// Ends a process that this CPU runs: everything of it is flushed, the CPU runs `next` or
    /// nothing, and the space is given back.
    pub fn exit(&self, process: &Process, next: Option<&Process>) {
        self.unmap_all(process);
        match next {
            Some(next) => self.switch(next),
            None => self.idle(),
        }
        self.remove(process);
    }

    /// Unmaps everything in a process, tables included, and flushes it on every CPU.
    pub fn unmap_all(&self, process: &Process) {
        self.change_all(process, false);
    }

    /// Gives the space of a process back that no CPU runs and in which nothing is left, and its tables.
    pub fn release(&self, process: &Process) {
        self.remove(process);
        tables::destroy(process.root);
    }

    fn change_all(&self, process: &Process, stays: bool) {
        self.change_and(process, 0, process.pages, stays, &Flush::everything(process.id));
    }

    fn remove(&self, process: &Process) {
        timed::during("exit", || timed::interrupts_off(|| self.strategy.remove(process.id)));
    }

    /// What a handler of interrupts does. Half of the path `handler` comes before: registers are saved;
    /// half comes after: the interrupt controller is told, and registers are restored.
    pub fn handle_ipi(&self) {
        let wakes = self.halted[timed::cpu().index()].get();
        if wakes > 0 {
            self.path("halt", wakes);
        }
        self.path("handler", self.handler / 2);
        self.calls.answer();
        self.strategy.handle_ipi();
        self.path("handler", self.handler - self.handler / 2);
    }
}
