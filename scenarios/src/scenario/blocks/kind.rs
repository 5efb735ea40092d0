//! Kinds of tables: the format and size of blocks, and what a change of size requires.

use lookaside::{
    arch::{
        Mmu,
        aarch64::{AddressSize, Features, Geometry, Granule, HardwareUpdates, IdRegisters},
    },
    contig::{self, Flags, Format, Raw, Shape, SizeChange, Svnapot},
};
use lookaside_machine::adversary::{Bbm, Config, Deviations, Frame, Updates};

use crate::scenario::hardware::{self, Hardware};

/// A kind of table, on some hardware.
pub(in crate::scenario) trait Kind: 'static {
    /// The machine.
    type Hardware: Hardware;
    /// The layout of entries.
    type Format: Format + 'static;
    /// What a change of size requires.
    const SIZE_CHANGE: SizeChange;
    /// How many pages a block of the machine has, as a power of two.
    const BLOCK_BITS: u32 = 2;
    /// Arm's level of FEAT_BBM.
    const BBM: Bbm = Bbm::L0;
    /// How many data frames have contents, so that a store can be under way to them.
    const FRAMES: usize = 80;
    /// The flags that hardware sets.
    const UPDATES: Updates = Updates::Dirty;

    /// How the hardware breaks its architecture.
    const DEVIATIONS: Deviations = Deviations::NONE;

    /// The layout of entries.
    fn format() -> Self::Format;

    /// The machine.
    fn config(cpus: usize) -> Config {
        let mut config = Self::Hardware::config(cpus)
            .with_levels(2)
            .with_updates(Self::UPDATES)
            .with_bbm(Self::BBM)
            .with_deviations(Self::DEVIATIONS);
        config.block_bits = Self::BLOCK_BITS;
        config.frames = Self::FRAMES;
        config
    }
}

/// A [`Kind`] with its type erased, but for the library's: the scenarios of all kinds that have these types in
/// common are one type, and are compiled once.
pub(in crate::scenario) struct Described<M: Mmu, F> {
    pub(super) config: fn(usize) -> Config,
    pub(super) hardware: hardware::Described<M>,
    pub(super) format: F,
    pub(super) size_change: SizeChange,
    pub(super) block_bits: u32,
}

impl<M: Mmu, F: Format> Described<M, F> {
    /// What there is to know of `K`.
    pub(in crate::scenario) fn of<K>() -> Self
    where
        K: Kind<Format = F, Hardware: Hardware<Mmu = M>>,
    {
        Self {
            config: K::config,
            hardware: hardware::Described::of::<K::Hardware>(),
            format: K::format(),
            size_change: K::SIZE_CHANGE,
            block_bits: K::BLOCK_BITS,
        }
    }

    /// The frame of the page in a slot. Frames of different blocks are far apart, and each block of
    /// frames begins at a multiple of sixteen.
    pub(super) fn frame(&self, slot: usize) -> Frame {
        let pages = self.block_pages();
        Frame(16 * (1 + slot / pages) as u64 + (slot % pages) as u64)
    }

    /// How many pages a block has.
    pub(super) const fn block_pages(&self) -> usize {
        1 << self.block_bits
    }
}

impl<M: Mmu, F: Format> Clone for Described<M, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Mmu, F: Format> Copy for Described<M, F> {}

/// The library's format with blocks as small as the machine's: sixteen entries, each of which
/// hardware writes when it likes, take longer to explore than four and show nothing more.
#[derive(Clone, Copy)]
pub(in crate::scenario) struct Small<F> {
    format: F,
    /// Between the machine's entries and the format's: it is its own inverse.
    recode: fn(Raw) -> Raw,
}

impl<F: Format> Small<F> {
    fn on(&self, entry: Raw, change: impl Fn(Raw) -> Raw) -> Raw {
        (self.recode)(change((self.recode)(entry)))
    }
}

impl<F: Format> Format for Small<F> {
    fn shape(&self) -> Shape {
        self.format.shape().with_small_tables(4, 16)
    }

    fn output_bits(&self) -> u32 {
        self.format.output_bits()
    }

    fn is_present(&self, entry: Raw) -> bool {
        self.format.is_present((self.recode)(entry))
    }

    fn is_folded(&self, entry: Raw) -> bool {
        self.format.is_folded((self.recode)(entry))
    }

    fn output(&self, page: Raw) -> u64 {
        self.format.output(page)
    }

    fn at(&self, page: Raw, output: u64) -> Raw {
        self.format.at(page, output)
    }

    fn fold(&self, page: Raw) -> Raw {
        self.on(page, |page| self.format.fold(page))
    }

    fn unfold(&self, folded: Raw, slot: usize) -> Raw {
        self.on(folded, |folded| self.format.unfold(folded, slot))
    }

    fn attributes(&self, present: Raw) -> u64 {
        self.format.attributes((self.recode)(present))
    }

    fn flags(&self, present: Raw) -> Flags {
        self.format.flags(present)
    }

    fn with(&self, present: Raw, flags: Flags) -> Raw {
        self.on(present, |present| self.format.with(present, flags))
    }

    fn without(&self, present: Raw, flags: Flags) -> Raw {
        self.on(present, |present| self.format.without(present, flags))
    }

    fn is_writable(&self, present: Raw) -> bool {
        self.format.is_writable(present)
    }

    fn writable(&self, present: Raw) -> Raw {
        self.on(present, |present| self.format.writable(present))
    }

    fn write_protected(&self, present: Raw) -> Raw {
        self.on(present, |present| self.format.write_protected(present))
    }

    fn may_be_held(&self, present: Raw) -> bool {
        self.format.may_be_held((self.recode)(present))
    }
}

const fn arm() -> contig::Arm {
    contig::Arm::new(Geometry::new(Granule::K4, AddressSize::Bits48))
}

fn small_arm() -> Small<contig::Arm> {
    Small { format: arm(), recode: |entry| entry }
}

/// An Svnapot entry says in its page number how large the block is: for four pages it would end in
/// `10`, for sixteen it ends in `1000`. The pages of the scenarios leave all four bits free.
fn small_napot() -> Small<Svnapot> {
    fn recode(entry: Raw) -> Raw {
        const LOW: u64 = 0b1111 << 10;
        let size = match (entry.0 >> 63, (entry.0 & LOW) >> 10) {
            (1, 0b0010) => 0b1000,
            (1, 0b1000) => 0b0010,
            _ => return entry,
        };
        Raw(entry.0 & !LOW | size << 10)
    }
    Small { format: Svnapot, recode }
}

/// What a CPU that reports hardware updates and break-before-make level 2 has, by its `MIDR_EL1`.
const fn reported(midr: u64) -> Features {
    let (mmfr1, mmfr2) = (2, 2 << 52);
    let id = IdRegisters { midr, mmfr0: 5 | 2 << 4, mmfr1, mmfr2, mmfr3: 0, isar0: 0 };
    Features::decode(id)
}

/// What a kernel that goes by the features has hardware set: both flags or none.
const fn updates(features: &Features) -> Updates {
    match features.hardware_updates {
        HardwareUpdates::AccessedAndDirty => Updates::Dirty,
        HardwareUpdates::None | HardwareUpdates::Accessed => Updates::Nothing,
    }
}

const CORTEX_A55: u64 = 0x412f_d050;
const CORTEX_A510: u64 = 0x410f_d462;
const KRYO_SILVER: u64 = 0x51df_805e;
const C1_ULTRA: u64 = 0x411f_d8c0;
/// One of which nothing is known.
const UNKNOWN: u64 = 0x410f_d990;

macro_rules! kinds {
    ($($(#[$about:meta])* $name:ident: $hardware:ty, $format:ty = $make:expr, $change:expr
        $(, $constant:ident: $type:ty = $value:expr)*;)*) => {$(
        $(#[$about])*
        pub(in crate::scenario) enum $name {}

        impl Kind for $name {
            type Hardware = $hardware;
            type Format = $format;
            const SIZE_CHANGE: SizeChange = $change;
            $(const $constant: $type = $value;)*

            fn format() -> Self::Format {
                $make
            }
        }
    )*};
}

kinds! {
    /// Arm with break-before-make level 0.
    ArmBreaks: hardware::Arm, Small<contig::Arm> = small_arm(), SizeChange::Flushed;
    /// The same, where blocks that were not accessed are not flushed.
    ArmHeld: hardware::Arm, Small<contig::Arm> = small_arm(), SizeChange::FlushedIfHeld;
    /// Arm with level 2, without conflict aborts.
    ArmFree: hardware::Arm, Small<contig::Arm> = small_arm(), SizeChange::Free, BBM: Bbm = Bbm::L2NoAbort;
    /// Arm without hardware updates.
    ArmByHand: hardware::Arm, Small<contig::Arm> = small_arm(), SizeChange::Flushed,
        UPDATES: Updates = Updates::Nothing;
    /// Arm, and the interrupts of a CPU that must flush are cheap.
    ArmAsks: hardware::ArmInterrupts, Small<contig::Arm> = small_arm(), SizeChange::Flushed;
    /// Arm whose loads may be satisfied early, without hardware updates.
    ArmEarly: hardware::Early<hardware::Arm>, Small<contig::Arm> = small_arm(), SizeChange::Flushed,
        UPDATES: Updates = Updates::Nothing;
    /// Arm with blocks of sixteen pages, as shipped.
    ArmWide: hardware::Arm, contig::Arm = arm(), SizeChange::Flushed, BLOCK_BITS: u32 = 4;
    // The machine's firmware does not wait for the stores that another hart has under way.
    /// RISC-V with Svadu, flushed.
    NapotBreaks: hardware::Rv, Small<Svnapot> = small_napot(), SizeChange::Flushed, FRAMES: usize = 0;
    /// RISC-V with Svadu, not flushed.
    NapotFree: hardware::Rv, Small<Svnapot> = small_napot(), SizeChange::Free, FRAMES: usize = 0;
    /// The same with interrupts, whose handlers do wait.
    NapotAsks: hardware::RvInterrupts, Small<Svnapot> = small_napot(), SizeChange::Free;
    /// RISC-V with Svade.
    NapotByHand: hardware::Rv, Small<Svnapot> = small_napot(), SizeChange::Free, FRAMES: usize = 0,
        UPDATES: Updates = Updates::Nothing;
    /// RISC-V whose loads may be satisfied early, with Svade.
    NapotEarly: hardware::Early<hardware::Rv>, Small<Svnapot> = small_napot(), SizeChange::Free,
        UPDATES: Updates = Updates::Nothing;
    /// RISC-V with blocks of sixteen pages, as shipped.
    NapotWide: hardware::Rv, Svnapot = Svnapot, SizeChange::Free, FRAMES: usize = 0, BLOCK_BITS: u32 = 4;
    /// Cortex-A55, which loses dirty states.
    A55: hardware::Arm, Small<contig::Arm> = small_arm(), SizeChange::Flushed,
        UPDATES: Updates = updates(&reported(CORTEX_A55)),
        DEVIATIONS: Deviations = Deviations::LOST_DIRTY;
    /// Cortex-A510, which does, too.
    A510: hardware::Arm, Small<contig::Arm> = small_arm(), SizeChange::Flushed,
        UPDATES: Updates = updates(&reported(CORTEX_A510)),
        DEVIATIONS: Deviations = Deviations::LOST_DIRTY;
    /// Kryo 4xx Silver, which does, too.
    KryoSilver: hardware::Arm, Small<contig::Arm> = small_arm(), SizeChange::Flushed,
        UPDATES: Updates = updates(&reported(KRYO_SILVER)),
        DEVIATIONS: Deviations = Deviations::LOST_DIRTY;
    /// Arm with level 2 of which nothing else is known: it may raise conflict aborts.
    ArmAborts: hardware::Arm, Small<contig::Arm> = small_arm(), reported(UNKNOWN).size_change(),
        BBM: Bbm = Bbm::L2Abort, DEVIATIONS: Deviations = Deviations::CONFLICT_ABORTS;
    /// C1-Ultra, whose level 2 is withdrawn.
    C1Ultra: hardware::Arm, Small<contig::Arm> = small_arm(), reported(C1_ULTRA).size_change(),
        BBM: Bbm = Bbm::L2Abort, DEVIATIONS: Deviations = Deviations::CONFLICT_ABORTS;
}
