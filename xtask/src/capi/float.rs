//! Whether code uses floating-point or vector registers, which a kernel has not saved when it calls the library.

use std::{fs, process::Command};

use object::{Object as _, ObjectSection as _};

use super::Target;
use crate::{
    failure::{Context, Result},
    process,
};

/// What is wrong with the code of an object.
pub(super) fn used(target: Target, object: &object::File<'_>) -> Result<Option<String>> {
    let text = object.section_by_name(".text");
    let Some(text) = text else { return Ok(Some("it has no code".to_owned())) };
    let code = text.data().context(|| "reading the code".to_owned())?;
    let (count, looked) = match target {
        Target::Host => return Ok(None),
        Target::Aarch64 => (aarch64(code), true),
        Target::Riscv64 => (riscv64(code), true),
        Target::X86_64 => x86_64(code)?,
    };
    println!(
        "floating-point instructions: {}",
        if looked { count.to_string() } else { "not looked at, for want of objdump".to_owned() }
    );
    Ok((count > 0).then(|| format!("{count} instructions use floating-point registers")))
}

/// Arm ARM, C4.1: bits 28:25 are `x111` for floating point and vectors, and `x1x0` with bit 26 set for loads and stores
/// of their registers.
fn aarch64(code: &[u8]) -> usize {
    let is_float = |bytes: &[u8]| {
        let word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let class = word >> 25 & 0xf;
        class & 0b0111 == 0b0111 || class & 0b0101 == 0b0100 && word >> 26 & 1 == 1
    };
    code.chunks_exact(4).filter(|bytes| is_float(bytes)).count()
}

/// Unprivileged manual, "RV32/64G Instruction Set Listings" and "RVC Instruction Set Listings".
fn riscv64(code: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Some(half) = code.get(at..at + 2) {
        let half = u16::from_le_bytes([half[0], half[1]]);
        if half & 3 == 3 {
            // LOAD-FP, STORE-FP, MADD, MSUB, NMSUB, NMADD, OP-FP, OP-V.
            let float = [0x07, 0x27, 0x43, 0x47, 0x4b, 0x4f, 0x53, 0x57].contains(&(half & 0x7f));
            count += usize::from(float);
            at += 4;
        } else {
            // C.FLD, C.FSD, C.FLDSP, C.FSDSP.
            count += usize::from(half & 3 != 1 && matches!(half >> 13, 0b001 | 0b101));
            at += 2;
        }
    }
    count
}

/// How many lines of a disassembly name such a register, and whether there is a disassembler.
fn x86_64(code: &[u8]) -> Result<(usize, bool)> {
    if !process::succeeds(Command::new("objdump").arg("--version")) {
        return Ok((0, false));
    }
    let file = std::env::temp_dir().join(format!("lookaside-code-{}", std::process::id()));
    fs::write(&file, code).context(|| format!("writing {}", file.display()))?;
    let listing = process::output(
        Command::new("objdump").args(["-D", "-b", "binary", "-m", "i386:x86-64"]).arg(&file),
    );
    let _ = fs::remove_file(&file);
    let names = ["%xmm", "%ymm", "%zmm", "%mm", "%st"];
    let listing = listing?;
    let uses = listing.lines().filter(|line| names.iter().any(|name| line.contains(name)));
    Ok((uses.count(), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn instructions_of_aarch64_are_told_apart() {
        // add x0, x1, x2; ldr x0, [x1]; stp x29, x30, [sp, #-16]!; tlbi vmalle1is; dsb ish; ret; b.
        let integers = [
            0x8b02_0020,
            0xf940_0020,
            0xa9bf_7bfd,
            0xd508_831f,
            0xd503_3b9f,
            0xd65f_03c0,
            0x1400_0001,
        ];
        assert_eq!(aarch64(&words(&integers)), 0);
        // fadd d0, d1, d2; ldr q0, [x1]; stp q0, q1, [sp]; movi v0.2d, #0; fmov x0, d0.
        let floats = [0x1e62_2820, 0x3dc0_0020, 0xad00_07e0, 0x6f00_e400, 0x9e66_0000];
        assert_eq!(aarch64(&words(&floats)), floats.len());
    }

    #[test]
    fn instructions_of_riscv_are_told_apart() {
        // add a0, a1, a2; ld a0, 0(a1); sfence.vma; ecall; amoadd.d; ret as 16 bits.
        let mut integers =
            words(&[0x00c5_8533, 0x0005_b503, 0x1200_0073, 0x0000_0073, 0x00c5_b52f]);
        // ret; c.ld a0, 0(a1); c.sdsp ra, 8(sp); c.addiw a0, 1; c.j.
        let halves: [u16; 5] = [0x8082, 0x6188, 0xe406, 0x2505, 0xa001];
        integers.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
        assert_eq!(riscv64(&integers), 0);
        // fld fa0, 0(a0); fadd.d; fmadd.d.
        assert_eq!(riscv64(&words(&[0x0005_3507, 0x02c5_f553, 0x6ac5_f543])), 3);
        // c.fld fa0, 0(a0); c.fsdsp fa0, 8(sp).
        assert_eq!(riscv64(&[0x08, 0x21, 0x2a, 0xa4]), 2);
    }
}
