//! Arm64: what its instructions remove and cost.

use lookaside::arch::aarch64::{Dsb, Instructions, Scope, Tlbi, TlbiOp};

use super::{
    account::Cause,
    current::step,
    invalidate::{Upper, What, broadcast, sync},
    machine::Machine,
    price::Price,
};

/// The instructions of an Arm CPU, for the CPU that runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Insn;

const PAGE: u64 = (1 << 44) - 1;
const BASE: u64 = (1 << 37) - 1;
const ADDRESS: u64 = (1 << 48) - 1;
const A1: u64 = 1 << 22;

const TTBR1: usize = 0;
const TCR: usize = 1;

impl Instructions for Insn {
    fn tlbi(&self, op: Tlbi) {
        let what = decode(op);
        match op.scope {
            Scope::Local => step(|machine| machine.invalidate(what)),
            Scope::Broadcast => broadcast(what),
        }
    }

    fn dsb(&self, kind: Dsb) {
        step(|machine| {
            if kind != Dsb::Ishld {
                machine.drain();
            }
            machine.charge_price(Cause::Fences, Price::Barrier);
        });
        if kind == Dsb::Ish {
            sync();
        }
    }

    fn isb(&self) {}

    fn write_ttbr0(&self, value: u64) {
        step(|machine| {
            machine.charge_price(Cause::Roots, Price::Root);
            // With TCR.A1 set the ASID is TTBR1's.
            let registers = machine.cpu().registers;
            let tag = if registers[TCR] & A1 == 0 { value } else { registers[TTBR1] } >> 48;
            machine.load_root(value & ADDRESS & !0xfff, tag as u16);
        });
    }

    fn read_ttbr1(&self) -> u64 {
        step(|machine| machine.cpu().registers[TTBR1])
    }

    fn write_ttbr1(&self, value: u64) {
        step(|machine| {
            let cpu = machine.cpu();
            cpu.registers[TTBR1] = value;
            if cpu.registers[TCR] & A1 != 0 {
                cpu.tag = (value >> 48) as u16;
            }
        });
    }

    fn ic_iallu(&self) {}
}

/// What a `TLBI` names (Arm ARM, C5.5), for a granule of 4 KiB and addresses of 48 bits.
fn decode(Tlbi { op, operand, .. }: Tlbi) -> What {
    let asid = (operand >> 48) as u16;
    let by_address = |(page, pages), upper| Machine::pages(asid, page, pages, upper);
    let one = (operand & PAGE, 1);
    let range = {
        let (scale, num) = (operand >> 44 & 3, operand >> 39 & 31);
        // The base is sign-extended from bit 36.
        let base = ((operand & BASE) << 27) as i64 >> 27;
        (base as u64 & PAGE, (num + 1) << (5 * scale + 1))
    };
    match op {
        TlbiOp::Va => by_address(one, Upper::Named),
        TlbiOp::Vaa => by_address(one, Upper::Named).of_all(),
        TlbiOp::Val => by_address(one, Upper::Keep),
        TlbiOp::Vaal => by_address(one, Upper::Keep).of_all(),
        TlbiOp::Rva => by_address(range, Upper::Named),
        TlbiOp::Rvaa => by_address(range, Upper::Named).of_all(),
        TlbiOp::Rval => by_address(range, Upper::Keep),
        TlbiOp::Rvaal => by_address(range, Upper::Keep).of_all(),
        TlbiOp::Aside => What::Tag(asid),
        TlbiOp::Vmall | TlbiOp::Vmalls12 | TlbiOp::Alle1 => What::Everything,
    }
}
