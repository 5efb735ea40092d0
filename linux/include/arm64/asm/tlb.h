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

#define __flush_tlb_range(vma, start, end, stride, last_level, level) \
	((void)(vma), lookaside_flush_stride(tlb->mm, start, end, stride, last_level, level))
#include_next <asm/tlb.h>
#undef __flush_tlb_range

#endif
