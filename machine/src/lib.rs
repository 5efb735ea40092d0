//! A machine in software, on which the library's own source runs.
//!
//! [`adversary`] is a machine with store buffers, interrupts at any moment, and TLBs that hold every
//! entry that the architecture permits. [`explore`] executes a scenario on it in every order, or in as many
//! orders as the budget permits. An oracle checks the promises of the library.
//!
//! ```
//! use lookaside::platform::{Ordering::Relaxed, CpuId, Word as _};
//! use lookaside::arch::aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp};
//! use lookaside_machine::adversary::{self as machine, arm::Insn, oracle, tables};
//! use lookaside_machine::adversary::{Access, Config, Frame, Rule, Scenario, Word};
//! use lookaside_machine::explore::{Budget, Explorer};
//!
//! /// CPU 0 unmaps a page that both CPUs may have cached.
//! struct Unmap {
//!     completion: Dsb,
//! }
//!
//! struct World {
//!     root: Frame,
//!     pte: &'static Word,
//! }
//!
//! impl Scenario for Unmap {
//!     type World = World;
//!
//!     fn name(&self) -> String {
//!         "unmap".to_owned()
//!     }
//!
//!     fn config(&self) -> Config {
//!         Config::arm(2)
//!     }
//!
//!     fn build(&self) -> &'static World {
//!         let root = tables::allocate();
//!         tables::map(root, 0x5000, Frame(7), Access::WRITE);
//!         for cpu in 0..2 {
//!             machine::as_cpu(CpuId(cpu), || {
//!                 Insn.write_ttbr0(root.address() | 3 << 48);
//!                 Insn.isb();
//!             });
//!         }
//!         let pte = tables::pte(root, 0x5000);
//!         machine::name(pte, "the page");
//!         machine::leak(World { root, pte })
//!     }
//!
//!     fn run(&self, world: &'static World, cpu: CpuId) {
//!         if cpu == CpuId(0) {
//!             world.pte.store(0, Relaxed);
//!             Insn.dsb(Dsb::Ishst);
//!             let scope = Scope::Broadcast;
//!             Insn.tlbi(Tlbi { op: TlbiOp::Va, scope, operand: 3 << 48 | 5 });
//!             Insn.dsb(self.completion);
//!             oracle::revoked(world.root, 0x5000);
//!         }
//!     }
//! }
//!
//! let right = Explorer::new(Unmap { completion: Dsb::Ish }).exhaust(Budget::UNLIMITED);
//! right.assert_proved();
//!
//! let mut explorer = Explorer::new(Unmap { completion: Dsb::Ishst });
//! let wrong = explorer.exhaust(Budget::UNLIMITED);
//! assert_eq!(wrong.broken(), Rule::StaleTranslation);
//! let short = explorer.shrink(&wrong.failure.unwrap());
//! println!("{}", explorer.explain(&short).unwrap());
//! ```

pub mod adversary;
pub mod casemate;
pub mod differential;
pub mod explore;
pub mod litmus;
pub mod timed;
