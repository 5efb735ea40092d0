//! The call chains that the kernel records with system calls, and the functions that they are of.
//!
//! With the option `userstacktrace` every event of an instance is followed by the addresses of the functions that the program
//! is in. So that only system calls bear that cost, they have an instance of their own.
//!
//! An address says nothing once its process has ended. So pages are looked at as soon as they are read: each process that
//! appears in one is asked for its mappings, once, and again when it has mapped code. Functions get their names after the
//! recording, when that disturbs nobody.

use std::{collections::HashMap, sync::Arc};

use super::maps;
use crate::{
    CLONE_THREAD, Call, Event, Kind, NameId, Names, Trace,
    binary::{
        events::{Decoded, Decoder},
        format::{Field, Format},
        page::{Layout, Page},
    },
    callers::{Callers, Maps, Place},
    fault,
};

/// The name of the event with a call chain.
pub(super) const EVENT: &str = "ftrace/user_stack";
/// How many chains are remembered at most before they have been looked up in mappings: those of a program without frame
/// pointers hold whatever its registers did.
const REMEMBERED: usize = 1 << 16;
/// In the protection of `mmap` and `mprotect`: code.
const EXECUTABLE: u64 = 4;
/// In the flags of `mmap`: no file.
const OF_NO_FILE: u64 = 0x20;

/// Where a call chain is in its event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    kind: Field,
    id: u64,
    task: Field,
    process: Field,
    addresses: Field,
}

/// The kernel's record of a call chain, which follows the event that it is of.
#[derive(Debug)]
struct Stack<'b> {
    task: u32,
    process: u32,
    addresses: &'b [u8],
}

impl Shape {
    /// By its file `format`; none if that has other fields.
    pub(super) fn of(format: &Format) -> Option<Self> {
        let field = |name| format.field(name);
        Some(Self {
            kind: field("common_type")?,
            id: format.id.into(),
            task: field("common_pid")?,
            process: field("tgid")?,
            addresses: field("caller")?,
        })
    }

    /// Reads an event; none if it is of another kind.
    fn read<'b>(&self, event: &'b [u8]) -> Option<Stack<'b>> {
        (self.kind.number(event)? == self.id).then_some(())?;
        Some(Stack {
            task: self.task.small(event)?,
            process: self.process.small(event)?,
            addresses: self.addresses.bytes(event)?,
        })
    }
}

/// What is known of a process.
#[derive(Debug, Default)]
struct Process {
    maps: Maps,
    /// In which round it has mapped code, if its mappings have not been read since.
    changed: Option<u64>,
    /// In which round its mappings were read.
    asked: u64,
    /// Chains that were looked up in these mappings.
    known: HashMap<Vec<u8>, u32>,
}

/// Code that a process maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    OfFile,
    Anonymous,
}

impl Code {
    /// What the call of an event maps.
    fn of(kind: Kind) -> Option<Self> {
        let Kind::Call { call, arguments } = kind else { return None };
        let changes = matches!(call, Call::Mmap | Call::Mprotect | Call::PkeyMprotect);
        let of_file = call == Call::Mmap && arguments[3] & OF_NO_FILE == 0;
        let code = if of_file { Self::OfFile } else { Self::Anonymous };
        (changes && arguments[2] & EXECUTABLE != 0).then_some(code)
    }
}

/// A chain.
#[derive(Clone, Debug)]
enum Chain {
    Known(Vec<Place>),
    /// Nobody knows what the process had mapped.
    Unknown(u32, Vec<u8>),
}

impl Chain {
    /// What tells it from all others.
    fn key(&self) -> Vec<u8> {
        match self {
            Self::Known(places) => {
                let place = |place: &Place| {
                    (u128::from(place.file) << 64 | u128::from(place.offset)).to_le_bytes()
                };
                places.iter().flat_map(place).collect()
            }
            // The others have a multiple of sixteen bytes.
            Self::Unknown(process, addresses) => [&process.to_le_bytes(), &addresses[..]].concat(),
        }
    }
}

/// The call chains of a recording.
#[derive(Debug)]
pub(super) struct Stacks {
    shape: Shape,
    decoder: Arc<Decoder>,
    callers: Callers,
    processes: HashMap<u32, Process>,
    chains: Vec<Chain>,
    numbers: HashMap<Vec<u8>, u32>,
    /// For each buffer the chains in the order in which they were recorded.
    recorded: Vec<Vec<u32>>,
    round: u64,
}

impl Stacks {
    /// None yet, of so many buffers.
    pub(super) fn new(shape: Shape, decoder: Arc<Decoder>, buffers: usize) -> Self {
        Self {
            shape,
            decoder,
            callers: Callers::default(),
            processes: HashMap::new(),
            chains: Vec::new(),
            numbers: HashMap::new(),
            recorded: vec![Vec::new(); buffers],
            round: 0,
        }
    }

    /// The buffers are about to be read once more.
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Looks at a page that was just read from a buffer.
    pub(super) fn look(&mut self, buffer: usize, layout: Layout, page: &[u8]) {
        // A damaged page ends the reading of all: `read_page` refuses it.
        let Ok(mut page) = Page::open(layout, page) else { return };
        let mut code = None;
        while let Ok(Some((time, event))) = page.next() {
            if let Some(stack) = self.shape.read(event) {
                let number = self.number(&stack);
                self.recorded[buffer].push(number);
                if let Some(code) = code.take() {
                    self.changes(stack.process, code);
                }
                continue;
            }
            let name = |_: &[u8]| NameId::default();
            code = match self.decoder.decode(time, 0, event, name) {
                Decoded::Event(Event { kind: Kind::Execute { task, .. }, .. }) => {
                    self.processes.remove(&task);
                    None
                }
                Decoded::Event(event) => Code::of(event.kind),
                _ => None,
            };
        }
    }

    /// A process is about to map code.
    fn changes(&mut self, process: u32, code: Code) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.changed = Some(self.round);
            if code == Code::OfFile {
                process.known.clear();
            }
        }
    }

    /// The number of a chain.
    fn number(&mut self, stack: &Stack<'_>) -> u32 {
        let Self { callers, processes, round, .. } = self;
        let process = processes.get(&stack.process);
        let changed_before =
            |process: &Process| process.changed.is_some_and(|in_round| in_round < *round);
        if let Some(process) = process
            && !changed_before(process)
            && let Some(&number) = process.known.get(stack.addresses)
        {
            return number;
        }
        let mut found = process.and_then(|process| places(&process.maps, stack.addresses));
        let ask = process.is_none_or(|process| {
            let missing = found.is_none() && process.changed.is_some();
            process.asked < *round && (missing || changed_before(process))
        });
        // It may have ended; then what it had mapped before is the best that is known.
        if ask && let Some(maps) = maps::of(stack.process, callers) {
            found = places(&maps, stack.addresses);
            // Code that is mapped in this round may not be there yet.
            let changed =
                process.and_then(|process| process.changed).filter(|in_round| in_round == round);
            let process = Process { maps, changed, asked: *round, known: HashMap::new() };
            processes.insert(stack.process, process);
        }
        let unknown = || Chain::Unknown(stack.process, stack.addresses.to_vec());
        let chain = found.map_or_else(unknown, Chain::Known);
        let chains = &mut self.chains;
        let number = *self.numbers.entry(chain.key()).or_insert_with(|| {
            chains.push(chain);
            u32::try_from(chains.len() - 1).expect("there are not so many chains")
        });
        if let Some(process) = self.processes.get_mut(&stack.process) {
            if process.known.len() >= REMEMBERED {
                process.known.clear();
            }
            process.known.insert(stack.addresses.to_vec(), number);
        }
        number
    }

    /// Finds the functions, once the recording is over. The trace has the creations of processes: one that ended before it
    /// could be asked had mapped what its parent had, unless it executed another program.
    pub(super) fn functions(mut self, trace: &Trace) -> Functions {
        let parents = parents(trace);
        let maps = |process: &u32| self.processes.get(process).map(|process| &process.maps);
        let mut names = Vec::new();
        for chain in &self.chains {
            let places = match chain {
                Chain::Known(places) => Some(places.clone()),
                Chain::Unknown(process, addresses) => {
                    let parent = |process: &u32| parents.get(process);
                    let ancestors =
                        core::iter::successors(parent(process), |&process| parent(process));
                    // A cycle needs numbers that are used again; no family is as deep.
                    let maps = ancestors.take(64).find_map(maps);
                    maps.and_then(|maps| places(maps, addresses))
                }
            };
            let name = places.and_then(|places| self.callers.caller(&places));
            names.push(name.map(str::to_owned));
        }
        let recorded = self.recorded.into_iter().map(Vec::into_iter).collect();
        Functions { shape: self.shape, names, recorded, buffer: 0, of_call: false }
    }
}

/// Removes the faults that the kernel takes when it follows frame pointers to their end, or to where there is no memory: they come
/// directly after the event whose chain it looks for, and would not be there without the recording. The calls that are
/// recorded read no memory of the program but for `process_madvise`.
pub(super) fn remove_faults(events: &mut Vec<Event>) {
    let cpus = events.iter().map(|event| usize::from(event.cpu) + 1).max().unwrap_or(0);
    let mut walked = vec![None; cpus];
    events.retain(|event| {
        let walked = &mut walked[usize::from(event.cpu)];
        match event.kind {
            Kind::Fault { code, .. } if code & fault::USER == 0 && *walked == Some(event.task) => {
                return false;
            }
            Kind::Call { call, .. } if call != Call::ProcessMadvise => *walked = Some(event.task),
            Kind::Execute { .. } => *walked = Some(event.task),
            // An interrupt may come in between.
            _ if event.in_interrupt == Some(true) => {}
            _ => *walked = None,
        }
        true
    });
}

/// The places of the addresses of a chain. None if not even the first is in a mapping.
fn places(maps: &Maps, addresses: &[u8]) -> Option<Vec<Place>> {
    let places = maps.places(addresses);
    (!places.is_empty()).then_some(places)
}

/// The process that each process was made by, of those that executed no other program.
fn parents(trace: &Trace) -> HashMap<u32, u32> {
    let mut process_of: HashMap<u32, u32> =
        trace.tasks.iter().map(|task| (task.id, task.process)).collect();
    let mut parents = HashMap::new();
    for event in &trace.events {
        match event.kind {
            Kind::Create { task, flags, .. } => {
                let parent = process_of.get(&event.task).copied().unwrap_or(event.task);
                let thread = flags & CLONE_THREAD != 0;
                process_of.insert(task, if thread { parent } else { task });
                if !thread {
                    parents.insert(task, parent);
                }
            }
            Kind::Execute { task, .. } => drop(parents.remove(&task)),
            _ => {}
        }
    }
    parents
}

/// The functions that the chains of a recording are of.
#[derive(Debug)]
pub(super) struct Functions {
    shape: Shape,
    names: Vec<Option<String>>,
    recorded: Vec<std::vec::IntoIter<u32>>,
    buffer: usize,
    /// Whether the last event of the buffer was a call.
    pub(super) of_call: bool,
}

impl Functions {
    /// The events of this buffer come next.
    pub(super) fn begin(&mut self, buffer: usize) {
        (self.buffer, self.of_call) = (buffer, false);
    }

    /// If an event is a call chain: tells the function of the call before it, which is the last event of `events`. Otherwise
    /// false. The chains must come in the order in which they were recorded.
    pub(super) fn attach(
        &mut self,
        event: &[u8],
        names: &mut Names,
        events: &mut Vec<Event>,
    ) -> bool {
        let Some(stack) = self.shape.read(event) else { return false };
        let number = self.recorded[self.buffer].next();
        let name = number.and_then(|number| self.names.get(number as usize)?.as_deref());
        if let (true, Some(name), Some(call)) = (self.of_call, name, events.last().copied())
            && matches!(call.kind, Kind::Call { .. })
            && call.task == stack.task
        {
            events.pop();
            let function = names.number(name.as_bytes());
            events.extend([Event { kind: Kind::Caller { function }, ..call }, call]);
        }
        self.of_call = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;

    fn event(task: u32, inside: bool, kind: Kind) -> Event {
        Event { time: 0, cpu: 0, in_interrupt: Some(inside), task, kind }
    }

    fn call(call: Call, arguments: [u64; 5]) -> Kind {
        Kind::Call { call, arguments }
    }

    #[test]
    fn faults_of_the_walk_go_and_others_stay() {
        let walk = event(7, false, Kind::Fault { address: 0, code: 0 });
        let of_program = event(7, false, Kind::Fault { address: 1, code: fault::USER });
        let interrupt = event(7, true, Kind::Serve { request: 1, flush: true });
        let unmap = event(7, false, call(Call::Munmap, [0; 5]));
        let back = event(7, false, Kind::Return { call: Call::Munmap, value: 0 });
        let read = event(7, false, call(Call::ProcessMadvise, [0; 5]));
        let other = event(8, false, Kind::Fault { address: 0, code: 0 });
        let mut events = vec![
            unmap, walk, interrupt, walk, back, walk, unmap, other, read, walk, unmap, of_program,
        ];
        remove_faults(&mut events);
        assert_eq!(
            events,
            [unmap, interrupt, back, walk, unmap, other, read, walk, unmap, of_program]
        );
    }

    #[test]
    fn a_process_that_executed_nothing_has_the_code_of_its_parent() {
        let create = |task, flags| Kind::Create { task, name: NameId(0), flags };
        let trace = Trace {
            tasks: vec![Task { id: 2, process: 1, name: NameId(0), kernel: false }],
            events: vec![
                event(2, false, create(10, 0)),
                event(2, false, create(11, CLONE_THREAD)),
                event(11, false, create(12, 0)),
                event(10, false, create(13, 0)),
                event(13, false, Kind::Execute { task: 13, old: 13 }),
            ],
            ..Trace::default()
        };
        let parents = parents(&trace);
        let of = |process: u32| parents.get(&process).copied();
        assert_eq!([10, 11, 12, 13].map(of), [Some(1), None, Some(1), None]);
    }

    #[test]
    fn code_that_is_mapped_is_told_from_data() {
        let of = |kind| Code::of(kind);
        assert_eq!(of(call(Call::Mmap, [0, 4096, 5, 2, 3])), Some(Code::OfFile));
        assert_eq!(of(call(Call::Mmap, [0, 4096, 7, 0x22, 0])), Some(Code::Anonymous));
        assert_eq!(of(call(Call::Mprotect, [0, 4096, 5, 0, 0])), Some(Code::Anonymous));
        assert_eq!(of(call(Call::Mmap, [0, 4096, 3, 2, 3])), None);
        assert_eq!(of(call(Call::Munmap, [0, 4096, 5, 0, 0])), None);
        assert_eq!(of(Kind::Exit), None);
    }
}
