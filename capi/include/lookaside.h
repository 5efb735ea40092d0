/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Lookaside for kernels in C (C11) and C++ (C++17): TLB coherence. Which address space has which ASID or PCID, which
 * CPU must flush what, and when a flush is complete. docs/from-c.md says how to build and link it.
 *
 * A function that returns `int` returns 0 or more if it succeeded, and a negative number (enum lookaside_error) if it
 * was refused. What is refused has changed nothing; a flush that is refused HAS FLUSHED NOTHING, so look at the result.
 *
 * Interrupts and locks. "IRQs off" means off on this CPU from before the call until after it, so that the thread stays
 * where it is; the functions ask lookaside_platform_irqs_are_off and refuse otherwise. They need not ask where a register
 * says so: PSTATE with both I and F (AArch64), sstatus without SIE, RFLAGS without IF. No function sleeps or allocates.
 * Handlers of FIQ, SError, machine checks and other exceptions that "IRQs off" does not stop follow the rule for NMI: they
 * call lookaside_nmi_uaccess_okay and nothing else.
 *
 * Functions marked "waits" spin until other CPUs have answered, and answer other CPUs meanwhile: do not hold a lock for
 * which another CPU spins with IRQs off, unless that loop calls lookaside_handle_ipi. The same holds for a loop that waits,
 * with IRQs off, for anything else that a CPU does which may flush first (one that comes up, a cross-call, stop_machine). Unmarked functions wait for no
 * other CPU but for short internal locks.
 *
 * Memory. A struct of this header is opaque, and belongs to the caller, who keeps it where it is for as long as it is
 * in use. A copy of one that is in use (a memcpy of an mm at fork) is refused, and may be initialised anew. It has the
 * alignment of its type: it is no member of a packed struct. Other CPUs learn of it through a lock, or a release store after
 * the function that initialises it has returned: the library publishes it by neither.
 */
#ifndef LOOKASIDE_H
#define LOOKASIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define LOOKASIDE_STATIC_ASSERT(what, why) static_assert(what, why)
#define LOOKASIDE_ALIGN alignas(8)
#define LOOKASIDE_MUST_CHECK [[nodiscard]]
extern "C" {
#else
#define LOOKASIDE_STATIC_ASSERT(what, why) _Static_assert(what, why)
#define LOOKASIDE_ALIGN _Alignas(8)
#if defined(__GNUC__)
#define LOOKASIDE_MUST_CHECK __attribute__((warn_unused_result))
#else
#define LOOKASIDE_MUST_CHECK
#endif
#endif

/* -- The build --------------------------------------------------------------------------------------------------- */

/* The version of this interface; a library of another one is refused by lookaside_init. */
#define LOOKASIDE_VERSION 2

/* The most CPUs, as the library was built (the variable LOOKASIDE_MAX_CPUS in its build; 64 unless set). It decides the
 * sizes below, and a library that was built with another number is refused by lookaside_init. */
#ifndef LOOKASIDE_MAX_CPUS
#define LOOKASIDE_MAX_CPUS 64
#endif

/* The hardware: LOOKASIDE_HOST, which pkg-config and CMake define for the library of the host, is a RISC-V hart whose
 * instructions arrive at the functions lookaside_host_*, for tests of a kernel's calls in a program. */
#define LOOKASIDE_ARCH_HOST 1
#define LOOKASIDE_ARCH_AARCH64 2
#define LOOKASIDE_ARCH_RISCV64 3
#define LOOKASIDE_ARCH_X86_64 4
#if defined(LOOKASIDE_HOST)
#define LOOKASIDE_ARCH LOOKASIDE_ARCH_HOST
#elif defined(__aarch64__)
#define LOOKASIDE_ARCH LOOKASIDE_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define LOOKASIDE_ARCH LOOKASIDE_ARCH_RISCV64
#elif defined(__x86_64__)
#define LOOKASIDE_ARCH LOOKASIDE_ARCH_X86_64
#else
#error "Lookaside runs on AArch64, RISC-V 64 and x86-64, and in programs with LOOKASIDE_HOST defined"
#endif

LOOKASIDE_STATIC_ASSERT(LOOKASIDE_MAX_CPUS >= 1 && LOOKASIDE_MAX_CPUS <= 8192, "Lookaside serves 1 to 8192 CPUs");

/* -- What lies in the caller's memory ---------------------------------------------------------------------------- */

#define LOOKASIDE_SPACE_WORDS (14 + (LOOKASIDE_MAX_CPUS + 31) / 32)
#define LOOKASIDE_WAIT_WORDS 60
#define LOOKASIDE_BATCH_WORDS (6 + (LOOKASIDE_MAX_CPUS + 63) / 64)

/* An address space: a member of mm_struct, pmap or the like. Which tag it has, and which CPUs may hold entries of it. */
struct lookaside_space {
    LOOKASIDE_ALIGN uint64_t opaque[LOOKASIDE_SPACE_WORDS];
};

/* A flush that was begun, between lookaside_flush_range or _kernel and lookaside_wait. On a stack, for example. */
struct lookaside_wait {
    LOOKASIDE_ALIGN uint64_t opaque[LOOKASIDE_WAIT_WORDS];
};

/* Flushes that are completed together. Zeros, LOOKASIDE_BATCH_INIT, is an empty one. A member of task_struct: it may be
 * used on any CPU, one at a time. */
struct lookaside_batch {
    LOOKASIDE_ALIGN uint64_t opaque[LOOKASIDE_BATCH_WORDS];
};
#define LOOKASIDE_BATCH_INIT { { 0 } }

LOOKASIDE_STATIC_ASSERT(sizeof(struct lookaside_space) == 8 * LOOKASIDE_SPACE_WORDS, "size of lookaside_space");
LOOKASIDE_STATIC_ASSERT(sizeof(struct lookaside_wait) == 8 * LOOKASIDE_WAIT_WORDS, "size of lookaside_wait");
LOOKASIDE_STATIC_ASSERT(sizeof(struct lookaside_batch) == 8 * LOOKASIDE_BATCH_WORDS, "size of lookaside_batch");

/* -- What the kernel provides: symbols that the linker finds ----------------------------------------------------- */

/* The library calls these in the middle of switches and flushes. None of them calls the library, and none takes a lock whose
 * loop calls lookaside_handle_ipi; except _stuck, which may do both while IRQs are off. _cpu takes no lock at all. In
 * lookaside_wait with IRQs on, _relax and _stuck are called with IRQs on, and the thread may be preempted and moved. */

/* The number of the CPU that executes the call, below the number of CPUs given to lookaside_init. IRQs are off. Also
 * called in NMI handlers, by lookaside_nmi_uaccess_okay. (Linux: smp_processor_id; FreeBSD: curcpu.) */
uint32_t lookaside_platform_cpu(void);

/* Whether interrupts are off on the CPU that executes the call. (Linux: irqs_disabled.) */
bool lookaside_platform_irqs_are_off(void);

/* Sends an IPI to the CPUs `first + i` for each bit `i` of `mask`; the caller is not among them. Its handler calls
 * lookaside_handle_ipi. Does not wait. Called with IRQs off. All earlier stores of this CPU must be visible to the
 * handlers: `mfence; lfence` before the command register of an x2APIC (nothing before that of an xAPIC, whose page is
 * uncached), `dsb ishst` before ICC_SGI1R_EL1, `fence w, o`
 * before the SBI call. What acknowledges the IPI in its handler is ordered before lookaside_handle_ipi: `dmb ishld` with
 * GICv2, `isb` with GICv3, `fence io, rw` on RISC-V. A target may be offline and then needs none; the others get theirs all the same. (Linux:
 * irq_work_queue_on with one IRQ_WORK_INIT_HARD for each target; not smp_call_function_single_async, whose caller must
 * see to it that one call is over before the next, and not smp_call_function_many, which wants IRQs on. FreeBSD:
 * ipi_selected.) */
void lookaside_platform_send_ipi(uint32_t first, uint64_t mask);

/* Lets time pass in a loop. (cpu_relax, cpu_spinwait.) */
void lookaside_platform_relax(void);

/* A CPU waits for another one to answer, and has called _relax `rounds` times: called at growing intervals. Print a
 * warning, or panic; if it returns, the wait goes on. `waiting` is the CPU that began the flush; in lookaside_wait the thread
 * that waits may be on another one. */
void lookaside_platform_stuck(uint32_t waiting, uint32_t target, uint64_t rounds);

/* The library has found that it cannot go on: a broken promise of the caller's. `message` ends with a zero byte. Does
 * not return. (panic.) */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void lookaside_platform_panic(const char *message);

#if LOOKASIDE_ARCH == LOOKASIDE_ARCH_HOST
/* The instructions of the modelled hart, of which lookaside_platform_cpu tells the number. The register `satp` has the
 * mode in bits 63:60, the ASID in bits 59:44 and the root's address / 4096 below. `has_va`, `has_asid`: whether the
 * operand is given; without, the fence is for all addresses or all ASIDs, and it removes global entries only without an
 * ASID. A fence also orders earlier stores before later walks: use a full barrier. */
void lookaside_host_sfence_vma(bool has_va, uint64_t va, bool has_asid, uint16_t asid);
void lookaside_host_fence(void);
uint64_t lookaside_host_read_satp(void);
void lookaside_host_write_satp(uint64_t satp);
#endif

/* -- Numbers ----------------------------------------------------------------------------------------------------- */

enum lookaside_error {
    LOOKASIDE_ENOTREADY = -1,    /* lookaside_init has not succeeded */
    LOOKASIDE_EAGAIN = -2,       /* lookaside_init was called before */
    LOOKASIDE_ELAYOUT = -3,      /* another version, architecture or LOOKASIDE_MAX_CPUS than the library's */
    LOOKASIDE_EIRQS = -4,        /* interrupts are on */
    LOOKASIDE_EOFFLINE = -5,     /* this CPU has not called lookaside_online */
    LOOKASIDE_ESPACE = -6,       /* no space: not initialised, released, or a copy */
    LOOKASIDE_EWAIT = -7,        /* no flush to wait for: not begun, over, or a copy */
    LOOKASIDE_EBATCH = -8,       /* a copy of a batch that is in use */
    LOOKASIDE_EROOT = -9,        /* a foreign root is loaded, or for lookaside_root_end none is */
    LOOKASIDE_EARGUMENT = -10,   /* a kind, flag or number that this function does not have */
    LOOKASIDE_ECPUS = -11,       /* no CPU, or more than LOOKASIDE_MAX_CPUS */
    LOOKASIDE_ECPU = -12,        /* no such CPU, or it is online already */
    LOOKASIDE_ETAGS = -13,       /* too few tags for the CPUs and pins */
    LOOKASIDE_EUNSUPPORTED = -14, /* the hardware does not support the configuration */
    LOOKASIDE_EFEWERTAGS = -15,  /* this CPU has fewer tag bits than the machine runs with */
    LOOKASIDE_EFEATURE = -16,    /* this CPU lacks what the machine runs with */
    LOOKASIDE_EBADROOT = -17,    /* an address that the root register cannot hold */
    LOOKASIDE_EPINS = -18,       /* as many tags are pinned as lookaside_init was told */
    LOOKASIDE_ENOTPINNED = -19,  /* the tag is not pinned */
    LOOKASIDE_EPINNED = -20,     /* the tag is pinned */
    LOOKASIDE_EPAGESIZE = -21,   /* a page shift outside of 12 to 48 */
    LOOKASIDE_ERANGE = -22,      /* a range that runs past the top of the address space */
    LOOKASIDE_EIDS = -23,        /* no unused identifier is left: after 2^62 spaces */
    LOOKASIDE_EOTHER = -24       /* an error that this version of the interface has no number for */
};

/* What changed in a range. With the weaker one of two the flush is incomplete; with the stronger it only costs more. */
enum lookaside_kind {
    LOOKASIDE_PAGES = 0, /* entries of exactly the size 1 << shift */
    LOOKASIDE_MIXED = 1, /* entries of several sizes, of which 1 << shift is the smallest */
    LOOKASIDE_TABLES = 2 /* as MIXED, and page tables below which they were are unlinked, to be freed or used elsewhere */
};

/* `bytes` of a flush that is of all addresses; start and shift are then not looked at. lookaside_map refuses it. */
#define LOOKASIDE_EVERYTHING UINT64_MAX

/* -- Boot, CPUs up and down -------------------------------------------------------------------------------------- */

/* What one CPU says about itself. On x86-64 the library reads CPUID itself. */
struct lookaside_features {
#if LOOKASIDE_ARCH == LOOKASIDE_ARCH_AARCH64
    uint64_t midr;  /* MIDR_EL1 */
    uint64_t mmfr0; /* ID_AA64MMFR0_EL1 */
    uint64_t mmfr1; /* ID_AA64MMFR1_EL1 */
    uint64_t mmfr2; /* ID_AA64MMFR2_EL1 */
    uint64_t mmfr3; /* ID_AA64MMFR3_EL1, S3_0_C0_C7_3 */
    uint64_t isar0; /* ID_AA64ISAR0_EL1 */
#elif LOOKASIDE_ARCH == LOOKASIDE_ARCH_X86_64
    uint64_t microcode; /* its revision: on Intel bits 63:32 of IA32_BIOS_SIGN_ID, after a write of 0 to it and CPUID,
                         * on AMD all of the register; 0: not known */
#else
    uint32_t mode;       /* satp.MODE: 8, 9 or 10 for Sv39, Sv48, Sv57. To lookaside_init the mode of the kernel's page
                          * tables, which every satp gets; to lookaside_online that mode, or a wider one that the hart has */
    uint32_t asid_bits;  /* found by writing satp.ASID; 0 to 16. lookaside_riscv.h has a function for it */
    uint32_t extensions; /* LOOKASIDE_SVINVAL and so on */
    uint32_t reserved;   /* 0 */
    uint64_t vendor, architecture, implementation; /* mvendorid, marchid, mimpid, as the SBI says; 0: not known */
#endif
};

/* lookaside_features.extensions (RISC-V) */
#define LOOKASIDE_SVINVAL 1u
#define LOOKASIDE_SVNAPOT 2u
#define LOOKASIDE_SVVPTC 4u
#define LOOKASIDE_SVADU 8u
#define LOOKASIDE_SVADE 16u

/* lookaside_boot.flags. AArch64: */
#define LOOKASIDE_SHARED_TLBS 0x01u    /* set CnP */
#define LOOKASIDE_ASID_PAIRS 0x02u     /* KPTI: even ASIDs for the kernel, odd ones for user mode */
#define LOOKASIDE_ASID_IN_TTBR1 0x04u  /* TCR_EL1.A1 is set, and kernel_root, user_kernel_root are given */
#define LOOKASIDE_BROADCASTS 0x08u     /* prefer broadcast TLBI to IPIs, whatever they cost */
/* RISC-V: */
#define LOOKASIDE_OWN_ROOT 0x100u      /* the kernel keeps reserved_root loaded, and a trampoline loads user roots */
#define LOOKASIDE_SBI_FENCES 0x200u    /* flush other harts by SBI RFENCE where that is cheaper; not on the host */
/* x86-64: */
#define LOOKASIDE_NO_PCID 0x10000u
#define LOOKASIDE_USER_TABLES 0x20000u /* KPTI: user mode has tables of its own (user_root of lookaside_space_init) */
#define LOOKASIDE_FLUSH_AT_EXIT 0x40000u /* with that: flush the user's PCID at the exit to user mode */
#define LOOKASIDE_FIVE_LEVELS 0x80000u
#define LOOKASIDE_NO_INVLPGB 0x200000u /* flush by IPIs only: for code that walks user tables without the lock, with IRQs off,
                                        * where tables are freed after the flush and not after a grace period (RCU) */
#define LOOKASIDE_GLOBAL_KERNEL 0x100000u /* every kernel entry has the G bit, and CR4.PGE is set on every CPU */

/* How the machine is run. Zero what you do not need. How a flush is done (by page or by tag, by broadcast or by IPIs) is
 * decided by costs that are typical of the architecture; C cannot give those of a machine, but LOOKASIDE_BROADCASTS. */
struct lookaside_boot {
    uint32_t cpus;  /* CPUs that may ever come online: they have the numbers 0 to cpus - 1 */
    uint32_t tags;  /* most ASIDs to use (for tests: few make rollovers frequent); 0: all. AArch64: a space has the same ASID
                     * on all CPUs, and fewer ASIDs than cpus + 3 + pins are refused (LOOKASIDE_ETAGS). RISC-V: likewise, but
                     * with ASIDs of each CPU's own where there are too few. x86-64: PCIDs of each CPU's own, unless there is
                     * INVLPGB and no LOOKASIDE_FLUSH_AT_EXIT. With tags or pins not 0 they are the same on all CPUs, and too
                     * few are refused everywhere */
    uint32_t pins;  /* how many ASIDs may be pinned at one time */
    uint32_t flags;
    struct lookaside_features features; /* of the boot CPU. RISC-V: of asid_bits and extensions the least that any hart has */
    uint64_t reserved_root; /* physical address of a table that maps the kernel as every root does, if roots map it at
                             * all, and nothing for user mode. Linux: reserved_pg_dir (arm64), swapper_pg_dir (riscv),
                             * init_mm's (x86) */
#if LOOKASIDE_ARCH == LOOKASIDE_ARCH_AARCH64
    uint64_t tcr;              /* TCR_EL1 as read back, the same on all CPUs: lookaside_online refuses another A1 or AS
                                * (LOOKASIDE_EFEATURE), and nothing compares the rest. Set AS (bit 36) first where
                                * ID_AA64MMFR0_EL1.ASIDBits is 2. The kernel runs at EL1 */
    uint64_t kernel_root;      /* with LOOKASIDE_ASID_IN_TTBR1: the table in TTBR1_EL1 ... */
    uint64_t user_kernel_root; /* ... and in user mode; 0: the same */
#endif
};

/* Initialises the library, once, on the boot CPU, when its translation registers are as they stay. IRQs: any.
 * `reserved_root` 0 is an address like another. It calls no function of the platform but lookaside_platform_panic.
 * Refused with one reason, which lookaside_strerror has: too few tags, a header of another build, and so on. */
LOOKASIDE_MUST_CHECK static inline int lookaside_init(const struct lookaside_boot *boot);

/* This CPU comes up: after its translation registers are set up and its interrupt controller accepts the IPI (an IPI that
 * is dropped hangs its sender), before it runs a space. On x86-64 it sets or clears CR4.PCIDE. IRQs off, until it is online;
 * no locks. If it is refused, stop the CPU. `features`: of this CPU, each reads its own.
 *
 * It loads the reserved root, and removes what the TLB of this CPU holds. So code, stack and per-CPU data of the caller are
 * mapped by that root (AArch64: by TTBR1_EL1), and no identity map is in use any more.
 *
 * Returns 1 if the page-table code must work around an erratum of this CPU, or of one that came online before (Cortex-A715,
 * 2645198): an entry that is not to be executed any more is first cleared and flushed. (Linux: ARM64_WORKAROUND_2645198.)
 * (Linux: secondary_start_kernel, or a CPUHP starting state. FreeBSD: init_secondary.) */
LOOKASIDE_MUST_CHECK int lookaside_online(const struct lookaside_features *features);

/* This CPU goes down: the last call before lookaside_online. It runs the reserved root. IRQs off from here on, and no
 * kernel address is touched that may be unmapped meanwhile. (Linux: __cpu_disable's end, CPUHP dying state.) */
LOOKASIDE_MUST_CHECK int lookaside_offline(void);

/* Another CPU has stopped for good, without lookaside_offline (panic, crash): it executes nothing and its hardware
 * walks nothing until it comes online. No flush waits for it any more. Locks of the library that it held, or waited for,
 * when it stopped are not passed on. Not for a CPU that is stopped and resumes. IRQs off. (Linux: crash_smp_send_stop.) */
LOOKASIDE_MUST_CHECK int lookaside_stopped(uint32_t cpu);

/* -- Address spaces ---------------------------------------------------------------------------------------------- */

/* A new space with this root table (physical address). `user_root`: that of user mode, with LOOKASIDE_USER_TABLES,
 * where 0 and `root` are refused (LOOKASIDE_EBADROOT); otherwise 0, and another one is refused. Overwrites `space`, which may be uninitialised memory,
 * or the copy that fork has made. The space has no tag yet. Other CPUs learn of it through a lock, or a release store after
 * this returns. IRQs: any. If one is initialised anew that was in use and not released, nobody notices: its tag stays used
 * up, and CPUs stay in its tables. Until the space is released the table stays a page table, and it maps no page of user mode as
 * global. (Linux: init_new_context. FreeBSD: pmap_pinit.) */
LOOKASIDE_MUST_CHECK int lookaside_space_init(struct lookaside_space *space, uint64_t root, uint64_t user_root);

/* The end of a space that no thread runs any more and no other function uses. Makes every CPU leave it that still has
 * its root loaded (lazy ones), and frees its tag. Afterwards no CPU walks its tables or holds an entry that can be used:
 * free tables and frames without a flush. The calling CPU may run it, as at exec: then it parks, and touches no user address
 * until the next lookaside_switch. IRQs off; waits. (Linux: destroy_context. FreeBSD: pmap_release.) */
LOOKASIDE_MUST_CHECK int lookaside_space_release(struct lookaside_space *space);

/* -- The scheduler ----------------------------------------------------------------------------------------------- */

/* What lookaside_switch returns. */
enum lookaside_switched {
    LOOKASIDE_UNCHANGED = 0,  /* the root was loaded already */
    LOOKASIDE_CAUGHT_UP = 1,  /* the same, and a missed flush was made up for */
    LOOKASIDE_KEPT = 2,       /* the root was loaded; the CPU has kept the space's entries */
    LOOKASIDE_FLUSHED = 3,    /* the root was loaded, and a missed flush was made up for */
    LOOKASIDE_FRESH = 4,      /* the root was loaded under a tag that is new to this CPU */
    LOOKASIDE_ROLLED_OVER = 5 /* the same, after a rollover: the tags had run out, and are given anew */
};
#define LOOKASIDE_ROOT_CHANGED(switched) ((int)(switched) >= (int)LOOKASIDE_KEPT)

/* This CPU runs the space from here on: loads its root. Also for a switch to the space that it runs, since it may have
 * been lazy. If the root changed, your hardening of the branch predictor comes next. `cpu`: the number of the CPU that executes
 * the call, as lookaside_platform_cpu would say; the caller has it in fewer instructions than a call takes, and another
 * one is a broken promise. Which ASID the space has says lookaside_user_roots. IRQs off. (Linux: check_and_switch_context,
 * switch_mm_irqs_off; drop the shortcut `prev == next`. FreeBSD: pmap_activate.) */
LOOKASIDE_MUST_CHECK int lookaside_switch(struct lookaside_space *space, uint32_t cpu);

/* This CPU runs kernel code for a while, and touches no user address until lookaside_switch. The root stays loaded,
 * unless an IPI parks the CPU: the kernel makes do with what the reserved root maps. Coming back is free. Optional:
 * without it nothing breaks, and the CPU is interrupted for flushes that do not concern it. IRQs off. (Linux:
 * enter_lazy_tlb.) */
LOOKASIDE_MUST_CHECK int lookaside_lazy(void);

/* This CPU runs no space: the reserved root is loaded. IRQs off. (Linux: switch_mm to init_mm, leave_mm.) */
LOOKASIDE_MUST_CHECK int lookaside_park(void);

/* Loads a foreign root, of firmware's runtime services for example, until lookaside_root_end on the same CPU. In between
 * the CPU calls nothing but lookaside_handle_ipi; switches and flushes are refused. The thread stays on this CPU;
 * interrupts may be on. Nothing under that root is revoked, and none of its tables is freed, before the end, which comes
 * before user mode and before an interrupted thread goes on. IRQs off for both calls. (Linux: efi_set_pgd,
 * use_temporary_mm.) */
LOOKASIDE_MUST_CHECK int lookaside_root_begin(uint64_t root);
LOOKASIDE_MUST_CHECK int lookaside_root_end(void);

/* What the trampoline writes to the register that holds the tag: at the exit to user mode in a space that this CPU runs,
 * and at the next trap. For kernels with LOOKASIDE_ASID_PAIRS, _OWN_ROOT or _USER_TABLES; for others both are what the
 * register holds, its ASID included, which may be another after the next call on this CPU that switches or flushes. Call
 * lookaside_switch before it, even for the space that runs already. For one exit: IRQs off, and nothing else is called until
 * user mode, but that a handler of NMIs whose entry has found the user's value in the register writes it back at its return,
 * and the kernel's in between. For a space that this CPU does not run it ends in lookaside_platform_panic. With
 * LOOKASIDE_USER_TABLES a top-level entry of user mode is changed in both tables before it is flushed.
 *
 * Returns 1 if the trampoline executes `sfence.vma` (of everything) after each of the two writes: RISC-V harts without ASIDs,
 * where the result is the same at each call. Otherwise 0, and it executes no fence; on Arm64 see docs/integrating.md.
 * With `roots` NULL: the exit for which it was called last does not take place, as the kernel has found a signal or another
 * thread to run. This comes before the next lookaside_switch; without it, with LOOKASIDE_FLUSH_AT_EXIT, user mode may use what
 * another space had under its PCID.
 * (Linux: SWITCH_TO_USER_CR3, tramp_unmap_kernel. xv6: usertrapret.) */
struct lookaside_roots {
    uint64_t user;
    uint64_t kernel;
};
LOOKASIDE_MUST_CHECK int lookaside_user_roots(struct lookaside_space *space, struct lookaside_roots *roots);

/* -- Flushes ----------------------------------------------------------------------------------------------------- */

/* Entries of the space were removed or allow less: returns when no CPU can use what they said. Call it AFTER the entries
 * are changed and BEFORE anybody relies on it: before frames and tables are freed, before another page is mapped there.
 * The range is widened to whole pages of 1 << shift bytes; one of no bytes is flushed already. Tables that no CPU has run
 * yet, and those of a released space, need no flush.
 *
 * To flush after the change is sound under ONE CONDITION, which the library cannot see: whoever finds an entry absent
 * and acts on that (frees its table, maps another page, lets munmap return) knows that the flush of the CPU that cleared
 * it is over. Hold a lock from before the change until the flush is complete (FreeBSD: the pmap lock): until this function
 * has returned 0 or, if it has returned 1, until lookaside_wait has returned 0. Or count flushes before the change, and flush
 * the range once more if another one is under way (Linux: inc_tlb_flush_pending, mm_tlb_flush_nested, which mmu_gather does).
 *
 * A complete flush does not show that a walk of the tables in software has ended which takes no lock but has interrupts off
 * (Linux: get_user_pages_fast): a flush may send no IPI. For such walks free tables after a grace period (RCU), or on x86-64
 * see LOOKASIDE_NO_INVLPGB.
 *
 * With `wait` NULL the function waits: IRQs off. With a `wait` it may return 1: other CPUs have not answered yet, and
 * what follows holds when lookaside_wait(wait) has returned 0. If it returns 0, the flush is complete and `wait` is not
 * in use. `wait` may be uninitialised memory, but not that of a flush that returned 1 and was not waited for. On more than 512
 * CPUs it may wait for the first of its targets all the same: there the rule of functions that wait holds for locks. Either way
 * IRQs are off here. (Linux: __flush_tlb_range, flush_tlb_mm_range
 * with stride_shift and freed_tables, flush_tlb_page; FreeBSD: pmap_invalidate_range.) Everything of a space, tables too, is
 * (space, 0, LOOKASIDE_EVERYTHING, 12, LOOKASIDE_TABLES, NULL). (Linux: flush_tlb_mm, arch_flush_tlb_batched_pending.) */
LOOKASIDE_MUST_CHECK int lookaside_flush_range(struct lookaside_space *space, uint64_t start, uint64_t bytes,
                                               unsigned shift, enum lookaside_kind kind, struct lookaside_wait *wait);

/* The same as lookaside_flush_range for the page of 4 KiB that `address` is in: a dozen instructions and a call of
 * lookaside_platform_cpu shorter. `cpu`: as for lookaside_switch. Where no other CPU must act, which is most often, nothing is
 * prepared in `wait` and it costs nothing. IRQs off; waits if `wait` is NULL. (Linux: flush_tlb_page. FreeBSD: pmap_invalidate_page.) */
LOOKASIDE_MUST_CHECK int lookaside_flush_page(struct lookaside_space *space, uint64_t address,
                                              enum lookaside_kind kind, uint32_t cpu, struct lookaside_wait *wait);

/* As lookaside_flush_range, for kernel addresses: every CPU that is online acts. It may wait although there is a `wait`: where
 * eight of them that this CPU has begun are not waited for yet, or one was dropped, or more than 1024 CPUs are online. So the rule of functions that wait holds for locks.
 * Early in boot, before lookaside_init, flush yourself. (Linux: flush_tlb_kernel_range. FreeBSD: pmap_invalidate_range of kernel_pmap.) */
LOOKASIDE_MUST_CHECK int lookaside_flush_kernel(uint64_t start, uint64_t bytes, unsigned shift,
                                                enum lookaside_kind kind, struct lookaside_wait *wait);

/* Returns 0 when the flush that was begun with `wait` is complete. Once for each flush that returned 1, on any CPU, by
 * any thread; the space is not released before. IRQs on: the wait is as long as the slowest CPU keeps them off, and the
 * thread may be preempted. With IRQs off it answers other CPUs while it waits, so that it ends, too. Waits. (Linux: the
 * wait of on_each_cpu_cond_mask.) */
LOOKASIDE_MUST_CHECK int lookaside_wait(struct lookaside_wait *wait);

/* One more flush of the batch: begun here, complete after lookaside_batch_flush. As lookaside_flush_range otherwise. Until
 * then whoever relies on absent entries of the space flushes everything of it first. IRQs off. (Linux:
 * arch_tlbbatch_add_pending.) */
LOOKASIDE_MUST_CHECK int lookaside_batch_add(struct lookaside_batch *batch, struct lookaside_space *space,
                                             uint64_t start, uint64_t bytes, unsigned shift, enum lookaside_kind kind);

/* Completes the flushes of the batch, which is then empty. IRQs off; waits. (Linux: arch_tlbbatch_flush.) */
LOOKASIDE_MUST_CHECK int lookaside_batch_flush(struct lookaside_batch *batch);

enum lookaside_event {
    LOOKASIDE_MAPPED = 0, /* entries were absent, and are present now: flushed, if there were others before */
    LOOKASIDE_FAULTED = 1 /* this CPU has faulted at a page whose entry, read now, allows the access */
};

/* Entries of a space allow more than before, or were absent, which nobody else must be told of; entries of kernel addresses were
 * absent. (One that was valid and allows more, by set_memory_rw: lookaside_flush_kernel, as nobody handles a spurious fault of the
 * kernel.) Store an entry that makes a table or a page reachable by
 * atomic_store_explicit(..., memory_order_release) or after smp_wmb(), under a lock, too: page walks take no lock, and must
 * not find the entry before what it leads to. LOOKASIDE_MAPPED after the store: this CPU can use
 * them (RISC-V may remember that there was nothing). LOOKASIDE_FAULTED in the handler of page faults: the fault was
 * spurious, and after this call the access succeeds. `space` NULL: kernel addresses, for LOOKASIDE_MAPPED only; this
 * CPU, and each that learns of them from it, can use them when it returns; waits on RISC-V. On AArch64 without
 * FEAT_ETS2 an access may still fault once on another CPU (and, of user addresses, on this one) that has neither taken
 * an exception nor executed an ISB since: the handler, of kernel faults too, looks at the entry and retries if it is
 * valid. IRQs off. (Linux: update_mmu_cache, flush_cache_vmap, flush_tlb_fix_spurious_fault. FreeBSD: pmap_enter,
 * pmap_qenter.) */
LOOKASIDE_MUST_CHECK int lookaside_map(struct lookaside_space *space, uint64_t start, uint64_t bytes, unsigned shift,
                                       enum lookaside_event event);

/* -- The rest ---------------------------------------------------------------------------------------------------- */

/* The handler of the IPI that lookaside_platform_send_ipi sends; and what a loop calls that spins, with IRQs off, for a
 * lock whose holder may be in a function that waits. A pending bit that software clears (SSIP, MSIP) is cleared *before* the
 * call, with a `fence io, rw` between the two (lookaside_riscv_acknowledge), or an IPI is lost. IRQs off.
 * Harmless without a request; refused, harmlessly, before
 * this CPU is online. (Linux: flush_tlb_func.) */
int lookaside_handle_ipi(void);

/* Whether an NMI handler may read user memory of the space; nothing else may be called in one. False if not known.
 * (Linux: nmi_uaccess_okay.) */
bool lookaside_nmi_uaccess_okay(struct lookaside_space *space);

/* Pins the tag of a space for a device that translates by it (SVA), and returns the ASID: with LOOKASIDE_ASID_PAIRS that
 * of user mode, the odd one. With `pinned` false it takes one pin back, once no device uses the tag any more, and returns 0.
 * Pins are counted. AArch64 and RISC-V. IRQs off. (Linux: arm64_mm_context_get, _put.) */
LOOKASIDE_MUST_CHECK int lookaside_pin(struct lookaside_space *space, bool pinned);

enum lookaside_counter {
    LOOKASIDE_COUNT_NO_CPU = 0,    /* flushes for which no CPU had to act at once */
    LOOKASIDE_COUNT_LOCAL = 1,     /* flushes on the CPU alone that asked for them */
    LOOKASIDE_COUNT_RETAGGED = 2,  /* flushes by a new tag */
    LOOKASIDE_COUNT_BROADCAST = 3, /* flushes by hardware broadcast */
    LOOKASIDE_COUNT_IPIS = 4,      /* flushes by IPIs */
    LOOKASIDE_COUNT_TARGETS = 5,   /* CPUs that got a request */
    LOOKASIDE_COUNT_SERVED = 6,    /* requests that were answered */
    LOOKASIDE_COUNT_USEFUL = 7,    /* those of them that needed a flush */
    LOOKASIDE_COUNT_CAUGHT_UP = 8, /* missed flushes that were made up for at a switch */
    LOOKASIDE_COUNT_CHECKED = 9    /* loads of roots that a checked build has checked; 0 in others */
};

LOOKASIDE_STATIC_ASSERT(sizeof(enum lookaside_kind) == 4 && sizeof(enum lookaside_event) == 4 &&
                            sizeof(enum lookaside_counter) == 4,
                        "enumerations of four bytes (no -fshort-enums)");

/* A counter, summed over all CPUs; 0 for one that does not exist. For people: CPUs go on counting. Anywhere. */
uint64_t lookaside_count(enum lookaside_counter counter);

/* One sentence, without a full stop, for a result of a function of this header. Anywhere. */
const char *lookaside_strerror(int error);

/* -- lookaside_init ---------------------------------------------------------------------------------------------- */

/* What the caller was compiled with. */
struct lookaside_layout {
    uint32_t version, arch, max_cpus, boot_bytes;
    uint32_t space_bytes, wait_bytes, batch_bytes, features_bytes;
};

LOOKASIDE_MUST_CHECK int lookaside_init_as(const struct lookaside_boot *boot, const struct lookaside_layout *layout);

LOOKASIDE_MUST_CHECK static inline int lookaside_init(const struct lookaside_boot *boot) {
    const struct lookaside_layout layout = {
        LOOKASIDE_VERSION,
        LOOKASIDE_ARCH,
        LOOKASIDE_MAX_CPUS,
        (uint32_t)sizeof(struct lookaside_boot),
        (uint32_t)sizeof(struct lookaside_space),
        (uint32_t)sizeof(struct lookaside_wait),
        (uint32_t)sizeof(struct lookaside_batch),
        (uint32_t)sizeof(struct lookaside_features),
    };
    return lookaside_init_as(boot, &layout);
}

#ifdef __cplusplus
}
#endif
#endif
