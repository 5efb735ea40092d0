//! Hardware that is as unhelpful as it may be: it sets flags in any entry before any operation on
//! memory, holds whatever a walk could have read, and notes each time that a block and a plain page
//! could be held at once.
//!
//! What an entry says is read here from the manuals' bit numbers, and not with the library's formats.

use core::{cell::RefCell, ops::Range};

use lookaside::{
    VaRange,
    arch::aarch64::{AddressSize, Geometry, Granule},
    contig::{Arm, Entries, Flags, Format, Locked, Raw, SizeChange, Svnapot},
    platform::{Ordering, Word},
};

const ARM_VALID: u64 = 0b11;
const ARM_READ_ONLY: u64 = 1 << 7;
const ARM_ACCESSED: u64 = 1 << 10;
const ARM_DBM: u64 = 1 << 51;
const ARM_CONTIGUOUS: u64 = 1 << 52;
const ARM_SOFTWARE_DIRTY: u64 = 1 << 55;
const RV_VALID: u64 = 1;
const RV_READ: u64 = 1 << 1;
const RV_WRITE: u64 = 1 << 2;
const RV_ACCESSED: u64 = 1 << 6;
const RV_DIRTY: u64 = 1 << 7;
const RV_N: u64 = 1 << 63;

/// The four kinds of table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    K4,
    K16,
    K64,
    Napot,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::K4, Kind::K16, Kind::K64, Kind::Napot];

impl Kind {
    pub(crate) fn block(self) -> usize {
        match self {
            Self::K4 | Self::Napot => 16,
            Self::K16 => 128,
            Self::K64 => 32,
        }
    }

    pub(crate) fn page_shift(self) -> u32 {
        match self {
            Self::K4 | Self::Napot => 12,
            Self::K16 => 14,
            Self::K64 => 16,
        }
    }

    pub(crate) fn is_arm(self) -> bool {
        self != Self::Napot
    }

    /// A plain page that may be written, without flags, at frame number `frame`.
    pub(crate) fn page(self, frame: u64) -> u64 {
        if self.is_arm() {
            // User, inner shareable, not global.
            frame << self.page_shift()
                | ARM_VALID
                | 1 << 6
                | 3 << 8
                | 1 << 11
                | ARM_READ_ONLY
                | ARM_DBM
        } else {
            frame << 10 | RV_VALID | RV_READ | RV_WRITE | 1 << 4
        }
    }

    /// The same without the right to be written.
    pub(crate) fn read_only(self, page: u64) -> u64 {
        if self.is_arm() { page & !ARM_DBM | ARM_READ_ONLY } else { page & !RV_WRITE }
    }

    /// The entry of a block for the page at `frame`.
    pub(crate) fn folded(self, page: u64) -> u64 {
        if self.is_arm() { page | ARM_CONTIGUOUS } else { page & !(0xf << 10) | 8 << 10 | RV_N }
    }

    pub(crate) fn is_valid(self, raw: u64) -> bool {
        if self.is_arm() { raw & 3 == 3 } else { raw & 1 == 1 }
    }

    pub(crate) fn is_folded(self, raw: u64) -> bool {
        self.is_valid(raw) && raw & if self.is_arm() { ARM_CONTIGUOUS } else { RV_N } != 0
    }

    pub(crate) fn is_writable(self, raw: u64) -> bool {
        if self.is_arm() {
            raw & ARM_DBM != 0 || raw & ARM_READ_ONLY == 0
        } else {
            raw & RV_WRITE != 0
        }
    }

    /// Whether a store goes through without anything being changed.
    pub(crate) fn stores_freely(self, raw: u64) -> bool {
        if self.is_arm() {
            raw & ARM_READ_ONLY == 0
        } else {
            raw & RV_WRITE != 0 && raw & RV_DIRTY != 0
        }
    }

    pub(crate) fn flags(self, raw: u64) -> Flags {
        if self.is_arm() {
            Flags {
                accessed: raw & ARM_ACCESSED != 0,
                dirty: raw & ARM_READ_ONLY == 0 || raw & ARM_SOFTWARE_DIRTY != 0,
            }
        } else {
            Flags { accessed: raw & RV_ACCESSED != 0, dirty: raw & RV_DIRTY != 0 }
        }
    }

    /// What hardware makes of the entry when it sets a flag, if it may.
    pub(crate) fn used(self, raw: u64, flags: Flags) -> Option<u64> {
        if !self.is_valid(raw) || flags.dirty && !self.is_writable(raw) {
            return None;
        }
        let mut raw = raw;
        if self.is_arm() {
            raw |= ARM_ACCESSED;
            if flags.dirty {
                raw &= !ARM_READ_ONLY;
            }
        } else {
            raw |= RV_ACCESSED | if flags.dirty { RV_DIRTY } else { 0 };
        }
        Some(raw)
    }

    /// The frame that a walk of slot `slot` reaches.
    pub(crate) fn frame(self, raw: u64, slot: usize) -> u64 {
        if self.is_arm() {
            (raw & ((1 << 48) - 1)) >> self.page_shift()
        } else {
            let frame = raw >> 10 & ((1 << 44) - 1);
            if raw & RV_N != 0 { frame & !0xf | (slot as u64 % 16) } else { frame }
        }
    }

    /// A value that maps nothing and whose other bits are all set.
    pub(crate) fn marker(self) -> u64 {
        if self.is_arm() { !0b11 } else { !1 }
    }

    fn may_be_held(self, raw: u64) -> bool {
        self.is_valid(raw) && (!self.is_arm() || raw & ARM_ACCESSED != 0)
    }

    /// Runs `f` with this kind's format.
    pub(crate) fn with<R>(self, f: impl WithFormat<R>) -> R {
        let arm = |granule| Arm::new(Geometry::new(granule, AddressSize::Bits48));
        match self {
            Self::K4 => f.run(arm(Granule::K4)),
            Self::K16 => f.run(arm(Granule::K16)),
            Self::K64 => f.run(arm(Granule::K64)),
            Self::Napot => f.run(Svnapot),
        }
    }
}

/// A closure that takes any format.
pub(crate) trait WithFormat<R> {
    fn run<F: Format>(self, format: F) -> R;
}

/// Hardware uses the entry in `slot` before operation `step`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) step: usize,
    pub(crate) slot: usize,
    pub(crate) flags: Flags,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) loads: usize,
    pub(crate) stores: usize,
    pub(crate) swaps: usize,
    pub(crate) exchanges: usize,
    pub(crate) flushes: usize,
}

impl Count {
    pub(crate) fn writes(&self) -> usize {
        self.stores + self.swaps + self.exchanges
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    page: bool,
    block: bool,
}

/// What a test looks at afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) kind: Kind,
    pub(crate) memory: Vec<u64>,
    /// How often each slot was written.
    pub(crate) written: Vec<usize>,
    pub(crate) count: Count,
    pub(crate) steps: usize,
    /// The flags that each page has had, from the beginning: its own, and those of its block.
    pub(crate) had: Vec<Flags>,
    uses: Vec<Use>,
    /// Other CPUs: what they store before an operation.
    pub(crate) stores: Vec<(usize, usize, u64)>,
    held: Vec<Held>,
    /// Whether a block and plain pages may be held at once.
    free: bool,
    /// Flags that must not vanish from pages that stay.
    keeps: Flags,
    present: Vec<bool>,
    pub(crate) wrong: Vec<String>,
}

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

/// The address of the first slot.
pub(crate) const START: u64 = 0x40_0000_0000;

impl Machine {
    pub(crate) fn new(kind: Kind, memory: Vec<u64>) -> Self {
        let slots = memory.len();
        let mut machine = Self {
            kind,
            written: vec![0; slots],
            count: Count::default(),
            steps: 0,
            had: vec![Flags::NONE; slots],
            uses: Vec::new(),
            stores: Vec::new(),
            held: vec![Held::default(); slots],
            free: false,
            keeps: Flags::NONE,
            present: memory.iter().map(|raw| kind.is_valid(*raw)).collect(),
            wrong: Vec::new(),
            memory,
        };
        machine.had = (0..slots).map(|slot| machine.visible(slot)).collect();
        machine.walk_all();
        machine
    }

    /// `blocks` blocks, folded or plain, all pages writable and without flags.
    pub(crate) fn blocks(kind: Kind, folded: &[bool]) -> Self {
        let mut memory = Vec::new();
        for (block, folded) in folded.iter().enumerate() {
            for slot in 0..kind.block() {
                let page = kind.page(((block + 5) * kind.block() + slot) as u64);
                memory.push(if *folded { kind.folded(page) } else { page });
            }
        }
        Self::new(kind, memory)
    }

    pub(crate) fn with_uses(mut self, uses: &[Use]) -> Self {
        self.uses = uses.to_vec();
        self
    }

    pub(crate) fn with_memory(&self, slot: usize, change: impl Fn(u64) -> u64) -> Self {
        let mut memory = self.memory.clone();
        memory[slot] = change(memory[slot]);
        Self::new(self.kind, memory)
    }

    pub(crate) fn free(mut self) -> Self {
        self.free = true;
        self
    }

    /// Demands that these flags vanish at no moment.
    pub(crate) fn keeping(mut self, flags: Flags) -> Self {
        self.keeps = flags;
        self
    }

    /// The flags of the page in `slot`, by the rule of the manuals.
    pub(crate) fn visible(&self, slot: usize) -> Flags {
        let raw = self.memory[slot];
        if !self.kind.is_valid(raw) {
            return Flags::NONE;
        }
        if !self.kind.is_folded(raw) {
            return self.kind.flags(raw);
        }
        self.block_flags(slot)
    }

    pub(crate) fn block_of(&self, slot: usize) -> Range<usize> {
        let first = slot - slot % self.kind.block();
        first..first + self.kind.block()
    }

    /// Whether hardware may hold anything for the page.
    pub(crate) fn holds(&self, slot: usize) -> bool {
        self.held[slot] != Held::default()
    }

    fn walk_all(&mut self) {
        for slot in 0..self.memory.len() {
            self.walk(slot);
        }
    }

    /// Hardware reads the entry and holds all that it may.
    fn walk(&mut self, slot: usize) {
        let raw = self.memory[slot];
        if !self.kind.may_be_held(raw) {
            return;
        }
        let folded = self.kind.is_folded(raw);
        let reach = if folded { self.block_of(slot) } else { slot..slot + 1 };
        for page in reach {
            let held = &mut self.held[page];
            if if folded { held.page } else { held.block } && !self.free {
                let step = self.steps;
                self.wrong.push(format!("step {step}: page {page} by itself and in a block"));
            }
            *if folded { &mut held.block } else { &mut held.page } = true;
        }
    }

    fn step(&mut self) {
        let now = self.steps;
        for i in 0..self.stores.len() {
            let (step, slot, value) = self.stores[i];
            if step == now {
                self.memory[slot] = value;
            }
        }
        for i in 0..self.uses.len() {
            let used = self.uses[i];
            if used.step != now {
                continue;
            }
            let raw = self.memory[used.slot];
            let Some(then) = self.kind.used(raw, used.flags) else { continue };
            self.memory[used.slot] = then;
            let folded = self.kind.is_folded(then);
            let reach = if folded { self.block_of(used.slot) } else { used.slot..used.slot + 1 };
            for page in reach {
                self.had[page] |= self.kind.flags(then);
            }
            self.walk(used.slot);
        }
        self.steps += 1;
    }

    fn write(&mut self, slot: usize, value: u64) {
        self.memory[slot] = value;
        self.written[slot] += 1;
        self.walk(slot);
        if self.keeps != Flags::NONE {
            self.check_kept(self.block_of(slot));
        }
    }

    /// The flags of the folded entries of the block that begins at `first`.
    fn block_flags(&self, first: usize) -> Flags {
        self.memory[self.block_of(first)]
            .iter()
            .filter(|raw| self.kind.is_folded(**raw))
            .fold(Flags::NONE, |all, raw| all | self.kind.flags(*raw))
    }

    /// What [`Self::visible`] says of every slot.
    pub(crate) fn all_visible(&self) -> Vec<Flags> {
        let mut of_block = Flags::NONE;
        (0..self.memory.len())
            .map(|slot| {
                if slot % self.kind.block() == 0 {
                    of_block = self.block_flags(slot);
                }
                let raw = self.memory[slot];
                match (self.kind.is_valid(raw), self.kind.is_folded(raw)) {
                    (false, _) => Flags::NONE,
                    (true, false) => self.kind.flags(raw),
                    (true, true) => of_block,
                }
            })
            .collect()
    }

    /// No page that stays has lost a flag that it had.
    fn check_kept(&mut self, block: Range<usize>) {
        let of_block = self.block_flags(block.start);
        if block.clone().any(|i| self.present[i] != self.kind.is_valid(self.memory[i])) {
            return;
        }
        for slot in block {
            let raw = self.memory[slot];
            let flags = if self.kind.is_folded(raw) { of_block } else { self.kind.flags(raw) };
            if self.present[slot] && !flags.contains(self.had[slot].only(self.keeps)) {
                self.wrong.push(format!("step {}: page {slot} lost a flag", self.steps));
            }
        }
    }

    pub(crate) fn flush(&mut self, range: VaRange) {
        self.step();
        self.count.flushes += 1;
        assert_eq!(range.page_shift(), self.kind.page_shift());
        let first = ((range.start() - START) >> range.page_shift()) as usize;
        for slot in first..first + range.pages() as usize {
            self.held[slot] = Held::default();
        }
        self.walk_all();
    }

    #[track_caller]
    pub(crate) fn assert_right(&self) {
        assert!(self.wrong.is_empty(), "{:?}: {:?}", self.kind, self.wrong);
    }
}

fn on_machine<R>(f: impl FnOnce(&mut Machine) -> R) -> R {
    MACHINE.with_borrow_mut(|machine| f(machine.as_mut().expect("a machine")))
}

/// A word of the machine's memory.
pub(crate) struct Slot(usize);

impl Word for Slot {
    const ZERO: Self = Self(usize::MAX);

    fn load(&self, _: Ordering) -> u64 {
        on_machine(|machine| {
            machine.step();
            machine.count.loads += 1;
            machine.memory[self.0]
        })
    }

    fn store(&self, value: u64, _: Ordering) {
        on_machine(|machine| {
            machine.step();
            machine.count.stores += 1;
            machine.write(self.0, value);
        });
    }

    fn swap(&self, value: u64, _: Ordering) -> u64 {
        on_machine(|machine| {
            machine.step();
            machine.count.swaps += 1;
            let was = machine.memory[self.0];
            machine.write(self.0, value);
            was
        })
    }

    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        on_machine(|machine| {
            machine.step();
            machine.count.exchanges += 1;
            let was = machine.memory[self.0];
            if was != current {
                return Err(was);
            }
            machine.write(self.0, new);
            Ok(was)
        })
    }

    fn fetch_add(&self, _: u64, _: Ordering) -> u64 {
        unreachable!("nothing is added to entries")
    }

    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        let was = on_machine(|machine| machine.memory[self.0]);
        self.swap(was | bits, order)
    }

    fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        let was = on_machine(|machine| machine.memory[self.0]);
        self.swap(was & bits, order)
    }

    fn fence(_: Ordering) {}
}

/// Runs `f` on the table of a machine, and returns what it returned and the machine afterwards.
pub(crate) fn on<R>(machine: Machine, size_change: SizeChange, f: impl Act<R>) -> (R, Machine) {
    struct Run<A>(SizeChange, usize, A);
    impl<R, A: Act<R>> WithFormat<R> for Run<A> {
        fn run<F: Format>(self, format: F) -> R {
            let words: Vec<Slot> = (0..self.1).map(Slot).collect();
            let entries = Entries::new(format, &words, START).unwrap();
            // SAFETY: the only hardware is the machine of this thread, and no one else uses it.
            self.2.act(&mut unsafe { entries.locked(self.0) })
        }
    }
    let (kind, slots) = (machine.kind, machine.memory.len());
    MACHINE.set(Some(machine));
    let result = kind.with(Run(size_change, slots, f));
    let mut machine = MACHINE.take().expect("a machine");
    // Uses after the last operation.
    machine.step();
    (result, machine)
}

/// Something done to a table of any format.
pub(crate) trait Act<R> {
    fn act<F: Format>(self, table: &mut Locked<'_, Slot, F>) -> R;
}

/// The flush of the machine.
pub(crate) fn flush(range: VaRange) {
    on_machine(|machine| machine.flush(range));
}

/// Defines an [`Act`] from something that reads like a closure.
macro_rules! act {
    (($($name:ident: $type:ty),*) |$table:ident| -> $result:ty $body:block) => {{
        #[derive(Clone)]
        struct This { $($name: $type),* }
        impl $crate::contig::hostile::Act<$result> for This {
            fn act<F: lookaside::contig::Format>(
                self,
                $table: &mut lookaside::contig::Locked<'_, $crate::contig::hostile::Slot, F>,
            ) -> $result {
                let Self { $($name),* } = self;
                $body
            }
        }
        This { $($name),* }
    }};
}
pub(crate) use act;

/// A raw entry of a machine's memory.
pub(crate) fn raw(value: u64) -> Raw {
    Raw(value)
}
