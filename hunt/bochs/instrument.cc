/* The instrumentation of Bochs for the TLB sanitizer: loads the library that `LOOKASIDE_WATCH` names, and tells it of
 * accesses to memory and of instructions that change translation. Its other side is `watch-bochs/src/interface.rs`; both name the
 * same version. Without `LOOKASIDE_WATCH` nothing is watched.
 *
 * With `LOOKASIDE_INVLPGB` CPUs have AMD's INVLPGB and TLBSYNC, which Bochs has not, in 64-bit mode and for no guest of a guest. The
 * number is what CPUID says of it: how many pages beyond the first an instruction may name. MIT or Apache-2.0. */

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Addresses of operands are worked out by inline functions of Bochs that it has under this name. */
#define NEED_CPU_REG_SHORTCUTS 1
#include "bochs.h"
#include "cpu/cpu.h"
#include "cpu/cpuid.h"
#include "cpu/decoder/ia_opcodes.h"
#include "memory/memory-bochs.h"

static const uint32_t VERSION = 2;

struct Machine {
  uint32_t version, cpus;
  uint64_t memory_bytes;
  const char *options;
  bool (*word)(uint64_t address, uint64_t *value);
};

struct Now {
  uint64_t pc, cr0, cr3, cr4, efer, gs_base;
  uint32_t number, user;
};

struct Watch;

static struct {
  Watch *(*open)(const Machine *);
  void (*access)(Watch *, const Now *, uint64_t linear);
  void (*store)(Watch *, const Now *, uint64_t linear, uint64_t physical, uint64_t bytes);
  void (*control)(Watch *, const Now *, uint32_t control, uint64_t value);
  void (*invlpg)(Watch *, const Now *, uint64_t linear);
  void (*invpcid)(Watch *, const Now *, uint64_t kind, uint64_t descriptor);
  void (*invlpgb)(Watch *, const Now *, uint64_t rax, uint32_t ecx, uint32_t edx);
  void (*tlbsync)(Watch *, const Now *);
  void (*tell)(Watch *, uint64_t instructions);
  void (*close)(Watch *, uint64_t instructions);
} calls;

static Watch *watch;
static bool opened;
static volatile sig_atomic_t stop;

static void terminate(int) { stop = 1; }

static bool word(uint64_t address, uint64_t *value)
{
  /* Nothing where a device answers instead of memory. */
  Bit8u *at = BX_MEM(0)->getHostMemAddr(BX_CPU(0), address, BX_READ);
  if (at == NULL) return false;
  *value = ReadHostQWordFromLittleEndian((Bit64u *) at);
  return true;
}

static uint64_t instructions(void)
{
  uint64_t sum = 0;
  for (unsigned cpu = 0; cpu < BX_SMP_PROCESSORS; cpu++) sum += BX_CPU(cpu)->get_icount();
  return sum;
}

template <typename Function> static void find(void *library, Function &function, const char *name)
{
  function = (Function) dlsym(library, name);
  if (function == NULL) {
    fprintf(stderr, "lookaside: %s\n", dlerror());
    exit(2);
  }
}

static void open(void)
{
  opened = true;
  const char *file = getenv("LOOKASIDE_WATCH"), *options = getenv("LOOKASIDE_OPTIONS");
  if (file == NULL) return;
  void *library = dlopen(file, RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "lookaside: %s\n", dlerror());
    exit(2);
  }
  find(library, calls.open, "lookaside_bochs_open");
  find(library, calls.access, "lookaside_bochs_access");
  find(library, calls.store, "lookaside_bochs_store");
  find(library, calls.control, "lookaside_bochs_control");
  find(library, calls.invlpg, "lookaside_bochs_invlpg");
  find(library, calls.invpcid, "lookaside_bochs_invpcid");
  find(library, calls.invlpgb, "lookaside_bochs_invlpgb");
  find(library, calls.tlbsync, "lookaside_bochs_tlbsync");
  find(library, calls.tell, "lookaside_bochs_tell");
  find(library, calls.close, "lookaside_bochs_close");
  Machine machine = {VERSION, BX_SMP_PROCESSORS, BX_MEM(0)->get_memory_len(), options ? options : "", word};
  watch = calls.open(&machine);
  if (watch == NULL) exit(2);
  signal(SIGTERM, terminate);
}

/* A store that Bochs has announced. For an instruction that reads and writes it does so before it writes; by the next
 * access or instruction it has. */
static struct {
  bool is_there;
  Now by;
  uint64_t linear, physical, bytes;
} announced;

static void finish_store(void)
{
  if (!announced.is_there) return;
  announced.is_there = false;
  calls.store(watch, &announced.by, announced.linear, announced.physical, announced.bytes);
}

void lookaside_exit_env(void)
{
  if (watch == NULL) return;
  finish_store();
  Watch *whole = watch;
  watch = NULL;
  calls.close(whole, instructions());
}

static void now(unsigned number, Now *now)
{
  BX_CPU_C *cpu = BX_CPU(number);
  now->pc = cpu->prev_rip;
  now->cr0 = cpu->cr0.get32();
  now->cr3 = cpu->cr3;
  now->cr4 = cpu->cr4.get32();
  now->efer = cpu->efer.get32();
  now->gs_base = cpu->sregs[BX_SEG_REG_GS].cache.u.segment.base;
  now->number = number;
  now->user = cpu->sregs[BX_SEG_REG_CS].selector.rpl == 3;
}

static uint64_t operand(BX_CPU_C *cpu, bxInstruction_c *i)
{
  bx_address offset = i->as64L() ? cpu->BxResolve64(i) : cpu->BxResolve32(i);
  return cpu->get_laddr(i->seg(), offset);
}

/* What is executed here and not by Bochs, which executes a NOP for it. Their numbers are behind those of Bochs. */
enum { INVLPGB = BX_IA_LAST, TLBSYNC, CPUID };

static const char *invlpgb_text = getenv("LOOKASIDE_INVLPGB");
static const uint32_t invlpgb_more = invlpgb_text == NULL ? 0 : strtoul(invlpgb_text, NULL, 0) & 0xffff;

/* An instruction was decoded. */
void lookaside_opcode(bxInstruction_c *i, const Bit8u *bytes, unsigned length, bool is64)
{
  if (invlpgb_text == NULL || !is64) return;
  unsigned ours;
  if (i->getIaOpcode() == BX_IA_CPUID)
    ours = CPUID;
  else if (i->getIaOpcode() == BX_IA_ERROR && length == 3 && bytes[0] == 0x0f && bytes[1] == 0x01 && bytes[2] >= 0xfe)
    ours = bytes[2] == 0xfe ? INVLPGB : TLBSYNC;
  else
    return;
  i->setIaOpcode(ours);
  i->execute1 = &BX_CPU_C::NOP;
}

static void cpuid(BX_CPU_C *cpu)
{
  static const uint32_t LEAF = 0x80000008, INVLPGB_IS_THERE = 1 << 3;
  uint32_t function = cpu->get_reg32(BX_32BIT_REG_EAX);
  cpuid_function_t leaf;
  cpu->cpuid->get_cpuid_leaf(function, cpu->get_reg32(BX_32BIT_REG_ECX), &leaf);
  if (function == LEAF) {
    leaf.ebx |= INVLPGB_IS_THERE;
    leaf.edx = (leaf.edx & 0xffff0000) | invlpgb_more;
  }
  cpu->set_reg64(BX_64BIT_REG_RAX, leaf.eax);
  cpu->set_reg64(BX_64BIT_REG_RBX, leaf.ebx);
  cpu->set_reg64(BX_64BIT_REG_RCX, leaf.ecx);
  cpu->set_reg64(BX_64BIT_REG_RDX, leaf.edx);
}

/* Removes from the TLBs of all CPUs at once; on hardware that is over when TLBSYNC is. Bochs holds entries of the PCID that a CPU runs alone,
 * and here they go whatever PCID is named, which is more than is asked. APM vol. 3, INVLPGB. */
static void invlpgb(uint64_t rax, uint32_t ecx)
{
  enum { BY_ADDRESS = 1 << 0, GLOBALS = 1 << 3 };
  uint64_t stride = ecx >> 31 ? 2 << 20 : 4 << 10, more = ecx & 0xffff;
  for (unsigned number = 0; number < BX_SMP_PROCESSORS; number++) {
    BX_CPU_C *cpu = BX_CPU(number);
    if (rax & BY_ADDRESS) {
      for (uint64_t at = 0; at <= more; at++) cpu->TLB_invlpg((rax & ~(uint64_t) 0xfff) + at * stride);
    } else if (rax & GLOBALS) {
      cpu->TLB_flush();
    } else {
      cpu->TLB_flushNonGlobal();
    }
  }
}

/* Why the manual has INVLPGB fault. */
static bool invlpgb_faults(BX_CPU_C *cpu, uint64_t rax, uint32_t ecx, uint32_t edx)
{
  enum { BY_ADDRESS = 1 << 0, BY_PCID = 1 << 1, RESERVED = 0xfc0 };
  return (rax & RESERVED) || (ecx & 0x7fff0000) || edx >> 28 || (ecx & 0xffff) > invlpgb_more ||
         ((rax & BY_PCID) && !cpu->cr4.get_PCIDE()) ||
         ((rax & BY_ADDRESS) && !cpu->IsCanonical(rax & ~(uint64_t) 0xfff));
}

static void execute(unsigned number, unsigned ours)
{
  BX_CPU_C *cpu = BX_CPU(number);
  if (ours == CPUID) {
    cpuid(cpu);
    return;
  }
  uint64_t rax = cpu->get_reg64(BX_64BIT_REG_RAX);
  uint32_t ecx = cpu->get_reg32(BX_32BIT_REG_ECX), edx = cpu->get_reg32(BX_32BIT_REG_EDX);
  bool is_user = cpu->sregs[BX_SEG_REG_CS].selector.rpl != 0;
  if (is_user || (ours == INVLPGB && invlpgb_faults(cpu, rax, ecx, edx))) cpu->exception(BX_GP_EXCEPTION, 0);
  Now at;
  now(number, &at);
  if (ours == TLBSYNC) {
    if (watch != NULL) calls.tlbsync(watch, &at);
    return;
  }
  /* The entries of a guest's ASID: there is none. */
  if ((rax & 1 << 2) && (edx & 0xffff)) return;
  if (watch != NULL) calls.invlpgb(watch, &at, rax, ecx, edx);
  invlpgb(rax, ecx);
}

void lookaside_before_execution(unsigned number, bxInstruction_c *i)
{
  if (stop) {
    lookaside_exit_env();
    /* As a process that SIGTERM ends: nothing of the guest is kept. */
    _exit(0);
  }
  if (!opened) open();
  if (watch != NULL) finish_store();
  if (i->getIaOpcode() >= BX_IA_LAST) execute(number, i->getIaOpcode());
  if (watch == NULL) return;
  BX_CPU_C *cpu = BX_CPU(number);
  Now at;
  switch (i->getIaOpcode()) {
  case BX_IA_MOV_CR0Rd:
  case BX_IA_MOV_CR3Rd:
  case BX_IA_MOV_CR4Rd:
    now(number, &at);
    calls.control(watch, &at, i->dst(), cpu->get_reg32(i->src()));
    break;
  case BX_IA_MOV_CR0Rq:
  case BX_IA_MOV_CR3Rq:
  case BX_IA_MOV_CR4Rq:
    now(number, &at);
    calls.control(watch, &at, i->dst(), cpu->get_reg64(i->src()));
    break;
  case BX_IA_INVLPG:
    now(number, &at);
    calls.invlpg(watch, &at, operand(cpu, i));
    break;
  case BX_IA_INVPCID:
    now(number, &at);
    calls.invpcid(watch, &at, i->os64L() ? cpu->get_reg64(i->dst()) : cpu->get_reg32(i->dst()), operand(cpu, i));
    break;
  default: {
    /* Counts are told now and then, by a clock that costs nothing. */
    static unsigned turns;
    if ((++turns & 0xfffff) == 0) calls.tell(watch, instructions());
  }
  }
}

void lookaside_lin_access(unsigned number, bx_address lin, bx_address phy, unsigned len, unsigned rw)
{
  if (watch == NULL || rw == BX_EXECUTE) return;
  finish_store();
  Now at;
  now(number, &at);
  calls.access(watch, &at, lin);
  if ((rw & 1) == 0) return;
  announced.is_there = true;
  announced.by = at;
  announced.linear = lin;
  announced.physical = phy;
  announced.bytes = len;
}
