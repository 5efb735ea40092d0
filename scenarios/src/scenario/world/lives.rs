//! The users of a space, as a kernel's locks and reference counts would track them.

use lookaside::{
    CurrentCpu,
    arch::{Mmu, Root},
    platform::{CpuId, Ordering, Word as _},
    tags::Released,
};
use lookaside_machine::adversary::{Arch, Platform, Word, oracle, power_off, relax, stop, tables};

use super::{
    BURIED, RESTS, SIGNALLED, Strategy, World,
    cell::{PAGES, SLOTS, SpaceCell},
    claims::Writers,
    expect_accepted,
};
use crate::scenario::act::Act;

/// In [`SpaceCell::users`]: a CPU releases the space, or it has been retired.
const GONE: u64 = 1 << 32;

/// Determines which CPUs change the entries of a space, and whether its users must be counted.
pub(super) fn assign<P: lookaside::Platform<Word = Word>>(
    cell: &mut SpaceCell<P>,
    number: usize,
    cpus: &[Vec<Act>],
    arch: Arch,
) {
    let writers = |writes: &dyn Fn(Act) -> bool| {
        let is_one = |act: &&Act| act.spaces().any(|space| space == number) && writes(**act);
        let counts = cpus.iter().map(|acts| acts.iter().filter(is_one).count());
        let counts: Vec<_> = counts.filter(|count| *count > 0).collect();
        match counts[..] {
            [] | [1] => Writers::Once,
            [_] => Writers::OneCpu,
            _ => Writers::Several,
        }
    };
    for slot in 0..SLOTS {
        cell.writers[slot] = writers(&|act| act.pages().contains(&slot));
    }
    cell.takers = writers(&|act| act.takes_table());
    // An act that frees a table unmaps the pages below it, too.
    if cell.takers == Writers::Several || cpus.iter().filter(|acts| takes(acts, number)).count() > 0
    {
        for slot in 0..SLOTS {
            let is_one = |act: &&Act| {
                act.spaces().any(|space| space == number)
                    && (act.pages().contains(&slot) || act.takes_table())
            };
            let busy = cpus.iter().filter(|acts| acts.iter().any(|act| is_one(&act))).count();
            let changed = cpus.iter().flatten().any(|act| {
                act.spaces().any(|space| space == number) && act.pages().contains(&slot)
            });
            if changed {
                cell.writers[slot] = if busy > 1 { Writers::Several } else { Writers::OneCpu };
            }
        }
    }
    let maps = |slot: usize| {
        let mut acts = cpus.iter().flatten().filter(|act| act.space() == Some(number));
        acts.any(|act| act.maps() == Some(slot))
    };
    for slot in 0..SLOTS {
        // Break before make: another page is not mapped while the old one may be cached (Arm ARM,
        // D8.16.1). The other architectures ask for nothing.
        if arch == Arch::Arm && maps(slot) && cell.writers[slot] != Writers::Once {
            cell.busy[slot] = Some(Word::ZERO);
        }
    }
    if needs_count(number, cpus) {
        cell.users = Some(Word::ZERO);
    }
}

fn takes(acts: &[Act], number: usize) -> bool {
    acts.iter().any(|act| act.takes_table() && act.space() == Some(number))
}

/// Whether a CPU may use a space while another one releases it: it may, unless it has signalled that it
/// is done and the other has waited for that. Where several CPUs signal, a wait ends with the first signal and
/// says nothing of the others.
fn needs_count(number: usize, cpus: &[Vec<Act>]) -> bool {
    let mentions = |act: &Act| act.spaces().any(|space| space == number);
    // A space is used for as long as a flush is pending.
    let pends = |act: &Act| mentions(act) && (act.begins() || act.hands_over());
    let released = |act: &Act| mentions(act) && act.releases();
    if cpus.iter().flatten().any(pends) && cpus.iter().flatten().any(released) {
        return true;
    }
    let signals = cpus.iter().flatten().filter(|act| **act == Act::Tell).count();
    cpus.iter().enumerate().any(|(cpu, acts)| {
        let Some(at) = acts.iter().position(|act| act.releases() && mentions(act)) else {
            return false;
        };
        let end = acts.iter().position(|act| *act == Act::End(number));
        if end.is_some_and(|end| acts[end + 1..].iter().any(mentions)) {
            return true;
        }
        let waits = signals == 1 && acts[..at].contains(&Act::Await);
        let others = cpus.iter().enumerate().filter(|(other, _)| *other != cpu);
        others.into_iter().any(|(_, acts)| {
            let signal = acts.iter().position(|act| *act == Act::Tell).filter(|_| waits);
            acts[signal.unwrap_or(0)..].iter().any(mentions)
        })
    })
}

/// Frees what a space that was released still maps, and its tables.
fn free<P>(cell: &SpaceCell<P>)
where
    P: lookaside::Platform<Word = Word, Tables = Root, ResidentWords = Box<[Word]>>,
{
    // Relaxed: no other CPU uses the space any more, and this one has seen what they did.
    let held = |entry: &Word| entry.load(Ordering::Relaxed);
    if held(tables::entry(cell.root, PAGES[0], 1)) != 0 {
        let mapped = cell.entries.into_iter().filter_map(|entry| tables::frame(held(entry)));
        mapped.for_each(oracle::frame_freed);
        oracle::table_freed(cell.last_table);
    }
    if let Some((entry, frame)) = cell.large
        && held(entry) != 0
    {
        oracle::frame_freed(frame);
    }
    cell.tops().for_each(oracle::table_freed);
}

impl<M: Mmu + 'static, T: Strategy<Platform<M>>> World<M, T> {
    /// Counts this CPU among the users of the act's spaces. Returns whether they still exist.
    pub(super) fn enter_spaces(&self, act: Act) -> bool {
        if act.releases() {
            return act.space().is_none_or(|number| self.close(number));
        }
        let mut entered = [None; 2];
        for (place, number) in entered.iter_mut().zip(act.spaces()) {
            if !self.enter_space(number) {
                entered.into_iter().flatten().for_each(|number| self.leave_space(number));
                return false;
            }
            *place = Some(number);
        }
        true
    }

    /// Ends the use of the act's spaces. An act that hands work over ends when that is completed.
    pub(super) fn leave_spaces(&self, act: Act) {
        if !act.releases() && !act.hands_over() && !act.begins() {
            act.spaces().for_each(|number| self.leave_space(number));
        }
    }

    /// Counts this CPU among the users of a space. Returns whether the space still exists.
    pub(super) fn enter_space(&self, number: usize) -> bool {
        let Some(users) = &self.spaces[number].users else { return true };
        // Acquire: what was done with it before.
        let there = users.fetch_add(1, Ordering::Acquire) & GONE == 0;
        if !there {
            self.leave_space(number);
        }
        there
    }

    pub(super) fn leave_space(&self, number: usize) {
        if let Some(users) = &self.spaces[number].users {
            users.fetch_add(1u64.wrapping_neg(), Ordering::Release); // Release: this CPU is done.
        }
    }

    /// Takes a space exclusively for this CPU, if no CPU uses it.
    fn close(&self, number: usize) -> bool {
        let Some(users) = &self.spaces[number].users else { return true };
        // Acquire: what the others did with it.
        users.compare_exchange(0, GONE, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Releases a space, and frees its root if the space is retired. Does nothing if another CPU
    /// runs user code of the space or a device may use its tag: a kernel does not release it then.
    pub(super) fn release(
        &self,
        this_cpu: &CurrentCpu<'_, Platform<M>, T>,
        number: usize,
        end: bool,
    ) {
        let cell = &self.spaces[number];
        let me = this_cpu.id().index();
        let runs = |cpu: usize| cpu != me && self.runs[cpu].peek() == number as u64 + 1;
        let pinned = |cpu: usize| self.pinned[cpu * self.spaces.len() + number].peek() != 0;
        if (0..self.cpus.len()).any(|cpu| runs(cpu) || pinned(cpu)) {
            return self.reopen(number);
        }
        if self.runs_now(this_cpu.id(), number) {
            self.runs[me].set(0); // Its thread was the last one.
        }
        // SAFETY: the word is only read.
        let cookie = unsafe { self.space(number).tag_word() }.peek();
        // SAFETY: no other CPU uses the space, by the order of the script or by the count of its users.
        let released = this_cpu.release(unsafe { &mut *cell.space.get() });
        if released == Released::AtOnce && cookie != 0 {
            oracle::identity_ended("cookie", cookie);
        }
        if end {
            free(cell);
        } else {
            self.reopen(number);
        }
    }

    /// Lets other CPUs use a space again that this one has taken exclusively.
    fn reopen(&self, number: usize) {
        if let Some(users) = &self.spaces[number].users {
            users.fetch_and(!GONE, Ordering::Release); // Release: what was done with it.
        }
    }

    /// The CPU runs kernel code only from here on.
    pub(super) fn rest(&self, this_cpu: &CurrentCpu<'_, Platform<M>, T>) {
        oracle::rests();
        this_cpu.lazy();
        let runs = &self.runs[this_cpu.id().index()];
        runs.set(runs.get() | RESTS);
    }

    /// Whether this CPU, which is `cpu`, runs no user code.
    pub(super) fn rests(&self, cpu: CpuId) -> bool {
        self.runs[cpu.index()].get() & RESTS != 0
    }

    /// Whether this CPU, which is `cpu`, runs user code of a space.
    pub(super) fn runs_now(&self, cpu: CpuId, number: usize) -> bool {
        self.runs[cpu.index()].get() == number as u64 + 1
    }

    pub(super) fn go_down(&self, this_cpu: CurrentCpu<'_, Platform<M>, T>) {
        oracle::goes_down();
        let cpu = this_cpu.id().index();
        this_cpu.offline();
        self.runs[cpu].set(0);
    }

    /// The hardware halts without a call to the library.
    pub(super) fn halt(&self, this_cpu: &CurrentCpu<'_, Platform<M>, T>) {
        oracle::goes_down();
        power_off();
        self.runs[this_cpu.id().index()].set(0);
        self.signalled.store(SIGNALLED, Ordering::Release); // Release: as for `Act::Tell`.
    }

    pub(super) fn bury(&self, this_cpu: &CurrentCpu<'_, Platform<M>, T>) {
        // Acquire: everything that the CPU did before it halted.
        while self.signalled.load(Ordering::Acquire) != SIGNALLED {
            this_cpu.handle_ipi();
            relax();
        }
        expect_accepted(self.tlb.stopped(&(), CpuId(1)));
        self.signalled.store(BURIED, Ordering::Release); // Release: with the library's record of it.
    }

    /// Stops CPU 1 wherever it is.
    pub(super) fn stop(&self) {
        let other = CpuId(1);
        stop(other);
        expect_accepted(self.tlb.stopped(&(), other));
    }

    /// Waits until this CPU, which has halted, is reported as halted.
    pub(super) fn wait_until_buried(&self) {
        // Acquire: the library's record of it.
        while self.signalled.load(Ordering::Acquire) != BURIED {
            relax();
        }
    }

    pub(super) fn pin(&self, this_cpu: &CurrentCpu<'_, Platform<M>, T>, number: usize) {
        match T::pin(this_cpu, self.space(number)) {
            Ok(tag) => {
                self.pinned(this_cpu.id(), number).set(u64::from(tag.0));
                if let Some(device) = self.device {
                    // The barrier of a driver before it writes to a register of its device: what this CPU has stored is
                    // visible before the device walks.
                    Word::fence(Ordering::SeqCst);
                    oracle::device_starts(device, self.spaces[number].root, tag.0);
                }
            }
            Err(error) => {
                if self.can_pin {
                    oracle::fail(error.to_string());
                }
            }
        }
    }

    pub(super) fn unpin(&self, this_cpu: &CurrentCpu<'_, Platform<M>, T>, number: usize) {
        let tag = self.pinned(this_cpu.id(), number).get();
        if tag != 0 {
            if let Some(device) = self.device {
                oracle::device_stops(device, self.spaces[number].root, tag as u16);
            }
            let kept = u64::from(self.space(number).cookie().tag().0) == tag;
            oracle::check(kept, "the tag has changed that a device uses");
            expect_accepted(T::unpin(this_cpu, self.space(number)));
            self.pinned(this_cpu.id(), number).set(0);
        }
    }

    /// The tag of a space that a device uses on behalf of a CPU.
    fn pinned(&self, cpu: CpuId, number: usize) -> &Word {
        &self.pinned[cpu.index() * self.spaces.len() + number]
    }
}
