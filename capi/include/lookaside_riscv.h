/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a RISC-V kernel without SBI firmware writes itself: the number of ASIDs, IPIs through the CLINT, spurious page
 * faults. In C and C++ functions in line; in assembly (.S) the macro of the handler in machine mode. GNU C.
 */
#ifndef LOOKASIDE_RISCV_H
#define LOOKASIDE_RISCV_H

#ifdef __ASSEMBLER__

/* The handler in machine mode begins with it, when a1 and a2 are saved, and `mie.MSIE` is set on each hart: an IPI becomes
 * an SSIP, and goes on at the label `end`; another trap goes on behind the macro. `base`: the physical address of the MSIP
 * registers, 0x2000000 on QEMU's virt. The fence orders a store to a device before the supervisor's loads of requests.
 *
 * The whole handler of a kernel that has no other trap in machine mode (its timer is Sstc's). mtvec is its address, and
 * mscratch that of two doublewords of the hart, which S-mode does not write:
 *
 *             .balign 4
 *   machine:  csrrw a0, mscratch, a0
 *             sd a1, 0(a0)
 *             sd a2, 8(a0)
 *             lookaside_forward_msip 0x2000000, 1f
 *             j .                                     # nothing else may come here
 *   1:        ld a1, 0(a0)
 *             ld a2, 8(a0)
 *             csrrw a0, mscratch, a0
 *             mret
 */
.macro lookaside_forward_msip base, end
    csrr a1, mcause
    li a2, 0x8000000000000003
    bne a1, a2, 77f
    csrr a1, mhartid
    slli a1, a1, 2
    li a2, \base
    add a1, a1, a2
    sw zero, 0(a1)
    fence o, r
    li a1, 2
    csrs mip, a1
    j \end
77:
.endm

#else

#include "lookaside.h"

#ifdef __riscv
/* lookaside_features.asid_bits of this hart. Its root maps the kernel and is no space's, paging is on, IRQs are off: at
 * boot, before lookaside_init. */
static inline uint32_t lookaside_riscv_asid_bits(void) {
    uint64_t before, found;
    uint32_t bits = 0;
    __asm__ volatile("csrr %0, satp" : "=r"(before));
    __asm__ volatile("csrw satp, %1\n\tcsrr %0, satp\n\tcsrw satp, %2\n\tsfence.vma"
                     : "=&r"(found)
                     : "r"(before | (UINT64_C(0xffff) << 44)), "r"(before)
                     : "memory");
    while (bits < 16 && (found >> (44 + bits) & 1) != 0)
        bits++;
    return bits;
}

/* The body of lookaside_platform_send_ipi where a CPU's number is its hart's. `base`: where the kernel's root maps the
 * MSIP registers. */
static inline void lookaside_riscv_send_msip(uintptr_t base, uint32_t first, uint64_t mask) {
    /* The requests are visible before the interrupt. */
    __asm__ volatile("fence w, o" ::: "memory");
    for (uint32_t hart = first; mask != 0; mask >>= 1, hart++)
        if ((mask & 1) != 0)
            ((volatile uint32_t *)base)[hart] = 1;
}

/* The supervisor's handler of software interrupts begins with it, and then calls lookaside_handle_ipi. */
static inline void lookaside_riscv_acknowledge(void) {
    /* SSIP is clear before the requests are read: one that comes later sets it again. */
    __asm__ volatile("csrci sip, 2\n\tfence io, rw" ::: "memory");
}
#endif

/* Whether an exception of user mode with this scause is a page fault at a page whose entry, as it is now, allows the
 * access; 0 where there is none. Then call lookaside_map with LOOKASIDE_FAULTED, and return to user mode. The flags A and D
 * are not looked at: where hardware does not set them (Svade) set them first, or in each new entry, or the fault comes
 * again for ever. */
static inline bool lookaside_riscv_is_spurious(uint64_t scause, uint64_t entry) {
    /* V and U; and R, W or X. */
    const uint64_t needed = scause == 12 ? 0x19 : scause == 13 ? 0x13 : scause == 15 ? 0x15 : 0;
    return needed != 0 && (entry & needed) == needed;
}

#endif
#endif
