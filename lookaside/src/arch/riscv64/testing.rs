//! A hart for tests: it executes nothing and writes everything down.

extern crate std;

use core::cell::{Cell, RefCell};
use std::vec::Vec;

use super::Instructions;
use crate::error::Error;

/// One executed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    SfenceVma(Option<u64>, Option<u16>),
    SfenceWInval,
    SinvalVma(Option<u64>, Option<u16>),
    SfenceInvalIr,
    Fence,
    ReadSatp,
    WriteSatp(u64),
    Sbi { harts: u64, base: u64, start: u64, size: u64, asid: Option<u16> },
}

/// Which SBI calls the firmware refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuses {
    Nothing,
    Asids,
    Masks,
    Everything,
}

pub(crate) struct Recorder {
    events: RefCell<Vec<Event>>,
    satp: Cell<u64>,
    /// The bits of `satp` that can be written.
    writable: u64,
    pub(crate) refuses: Cell<Refuses>,
}

impl Recorder {
    pub(crate) fn with_asid_bits(bits: u32, satp: u64) -> Self {
        Self::with_asid_mask((1 << bits) - 1, satp)
    }

    pub(crate) fn with_asid_mask(mask: u64, satp: u64) -> Self {
        Self {
            events: RefCell::new(Vec::new()),
            satp: Cell::new(satp),
            writable: !(0xffff << 44) | mask << 44,
            refuses: Cell::new(Refuses::Nothing),
        }
    }

    pub(crate) fn satp(&self) -> u64 {
        self.satp.get()
    }

    /// What was executed since the last call.
    pub(crate) fn take(&self) -> Vec<Event> {
        self.events.take()
    }

    fn record(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }
}

impl Instructions for Recorder {
    fn sfence_vma(&self, address: Option<u64>, asid: Option<u16>) {
        self.record(Event::SfenceVma(address, asid));
    }

    fn sfence_w_inval(&self) {
        self.record(Event::SfenceWInval);
    }

    fn sinval_vma(&self, address: Option<u64>, asid: Option<u16>) {
        self.record(Event::SinvalVma(address, asid));
    }

    fn sfence_inval_ir(&self) {
        self.record(Event::SfenceInvalIr);
    }

    fn fence(&self) {
        self.record(Event::Fence);
    }

    fn read_satp(&self) -> u64 {
        self.record(Event::ReadSatp);
        self.satp.get()
    }

    fn write_satp(&self, value: u64) {
        self.record(Event::WriteSatp(value));
        self.satp.set(value & self.writable);
    }

    fn remote_sfence_vma(
        &self,
        harts: u64,
        base: u64,
        start: u64,
        size: u64,
        asid: Option<u16>,
    ) -> Result<(), Error> {
        self.record(Event::Sbi { harts, base, start, size, asid });
        let refused = match self.refuses.get() {
            Refuses::Nothing => false,
            Refuses::Asids => asid.is_some(),
            Refuses::Masks => base != u64::MAX,
            Refuses::Everything => true,
        };
        if refused { Err(Error::Unsupported("a test")) } else { Ok(()) }
    }
}
