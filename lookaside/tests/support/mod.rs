//! A machine for host tests: real threads or pretended CPUs, and for each a TLB that holds all that
//! the walker could have brought in.
//!
//! It is a quick check that the books are kept; orderings are the explorer's business.

#![allow(dead_code, reason = "each test file uses its own part")]

#[macro_use]
mod idle;

use core::{cell::Cell, sync::atomic::AtomicU64};
use std::{collections::BTreeSet, sync::Mutex};

use lookaside::{
    CpuId, Error, Platform, Stretch, Word,
    arch::{Depth, Errata, Held, Mmu, Root, Sharing, Tag},
};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Runs `f` as the CPU with this number.
pub(crate) fn on<R>(cpu: u32, f: impl FnOnce() -> R) -> R {
    let before = CPU.replace(cpu);
    let result = f();
    CPU.set(before);
    result
}

/// What was done to one CPU's hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Settle,
    Load { table: u64, tag: u16, held: Held, sharing: Sharing },
    Park,
    FlushAll,
    FlushTag(u16),
    FlushRange(u16, u64, u64),
    FlushAllEverywhere,
    FlushTagEverywhere(u16),
}

/// Entries under `tag`, from `table`, which other CPUs may use if they are `shared`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    tag: u16,
    table: u64,
    shared: bool,
}

#[derive(Default)]
struct Hardware {
    named: Option<Entry>,
    /// Everything that entries may exist for.
    entries: BTreeSet<Entry>,
    log: Vec<Op>,
}

/// The machine.
pub(crate) struct Fake {
    pub(crate) mmu: FakeMmu,
}

pub(crate) struct FakeMmu {
    pub(crate) tag_bits: u32,
    pub(crate) sharing: Sharing,
    pub(crate) broadcasts: bool,
    cpus: Vec<Mutex<Hardware>>,
}

impl Fake {
    pub(crate) fn new(cpus: usize, tag_bits: u32) -> Self {
        let cpus = (0..cpus).map(|_| Mutex::default()).collect();
        Self { mmu: FakeMmu { tag_bits, sharing: Sharing::Private, broadcasts: true, cpus } }
    }

    pub(crate) fn shared(mut self) -> Self {
        self.mmu.sharing = Sharing::Shared;
        self
    }

    pub(crate) fn without_broadcast(mut self) -> Self {
        self.mmu.broadcasts = false;
        self
    }

    /// What was done on `cpu` since the last call.
    pub(crate) fn log(&self, cpu: u32) -> Vec<Op> {
        core::mem::take(&mut self.mmu.cpus[cpu as usize].lock().unwrap().log)
    }

    pub(crate) fn forget_logs(&self) {
        for cpu in 0..self.mmu.cpus.len() {
            self.log(cpu as u32);
        }
    }
}

impl FakeMmu {
    fn act<R>(&self, op: Op, f: impl FnOnce(&mut Hardware) -> R) -> R {
        let mut cpu = self.cpus[CPU.get() as usize].lock().unwrap();
        cpu.log.push(op);
        let result = f(&mut cpu);
        // The walker never rests.
        if let Some(named) = cpu.named {
            cpu.entries.insert(named);
            for entry in &cpu.entries {
                assert!(
                    entry.tag != named.tag || entry.table == named.table,
                    "CPU {}: tag {} names {:#x} and {:#x}",
                    CPU.get(),
                    entry.tag,
                    entry.table,
                    named.table
                );
            }
        }
        drop(cpu);
        if self.sharing == Sharing::Shared {
            self.check_shared();
        }
        result
    }

    /// No CPU may hit, under the tag it runs, what another CPU brought in for another space.
    fn check_shared(&self) {
        let cpus: Vec<_> = self.cpus.iter().map(|cpu| cpu.lock().unwrap()).collect();
        for named in cpus.iter().filter_map(|cpu| cpu.named).filter(|named| named.shared) {
            for entry in cpus.iter().flat_map(|cpu| &cpu.entries).filter(|entry| entry.shared) {
                assert!(
                    entry.tag != named.tag || entry.table == named.table,
                    "shared tag {} names two spaces",
                    entry.tag
                );
            }
        }
    }

    fn everywhere(&self, op: Op, keep: impl Fn(&Entry) -> bool) {
        for cpu in &self.cpus {
            let mut cpu = cpu.lock().unwrap();
            cpu.entries.retain(&keep);
            if let Some(named) = cpu.named {
                cpu.entries.insert(named);
            }
        }
        self.act(op, |_| ());
    }
}

// SAFETY: `CPU` is set to a number of its own by every thread that pretends to be a CPU.
unsafe impl Platform for Fake {
    type Word = AtomicU64;
    type Mmu = FakeMmu;

    fn mmu(&self) -> &FakeMmu {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn interrupt(&self, _: lookaside::Targets) {}

    fn relax(&self) {
        std::thread::yield_now();
    }
}

impl Mmu for FakeMmu {
    /// Tag bits.
    type Features = u32;

    idle_kernel!();

    fn tag_bits(&self) -> u32 {
        self.tag_bits
    }

    fn sharing(&self) -> Sharing {
        self.sharing
    }

    fn broadcasts(&self) -> bool {
        self.broadcasts
    }

    fn admit(&self, cpu: &u32) -> Result<Errata, Error> {
        if *cpu < self.tag_bits {
            return Err(Error::FewerTagBits { machine: self.tag_bits, cpu: *cpu });
        }
        Ok(Errata::NONE)
    }

    fn check_root(&self, root: Root) -> Result<(), Error> {
        if root.table == 0 || !root.table.is_multiple_of(4096) {
            return Err(Error::BadRoot { address: root.table });
        }
        Ok(())
    }

    fn settle(&self) {
        self.act(Op::Settle, |_| ());
    }

    fn load(&self, _: Errata, root: Root, tag: Tag, held: Held, sharing: Sharing) {
        let op = Op::Load { table: root.table, tag: tag.0, held, sharing };
        self.act(op, |cpu| {
            if held == Held::Drop {
                cpu.entries.retain(|entry| entry.tag != tag.0);
            }
            let shared = sharing == Sharing::Shared;
            cpu.named = Some(Entry { tag: tag.0, table: root.table, shared });
        });
    }

    fn park(&self, _: Errata) {
        self.act(Op::Park, |cpu| cpu.named = None);
    }

    fn flush_all(&self, _: Errata) {
        self.act(Op::FlushAll, |cpu| cpu.entries.clear());
    }

    fn flush_tag(&self, _: Errata, tag: Tag) {
        self.act(Op::FlushTag(tag.0), |cpu| cpu.entries.retain(|entry| entry.tag != tag.0));
    }

    fn flush_all_everywhere(&self, _: Errata) {
        assert!(self.broadcasts);
        self.everywhere(Op::FlushAllEverywhere, |_| false);
    }

    fn flush_tag_everywhere(&self, _: Errata, tag: Tag) {
        assert!(self.broadcasts);
        self.everywhere(Op::FlushTagEverywhere(tag.0), |entry| entry.tag != tag.0);
    }

    fn flush_stretches(&self, _: Errata, tag: Tag, stretches: &[Stretch], _: Depth) {
        for Stretch { range, .. } in stretches {
            self.act(Op::FlushRange(tag.0, range.start(), range.pages()), |_| ());
        }
    }
}

/// Words that live as long as the test.
pub(crate) fn words(count: usize) -> &'static [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::ZERO).collect())
}
