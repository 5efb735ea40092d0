//! Arm64: what its instructions remove and cost.

use lookaside::arch::aarch64::{Dsb, Instructions, Scope, Tlbi, TlbiOp};

use super::{account::Cause, current::step, invalidate::What, machine::Machine, price::Price};

/// The instructions of an Arm CPU, for the CPU that runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Insn;

const PAGE: u64 = (1 << 44) - 1;
const BASE: u64 = (1 << 37) - 1;
const ADDRESS: u64 = (1 << 48) - 1;

impl Instructions for Insn {
    fn tlbi(&self, op: Tlbi) {
        step(|machine| {
            let what = decode(op);
            match op.scope {
                Scope::Local => machine.invalidate(what),
                Scope::InnerShareable => machine.broadcast(what),
            }
        });
    }

    fn dsb(&self, kind: Dsb) {
        step(|machine| {
            machine.drain();
            machine.charge_price(Cause::Fences, Price::Barrier);
            if kind == Dsb::Ish {
                machine.sync();
            }
        });
    }

    fn isb(&self) {}

    fn write_ttbr0(&self, value: u64) {
        step(|machine| {
            machine.charge_price(Cause::Roots, Price::Root);
            let tag = machine.cpu().registers[0] >> 48;
            // With TCR.A1 clear the ASID is TTBR0's.
            let tag = if machine.cpu().registers[1] >> 22 & 1 == 0 { value >> 48 } else { tag };
            machine.load_root(value & ADDRESS & !0xfff, tag as u16);
        });
    }

    fn read_ttbr1(&self) -> u64 {
        step(|machine| machine.cpu().registers[0])
    }

    fn write_ttbr1(&self, value: u64) {
        step(|machine| machine.cpu().registers[0] = value);
    }

    fn read_tcr(&self) -> u64 {
        step(|machine| machine.cpu().registers[1])
    }

    fn write_tcr(&self, value: u64) {
        step(|machine| machine.cpu().registers[1] = value);
    }

    fn ic_iallu(&self) {}
}

/// What a `TLBI` names (Arm ARM, C5.5), for a granule of 4 KiB and addresses of 48 bits.
fn decode(Tlbi { op, operand, .. }: Tlbi) -> What {
    let asid = (operand >> 48) as u16;
    let by_address = |pages: (u64, u64), tables, every_tag: bool| {
        let (page, pages) = pages;
        match Machine::pages(asid, page, pages, tables) {
            What::Pages { first, pages, tables, .. } if every_tag => {
                What::KernelPages { first, pages, tables }
            }
            what => what,
        }
    };
    let one = (operand & PAGE, 1);
    let range = {
        let (scale, num) = (operand >> 44 & 3, operand >> 39 & 31);
        // The base is sign-extended from bit 36.
        let base = ((operand & BASE) << 27) as i64 >> 27;
        (base as u64 & PAGE, (num + 1) << (5 * scale + 1))
    };
    match op {
        TlbiOp::Va => by_address(one, true, false),
        TlbiOp::Vaa => by_address(one, true, true),
        TlbiOp::Val => by_address(one, false, false),
        TlbiOp::Vaal => by_address(one, false, true),
        TlbiOp::Rva => by_address(range, true, false),
        TlbiOp::Rvaa => by_address(range, true, true),
        TlbiOp::Rval => by_address(range, false, false),
        TlbiOp::Rvaal => by_address(range, false, true),
        TlbiOp::Aside => What::Tag(asid),
        TlbiOp::Vmall | TlbiOp::Vmalls12 | TlbiOp::Alle1 => What::Everything,
    }
}
