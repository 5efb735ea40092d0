/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The end of a gather, on riscv: Linux's flushes everything of the mm where tables were unlinked, and here the library is told.
 */
#ifndef LOOKASIDE_ASM_TLB_H
#define LOOKASIDE_ASM_TLB_H

/* All that Linux's header includes, before the names are others. */
#include <linux/hugetlb_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/swap.h>
#include <asm/cacheflush.h>
#include <asm/tlbflush.h>
#include <lookaside_mm.h>

struct mmu_gather;
static void lookaside_flush_gather(struct mmu_gather *tlb);

#define flush_tlb_mm(mm) lookaside_flush_gather(tlb)
#define flush_tlb_mm_range(mm, start, end, size) lookaside_flush_gather(tlb)
#include_next <asm/tlb.h>
#undef flush_tlb_mm
#undef flush_tlb_mm_range

/* A table that this process has left and others use, and may free (hugetlb), is as one that is freed. */
static inline void lookaside_flush_gather(struct mmu_gather *tlb)
{
	bool tables = tlb->freed_tables || tlb->unshared_tables || tlb->cleared_puds || tlb->cleared_p4ds;

	if (tlb->fullmm || tlb->need_flush_all) {
		flush_tlb_mm(tlb->mm);
		return;
	}
	lookaside_mm_flush(tlb->mm, tlb->start, tlb->end, tlb_get_unmap_shift(tlb),
			   tables ? LOOKASIDE_TABLES : LOOKASIDE_MIXED);
	mmu_notifier_arch_invalidate_secondary_tlbs(tlb->mm, tlb->start, tlb->end);
}

#endif
