/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Flushes that reclaim and migration have begun, on x86: a batch of the library's in the place of Linux's mask of CPUs. All other
 * flushes that this header has call functions of tlb.c, in whose place x86_64.c has ours.
 */
#ifndef LOOKASIDE_ASM_TLBFLUSH_H
#define LOOKASIDE_ASM_TLBFLUSH_H

#include <linux/cpumask.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>
#include <linux/sched.h>
#include <asm/pgtable.h>
#include <asm/smp.h>
#include <lookaside_mm.h>

/* Linux's batch has another form than ours; its functions are not called. */
struct stock_arch_tlbflush_unmap_batch {
	struct cpumask cpumask;
};

#define arch_tlbflush_unmap_batch stock_arch_tlbflush_unmap_batch
#define arch_tlbbatch_should_defer stock_arch_tlbbatch_should_defer
#define arch_tlbbatch_add_pending stock_arch_tlbbatch_add_pending
#define arch_tlbbatch_flush stock_arch_tlbbatch_flush
#include_next <asm/tlbflush.h>
#undef arch_tlbflush_unmap_batch
#undef arch_tlbbatch_should_defer
#undef arch_tlbbatch_add_pending
#undef arch_tlbbatch_flush

static inline bool arch_tlbbatch_should_defer(struct mm_struct *mm)
{
	return true;
}

static inline void arch_tlbbatch_add_pending(struct arch_tlbflush_unmap_batch *batch, struct mm_struct *mm,
					     unsigned long address)
{
	unsigned long page = address & PAGE_MASK;

	lookaside_mm_defer(&batch->batch, mm, page);
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, page, page + PAGE_SIZE);
}

static inline void arch_tlbbatch_flush(struct arch_tlbflush_unmap_batch *batch)
{
	lookaside_mm_complete(&batch->batch);
}

#endif
