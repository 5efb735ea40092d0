/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What mm.c asks the architecture, in line.
 */
#ifndef LOOKASIDE_ARCH_SIDE_H
#define LOOKASIDE_ARCH_SIDE_H

#include <linux/cpumask.h>
#include <linux/mm_types.h>

/* This CPU, with interrupts off. */
static inline unsigned int lookaside_arch_cpu(void)
{
	return raw_smp_processor_id();
}

/* The root of user mode's own tables: there are none. */
static inline phys_addr_t lookaside_arch_user_root(struct mm_struct *mm)
{
	return 0;
}

/* Whether flushes interrupt other CPUs, and wait for them: elsewhere the hardware reaches them. */
static inline bool lookaside_arch_interrupts(void)
{
	return true;
}

/* This CPU, which was lazy in the mm, has left it: switch_mm has it join again. */
static inline void lookaside_arch_left(struct mm_struct *mm)
{
	cpumask_clear_cpu(raw_smp_processor_id(), mm_cpumask(mm));
}

/* Whether an idle CPU leaves its mm at once: then nobody's flush looks at it. Without ASIDs it would lose its TLB each time, and so leaves
 * the mm when it is interrupted, which happens once. */
extern bool lookaside_has_asids;
static inline bool lookaside_arch_idles_parked(void)
{
	return lookaside_has_asids;
}

/* Whether flush_tlb_mm is for pages alone: pmdp_collapse_flush calls it for a table. */
static inline bool lookaside_arch_keeps_tables(void)
{
	return false;
}

/* What a CPU does before the library knows it, with interrupts off and init_mm. */
static inline void lookaside_arch_prepare(void)
{
}

#endif
