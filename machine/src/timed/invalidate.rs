//! What invalidations remove, wherever they act.

use super::{
    account::Cause,
    broadcasts::KERNEL_KEY,
    current::step,
    history::Happened,
    machine::Machine,
    model::Distance,
    price::{Price, Ps},
    tlb::Tlb,
};

/// The first kernel address. Kernel page numbers count from here.
pub const KERNEL: u64 = 0xffff_8000_0000_0000;

/// Which cached upper levels of walks an invalidation by address removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upper {
    /// None.
    Keep,
    /// Those for the addresses.
    Named,
    /// All under the tag.
    All,
}

/// What an invalidation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Pages from a virtual page number on.
    Pages { tag: u16, first: u64, pages: u64, upper: Upper },
    /// Kernel pages, which are used under every tag.
    KernelPages { first: u64, pages: u64, upper: Upper },
    /// User pages under every tag.
    PagesOfAll { first: u64, pages: u64 },
    /// Everything under a tag.
    Tag(u16),
    /// Everything that is not the kernel's.
    All,
    /// Everything.
    Everything,
}

impl What {
    fn remove(self, tlb: &mut Tlb) {
        match self {
            Self::Pages { tag, first, pages, upper } => {
                tlb.flush_pages(tag.into(), first, pages, upper);
            }
            Self::KernelPages { first, pages, upper } => {
                tlb.flush_pages(KERNEL_KEY, first, pages, upper);
            }
            Self::PagesOfAll { first, pages } => tlb.flush_pages_of_all(first, pages),
            Self::Tag(tag) => tlb.flush_key(tag.into()),
            Self::All => tlb.flush_all(),
            Self::Everything => tlb.flush_global(),
        }
    }

    /// What it costs where it is executed.
    const fn price(self) -> Price {
        match self {
            Self::Tag(_) => Price::FlushTag,
            Self::All => Price::FlushAll,
            Self::Everything => Price::FlushGlobal,
            _ => Price::FlushPage,
        }
    }

    const fn is_by_address(self) -> bool {
        !matches!(self, Self::Tag(_) | Self::All | Self::Everything)
    }

    /// The same under every tag.
    pub(crate) const fn of_all(self) -> Self {
        match self {
            Self::Pages { first, pages, .. } => Self::PagesOfAll { first, pages },
            what => what,
        }
    }
}

/// The kernel page at an address that was sign-extended or cut off after bit 55.
pub(crate) const fn kernel_page(page: u64) -> Option<u64> {
    const PAGES: u64 = (1 << 44) - 1;
    let page = page & PAGES;
    let first = (KERNEL >> 12) & PAGES;
    if page >= first { Some(page - first) } else { None }
}

impl Machine {
    /// Pages under a tag, or kernel pages if the address is one.
    pub(crate) const fn pages(tag: u16, page: u64, pages: u64, upper: Upper) -> What {
        match kernel_page(page) {
            Some(first) => What::KernelPages { first, pages, upper },
            None => What::Pages { tag, first: page & ((1 << 44) - 1), pages, upper },
        }
    }

    /// Removes translations on the CPU that runs.
    pub(crate) fn invalidate(&mut self, what: What) {
        self.invalidate_at(what, what.price());
    }

    /// The same at another price.
    pub(crate) fn invalidate_at(&mut self, what: What, price: Price) {
        self.remove_here(what);
        let counters = &mut self.cpu().counters;
        if what.is_by_address() {
            counters.page_flushes += 1;
        } else {
            counters.full_flushes += 1;
        }
        self.charge_price(Cause::Invalidations, price);
    }

    /// Removes translations on the CPU that runs, as part of something else.
    pub(crate) fn remove_here(&mut self, what: What) {
        self.happened(Happened::Invalidate { what, broadcast: false });
        let whole = self.model.tlb.fractured && what.is_by_address();
        let what = if whole { What::Everything } else { what };
        if let Some(tlb) = &mut self.cpu().tlb {
            what.remove(tlb);
        }
    }

    /// The first part of a broadcast: the instruction, and the wait for a place in the window.
    fn issue(&mut self) {
        self.charge_price(Cause::Broadcasts, Price::BroadcastIssue);
        let window = self.model.fabric_window;
        let cpu = self.cpu();
        let now = cpu.now;
        while cpu.broadcasts.front().is_some_and(|broadcast| broadcast.answered <= now) {
            cpu.broadcasts.pop_front();
        }
        if cpu.broadcasts.len() >= window
            && let Some(oldest) = cpu.broadcasts.pop_front()
        {
            self.wait_for_answer(oldest);
        }
    }

    /// The second part: the interconnect takes it, and it takes effect.
    fn distribute(&mut self, what: What) {
        self.happened(Happened::Invalidate { what, broadcast: true });
        let now = self.cpu().now;
        let service = self.fabric.operation(&self.model, now);
        self.note_broadcast(service.ends);
        let cpu = self.cpu();
        cpu.broadcasts
            .push_back(Broadcast { answered: service.ends, queued: service.begins - now });
        cpu.counters.broadcasts += 1;
        cpu.received += 1; // A CPU is not delayed by its own broadcast.
        let others = self.cpus.len() as u64 - 1;
        self.impose(others * self.model.prices.charge(Price::FabricVictim));
        self.broadcasts.begin();
        let is_noted = match what {
            What::Pages { tag, first, pages, upper } => {
                self.broadcasts.remove_pages(tag.into(), first, pages, upper != Upper::Keep)
            }
            What::KernelPages { first, pages, upper } => {
                self.broadcasts.remove_pages(KERNEL_KEY, first, pages, upper != Upper::Keep)
            }
            What::PagesOfAll { .. } => false,
            What::Tag(tag) => {
                self.broadcasts.remove_key(tag.into());
                true
            }
            What::All => {
                self.broadcasts.remove_all();
                true
            }
            What::Everything => {
                self.broadcasts.remove_all();
                self.broadcasts.remove_key(KERNEL_KEY);
                true
            }
        };
        if !is_noted {
            self.cpus.iter_mut().flat_map(|cpu| &mut cpu.tlb).for_each(|tlb| what.remove(tlb));
        }
    }

    /// Waits for the answer to a broadcast. What it had to wait for others counts as such.
    fn wait_for_answer(&mut self, Broadcast { answered, queued }: Broadcast) {
        let wait = answered.saturating_sub(self.cpu().now);
        let queued = wait.min(queued);
        self.rest(Cause::BroadcastQueue, queued);
        self.rest(Cause::Broadcasts, wait - queued);
    }

    /// The first part of the wait for the broadcasts of the CPU that runs: their answers. Whether there
    /// were any.
    fn await_answers(&mut self) -> bool {
        let Some(last) = self.cpu().broadcasts.pop_back() else { return false };
        self.cpu().broadcasts.clear();
        self.wait_for_answer(last);
        true
    }

    /// The second part: the synchronisation.
    fn synchronise(&mut self) {
        self.cpu().counters.syncs += 1;
        let now = self.cpu().now;
        let service = self.fabric.sync(&self.model, now);
        self.rest(Cause::BroadcastQueue, service.begins - now);
        self.rest(Cause::Broadcasts, service.ends - service.begins);
    }

    /// From the sending of an interrupt to its arrival.
    pub(crate) fn delivery(&self, from: usize, to: usize) -> Ps {
        let prices = &self.model.prices;
        let near = prices.charge(Price::InterruptDeliver);
        match self.places.distance(from as u16, to as u16) {
            far @ Distance::Remote(_) => {
                prices.get(Price::InterruptDeliverRemote).unwrap_or(near) + far.hops(prices)
            }
            _ => near,
        }
    }

    /// Firmware that has harts fence, and waits for them (RISC-V).
    pub(crate) fn firmware_fence(&mut self, harts: impl Iterator<Item = usize>, what: What) {
        self.drain();
        self.charge_price(Cause::Sends, Price::Firmware);
        let mut last: Ps = self.cpu().now;
        for hart in harts {
            if hart >= self.cpus.len() {
                continue;
            }
            if hart == self.running {
                self.invalidate(what);
                continue;
            }
            self.charge_price(Cause::Sends, Price::InterruptSend);
            let prices = &self.model.prices;
            let handler = prices.charge(Price::InterruptEntry)
                + prices.charge(what.price())
                + prices.charge(Price::InterruptExit);
            let answer = self.places.distance(self.running as u16, hart as u16).line(prices);
            let arrival = self.cpu().now + self.delivery(self.running, hart);
            let target = &mut self.cpus[hart];
            // A hart serves one after the other.
            target.firmware = target.firmware.max(arrival) + handler;
            last = last.max(target.firmware + answer);
            target.stolen += handler;
            target.counters.taken += 1;
            if let Some(tlb) = &mut target.tlb {
                what.remove(tlb);
            }
            self.impose(handler);
            self.note_sent();
        }
        let now = self.cpu().now;
        self.rest(Cause::Waiting, last.saturating_sub(now));
    }
}

/// A broadcast under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broadcast {
    /// When it is answered.
    pub(crate) answered: Ps,
    /// How long it had to wait for the broadcasts of others.
    pub(crate) queued: Ps,
}

/// Removes translations on every CPU, and returns when the invalidation is on its way.
pub(crate) fn broadcast(what: What) {
    step(Machine::issue);
    // Others that come before it in the meantime are distributed before it.
    step(|machine| machine.distribute(what));
}

/// Waits until the broadcasts of the CPU that runs are answered, and until the interconnect says so.
pub(crate) fn sync() {
    if step(Machine::await_answers) {
        step(Machine::synchronise);
    }
}
