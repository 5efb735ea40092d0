/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A RISC-V kernel of xv6's shape on the library: a root of its own, a trampoline, Sv39, no SBI firmware, one thread in each
 * process. docs/from-c.md says what is called where. The tests compile it; a file like it ran in xv6. */
#include <lookaside_riscv.h>

/* What the kernel has. */
#define MOST_CPUS 8
#define CLINT 0x2000000
#define PAGE 4096
#define VALID 1u
extern uint64_t kernel_root; /* physical address */
uint32_t cpu_number(void);
bool interrupts_are_on(void);
void push_off(void); /* interrupts off, and back to what they were: these nest */
void pop_off(void);
void print_stuck_cpus(uint32_t waiting, uint32_t target);
_Noreturn void panic(const char *message);
uint64_t *walk(uint64_t root, uint64_t va); /* the entry of a page of 4 KiB; NULL: its table is absent */
void free_frame(uint64_t frame);

struct process {
    uint64_t root;
    bool runs; /* on some CPU, or has run: false until its tables are complete */
    struct lookaside_space space;
};

/* -- What the library calls -------------------------------------------------------------------------------------- */

uint32_t lookaside_platform_cpu(void) {
    return cpu_number();
}

bool lookaside_platform_irqs_are_off(void) {
    return !interrupts_are_on();
}

void lookaside_platform_send_ipi(uint32_t first, uint64_t mask) {
    lookaside_riscv_send_msip(CLINT, first, mask);
}

void lookaside_platform_relax(void) {}

void lookaside_platform_stuck(uint32_t waiting, uint32_t target, uint64_t rounds) {
    (void)rounds;
    print_stuck_cpus(waiting, target);
}

_Noreturn void lookaside_platform_panic(const char *message) {
    panic(message);
}

/* -- What the kernel calls --------------------------------------------------------------------------------------- */

/* The library refuses what must not happen here, and a flush that is refused has flushed nothing. */
static void check(int result) {
    if (result < 0)
        panic(lookaside_strerror(result));
}

/* On each hart, interrupts off, with the kernel's root loaded; on the boot hart before the others. */
void tlb_init_cpu(bool is_boot_cpu) {
    const struct lookaside_features features = { .mode = 8, .asid_bits = lookaside_riscv_asid_bits() };
    if (is_boot_cpu) {
        const struct lookaside_boot boot = {
            .cpus = MOST_CPUS,
            .flags = LOOKASIDE_OWN_ROOT,
            .features = features,
            .reserved_root = kernel_root,
        };
        check(lookaside_init(&boot));
    }
    check(lookaside_online(&features));
}

/* A new process, and the new table of exec. */
void tlb_init(struct process *p) {
    check(lookaside_space_init(&p->space, p->root, 0));
    p->runs = true;
}

/* Exec, when the new table is complete, and exit: before frames, tables and the trap frame are freed. */
void tlb_release(struct process *p) {
    push_off();
    check(lookaside_space_release(&p->space));
    pop_off();
    p->runs = false;
}

/* Pages were mapped where there were none. */
void tlb_mapped(struct process *p, uint64_t va, uint64_t bytes) {
    if (!p->runs)
        return;
    push_off();
    check(lookaside_map(&p->space, va, bytes, 12, LOOKASIDE_MAPPED));
    pop_off();
}

/* Unmaps and frees pages. Nobody else changes or reads the tables: the process has one thread, which is here. */
void tlb_unmap(struct process *p, uint64_t va, uint64_t bytes) {
    for (uint64_t at = va; at < va + bytes; at += PAGE) {
        uint64_t *entry = walk(p->root, at);
        if (entry == NULL || *entry == 0)
            continue; /* Never touched, where the heap is filled at page faults. */
        /* In one step, so that a flag which hardware sets meanwhile (Svadu) is not lost. */
        __atomic_fetch_and(entry, ~(uint64_t)VALID, __ATOMIC_ACQ_REL);
    }
    if (p->runs) {
        push_off();
        check(lookaside_flush_range(&p->space, va, bytes, 12, LOOKASIDE_PAGES, NULL));
        pop_off();
    }
    for (uint64_t at = va; at < va + bytes; at += PAGE) {
        uint64_t *entry = walk(p->root, at);
        if (entry == NULL || *entry == 0)
            continue;
        free_frame(*entry >> 10 << 12);
        *entry = 0;
    }
}

/* An exception of user mode, interrupts off: whether it is over, and the process goes on. */
bool tlb_fault(struct process *p, uint64_t scause, uint64_t va) {
    const uint64_t *entry = va < UINT64_C(1) << 38 ? walk(p->root, va) : NULL;
    if (!lookaside_riscv_is_spurious(scause, entry != NULL ? *entry : 0))
        return false;
    check(lookaside_map(&p->space, va, 1, 12, LOOKASIDE_FAULTED));
    return true;
}

/* The way back to user mode, interrupts off: the trap frame keeps `kernel`, and the trampoline loads `user`. */
void tlb_user(struct process *p, struct lookaside_roots *roots) {
    check(lookaside_switch(&p->space, lookaside_platform_cpu()));
    const int fences = lookaside_user_roots(&p->space, roots);
    check(fences);
    /* A kernel that is for harts without ASIDs, too, has `sfence.vma` after both writes always, and not these two lines. */
    if (fences != 0)
        panic("no ASIDs: the trampoline does not fence");
}

/* In the scheduler, after a process has left the CPU; interrupts off. */
void tlb_left(void) {
    check(lookaside_lazy());
}
