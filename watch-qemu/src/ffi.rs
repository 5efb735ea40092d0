//! QEMU's interface for plugins, version 4, as far as it is used; and two structures of glib.
//!
//! Source: the documentation "QEMU TCG Plugins", section "Plugin API", of QEMU 10.0.

use core::ffi::{c_char, c_int, c_uint, c_void};

pub(crate) type Id = u64;

/// A translated block, an instruction of it, a register: QEMU's, and only handed back to it.
#[repr(C)]
pub(crate) struct Block {
    _private: [u8; 0],
}

#[repr(C)]
pub(crate) struct Instruction {
    _private: [u8; 0],
}

#[repr(C)]
pub(crate) struct Register {
    _private: [u8; 0],
}

#[repr(C)]
pub(crate) struct Scoreboard {
    _private: [u8; 0],
}

/// `qemu_plugin_u64`: a number for each CPU.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) score: *mut Scoreboard,
    pub(crate) offset: usize,
}

/// `qemu_info_t`.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) target: *const c_char,
    pub(crate) oldest: c_int,
    pub(crate) newest: c_int,
    pub(crate) is_system: bool,
    pub(crate) cpus: c_int,
    pub(crate) most_cpus: c_int,
}

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) handle: *mut Register,
    pub(crate) name: *const c_char,
    pub(crate) feature: *const c_char,
}

/// `GArray` and `GByteArray` have this beginning.
#[repr(C)]
pub(crate) struct Array {
    pub(crate) data: *mut u8,
    pub(crate) length: c_uint,
}

/// Registers are not read in the callback.
pub(crate) const NO_REGISTERS: c_int = 0;
/// Registers are read in the callback.
pub(crate) const READS_REGISTERS: c_int = 1;
/// Loads and stores.
pub(crate) const LOADS_AND_STORES: c_int = 3;
/// An inline operation that adds.
pub(crate) const ADD: c_int = 0;

pub(crate) type OnExecution = extern "C" fn(c_uint, *mut c_void);
pub(crate) type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);

unsafe extern "C" {
    pub(crate) fn qemu_plugin_register_vcpu_init_cb(id: Id, callback: extern "C" fn(Id, c_uint));
    pub(crate) fn qemu_plugin_register_vcpu_tb_trans_cb(
        id: Id,
        callback: extern "C" fn(Id, *mut Block),
    );
    pub(crate) fn qemu_plugin_register_atexit_cb(
        id: Id,
        callback: extern "C" fn(Id, *mut c_void),
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub(crate) fn qemu_plugin_tb_get_insn(block: *const Block, at: usize) -> *mut Instruction;
    pub(crate) fn qemu_plugin_insn_data(
        instruction: *const Instruction,
        to: *mut c_void,
        bytes: usize,
    ) -> usize;
    pub(crate) fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub(crate) fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: OnExecution,
        flags: c_int,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: OnAccess,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub(crate) fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub(crate) fn qemu_plugin_get_registers() -> *mut Array;
    pub(crate) fn qemu_plugin_read_register(handle: *mut Register, to: *mut Array) -> c_int;
    pub(crate) fn qemu_plugin_scoreboard_new(bytes: usize) -> *mut Scoreboard;
    pub(crate) fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut Block,
        operation: c_int,
        entry: Counter,
        operand: u64,
    );
    pub(crate) fn qemu_plugin_u64_sum(entry: Counter) -> u64;
    pub(crate) fn g_byte_array_new() -> *mut Array;
    pub(crate) fn g_byte_array_set_size(array: *mut Array, length: c_uint) -> *mut Array;
}
