/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A RISC-V kernel with a root of its own, on harts without ASIDs: what its trampoline writes, and that it must fence.
 * With ASIDs it must not: refused.c. */
#include "shim.h"

#include <lookaside_riscv.h>
#include <stdio.h>

#define KERNEL_ROOT 0x1000
#define USER_ROOT 0x2000

static void spurious_faults(void) {
    const uint64_t valid = 1, readable = 2, writable = 4, executable = 8, user = 16;
    const uint64_t all = valid | readable | writable | executable | user;
    const struct {
        uint64_t scause, allowed_by;
    } accesses_of[] = { { 12, executable }, { 13, readable }, { 15, writable } };
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t scause = accesses_of[i].scause, needed = valid | user | accesses_of[i].allowed_by;
        for (uint64_t entry = 0; entry <= all; entry++)
            if (lookaside_riscv_is_spurious(scause, entry) != ((entry & needed) == needed))
                shim_fail("a page fault is told from a spurious one wrongly");
    }
    if (lookaside_riscv_is_spurious(8, all) || lookaside_riscv_is_spurious(14, all))
        shim_fail("what is no page fault is a spurious one");
}

int main(void) {
    static struct lookaside_space space;
    const struct lookaside_boot boot = {
        .cpus = CPUS,
        .flags = LOOKASIDE_OWN_ROOT,
        .features = { .mode = 8 },
        .reserved_root = KERNEL_ROOT,
    };
    struct lookaside_roots roots = { 0, 0 };
    shim_become(0);
    MUST(lookaside_init(&boot));
    MUST(lookaside_online(&boot.features));
    MUST(lookaside_space_init(&space, USER_ROOT, 0));
    if (lookaside_switch(&space, 0) < 0 || lookaside_user_roots(&space, &roots) != 1)
        shim_fail("a trampoline without ASIDs is not told to fence");
    if (roots.user != (UINT64_C(8) << 60 | USER_ROOT >> 12) || roots.kernel != (UINT64_C(8) << 60 | KERNEL_ROOT >> 12))
        shim_fail("the trampoline would write another value");
    spurious_faults();
    puts("the trampoline is told what to write, and to fence");
    return 0;
}
