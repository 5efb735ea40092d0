/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The kernel around ../examples/own_root.c, as a program: a heap of three pages, of which the first is mapped and written
 * to, the second was never touched, and the third has no table. What of the library is not called here refuses. */
#include "../include/lookaside_riscv.h"

#include <stdio.h>
#include <stdlib.h>

/* Of the hardware, for which the header has assembly. */
static uint32_t lookaside_riscv_asid_bits(void) {
    return 16;
}

static void lookaside_riscv_send_msip(uintptr_t base, uint32_t first, uint64_t mask) {
    (void)base, (void)first, (void)mask;
}

#include "../examples/own_root.c"

#define FRAME UINT64_C(0x80123)
#define VALID_DIRTY UINT64_C(0xd7) /* D A U W R V */

static uint64_t entries[2] = { FRAME << 10 | VALID_DIRTY, 0 };
static struct process process = { .runs = true };
static unsigned freed, flushed;

uint64_t kernel_root;

uint32_t cpu_number(void) {
    return 0;
}

bool interrupts_are_on(void) {
    return false;
}

void push_off(void) {}
void pop_off(void) {}

void print_stuck_cpus(uint32_t waiting, uint32_t target) {
    (void)waiting, (void)target;
}

void panic(const char *message) {
    puts(message);
    exit(2);
}

uint64_t *walk(uint64_t root, uint64_t va) {
    (void)root;
    return va / PAGE < 2 ? &entries[va / PAGE] : NULL;
}

void free_frame(uint64_t frame) {
    if (frame != FRAME << 12 || flushed != 1)
        panic("a frame that was not mapped is freed, or one before the flush");
    freed++;
}

int lookaside_flush_range(struct lookaside_space *space, uint64_t start, uint64_t bytes, unsigned shift,
                          enum lookaside_kind kind, struct lookaside_wait *wait) {
    if (space != &process.space || start != 0 || bytes != 3 * PAGE || shift != 12 || kind != LOOKASIDE_PAGES || wait != NULL)
        panic("another flush");
    if (entries[0] != (FRAME << 10 | (VALID_DIRTY & ~(uint64_t)VALID)) || entries[1] != 0)
        panic("the flush comes before the change, or the change takes more than the valid bit");
    flushed++;
    return 0;
}

const char *lookaside_strerror(int error) {
    (void)error;
    return "a function of the library that is not here";
}

int lookaside_init_as(const struct lookaside_boot *boot, const struct lookaside_layout *layout) {
    (void)boot, (void)layout;
    return LOOKASIDE_EOTHER;
}

int lookaside_online(const struct lookaside_features *features) {
    (void)features;
    return LOOKASIDE_EOTHER;
}

int lookaside_space_init(struct lookaside_space *space, uint64_t root, uint64_t user_root) {
    (void)space, (void)root, (void)user_root;
    return LOOKASIDE_EOTHER;
}

int lookaside_space_release(struct lookaside_space *space) {
    (void)space;
    return LOOKASIDE_EOTHER;
}

int lookaside_map(struct lookaside_space *space, uint64_t start, uint64_t bytes, unsigned shift,
                  enum lookaside_event event) {
    (void)space, (void)start, (void)bytes, (void)shift, (void)event;
    return LOOKASIDE_EOTHER;
}

int lookaside_switch(struct lookaside_space *space, uint32_t cpu) {
    (void)space, (void)cpu;
    return LOOKASIDE_EOTHER;
}

int lookaside_user_roots(struct lookaside_space *space, struct lookaside_roots *roots) {
    (void)space, (void)roots;
    return LOOKASIDE_EOTHER;
}

int lookaside_lazy(void) {
    return LOOKASIDE_EOTHER;
}

int main(void) {
    tlb_unmap(&process, 0, 3 * PAGE);
    return freed == 1 && flushed == 1 && entries[0] == 0 && entries[1] == 0 ? 0 : 1;
}
