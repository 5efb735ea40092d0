// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Linux's address spaces on the library, on every architecture: what lookaside_mm.h declares, what the library asks of a kernel
 * (lookaside_platform_*), boot, CPUs up and down, and /proc/lookaside.
 */
#include <linux/cpuhotplug.h>
#include <linux/efi.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/io.h>
#include <linux/irq_work.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/mmu_context.h>
#include <lookaside_arch.h>
#include <lookaside_mm.h>

/* Set when every CPU is online for the library; kernel addresses are flushed by Linux until then. */
static bool ready __ro_after_init;
/* Whether a CPU is online for the library. */
DEFINE_PER_CPU(bool, lookaside_takes_part);
DEFINE_PER_CPU(bool, lookaside_is_lazy);

#if defined(__has_attribute) && __has_attribute(uninitialized)
#define LOOKASIDE_UNINITIALIZED __attribute__((uninitialized))
#else
#define LOOKASIDE_UNINITIALIZED
#endif

static u32 tags __initdata;

/* The flushes that are left out, to see that the tests find it; of tasks alone whose name begins with "hunter". */
enum drop { DROP_RANGES = 1, DROP_WHOLE = 2, DROP_BATCHES = 4, DROP_KERNEL = 8 };
unsigned int lookaside_drop __ro_after_init;

_Noreturn void lookaside_refused(const char *what, int error)
{
	panic("lookaside: %s: %s", what, lookaside_strerror(error));
	unreachable();
}

static bool is_dropped(enum drop kind)
{
	return unlikely(lookaside_drop & kind) && !strncmp(current->comm, "hunter", 6);
}

/* -- The life of an mm --------------------------------------------------------------------------------------------- */

int lookaside_mm_init(struct mm_struct *mm)
{
	int error = lookaside_space_init(&mm->context.lookaside, virt_to_phys(mm->pgd),
					 lookaside_arch_user_root(mm));

	/* Text patching's on x86; if the library is to run such an mm, that is refused. */
	if (error == LOOKASIDE_ENOTREADY)
		return 0;
	if (error)
		pr_err("lookaside: a new mm: %s\n", lookaside_strerror(error));
	return error ? -EAGAIN : 0;
}

void lookaside_mm_end(struct mm_struct *mm)
{
	unsigned long flags;
	int error;

	local_irq_save(flags);
	error = lookaside_space_release(&mm->context.lookaside);
	local_irq_restore(flags);
	if (error)
		lookaside_refused("the end of an mm", error);
}

/* -- The scheduler ------------------------------------------------------------------------------------------------- */

static __always_inline void note_lazy(bool lazy)
{
	if (lookaside_arch_interrupts())
		WRITE_ONCE(*this_cpu_ptr(&lookaside_is_lazy), lazy);
}

/* A CPU that goes down was parked when it left the library. */
static __always_inline void leave(int (*how)(void), bool lazy, const char *what)
{
	unsigned long flags;
	int error = 0;

	local_irq_save(flags);
	if (lookaside_mm_takes_part()) {
		error = how();
		note_lazy(lazy);
	}
	local_irq_restore(flags);
	if (error)
		lookaside_refused(what, error);
}

/* The scheduler's current task is the next one already. */
void lookaside_mm_lazy(struct mm_struct *mm)
{
	if (lookaside_arch_idles_parked() && idle_cpu(raw_smp_processor_id())) {
		lookaside_mm_park();
		lookaside_arch_left(mm);
	} else {
		leave(lookaside_lazy, true, "lazy");
	}
}

void lookaside_mm_park(void)
{
	leave(lookaside_park, false, "park");
}

/* -- Flushes ------------------------------------------------------------------------------------------------------- */

/* A flush that waits for other CPUs waits with the interrupts that its caller has. */
static void finish(int result, struct lookaside_wait *wait, const char *what)
{
	if (result == 1)
		result = lookaside_wait(wait);
	if (unlikely(result))
		lookaside_refused(what, result);
}

/* Not inlined: most flushes need no place for a wait. */
static noinline void flush_and_wait(struct mm_struct *mm, unsigned long start, unsigned long bytes, unsigned int shift,
				    enum lookaside_kind kind)
{
	struct lookaside_wait wait;
	unsigned long flags;
	int result;

	local_irq_save(flags);
	result = lookaside_flush_range(&mm->context.lookaside, start, bytes, shift, kind, &wait);
	local_irq_restore(flags);
	if (unlikely(result))
		finish(result, &wait, "a flush");
}

/*
 * Whether a flush of several pages may have to wait for other CPUs. One that is lazy in the mm is interrupted for tables alone: it uses
 * no page of the mm, and flushes before it does. Where no other CPU is more than lazy, a flush of pages prepares no wait. A hint: a
 * CPU may leave the kernel thread meanwhile, and is waited for with interrupts off then.
 */
static __always_inline bool waits(struct mm_struct *mm, enum lookaside_kind kind)
{
	int this = raw_smp_processor_id(), cpu;

	if (!lookaside_arch_interrupts())
		return false;
	for_each_cpu(cpu, mm_cpumask(mm))
		if (cpu != this && (kind == LOOKASIDE_TABLES || !READ_ONCE(per_cpu(lookaside_is_lazy, cpu))))
			return true;
	return false;
}

static noinline void flush_several(struct mm_struct *mm, unsigned long start, unsigned long bytes, unsigned int shift,
				   enum lookaside_kind kind)
{
	unsigned long flags;
	int result;

	if (waits(mm, kind)) {
		flush_and_wait(mm, start, bytes, shift, kind);
		return;
	}
	local_irq_save(flags);
	result = lookaside_flush_range(&mm->context.lookaside, start, bytes, shift, kind, NULL);
	local_irq_restore(flags);
	if (unlikely(result))
		lookaside_refused("a flush", result);
}

/* The library prepares the wait if there is one: the place on the stack is not to be cleared (CONFIG_INIT_STACK_ALL_ZERO). */
static __always_inline void flush_page(struct mm_struct *mm, unsigned long page, enum lookaside_kind kind)
{
	struct lookaside_wait place LOOKASIDE_UNINITIALIZED;
	struct lookaside_wait *wait = lookaside_arch_interrupts() ? &place : NULL;
	unsigned long flags;
	int result;

	local_irq_save(flags);
	result = lookaside_flush_page(&mm->context.lookaside, page, kind, lookaside_arch_cpu(), wait);
	local_irq_restore(flags);
	if (unlikely(result))
		finish(result, wait, "a flush");
}

static __always_inline void flush(struct mm_struct *mm, unsigned long start, unsigned long bytes, unsigned int shift,
				  enum lookaside_kind kind)
{
	if (PAGE_SHIFT == 12 && shift == PAGE_SHIFT && bytes == PAGE_SIZE && !offset_in_page(start) && kind != LOOKASIDE_TABLES)
		flush_page(mm, start, kind);
	else
		flush_several(mm, start, bytes, shift, kind);
}

/* Out of line: what is kept while the name is compared would be saved by each flush. */
static noinline void flush_unless_dropped(struct mm_struct *mm, unsigned long start, unsigned long bytes, unsigned int shift,
					  enum lookaside_kind kind)
{
	if (!is_dropped(DROP_RANGES))
		flush(mm, start, bytes, shift, kind);
}

void lookaside_mm_flush(struct mm_struct *mm, unsigned long start, unsigned long end, unsigned int shift,
			enum lookaside_kind kind)
{
	if (unlikely(lookaside_drop))
		flush_unless_dropped(mm, start, end - start, shift, kind);
	else
		flush(mm, start, end - start, shift, kind);
}

void lookaside_mm_flush_page(struct mm_struct *mm, unsigned long page, enum lookaside_kind kind)
{
	if (PAGE_SHIFT != 12 || unlikely(lookaside_drop))
		lookaside_mm_flush(mm, page, page + PAGE_SIZE, PAGE_SHIFT, kind);
	else
		flush_page(mm, page, kind);
}

void lookaside_mm_flush_all(struct mm_struct *mm)
{
	if (is_dropped(DROP_WHOLE))
		return;
	if (lookaside_arch_keeps_tables())
		flush(mm, 0, TASK_SIZE_MAX, PAGE_SHIFT, LOOKASIDE_MIXED);
	else
		flush(mm, 0, LOOKASIDE_EVERYTHING, PAGE_SHIFT, LOOKASIDE_TABLES);
}

void lookaside_mm_defer(struct lookaside_batch *batch, struct mm_struct *mm, unsigned long address)
{
	unsigned long flags;
	int error;

	if (is_dropped(DROP_BATCHES))
		return;
	local_irq_save(flags);
	error = lookaside_batch_add(batch, &mm->context.lookaside, address, PAGE_SIZE, PAGE_SHIFT, LOOKASIDE_MIXED);
	local_irq_restore(flags);
	if (unlikely(error))
		lookaside_refused("a flush of a batch", error);
}

void lookaside_mm_complete(struct lookaside_batch *batch)
{
	unsigned long flags;
	int error;

	local_irq_save(flags);
	error = lookaside_batch_flush(batch);
	local_irq_restore(flags);
	if (unlikely(error))
		lookaside_refused("a batch", error);
}

/* It waits with the interrupts of its caller also where one CPU alone is online for Linux: one that comes up is online for the library,
 * and may wait for this one to handle an interrupt (check_tsc_sync_target on x86). */
bool lookaside_kernel_flush(unsigned long start, unsigned long bytes, enum lookaside_kind kind)
{
	struct lookaside_wait wait, *later = lookaside_arch_interrupts() && nr_cpu_ids > 1 ? &wait : NULL;
	unsigned long flags;
	bool done = false;
	int result = 0;

	if (is_dropped(DROP_KERNEL))
		return true;
	local_irq_save(flags);
	if (ready && lookaside_mm_takes_part()) {
		result = lookaside_flush_kernel(start, bytes, PAGE_SHIFT, kind, later);
		done = true;
	}
	local_irq_restore(flags);
	if (unlikely(result))
		finish(result, later, "a flush of kernel addresses");
	return done;
}

/* Linux's flushes are in line on some architectures, and modules call what they call. */
EXPORT_SYMBOL(lookaside_drop);
EXPORT_SYMBOL(lookaside_flush_page);
EXPORT_SYMBOL(lookaside_kernel_flush);
EXPORT_SYMBOL(lookaside_mm_flush);
EXPORT_SYMBOL(lookaside_mm_flush_all);
EXPORT_SYMBOL(lookaside_mm_flush_page);
EXPORT_SYMBOL(lookaside_refused);

/* -- What the library asks for ------------------------------------------------------------------------------------- */

uint32_t lookaside_platform_cpu(void)
{
	return raw_smp_processor_id();
}

bool lookaside_platform_irqs_are_off(void)
{
	return irqs_disabled();
}

/* A lazy CPU is asked where tables are freed: it leaves the mm, so that it is asked once. */
static void handle_ipi(struct irq_work *work)
{
	lookaside_handle_ipi();
	if (__this_cpu_read(lookaside_is_lazy)) {
		lookaside_mm_park();
		lookaside_arch_left(current->active_mm);
	}
}

static DEFINE_PER_CPU(struct irq_work, request) = IRQ_WORK_INIT_HARD(handle_ipi);

/* irq_work_queue_on warns of a CPU that is not online for Linux. One that comes up is online for the library a moment earlier, and takes the
 * interrupt when it enables interrupts, which it does as soon as it is online for Linux, too. */
static void queue_on_starting(struct irq_work *work, int cpu)
{
	int claim = IRQ_WORK_CLAIMED | CSD_TYPE_IRQ_WORK;

	if (!(atomic_fetch_or(claim, &work->node.a_flags) & IRQ_WORK_PENDING))
		__smp_call_single_queue(cpu, &work->node.llist);
}

/* A work that is queued already has not begun, so that it finds what was stored before this call. The queue is a list that is
 * extended by a full barrier, and the interrupt controller's driver orders stores before the interrupt. */
void lookaside_platform_send_ipi(uint32_t first, uint64_t mask)
{
	for (; mask; mask &= mask - 1) {
		int cpu = first + __ffs64(mask);

		if (likely(cpu_online(cpu)))
			irq_work_queue_on(per_cpu_ptr(&request, cpu), cpu);
		else
			queue_on_starting(per_cpu_ptr(&request, cpu), cpu);
	}
}

void lookaside_platform_relax(void)
{
	cpu_relax();
}

/* A million rounds are a fraction of a second, for which a busy host may well leave a virtual CPU out. */
#define PATIENCE (1 << 26)

void lookaside_platform_stuck(uint32_t waiting, uint32_t target, uint64_t rounds)
{
	if (rounds >= PATIENCE)
		pr_warn("lookaside: CPU %u has waited for CPU %u for %llu rounds\n", waiting, target, rounds);
}

_Noreturn void lookaside_platform_panic(const char *message)
{
	panic("%s", message); /* which begins with the library's name */
	unreachable();
}

/* -- Boot, CPUs up and down ---------------------------------------------------------------------------------------- */

static int __init set_tags(char *text)
{
	return kstrtou32(text, 0, &tags);
}
early_param("lookaside_tags", set_tags);

static int __init set_drop(char *text)
{
	if (strstr(text, "ranges"))
		lookaside_drop |= DROP_RANGES;
	if (strstr(text, "whole"))
		lookaside_drop |= DROP_WHOLE;
	if (strstr(text, "batches"))
		lookaside_drop |= DROP_BATCHES;
	if (strstr(text, "kernel"))
		lookaside_drop |= DROP_KERNEL;
	return lookaside_drop ? 0 : -EINVAL;
}
early_param("lookaside_drop", set_drop);

/* With interrupts off, on the CPU that comes up. */
static int online(unsigned int cpu)
{
	struct lookaside_features features = {};
	int error;

	lookaside_arch_prepare();
	lookaside_arch_features(&features);
	error = lookaside_online(&features);
	if (error < 0) /* 1: Linux has its own work-around of that erratum. */
		lookaside_refused("a CPU comes up", error);
	__this_cpu_write(lookaside_takes_part, true);
	return 0;
}

static int offline(unsigned int cpu)
{
	int error = lookaside_offline();

	if (error)
		lookaside_refused("a CPU goes down", error);
	__this_cpu_write(lookaside_takes_part, false);
	return 0;
}

static void __init boot_on_first_cpu(void *unused)
{
	struct lookaside_boot boot = { .cpus = nr_cpu_ids, .tags = tags };
	int error;

	lookaside_arch_prepare();
	lookaside_arch_features(&boot.features);
	lookaside_arch_boot(&boot);
	error = lookaside_init(&boot);
	if (error)
		lookaside_refused("boot", error);
	pr_info("lookaside: %u CPUs, %u tags at most (0: all), flags %#x\n", boot.cpus, boot.tags, boot.flags);
}

/* EFI's mm is made before the library runs. No CPU has loaded it: the first runtime call comes later. */
static int __init make_space_of_efi(void)
{
#ifdef CONFIG_EFI
	if (efi_enabled(EFI_RUNTIME_SERVICES) && efi_mm.pgd)
		return lookaside_mm_init(&efi_mm);
#endif
	return 0;
}

/* After the last CPU of the boot is up and capabilities are final; before the first mm of a process. Linux has no state for us among those
 * of CPUs that are starting, and needs this one on none of our architectures. */
static int __init boot(void)
{
	int error = smp_call_function_single(0, boot_on_first_cpu, NULL, 1);

	if (!error)
		error = make_space_of_efi();
	if (!error)
		error = cpuhp_setup_state(CPUHP_AP_PERF_XTENSA_STARTING, "lookaside", online, offline);
	if (error)
		panic("lookaside: CPUs cannot be brought up: %d", error);
	ready = true;
	if (lookaside_drop)
		pr_info("lookaside: flushes are DROPPED in tasks whose name begins with \"hunter\"\n");
	return 0;
}
pure_initcall(boot);

/* -- /proc/lookaside ----------------------------------------------------------------------------------------------- */

static int show(struct seq_file *file, void *unused)
{
	static const char *const names[] = { "no_cpu", "local",	  "retagged", "broadcast", "ipis",
					     "targets", "served", "useful",   "caught_up", "checked" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		seq_printf(file, "%s %llu\n", names[i], lookaside_count(i));
	return 0;
}

static int open_counts(struct inode *inode, struct file *file)
{
	return single_open(file, show, NULL);
}

/* Whatever is written flushes kernel addresses on all CPUs: for tests. */
static ssize_t flush_by_hand(struct file *file, const char __user *text, size_t bytes, loff_t *at)
{
	lookaside_kernel_flush(0, LOOKASIDE_EVERYTHING, LOOKASIDE_TABLES);
	return bytes;
}

static const struct proc_ops counts = {
	.proc_open = open_counts,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
	.proc_write = flush_by_hand,
};

static int __init show_counts(void)
{
	proc_create("lookaside", 0644, NULL, &counts);
	return 0;
}
late_initcall(show_counts);
