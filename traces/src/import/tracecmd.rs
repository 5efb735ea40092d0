//! Files of `trace-cmd record`, read without `trace-cmd` (`trace-cmd.dat.v6(5)`).

use std::io::{ErrorKind, Read};

use super::Bad;
use crate::{
    BadPlace, Event, Kind, Names, Origin, Task, Trace,
    binary::{
        events::{self, Decoded},
        page::{Layout, Page},
        setup::Setup,
    },
    order::{cpus, order},
};

/// More CPUs than events can name are a sign of damage.
const CPUS_MAX: u64 = 1 << 16;

/// Reads a file of `trace-cmd record`. `tasks` and `names` are what a list of threads has given.
pub(super) fn read(mut from: Box<dyn Read>, tasks: Vec<Task>, names: Names) -> Result<Trace, Bad> {
    let mut all = Vec::new();
    let cut = match from.read_to_end(&mut all) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => true,
        Err(error) => return Err(bad(format!("it cannot be read: {error}"))),
        Ok(_) => false,
    };
    let setup = Setup::read(&all)
        .map_err(|why| bad(format!("it is a recording of trace-cmd, and {why}")))?;
    let Some(layout) = setup.layout else {
        return Err(bad(
            "it is a recording of trace-cmd whose pages have a form that is not known",
        ));
    };
    let buffers = buffers(&all, setup.length)
        .ok_or_else(|| bad("it is a recording of trace-cmd that ends early"))?;
    let origin = Origin {
        cpus: buffers.len() as u32,
        absent: events::absent(|name| setup.events.iter().any(|known| known == name)),
        ..Origin::default()
    };
    let mut trace = Trace { origin, tasks, ..Trace::default() };
    trace.origin.losses.truncated = cut;
    let mut reader = Reader { setup: &setup, layout, names, trace };
    for (cpu, &(start, length)) in buffers.iter().enumerate() {
        let bytes = all.get(start..).unwrap_or_default();
        reader.trace.origin.losses.truncated |= bytes.len() < length;
        let cpu = u16::try_from(cpu).map_err(|_| bad("there are too many CPUs"))?;
        reader.buffer(cpu, &bytes[..length.min(bytes.len())]);
    }
    reader.finish()
}

fn bad(why: impl Into<String>) -> Bad {
    Bad(BadPlace::Whole, why.into())
}

/// Where the pages of each CPU are, and how many bytes; from what follows the setup. None if it ends before that.
fn buffers(all: &[u8], mut at: usize) -> Option<Vec<(usize, usize)>> {
    let number = |at: usize, size: usize| {
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(all.get(at..at.checked_add(size)?)?);
        usize::try_from(u64::from_le_bytes(wide)).ok()
    };
    let cpus = number(at, 4).filter(|&cpus| cpus as u64 <= CPUS_MAX)?;
    at += 4;
    if all.get(at..at + 10)? == b"options  \0" {
        at += 10;
        loop {
            let id = number(at, 2)?;
            at += 2;
            if id == 0 {
                break;
            }
            at = at.checked_add(4)?.checked_add(number(at, 4)?)?;
        }
    }
    if all.get(at..at + 10)? != b"flyrecord\0" {
        return None;
    }
    at += 10;
    (0..cpus).map(|cpu| Some((number(at + 16 * cpu, 8)?, number(at + 16 * cpu + 8, 8)?))).collect()
}

struct Reader<'s> {
    setup: &'s Setup,
    layout: Layout,
    names: Names,
    trace: Trace,
}

impl Reader<'_> {
    fn buffer(&mut self, cpu: u16, bytes: &[u8]) {
        let Self { setup, layout, names, trace } = self;
        let losses = &mut trace.origin.losses;
        for page in bytes.chunks(layout.size) {
            let Ok(mut page) = Page::open(*layout, page) else {
                losses.damaged += 1;
                continue;
            };
            if let Some(events) = page.lost {
                let (time, kind) = (page.time(), Kind::Lost { events });
                trace.events.push(Event { time, cpu, in_interrupt: None, task: 0, kind });
                losses.lost += events;
            }
            loop {
                match page.next() {
                    Ok(None) => break,
                    Ok(Some((time, bytes))) => {
                        match setup.decoder.decode(time, cpu, bytes, |name| names.number(name)) {
                            Decoded::Event(event) => trace.events.push(event),
                            Decoded::Foreign => losses.foreign += 1,
                            Decoded::Damaged => losses.damaged += 1,
                        }
                    }
                    Err(_) => {
                        losses.damaged += 1;
                        break;
                    }
                }
            }
        }
    }

    fn finish(self) -> Result<Trace, Bad> {
        let Self { setup, names, mut trace, .. } = self;
        let events = &mut trace.events;
        if !events.iter().any(|event| !matches!(event.kind, Kind::Lost { .. })) {
            return Err(bad(
                "it is a recording of trace-cmd in which none of the events is one that traces hold",
            ));
        }
        trace.origin.losses.reordered = order(events);
        trace.origin.cpus = trace.origin.cpus.max(cpus(events));
        if events.iter().any(|event| matches!(event.kind, Kind::Flush { .. } | Kind::Interrupt)) {
            trace.origin.architecture = Some("x86_64".into());
        }
        // The file has names of threads, and not their processes.
        let _ = &setup.threads;
        trace.names = names.into_all();
        Ok(trace)
    }
}
