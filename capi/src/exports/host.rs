//! The hardware in a program: a modelled RISC-V hart, whose instructions arrive at functions of the program.

use lookaside::{
    Error,
    arch::riscv64::{Extensions, Instructions, Riscv},
};

pub(super) use super::riscv::{Boot, Features, prefers_broadcasts, trampoline_fences, user_asid};
use super::{platform::lookaside_platform_irqs_are_off, riscv};
use crate::error::Refused;

/// `LOOKASIDE_ARCH_HOST`.
pub(super) const ARCH: u32 = 1;

unsafe extern "C" {
    safe fn lookaside_host_sfence_vma(has_va: bool, va: u64, has_asid: bool, asid: u16);
    safe fn lookaside_host_fence();
    safe fn lookaside_host_read_satp() -> u64;
    safe fn lookaside_host_write_satp(satp: u64);
}

/// The program's hart.
#[derive(Debug)]
pub(crate) struct Hart;

impl Instructions for Hart {
    fn sfence_vma(&self, address: Option<u64>, asid: Option<u16>) {
        lookaside_host_sfence_vma(
            address.is_some(),
            address.unwrap_or(0),
            asid.is_some(),
            asid.unwrap_or(0),
        );
    }

    // The hart has no Svinval: `mmu` does not rely on it.
    fn sfence_w_inval(&self) {}

    fn sinval_vma(&self, address: Option<u64>, asid: Option<u16>) {
        self.sfence_vma(address, asid);
    }

    fn sfence_inval_ir(&self) {}

    fn fence(&self) {
        lookaside_host_fence();
    }

    fn read_satp(&self) -> u64 {
        lookaside_host_read_satp()
    }

    fn write_satp(&self, value: u64) {
        lookaside_host_write_satp(value);
    }

    fn remote_sfence_vma(
        &self,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: Option<u16>,
    ) -> Result<(), Error> {
        Err(Error::Unsupported("firmware"))
    }
}

/// The hardware.
pub(super) type Mmu = Riscv<Hart>;

pub(super) fn mmu(boot: &Boot) -> Result<Mmu, Refused> {
    riscv::mmu(Hart, boot, Extensions::SVNAPOT, false)
}

/// Whether this hart takes no interrupt. The program knows.
pub(super) fn are_masked() -> bool {
    lookaside_platform_irqs_are_off()
}
