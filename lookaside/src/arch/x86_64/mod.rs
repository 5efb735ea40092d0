//! x86-64.

mod canonical;
pub mod cr3;
pub mod errata;
mod features;
pub mod invlpgb;
pub mod invpcid;
pub use canonical::Levels;
pub use cr3::{Cr3, Pcid};
pub use features::{Features, Vendor};

/// The instructions that the library uses on x86-64, one method each.
///
/// `Native` executes them; a machine in software implements the same trait.
pub trait Instructions {
    /// `MOV CR3, r64`.
    #[track_caller]
    fn write_cr3(&self, value: u64);
    /// `MOV r64, CR3`.
    #[track_caller]
    fn read_cr3(&self) -> u64;
    /// `MOV CR4, r64`.
    #[track_caller]
    fn write_cr4(&self, value: u64);
    /// `MOV r64, CR4`.
    #[track_caller]
    fn read_cr4(&self) -> u64;
    /// `INVLPG`.
    #[track_caller]
    fn invlpg(&self, address: u64);
    /// `INVPCID`.
    #[track_caller]
    fn invpcid(&self, kind: Invpcid, descriptor: [u64; 2]);
    /// `INVLPGB` with its three register operands.
    #[track_caller]
    fn invlpgb(&self, rax: u64, ecx: u32, edx: u32);
    /// `TLBSYNC`.
    #[track_caller]
    fn tlbsync(&self);
}

/// The types of `INVPCID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Invpcid {
    /// One address of one PCID; global entries stay.
    Address = 0,
    /// One PCID; global entries stay.
    Context = 1,
    /// Everything, global entries too.
    All = 2,
    /// Everything but global entries.
    AllButGlobal = 3,
}
