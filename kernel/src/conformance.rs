//! What the library's conformance tests get from this kernel: two spaces with a page, changed by the
//! functions that processes change theirs with, and a way to have something done on another CPU.

use alloc::boxed::Box;
use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

use lookaside::{
    CurrentCpu, VaRange,
    conformance::{self, Fault, ScratchSpace, Translations},
    flush::Flags,
    platform::CpuId,
};
use lookaside_kernel_abi::Kind;

use crate::{
    arch::{self, Access, MAX_CPUS, PAGE, Protection, USER},
    frame,
    lock::Lock,
    memory::Memory,
    tables::pages,
    tlb::{self, AddressSpace, Hw},
};

type Work<'w> = &'w (dyn Fn(&CurrentCpu<'_, Hw>) + Sync);

/// What each CPU is to do; null when it is done.
static WORK: [AtomicPtr<Work<'static>>; MAX_CPUS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_CPUS];

/// Tests how translations come and go, when all CPUs call [`serve`].
pub(crate) fn check(cpus: usize) -> Result<Translations, Fault> {
    let space = || {
        let memory = Memory::new().expect("memory");
        let space = AddressSpace::new(&tlb::TLB, memory.root()).expect("a fit root");
        Space { space, memory: Lock::new(memory), cleared: AtomicU64::new(0) }
    };
    // A space stays where it is while a CPU may run it.
    let mut scratch = Box::new(Scratch { cpus, spaces: [space(), space()] });
    let report = match conformance::check_translations(&tlb::this_cpu(), &*scratch) {
        Ok(report) => report,
        Err(fault) => {
            // CPUs may still run a space of it.
            core::mem::forget(scratch);
            return Err(fault);
        }
    };
    for Space { space, memory, .. } in &mut scratch.spaces {
        let _ = tlb::this_cpu().release(space);
        memory.lock().end(space);
    }
    Ok(report)
}

/// Does what this CPU is to do.
pub(crate) fn serve() {
    let work = &WORK[arch::cpu()];
    let at = work.load(Ordering::Acquire); // Acquire: pairs with the Release in `run_on`.
    // SAFETY: the CPU that stored the pointer waits until it is null.
    if let Some(todo) = unsafe { at.as_ref() } {
        todo(&tlb::this_cpu());
        work.store(ptr::null_mut(), Ordering::Release); // Release: pairs with the Acquire there.
    }
}

struct Scratch {
    cpus: usize,
    spaces: [Space; 2],
}

struct Space {
    space: AddressSpace,
    memory: Lock<Memory>,
    /// The entry that was cleared.
    cleared: AtomicU64,
}

const ADDRESS: usize = USER.start;

impl Scratch {
    fn get(&self, which: ScratchSpace) -> &Space {
        &self.spaces[which as usize]
    }

    fn exchange(&self, which: ScratchSpace) {
        let Space { memory, cleared, .. } = self.get(which);
        // Relaxed, both: only the CPU that tests touches it.
        let entry = memory.lock().tables.exchange(ADDRESS, cleared.load(Ordering::Relaxed));
        cleared.store(entry, Ordering::Relaxed);
    }

    fn fault(&self, which: ScratchSpace, access: Access) -> bool {
        let Space { space, memory, .. } = self.get(which);
        memory.lock().fault(space, ADDRESS, access).is_ok()
    }
}

impl conformance::Scratch<Hw> for Scratch {
    fn cpus(&self) -> u32 {
        self.cpus as u32
    }

    fn run_on(&self, cpu: CpuId, work: Work<'_>) {
        let mailbox = &WORK[cpu.index()];
        let at = (&raw const work).cast_mut().cast();
        mailbox.store(at, Ordering::Release); // Release: what came before.
        arch::interrupt_cpu(cpu.index());
        while !mailbox.load(Ordering::Acquire).is_null() {
            tlb::handle_ipi();
            arch::relax();
        }
    }

    fn space(&self, which: ScratchSpace) -> &AddressSpace {
        &self.get(which).space
    }

    fn page(&self) -> VaRange {
        pages(ADDRESS..ADDRESS + PAGE)
    }

    fn map(&self, which: ScratchSpace, word: u64) {
        let Space { space, memory, .. } = self.get(which);
        let mapped = memory.lock().map(space, ADDRESS, PAGE, Protection::default(), Kind::Pages);
        assert!(mapped.is_ok() && self.fault(which, Access::Read), "there is memory");
        let found = memory.lock().tables.find(ADDRESS).expect("it was mapped");
        // Relaxed: `run_on` publishes it.
        frame::words(arch::address_of(found.entry))[0].store(word, Ordering::Relaxed);
    }

    fn unmap(&self, which: ScratchSpace) {
        let Space { space, memory, .. } = self.get(which);
        assert!(memory.lock().unmap(space, ADDRESS, PAGE).is_ok(), "it is mapped");
    }

    fn clear(&self, which: ScratchSpace) {
        self.exchange(which);
    }

    fn restore(&self, which: ScratchSpace) {
        self.exchange(which);
    }

    fn allow_writes(&self, which: ScratchSpace) {
        let Space { space, memory, .. } = self.get(which);
        let writable = Protection { write: true, ..Protection::default() };
        let mut memory = memory.lock();
        let allowed = memory.protect(space, ADDRESS, PAGE, writable);
        assert!(allowed.is_ok(), "it is mapped");
        memory.tables.widen(ADDRESS, space, writable, Flags::ALL);
    }

    fn write_fault(&self, which: ScratchSpace) -> bool {
        self.fault(which, Access::Write)
    }

    fn read(&self) -> Option<u64> {
        arch::probe(ADDRESS)
    }
}
