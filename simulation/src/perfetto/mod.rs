//! A timeline as a file for Perfetto: its `TrackEvent` protocol.
//!
//! Each socket is a process and each CPU a thread of it, with what the CPU did as slices; where nothing
//! else is said, `program`. An interrupt is a flow of arrows: from the instant at which it was sent, to
//! the slice of the handler, to the instant at which the sender had its answer. Counters show the page
//! walks of each socket, and how many interrupts and broadcasts are under way.
//!
//! Perfetto counts nanoseconds, the machine picoseconds: times are rounded down. What CPUs do before their
//! programs begin is left out, as in `lookaside explain`.

mod lane;
mod message;

use std::io::{self, Write};

use lookaside_machine::timed::{Doing, Interrupt, Moment, Ps, Timeline};
use prost::Message as _;
use rustc_hash::{FxHashMap, FxHashSet};

use self::{
    lane::Lane,
    message::{
        CounterDescriptor, EventName, InternedData, ProcessDescriptor, ThreadDescriptor, Trace,
        TracePacket, TrackDescriptor, TrackEvent,
    },
};
use crate::data::Machine;

/// All packets are of one writer.
const SEQUENCE: u32 = 1;
/// Numbers of processes begin here, beyond those of threads.
const PROCESSES: u64 = 10_000;
/// Numbers of counters begin here.
const COUNTERS: u64 = 20_000;

/// Writes a timeline of a run on a machine.
///
/// # Errors
///
/// Those of `out`.
pub fn write(timeline: &Timeline, machine: &Machine, out: impl Write) -> io::Result<()> {
    let topology = machine.model.topology;
    let per_socket = (topology.cores() / topology.sockets).max(1);
    // Second threads of cores have the numbers after all first ones.
    let socket = move |cpu: usize| (cpu as u32 % topology.cores()) / per_socket;
    let mut file = File { out, names: FxHashMap::default() };
    file.begin()?;
    let lanes = Lane::all(timeline);
    for socket in 0..topology.sockets {
        file.process(socket)?;
    }
    for cpu in 0..lanes.len() {
        file.thread(cpu, socket(cpu))?;
    }
    let interrupts: Vec<Interrupt> = interrupts(timeline, &lanes);
    let mut flows = Flows::new(&interrupts, lanes.len());
    for (cpu, lane) in lanes.iter().enumerate() {
        file.lane(cpu, lane, &mut flows)?;
    }
    file.interrupts(&interrupts)?;
    for number in 0..topology.sockets {
        let here = |cpu: u32| socket(cpu as usize) == number;
        file.walks(number, timeline, &lanes, here)?;
    }
    let way = interrupts.iter().map(|i| (i.sent, i.answered.or(i.returned).unwrap_or(Ps::MAX)));
    file.under_way(COUNTERS, "interrupts under way", way)?;
    let broadcast = |moment: &Moment| match *moment {
        Moment::Broadcast { begin, end, .. } => Some((begin, end)),
        _ => None,
    };
    let way = timeline.moments.iter().filter_map(broadcast);
    file.under_way(COUNTERS + 1, "broadcasts under way", way)
}

/// The interrupts that were sent after programs began, and of which the timeline still has the handler
/// if they were taken: what happened at its beginning may be kept in part.
fn interrupts(timeline: &Timeline, lanes: &[Lane]) -> Vec<Interrupt> {
    let handler = |moment: &Moment| match *moment {
        Moment::Slice { cpu, doing: Doing::Activity("interrupt"), begin, .. } => Some((cpu, begin)),
        _ => None,
    };
    let handlers: FxHashSet<(u32, Ps)> = timeline.moments.iter().filter_map(handler).collect();
    let interrupt = |moment: &Moment| match *moment {
        Moment::Interrupt(interrupt) => Some(interrupt),
        _ => None,
    };
    let begun = |i: &Interrupt| lanes.get(i.from as usize).is_some_and(|l| l.begin <= i.sent);
    let seen = |i: &Interrupt| i.taken.is_none_or(|taken| handlers.contains(&(i.to, taken)));
    timeline.moments.iter().filter_map(interrupt).filter(|i| begun(i) && seen(i)).collect()
}

/// The interrupts that each handler serves, by the moment at which it is entered: the number of an
/// interrupt, and whether nothing comes after.
struct Flows(Vec<FxHashMap<Ps, Vec<(u64, bool)>>>);

impl Flows {
    fn new(interrupts: &[Interrupt], cpus: usize) -> Self {
        let mut flows = Self(vec![FxHashMap::default(); cpus]);
        for (number, interrupt) in interrupts.iter().enumerate() {
            let here = flows.0.get_mut(interrupt.to as usize);
            if let (Some(here), Some(taken)) = (here, interrupt.taken) {
                let last = interrupt.answered.is_none();
                here.entry(taken).or_default().push((number as u64 + 1, last));
            }
        }
        flows
    }

    fn take(&mut self, cpu: usize, taken: Ps) -> Vec<(u64, bool)> {
        self.0[cpu].remove(&taken).unwrap_or_default()
    }
}

/// The number of a CPU's line; 0 would be nobody's.
const fn line(cpu: usize) -> u64 {
    cpu as u64 + 1
}

struct File<W> {
    out: W,
    names: FxHashMap<String, u64>,
}

impl<W: Write> File<W> {
    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let part = Trace { packet: vec![packet] };
        self.out.write_all(&part.encode_to_vec())
    }

    fn begin(&mut self) -> io::Result<()> {
        self.packet(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(TracePacket::STATE_CLEARED),
            ..TracePacket::default()
        })
    }

    fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.packet(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(track),
            ..TracePacket::default()
        })
    }

    fn process(&mut self, socket: u32) -> io::Result<()> {
        let number = PROCESSES + u64::from(socket);
        let name = Some(format!("Socket {socket}"));
        self.track(TrackDescriptor {
            uuid: Some(number),
            process: Some(ProcessDescriptor { pid: Some(number as i32), process_name: name }),
            ..TrackDescriptor::default()
        })
    }

    fn thread(&mut self, cpu: usize, socket: u32) -> io::Result<()> {
        let process = PROCESSES + u64::from(socket);
        self.track(TrackDescriptor {
            uuid: Some(line(cpu)),
            parent_uuid: Some(process),
            thread: Some(ThreadDescriptor {
                pid: Some(process as i32),
                tid: Some(line(cpu) as i32),
                thread_name: Some(format!("CPU {cpu}")),
            }),
            ..TrackDescriptor::default()
        })
    }

    fn counter(&mut self, uuid: u64, parent: Option<u64>, name: &str) -> io::Result<()> {
        self.track(TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: parent,
            name: Some(name.to_owned()),
            counter: Some(CounterDescriptor { unit: Some(CounterDescriptor::COUNT) }),
            ..TrackDescriptor::default()
        })
    }

    /// An event whose name has a number, which is written with its first use.
    fn event(&mut self, time: Ps, name: Option<&str>, mut event: TrackEvent) -> io::Result<()> {
        let mut interned = None;
        if let Some(name) = name {
            let next = self.names.len() as u64 + 1;
            event.name_iid = Some(match self.names.get(name) {
                Some(&known) => known,
                None => {
                    self.names.insert(name.to_owned(), next);
                    let name = EventName { iid: Some(next), name: Some(name.to_owned()) };
                    interned = Some(InternedData { event_names: vec![name] });
                    next
                }
            });
        }
        self.packet(TracePacket {
            timestamp: Some(time / 1000),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(TracePacket::NEEDS_STATE),
            interned_data: interned,
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    fn lane(&mut self, cpu: usize, lane: &Lane, flows: &mut Flows) -> io::Result<()> {
        let track_uuid = Some(line(cpu));
        lane.walk(|time, step| match step {
            lane::Step::Begin { name, category, handler } => {
                let served = if handler { flows.take(cpu, time) } else { Vec::new() };
                let ids = |wanted: bool| {
                    let ids = served.iter().filter(move |&&(_, last)| last == wanted);
                    ids.map(|&(id, _)| id).collect()
                };
                let event = TrackEvent {
                    r#type: Some(TrackEvent::SLICE_BEGIN),
                    track_uuid,
                    categories: vec![category.to_owned()],
                    flow_ids: ids(false),
                    terminating_flow_ids: ids(true),
                    ..TrackEvent::default()
                };
                self.event(time, Some(name), event)
            }
            lane::Step::End => {
                let r#type = Some(TrackEvent::SLICE_END);
                self.event(time, None, TrackEvent { r#type, track_uuid, ..TrackEvent::default() })
            }
        })
    }

    /// The beginnings and ends of the arrows.
    fn interrupts(&mut self, interrupts: &[Interrupt]) -> io::Result<()> {
        for (number, interrupt) in interrupts.iter().enumerate() {
            let &Interrupt { from, to, sent, answered, .. } = interrupt;
            let id = vec![number as u64 + 1];
            let instant = TrackEvent {
                r#type: Some(TrackEvent::INSTANT),
                track_uuid: Some(line(from as usize)),
                categories: vec!["interrupts".to_owned()],
                ..TrackEvent::default()
            };
            let event = TrackEvent { flow_ids: id.clone(), ..instant.clone() };
            self.event(sent, Some(&format!("interrupt to CPU {to}")), event)?;
            if let Some(answered) = answered {
                let event = TrackEvent { terminating_flow_ids: id, ..instant };
                self.event(answered, Some(&format!("answer of CPU {to}")), event)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, counter: u64, time: Ps, value: u64) -> io::Result<()> {
        let event = TrackEvent {
            r#type: Some(TrackEvent::COUNTER),
            track_uuid: Some(counter),
            counter_value: Some(value as i64),
            ..TrackEvent::default()
        };
        self.event(time, None, event)
    }

    /// The page walks of a socket's CPUs.
    fn walks(
        &mut self,
        socket: u32,
        timeline: &Timeline,
        lanes: &[Lane],
        here: impl Fn(u32) -> bool,
    ) -> io::Result<()> {
        let mut of = vec![0; lanes.len()];
        let mut points = Vec::new();
        for moment in &timeline.moments {
            if let Moment::Walks { cpu, time, count } = *moment
                && here(cpu)
            {
                points.push((time, cpu as usize, count));
            }
        }
        if points.is_empty() {
            return Ok(());
        }
        points.sort_unstable();
        let counter = COUNTERS + 2 + u64::from(socket);
        self.counter(counter, Some(PROCESSES + u64::from(socket)), "page walks")?;
        let mut sum = 0;
        for (time, cpu, count) in points {
            sum += count - core::mem::replace(&mut of[cpu], count);
            if time >= lanes[cpu].begin {
                self.value(counter, time, sum)?;
            }
        }
        Ok(())
    }

    /// How many things are under way that have a beginning and an end.
    fn under_way(
        &mut self,
        counter: u64,
        name: &str,
        ways: impl Iterator<Item = (Ps, Ps)>,
    ) -> io::Result<()> {
        let mut changes: Vec<(Ps, bool)> =
            ways.flat_map(|(begin, end)| [(begin, true), (end, false)]).collect();
        if changes.is_empty() {
            return Ok(());
        }
        // What is over at once has begun before.
        changes.sort_unstable_by_key(|&(time, more)| (time, !more));
        self.counter(counter, None, name)?;
        let mut count = 0_u64;
        for (i, &(time, more)) in changes.iter().enumerate() {
            count = if more { count + 1 } else { count - 1 };
            let last = changes.get(i + 1).is_none_or(|&(next, _)| next != time);
            if last && time != Ps::MAX {
                self.value(counter, time, count)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
