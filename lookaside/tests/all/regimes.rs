//! Global ASIDs over the instructions of Arm64: errata of one CPU, firmware, and guests' tags beside
//! those of processes.

use core::{
    cell::{Cell, RefCell},
    sync::atomic::AtomicU64,
};

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, GlobalAsids, Platform, Tlb,
    arch::{
        Mmu, Root, Sharing,
        aarch64::{
            Aarch64, AsidIn, Config, Dsb, Features, IdRegisters, Instructions, Pairing, Scope,
            Stage2, Stage2Config, Tlbi, TlbiOp,
        },
    },
    platform::{CpuId, Word},
    tags::{GlobalAsidsConfig, Released, Switched},
};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    static LOG: RefCell<Vec<Op>> = const { RefCell::new(Vec::new()) };
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Tlbi(TlbiOp, Scope),
    Barrier,
    /// Tag and table.
    Ttbr0(u64, u64),
    IcIallu,
}

fn log(op: Op) {
    LOG.with_borrow_mut(|log| log.push(op));
}

/// What was executed since the last call, barriers left out.
fn executed() -> Vec<Op> {
    LOG.take().into_iter().filter(|&op| op != Op::Barrier).collect()
}

struct Insn;

impl Instructions for Insn {
    fn tlbi(&self, tlbi: Tlbi) {
        log(Op::Tlbi(tlbi.op, tlbi.scope));
    }
    fn dsb(&self, _: Dsb) {
        log(Op::Barrier);
    }
    fn isb(&self) {
        log(Op::Barrier);
    }
    fn write_ttbr0(&self, value: u64) {
        log(Op::Ttbr0(value >> 48, value & 0xffff_ffff_ffff));
    }
    fn read_ttbr1(&self) -> u64 {
        0
    }
    fn write_ttbr1(&self, _: u64) {}
    fn ic_iallu(&self) {
        log(Op::IcIallu);
    }
}

struct Host<M>(M);

// SAFETY: there is one thread, which is one CPU at a time.
unsafe impl<M: Mmu> Platform for Host<M> {
    type Word = AtomicU64;
    type Mmu = M;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = &'static mut [AtomicU64];

    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &M {
        &self.0
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn send_ipi(&self, _: lookaside::platform::Targets) {}

    fn relax(&self) {}
}

type Machine<M> = Tlb<'static, Host<M>, GlobalAsids<'static, Host<M>>>;

fn words(count: usize) -> &'static mut [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::ZERO).collect())
}

fn machine<M: Mmu>(mmu: M, cpus: usize) -> Machine<M> {
    let (host, config) = (Host(mmu), GlobalAsidsConfig::default());
    let storage = words(GlobalAsids::<Host<M>>::words_for(config.tags));
    let tags = GlobalAsids::new(&host, config, storage).unwrap();
    Tlb::new(host, tags, Vec::leak((0..cpus).map(|_| Cpu::new()).collect())).unwrap()
}

fn on<M: Mmu, R>(
    cpu: u32,
    tlb: &Machine<M>,
    f: impl FnOnce(&mut CurrentCpu<'_, Host<M>, GlobalAsids<'static, Host<M>>>) -> R,
) -> R {
    CPU.set(cpu);
    f(&mut tlb.this_cpu(&()))
}

/// Brings up a CPU whose ID registers say that it is of this model.
fn come_up<M: Mmu<Features = Features>>(cpu: u32, tlb: &Machine<M>, midr: u64) {
    CPU.set(cpu);
    tlb.online(&(), &features(midr)).unwrap();
}

fn space<M: Mmu>(tlb: &Machine<M>, number: u64) -> AddressSpace<Host<M>> {
    tlb.space(Root::new(number << 16), words(1)).unwrap()
}

/// Tags of 16 bits, 48-bit physical addresses.
fn features(midr: u64) -> Features {
    let id = IdRegisters { midr, mmfr0: 5 | 2 << 4, mmfr1: 2 << 4, ..IdRegisters::default() };
    Features::decode(id)
}

fn stage1() -> Aarch64<Insn> {
    let config = Config {
        features: features(0),
        tcr: 16 | 5 << 32 | 1 << 36,
        reserved_root: 0x1000,
        sharing: Sharing::Private,
        pairing: Pairing::Single,
        asid_in: AsidIn::Ttbr0,
    };
    Aarch64::new(Insn, config).unwrap()
}

/// Cavium ThunderX, CN88XX pass 1.0.
const THUNDERX: u64 = 0x43 << 24 | 0xf << 16 | 0xa1 << 4;

#[test]
fn asid_13_only_the_affected_cpu_invalidates_its_instruction_cache_and_for_firmware_too() {
    let tlb = machine(stage1(), 2);
    come_up(0, &tlb, THUNDERX);
    come_up(1, &tlb, 0);
    let user = space(&tlb, 1);
    for (cpu, affected) in [(0, true), (1, false)] {
        // Each change of the tag, and whether the cache went after it.
        let changes = |what: &str| {
            let log = executed();
            let roots = log.iter().filter(|op| matches!(op, Op::Ttbr0(..))).count();
            let fixes = log.iter().filter(|&&op| op == Op::IcIallu).count();
            assert!(roots > 0, "{what}: {log:?}");
            assert_eq!(fixes, if affected { roots } else { 0 }, "CPU {cpu}, {what}: {log:?}");
        };
        executed();
        let _ = on(cpu, &tlb, |this_cpu| this_cpu.switch(&user));
        changes("switch");
        assert_eq!(on(cpu, &tlb, |this_cpu| this_cpu.switch(&user)), Switched::Unchanged);
        assert_eq!(executed(), [], "nothing changes");
        on(cpu, &tlb, |this_cpu| {
            this_cpu.with_root(&Root::new(0x9000), || changes("firmware entered")).unwrap();
            changes("firmware left");
        });
        let _ = on(cpu, &tlb, |this_cpu| this_cpu.park());
        changes("park");
    }
}

/// T0SZ 24, start at level 1, 4 KiB, 48 bits, 16-bit VMIDs.
const VTCR: u64 = 24 | 1 << 6 | 5 << 16 | 1 << 19;

fn stage2() -> Stage2<Insn> {
    let config = Stage2Config {
        features: features(0),
        vtcr: VTCR,
        reserved_root: 0x2000,
        sharing: Sharing::Private,
    };
    Stage2::new(Insn, config).unwrap()
}

#[test]
fn asid_10_a_guests_tag_comes_back_only_after_every_cpu_was_told_to_forget_it() {
    let tlb = machine(stage2(), 2);
    let (mut guest, other) = (space(&tlb, 1), space(&tlb, 2));
    for cpu in 0..2 {
        come_up(cpu, &tlb, 0);
        let _ = on(cpu, &tlb, |this_cpu| this_cpu.switch(&guest));
    }
    let tag = guest.cookie().tag();
    let _ = on(1, &tlb, |this_cpu| this_cpu.park());
    let _ = on(0, &tlb, |this_cpu| this_cpu.switch(&other));
    executed();
    assert_eq!(on(0, &tlb, |this_cpu| this_cpu.release(&mut guest)), Released::AtOnce);
    // Stage 2 cannot name a VMID that is not loaded: all of them go.
    assert_eq!(executed(), [Op::Tlbi(TlbiOp::Alle1, Scope::Broadcast)]);
    let next = space(&tlb, 3);
    let _ = on(0, &tlb, |this_cpu| this_cpu.switch(&next));
    assert_eq!(next.cookie().tag(), tag);
}

#[test]
fn asid_15_processes_and_guests_have_tags_of_their_own() {
    let (processes, guests) = (machine(stage1(), 1), machine(stage2(), 1));
    come_up(0, &processes, 0);
    come_up(0, &guests, 0);
    let (process, guest) = (space(&processes, 1), space(&guests, 2));
    let _ = on(0, &processes, |this_cpu| this_cpu.switch(&process));
    let _ = on(0, &guests, |this_cpu| this_cpu.switch(&guest));
    // The same number in both, and neither is in the other's way.
    assert_eq!(process.cookie(), guest.cookie());
    // Turning the guests' epoch leaves the processes' alone.
    for number in 3..70_000 {
        let _ = on(0, &guests, |this_cpu| this_cpu.switch(&space(&guests, number)));
        if guests.tags().epoch() > 1 {
            break;
        }
    }
    assert_eq!((guests.tags().epoch(), processes.tags().epoch()), (2, 1));
    executed();
    assert_eq!(on(0, &processes, |this_cpu| this_cpu.switch(&process)), Switched::Unchanged);
    assert_eq!(executed(), []);
}
