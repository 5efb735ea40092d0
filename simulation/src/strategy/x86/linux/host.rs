//! KVM's paravirtualised flush ("KVM: x86: Support paravirtualized TLB flush", 2017): a vCPU that its host
//! does not run is not interrupted; the host empties its TLB before it runs again.

use core::cell::Cell;

use lookaside::platform::{CpuId, Ordering, Targets, Word as _};
use lookaside_machine::timed::{self, Arena, Next, Ps, Word};

use super::{me, request::flush_globally};
use crate::data::Machine;

/// The path of a machine file that says how old a pending request must be: a CPU that its host held up while it sent
/// an interrupt handles such a request first.
pub const INTERRUPT_HOLD: &str = "interrupt_hold";

/// How long KVM polls for work of a halted vCPU before it deschedules the vCPU.
const POLL: Ps = 1000 * lookaside_traces::HALT_POLL;

/// The state of a vCPU that host and guest share.
#[repr(align(64))]
struct Steal {
    /// When it halted, in picoseconds; 0 if it runs.
    halted: Word,
    /// 1 if its TLB is to be emptied before it runs again.
    flush: Word,
    /// The time of its first pending request; 0 if there is none. Only the host reads this; its time is part
    /// of the price of interrupts.
    asked: Cell<Ps>,
}

/// The host of a guest.
pub(super) struct Host<'a> {
    steal: &'a [Steal],
    /// Whether it says which vCPUs it does not run.
    takes_halted: bool,
    /// A CPU that was held up by sending takes a pending request first if the request is at least this old.
    hold: Option<Ps>,
}

impl<'a> Host<'a> {
    /// That of a guest, if it is one of which that is known: the host takes halted vCPUs, or holds senders up.
    pub(super) fn of(
        arena: &'a Arena,
        machine: &Machine,
        cpus: usize,
        takes_halted: bool,
    ) -> Option<Self> {
        let hold = machine.paths.get(INTERRUPT_HOLD).copied();
        if !takes_halted && hold.is_none() {
            return None;
        }
        let steal = arena.fill(cpus, |_| Steal {
            halted: Word::ZERO,
            flush: Word::ZERO,
            asked: Cell::new(0),
        });
        timed::name(steal, "halted CPUs");
        Some(Self { steal, takes_halted, hold })
    }

    fn own(&self) -> &'a Steal {
        &self.steal[me().index()]
    }

    /// This vCPU halts.
    pub(super) fn halt(&self) {
        self.own().halted.store(timed::now().max(1), Ordering::SeqCst);
    }

    /// Whether this vCPU is halted.
    pub(super) fn is_halted(&self) -> bool {
        self.own().halted.peek() != 0
    }

    /// Resumes this vCPU: its host first performs the flushes that were requested of it.
    pub(super) fn resume_vcpu(&self) {
        if !self.is_halted() {
            return;
        }
        let steal = self.own();
        steal.halted.store(0, Ordering::SeqCst);
        if steal.flush.swap(0, Ordering::SeqCst) != 0 {
            flush_globally();
        }
    }

    /// Removes from a group the CPUs that the host does not run. It has been requested to empty their TLBs.
    pub(super) fn withdraw(&self, group: &mut Targets) {
        let Targets { first, mask } = *group;
        for cpu in (Targets { first, mask }).iter().filter(|&cpu| self.is_away(cpu)) {
            group.mask &= !(1 << (cpu.0 - first.0));
        }
    }

    fn is_away(&self, cpu: CpuId) -> bool {
        let steal = &self.steal[cpu.index()];
        let halted = steal.halted.load(Ordering::SeqCst);
        if !self.takes_halted || halted == 0 || timed::now() < halted + POLL {
            return false;
        }
        steal.flush.store(1, Ordering::SeqCst);
        // The vCPU may have resumed in between, and read `flush` before the store above.
        steal.halted.load(Ordering::SeqCst) == halted
    }

    /// Notes that this vCPU is about to send a request to a CPU.
    pub(super) fn begin_send(&self, target: CpuId) {
        let asked = &self.steal[target.index()].asked;
        asked.set(if asked.get() == 0 { timed::now() } else { asked.get() });
    }

    /// Notes that this vCPU processes its pending requests.
    pub(super) fn handle_ipi(&self) {
        self.own().asked.set(0);
    }

    /// The host has sent this vCPU's interrupts and resumes it: an interrupt that is pending for it comes
    /// first.
    pub(super) fn resume_after_send(&self) {
        let asked = &self.own().asked;
        let is_old = |hold| timed::now() >= asked.get() + hold;
        let is_first = match timed::next_after_send() {
            Some(next) => next == Next::Interrupt,
            None => self.hold.is_some_and(is_old),
        };
        while is_first && asked.get() != 0 {
            timed::idle_until(timed::now() + POLL);
        }
    }
}
