//! The exit to user mode with separate user tables: a pending flush of the user tag is done there, once.

use core::{cell::Cell, sync::atomic::AtomicU64};

use lookaside::{
    AddressSpace, Cpu, Error, Gather, GlobalAsids, KernelGather, PerCpuAsids, Platform, Tlb,
    VaRange,
    arch::{
        Root,
        x86_64::{
            Config, Features, Instructions, Invpcid, Levels, Tables, Use, UserFlush, Vendor, X86,
            cr3::KEEP, invlpgb::PageLimit,
        },
    },
    platform::{CpuId, Word},
    tags::{AsidScope, Asids, AsidsConfig, GlobalAsidsConfig, Switched},
};

/// A CPU that remembers its root register and what it was told to forget.
#[derive(Default)]
struct Insn {
    cr3: Cell<u64>,
    cr4: Cell<u64>,
    /// The last two of which something was removed.
    emptied: Cell<[u64; 2]>,
}

impl Insn {
    fn empty(&self, pcid: u64) {
        let [_, last] = self.emptied.get();
        self.emptied.set([last, pcid]);
    }
}

impl Instructions for &'static Insn {
    fn write_cr3(&self, value: u64) {
        if value & KEEP == 0 {
            self.empty(value & 0xfff);
        }
        self.cr3.set(value);
    }
    fn read_cr3(&self) -> u64 {
        self.cr3.get() & !KEEP
    }
    fn write_cr4(&self, value: u64) {
        self.cr4.set(value);
    }
    fn read_cr4(&self) -> u64 {
        self.cr4.get()
    }
    fn invlpg(&self, _: u64) {
        self.empty(self.cr3.get() & 0xfff);
    }
    fn invpcid(&self, _: Invpcid, descriptor: [u64; 2]) {
        self.empty(descriptor[0]);
    }
    fn invlpgb(&self, _: u64, _: u32, _: u32) {}
    fn tlbsync(&self) {}
    fn mfence(&self) {}
}

struct Hw {
    mmu: X86<&'static Insn>,
    insn: &'static Insn,
}

// SAFETY: there is one CPU, and one thread.
unsafe impl Platform for Hw {
    type Word = AtomicU64;
    type Mmu = X86<&'static Insn>;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = &'static mut [AtomicU64];

    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &Self::Mmu {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }

    fn send_ipi(&self, _: lookaside::platform::Targets) {}

    fn relax(&self) {}
}

const FEATURES: Features = Features {
    vendor: Vendor::Other,
    family: 6,
    model: 1,
    stepping: 0,
    microcode: None,
    hypervisor: false,
    pcid: true,
    invpcid: true,
    pge: true,
    la57: false,
    invlpgb: None,
    tce: false,
    physical_bits: 46,
    linear_bits: 48,
};

fn hardware(flush: UserFlush) -> Hw {
    let config = Config {
        pcids: Use::WherePresent,
        invlpgb: Use::Never,
        tables: Tables::Separate(flush),
        levels: Levels::Four,
        reserved_root: 0x1000,
    };
    let insn: &'static Insn = Box::leak(Box::default());
    Hw { mmu: X86::new(insn, &FEATURES, config).unwrap(), insn }
}

fn machine() -> Tlb<'static, Hw, PerCpuAsids> {
    let hw = hardware(UserFlush::AtExit);
    hw.mmu.set_up_cpu();
    let cpus = Vec::leak(vec![Cpu::new()]);
    let tlb = Tlb::new(hw, PerCpuAsids::new(), cpus).unwrap();
    tlb.online(&(), &FEATURES).unwrap();
    tlb
}

fn this_cpu<'t>(
    tlb: &'t Tlb<'static, Hw, PerCpuAsids>,
) -> lookaside::CurrentCpu<'t, Hw, PerCpuAsids> {
    tlb.this_cpu(&())
}

fn space(tlb: &Tlb<'static, Hw, PerCpuAsids>, table: u64) -> AddressSpace<Hw> {
    let residents = Vec::leak(vec![AtomicU64::ZERO]);
    let root = Root { table, user_table: table + 0x1000 };
    tlb.space(root, residents).unwrap()
}

/// The value of `CR3` with which the CPU leaves for user mode.
fn exit(tlb: &Tlb<'static, Hw, PerCpuAsids>, space: &AddressSpace<Hw>) -> u64 {
    this_cpu(tlb).user_root(space)
}

/// Everything in `space` is revoked, or one page.
fn flush(tlb: &Tlb<'static, Hw, PerCpuAsids>, space: &AddressSpace<Hw>, everything: bool) {
    let mut gather = Gather::new(space);
    match everything {
        true => gather.revoke_everything(),
        false => gather.revoke(VaRange::new(0x7000, 0x1000, 12).unwrap()),
    }
    let _ = this_cpu(tlb).flush(gather);
}

#[test]
fn the_user_half_of_a_fresh_slot_is_dropped_at_the_first_exit_only() {
    let tlb = machine();
    let (a, b) = (space(&tlb, 0x4000), space(&tlb, 0x8000));
    assert_eq!(this_cpu(&tlb).switch(&a), Switched::Fresh);
    // Slot 0 is tag 2, and its user half PCID 2 + 0x800.
    assert_eq!(exit(&tlb, &a), 0x5802);
    assert_eq!(exit(&tlb, &a), 0x5802 | KEEP);
    assert_eq!(this_cpu(&tlb).kernel_root(&a), 0x4002 | KEEP);
    assert_eq!(this_cpu(&tlb).switch(&b), Switched::Fresh);
    assert_eq!(this_cpu(&tlb).switch(&a), Switched::Kept);
    assert_eq!(exit(&tlb, &a), 0x5802 | KEEP);
    // The CPU switched to B and away without an exit: the flush of its user half is still pending.
    assert_eq!(this_cpu(&tlb).switch(&b), Switched::Kept);
    assert_eq!(exit(&tlb, &b), 0x9803);
}

#[test]
fn the_flush_of_an_exit_that_is_cancelled_is_done_at_the_next_one() {
    let tlb = machine();
    let (a, b) = (space(&tlb, 0x4000), space(&tlb, 0x8000));
    let _ = this_cpu(&tlb).switch(&a);
    assert_eq!(exit(&tlb, &a), 0x5802);
    this_cpu(&tlb).cancel_exit();
    let _ = (this_cpu(&tlb).switch(&b), this_cpu(&tlb).switch(&a));
    assert_eq!(exit(&tlb, &a), 0x5802);
    assert_eq!(exit(&tlb, &a), 0x5802 | KEEP);
}

#[test]
fn a_tag_that_the_load_of_the_root_flushed_is_flushed_for_user_mode_at_the_exit() {
    let tlb = machine();
    let (a, b) = (space(&tlb, 0x4000), space(&tlb, 0x8000));
    for space in [&a, &b] {
        let _ = this_cpu(&tlb).switch(space);
        let _ = exit(&tlb, space);
    }
    flush(&tlb, &a, true);
    assert_eq!(this_cpu(&tlb).switch(&a), Switched::Flushed);
    assert_eq!(exit(&tlb, &a), 0x5802);
    assert_eq!(exit(&tlb, &a), 0x5802 | KEEP);
}

#[test]
fn pages_that_are_flushed_at_switch_in_are_not_flushed_again_at_the_exit() {
    let tlb = machine();
    let (a, b) = (space(&tlb, 0x4000), space(&tlb, 0x8000));
    for space in [&a, &b] {
        let _ = this_cpu(&tlb).switch(space);
        let _ = exit(&tlb, space);
    }
    flush(&tlb, &a, false);
    assert_eq!(this_cpu(&tlb).switch(&a), Switched::Flushed);
    assert_eq!(exit(&tlb, &a), 0x5802 | KEEP);
}

#[test]
fn global_asids_refuse_flushes_that_are_left_to_the_exit() {
    for (flush, works) in [(UserFlush::AtExit, false), (UserFlush::OnLoad, true)] {
        let hw = hardware(flush);
        let words = Vec::leak((0..2).map(|_| AtomicU64::ZERO).collect());
        let config = GlobalAsidsConfig { tags: 64, ..GlobalAsidsConfig::default() };
        let tags = GlobalAsids::new(&hw, config, words).unwrap();
        let made = Tlb::new(hw, tags, Vec::leak(vec![Cpu::new()]));
        assert_eq!(made.is_ok(), works);
        assert!(works || matches!(made, Err(Error::Unsupported(_))));
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "lazy: `switch` comes before")]
fn an_exit_of_a_lazy_cpu_is_found() {
    let tlb = machine();
    let a = space(&tlb, 0x4000);
    let _ = this_cpu(&tlb).switch(&a);
    this_cpu(&tlb).lazy();
    let _ = exit(&tlb, &a);
}

#[test]
#[should_panic(expected = "this CPU does not run the space")]
fn an_exit_to_a_space_that_the_cpu_does_not_run_is_found() {
    let tlb = machine();
    let a = space(&tlb, 0x4000);
    let _ = this_cpu(&tlb).switch(&a);
    let _ = this_cpu(&tlb).park();
    let _ = exit(&tlb, &a);
}

#[test]
fn flag_07_a_missed_flush_by_invalidation_covers_both_halves_at_once() {
    let tlb = machine();
    let a = space(&tlb, 0x4000);
    let _ = this_cpu(&tlb).switch(&a);
    let _ = exit(&tlb, &a);
    let insn = || tlb.platform().insn.emptied.get();
    for everything in [true, false] {
        flush(&tlb, &a, everything);
        assert_eq!(insn(), [2, 0x802]);
        assert_eq!(exit(&tlb, &a), 0x5802 | KEEP);
    }
}

#[test]
fn the_allocator_that_is_chosen_at_run_time_flushes_at_the_exit_too() {
    let hw = hardware(UserFlush::AtExit);
    hw.mmu.set_up_cpu();
    let asids = Asids::new(AsidsConfig::default(), &mut []);
    let tlb = Tlb::new(hw, asids, Vec::leak(vec![Cpu::new()])).unwrap();
    assert_eq!(tlb.asid_scope(), AsidScope::PerCpu);
    tlb.online(&(), &FEATURES).unwrap();
    let root = Root { table: 0x4000, user_table: 0x5000 };
    let a = tlb.space(root, Vec::leak(vec![AtomicU64::ZERO])).unwrap();
    let this_cpu = tlb.this_cpu(&());
    assert_eq!(this_cpu.switch(&a), Switched::Fresh);
    assert_eq!(this_cpu.user_root(&a), 0x5802);
    assert_eq!(this_cpu.user_root(&a), 0x5802 | KEEP);
    this_cpu.cancel_exit();
    assert_eq!(this_cpu.user_root(&a), 0x5802);
}

// ---- Kernel addresses: what a CPU may hold of them under other tags is dropped before it can be used

fn flush_kernel<T: lookaside::tags::Tags<Hw>>(
    this_cpu: &lookaside::CurrentCpu<'_, Hw, T>,
    table: bool,
) {
    let page = VaRange::new(0xffff_8000_0000_0000, 0x1000, 12).unwrap();
    let mut gather = KernelGather::new(this_cpu.tlb());
    if table {
        gather.unlink_table(page);
    } else {
        gather.revoke(page);
    }
    let _ = this_cpu.flush_kernel(gather);
}

fn cr3(tlb: &Tlb<'static, Hw, PerCpuAsids>) -> u64 {
    tlb.platform().insn.cr3.get()
}

#[test]
fn a_kernel_flush_drops_the_tags_of_other_slots_at_the_next_switch_to_them() {
    let tlb = machine();
    let (a, b) = (space(&tlb, 0x4000), space(&tlb, 0x8000));
    for space in [&a, &b] {
        let _ = (this_cpu(&tlb).switch(space), exit(&tlb, space));
    }
    flush_kernel(&this_cpu(&tlb), false);
    // The page has gone from both halves of the pair that runs.
    assert_eq!(tlb.platform().insn.emptied.get(), [3, 0x803]);
    assert_eq!(exit(&tlb, &b), 0x9803 | KEEP);
    assert_eq!(this_cpu(&tlb).switch(&b), Switched::Unchanged);
    assert_eq!(this_cpu(&tlb).switch(&a), Switched::Fresh);
    assert_eq!(cr3(&tlb), 0x4002, "without the keep bit");
    assert_eq!([exit(&tlb, &a), exit(&tlb, &a)], [0x5802, 0x5802 | KEEP]);
    // Once: and the slot that was present was kept.
    assert_eq!(this_cpu(&tlb).switch(&b), Switched::Kept);
    assert_eq!(this_cpu(&tlb).switch(&a), Switched::Kept);
    assert_eq!([exit(&tlb, &a), cr3(&tlb)], [0x5802 | KEEP, 0x4002 | KEEP]);
}

#[test]
fn a_kernel_flush_leaves_the_half_of_user_mode_to_the_exit_where_a_table_was_freed() {
    let tlb = machine();
    let a = space(&tlb, 0x4000);
    let _ = (this_cpu(&tlb).switch(&a), exit(&tlb, &a));
    flush_kernel(&this_cpu(&tlb), true);
    assert_eq!([exit(&tlb, &a), exit(&tlb, &a)], [0x5802, 0x5802 | KEEP]);
}

#[test]
fn a_kernel_flush_drops_what_is_held_of_the_reserved_root_at_the_next_park() {
    let tlb = machine();
    let a = space(&tlb, 0x4000);
    let park = || {
        let _ = this_cpu(&tlb).switch(&a);
        let _ = this_cpu(&tlb).park();
        cr3(&tlb)
    };
    assert_eq!(park(), 0x1000 | KEEP);
    let _ = this_cpu(&tlb).switch(&a);
    flush_kernel(&this_cpu(&tlb), false);
    assert_eq!([park(), park()], [0x1000, 0x1000 | KEEP]);
    // A parked CPU removes it there at once, and drops the tag of every slot.
    flush_kernel(&this_cpu(&tlb), false);
    assert_eq!(tlb.platform().insn.emptied.get()[1], 0);
    assert_eq!(this_cpu(&tlb).switch(&a), Switched::Fresh);
    let _ = this_cpu(&tlb).park();
    assert_eq!(cr3(&tlb), 0x1000 | KEEP);
}

#[test]
fn a_kernel_flush_of_more_pages_than_the_ceiling_leaves_nothing() {
    let tlb = machine();
    let (a, b) = (space(&tlb, 0x4000), space(&tlb, 0x8000));
    let _ = (this_cpu(&tlb).switch(&a), this_cpu(&tlb).switch(&b));
    let flush = |pages: u64| {
        let mut gather = KernelGather::new(&tlb);
        gather.revoke(VaRange::new(0xffff_8000_0000_0000, pages << 12, 12).unwrap());
        let _ = this_cpu(&tlb).flush_kernel(gather);
    };
    // Each page is removed from two halves, and the ceiling is 33.
    flush(17);
    assert_eq!(this_cpu(&tlb).switch(&a), Switched::Kept);
    flush(16);
    assert_eq!(this_cpu(&tlb).switch(&b), Switched::Fresh);
}

#[test]
fn a_kernel_flush_of_the_allocator_that_is_chosen_at_run_time_drops_other_tags_too() {
    let hw = hardware(UserFlush::AtExit);
    hw.mmu.set_up_cpu();
    let asids = Asids::new(AsidsConfig::default(), &mut []);
    let tlb = Tlb::new(hw, asids, Vec::leak(vec![Cpu::new()])).unwrap();
    tlb.online(&(), &FEATURES).unwrap();
    let space = |table| {
        let root = Root { table, user_table: table + 0x1000 };
        tlb.space(root, Vec::leak(vec![AtomicU64::ZERO])).unwrap()
    };
    let (a, b) = (space(0x4000), space(0x8000));
    let this_cpu = tlb.this_cpu(&());
    let _ = (this_cpu.switch(&a), this_cpu.switch(&b));
    flush_kernel(&this_cpu, false);
    assert_eq!(tlb.platform().insn.emptied.get(), [3, 0x803]);
    assert_eq!(this_cpu.switch(&a), Switched::Fresh);
}

#[test]
fn storage_of_which_a_kernel_flush_has_left_one_slot_is_refused() {
    let hw = || {
        let hw = hardware(UserFlush::AtExit);
        hw.mmu.set_up_cpu();
        hw
    };
    let mut cpus = [const { Cpu::new() }];
    {
        let tlb = Tlb::new(hw(), PerCpuAsids::<6>::new(), &mut cpus).unwrap();
        tlb.online(&(), &FEATURES).unwrap();
        let space = |table| {
            let root = Root { table, user_table: table + 0x1000 };
            tlb.space(root, Vec::leak(vec![AtomicU64::ZERO])).unwrap()
        };
        let (a, b, this_cpu) = (space(0x4000), space(0x8000), tlb.this_cpu(&()));
        let _ = (this_cpu.switch(&a), this_cpu.switch(&b));
        flush_kernel(&this_cpu, false);
        let _ = this_cpu.park();
    }
    let again = Tlb::new(hw(), PerCpuAsids::<6>::new(), &mut cpus).map(drop);
    assert_eq!(again, Err(Error::UsedStorage { cpu: CpuId(0) }));
}

#[test]
fn x86_64_is_served_by_global_tags_only_with_invlpgb() {
    let choice = |pcids, invlpgb| {
        let config = Config {
            pcids,
            invlpgb: Use::WherePresent,
            tables: Tables::One,
            levels: Levels::Four,
            reserved_root: 0x1000,
        };
        let insn: &'static Insn = Box::leak(Box::default());
        let mmu = X86::new(insn, &Features { invlpgb, ..FEATURES }, config).unwrap();
        AsidsConfig::default().choose(&Hw { mmu, insn }, 4)
    };
    let invlpgb = Some(PageLimit::from_cpuid(7));
    assert_eq!(choice(Use::WherePresent, None), AsidScope::PerCpu);
    assert_eq!(choice(Use::Never, None), AsidScope::PerCpu);
    assert_eq!(choice(Use::WherePresent, invlpgb), AsidScope::Global);
    assert_eq!(choice(Use::Never, invlpgb), AsidScope::PerCpu);
}
