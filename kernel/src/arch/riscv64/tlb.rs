//! The library's hardware on this machine.

use lookaside::{
    Error,
    arch::riscv64::{Config, Extensions, Features, Mode, Native, Remote, Riscv},
};

use super::{harts, paging};
use crate::command_line;

pub(crate) type Mmu = Riscv<Native>;

/// `remote=interrupts` on the command line has the kernel do by itself what the firmware can do.
pub(crate) fn mmu() -> Result<Mmu, Error> {
    // Without remote flushes, too: see `crate::faults`.
    let by_itself =
        cfg!(feature = "no-remote") || command_line::get("remote") == Some("interrupts");
    let remote = if by_itself { Remote::Interrupts } else { Remote::Sbi };
    let wanted = Extensions::SVINVAL.union(Extensions::SVNAPOT);
    let relies_on = harts::all().fold(wanted, |common, hart| common.intersection(hart.extensions));
    let config = Config::new(Mode::Sv39, paging::reserved_root());
    // SAFETY: the kernel runs in supervisor mode, is mapped at its own addresses under every root,
    // and only the library writes `satp` once a hart is set up. The features of the harts are
    // those that the firmware reports.
    Riscv::new(unsafe { Native::new() }, &features(), Config { relies_on, remote, ..config })
}

/// What this hart can do. One that has not taken up Sv39 counts as without tags, and is refused.
pub(crate) fn features() -> Features {
    let hart = harts::this_cpu();
    // SAFETY: as above.
    unsafe { Features::read(hart.mode, hart.extensions) }
}
