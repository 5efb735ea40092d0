/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What the shadow headers call, out of line: mm.c. These functions save and disable interrupts where the library wants them off,
 * and a refusal of the library is a panic with its reason.
 */
#ifndef LOOKASIDE_MM_H
#define LOOKASIDE_MM_H

#ifndef __ASSEMBLY__
#include <linux/percpu-defs.h>
#include <lookaside.h>

struct mm_struct;

/* fork and exec, after the root table is there; and the last mmdrop. An mm that is made before the library runs gets no space. */
int lookaside_mm_init(struct mm_struct *mm);
void lookaside_mm_end(struct mm_struct *mm);

/* Whether this CPU is online for the library; preemption is off. */
DECLARE_PER_CPU(bool, lookaside_takes_part);
#define lookaside_mm_takes_part() __this_cpu_read(lookaside_takes_part)

/* Whether this CPU runs a kernel thread, and has the root of the last mm loaded: where such a CPU may be interrupted. */
DECLARE_PER_CPU(bool, lookaside_is_lazy);

/* Switches this CPU to a user's mm, with interrupts off: what lookaside_switch returns. It says nothing of lookaside_is_lazy. A macro, since
 * mm_struct is incomplete here. */
#define lookaside_mm_load(mm, cpu) ({ \
	int switched = lookaside_switch(&(mm)->context.lookaside, cpu); \
	if (unlikely(switched < 0)) \
		lookaside_refused("a switch", switched); \
	switched; \
})

/* The scheduler: enter_lazy_tlb, and a switch to init_mm. A switch to a user's mm is the architecture's, around lookaside_mm_load. */
void lookaside_mm_lazy(struct mm_struct *mm);
void lookaside_mm_park(void);

/* Changes of a user's mm: see lookaside_flush_range. */
void lookaside_mm_flush(struct mm_struct *mm, unsigned long start, unsigned long end, unsigned int shift,
			enum lookaside_kind kind);
void lookaside_mm_flush_page(struct mm_struct *mm, unsigned long page, enum lookaside_kind kind); /* of PAGE_SIZE */
void lookaside_mm_flush_all(struct mm_struct *mm);

/* The kinds of flushes that are left out, for tests; otherwise 0. */
extern unsigned int lookaside_drop;

/* Reclaim and migration. */
void lookaside_mm_defer(struct lookaside_batch *batch, struct mm_struct *mm, unsigned long address);
void lookaside_mm_complete(struct lookaside_batch *batch);

/* Changes of kernel addresses; false if this CPU does not take part yet, and the caller has to flush as Linux does. */
bool lookaside_kernel_flush(unsigned long start, unsigned long bytes, enum lookaside_kind kind);

/* The architecture's side of mm.c: what it says at boot, of the machine and of the CPU that executes the call. */
void lookaside_arch_boot(struct lookaside_boot *boot);
void lookaside_arch_features(struct lookaside_features *features);

/* The library can no longer be relied on. */
_Noreturn void lookaside_refused(const char *what, int error);
#endif

#endif
