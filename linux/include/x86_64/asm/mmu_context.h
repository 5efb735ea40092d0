/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * On x86 enter_lazy_tlb is a function, as switch_mm_irqs_off is: both are in x86_64.c, which keeps what Linux knows of lazy CPUs.
 */
#ifndef LOOKASIDE_ASM_MMU_CONTEXT_H
#define LOOKASIDE_ASM_MMU_CONTEXT_H

#include_next <asm/mmu_context.h>

#ifndef __ASSEMBLY__
#undef enter_lazy_tlb
#define enter_lazy_tlb enter_lazy_tlb
#endif

#endif
