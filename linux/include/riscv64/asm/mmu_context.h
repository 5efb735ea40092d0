/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * On RISC-V the scheduler's switches are a function of their own, in riscv64.c: interrupts are off then.
 */
#ifndef LOOKASIDE_ASM_MMU_CONTEXT_H
#define LOOKASIDE_ASM_MMU_CONTEXT_H

#include_next <asm/mmu_context.h>

#ifndef __ASSEMBLY__
struct task_struct;

void switch_mm_irqs_off(struct mm_struct *from, struct mm_struct *to, struct task_struct *task);
#define switch_mm_irqs_off switch_mm_irqs_off
#endif

#endif
