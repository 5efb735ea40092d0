/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Bad input is refused, with one sentence each. */
#include "shim.h"

#include <stdio.h>
#include <string.h>

/* Fails unless a call was refused for this reason. */
static void expect(int result, int reason, const char *what) {
    printf("%s: %s\n", what, lookaside_strerror(result));
    if (result != reason)
        shim_fail("another result than expected");
}
#define EXPECT(reason, call) expect((call), (reason), #call)

int main(void) {
    static struct lookaside_space space, copy;
    static struct lookaside_wait wait;
    const struct lookaside_features hart = { .mode = 8, .asid_bits = 4 };
    const struct lookaside_features narrow = { .mode = 8, .asid_bits = 3 };
    const struct lookaside_boot good = { .cpus = CPUS, .features = hart };
    struct lookaside_boot boot = good;
    struct lookaside_layout layout = { LOOKASIDE_VERSION,
                                       LOOKASIDE_ARCH,
                                       LOOKASIDE_MAX_CPUS,
                                       sizeof(struct lookaside_boot),
                                       sizeof(struct lookaside_space),
                                       sizeof(struct lookaside_wait),
                                       sizeof(struct lookaside_batch),
                                       sizeof(struct lookaside_features) };
    shim_become(0);

    /* Before lookaside_init. */
    EXPECT(LOOKASIDE_ENOTREADY, lookaside_online(&hart));
    EXPECT(LOOKASIDE_ENOTREADY, lookaside_switch(&space, 0));
    EXPECT(LOOKASIDE_ENOTREADY, lookaside_handle_ipi());

    /* What lookaside_init refuses. It may be tried again. */
    layout.max_cpus = 8;
    EXPECT(LOOKASIDE_ELAYOUT, lookaside_init_as(&good, &layout));
    layout.max_cpus = LOOKASIDE_MAX_CPUS, layout.space_bytes -= 8;
    EXPECT(LOOKASIDE_ELAYOUT, lookaside_init_as(&good, &layout));
    EXPECT(LOOKASIDE_EARGUMENT, lookaside_init(NULL));
    boot.cpus = 0;
    EXPECT(LOOKASIDE_ECPUS, lookaside_init(&boot));
    boot.cpus = LOOKASIDE_MAX_CPUS + 1;
    EXPECT(LOOKASIDE_ECPUS, lookaside_init(&boot));
    boot = good, boot.tags = 4;
    EXPECT(LOOKASIDE_ETAGS, lookaside_init(&boot));
    boot = good, boot.pins = 1000;
    EXPECT(LOOKASIDE_ETAGS, lookaside_init(&boot));
    boot = good, boot.flags = LOOKASIDE_SBI_FENCES;
    EXPECT(LOOKASIDE_EARGUMENT, lookaside_init(&boot));
    boot = good, boot.features.mode = 7;
    EXPECT(LOOKASIDE_EARGUMENT, lookaside_init(&boot));
    boot = good, boot.features.asid_bits = 2;
    EXPECT(LOOKASIDE_ETAGS, lookaside_init(&boot));
    boot = good, boot.reserved_root = 1;
    EXPECT(LOOKASIDE_EBADROOT, lookaside_init(&boot));
    boot = good, boot.pins = 1;
    EXPECT(0, lookaside_init(&boot));
    EXPECT(LOOKASIDE_EAGAIN, lookaside_init(&boot));

    /* Before lookaside_online, and on a CPU that does not fit. */
    EXPECT(LOOKASIDE_EOFFLINE, lookaside_lazy());
    EXPECT(LOOKASIDE_EOFFLINE, lookaside_handle_ipi());
    EXPECT(LOOKASIDE_EFEWERTAGS, lookaside_online(&narrow));
    shim_become(CPUS);
    EXPECT(LOOKASIDE_ECPU, lookaside_online(&hart));
    EXPECT(LOOKASIDE_EOFFLINE, lookaside_lazy());
    shim_become(0);
    EXPECT(LOOKASIDE_EARGUMENT, lookaside_online(NULL));
    EXPECT(0, lookaside_online(&hart));

    /* Spaces: of nothing, not initialised, a copy, released. */
    EXPECT(LOOKASIDE_ESPACE, lookaside_switch(NULL, 0));
    EXPECT(LOOKASIDE_ESPACE, lookaside_switch(&space, 0));
    EXPECT(LOOKASIDE_EBADROOT, lookaside_space_init(&space, 0x1001, 0));
    EXPECT(LOOKASIDE_ESPACE, lookaside_space_init(NULL, 0x1000, 0));
    EXPECT(0, lookaside_space_init(&space, 0x1000, 0));
    memcpy(&copy, &space, sizeof copy);
    EXPECT(LOOKASIDE_ESPACE, lookaside_switch(&copy, 0));
    EXPECT(LOOKASIDE_ESPACE, lookaside_space_release(&copy));
    MUST(lookaside_switch(&space, 0));
    if (lookaside_switch(&space, 0) != LOOKASIDE_UNCHANGED)
        shim_fail("a second switch has changed something");

    /* A number that no CPU has, and that of one which is not online. */
    EXPECT(LOOKASIDE_EOFFLINE, lookaside_switch(&space, LOOKASIDE_MAX_CPUS));
    EXPECT(LOOKASIDE_EOFFLINE, lookaside_switch(&space, 1));
    EXPECT(LOOKASIDE_EOFFLINE, lookaside_flush_page(&space, 0, LOOKASIDE_PAGES, 1, NULL));

    /* Interrupts on. */
    shim_irq_on();
    EXPECT(LOOKASIDE_EIRQS, lookaside_switch(&space, 0));
    EXPECT(LOOKASIDE_EIRQS, lookaside_flush_range(&space, 0, LOOKASIDE_EVERYTHING, 12, LOOKASIDE_TABLES, NULL));
    EXPECT(LOOKASIDE_EIRQS, lookaside_flush_page(&space, 0, LOOKASIDE_PAGES, 0, NULL));
    EXPECT(LOOKASIDE_EIRQS, lookaside_online(&hart));
    EXPECT(LOOKASIDE_EIRQS, lookaside_stopped(1));
    shim_irq_off();

    /* Ranges and kinds. A range that is no whole page is widened. */
    EXPECT(LOOKASIDE_EPAGESIZE, lookaside_flush_range(&space, 0, 4096, 11, LOOKASIDE_PAGES, NULL));
    EXPECT(LOOKASIDE_ERANGE, lookaside_flush_range(&space, 4096, UINT64_MAX - 1, 12, LOOKASIDE_PAGES, NULL));
    EXPECT(LOOKASIDE_EARGUMENT, lookaside_flush_range(&space, 0, 4096, 12, (enum lookaside_kind)3, NULL));
    EXPECT(LOOKASIDE_EARGUMENT, lookaside_map(NULL, 0, 4096, 12, LOOKASIDE_FAULTED));
    EXPECT(LOOKASIDE_EARGUMENT, lookaside_flush_page(&space, 0, (enum lookaside_kind)3, 0, NULL));
    EXPECT(0, lookaside_flush_page(&space, 1, LOOKASIDE_MIXED, 0, NULL));
    EXPECT(0, lookaside_flush_page(&space, 4096, LOOKASIDE_TABLES, 0, NULL));
    EXPECT(0, lookaside_flush_range(&space, 1, 1, 12, LOOKASIDE_PAGES, NULL));
    EXPECT(0, lookaside_flush_range(&space, 0, 0, 12, LOOKASIDE_PAGES, NULL));

    /* A wait for nothing. This CPU alone runs the space: its flush is complete at once. */
    EXPECT(LOOKASIDE_EWAIT, lookaside_wait(&wait));
    EXPECT(LOOKASIDE_EWAIT, lookaside_wait(NULL));
    EXPECT(0, lookaside_flush_range(&space, 0, 4096, 12, LOOKASIDE_PAGES, &wait));
    EXPECT(LOOKASIDE_EWAIT, lookaside_wait(&wait));

    /* Foreign roots. */
    EXPECT(LOOKASIDE_EROOT, lookaside_root_end());
    EXPECT(LOOKASIDE_EBADROOT, lookaside_root_begin(1));
    EXPECT(0, lookaside_root_begin(0x2000));
    EXPECT(LOOKASIDE_EROOT, lookaside_root_begin(0x2000));
    EXPECT(LOOKASIDE_EROOT, lookaside_switch(&space, 0));
    EXPECT(LOOKASIDE_EROOT, lookaside_flush_page(&space, 0, LOOKASIDE_PAGES, 0, NULL));
    EXPECT(LOOKASIDE_EROOT, lookaside_flush_range(&space, 0, 4096, 12, LOOKASIDE_PAGES, NULL));
    EXPECT(0, lookaside_handle_ipi());
    EXPECT(0, lookaside_root_end());

    /* The trampoline's values: this kernel has no other root than user mode, so both are what the register holds. */
    struct lookaside_roots roots = { 0, 0 };
    EXPECT(0, lookaside_user_roots(&space, &roots));
    EXPECT(0, lookaside_user_roots(&space, NULL)); /* it does not leave for user mode */
    if (roots.user != lookaside_host_read_satp() || roots.kernel != roots.user)
        shim_fail("the trampoline would write another value");
    if (!lookaside_nmi_uaccess_okay(&space) || lookaside_nmi_uaccess_okay(&copy))
        shim_fail("an NMI handler is told the wrong thing");
    if (lookaside_count(LOOKASIDE_COUNT_LOCAL) == 0 || lookaside_count((enum lookaside_counter)9) != 0)
        shim_fail("the counters do not count");

    /* Pins. */
    EXPECT(LOOKASIDE_ENOTPINNED, lookaside_pin(&space, false));
    int tag = lookaside_pin(&space, true);
    MUST(lookaside_switch(&space, 0));
    if (tag != (int)(lookaside_host_read_satp() >> 44 & 0xffff))
        shim_fail("the tag that is pinned is not the one that is loaded");
    EXPECT(LOOKASIDE_EPINNED, lookaside_space_release(&space));
    EXPECT(0, lookaside_pin(&space, false));

    /* Batches: a copy of one that is in use. */
    static struct lookaside_batch batch, other;
    EXPECT(0, lookaside_batch_flush(&batch));
    EXPECT(0, lookaside_batch_add(&batch, &space, 0, 4096, 12, LOOKASIDE_PAGES));
    memcpy(&other, &batch, sizeof other);
    EXPECT(LOOKASIDE_EBATCH, lookaside_batch_flush(&other));
    EXPECT(0, lookaside_batch_flush(&batch));

    /* Other CPUs, and the end. */
    EXPECT(LOOKASIDE_ECPU, lookaside_stopped(CPUS));
    EXPECT(0, lookaside_stopped(1));
    EXPECT(0, lookaside_space_release(&space));
    EXPECT(LOOKASIDE_ESPACE, lookaside_space_release(&space));
    EXPECT(0, lookaside_offline());
    EXPECT(LOOKASIDE_EOFFLINE, lookaside_offline());
    puts("all that was to be refused was");
    return 0;
}
