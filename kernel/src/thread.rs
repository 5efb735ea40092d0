//! Threads, and which CPU runs which.
//!
//! A thread that stops running switches to its CPU's *scheduler context*, which queues or ends the thread
//! after it has left its stack, and runs the next one. So no thread is ever found in a queue while a
//! CPU is on its stack.

use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec::Vec};
use core::{
    cell::UnsafeCell,
    mem,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use lookaside_kernel_abi::Refused;

use crate::{
    arch::{self, Context, MAX_CPUS, STACK, TrapFrame},
    count,
    lock::Lock,
    process::{self, Process},
    tlb,
};

/// Any CPU may run the thread.
pub(crate) const ANYWHERE: usize = usize::MAX;

/// A thread of a process.
pub(crate) struct Thread {
    pub(crate) process: Arc<Process>,
    stack: Box<[Stack]>,
    context: UnsafeCell<Context>,
    /// The only CPU that may run it, or [`ANYWHERE`].
    only_on: AtomicUsize,
    ending: AtomicBool,
}

/// A piece of a stack, as large as it must be aligned.
#[repr(C, align(16))]
struct Stack(UnsafeCell<[u64; 2]>);

// SAFETY: the context and the stack are touched only by the CPU that runs the thread, and there is one.
unsafe impl Sync for Thread {}
// SAFETY: as above.
unsafe impl Send for Thread {}

/// The next state of a thread that has stopped running.
enum After {
    /// It goes on when its turn comes.
    Again,
    /// It waits for a wake of this channel after the sequence number that it saw, or for a moment.
    Wait { channel: usize, seen: u64, until: u64 },
    /// It is no more.
    End,
}

/// The scheduler's state of a CPU.
struct Running {
    thread: Option<Arc<Thread>>,
    after: After,
    scheduler: Context,
}

struct PerCpu(UnsafeCell<Running>);

// SAFETY: only the CPU with the number of its place touches it, with interrupts off.
unsafe impl Sync for PerCpu {}

static RUNNING: [PerCpu; MAX_CPUS] = [const {
    PerCpu(UnsafeCell::new(Running { thread: None, after: After::Again, scheduler: Context::NEW }))
}; MAX_CPUS];

static READY: Lock<VecDeque<Arc<Thread>>> = Lock::new(VecDeque::new());
static WAITING: Lock<Vec<Waiting>> = Lock::new(Vec::new());
/// How many wakes there were, of any channel.
static WAKES: AtomicU64 = AtomicU64::new(0);
/// The CPUs that have nothing to run, as bits.
static IDLE: AtomicU64 = AtomicU64::new(0);

struct Waiting {
    thread: Arc<Thread>,
    channel: usize,
    until: u64,
}

/// A moment that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

impl Thread {
    /// A thread that begins in user mode with `frame`.
    pub(crate) fn start(process: Arc<Process>, frame: &TrapFrame) {
        let pieces = STACK / size_of::<Stack>();
        let stack: Box<[Stack]> = (0..pieces).map(|_| Stack(UnsafeCell::new([0; 2]))).collect();
        let top = stack.as_ptr().addr() + STACK;
        let at = (top - size_of::<TrapFrame>()) as *mut TrapFrame;
        // SAFETY: the stack is ours and large enough.
        unsafe { at.write(frame.clone()) };
        let context = UnsafeCell::new(Context::new(at.addr() & !15, begin));
        let only_on = AtomicUsize::new(ANYWHERE);
        let ending = AtomicBool::new(false);
        make_ready(Arc::new(Self { process, stack, context, only_on, ending }));
    }

    /// Whether it ends before it returns to user mode.
    pub(crate) fn is_ending(&self) -> bool {
        // Relaxed: its own.
        self.ending.load(Ordering::Relaxed) || self.process.is_ending()
    }

    /// Ends it when it would return to user mode. Called by the thread itself.
    pub(crate) fn end_soon(&self) {
        self.ending.store(true, Ordering::Relaxed); // Relaxed: its own.
    }

    /// Keeps it on one CPU of `cpus`, and moves it there. Called by the thread itself.
    pub(crate) fn run_on(&self, cpu: usize, cpus: usize) -> Result<usize, Refused> {
        if cpu != ANYWHERE && cpu >= cpus {
            return Err(Refused::Missing);
        }
        self.only_on.store(cpu, Ordering::Relaxed); // Relaxed: a wish.
        while cpu != ANYWHERE && arch::cpu() != cpu {
            give_way();
        }
        Ok(0)
    }

    /// Where traps from user mode begin.
    fn stack_top(&self) -> usize {
        self.stack.as_ptr().addr() + STACK
    }
}

/// Where a new thread begins.
extern "C" fn begin() -> ! {
    let frame = (current().stack_top() - size_of::<TrapFrame>()) as *const TrapFrame;
    // SAFETY: `start` has written it.
    unsafe { arch::return_to_user(frame) }
}

fn running() -> *mut Running {
    RUNNING[arch::cpu()].0.get()
}

/// The thread that this CPU runs.
///
/// # Panics
///
/// If it runs none.
pub(crate) fn current() -> Arc<Thread> {
    // SAFETY: this CPU's own.
    unsafe { (*running()).thread.clone() }.expect("a thread runs")
}

/// Puts a thread into the queue, and wakes a CPU for it.
fn make_ready(thread: Arc<Thread>) {
    let only_on = thread.only_on.load(Ordering::Relaxed); // Relaxed: a wish.
    READY.lock().push_back(thread);
    // SeqCst, here and where CPUs become idle: one of the two sees the other.
    core::sync::atomic::fence(Ordering::SeqCst);
    let idle = IDLE.load(Ordering::SeqCst);
    let idle = if only_on == ANYWHERE { idle } else { idle & 1 << only_on };
    let cpu = idle.trailing_zeros() as usize;
    if cpu < MAX_CPUS && cpu != arch::cpu() {
        arch::interrupt_cpu(cpu);
    }
}

/// Whether this CPU may run a thread.
fn may_run_here(thread: &Arc<Thread>) -> bool {
    let only_on = thread.only_on.load(Ordering::Relaxed); // Relaxed: a wish.
    only_on == ANYWHERE || only_on == arch::cpu()
}

/// The next thread for this CPU.
fn take() -> Option<Arc<Thread>> {
    let mut ready = READY.lock();
    let place = ready.iter().position(may_run_here)?;
    ready.remove(place)
}

/// Runs threads on this CPU, for ever.
pub(crate) fn schedule() -> ! {
    loop {
        let Some(thread) = take() else {
            rest();
            continue;
        };
        count::switch(tlb::this_cpu().switch(&thread.process.space));
        arch::set_kernel_stack(thread.stack_top());
        let context = thread.context.get();
        let running = running();
        // SAFETY: this CPU's own, and the thread is in no queue: its context is ours until it comes back.
        let after = unsafe {
            (*running).thread = Some(thread);
            Context::switch(&raw mut (*running).scheduler, context);
            mem::replace(&mut (*running).after, After::Again)
        };
        // SAFETY: this CPU's own.
        let thread = unsafe { (*running).thread.take() }.expect("it ran");
        match after {
            After::Again => make_ready(thread),
            After::Wait { channel, seen, until } => wait(thread, channel, seen, until),
            After::End => process::end_thread(thread),
        }
    }
}

/// Nothing is ready: the space stays loaded, and comes back for free.
fn rest() {
    let bit = 1 << arch::cpu();
    IDLE.fetch_or(bit, Ordering::SeqCst);
    if !READY.lock().iter().any(may_run_here) {
        tlb::this_cpu().lazy();
        arch::idle();
    }
    IDLE.fetch_and(!bit, Ordering::SeqCst);
    wake_late();
}

/// Leaves this thread to the scheduler.
fn leave(after: After) {
    let running = running();
    // SAFETY: this CPU's own; the thread is kept alive by it.
    unsafe {
        (*running).after = after;
        let context = (*running).thread.as_ref().expect("a thread runs").context.get();
        Context::switch(context, &raw const (*running).scheduler);
    }
}

/// Lets others run.
pub(crate) fn give_way() {
    leave(After::Again);
}

/// Ends this thread.
pub(crate) fn end() -> ! {
    leave(After::End);
    unreachable!("a thread that has ended does not run")
}

// ---- Waiting

/// Waits until `ready` returns a value. Code that changes the state which `ready` reads wakes `channel`
/// afterwards. None if the process is to end meanwhile, or at the moment `until`.
pub(crate) fn wait_for<T>(
    channel: usize,
    until: u64,
    mut ready: impl FnMut() -> Option<T>,
) -> Option<T> {
    loop {
        let seen = WAKES.load(Ordering::Acquire); // Acquire: before `ready` looks.
        if let Some(found) = ready() {
            return Some(found);
        }
        if current().process.is_ending() || arch::now() >= until {
            return None;
        }
        leave(After::Wait { channel, seen, until });
    }
}

fn wait(thread: Arc<Thread>, channel: usize, seen: u64, until: u64) {
    let mut waiting = WAITING.lock();
    // Relaxed: changed under the lock.
    if WAKES.load(Ordering::Relaxed) == seen {
        waiting.push(Waiting { thread, channel, until });
    } else {
        drop(waiting);
        make_ready(thread); // It may have been woken meanwhile, and looks again.
    }
}

/// Wakes the threads that wait for `channel`.
pub(crate) fn wake(channel: usize) {
    wake_if(true, |waiting| waiting.channel == channel);
}

/// Wakes all threads of a process.
pub(crate) fn wake_process(id: usize) {
    wake_if(true, |waiting| waiting.thread.process.id == id);
}

/// Wakes the threads whose time has come.
pub(crate) fn wake_late() {
    let now = arch::now();
    wake_if(false, |waiting| waiting.until <= now);
}

fn wake_if(count: bool, chosen: impl Fn(&Waiting) -> bool) {
    let mut woken = Vec::new();
    let mut waiting = WAITING.lock();
    if count {
        WAKES.fetch_add(1, Ordering::Release); // Release: after what was changed.
    }
    let mut place = 0;
    while place < waiting.len() {
        if chosen(&waiting[place]) {
            woken.push(waiting.swap_remove(place).thread);
        } else {
            place += 1;
        }
    }
    drop(waiting);
    woken.into_iter().for_each(make_ready);
}
