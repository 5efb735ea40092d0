/* The instrumentation of Bochs for the TLB sanitizer: loads the library that `LOOKASIDE_WATCH` names, and tells it of
 * accesses to memory and of instructions that change translation. Its other side is `watch-bochs/src/interface.rs`; both name the
 * same version. Without `LOOKASIDE_WATCH` nothing is watched. MIT or Apache-2.0. */

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
#include "cpu/decoder/ia_opcodes.h"
#include "memory/memory-bochs.h"

static const uint32_t VERSION = 1;

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

void lookaside_before_execution(unsigned number, bxInstruction_c *i)
{
  if (stop) {
    lookaside_exit_env();
    /* As a process that SIGTERM ends: nothing of the guest is kept. */
    _exit(0);
  }
  if (!opened) open();
  if (watch == NULL) return;
  finish_store();
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
