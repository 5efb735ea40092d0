//! The library's hardware on this machine.

use lookaside::{
    Error,
    arch::{
        Root,
        riscv64::{
            Config, Extensions, Features, Mode, Native, Remote, Riscv, Tables, probe_asid_bits,
        },
    },
};

use super::{harts, paging, sbi};
use crate::command_line;

pub(crate) type Mmu = Riscv<Native>;

fn native() -> Native {
    // SAFETY: the kernel runs in supervisor mode, is mapped at its own addresses under every root,
    // and only the library writes `satp` once a hart is set up. The features of the harts are
    // those that the firmware reports.
    unsafe { Native::new() }
}

/// `remote=interrupts` on the command line has the kernel do by itself what the firmware can do.
pub(crate) fn mmu() -> Result<Mmu, Error> {
    let remote = match command_line::get("remote") {
        Some("interrupts") => Remote::Interrupts,
        // Without interrupts, too: see `crate::tlb::online`.
        _ if cfg!(feature = "no-remote") => Remote::Interrupts,
        _ => Remote::Sbi,
    };
    let wanted = Extensions::SVINVAL.union(Extensions::SVNAPOT);
    let relies_on = harts::all().fold(wanted, |common, hart| common.intersection(hart.extensions));
    let reserved = Root::new(paging::reserved_root());
    let config = Config { mode: Mode::Sv39, relies_on, reserved, tables: Tables::One, remote };
    Riscv::new(native(), &features(), config)
}

/// What this hart can do. One that has not taken up Sv39 counts as without tags, and is refused.
pub(crate) fn features() -> Features {
    let hart = harts::this_cpu();
    let asid_bits = probe_asid_bits(&native()).unwrap_or(0);
    Features { mode: hart.mode, asid_bits, extensions: hart.extensions, identity: sbi::identity() }
}
