//! Copies full pages of the kernel's buffers while it fills others.
//!
//! One thread reads all buffers in turn, and copies their pages into one file that has no name. It never
//! waits for an event: a waiting reader is woken through an interrupt, which would be in its own recording.

use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use super::stacks::Stacks;
use crate::binary::page::{Layout, Page};
use lookaside_terminal::Refused;

/// How long the reader sleeps between two rounds. A buffer must hold what one CPU records meanwhile, and
/// while the reader waits for its turn to run.
const ROUND: Duration = Duration::from_millis(50);
/// As [`ROUND`], of buffers with call chains: a process must be asked for its mappings before it ends.
const ROUND_OF_STACKS: Duration = Duration::from_millis(10);

/// The pages of a recording.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    /// The layout of a page.
    pub(super) layout: Layout,
    /// The places of the pages in the file, in pages, for each buffer.
    places: Vec<Vec<u32>>,
}

/// A thread that fills a spool.
#[derive(Debug)]
pub(super) struct Reader {
    thread: JoinHandle<io::Result<(Spool, Option<Stacks>)>>,
    stop: Sender<()>,
    events: Arc<AtomicU64>,
}

impl Reader {
    /// Starts to read these buffers, into a file without a name in `folder`. Those of call chains come behind the
    /// others.
    ///
    /// # Errors
    ///
    /// If the file cannot be made.
    pub(super) fn start(
        buffers: Vec<File>,
        layout: Layout,
        folder: &Path,
        with_stacks: Option<(Stacks, Vec<File>)>,
    ) -> Result<Self, Refused> {
        let file = tempfile::tempfile_in(folder)
            .map_err(|error| Refused(format!("{}: {error}", folder.display())))?;
        let (stop, stopped) = mpsc::channel();
        let events = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&events);
        let (mut stacks, of_stacks) = with_stacks.unzip();
        let of_stacks = of_stacks.unwrap_or_default();
        let places = vec![Vec::new(); buffers.len() + of_stacks.len()];
        let mut spool = Spool { file, layout, places };
        let thread = thread::spawn(move || {
            let mut room = Vec::new();
            let mut next = 0;
            let round = if stacks.is_some() { ROUND_OF_STACKS } else { ROUND };
            let mut due = Instant::now() + round;
            loop {
                // What comes after the word to stop is read, too.
                let stop = stopped.recv_timeout(round) != Err(RecvTimeoutError::Timeout);
                if let Some(stacks) = &mut stacks {
                    stacks.begin_round();
                    for (place, buffer) in of_stacks.iter().enumerate() {
                        let look = |layout, page: &[u8]| stacks.look(place, layout, page);
                        let place = buffers.len() + place;
                        spool.drain(place, buffer, &mut room, &mut next, &count, look)?;
                    }
                }
                if stop || due <= Instant::now() {
                    due = Instant::now() + ROUND;
                    for (place, buffer) in buffers.iter().enumerate() {
                        spool.drain(place, buffer, &mut room, &mut next, &count, |_, _| {})?;
                    }
                }
                if stop {
                    return Ok((spool, stacks));
                }
            }
        });
        Ok(Self { thread, stop, events })
    }

    /// About how many events there are so far.
    pub(super) fn events(&self) -> u64 {
        // Relaxed: it is shown to people, and nothing depends on it.
        self.events.load(Ordering::Relaxed)
    }

    /// Whether it has ended early, because it could not write.
    pub(super) fn failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Reads the remaining pages and ends. The kernel must record nothing more.
    ///
    /// # Errors
    ///
    /// If something could not be read or written.
    pub(super) fn finish(self) -> Result<(Spool, Option<Stacks>), Refused> {
        // It has ended already if this fails.
        let _ = self.stop.send(());
        let result = self.thread.join().map_err(|_| Refused("the reader panicked".to_owned()))?;
        result.map_err(|error| Refused(format!("cannot keep what was recorded: {error}")))
    }
}

/// Pages are written to the file when there are so many.
const BATCH: usize = 64;

impl Spool {
    /// Reads all that a buffer has now, and shows its pages to `look`.
    fn drain(
        &mut self,
        place: usize,
        mut buffer: &File,
        room: &mut Vec<u8>,
        next: &mut u32,
        count: &AtomicU64,
        mut look: impl FnMut(Layout, &[u8]),
    ) -> io::Result<()> {
        let size = self.layout.size;
        loop {
            room.resize(BATCH * size, 0);
            let mut pages = 0;
            let mut more = true;
            while more && pages < BATCH {
                match buffer.read(&mut room[pages * size..][..size]) {
                    Ok(0) => more = false,
                    Ok(_) => pages += 1,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => more = false,
                    Err(error) => return Err(error),
                }
            }
            room.truncate(pages * size);
            room.chunks(size).for_each(|page| look(self.layout, page));
            self.file.write_all(room)?;
            let events: u64 = room.chunks(size).map(|page| events_in(self.layout, page)).sum();
            // Relaxed: as where it is read.
            count.fetch_add(events, Ordering::Relaxed);
            for _ in 0..pages {
                self.places[place].push(*next);
                *next = next.checked_add(1).ok_or(ErrorKind::FileTooLarge)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Hands out the pages of a buffer, in order.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or whatever `take` returns.
    pub(super) fn each(
        &self,
        buffer: usize,
        mut take: impl FnMut(&[u8]) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let mut page = vec![0; self.layout.size];
        for &place in &self.places[buffer] {
            let offset = u64::from(place) * page.len() as u64;
            self.file
                .read_exact_at(&mut page, offset)
                .map_err(|error| Refused(format!("cannot read back what was recorded: {error}")))?;
            take(&page)?;
        }
        Ok(())
    }
}

/// How many events a page has; those before a damage.
fn events_in(layout: Layout, page: &[u8]) -> u64 {
    let Ok(mut page) = Page::open(layout, page) else { return 0 };
    let mut events = 0;
    while let Ok(Some(_)) = page.next() {
        events += 1;
    }
    events
}
