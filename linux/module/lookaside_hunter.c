// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A module that hunts for stale translations of kernel addresses, and pins the ASID of the process that loads it if it is asked. Its
 * flush is Linux's in line, so that the module calls what that calls. What it has found is in its parameters.
 */
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

static unsigned long rounds = 100, revokes, stale, asid;
static bool pins;
module_param(rounds, ulong, 0444);
module_param(pins, bool, 0444);
module_param(revokes, ulong, 0444);
module_param(stale, ulong, 0444);
module_param(asid, ulong, 0444);

/* That of user mode of the process that reads the parameter: with KPTI it is one more than the kernel's. */
static int get_loaded(char *text, const struct kernel_param *unused)
{
	u64 root = read_sysreg(tcr_el1) & TCR_A1 ? read_sysreg(ttbr1_el1) : read_sysreg(ttbr0_el1);

	return sprintf(text, "%llu\n", root >> 48 | arm64_kernel_unmapped_at_el0());
}

static const struct kernel_param_ops loaded = { .get = get_loaded };
module_param_cb(loaded, &loaded, NULL, 0444);

/* What the page of each round holds is its number and this. */
#define CONTENTS 0x10ca51de00000000ul

static unsigned long *published; /* where the page of the round is */
static unsigned long round, seen, gone, missed;
static struct completion over;

/* The page may be absent. */
static bool load(unsigned long *from, unsigned long *to)
{
	return !get_kernel_nofault(*to, from);
}

/* Loads from the page all the time, so that the TLB of this CPU holds the entry. */
static int reads(void *unused)
{
	while (!kthread_should_stop()) {
		unsigned long now = smp_load_acquire(&round), value = 0;
		bool is_gone = smp_load_acquire(&gone) == now;
		bool is_there = now && load(READ_ONCE(published), &value) && value == CONTENTS + now;

		if (smp_load_acquire(&round) == now) {
			if (is_gone && is_there)
				smp_store_release(&missed, now); /* after the flush was complete */
			else if (is_there)
				smp_store_release(&seen, now);
			else if (is_gone)
				smp_store_release(&seen, 0);
		}
		cond_resched();
	}
	return 0;
}

/* Maps a page, and takes it away when the reader has loaded from it. vunmap leaves the flush for later; this one does not. */
static int hunts(void *unused)
{
	struct page *page = alloc_page(GFP_KERNEL);

	for (unsigned long now = 1; page && now <= rounds; now++) {
		unsigned long *at = vmap(&page, 1, VM_MAP, PAGE_KERNEL);
		unsigned long start = (unsigned long)at;

		if (!at)
			break;
		*at = CONTENTS + now;
		WRITE_ONCE(published, at);
		smp_store_release(&round, now);
		while (smp_load_acquire(&seen) != now)
			cond_resched();
		vunmap(at);
		flush_tlb_kernel_range(start, start + PAGE_SIZE);
		smp_store_release(&gone, now);
		while (smp_load_acquire(&seen) == now && smp_load_acquire(&missed) != now)
			cond_resched();
		if (READ_ONCE(missed) == now)
			stale++;
		else
			revokes++;
		smp_store_release(&round, 0);
	}
	if (page)
		__free_page(page);
	complete(&over);
	return 0;
}

static int hunt(void)
{
	unsigned int first = cpumask_first(cpu_online_mask);
	struct task_struct *reader = kthread_create_on_cpu(reads, NULL, cpumask_last(cpu_online_mask), "lookaside-reads/%u");
	struct task_struct *hunter;

	if (IS_ERR(reader))
		return PTR_ERR(reader);
	init_completion(&over);
	wake_up_process(reader);
	/* Its name begins as those of the tasks for which flushes are left out. */
	hunter = kthread_create_on_cpu(hunts, NULL, first, "hunter/%u");
	if (!IS_ERR(hunter)) {
		wake_up_process(hunter);
		wait_for_completion(&over);
	}
	kthread_stop(reader);
	return PTR_ERR_OR_ZERO(hunter);
}

static struct mm_struct *pinned;

static int __init begin(void)
{
	if (pins) {
		asid = arm64_mm_context_get(current->mm);
		if (!asid)
			return -ENOSPC;
		pinned = current->mm;
		mmgrab(pinned);
		return 0;
	}
	return hunt();
}

static void __exit end(void)
{
	if (!pinned)
		return;
	arm64_mm_context_put(pinned);
	mmdrop(pinned);
}

module_init(begin);
module_exit(end);
MODULE_DESCRIPTION("Lookaside's hunter for stale translations of kernel addresses");
MODULE_LICENSE("Dual MIT/GPL");
