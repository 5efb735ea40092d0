//! The translation hardware of each architecture, on the adversarial machine.

use core::marker::PhantomData;

use lookaside::{
    Error,
    arch::{
        Mmu, Root, Sharing,
        aarch64::{self, Aarch64, AsidIn, IdRegisters, Pairing, Park},
        riscv64::{self, Extensions, Mode, Remote, Riscv},
        x86_64::{self, Levels, Tables, Use, X86},
    },
    counts::{Event, Outcome},
    platform::{Costs, OperationCosts},
};
use lookaside_machine::adversary::{
    COSTS, Config, Deviations, Frame, Updates, arm, oracle, riscv, saw, x86,
};

/// A kind of machine: what the adversary must be, and how the library operates it.
pub(super) trait Hardware: 'static {
    /// The library's type for it.
    type Mmu: Mmu + SetUp + 'static;

    /// The adversary.
    fn config(cpus: usize) -> Config;

    /// Its translation hardware, parked on `reserved`.
    ///
    /// # Errors
    ///
    /// None, unless library and adversary disagree.
    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error>;

    /// The features that each CPU reports.
    fn features() -> <Self::Mmu as Mmu>::Features;

    /// What operations cost.
    fn costs() -> Costs {
        COSTS
    }

    /// Receives the events that the library reports.
    fn observe(event: Event) {
        see(event);
    }
}

/// What a CPU does when it comes up, before the library.
pub(super) trait SetUp {
    /// Does it.
    fn set_up(&self) {}
}

impl SetUp for Aarch64<arm::Insn> {}

impl SetUp for Riscv<riscv::Insn> {}

impl SetUp for X86<x86::Insn> {
    fn set_up(&self) {
        self.set_up_cpu();
    }
}

/// A [`Hardware`] with its type erased, but for the library's: the scenarios of all kinds that have this
/// type in common are one type, and are compiled once.
pub(super) struct Described<M: Mmu> {
    pub(super) machine: fn(usize) -> Config,
    pub(super) more: More,
    pub(super) mmu: fn(Frame) -> Result<M, Error>,
    pub(super) features: fn() -> M::Features,
    pub(super) costs: fn() -> Costs,
    pub(super) observe: fn(Event),
    pub(super) set_up: fn(&M),
}

/// Options of the hardware beyond its kind, and of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct More {
    /// See [`Early`].
    pub(crate) early: bool,
    /// See [`Invalid`].
    pub(crate) invalid: bool,
    /// See [`Noting`].
    pub(crate) noting: bool,
    /// See [`Nmis`].
    pub(crate) nmis: bool,
    /// The kernel has `Asids`, which chooses the allocator at run time, and does not name one.
    pub(crate) chosen: bool,
    /// The kernel has a top table for each CPU in every space, with a page that only this CPU sees.
    pub(crate) roots: bool,
}

impl More {
    /// Nothing more.
    pub(crate) const NONE: Self = Self {
        early: false,
        invalid: false,
        noting: false,
        nmis: false,
        chosen: false,
        roots: false,
    };
    /// The allocator is chosen at run time.
    pub(crate) const CHOSEN: Self = Self { chosen: true, ..Self::NONE };

    /// What there is, by name, and whether it is on.
    pub(crate) const fn names(self) -> [(&'static str, bool); 6] {
        let Self { early, invalid, noting, nmis, chosen, roots } = self;
        [
            ("early", early),
            ("invalid", invalid),
            ("noting", noting),
            ("nmi", nmis),
            ("chosen", chosen),
            ("roots", roots),
        ]
    }

    /// The option of this name.
    pub(crate) fn slot(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "early" => Some(&mut self.early),
            "invalid" => Some(&mut self.invalid),
            "noting" => Some(&mut self.noting),
            "nmi" => Some(&mut self.nmis),
            "chosen" => Some(&mut self.chosen),
            "roots" => Some(&mut self.roots),
            _ => None,
        }
    }
}

impl<M: Mmu> Clone for Described<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Mmu> Copy for Described<M> {}

impl<M: Mmu> Described<M> {
    /// What there is to know of `H`.
    pub(super) const fn of<H: Hardware<Mmu = M>>() -> Self
    where
        M: SetUp,
    {
        Self {
            machine: H::config,
            more: More::NONE,
            mmu: H::mmu,
            features: H::features,
            costs: H::costs,
            observe: H::observe,
            set_up: M::set_up,
        }
    }

    /// The adversary.
    pub(super) fn config(&self, cpus: usize) -> Config {
        let config = (self.machine)(cpus);
        let More { early, invalid, noting, nmis, chosen: _, roots: _ } = self.more;
        let config = if early { config.with_early_loads() } else { config };
        let config = if invalid { config.with_invalid_entries() } else { config };
        let config = if noting { config.with_updates(Updates::Dirty) } else { config };
        if nmis { config.with_nmis(1) } else { config }
    }
}

/// Arm64 with private TLBs.
pub(super) enum Arm {}

/// Arm64 with CnP.
pub(super) enum ArmShared {}

/// Arm64 with private TLBs, where retagging is cheaper than a flush.
pub(super) enum ArmFresh {}

/// Arm64 with CnP, where retagging is cheaper than a flush.
pub(super) enum ArmSharedFresh {}

/// Arm64 with private TLBs, where one interrupt is cheaper than a broadcast.
pub(super) enum ArmInterrupts {}

/// Arm64 with private TLBs and level hints, where every flush is by address and one interrupt is cheaper
/// than a broadcast.
pub(super) enum ArmHints {}

/// x86-64 with PCIDs and INVPCID.
pub(super) enum Pcid {}

/// x86-64 with PCIDs but without INVPCID.
pub(super) enum PcidOnly {}

/// x86-64 without PCIDs.
pub(super) enum Plain {}

/// x86-64 with PCIDs, INVPCID and INVLPGB.
pub(super) enum Broadcast {}

/// The same, where retagging is cheaper than a flush.
pub(super) enum BroadcastFresh {}

/// RISC-V with SBI remote fences.
pub(super) enum Rv {}

/// RISC-V whose harts are interrupted for remote fences.
pub(super) enum RvInterrupts {}

/// RISC-V without ASIDs, whose harts are interrupted for remote fences.
pub(super) enum RvPlain {}

/// RISC-V with SBI remote fences, where one interrupt is cheaper than a broadcast.
pub(super) enum RvBoth {}

/// RISC-V with SBI remote fences, where retagging is cheaper than a flush.
pub(super) enum RvFresh {}

/// RISC-V with interrupts, where retagging is cheaper than a flush.
pub(super) enum RvFreshInterrupts {}

/// RISC-V with SBI remote fences and Svinval.
pub(super) enum RvSvinval {}

/// Records the events that the library reports.
fn see(event: Event) {
    saw(match event {
        Event::Flushed { outcome: Outcome::NoCpu, .. } => "a flush that concerned nobody",
        Event::Flushed { outcome: Outcome::Local, .. } => "a flush here",
        Event::Flushed { outcome: Outcome::Retagged, .. } => "a fresh tag",
        Event::Flushed { outcome: Outcome::Broadcast, .. } => "a broadcast",
        Event::Flushed { outcome: Outcome::Ipis, .. } => "a shootdown",
        Event::CaughtUp => "a CPU that caught up",
        _ => return,
    });
}

/// Retagging costs nothing.
const FRESH: Costs = Costs { retag: 0, ..COSTS };

/// Interrupts cost nothing: one is cheaper than a broadcast, and two are not.
const INTERRUPTS: Costs = Costs { ipi: 0, ..COSTS };

const fn pa(frame: Frame) -> u64 {
    frame.0 << 12
}

/// Interrupts cost nothing, and every flush is by address.
const BY_ADDRESS: Costs =
    Costs { local: OperationCosts { address: 0, ..COSTS.local }, ..INTERRUPTS };

fn arm_mmu(
    reserved: Frame,
    sharing: Sharing,
    features: aarch64::Features,
) -> Result<Aarch64<arm::Insn>, Error> {
    Aarch64::new(
        arm::Insn,
        aarch64::Config {
            features,
            // T0SZ 16, 4 KiB granule, 48-bit physical addresses, 16-bit ASIDs.
            tcr: 16 | 5 << 32 | 1 << 36,
            park: Park::ReservedRoot(pa(reserved)),
            sharing,
            pairing: Pairing::Single,
            asid_in: AsidIn::Ttbr0,
        },
    )
}

impl Hardware for Arm {
    type Mmu = Aarch64<arm::Insn>;

    fn config(cpus: usize) -> Config {
        Config::arm(cpus)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        arm_mmu(reserved, Sharing::Private, Self::features())
    }

    fn features() -> aarch64::Features {
        aarch64::Features::decode(IdRegisters {
            mmfr0: 5 | 2 << 4,
            mmfr2: 1,
            ..IdRegisters::default()
        })
    }
}

impl Hardware for ArmShared {
    type Mmu = Aarch64<arm::Insn>;

    fn config(cpus: usize) -> Config {
        Config::arm(cpus).with_cnp()
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        arm_mmu(reserved, Sharing::Shared, Self::features())
    }

    fn features() -> aarch64::Features {
        Arm::features()
    }
}

impl Hardware for ArmFresh {
    type Mmu = Aarch64<arm::Insn>;

    fn config(cpus: usize) -> Config {
        Config::arm(cpus)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        Arm::mmu(reserved)
    }

    fn features() -> aarch64::Features {
        Arm::features()
    }

    fn costs() -> Costs {
        FRESH
    }
}

impl Hardware for ArmSharedFresh {
    type Mmu = Aarch64<arm::Insn>;

    fn config(cpus: usize) -> Config {
        ArmShared::config(cpus)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        ArmShared::mmu(reserved)
    }

    fn features() -> aarch64::Features {
        Arm::features()
    }

    fn costs() -> Costs {
        FRESH
    }
}

impl Hardware for ArmInterrupts {
    type Mmu = Aarch64<arm::Insn>;

    fn config(cpus: usize) -> Config {
        Config::arm(cpus).with_interrupts()
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        Arm::mmu(reserved)
    }

    fn features() -> aarch64::Features {
        Arm::features()
    }

    fn costs() -> Costs {
        INTERRUPTS
    }
}

impl Hardware for ArmHints {
    type Mmu = Aarch64<arm::Insn>;

    fn config(cpus: usize) -> Config {
        ArmInterrupts::config(cpus)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        arm_mmu(reserved, Sharing::Private, Self::features())
    }

    fn features() -> aarch64::Features {
        aarch64::Features { level_hints: true, ..Arm::features() }
    }

    fn costs() -> Costs {
        BY_ADDRESS
    }
}

fn x86_mmu(reserved: Frame, features: &x86_64::Features) -> Result<X86<x86::Insn>, Error> {
    let config = x86_64::Config {
        pcids: Use::WherePresent,
        invlpgb: Use::WherePresent,
        tables: Tables::One,
        levels: Levels::Four,
        reserved_root: pa(reserved),
    };
    X86::new(x86::Insn, features, config)
}

pub(super) fn x86_features([pcid, invpcid, invlpgb]: [bool; 3]) -> x86_64::Features {
    let mut features = x86_64::Features::decode(|leaf, _| match leaf {
        0 => [7, 0, 0, 0],
        1 => [0, 0, 1 << 17, 1 << 13],
        7 => [0, 1 << 10, 0, 0],
        0x8000_0000 => [0x8000_0008, 0, 0, 0],
        0x8000_0008 => [48 | 48 << 8, u32::from(invlpgb) << 3, 0, 0],
        _ => [0; 4],
    });
    features.pcid = pcid;
    features.invpcid = invpcid;
    features
}

macro_rules! x86_hardware {
    ($($name:ident: $features:expr, $costs:expr;)*) => {$(
        impl Hardware for $name {
            type Mmu = X86<x86::Insn>;

            fn config(cpus: usize) -> Config {
                Config::x86(cpus).with_interrupts()
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                x86_mmu(reserved, &Self::features())
            }

            fn features() -> x86_64::Features {
                x86_features($features)
            }

            fn costs() -> Costs {
                $costs
            }
        }
    )*};
}

x86_hardware! {
    Pcid: [true, true, false], COSTS;
    PcidOnly: [true, false, false], COSTS;
    Plain: [false, false, false], COSTS;
    Broadcast: [true, true, true], COSTS;
    BroadcastFresh: [true, true, true], FRESH;
}

macro_rules! riscv_hardware {
    ($($name:ident: $remote:expr, $asid_bits:literal, $extensions:expr, $config:expr, $costs:expr;)*) => {$(
        impl Hardware for $name {
            type Mmu = Riscv<riscv::Insn>;

            fn config(cpus: usize) -> Config {
                $config(Config::riscv(cpus).with_tag_bits($asid_bits))
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                let config = riscv64::Config {
                    mode: Mode::Sv39,
                    relies_on: $extensions,
                    reserved: Root::new(pa(reserved)),
                    tables: riscv64::Tables::One,
                    remote: $remote,
                };
                Riscv::new(riscv::Insn, &Self::features(), config)
            }

            fn features() -> riscv64::Features {
                riscv64::Features {
                    mode: Mode::Sv39,
                    asid_bits: $asid_bits,
                    extensions: $extensions,
                    identity: riscv64::Identity::default(),
                }
            }

            fn costs() -> Costs {
                $costs
            }
        }
    )*};
}

riscv_hardware! {
    Rv: Remote::Sbi, 16, Extensions::NONE, core::convert::identity, COSTS;
    RvInterrupts: Remote::Interrupts, 16, Extensions::NONE, Config::with_interrupts, COSTS;
    RvPlain: Remote::Interrupts, 0, Extensions::NONE, Config::with_interrupts, COSTS;
    RvBoth: Remote::Sbi, 16, Extensions::NONE, Config::with_interrupts, INTERRUPTS;
    RvFresh: Remote::Sbi, 16, Extensions::NONE, core::convert::identity, FRESH;
    RvFreshInterrupts: Remote::Interrupts, 16, Extensions::NONE, Config::with_interrupts, FRESH;
    RvSvinval: Remote::Sbi, 16, Extensions::SVINVAL, core::convert::identity, COSTS;
}

/// Hardware with an option.
macro_rules! more {
    ($(#[doc = $doc:literal])* $name:ident: $config:expr;) => {
        $(#[doc = $doc])*
        pub(super) struct $name<H>(PhantomData<H>);

        impl<H: Hardware> Hardware for $name<H> {
            type Mmu = H::Mmu;

            fn config(cpus: usize) -> Config {
                let more: fn(Config) -> Config = $config;
                more(H::config(cpus))
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                H::mmu(reserved)
            }

            fn features() -> <Self::Mmu as Mmu>::Features {
                H::features()
            }

            fn costs() -> Costs {
                H::costs()
            }

            fn observe(event: Event) {
                H::observe(event);
            }
        }
    };
}

more! {
    /// Hardware whose loads may be satisfied early.
    Early: Config::with_early_loads;
}

more! {
    /// Hardware that may cache absent entries.
    Invalid: Config::with_invalid_entries;
}

more! {
    /// RISC-V whose firmware reports a remote fence while stores of other harts are still under way.
    Hasty: Config::with_hasty_firmware;
}

more! {
    /// Hardware that sets the accessed and dirty flags of one page of one space.
    Noting: |config| config.with_updates(Updates::Dirty);
}

more! {
    /// Hardware on which every CPU takes an NMI.
    Nmis: |config| config.with_nmis(1);
}

/// Arm64 CPUs of one kind, known by their `MIDR_EL1`, and what is wrong with them.
macro_rules! arm_deviants {
    ($($(#[doc = $doc:literal])* $name:ident: $midr:expr, $deviation:ident;)*) => {$(
        $(#[doc = $doc])*
        pub(super) enum $name {}

        impl Hardware for $name {
            type Mmu = Aarch64<arm::Insn>;

            fn config(cpus: usize) -> Config {
                Config::arm(cpus).with_deviations(Deviations::$deviation)
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                Arm::mmu(reserved)
            }

            fn features() -> aarch64::Features {
                aarch64::Features { midr: $midr, ..Arm::features() }.corrected()
            }
        }
    )*};
}

arm_deviants! {
    /// Cortex-A76 r4p1: a broadcast completes before accesses of other CPUs that it must wait for.
    Late: 0x414f_d0b1, LATE_ACCESSES;
    /// Falkor: table and tag of a root may be mixed with those of the last one.
    Mixed: 0x510f_8000, MIXED_ROOTS;
    /// Cavium ThunderX: a broadcast corrupts instruction caches.
    Corrupt: 0x431f_0a11, CORRUPT_CODE;
    /// Cavium ThunderX2: an access right after the write of a root may abort.
    Aborting: 0x431f_0af1, SPURIOUS_ABORTS;
}

/// Intel's Alder Lake, in a kernel that maps itself globally: `INVLPG` leaves global entries.
pub(super) enum Sparing {}

impl Hardware for Sparing {
    type Mmu = X86<x86::Insn>;

    fn config(cpus: usize) -> Config {
        Pcid::config(cpus).with_deviations(Deviations::INVLPG_SPARES_GLOBALS)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        Ok(x86_mmu(reserved, &Self::features())?.with_global_kernel())
    }

    fn features() -> x86_64::Features {
        let vendor = x86_64::Vendor::Intel;
        x86_64::Features { vendor, family: 6, model: 0x97, ..Pcid::features() }
    }
}

/// AMD's Zen 2 as some report themselves: with `INVLPGB`, which they do not have.
pub(super) enum Boasting {}

impl Hardware for Boasting {
    type Mmu = X86<x86::Insn>;

    fn config(cpus: usize) -> Config {
        Broadcast::config(cpus).with_deviations(Deviations::UNDEFINED_INVLPGB)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        x86_mmu(reserved, &Self::features())
    }

    fn features() -> x86_64::Features {
        let vendor = x86_64::Vendor::Amd;
        x86_64::Features { vendor, family: 0x17, model: 0x47, ..Broadcast::features() }
    }
}

/// SiFive's FU740: fences with operands remove nothing, here and where the firmware executes them.
pub(super) struct Vain<H>(PhantomData<H>);

impl<H: Hardware<Mmu = Riscv<riscv::Insn>>> Hardware for Vain<H> {
    type Mmu = H::Mmu;

    fn config(cpus: usize) -> Config {
        H::config(cpus).with_deviations(Deviations::FENCE_WITHOUT_OPERANDS)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        H::mmu(reserved)
    }

    fn features() -> riscv64::Features {
        let identity = riscv64::Identity {
            vendor: 0x489,
            architecture: 1 << 63 | 7,
            implementation: 0x2018_1004,
        };
        riscv64::Features { identity, ..H::features() }
    }

    fn costs() -> Costs {
        H::costs()
    }
}

/// Hardware that only checks the events that the library reports.
macro_rules! judged {
    ($(#[doc = $doc:literal])* $name:ident: $fits:expr, $complaint:literal;) => {
        $(#[doc = $doc])*
        pub(super) struct $name<H>(PhantomData<H>);

        impl<H: Hardware> Hardware for $name<H> {
            type Mmu = H::Mmu;

            fn config(cpus: usize) -> Config {
                H::config(cpus)
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                H::mmu(reserved)
            }

            fn features() -> <Self::Mmu as Mmu>::Features {
                H::features()
            }

            fn costs() -> Costs {
                H::costs()
            }

            fn observe(event: Event) {
                if let Event::Flushed { outcome, targets, .. } = event {
                    see(event);
                    let fits: fn(Outcome, u32) -> bool = $fits;
                    oracle::check(fits(outcome, targets), $complaint);
                }
            }
        }
    };
}

judged! {
    /// Hardware on which no flush may leave the CPU that makes it.
    Quiet: |outcome, targets| outcome <= Outcome::Retagged && targets == 0,
    "a flush was broadcast, or interrupted other CPUs";
}

judged! {
    /// Hardware with a device that walks the tables, and receives broadcasts only.
    Heard: |outcome, _| outcome == Outcome::Broadcast,
    "a device did not hear of a flush";
}
