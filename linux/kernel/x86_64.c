// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * x86's tlb.c, with the switches and the flushes by the library. The rest of that file stays: the instructions of one CPU
 * (__flush_tlb_all, flush_tlb_one_kernel and their kind), the state of a CPU that comes up, mitigations at a switch, CR4.PCE; and
 * all of it until the library runs. Linux's code elsewhere reads cpu_tlbstate.loaded_mm and is_lazy, so that both are kept.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/mm.h>
#include <linux/mmu_context.h>
#include <linux/mmu_notifier.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/smt.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/task_work.h>
#include <asm/apic.h>
#include <asm/cacheflush.h>
#include <asm/cpufeature.h>
#include <asm/mmu_context.h>
#include <asm/nospec-branch.h>
#include <asm/perf_event.h>
#include <asm/text-patching.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>
#include <lookaside_arch.h>
#include <lookaside_mm.h>

void stock_leave_mm(void);
void stock_switch_mm(struct mm_struct *from, struct mm_struct *to, struct task_struct *task);
void stock_switch_mm_irqs_off(struct mm_struct *from, struct mm_struct *to, struct task_struct *task);
void stock_enter_lazy_tlb(struct mm_struct *mm, struct task_struct *task);
void stock_flush_tlb_local(void);
void stock_flush_tlb_one_kernel(unsigned long address);
void stock_flush_tlb_all(void);
void stock_flush_tlb_mm_range(struct mm_struct *mm, unsigned long start, unsigned long end, unsigned int shift,
			      bool freed_tables);
void stock_flush_tlb_kernel_range(unsigned long start, unsigned long end);
bool stock_nmi_uaccess_okay(void);

/* Linux's headers have macros of these names. */
#undef leave_mm
#undef switch_mm_irqs_off
#undef enter_lazy_tlb
#undef nmi_uaccess_okay

#define arch_tlbflush_unmap_batch stock_arch_tlbflush_unmap_batch
#define leave_mm stock_leave_mm
#define switch_mm stock_switch_mm
#define switch_mm_irqs_off stock_switch_mm_irqs_off
#define enter_lazy_tlb stock_enter_lazy_tlb
#define flush_tlb_local stock_flush_tlb_local
#define flush_tlb_one_kernel stock_flush_tlb_one_kernel
#define flush_tlb_all stock_flush_tlb_all
#define flush_tlb_mm_range stock_flush_tlb_mm_range
#define flush_tlb_kernel_range stock_flush_tlb_kernel_range
#define arch_tlbbatch_flush stock_arch_tlbbatch_flush
#define nmi_uaccess_okay stock_nmi_uaccess_okay
#include "tlb.c"
#undef arch_tlbflush_unmap_batch
#undef leave_mm
#undef switch_mm
#undef switch_mm_irqs_off
#undef enter_lazy_tlb
#undef flush_tlb_local
#undef flush_tlb_one_kernel
#undef flush_tlb_all
#undef flush_tlb_mm_range
#undef flush_tlb_kernel_range
#undef arch_tlbbatch_flush
#undef nmi_uaccess_okay

/* objtool has a list of functions that do not return, and looks for no other. */
#define lookaside_refused(what, error) panic("lookaside: %s: %s", what, lookaside_strerror(error))

/* -- The scheduler ------------------------------------------------------------------------------------------------- */

/* Text patching's mm, which is made before the library runs and is loaded for a moment with interrupts off, is no space but a
 * foreign root. What was held of it is gone when it is loaded the next time. */
static bool is_foreign(const struct mm_struct *mm)
{
	return unlikely(mm == poking_mm);
}

static void begin_foreign(struct mm_struct *mm)
{
	int error = lookaside_root_begin(__pa(mm->pgd));

	if (error)
		lookaside_refused("the mm of text patching", error);
}

/* The root of before comes back. */
static void end_foreign(void)
{
	int error = lookaside_root_end();

	if (error)
		lookaside_refused("the end of text patching", error);
}

/* mm_cpumask has the CPUs that have the mm loaded, lazy ones too, as in Linux: CR4.PCE goes by it, and whether a flush of several pages prepares a wait. */
static void exchange(struct mm_struct *prev, struct mm_struct *next, unsigned int cpu)
{
	if (prev != &init_mm)
		cpumask_clear_cpu(cpu, mm_cpumask(prev));
	if (next != &init_mm)
		cpumask_set_cpu(cpu, mm_cpumask(next));
}

/* Out of line: what is kept meanwhile would be saved by each switch. */
static noinline void switch_from_lazy(struct mm_struct *next, struct task_struct *task)
{
	this_cpu_write(cpu_tlbstate_shared.is_lazy, false);
	__this_cpu_write(lookaside_is_lazy, false);
	if (this_cpu_read(cpu_tlbstate.loaded_mm) == next)
		lookaside_mm_load(next, smp_processor_id());
	else
		switch_mm_irqs_off(NULL, next, task);
}

/* What is loaded is in loaded_mm: Linux's first argument is not looked at, since the scheduler does not always know. */
void switch_mm_irqs_off(struct mm_struct *unused, struct mm_struct *next, struct task_struct *task)
{
	struct mm_struct *prev = this_cpu_read(cpu_tlbstate.loaded_mm);
	unsigned int cpu;

	if (unlikely(!lookaside_mm_takes_part())) {
		stock_switch_mm_irqs_off(NULL, next, task);
		return;
	}
	if (__this_cpu_read(cpu_tlbstate_shared.is_lazy)) {
		switch_from_lazy(next, task);
		return;
	}
	if (prev == next)
		return;
	cond_mitigation(task);
	/* Before CR3 is another's: Linux's own code compares with loaded_mm in NMI handlers. */
	this_cpu_write(cpu_tlbstate.loaded_mm, LOADED_MM_SWITCHING);
	barrier();
	if (is_foreign(next)) {
		begin_foreign(next);
	} else if (is_foreign(prev)) {
		end_foreign();
	} else {
		cpu = smp_processor_id();
		exchange(prev, next, cpu);
		if (next == &init_mm)
			lookaside_mm_park();
		else
			lookaside_mm_load(next, cpu);
	}
	barrier();
	this_cpu_write(cpu_tlbstate.loaded_mm, next);
	cr4_update_pce_mm(next);
}

void switch_mm(struct mm_struct *prev, struct mm_struct *next, struct task_struct *task)
{
	unsigned long flags;

	local_irq_save(flags);
	switch_mm_irqs_off(NULL, next, task);
	local_irq_restore(flags);
}

/* Idle states that lose TLBs, text patching. Linux calls it on lazy CPUs. */
void leave_mm(void)
{
	if (this_cpu_read(cpu_tlbstate.loaded_mm) == &init_mm)
		return;
	WARN_ON(!this_cpu_read(cpu_tlbstate_shared.is_lazy));
	switch_mm(NULL, &init_mm, NULL);
}

void enter_lazy_tlb(struct mm_struct *mm, struct task_struct *task)
{
	if (this_cpu_read(cpu_tlbstate.loaded_mm) == &init_mm)
		return;
	this_cpu_write(cpu_tlbstate_shared.is_lazy, true);
	lookaside_mm_lazy(mm);
}

/* The library has parked this CPU already. */
void lookaside_arch_left(struct mm_struct *active_mm)
{
	struct mm_struct *loaded = this_cpu_read(cpu_tlbstate.loaded_mm);

	this_cpu_write(cpu_tlbstate_shared.is_lazy, false);
	this_cpu_write(cpu_tlbstate.loaded_mm, &init_mm);
	exchange(loaded, &init_mm, smp_processor_id());
	cr4_update_pce_mm(&init_mm);
}

bool nmi_uaccess_okay(void)
{
	struct mm_struct *mm = current->mm;

	return mm && lookaside_nmi_uaccess_okay(&mm->context.lookaside);
}

/* -- A user's mm --------------------------------------------------------------------------------------------------- */

void flush_tlb_mm_range(struct mm_struct *mm, unsigned long start, unsigned long end, unsigned int shift,
			bool freed_tables)
{
	if (is_foreign(mm)) {
		/* Nobody has it loaded any more, and the library drops it when it is loaded. */
		if (!lookaside_mm_takes_part())
			stock_flush_tlb_mm_range(mm, start, end, shift, freed_tables);
		return;
	}
	/* mremap moves whole tables, and does not say so. */
	freed_tables |= end - start >= PMD_SIZE;
	if (end == TLB_FLUSH_ALL)
		lookaside_mm_flush_all(mm);
	else
		lookaside_mm_flush(mm, start, end, shift, freed_tables ? LOOKASIDE_TABLES : LOOKASIDE_MIXED);
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, start, end);
}

/* -- Kernel addresses ---------------------------------------------------------------------------------------------- */

void flush_tlb_all(void)
{
	if (!lookaside_kernel_flush(0, LOOKASIDE_EVERYTHING, LOOKASIDE_TABLES))
		stock_flush_tlb_all();
}

/* Tables may have been unlinked in any range: pmd_free_pte_page flushes one page for the table that it frees. */
void flush_tlb_kernel_range(unsigned long start, unsigned long end)
{
	unsigned long bytes = end == TLB_FLUSH_ALL ? LOOKASIDE_EVERYTHING : end - start;

	if (!lookaside_kernel_flush(start, bytes, LOOKASIDE_TABLES))
		stock_flush_tlb_kernel_range(start, end);
}

/*
 * Of this CPU alone. With KPTI and PCIDs, Linux's would remember what they owe to other PCIDs where Linux's own allocator looks, and
 * that hands out nothing any more: everything is removed.
 */
static bool leaves_other_pcids(void)
{
	return boot_cpu_has(X86_FEATURE_PTI) && boot_cpu_has(X86_FEATURE_PCID) && lookaside_mm_takes_part();
}

void flush_tlb_local(void)
{
	if (leaves_other_pcids())
		native_flush_tlb_global();
	else
		stock_flush_tlb_local();
}

void flush_tlb_one_kernel(unsigned long address)
{
	if (leaves_other_pcids())
		native_flush_tlb_global();
	else
		stock_flush_tlb_one_kernel(address);
}

/* -- What the machine is ------------------------------------------------------------------------------------------- */

void lookaside_arch_features(struct lookaside_features *features)
{
	features->microcode = cpu_data(smp_processor_id()).microcode;
}

/* Whether page tables are freed after a grace period of RCU. */
bool lookaside_frees_by_rcu __ro_after_init;

static bool has_invlpgb(void)
{
	return cpuid_eax(0x80000000) >= 0x80000008 && cpuid_ebx(0x80000008) & BIT(3);
}

void lookaside_arch_boot(struct lookaside_boot *boot)
{
	boot->reserved_root = __pa_symbol(swapper_pg_dir);
	if (!boot_cpu_has(X86_FEATURE_PCID))
		boot->flags |= LOOKASIDE_NO_PCID;
	if (boot_cpu_has(X86_FEATURE_PTI))
		boot->flags |= LOOKASIDE_USER_TABLES;
	if (pgtable_l5_enabled())
		boot->flags |= LOOKASIDE_FIVE_LEVELS;
	/* Without RCU, only the IPI of a flush waits for walkers in software, which have interrupts off. With INVLPGB, PCIDs are
	 * more than the entry code of KPTI has room for (user_pcid_flush_mask, of 16 bits). */
	if (!IS_ENABLED(CONFIG_MMU_GATHER_RCU_TABLE_FREE) || boot_cpu_has(X86_FEATURE_PTI))
		boot->flags |= LOOKASIDE_NO_INVLPGB;
	lookaside_frees_by_rcu = !(boot->flags & LOOKASIDE_NO_INVLPGB) && has_invlpgb();
}
