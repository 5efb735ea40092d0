//! RISC-V: the instructions that matter, from their encodings (unprivileged and privileged specification).

use crate::special::Special;

const SATP: u32 = 0x180;

/// What an instruction of four bytes is; compressed ones are none of these.
pub(crate) fn decode(word: u32) -> Option<Special> {
    let rs1 = (word >> 15 & 31) as u8;
    let rs2 = (word >> 20 & 31) as u8;
    let named = |register: u8| (register != 0).then_some(register);
    match word & 0xfe00_7fff {
        0x1200_0073 => {
            return Some(Special::Sfence { address: named(rs1), asid: named(rs2), pending: false });
        }
        0x1600_0073 => {
            return Some(Special::Sfence { address: named(rs1), asid: named(rs2), pending: true });
        }
        _ => {}
    }
    if word == 0x1810_0073 {
        return Some(Special::CompletesSinval);
    }
    // cbo.zero is MISC-MEM, funct3 2, with 4 in the place of an offset.
    if word & 0xfff0_7fff == 0x0040_200f {
        return Some(Special::ZeroesBlock { register: rs1 });
    }
    let function = word >> 12 & 7;
    // CSRRW[I] writes always, CSRRS[I] and CSRRC[I] unless they name x0 or zero.
    let writes = function & 3 == 1 || function & 3 > 1 && rs1 != 0;
    (word & 0x7f == 0x73 && word >> 20 == SATP && writes).then_some(Special::WritesRoot)
}

/// The names by which QEMU's list has the registers.
#[rustfmt::skip]
pub(crate) const REGISTERS: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
    "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_as_assemblers_write_them() {
        let fence = |address, asid| Some(Special::Sfence { address, asid, pending: false });
        assert_eq!(decode(0x1200_0073), fence(None, None)); // sfence.vma
        assert_eq!(decode(0x1205_0073), fence(Some(10), None)); // sfence.vma a0
        assert_eq!(decode(0x12b5_0073), fence(Some(10), Some(11))); // sfence.vma a0, a1
        assert_eq!(
            decode(0x16b5_0073), // sinval.vma a0, a1
            Some(Special::Sfence { address: Some(10), asid: Some(11), pending: true })
        );
        assert_eq!(decode(0x1810_0073), Some(Special::CompletesSinval));
        assert_eq!(decode(0x1805_1073), Some(Special::WritesRoot)); // csrw satp, a0
        assert_eq!(decode(0x1800_2573), None); // csrr a0, satp
        assert_eq!(decode(0x1800_5073), Some(Special::WritesRoot)); // csrwi satp, 0
        assert_eq!(decode(0x0045_200f), Some(Special::ZeroesBlock { register: 10 })); // cbo.zero (a0)
        assert_eq!(decode(0x1050_0073), None); // wfi
        assert_eq!(decode(0x0000_0073), None); // ecall
    }
}
