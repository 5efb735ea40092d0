// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A plugin of QEMU that counts between two marks of a program: the instructions of the CPU that the program runs on, and what all CPUs
//! execute of TLB invalidations, barriers and writes of root registers.
//!
//! A mark is an instruction without effect: `movk xzr, #n` on AArch64, `lui zero, n` on RISC-V, `nop n(%rax)` on x86-64. One file,
//! without dependencies, compiled by `rustc --crate-type cdylib`. Source of the interface: "QEMU TCG Plugins", section "Plugin API", of QEMU 7.2 and 10.0.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fs::File,
    io::Write as _,
    ptr,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

/// The version of the interface that QEMU is asked for; it decides what [`bytes`] calls.
const VERSION: c_int = match option_env!("QEMU_PLUGIN_VERSION") {
    Some(text) => (text.as_bytes()[0] - b'0') as c_int,
    None => 1,
};

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is QEMU's")]
pub static qemu_plugin_version: c_int = VERSION;

type OnExecution = extern "C" fn(c_uint, *mut c_void);

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: extern "C" fn(u64, *mut c_void));
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut c_void,
        callback: OnExecution,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        callback: OnExecution,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_vaddr(block: *const c_void) -> u64;
    fn qemu_plugin_insn_size(instruction: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const c_void, at: usize) -> *mut c_void;
    /// Until version 2 it has one parameter and returns where the bytes are; then it copies them.
    fn qemu_plugin_insn_data(instruction: *const c_void, to: *mut c_void, most: usize) -> usize;
}

/// `qemu_info_t`, as far as it is read.
#[repr(C)]
pub struct Info {
    target: *const c_char,
}

/// What is counted beside instructions, in the order of the output. RISC-V and x86-64 have no broadcasts: there `local` are
/// flushes of the CPU that the program runs on and `broadcast` those of others, on RISC-V in their firmware too. `traps` are
/// returns of other harts from firmware, where their IPIs and timers arrive. `root0` are writes of `TTBR0`, `satp` and `CR3`, which
/// without PCIDs is a flush, too, and `root1` those of `TTBR1` and `CR4`. Everything else is of all CPUs.
const EVENTS: [&str; 7] = ["local", "broadcast", "dsb", "isb", "root0", "root1", "traps"];
const LOCAL: usize = 0;
const BROADCAST: usize = 1;
const ROOT0: usize = 4;
const ROOT1: usize = 5;
const TRAPS: usize = 6;
const BEGIN: usize = 100;
const END: usize = 101;

const CPUS: usize = 64;
static INSTRUCTIONS: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];
static COUNTS: [[AtomicU64; EVENTS.len()]; CPUS] =
    [const { [const { AtomicU64::new(0) }; EVENTS.len()] }; CPUS];
/// At the last mark that began something: the counts, and the instructions of that CPU.
static BEGUN: Mutex<([u64; EVENTS.len()], u64)> = Mutex::new(([0; EVENTS.len()], 0));
static OUTPUT: OnceLock<Mutex<File>> = OnceLock::new();

/// With `blocks=FILE`: one that was translated, where it lies, and the instructions of each CPU in it.
struct Block {
    address: u64,
    length: u64,
    executed: [AtomicU64; BLOCK_CPUS],
}

/// The most CPUs of the kernels that are counted.
const BLOCK_CPUS: usize = 8;
/// Every block, and what the CPU of the mark had executed of it when something began.
static BLOCKS: Mutex<Vec<(&Block, u64)>> = Mutex::new(Vec::new());
static BLOCKS_OUTPUT: OnceLock<Mutex<File>> = OnceLock::new();
/// Whether something was begun and is not over; outside, no block is counted.
static IS_BEGUN: AtomicBool = AtomicBool::new(false);
static ARCHITECTURE: OnceLock<Architecture> = OnceLock::new();

#[derive(Clone, Copy, PartialEq)]
enum Architecture {
    Arm,
    Riscv,
    X86,
}

/// Of the emulator, as it says when it loads the plugin.
fn architecture() -> Architecture {
    *ARCHITECTURE.get().unwrap_or(&Architecture::Arm)
}

/// The most bytes of an instruction that are looked at: one of x86-64 has 15 at most.
const BYTES: usize = 15;
/// The first byte of a `nop` with an operand of 32 bits, and its second and third.
const NOP: [u8; 3] = [0x0f, 0x1f, 0x80];

fn arm(code: u32) -> Option<usize> {
    match code {
        _ if code == 0xf280_001f | 0x4c01 << 5 => Some(BEGIN),
        _ if code == 0xf280_001f | 0x4c02 << 5 => Some(END),
        // SYS with op1 0 and CRn 8: TLBI of EL1. CRm 6 and 7 are for this CPU.
        _ if code & 0xffff_f000 == 0xd508_8000 => Some(usize::from(code >> 8 & 0xf < 6)),
        _ if code & 0xffff_f0ff == 0xd503_309f => Some(2),
        _ if code & 0xffff_f0ff == 0xd503_30df => Some(3),
        _ if code & 0xffff_ffe0 == 0xd518_2000 => Some(4),
        _ if code & 0xffff_ffe0 == 0xd518_2020 => Some(5),
        _ => None,
    }
}

fn riscv(code: u32) -> Option<usize> {
    match code {
        _ if code == 0x37 | 0x4c01 << 12 => Some(BEGIN),
        _ if code == 0x37 | 0x4c02 << 12 => Some(END),
        // SFENCE.VMA is for this hart; a FENCE; CSRRW, CSRRS or CSRRC of `satp`, but for those that only read.
        _ if code & 0xfe00_7fff == 0x1200_0073 => Some(0),
        _ if code & 0x0000_707f == 0x0000_000f => Some(2),
        _ if code & 0xfff0_307f == 0x1800_1073 => Some(4),
        // MRET
        0x3020_0073 => Some(TRAPS),
        _ => None,
    }
}

/// A prefix of x86-64 that leaves the instruction what it is: segments, REX, sizes.
fn is_prefix(byte: &u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67)
}

/// Prefixes, then an opcode of two or three bytes, then ModRM: whether its operand is in memory, and a register's number.
fn x86(code: &[u8]) -> Option<usize> {
    if let Some(operand) = code.strip_prefix(&NOP) {
        return match *operand {
            [0x01, 0x4c, 0, 0] => Some(BEGIN),
            [0x02, 0x4c, 0, 0] => Some(END),
            _ => None,
        };
    }
    let is_memory = |modrm: u8| modrm < 0xc0;
    let register = |modrm: u8| modrm >> 3 & 7;
    match code[code.iter().position(|byte| !is_prefix(byte))?..] {
        // INVLPG, INVPCID.
        [0x0f, 0x01, modrm, ..] if is_memory(modrm) && register(modrm) == 7 => Some(LOCAL),
        [0x0f, 0x38, 0x82, ..] => Some(LOCAL),
        // MOV to a control register.
        [0x0f, 0x22, modrm] if register(modrm) == 3 => Some(ROOT0),
        [0x0f, 0x22, modrm] if register(modrm) == 4 => Some(ROOT1),
        _ => None,
    }
}

/// Whether it is a string instruction with a prefix that repeats it: `rep movsb`, `rep stosq` and the like.
fn is_repeated(code: &[u8]) -> bool {
    let Some(at) = code.iter().position(|byte| matches!(byte, 0xf2 | 0xf3)) else { return false };
    let rest = &code[at + 1..];
    let opcode = rest.iter().find(|byte| !is_prefix(byte));
    code[..at].iter().all(is_prefix) && matches!(opcode, Some(0xa4..=0xa7 | 0xaa..=0xaf))
}

extern "C" fn on_block_executed(cpu: c_uint, instructions: *mut c_void) {
    INSTRUCTIONS[cpu as usize % CPUS].fetch_add(instructions as u64, Relaxed);
}

extern "C" fn on_known_block_executed(cpu: c_uint, block: *mut c_void) {
    // SAFETY: it was leaked for this.
    let block = unsafe { &*block.cast::<Block>() };
    on_block_executed(cpu, block.length as *mut c_void);
    if IS_BEGUN.load(Relaxed) {
        block.executed[cpu as usize % BLOCK_CPUS].fetch_add(block.length, Relaxed);
    }
}

/// A mark of this CPU: what it executed from now on, or, of each block, has executed since then.
fn mark_blocks(cpu: usize, begins: bool) {
    let Some(Ok(mut output)) = BLOCKS_OUTPUT.get().map(Mutex::lock) else { return };
    let Ok(mut blocks) = BLOCKS.lock() else { return };
    IS_BEGUN.store(begins, Relaxed);
    for (block, begun) in blocks.iter_mut() {
        let now = block.executed[cpu % BLOCK_CPUS].load(Relaxed);
        if begins {
            *begun = now;
        } else if now > *begun {
            let _ = writeln!(output, "{:x} {}", block.address, now - *begun);
        }
    }
    if !begins {
        let _ = writeln!(output, "end");
    }
}

/// The counts so far, as the program on this CPU sees them.
fn counted_by(cpu: usize) -> [u64; EVENTS.len()] {
    let sum = |event: usize, is_counted: &dyn Fn(usize) -> bool| {
        let counted = COUNTS.iter().enumerate().filter(|(other, _)| is_counted(*other));
        counted.map(|(_, counts)| counts[event].load(Relaxed)).sum()
    };
    let others = |other: usize| other != cpu;
    let mut now = core::array::from_fn(|event| sum(event, &|_| true));
    now[TRAPS] = sum(TRAPS, &others);
    let flushes: &[usize] = match architecture() {
        Architecture::Arm => return now,
        Architecture::Riscv => &[LOCAL],
        Architecture::X86 => &[LOCAL, ROOT0],
    };
    let flushed = |is_counted: &dyn Fn(usize) -> bool| {
        flushes.iter().map(|event| sum(*event, is_counted)).sum()
    };
    now[BROADCAST] = flushed(&others);
    now[LOCAL] = flushed(&|other| other == cpu);
    now
}

extern "C" fn on_event(cpu: c_uint, event: *mut c_void) {
    let event = event as usize;
    let cpu = cpu as usize % CPUS;
    if let Some(count) = COUNTS[cpu].get(event) {
        count.fetch_add(1, Relaxed);
        return;
    }
    mark_blocks(cpu, event == BEGIN);
    let now = counted_by(cpu);
    let instructions = INSTRUCTIONS[cpu].load(Relaxed);
    let Ok(mut begun) = BEGUN.lock() else { return };
    if event == BEGIN {
        *begun = (now, instructions);
        return;
    }
    let Some(Ok(mut output)) = OUTPUT.get().map(Mutex::lock) else { return };
    let mut line = format!("instructions {}", instructions - begun.1);
    for (at, name) in EVENTS.iter().enumerate() {
        line += &format!(" {name} {}", now[at] - begun.0[at]);
    }
    let _ = writeln!(output, "{line}");
}

/// A block that lasts: QEMU may execute one as long as it runs.
fn known(address: u64, length: usize) -> *mut c_void {
    let executed = core::array::from_fn(|_| AtomicU64::new(0));
    let block = Box::leak(Box::new(Block { address, length: length as u64, executed }));
    if let Ok(mut blocks) = BLOCKS.lock() {
        blocks.push((block, 0));
    }
    ptr::from_ref(block).cast_mut().cast()
}

extern "C" fn on_translation(_: u64, block: *mut c_void) {
    // SAFETY: the block is QEMU's, and valid during this call.
    unsafe {
        let mut length = qemu_plugin_tb_n_insns(block);
        // QEMU leaves a block after each round of a repeated instruction and comes back to it as a block of its own. It is one
        // instruction: the block in which it was first met has counted it.
        if length == 1 && architecture() == Architecture::X86 {
            let (bytes, size) = bytes(qemu_plugin_tb_get_insn(block, 0));
            length -= usize::from(is_repeated(&bytes[..size]));
        }
        let (callback, data): (OnExecution, _) = match BLOCKS_OUTPUT.get() {
            None => (on_block_executed, length as *mut c_void),
            Some(_) => (on_known_block_executed, known(qemu_plugin_tb_vaddr(block), length)),
        };
        qemu_plugin_register_vcpu_tb_exec_cb(block, callback, 0, data);
        for at in 0..qemu_plugin_tb_n_insns(block) {
            let instruction = qemu_plugin_tb_get_insn(block, at);
            let (bytes, length) = bytes(instruction);
            let code = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let event = match architecture() {
                Architecture::Arm => arm(code),
                Architecture::Riscv => riscv(code),
                Architecture::X86 => x86(&bytes[..length]),
            };
            if let Some(event) = event {
                qemu_plugin_register_vcpu_insn_exec_cb(
                    instruction,
                    on_event,
                    0,
                    event as *mut c_void,
                );
            }
        }
    }
}

/// The bytes of an instruction, and how many they are; a compressed one of RISC-V has two, and zeros follow.
///
/// # Safety
///
/// The instruction is QEMU's, in a callback of translation.
unsafe fn bytes(instruction: *const c_void) -> ([u8; BYTES], usize) {
    let mut code = [0u8; BYTES];
    // SAFETY: it is an instruction.
    let length = unsafe { qemu_plugin_insn_size(instruction) }.min(BYTES);
    // SAFETY: the place has room for them; version 1 ignores it.
    let found = unsafe { qemu_plugin_insn_data(instruction, code.as_mut_ptr().cast(), length) };
    if VERSION < 3 {
        // SAFETY: the bytes of the instruction lie there.
        unsafe { ptr::copy_nonoverlapping(found as *const u8, code.as_mut_ptr(), length) };
    }
    (code, length)
}

/// Called by QEMU, with `out=FILE`, and `blocks=FILE` if instructions are wanted by block.
///
/// # Safety
///
/// QEMU's, of this interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const Info,
    arguments: c_int,
    argument: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes them.
    let target = unsafe { CStr::from_ptr((*info).target) };
    let _ = ARCHITECTURE.set(match target.to_bytes() {
        b"aarch64" => Architecture::Arm,
        b"riscv64" => Architecture::Riscv,
        b"x86_64" => Architecture::X86,
        _ => return 1,
    });
    for at in 0..arguments as usize {
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(*argument.add(at)) }.to_string_lossy();
        let outputs = [("out=", &OUTPUT), ("blocks=", &BLOCKS_OUTPUT)];
        for (path, output) in outputs.map(|(name, output)| (text.strip_prefix(name), output)) {
            let Some(path) = path else { continue };
            let Ok(file) = File::create(path) else { return 1 };
            let _ = output.set(Mutex::new(file));
        }
    }
    // SAFETY: the callback is a function, which lasts.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation) };
    0
}
