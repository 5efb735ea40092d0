/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The life of an mm, and lazy CPUs, on every architecture.
 */
#ifndef LOOKASIDE_COMMON_MMU_CONTEXT_H
#define LOOKASIDE_COMMON_MMU_CONTEXT_H

#ifdef __ASSEMBLY__
#include_next <asm/mmu_context.h>
#else

#include <lookaside_covers.h>
#include <linux/mm_types.h>
#include <lookaside_mm.h>

#include_next <asm/mmu_context.h>

static inline int lookaside_init_new_context(struct task_struct *task, struct mm_struct *mm)
{
	int error = (init_new_context)(task, mm);

	return error ? error : lookaside_mm_init(mm);
}
#undef init_new_context
#define init_new_context lookaside_init_new_context

static inline void lookaside_destroy_context(struct mm_struct *mm)
{
	lookaside_mm_end(mm);
	(destroy_context)(mm);
}
#undef destroy_context
#define destroy_context lookaside_destroy_context

static inline void lookaside_enter_lazy_tlb(struct mm_struct *mm, struct task_struct *task)
{
	lookaside_mm_lazy(mm);
}
#undef enter_lazy_tlb
#define enter_lazy_tlb lookaside_enter_lazy_tlb

#endif
#endif
