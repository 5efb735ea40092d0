//! The rest of a line: what happened.
//!
//! Tools punctuate differently (`pages:16`, `pages=16`), and kernels add fields; so fields are looked
//! for by their names, from the side on which no name of a thread can be in the way.

use super::field::{
    after_blanks, decimal, hexadecimal, number, number_of, pointer, split_first, split_last, value,
};
use crate::{Call, Kind, Names, Pages, Purpose, Reason, fault as faults, functions};

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Body {
    /// Something that traces hold.
    Known {
        /// What.
        kind: Kind,
        /// Whose it is, where the event says so itself.
        task: Option<u32>,
        /// Whether a thread that is left sleeps as only threads of the kernel do.
        kernel: bool,
    },
    /// An event that traces do not hold.
    Foreign,
    /// An event that traces hold, and that cannot be read.
    Damaged,
}

/// Reads what follows the head of a line.
pub(super) fn body(rest: &[u8], names: &mut Names) -> Body {
    let width = rest.iter().take_while(|&&b| b.is_ascii_alphanumeric() || b == b'_').count();
    let (event, after) = rest.split_at(width);
    if width == 0 {
        return Body::Damaged;
    }
    let found = match after {
        // As tracefs prints system calls.
        [b'(', inner @ ..] => match named_call(event, b"sys_") {
            None => return Body::Foreign,
            Some(call) => inner.iter().rposition(|&byte| byte == b')').and_then(|close| {
                Some(Kind::Call { call, arguments: arguments(&inner[..close], b": ")? })
            }),
        },
        [b' ', b'-', b'>', inner @ ..] => match named_call(event, b"sys_") {
            None => return Body::Foreign,
            Some(call) => number(after_blanks(inner))
                .map(|(value, _)| Kind::Return { call, value: value as i64 }),
        },
        [b':', inner @ ..] => return event_of(event, after_blanks(inner), names),
        _ => return if is_known(event) { Body::Damaged } else { Body::Foreign },
    };
    found.map_or(Body::Damaged, |kind| Body::Known { kind, task: None, kernel: false })
}

fn event_of(event: &[u8], body: &[u8], names: &mut Names) -> Body {
    if let Some(call) = named_call(event, b"sys_enter_") {
        let raw = value(body, b"__syscall_nr=").is_some();
        let arguments = arguments(body, if raw { b"=" } else { b": " });
        return known(arguments.map(|arguments| Kind::Call { call, arguments }));
    }
    if let Some(call) = named_call(event, b"sys_exit_") {
        let text = value(body, b"ret=").unwrap_or(body);
        let value = number(text).map(|(value, _)| value as i64);
        return known(value.map(|value| Kind::Return { call, value }));
    }
    match event {
        b"sched_switch" => switch(body, names).unwrap_or(Body::Damaged),
        b"sched_process_exit" => match last_number(body, b"pid=") {
            Some(task) => Body::Known { kind: Kind::Exit, task: Some(task), kernel: false },
            None => Body::Damaged,
        },
        b"call_function_entry" | b"call_function_single_entry" => known(Some(Kind::Interrupt)),
        b"call_function_exit" | b"call_function_single_exit" => known(Some(Kind::Resume)),
        b"page_fault_user" | b"page_fault_kernel" => known(fault(body)),
        b"tlb_flush" => known(flush(body)),
        b"csd_queue_cpu" => known(ask(body)),
        b"csd_function_entry" => {
            known(function(body).map(|(request, flush)| Kind::Serve { request, flush }))
        }
        b"csd_function_exit" => {
            known(function(body).map(|(request, flush)| Kind::Served { request, flush }))
        }
        b"ipi_send_cpu" => known(send(body)),
        b"ipi_send_cpumask" => known(send_many(body)),
        b"sched_migrate_task" => known(migrate(body)),
        b"sched_process_exec" => known(execute(body)),
        b"task_newtask" => known(create(body, names)),
        b"task_rename" => known(rename(body, names)),
        b"exit_mmap" => known(unmapped(body)),
        _ => Body::Foreign,
    }
}

/// Whether an event of that name would be read if there were a colon after it.
fn is_known(event: &[u8]) -> bool {
    named_call(event, b"sys_").is_some()
        || event_of(event, b"", &mut Names::default()) != Body::Foreign
}

fn known(kind: Option<Kind>) -> Body {
    kind.map_or(Body::Damaged, |kind| Body::Known { kind, task: None, kernel: false })
}

fn named_call(event: &[u8], prefix: &[u8]) -> Option<Call> {
    Call::from_name(core::str::from_utf8(event.strip_prefix(prefix)?).ok()?)
}

/// The number after the last `key`: what is before it may be the name of a thread.
fn last_number<T: TryFrom<u64>>(body: &[u8], key: &[u8]) -> Option<T> {
    let (before, after) = split_last(body, key)?;
    let begins = before.last().is_none_or(|&byte| byte == b' ');
    T::try_from(number(after)?.0).ok().filter(|_| begins)
}

/// Arguments of a system call: `start: 0x7f, len: 3` or `start=0x7f len=3`.
fn arguments(body: &[u8], separator: &[u8]) -> Option<[u64; 5]> {
    let mut arguments = [0; 5];
    let mut filled = 0;
    let mut rest = body;
    while let Some((key, after)) = split_first(rest, separator) {
        let (value, after) = number(after_blanks(after))?;
        rest = after;
        if key.ends_with(b"__syscall_nr") {
            continue;
        }
        if let Some(argument) = arguments.get_mut(filled) {
            *argument = value;
        }
        filled += 1;
    }
    // All calls of interest have at least one.
    (filled > 0 || body.is_empty()).then_some(arguments)
}

fn switch(body: &[u8], names: &mut Names) -> Option<Body> {
    if !body.starts_with(b"prev_comm=") {
        return switch_of_plugin(body, names);
    }
    let (before, after) = split_last(body, b" next_pid=")?;
    let next = number_to_end(after)?;
    let (before, name) = split_first_after(before, b" prev_state=", b" next_comm=")?;
    let (before, state) = split_last(before, b" prev_state=")?;
    let task = last_number(before, b"prev_pid=")?;
    let state = state.strip_suffix(b" ==>").unwrap_or(state);
    let (runnable, kernel) = match decimal(state) {
        // The states that a thread can be in are the lowest eight bits; above them stands that it was
        // pre-empted. Dialects with numbers do not tell processes, without which nothing follows from
        // how a thread sleeps.
        Some((state, _)) => (state & 0xff == 0, false),
        None => (*state.first()? == b'R', *state.first()? == b'I'),
    };
    let kind = Kind::Switch { next, name: names.number(name), runnable };
    Some(Body::Known { kind, task: Some(task), kernel })
}

/// As `trace-cmd` prints it: `sort:4110 [120] S ==> worker:4102 [120]`.
fn switch_of_plugin(body: &[u8], names: &mut Names) -> Option<Body> {
    let (before, after) = split_first(body, b"] ").and_then(|_| split_last(body, b" ==> "))?;
    let (name, next) = split_last(after, b":")?;
    let next = number_to_end(next)?;
    let (before, state) = split_last(before, b"] ")?;
    let (_, task) = split_last(before, b":")?;
    let task = number_to_end(task)?;
    let runnable = state.first() == Some(&b'R');
    let kind = Kind::Switch { next, name: names.number(name), runnable };
    // The plugin has no letter of its own for the sleep of the kernel's threads.
    Some(Body::Known { kind, task: Some(task), kernel: false })
}

/// A number that a blank follows, or the end.
fn number_to_end(bytes: &[u8]) -> Option<u32> {
    let (number, rest) = decimal(bytes)?;
    let ends = rest.first().is_none_or(|&byte| byte == b' ');
    u32::try_from(number).ok().filter(|_| ends)
}

/// Splits at the first `separator` after the first `mark`.
fn split_first_after<'b>(
    body: &'b [u8],
    mark: &[u8],
    separator: &[u8],
) -> Option<(&'b [u8], &'b [u8])> {
    let (before, after) = split_first(body, mark)?;
    let (inner, rest) = split_first(after, separator)?;
    Some((&body[..before.len() + mark.len() + inner.len()], rest))
}

fn migrate(body: &[u8]) -> Option<Kind> {
    Some(Kind::Migrate { task: last_number(body, b"pid=")?, to: last_number(body, b"dest_cpu=")? })
}

fn execute(body: &[u8]) -> Option<Kind> {
    let old = last_number(body, b"old_pid=")?;
    // Without its end, where the other number has the same name after an underscore.
    let (before, _) = split_last(body, b" old_pid=")?;
    Some(Kind::Execute { task: last_number(before, b"pid=")?, old })
}

fn create(body: &[u8], names: &mut Names) -> Option<Kind> {
    let task = number_of(body, b"pid=")?;
    let (before, flags) = split_last(body, b" clone_flags=")?;
    let (_, name) = split_first(before, b" comm=")?;
    let (flags, _) = hexadecimal(flags.strip_prefix(b"0x").unwrap_or(flags))?;
    Some(Kind::Create { task, name: names.number(name), flags })
}

fn rename(body: &[u8], names: &mut Names) -> Option<Kind> {
    let task = number_of(body, b"pid=")?;
    let (before, _) = split_last(body, b" oom_score_adj=")?;
    let (_, name) = split_first(before, b" newcomm=")?;
    Some(Kind::Rename { task, name: names.number(name) })
}

fn unmapped(body: &[u8]) -> Option<Kind> {
    let space = value(body, b"mt_mod ").or_else(|| value(body, b"mt="))?;
    Some(Kind::Unmapped { space: pointer(space)? })
}

fn flush(body: &[u8]) -> Option<Kind> {
    let field = |name: &[u8], other: &[u8]| value(body, name).or_else(|| value(body, other));
    let (pages, _) = number(field(b"pages:", b"pages=")?)?;
    let pages = match pages {
        u64::MAX => Pages::Everything,
        pages => Pages::Some(u32::try_from(pages).ok()?),
    };
    // The words for a reason differ between kernels and libraries; its number does not.
    let reason = field(b"reason:", b"reason=")?;
    let reason = match reason.iter().rposition(|&byte| byte == b'(') {
        Some(open) => decimal(&reason[open + 1..])?,
        None => decimal(reason)?,
    };
    Some(Kind::Flush { reason: Reason::from_number(reason.0)?, pages })
}

fn fault(body: &[u8]) -> Option<Kind> {
    let address = value(body, b"address=")?;
    // Addresses of the kernel's own are printed as the names of what is there.
    let named = address.first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_');
    let address = if named { faults::KERNEL } else { number(address)?.0 };
    let (code, _) = number(value(body, b"error_code=")?)?;
    Some(Kind::Fault { address, code })
}

fn function(body: &[u8]) -> Option<(u64, bool)> {
    Some((pointer(value(body, b"csd=")?)?, functions::flushes(value(body, b"func=")?)))
}

fn ask(body: &[u8]) -> Option<Kind> {
    let (request, flush) = function(body)?;
    Some(Kind::Ask { target: number_of(body, b"cpu=")?, request, flush })
}

fn send(body: &[u8]) -> Option<Kind> {
    Some(Kind::Send { target: number_of(body, b"cpu=")?, purpose: purpose(body)? })
}

fn send_many(body: &[u8]) -> Option<Kind> {
    let targets = mask(value(body, b"cpumask=")?)?;
    Some(Kind::SendMany { targets, purpose: purpose(body)? })
}

/// What an interrupt is for.
fn purpose(body: &[u8]) -> Option<Purpose> {
    let callback = value(body, b"callback=")?;
    let site = value(body, b"callsite=")?;
    if callback.starts_with(b"(nil)") || number(callback).is_some_and(|(number, _)| number == 0) {
        return Some(Purpose::Reschedule);
    }
    Some(functions::purpose(site))
}

/// CPUs 0 to 63 of a set, as `00000000,0000000f` or `0,2-3`.
fn mask(text: &[u8]) -> Option<u64> {
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    let groups: Vec<&[u8]> = text[..end].split(|&byte| byte == b',').collect();
    let ranges = groups.iter().any(|group| group.contains(&b'-'));
    // Groups of a number have eight digits each, but for the first.
    if ranges || groups[1..].iter().any(|group| group.len() != 8) {
        return list(&groups);
    }
    let mut mask: u64 = 0;
    for group in groups {
        let (bits, rest) = hexadecimal(group)?;
        if !rest.is_empty() || bits > u64::from(u32::MAX) {
            return None;
        }
        mask = mask << 32 | bits;
    }
    Some(mask)
}

fn list(ranges: &[&[u8]]) -> Option<u64> {
    let mut mask = 0;
    for range in ranges {
        let (first, rest) = decimal(range)?;
        let last = match rest.strip_prefix(b"-") {
            Some(last) => decimal(last).filter(|(_, rest)| rest.is_empty())?.0,
            None if rest.is_empty() => first,
            None => return None,
        };
        (first..=last.min(63)).for_each(|cpu| mask |= 1 << cpu);
    }
    Some(mask)
}
