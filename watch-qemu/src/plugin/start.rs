//! Installation, new CPUs, and translation: which instructions are looked at.

use core::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::{
    collections::HashMap,
    sync::{Mutex, OnceLock, PoisonError},
    time::Instant,
};

use lookaside_watch::{
    FrameMarks,
    front_end::{Architecture, Options},
};

use super::{Handles, PLUGIN, Plugin, Seen, end, events};
use crate::{arm, ffi, guest::Guest, registers::Registers, riscv, special::Special, x86};

/// The version of the interface that this library is written for.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "QEMU looks for it by its name")]
pub static qemu_plugin_version: c_int = 4;

/// QEMU installs the plugin.
#[unsafe(no_mangle)]
extern "C" fn qemu_plugin_install(
    id: ffi::Id,
    info: *const ffi::Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU gives a structure and an array that live during this call, with strings of C in them.
    let (target, cpus, words) = unsafe {
        let info = &*info;
        let text = |text: *const c_char| CStr::from_ptr(text).to_string_lossy().into_owned();
        let words: Vec<String> = (0..count as usize).map(|at| text(*arguments.add(at))).collect();
        (text(info.target), info.most_cpus.max(info.cpus).max(1), words)
    };
    let options = match Options::parse(&target, words.iter().map(String::as_str)) {
        Ok(options) if options.memory.is_some() => options,
        Ok(_) => {
            eprintln!("lookaside: the argument `memory` is missing");
            return 1;
        }
        Err(error) => {
            eprintln!("lookaside: {error}");
            return 1;
        }
    };
    // SAFETY: QEMU may be asked for a scoreboard while it installs a plugin.
    let score = unsafe { ffi::qemu_plugin_scoreboard_new(size_of::<u64>()) };
    let plugin = Plugin {
        options,
        target,
        guest: OnceLock::new(),
        marks: OnceLock::new(),
        shadow: OnceLock::new(),
        generation: OnceLock::new(),
        lanes: (0..cpus).map(|_| super::cpu::Lane::default()).collect(),
        names: (0..cpus).map(|_| AtomicU64::new(u64::MAX)).collect(),
        handles: OnceLock::new(),
        specials: Mutex::new(HashMap::new()),
        instructions: ffi::Counter { score, offset: 0 },
        began: Instant::now(),
        told: AtomicU64::new(0),
        ended: AtomicBool::new(false),
    };
    if PLUGIN.set(plugin).is_err() {
        eprintln!("lookaside: the plugin is already loaded");
        return 1;
    }
    // SAFETY: the functions live as long as QEMU, which never unloads a plugin by itself.
    unsafe {
        ffi::qemu_plugin_register_vcpu_init_cb(id, new_cpu);
        ffi::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        ffi::qemu_plugin_register_atexit_cb(id, end::at_exit, ptr::null_mut());
    }
    0
}

extern "C" fn new_cpu(_: ffi::Id, cpu: c_uint) {
    let plugin = Plugin::get();
    let handles = plugin.handles.get_or_init(|| Handles::new(&Registers::list(), &plugin.options));
    if let (Some(own), Some(name)) = (plugin.names.get(cpu as usize), handles.name) {
        // Relaxed: this is the CPU's own thread.
        own.store(name.read(), Ordering::Relaxed);
    }
    let guest = plugin.guest.get_or_init(|| {
        let memory = plugin.options.memory.as_deref().expect("it was asked for at installation");
        Guest::open(memory, plugin.options.base).unwrap_or_else(|error| {
            eprintln!("lookaside: the guest's memory cannot be mapped: {error}");
            std::process::exit(2)
        })
    });
    let marks = plugin.marks.get_or_init(|| FrameMarks::new(guest.base(), guest.bytes()));
    let cpus = plugin.lanes.len() as u32;
    plugin.shadow.get_or_init(|| Mutex::new(plugin.options.shadow(cpus, marks)));
    plugin.generation.get_or_init(|| plugin.shadow().generation());
}

/// The privilege of the CPU that translates: a block is translated for one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Privilege {
    User,
    Kernel,
    /// Firmware, by physical addresses.
    Firmware,
}

fn privilege(plugin: &Plugin) -> Privilege {
    let value = plugin.handles().privilege.read();
    match plugin.options.architecture {
        Architecture::Riscv => match value & 3 {
            0 => Privilege::User,
            3 => Privilege::Firmware,
            _ => Privilege::Kernel,
        },
        // CurrentEL, in PSTATE.
        Architecture::Arm => match value >> 2 & 3 {
            0 => Privilege::User,
            1 => Privilege::Kernel,
            _ => Privilege::Firmware,
        },
        // Before long mode, addresses are as good as physical: firmware, and a kernel's first instructions.
        Architecture::X86 if plugin.handles().roots[3].read() & x86::LONG_MODE == 0 => {
            Privilege::Firmware
        }
        Architecture::X86 if x86::is_user(value) => Privilege::User,
        Architecture::X86 => Privilege::Kernel,
    }
}

extern "C" fn translated(_: ffi::Id, block: *mut ffi::Block) {
    let plugin = Plugin::get();
    let privilege = privilege(plugin);
    let user = privilege == Privilege::User;
    // SAFETY: QEMU gives a block that lives during this call, and instructions that live as long as it.
    let instructions = unsafe {
        let count = ffi::qemu_plugin_tb_n_insns(block);
        ffi::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
            block,
            ffi::ADD,
            plugin.instructions,
            count as u64,
        );
        (0..count).map(move |at| ffi::qemu_plugin_tb_get_insn(block, at))
    };
    for instruction in instructions {
        let mut bytes = [0_u8; x86::LONGEST];
        // SAFETY: the instruction lives, and there is room for as many bytes as are asked for.
        let (pc, length) = unsafe {
            let length =
                ffi::qemu_plugin_insn_data(instruction, bytes.as_mut_ptr().cast(), bytes.len());
            (ffi::qemu_plugin_insn_vaddr(instruction), length)
        };
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let what = match plugin.options.architecture {
            Architecture::Riscv => (length == 4).then(|| riscv::decode(word)).flatten(),
            Architecture::Arm => arm::decode(word),
            Architecture::X86 => x86::decode(&bytes[..length.min(x86::LONGEST)], pc),
        };
        if let Some(what) = what
            && !(privilege == Privilege::Firmware && matters_to_addresses(what))
        {
            let seen = intern(plugin, pc, what, user);
            // SAFETY: the instruction lives, and what is seen of it lives for ever.
            unsafe {
                ffi::qemu_plugin_register_vcpu_insn_exec_cb(
                    instruction,
                    events::executed,
                    ffi::READS_REGISTERS,
                    ptr::from_ref(seen).cast_mut().cast(),
                );
            }
        }
        if privilege != Privilege::Firmware {
            let data = (pc << 1 | u64::from(user)) as *mut c_void;
            // SAFETY: the instruction lives. The data is a number.
            unsafe {
                ffi::qemu_plugin_register_vcpu_mem_cb(
                    instruction,
                    events::accessed,
                    ffi::NO_REGISTERS,
                    ffi::LOADS_AND_STORES,
                    data,
                );
            }
        }
    }
}

/// Whether it is about virtual addresses, which firmware has none of.
fn matters_to_addresses(what: Special) -> bool {
    matches!(what, Special::ZeroesBlock { .. })
}

/// What is known of an instruction, once for all its translations.
fn intern(plugin: &Plugin, pc: u64, what: Special, user: bool) -> &'static Seen {
    let mut specials = plugin.specials.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (pc << 1 | u64::from(user), what);
    specials.entry(key).or_insert_with(|| Box::leak(Box::new(Seen { pc, what, user })))
}
