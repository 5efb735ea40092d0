//! Interrupts, faults and `int 0x80` (SDM vol. 3, chapter 6), and their handlers.

use core::arch::{asm, global_asm};

use super::{
    apic,
    descriptors::{USER_CODE, USER_DATA},
    paging::USER,
};
use crate::{arch::Access, trap};

pub(super) const NON_MASKABLE: u64 = 2;
pub(super) const DOUBLE_FAULT: u64 = 8;
const PAGE_FAULT: u64 = 14;
pub(super) const MACHINE_CHECK: u64 = 18;
/// The timer.
pub(super) const TICK: u64 = 32;
/// The interrupt between CPUs.
pub(super) const MESSAGE: u64 = 33;
/// What a local APIC sends when an interrupt went away while it was being delivered.
pub(super) const SPURIOUS: u64 = 47;
pub(super) const SYSCALL: u64 = 0x80;

/// The names of exceptions.
const NAMES: [&str; 22] = [
    "divide error",
    "debug exception",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "floating point used",
    "double fault",
    "coprocessor overrun",
    "invalid task state segment",
    "segment not present",
    "stack fault",
    "general protection fault",
    "page fault",
    "reserved exception",
    "floating-point error",
    "alignment check",
    "machine check",
    "SIMD floating-point error",
    "virtualization exception",
    "control protection exception",
];

/// The registers of a thread in user mode, or of `idle`.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct TrapFrame {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rbp: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    rbx: u64,
    rax: u64,
    vector: u64,
    error: u64,
    // From here on the CPU's.
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

impl TrapFrame {
    /// A thread that calls `entry` with two arguments.
    ///
    /// Where no page of user mode can be, it faults: there are addresses that `iretq` refuses, and
    /// that would be the kernel's fault.
    pub(crate) fn user(entry: usize, stack: usize, arguments: [usize; 2]) -> Self {
        /// Interrupts on; the bit beside is always set.
        const RFLAGS: u64 = 1 << 9 | 1 << 1;
        Self {
            r15: 0,
            r14: 0,
            r13: 0,
            r12: 0,
            r11: 0,
            r10: 0,
            r9: 0,
            r8: 0,
            rbp: 0,
            rdi: arguments[0] as u64,
            rsi: arguments[1] as u64,
            rdx: 0,
            rcx: 0,
            rbx: 0,
            rax: 0,
            vector: 0,
            error: 0,
            rip: if USER.contains(&entry) { entry as u64 } else { 0 },
            cs: u64::from(USER_CODE),
            rflags: RFLAGS,
            // As if called: functions expect a return address there.
            rsp: (stack as u64 & !15).wrapping_sub(8),
            ss: u64::from(USER_DATA),
        }
    }

    /// The number and the arguments of a system call.
    pub(crate) fn syscall(&self) -> (usize, [usize; 4]) {
        (self.rax as usize, [self.rdi, self.rsi, self.rdx, self.r10].map(|word| word as usize))
    }

    /// What the system call returns.
    pub(crate) fn set_result(&mut self, result: usize) {
        self.rax = result as u64;
    }

    fn is_from_user(&self) -> bool {
        self.cs & 3 == 3
    }
}

/// What every trap comes to. It may return much later, and on another CPU.
pub(super) extern "C" fn dispatch(frame: &mut TrapFrame) {
    let from_user = frame.is_from_user();
    match frame.vector {
        TICK => {
            apic::end_of_interrupt();
            trap::tick(from_user);
        }
        MESSAGE => {
            apic::end_of_interrupt();
            trap::message(from_user);
        }
        SPURIOUS => {}
        PAGE_FAULT if frame.rip == probe_load as *const () as u64 => {
            frame.rip = probe_faulted as *const () as u64;
        }
        SYSCALL if from_user => trap::syscall(frame),
        PAGE_FAULT if from_user && frame.error & RESERVED_BIT == 0 => {
            let (address, access) = (fault_address(), access(frame.error));
            trap::page_fault(frame, address, access);
        }
        vector @ (NON_MASKABLE | DOUBLE_FAULT | MACHINE_CHECK | PAGE_FAULT) => die(vector, frame),
        vector if from_user => trap::bad_program(frame, name(vector)),
        vector => die(vector, frame),
    }
}

// Whether the load at the address in `rdi` faults, in `rax`; its value, in `rdx`.
global_asm!(
    ".pushsection .text.probe, \"ax\", @progbits",
    ".global user_probe, probe_load, probe_faulted",
    "user_probe:",
    "xor eax, eax",
    "probe_load:",
    "mov rdx, [rdi]",
    "ret",
    "probe_faulted:",
    "mov eax, 1",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn probe_load();
    fn probe_faulted();
}

/// A load from a page of user mode, or none if it faults. Interrupts are off.
pub(crate) fn probe(address: usize) -> Option<u64> {
    let (faulted, value): (u64, u64);
    // SAFETY: it loads what user mode can read, and `dispatch` knows its fault.
    unsafe {
        asm!("call user_probe", in("rdi") address, out("rax") faulted, out("rdx") value);
    }
    (faulted == 0).then_some(value)
}

/// An entry of the walk has a bit set that must be clear: a mistake of the kernel, in any mode.
const RESERVED_BIT: u64 = 1 << 3;

fn access(error: u64) -> Access {
    if error & 1 << 4 != 0 {
        Access::Execute
    } else if error & 1 << 1 != 0 {
        Access::Write
    } else {
        Access::Read
    }
}

fn die(vector: u64, frame: &TrapFrame) -> ! {
    panic!("{} about {:#x}: {frame:#x?}", name(vector), fault_address());
}

fn name(vector: u64) -> &'static str {
    NAMES.get(vector as usize).copied().unwrap_or("stray interrupt")
}

/// The address that the last page fault of this CPU was about.
fn fault_address() -> usize {
    let address;
    // SAFETY: it only reads.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) }
    address
}
