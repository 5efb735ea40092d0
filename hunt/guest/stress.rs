//! The workload for guests with Linux's system calls: threads that use memory while one of them unmaps, protects,
//! discards and forks. It is its own runtime: no C library, built by plain `rustc` for a bare-metal target.
//!
//! It says `stress: bad N` at its end, N being how many values were wrong; the sanitizer looks deeper.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

#[cfg(target_arch = "riscv64")]
mod call {
    pub const NUMBERS: super::Numbers = super::COMMON;

    pub unsafe fn system(n: usize, a: [usize; 6]) -> isize {
        let result;
        unsafe {
            core::arch::asm!("ecall", in("a7") n, inlateout("a0") a[0] as isize => result, in("a1") a[1],
                in("a2") a[2], in("a3") a[3], in("a4") a[4], in("a5") a[5]);
        }
        result
    }

    /// Starts a thread on a stack, which runs `entry` and never returns.
    pub unsafe fn thread(flags: usize, stack: usize, entry: extern "C" fn() -> !) -> isize {
        let result;
        unsafe {
            core::arch::asm!("ecall", "bnez a0, 1f", "jr {entry}", "1:", entry = in(reg) entry,
                in("a7") 220, inlateout("a0") flags as isize => result, in("a1") stack, in("a2") 0,
                in("a3") 0, in("a4") 0);
        }
        result
    }

    core::arch::global_asm!(".globl _start", "_start:", "andi sp, sp, -16", "j main");
}

#[cfg(target_arch = "aarch64")]
mod call {
    pub const NUMBERS: super::Numbers = super::COMMON;

    pub unsafe fn system(n: usize, a: [usize; 6]) -> isize {
        let result;
        unsafe {
            core::arch::asm!("svc #0", in("x8") n, inlateout("x0") a[0] as isize => result, in("x1") a[1],
                in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5]);
        }
        result
    }

    /// Starts a thread on a stack, which runs `entry` and never returns.
    pub unsafe fn thread(flags: usize, stack: usize, entry: extern "C" fn() -> !) -> isize {
        let result;
        unsafe {
            core::arch::asm!("svc #0", "cbnz x0, 1f", "br {entry}", "1:", entry = in(reg) entry,
                in("x8") 220, inlateout("x0") flags as isize => result, in("x1") stack, in("x2") 0,
                in("x3") 0, in("x4") 0);
        }
        result
    }

    core::arch::global_asm!(".globl _start", "_start:", "b main");
}

#[cfg(target_arch = "x86_64")]
mod call {
    pub const NUMBERS: super::Numbers = super::Numbers {
        write: 1, mmap: 9, mprotect: 10, munmap: 11, clone: 56, exit: 60, wait4: 61, madvise: 28, yield_: 24,
        exit_group: 231, mremap: 25,
    };

    pub unsafe fn system(n: usize, a: [usize; 6]) -> isize {
        let result;
        unsafe {
            core::arch::asm!("syscall", inlateout("rax") n as isize => result, in("rdi") a[0], in("rsi") a[1],
                in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5], out("rcx") _, out("r11") _);
        }
        result
    }

    /// Starts a thread on a stack, which runs `entry` and never returns.
    pub unsafe fn thread(flags: usize, stack: usize, entry: extern "C" fn() -> !) -> isize {
        let result;
        unsafe {
            core::arch::asm!("syscall", "test rax, rax", "jnz 2f", "jmp {entry}", "2:", entry = in(reg) entry,
                inlateout("rax") 56_isize => result, in("rdi") flags, in("rsi") stack, in("rdx") 0,
                in("r10") 0, in("r8") 0, out("rcx") _, out("r11") _);
        }
        result
    }

    core::arch::global_asm!(".globl _start", "_start:", "and rsp, -16", "call main");
}

pub struct Numbers {
    write: usize, mmap: usize, mprotect: usize, munmap: usize, clone: usize, exit: usize, wait4: usize,
    madvise: usize, yield_: usize, exit_group: usize, mremap: usize,
}

/// The numbers of the architectures that share Linux's table of system calls.
#[cfg(not(target_arch = "x86_64"))]
const COMMON: Numbers = Numbers {
    write: 64, mmap: 222, mprotect: 226, munmap: 215, clone: 220, exit: 93, wait4: 260, madvise: 233, yield_: 124,
    exit_group: 94, mremap: 216,
};

const N: Numbers = call::NUMBERS;
const PAGE: usize = 4096;
/// Pages that all threads use.
const SHARED: usize = 32;
const ROUNDS: u64 = match option_env!("STRESS_ROUNDS") { Some(text) => number(text), None => 2 };
const THREADS: usize = 3;

const fn number(text: &str) -> u64 {
    let (bytes, mut at, mut value) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        value = value * 10 + (bytes[at] - b'0') as u64;
        at += 1;
    }
    value
}

static BASE: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicU32 = AtomicU32::new(0);
static BAD: AtomicU32 = AtomicU32::new(0);

unsafe fn system(n: usize, a: [usize; 6]) -> isize {
    unsafe { call::system(n, a) }
}

fn say(text: &[u8]) {
    unsafe { system(N.write, [1, text.as_ptr() as usize, text.len(), 0, 0, 0]) };
}

unsafe fn map(pages: usize) -> usize {
    unsafe { system(N.mmap, [0, pages * PAGE, 3, 0x22, usize::MAX, 0]) as usize }
}

fn word(page: usize) -> *mut u64 {
    (BASE.load(SeqCst) as usize + page * PAGE + (page & 7) * 8) as *mut u64
}

/// A value says which page it was written to; zero is a page that was discarded.
extern "C" fn reader() -> ! {
    let mut seed = 0x9e37_79b9_u64 + BASE.as_ptr() as u64 + &seed_on_stack() as *const u64 as u64;
    while STOP.load(SeqCst) == 0 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let page = (seed >> 33) as usize % SHARED;
        unsafe {
            let value = word(page).read_volatile();
            if value != 0 && value >> 32 != page as u64 + 1 {
                BAD.fetch_add(1, SeqCst);
            }
            if seed >> 60 == 0 {
                word(page).write_volatile((page as u64 + 1) << 32 | seed & 0xffff);
            }
            // Fewer emulated CPUs at a time than there may be cores: let others run.
            if seed >> 54 == 0 {
                system(N.yield_, [0; 6]);
            }
        }
    }
    ENDED.fetch_add(1, SeqCst);
    unsafe { system(N.exit, [0; 6]) };
    loop {}
}

fn seed_on_stack() -> u64 { 0 }

unsafe fn round(at: u64) {
    unsafe {
        for page in 0..SHARED {
            word(page).write_volatile((page as u64 + 1) << 32 | at & 0xffff);
        }
        if at % 2 == 0 {
            system(N.madvise, [BASE.load(SeqCst) as usize, SHARED * PAGE, 4, 0, 0, 0]);
        }
        let other = map(16);
        for page in 0..16 {
            ((other + page * PAGE) as *mut u64).write_volatile(at);
        }
        system(N.mprotect, [other, 8 * PAGE, 1, 0, 0, 0]);
        let wrong = (0..16).filter(|page| ((other + page * PAGE) as *const u64).read_volatile() != at);
        BAD.fetch_add(wrong.count() as u32, SeqCst);
        let moved = system(N.mremap, [other + 8 * PAGE, 8 * PAGE, 12 * PAGE, 1, 0, 0]) as usize;
        if moved & 0xfff == 0 {
            (moved as *mut u64).write_volatile(at + 1);
            system(N.munmap, [moved, 12 * PAGE, 0, 0, 0, 0]);
        }
        system(N.munmap, [other, 8 * PAGE, 0, 0, 0, 0]);
        if at % 8 == 0 {
            let child = system(N.clone, [17, 0, 0, 0, 0, 0]);
            if child == 0 {
                for page in 0..SHARED {
                    word(page).write_volatile(0xdead);
                }
                system(N.exit_group, [0; 6]);
            }
            for page in 0..SHARED {
                word(page).write_volatile((page as u64 + 1) << 32);
            }
            system(N.wait4, [child as usize, 0, 0, 0, 0, 0]);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    unsafe {
        BASE.store(map(SHARED) as u64, SeqCst);
        for _ in 0..THREADS {
            // VM, FS, FILES, SIGHAND, THREAD, SYSVSEM.
            let stack = map(4) + 4 * PAGE - 64;
            call::thread(0x0005_0f00, stack, reader);
        }
        for at in 1..=ROUNDS * 64 {
            round(at);
        }
        STOP.store(1, SeqCst);
        while (ENDED.load(SeqCst) as usize) < THREADS {
            system(N.yield_, [0; 6]);
        }
        let mut line = *b"stress: bad 000\n";
        let mut bad = BAD.load(SeqCst).min(999);
        for at in (12..15).rev() {
            line[at] = b'0' + (bad % 10) as u8;
            bad /= 10;
        }
        say(&line);
        system(N.exit_group, [0; 6]);
    }
    loop {}
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    say(b"stress: panic\n");
    unsafe { system(N.exit_group, [1, 0, 0, 0, 0, 0]) };
    loop {}
}
