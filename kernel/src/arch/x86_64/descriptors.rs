//! Segments, which say little in 64-bit mode, and what belongs to a CPU: its task state segment
//! (SDM vol. 3, 3.4, 5.8, 8.7).
//!
//! All CPUs share one table of segments. The task register names the CPU's own entry: its number.

use core::{
    arch::asm,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use crate::arch::MAX_CPUS;

pub(super) const CODE: u16 = 1 << 3;
pub(super) const DATA: u16 = 2 << 3;
pub(super) const USER_CODE: u16 = 3 << 3 | 3;
pub(super) const USER_DATA: u16 = 4 << 3 | 3;
/// For the way from 16 to 64 bits.
pub(super) const CODE_32: u16 = 5 << 3;
/// The task register of CPU 0; each CPU's entry takes the room of two.
const TASK: u16 = 6 << 3;

/// The number, in a gate, of the stack that each CPU has for what may come at any moment.
pub(super) const EMERGENCY: u8 = 1;

/// The segments. The base of all is 0; those that have a limit have 4 GiB.
pub(super) static GDT: [AtomicU64; 6 + 2 * MAX_CPUS] = {
    let mut gdt = [const { AtomicU64::new(0) }; 6 + 2 * MAX_CPUS];
    gdt[1] = AtomicU64::new(0x0020_9b00_0000_0000);
    gdt[2] = AtomicU64::new(0x00cf_9300_0000_ffff);
    gdt[3] = AtomicU64::new(0x0020_fb00_0000_0000);
    gdt[4] = AtomicU64::new(0x00cf_f300_0000_ffff);
    gdt[5] = AtomicU64::new(0x00cf_9b00_0000_ffff);
    gdt
};

/// A task state segment: of its 26 words, which are not aligned to more, those below are used.
#[repr(C, align(128))]
struct Task([AtomicU32; 26]);

/// The stack of traps from user mode, and of the gates that ask for [`EMERGENCY`]: two words each.
const KERNEL_STACK: usize = 1;
const EMERGENCY_STACK: usize = 9;
/// Where the map of I/O ports begins, in the upper half: at the end, so that there is none.
const PORTS: usize = 25;

static TASKS: [Task; MAX_CPUS] = [const { Task([const { AtomicU32::new(0) }; 26]) }; MAX_CPUS];

/// Room enough for a panic.
#[repr(C, align(16))]
struct Stack([u8; 16 << 10]);

static mut EMERGENCIES: [Stack; MAX_CPUS] = [const { Stack([0; 16 << 10]) }; MAX_CPUS];

impl Task {
    fn set(&self, stack: usize, top: usize) {
        // Relaxed: only this CPU looks, and it is not in user mode now.
        self.0[stack].store(top as u32, Relaxed);
        self.0[stack + 1].store((top as u64 >> 32) as u32, Relaxed);
    }
}

/// Loads the segments, and makes the CPU that executes this number `cpu`.
pub(super) fn load(cpu: usize) {
    let task = &TASKS[cpu];
    let emergency = (&raw const EMERGENCIES).addr() + (cpu + 1) * size_of::<Stack>();
    task.set(EMERGENCY_STACK, emergency);
    task.0[PORTS].store((size_of_val(&task.0) as u32) << 16, Relaxed);
    let base = (&raw const *task).addr() as u64;
    let limit = size_of_val(&task.0) as u64 - 1;
    let available = 0x89 << 40;
    let low = (base & 0xff00_0000) << 32 | (base & 0x00ff_ffff) << 16 | available | limit;
    let selector = TASK + 16 * cpu as u16;
    let entry = usize::from(selector / 8);
    GDT[entry].store(low, Relaxed);
    GDT[entry + 1].store(base >> 32, Relaxed);
    let pointer = Pointer::to(&GDT);
    // SAFETY: the segments in use stay as they are, and the entry above is right.
    unsafe {
        asm!("lgdt [{}]", in(reg) &raw const pointer, options(nostack, preserves_flags));
        asm!("ltr {:x}", in(reg) selector, options(nostack, preserves_flags));
    }
    super::gates::load();
}

/// The number of this CPU: 0 until [`load`].
pub(crate) fn cpu() -> usize {
    let selector: u64;
    // SAFETY: it only reads. It is not pure: a thread may be moved.
    unsafe { asm!("str {}", out(reg) selector, options(nomem, nostack, preserves_flags)) }
    (selector as usize).saturating_sub(usize::from(TASK)) / 16
}

/// Where this CPU's next trap from user mode begins.
pub(crate) fn set_kernel_stack(top: usize) {
    debug_assert!(top.is_multiple_of(16), "the CPU aligns it");
    TASKS[cpu()].set(KERNEL_STACK, top);
}

/// What `lgdt` and `lidt` take.
#[repr(C, packed)]
pub(super) struct Pointer {
    limit: u16,
    base: u64,
}

impl Pointer {
    pub(super) fn to<T>(table: &'static T) -> Self {
        Self { limit: size_of::<T>() as u16 - 1, base: (&raw const *table).addr() as u64 }
    }
}
