// A machine for the programs in `misuse.md`, which include this file.

struct Machine {
    mmu: Hardware,
}

/// The test's hardware.
type Hardware = lookaside_testkit::TestMmu<()>;

struct IrqsOff;

/// A top page table, of which its maker promises that it is one.
struct Table(lookaside::arch::Root);

impl Table {
    const unsafe fn new(address: u64) -> Self {
        Self(lookaside::arch::Root::new(address))
    }
}

fn table(page: u64) -> Table {
    // SAFETY: no hardware walks this root.
    unsafe { Table::new(page << 12) }
}

type Tlb = lookaside::Tlb<'static, Machine, lookaside::PerCpuAsids>;

// SAFETY: the programs have one CPU, and its hardware does nothing.
unsafe impl lookaside::Platform for Machine {
    type Word = core::sync::atomic::AtomicU64;
    type Mmu = Hardware;
    type IrqsOff = IrqsOff;
    type Tables = Table;
    type ResidentWords = &'static mut [core::sync::atomic::AtomicU64];

    fn root(table: &Table) -> lookaside::arch::Root {
        table.0
    }
    fn unreleased(_: u64) {} // The programs end with their spaces.
    fn mmu(&self) -> &Hardware {
        &self.mmu
    }
    fn cpu(&self) -> lookaside::platform::CpuId {
        lookaside::platform::CpuId(0)
    }
    fn send_ipi(&self, _: lookaside::platform::Targets) {}
    fn relax(&self) {}
}

fn words() -> &'static mut [core::sync::atomic::AtomicU64] {
    Box::leak(Box::new([const { core::sync::atomic::AtomicU64::new(0) }; 1]))
}

fn machine() -> Tlb {
    let cpus = Box::leak(Box::new([lookaside::Cpu::new()]));
    let tlb = lookaside::Tlb::new(Machine { mmu: lookaside_testkit::TestMmu(()) }, lookaside::PerCpuAsids::new(), cpus);
    let tlb = tlb.unwrap();
    tlb.online(&IrqsOff, &()).unwrap();
    tlb
}

fn space(tlb: &Tlb, page: u64) -> lookaside::AddressSpace<Machine> {
    tlb.space(table(page), words()).unwrap()
}
