//! A device that translates through the tables of spaces: a CPU of the machine without a program, whose root registers
//! the others write. It hears what is broadcast, and nothing else: neither invalidations of one CPU nor interrupts.

use lookaside::platform::CpuId;

use super::{
    super::{current, format::Frame, machine::Machine},
    claim,
};

/// Makes a CPU of Arm, which is to have no program, a device that walks from no root yet. While the world is being built.
pub fn device(cpu: CpuId) {
    current::building(|machine| {
        let device = &mut machine.cpus[cpu.index()];
        device.nmis = 0;
        device.registers.root.clear();
        machine.registers_changed(cpu.index());
    });
}

/// The device walks from `root` under `tag` from here on, beside the roots that it walks from already.
#[track_caller]
pub fn device_starts(device: CpuId, root: Frame, tag: u16) {
    claim();
    current::with(|machine| {
        machine.device_roots(device).push(ttbr(root, tag));
        machine.registers_changed(device.index());
    });
}

/// The device walks from `root` under `tag` no more, if it was told to start only once more than to stop. What it has
/// cached stays until an invalidation is broadcast.
///
/// # Panics
///
/// If it was not told to start.
#[track_caller]
pub fn device_stops(device: CpuId, root: Frame, tag: u16) {
    claim();
    current::with(|machine| {
        let roots = machine.device_roots(device);
        let at = roots.iter().position(|&value| value == ttbr(root, tag));
        roots.swap_remove(at.expect("the device walks from the root"));
        roots.sort_unstable();
        machine.registers_changed(device.index());
    });
}

const fn ttbr(root: Frame, tag: u16) -> u64 {
    root.address() | (tag as u64) << 48
}

impl Machine {
    fn device_roots(&mut self, device: CpuId) -> &mut Vec<u64> {
        &mut self.cpus[device.index()].registers.root
    }
}
