//! RISC-V: what the instructions do to translations. What they name and what they order is said by
//! [`lookaside_hardware::riscv`].
//!
//! `SFENCE.VMA` is immediate and local; it makes its hart's earlier stores to page tables visible to
//! walks, and lets other stores stay in the buffer.
//! A write of `satp` takes effect at once and orders nothing. `SINVAL.VMA` dooms until
//! `SFENCE.INVAL.IR`; only `SFENCE.W.INVAL` orders earlier stores before it. The firmware's remote
//! fence acts on all harts it names in one moment, when the call returns, and does not wait for
//! the caller's store buffer: the caller fences first. For the stores of the other harts it waits, unless
//! [`Config::hasty_firmware`](super::Config::hasty_firmware) is set.

use lookaside::{Error, arch::riscv64::Instructions};
use lookaside_hardware::{
    Invalidation,
    riscv::{self, Order},
};

use super::{
    cpu::Cpu,
    current::step,
    deviations::Deviations,
    machine::Machine,
    op::{Op, Remote, Riscv},
    violation::Rule,
};

/// The instructions of a RISC-V hart, for the CPU that runs. The number of a hart is that of the
/// CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Insn;

impl Instructions for Insn {
    #[track_caller]
    fn sfence_vma(&self, address: Option<u64>, asid: Option<u16>) {
        step(Op::Riscv(Riscv::Sfence(address, asid)));
    }

    #[track_caller]
    fn sfence_w_inval(&self) {
        step(Op::Riscv(Riscv::SfenceWInval));
    }

    #[track_caller]
    fn sinval_vma(&self, address: Option<u64>, asid: Option<u16>) {
        step(Op::Riscv(Riscv::Sinval(address, asid)));
    }

    #[track_caller]
    fn sfence_inval_ir(&self) {
        step(Op::Riscv(Riscv::SfenceInvalIr));
    }

    #[track_caller]
    fn fence(&self) {
        step(Op::Riscv(Riscv::Fence));
    }

    #[track_caller]
    fn read_satp(&self) -> u64 {
        step(Op::Riscv(Riscv::ReadSatp))
    }

    #[track_caller]
    fn write_satp(&self, value: u64) {
        step(Op::Riscv(Riscv::WriteSatp(value)));
    }

    #[track_caller]
    fn remote_sfence_vma(
        &self,
        harts: u64,
        base: u64,
        start: u64,
        size: u64,
        asid: Option<u16>,
    ) -> Result<(), Error> {
        step(Op::Riscv(Riscv::Remote(Remote { harts, base, start, size, asid })));
        Ok(())
    }
}

impl Machine {
    pub(crate) fn execute_riscv(&mut self, cpu: usize, instruction: Riscv) -> u64 {
        let order = match instruction {
            Riscv::Sfence(..) => Order::SFENCE_VMA,
            Riscv::SfenceWInval => Order::SFENCE_W_INVAL,
            Riscv::Sinval(..) => Order::SINVAL_VMA,
            Riscv::SfenceInvalIr => Order::SFENCE_INVAL_IR,
            Riscv::Fence => Order::FENCE,
            Riscv::WriteSatp(_) => Order::WRITE_SATP,
            Riscv::ReadSatp => return Cpu::newest(&self.cpus[cpu].registers.root),
            Riscv::Remote(remote) => {
                self.remote_fence(cpu, remote);
                return 0;
            }
        };
        if order.stores_before_walks {
            self.drain_tables(cpu);
            self.invalidates_from_now(cpu);
        }
        if order.accesses {
            self.drain_all(cpu);
            self.close_now(cpu);
        }
        if order.completes {
            self.complete(cpu, false);
        }
        match instruction {
            Riscv::Sfence(address, asid) => {
                let pages = address.map(page_of);
                if !self.is_in_vain(pages, asid) {
                    self.invalidate_now(cpu, self.fenced(pages, asid));
                }
            }
            Riscv::Sinval(address, asid) => {
                self.doom(cpu, self.fenced(address.map(page_of), asid), false);
            }
            Riscv::WriteSatp(value) => {
                self.cpus[cpu].registers.root[0] = riscv::satp(value, self.tags_kept());
                self.registers_changed(cpu);
            }
            _ => {}
        }
        0
    }

    /// Whether a fence removes nothing because it has operands.
    fn is_in_vain(&self, pages: Option<(u64, u64)>, asid: Option<u16>) -> bool {
        self.config.deviations.contains(Deviations::FENCE_WITHOUT_OPERANDS)
            && (pages.is_some() || asid.is_some())
    }

    /// What a fence of some pages (or all) and one ASID (or all) names.
    fn fenced(&self, pages: Option<(u64, u64)>, asid: Option<u16>) -> Invalidation {
        riscv::fenced(pages, asid).with_tags_of(self.tags_kept())
    }

    fn remote_fence(&mut self, caller: usize, call: Remote) {
        let count = self.cpus.len();
        let all = call.base == u64::MAX;
        let everything = call.size == u64::MAX || (call.start == 0 && call.size == 0);
        let last = call.start.wrapping_add(call.size).wrapping_sub(1) >> 12;
        let pages = (!everything).then_some((call.start >> 12, last));
        let what = self.fenced(pages, call.asid);
        if self.is_in_vain(pages, call.asid) {
            return;
        }
        for bit in 0..64 {
            if all || call.harts & 1 << bit != 0 {
                let hart = if all { bit } else { call.base.saturating_add(bit) };
                if hart < count as u64 {
                    let hart = hart as usize;
                    if self.is_deaf(hart) {
                        continue;
                    }
                    self.invalidate_now(hart, what);
                    if hart != caller && !self.config.hasty_firmware {
                        // It tells its completion with a release.
                        self.drain_all(hart);
                        self.close_now(hart);
                    }
                } else if !all {
                    self.fail(Rule::Misuse, format!("a remote fence names hart {hart}"));
                }
            }
        }
    }
}

/// The page of an address, as a range.
fn page_of(address: u64) -> (u64, u64) {
    (address >> 12, address >> 12)
}
