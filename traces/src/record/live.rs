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
    /// An event. They come in the order of their times, some two tenths of a second late.
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
    let mut order = Order::default();
    let end = loop {
        for (cpu, buffer) in &buffers {
            let lost = drain(buffer, *cpu, layout, &decoder, &mut room, &mut names, &mut order)
                .map_err(|error| {
                    Refused(format!("the buffer of CPU {cpu} cannot be read: {error}"))
                })?;
            if lost > 0 {
                take(Seen::Lost(lost), names.all());
            }
        }
        order.round().for_each(|event| take(Seen::Event(&event), names.all()));
        if plan.duration.is_some_and(|length| began.elapsed() >= length) {
            break End::Time;
        }
        match news.recv_timeout(ROUND) {
            Ok(News::Signal(signal)) => break End::Signal(signal),
            Ok(News::Ended(_)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("the listener holds a sender"),
        }
    };
    order.rest().for_each(|event| take(Seen::Event(&event), names.all()));
    // It is busy while its buffers are open.
    drop(buffers);
    instance.remove()?;
    Ok(end)
}

/// Events of buffers that are emptied in turn, in the order of their times: a thread is created on one CPU and calls on
/// another, whose buffer may be emptied first.
#[derive(Debug, Default)]
struct Order {
    waiting: Vec<Event>,
    /// The latest time of the rounds before this one, and with this one.
    latest: [u64; 2],
}

impl Order {
    fn add(&mut self, event: Event) {
        self.latest[1] = self.latest[1].max(event.time);
        self.waiting.push(event);
    }

    /// What has come before anything that is still to come, once every buffer was emptied: all buffers were emptied since the
    /// latest event of the round before.
    fn round(&mut self) -> impl Iterator<Item = Event> {
        let [until, latest] = self.latest;
        self.latest[0] = latest;
        // The events of one CPU and one time stay as they are.
        self.waiting.sort_by_key(|event| event.time);
        let ready = self.waiting.partition_point(|event| event.time <= until);
        self.waiting.drain(..ready)
    }

    /// All others, where nothing comes any more.
    fn rest(self) -> impl Iterator<Item = Event> {
        self.waiting.into_iter()
    }
}

/// Takes all events that a buffer has now. How many the kernel had no room for.
fn drain(
    mut buffer: &File,
    cpu: u16,
    layout: Layout,
    decoder: &Decoder,
    room: &mut [u8],
    names: &mut Names,
    order: &mut Order,
) -> std::io::Result<u64> {
    let mut all_lost = 0;
    loop {
        match buffer.read(room) {
            Ok(0) => return Ok(all_lost),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(all_lost),
            Err(error) => return Err(error),
        }
        let Ok(mut page) = Page::open(layout, room) else { continue };
        if let Some(lost) = page.lost {
            all_lost += lost.max(1);
        }
        while let Ok(Some((time, bytes))) = page.next() {
            if let Decoded::Event(event) =
                decoder.decode(time, cpu, bytes, |name| names.number(name))
            {
                order.add(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn events_of_buffers_that_are_emptied_in_turn_come_in_the_order_of_their_times() {
        let event = |time, cpu| Event {
            time,
            cpu,
            in_interrupt: Some(false),
            task: 1,
            kind: Kind::Interrupt,
        };
        let times = |events: &mut dyn Iterator<Item = Event>| -> Vec<(u64, u16)> {
            events.map(|event| (event.time, event.cpu)).collect()
        };
        let mut order = Order::default();
        // CPU 0 is emptied at 10, CPU 1 at 14: what CPU 0 does at 12 comes a round later.
        [event(1, 0), event(9, 0), event(5, 1), event(13, 1)]
            .into_iter()
            .for_each(|one| order.add(one));
        assert_eq!(times(&mut order.round()), []);
        [event(12, 0), event(20, 0), event(12, 1)].into_iter().for_each(|one| order.add(one));
        let first = [(1, 0), (5, 1), (9, 0), (12, 0), (12, 1), (13, 1)];
        assert_eq!(times(&mut order.round()), first);
        // A round without events hands out what the one before it had.
        assert_eq!(times(&mut order.round()), [(20, 0)]);
        order.add(event(30, 1));
        assert_eq!(times(&mut order.rest()), [(30, 1)]);
    }
}
