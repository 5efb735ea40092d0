//! System registers.

/// Reads a system register: one that can be read without effect.
macro_rules! read_register {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading these registers at EL1 has no effect but the value.
        unsafe {
            core::arch::asm!(
                concat!("mrs {}, ", $name),
                out(reg) value,
                options(nostack, preserves_flags),
            );
        }
        value
    }};
}

/// Writes a system register. It is unsafe: the effect of the value depends on the register.
macro_rules! write_register {
    ($name:literal, $value:expr) => {
        core::arch::asm!(
            concat!("msr ", $name, ", {}"),
            in(reg) $value,
            options(nostack, preserves_flags),
        )
    };
}

/// This CPU's earlier writes to registers are in force afterwards.
pub(super) fn synchronise() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) };
}

pub(super) use {read_register, write_register};
