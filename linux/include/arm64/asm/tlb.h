/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The end of a gather, on arm64: without the vm_area_struct that Linux fills for the flush, of which the library needs the mm.
 */
#ifndef LOOKASIDE_ASM_TLB_H
#define LOOKASIDE_ASM_TLB_H

/* All that Linux's header includes, before the name is another. */
#include <linux/hugetlb_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/swap.h>
#include <asm/cacheflush.h>
#include <asm/tlbflush.h>

/* The end of an mm, which frees tables; flush_tlb_mm is for pages alone (lookaside_arch_keeps_tables). */
static inline void lookaside_flush_freed_mm(struct mm_struct *mm)
{
	lookaside_mm_flush(mm, 0, LOOKASIDE_EVERYTHING, PAGE_SHIFT, LOOKASIDE_TABLES);
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);
}

#define flush_tlb_mm lookaside_flush_freed_mm
#define __flush_tlb_range(vma, start, end, stride, last_level, level) \
	((void)(vma), lookaside_flush_stride(tlb->mm, start, end, stride, last_level, level, true))
#include_next <asm/tlb.h>
#undef __flush_tlb_range
#undef flush_tlb_mm

#endif
