/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The hardware of shim.h, and the functions that the library asks of a kernel. */
#include "shim.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAMES 512
#define TLB 16

static struct frame memory[FRAMES];
_Atomic uint64_t accesses, faults;

/* A CPU's own, which only its thread touches, but for the IPI. */
static _Thread_local uint32_t me;
static _Thread_local bool irqs_off = true;
static _Thread_local uint64_t satp = 8ull << 60;
static _Thread_local unsigned next;
static _Thread_local struct {
    bool valid;
    uint16_t asid;
    unsigned page;
    uint64_t frame;
} tlb[TLB];
static atomic_bool ipi[CPUS];

void shim_fail(const char *why) {
    fprintf(stderr, "CPU %u: %s\n", me, why);
    _Exit(1);
}

void shim_must(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, lookaside_strerror(result));
        shim_fail("refused");
    }
}

/* -- Interrupts ------------------------------------------------------------------------------------------------ */

static void take_interrupts(void) {
    if (!irqs_off && atomic_exchange(&ipi[me], false)) {
        irqs_off = true;
        MUST(lookaside_handle_ipi());
        irqs_off = false;
    }
}

void shim_become(uint32_t cpu) { me = cpu; }
void shim_irq_off(void) { irqs_off = true; }
void shim_irq_on(void) {
    irqs_off = false;
    take_interrupts();
}

uint32_t lookaside_platform_cpu(void) { return me; }
bool lookaside_platform_irqs_are_off(void) { return irqs_off; }

void lookaside_platform_send_ipi(uint32_t first, uint64_t mask) {
    for (uint32_t bit = 0; bit < 64; bit++)
        if (mask >> bit & 1)
            atomic_store(&ipi[first + bit], true);
}

void lookaside_platform_relax(void) {
    take_interrupts();
    sched_yield();
}

void lookaside_platform_stuck(uint32_t waiting, uint32_t target, uint64_t rounds) {
    fprintf(stderr, "CPU %u waits for CPU %u: %llu rounds\n", waiting, target, (unsigned long long)rounds);
}

void lookaside_platform_panic(const char *message) {
    shim_fail(message);
}

/* -- Instructions ---------------------------------------------------------------------------------------------- */

uint64_t lookaside_host_read_satp(void) { return satp; }
void lookaside_host_write_satp(uint64_t value) { satp = value; }
void lookaside_host_fence(void) { atomic_thread_fence(memory_order_seq_cst); }

void lookaside_host_sfence_vma(bool has_va, uint64_t va, bool has_asid, uint16_t asid) {
    atomic_thread_fence(memory_order_seq_cst);
#ifdef BREAK_FENCES /* hardware that removes nothing: the program must notice */
    (void)has_va, (void)va, (void)has_asid, (void)asid;
#else
    for (unsigned i = 0; i < TLB; i++)
        if ((!has_va || tlb[i].page == va >> 12) && (!has_asid || tlb[i].asid == asid))
            tlb[i].valid = false;
#endif
}

/* -- Memory ---------------------------------------------------------------------------------------------------- */

struct frame *shim_frame(uint64_t frame) { return &memory[frame]; }
uint64_t shim_owner(uint64_t space, unsigned page) { return space << 16 | page | 1ull << 63; }

uint64_t shim_alloc(uint64_t owner) {
    /* Frames are reused soon, so that a stale translation leads to another's. The first is the reserved root's. */
    for (uint64_t frame = 1; frame < FRAMES; frame++) {
        uint64_t nobody = 0;
        if (atomic_compare_exchange_strong(&memory[frame].owner, &nobody, owner))
            return frame;
    }
    shim_fail("out of memory");
}

void shim_free(uint64_t frame) {
    for (unsigned page = 0; page < PAGES; page++)
        atomic_store(&memory[frame].pte[page], 0);
    atomic_store(&memory[frame].owner, 0);
}

/* The translation of a page under `satp`, cached or walked. */
static bool translate(unsigned page, uint64_t *frame) {
    uint16_t asid = (uint16_t)(satp >> 44);
    for (unsigned i = 0; i < TLB; i++)
        if (tlb[i].valid && tlb[i].asid == asid && tlb[i].page == page) {
            *frame = tlb[i].frame;
            return true;
        }
    uint64_t pte = atomic_load(&memory[satp & 0xfff].pte[page]);
    if (pte == 0)
        return false;
    *frame = pte - 1;
    tlb[next].valid = true, tlb[next].asid = asid, tlb[next].page = page, tlb[next].frame = *frame;
    next = (next + 1) % TLB;
    return true;
}

bool shim_store(uint64_t space, unsigned page) {
    uint64_t frame;
    take_interrupts();
    atomic_fetch_add_explicit(&accesses, 1, memory_order_relaxed);
    if (!translate(page, &frame)) {
        atomic_fetch_add_explicit(&faults, 1, memory_order_relaxed);
        return false;
    }
    /* Other CPUs go on meanwhile; this one takes no interrupt between translation and access. */
    if (page % 4 == 0)
        sched_yield();
    if (atomic_load(&memory[frame].owner) != shim_owner(space, page))
        shim_fail("STALE: user code reaches a page that is not its own");
    atomic_store_explicit(&memory[frame].data, space, memory_order_relaxed);
    return true;
}
