//! The kernel around a protocol: two spaces, a script for each CPU, and a claim to the oracle after each
//! flush.

use lookaside::platform::{CpuId, Ordering::*, Word as _};
use lookaside_machine::adversary::{
    Access, Config, Frame, Scenario, Word, access, access_store, as_cpu, irq_off, irq_on, leak,
    milestone, name, oracle, relax, tables,
};

use super::Form;
use crate::scenario::Explored;

/// The prefix of scenario names.
pub(super) const PREFIX: &str = "zoo/";

/// The space that is changed, and another one.
pub(super) const A: usize = 0;
pub(super) const B: usize = 1;

/// The tags of the two, where tags are used.
pub(super) const TAGS: [u16; 2] = [3, 4];

/// The addresses of the two pages of a space. They are in one table.
pub(super) const PAGES: [u64; 2] = [0x5000, 0x6000];

/// The most CPUs of a protocol.
pub(super) const CPUS: usize = 3;

/// A change of space A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Unmaps a page and frees its frame.
    Page(usize),
    /// Unmaps both pages.
    Both,
    /// Unmaps both pages and frees their table.
    Table,
    /// Makes a page read-only.
    Protect(usize),
    /// Unmaps a page. No program may reach its frame any more; its translation may remain cached.
    Quiet(usize),
}

impl Change {
    /// The pages that are changed.
    pub(super) fn pages(self) -> &'static [u64] {
        match self {
            Self::Page(page) | Self::Protect(page) | Self::Quiet(page) => &PAGES[page..=page],
            Self::Both | Self::Table => &PAGES,
        }
    }
}

/// An operation of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Comes up and runs A. A CPU whose script does not begin with this runs A from the beginning.
    Online,
    /// Switches to a space.
    Run(usize),
    /// Idles on the space that it runs.
    Lazy,
    /// Resumes the space that it idled on.
    Wake,
    /// Changes A.
    Take(Change),
    /// Changes A and issues the invalidation, as a thread that is moved before it is complete.
    Issue(Change),
    /// Completes that invalidation: the same thread on another CPU.
    Complete(Change),
    /// Puts another frame in place of the first page's.
    Remap,
    /// User code loads from a page.
    Load(usize),
    /// User code stores to a page.
    Store(usize),
    /// Signals the CPUs in `Await`.
    Tell,
    /// Waits for `Tell` on another CPU.
    Await,
}

/// What each CPU does, one act after the other.
pub(super) type Scripts = &'static [&'static [Act]];

/// The operations of a protocol: which CPUs are interrupted, how they acknowledge, and what each side
/// flushes.
pub(super) trait Operations: 'static {
    /// The machine.
    fn config(&self, cpus: usize) -> Config;

    /// The access rights of pages.
    const ACCESS: Access = Access::WRITE;

    /// The words that CPUs share, with names for reports.
    fn words(&self) -> Vec<(&'static str, &[Word])> {
        Vec::new()
    }

    /// `cpu` switches from a space, if it runs one, to another. Interrupts are off.
    fn switch(&self, kernel: &Kernel, cpu: usize, from: Option<usize>, to: usize);

    /// `cpu` comes up and runs A. Interrupts are off, as they are when a CPU comes up.
    fn online(&self, kernel: &Kernel, cpu: usize) {
        self.switch(kernel, cpu, None, A);
    }

    /// `cpu` idles on the space that it runs. Interrupts are off.
    fn lazy(&self, _: &Kernel, _: usize) {}

    /// `cpu` resumes the space that it idled on. Interrupts are off.
    fn wake(&self, _: &Kernel, _: usize) {}

    /// Flushes, on every CPU, what was cached of descriptors of A that have been changed.
    fn flush(&self, kernel: &Kernel, cpu: usize, change: Change);

    /// Executes a change: by default stores, flush and claim, in this order.
    fn take(&self, kernel: &Kernel, cpu: usize, change: Change) {
        kernel.clear(change);
        self.flush(kernel, cpu, change);
        kernel.claim(change);
    }

    /// Issues the invalidation that [`Self::complete`] completes. The thread then leaves the CPU.
    fn issue(&self, _: &Kernel, _: usize, _: Change) {}

    /// Completes the invalidation, on the CPU where the thread runs now.
    fn complete(&self, _: &Kernel, _: usize) {}

    /// Replaces the descriptor of the first page.
    fn remap(&self, _: &Kernel, _: usize) {}

    /// The handler of the interrupt that CPUs send each other.
    fn interrupt(&self, _: &Kernel, _: usize) {}
}

/// A space.
struct Space {
    root: Frame,
    table: Frame,
    /// The descriptor that names the table.
    parent: &'static Word,
    ptes: [&'static Word; 2],
}

impl Space {
    fn new(number: usize, access: Access) -> Self {
        let root = tables::allocate();
        for (page, va) in PAGES.into_iter().enumerate() {
            tables::map(root, va, frame(number, page), access);
        }
        let parent = tables::entry(root, PAGES[0], 1);
        let letter = ["A", "B"][number];
        name(parent, format!("table of {letter}"));
        let ptes = PAGES.map(|va| tables::pte(root, va));
        for (page, pte) in ptes.iter().enumerate() {
            name(pte, format!("page {page} of {letter}"));
        }
        // The root is allocated first, its table next.
        Self { root, table: Frame(root.0 + 1), parent, ptes }
    }
}

/// The frame of a page of a space.
const fn frame(space: usize, page: usize) -> Frame {
    Frame((space * PAGES.len() + page) as u64 + 2)
}

/// Where the first page of A is mapped to after [`Act::Remap`].
const ELSEWHERE: Frame = Frame(9);

/// The state of a kernel that does not depend on its protocol.
pub(super) struct Kernel {
    cpus: usize,
    spaces: [Space; 2],
    /// A root that maps nothing.
    pub(super) nothing: Frame,
    /// Which space each CPU runs, plus one. Private to the CPU.
    runs: [Word; CPUS],
    signalled: Word,
}

impl Kernel {
    fn new(cpus: usize, access: Access) -> Self {
        assert!(cpus <= CPUS, "a protocol has {CPUS} CPUs at most");
        Self {
            cpus,
            spaces: [A, B].map(|number| Space::new(number, access)),
            nothing: tables::allocate_reserved(),
            runs: [const { Word::ZERO }; CPUS],
            signalled: Word::ZERO,
        }
    }

    /// The top table of a space.
    pub(super) fn root(&self, space: usize) -> Frame {
        self.spaces[space].root
    }

    /// The space that `cpu`, the caller, runs.
    pub(super) fn current(&self, cpu: usize) -> Option<usize> {
        (self.runs[cpu].get() as usize).checked_sub(1)
    }

    /// All CPUs but `cpu`.
    pub(super) fn others(&self, cpu: usize) -> u64 {
        !(1 << cpu) & ((1 << self.cpus) - 1)
    }

    /// The descriptor of a page of A.
    pub(super) fn pte(&self, page: usize) -> &'static Word {
        self.spaces[A].ptes[page]
    }

    /// Maps another frame where the first page was, with a plain store.
    pub(super) fn remap(&self, access: Access) {
        self.pte(0).store(tables::page(ELSEWHERE, access), Relaxed);
    }

    /// Changes descriptors of A, with plain stores.
    pub(super) fn clear(&self, change: Change) {
        let Space { parent, ptes, .. } = &self.spaces[A];
        match change {
            Change::Page(page) | Change::Quiet(page) => ptes[page].store(0, Relaxed),
            Change::Both => ptes.iter().for_each(|pte| pte.store(0, Relaxed)),
            Change::Table => parent.store(0, Relaxed),
            Change::Protect(page) => {
                let leaf = tables::page(frame(A, page), Access::READ);
                ptes[page].store(leaf, Relaxed);
            }
        }
    }

    /// Claims to the oracle that a change is complete.
    pub(super) fn claim(&self, change: Change) {
        let Space { root, table, .. } = self.spaces[A];
        match change {
            Change::Page(page) => oracle::frame_freed(frame(A, page)),
            Change::Both => (0..PAGES.len()).for_each(|page| oracle::frame_freed(frame(A, page))),
            Change::Table => {
                oracle::table_freed(table);
                self.claim(Change::Both);
            }
            Change::Protect(page) => oracle::revoked(root, PAGES[page]),
            Change::Quiet(page) => oracle::frame_quiet(frame(A, page)),
        }
    }
}

/// Requests by interrupt, and their acknowledgements: one initiator at a time.
pub(super) struct Call {
    unacknowledged: Word,
}

impl Call {
    pub(super) const fn new() -> Self {
        Self { unacknowledged: Word::ZERO }
    }

    pub(super) fn words(&self) -> &[Word] {
        core::slice::from_ref(&self.unacknowledged)
    }

    /// Interrupts the CPUs of a mask, and does not wait.
    pub(super) fn send(&self, targets: u64) {
        if targets != 0 {
            self.unacknowledged.store(targets, Relaxed);
            lookaside_machine::adversary::interrupt(targets);
        }
    }

    /// Waits until all have acknowledged.
    pub(super) fn wait(&self) {
        while self.unacknowledged.load(Acquire) != 0 {
            relax();
        }
    }

    /// Polls `rounds` times whether all have acknowledged.
    pub(super) fn wait_for(&self, rounds: u32) {
        for _ in 0..rounds {
            if self.unacknowledged.load(Acquire) == 0 {
                return;
            }
        }
    }

    /// `cpu` acknowledges.
    pub(super) fn acknowledge(&self, cpu: usize) {
        self.unacknowledged.fetch_and(!(1 << cpu), Release);
    }
}

/// The CPUs of a mask.
pub(super) fn each(mask: u64) -> impl Iterator<Item = usize> {
    (0..CPUS).filter(move |cpu| mask & 1 << cpu != 0)
}

/// A protocol on its kernel, as a scenario.
struct Cage<P> {
    name: &'static str,
    form: Form,
    scripts: Scripts,
    make: fn(bool) -> P,
    config: Config,
}

/// The state that the CPUs share.
pub(super) struct World<P> {
    kernel: Kernel,
    protocol: P,
}

/// Opens a protocol. `make` builds the fixed variant, or the one that is described.
pub(super) fn open<P: Operations>(
    name: &'static str,
    form: Form,
    scripts: Scripts,
    make: fn(bool) -> P,
) -> Explored {
    let config = make(false).config(scripts.len()).with_levels(2);
    Explored::new(Cage { name, form, scripts, make, config })
}

impl<P: Operations> Cage<P> {
    /// Executes one operation on the CPU that runs.
    fn act(&self, world: &World<P>, cpu: usize, act: Act) {
        let World { kernel, protocol } = world;
        match act {
            Act::Online | Act::Run(_) | Act::Lazy | Act::Wake => {
                irq_off();
                self.act_closed(world, cpu, act);
                irq_on();
            }
            Act::Take(change) if self.form == Form::NoFlush => {
                kernel.clear(change);
                kernel.claim(change);
            }
            Act::Take(change) => protocol.take(kernel, cpu, change),
            Act::Issue(change) => {
                kernel.clear(change);
                if self.form != Form::NoFlush {
                    protocol.issue(kernel, cpu, change);
                }
            }
            Act::Complete(change) => {
                if self.form != Form::NoFlush {
                    protocol.complete(kernel, cpu);
                }
                kernel.claim(change);
            }
            Act::Remap if self.form == Form::NoFlush => kernel.remap(Access::WRITE),
            Act::Remap => protocol.remap(kernel, cpu),
            Act::Load(page) => {
                let _ = access(PAGES[page]);
            }
            Act::Store(page) => {
                let _ = access_store(PAGES[page], 1);
            }
            // Release: a CPU in `Await` sees everything before this.
            Act::Tell => kernel.signalled.store(1, Release),
            Act::Await => {
                while kernel.signalled.load(Acquire) == 0 {
                    relax();
                }
            }
        }
    }

    /// Runs `f` with interrupts off.
    fn act_closed(&self, world: &World<P>, cpu: usize, act: Act) {
        let World { kernel, protocol } = world;
        match act {
            Act::Online => {
                protocol.online(kernel, cpu);
                kernel.runs[cpu].set(A as u64 + 1);
            }
            Act::Run(to) => {
                protocol.switch(kernel, cpu, kernel.current(cpu), to);
                kernel.runs[cpu].set(to as u64 + 1);
            }
            Act::Lazy => {
                oracle::rests();
                protocol.lazy(kernel, cpu);
            }
            Act::Wake => {
                protocol.wake(kernel, cpu);
                oracle::wakes();
            }
            _ => {}
        }
    }
}

impl<P: Operations> Scenario for Cage<P> {
    type World = World<P>;

    fn name(&self) -> String {
        let end = match self.form {
            Form::Described => "",
            Form::Small => "/small",
            Form::Fixed => "/fixed",
            Form::NoFlush => "/no-flush",
        };
        format!("{PREFIX}{}{end}", self.name)
    }

    fn config(&self) -> Config {
        self.config.clone()
    }

    fn build(&self) -> &'static World<P> {
        let kernel = Kernel::new(self.scripts.len(), P::ACCESS);
        let world = leak(World { kernel, protocol: (self.make)(self.form == Form::Fixed) });
        for (text, words) in world.protocol.words() {
            for (index, word) in words.iter().enumerate() {
                let number = if words.len() > 1 { format!(" {index}") } else { String::new() };
                name(word, format!("{text}{number}"));
            }
        }
        name(&world.kernel.signalled, "signalled");
        for (cpu, script) in self.scripts.iter().enumerate() {
            if script.first() != Some(&Act::Online) {
                as_cpu(CpuId(cpu as u32), || {
                    world.protocol.switch(&world.kernel, cpu, None, A);
                    world.kernel.runs[cpu].set(A as u64 + 1);
                });
            }
        }
        world
    }

    fn run(&self, world: &'static World<P>, cpu: CpuId) {
        let cpu = cpu.index();
        for &act in self.scripts[cpu] {
            self.act(world, cpu, act);
            // The position in the script is the only state of a program.
            milestone();
        }
    }

    fn interrupt(&self, world: &'static World<P>, cpu: CpuId) {
        if self.form != Form::NoFlush {
            world.protocol.interrupt(&world.kernel, cpu.index());
        }
    }
}
