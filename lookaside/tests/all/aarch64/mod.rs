//! A CPU that writes down what it executes, and the configurations that it runs in.
//!
//! In the expectations, one line is one instruction. Values of root registers appear as
//! `tag:address`, with `+cnp` where the bit is set.

use core::{
    cell::{Cell, RefCell},
    fmt::Write as _,
};

use lookaside::arch::{
    Errata, Held, Mmu, Root, Sharing, Tag,
    aarch64::{
        Aarch64, AsidIn, Config, Dsb, Features, IdRegisters, Instructions, Pairing, Scope, Stage2,
        Stage2Config, Tlbi, TlbiOp,
        registers::{TCR_A1, TCR_AS},
    },
};

// ---- The recorder

#[derive(Default)]
pub(crate) struct Recorder {
    lines: RefCell<Vec<String>>,
    pub(crate) tcr: RefCell<u64>,
    /// What a CPU that comes up has; `None`: what it is asked for.
    pub(crate) tcr_at_boot: Cell<Option<u64>>,
}

impl Recorder {
    pub(crate) fn line(&self, line: impl Into<String>) {
        self.lines.borrow_mut().push(line.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        self.lines.take()
    }

    pub(crate) fn root(&self, register: &str, value: u64) {
        let mut line = format!("{register} {}:{:#x}", value >> 48, value & 0xffff_ffff_fffe);
        if value & 1 == 1 {
            line.push_str(" +cnp");
        }
        self.line(line);
    }
}

impl Instructions for &Recorder {
    fn tlbi(&self, Tlbi { op, scope, operand }: Tlbi) {
        let mut line = format!("tlbi {op:?}").to_lowercase();
        if scope == Scope::Broadcast {
            line.push_str("is");
        }
        match op {
            TlbiOp::Vmall | TlbiOp::Vmalls12 | TlbiOp::Alle1 => assert_eq!(operand, 0),
            TlbiOp::Aside => {
                assert_eq!(operand << 16, 0);
                write!(line, " {}", operand >> 48).unwrap();
            }
            _ => write!(line, " {operand:#x}").unwrap(),
        }
        self.line(line);
    }

    fn dsb(&self, kind: Dsb) {
        self.line(format!("dsb {kind:?}").to_lowercase());
    }

    fn isb(&self) {
        self.line("isb");
    }

    fn write_ttbr0(&self, value: u64) {
        self.root("ttbr0", value);
    }

    fn read_ttbr1(&self) -> u64 {
        panic!("nothing depends on what TTBR1 holds")
    }

    fn write_ttbr1(&self, value: u64) {
        self.root("ttbr1", value);
    }

    fn tcr_at_boot(&self) -> Option<u64> {
        self.tcr_at_boot.get()
    }

    fn ic_iallu(&self) {
        self.line("ic iallu");
    }
}

#[track_caller]
pub(crate) fn assert_executed(recorder: &Recorder, expected: &str) {
    let expected: Vec<_> = expected.split(';').map(str::trim).filter(|s| !s.is_empty()).collect();
    assert_eq!(recorder.take(), expected);
}

// ---- Configurations

/// 16-bit tags, 48-bit addresses, all granules, ranges, hints, CnP.
pub(crate) fn features() -> Features {
    Features::decode(IdRegisters {
        mmfr0: 5 | 2 << 4 | 1 << 20,
        mmfr1: 2 << 4,
        mmfr2: 1 | 1 << 48,
        isar0: 2 << 56,
        ..Default::default()
    })
}

pub(crate) const RESERVED: u64 = 0x1000;
pub(crate) const KERNEL: u64 = 0x9000;
pub(crate) const ROOT: Root = Root::new(0x5000);
/// T0SZ 16, 4 KiB; T1SZ 16, TG1 4 KiB; 48 bits; 16-bit tags.
pub(crate) const TCR: u64 = 16 | 16 << 16 | 0b10 << 30 | 5 << 32 | TCR_AS;

pub(crate) fn config() -> Config {
    Config {
        features: features(),
        tcr: TCR,
        reserved_root: RESERVED,
        sharing: Sharing::Private,
        pairing: Pairing::Single,
        asid_in: AsidIn::Ttbr0,
    }
}

pub(crate) fn a1() -> Config {
    Config {
        tcr: TCR | TCR_A1,
        asid_in: AsidIn::Ttbr1 { table: KERNEL, user_table: KERNEL },
        ..config()
    }
}

pub(crate) fn paired() -> Config {
    Config { pairing: Pairing::Paired, ..config() }
}

/// Runs `f` on a machine so configured and compares what was executed.
#[track_caller]
pub(crate) fn runs(config: Config, f: impl FnOnce(&Aarch64<&Recorder>), expected: &str) {
    let recorder = Recorder::default();
    *recorder.tcr.borrow_mut() = config.tcr;
    let machine = Aarch64::new(&recorder, config).unwrap();
    assert_executed(&recorder, "");
    f(&machine);
    assert_executed(&recorder, expected);
}

pub(crate) fn keep(machine: &Aarch64<&Recorder>, errata: Errata) {
    // SAFETY: no hardware walks this root.
    unsafe { machine.load(errata, ROOT, Tag(7), Held::Keep, Sharing::Shared) };
}

pub(crate) fn drop_held(machine: &Aarch64<&Recorder>, errata: Errata) {
    // SAFETY: no hardware walks this root.
    unsafe { machine.load(errata, ROOT, Tag(7), Held::Drop, Sharing::Shared) };
}

// ---- Stage 2

/// 40 bits from level 1, 4 KiB, 44-bit output, 16-bit VMIDs.
pub(crate) const VTCR: u64 = 24 | 1 << 6 | 4 << 16 | 1 << 19;
pub(crate) const GUEST: Root = Root::new(0x8000);

pub(crate) fn stage2_config() -> Stage2Config {
    Stage2Config {
        features: features(),
        vtcr: VTCR,
        reserved_root: 0x2000,
        sharing: Sharing::Private,
    }
}

#[track_caller]
pub(crate) fn guests(config: Stage2Config, f: impl FnOnce(&Stage2<&Recorder>), expected: &str) {
    let recorder = Recorder::default();
    let stage2 = Stage2::new(&recorder, config).unwrap();
    f(&stage2);
    assert_executed(&recorder, expected);
}
