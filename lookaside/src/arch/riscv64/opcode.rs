//! Machine words of the instructions that are emitted without the assembler's help.
//!
//! Svinval's mnemonics need an assembler that was told of the extension; `.insn` does not. These are
//! R-type words under the SYSTEM opcode (unprivileged manual, "RV32/64G Instruction Set Listings";
//! privileged manual, "Svinval Extension").
//!
//! ```text
//!  31    25 24 20 19 15 14  12 11  7 6      0
//! +--------+-----+-----+------+-----+--------+
//! | funct7 | rs2 | rs1 | 000  |  x0 | SYSTEM |
//! +--------+-----+-----+------+-----+--------+
//! ```

/// The major opcode of all of them.
pub const SYSTEM: u32 = 0b111_0011;
/// `funct7` of `SFENCE.VMA`, here only so that tests can compare.
pub const SFENCE_VMA: u32 = 0b000_1001;
/// `funct7` of `SINVAL.VMA`.
pub const SINVAL_VMA: u32 = 0b000_1011;
/// `funct7` of `SFENCE.W.INVAL` and `SFENCE.INVAL.IR`, which differ in `rs2`.
pub const SFENCE_INVAL: u32 = 0b000_1100;
/// The number in the `rs2` field of `SFENCE.W.INVAL`.
pub const W_INVAL: u32 = 0;
/// The number in the `rs2` field of `SFENCE.INVAL.IR`.
pub const INVAL_IR: u32 = 1;

/// The word with these fields; `rs1` and `rs2` are numbers of registers.
#[must_use]
pub const fn word(funct7: u32, rs2: u32, rs1: u32) -> u32 {
    funct7 << 25 | rs2 << 20 | rs1 << 15 | SYSTEM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_manual() {
        assert_eq!(word(SFENCE_VMA, 0, 0), 0x1200_0073);
        assert_eq!(word(SINVAL_VMA, 0, 0), 0x1600_0073);
        assert_eq!(word(SFENCE_INVAL, W_INVAL, 0), 0x1800_0073);
        assert_eq!(word(SFENCE_INVAL, INVAL_IR, 0), 0x1810_0073);
        // sinval.vma a0, a1
        assert_eq!(word(SINVAL_VMA, 11, 10), 0x16b5_0073);
    }
}
