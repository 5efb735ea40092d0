/* The instrumentation of Bochs for the TLB sanitizer: which of its hooks are used. The others do nothing.
 * Bochs includes this file where its own `instrument/stubs/instrument.h` would be. MIT or Apache-2.0. */

#if BX_INSTRUMENTATION

class bxInstruction_c;

void lookaside_opcode(bxInstruction_c *i, const Bit8u *bytes, unsigned length, bool is64);
void lookaside_before_execution(unsigned cpu, bxInstruction_c *i);
void lookaside_lin_access(unsigned cpu, bx_address lin, bx_address phy, unsigned len, unsigned rw);
void lookaside_exit_env(void);

#define BX_INSTR_OPCODE(cpu_id, i, opcode, len, is32, is64) lookaside_opcode(i, opcode, len, is64)
#define BX_INSTR_BEFORE_EXECUTION(cpu_id, i) lookaside_before_execution(cpu_id, i)
#define BX_INSTR_LIN_ACCESS(cpu_id, lin, phy, len, memtype, rw) lookaside_lin_access(cpu_id, lin, phy, len, rw)
#define BX_INSTR_EXIT_ENV() lookaside_exit_env()

#else

#define BX_INSTR_OPCODE(cpu_id, i, opcode, len, is32, is64)
#define BX_INSTR_BEFORE_EXECUTION(cpu_id, i)
#define BX_INSTR_LIN_ACCESS(cpu_id, lin, phy, len, memtype, rw)
#define BX_INSTR_EXIT_ENV()

#endif

#define BX_INSTR_INIT_ENV()
#define BX_INSTR_INITIALIZE(cpu_id)
#define BX_INSTR_EXIT(cpu_id)
#define BX_INSTR_RESET(cpu_id, type)
#define BX_INSTR_HLT(cpu_id)
#define BX_INSTR_MWAIT(cpu_id, addr, len, flags)
#define BX_INSTR_DEBUG_PROMPT()
#define BX_INSTR_DEBUG_CMD(cmd)
#define BX_INSTR_CNEAR_BRANCH_TAKEN(cpu_id, branch_eip, new_eip)
#define BX_INSTR_CNEAR_BRANCH_NOT_TAKEN(cpu_id, branch_eip)
#define BX_INSTR_UCNEAR_BRANCH(cpu_id, what, branch_eip, new_eip)
#define BX_INSTR_FAR_BRANCH(cpu_id, what, prev_cs, prev_eip, new_cs, new_eip)
#define BX_INSTR_EXCEPTION(cpu_id, vector, error_code)
#define BX_INSTR_INTERRUPT(cpu_id, vector)
#define BX_INSTR_HWINTERRUPT(cpu_id, vector, cs, eip)
#define BX_INSTR_CLFLUSH(cpu_id, laddr, paddr)
#define BX_INSTR_CACHE_CNTRL(cpu_id, what)
#define BX_INSTR_TLB_CNTRL(cpu_id, what, new_cr3)
#define BX_INSTR_PREFETCH_HINT(cpu_id, what, seg, offset)
#define BX_INSTR_AFTER_EXECUTION(cpu_id, i)
#define BX_INSTR_REPEAT_ITERATION(cpu_id, i)
#define BX_INSTR_PHY_ACCESS(cpu_id, phy, len, memtype, rw)
#define BX_INSTR_INP(addr, len)
#define BX_INSTR_INP2(addr, len, val)
#define BX_INSTR_OUTP(addr, len, val)
#define BX_INSTR_WRMSR(cpu_id, addr, value)
#define BX_INSTR_VMEXIT(cpu_id, reason, qualification)
