//! The translation hardware of a timed machine, as the library operates it.

use lookaside::{
    Error,
    arch::{
        Mmu, Root, Sharing,
        aarch64::{self, Aarch64, AsidIn, IdRegisters, Pairing},
        riscv64::{self, Extensions, Mode, Remote, Riscv},
        x86_64::{self, Levels, Tables, Use, X86},
    },
    platform::{Costs, OperationCosts},
};
use lookaside_machine::timed::{Price, Ps, arm, riscv, x86};

use crate::data::Machine;

/// The root that a parked CPU names. It maps nothing.
pub const RESERVED: u64 = 0x7fff_f000;

/// A kind of hardware: what the library needs to operate it on a machine.
pub trait Hardware {
    /// The library's type for it.
    type Mmu: Mmu;

    /// The hardware of a machine.
    ///
    /// # Errors
    ///
    /// If the library refuses the machine file's configuration.
    fn mmu(machine: &Machine) -> Result<Self::Mmu, Error>;

    /// The features that each of its CPUs reports.
    fn features(machine: &Machine) -> <Self::Mmu as Mmu>::Features;

    /// Sets a CPU up, before the library.
    fn set_up(_: &Self::Mmu) {}
}

/// Arm64.
pub enum Arm {}

/// x86-64 with all features of the machine.
pub enum X86Cpu {}

/// x86-64 without PCIDs.
pub enum X86Plain {}

/// RISC-V with firmware that fences other harts.
pub enum Rv {}

impl Hardware for Arm {
    type Mmu = Aarch64<arm::Insn>;

    fn mmu(machine: &Machine) -> Result<Self::Mmu, Error> {
        let wide = machine.features.tag_bits > 8;
        Aarch64::new(
            arm::Insn,
            aarch64::Config {
                features: Self::features(machine),
                // T0SZ 16, 4 KiB granule, 48-bit physical addresses, and AS.
                tcr: 16 | 5 << 32 | u64::from(wide) << 36,
                reserved_root: RESERVED,
                sharing: Sharing::Private,
                pairing: if machine.features.paired { Pairing::Paired } else { Pairing::Single },
                asid_in: AsidIn::Ttbr0,
            },
        )
    }

    fn features(machine: &Machine) -> aarch64::Features {
        let wide = u64::from(machine.features.tag_bits > 8);
        // ID_AA64ISAR0_EL1.TLB is 2 with FEAT_TLBIRANGE.
        let range = if machine.features.tlbi_range { 2_u64 << 56 } else { 0 };
        aarch64::Features::decode(IdRegisters {
            mmfr0: 5 | (2 * wide) << 4,
            isar0: range,
            ..IdRegisters::default()
        })
    }
}

fn x86_features(machine: &Machine) -> x86_64::Features {
    let f = machine.features;
    let mut features = x86_64::Features::decode(|leaf, _| match leaf {
        0 => [7, 0, 0, 0],
        1 => [0, 0, 1 << 17, 1 << 13],
        7 => [0, 1 << 10, 0, 0],
        0x8000_0000 => [0x8000_0008, 0, 0, 0],
        // EDX: how many pages one `INVLPGB` takes, 7 on an EPYC 9655 (InstLatx64), and taken for the others.
        0x8000_0008 => [48 | 48 << 8, u32::from(f.invlpgb) << 3, 0, 7],
        _ => [0; 4],
    });
    features.pcid = f.tag_bits > 0;
    features.invpcid = f.invpcid;
    features
}

fn x86_mmu(machine: &Machine, pcids: Use) -> Result<X86<x86::Insn>, Error> {
    let config = x86_64::Config {
        pcids,
        invlpgb: Use::WherePresent,
        tables: Tables::One,
        levels: Levels::Four,
        reserved_root: RESERVED,
    };
    Ok(X86::new(x86::Insn, &x86_features(machine), config)?.with_global_kernel())
}

impl Hardware for X86Cpu {
    type Mmu = X86<x86::Insn>;

    fn mmu(machine: &Machine) -> Result<Self::Mmu, Error> {
        x86_mmu(machine, Use::WherePresent)
    }

    fn features(machine: &Machine) -> x86_64::Features {
        x86_features(machine)
    }

    fn set_up(mmu: &Self::Mmu) {
        mmu.set_up_cpu();
    }
}

impl Hardware for X86Plain {
    type Mmu = X86<x86::Insn>;

    fn mmu(machine: &Machine) -> Result<Self::Mmu, Error> {
        x86_mmu(machine, Use::Never)
    }

    fn features(machine: &Machine) -> x86_64::Features {
        x86_features(machine)
    }

    fn set_up(mmu: &Self::Mmu) {
        mmu.set_up_cpu();
    }
}

impl Hardware for Rv {
    type Mmu = Riscv<riscv::Insn>;

    fn mmu(machine: &Machine) -> Result<Self::Mmu, Error> {
        let config = riscv64::Config {
            mode: Mode::Sv39,
            relies_on: Extensions::NONE,
            reserved: Root::new(RESERVED),
            tables: riscv64::Tables::One,
            remote: Remote::Sbi,
        };
        Riscv::new(riscv::Insn, &Self::features(machine), config)
    }

    fn features(machine: &Machine) -> riscv64::Features {
        riscv64::Features {
            mode: Mode::Sv39,
            asid_bits: machine.features.tag_bits,
            extensions: Extensions::NONE,
            identity: riscv64::Identity::default(),
        }
    }
}

/// The costs that a kernel which measures the machine at boot would give to the library: the machine's own
/// prices where they are known, typical ones elsewhere.
pub fn costs(machine: &Machine, typical: &Costs) -> Costs {
    let prices = &machine.charged().prices;
    let known = |price: Price| prices.get(price);
    let sum = |parts: &[Price], typical: Ps| {
        if parts.iter().all(|&part| known(part).is_none()) {
            typical
        } else {
            parts.iter().map(|&part| prices.charge(part)).sum()
        }
    };
    let typical_here = typical.local;
    let tag = [known(Price::FlushTag), known(Price::RootFlush)].into_iter().flatten().min();
    let line =
        if machine.model.topology.sockets > 1 { Price::LineRemote } else { Price::LineSocket };
    Costs {
        local: OperationCosts {
            address: known(Price::FlushPage).unwrap_or(typical_here.address),
            tag: tag.unwrap_or(typical_here.tag),
            wait: sum(&[Price::Barrier], typical_here.wait),
            ..typical_here
        },
        broadcast: OperationCosts {
            address: sum(
                &[Price::BroadcastIssue, Price::FabricOperation],
                typical.broadcast.address,
            ),
            tag: sum(&[Price::BroadcastIssue, Price::FabricOperation], typical.broadcast.tag),
            wait: sum(&[Price::FabricSync, Price::FabricLatency], typical.broadcast.wait),
            ..typical.broadcast
        },
        refill: known(Price::Walk).unwrap_or(typical.refill),
        // The lines of a request: the word that says that an IPI is pending and the request go there, the
        // acknowledgement and that word come back. Nobody waits for the return from the handler.
        ipi: sum(
            &[
                Price::InterruptSend,
                Price::InterruptDeliver,
                Price::InterruptEntry,
                line,
                line,
                line,
                line,
            ],
            typical.ipi,
        ),
        // The initiator writes one word and reads another; the rest happens on the targets at the same time.
        ipi_more: sum(&[Price::InterruptSend, line, line], typical.ipi_more),
        // Entries that an invalidation by address removes anyway are not worth sparing.
        useful_entries: if machine.model.tlb.fractured { 0 } else { typical.useful_entries },
        ..*typical
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Files;

    /// Between pages and the tag the library chooses by what it is charged. Were a tag without a price for nothing, and the choice
    /// by what it may take, it would invalidate page by page what the tag would be flushed for where it is cheap.
    #[test]
    fn by_what_the_library_chooses_it_is_charged() {
        let mut stand_ins = 0;
        let arm = Arm::mmu(&Machine::named("altra_1node").unwrap()).unwrap();
        let typical = arm.properties().typical_costs;
        for machine in Files::own().machines().unwrap() {
            let charged = machine.charged().prices;
            let known = |price: Price| charged.get(price);
            let local = costs(&machine, typical).local;
            let Some(page) = known(Price::FlushPage) else { continue };
            assert_eq!(local.address, page, "{}", machine.key);
            if machine.features.tag_bits == 0 {
                continue;
            }
            // The tag that the root register names is flushed by a write of that register, on x86-64.
            let own = [known(Price::FlushTag), known(Price::RootFlush)].into_iter().flatten().min();
            assert_eq!(Some(local.tag), own, "{}", machine.key);
            stand_ins += u32::from(machine.tag_as().is_some());
            if machine.tag_as().is_some() {
                assert_eq!(machine.model.prices.get(Price::FlushTag), None, "{}", machine.key);
                assert!(
                    charged.charge(Price::FlushTag) > 0,
                    "{} flushes it for nothing",
                    machine.key
                );
            }
        }
        assert!(stand_ins > 10, "most files have no price for a tag");
    }
}
