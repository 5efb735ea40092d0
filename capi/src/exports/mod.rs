//! The functions of the header as symbols, on the hardware of the target.

mod allocator;
#[cfg(all(target_os = "none", target_arch = "aarch64"))]
#[path = "aarch64.rs"]
mod hardware;
#[cfg(not(target_os = "none"))]
#[path = "host.rs"]
mod hardware;
#[cfg(all(target_os = "none", target_arch = "riscv64"))]
#[path = "riscv64.rs"]
mod hardware;
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
#[path = "x86_64.rs"]
mod hardware;
mod init;
#[cfg(feature = "checked")]
#[path = "checked.rs"]
mod mmu;
#[cfg(not(feature = "checked"))]
#[path = "unchecked.rs"]
mod mmu;
#[cfg(panic = "abort")]
mod panic;
mod platform;
#[cfg(any(not(target_os = "none"), target_arch = "riscv64"))]
mod riscv;

use core::{
    ffi::{c_char, c_int},
    mem::size_of,
    sync::atomic::AtomicU64,
};

use lookaside::{
    Platform,
    arch::{Root, Tag},
    counts::Outcome,
};

use self::{
    hardware::{ARCH, Boot, Features},
    init::machine,
    platform::{COUNTS, Hw},
};
use crate::{
    Batch, Instance, Layout, MAX_CPUS, Machine, Roots, Space, Wait,
    error::{Refused, number, sentence},
    flush::is_one_page,
};

/// The instance of this target.
#[derive(Debug)]
pub(crate) enum Native {}

impl Instance for Native {
    type Platform = Hw;
    type Tags = allocator::Allocator;

    fn resident_words() -> <Hw as Platform>::ResidentWords {
        [const { AtomicU64::new(0) }; MAX_CPUS.div_ceil(32)]
    }

    fn irqs_are_surely_off(_: &Hw) -> bool {
        hardware::are_masked()
    }

    fn root_freed(mmu: &<Hw as Platform>::Mmu, root: Root) {
        mmu::root_freed(mmu, root);
    }

    fn user_asid(mmu: &<Hw as Platform>::Mmu, tag: Tag) -> u16 {
        hardware::user_asid(mmu, tag)
    }

    fn trampoline_fences(mmu: &<Hw as Platform>::Mmu) -> bool {
        hardware::trampoline_fences(mmu)
    }
}

const _: () = Machine::<Native>::FITS;

/// What callers must have been compiled with.
const LAYOUT: Layout = Layout::of_library(ARCH, size_of::<Boot>(), size_of::<Features>());

/// Functions that do what a method of [`Machine`] does.
macro_rules! exports {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, or $refused:expr, is $method:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the header.")]
        ///
        /// # Safety
        ///
        /// What the header asks of its caller.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            match machine() {
                // SAFETY: the caller keeps what the header says.
                #[allow(unused_unsafe, reason = "some of the methods are safe")]
                Ok(machine) => unsafe { machine.$method($($argument),*) },
                Err(_) => $refused,
            }
        }
    )*};
}

type SpaceAt = *mut Space<Native>;
type WaitAt = *mut Wait<Native>;
type BatchAt = *mut Batch<Native>;
const NOT_READY: c_int = Refused::NotReady as c_int;

exports! {
    lookaside_offline() -> c_int, or NOT_READY, is offline;
    lookaside_stopped(cpu: u32) -> c_int, or NOT_READY, is stopped;
    lookaside_space_init(space: SpaceAt, root: u64, user_root: u64) -> c_int, or NOT_READY, is space_init;
    lookaside_space_release(space: SpaceAt) -> c_int, or NOT_READY, is space_release;
    lookaside_lazy() -> c_int, or NOT_READY, is lazy;
    lookaside_park() -> c_int, or NOT_READY, is park;
    lookaside_root_begin(root: u64) -> c_int, or NOT_READY, is root_begin;
    lookaside_root_end() -> c_int, or NOT_READY, is root_end;
    lookaside_user_roots(space: SpaceAt, roots: *mut Roots) -> c_int, or NOT_READY, is user_roots;
    lookaside_flush_kernel(start: u64, bytes: u64, shift: u32, kind: u32, wait: WaitAt) -> c_int, or NOT_READY, is flush_kernel;
    lookaside_wait(wait: WaitAt) -> c_int, or NOT_READY, is wait;
    lookaside_batch_add(batch: BatchAt, space: SpaceAt, start: u64, bytes: u64, shift: u32, kind: u32) -> c_int, or NOT_READY, is batch_add;
    lookaside_batch_flush(batch: BatchAt) -> c_int, or NOT_READY, is batch_flush;
    lookaside_map(space: SpaceAt, start: u64, bytes: u64, shift: u32, event: u32) -> c_int, or NOT_READY, is map;
    lookaside_handle_ipi() -> c_int, or NOT_READY, is handle_ipi;
    lookaside_nmi_uaccess_okay(space: SpaceAt) -> bool, or false, is nmi_uaccess_okay;
    lookaside_pin(space: SpaceAt, pinned: bool) -> c_int, or NOT_READY, is pin;
}

/// Functions that are called most often, of a space. One that is in use was made by the machine: so nothing asks whether that
/// is ready.
macro_rules! exports_of_spaces {
    ($($name:ident($($argument:ident: $type:ty),*), is |$machine:ident, $space:ident| $does:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the header.")]
        ///
        /// # Safety
        ///
        /// What the header asks of its caller.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(space: SpaceAt, $($argument: $type),*) -> c_int {
            // SAFETY: the caller keeps what the header says.
            match unsafe { Space::at(space) } {
                Ok($space) => {
                    // SAFETY: a machine has made the space, and the caller has made it known to this CPU.
                    let $machine = unsafe { init::made() };
                    // SAFETY: as `machine`: the caller keeps what the header says.
                    #[allow(unused_unsafe, reason = "some of the methods are safe")]
                    unsafe { $does }
                }
                Err(_) => refuse_space(),
            }
        }
    )*};
}

exports_of_spaces! {
    lookaside_switch(cpu: u32), is |machine, space| machine.switch_to(space, cpu);
    lookaside_flush_page(address: u64, kind: u32, cpu: u32, wait: WaitAt),
        is |machine, space| machine.flush_page_of(space, address, kind, cpu, wait);
}

/// `lookaside_flush_range` of the header: [`Machine::flush_range`], by [`lookaside_flush_page`] for one page.
///
/// # Safety
///
/// What the header asks of its caller.
#[unsafe(no_mangle)]
unsafe extern "C" fn lookaside_flush_range(
    space: SpaceAt,
    start: u64,
    bytes: u64,
    shift: u32,
    kind: u32,
    wait: WaitAt,
) -> c_int {
    let Ok(machine) = machine() else { return NOT_READY };
    if is_one_page(start, bytes, shift) {
        let cpu = machine.tlb().platform().cpu();
        // SAFETY: the caller keeps what the header says; the kernel says which CPU this is.
        return unsafe { lookaside_flush_page(space, start, kind, cpu.0, wait) };
    }
    // SAFETY: the caller keeps what the header says.
    unsafe { machine.flush_ranges_of(space, (start, bytes, shift, kind), wait) }
}

#[cold]
fn refuse_space() -> c_int {
    machine().map_or(NOT_READY, Machine::refuse_space)
}

/// `lookaside_init_as` of the header.
///
/// # Safety
///
/// What the header asks of its caller.
#[unsafe(no_mangle)]
unsafe extern "C" fn lookaside_init_as(boot: *const Boot, layout: *const Layout) -> c_int {
    if boot.is_null() || !boot.is_aligned() || layout.is_null() || !layout.is_aligned() {
        return Refused::Argument as c_int;
    }
    // SAFETY: the caller's, which are of this layout or are not looked at.
    let checked = LAYOUT.check(unsafe { &*layout });
    // SAFETY: it has the library's layout.
    number(checked.and_then(|()| init::init(unsafe { &*boot })).map(|()| 0))
}

/// `lookaside_online` of the header.
///
/// # Safety
///
/// What the header asks of its caller.
#[unsafe(no_mangle)]
unsafe extern "C" fn lookaside_online(features: *const Features) -> c_int {
    if features.is_null() || !features.is_aligned() {
        return Refused::Argument as c_int;
    }
    let ready = machine().and_then(|machine| {
        // SAFETY: the caller's.
        Ok((machine, unsafe { &*features }.decoded()?))
    });
    match ready {
        Ok((machine, features)) => machine.online(&features),
        Err(refused) => refused as c_int,
    }
}

/// `LOOKASIDE_COUNT_CHECKED`.
const CHECKED: u32 = 9;

/// `lookaside_count` of the header.
#[unsafe(no_mangle)]
extern "C" fn lookaside_count(counter: u32) -> u64 {
    let count = |counts: &lookaside::counts::Counts<AtomicU64>| match counter {
        0 => counts.flushes(Outcome::NoCpu),
        1 => counts.flushes(Outcome::Local),
        2 => counts.flushes(Outcome::Retagged),
        3 => counts.flushes(Outcome::Broadcast),
        4 => counts.flushes(Outcome::Ipis),
        5 => counts.interrupted(),
        6 => counts.served().0,
        7 => counts.served().1,
        8 => counts.caught_up(),
        _ => 0,
    };
    if counter == CHECKED {
        return machine().map_or(0, |machine| mmu::loads(machine.tlb().platform().mmu()));
    }
    COUNTS.iter().map(count).sum()
}

/// `lookaside_strerror` of the header.
#[unsafe(no_mangle)]
extern "C" fn lookaside_strerror(error: c_int) -> *const c_char {
    sentence(error).as_ptr()
}
