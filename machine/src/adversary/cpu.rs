//! One CPU: what its program is about to do, what it has buffered, what it may have cached.

use core::panic::Location;

use corosensei::Yielder;
use lookaside_hardware::{Invalidation, arm, x86};

use super::{config::Arch, hash::mix, op::Op, tlb::Entry, window::Window};

/// A store that has not reached memory, or the barrier that a `Release` fence leaves behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffered {
    /// The word; null for a barrier, which no later entry may overtake.
    pub(crate) word: *mut u64,
    pub(crate) value: u64,
    /// May not reach memory before any earlier entry.
    pub(crate) release: bool,
    /// A `SeqCst` load of the same CPU waits for it.
    pub(crate) strong: bool,
    /// The translation that it went through, if it is a store of user code.
    pub(crate) via: Option<Via>,
}

/// The translation that a store went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Via {
    pub(crate) page: u64,
    pub(crate) tag: u16,
    pub(crate) global: bool,
}

/// A root that the CPU may be walking from, with the tag that it caches under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    /// The index of the table.
    pub(crate) table: u32,
    /// The ghost identity of the space: the table, and how often it has been given back.
    pub(crate) owner: u32,
    pub(crate) tag: u16,
    /// Whether entries may be shared with other CPUs.
    pub(crate) shared: bool,
    /// A reserved root maps nothing and owns nothing.
    pub(crate) reserved: bool,
}

/// An invalidation that has been issued and is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) what: Invalidation,
    /// On every CPU; otherwise on the issuer only.
    pub(crate) everywhere: bool,
}

/// The registers that decide about translation. Each is the list of the values that may be in
/// effect: the last is the newest, and a synchronisation leaves only that.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    /// `TTBR0`, `CR3`, `satp`.
    pub(crate) root: Vec<u64>,
    /// `TTBR1`.
    pub(crate) second: Vec<u64>,
    /// `TCR`, `CR4`.
    pub(crate) control: Vec<u64>,
}

impl Registers {
    /// Those of a CPU with the features that tests expect: with PCIDs on x86.
    pub(crate) fn initial(arch: Arch) -> Self {
        let (second, control) = match arch {
            Arch::Arm => (vec![0], vec![1 << 36]), // 16-bit ASIDs, taken from TTBR0
            Arch::X86 => (Vec::new(), vec![x86::PCIDE | x86::PGE]),
            Arch::Riscv => (Vec::new(), Vec::new()),
        };
        Self { root: vec![0], second, control }
    }

    /// What an Arm CPU's registers may be saying: every combination of values that may be in effect.
    pub(crate) fn of_arm(&self) -> impl Iterator<Item = arm::Loaded> {
        self.control.iter().flat_map(move |&control| {
            self.root.iter().flat_map(move |&root| {
                self.second.iter().map(move |&second| arm::loaded(root, second, control))
            })
        })
    }

    fn hash(&self) -> u64 {
        let mut hash = 0;
        for list in [&self.root, &self.second, &self.control] {
            hash = mix(hash, list.len() as u64);
            for &value in list {
                hash = mix(hash, value);
            }
        }
        hash
    }
}

impl Clone for Registers {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), second: self.second.clone(), control: self.control.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.root.clone_from(&source.root);
        self.second.clone_from(&source.second);
        self.control.clone_from(&source.control);
    }
}

/// A round of a waiting loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// The hash of the results that the program got in it, and of the words that it read.
    pub(crate) observed: u64,
    /// The same for the previous round, if there was one.
    last: Option<u64>,
    /// The program's history when this one began.
    began: u64,
}

/// The kind of handler that interrupts a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    Interrupt,
    Nmi,
}

/// A CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    /// The next operation of the program.
    pub(crate) op: Op,
    /// The source line of that operation.
    pub(crate) location: &'static Location<'static>,
    /// The result of the last operation.
    pub(crate) result: u64,
    /// The last operation was executed before its turn, because it is local.
    pub(crate) early: bool,
    /// What is to be handled before the operation.
    pub(crate) deliver: Option<Handler>,
    /// Where the program suspends itself.
    pub(crate) yielder: *const Yielder<(), ()>,
    /// The hash of all results that the program got since its last milestone.
    pub(crate) history: u64,
    /// How many milestones the program has passed.
    pub(crate) milestones: u64,
    /// The results that the program got since it last relaxed.
    pub(crate) round: Round,
    /// How many handlers are under way: of an interrupt, of an NMI, or of an NMI in that of an interrupt.
    pub(crate) depth: u32,
    /// Whether the innermost is an NMI's, during which no other comes.
    pub(crate) in_nmi: bool,
    /// How many NMIs may still come.
    pub(crate) nmis: u32,
    pub(crate) buffer: Vec<Buffered>,
    /// When its loads may be satisfied.
    pub(crate) window: Window,
    pub(crate) registers: Registers,
    /// The hash of `registers`.
    pub(crate) registers_hash: u64,
    /// `registers`, decoded.
    pub(crate) live: Vec<Live>,
    /// Whether new walks may start.
    pub(crate) walks: bool,
    /// The invalidations that the CPU has issued and not completed.
    pub(crate) pending: Vec<Pending>,
    /// Invalidations on all CPUs that the CPU has completed, and whose accesses elsewhere may still be under
    /// way: see [`Deviations::LATE_ACCESSES`](super::Deviations::LATE_ACCESSES).
    pub(crate) late_accesses: Vec<Pending>,
    /// The ASIDs of which the CPU has executed something since it emptied its instruction cache, and those
    /// of which what is cached is corrupt: see
    /// [`Deviations::CORRUPT_CODE`](super::Deviations::CORRUPT_CODE).
    pub(crate) code: (Vec<u16>, Vec<u16>),
    /// What the CPU's own invalidations have removed since it last synchronised its context, and its
    /// own accesses may still use: Arm without FEAT_ETS2.
    pub(crate) lingering: Vec<Entry>,
    /// Every translation, whole and partial, that the CPU may have cached.
    pub(crate) tlb: Vec<Entry>,
    /// Where the CPU may remember that nothing was mapped: see [`super::absent`].
    pub(crate) absent: Vec<Entry>,
}

impl Cpu {
    #[track_caller]
    pub(crate) fn new() -> Self {
        Self {
            op: Op::Idle,
            location: Location::caller(),
            result: 0,
            early: false,
            deliver: None,
            yielder: core::ptr::null(),
            history: 0,
            milestones: 0,
            round: Round::default(),
            depth: 0,
            in_nmi: false,
            nmis: 0,
            buffer: Vec::with_capacity(16),
            window: Window::default(),
            registers: Registers::default(),
            registers_hash: 0,
            live: Vec::with_capacity(8),
            walks: true,
            pending: Vec::with_capacity(8),
            late_accesses: Vec::new(),
            code: (Vec::new(), Vec::new()),
            lingering: Vec::with_capacity(8),
            tlb: Vec::with_capacity(64),
            absent: Vec::new(),
        }
    }

    /// Makes the CPU what `snapshot` was, without allocating.
    pub(crate) fn restore(&mut self, snapshot: &Self) {
        self.op = Op::Idle;
        self.location = snapshot.location;
        self.result = 0;
        self.early = false;
        self.deliver = None;
        self.yielder = core::ptr::null();
        self.history = 0;
        self.milestones = 0;
        self.round = Round::default();
        self.depth = 0;
        self.in_nmi = false;
        self.nmis = snapshot.nmis;
        self.buffer.clear();
        self.window.clear();
        self.registers.clone_from(&snapshot.registers);
        self.registers_hash = snapshot.registers_hash;
        self.live.clone_from(&snapshot.live);
        self.walks = snapshot.walks;
        self.pending.clone_from(&snapshot.pending);
        self.late_accesses.clone_from(&snapshot.late_accesses);
        self.code.0.clone_from(&snapshot.code.0);
        self.code.1.clone_from(&snapshot.code.1);
        self.lingering.clear();
        self.tlb.clone_from(&snapshot.tlb);
        self.absent.clone_from(&snapshot.absent);
    }

    /// Must follow every change of `registers`.
    pub(crate) fn rehash(&mut self) {
        self.registers_hash = self.registers.hash();
    }

    /// The newest value of a register.
    pub(crate) fn newest(list: &[u64]) -> u64 {
        list.last().copied().unwrap_or(0)
    }

    /// Records a result that the program gets.
    #[inline]
    pub(crate) fn observed(&mut self, value: u64) {
        self.history = mix(self.history, value);
        self.round.observed = mix(self.round.observed, value);
    }

    /// The program has relaxed. If it got the same results as in the round before, its state is the same as
    /// then.
    pub(crate) fn went_around(&mut self) {
        let observed = core::mem::take(&mut self.round.observed);
        if self.round.last == Some(observed) {
            self.history = self.round.began;
        } else {
            self.round = Round { observed: 0, last: Some(observed), began: self.history };
        }
    }

    /// The part of the state that is this CPU's and in no set.
    pub(crate) fn hash(&self) -> u64 {
        // Whether a claim has been made or waits for its turn is not in the history.
        let claims = u64::from(matches!(self.op, Op::Claim));
        let place = u64::from(self.nmis) << 32 | u64::from(self.depth) << 1 | claims;
        let mut hash = mix(mix(self.history, place), self.registers_hash);
        for entry in &self.buffer {
            let flags = u64::from(entry.release) | u64::from(entry.strong) << 1;
            hash = mix(mix(hash, entry.word as u64 ^ flags << 60), entry.value);
            if let Some(via) = entry.via {
                hash = mix(hash, via.page << 17 | u64::from(via.global) << 16 | u64::from(via.tag));
            }
        }
        for pending in &self.pending {
            hash = mix(hash, pending.hash());
        }
        for pending in &self.late_accesses {
            hash = mix(hash, pending.hash() ^ 0x1a7e);
        }
        for tags in [&self.code.0, &self.code.1] {
            for &tag in tags {
                hash = mix(hash, u64::from(tag) ^ 0xc0de << 16);
            }
        }
        for entry in &self.lingering {
            hash = mix(hash, entry.hash(0));
        }
        hash
    }
}
