//! What the instructions and the kernel's own calls do to translations, tried on each CPU.

use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::Fault;
use crate::{
    arch::Mmu,
    ids::CpuId,
    platform::Platform,
    range::VaRange,
    space::AddressSpace,
    tlb::{CurrentCpu, Tags},
};

/// One of the two scratch spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScratchSpace {
    /// The first.
    A,
    /// The second.
    B,
}

/// What a kernel gives [`check_translations`]: two address spaces that nothing else uses, with one page in
/// each, at the same user address, which is not mapped at first.
///
/// [`Self::map`], [`Self::unmap`], [`Self::allow_writes`] and [`Self::write_fault`] go through the
/// functions with which the kernel does this for its processes: these are what is tested. The others are
/// for the test alone. All of them are called with interrupts off.
pub trait Scratch<P: Platform, T: Tags<P> = crate::tags::Asids<'static, P>>: Sync {
    /// How many CPUs should be online: `0..cpus`. It comes from the firmware's tables, not from what has
    /// called [`Tlb::online`](crate::Tlb::online).
    fn cpus(&self) -> u32;

    /// Calls `work` on another CPU, with interrupts off, and returns when it has returned. What was stored
    /// before is visible to it, and what it has stored is visible afterwards. The caller handles requests
    /// while it waits ([`CurrentCpu::handle_ipi`]); between two calls, so does that CPU, or has interrupts
    /// on, and does not switch.
    fn run_on(&self, cpu: CpuId, work: &(dyn Fn(&CurrentCpu<'_, P, T>) + Sync));

    /// The space.
    fn space(&self, which: ScratchSpace) -> &AddressSpace<P>;

    /// The page.
    fn page(&self) -> VaRange;

    /// Maps the page, for reads alone, to a frame that holds `word` in its first eight bytes.
    fn map(&self, which: ScratchSpace, word: u64);

    /// Unmaps the page, and flushes.
    fn unmap(&self, which: ScratchSpace);

    /// Clears the entry of the page, and neither flushes nor frees anything. [`Self::restore`] comes next.
    fn clear(&self, which: ScratchSpace);

    /// Writes the entry again that [`Self::clear`] has cleared.
    fn restore(&self, which: ScratchSpace);

    /// Makes the page writable, in its entry and in whatever the page-fault handler looks at.
    fn allow_writes(&self, which: ScratchSpace);

    /// Handles a page fault on the CPU that executes the call, which runs the space: user mode has tried to
    /// write to the page. Returns whether the thread would try again, and not be killed or get a signal.
    fn write_fault(&self, which: ScratchSpace) -> bool;

    /// Reads the first eight bytes of the page by its user address, on the CPU that executes the call,
    /// once. Returns none if the access faults: the page-fault handler is not called.
    #[doc(alias = "copy_from_user_nofault")]
    fn read(&self) -> Option<u64>;
}

/// What [`check_translations`] has tried, and how far it proves anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translations {
    /// On how many CPUs.
    pub cpus: u32,
    /// On how many of them the page could still be read after its entry was cleared and before it was
    /// flushed. The others had forgotten the translation by themselves, so that a missing flush would not
    /// have shown.
    pub kept: u32,
    /// The same after the CPU had left the space and come back. Tags that do nothing, and an emulator that
    /// flushes at every change of the root, make this zero.
    pub kept_over_switch: u32,
}

impl fmt::Display for Translations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpus, kept, kept_over_switch } = *self;
        write!(f, "{cpus} CPUs")?;
        let mut part = |seen: u32, when: &str| match seen {
            0 => write!(f, "; no stale entry was seen {when}: flushes are not proved there"),
            _ => write!(f, "; stale entries seen {when}, on {seen}, and gone after the flush"),
        };
        part(kept, "on a CPU that runs the space")?;
        part(kept_over_switch, "on a CPU that comes back to it")
    }
}

/// Tests what each CPU reads while spaces are switched, mapped, unmapped and allowed more, all from this
/// CPU. Afterwards every CPU runs no space.
///
/// Every other CPU is up, and executes what [`Scratch::run_on`] gives it; nothing else switches or flushes
/// meanwhile.
///
/// # Errors
///
/// The first [`Fault`] that is found. CPUs may then still run a scratch space.
pub fn check_translations<P: Platform, T: Tags<P>, S: Scratch<P, T>>(
    this_cpu: &CurrentCpu<'_, P, T>,
    scratch: &S,
) -> Result<Translations, Fault> {
    let cpus = (0..scratch.cpus()).map(CpuId);
    if let Some(cpu) = cpus.clone().find(|&cpu| !this_cpu.tlb.is_online(cpu)) {
        return Err(Fault::NotOnline { cpu });
    }
    let mut report = Translations::default();
    let mut last_word = FIRST_WORD;
    for cpu in cpus {
        let mut subject = Subject { this_cpu, scratch, cpu, last_word };
        subject.check_tags()?;
        report.kept += u32::from(subject.check_flush()?);
        report.kept_over_switch += u32::from(subject.check_return()?);
        subject.check_spurious_fault()?;
        subject.act(&|cpu| _ = cpu.park());
        report.cpus += 1;
        last_word = subject.last_word;
    }
    Ok(report)
}

/// No frame has it; those that follow are the words of the frames, in order.
const FIRST_WORD: u64 = 0x5c7a_7c40_0000_0000;

/// The CPU that runs the scratch spaces. Another one, or the same, changes them.
struct Subject<'c, 't, P: Platform, T: Tags<P>, S> {
    this_cpu: &'c CurrentCpu<'t, P, T>,
    scratch: &'c S,
    cpu: CpuId,
    /// The latest word that a frame was given. No two frames get the same one.
    last_word: u64,
}

use ScratchSpace::{A, B};

impl<P: Platform, T: Tags<P>, S: Scratch<P, T>> Subject<'_, '_, P, T, S> {
    /// Two spaces have different pages at one address.
    fn check_tags(&mut self) -> Result<(), Fault> {
        let words = [self.map(A), self.map(B)];
        for (space, own, other) in [(A, 0, 1), (B, 1, 0), (A, 0, 1)] {
            self.switch(space);
            match self.read() {
                Some(word) if word == words[other] => {
                    return Err(Fault::OtherSpace { cpu: self.cpu });
                }
                found => self.must_be(words[own], found)?,
            }
        }
        self.scratch.unmap(B);
        self.scratch.unmap(A);
        Ok(())
    }

    /// A page is unmapped while the CPU runs its space. Returns whether its translation would have stayed
    /// without the flush.
    fn check_flush(&mut self) -> Result<bool, Fault> {
        self.switch(A);
        let word = self.map(A);
        let found = self.read();
        self.must_be(word, found)?;
        self.scratch.clear(A);
        let kept = self.read().is_some();
        self.scratch.restore(A);
        self.act(&|cpu| cpu.map(self.scratch.space(A), self.scratch.page()));
        let found = self.read();
        self.must_be(word, found)?;
        self.scratch.unmap(A);
        self.must_be_gone(false)?;
        Ok(kept)
    }

    /// A page is unmapped while the CPU does not run its space. Returns whether its translation would have
    /// stayed without the flush.
    fn check_return(&mut self) -> Result<bool, Fault> {
        self.switch(A);
        let word = self.map(A);
        let found = self.read();
        self.must_be(word, found)?;
        self.switch(B);
        self.scratch.clear(A);
        self.switch(A);
        let kept = self.read().is_some();
        self.scratch.restore(A);
        self.act(&|cpu| cpu.map(self.scratch.space(A), self.scratch.page()));
        let found = self.read();
        self.must_be(word, found)?;
        self.switch(B);
        self.scratch.unmap(A);
        self.switch(A);
        self.must_be_gone(true)?;
        Ok(kept)
    }

    /// The CPU has cached an entry for reads, and writes when the entry allows it.
    fn check_spurious_fault(&mut self) -> Result<(), Fault> {
        self.switch(A);
        let word = self.map(A);
        let found = self.read();
        self.must_be(word, found)?;
        self.scratch.allow_writes(A);
        let (goes_on, counted) = (AtomicBool::new(false), AtomicBool::new(false));
        // Relaxed, all: `run_on` orders them.
        self.act(&|cpu| {
            let before = cpu.spurious_faults();
            goes_on.store(self.scratch.write_fault(A), Ordering::Relaxed);
            counted.store(cpu.spurious_faults() != before, Ordering::Relaxed);
        });
        if !goes_on.into_inner() {
            return Err(Fault::SpuriousFaultRefused { cpu: self.cpu });
        }
        if !counted.into_inner() && !self.this_cpu.mmu().properties().faults_forget {
            return Err(Fault::SpuriousFaultStays { cpu: self.cpu });
        }
        self.scratch.unmap(A);
        Ok(())
    }

    /// Maps the page to a frame with a word of its own, which the CPU can use then if it runs the space.
    fn map(&mut self, which: ScratchSpace) -> u64 {
        self.last_word += 1;
        self.scratch.map(which, self.last_word);
        self.act(&|cpu| cpu.map(self.scratch.space(which), self.scratch.page()));
        self.last_word
    }

    fn switch(&self, which: ScratchSpace) {
        self.act(&|cpu| _ = cpu.switch(self.scratch.space(which)));
    }

    fn read(&self) -> Option<u64> {
        let (word, is_mapped) = (AtomicU64::new(0), AtomicBool::new(false));
        // Relaxed, all: `run_on` orders them.
        self.act(&|_| {
            if let Some(found) = self.scratch.read() {
                word.store(found, Ordering::Relaxed);
                is_mapped.store(true, Ordering::Relaxed);
            }
        });
        is_mapped.into_inner().then_some(word.into_inner())
    }

    fn must_be(&self, word: u64, found: Option<u64>) -> Result<(), Fault> {
        let cpu = self.cpu;
        match found {
            Some(found) if found == word => Ok(()),
            // A page that was unmapped before this one was mapped.
            Some(found) if (FIRST_WORD..word).contains(&found) => {
                Err(Fault::Stale { cpu, returned: false })
            }
            _ => Err(Fault::Unreadable { cpu, found }),
        }
    }

    fn must_be_gone(&self, returned: bool) -> Result<(), Fault> {
        match self.read() {
            Some(_) => Err(Fault::Stale { cpu: self.cpu, returned }),
            None => Ok(()),
        }
    }

    /// Calls `work` on the CPU.
    fn act(&self, work: &(dyn Fn(&CurrentCpu<'_, P, T>) + Sync)) {
        if self.cpu == self.this_cpu.id() {
            work(self.this_cpu);
        } else {
            self.scratch.run_on(self.cpu, work);
        }
    }
}
