//! What a program does of which it must die.

use core::{arch::asm, hint, ptr};

use super::bad::GOT_AWAY;
use crate::{
    memory::{Area, PAGE},
    system::Kind,
};

/// `ret`, as data.
const RETURN: u64 = if cfg!(target_arch = "x86_64") {
    0xc3
} else if cfg!(target_arch = "aarch64") {
    0xd65f_03c0
} else {
    0x8082
};

pub(super) fn jump(address: usize) -> u8 {
    // SAFETY: none: the kernel must stop this program at the jump. If it does not, the code there may
    // well return.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("call {}", in(reg) address, clobber_abi("C"));
        #[cfg(target_arch = "aarch64")]
        asm!("blr {}", in(reg) address, clobber_abi("C"));
        #[cfg(target_arch = "riscv64")]
        asm!("jalr {}", in(reg) address, clobber_abi("C"));
    }
    GOT_AWAY
}

pub(super) fn read(address: usize) -> u8 {
    // SAFETY: none: the kernel must stop this program at the load.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {0}, [{0}]", inout(reg) address => _);
        #[cfg(target_arch = "aarch64")]
        asm!("ldr {0}, [{0}]", inout(reg) address => _);
        #[cfg(target_arch = "riscv64")]
        asm!("ld {0}, 0({0})", inout(reg) address => _);
    }
    GOT_AWAY
}

pub(super) fn write(address: usize) -> u8 {
    // SAFETY: none: the kernel must stop this program at the store.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov [{0}], {0}", in(reg) address);
        #[cfg(target_arch = "aarch64")]
        asm!("str {0}, [{0}]", in(reg) address);
        #[cfg(target_arch = "riscv64")]
        asm!("sd {0}, 0({0})", in(reg) address);
    }
    GOT_AWAY
}

pub(super) fn execute_data() -> u8 {
    let area = Area::map(1, Kind::Pages).expect("memory");
    area.word(0, 0).store(RETURN, core::sync::atomic::Ordering::Relaxed);
    jump(area.start)
}

pub(super) fn execute_nonsense() -> u8 {
    // SAFETY: none: the kernel must stop this program here.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("ud2");
        #[cfg(target_arch = "aarch64")]
        asm!("udf #0");
        #[cfg(target_arch = "riscv64")]
        asm!("unimp");
    }
    GOT_AWAY
}

/// Loads the root register with what is in it, or with nothing.
pub(super) fn execute_privileged() -> u8 {
    // SAFETY: none: the kernel must stop this program here.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _);
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {0}, ttbr0_el1", "msr ttbr0_el1, {0}", out(reg) _);
        #[cfg(target_arch = "riscv64")]
        asm!("csrrs {0}, satp, zero", "csrw satp, {0}", out(reg) _);
    }
    GOT_AWAY
}

pub(super) fn unmap_stack() -> u8 {
    let mut local = GOT_AWAY;
    let address = ptr::from_mut(&mut local) as usize;
    Area { start: address & !(PAGE - 1), pages: 1 }.unmap();
    // The way back is gone, too; at the latest this is one step too far.
    hint::black_box(local)
}

pub(super) fn overflow_stack() -> u8 {
    fn go_down(depth: u64) -> u64 {
        let room = hint::black_box([depth; 64]);
        if depth > 1 << 32 {
            return room[0]; // No stack is so large.
        }
        // What is done with the result keeps the compiler from making a loop of this.
        hint::black_box(go_down(depth + 1)).wrapping_add(room[63])
    }
    hint::black_box(go_down(1));
    GOT_AWAY
}
