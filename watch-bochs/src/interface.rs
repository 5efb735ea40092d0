//! What `hunt/bochs/instrument.cc` calls, in the terms of C. Both sides name the same version.

use core::{
    ffi::{CStr, c_char},
    ptr,
};

use lookaside_hardware::x86::Registers;
use lookaside_watch::front_end::{Counting, Options};

use crate::{
    guest::{Guest, ReadWord},
    watch::{Control, Cpu, Watch},
};

/// The version of this interface.
const VERSION: u32 = 2;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The machine, as Bochs has built it.
#[repr(C)]
struct Machine {
    version: u32,
    cpus: u32,
    memory_bytes: u64,
    /// `NAME=VALUE`, separated by commas.
    options: *const c_char,
    word: ReadWord,
}

/// What a CPU is about to do, or does.
#[repr(C)]
struct Now {
    pc: u64,
    cr0: u64,
    cr3: u64,
    cr4: u64,
    efer: u64,
    gs_base: u64,
    number: u32,
    user: u32,
}

impl Now {
    fn cpu(&self) -> Cpu {
        Cpu {
            number: self.number,
            pc: self.pc,
            user: self.user != 0,
            cr0: self.cr0,
            efer: self.efer,
            registers: Registers { cr3: self.cr3, cr4: self.cr4 },
            gs_base: self.gs_base,
        }
    }
}

/// Begins to watch a machine. Returns null, and says why on the standard error, if that cannot be done.
///
/// # Safety
///
/// `machine.options` is a string of C, and `machine.word` may be called as long as the machine runs.
#[unsafe(no_mangle)]
unsafe extern "C" fn lookaside_bochs_open(machine: &Machine) -> *mut Watch {
    if machine.version != VERSION {
        eprintln!(
            "lookaside: this Bochs was built for version {} of the plugin's interface, and the plugin has {VERSION}; \
             build it again with `lookaside hunt --setup bochs`",
            machine.version
        );
        return ptr::null_mut();
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(machine.options) }.to_string_lossy();
    match Options::parse("x86_64", text.split(',')) {
        Ok(options) => {
            let guest = Guest { word: machine.word, bytes: machine.memory_bytes };
            Box::into_raw(Box::new(Watch::new(options, machine.cpus, guest)))
        }
        Err(error) => {
            eprintln!("lookaside: {error}");
            ptr::null_mut()
        }
    }
}

/// A CPU accesses memory at a linear address.
#[unsafe(no_mangle)]
extern "C" fn lookaside_bochs_access(watch: &mut Watch, now: &Now, linear: u64) {
    watch.access(&now.cpu(), linear);
}

/// A CPU has written `bytes` bytes at a linear address, inside one page, which are at a physical address.
#[unsafe(no_mangle)]
extern "C" fn lookaside_bochs_store(
    watch: &mut Watch,
    now: &Now,
    linear: u64,
    physical: u64,
    bytes: u64,
) {
    watch.store(&now.cpu(), linear, physical, bytes);
}

/// A CPU is about to write `CR0`, `CR3` or `CR4`.
#[unsafe(no_mangle)]
extern "C" fn lookaside_bochs_control(watch: &mut Watch, now: &Now, control: u32, value: u64) {
    let control = match control {
        0 => Control::Cr0,
        3 => Control::Cr3,
        _ => Control::Cr4,
    };
    watch.control(&now.cpu(), control, value);
}

/// A CPU is about to execute `INVLPG` of a linear address.
#[unsafe(no_mangle)]
extern "C" fn lookaside_bochs_invlpg(watch: &mut Watch, now: &Now, linear: u64) {
    watch.invlpg(&now.cpu(), linear);
}

/// A CPU is about to execute `INVPCID` of a type, whose descriptor is at a linear address.
#[unsafe(no_mangle)]
extern "C" fn lookaside_bochs_invpcid(watch: &mut Watch, now: &Now, kind: u64, descriptor: u64) {
    watch.invpcid(&now.cpu(), kind, descriptor);
}

/// A CPU executes `INVLPGB`, which does not fault and is not about a guest's ASID.
#[unsafe(no_mangle)]
extern "C" fn lookaside_bochs_invlpgb(watch: &mut Watch, now: &Now, rax: u64, ecx: u32, edx: u32) {
    watch.invlpgb(&now.cpu(), (rax, ecx, edx));
}

/// A CPU executes `TLBSYNC`.
#[unsafe(no_mangle)]
extern "C" fn lookaside_bochs_tlbsync(watch: &mut Watch, now: &Now) {
    watch.tlbsync(&now.cpu());
}

/// The run is over, after so many instructions: the report is written.
///
/// # Safety
///
/// `watch` came from [`lookaside_bochs_open`] and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn lookaside_bochs_close(watch: *mut Watch, instructions: u64) {
    // SAFETY: as the caller promises.
    unsafe { Box::from_raw(watch) }.finish(instructions);
}

/// Counts are written down now and then, for whoever looks on.
#[unsafe(no_mangle)]
extern "C" fn lookaside_bochs_tell(watch: &mut Watch, instructions: u64) {
    watch.tell(instructions);
}
