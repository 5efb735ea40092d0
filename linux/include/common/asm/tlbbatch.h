/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What a task remembers of flushes that reclaim and migration have begun: a member of task_struct.
 */
#ifndef LOOKASIDE_ASM_TLBBATCH_H
#define LOOKASIDE_ASM_TLBBATCH_H

#include <lookaside_sized.h>

struct arch_tlbflush_unmap_batch {
	struct lookaside_batch batch;
};

#endif
