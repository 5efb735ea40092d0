//! Watching a system for as long as one likes: events are handed out, and none is kept.

use core::time::Duration;
use std::{
    fs::File,
    io::{ErrorKind, Read},
    sync::mpsc::{self, RecvTimeoutError},
    time::Instant,
};

use lookaside_terminal::Refused;

use super::{End, Guard, Instance, Listener, News, NoRecording, Plan, set_up, tasks, tracefs};
use crate::{
    Event, Names, Task,
    binary::{
        events::{Decoded, Decoder},
        page::{Layout, Page},
    },
};

/// How often the buffers are emptied. A signal is heard between two rounds.
const ROUND: Duration = Duration::from_millis(100);

/// What a watcher is told.
#[derive(Debug)]
pub enum Seen<'s> {
    /// The threads that there are at first.
    Tasks(&'s [Task]),
    /// An event. Those of one CPU come in order, those of different CPUs within a tenth of a second.
    Event(&'s Event),
    /// The kernel had no room for so many events.
    Lost(u64),
}

/// Watches the whole system until its time is over or a signal comes, and hands out what it sees, with the names that
/// events refer to. Only the private instance of the tracing file system is used, and it is removed in any case.
///
/// # Errors
///
/// As [`super::record`].
pub fn watch(plan: &Plan, mut take: impl FnMut(Seen<'_>, &[String])) -> Result<End, NoRecording> {
    let root = tracefs::find()?;
    let (send, news) = mpsc::channel();
    let _signals = Listener::start(send)?;
    tracefs::remove_stale(&root);
    let place = tracefs::own_instance(&root);
    // Values go in the opposite order: the instance first, then its guard.
    let _guard = Guard::post(&[&place])?;
    let instance = Instance::make(place)?;
    let (decoder, layout, _) = set_up(&instance, &root, plan, None)?;
    let cpus = instance.cpus();
    let buffers = cpus
        .iter()
        .map(|&cpu| Ok((cpu, instance.buffer(cpu)?)))
        .collect::<Result<Vec<_>, Refused>>()?;
    let mut names = Names::default();
    let began = Instant::now();
    instance.record(true)?;
    let tasks = tasks::now(&mut names);
    take(Seen::Tasks(&tasks), names.all());
    let mut room = vec![0; layout.size];
    let end = loop {
        for (cpu, buffer) in &buffers {
            drain(buffer, *cpu, layout, &decoder, &mut room, &mut names, &mut take).map_err(
                |error| Refused(format!("the buffer of CPU {cpu} cannot be read: {error}")),
            )?;
        }
        if plan.duration.is_some_and(|length| began.elapsed() >= length) {
            break End::Time;
        }
        match news.recv_timeout(ROUND) {
            Ok(News::Signal(signal)) => break End::Signal(signal),
            Ok(News::Ended(_)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("the listener holds a sender"),
        }
    };
    // It is busy while its buffers are open.
    drop(buffers);
    instance.remove()?;
    Ok(end)
}

/// Hands out all events that a buffer has now.
fn drain(
    mut buffer: &File,
    cpu: u16,
    layout: Layout,
    decoder: &Decoder,
    room: &mut [u8],
    names: &mut Names,
    take: &mut impl FnMut(Seen<'_>, &[String]),
) -> std::io::Result<()> {
    loop {
        match buffer.read(room) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        let Ok(mut page) = Page::open(layout, room) else { continue };
        if let Some(lost) = page.lost {
            take(Seen::Lost(lost.max(1)), names.all());
        }
        while let Ok(Some((time, bytes))) = page.next() {
            if let Decoded::Event(event) =
                decoder.decode(time, cpu, bytes, |name| names.number(name))
            {
                take(Seen::Event(&event), names.all());
            }
        }
    }
}
