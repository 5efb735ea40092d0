// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * riscv's context.c and tlbflush.c, with the switch, the ASIDs and the flushes by the library. The rest of these files stays: the
 * deferred flush of instruction caches, local_flush_tlb_kernel_range, and the flushes of kernel addresses until the library
 * runs. Their allocator hands out nothing any more.
 */
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/static_key.h>
#include <asm/cacheflush.h>
#include <asm/cpufeature.h>
#include <asm/csr.h>
#include <asm/hwcap.h>
#include <asm/mmu_context.h>
#include <asm/sbi.h>
#include <asm/switch_to.h>
#include <asm/tlbflush.h>
#include <lookaside_mm.h>

/* Linux's batch has another form than ours; its functions are not called. */
struct stock_arch_tlbflush_unmap_batch {
	struct cpumask cpumask;
};

void stock_switch_mm(struct mm_struct *from, struct mm_struct *to, struct task_struct *task);
void stock_flush_tlb_all(void);
void stock_flush_tlb_mm(struct mm_struct *mm);
void stock_flush_tlb_mm_range(struct mm_struct *mm, unsigned long start, unsigned long end, unsigned int size);
void stock_flush_tlb_page(struct vm_area_struct *vma, unsigned long address);
void stock_flush_tlb_range(struct vm_area_struct *vma, unsigned long start, unsigned long end);
void stock_flush_tlb_kernel_range(unsigned long start, unsigned long end);
void stock_flush_pmd_tlb_range(struct vm_area_struct *vma, unsigned long start, unsigned long end);
bool stock_arch_tlbbatch_should_defer(struct mm_struct *mm);
void stock_arch_tlbbatch_add_pending(struct stock_arch_tlbflush_unmap_batch *batch, struct mm_struct *mm,
				     unsigned long address);
void stock_arch_flush_tlb_batched_pending(struct mm_struct *mm);
void stock_arch_tlbbatch_flush(struct stock_arch_tlbflush_unmap_batch *batch);

#define arch_tlbflush_unmap_batch stock_arch_tlbflush_unmap_batch
#define switch_mm stock_switch_mm
#define flush_tlb_all stock_flush_tlb_all
#define flush_tlb_mm stock_flush_tlb_mm
#define flush_tlb_mm_range stock_flush_tlb_mm_range
#define flush_tlb_page stock_flush_tlb_page
#define flush_tlb_range stock_flush_tlb_range
#define flush_tlb_kernel_range stock_flush_tlb_kernel_range
#define flush_pmd_tlb_range stock_flush_pmd_tlb_range
#define arch_tlbbatch_should_defer stock_arch_tlbbatch_should_defer
#define arch_tlbbatch_add_pending stock_arch_tlbbatch_add_pending
#define arch_flush_tlb_batched_pending stock_arch_flush_tlb_batched_pending
#define arch_tlbbatch_flush stock_arch_tlbbatch_flush
#include "context.c"
#include "tlbflush.c"
#undef switch_mm
#undef flush_tlb_all
#undef flush_tlb_mm
#undef flush_tlb_mm_range
#undef flush_tlb_page
#undef flush_tlb_range
#undef flush_tlb_kernel_range
#undef flush_pmd_tlb_range
#undef arch_tlbbatch_should_defer
#undef arch_tlbbatch_add_pending
#undef arch_flush_tlb_batched_pending
#undef arch_tlbbatch_flush
#undef arch_tlbflush_unmap_batch

/* -- The scheduler ------------------------------------------------------------------------------------------------- */

/*
 * Also to the same mm: this hart may have been lazy. mm_cpumask has the harts that run the mm, or are lazy in it: flushes of
 * instruction caches interrupt these, and others make up for it when they switch to the mm. With ASIDs, Linux leaves all
 * harts in it that ever ran the mm, since its flushes of TLBs go by it, too.
 */
void switch_mm_irqs_off(struct mm_struct *from, struct mm_struct *to, struct task_struct *task)
{
	unsigned int cpu = smp_processor_id();

	/* A bit of a mask is found by an int, which is divided in more steps where it may be negative. */
	if ((int)cpu < 0)
		__builtin_unreachable();
	if (from != to) {
		membarrier_arch_switch_mm(from, to, task);
		cpumask_clear_cpu(cpu, mm_cpumask(from));
	}
	if (to == &init_mm) {
		lookaside_mm_park();
	} else {
		lookaside_mm_load(to, cpu);
		/* In the scheduler `current` is the outgoing task still. This hart was lazy only if that is a kernel thread, or if a
		 * kernel thread takes on an mm (kthread_use_mm). */
		if (!current->mm || task == current)
			__this_cpu_write(lookaside_is_lazy, false);
	}
	if (!cpumask_test_cpu(cpu, mm_cpumask(to))) {
		cpumask_set_cpu(cpu, mm_cpumask(to));
		/* Before icache_stale_mask is looked at. Pairs with flush_icache_mm, which stores to that mask first, and
		 * looks at mm_cpumask then. */
		smp_mb__after_atomic();
		flush_icache_deferred(to, cpu, task);
	}
}

void switch_mm(struct mm_struct *from, struct mm_struct *to, struct task_struct *task)
{
	unsigned long flags;

	local_irq_save(flags);
	/* exec: a kernel thread has its mm already. */
	__this_cpu_write(lookaside_is_lazy, false);
	switch_mm_irqs_off(from, to, task);
	local_irq_restore(flags);
}

/* -- A user's mm --------------------------------------------------------------------------------------------------- */

static void flush(struct mm_struct *mm, unsigned long start, unsigned long end, unsigned int shift,
		  enum lookaside_kind kind)
{
	lookaside_mm_flush(mm, start, end, shift, kind);
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, start, end);
}

void flush_tlb_mm(struct mm_struct *mm)
{
	lookaside_mm_flush_all(mm);
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);
}

void flush_tlb_mm_range(struct mm_struct *mm, unsigned long start, unsigned long end, unsigned int size)
{
	flush(mm, start, end, __ffs(size), LOOKASIDE_MIXED);
}

/* Tables may have moved (mremap) or become a huge page. */
void flush_tlb_range(struct vm_area_struct *vma, unsigned long start, unsigned long end)
{
	flush(vma->vm_mm, start, end, PAGE_SHIFT, LOOKASIDE_TABLES);
}

void flush_tlb_page(struct vm_area_struct *vma, unsigned long address)
{
	unsigned long page = address & PAGE_MASK;

	flush(vma->vm_mm, page, page + PAGE_SIZE, PAGE_SHIFT, LOOKASIDE_MIXED);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
void flush_pmd_tlb_range(struct vm_area_struct *vma, unsigned long start, unsigned long end)
{
	flush(vma->vm_mm, start, end, PMD_SHIFT, LOOKASIDE_MIXED);
}
#endif

/* -- Reclaim and migration ----------------------------------------------------------------------------------------- */

bool arch_tlbbatch_should_defer(struct mm_struct *mm)
{
	return true;
}

void arch_tlbbatch_add_pending(struct arch_tlbflush_unmap_batch *batch, struct mm_struct *mm, unsigned long address)
{
	unsigned long page = address & PAGE_MASK;

	lookaside_mm_defer(&batch->batch, mm, page);
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, page, page + PAGE_SIZE);
}

void arch_tlbbatch_flush(struct arch_tlbflush_unmap_batch *batch)
{
	lookaside_mm_complete(&batch->batch);
}

void arch_flush_tlb_batched_pending(struct mm_struct *mm)
{
	flush_tlb_mm(mm);
}

/* -- Kernel addresses ---------------------------------------------------------------------------------------------- */

void flush_tlb_all(void)
{
	if (!lookaside_kernel_flush(0, LOOKASIDE_EVERYTHING, LOOKASIDE_TABLES))
		stock_flush_tlb_all();
}

/* Tables are unlinked by whole ones (pud_free_pmd_page, pmd_free_pte_page). */
void flush_tlb_kernel_range(unsigned long start, unsigned long end)
{
	enum lookaside_kind kind = end - start < PMD_SIZE ? LOOKASIDE_MIXED : LOOKASIDE_TABLES;

	if (!lookaside_kernel_flush(start, end - start, kind))
		stock_flush_tlb_kernel_range(start, end);
}

/* -- What the machine is ------------------------------------------------------------------------------------------- */

/* With interrupts off, on init_mm's tables. */
static u32 asid_bits(void)
{
	const unsigned long field = SATP_ASID_MASK << SATP_ASID_SHIFT;
	unsigned long satp = csr_read(CSR_SATP), found;

	csr_write(CSR_SATP, satp | field);
	found = csr_read(CSR_SATP) & field;
	csr_write(CSR_SATP, satp);
	/* Walks may have made entries under that ASID. */
	local_flush_tlb_all();
	return found ? fls_long(found >> SATP_ASID_SHIFT) : 0;
}

bool lookaside_has_asids __ro_after_init;

void lookaside_arch_features(struct lookaside_features *features)
{
	features->mode = satp_mode >> SATP_MODE_SHIFT;
	features->asid_bits = asid_bits();
	if (riscv_has_extension_unlikely(RISCV_ISA_EXT_SVINVAL))
		features->extensions |= LOOKASIDE_SVINVAL;
	if (has_svnapot())
		features->extensions |= LOOKASIDE_SVNAPOT;
	if (riscv_has_extension_unlikely(RISCV_ISA_EXT_SVVPTC))
		features->extensions |= LOOKASIDE_SVVPTC;
	if (!sbi_spec_is_0_1()) {
		features->vendor = sbi_get_mvendorid();
		features->architecture = sbi_get_marchid();
		features->implementation = sbi_get_mimpid();
	}
}

/* Other harts flush because they are interrupted, not by firmware (LOOKASIDE_SBI_FENCES): the library has that fence on all harts
 * of the machine, idle ones too. */
void lookaside_arch_boot(struct lookaside_boot *boot)
{
	boot->reserved_root = __pa_symbol(swapper_pg_dir);
	lookaside_has_asids = boot->features.asid_bits != 0;
}
