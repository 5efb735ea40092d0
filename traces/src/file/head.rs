//! What a file holds beside events: its origin, threads, and the sums at its end.

use super::bytes::{Bytes, Malformed, put, put_text};
use crate::{Hardware, Losses, NameId, Origin, Task};

/// More CPUs than events can name are a sign of damage.
const CPUS_MAX: u32 = 1 << 16;

pub(super) fn put_origin(to: &mut Vec<u8>, origin: &Origin) {
    let Origin {
        architecture,
        kernel,
        cpus,
        guest,
        hardware,
        command,
        root,
        members,
        absent,
        losses,
    } = origin;
    for text in [architecture, kernel] {
        put_some(to, text.as_deref());
    }
    put(to, (*cpus).into());
    to.push(match guest {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    });
    put_list(to, command);
    put(to, root.map_or(0, |root| u64::from(root) + 1));
    put_list(to, absent);
    let Losses { lost, foreign, damaged, reordered, truncated } = *losses;
    for count in [lost, foreign, damaged, reordered] {
        put(to, count);
    }
    to.push(truncated.into());
    let Hardware { processor, name, hypervisor, caches } = hardware;
    for text in [processor, name, hypervisor] {
        put_some(to, text.as_deref());
    }
    put_list(to, caches);
    put(to, members.len() as u64);
    members.iter().for_each(|&process| put(to, process.into()));
}

pub(super) fn origin(from: &mut Bytes<'_>, version: u32) -> Result<Origin, Malformed> {
    let mut origin = Origin {
        hardware: Hardware::default(),
        members: Vec::new(),
        architecture: some(from)?,
        kernel: some(from)?,
        cpus: match from.narrow()? {
            cpus if cpus > CPUS_MAX => return Err("there are too many CPUs"),
            cpus => cpus,
        },
        guest: match from.byte()? {
            0 => None,
            1 => Some(false),
            2 => Some(true),
            _ => return Err("whether it is a guest is neither yes, no nor unknown"),
        },
        command: list(from)?,
        root: match from.number()? {
            0 => None,
            more => {
                Some(u32::try_from(more - 1).map_err(|_| "the number of a process is too large")?)
            }
        },
        absent: list(from)?,
        losses: Losses {
            lost: from.number()?,
            foreign: from.number()?,
            damaged: from.number()?,
            reordered: from.number()?,
            truncated: flag(from)?,
        },
    };
    if version > 1 {
        origin.hardware = Hardware {
            processor: some(from)?,
            name: some(from)?,
            hypervisor: some(from)?,
            caches: list(from)?,
        };
    }
    if version > 2 {
        // Each takes a byte at least, so a number that is too large ends the loop early.
        let count = from.number()?;
        origin.members = (0..count).map(|_| from.narrow()).collect::<Result<_, _>>()?;
    }
    Ok(origin)
}

pub(super) fn put_task(to: &mut Vec<u8>, task: &Task) {
    put(to, task.id.into());
    put(to, task.process.into());
    put(to, task.name.0.into());
    to.push(task.kernel.into());
}

pub(super) fn task(from: &mut Bytes<'_>, names: u32) -> Result<Task, Malformed> {
    let (id, process, name) = (from.narrow()?, from.narrow()?, from.narrow()?);
    if name >= names {
        return Err("a thread bears a name that is not there");
    }
    Ok(Task { id, process, name: NameId(name), kernel: flag(from)? })
}

/// How much a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) names: u64,
    pub(super) tasks: u64,
    pub(super) events: u64,
}

impl Sums {
    pub(super) fn put(self, to: &mut Vec<u8>) {
        for sum in [self.names, self.tasks, self.events] {
            put(to, sum);
        }
    }

    pub(super) fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed> {
        Ok(Self { names: from.number()?, tasks: from.number()?, events: from.number()? })
    }
}

fn flag(from: &mut Bytes<'_>) -> Result<bool, Malformed> {
    match from.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("a flag is neither 0 nor 1"),
    }
}

fn put_some(to: &mut Vec<u8>, text: Option<&str>) {
    to.push(text.is_some().into());
    if let Some(text) = text {
        put_text(to, text);
    }
}

fn some(from: &mut Bytes<'_>) -> Result<Option<String>, Malformed> {
    Ok(if flag(from)? { Some(from.text()?.to_owned()) } else { None })
}

fn put_list(to: &mut Vec<u8>, texts: &[String]) {
    put(to, texts.len() as u64);
    texts.iter().for_each(|text| put_text(to, text));
}

fn list(from: &mut Bytes<'_>) -> Result<Vec<String>, Malformed> {
    // Each takes a byte at least, so a number that is too large ends the loop early.
    let count = from.number()?;
    (0..count).map(|_| from.text().map(str::to_owned)).collect()
}
