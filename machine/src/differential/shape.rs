//! Shapes: small programs for two CPUs, out of everything that instructions do to translations.

use core::fmt;

use lookaside::arch::{
    aarch64::{Dsb, Scope, TlbiOp},
    x86_64::Invpcid,
};

use crate::adversary::Arch;

/// How many CPUs a shape has.
pub const CPUS: usize = 2;
/// How many operations a CPU has at most.
pub const MOST: usize = 5;

/// The tag of the space that every CPU runs in the beginning.
pub(super) const OWN: u16 = 1;
/// The tag of the other space.
pub(super) const OTHER: u16 = 2;
/// The address that accesses go to.
pub(super) const VA: u64 = 0x5000;

/// A word of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A plain word.
    X,
    /// Another.
    Y,
    /// The descriptor of the page. 0 maps nothing, 1 the frame `A`, 2 the frame `B`.
    Page,
    /// The descriptor above it. 0 leads nowhere, 1 to the table with [`Self::Page`], 2 to a table that maps the
    /// frame `C`.
    Table,
}

impl Place {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::X, Self::Y, Self::Page, Self::Table];

    pub(super) const fn is_table(self) -> bool {
        matches!(self, Self::Page | Self::Table)
    }

    /// What it holds in the beginning.
    pub(super) const fn initial(self) -> u8 {
        if self.is_table() { 1 } else { 0 }
    }
}

/// Which space a root is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// The one whose descriptors are changed.
    Own,
    /// One that maps the frame `D`, always, under a tag of its own.
    Other,
}

/// Something that a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A plain load.
    Load(Place),
    /// A plain store. To a plain word each CPU stores a number of its own.
    Store(Place, u8),
    /// A locked exchange; with `full` it acquires and releases. On x86 every one does.
    Swap(Place, u8, bool),
    /// An access through the translation of the address. A CPU ends at a fault.
    Access,
    /// `DMB ISH`, `MFENCE`, `FENCE rw, rw`.
    Fence,
    /// A write of the root register. On x86 `keep` is bit 63.
    Root(Space, bool),
    /// `TLBI`, and the tag that it names if it names one.
    Tlbi(TlbiOp, Scope, u16),
    /// `DSB`.
    Dsb(Dsb),
    /// `ISB`.
    Isb,
    /// `INVLPG` of the address.
    Invlpg,
    /// `INVPCID`.
    Invpcid(Invpcid, u16),
    /// `INVLPGB`: `RAX` without the address, and the PCID.
    Invlpgb(u64, u16),
    /// `TLBSYNC`.
    Tlbsync,
    /// `CR4.PGE` is changed and changed back.
    Toggle,
    /// `SFENCE.VMA`: whether it names the address, and the ASID.
    Sfence(bool, Option<u16>),
    /// `SINVAL.VMA`.
    Sinval(bool, Option<u16>),
    /// `SFENCE.W.INVAL`.
    SfenceWInval,
    /// `SFENCE.INVAL.IR`.
    SfenceInvalIr,
    /// The firmware's remote fence of all harts.
    Remote(bool, Option<u16>),
}

use Operation::*;

impl Operation {
    /// Whether a program learns something from it.
    pub(super) const fn observes(self) -> bool {
        matches!(self, Load(_) | Swap(..) | Access)
    }

    /// Everything that a CPU of an architecture can do. Of instructions that name the same ([`lookaside_hardware`]
    /// says which do) there is one: a `TLBI` of a range, for instance, is one of an address here.
    #[must_use]
    pub fn of(arch: Arch) -> Vec<Self> {
        let mut all = vec![
            Store(Place::Page, 0),
            Store(Place::Page, 2),
            Store(Place::Table, 0),
            Store(Place::Table, 2),
            Store(Place::X, 1),
            Store(Place::Y, 1),
            Load(Place::X),
            Load(Place::Y),
            Load(Place::Page),
            Swap(Place::X, 1, false),
            Swap(Place::Page, 0, false),
            Access,
            Fence,
        ];
        if arch != Arch::X86 {
            all.extend([Swap(Place::X, 1, true), Swap(Place::Page, 0, true)]);
        }
        match arch {
            Arch::Arm => {
                use TlbiOp::{Aside, Va, Vaa, Vaal, Val, Vmall, Vmalls12};
                all.extend([Root(Space::Own, false), Root(Space::Other, false), Isb]);
                all.extend([Dsb::Ish, Dsb::Ishst].map(Dsb));
                for scope in [Scope::Local, Scope::Broadcast] {
                    for (op, tag) in [
                        (Vmall, 0),
                        (Vmalls12, 0),
                        (Aside, OWN),
                        (Aside, OTHER),
                        (Va, OWN),
                        (Va, OTHER),
                        (Vaa, 0),
                        (Val, OWN),
                        (Vaal, 0),
                    ] {
                        all.push(Tlbi(op, scope, tag));
                    }
                }
            }
            Arch::X86 => {
                for space in [Space::Own, Space::Other] {
                    all.extend([Root(space, false), Root(space, true)]);
                }
                all.extend([Invlpg, Tlbsync, Toggle]);
                for tag in [OWN, OTHER] {
                    all.extend([Invpcid(Invpcid::Address, tag), Invpcid(Invpcid::Context, tag)]);
                    all.extend([0b00011, 0b10011, 0b00010].map(|flags| Invlpgb(flags, tag)));
                }
                all.extend([Invpcid(Invpcid::All, 0), Invlpgb(0, 0), Invlpgb(1, 0)]);
            }
            Arch::Riscv => {
                all.extend([Root(Space::Own, false), Root(Space::Other, false)]);
                for named in [false, true] {
                    for asid in [None, Some(OWN), Some(OTHER)] {
                        all.extend([Sfence(named, asid), Sinval(named, asid), Remote(named, asid)]);
                    }
                }
                all.extend([SfenceWInval, SfenceInvalIr]);
            }
        }
        all
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keeps = |keep: bool| if keep { ", keep" } else { "" };
        match *self {
            Load(place) => write!(f, "load {place:?}"),
            Store(place, value) => write!(f, "{place:?} = {value}"),
            Swap(place, value, true) => write!(f, "swap.aqrl {place:?}, {value}"),
            Swap(place, value, false) => write!(f, "swap {place:?}, {value}"),
            Access => f.write_str("access"),
            Fence => f.write_str("fence"),
            Root(space, keep) => write!(f, "root {space:?}{}", keeps(keep)),
            Tlbi(op, scope, tag) => {
                let is = if scope == Scope::Broadcast { "IS" } else { "" };
                write!(f, "TLBI {op:?}{is} {tag}")
            }
            Dsb(kind) => write!(f, "DSB {kind:?}"),
            Isb => f.write_str("ISB"),
            Invlpg => f.write_str("INVLPG"),
            Invpcid(kind, tag) => write!(f, "INVPCID {kind:?} {tag}"),
            Invlpgb(flags, tag) => write!(f, "INVLPGB {flags:#07b} {tag}"),
            Tlbsync => f.write_str("TLBSYNC"),
            Toggle => f.write_str("toggle PGE"),
            Sfence(named, asid) => write!(f, "SFENCE.VMA {}", operands(named, asid)),
            Sinval(named, asid) => write!(f, "SINVAL.VMA {}", operands(named, asid)),
            SfenceWInval => f.write_str("SFENCE.W.INVAL"),
            SfenceInvalIr => f.write_str("SFENCE.INVAL.IR"),
            Remote(named, asid) => write!(f, "remote fence {}", operands(named, asid)),
        }
    }
}

fn operands(named: bool, asid: Option<u16>) -> String {
    let address = if named { "va" } else { "x0" };
    asid.map_or(format!("{address}, x0"), |asid| format!("{address}, {asid}"))
}

/// A program for each CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The architecture.
    pub arch: Arch,
    /// What each CPU does, in order, and then nothing.
    pub code: [[Option<Operation>; MOST]; CPUS],
}

impl Shape {
    /// The operations of a CPU.
    pub(super) fn of(&self, cpu: usize) -> impl Iterator<Item = Operation> {
        self.code[cpu].iter().copied().flatten()
    }

    /// What a CPU stores: to plain words a number of its own.
    pub(super) const fn stored(cpu: usize, place: Place, value: u8) -> u8 {
        if place.is_table() { value } else { cpu as u8 + 1 }
    }

    /// Whether it can show anything: something is observed, and something changes that a CPU could observe.
    #[must_use]
    pub fn matters(&self) -> bool {
        let all = || (0..CPUS).flat_map(|cpu| self.of(cpu));
        all().any(Operation::observes)
            && all().any(|what| matches!(what, Store(..) | Swap(..) | Root(..)))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for cpu in 0..CPUS {
            let words: Vec<_> = self.of(cpu).map(|what| what.to_string()).collect();
            let joint = if cpu == 0 { "" } else { "  ||  " };
            write!(
                f,
                "{joint}{}",
                if words.is_empty() { "-".to_owned() } else { words.join("; ") }
            )?;
        }
        Ok(())
    }
}

/// All shapes of an architecture with so many operations on each CPU, up to an exchange of the CPUs.
///
/// They are numbered, so that a part of them can be taken.
#[derive(Clone, Debug)]
pub struct Shapes {
    arch: Arch,
    alphabet: Vec<Operation>,
    lengths: [usize; CPUS],
}

impl Shapes {
    /// Those with so many operations on the two CPUs.
    ///
    /// # Panics
    ///
    /// If a CPU has more than [`MOST`].
    #[must_use]
    pub fn new(arch: Arch, lengths: [usize; CPUS]) -> Self {
        assert!(
            lengths.iter().all(|&length| length <= MOST),
            "a CPU has at most {MOST} operations"
        );
        Self { arch, alphabet: Operation::of(arch), lengths }
    }

    /// How many numbers there are.
    #[must_use]
    pub fn count(&self) -> u128 {
        (self.alphabet.len() as u128).pow((self.lengths[0] + self.lengths[1]) as u32)
    }

    /// The architecture.
    #[must_use]
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// A number at random, the same for the same seed and index (SplitMix64, Steele, Lea and Flood 2014).
    #[must_use]
    pub fn at_random(&self, seed: u64, index: u64) -> u128 {
        let mix = |value: u64| {
            let mut z = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        let (high, low) = (mix(mix(seed) ^ (2 * index + 1)), mix(mix(seed) ^ (2 * index + 2)));
        (u128::from(high) << 64 | u128::from(low)) % self.count()
    }

    /// The shape of a number; nothing if another number is the same but for an exchange of the CPUs, or if it
    /// can show nothing.
    #[must_use]
    pub fn get(&self, mut number: u128) -> Option<Shape> {
        let base = self.alphabet.len() as u128;
        let mut code = [[None; MOST]; CPUS];
        let mut parts = [0; CPUS];
        for cpu in 0..CPUS {
            let part = number % base.pow(self.lengths[cpu] as u32);
            number /= base.pow(self.lengths[cpu] as u32);
            parts[cpu] = part;
            let mut rest = part;
            for slot in &mut code[cpu][..self.lengths[cpu]] {
                *slot = Some(self.alphabet[(rest % base) as usize]);
                rest /= base;
            }
        }
        let mirrored = self.lengths[0] == self.lengths[1] && parts[0] > parts[1];
        let shape = Shape { arch: self.arch, code };
        (!mirrored && shape.matters()).then_some(shape)
    }
}
