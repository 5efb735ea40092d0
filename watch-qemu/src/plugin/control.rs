//! x86-64: what writes of control registers and invalidations do, and where the kernel keeps the task.

use lookaside_hardware::{Invalidation, x86 as rules};
use lookaside_watch::{Memory, Roots, front_end::TaskRegister};

use super::{Plugin, cpu::State};
use crate::{
    special::{Address, Control, Segment},
    x86,
};

/// What the control registers hold.
fn registers(plugin: &Plugin) -> rules::Registers {
    let [cr3, cr4] = [1, 2].map(|at| plugin.handles().roots[at].read());
    rules::Registers { cr3, cr4 }
}

/// The roots that they mean. Paging without long mode (32-bit kernels) is not modelled, and as good as none.
pub(super) fn roots(plugin: &Plugin) -> Roots {
    let [cr0, efer] = [0, 3].map(|at| plugin.handles().roots[at].read());
    if cr0 & rules::PG == 0 || efer & x86::LONG_MODE == 0 {
        return Roots::Off;
    }
    Roots::X86(registers(plugin))
}

/// What a write of a control register removes. An instruction that faults removes nothing.
pub(super) fn written(plugin: &Plugin, control: Control, register: u8) -> Option<Invalidation> {
    let value = plugin.handles().general(register);
    match control {
        Control::Cr0 => rules::mov_to_cr0(plugin.handles().roots[0].read(), value),
        Control::Cr3 => rules::mov_to_cr3(registers(plugin), value).ok()?.removes,
        Control::Cr4 => rules::mov_to_cr4(registers(plugin), value).ok()?.removes,
    }
}

/// What `INVLPG` removes.
pub(super) fn invlpg(plugin: &Plugin, at: &Address) -> Option<Invalidation> {
    rules::invlpg(registers(plugin), linear(plugin, at)).removes
}

/// What `INVPCID` removes. Its descriptor is read by the tables that translate now.
pub(super) fn invpcid(plugin: &Plugin, kind: u8, descriptor: &Address) -> Option<Invalidation> {
    let kind = plugin.handles().general(kind);
    let at = linear(plugin, descriptor);
    let words = [read(plugin, at)?, read(plugin, at.wrapping_add(8))?];
    rules::invpcid(registers(plugin), kind, words).ok()?.removes
}

fn linear(plugin: &Plugin, at: &Address) -> u64 {
    let handles = plugin.handles();
    let segment = |segment| {
        let (fs, gs) = handles.segments.expect("x86-64 has them");
        if segment == Segment::Fs { fs.read() } else { gs.read() }
    };
    at.value(|register| handles.general(register), segment)
}

/// The physical address of a linear one.
fn physical(plugin: &Plugin, address: u64) -> Option<u64> {
    let root = roots(plugin).root(address)?;
    let walk = root.walk(plugin.guest(), address)?;
    Some(walk.frame_of(root.page(address)) << 12 | address & 0xfff)
}

/// The 8 bytes at a linear address; nothing if they are not aligned.
fn read(plugin: &Plugin, address: u64) -> Option<u64> {
    if !address.is_multiple_of(8) {
        return None;
    }
    plugin.guest().word(physical(plugin, address)?)
}

/// Finds out where the kernel keeps the task of this CPU: a variable behind the base of `GS`, which is the kernel's own
/// when it loads tables that map the variable. The address is physical, so it can be read in user mode, too.
pub(super) fn find_task(plugin: &Plugin, state: &mut State) {
    let TaskRegister::Gs(offset) = plugin.options.task else { return };
    let Some((_, gs)) = plugin.handles().segments else { return };
    let base = gs.read();
    // User mode's base is in the lower half, and the kernel's does not change once it is final.
    if base >> 63 == 0 || state.task_base == base {
        return;
    }
    if let Some(at) = physical(plugin, base.wrapping_add(offset)) {
        state.task_base = base;
        state.task_at = Some(at);
    }
}

/// The task that the CPU runs, in whatever mode.
pub(super) fn task(plugin: &Plugin, state: &State) -> Option<u64> {
    plugin.guest().word(state.task_at?).filter(|&task| task != 0)
}
