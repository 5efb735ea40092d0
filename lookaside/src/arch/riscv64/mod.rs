//! RISC-V.

use crate::error::Error;

/// The instructions that the library uses on RISC-V, one method each.
///
/// `Native` executes them; a machine in software implements the same trait.
///
/// `None` as an address or ASID means register `x0`, which is not the same as a register that
/// holds zero: the one says *all*, the other *number zero*.
pub trait Instructions {
    /// `SFENCE.VMA rs1, rs2`.
    #[track_caller]
    fn sfence_vma(&self, address: Option<u64>, asid: Option<u16>);
    /// `SFENCE.W.INVAL` (Svinval).
    #[track_caller]
    fn sfence_w_inval(&self);
    /// `SINVAL.VMA rs1, rs2` (Svinval).
    #[track_caller]
    fn sinval_vma(&self, address: Option<u64>, asid: Option<u16>);
    /// `SFENCE.INVAL.IR` (Svinval).
    #[track_caller]
    fn sfence_inval_ir(&self);
    /// `FENCE rw, rw`.
    #[track_caller]
    fn fence(&self);
    /// `CSRR satp`.
    #[track_caller]
    fn read_satp(&self) -> u64;
    /// `CSRW satp`.
    #[track_caller]
    fn write_satp(&self, value: u64);
    /// The SBI calls `sbi_remote_sfence_vma` and, with an ASID, `sbi_remote_sfence_vma_asid`:
    /// `harts` is a mask of hart numbers from `base`; a base of `u64::MAX` means every hart. A
    /// `size` of `u64::MAX`, or `start` and `size` both zero, means every address.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the firmware lacks the extension or refuses the call.
    #[track_caller]
    fn remote_sfence_vma(
        &self,
        harts: u64,
        base: u64,
        start: u64,
        size: u64,
        asid: Option<u16>,
    ) -> Result<(), Error>;
}
