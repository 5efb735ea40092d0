//! The instructions of three architectures on the host: each is a volatile store of its operand,
//! which is one or two instructions of the host, as it would be of the real CPU.

use core::{cell::UnsafeCell, ptr, sync::atomic::AtomicU64};

use lookaside::{
    Error, Platform,
    arch::{
        Held, Invalidation, Mmu, Properties, Root, Scope, Sharing, Tag,
        aarch64::{self, Aarch64, AsidIn, Dsb, IdRegisters, Pairing, Tlbi},
        riscv64::{self, Extensions, Mode, Remote, Riscv},
        x86_64::{self, Invpcid, Levels, Tables, Use, UserFlush, X86},
    },
    platform::CpuId,
};
use lookaside_testkit::{COSTS, Hardware};

use crate::WORDS;

/// A place that the compiler must write to when it is told to, and read from.
struct Port<T = u64>(UnsafeCell<T>);

// SAFETY: the program has one thread.
unsafe impl<T> Sync for Port<T> {}

impl Port {
    const fn new() -> Self {
        Self(UnsafeCell::new(0))
    }
}

impl<T: Copy> Port<T> {
    #[inline(always)]
    fn write(&self, value: T) {
        // SAFETY: the place is ours, aligned and initialised, and no reference to it exists.
        unsafe { ptr::write_volatile(self.0.get(), value) }
    }

    #[inline(always)]
    fn read(&self) -> T {
        // SAFETY: as in `write`.
        unsafe { ptr::read_volatile(self.0.get()) }
    }
}

/// The root register, under whatever name.
static ROOT: Port = Port::new();
/// The second root register, or the register that says how to walk.
static CONTROL: Port = Port::new();
/// Everything that is executed and not read back.
static OTHER: Port = Port::new();

pub(crate) struct Insn;

impl aarch64::Instructions for Insn {
    #[inline(always)]
    fn tlbi(&self, op: Tlbi) {
        OTHER.write(op.operand);
    }
    #[inline(always)]
    fn dsb(&self, kind: Dsb) {
        OTHER.write(kind as u64);
    }
    #[inline(always)]
    fn isb(&self) {
        OTHER.write(0);
    }
    #[inline(always)]
    fn write_ttbr0(&self, value: u64) {
        ROOT.write(value);
    }
    #[inline(always)]
    fn read_ttbr1(&self) -> u64 {
        CONTROL.read()
    }
    #[inline(always)]
    fn write_ttbr1(&self, value: u64) {
        CONTROL.write(value);
    }
    #[inline(always)]
    fn ic_iallu(&self) {
        OTHER.write(0);
    }
}

impl riscv64::Instructions for Insn {
    #[inline(always)]
    fn sfence_vma(&self, address: Option<u64>, asid: Option<u16>) {
        OTHER.write(address.unwrap_or(0) | u64::from(asid.unwrap_or(0)));
    }
    #[inline(always)]
    fn sfence_w_inval(&self) {
        OTHER.write(0);
    }
    #[inline(always)]
    fn sinval_vma(&self, address: Option<u64>, asid: Option<u16>) {
        OTHER.write(address.unwrap_or(0) | u64::from(asid.unwrap_or(0)));
    }
    #[inline(always)]
    fn sfence_inval_ir(&self) {
        OTHER.write(0);
    }
    #[inline(always)]
    fn fence(&self) {
        OTHER.write(0);
    }
    #[inline(always)]
    fn read_satp(&self) -> u64 {
        ROOT.read()
    }
    #[inline(always)]
    fn write_satp(&self, value: u64) {
        ROOT.write(value);
    }
    #[inline(always)]
    fn remote_sfence_vma(
        &self,
        harts: u64,
        _base: u64,
        _start: u64,
        _size: u64,
        _asid: Option<u16>,
    ) -> Result<(), Error> {
        OTHER.write(harts);
        Ok(())
    }
}

impl x86_64::Instructions for Insn {
    #[inline(always)]
    fn write_cr3(&self, value: u64) {
        ROOT.write(value);
    }
    #[inline(always)]
    fn read_cr3(&self) -> u64 {
        ROOT.read()
    }
    #[inline(always)]
    fn write_cr4(&self, value: u64) {
        CONTROL.write(value);
    }
    #[inline(always)]
    fn read_cr4(&self) -> u64 {
        CONTROL.read()
    }
    #[inline(always)]
    fn invlpg(&self, address: u64) {
        OTHER.write(address);
    }
    #[inline(always)]
    fn invpcid(&self, _kind: Invpcid, descriptor: [u64; 2]) {
        OTHER.write(descriptor[0]);
    }
    #[inline(always)]
    fn invlpgb(&self, rax: u64, _ecx: u32, _edx: u32) {
        OTHER.write(rax);
    }
    #[inline(always)]
    fn tlbsync(&self) {
        OTHER.write(0);
    }
    #[inline(always)]
    fn mfence(&self) {
        OTHER.write(0);
    }
}

/// The number of this CPU: one load, as where kernels have it, behind the register for per-CPU data.
static CPU: Port<u32> = Port(UnsafeCell::new(0));
/// The IPI handler of the CPUs.
static HANDLER: Port<Option<&'static dyn Fn()>> = Port(UnsafeCell::new(None));

/// Goes on as another CPU: the one thread is all of them in turn.
pub(crate) fn become_cpu(cpu: u32) {
    CPU.write(cpu);
}

/// Sets the IPI handler. Without one, IPIs get lost.
pub(crate) fn set_handler(handler: &'static dyn Fn()) {
    HANDLER.write(Some(handler));
}

/// A machine with this translation hardware, of up to 32 times so many CPUs.
pub(crate) struct Host<M, const CPU_WORDS: usize = WORDS> {
    mmu: M,
}

impl<M, const CPU_WORDS: usize> Host<M, CPU_WORDS> {
    pub(crate) const fn new(mmu: M) -> Self {
        Self { mmu }
    }
}

// SAFETY: there is one thread, which is one CPU at any time, and is another one only while that one waits.
unsafe impl<M: Mmu, const CPU_WORDS: usize> Platform for Host<M, CPU_WORDS> {
    type Word = AtomicU64;
    type Mmu = M;
    type IrqsOff = ();
    type Tables = Root;
    // Inline, as kernels have it that know how many CPUs there can be.
    type ResidentWords = [AtomicU64; CPU_WORDS];

    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    #[inline(always)]
    fn mmu(&self) -> &M {
        &self.mmu
    }

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        CpuId(CPU.read())
    }

    /// Each target handles its IPI before this returns.
    fn send_ipi(&self, targets: lookaside::platform::Targets) {
        let sender = CPU.read();
        if let Some(handler) = HANDLER.read() {
            for target in targets.iter() {
                become_cpu(target.0);
                handler();
            }
        }
        CPU.write(sender);
    }

    fn relax(&self) {
        core::hint::spin_loop();
    }
}

/// A table that maps nothing for user mode.
const RESERVED: u64 = 0x1000;

pub(crate) fn arm_features() -> aarch64::Features {
    aarch64::Features::decode(IdRegisters { mmfr0: 5 | 2 << 4, ..IdRegisters::default() })
}

/// Arm64 with 16-bit tags.
pub(crate) fn arm() -> Result<Aarch64<Insn>, Error> {
    let config = aarch64::Config {
        features: arm_features(),
        // T0SZ 16, 4 KiB granule, 48-bit physical addresses, 16-bit ASIDs.
        tcr: 16 | 5 << 32 | 1 << 36,
        reserved_root: RESERVED,
        sharing: Sharing::Private,
        pairing: Pairing::Single,
        asid_in: AsidIn::Ttbr0,
    };
    Aarch64::new(Insn, config)
}

pub(crate) fn riscv_features() -> riscv64::Features {
    riscv64::Features {
        mode: Mode::Sv48,
        asid_bits: 16,
        extensions: Extensions::NONE,
        identity: riscv64::Identity::default(),
    }
}

/// RISC-V with 16-bit tags and SBI remote fences.
pub(crate) fn riscv() -> Result<Riscv<Insn>, Error> {
    let config = riscv64::Config {
        mode: Mode::Sv48,
        relies_on: Extensions::NONE,
        reserved: Root::new(RESERVED),
        tables: riscv64::Tables::One,
        remote: Remote::Sbi,
    };
    Riscv::new(Insn, &riscv_features(), config)
}

/// Whether a CPU is told to have `INVLPGB`.
pub(crate) fn x86_features(invlpgb: bool) -> x86_64::Features {
    x86_64::Features::decode(|leaf, _| match leaf {
        0 => [7, 0, 0, 0],
        1 => [0, 0, 1 << 17, 1 << 13],
        7 => [0, 1 << 10, 0, 0],
        0x8000_0000 => [0x8000_0008, 0, 0, 0],
        0x8000_0008 => [48 | 48 << 8, u32::from(invlpgb) << 3, 0, 7],
        _ => [0; 4],
    })
}

/// x86-64: with PCIDs or as if there were none, and with separate user tables or one for both modes.
#[rustfmt::skip]
pub(crate) fn x86(invlpgb: bool, pcids: Use, separate: bool) -> Result<X86<Insn>, Error> {
    let config = x86_64::Config {
        pcids,
        invlpgb: Use::WherePresent,
        tables: if separate { Tables::Separate(UserFlush::AtExit) } else { Tables::One },
        levels: Levels::Four,
        reserved_root: RESERVED,
    };
    X86::new(Insn, &x86_features(invlpgb), config)
}

/// Hardware that does each thing in one instruction: what is counted over it is the library alone.
pub(crate) struct Bookkeeping;

impl Hardware for Bookkeeping {
    #[inline]
    fn properties(&self) -> Properties {
        Properties { broadcasts: true, ..Properties::plain(12, &COSTS) }
    }

    #[inline]
    fn load(&self, root: Root, _: Tag, _: Held) {
        ROOT.write(root.table);
    }

    #[inline]
    fn park(&self) {
        ROOT.write(RESERVED);
    }

    #[inline]
    fn flush(&self, entries: Invalidation<'_>, _: Scope) {
        if !matches!(entries, Invalidation::Kernel { .. }) {
            OTHER.write(0);
        }
    }
}
