//! What functions of the kernel are for, by their names.

use super::Purpose;

/// Beginnings of the names of functions that flush the TLB of the CPU that is asked to call them.
const FLUSHERS: [&[u8]; 4] =
    [b"flush_tlb_", b"do_flush_tlb_", b"do_kernel_range_flush", b"kernel_tlb_flush_"];
/// Beginnings of the names of functions that wake a thread on another CPU.
const WAKERS: [&[u8]; 2] = [b"ttwu_queue_wakelist", b"__ttwu_queue_wakelist"];
/// Beginnings of the names of functions that make other CPUs call functions.
const CALLERS: [&[u8]; 3] = [b"on_each_cpu_cond_mask", b"smp_call_", b"generic_exec_single"];

/// Whether a function that other CPUs are asked to call flushes their TLBs.
pub(crate) fn flushes(function: &[u8]) -> bool {
    begins(function, &FLUSHERS)
}

/// What an interrupt is for that the function `site` sends. The handler of functions also serves
/// wake-ups, so who calls decides.
pub(crate) fn purpose(site: &[u8]) -> Purpose {
    if begins(site, &WAKERS) {
        Purpose::WakeUp
    } else if begins(site, &CALLERS) {
        Purpose::Functions
    } else {
        Purpose::Other
    }
}

fn begins(name: &[u8], beginnings: &[&[u8]]) -> bool {
    beginnings.iter().any(|beginning| name.starts_with(beginning))
}
