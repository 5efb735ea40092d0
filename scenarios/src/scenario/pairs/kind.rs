//! The kinds of kernel: which hardware, which allocator, and what the trampoline is.

use lookaside::{
    Error, GlobalAsids, PerCpuAsids,
    arch::{
        Mmu, Root, SeparateRoots, Sharing,
        aarch64::{self, Aarch64, AsidIn, Instructions as _, Pairing},
        riscv64::{
            self, Extensions, Identity, Instructions as _, Mode, Remote, Riscv,
            Tables as KernelTables,
        },
        x86_64::{
            self, Config as X86Config, Instructions as _, Levels, Tables, Use, UserFlush, X86,
        },
    },
    tags::{Cookie, Tags},
};
use lookaside_machine::adversary::{Config, Frame, Platform, arm, riscv, x86};

use super::super::{
    hardware::{Arm as ArmHardware, Hardware as _, x86_features},
    script::{Few, epochs},
};

/// What makes the kernel's translations others than those of user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Shape {
    /// Each space has two tables, the kernel's and user mode's.
    TwoTables,
    /// Each space has one table and one tag, and the kernel's entries are not global.
    OneTable,
    /// Each space has one table and two tags.
    TwoTags,
    /// The kernel has a root of its own, which maps another page at the address of user mode's.
    OwnRoot,
}

/// The platform of a kernel of kind `K`.
type Machine<K> = Platform<<K as Kind>::Mmu>;

/// A kind of kernel whose user mode has another root or tag.
pub(in super::super) trait Kind: 'static {
    /// The library's type for its hardware.
    type Mmu: SeparateRoots + 'static;
    /// How it gives tags.
    type Tags: Tags<Platform<Self::Mmu>> + 'static;

    /// What the kernel's translations are.
    const SHAPE: Shape;

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

    /// Makes what gives tags.
    ///
    /// # Errors
    ///
    /// What the library says.
    fn tags(platform: &Machine<Self>) -> Result<Self::Tags, Error>
    where
        Self: Sized;

    /// What a CPU does when it comes up, before the library.
    fn set_up(mmu: &Self::Mmu);

    /// The trampoline: writes the register that holds the tag, with the fences that belong there.
    fn write_root(mmu: &Self::Mmu, value: u64);
}

/// A [`Kind`] with its type erased, but for the library's: the scenarios of all kinds that have these types in
/// common are one type, and are compiled once.
pub(in super::super) struct Described<M: Mmu, T> {
    pub(super) shape: Shape,
    pub(super) config: fn(usize) -> Config,
    pub(super) mmu: fn(Frame) -> Result<M, Error>,
    pub(super) features: fn() -> M::Features,
    pub(super) tags: fn(&Platform<M>) -> Result<T, Error>,
    pub(super) set_up: fn(&M),
    pub(super) write_root: fn(&M, u64),
}

impl<M: Mmu, T> Described<M, T> {
    /// What there is to know of `K`.
    pub(in super::super) fn of<K: Kind<Mmu = M, Tags = T>>() -> Self {
        Self {
            shape: K::SHAPE,
            config: K::config,
            mmu: K::mmu,
            features: K::features,
            tags: K::tags,
            set_up: K::set_up,
            write_root: K::write_root,
        }
    }
}

impl<M: Mmu, T> Clone for Described<M, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Mmu, T> Copy for Described<M, T> {}

/// Few global tags: enough for as many CPUs as scripts have.
fn few<M: Mmu>(
    platform: &Platform<M>,
    last_epoch: u64,
) -> Result<GlobalAsids<'static, Platform<M>>, Error> {
    epochs(platform, Few { usable: 3, pins: 0, last_epoch })
}

macro_rules! global {
    ($last_epoch:expr) => {
        type Tags = GlobalAsids<'static, Platform<Self::Mmu>>;

        fn tags(platform: &Machine<Self>) -> Result<Self::Tags, Error> {
            few(platform, $last_epoch)
        }
    };
}

macro_rules! by_recency {
    () => {
        type Tags = PerCpuAsids<2>;

        fn tags(_: &Machine<Self>) -> Result<Self::Tags, Error> {
            Ok(PerCpuAsids::new())
        }
    };
}

macro_rules! on_x86 {
    ($($(#[doc = $doc:literal])* $name:ident: $has:expr, $tables:expr, { $($tags:tt)* };)*) => {$(
        $(#[doc = $doc])*
        pub(in super::super) enum $name {}

        impl Kind for $name {
            type Mmu = X86<x86::Insn>;

            $($tags)*

            const SHAPE: Shape = match $tables {
                Tables::One => Shape::OneTable,
                Tables::Separate(_) => Shape::TwoTables,
            };

            fn config(cpus: usize) -> Config {
                Config::x86(cpus)
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                let config = X86Config {
                    pcids: Use::WherePresent,
                    invlpgb: Use::WherePresent,
                    tables: $tables,
                    levels: Levels::Four,
                    reserved_root: reserved.0 << 12,
                };
                X86::new(x86::Insn, &Self::features(), config)
            }

            fn features() -> x86_64::Features {
                x86_features($has)
            }

            fn set_up(mmu: &Self::Mmu) {
                mmu.set_up_cpu();
            }

            fn write_root(_: &Self::Mmu, value: u64) {
                x86::Insn.write_cr3(value);
            }
        }
    )*};
}

on_x86! {
    /// x86-64: the user's half is flushed where the root is loaded.
    OnLoad: [true, true, false], Tables::Separate(UserFlush::OnLoad), { by_recency!(); };
    /// It is flushed on the way to user mode.
    AtExit: [true, true, false], Tables::Separate(UserFlush::AtExit), { by_recency!(); };
    /// The same without `INVPCID`: a PCID that `CR3` does not name goes with all others.
    NoInvpcid: [true, false, false], Tables::Separate(UserFlush::OnLoad), { by_recency!(); };
    /// The same, and it is flushed on the way to user mode.
    AtExitNoInvpcid: [true, false, false], Tables::Separate(UserFlush::AtExit), { by_recency!(); };
    /// One table for both modes.
    One: [true, true, false], Tables::One, { by_recency!(); };
    /// Tags that are the same on all CPUs, and `INVLPGB`.
    Broadcast: [true, true, true], Tables::Separate(UserFlush::OnLoad), { global!(Cookie::LAST_EPOCH); };
}

macro_rules! on_riscv {
    ($($(#[doc = $doc:literal])* $name:ident: $asid_bits:literal, $remote:expr, { $($tags:tt)* };)*) => {$(
        $(#[doc = $doc])*
        pub(in super::super) enum $name {}

        impl Kind for $name {
            type Mmu = Riscv<riscv::Insn>;

            $($tags)*

            const SHAPE: Shape = Shape::OwnRoot;

            fn config(cpus: usize) -> Config {
                Config::riscv(cpus).with_tag_bits($asid_bits)
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                let config = riscv64::Config {
                    mode: Mode::Sv39,
                    relies_on: Extensions::NONE,
                    reserved: Root::new(reserved.0 << 12),
                    tables: KernelTables::Separate,
                    remote: $remote,
                };
                Riscv::new(riscv::Insn, &Self::features(), config)
            }

            fn features() -> riscv64::Features {
                riscv64::Features {
                    mode: Mode::Sv39,
                    asid_bits: $asid_bits,
                    extensions: Extensions::NONE,
                    identity: Identity::default(),
                }
            }

            fn set_up(_: &Self::Mmu) {}

            fn write_root(mmu: &Self::Mmu, value: u64) {
                riscv::Insn.write_satp(value);
                if mmu.trampoline_fences() {
                    riscv::Insn.sfence_vma(None, None);
                }
            }
        }
    )*};
}

on_riscv! {
    /// RISC-V whose harts are interrupted, with global tags.
    Rv: 16, Remote::Interrupts, { global!(Cookie::LAST_EPOCH); };
    /// The same by SBI remote fences.
    RvSbi: 16, Remote::Sbi, { global!(Cookie::LAST_EPOCH); };
    /// The same where the second epoch is the last.
    RvLast: 16, Remote::Interrupts, { global!(2); };
    /// The same with tags by recency.
    RvRecent: 16, Remote::Interrupts, { by_recency!(); };
    /// The same without ASIDs.
    RvPlain: 0, Remote::Interrupts, { by_recency!(); };
}

/// `TCR_EL1.A1`: the ASID is that of `TTBR1_EL1`.
const A1: u64 = 1 << 22;

fn arm_mmu(
    reserved: Frame,
    asid_in: AsidIn,
    sharing: Sharing,
) -> Result<Aarch64<arm::Insn>, Error> {
    let a1 = if asid_in == AsidIn::Ttbr0 { 0 } else { A1 };
    Aarch64::new(
        arm::Insn,
        aarch64::Config {
            features: ArmHardware::features(),
            // T0SZ 16, 4 KiB granule, 48-bit physical addresses, 16-bit ASIDs.
            tcr: 16 | 5 << 32 | 1 << 36 | a1,
            reserved_root: reserved.0 << 12,
            sharing,
            pairing: Pairing::Paired,
            asid_in,
        },
    )
}

macro_rules! on_arm {
    ($($(#[doc = $doc:literal])* $name:ident: $asid_in:expr, $sharing:ident, { $($tags:tt)* };)*) => {$(
        $(#[doc = $doc])*
        pub(in super::super) enum $name {}

        impl Kind for $name {
            type Mmu = Aarch64<arm::Insn>;

            $($tags)*

            const SHAPE: Shape = Shape::TwoTags;

            fn config(cpus: usize) -> Config {
                let config = Config::arm(cpus);
                if Sharing::$sharing == Sharing::Shared { config.with_cnp() } else { config }
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                arm_mmu(reserved, $asid_in, Sharing::$sharing)
            }

            fn features() -> aarch64::Features {
                ArmHardware::features()
            }

            fn set_up(_: &Self::Mmu) {
                if $asid_in != AsidIn::Ttbr0 {
                    arm::Insn.write_tcr(arm::Insn.read_tcr() | A1);
                    arm::Insn.isb();
                }
            }

            fn write_root(_: &Self::Mmu, value: u64) {
                if $asid_in == AsidIn::Ttbr0 {
                    arm::Insn.write_ttbr0(value);
                } else {
                    arm::Insn.write_ttbr1(value);
                }
                // At the exit this is the `ERET`.
                arm::Insn.isb();
            }
        }
    )*};
}

/// The upper half is not modelled, so that nobody walks these.
const IN_TTBR1: AsidIn = AsidIn::Ttbr1 { table: 0x8000_0000, user_table: 0x8000_1000 };

on_arm! {
    /// Arm64 with the ASID in `TTBR0`, and global tags.
    Arm: AsidIn::Ttbr0, Private, { global!(Cookie::LAST_EPOCH); };
    /// The same with the ASID in `TTBR1`.
    ArmTtbr1: IN_TTBR1, Private, { global!(Cookie::LAST_EPOCH); };
    /// With tags by recency.
    ArmRecent: AsidIn::Ttbr0, Private, { by_recency!(); };
    /// With CnP.
    ArmShared: AsidIn::Ttbr0, Shared, { global!(Cookie::LAST_EPOCH); };
    /// The same where the second epoch is the last.
    ArmSharedLast: AsidIn::Ttbr0, Shared, { global!(2); };
}
