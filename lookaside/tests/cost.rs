//! What the common paths cost, in accesses to memory that CPUs share: words that count.
//!
//! A word belongs to the CPU whose storage it is in, to the space whose storage it is in, or to
//! everybody. On the common paths nothing of the last kind may be written, because each such write
//! takes a cache line away from every other CPU.

#[macro_use]
#[path = "support/idle.rs"]
mod idle;

use core::{
    cell::{Cell, RefCell},
    ops::Range,
    sync::atomic::AtomicU64,
};

use lookaside::{
    Cpu, CpuId, Epochs, EpochsConfig, Here, Ordering, Platform, Recent, Released, Residents, Space,
    Switched, Tags, Tlb, Word,
    arch::{Errata, Held, Mmu, Root, Sharing, Tag},
};

// ---- Words that count

/// What was done to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Load,
    Store,
    /// Read, modified and written in one.
    Rmw,
}

thread_local! {
    static ACCESSES: RefCell<Vec<(usize, Kind)>> = const { RefCell::new(Vec::new()) };
    /// How often a TLB was told to forget something.
    static FLUSHES: Cell<usize> = const { Cell::new(0) };
    static CPU: Cell<u32> = const { Cell::new(0) };
}

struct Counted(AtomicU64);

impl Counted {
    fn note(&self, kind: Kind) -> &AtomicU64 {
        ACCESSES.with_borrow_mut(|all| all.push((core::ptr::from_ref(self).addr(), kind)));
        &self.0
    }
}

impl Word for Counted {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the constant is a template: each use makes a word of its own"
    )]
    const ZERO: Self = Self(AtomicU64::new(0));

    fn load(&self, order: Ordering) -> u64 {
        self.note(Kind::Load).load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.note(Kind::Store).store(value, order);
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.note(Kind::Rmw).swap(value, order)
    }

    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.note(Kind::Rmw).compare_exchange(current, new, success, failure)
    }

    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.note(Kind::Rmw).fetch_add(value, order)
    }

    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.note(Kind::Rmw).fetch_or(bits, order)
    }

    fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        self.note(Kind::Rmw).fetch_and(bits, order)
    }

    fn fence(order: Ordering) {
        core::sync::atomic::fence(order);
    }
}

// ---- The machine

struct Host {
    mmu: HostMmu,
}

struct HostMmu;

// SAFETY: there is one thread, which is one CPU at a time.
unsafe impl Platform for Host {
    type Word = Counted;
    type Mmu = HostMmu;

    fn mmu(&self) -> &HostMmu {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn interrupt(&self, _: lookaside::Targets) {}

    fn relax(&self) {}
}

fn flushed() {
    FLUSHES.set(FLUSHES.get() + 1);
}

impl Mmu for HostMmu {
    idle_admission!();
    idle_kernel!();

    fn tag_bits(&self) -> u32 {
        12
    }

    fn broadcasts(&self) -> bool {
        true
    }

    fn load(&self, _: Errata, _: Root, _: Tag, held: Held, _: Sharing) {
        if held == Held::Drop {
            flushed();
        }
    }

    fn park(&self, _: Errata) {}

    fn flush_all(&self, _: Errata) {
        flushed();
    }

    fn flush_tag(&self, _: Errata, _: Tag) {
        flushed();
    }

    fn flush_all_everywhere(&self, _: Errata) {
        flushed();
    }

    fn flush_tag_everywhere(&self, _: Errata, _: Tag) {
        flushed();
    }
}

fn words(count: usize) -> &'static [Counted] {
    Vec::leak((0..count).map(|_| Counted::ZERO).collect())
}

type Machine<T> = Tlb<'static, Host, T>;

const CPUS: u32 = 2;

fn machine<T: Tags<Host>>(tags: T) -> Machine<T> {
    let cpus = Vec::leak((0..CPUS).map(|_| Cpu::new()).collect());
    let tlb = Tlb::new(Host { mmu: HostMmu }, tags, cpus).unwrap();
    for cpu in 0..CPUS {
        on(cpu, &tlb, |here| here.online(&()).unwrap());
    }
    tlb
}

fn epochs() -> Machine<Epochs<'static, Host>> {
    let (host, config) = (Host { mmu: HostMmu }, EpochsConfig::default());
    let storage = words(Epochs::<Host>::words_for(config.tags));
    machine(Epochs::new(&host, config, storage).unwrap())
}

/// A space and the storage of its residents.
struct Spaced {
    space: Space<'static, Host>,
    storage: &'static [Counted],
}

impl core::ops::Deref for Spaced {
    type Target = Space<'static, Host>;

    fn deref(&self) -> &Self::Target {
        &self.space
    }
}

fn space<T: Tags<Host>>(tlb: &Machine<T>, number: u64) -> Spaced {
    let storage = words(Residents::<Counted>::words_for(tlb.cpus().len()));
    // SAFETY: no hardware walks this root.
    let space = unsafe { tlb.space(Root::new(number << 12), storage) }.unwrap();
    Spaced { space, storage }
}

fn on<T: Tags<Host>, R>(cpu: u32, tlb: &Machine<T>, f: impl FnOnce(Here<'_, Host, T>) -> R) -> R {
    CPU.set(cpu);
    // SAFETY: a test thread is a CPU without interrupts.
    f(unsafe { tlb.here() }.unwrap())
}

// ---- The account

/// What one operation did to memory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Account {
    /// Reads, modifies and writes in one, wherever.
    rmws: usize,
    /// Writes of either kind to the storage of the CPU that executes.
    own: usize,
    /// Writes of either kind to the storage of the space.
    space: usize,
    /// Writes of either kind to anything else.
    shared: usize,
    /// Invalidations.
    flushes: usize,
}

fn bytes<T: ?Sized>(value: &T) -> Range<usize> {
    let start = core::ptr::from_ref(value).cast::<u8>().addr();
    start..start + size_of_val(value)
}

/// Runs `f` on a CPU that has just been told of nothing, and says what it did.
fn account<T: Tags<Host>, R>(
    cpu: u32,
    tlb: &Machine<T>,
    space: &Spaced,
    f: impl FnOnce(Here<'_, Host, T>) -> R,
) -> (R, Account) {
    let own = bytes(&tlb.cpus()[cpu as usize]);
    let of_space = [bytes(&**space), bytes(space.storage)];
    ACCESSES.take();
    FLUSHES.set(0);
    let result = on(cpu, tlb, f);
    let mut account = Account { flushes: FLUSHES.get(), ..Account::default() };
    for (address, kind) in ACCESSES.take() {
        account.rmws += usize::from(kind == Kind::Rmw);
        if kind == Kind::Load {
        } else if own.contains(&address) {
            account.own += 1;
        } else if of_space.iter().any(|bytes| bytes.contains(&address)) {
            account.space += 1;
        } else {
            account.shared += 1;
        }
    }
    (result, account)
}

// ---- What is promised

#[test]
fn asid_17_a_switch_within_the_epoch_is_one_rmw_and_writes_only_the_cpus_own_words() {
    let tlb = epochs();
    let spaces = [space(&tlb, 1), space(&tlb, 2)];
    // Each CPU has run each space, and runs the one that is not entered next.
    for cpu in [0, 1] {
        for space in &spaces {
            let _ = on(cpu, &tlb, |here| here.switch(space));
        }
    }
    for cpu in [0, 1] {
        for space in &spaces {
            let (switched, cost) = account(cpu, &tlb, space, |here| here.switch(space));
            assert_eq!(switched, Switched::Kept);
            assert_eq!((cost.rmws, cost.space, cost.shared), (1, 0, 0), "{cost:?}");
            assert_eq!(cost.flushes, 0, "a switch invalidates nothing");
            assert!(cost.own > 0, "{cost:?}");
        }
    }
}

#[test]
fn the_first_visit_of_a_cpu_to_a_space_writes_its_residency_under_the_books() {
    let tlb = epochs();
    let space = space(&tlb, 1);
    let _ = on(0, &tlb, |here| here.switch(&space));
    // CPU 1 must join the epoch first; afterwards only its residency is new, and the books are
    // opened and closed for it.
    let _ = on(1, &tlb, |here| here.switch(&another(&tlb)));
    let (switched, cost) = account(1, &tlb, &space, |here| here.switch(&space));
    assert_eq!(switched, Switched::Kept);
    assert_eq!((cost.rmws, cost.space, cost.shared), (3, 3, 0), "{cost:?}");
}

/// Any space that is not looked at further.
fn another<T: Tags<Host>>(tlb: &Machine<T>) -> Spaced {
    space(tlb, 99)
}

#[test]
fn asid_11_a_tag_from_the_stock_writes_only_words_of_the_cpu_and_of_the_space() {
    let tlb = epochs();
    let _ = on(0, &tlb, |here| here.switch(&another(&tlb)));
    // The first switch has filled the stock with 62 tags, of which it took one.
    for number in 1..=61 {
        let space = space(&tlb, number);
        let (switched, cost) = account(0, &tlb, &space, |here| here.switch(&space));
        assert_eq!(switched, Switched::Fresh);
        assert_eq!(cost.shared, 0, "space {number}: {cost:?}");
        assert_eq!((cost.rmws, cost.flushes), (3, 0), "books, residency, active: {cost:?}");
    }
    // The 63rd space takes the lock and fills the stock: that is what the others are spared.
    let space = space(&tlb, 62);
    let (_, cost) = account(0, &tlb, &space, |here| here.switch(&space));
    assert!(cost.shared > 0, "{cost:?}");
}

#[test]
fn a_released_tag_comes_back_without_a_write_to_shared_words() {
    let tlb = epochs();
    let mut gone = space(&tlb, 1);
    let _ = on(0, &tlb, |here| here.switch(&gone));
    let _ = on(0, &tlb, |here| here.switch(&another(&tlb)));
    let range = bytes(&gone.space);
    let (own, _) = (bytes(&tlb.cpus()[0]), ACCESSES.take());
    assert_eq!(on(0, &tlb, |here| here.release(&mut gone.space)), Ok(Released::AtOnce));
    for (address, kind) in ACCESSES.take() {
        let private = own.contains(&address) || range.contains(&address);
        assert!(kind == Kind::Load || private, "{kind:?} of a shared word");
    }
}

#[test]
fn a_switch_between_recent_spaces_is_one_rmw_and_writes_only_the_cpus_own_words() {
    let tlb = machine(Recent::<6>::new());
    let spaces = [space(&tlb, 1), space(&tlb, 2)];
    for space in &spaces {
        let _ = on(0, &tlb, |here| here.switch(space));
    }
    for space in &spaces {
        let (switched, cost) = account(0, &tlb, space, |here| here.switch(space));
        assert_eq!(switched, Switched::Kept);
        assert_eq!((cost.rmws, cost.space, cost.shared, cost.flushes), (1, 0, 0, 0), "{cost:?}");
    }
}

#[test]
fn a_switch_to_the_present_space_writes_nothing() {
    fn check<T: Tags<Host>>(tlb: &Machine<T>) {
        let space = space(tlb, 1);
        let _ = on(0, tlb, |here| here.switch(&space));
        let (switched, cost) = account(0, tlb, &space, |here| here.switch(&space));
        assert_eq!((switched, cost), (Switched::Unchanged, Account::default()));
    }
    check(&epochs());
    check(&machine(Recent::<6>::new()));
}
