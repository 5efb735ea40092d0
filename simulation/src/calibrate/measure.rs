//! The measurements themselves: short blocks, of everything in turn, again and again until the time is
//! up, so that each series sees the machine as it was over the whole time.

use core::{
    hint,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use std::{io, path::Path, thread, time::Instant};

use super::{
    counts::{Counts, Disturbance, Expected, Kind, disturbance},
    predict,
    probe::{CALLED, PAGES, Probe, Samples, Scope},
    series::Summary,
    system::{self, Area, LINE, PingPong, Spinner, nanoseconds, place_of},
    topology::Cpus,
};

/// Pages of the other two calls, and of all with other CPUs, which only have to be compared with it.
const FEW_CALLED: [usize; 4] = [1, 8, 32, 64];
/// At most so many CPUs are interrupted at once.
const MOST_OTHERS: usize = 4;
/// Pairs of CPUs for each distance.
const PAIRS: usize = 3;

/// Steps of a chase in a block.
const STEPS: usize = 16_384;
/// Calls in a block.
const CALLS: usize = 24;
/// Round trips in a block.
const ROUNDS: u32 = 100;
/// Atomics, system calls, readings of the clock and hand-overs in a block.
const MANY: usize = 4000;

/// So long it measures, and so long it then leaves the machine to others. Linux gives others a
/// twentieth of a CPU in any case, and would do it in the middle of a block.
const BURST: Duration = Duration::from_millis(25);
const REST: Duration = Duration::from_millis(3);

/// A place to measure on.
#[derive(Debug)]
pub struct Bench {
    /// The CPUs of the machine.
    pub cpus: Cpus,
    /// Those that may be used; the first measures.
    pub allowed: Vec<usize>,
    /// Why threads are not before all others, if they are not.
    pub no_real_time: Option<String>,
    /// How often making a page read-only and writable again flushes.
    pub flushes: u64,
    rested: Instant,
    samples: Samples,
}

impl Bench {
    /// Pins this thread, and has it go before others where that is allowed.
    ///
    /// # Errors
    ///
    /// If the machine cannot be described.
    pub fn new() -> Result<Self, String> {
        let cpus = Cpus::read(Path::new("/sys/devices/system/cpu"))?;
        let allowed = system::allowed().map_err(|error| format!("CPUs of this thread: {error}"))?;
        let first = allowed.first().ok_or("this thread may run on no CPU")?;
        system::pin(&[*first]).map_err(|error| format!("CPU {first}: {error}"))?;
        let no_real_time = system::real_time(true).err().map(|error| error.to_string());
        let (rested, samples) = (Instant::now(), Samples::new());
        Ok(Self { cpus, allowed, no_real_time, flushes: 1, rested, samples })
    }

    fn me(&self) -> usize {
        self.allowed[0]
    }

    /// How many CPUs are interrupted at once at most.
    fn others(&self) -> usize {
        (self.allowed.len() - 1).min(MOST_OTHERS)
    }

    /// What was measured.
    #[must_use]
    pub fn into_samples(self) -> Samples {
        let _ = system::real_time(false);
        let _ = system::pin(&self.allowed);
        self.samples
    }

    /// Adds blocks of everything until the time is up. `progress` is told the share of the time.
    ///
    /// # Errors
    ///
    /// If the kernel refuses something.
    pub fn measure(
        &mut self,
        time: Duration,
        scope: Scope,
        progress: &dyn Fn(f64),
    ) -> io::Result<()> {
        let begin = Instant::now();
        let barriers = system::register_barriers().is_ok();
        let area = Area::new(*PAGES.last().unwrap_or(&0))?;
        area.write(area.pages());
        self.flushes = self.count_flushes(&area)?;
        let share = || begin.elapsed().as_secs_f64() / time.as_secs_f64();
        let others = self.others();
        while share() < 1.0 {
            if scope.compared {
                // What is compared later is measured beside what it is compared with.
                for apart in [false, true] {
                    self.ping_pong(true, predict::PAGES, apart)?;
                }
                if others > 0 {
                    for _ in 0..4 {
                        self.protect(&area, 1, 1)?;
                    }
                }
            }
            if scope.switches {
                self.ping_pong(false, 0, false)?;
                self.ping_pong(true, 0, false)?;
            }
            if scope.chases {
                self.chases(&area)?;
            }
            if scope.words {
                self.small(&area)?;
                self.transfers()?;
            }
            for others in 0..=others {
                if scope.calls {
                    self.calls(&area, others)?;
                }
                if scope.barriers && barriers {
                    self.barriers(others)?;
                }
            }
            progress(share().min(1.0));
        }
        Ok(())
    }

    /// Lets others run if it is time.
    fn rest(&mut self) {
        if self.rested.elapsed() > BURST {
            thread::sleep(REST);
            self.rested = Instant::now();
        }
    }

    fn add(&mut self, probe: Probe, value: f64, disturbed: Option<Disturbance>) {
        self.samples.entry(probe).or_default().block(value, disturbed);
    }

    /// A block that concerns this CPU alone.
    fn block(&mut self, probe: Probe, measure: impl FnOnce() -> io::Result<f64>) -> io::Result<()> {
        self.rest();
        let before = system::switches()[1];
        let value = measure()?;
        let disturbed = (system::switches()[1] > before).then_some(Disturbance::Preempted);
        self.add(probe, value, disturbed);
        Ok(())
    }

    fn chases(&mut self, area: &Area) -> io::Result<()> {
        for pages in PAGES {
            let order = shuffled(pages);
            for (probe, place) in [
                (Probe::Pages(pages), place_of as fn(usize) -> usize),
                (Probe::Lines(pages), |line| line * LINE),
            ] {
                let offsets: Vec<usize> = order.iter().map(|&i| place(i)).collect();
                area.link(&offsets);
                area.chase(offsets[0], pages);
                let steps = STEPS.next_multiple_of(pages);
                for _ in 0..2 {
                    self.block(probe, || {
                        let begin = Instant::now();
                        area.chase(offsets[0], steps);
                        Ok(nanoseconds(begin) / steps as f64)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn small(&mut self, area: &Area) -> io::Result<()> {
        let each = |many: usize, f: &mut dyn FnMut()| {
            let begin = Instant::now();
            (0..many).for_each(|_| f());
            Ok(nanoseconds(begin) / many as f64)
        };
        let word = AtomicU64::new(0);
        for _ in 0..2 {
            self.block(Probe::Clock, || {
                each(MANY, &mut || {
                    hint::black_box(Instant::now());
                })
            })?;
            self.block(Probe::Call, || each(MANY, &mut system::system_call))?;
            let mut last = 0;
            self.block(Probe::Atomic, || {
                each(MANY, &mut || last = word.fetch_add(last | 1, Ordering::SeqCst))
            })?;
            self.block(Probe::Fault, || {
                let mut times = Vec::with_capacity(2 * CALLS);
                for _ in 0..2 * CALLS {
                    area.discard(1)?;
                    let begin = Instant::now();
                    area.write(1);
                    times.push(nanoseconds(begin));
                }
                Ok(Summary::of(&times).median)
            })?;
        }
        Ok(())
    }

    fn transfers(&mut self) -> io::Result<()> {
        for (apart, [one, other]) in self.cpus.pairs(&self.allowed, PAIRS) {
            system::pin(&[one])?;
            let times = transfer(other);
            system::pin(&[self.me()])?;
            for (value, disturbed) in times? {
                self.add(Probe::Transfer(apart), value, disturbed);
            }
            self.rest();
        }
        Ok(())
    }

    /// Adds blocks of a ping-pong.
    ///
    /// # Errors
    ///
    /// If the kernel refuses something.
    pub fn ping_pong(&mut self, processes: bool, pages: usize, apart: bool) -> io::Result<()> {
        let order = shuffled(pages);
        let first = order.first().copied().unwrap_or(0);
        // It begins with the word of the area that is first.
        let chase: Vec<usize> =
            order.iter().map(|&page| place_of((page + pages - first) % pages)).collect();
        let ping_pong = PingPong::new(processes, &chase, apart)?;
        ping_pong.rounds(10)?;
        for _ in 0..6 {
            self.block(Probe::PingPong { processes, pages, apart }, || {
                let begin = Instant::now();
                ping_pong.rounds(ROUNDS)?;
                Ok(nanoseconds(begin) / f64::from(ROUNDS))
            })?;
        }
        Ok(())
    }

    /// A block with so many other CPUs that run this process: what `measure` gives for each probe.
    fn shared<const N: usize>(
        &mut self,
        others: usize,
        probes: [Probe; N],
        interrupts: (Kind, u64),
        measure: impl FnOnce() -> io::Result<[f64; N]>,
    ) -> io::Result<()> {
        self.rest();
        let targets = self.allowed[1..=others].to_vec();
        let mut spinners = Vec::new();
        for &cpu in &targets {
            spinners.push(Spinner::new(cpu)?);
        }
        // Alone, the nearest CPU is watched: a kernel may think that it still runs this process.
        let watched = self.allowed[1..self.allowed.len().min(others.max(1) + 1)].to_vec();
        let count = if others == 0 { 0 } else { interrupts.1 };
        let expected =
            Expected { cpu: self.me(), targets: watched, interrupts: Some((interrupts.0, count)) };
        let before = Counts::now()?;
        let values = measure()?;
        let after = Counts::now()?;
        let forced: u64 = spinners.iter_mut().map(Spinner::end).sum();
        let mut disturbed = disturbance(&before, &after, &expected);
        if forced > 0 {
            disturbed = disturbed.or(Some(Disturbance::Preempted));
        }
        for (probe, value) in probes.into_iter().zip(values) {
            self.add(probe, value, disturbed);
        }
        Ok(())
    }

    fn calls(&mut self, area: &Area, others: usize) -> io::Result<()> {
        let sizes: &[usize] = if others == 0 { &CALLED } else { &FEW_CALLED };
        for &pages in sizes {
            // Enough of those that paths are made of.
            for _ in 0..if pages == 1 && others == 0 { 4 } else { 1 } {
                self.protect(area, pages, others)?;
            }
        }
        for pages in FEW_CALLED {
            self.discard(area, pages, others)?;
            self.unmap(pages, others)?;
        }
        Ok(())
    }

    /// How often making a page read-only and writable again flushes: once or twice, as the kernel is.
    fn count_flushes(&mut self, area: &Area) -> io::Result<u64> {
        let Some(&cpu) = self.allowed.get(1) else { return Ok(1) };
        let mut twice = 0;
        for _ in 0..5 {
            let _spinner = Spinner::new(cpu)?;
            let before = Counts::now()?;
            for _ in 0..CALLS {
                area.write(1);
                area.protect(1)?;
            }
            let flushes = Counts::now()?.more(&before, Kind::Flush, cpu);
            twice += i32::from(2 * flushes > 3 * CALLS as u64);
            self.rest();
        }
        Ok(if twice > 2 { 2 } else { 1 })
    }

    /// The pair of calls and the write of [`crate::workload`]'s `mprotect_pair`.
    fn protect(&mut self, area: &Area, pages: usize, others: usize) -> io::Result<()> {
        let probes = [Probe::Protect { pages, others }, Probe::Allow { pages, others }];
        let flushes = if ANSWERED { self.flushes * CALLS as u64 } else { 0 };
        let interrupts = (Kind::Flush, flushes);
        self.shared(others, probes, interrupts, || {
            let mut times = [const { Vec::new() }; 2];
            for _ in 0..CALLS {
                area.write(pages);
                for (times, time) in times.iter_mut().zip(area.protect(pages)?) {
                    times.push(time);
                }
            }
            Ok(times.map(|times| Summary::of(&times).median))
        })
    }

    fn discard(&mut self, area: &Area, pages: usize, others: usize) -> io::Result<()> {
        let interrupts = (Kind::Flush, if ANSWERED { CALLS as u64 } else { 0 });
        self.shared(others, [Probe::Discard { pages, others }], interrupts, || {
            let mut times = Vec::new();
            for _ in 0..CALLS {
                area.write(pages);
                let begin = Instant::now();
                area.discard(pages)?;
                times.push(nanoseconds(begin));
            }
            Ok([Summary::of(&times).median])
        })
    }

    fn unmap(&mut self, pages: usize, others: usize) -> io::Result<()> {
        let interrupts = (Kind::Flush, if ANSWERED { CALLS as u64 } else { 0 });
        self.shared(others, [Probe::Unmap { pages, others }], interrupts, || {
            let mut times = Vec::new();
            for _ in 0..CALLS {
                let area = Area::new(pages)?;
                area.write(pages);
                let begin = Instant::now();
                drop(area);
                times.push(nanoseconds(begin));
            }
            Ok([Summary::of(&times).median])
        })
    }

    fn barriers(&mut self, others: usize) -> io::Result<()> {
        for _ in 0..4 {
            let interrupts = (Kind::Call, CALLS as u64);
            self.shared(others, [Probe::Barrier { others }], interrupts, || {
                let mut times = Vec::new();
                for _ in 0..CALLS {
                    let begin = Instant::now();
                    system::barrier()?;
                    times.push(nanoseconds(begin));
                }
                Ok([Summary::of(&times).median])
            })?;
        }
        Ok(())
    }
}

/// Whether flushes interrupt the CPUs concerned; elsewhere hardware broadcasts them.
const ANSWERED: bool = cfg!(any(target_arch = "x86_64", target_arch = "riscv64"));

/// Round trips of a line between this CPU and another, by blocks.
fn transfer(other: usize) -> io::Result<Vec<(f64, Option<Disturbance>)>> {
    #[repr(align(128))]
    struct Line(AtomicU64);
    let (line, failed) = (Line(AtomicU64::new(2)), AtomicBool::new(false));
    // Takes turns: 0 is this CPU's, 1 the other's; 2 before the other is there, 3 when it is over.
    let hand = |from, to| {
        loop {
            match line.0.load(Ordering::Acquire) {
                now if now == from => break,
                3 => return false,
                _ => hint::spin_loop(),
            }
        }
        line.0.store(to, Ordering::Release);
        true
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            failed.store(system::pin(&[other]).is_err(), Ordering::Relaxed);
            line.0.store(0, Ordering::Release);
            while hand(1, 0) {}
        });
        while line.0.load(Ordering::Acquire) == 2 {
            thread::yield_now();
        }
        let mut blocks = Vec::new();
        for _ in 0..4 {
            let before = system::switches()[1];
            let begin = Instant::now();
            (0..MANY).for_each(|_| {
                hand(0, 1);
            });
            let value = nanoseconds(begin) / MANY as f64;
            let disturbed = system::switches()[1] > before;
            blocks.push((value, disturbed.then_some(Disturbance::Preempted)));
        }
        hand(0, 3);
        if failed.load(Ordering::Relaxed) {
            return Err(io::Error::other(format!("no thread may run on CPU {other}")));
        }
        Ok(blocks)
    })
}

/// The numbers below `count` in an order that no prefetcher follows, always the same.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for i in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(i, (state % (i as u64 + 1)) as usize);
    }
    order
}
