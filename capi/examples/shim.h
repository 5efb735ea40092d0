/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A kernel in a program: threads are CPUs, and this is their hardware. Each CPU has a register `satp` and a TLB of its
 * own, which the instructions of the library (lookaside_host_*) fill, search and empty; interrupts are taken between two
 * instructions of user code, and in waits with interrupts on.
 */
#ifndef SHIM_H
#define SHIM_H

#include <lookaside.h>
#include <stdatomic.h>

#define CPUS 4
#define PAGES 16 /* in each space */

/* Physical memory: a frame is a page that says whose it is, or a table. What is in use by several CPUs is atomic. */
struct frame {
    _Atomic uint64_t owner; /* space and page; 0 while nobody owns it */
    _Atomic uint64_t data;
    _Atomic uint64_t pte[PAGES]; /* frame number + 1; 0 is absent */
};

extern _Atomic uint64_t accesses, faults;

/* The CPU that this thread is. */
void shim_become(uint32_t cpu);
void shim_irq_off(void);
void shim_irq_on(void);

uint64_t shim_alloc(uint64_t owner);
void shim_free(uint64_t frame);
struct frame *shim_frame(uint64_t frame);

/* User code stores to a page of the space with this number. Returns whether it was mapped; ends the program if what it
 * reaches is not the space's page. */
bool shim_store(uint64_t space, unsigned page);

/* The value of `owner` for a page of a space. */
uint64_t shim_owner(uint64_t space, unsigned page);

_Noreturn void shim_fail(const char *why);
void shim_must(int result, const char *what);
#define MUST(call) shim_must((call), #call)

#endif
