//! What the exit of a process costs whose memory is mapped in blocks: a gibibyte, in tables of real
//! size, on CPUs that write down what they execute.

use core::{
    cell::{Cell, RefCell},
    sync::atomic::AtomicU64,
};

use crate::aarch64::Recorder;
use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Error, Gather, GlobalAsids, Platform, Tlb, VaRange,
    arch::{
        Mmu, Root,
        aarch64::{Aarch64, AddressSize, Geometry, Granule},
        riscv64::{self, Extensions, Instructions, Mode, Remote, Riscv},
    },
    contig::{Arm, Entries, Format, Full, Locked, Raw, SizeChange, Svnapot},
    counts::{Counts, Event, Outcome},
    flush::{Flags, Flushed},
    platform::{CpuId, Targets, Word},
    tags::GlobalAsidsConfig,
};

const TABLES: usize = 512;
const START: u64 = 0x4000_0000;
const TABLE_BYTES: u64 = 512 << 12;

// ---- CPUs

struct Host<M> {
    mmu: M,
    cpu: Cell<u32>,
    counts: Counts<AtomicU64>,
}

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
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(self.cpu.get())
    }

    fn send_ipi(&self, _: Targets) {
        panic!("nobody is to be interrupted");
    }

    fn relax(&self) {
        panic!("nobody is to be waited for");
    }

    fn observe(&self, _: CpuId, event: Event) {
        self.counts.count(event);
    }
}

/// A hart that writes down its fences.
#[derive(Default)]
struct Hart {
    satp: Cell<u64>,
    lines: RefCell<Vec<String>>,
}

impl Hart {
    fn line(&self, line: impl Into<String>) {
        self.lines.borrow_mut().push(line.into());
    }
}

impl Instructions for &'static Hart {
    fn sfence_vma(&self, address: Option<u64>, _: Option<u16>) {
        self.line(if address.is_some() { "sfence.vma address" } else { "sfence.vma tag" });
    }
    fn sfence_w_inval(&self) {}
    fn sinval_vma(&self, _: Option<u64>, _: Option<u16>) {
        self.line("sinval.vma");
    }
    fn sfence_inval_ir(&self) {}
    fn fence(&self) {}
    fn read_satp(&self) -> u64 {
        self.satp.get()
    }
    fn write_satp(&self, value: u64) {
        self.satp.set(value);
    }
    fn remote_sfence_vma(
        &self,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: Option<u16>,
    ) -> Result<(), Error> {
        self.line("sbi");
        Ok(())
    }
}

type Machine<M> = Tlb<'static, Host<M>, GlobalAsids<'static, Host<M>>>;

/// Two CPUs that are up.
fn machine<M: Mmu>(mmu: M, features: &M::Features) -> &'static Machine<M> {
    let host = Host { mmu, cpu: Cell::new(0), counts: Counts::new() };
    let words = (0..GlobalAsids::<Host<M>>::words_for(1 << 16)).map(|_| AtomicU64::ZERO);
    let words = Vec::leak(words.collect());
    let tags = GlobalAsids::new(&host, GlobalAsidsConfig::default(), words).unwrap();
    let cpus = Vec::leak(vec![Cpu::new(), Cpu::new()]);
    let tlb: &'static Machine<M> = Box::leak(Box::new(Tlb::new(host, tags, cpus).unwrap()));
    for cpu in [1, 0] {
        tlb.platform().cpu.set(cpu);
        tlb.online(&(), features).unwrap();
    }
    tlb
}

fn on<M: Mmu>(
    tlb: &Machine<M>,
    cpu: u32,
) -> CurrentCpu<'_, Host<M>, GlobalAsids<'static, Host<M>>> {
    tlb.platform().cpu.set(cpu);
    tlb.this_cpu(&())
}

fn space<M: Mmu>(tlb: &Machine<M>) -> AddressSpace<Host<M>> {
    tlb.space(Root::new(0x10_0000), Vec::leak(vec![AtomicU64::ZERO])).unwrap()
}

fn arm() -> (&'static Machine<Aarch64<&'static Recorder>>, &'static Recorder) {
    let recorder: &'static Recorder = Box::leak(Box::default());
    *recorder.tcr.borrow_mut() = crate::aarch64::TCR;
    let mmu = Aarch64::new(recorder, crate::aarch64::config()).unwrap();
    (machine(mmu, &crate::aarch64::features()), recorder)
}

fn riscv() -> (&'static Machine<Riscv<&'static Hart>>, &'static Hart) {
    let hart: &'static Hart = Box::leak(Box::default());
    let features = riscv64::Features {
        mode: Mode::Sv39,
        asid_bits: 16,
        extensions: Extensions::NONE,
        identity: riscv64::Identity::default(),
    };
    let config = riscv64::Config {
        mode: Mode::Sv39,
        relies_on: Extensions::NONE,
        reserved: Root::new(0x1000),
        tables: riscv64::Tables::One,
        remote: Remote::Sbi,
    };
    (machine(Riscv::new(hart, &features, config).unwrap(), &features), hart)
}

// ---- A process

/// Its last-level tables, all in blocks.
struct Process<F> {
    format: F,
    tables: Vec<Vec<AtomicU64>>,
}

impl<F: Format> Process<F> {
    fn new(format: F, page: u64, tables: usize) -> Self {
        let table = |_| (0..512).map(|_| AtomicU64::ZERO).collect();
        let process = Self { format, tables: (0..tables).map(table).collect() };
        for number in 0..tables {
            let output = START + number as u64 * TABLE_BYTES;
            process.table(number).set(0..512, format.at(Raw(page), output)).unwrap();
            assert!((0..512).all(|slot| process.table(number).get(slot).unwrap().is_folded()));
        }
        process
    }

    fn table(&self, number: usize) -> Locked<'_, AtomicU64, F> {
        let start = START + number as u64 * TABLE_BYTES;
        let entries = Entries::new(self.format, &self.tables[number], start).unwrap();
        // SAFETY: no hardware walks the table, and there is one thread.
        unsafe { entries.locked(SizeChange::Flushed) }
    }

    /// What `exit` does: all tables into one gather, one flush, and everything is free.
    fn exit<M: Mmu>(
        &self,
        this_cpu: &CurrentCpu<'_, Host<M>, GlobalAsids<'static, Host<M>>>,
        space: &AddressSpace<Host<M>>,
    ) -> Flushed<Vec<(u64, usize)>> {
        let mut gather = Gather::holding(space, Vec::new());
        for number in 0..self.tables.len() {
            let mut flush = this_cpu.flush_blocks(space);
            // That this CPU still runs the space is no matter: no block is cut.
            let cleared = self.table(number).get_and_clear(0..512, Full::No, &mut flush).unwrap();
            assert_eq!(cleared.present, 512);
            gather.found(cleared.flags);
            let start = START + number as u64 * TABLE_BYTES;
            let output = self.format.output(Raw(cleared.first.bits()));
            gather.hold_table(VaRange::new(start, TABLE_BYTES, 12).unwrap(), (output, number));
        }
        let flushed = this_cpu.flush(gather);
        let expected =
            (0..self.tables.len()).map(|number| (START + number as u64 * TABLE_BYTES, number));
        assert!(flushed.frames.iter().copied().eq(expected));
        flushed
    }
}

const ARM_PAGE: u64 = 0b11 | 1 << 7 | 1 << 10 | 1 << 11 | 1 << 51;
const RISCV_PAGE: u64 = 0b101_0111;

fn arm_process(tables: usize) -> Process<Arm> {
    let format = Arm::new(Geometry::new(Granule::K4, AddressSize::Bits48));
    let process = Process::new(format, ARM_PAGE, tables);
    // A store to some page, noted somewhere.
    process.tables[tables / 2][77].fetch_and(!(1 << 7), lookaside::platform::Ordering::Relaxed);
    process
}

fn riscv_process(tables: usize) -> Process<Svnapot> {
    let process = Process::new(Svnapot, RISCV_PAGE, tables);
    process.tables[tables / 2][77].fetch_or(1 << 7, lookaside::platform::Ordering::Relaxed);
    process
}

/// How many flushes ended in which way.
fn outcomes<M: Mmu>(tlb: &Machine<M>) -> [u64; 5] {
    let counts = &tlb.platform().counts;
    assert_eq!(counts.interrupted(), 0);
    [Outcome::NoCpu, Outcome::Local, Outcome::Retagged, Outcome::Broadcast, Outcome::Ipis]
        .map(|outcome| counts.flushes(outcome))
}

const USED_AND_DIRTY: Flags = Flags { accessed: true, dirty: true };

#[test]
fn cont_10_the_exit_of_a_gibibyte_flushes_once_and_for_one_cpu_locally_on_arm() {
    let (tlb, recorder) = arm();
    let (space, process) = (space(tlb), arm_process(TABLES));
    let _ = on(tlb, 0).switch(&space);
    recorder.take();
    assert_eq!(process.exit(&on(tlb, 0), &space).flags, USED_AND_DIRTY);
    // 16384 blocks in 512 tables: one instruction, which names the range, for this CPU alone.
    let executed = recorder.take();
    let flushes: Vec<_> = executed.iter().filter(|line| line.starts_with("tlbi")).collect();
    assert_eq!(flushes.len(), 1, "{executed:?}");
    assert!(flushes[0].starts_with("tlbi rva "), "{executed:?}");
    assert_eq!(outcomes(tlb), [0, 1, 0, 0, 0]);
}

#[test]
fn cont_10_the_exit_of_a_gibibyte_flushes_once_and_for_one_cpu_locally_on_riscv() {
    let (tlb, hart) = riscv();
    let (space, process) = (space(tlb), riscv_process(TABLES));
    let _ = on(tlb, 0).switch(&space);
    hart.lines.take();
    assert_eq!(process.exit(&on(tlb, 0), &space).flags, USED_AND_DIRTY);
    assert_eq!(hart.lines.take(), ["sfence.vma tag"]);
    assert_eq!(outcomes(tlb), [0, 1, 0, 0, 0]);
}

#[test]
fn cont_10_cont_11_a_gibibyte_that_two_cpus_run_is_free_after_one_broadcast() {
    let (tlb, recorder) = arm();
    let (space, process) = (space(tlb), arm_process(TABLES));
    for cpu in [1, 0] {
        let _ = on(tlb, cpu).switch(&space);
    }
    recorder.take();
    let _ = process.exit(&on(tlb, 0), &space);
    let executed = recorder.take();
    let flushes: Vec<_> = executed.iter().filter(|line| line.starts_with("tlbi")).collect();
    assert_eq!(flushes.len(), 1, "{executed:?}");
    assert!(flushes[0].starts_with("tlbi rvais "), "{executed:?}");
    assert_eq!(outcomes(tlb), [0, 0, 0, 1, 0]);
}

#[test]
fn cont_10_page_by_page_each_block_would_be_flushed() {
    let (tlb, _) = arm();
    let (space, process) = (space(tlb), arm_process(1));
    let this_cpu = on(tlb, 0);
    let _ = this_cpu.switch(&space);
    for slot in 0..512 {
        let mut flush = this_cpu.flush_blocks(&space);
        let cleared = process.table(0).get_and_clear(slot..slot + 1, Full::No, &mut flush);
        assert_eq!(cleared.unwrap().present, 1);
    }
    // That would be 16384 for a gibibyte. The batch of above has none.
    assert_eq!(outcomes(tlb), [0, 32, 0, 0, 0]);
}

#[test]
fn a_space_of_another_tlb_is_refused_before_a_block_is_taken_out() {
    let (tlb, _) = arm();
    let (other, _) = arm();
    let (space, this_cpu) = (space(other), on(tlb, 0));
    let refused = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        drop(this_cpu.flush_blocks(&space))
    }));
    assert!(refused.is_err(), "and not in the flush of a block");
}

#[test]
fn cont_06_a_space_that_nobody_runs_may_go_in_any_pieces_without_a_flush() {
    let (tlb, recorder) = arm();
    let (space, process) = (space(tlb), arm_process(1));
    let this_cpu = on(tlb, 0);
    let _ = this_cpu.switch(&space);
    let _ = this_cpu.park();
    recorder.take();
    let mut found = Flags::default();
    for slot in 0..512 {
        let mut flush = this_cpu.flush_blocks(&space);
        let cleared = process.table(0).get_and_clear(slot..slot + 1, Full::Yes, &mut flush);
        found |= cleared.unwrap().flags;
    }
    assert_eq!(recorder.take(), [""; 0]);
    assert_eq!(outcomes(tlb), [0; 5]);
    assert_eq!(found, USED_AND_DIRTY);
}
