/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The end of a gather, on x86: Linux's says whether tables were freed. A table that this process has left and others use, and may
 * free (hugetlb), is as one that is freed. Where the library flushes by INVLPGB, tables are freed after a grace period of RCU, as with
 * PARAVIRT: such a flush does not wait for walkers in software, which have interrupts off.
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

#define flush_tlb_mm_range(mm, start, end, shift, freed) \
	flush_tlb_mm_range(mm, start, end, shift, (freed) || tlb->unshared_tables)
#include_next <asm/tlb.h>
#undef flush_tlb_mm_range

#if defined(CONFIG_MMU_GATHER_RCU_TABLE_FREE) && defined(LOOKASIDE_FREES_TABLES)
extern bool lookaside_frees_by_rcu;
#define tlb_remove_page(tlb, table) \
	(lookaside_frees_by_rcu ? tlb_remove_table(tlb, table) : tlb_remove_page(tlb, table))
#endif

#endif
