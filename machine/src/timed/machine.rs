//! The state of a timed machine, and what operations do to it.

use core::ops::Range;

use super::{
    account::Cause,
    arena::LINE,
    bill::Bill,
    broadcasts::{Broadcasts, KERNEL_KEY},
    cpu::{Arrived, Cpu, Pending},
    fabric::Fabric,
    history::{Happened, History},
    lines::{Line, Move},
    model::Model,
    places::Places,
    price::{Price, Ps},
    queue::{LAST, Queue, key},
    report::Failure,
    simulate::Options,
    tables::{Stamp, Tables, order_of_entries},
    timeline::Recorder,
    tlb::{Found, Tlb},
};

/// The address of a word.
pub(crate) type Address = *mut u64;

/// A timed machine.
pub(crate) struct Machine {
    pub(crate) model: Model,
    pub(crate) places: Places,
    arena: Range<usize>,
    pub(crate) lines: Vec<Line>,
    /// Names of parts of the arena: first line, line after the last, name.
    pub(crate) names: Vec<(usize, usize, &'static str)>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) queue: Queue,
    pub(crate) running: usize,
    /// The moment at which the CPU that runs was resumed.
    pub(crate) resumed_at: Ps,
    /// Whether programs run; before that, operations take no time.
    pub(crate) started: bool,
    pub(crate) fabric: Fabric,
    pub(crate) broadcasts: Broadcasts,
    pub(crate) tables: Tables,
    pub(crate) kernel_root: u64,
    pub(crate) activities: Vec<&'static str>,
    /// By account; empty unless bills are kept.
    pub(crate) bills: Vec<Bill>,
    pub(crate) locks: Vec<super::lock::State>,
    pub(crate) events: u64,
    pub(crate) limit: Ps,
    /// Until when programs may go on without a question: the limit, or the beginning where none may.
    pub(crate) horizon: Ps,
    pub(crate) history: History,
    pub(crate) failure: Option<Failure>,
    /// How many moments are to be kept for a timeline; 0 for none.
    timeline: usize,
    /// What each nanosecond takes in addition while another thread of the core executes; 0 where none can.
    pub(crate) slowdown: Ps,
    /// What keeps them, while programs run.
    pub(crate) recorder: Option<Box<Recorder>>,
}

impl Machine {
    pub(crate) fn new(
        model: Model,
        arena: Range<usize>,
        Options { cpus, seed, limit, timeline }: Options,
    ) -> Self {
        let random = |cpu| super::random::start(seed, cpu);
        Self {
            places: Places::new(model.topology),
            model,
            arena,
            lines: Vec::new(),
            names: Vec::new(),
            cpus: (0..cpus as u64).map(|cpu| Cpu::new(random(cpu))).collect(),
            queue: Queue::new(cpus),
            running: 0,
            resumed_at: 0,
            started: false,
            fabric: Fabric::default(),
            broadcasts: Broadcasts::default(),
            tables: Tables::default(),
            kernel_root: 0,
            activities: vec!["program"],
            bills: Vec::new(),
            locks: Vec::new(),
            events: 0,
            limit,
            horizon: 0,
            history: History::default(),
            failure: None,
            timeline,
            slowdown: 0,
            recorder: None,
        }
    }

    /// Begins the run: what was done before has taken no time and is not counted.
    pub(crate) fn start(&mut self) {
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            (cpu.now, cpu.drain, cpu.rested) = (0, 0, 0);
            cpu.arrived = Arrived::default();
            (cpu.execution, cpu.late) = (super::siblings::Execution::default(), 0);
            cpu.account = super::account::Account::default();
            cpu.counters = super::account::Counters::default();
            cpu.forget_watched();
            self.queue.set(number, key(0, number));
        }
        self.history = History::default();
        self.bills.fill(Bill::default());
        self.events = 0;
        self.slowdown = self.price_of_siblings();
        self.horizon = self.limit.min(LAST);
        self.recorder =
            (self.timeline > 0).then(|| Box::new(Recorder::new(self.timeline, self.cpus.len())));
        self.started = true;
    }

    #[inline]
    pub(crate) fn cpu(&mut self) -> &mut Cpu {
        &mut self.cpus[self.running]
    }

    /// Spends time of the CPU that runs.
    #[inline]
    pub(crate) fn charge(&mut self, cause: Cause, time: Ps) {
        if time > 0 {
            if self.slowdown > 0 {
                self.charge_siblings(cause, time);
            }
            self.spend(cause, time);
        }
    }

    /// The same, for time in which it makes no difference what the other threads of the core do.
    #[inline]
    pub(crate) fn spend(&mut self, cause: Cause, time: Ps) {
        if time > 0 {
            let cpu = &mut self.cpus[self.running];
            cpu.now += time;
            if !matches!(cause, Cause::Words | Cause::Lines | Cause::LineQueue) {
                cpu.loads.end();
            }
            cpu.account.add(cpu.activity, cause, time);
            if let Some(bill) = self.bills.get_mut(cpu.initiator.0 as usize)
                && cause != Cause::Stolen
            {
                bill.account.add(cpu.activity, cause, time);
            }
        }
    }

    /// Spends what the other threads of the core have taken from the CPU that runs, and what they add to what comes.
    #[cold]
    fn charge_siblings(&mut self, cause: Cause, time: Ps) {
        let late = core::mem::take(&mut self.cpu().late);
        self.spend(Cause::Siblings, late);
        let from = self.cpu().now;
        let extra = self.slow(cause, from, time);
        self.spend(Cause::Siblings, extra);
    }

    #[inline]
    pub(crate) fn charge_price(&mut self, cause: Cause, price: Price) {
        self.charge(cause, self.model.prices.charge(price));
    }

    /// Has the CPU that runs wait until `time`, if that is later than now.
    #[inline]
    pub(crate) fn charge_until(&mut self, cause: Cause, time: Ps) {
        let now = self.cpu().now;
        self.charge(cause, time.saturating_sub(now));
    }

    #[inline]
    pub(crate) fn happened(&mut self, what: Happened) {
        let (time, cpu) = (self.cpus[self.running].now, self.running);
        self.history.push(time, cpu, what);
    }

    /// Has the CPU that runs wait. What others take from it meanwhile costs it nothing.
    #[inline]
    pub(crate) fn rest(&mut self, cause: Cause, time: Ps) {
        self.charge(cause, time);
        self.cpu().rested += time;
        self.note_wait(cause, time);
    }

    /// Whether something may have been taken from the CPU that runs.
    #[inline]
    pub(crate) fn is_robbed(&self) -> bool {
        let cpu = &self.cpus[self.running];
        cpu.received != self.fabric.operations || cpu.stolen | cpu.rested | cpu.late != 0
    }

    /// Charges the CPU that runs for what others have taken from it since its last step, as far as it
    /// did not wait meanwhile.
    pub(crate) fn pay_stolen(&mut self) {
        let operations = self.fabric.operations;
        let per_broadcast = self.model.prices.charge(Price::FabricVictim);
        let cpu = &mut self.cpus[self.running];
        let received = operations - core::mem::replace(&mut cpu.received, operations);
        let taken = received * per_broadcast + core::mem::take(&mut cpu.stolen);
        let rested = core::mem::take(&mut cpu.rested);
        let late = core::mem::take(&mut cpu.late);
        self.spend(Cause::Siblings, late);
        self.charge(Cause::Stolen, taken.saturating_sub(rested));
    }

    /// The number of the cache line of a word.
    #[inline]
    pub(crate) fn line(&mut self, word: Address) -> usize {
        let address = word.addr();
        assert!(
            self.arena.contains(&address),
            "a word outside of the machine's memory: put it into the arena"
        );
        let line = (address - self.arena.start) / LINE;
        if line >= self.lines.len() {
            self.lines.resize(line + 1, Line::NEW);
        }
        line
    }

    /// Gets a cache line to read, and waits for it.
    #[inline]
    pub(crate) fn read_line(&mut self, line: usize) {
        let (cpu, cpus) = (self.running, self.cpus.len());
        let now = self.cpus[cpu].now;
        self.cpus[cpu].watch(line);
        if self.has_arrived(line) {
            self.charge_price(Cause::Words, Price::Hit);
            return;
        }
        let (writer, dirty) = (self.lines[line].writer(), self.lines[line].is_dirty());
        match self.lines[line].read(&self.places, cpus, cpu as u16, now) {
            None => self.charge_price(Cause::Words, Price::Hit),
            Some(moves) => {
                self.wait_for_load(line, moves, writer);
                self.note_read(line);
                if dirty {
                    let ends = self.cpu().now;
                    self.lines[line].handed_at(ends);
                }
            }
        }
    }

    /// Waits for a line to read, which may be under way together with those before. It comes from the nearest copy or
    /// from the CPU that wrote it, whichever is here first.
    fn wait_for_load(&mut self, line: usize, Move { begins, distance }: Move, writer: u16) {
        let now = self.cpu().now;
        let begun = self.cpu().loads.begin(now, writer);
        let reader = self.running as u16;
        let Self { lines, places, model, .. } = self;
        let (prices, from) = (&model.prices, &mut lines[line]);
        let begun = begun.max(from.free());
        let far = places.distance(reader, writer);
        let [near_agent, far_agent] = [distance, far].map(|d| places.agent(reader, d));
        let [near_begins, far_begins] =
            [near_agent, far_agent].map(|agent| from.agents.next(agent, begun));
        let copy = near_begins.max(from.copied) + distance.line(prices);
        let direct = far_begins + far.line(prices);
        let (agent, served, ends) = match copy <= direct {
            true => (near_agent, near_begins, copy),
            false => (far_agent, far_begins, direct),
        };
        let service = prices.charge(Price::LineService);
        from.agents.serve(agent, served, service, places.agents());
        from.copied = from.copied.max(ends);
        self.charge_until(Cause::LineQueue, begins.max(served));
        self.charge_until(Cause::Lines, ends);
        self.note_move(line, now);
    }

    fn note_move(&mut self, line: usize, since: Ps) {
        let ends = self.cpu().now;
        let line = &mut self.lines[line];
        line.moves += 1;
        line.spent += ends - since;
        self.cpu().counters.lines += 1;
    }

    fn wait_for_line(&mut self, line: usize, Move { begins, distance }: Move) {
        let now = self.cpu().now;
        self.charge_until(Cause::LineQueue, begins);
        let way = distance.line(&self.model.prices);
        self.charge(Cause::Lines, way);
        self.note_move(line, now);
    }

    /// Takes a cache line to write it, and says when it is here; `None` if it was.
    fn take_line(&mut self, line: usize) -> Option<(Move, Ps)> {
        let cpu = self.running;
        let now = self.cpus[cpu].now;
        let Self { lines, cpus, queue, places, model, .. } = self;
        let mut woken: [usize; 4] = [0; 4];
        let mut count = 0;
        let mut more = Vec::new();
        let moves = lines[line].write(places, cpu as u16, now, |other| {
            let other = usize::from(other);
            if cpus[other].watching && cpus[other].watched().contains(&line) {
                if count < woken.len() {
                    woken[count] = other;
                    count += 1;
                } else {
                    more.push(other);
                }
            }
        })?;
        let ends = moves.begins + moves.distance.line(&model.prices);
        lines[line].busy_until(ends);
        lines[line].note_store(false);
        for &other in woken[..count].iter().chain(&more) {
            queue.set(other, queue.get(other).min(key(ends, other)));
        }
        self.note_wrote(line);
        Some((moves, ends))
    }

    /// A store: it is on its way when this returns.
    #[inline]
    pub(crate) fn store_line(&mut self, line: usize) {
        if let Some((_, ends)) = self.take_line(line) {
            self.lines[line].note_store(true);
            self.lines[line].moves += 1;
            let cpu = self.cpu();
            if cpu.drain < ends {
                (cpu.drain, cpu.drain_line) = (ends, line);
            }
            cpu.counters.lines += 1;
        }
        self.charge_price(Cause::Words, Price::Hit);
    }

    /// An atomic read-modify-write: it waits for what was stored before and for the line.
    #[inline]
    pub(crate) fn modify_line(&mut self, line: usize) {
        self.drain();
        self.cpu().watch(line);
        if !self.comes_before(line)
            && let Some((moves, ends)) = self.take_line(line)
        {
            self.wait_for_line(line, moves);
            let way = moves.distance.line(&self.model.prices);
            self.cpu().arrived = Arrived { line, until: ends + way / 2, failed: false };
        }
        self.charge_price(Cause::Words, Price::Atomic);
    }

    /// Waits until what this CPU has stored is visible to all.
    #[inline]
    pub(crate) fn drain(&mut self) {
        self.cpu().loads.end();
        let cpu = &self.cpus[self.running];
        if cpu.drain > cpu.now {
            let (wait, line) = (cpu.drain - cpu.now, cpu.drain_line);
            self.lines[line].spent += wait;
            self.charge(Cause::Fences, wait);
        }
    }

    /// Sends interrupts, one for each CPU of the mask.
    pub(crate) fn interrupt(&mut self, first: u32, mask: u64) {
        self.drain();
        let from = self.running as u32;
        let group = self.model.interrupt_group;
        let mut left = mask;
        let mut last_group = u32::MAX;
        let until = self.cpu().sent.until;
        while left != 0 {
            let target = first + left.trailing_zeros();
            left &= left - 1;
            if target as usize >= self.cpus.len() || target == from {
                continue;
            }
            if target / group != last_group && until.is_none() {
                last_group = target / group;
                self.charge_price(Cause::Sends, Price::InterruptSend);
            }
            let arrival = self.arrival(target);
            self.note_sent();
            self.note_interrupt(target as usize, arrival);
            self.pend(target as usize, arrival);
        }
        if let Some((until, _)) = until {
            self.charge_until(Cause::Sends, until);
        }
    }

    /// When an interrupt that the CPU which runs sends now arrives.
    fn arrival(&self, target: u32) -> Ps {
        let cpu = &self.cpus[self.running];
        let known = cpu.sent.arrivals.iter().find(|(known, _)| known.0 == target);
        let price = || cpu.now + self.delivery(self.running, target as usize);
        known.map_or_else(price, |&(_, at)| at.max(cpu.now))
    }

    /// Counts an interrupt that the CPU which runs sends.
    pub(crate) fn note_sent(&mut self) {
        let initiator = self.cpu().initiator;
        self.cpu().counters.sent += 1;
        if let Some(bill) = self.bills.get_mut(initiator.0 as usize) {
            bill.sent += 1;
        }
    }

    /// Notes what the CPU that runs would take from others if none of them waited.
    pub(crate) fn impose(&mut self, time: Ps) {
        let initiator = self.cpu().initiator;
        if let Some(bill) = self.bills.get_mut(initiator.0 as usize) {
            bill.imposed += time;
        }
    }

    fn pend(&mut self, target: usize, arrival: Ps) {
        let (now, initiator) = (self.cpu().now, self.cpu().initiator);
        let cpu = &mut self.cpus[target];
        // Those that have arrived and were not taken are one by now, that of who sent the first.
        while cpu.pending.get(1).is_some_and(|earlier| earlier.arrival <= now) {
            if let Some(first) = cpu.pending.pop_front() {
                cpu.pending[0].initiator = first.initiator;
            }
        }
        let place = cpu.pending.partition_point(|earlier| earlier.arrival <= arrival);
        cpu.pending.insert(place, Pending { arrival, initiator });
        if cpu.waiting && cpu.interrupts {
            self.queue.set(target, self.queue.get(target).min(key(arrival, target)));
        }
    }

    /// Accesses pages through the root register, or the kernel's. Returns the first that is not
    /// mapped; or passes over those, if `passing`.
    pub(crate) fn touch(
        &mut self,
        pages: impl Iterator<Item = u64>,
        kernel: bool,
        passing: bool,
    ) -> Result<(), u64> {
        let Self { cpus, tables, broadcasts, model, running, kernel_root, .. } = self;
        let cpu = &mut cpus[*running];
        let (root, key) =
            if kernel { (*kernel_root, KERNEL_KEY) } else { (cpu.root, u32::from(cpu.tag)) };
        let tlb = cpu.tlb.get_or_insert_with(|| Box::new(Tlb::new(&model.tlb)));
        let instance = tlb.instance(key, broadcasts);
        let table = tables.table(root);
        let (mut second, mut walks, mut upper) = (0, 0, 0);
        let mut result = Ok(());
        let mut touched = 0;
        let mut stale = None;
        for page in pages {
            let known = table.get(page as usize);
            touched += 1;
            let stamp = match tlb.find(instance, page, broadcasts) {
                Found::First(stamp) => stamp,
                Found::Second(stamp) => {
                    second += 1;
                    stamp
                }
                Found::Nowhere { upper: cached } => {
                    let Some(known) = known.filter(|known| known.mapped) else {
                        if passing {
                            touched -= 1;
                            continue;
                        }
                        result = Err(page);
                        break;
                    };
                    let order = match model.tlb.blocks {
                        true => known.order,
                        false => order_of_entries(known.order),
                    };
                    let order = u32::from(order);
                    broadcasts.note_order(order);
                    tlb.fill(instance, page, order, known.changed);
                    walks += 1;
                    upper += u64::from(!cached);
                    continue;
                }
            };
            if known.is_none_or(|known| stamp < known.flushed) {
                stale = Some(page);
                break;
            }
        }
        self.events += touched;
        let counters = &mut self.cpu().counters;
        counters.accesses += touched;
        counters.second_level += second;
        counters.walks += walks;
        let prices = &self.model.prices;
        let (second_level, walk, walk_upper) = (
            prices.charge(Price::SecondLevel),
            prices.charge(Price::Walk),
            prices.charge(Price::WalkUpper),
        );
        self.charge(Cause::SecondLevel, second * second_level);
        self.charge(Cause::Walks, walks * walk + upper * walk_upper);
        if let Some(page) = stale {
            self.happened(Happened::Stale { page });
            let (cpu, time) = (self.running as u32, self.cpu().now);
            let history = self.history.to_lines();
            self.fail(Failure::Stale { cpu, page, time, history });
        }
        result
    }

    pub(crate) fn load_root(&mut self, root: u64, tag: u16) {
        let cpu = self.cpu();
        (cpu.root, cpu.tag) = (root, tag);
        cpu.counters.roots += 1;
        self.happened(Happened::Root { root, tag });
    }

    pub(crate) fn revoke(&mut self, root: u64, first: u64, pages: u64, mapped: bool) -> Stamp {
        self.happened(Happened::Revoke { root, first, pages });
        self.tables.revoke(root, first, pages, mapped)
    }

    pub(crate) fn flushed(&mut self, root: u64, first: u64, pages: u64, stamp: Stamp) {
        self.happened(Happened::Flushed { root, first, pages });
        self.tables.flushed(root, first, pages, stamp);
    }
}
