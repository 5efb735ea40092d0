/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What a task remembers of flushes that reclaim and migration have begun: a member of task_struct.
 */
#ifndef _ARCH_ARM64_TLBBATCH_H
#define _ARCH_ARM64_TLBBATCH_H

#ifndef LOOKASIDE_MAX_CPUS
#define LOOKASIDE_MAX_CPUS CONFIG_NR_CPUS
#endif
#include <lookaside.h>

struct arch_tlbflush_unmap_batch {
	struct lookaside_batch batch;
};

#endif
