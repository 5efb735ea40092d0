//! RISC-V: what its instructions, and the firmware's remote fences, remove and cost.

use lookaside::{Error, arch::riscv64::Instructions};

use super::{
    account::Cause,
    current::step,
    invalidate::{Upper, What},
    machine::Machine,
    price::Price,
};

/// The instructions of a RISC-V hart, for the hart that runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Insn;

const SATP: usize = 0;
const PPN: u64 = (1 << 44) - 1;

/// What a fence names: pages from an address on, or everything; under one tag, or under all. A fence
/// by address concerns last-level entries only.
fn what(pages: Option<(u64, u64)>, asid: Option<u16>) -> What {
    match (pages, asid) {
        (Some((first, pages)), Some(asid)) => Machine::pages(asid, first, pages, Upper::Keep),
        (Some((first, pages)), None) => Machine::pages(0, first, pages, Upper::Keep).of_all(),
        (None, Some(asid)) => What::Tag(asid),
        (None, None) => What::Everything,
    }
}

fn one(address: u64) -> (u64, u64) {
    (address >> 12, 1)
}

impl Instructions for Insn {
    fn sfence_vma(&self, address: Option<u64>, asid: Option<u16>) {
        step(|machine| {
            machine.drain();
            machine.invalidate(what(address.map(one), asid));
        });
    }

    fn sfence_w_inval(&self) {
        step(|machine| {
            machine.drain();
            machine.charge_price(Cause::Fences, Price::Barrier);
        });
    }

    fn sinval_vma(&self, address: Option<u64>, asid: Option<u16>) {
        step(|machine| machine.invalidate(what(address.map(one), asid)));
    }

    fn sfence_inval_ir(&self) {
        step(|machine| machine.charge_price(Cause::Fences, Price::Barrier));
    }

    fn fence(&self) {
        step(|machine| {
            machine.drain();
            machine.charge_price(Cause::Fences, Price::Fence);
        });
    }

    fn read_satp(&self) -> u64 {
        step(|machine| machine.cpu().registers[SATP])
    }

    fn write_satp(&self, value: u64) {
        step(|machine| {
            machine.charge_price(Cause::Roots, Price::Root);
            machine.cpu().registers[SATP] = value;
            machine.load_root((value & PPN) << 12, (value >> 44) as u16);
        });
    }

    fn remote_sfence_vma(
        &self,
        harts: u64,
        base: u64,
        start: u64,
        size: u64,
        asid: Option<u16>,
    ) -> Result<(), Error> {
        step(|machine| {
            let everything = size == u64::MAX || start == 0 && size == 0;
            let pages = (!everything).then(|| (start >> 12, size.div_ceil(4096)));
            let what = what(pages, asid);
            let count = machine.cpus.len();
            if base == u64::MAX {
                machine.firmware_fence(0..count, what);
            } else {
                let named = (0..64).filter(|bit| harts >> bit & 1 != 0);
                machine.firmware_fence(named.map(|bit| (base + bit) as usize), what);
            }
        });
        Ok(())
    }
}
