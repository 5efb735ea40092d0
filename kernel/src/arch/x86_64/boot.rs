//! From a boot loader's hands, or from reset, to Rust in the kernel's address space.
//!
//! Loaders enter in 32-bit mode without paging, other CPUs begin in 16-bit mode in a page below
//! 1 MiB. Both arrive at `enter_64`, with the address in `ebp` where they part again. Control
//! registers are set to known values there, not changed: their former values do not matter.
//!
//! The kernel's tables need no code to make them. They map the first 4 GiB one to one, in global
//! pages of 2 MiB. The last of the four is for devices and not cached.

use core::arch::global_asm;

use super::{
    apic,
    descriptors::{self, GDT},
    gates, handover, others, serial, time,
};
use crate::arch::{MAX_CPUS, STACK, Table};

unsafe extern "C" {
    pub(super) static kernel_root: Table;
    pub(super) static vmap_table: Table;
    /// The end of the image.
    static kernel_end: u8;
    /// What other CPUs begin with, up to `trampoline_end`, wherever it is copied.
    static trampoline: u8;
    static trampoline_end: u8;
}

global_asm!(
    r#"
    .global entry_32, kernel_root, vmap_table, trampoline, trampoline_end

    // PVH: QEMU enters where this note says. 18 is XEN_ELFNOTE_PHYS32_ENTRY.
    .section .note.Xen, "a", @note
    .balign 4
    .long 4, 4, 18
    .asciz "Xen"
    .long entry_32

    // Multiboot 2: GRUB enters where the ELF header says. QEMU only knows the first version, and
    // would refuse a 64-bit file that has that one's header.
    .section .multiboot, "a", @progbits
    .balign 8
    .long 0xe85250d6, 0, 24, 0x100000000 - 0xe85250d6 - 24
    .long 0, 8

    .section .data.tables, "aw", @progbits
    .balign 4096
kernel_root:                            // present, writable, accessed
    .quad giants + 0x23
    .fill 511, 8, 0
giants:
    .quad larges + 0x23, larges + 0x1023, larges + 0x2023, larges + 0x3023
    .fill 4, 8, 0
    .quad vmap_larges + 0x23            // 8 GiB
    .fill 503, 8, 0
larges:                                 // the same, dirty, large, global
    .set page, 0
    .rept 3 * 512
    .quad page + 0x1e3
    .set page, page + 0x200000
    .endr
    .rept 512                           // and not cached
    .quad page + 0x1fb
    .set page, page + 0x200000
    .endr
vmap_larges:
    .quad vmap_table + 0x23
    .fill 511, 8, 0
vmap_table:
    .fill 512, 8, 0

    .section .text.boot, "ax", @progbits
    .code32
entry_32:
    cli
    cld
    mov edi, eax
    mov esi, ebx
    mov ebp, offset boot_cpu_64
enter_64:
    mov eax, 0x20                       // PAE
    mov cr4, eax
    mov eax, offset kernel_root
    mov cr3, eax
    mov ecx, 0xc0000080                 // EFER: LME, NXE
    rdmsr
    or eax, 0x900
    wrmsr
    mov eax, 0x80010035                 // PG, WP, NE, EM: floating point is an error; PE
    mov cr0, eax
    lgdt [gdt_pointer]
    .byte 0xea                          // a far jump
    .long in_64
    .word {CODE}
    .code64
in_64:
    mov eax, {DATA}
    mov ss, eax
    mov ds, eax
    mov es, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    mov rax, cr4                        // PGE, which comes after PG
    or rax, 0x80
    mov cr4, rax
    mov ebp, ebp                        // upper halves may be anything
    jmp rbp

boot_cpu_64:
    lea rsp, [{STACKS} + {STACK}]
    call {boot_cpu}
    ud2

other_cpu_64:
    xor edi, edi                        // the CPU that takes the number goes on with it
    xchg edi, [{NEXT}]
    test edi, edi
    jz 2f
    mov eax, edi
    inc eax
    imul eax, eax, {STACK}
    lea rsp, [{STACKS} + rax]
    call {other_cpu}
2:
    cli
    hlt
    jmp 2b

    // Copied to a page below 1 MiB. Code and data are addressed relative to its beginning.
    .section .rodata.trampoline, "a", @progbits
    .code16
trampoline:
    cli
    mov ax, cs
    mov ds, ax
    lgdtd [gdt_pointer_offset]
    mov eax, 0x11                       // PE
    mov cr0, eax
    .byte 0x66, 0xea                    // a far jump, with a 32-bit address
    .long other_cpu_32
    .word {CODE_32}
    .balign 4
gdt_pointer:
    .word {GDT_BYTES} - 1
    .long {GDT}
trampoline_end:
    .set gdt_pointer_offset, gdt_pointer - trampoline

    .section .text.boot, "ax", @progbits
    .code32
other_cpu_32:
    mov eax, {DATA}
    mov ss, eax
    mov ds, eax
    mov es, eax
    cld
    mov ebp, offset other_cpu_64
    jmp enter_64
    .code64
    "#,
    CODE = const descriptors::CODE,
    DATA = const descriptors::DATA,
    CODE_32 = const descriptors::CODE_32,
    GDT_BYTES = const size_of_val(&GDT),
    GDT = sym GDT,
    STACKS = sym STACKS,
    STACK = const STACK,
    NEXT = sym others::NEXT,
    boot_cpu = sym boot_cpu,
    other_cpu = sym others::other_cpu,
);

/// The first stack of each CPU. Only that CPU touches it, through its stack pointer.
#[repr(C, align(16))]
struct Stacks([[u8; STACK]; MAX_CPUS]);

static mut STACKS: Stacks = Stacks([[0; STACK]; MAX_CPUS]);

/// Where the boot CPU begins: with what its loader had in `eax` and `ebx`.
extern "C" fn boot_cpu(magic: u32, information: u32) -> ! {
    serial::open();
    gates::fill();
    descriptors::load(0);
    apic::silence_others();
    apic::open();
    time::calibrate();
    // SAFETY: both registers are as the loader left them, and nothing has been overwritten yet.
    let handover = unsafe { handover::read(magic, information, (&raw const kernel_end) as u64) };
    let cpus = others::find(handover.acpi);
    crate::start(crate::arch::Machine {
        memory: handover.memory,
        cpus,
        command_line: handover.command_line,
    })
}

/// What other CPUs begin with.
pub(super) fn trampoline_code() -> &'static [u8] {
    let (start, end) = (&raw const trampoline, &raw const trampoline_end);
    // SAFETY: both are labels in one section, in this order, of memory that never changes.
    unsafe { core::slice::from_raw_parts(start, end.addr() - start.addr()) }
}
