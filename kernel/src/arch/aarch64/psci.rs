//! Starting CPUs: Arm's Power State Coordination Interface (DEN 0022), 5.1.4 `CPU_ON`.

use core::arch::asm;

use super::{boot, device_tree, register::read_register};
use crate::println;

const CPU_ON: u64 = 0xc400_0003;

/// The affinity fields of `MPIDR_EL1`.
const AFFINITY: u64 = 0xff_00ff_ffff;

/// Starts the CPUs `1..count`.
pub(crate) fn start_others(count: usize) {
    let own = read_register!("mpidr_el1") & AFFINITY;
    let others = device_tree::affinities().filter(|&affinity| affinity != own);
    for (cpu, affinity) in (1..count).zip(others) {
        let result = call(CPU_ON, [affinity, boot::address_of_others(), cpu as u64]);
        if result != 0 {
            println!("CPU {cpu} ({affinity:#x}) does not start: PSCI says {result}");
        }
    }
}

fn call(function: u64, arguments: [u64; 3]) -> i64 {
    let mut result = function;
    let [x1, x2, x3] = arguments;
    macro_rules! call {
        ($instruction:literal) => {
            // SAFETY: the firmware keeps the calling convention, and starts CPUs at boot code only.
            unsafe {
                asm!(
                    $instruction,
                    inlateout("x0") result,
                    in("x1") x1,
                    in("x2") x2,
                    in("x3") x3,
                    clobber_abi("C"),
                    options(nostack),
                );
            }
        };
    }
    if device_tree::psci_by_hvc() {
        call!("hvc #0");
    } else {
        call!("smc #0");
    }
    result as i64
}
