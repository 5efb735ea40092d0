//! Events as bytes. What an event has in common with those before it is not written: the CPU, the thread
//! that runs there, and addresses but for their distance.

use super::bytes::{Bytes, Malformed, put, put_difference};
use crate::{Call, Event, Kind, NameId, Pages, Purpose, Reason};

/// Bit of an event's first byte: CPU and thread are those that are expected.
const AS_EXPECTED: u8 = 0x80;

const PURPOSES: [Purpose; 4] =
    [Purpose::Functions, Purpose::WakeUp, Purpose::Reschedule, Purpose::Other];

/// What writer and reader know from the events before. A block begins with nothing known.
#[derive(Default)]
pub(super) struct Context {
    block: u64,
    time: u64,
    cpu: u16,
    cpus: Vec<Local>,
    space: u64,
    request: u64,
    arguments: [[u64; 5]; Call::ALL.len()],
    values: [u64; Call::ALL.len()],
}

/// What is known about a CPU.
#[derive(Clone, Copy, Default)]
struct Local {
    /// In which block; in others nothing is known.
    block: u64,
    /// Which thread runs.
    task: u32,
    /// The address of the latest fault.
    address: u64,
}

impl Context {
    /// A block begins.
    pub(super) fn begin(&mut self) {
        let block = self.block + 1;
        // The room for CPUs is kept: to clear it for each block would take longer than to read one.
        *self = Self { block, cpus: core::mem::take(&mut self.cpus), ..Self::default() };
    }

    fn local(&mut self, cpu: u16) -> &mut Local {
        let cpu = usize::from(cpu);
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, Local::default());
        }
        let local = &mut self.cpus[cpu];
        if local.block != self.block {
            *local = Local { block: self.block, ..Local::default() };
        }
        local
    }

    /// Who ran: the thread that the CPU turned to is expected from there on.
    fn ran(&mut self, event: &Event) {
        self.time = event.time;
        self.cpu = event.cpu;
        self.local(event.cpu).task = match event.kind {
            Kind::Switch { next, .. } => next,
            _ => event.task,
        };
    }

    /// Writes an event.
    pub(super) fn put(&mut self, to: &mut Vec<u8>, event: &Event) {
        let expected = self.local(event.cpu).task;
        let same = event.cpu == self.cpu && event.task == expected;
        let interrupt = match event.in_interrupt {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        };
        to.push(number(&event.kind) | interrupt << 5 | if same { AS_EXPECTED } else { 0 });
        if !same {
            put(to, event.cpu.into());
            put_difference(to, event.task.into(), expected.into());
        }
        put_difference(to, event.time, self.time);
        self.put_kind(to, event);
        self.ran(event);
    }

    fn put_kind(&mut self, to: &mut Vec<u8>, event: &Event) {
        match event.kind {
            Kind::Switch { next, name, runnable } => {
                put(to, next.into());
                put(to, with_bit(name.0.into(), runnable));
            }
            Kind::Migrate { task, to: cpu } => {
                put(to, task.into());
                put(to, cpu.into());
            }
            Kind::Create { task, name, flags } => {
                put(to, task.into());
                put(to, name.0.into());
                put(to, flags);
            }
            Kind::Execute { task, old } => {
                put(to, task.into());
                put(to, old.into());
            }
            Kind::Exit | Kind::Interrupt | Kind::Resume => {}
            Kind::Rename { task, name } => {
                put(to, task.into());
                put(to, name.0.into());
            }
            Kind::Unmapped { space } => {
                put_difference(to, space, self.space);
                self.space = space;
            }
            Kind::Flush { reason, pages } => {
                to.push(reason as u8);
                match pages {
                    Pages::Everything => put(to, 0),
                    Pages::Some(pages) => put(to, u64::from(pages) + 1),
                }
            }
            Kind::Call { call, arguments } => {
                to.push(call as u8);
                let before = core::mem::replace(&mut self.arguments[call as usize], arguments);
                for (argument, before) in arguments.into_iter().zip(before) {
                    put_difference(to, argument, before);
                }
            }
            Kind::Return { call, value } => {
                to.push(call as u8);
                let before = core::mem::replace(&mut self.values[call as usize], value as u64);
                put_difference(to, value as u64, before);
            }
            Kind::Fault { address, code } => {
                let before = core::mem::replace(&mut self.local(event.cpu).address, address);
                put_difference(to, address, before);
                put(to, code);
            }
            Kind::Ask { target, request, flush } => {
                put(to, with_bit(target.into(), flush));
                put_difference(to, request, self.request);
                self.request = request;
            }
            Kind::Serve { request, flush } | Kind::Served { request, flush } => {
                to.push(flush.into());
                put_difference(to, request, self.request);
                self.request = request;
            }
            Kind::Send { target, purpose } => {
                put(to, target.into());
                to.push(purpose as u8);
            }
            Kind::SendMany { targets, purpose } => {
                put(to, targets);
                to.push(purpose as u8);
            }
            Kind::Lost { events } => put(to, events),
            Kind::Caller { function } => put(to, function.0.into()),
        }
    }

    /// Reads an event. Names are below `names`.
    pub(super) fn take(&mut self, from: &mut Bytes<'_>, names: u32) -> Result<Event, Malformed> {
        let first = from.byte()?;
        let in_interrupt = match first >> 5 & 3 {
            0 => None,
            1 => Some(false),
            2 => Some(true),
            _ => return Err("the first byte of an event has bits that have no meaning"),
        };
        let cpu = if first & AS_EXPECTED == 0 { from.narrow()? } else { self.cpu };
        let expected = self.local(cpu).task;
        let task = if first & AS_EXPECTED == 0 {
            let task = from.difference(expected.into())?;
            u32::try_from(task).map_err(|_| "the number of a thread is too large")?
        } else {
            expected
        };
        let time = from.difference(self.time)?;
        let kind = self.take_kind(first & 0x1f, cpu, from, names)?;
        let event = Event { time, cpu, in_interrupt, task, kind };
        self.ran(&event);
        Ok(event)
    }

    fn take_kind(
        &mut self,
        number: u8,
        cpu: u16,
        from: &mut Bytes<'_>,
        names: u32,
    ) -> Result<Kind, Malformed> {
        let name = |number: u64| {
            let known = u32::try_from(number).ok().filter(|&number| number < names);
            known.map(NameId).ok_or("an event bears a name that is not there")
        };
        Ok(match number {
            0 => {
                let next = from.narrow()?;
                let both = from.number()?;
                Kind::Switch { next, name: name(both >> 1)?, runnable: both & 1 == 1 }
            }
            1 => Kind::Migrate { task: from.narrow()?, to: from.narrow()? },
            2 => {
                let task = from.narrow()?;
                Kind::Create { task, name: name(from.number()?)?, flags: from.number()? }
            }
            3 => Kind::Execute { task: from.narrow()?, old: from.narrow()? },
            4 => Kind::Exit,
            5 => Kind::Rename { task: from.narrow()?, name: name(from.number()?)? },
            6 => {
                self.space = from.difference(self.space)?;
                Kind::Unmapped { space: self.space }
            }
            7 => {
                let reason = Reason::from_number(from.byte()?.into());
                let pages = match from.number()? {
                    0 => Pages::Everything,
                    more => Pages::Some(u32::try_from(more - 1).map_err(|_| "too many pages")?),
                };
                Kind::Flush { reason: reason.ok_or("a flush has an unknown reason")?, pages }
            }
            8 => {
                let call = call(from)?;
                let arguments = &mut self.arguments[call as usize];
                for argument in arguments.iter_mut() {
                    *argument = from.difference(*argument)?;
                }
                Kind::Call { call, arguments: *arguments }
            }
            9 => {
                let call = call(from)?;
                let value = &mut self.values[call as usize];
                *value = from.difference(*value)?;
                Kind::Return { call, value: *value as i64 }
            }
            10 => {
                let latest = &mut self.local(cpu).address;
                *latest = from.difference(*latest)?;
                Kind::Fault { address: *latest, code: from.number()? }
            }
            11 => {
                let both = from.number()?;
                let target =
                    u16::try_from(both >> 1).map_err(|_| "the number of a CPU is too large")?;
                self.request = from.difference(self.request)?;
                Kind::Ask { target, request: self.request, flush: both & 1 == 1 }
            }
            12 | 13 => {
                let flush = match from.byte()? {
                    0 => false,
                    1 => true,
                    _ => return Err("a flag is neither 0 nor 1"),
                };
                self.request = from.difference(self.request)?;
                let request = self.request;
                if number == 12 {
                    Kind::Serve { request, flush }
                } else {
                    Kind::Served { request, flush }
                }
            }
            14 => Kind::Send { target: from.narrow()?, purpose: purpose(from)? },
            15 => Kind::SendMany { targets: from.number()?, purpose: purpose(from)? },
            16 => Kind::Interrupt,
            17 => Kind::Resume,
            18 => Kind::Lost { events: from.number()? },
            19 => Kind::Caller { function: name(from.number()?)? },
            _ => return Err("an event is of an unknown kind"),
        })
    }
}

/// The number of a kind in files. It never changes within a version.
const fn number(kind: &Kind) -> u8 {
    match kind {
        Kind::Switch { .. } => 0,
        Kind::Migrate { .. } => 1,
        Kind::Create { .. } => 2,
        Kind::Execute { .. } => 3,
        Kind::Exit => 4,
        Kind::Rename { .. } => 5,
        Kind::Unmapped { .. } => 6,
        Kind::Flush { .. } => 7,
        Kind::Call { .. } => 8,
        Kind::Return { .. } => 9,
        Kind::Fault { .. } => 10,
        Kind::Ask { .. } => 11,
        Kind::Serve { .. } => 12,
        Kind::Served { .. } => 13,
        Kind::Send { .. } => 14,
        Kind::SendMany { .. } => 15,
        Kind::Interrupt => 16,
        Kind::Resume => 17,
        Kind::Lost { .. } => 18,
        Kind::Caller { .. } => 19,
    }
}

/// The names that an event bears, which must have been written before it.
pub(super) const fn name(kind: &Kind) -> Option<NameId> {
    match *kind {
        Kind::Switch { name, .. } | Kind::Create { name, .. } | Kind::Rename { name, .. } => {
            Some(name)
        }
        Kind::Caller { function } => Some(function),
        _ => None,
    }
}

const fn with_bit(number: u64, bit: bool) -> u64 {
    number << 1 | bit as u64
}

fn call(from: &mut Bytes<'_>) -> Result<Call, Malformed> {
    Call::ALL.get(usize::from(from.byte()?)).copied().ok_or("a system call is unknown")
}

fn purpose(from: &mut Bytes<'_>) -> Result<Purpose, Malformed> {
    PURPOSES.get(usize::from(from.byte()?)).copied().ok_or("an interrupt has an unknown purpose")
}
