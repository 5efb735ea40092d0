/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What mm.c asks the architecture, in line.
 */
#ifndef LOOKASIDE_ARCH_SIDE_H
#define LOOKASIDE_ARCH_SIDE_H

#include <linux/cpumask.h>
#include <linux/mm_types.h>
#include <linux/sched.h>

/* This CPU, with interrupts off: the task has the number nearer than the per-CPU area, and is this CPU's until it is switched from. */
static inline unsigned int lookaside_arch_cpu(void)
{
	return task_cpu(current);
}

/* The root of user mode's own tables: there are none. */
static inline phys_addr_t lookaside_arch_user_root(struct mm_struct *mm)
{
	return 0;
}

/* Whether flushes interrupt other CPUs, and wait for them: elsewhere the hardware reaches them. */
static inline bool lookaside_arch_interrupts(void)
{
	return false;
}

/* This CPU, which was lazy in the mm, has left it. */
static inline void lookaside_arch_left(struct mm_struct *mm)
{
}

/* Whether an idle CPU leaves its mm at once: no interrupt ever tells it to, and while it stays, flushes of that mm that concern
 * page tables are broadcast. */
static inline bool lookaside_arch_idles_parked(void)
{
	return true;
}

/* Whether flush_tlb_mm is for pages alone: fork and soft-dirty bits take rights away, a collapse that is given up and batches have unmapped
 * pages. The end of an mm, which frees tables, is asked for in asm/tlb.h. */
static inline bool lookaside_arch_keeps_tables(void)
{
	return true;
}

/* What a CPU does before the library knows it, with interrupts off and init_mm. */
void lookaside_arch_prepare(void);

#endif
