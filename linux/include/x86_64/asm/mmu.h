/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * mm_context_t with the library's space in it: `vdso` is a member of it, and nothing else in that header has the name.
 */
#ifndef LOOKASIDE_ASM_MMU_H
#define LOOKASIDE_ASM_MMU_H

#ifndef __ASSEMBLY__
#include <lookaside_sized.h>

#define vdso vdso; struct lookaside_space lookaside
#include_next <asm/mmu.h>
#undef vdso
#else
#include_next <asm/mmu.h>
#endif

#endif
