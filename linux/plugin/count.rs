// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A plugin of QEMU that counts between two marks of a program: the instructions of the CPU that the program runs on, and what all CPUs
//! execute of TLB invalidations, barriers and writes of root registers.
//!
//! A mark is an instruction without effect: `movk xzr, #n` on AArch64, `lui zero, n` on RISC-V. One file, without dependencies,
//! compiled by `rustc --crate-type cdylib`. Source of the interface: "QEMU TCG Plugins", section "Plugin API", of QEMU 7.2 and 10.0.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fs::File,
    io::Write as _,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
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
    fn qemu_plugin_tb_get_insn(block: *const c_void, at: usize) -> *mut c_void;
    /// Until version 2 it has one parameter and returns where the bytes are; then it copies them.
    fn qemu_plugin_insn_data(instruction: *const c_void, to: *mut c_void, most: usize) -> usize;
}

/// `qemu_info_t`, as far as it is read.
#[repr(C)]
pub struct Info {
    target: *const c_char,
}

/// What is counted beside instructions, in the order of the output. RISC-V has no broadcasts: there `local` are fences of the
/// hart that the program runs on and `broadcast` those of others, in their firmware too; and `traps` are returns of the
/// others from firmware, where their IPIs and timers arrive. Everything else is of all CPUs.
const EVENTS: [&str; 7] = ["local", "broadcast", "dsb", "isb", "root0", "root1", "traps"];
const LOCAL: usize = 0;
const BROADCAST: usize = 1;
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
static IS_ARM: OnceLock<bool> = OnceLock::new();

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

extern "C" fn on_block_executed(cpu: c_uint, instructions: *mut c_void) {
    INSTRUCTIONS[cpu as usize % CPUS].fetch_add(instructions as u64, Relaxed);
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
    if !*IS_ARM.get().unwrap_or(&true) {
        now[BROADCAST] = sum(LOCAL, &others);
        now[LOCAL] = sum(LOCAL, &|other| other == cpu);
    }
    now
}

extern "C" fn on_event(cpu: c_uint, event: *mut c_void) {
    let event = event as usize;
    let cpu = cpu as usize % CPUS;
    if let Some(count) = COUNTS[cpu].get(event) {
        count.fetch_add(1, Relaxed);
        return;
    }
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

extern "C" fn on_translation(_: u64, block: *mut c_void) {
    // SAFETY: the block is QEMU's, and valid during this call.
    unsafe {
        let length = qemu_plugin_tb_n_insns(block);
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_block_executed, 0, length as *mut c_void);
        for at in 0..length {
            let instruction = qemu_plugin_tb_get_insn(block, at);
            let code = u32::from_le_bytes(bytes(instruction));
            let event = if *IS_ARM.get().unwrap_or(&true) { arm(code) } else { riscv(code) };
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

/// The first four bytes of an instruction; of a compressed one, what lies after it may follow.
///
/// # Safety
///
/// The instruction is QEMU's, in a callback of translation.
unsafe fn bytes(instruction: *const c_void) -> [u8; 4] {
    let mut code = [0u8; 4];
    // SAFETY: the place has room for four bytes; version 1 ignores it.
    let found = unsafe { qemu_plugin_insn_data(instruction, code.as_mut_ptr().cast(), 4) };
    if VERSION < 3 {
        // SAFETY: the bytes of the instruction lie there, in an array that QEMU makes at least four bytes long.
        code = unsafe { *(found as *const [u8; 4]) };
    }
    code
}

/// Called by QEMU, with `out=FILE`.
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
    let _ = IS_ARM.set(target.to_bytes() == b"aarch64");
    for at in 0..arguments as usize {
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(*argument.add(at)) }.to_string_lossy();
        if let Some(path) = text.strip_prefix("out=") {
            let Ok(file) = File::create(path) else { return 1 };
            let _ = OUTPUT.set(Mutex::new(file));
        }
    }
    // SAFETY: the callback is a function, which lasts.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation) };
    0
}
