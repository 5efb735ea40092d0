//! What CPUs do: accesses, and instructions that matter.

use core::{
    ffi::{c_uint, c_void},
    sync::atomic::Ordering,
};

use lookaside_hardware::{arm as arm_rules, riscv as riscv_rules};
use lookaside_watch::{
    Access, Fence, Mode, Reach, Roots, Shadow,
    front_end::{Architecture, TaskRegister},
};

use super::{Plugin, Seen, control, cpu::State, end};
use crate::{ffi, special::Special};

const PAGE: u64 = 4096;

/// A load or store has happened. Nearly all end here, in the lane of their CPU.
pub(super) extern "C" fn accessed(cpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    let plugin = Plugin::get();
    // SAFETY: this is the thread of the CPU, in one callback.
    let state = unsafe { plugin.lanes[cpu as usize].state() };
    let data = data as u64;
    let user = data & 1 != 0;
    // SAFETY: the information is of this callback.
    let (store, bytes) = unsafe {
        (ffi::qemu_plugin_mem_is_store(info), 1 << ffi::qemu_plugin_mem_size_shift(info))
    };
    if state.physical && !state.attention {
        if store && plugin.marks().matters(address / PAGE) {
            let pc = (data as i64 >> 1) as u64;
            let by = (cpu, pc, task_in_kernel(plugin, state));
            plugin.shadow().store(plugin.guest(), by, address, address, bytes);
        }
        return;
    }
    let generation = generation(plugin);
    if !state.attention
        && state.user == user
        && address % PAGE + bytes <= PAGE
        && let Some(frame) = state.lane.get(generation, address / PAGE)
        && !(store && plugin.marks().matters(frame))
    {
        return;
    }
    // The lowest bit says the mode; bit 63 was lost, and is a copy of bit 62.
    let pc = (data as i64 >> 1) as u64;
    look(plugin, state, Access { cpu, pc, address }, user, store.then_some(bytes), bytes);
}

fn generation(plugin: &Plugin) -> u64 {
    // Acquire: what made the number change is seen by those who look again.
    plugin.generation.get().map_or(0, |generation| generation.load(Ordering::Acquire))
}

/// Tells the shadow of an access, of what came before, and of a store.
fn look(
    plugin: &Plugin,
    state: &mut State,
    access: Access,
    user: bool,
    stored: Option<u64>,
    bytes: u64,
) {
    let mut shadow = plugin.shadow();
    catch_up(plugin, state, &mut shadow, access.cpu);
    if state.user != user {
        state.user = user;
        state.lane.clear();
        let mode = if user { Mode::User } else { Mode::Kernel };
        let task = if user { task_in_user_mode(plugin, state) } else { None };
        shadow.enter_mode(access.cpu, access.pc, mode, task);
    }
    one_page(plugin, state, &mut shadow, access, stored.map(|bytes| bytes.min(PAGE)));
    // The rest of an access that crosses into the next page.
    if access.address % PAGE + bytes > PAGE {
        let next = (access.address / PAGE + 1) * PAGE;
        let rest = stored.map(|_| access.address + bytes - next);
        one_page(plugin, state, &mut shadow, Access { address: next, ..access }, rest);
    }
    drop(shadow);
    state.events = state.events.wrapping_add(1);
    if state.events.is_multiple_of(1024) {
        end::tell(plugin);
    }
}

/// Looks at the part of an access that is in one page.
fn one_page(
    plugin: &Plugin,
    state: &mut State,
    shadow: &mut Shadow,
    access: Access,
    stored: Option<u64>,
) {
    let generation = generation(plugin);
    let Some(hit) = shadow.access(plugin.guest(), access) else { return };
    state.lane.put(generation, access.address / PAGE, hit.frame);
    if let Some(bytes) = stored
        && plugin.marks().matters(hit.frame)
    {
        let physical = hit.frame * PAGE + access.address % PAGE;
        let by = (access.cpu, access.pc, task_in_kernel(plugin, state));
        shadow.store(plugin.guest(), by, access.address, physical, bytes);
    }
}

/// Does what an instruction before has left to be done, now that it is finished.
fn catch_up(plugin: &Plugin, state: &mut State, shadow: &mut Shadow, cpu: u32) {
    if !state.attention {
        return;
    }
    state.attention = false;
    if let Some((pc, address)) = state.zeroes.take() {
        let bytes = block_size(plugin);
        let address = address & !(bytes - 1);
        one_page(plugin, state, shadow, Access { cpu, pc, address }, Some(bytes));
    }
    if core::mem::take(&mut state.roots) {
        state.lane.clear();
        let roots = roots(plugin);
        state.physical = roots == Roots::Off;
        shadow.load_roots(plugin.guest(), cpu, roots);
    }
}

/// The bytes that one instruction makes zero.
fn block_size(plugin: &Plugin) -> u64 {
    match plugin.handles().block {
        // DCZID_EL0.BS: the power of two of words.
        Some(handle) => 4 << (handle.read() & 15),
        // QEMU's CPUs have blocks of 64 bytes by default.
        None => 64,
    }
}

/// What the root registers hold.
fn roots(plugin: &Plugin) -> Roots {
    let handles = &plugin.handles().roots;
    match plugin.options.architecture {
        Architecture::Riscv => {
            let satp = handles[0].read();
            if riscv_rules::root(satp).is_none() { Roots::Off } else { Roots::Riscv { satp } }
        }
        Architecture::Arm => {
            let [ttbr0, ttbr1, tcr, sctlr] = [0, 1, 2, 3].map(|at| handles[at].read());
            if sctlr & 1 == 0 { Roots::Off } else { Roots::Arm { ttbr0, ttbr1, tcr } }
        }
        Architecture::X86 => control::roots(plugin),
    }
}

/// The task that has come back to user mode.
fn task_in_user_mode(plugin: &Plugin, state: &State) -> Option<u64> {
    match plugin.options.task {
        TaskRegister::None => None,
        TaskRegister::TpAndSscratch => plugin.handles().task.map(|(_, user)| user.read()),
        TaskRegister::SpEl0 => state.task,
        TaskRegister::Gs(_) => control::task(plugin, state),
    }
}

/// The task for which the kernel runs.
fn task_in_kernel(plugin: &Plugin, state: &State) -> Option<u64> {
    match plugin.options.task {
        TaskRegister::None => None,
        TaskRegister::TpAndSscratch => plugin.handles().task.map(|(kernel, _)| kernel.read()),
        TaskRegister::SpEl0 => state.task,
        TaskRegister::Gs(_) => control::task(plugin, state),
    }
}

/// An instruction that matters is about to be executed.
pub(super) extern "C" fn executed(cpu: c_uint, seen: *mut c_void) {
    let plugin = Plugin::get();
    // SAFETY: this is what the translation has left for this instruction, and it lives for ever.
    let seen = unsafe { &*seen.cast::<Seen>() };
    let cpu = plugin.running(cpu);
    // SAFETY: this is the thread of the CPU, in one callback.
    let state = unsafe { plugin.lanes[cpu as usize].state() };
    let handles = plugin.handles();
    let mut shadow = plugin.shadow();
    catch_up(plugin, state, &mut shadow, cpu);
    let mut fence = |removes, reach, pending| {
        let fence = Fence { cpu, pc: seen.pc, removes, reach, pending };
        shadow.fence(plugin.guest(), fence);
    };
    match seen.what {
        Special::Sfence { address, asid, pending } => {
            let page = address.map(|register| handles.general(register) / PAGE);
            let asid = asid.map(|register| handles.general(register) as u16);
            fence(riscv_rules::fenced(page.map(|page| (page, page)), asid), Reach::Own, pending);
            state.lane.clear();
        }
        Special::CompletesSinval => {
            shadow.complete(plugin.guest(), cpu, true);
            state.lane.clear();
        }
        Special::Tlbi { kind, register, shared } => {
            let reach = if shared { Reach::All } else { Reach::Own };
            let operand = handles.general(register);
            if let Some(removes) = arm_rules::tlbi(kind, operand, 16, &[0]) {
                fence(removes, reach, true);
            }
        }
        Special::Dsb { barrier, domain } => {
            if barrier.completes_tlbis() {
                shadow.complete(plugin.guest(), cpu, domain.completes_broadcasts());
                state.lane.clear();
            }
        }
        Special::WritesSpEl0 { register } => {
            let task = handles.general(register);
            // Before it returns, the kernel puts the user's stack pointer there, which is a low address.
            if task >> 63 != 0 && !seen.user {
                state.task = Some(task);
            }
        }
        Special::WritesRoot => {
            state.roots = true;
            state.attention = true;
            // At once, and not at this CPU's next event: other CPUs may see its next store before this plugin is
            // told of it, and take it to have left.
            shadow.load_roots(plugin.guest(), cpu, Roots::Off);
        }
        Special::WritesControl { control, register } => {
            if !seen.user {
                control::find_task(plugin, state);
            }
            let removes = control::written(plugin, control, register);
            state.roots = true;
            state.attention = true;
            shadow.load_roots(plugin.guest(), cpu, Roots::Off);
            if let Some(removes) = removes {
                let fence = Fence { cpu, pc: seen.pc, removes, reach: Reach::Own, pending: false };
                shadow.fence(plugin.guest(), fence);
            }
        }
        Special::Invlpg { at } => {
            if let Some(removes) = control::invlpg(plugin, &at) {
                fence(removes, Reach::Own, false);
                state.lane.clear();
            }
        }
        Special::Invpcid { kind, descriptor } => {
            if let Some(removes) = control::invpcid(plugin, kind, &descriptor) {
                fence(removes, Reach::Own, false);
                state.lane.clear();
            }
        }
        Special::ZeroesBlock { register } => {
            if seen.user != state.user {
                state.user = seen.user;
                state.lane.clear();
                let mode = if seen.user { Mode::User } else { Mode::Kernel };
                let task = if seen.user { task_in_user_mode(plugin, state) } else { None };
                shadow.enter_mode(cpu, seen.pc, mode, task);
            }
            state.zeroes = Some((seen.pc, handles.general(register)));
            state.attention = true;
        }
    }
}
