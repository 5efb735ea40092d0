//! x86-64: the instructions that matter (SDM vol. 2: MOV to control registers, INVLPG, INVPCID).
//!
//! Changes of mode (SYSCALL, SYSRET, IRET, interrupts) are not decoded: each block is translated for one privilege,
//! so the next access shows them.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};

use crate::special::{Address, Control, Segment, Special};

/// The longest instruction, in bytes.
pub(crate) const LONGEST: usize = 15;

/// What an instruction at an address is. `bytes` are the instruction and nothing else.
///
/// It is decoded as 64-bit code. What matters of 32-bit code, as in a kernel's first instructions, has the same
/// encoding but for the address of `INVLPG`, which means nothing before there is long mode.
pub(crate) fn decode(bytes: &[u8], pc: u64) -> Option<Special> {
    // All of them are in the map behind 0F.
    if !bytes.contains(&0x0f) {
        return None;
    }
    let instruction = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
    let control = match instruction.code() {
        Code::Mov_cr_r32 | Code::Mov_cr_r64 => match instruction.op0_register() {
            Register::CR0 => Control::Cr0,
            Register::CR3 => Control::Cr3,
            Register::CR4 => Control::Cr4,
            _ => return None,
        },
        Code::Invlpg_m => return Some(Special::Invlpg { at: address(&instruction) }),
        Code::Invpcid_r32_m128 | Code::Invpcid_r64_m128 => {
            let kind = number(instruction.op0_register())?;
            return Some(Special::Invpcid { kind, descriptor: address(&instruction) });
        }
        _ => return None,
    };
    let register = number(instruction.op1_register())?;
    Some(Special::WritesControl { control, register })
}

/// The number of a general register.
fn number(register: Register) -> Option<u8> {
    let behind = |first| (register as u8).checked_sub(first as u8).filter(|&number| number < 16);
    behind(Register::RAX).or_else(|| behind(Register::EAX))
}

fn address(instruction: &Instruction) -> Address {
    // Of an address relative to RIP, the displacement is the sum already, and RIP no general register.
    let index = number(instruction.memory_index());
    Address {
        base: number(instruction.memory_base()),
        index: index.map(|register| (register, instruction.memory_index_scale() as u8)),
        displacement: instruction.memory_displacement64(),
        segment: match instruction.memory_segment() {
            Register::FS => Some(Segment::Fs),
            Register::GS => Some(Segment::Gs),
            _ => None,
        },
    }
}

/// The names by which QEMU's list has the registers, in the order of their numbers.
#[rustfmt::skip]
pub(crate) const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
];

/// `EFER.LMA`: the CPU is in long mode, so tables of four or five levels translate.
pub(crate) const LONG_MODE: u64 = 1 << 10;

/// Whether a code segment is user mode's: its privilege level is in the lowest bits.
pub(crate) const fn is_user(code_segment: u64) -> bool {
    code_segment & 3 == 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_as_assemblers_write_them() {
        let writes = |control, register| Some(Special::WritesControl { control, register });
        let of = |bytes: &[u8]| decode(bytes, 0x1000);
        assert_eq!(of(&[0x0f, 0x22, 0xd8]), writes(Control::Cr3, 0)); // mov cr3, rax
        assert_eq!(of(&[0x41, 0x0f, 0x22, 0xdc]), writes(Control::Cr3, 12)); // mov cr3, r12
        assert_eq!(of(&[0x0f, 0x22, 0xe1]), writes(Control::Cr4, 1)); // mov cr4, rcx
        assert_eq!(of(&[0x0f, 0x22, 0xc2]), writes(Control::Cr0, 2)); // mov cr0, rdx
        assert_eq!(of(&[0x0f, 0x20, 0xd8]), None); // mov rax, cr3
        assert_eq!(of(&[0x0f, 0x22, 0xd0]), None); // mov cr2, rax
        assert_eq!(of(&[0x44, 0x0f, 0x22, 0xc0]), None); // mov cr8, rax
        assert_eq!(of(&[0x0f, 0x01, 0xf8]), None); // swapgs
        assert_eq!(of(&[0x0f, 0x05]), None); // syscall
        assert_eq!(of(&[0x48, 0xcf]), None); // iretq
        assert_eq!(of(&[0x48, 0x89, 0x0f]), None); // mov [rdi], rcx
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn addresses_of_invalidations() {
        let plain = Address { base: None, index: None, displacement: 0, segment: None };
        let invlpg = |bytes: &[u8]| match decode(bytes, 0x1000) {
            Some(Special::Invlpg { at }) => at,
            other => panic!("{other:?}"),
        };
        assert_eq!(invlpg(&[0x0f, 0x01, 0x3f]), Address { base: Some(7), ..plain }); // invlpg [rdi]
        assert_eq!(
            invlpg(&[0x41, 0x0f, 0x01, 0x7c, 0xc8, 0xf0]), // invlpg [r8 + rcx*8 - 16]
            Address {
                base: Some(8),
                index: Some((1, 8)),
                displacement: 16_u64.wrapping_neg(),
                ..plain
            }
        );
        assert_eq!(invlpg(&[0x67, 0x0f, 0x01, 0x3f]), Address { base: Some(7), ..plain }); // invlpg [edi]
        assert_eq!(
            invlpg(&[0x0f, 0x01, 0x3d, 0x10, 0x00, 0x00, 0x00]), // invlpg [rip + 16]
            Address { displacement: 0x1017, ..plain }
        );
        assert_eq!(
            invlpg(&[0x65, 0x0f, 0x01, 0x3c, 0x25, 0x00, 0x10, 0x00, 0x00]), // invlpg gs:[0x1000]
            Address { displacement: 0x1000, segment: Some(Segment::Gs), ..plain }
        );
        assert_eq!(
            decode(&[0x66, 0x0f, 0x38, 0x82, 0x06], 0), // invpcid rax, [rsi]
            Some(Special::Invpcid { kind: 0, descriptor: Address { base: Some(6), ..plain } })
        );
    }

    #[test]
    fn an_address_is_the_sum_of_its_parts() {
        let at = Address {
            base: Some(3),
            index: Some((4, 8)),
            displacement: 16_u64.wrapping_neg(),
            segment: Some(Segment::Gs),
        };
        let value = at.value(|register| u64::from(register) * 0x100, |_| 0x1_0000);
        assert_eq!(value, 0x1_0000 + 0x300 + 0x400 * 8 - 16);
    }
}
