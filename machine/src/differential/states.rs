//! A shape on a second engine: every state, written down and gone into once.
//!
//! It has nothing of the adversary but the rules of [`lookaside_hardware`] and the principle that a TLB is the set
//! of all that it may hold. States are plain values, and what may be held is computed anew from them. CPUs execute
//! in order, and stores wait. A `TLBI` of Arm and a `SINVAL.VMA` take effect as early as they may: at once after the last
//! barrier that they are ordered after. Whatever is in memory only later they have not seen, so it is
//! the weakest moment; a `DMB`, a locked operation or a `FENCE` before them changes nothing about it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use lookaside::arch::aarch64::{Dsb, Scope, Tlbi};
use lookaside_hardware::{
    Cached, Invalidation,
    riscv::{self, Order},
    x86::{self, Effect, Fault, Registers},
};

use super::{
    Flaw,
    shape::{CPUS, OTHER, OWN, Operation, Place, Shape, Space, VA},
};
use crate::adversary::{
    Arch,
    arm::{decode_tlbi, of_dsb},
};

/// Where a cached walk leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Leads {
    /// To a last table: that with the descriptor of the page, that of the frame `C`, that of the other space.
    Table(u8),
    /// To a frame, `A` to `D` as 1 to 4.
    Page(u8),
}

/// Invalidations that have named a cached walk, and are not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Doom {
    /// Of which CPUs, those for all CPUs.
    by: u8,
    /// Of its own CPU, those for it only.
    here: bool,
}

type Key = (u16, Leads);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cpu {
    at: u8,
    /// Invalidations before this operation have been issued.
    front: u8,
    ended: bool,
    seen: u64,
    /// Stores on their way, the oldest first.
    stores: Vec<(Place, u8)>,
    /// The spaces whose root may be in effect; the last is the one loaded last.
    roots: Vec<Space>,
    held: BTreeMap<Key, Doom>,
    /// What its own accesses may use until it synchronises its context.
    lingering: BTreeSet<Key>,
    pending: Vec<(Invalidation, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: [u8; 4],
    cpus: [Cpu; CPUS],
}

/// Every way in which a shape can end.
///
/// # Errors
///
/// The fault of an instruction.
pub(super) fn outcomes(
    shape: &Shape,
    ets2: bool,
    flaw: Option<Flaw>,
) -> Result<BTreeSet<u64>, String> {
    let engine = Engine { shape, ets2, flaw };
    let first = engine.initial();
    let mut outcomes = BTreeSet::new();
    let mut met = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(state) = open.pop() {
        let next = engine.after(&state)?;
        if next.is_empty() {
            let seen = [state.cpus[0].seen, state.cpus[1].seen];
            outcomes.insert(super::ending(seen, state.memory));
        }
        open.extend(next.into_iter().filter(|state| met.insert(state.clone())));
    }
    Ok(outcomes)
}

struct Engine<'a> {
    shape: &'a Shape,
    ets2: bool,
    flaw: Option<Flaw>,
}

const fn tag_of(space: Space) -> u16 {
    match space {
        Space::Own => OWN,
        Space::Other => OTHER,
    }
}

impl State {
    /// The table that a root leads to, or 0.
    fn top(&self, space: Space) -> u8 {
        match space {
            Space::Own => self.memory[Place::Table as usize],
            Space::Other => 3,
        }
    }

    /// The frame that a table leads to, or 0.
    fn leaf(&self, table: u8) -> u8 {
        match table {
            1 => self.memory[Place::Page as usize],
            table => table + 1,
        }
    }

    /// Every walk that may begin has begun.
    fn walk(&mut self) {
        for cpu in 0..CPUS {
            let roots = self.cpus[cpu].roots.clone();
            for &space in &roots {
                let table = self.top(space);
                if table != 0 {
                    self.add(cpu, (tag_of(space), Leads::Table(table)), Doom::default());
                }
            }
            let partial: Vec<_> =
                self.cpus[cpu].held.iter().map(|(&key, &doom)| (key, doom)).collect();
            for ((tag, leads), doom) in partial {
                let Leads::Table(table) = leads else { continue };
                let frame = self.leaf(table);
                if frame != 0 && roots.iter().any(|&space| tag_of(space) == tag) {
                    let key = (tag, Leads::Page(frame));
                    let doom = self.inherited(cpu, doom, key);
                    self.add(cpu, key, doom);
                }
            }
        }
    }

    fn add(&mut self, cpu: usize, key: Key, doom: Doom) {
        let held = self.cpus[cpu].held.entry(key).or_insert(doom);
        *held = Doom { by: held.by & doom.by, here: held.here & doom.here };
    }

    /// A walk on from a partial walk that is doomed began before the invalidation, which names it too or does not.
    fn inherited(&self, cpu: usize, parent: Doom, child: Key) -> Doom {
        let named = |by: usize, everywhere: bool| {
            let mut pending = self.cpus[by].pending.iter();
            pending.any(|(what, all)| *all == everywhere && what.names(&cached(child)))
        };
        let issuers = (0..CPUS).filter(|&by| parent.by & 1 << by != 0 && named(by, true));
        Doom {
            by: issuers.fold(0, |all, by| all | 1 << by),
            here: parent.here && named(cpu, false),
        }
    }

    /// A store reaches memory.
    fn write(&mut self, place: Place, value: u8) {
        self.memory[place as usize] = value;
        self.walk();
    }

    fn drain(&mut self, cpu: usize, which: impl Fn(Place) -> bool) {
        while let Some(at) = self.cpus[cpu].stores.iter().position(|&(place, _)| which(place)) {
            let (place, value) = self.cpus[cpu].stores.remove(at);
            self.write(place, value);
        }
    }

    fn remove(&mut self, cpu: usize, what: &Invalidation) {
        self.cpus[cpu].held.retain(|&key, _| !what.names(&cached(key)));
        self.walk();
    }

    /// An invalidation is issued that something else completes.
    fn doom(&mut self, by: usize, what: Invalidation, everywhere: bool) {
        self.cpus[by].pending.push((what, everywhere));
        for cpu in 0..CPUS {
            if everywhere || cpu == by {
                for (&key, doom) in &mut self.cpus[cpu].held {
                    if what.names(&cached(key)) {
                        doom.by |= u8::from(everywhere) << by;
                        doom.here |= !everywhere;
                    }
                }
            }
        }
        self.walk();
    }

    /// What a CPU has issued is complete: what was for itself, and, if asked to, what was for all.
    fn complete(&mut self, by: usize, everywhere: bool, lingers: bool) {
        for cpu in 0..CPUS {
            let gone = |doom: &Doom| cpu == by && doom.here || everywhere && doom.by & 1 << by != 0;
            let Cpu { held, lingering, .. } = &mut self.cpus[cpu];
            if cpu == by && lingers {
                let pages = held.iter().filter(|((_, leads), _)| matches!(leads, Leads::Page(_)));
                lingering.extend(pages.filter(|(_, doom)| gone(doom)).map(|(&key, _)| key));
            }
            held.retain(|_, doom| !gone(doom));
        }
        self.cpus[by].pending.retain(|&(_, all)| all && !everywhere);
    }
}

/// What an invalidation looks at. A table resolves four bits.
fn cached((tag, leads): Key) -> Cached {
    let page = VA >> 12;
    let table = matches!(leads, Leads::Table(_));
    let pages = if table { (page & !15, page | 15) } else { (page, page) };
    Cached { tag, global: false, pages, level: u8::from(table), table }
}

impl Engine<'_> {
    fn initial(&self) -> State {
        let cpu = Cpu {
            at: 0,
            front: 0,
            ended: false,
            seen: 1,
            stores: Vec::new(),
            roots: vec![Space::Own],
            held: BTreeMap::new(),
            lingering: BTreeSet::new(),
            pending: Vec::new(),
        };
        let memory = Place::ALL.map(Place::initial);
        let mut state = State { memory, cpus: [cpu.clone(), cpu] };
        state.walk();
        for cpu in 0..CPUS {
            self.advance(&mut state, cpu);
        }
        state
    }

    fn operation(&self, cpu: usize, at: usize) -> Option<Operation> {
        self.shape.code[cpu].get(at).copied().flatten()
    }

    /// Issues what may be issued: every invalidation up to the next barrier that it is ordered after and that has not
    /// been passed.
    fn advance(&self, state: &mut State, cpu: usize) {
        loop {
            let front = usize::from(state.cpus[cpu].front);
            let Some(next) = self.operation(cpu, front) else { return };
            let reached = usize::from(state.cpus[cpu].at) > front;
            let passed = match next {
                Operation::Isb | Operation::SfenceWInval | Operation::Sfence(..) => reached,
                // A barrier for stores is passed as soon as those before it have been performed, which may be
                // before a load that precedes it.
                Operation::Dsb(kind) => {
                    reached
                        || !of_dsb(kind).0.waits_for_loads() && self.has_stored(state, cpu, front)
                }
                _ => reached || self.flaw != Some(Flaw::InvalidationsInOrder),
            };
            if !passed {
                return;
            }
            self.invalidate(state, cpu, next);
            state.cpus[cpu].front += 1;
        }
    }

    /// Whether every store of a CPU before an operation has been performed.
    fn has_stored(&self, state: &State, cpu: usize, before: usize) -> bool {
        let Cpu { at, stores, .. } = &state.cpus[cpu];
        let stores_at = |&index: &usize| {
            matches!(self.operation(cpu, index), Some(Operation::Store(..) | Operation::Swap(..)))
        };
        (0..before).filter(stores_at).all(|index| index < usize::from(*at)) && stores.is_empty()
    }

    /// Issues a `TLBI` or a `SINVAL.VMA`; nothing else.
    fn invalidate(&self, state: &mut State, cpu: usize, operation: Operation) {
        match operation {
            Operation::Tlbi(op, scope, tag) => {
                let vmids: Vec<_> = state.cpus[cpu].roots.iter().map(|&of| tag_of(of)).collect();
                let tlbi = Tlbi { op, scope, operand: super::tlbi_operand(op, tag) };
                if let Some(what) = decode_tlbi(tlbi, 16, &vmids) {
                    state.doom(cpu, what, scope == Scope::Broadcast);
                }
            }
            Operation::Sinval(named, asid) => state.doom(cpu, fenced(named, asid), false),
            _ => {}
        }
    }

    /// Every state that may follow.
    fn after(&self, state: &State) -> Result<Vec<State>, String> {
        let mut next = Vec::new();
        for cpu in 0..CPUS {
            let stores = &state.cpus[cpu].stores;
            for (at, &(place, value)) in stores.iter().enumerate() {
                let mut earlier = stores[..at].iter();
                let waits = match self.shape.arch {
                    Arch::X86 => at > 0,
                    _ => earlier.any(|&(other, _)| other == place),
                };
                if !waits {
                    let mut drained = state.clone();
                    drained.cpus[cpu].stores.remove(at);
                    drained.write(place, value);
                    self.advance(&mut drained, cpu);
                    next.push(drained);
                }
            }
            if !state.cpus[cpu].ended {
                self.step(state, cpu, &mut next).map_err(|fault| fault.to_string())?;
            }
        }
        Ok(next)
    }

    fn step(&self, before: &State, cpu: usize, next: &mut Vec<State>) -> Result<(), Fault> {
        let mut state = before.clone();
        let at = usize::from(state.cpus[cpu].at);
        let Some(operation) = self.operation(cpu, at) else {
            state.cpus[cpu].ended = true;
            next.push(state);
            return Ok(());
        };
        state.cpus[cpu].at += 1;
        let tso = self.shape.arch == Arch::X86;
        match operation {
            Operation::Load(place) => {
                let newest = state.cpus[cpu].stores.iter().rev().find(|store| store.0 == place);
                let value = newest.map_or(state.memory[place as usize], |store| store.1);
                state.see(cpu, value);
            }
            Operation::Store(place, value) => {
                let value = Shape::stored(cpu, place, value);
                state.cpus[cpu].stores.push((place, value));
            }
            Operation::Swap(place, value, full) => {
                state.drain(cpu, |of| tso || full || of == place);
                state.see(cpu, state.memory[place as usize]);
                state.write(place, Shape::stored(cpu, place, value));
            }
            Operation::Access => {
                let mut accesses = state.accesses(cpu);
                // With FEAT_ETS2 a walk that faults comes after the stores before it.
                if self.ets2 && !state.cpus[cpu].stores.is_empty() {
                    accesses.retain(|&(_, faults)| !faults);
                    if accesses.is_empty() {
                        state.drain(cpu, |_| true);
                        accesses = state.accesses(cpu);
                    }
                }
                for (seen, ends) in accesses {
                    let mut one = state.clone();
                    one.see(cpu, seen);
                    one.cpus[cpu].ended = ends;
                    self.advance(&mut one, cpu);
                    next.push(one);
                }
                return Ok(());
            }
            Operation::Fence => state.drain(cpu, |_| true),
            Operation::Root(space, keep) => self.load(&mut state, cpu, space, keep)?,
            // They have been issued before.
            Operation::Tlbi(..) | Operation::Sinval(..) => {}
            Operation::Dsb(kind) => self.wait(&mut state, cpu, kind),
            Operation::Isb => {
                state.cpus[cpu].lingering.clear();
                let last = state.cpus[cpu].roots.len() - 1;
                state.cpus[cpu].roots.drain(..last);
            }
            Operation::Invlpg => self.act(&mut state, cpu, x86::invlpg(registers(before, cpu), VA)),
            Operation::Invpcid(kind, tag) => {
                let registers = registers(before, cpu);
                let mut effect = x86::invpcid(registers, kind as u64, [tag.into(), VA])?;
                effect.serialising |= self.flaw == Some(Flaw::InvpcidSerialises);
                self.act(&mut state, cpu, effect);
            }
            Operation::Toggle => {
                let effect = x86::mov_to_cr4(registers(before, cpu), x86::PCIDE)?;
                self.act(&mut state, cpu, effect);
            }
            Operation::Invlpgb(flags, tag) => {
                let operands = (super::invlpgb_address(flags), 0, u32::from(tag) << 16);
                let what = x86::invlpgb(registers(before, cpu), operands, None, 16)?;
                state.doom(cpu, what, true);
            }
            Operation::Tlbsync => {
                state.drain(cpu, |_| true);
                state.complete(cpu, true, false);
            }
            Operation::Sfence(named, asid) => {
                if Order::SFENCE_VMA.stores_before_walks {
                    state.drain(cpu, Place::is_table);
                }
                state.remove(cpu, &fenced(named, asid));
            }
            Operation::SfenceWInval => state.drain(cpu, Place::is_table),
            Operation::SfenceInvalIr => state.complete(cpu, false, false),
            Operation::Remote(named, asid) => {
                for hart in 0..CPUS {
                    state.remove(hart, &fenced(named, asid));
                }
            }
        }
        self.advance(&mut state, cpu);
        next.push(state);
        Ok(())
    }

    fn load(&self, state: &mut State, cpu: usize, space: Space, keep: bool) -> Result<(), Fault> {
        match self.shape.arch {
            Arch::Arm => {
                let roots = &mut state.cpus[cpu].roots;
                roots.retain(|&of| of != space);
                roots.push(space);
            }
            Arch::X86 => {
                let keep = if keep { x86::KEEP } else { 0 };
                let value = u64::from(tag_of(space)) | keep;
                let effect = x86::mov_to_cr3(registers(state, cpu), value)?;
                state.drain(cpu, |_| effect.serialising);
                // Nothing is walked in between.
                state.cpus[cpu].roots.clear();
                state.cpus[cpu].roots.push(space);
                if let Some(what) = effect.removes {
                    state.remove(cpu, &what);
                }
            }
            Arch::Riscv => state.cpus[cpu].roots = vec![space],
        }
        state.walk();
        Ok(())
    }

    /// A `DSB`.
    fn wait(&self, state: &mut State, cpu: usize, kind: Dsb) {
        let (barrier, domain) = of_dsb(kind);
        if barrier.waits_for_stores() {
            state.drain(cpu, |_| true);
        }
        if barrier.completes_tlbis() {
            let wide = self.flaw == Some(Flaw::LocalBarrierCompletesAll);
            state.complete(cpu, wide || domain.completes_broadcasts(), !self.ets2);
        }
    }

    /// An instruction of x86 that is over when it has removed something.
    fn act(&self, state: &mut State, cpu: usize, effect: Effect) {
        state.drain(cpu, |_| effect.serialising);
        if let Some(what) = effect.removes {
            state.remove(cpu, &what);
        }
    }
}

impl State {
    fn see(&mut self, cpu: usize, value: u8) {
        self.cpus[cpu].seen = super::seen(self.cpus[cpu].seen, value);
    }

    /// What an access may come to, and whether the CPU ends there.
    fn accesses(&self, cpu: usize) -> BTreeSet<(u8, bool)> {
        let Cpu { held, lingering, roots, .. } = &self.cpus[cpu];
        let live = |tag: u16| roots.iter().any(|&space| tag_of(space) == tag);
        let mut found = BTreeSet::new();
        for &(tag, leads) in held.keys().chain(lingering) {
            if let Leads::Page(frame) = leads
                && live(tag)
            {
                found.insert((frame, false));
            }
        }
        let mapped = |&space: &Space| self.top(space) != 0 && self.leaf(self.top(space)) != 0;
        if !roots.iter().all(mapped) {
            found.insert((0, true));
        }
        found
    }
}

/// The control registers of an x86 CPU.
fn registers(state: &State, cpu: usize) -> Registers {
    let space = state.cpus[cpu].roots[0];
    Registers { cr3: tag_of(space).into(), cr4: x86::PCIDE | x86::PGE }
}

fn fenced(named: bool, asid: Option<u16>) -> Invalidation {
    riscv::fenced(named.then_some((VA >> 12, VA >> 12)), asid)
}
