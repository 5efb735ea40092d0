//! A page is unmapped on Arm without the barrier between the store and the `TLBI`: what goes wrong,
//! as a table.

use lookaside::{
    arch::aarch64::{Dsb, Instructions, Scope, Tlbi, TlbiOp},
    platform::{CpuId, Ordering::Relaxed, Word as _},
};
use lookaside_machine::{
    adversary::{
        Access, Config, Frame, Scenario, Word, arm::Insn, as_cpu, leak, name, oracle, tables,
    },
    explore::{Budget, Explorer},
};

const VA: u64 = 0x5000;
const ASID: u64 = 3;

struct Unmap;

struct World {
    root: Frame,
    pte: &'static Word,
}

impl Scenario for Unmap {
    type World = World;

    fn name(&self) -> String {
        "unmap".to_owned()
    }

    fn config(&self) -> Config {
        Config::arm(2)
    }

    fn build(&self) -> &'static World {
        let root = tables::allocate();
        tables::map(root, VA, Frame(7), Access::WRITE);
        for cpu in 0..2 {
            as_cpu(CpuId(cpu), || {
                Insn.write_ttbr0(root.address() | ASID << 48);
                Insn.isb();
            });
        }
        let pte = tables::pte(root, VA);
        name(pte, "the descriptor of the page");
        leak(World { root, pte })
    }

    fn run(&self, world: &'static World, cpu: CpuId) {
        if cpu == CpuId(0) {
            world.pte.store(0, Relaxed);
            // Here a DSB ISHST is missing.
            let operand = ASID << 48 | VA >> 12;
            Insn.tlbi(Tlbi { op: TlbiOp::Va, scope: Scope::Broadcast, operand });
            Insn.dsb(Dsb::Ish);
            oracle::revoked(world.root, VA);
        }
    }
}

fn main() {
    let mut explorer = Explorer::new(Unmap);
    let report = explorer.exhaust(Budget::UNLIMITED);
    match report.failure {
        None => println!("nothing goes wrong in {} states", report.states),
        Some(failure) => {
            let short = explorer.shrink(&failure);
            match explorer.explain(&short) {
                Ok(table) => print!("{table}"),
                Err(error) => println!("{error}"),
            }
        }
    }
}
