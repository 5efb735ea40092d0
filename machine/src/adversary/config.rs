//! The configuration of the machine on which a scenario runs.

use super::deviations::Deviations;

/// The architecture: which instructions exist and what a descriptor looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// Arm64.
    Arm,
    /// x86-64.
    X86,
    /// RISC-V.
    Riscv,
}

/// The store buffers between a CPU and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// Nothing: sequential consistency.
    None,
    /// One queue for each CPU: total store order, the memory of x86.
    Tso,
    /// One queue for each CPU and word: partial store order, as near as this machine comes to the
    /// memory of Arm and RISC-V.
    Pso,
}

/// When a load is satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loads {
    /// When it is executed: loads never overtake anything.
    InOrder,
    /// At that time or before: it may return what memory has held since the last operation of its CPU that
    /// holds loads back. Arm and RISC-V, as near as this machine comes to them; with [`Buffers::Pso`] only.
    Early,
}

/// The flags that hardware sets in descriptors by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Updates {
    /// Nothing; a descriptor that is not accessed, or not dirty when it is stored through, faults:
    /// Arm without FEAT_HAFDBS, RISC-V's Svade.
    Nothing,
    /// The accessed bit: Arm's TCR.HA.
    Accessed,
    /// The accessed and the dirty bit: Arm's TCR.HA and TCR.HD, x86, RISC-V's Svadu.
    Dirty,
}

/// The behaviour of Arm hardware with two leaves of different sizes for one address (FEAT_BBM), the
/// contiguous bit counting as a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bbm {
    /// Level 0: unpredictable. That both can be cached at one time is a violation.
    L0,
    /// Level 1: as [`Self::L2Abort`]. That it asks for nT in the descriptor is not checked.
    L1,
    /// Level 2: an access may use either, and may fail with a conflict abort, which is a fault here.
    L2Abort,
    /// Level 2 on a CPU that is known to raise no conflict aborts: an access may use either.
    L2NoAbort,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The architecture.
    pub arch: Arch,
    /// How many CPUs: 1 to 64.
    pub cpus: usize,
    /// The store buffers between a CPU and memory.
    pub buffers: Buffers,
    /// When a load is satisfied. In order by default.
    pub loads: Loads,
    /// Whether CPUs may use each other's entries where Arm's CnP bit allows it. If not, the bit is
    /// ignored.
    pub cnp: bool,
    /// Arm's FEAT_ETS2. Without it, a CPU's own accesses may use what its own invalidation removed
    /// until it synchronises its context, and a `DSB` alone does not end that.
    pub ets2: bool,
    /// Whether a table may be given back only when no CPU holds a partial walk to it under *any* tag,
    /// also one that no root register names. On by default on Arm, whose walk caches may be consulted
    /// for any tag; x86 and RISC-V walk for the current root only.
    pub walks_outlive_tags: bool,
    /// What hardware writes into the descriptors that the scenario names with
    /// [`tables::hardware_writes`](super::tables::hardware_writes). Others count as accessed and
    /// dirty, and are never written. By default [`Updates::Dirty`] on x86, which cannot be configured
    /// otherwise, and [`Updates::Nothing`] elsewhere.
    pub updates: Updates,
    /// Whether x86 hardware may set the dirty bit of a descriptor whose W bit has just been cleared,
    /// as CPUs without shadow stacks may.
    pub late_dirty: bool,
    /// Arm's FEAT_BBM; level 0 by default.
    pub bbm: Bbm,
    /// How many pages a contiguous entry of the last level stands for, as a power of two; 0 to
    /// `index_bits`. By default 2: blocks of four pages. With 0, Arm's contiguous bit is ignored and
    /// a NAPOT descriptor is reserved.
    pub block_bits: u32,
    /// How many bits of a tag the hardware keeps; the bits above are ignored.
    pub tag_bits: u32,
    /// Whether the scenario uses interrupts between CPUs. Without them, many steps need no
    /// choice.
    pub interrupts: bool,
    /// How many NMIs each CPU takes in one execution. They come between any two steps, also with interrupts
    /// off, in the middle of an interrupt's handler and when the program has ended; but not in the middle
    /// of an NMI's handler.
    pub nmis: u32,
    /// Whether a CPU may cache absent entries, and fault on them after a page is mapped:
    /// on RISC-V until a fence names the address, on Arm until the context is synchronised. Not on x86.
    pub invalid_entries: bool,
    /// The errata of its hardware; none by default.
    pub deviations: Deviations,
    /// Whether RISC-V firmware reports a remote fence while stores that other harts have made before it
    /// are still under way. The SBI specification lets it: it promises no more than that the request
    /// was sent. Off by default: the library relies on firmware that waits
    /// ([`lookaside::arch::riscv64`]).
    pub hasty_firmware: bool,
    /// How many levels of table there are: 1 to 4.
    pub levels: u32,
    /// How many bits of an address one level resolves: 1 to 9. Real hardware has 9; 4 is enough
    /// for every rule and makes small tables.
    pub index_bits: u32,
    /// How many tables there is memory for.
    pub tables: usize,
    /// How many data frames, from frame 0 on, have contents: one word each.
    pub frames: usize,
    /// Whether a word that is read or written with `get` or `set` by one CPU and touched in any way
    /// by another is a violation.
    pub check_private: bool,
    /// Whether an execution ends in which a tag comes to name two spaces, or break-before-make is left
    /// out. If not, it goes on with every entry that a CPU may then hold, which is what litmus tests observe.
    pub protocols: bool,
    /// Whether the invalidations of a CPU on Arm depend on its earlier loads, as in a program that branches
    /// on a loaded value. If not, a `TLBI` may come before such loads.
    pub dependencies: bool,
    /// How many steps one execution may have before it counts as never ending.
    pub max_steps: u64,
}

impl Config {
    fn new(arch: Arch, cpus: usize, buffers: Buffers, tag_bits: u32) -> Self {
        Self {
            arch,
            cpus,
            buffers,
            loads: Loads::InOrder,
            cnp: false,
            ets2: false,
            walks_outlive_tags: matches!(arch, Arch::Arm),
            updates: if matches!(arch, Arch::X86) { Updates::Dirty } else { Updates::Nothing },
            late_dirty: false,
            bbm: Bbm::L0,
            block_bits: 2,
            tag_bits,
            interrupts: false,
            nmis: 0,
            invalid_entries: false,
            deviations: Deviations::NONE,
            hasty_firmware: false,
            levels: 3,
            index_bits: 4,
            tables: 32,
            frames: 16,
            check_private: true,
            protocols: true,
            dependencies: true,
            max_steps: 20_000,
        }
    }

    /// An Arm machine: partial store order, 16-bit ASIDs, no sharing of entries.
    #[must_use]
    pub fn arm(cpus: usize) -> Self {
        Self::new(Arch::Arm, cpus, Buffers::Pso, 16)
    }

    /// An x86 machine: total store order, PCIDs and global pages on.
    #[must_use]
    pub fn x86(cpus: usize) -> Self {
        Self::new(Arch::X86, cpus, Buffers::Tso, 12)
    }

    /// A RISC-V machine: partial store order, 16-bit ASIDs.
    #[must_use]
    pub fn riscv(cpus: usize) -> Self {
        Self::new(Arch::Riscv, cpus, Buffers::Pso, 16)
    }

    /// The same machine on which executions go on that break a protocol of address translation.
    #[must_use]
    pub fn without_protocols(mut self) -> Self {
        self.protocols = false;
        self
    }

    /// The same machine for programs in which no invalidation depends on a load, as in most litmus tests.
    #[must_use]
    pub fn without_dependencies(mut self) -> Self {
        self.dependencies = false;
        self
    }

    /// The same machine with other store buffers.
    #[must_use]
    pub fn with_buffers(mut self, buffers: Buffers) -> Self {
        self.buffers = buffers;
        self
    }

    /// The same machine with loads that may be satisfied early.
    #[must_use]
    pub fn with_early_loads(mut self) -> Self {
        self.loads = Loads::Early;
        self
    }

    /// The same machine with interrupts between CPUs.
    #[must_use]
    pub fn with_interrupts(mut self) -> Self {
        self.interrupts = true;
        self
    }

    /// The same machine with so many NMIs for each CPU in one execution.
    #[must_use]
    pub fn with_nmis(mut self, nmis: u32) -> Self {
        self.nmis = nmis;
        self
    }

    /// The same machine with CPUs that may cache absent entries.
    #[must_use]
    pub fn with_invalid_entries(mut self) -> Self {
        self.invalid_entries = true;
        self
    }

    /// The same machine with firmware that reports a remote fence early.
    #[must_use]
    pub fn with_hasty_firmware(mut self) -> Self {
        self.hasty_firmware = true;
        self
    }

    /// The same machine with entries shared where the CnP bit allows it.
    #[must_use]
    pub fn with_cnp(mut self) -> Self {
        self.cnp = true;
        self
    }

    /// The same machine with Arm's FEAT_ETS2.
    #[must_use]
    pub fn with_ets2(mut self) -> Self {
        self.ets2 = true;
        self
    }

    /// The same machine with other hardware updates of descriptors.
    #[must_use]
    pub fn with_updates(mut self, updates: Updates) -> Self {
        self.updates = updates;
        self
    }

    /// The same machine with another level of FEAT_BBM.
    #[must_use]
    pub fn with_bbm(mut self, bbm: Bbm) -> Self {
        self.bbm = bbm;
        self
    }

    /// The same machine with these errata too.
    #[must_use]
    pub fn with_deviations(mut self, deviations: Deviations) -> Self {
        self.deviations = self.deviations.union(deviations);
        self
    }

    /// The same machine with narrower tags.
    #[must_use]
    pub fn with_tag_bits(mut self, bits: u32) -> Self {
        self.tag_bits = bits;
        self
    }

    /// The same machine with another number of table levels.
    #[must_use]
    pub fn with_levels(mut self, levels: u32) -> Self {
        self.levels = levels;
        self
    }

    pub(crate) fn check(&self) {
        assert!((1..=64).contains(&self.cpus), "a machine has 1 to 64 CPUs");
        assert!((1..=4).contains(&self.levels), "a machine has 1 to 4 levels of table");
        assert!((1..=9).contains(&self.index_bits), "a level resolves 1 to 9 bits");
        assert!(self.tag_bits <= 16, "a tag has at most 16 bits");
        assert!(self.block_bits <= self.index_bits, "a block lies in one table");
        let can_choose = self.arch != Arch::X86 || self.updates == Updates::Dirty;
        assert!(can_choose, "x86 always sets accessed and dirty bits");
        let forgets = self.arch != Arch::X86 || !self.invalid_entries;
        assert!(forgets, "x86 does not remember that nothing was mapped");
        let held = self.loads == Loads::InOrder || self.buffers == Buffers::Pso;
        assert!(held, "where loads are early, stores to different words are not in order");
        assert!((1..=0x1000).contains(&self.tables), "a machine has 1 to 4096 tables");
    }
}
