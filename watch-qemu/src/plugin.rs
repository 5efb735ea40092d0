//! The plugin: what QEMU calls, and when.

mod control;
mod cpu;
mod end;
mod events;
mod start;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Instant,
};

use lookaside_watch::{
    FrameMarks, Shadow,
    front_end::{Architecture, Counting, Options},
};

use crate::{
    ffi,
    guest::Guest,
    registers::{Handle, Registers},
    special::Special,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// All that is known. QEMU has one plugin of this kind.
static PLUGIN: OnceLock<Plugin> = OnceLock::new();

pub(crate) struct Plugin {
    options: Options,
    target: String,
    guest: OnceLock<Guest>,
    marks: OnceLock<FrameMarks>,
    shadow: OnceLock<Mutex<Shadow>>,
    generation: OnceLock<Arc<AtomicU64>>,
    lanes: Box<[cpu::Lane]>,
    /// What each CPU says of itself: `mhartid`, or `MPIDR_EL1`.
    names: Box<[AtomicU64]>,
    handles: OnceLock<Handles>,
    /// Instructions that were told apart at translation, each once.
    specials: Mutex<HashMap<(u64, Special), &'static Seen>>,
    instructions: ffi::Counter,
    began: Instant,
    /// When the counts were last written down, in milliseconds.
    told: AtomicU64,
    ended: AtomicBool,
}

// SAFETY: the pointer in `instructions` is only handed back to QEMU, which locks; lanes are each used by the thread of
// their CPU alone, as QEMU's callbacks for a CPU run in its thread (`thread=multi`).
unsafe impl Sync for Plugin {}
// SAFETY: as above: nothing in it belongs to a thread.
unsafe impl Send for Plugin {}

/// An instruction that matters, and where it is.
struct Seen {
    pc: u64,
    what: Special,
    /// It is executed in user mode.
    user: bool,
}

/// The registers that are read.
struct Handles {
    general: Vec<Option<Handle>>,
    /// Privilege: RISC-V's virtual register, Arm's `cpsr`, or x86-64's `cs`.
    privilege: Handle,
    roots: Vec<Handle>,
    /// The task in the kernel, and in user mode.
    task: Option<(Handle, Handle)>,
    /// The size of the block that `DC ZVA` zeroes.
    block: Option<Handle>,
    /// x86-64: the bases of `FS` and `GS`.
    segments: Option<(Handle, Handle)>,
    /// By which the CPU that runs is told.
    name: Option<Handle>,
}

impl Handles {
    fn new(registers: &Registers, options: &Options) -> Self {
        let need = |name: &&str| registers.need(name);
        match options.architecture {
            Architecture::Riscv => Self {
                general: crate::riscv::REGISTERS
                    .iter()
                    .map(|name| registers.handle(name))
                    .collect(),
                privilege: registers.need("priv"),
                roots: ["satp"].iter().map(need).collect(),
                task: Some((registers.need("tp"), registers.need("sscratch"))),
                block: None,
                segments: None,
                name: registers.handle("mhartid"),
            },
            Architecture::Arm => Self {
                general: (0..31).map(|at| registers.handle(&format!("x{at}"))).collect(),
                privilege: registers.need("cpsr"),
                roots: ["TTBR0_EL1", "TTBR1_EL1", "TCR_EL1", "SCTLR"].iter().map(need).collect(),
                task: None,
                block: registers.handle("DCZID_EL0"),
                segments: None,
                name: registers.handle("MPIDR_EL1"),
            },
            Architecture::X86 => Self {
                general: crate::x86::REGISTERS.iter().map(|name| registers.handle(name)).collect(),
                privilege: registers.need("cs"),
                roots: ["cr0", "cr3", "cr4", "efer"].iter().map(need).collect(),
                task: None,
                block: None,
                segments: Some((registers.need("fs_base"), registers.need("gs_base"))),
                // QEMU lists no register that has the local APIC's number.
                name: None,
            },
        }
    }

    /// The value of a general register; the zero register is 0.
    fn general(&self, register: u8) -> u64 {
        self.general.get(usize::from(register)).copied().flatten().map_or(0, Handle::read)
    }
}

impl Plugin {
    fn get() -> &'static Self {
        PLUGIN.get().expect("QEMU has installed the plugin before it calls it")
    }

    /// Which CPU executes an instruction. QEMU's number is that of another CPU where it has translated for one
    /// thread, so the CPU's own register is read.
    fn running(&self, told: u32) -> u32 {
        let Some(name) = self.handles().name.map(Handle::read) else { return told };
        // Relaxed: each was written before its CPU ran.
        let known = self.names.iter().position(|own| own.load(Ordering::Relaxed) == name);
        known.map_or(told, |cpu| cpu as u32)
    }

    fn guest(&self) -> &Guest {
        self.guest.get().expect("memory is mapped when the first CPU begins")
    }

    fn marks(&self) -> &FrameMarks {
        self.marks.get().expect("marks are made when the first CPU begins")
    }

    fn handles(&self) -> &Handles {
        self.handles.get().expect("registers are listed when the first CPU begins")
    }

    fn shadow(&self) -> MutexGuard<'_, Shadow> {
        let shadow = self.shadow.get().expect("the shadow is made when the first CPU begins");
        shadow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
