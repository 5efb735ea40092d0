//! A `Tlb` in a static, and the calls that gather, change and flush at once.

use core::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use lookaside::{
    AddressSpace, Error, Platform, StaticTlb, VaRange,
    arch::{Root, aarch64::*},
    platform::{CpuId, Targets},
    tags::AsidsConfig,
};

thread_local! {
    /// How often the instructions of this thread were told to invalidate.
    static INVALIDATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Silent;

impl Instructions for Silent {
    fn tlbi(&self, _: Tlbi) {
        INVALIDATIONS.set(INVALIDATIONS.get() + 1);
    }
    fn dsb(&self, _: Dsb) {}
    fn isb(&self) {}
    fn write_ttbr0(&self, _: u64) {}
    fn read_ttbr1(&self) -> u64 {
        0
    }
    fn write_ttbr1(&self, _: u64) {}
    fn ic_iallu(&self) {}
}

struct Hw(Aarch64<Silent>);

// SAFETY: nothing is executed, and one thread is the only CPU.
unsafe impl Platform for Hw {
    type Word = AtomicU64;
    type Mmu = Aarch64<Silent>;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = [AtomicU64; 1];
    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &Self::Mmu {
        &self.0
    }
    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
    fn send_ipi(&self, _: Targets) {}
}

fn features() -> Features {
    Features::decode(IdRegisters { mmfr0: 5 | 2 << 4, ..IdRegisters::default() })
}

fn hw() -> Hw {
    let features = features();
    let config = Config::new(features, registers::tcr(16, &features), 0x4000_1000);
    Hw(Aarch64::new(Silent, config).unwrap())
}

#[test]
fn one_is_made_once_and_handles_requests_at_any_time() {
    static TLB: StaticTlb<Hw, 2> = StaticTlb::new();
    TLB.handle_ipi(&());
    assert!(TLB.get().is_none());
    let config = AsidsConfig::default();
    assert_eq!(TLB.init(hw(), 3, config).err(), Some(Error::CpuCount { cpus: 3 }));
    assert!(TLB.init(hw(), 2, config).is_ok());
    TLB.handle_ipi(&()); // The CPU is not online: `this_cpu` would panic.
    assert_eq!(TLB.init(hw(), 2, config).err(), Some(Error::UsedStorage { cpu: CpuId(0) }));
    TLB.online(&(), &features()).unwrap();
    TLB.handle_ipi(&());
    assert_eq!(TLB.cpus().len(), 2);
}

#[test]
#[should_panic(expected = "StaticTlb::init comes first")]
fn one_that_was_not_made_is_none() {
    static TLB: StaticTlb<Hw, 1> = StaticTlb::new();
    let _ = TLB.asid_scope();
}

#[test]
fn a_change_is_gathered_before_and_flushed_after() {
    static TLB: StaticTlb<Hw, 1> = StaticTlb::new();
    TLB.init(hw(), 1, AsidsConfig::default()).unwrap();
    TLB.online(&(), &features()).unwrap();
    let mut space = AddressSpace::new(&TLB, Root::new(0x4010_0000)).unwrap();
    let this_cpu = TLB.this_cpu(&());
    let _ = this_cpu.switch(&space);
    let page = VaRange::new(0x40_0000, 4096, 12).unwrap();
    let changed = AtomicBool::new(false);
    let invalidations = || INVALIDATIONS.get();
    let before = invalidations();
    let flushed = this_cpu.unmap(&space, Vec::new(), |gather| {
        assert_eq!(invalidations(), before, "nothing is flushed before the change");
        changed.store(true, Ordering::Relaxed);
        gather.revoke(page);
        gather.hold_page(7);
    });
    assert!(changed.load(Ordering::Relaxed) && invalidations() > before);
    assert_eq!(flushed.frames, [7]);
    let was = invalidations();
    this_cpu.flush_range(&space, page);
    assert!(invalidations() > was);
    let was = invalidations();
    let flushed = this_cpu.unmap_kernel(Vec::new(), |gather| {
        gather.revoke(page);
        gather.hold_page(8);
    });
    assert!(flushed.frames == [8] && invalidations() > was);
    let _ = this_cpu.release(&mut space);
}
