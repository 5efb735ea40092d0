//! What KVM does for a guest's vCPUs ("KVM: x86: Support paravirtualized TLB flush", 2017): one whose
//! host does not run it is not interrupted; the host empties its TLB before it runs again.

use core::cell::Cell;

use lookaside::{CpuId, Ordering, Targets, Word as _};
use lookaside_machine::timed::{self, Arena, Ps, Word};

use super::linux::{flush_globally, me};
use crate::{data::Machine, replay::interrupts::HOLD};

/// How long KVM waits for something to do for a halted vCPU before it takes it away: its `halt_poll_ns`
/// on x86, 200 us.
const POLL: Ps = 200_000_000;

/// What a host and its guest know of a vCPU together.
#[repr(align(64))]
struct Steal {
    /// When it halted, in picoseconds; 0 if it runs.
    halted: Word,
    /// 1 if its TLB is to be emptied before it runs again.
    flush: Word,
    /// When another asked it first, of what it did not serve yet; 0 if none did. Nobody reads this but the host,
    /// whose time is in that of interrupts.
    asked: Cell<Ps>,
}

/// The host of a guest.
pub(super) struct Host<'a> {
    steal: &'a [Steal],
    /// How long before another must have asked for that a CPU which was held up by sending takes it first.
    hold: Option<Ps>,
}

impl<'a> Host<'a> {
    pub(super) fn new(arena: &'a Arena, machine: &Machine, cpus: usize) -> Self {
        let steal = arena.fill(cpus, |_| Steal {
            halted: Word::ZERO,
            flush: Word::ZERO,
            asked: Cell::new(0),
        });
        timed::name(steal, "halted CPUs");
        Self { steal, hold: machine.paths.get(HOLD).copied() }
    }

    fn own(&self) -> &'a Steal {
        &self.steal[me().index()]
    }

    /// This vCPU halts.
    pub(super) fn halt(&self) {
        self.own().halted.store(timed::now().max(1), Ordering::SeqCst);
    }

    /// Whether this vCPU has halted and did not come back.
    pub(super) fn is_halted(&self) -> bool {
        self.own().halted.peek() != 0
    }

    /// This vCPU runs: its host first performs the flushes that were requested of it.
    pub(super) fn come_back(&self) {
        if !self.is_halted() {
            return;
        }
        let steal = self.own();
        steal.halted.store(0, Ordering::SeqCst);
        if steal.flush.swap(0, Ordering::SeqCst) != 0 {
            flush_globally();
        }
    }

    /// Whether a CPU is one that its host does not run. If so, the host was told to empty its TLB.
    pub(super) fn is_away(&self, cpu: CpuId) -> bool {
        let steal = &self.steal[cpu.index()];
        let halted = steal.halted.load(Ordering::SeqCst);
        if halted == 0 || timed::now() < halted + POLL {
            return false;
        }
        steal.flush.store(1, Ordering::SeqCst);
        // It may have come back in between, and then looked before this.
        steal.halted.load(Ordering::SeqCst) == halted
    }

    /// Notes that this vCPU is about to send requests to these.
    pub(super) fn ask(&self, targets: &[Targets]) {
        for target in targets.iter().flat_map(|group| group.iter()) {
            let asked = &self.steal[target.index()].asked;
            asked.set(if asked.get() == 0 { timed::now() } else { asked.get() });
        }
    }

    /// Notes that this vCPU processes its pending requests.
    pub(super) fn handle_ipi(&self) {
        self.own().asked.set(0);
    }

    /// The host has sent an interrupt for this vCPU and lets it go: if there is one for it, it takes that first.
    pub(super) fn let_go(&self) {
        let Some(hold) = self.hold else { return };
        let asked = &self.own().asked;
        if asked.get() != 0 && timed::now() >= asked.get() + hold {
            while asked.get() != 0 {
                timed::idle_until(timed::now() + POLL);
            }
        }
    }
}
