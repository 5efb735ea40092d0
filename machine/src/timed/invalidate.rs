//! What invalidations remove, wherever they act.

use super::{
    account::Cause,
    history::Happened,
    machine::Machine,
    price::{Price, Ps},
    tlb::Tlb,
};

/// The first kernel address. Kernel page numbers count from here.
pub const KERNEL: u64 = 0xffff_8000_0000_0000;

/// What an invalidation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Pages from a virtual page number on.
    Pages {
        tag: u16,
        first: u64,
        pages: u64,
        tables: bool,
    },
    /// Pages under every tag: the kernel's.
    KernelPages {
        first: u64,
        pages: u64,
        tables: bool,
    },
    Tag(u16),
    /// Everything that is not the kernel's.
    All,
    Everything,
}

impl What {
    fn remove(self, tlb: &mut Tlb) {
        match self {
            Self::Pages { tag, first, pages, tables } => tlb.flush_pages(tag, first, pages, tables),
            Self::KernelPages { first, pages, tables } => {
                tlb.flush_kernel_pages(first, pages, tables);
            }
            Self::Tag(tag) => tlb.flush_tag(tag),
            Self::All => tlb.flush_all(),
            Self::Everything => tlb.flush_global(),
        }
    }

    /// What it costs where it is executed.
    const fn price(self) -> Price {
        match self {
            Self::Pages { .. } | Self::KernelPages { .. } => Price::FlushPage,
            Self::Tag(_) => Price::FlushTag,
            Self::All => Price::FlushAll,
            Self::Everything => Price::FlushGlobal,
        }
    }

    const fn is_by_address(self) -> bool {
        matches!(self, Self::Pages { .. } | Self::KernelPages { .. })
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
    pub(crate) const fn pages(tag: u16, page: u64, pages: u64, tables: bool) -> What {
        match kernel_page(page) {
            Some(first) => What::KernelPages { first, pages, tables },
            None => What::Pages { tag, first: page & ((1 << 44) - 1), pages, tables },
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

    /// Removes translations on every CPU, and returns when the invalidation is on its way.
    pub(crate) fn broadcast(&mut self, what: What) {
        self.happened(Happened::Invalidate { what, broadcast: true });
        self.charge_price(Cause::Broadcasts, Price::BroadcastIssue);
        let now = self.cpu().now;
        let under_way = &mut self.cpu().broadcasts;
        while under_way.front().is_some_and(|&answered| answered <= now) {
            under_way.pop_front();
        }
        if under_way.len() >= self.model.fabric_window {
            let oldest = self.cpu().broadcasts.pop_front().unwrap_or(now);
            self.charge_until(Cause::BroadcastQueue, oldest);
        }
        let now = self.cpu().now;
        let service = self.fabric.operation(&self.model, now);
        let cpu = self.cpu();
        cpu.broadcasts.push_back(service.ends);
        cpu.counters.broadcasts += 1;
        cpu.received += 1; // It is no victim of its own.
        for cpu in &mut self.cpus {
            if let Some(tlb) = &mut cpu.tlb {
                what.remove(tlb);
            }
        }
    }

    /// Waits until the broadcasts of the CPU that runs are answered.
    pub(crate) fn sync(&mut self) {
        let Some(&answered) = self.cpu().broadcasts.back() else { return };
        self.cpu().broadcasts.clear();
        self.cpu().counters.syncs += 1;
        let now = self.cpu().now;
        let alone = answered.max(now);
        let service = self.fabric.sync(&self.model, now, answered);
        // The wait for others is what comes on top of the answers to its own.
        self.charge(Cause::Broadcasts, alone - now);
        self.charge(Cause::BroadcastQueue, service.begins - alone);
        self.charge(Cause::Broadcasts, service.ends - service.begins);
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
            let answer = self.model.topology.distance(self.running as u32, hart as u32).line();
            let (deliver, answer) = (prices.charge(Price::InterruptDeliver), prices.charge(answer));
            last = last.max(self.cpu().now + deliver + handler + answer);
            let target = &mut self.cpus[hart];
            target.stolen += handler;
            target.counters.taken += 1;
            if let Some(tlb) = &mut target.tlb {
                what.remove(tlb);
            }
            self.cpu().counters.sent += 1;
        }
        self.charge_until(Cause::Waiting, last);
    }
}
