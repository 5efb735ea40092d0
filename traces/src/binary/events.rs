//! The recorded events, and the meaning of their fields.

use super::{
    format::{Field, Format},
    symbols::Symbols,
};
use crate::{Call, Event, Kind, NameId, Pages, Reason};

/// Events that are no system calls and no requests, by their names in tracefs.
const PLAIN: &[&str] = &[
    "sched/sched_switch",
    "sched/sched_migrate_task",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "task/task_newtask",
    "task/task_rename",
    "mmap/exit_mmap",
    "tlb/tlb_flush",
    "exceptions/page_fault_user",
    "exceptions/page_fault_kernel",
];

/// Requests to other CPUs: one is sent, and its execution begins. Its end follows from the next event of its
/// CPU.
const REQUESTS: [&str; 2] = ["csd/csd_queue_cpu", "csd/csd_function_entry"];

/// Interrupts, which replace requests where the kernel has no events of requests.
const INTERRUPTS: [&str; 6] = [
    "ipi/ipi_send_cpu",
    "ipi/ipi_send_cpumask",
    "irq_vectors/call_function_entry",
    "irq_vectors/call_function_exit",
    "irq_vectors/call_function_single_entry",
    "irq_vectors/call_function_single_exit",
];

/// In `common_flags`: a hardware interrupt is being handled.
const IN_INTERRUPT: u64 = 0x08;
/// The part of `prev_state` that says what a thread waits for; nothing, if it could go on.
const WAITS_FOR: u64 = 0xff;

/// The names in tracefs of all events that are recorded. With `lean` without the returns of calls that
/// give no address.
pub(crate) fn names(lean: bool) -> impl Iterator<Item = String> {
    let returns = Call::ALL.iter().filter(move |call| !lean || call.gives_address());
    let returns = returns.map(|call| format!("syscalls/sys_exit_{}", call.name()));
    let calls = Call::ALL.iter().map(|call| format!("syscalls/sys_enter_{}", call.name()));
    PLAIN.iter().chain(&REQUESTS).map(|&name| name.to_owned()).chain(calls).chain(returns)
}

/// The names of what is recorded as well if the kernel does not have all of the others: interrupts, where
/// it has no requests.
pub(crate) fn instead(absent: &[String]) -> &'static [&'static str] {
    let requests = REQUESTS.iter().all(|name| !absent.iter().any(|absent| absent == name));
    if requests { &[] } else { &INTERRUPTS }
}

/// The names of what was not recorded, by what was.
pub(crate) fn absent(recorded: impl Fn(&str) -> bool) -> Vec<String> {
    let mut absent: Vec<String> = names(false).filter(|name| !recorded(name)).collect();
    let instead = instead(&absent).iter().filter(|name| !recorded(name));
    absent.extend(instead.map(|&name| name.to_owned()));
    absent
}

/// What the kernel is to leave out of events of that name, in the language of its filters: requests that
/// do not flush, and what a CPU calls by itself on the way. `flushers` are the addresses of the functions
/// that flush; without any, nothing is left out.
pub(crate) fn filter(name: &str, flushers: &[u64]) -> Option<String> {
    if !REQUESTS.contains(&name) || flushers.is_empty() {
        return None;
    }
    let functions: Vec<_> =
        flushers.iter().map(|address| format!("func == {address:#x}")).collect();
    let functions = functions.join(" || ");
    Some(if name == REQUESTS[1] { format!("csd != 0 && ({functions})") } else { functions })
}

/// What the events of one kind mean, and where their fields are.
#[derive(Clone, Debug)]
enum Meaning {
    Switch { next: Field, name: Field, state: Field },
    Migrate { task: Field, to: Field },
    Create { task: Field, name: Field, flags: Field },
    Execute { task: Field, old: Field },
    Exit,
    Rename { task: Field, name: Field },
    Unmapped { space: Field },
    Flush { reason: Field, pages: Field },
    Call { call: Call, arguments: Vec<Field> },
    Return { call: Call, value: Field },
    Fault { address: Field, code: Field },
    Ask { target: Field, request: Field, function: Field },
    Serve { request: Field, function: Field },
    Served { request: Field, function: Field },
    Send { target: Field, site: Field, callback: Field },
    SendMany { targets: Field, site: Field, callback: Field },
    Interrupt,
    Resume,
}

impl Meaning {
    /// What events of that name mean; none if we do not know, or a field is missing.
    fn of(name: &str, format: &Format) -> Option<Self> {
        let field = |name: &str| format.field(name);
        let name = name.split_once('/').map_or(name, |(_, name)| name);
        if let Some(call) = name.strip_prefix("sys_enter_") {
            let own = |name: &str| !name.starts_with("common_") && name != "__syscall_nr";
            let fields = format.fields.iter().filter(|(name, _)| own(name));
            let mut arguments: Vec<_> = fields.map(|&(_, field)| field).collect();
            arguments.sort_by_key(|field| field.place());
            return Some(Self::Call { call: Call::from_name(call)?, arguments });
        }
        if let Some(call) = name.strip_prefix("sys_exit_") {
            return Some(Self::Return { call: Call::from_name(call)?, value: field("ret")? });
        }
        Some(match name {
            "sched_switch" => Self::Switch {
                next: field("next_pid")?,
                name: field("next_comm")?,
                state: field("prev_state")?,
            },
            "sched_migrate_task" => Self::Migrate { task: field("pid")?, to: field("dest_cpu")? },
            "sched_process_exec" => Self::Execute { task: field("pid")?, old: field("old_pid")? },
            "sched_process_exit" => Self::Exit,
            "task_newtask" => Self::Create {
                task: field("pid")?,
                name: field("comm")?,
                flags: field("clone_flags")?,
            },
            "task_rename" => Self::Rename { task: field("pid")?, name: field("newcomm")? },
            "exit_mmap" => Self::Unmapped { space: field("mm").or_else(|| field("mt"))? },
            "tlb_flush" => Self::Flush { reason: field("reason")?, pages: field("pages")? },
            "page_fault_user" | "page_fault_kernel" => {
                Self::Fault { address: field("address")?, code: field("error_code")? }
            }
            "csd_queue_cpu" => Self::Ask {
                target: field("cpu")?,
                request: field("csd")?,
                function: field("func")?,
            },
            "csd_function_entry" => {
                Self::Serve { request: field("csd")?, function: field("func")? }
            }
            "csd_function_exit" => {
                Self::Served { request: field("csd")?, function: field("func")? }
            }
            "ipi_send_cpu" => Self::Send {
                target: field("cpu")?,
                site: field("callsite")?,
                callback: field("callback")?,
            },
            "ipi_send_cpumask" => Self::SendMany {
                targets: field("cpumask")?,
                site: field("callsite")?,
                callback: field("callback")?,
            },
            "call_function_entry" | "call_function_single_entry" => Self::Interrupt,
            "call_function_exit" | "call_function_single_exit" => Self::Resume,
            _ => return None,
        })
    }
}

/// The fields that every event has.
#[derive(Clone, Copy, Debug)]
struct Common {
    kind: Field,
    flags: Field,
    task: Field,
}

impl Common {
    fn of(format: &Format) -> Option<Self> {
        let field = |name| format.field(name);
        Some(Self {
            kind: field("common_type")?,
            flags: field("common_flags")?,
            task: field("common_pid")?,
        })
    }
}

/// Turns events of the kernel into events of a trace.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    common: Option<Common>,
    /// Meanings, by the number of the kind.
    meanings: Vec<Option<Meaning>>,
    symbols: Symbols,
}

/// What the bytes of an event are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decoded {
    /// An event.
    Event(Event),
    /// An event of a kind that is none of ours.
    Foreign,
    /// An event of one of our kinds that cannot be read.
    Damaged,
}

impl Decoder {
    /// A decoder that knows the names of these functions, and no event yet.
    pub(crate) fn new(symbols: Symbols) -> Self {
        Self { symbols, ..Self::default() }
    }

    /// Whether it knows the name of any function.
    pub(crate) fn knows_functions(&self) -> bool {
        !self.symbols.is_empty()
    }

    /// Tells it the names of functions.
    pub(crate) fn set_functions(&mut self, symbols: Symbols) {
        self.symbols = symbols;
    }

    /// Learns the layout of one kind of events. False if it does not have the fields that we need.
    pub(crate) fn learn(&mut self, name: &str, format: &Format) -> bool {
        let (Some(common), Some(meaning)) = (Common::of(format), Meaning::of(name, format)) else {
            return false;
        };
        self.common = Some(common);
        let place = usize::from(format.id);
        if self.meanings.len() <= place {
            self.meanings.resize(place + 1, None);
        }
        self.meanings[place] = Some(meaning);
        true
    }

    /// Decodes an event. `name` gives each name its number.
    pub(crate) fn decode(
        &self,
        time: u64,
        cpu: u16,
        event: &[u8],
        name: impl FnMut(&[u8]) -> NameId,
    ) -> Decoded {
        let Some(common) = self.common else { return Decoded::Foreign };
        let Some(kind) = common.kind.small::<usize>(event) else { return Decoded::Damaged };
        let Some(Some(meaning)) = self.meanings.get(kind) else { return Decoded::Foreign };
        let read = || {
            let flags = common.flags.number(event)?;
            Some(Event {
                time,
                cpu,
                in_interrupt: Some(flags & IN_INTERRUPT != 0),
                task: common.task.small(event)?,
                kind: self.kind(meaning, event, name)?,
            })
        };
        read().map_or(Decoded::Damaged, Decoded::Event)
    }

    fn kind(
        &self,
        meaning: &Meaning,
        event: &[u8],
        mut name_of: impl FnMut(&[u8]) -> NameId,
    ) -> Option<Kind> {
        let flushes = |function: Field| Some(self.symbols.flushes(function.number(event)?));
        let purpose = |site: Field, callback: Field| {
            Some(self.symbols.purpose(site.number(event)?, callback.number(event)?))
        };
        Some(match *meaning {
            Meaning::Switch { next, name, state } => Kind::Switch {
                next: next.small(event)?,
                name: name_of(name.text(event)?),
                runnable: state.number(event)? & WAITS_FOR == 0,
            },
            Meaning::Migrate { task, to } => {
                Kind::Migrate { task: task.small(event)?, to: to.small(event)? }
            }
            Meaning::Create { task, name, flags } => Kind::Create {
                task: task.small(event)?,
                name: name_of(name.text(event)?),
                flags: flags.number(event)?,
            },
            Meaning::Execute { task, old } => {
                Kind::Execute { task: task.small(event)?, old: old.small(event)? }
            }
            Meaning::Exit => Kind::Exit,
            Meaning::Rename { task, name } => {
                Kind::Rename { task: task.small(event)?, name: name_of(name.text(event)?) }
            }
            Meaning::Unmapped { space } => Kind::Unmapped { space: space.number(event)? },
            Meaning::Flush { reason, pages } => Kind::Flush {
                reason: Reason::from_number(reason.number(event)?)?,
                pages: match pages.number(event)? {
                    u64::MAX => Pages::Everything,
                    pages => Pages::Some(u32::try_from(pages).ok()?),
                },
            },
            Meaning::Call { call, arguments: ref fields } => {
                let mut arguments = [0; 5];
                for (argument, field) in arguments.iter_mut().zip(fields) {
                    *argument = field.number(event)?;
                }
                Kind::Call { call, arguments }
            }
            Meaning::Return { call, value } => {
                Kind::Return { call, value: value.number(event)?.cast_signed() }
            }
            Meaning::Fault { address, code } => {
                Kind::Fault { address: address.number(event)?, code: code.number(event)? }
            }
            Meaning::Ask { target, request, function } => Kind::Ask {
                target: target.small(event)?,
                request: request.number(event)?,
                flush: flushes(function)?,
            },
            Meaning::Serve { request, function } => {
                Kind::Serve { request: request.number(event)?, flush: flushes(function)? }
            }
            Meaning::Served { request, function } => {
                Kind::Served { request: request.number(event)?, flush: flushes(function)? }
            }
            Meaning::Send { target, site, callback } => {
                Kind::Send { target: target.small(event)?, purpose: purpose(site, callback)? }
            }
            Meaning::SendMany { targets, site, callback } => Kind::SendMany {
                targets: first_64(targets.bytes(event)?),
                purpose: purpose(site, callback)?,
            },
            Meaning::Interrupt => Kind::Interrupt,
            Meaning::Resume => Kind::Resume,
        })
    }
}

/// The first 64 bits of a set of CPUs.
fn first_64(mask: &[u8]) -> u64 {
    let mut wide = [0; 8];
    for (to, &from) in wide.iter_mut().zip(mask) {
        *to = from;
    }
    u64::from_le_bytes(wide)
}
