//! x86-64: what its instructions remove and cost.

use lookaside::arch::x86_64::{Instructions, Invpcid};

use super::{
    account::Cause,
    current::step,
    invalidate::{Upper, What, broadcast, sync},
    machine::Machine,
    price::Price,
};

/// The instructions of an x86 CPU, for the CPU that runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Insn;

const KEEP: u64 = 1 << 63;
const PCID: u64 = 0xfff;
const ADDRESS: u64 = (1 << 52) - 1;
const PGE: u64 = 1 << 7;
const PCIDE: u64 = 1 << 17;

const CR3: usize = 0;
const CR4: usize = 1;

impl Instructions for Insn {
    fn write_cr3(&self, value: u64) {
        step(|machine| {
            machine.drain();
            let tagged = machine.cpu().registers[CR4] & PCIDE != 0;
            let tag = if tagged { (value & PCID) as u16 } else { 0 };
            let keep = tagged && value & KEEP != 0;
            machine.cpu().registers[CR3] = value & !KEEP;
            if !keep {
                machine.remove_here(What::Tag(tag));
                machine.cpu().counters.full_flushes += 1;
            }
            let price = if keep { Price::Root } else { Price::RootFlush };
            machine.charge_price(Cause::Roots, price);
            machine.load_root(value & ADDRESS & !PCID, tag);
        });
    }

    fn read_cr3(&self) -> u64 {
        step(|machine| machine.cpu().registers[CR3])
    }

    fn write_cr4(&self, value: u64) {
        step(|machine| {
            machine.drain();
            let old = core::mem::replace(&mut machine.cpu().registers[CR4], value);
            if (old ^ value) & PGE != 0 {
                // One invalidation is a pair of writes, which is what is priced.
                if value & PGE == 0 {
                    machine.invalidate(What::Everything);
                } else {
                    machine.remove_here(What::Everything);
                }
            }
        });
    }

    fn read_cr4(&self) -> u64 {
        step(|machine| machine.cpu().registers[CR4])
    }

    fn invlpg(&self, address: u64) {
        step(|machine| {
            machine.drain();
            let tag = machine.cpu().tag;
            machine.invalidate(Machine::pages(tag, address >> 12, 1, Upper::All));
        });
    }

    fn invpcid(&self, kind: Invpcid, [pcid, address]: [u64; 2]) {
        step(|machine| {
            machine.drain();
            let tag = pcid as u16;
            match kind {
                Invpcid::Address => {
                    let what = Machine::pages(tag, address >> 12, 1, Upper::All);
                    let own = machine.model.prices.get(Price::FlushOtherPage).is_some();
                    let price = if own { Price::FlushOtherPage } else { Price::FlushPage };
                    machine.invalidate_at(what, price);
                }
                Invpcid::Context => machine.invalidate(What::Tag(tag)),
                Invpcid::All => machine.invalidate(What::Everything),
                Invpcid::AllButGlobal => machine.invalidate(What::All),
            }
        });
    }

    fn invlpgb(&self, rax: u64, ecx: u32, edx: u32) {
        let tag = (edx >> 16) as u16;
        let [by_address, by_tag, _, global, last_only] =
            [0, 1, 2, 3, 4].map(|bit| rax >> bit & 1 != 0);
        let pages = u64::from(ecx & 0xffff) + 1;
        let pages = if ecx >> 31 != 0 { pages << 9 } else { pages };
        let upper = if last_only { Upper::Keep } else { Upper::Named };
        broadcast(match (by_address, by_tag, global) {
            (true, true, _) => Machine::pages(tag, rax >> 12, pages, upper),
            (true, false, _) => Machine::pages(tag, rax >> 12, pages, upper).of_all(),
            (false, true, _) => What::Tag(tag),
            (false, false, true) => What::Everything,
            (false, false, false) => What::All,
        });
    }

    fn tlbsync(&self) {
        sync();
    }

    fn mfence(&self) {
        step(|machine| {
            machine.drain();
            machine.charge_price(Cause::Fences, Price::Fence);
        });
    }
}
