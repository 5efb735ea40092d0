/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A small kernel on the hardware of shim.h: it maps, runs, unmaps and frees, on four CPUs at once, and user code must
 * never reach a page that was given to somebody else. */
#include "shim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARED 3 /* processes that every CPU runs */

struct process {
    struct lookaside_space space;
    uint64_t number, root;
    atomic_bool locked; /* the lock of the page table */
};

static struct process shared[SHARED];
static _Atomic uint64_t numbers = 1, frames_freed, waited, ended;
static unsigned rounds = 2000;

static unsigned random_below(uint64_t *state, unsigned limit) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % limit;
}

/* IRQs are off, and the holder may wait for this CPU: so it answers. */
static void lock(struct process *process) {
    while (atomic_exchange(&process->locked, true)) {
        MUST(lookaside_handle_ipi());
        lookaside_platform_relax();
    }
}

static void unlock(struct process *process) { atomic_store(&process->locked, false); }

static void begin(struct process *process) {
    process->number = atomic_fetch_add(&numbers, 1);
    process->root = shim_alloc(1ull << 62);
    MUST(lookaside_space_init(&process->space, process->root << 12, 0));
}

/* fork's and mmap's part, and the page fault's: map a page if there is none. */
static void map(struct process *process, unsigned page, enum lookaside_event event) {
    _Atomic uint64_t *pte = &shim_frame(process->root)->pte[page];
    lock(process);
    if (atomic_load(pte) == 0) {
        atomic_store(pte, shim_alloc(shim_owner(process->number, page)) + 1);
        MUST(lookaside_map(&process->space, (uint64_t)page << 12, 4096, 12, LOOKASIDE_MAPPED));
    } else if (event == LOOKASIDE_FAULTED) { /* another CPU has mapped it, and this one remembers that there was nothing */
        MUST(lookaside_map(&process->space, (uint64_t)page << 12, 4096, 12, LOOKASIDE_FAULTED));
    }
    unlock(process);
}

/* munmap: clear the entries, flush, and only then free the frames. */
static void unmap(struct process *process, unsigned first, unsigned count, bool begun) {
    uint64_t gone[PAGES];
    unsigned found = 0;
    struct lookaside_wait wait;
    lock(process);
    for (unsigned page = first; page < first + count; page++) {
        uint64_t pte = atomic_exchange(&shim_frame(process->root)->pte[page], 0);
        if (pte != 0)
            gone[found++] = pte - 1;
    }
    int waiting = 0;
#ifndef BREAK_UNMAP /* a kernel that forgets the flush: the program must notice */
    waiting = lookaside_flush_range(&process->space, (uint64_t)first << 12, (uint64_t)count << 12, 12, LOOKASIDE_PAGES,
                                    begun ? &wait : NULL);
    MUST(waiting);
#else
    (void)wait, (void)begun;
#endif
    if (waiting == 1) {
        /* The lock is held: others spin for it and answer. Interrupts come on for the wait. */
        shim_irq_on();
        MUST(lookaside_wait(&wait));
        shim_irq_off();
        atomic_fetch_add(&waited, 1);
    }
    for (unsigned i = 0; i < found; i++)
        shim_free(gone[i]);
    atomic_fetch_add(&frames_freed, found);
    unlock(process);
}

/* Reclaim: one page each of two processes, flushed together. Locks are taken in order. */
static void reclaim(unsigned page) {
    struct lookaside_batch batch = LOOKASIDE_BATCH_INIT;
    uint64_t gone[2] = { 0, 0 };
    for (unsigned i = 0; i < 2; i++) {
        lock(&shared[i]);
        gone[i] = atomic_exchange(&shim_frame(shared[i].root)->pte[page], 0);
        MUST(lookaside_batch_add(&batch, &shared[i].space, (uint64_t)page << 12, 4096, 12, LOOKASIDE_PAGES));
    }
    MUST(lookaside_batch_flush(&batch));
    for (unsigned i = 0; i < 2; i++) {
        if (gone[i] != 0) {
            shim_free(gone[i] - 1);
            atomic_fetch_add(&frames_freed, 1);
        }
    }
    unlock(&shared[1]);
    unlock(&shared[0]);
}

/* exit: no thread runs the process any more, and nothing is flushed before its memory is free. */
static void end(struct process *process) {
    MUST(lookaside_space_release(&process->space));
    for (unsigned page = 0; page < PAGES; page++) {
        uint64_t pte = atomic_exchange(&shim_frame(process->root)->pte[page], 0);
        if (pte != 0)
            shim_free(pte - 1);
    }
    shim_free(process->root);
    atomic_fetch_add(&ended, 1);
}

static void run(struct process *process) { MUST(lookaside_switch(&process->space, lookaside_platform_cpu())); }

/* User code, with interrupts on; the handler of page faults maps what is missing. */
static void user(struct process *process, uint64_t *state) {
    shim_irq_on();
    for (unsigned i = 0; i < 8; i++) {
        unsigned page = random_below(state, PAGES);
        if (!shim_store(process->number, page)) {
            shim_irq_off();
            map(process, page, LOOKASIDE_FAULTED);
            shim_irq_on();
        }
    }
    shim_irq_off();
}

static void *cpu(void *argument) {
    uint32_t number = (uint32_t)(uintptr_t)argument;
    uint64_t state = number + 1;
    const struct lookaside_features features = { .mode = 8, .asid_bits = 4 };
    struct process own;
    bool has_own = false;
    shim_become(number);
    MUST(lookaside_online(&features));
    for (unsigned round = 0; round < rounds; round++) {
        struct process *process = &shared[random_below(&state, SHARED)];
        unsigned page = random_below(&state, PAGES - 1);
        switch (random_below(&state, 8)) {
        case 0:
        case 1:
        case 2:
            run(process);
            user(process, &state);
            break;
        case 3:
            run(process);
            user(process, &state);
            unmap(process, page, 1 + round % 2, false);
            break;
        case 4:
            unmap(process, page, 1, true);
            break;
        case 5:
            reclaim(page);
            break;
        case 6:
            MUST(round % 2 ? lookaside_lazy() : lookaside_park());
            shim_irq_on();
            shim_irq_off();
            break;
        default: /* a process of this CPU's alone: fork, exec, exit */
            if (has_own)
                end(&own);
            atomic_init(&own.locked, false);
            begin(&own);
            has_own = true;
            run(&own);
            user(&own, &state);
        }
    }
    if (has_own)
        end(&own);
    MUST(lookaside_offline());
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[CPUS];
    const struct lookaside_features features = { .mode = 8, .asid_bits = 4 };
    const struct lookaside_boot boot = { .cpus = CPUS, .features = features, .reserved_root = 0 };
    if (count > 1)
        rounds = (unsigned)atoi(arguments[1]);
    MUST(lookaside_init(&boot));
    for (unsigned i = 0; i < SHARED; i++)
        begin(&shared[i]);
    for (uintptr_t i = 0; i < CPUS; i++)
        if (pthread_create(&threads[i], NULL, cpu, (void *)i) != 0)
            shim_fail("no thread");
    for (unsigned i = 0; i < CPUS; i++)
        pthread_join(threads[i], NULL);
    printf("%llu accesses, %llu faults, %llu frames freed, %llu waits, %llu processes ended\n",
           (unsigned long long)accesses, (unsigned long long)faults, (unsigned long long)frames_freed,
           (unsigned long long)waited, (unsigned long long)ended);
    printf("flushes: %llu of nobody, %llu local, %llu by IPIs; %llu requests answered\n",
           (unsigned long long)lookaside_count(LOOKASIDE_COUNT_NO_CPU),
           (unsigned long long)lookaside_count(LOOKASIDE_COUNT_LOCAL),
           (unsigned long long)lookaside_count(LOOKASIDE_COUNT_IPIS),
           (unsigned long long)lookaside_count(LOOKASIDE_COUNT_SERVED));
    if (lookaside_count(LOOKASIDE_COUNT_CHECKED) != 0)
        printf("%llu loads of roots were checked\n", (unsigned long long)lookaside_count(LOOKASIDE_COUNT_CHECKED));
    if (frames_freed == 0 || waited == 0 || lookaside_count(LOOKASIDE_COUNT_SERVED) == 0)
        shim_fail("nothing was tried");
    puts("no stale translation was used");
    return 0;
}
