/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The scheduler's switches on arm64. check_and_switch_context and cpu_do_switch_mm, which Linux's header calls, are in arm64.c, as
 * is lookaside_switch_irqs_off.
 */
#ifndef LOOKASIDE_ASM_MMU_CONTEXT_H
#define LOOKASIDE_ASM_MMU_CONTEXT_H

#include_next <asm/mmu_context.h>

#ifndef __ASSEMBLY__
/* A runtime call of EFI loads efi_mm by this, and then what was loaded before. */
static inline void lookaside_switch_now(struct mm_struct *to)
{
	if (to == &init_mm)
		lookaside_mm_park();
	else
		check_and_switch_context(to);
}
#define __switch_mm lookaside_switch_now

/* Also to the same mm: this CPU may have been lazy. */
static inline void lookaside_switch_mm(struct mm_struct *from, struct mm_struct *to, struct task_struct *task)
{
	lookaside_switch_now(to);
}
#define switch_mm lookaside_switch_mm

void lookaside_switch_irqs_off(struct mm_struct *mm);

static inline void lookaside_switch_mm_irqs_off(struct mm_struct *from, struct mm_struct *to, struct task_struct *task)
{
	if (to == &init_mm)
		lookaside_mm_park();
	else
		lookaside_switch_irqs_off(to);
}
#define switch_mm_irqs_off lookaside_switch_mm_irqs_off
#endif

#endif
