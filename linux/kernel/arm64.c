// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * arm64's context.c, with the switch and the ASIDs by the library. The rest of that file stays: the check of ASID widths of
 * late CPUs, and work after TTBR0_EL1 is written. Its allocator hands out nothing any more.
 */
#include <linux/bitfield.h>
#include <linux/bitops.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <asm/cpufeature.h>
#include <asm/mmu_context.h>
#include <asm/smp.h>
#include <asm/tlbflush.h>
#include <lookaside_arch.h>
#include <lookaside_mm.h>

void stock_check_and_switch_context(struct mm_struct *mm);
void stock_cpu_do_switch_mm(phys_addr_t root, struct mm_struct *mm);
unsigned long stock_arm64_mm_context_get(struct mm_struct *mm);
void stock_arm64_mm_context_put(struct mm_struct *mm);

#define check_and_switch_context stock_check_and_switch_context
#define cpu_do_switch_mm stock_cpu_do_switch_mm
#define arm64_mm_context_get stock_arm64_mm_context_get
#define arm64_mm_context_put stock_arm64_mm_context_put
#include "context.c"
#undef check_and_switch_context
#undef cpu_do_switch_mm
#undef arm64_mm_context_get
#undef arm64_mm_context_put

static __always_inline void after(int switched)
{
	if (LOOKASIDE_ROOT_CHANGED(switched)) {
		post_ttbr_update_workaround();
		arm64_apply_bp_hardening();
	}
}

/* The scheduler's, with interrupts off, which is most switches: in one function. No CPU is interrupted for being lazy, so that
 * nothing is noted of this one. `current` is the outgoing task still, and its `cpu` is this CPU. */
void lookaside_switch_irqs_off(struct mm_struct *mm)
{
	BUILD_BUG_ON(lookaside_arch_interrupts());
	after(lookaside_mm_load(mm, lookaside_arch_cpu()));
}

/* exec calls with interrupts on. */
void check_and_switch_context(struct mm_struct *mm)
{
	unsigned long flags;

	local_irq_save(flags);
	lookaside_switch_irqs_off(mm);
	local_irq_restore(flags);
}

/* For the identity map, of init_mm, which CPUs run on while they change their translation registers; and for the mm that comes
 * back after it. The library has no root loaded meanwhile. */
void cpu_do_switch_mm(phys_addr_t root, struct mm_struct *mm)
{
	if (mm == &init_mm) {
		lookaside_mm_park();
		stock_cpu_do_switch_mm(root, mm);
	} else {
		/* The register has another root than the library knows of: after suspend it is the reserved one. */
		lookaside_mm_park();
		check_and_switch_context(mm);
	}
}

/* -- ASIDs for devices ----------------------------------------------------------------------------------------------- */

/* The ASID under which a device may translate as the mm does, until it is put; 0: none is left. */
unsigned long arm64_mm_context_get(struct mm_struct *mm)
{
	unsigned long flags;
	int asid;

	local_irq_save(flags);
	asid = lookaside_pin(&mm->context.lookaside, true);
	local_irq_restore(flags);
	if (asid == LOOKASIDE_EPINS)
		return 0;
	if (asid < 0)
		lookaside_refused("a pin", asid);
	return asid;
}
EXPORT_SYMBOL_GPL(arm64_mm_context_get);

void arm64_mm_context_put(struct mm_struct *mm)
{
	unsigned long flags;
	int error;

	local_irq_save(flags);
	error = lookaside_pin(&mm->context.lookaside, false);
	local_irq_restore(flags);
	if (error)
		lookaside_refused("the end of a pin", error);
}
EXPORT_SYMBOL_GPL(arm64_mm_context_put);

/* -- The machine ----------------------------------------------------------------------------------------------------- */

static bool has_kpti(void)
{
	return IS_ENABLED(CONFIG_UNMAP_KERNEL_AT_EL0) && arm64_kernel_unmapped_at_el0();
}

/*
 * Linux has the ASID in TTBR1_EL1, for KPTI and for a root in TTBR0_EL1 that is taken away in the kernel. Without either it may be in
 * TTBR0_EL1, so that a switch writes one register: then table and ASID change together, and no walk has to be stopped. The ASID is 0
 * in both now, of init_mm, and neither register names user tables. TLBs may hold the bit, so that they are flushed.
 */
void lookaside_arch_prepare(void)
{
	u64 tcr = read_sysreg(tcr_el1);

	if (has_kpti() || !(tcr & TCR_A1))
		return;
	write_sysreg(tcr & ~TCR_A1, tcr_el1);
	isb();
	local_flush_tlb_all();
}

void lookaside_arch_features(struct lookaside_features *features)
{
	features->midr = read_cpuid_id();
	features->mmfr0 = read_sysreg_s(SYS_ID_AA64MMFR0_EL1);
	features->mmfr1 = read_sysreg_s(SYS_ID_AA64MMFR1_EL1);
	features->mmfr2 = read_sysreg_s(SYS_ID_AA64MMFR2_EL1);
	features->mmfr3 = read_sysreg_s(SYS_ID_AA64MMFR3_EL1);
	features->isar0 = read_sysreg_s(SYS_ID_AA64ISAR0_EL1);
}

/* All that rollovers do not need: what lookaside.h says of `tags`. */
static u32 most_pins(const struct lookaside_boot *boot)
{
	u32 tags = 1 << ((boot->tcr & TCR_ASID16 ? 16 : 8) - (has_kpti() ? 1 : 0));
	u32 needed = boot->cpus + 3;

	if (boot->tags && boot->tags < tags)
		tags = boot->tags;
	return tags > needed ? tags - needed : 0;
}

void lookaside_arch_boot(struct lookaside_boot *boot)
{
	boot->flags = LOOKASIDE_BROADCASTS;
	boot->reserved_root = __pa_symbol(reserved_pg_dir);
	boot->tcr = read_sysreg(tcr_el1);
	boot->pins = most_pins(boot);
	if (system_supports_cnp())
		boot->flags |= LOOKASIDE_SHARED_TLBS;
#ifdef CONFIG_UNMAP_KERNEL_AT_EL0
	if (has_kpti()) {
		boot->flags |= LOOKASIDE_ASID_IN_TTBR1 | LOOKASIDE_ASID_PAIRS;
		boot->kernel_root = __pa_symbol(swapper_pg_dir);
		boot->user_kernel_root = __pa_symbol(tramp_pg_dir);
	}
#endif
}
