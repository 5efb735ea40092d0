/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Linux's flushes on arm64, by the library. Linux's own keep their text under other names: kernel addresses are flushed by
 * them until the library runs. What stays Linux's under its own name: local_flush_tlb_all (removes more than the
 * library knows, which is harmless), and the macros for stage 2.
 */
#ifndef LOOKASIDE_ASM_TLBFLUSH_H
#define LOOKASIDE_ASM_TLBFLUSH_H

#ifdef __ASSEMBLY__
#include_next <asm/tlbflush.h>
#else

#include <linux/bitfield.h>
#include <linux/irqflags.h>
#include <linux/mm_types.h>
#include <linux/sched.h>
#include <linux/mmu_notifier.h>
#include <asm/cputype.h>
#include <asm/mmu.h>
#include <lookaside_mm.h>

#define flush_tlb_all stock_flush_tlb_all
#define flush_tlb_mm stock_flush_tlb_mm
#define __flush_tlb_page_nosync stock___flush_tlb_page_nosync
#define flush_tlb_page_nosync stock_flush_tlb_page_nosync
#define flush_tlb_page stock_flush_tlb_page
#define arch_tlbbatch_should_defer stock_arch_tlbbatch_should_defer
#define arch_tlbbatch_add_pending stock_arch_tlbbatch_add_pending
#define arch_flush_tlb_batched_pending stock_arch_flush_tlb_batched_pending
#define arch_tlbbatch_flush stock_arch_tlbbatch_flush
#define __flush_tlb_range_nosync stock___flush_tlb_range_nosync
#define __flush_tlb_range stock___flush_tlb_range
#define flush_tlb_range stock_flush_tlb_range
#define flush_tlb_kernel_range stock_flush_tlb_kernel_range
#define __flush_tlb_kernel_pgtable stock___flush_tlb_kernel_pgtable
#include_next <asm/tlbflush.h>
#undef flush_tlb_all
#undef flush_tlb_mm
#undef __flush_tlb_page_nosync
#undef flush_tlb_page_nosync
#undef flush_tlb_page
#undef arch_tlbbatch_should_defer
#undef arch_tlbbatch_add_pending
#undef arch_flush_tlb_batched_pending
#undef arch_tlbbatch_flush
#undef __flush_tlb_range_nosync
#undef __flush_tlb_range
#undef flush_tlb_range
#undef flush_tlb_kernel_range
#undef __flush_tlb_kernel_pgtable

/* -- A user's mm --------------------------------------------------------------------------------------------------- */

static inline void flush_tlb_mm(struct mm_struct *mm)
{
	lookaside_mm_flush_all(mm);
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);
}

/* The level is known if the stride is the size of its entries. */
static inline bool lookaside_is_level_of(int level, unsigned int shift)
{
	return level >= 1 && level <= 3 && ARM64_HW_PGTABLE_LEVEL_SHIFT(level) == shift;
}

/* lookaside_mm_flush_page in line: no CPU is interrupted and waited for. */
static __always_inline void lookaside_flush_page_in_line(struct mm_struct *mm, unsigned long page, enum lookaside_kind kind)
{
	unsigned long flags;
	int result;

	if (PAGE_SHIFT != 12 || unlikely(lookaside_drop)) {
		lookaside_mm_flush_page(mm, page, kind);
		return;
	}
	local_irq_save(flags);
	result = lookaside_flush_page(&mm->context.lookaside, page, kind, task_cpu(current), NULL);
	local_irq_restore(flags);
	if (unlikely(result))
		lookaside_refused("a flush", result);
}

static __always_inline void lookaside_flush_stride(struct mm_struct *mm, unsigned long start, unsigned long end, unsigned long stride,
						   bool last_level, int tlb_level, bool in_line)
{
	/* What most flushes are of. */
	if (last_level && stride == PAGE_SIZE && end - start == PAGE_SIZE && !(start & ~PAGE_MASK)) {
		enum lookaside_kind kind = tlb_level == 3 ? LOOKASIDE_PAGES : LOOKASIDE_MIXED;

		if (in_line)
			lookaside_flush_page_in_line(mm, start, kind);
		else
			lookaside_mm_flush_page(mm, start, kind);
	} else {
		unsigned int shift = __ffs(stride);
		enum lookaside_kind kind = !last_level				     ? LOOKASIDE_TABLES
					   : lookaside_is_level_of(tlb_level, shift) ? LOOKASIDE_PAGES
										     : LOOKASIDE_MIXED;

		lookaside_mm_flush(mm, start, end, shift, kind);
	}
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, round_down(start, stride), round_up(end, stride));
}

static inline void __flush_tlb_range(struct vm_area_struct *vma, unsigned long start, unsigned long end,
				     unsigned long stride, bool last_level, int tlb_level)
{
	lookaside_flush_stride(vma->vm_mm, start, end, stride, last_level, tlb_level, false);
}

/* Tables may have moved (mremap) or become a huge page. */
static inline void flush_tlb_range(struct vm_area_struct *vma, unsigned long start, unsigned long end)
{
	__flush_tlb_range(vma, start, end, PAGE_SIZE, false, TLBI_TTL_UNKNOWN);
}

static inline void flush_tlb_page(struct vm_area_struct *vma, unsigned long address)
{
	unsigned long page = address & PAGE_MASK;

	__flush_tlb_range(vma, page, page + PAGE_SIZE, PAGE_SIZE, true, TLBI_TTL_UNKNOWN);
}

/* Linux does not wait for the end of these (young bits, which may be stale); the library has no such flush of one page. */
static inline void __flush_tlb_range_nosync(struct vm_area_struct *vma, unsigned long start, unsigned long end,
					    unsigned long stride, bool last_level, int tlb_level)
{
	__flush_tlb_range(vma, start, end, stride, last_level, tlb_level);
}

static inline void flush_tlb_page_nosync(struct vm_area_struct *vma, unsigned long address)
{
	flush_tlb_page(vma, address);
}

/* -- Reclaim and migration ----------------------------------------------------------------------------------------- */

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

static inline void arch_flush_tlb_batched_pending(struct mm_struct *mm)
{
	flush_tlb_mm(mm);
}

/* -- Kernel addresses ---------------------------------------------------------------------------------------------- */

static inline void flush_tlb_all(void)
{
	if (!lookaside_kernel_flush(0, LOOKASIDE_EVERYTHING, LOOKASIDE_TABLES))
		stock_flush_tlb_all();
}

static inline void flush_tlb_kernel_range(unsigned long start, unsigned long end)
{
	if (!lookaside_kernel_flush(start, end - start, LOOKASIDE_MIXED))
		stock_flush_tlb_kernel_range(start, end);
}

static inline void __flush_tlb_kernel_pgtable(unsigned long address)
{
	if (!lookaside_kernel_flush(address, 1, LOOKASIDE_TABLES))
		stock___flush_tlb_kernel_pgtable(address);
}

#endif
#endif
