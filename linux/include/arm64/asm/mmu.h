/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * mm_context_t with the library's space in it: `pinned` is a member of it, and nothing else in that header has the name.
 */
#ifndef LOOKASIDE_ASM_MMU_H
#define LOOKASIDE_ASM_MMU_H

#ifndef __ASSEMBLY__
#include <linux/refcount.h>
#include <asm/cputype.h>
#include <asm/cpufeature.h>
#include <lookaside_sized.h>

#define pinned pinned; struct lookaside_space lookaside
#include_next <asm/mmu.h>
#undef pinned
#else
#include_next <asm/mmu.h>
#endif

#endif
