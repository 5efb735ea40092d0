/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Tables are freed after a grace period of RCU, always. Linux does so where firmware flushes other harts; where Linux interrupts them
 * itself, it frees at once, for the interrupt waits until no hart walks the tables in software with interrupts off. The
 * library interrupts fewer.
 */
#ifndef LOOKASIDE_ASM_PGALLOC_H
#define LOOKASIDE_ASM_PGALLOC_H

#include <linux/mm.h>
#include <asm/sbi.h>
#include <asm/tlb.h>

#pragma push_macro("riscv_use_sbi_for_rfence")
#undef riscv_use_sbi_for_rfence
#define riscv_use_sbi_for_rfence() true
#include_next <asm/pgalloc.h>
#pragma pop_macro("riscv_use_sbi_for_rfence")

#endif
