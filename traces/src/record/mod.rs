//! Recording of this system's kernel, through its tracing file system.
//!
//! The kernel writes events into a buffer for each CPU; `spool` carries full pages away
//! while it does, and only afterwards they are read, so that little is disturbed meanwhile.
//! All settings are those of a private instance (`tracefs`), which is removed in any case
//! (`guard`). `docs/recording.md` lists the recorded events and those that are kept (`keep`).

mod follow;
mod guard;
mod keep;
mod launch;
mod live;
mod maps;
mod origin;
mod spool;
mod stacks;
mod tasks;
mod tracefs;

use core::time::Duration;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Instant,
};

use lookaside_terminal::Refused;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::{Handle, Signals},
};

use self::{
    follow::Followed,
    guard::Guard,
    launch::Held,
    spool::{Reader, Spool},
    stacks::{Functions, Shape, Stacks},
    tracefs::Instance,
};
pub use self::{
    guard::stand,
    launch::start,
    live::{Seen, watch},
};
use crate::{
    Event, Kind, Names, Trace,
    binary::{
        events::{self, Decoded, Decoder},
        format::Format,
        page::{Damaged, Layout, Page},
        symbols::Symbols,
    },
};

/// The hidden subcommand by which this program starts itself for a part of a recording.
pub const PART: &str = "record-part";

/// This program, even if its file has been replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// How often `progress` is called.
const PROGRESS: Duration = Duration::from_millis(200);

/// The largest buffer of a CPU, in KiB: at 400 000 events of 40 bytes a second, all on one CPU, one
/// second.
pub const BUFFER_KIB: u64 = 16 * 1024;
/// The smallest.
const LEAST_BUFFER_KIB: u64 = 1024;
/// All buffers together take no more than this part of the memory that is free.
const PART_OF_MEMORY: u64 = 4;

/// The settings of a recording.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The subject.
    pub what: What,
    /// How long to record at most; without it until the subject ends, or a signal comes.
    pub duration: Option<Duration>,
    /// Keep the events of other processes as well.
    pub all: bool,
    /// Record fewer events: of system calls, the returns of those alone whose value is an address.
    pub lean: bool,
    /// Record which function of its program each system call comes from.
    pub user_stacks: bool,
    /// The buffer of each CPU in KiB; without it, as large as fits.
    pub buffer_kib: Option<u64>,
    /// Where the events are kept until they are read.
    pub folder: PathBuf,
}

/// The subject of a recording.
#[derive(Clone, Debug)]
pub enum What {
    /// A command, until it ends.
    Command(Vec<OsString>),
    /// Processes that run already, by their numbers, with all their descendants; until all of them have ended.
    Processes(Vec<u32>),
    /// The processes of a control group and of the groups in it, with all their descendants, until it is empty: a
    /// folder, or what `/proc/PID/cgroup` shows. Those that enter it later are found within a fifth of a second.
    Group(PathBuf),
    /// The whole system.
    System,
}

/// A finished recording.
#[derive(Debug)]
pub struct Recording {
    /// The trace.
    pub trace: Trace,
    /// Why it ended.
    pub end: End,
    /// For how long the kernel recorded.
    pub length: Duration,
    /// Why the functions that calls come from were not recorded, if they were to be.
    pub without_stacks: Option<Refused>,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// The command ended.
    Command(ExitStatus),
    /// The time was over.
    Time,
    /// All processes that were followed have ended.
    Gone,
    /// This signal came. It was sent to the command as well, which may still run.
    Signal(i32),
}

/// Why there is no recording.
#[derive(Clone, Debug)]
pub enum NoRecording {
    /// It was refused.
    Refused(Refused),
    /// The command could not be executed.
    NotExecuted {
        /// Why.
        why: String,
        /// Whether there is no such program.
        missing: bool,
    },
}

impl From<Refused> for NoRecording {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// An event that the main thread waits for.
enum News {
    Signal(i32),
    Ended(std::io::Result<ExitStatus>),
}

/// Records. `progress` is called now and then with the number of events.
///
/// # Errors
///
/// If the system does not let us, or the command cannot be executed. Nothing is left behind.
pub fn record(plan: &Plan, mut progress: impl FnMut(u64)) -> Result<Recording, NoRecording> {
    let root = tracefs::find()?;
    let mut followed = Followed::find(&plan.what)?;
    let subject: Vec<String> = followed.iter().flat_map(Followed::names).collect();
    // From here on signals end the recording, and not the process.
    let (send, news) = mpsc::channel();
    let _signals = Listener::start(send.clone())?;
    tracefs::remove_stale(&root);
    let place = tracefs::own_instance(&root);
    let beside = tracefs::beside(&place);
    // Values go in the opposite order: the instances first, then their guard.
    let _guard = Guard::post(&[&place, &beside])?;
    let instance = Instance::make(place)?;
    let of_stacks = plan.user_stacks.then(|| prepare_stacks(beside)).transpose();
    let (of_stacks, without_stacks) = match of_stacks {
        Ok(stacks) => (stacks, None),
        Err(refused) => (None, Some(refused)),
    };
    let calls = of_stacks.as_ref().map(|(instance, _)| instance);
    let (decoder, layout, absent) = set_up(&instance, &root, plan, calls)?;
    let decoder = Arc::new(decoder);
    let cpus = instance.cpus();
    let buffers =
        |of: &Instance| cpus.iter().map(|&cpu| of.buffer(cpu)).collect::<Result<Vec<_>, _>>();
    let of_main = buffers(&instance)?;
    let with_stacks = match &of_stacks {
        Some((instance, shape)) => {
            let stacks = Stacks::new(*shape, Arc::clone(&decoder), cpus.len());
            Some((stacks, buffers(instance)?))
        }
        None => None,
    };
    let instances: Vec<Instance> =
        of_stacks.into_iter().map(|(of, _)| of).chain([instance]).collect();
    let held = match &plan.what {
        What::Command(command) => Some(Held::prepare(command)?),
        _ => None,
    };
    let of_command = held.as_ref().map(|held| held.process.id());
    let reader = Reader::start(of_main, layout, &plan.folder, with_stacks)?;

    let mut names = Names::default();
    instances.iter().try_for_each(|instance| instance.record(true))?;
    let tasks = tasks::now(&mut names);
    let (began, seen) = (Instant::now(), now());
    if let Some(held) = held {
        let child = held.begin().map_err(|launch::NotExecuted { why, missing }| {
            NoRecording::NotExecuted { why, missing }
        })?;
        await_child(child, send);
    }
    if let Some(followed) = &mut followed {
        followed.add_descendants();
    }
    let until = plan.duration.and_then(|length| began.checked_add(length));
    let end = wait(&news, until, of_command, followed.as_mut(), &reader, &mut progress)?;
    instances.iter().try_for_each(|instance| instance.record(false))?;
    let length = began.elapsed();

    let (spool, stacks) = reader.finish()?;
    let lost_in = |instance: &Instance| -> u64 { cpus.iter().map(|&cpu| instance.lost(cpu)).sum() };
    let lost = instances.iter().map(lost_in).sum();
    // If one cannot be removed, the other still is.
    let removed: Vec<_> = instances.into_iter().map(Instance::remove).collect();
    removed.into_iter().collect::<Result<(), _>>()?;
    let mut trace = Trace { origin: origin::here(absent), tasks, ..Trace::default() };
    read_back(&spool, &cpus, &decoder, stacks, &mut names, &mut trace)?;
    let losses = &mut trace.origin.losses;
    losses.lost = losses.lost.max(lost);
    trace.names = names.into_all();
    tasks::begin_at(&mut trace, seen);
    if let (Some(root), What::Command(command)) = (of_command, &plan.what) {
        trace.origin.root = Some(root);
        trace.origin.command = command.iter().map(|word| origin::without_folders(word)).collect();
    }
    if let Some(followed) = followed {
        trace.origin.members = followed.into_members();
        trace.origin.command = subject;
    }
    if !plan.all && !matches!(plan.what, What::System) {
        keep::only(&mut trace);
    }
    keep::closes_of_mapped(&mut trace.events);
    Ok(Recording { trace, end, length, without_stacks })
}

/// Now, by the clock of the events, in nanoseconds.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Makes an instance of which the kernel records the call chain of each event. It gets the beginnings of calls and nothing else:
/// a chain costs more than an event.
fn prepare_stacks(place: PathBuf) -> Result<(Instance, Shape), Refused> {
    let why = |what: &str| {
        Refused(format!("the kernel has no {what}, which needs CONFIG_USER_STACKTRACE_SUPPORT"))
    };
    let instance = Instance::make(place)?;
    instance.record(false)?;
    instance.set("options/userstacktrace", "1").map_err(|_| why("option `userstacktrace`"))?;
    let format = instance.read(&format!("events/{}/format", stacks::EVENT)).ok();
    let shape = format.and_then(|text| Shape::of(&Format::parse(&text)?));
    Ok((instance, shape.ok_or_else(|| why("event of call chains that can be read"))?))
}

/// Sets an instance up, and learns how to read what it will record. The beginnings of calls go to `calls`, where there is
/// such an instance. Also returns which events there are not.
fn set_up(
    instance: &Instance,
    root: &Path,
    plan: &Plan,
    calls: Option<&Instance>,
) -> Result<(Decoder, Layout, Vec<String>), Refused> {
    let instances = || [instance].into_iter().chain(calls);
    instances().try_for_each(|instance| instance.record(false))?;
    instances().try_for_each(|instance| instance.set("trace_clock", "mono"))?;
    // No option hides addresses from us: `hash-ptr` is about the text, which we do not read.
    let buffers = instances().map(|instance| instance.cpus().len() as u64).sum();
    let size = plan.buffer_kib.unwrap_or_else(|| buffer_kib(buffers, origin::free_kib()));
    let set = |instance: &Instance| instance.set("buffer_size_kb", &size.to_string());
    instances().try_for_each(set).map_err(|_| {
        Refused(format!(
            "the kernel has no memory for {buffers} buffers of {size} KiB, one for each CPU: --buffer takes fewer"
        ))
    })?;

    let layout = Layout::parse(&instance.read("events/header_page")?).ok_or_else(|| {
        Refused("the kernel's buffers have a form that we do not know".to_owned())
    })?;
    let entries = || fs::read_to_string(root.join("available_filter_functions_addrs")).ok();
    let symbols = Symbols::of_kernel(entries);
    if symbols.is_empty() {
        return Err(Refused(
            "the kernel tells no addresses of its functions, without which flushes cannot be told \
             from other requests; as root: sysctl kernel.kptr_restrict=1"
                .to_owned(),
        ));
    }
    let flushers = symbols.flushers();
    let mut decoder = Decoder::new(symbols);
    let mut enable = |name: &String| {
        // That a descriptor is closed flushes nothing, so that nobody asks for whom.
        let of_calls = name.contains("/sys_enter_") && !name.ends_with("_close");
        let instance = calls.filter(|_| of_calls).unwrap_or(instance);
        let text = instance.read(&format!("events/{name}/format"));
        let format = text.ok().and_then(|text| Format::parse(&text));
        if let Some(filter) = events::filter(name, &flushers) {
            // A kernel that does not understand it records more.
            let _ = instance.set(&format!("events/{name}/filter"), &filter);
        }
        format.is_some_and(|format| decoder.learn(name, &format))
            && instance.set(&format!("events/{name}/enable"), "1").is_ok()
    };
    let mut absent: Vec<String> = events::names(plan.lean).filter(|name| !enable(name)).collect();
    let instead = events::instead(&absent).iter().map(|&name| name.to_owned());
    absent.extend(instead.filter(|name| !enable(name)).collect::<Vec<_>>());
    if absent.iter().any(|name| name == "sched/sched_switch") {
        return Err(Refused(
            "the kernel has no event sched_switch, without which nobody knows who ran; it needs \
             CONFIG_FTRACE and CONFIG_EVENT_TRACING"
                .to_owned(),
        ));
    }
    // Who executes another program has other code afterwards.
    if let Some(calls) = calls {
        calls.set("events/sched/sched_process_exec/enable", "1")?;
    }
    Ok((decoder, layout, absent))
}

/// How large each of so many buffers is made with so much free memory, both in KiB.
fn buffer_kib(buffers: u64, free_kib: Option<u64>) -> u64 {
    let share = free_kib.unwrap_or(u64::MAX) / PART_OF_MEMORY / buffers.max(1);
    share.clamp(LEAST_BUFFER_KIB, BUFFER_KIB)
}

/// A thread that turns signals into news, until the value goes.
struct Listener(Handle);

impl Listener {
    fn start(send: Sender<News>) -> Result<Self, Refused> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|error| Refused(format!("cannot listen for signals: {error}")))?;
        let handle = signals.handle();
        thread::spawn(move || {
            for signal in signals.forever() {
                // Nobody listens any more when the recording is over.
                let _ = send.send(News::Signal(signal));
            }
        });
        Ok(Self(handle))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Tells when a command has ended.
fn await_child(mut child: Child, send: Sender<News>) {
    thread::spawn(move || {
        let _ = send.send(News::Ended(child.wait()));
    });
}

/// Waits for the end of the recording.
fn wait(
    news: &Receiver<News>,
    until: Option<Instant>,
    of_command: Option<u32>,
    mut followed: Option<&mut Followed>,
    reader: &Reader,
    progress: &mut impl FnMut(u64),
) -> Result<End, Refused> {
    loop {
        progress(reader.events());
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(End::Time);
        }
        if followed.as_mut().is_some_and(|followed| !followed.look()) {
            return Ok(End::Gone);
        }
        match news.recv_timeout(left.unwrap_or(PROGRESS).min(PROGRESS)) {
            Ok(News::Ended(Ok(status))) => return Ok(End::Command(status)),
            Ok(News::Ended(Err(error))) => {
                return Err(Refused(format!("cannot wait for the command: {error}")));
            }
            Ok(News::Signal(signal)) => {
                // A terminal sends its signal to all; the others come to us alone.
                if signal != SIGINT {
                    of_command.into_iter().for_each(|process| forward(process, signal));
                }
                return Ok(End::Signal(signal));
            }
            // The reader cannot go on: its reason is told when it is asked to finish.
            Err(RecvTimeoutError::Timeout) if reader.failed() => return Ok(End::Time),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("the listener holds a sender"),
        }
    }
}

fn forward(process: u32, signal: i32) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    if let (Some(process), Some(signal)) = (process, Signal::from_named_raw(signal)) {
        // It may have ended just now.
        let _ = kill_process(process, signal);
    }
}

/// Reads the events of all buffers, and puts them in order.
fn read_back(
    spool: &Spool,
    cpus: &[u16],
    decoder: &Decoder,
    stacks: Option<Stacks>,
    names: &mut Names,
    trace: &mut Trace,
) -> Result<(), Refused> {
    let mut read = |place, cpu, functions: &mut Option<Functions>, trace: &mut Trace| {
        spool.each(place, |page| {
            read_page(spool.layout, cpu, page, decoder, functions, names, trace)
                .map_err(|Damaged| Refused(format!("a page that CPU {cpu} recorded is damaged")))
        })
    };
    for (place, &cpu) in cpus.iter().enumerate() {
        read(place, cpu, &mut None, trace)?;
    }
    let with_stacks = stacks.is_some();
    if let Some(stacks) = stacks {
        let mut functions = Some(stacks.functions(trace));
        for (place, &cpu) in cpus.iter().enumerate() {
            functions.iter_mut().for_each(|functions| functions.begin(place));
            read(cpus.len() + place, cpu, &mut functions, trace)?;
        }
    }
    // Stable, so that the events of a CPU stay in order.
    trace.events.sort_by_key(|event| event.time);
    if with_stacks {
        stacks::remove_faults(&mut trace.events);
    }
    Ok(())
}

/// Reads the events of a page. With functions it is one with the beginnings of calls, each before its call chain.
fn read_page(
    layout: Layout,
    cpu: u16,
    page: &[u8],
    decoder: &Decoder,
    functions: &mut Option<Functions>,
    names: &mut Names,
    trace: &mut Trace,
) -> Result<(), Damaged> {
    let losses = &mut trace.origin.losses;
    let mut page = Page::open(layout, page)?;
    if let Some(events) = page.lost {
        let kind = Kind::Lost { events };
        let time = page.time();
        trace.events.push(Event { time, cpu, in_interrupt: None, task: 0, kind });
        losses.lost += events;
    }
    while let Some((time, bytes)) = page.next()? {
        if let Some(functions) = functions
            && functions.attach(bytes, names, &mut trace.events)
        {
            continue;
        }
        let decoded = decoder.decode(time, cpu, bytes, |name| names.number(name));
        if let Some(functions) = functions {
            let of_call = |event: &Event| matches!(event.kind, Kind::Call { .. });
            functions.of_call = matches!(&decoded, Decoded::Event(event) if of_call(event));
        }
        match decoded {
            // The main instance has it, too.
            Decoded::Event(Event { kind: Kind::Execute { .. }, .. }) if functions.is_some() => {}
            Decoded::Event(event) => trace.events.push(event),
            Decoded::Foreign => losses.foreign += 1,
            Decoded::Damaged => losses.damaged += 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
