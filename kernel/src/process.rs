//! Processes: a space, its memory, and how it ends.

use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};

use lookaside_kernel_abi::{KILLED, Refused};

use crate::{
    arch::TrapFrame,
    fault::Fatal,
    loader,
    lock::Lock,
    memory::Memory,
    println,
    thread::{self, Thread},
    tlb::{self, AddressSpace},
};

/// The most processes that there are at a time.
const MAX_PROCESSES: usize = 64;
/// The most threads of one process, and of all: their stacks are in the kernel's heap.
const MAX_THREADS: usize = 32;
const MAX_ALL_THREADS: usize = 256;
/// How many threads there are.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The most exit codes that are kept.
const MAX_CODES: usize = 1024;

/// A process.
pub(crate) struct Process {
    pub(crate) id: usize,
    pub(crate) program: usize,
    pub(crate) space: AddressSpace,
    pub(crate) memory: Lock<Memory>,
    threads: AtomicUsize,
    ending: AtomicBool,
    code: AtomicIsize,
}

struct Processes {
    last: usize,
    /// How many there are.
    count: usize,
    /// Those that were not waited for: their numbers, and their exit codes if they have ended.
    codes: Vec<(usize, Option<isize>)>,
}

static PROCESSES: Lock<Processes> = Lock::new(Processes { last: 0, count: 0, codes: Vec::new() });

impl Process {
    /// A process with nothing in it but the kernel.
    fn new(program: usize) -> Result<Arc<Self>, Refused> {
        let mut all = PROCESSES.lock();
        if all.count == MAX_PROCESSES {
            return Err(Refused::Full);
        }
        let memory = Memory::new().ok_or(Refused::Full)?;
        all.count += 1;
        all.last += 1;
        let id = all.last;
        // An exit code for which no process has waited so long is dropped.
        if all.codes.len() == MAX_CODES
            && let Some(oldest) = all.codes.iter().position(|(_, code)| code.is_some())
        {
            all.codes.remove(oldest);
        }
        all.codes.push((id, None));
        drop(all);
        let space = AddressSpace::new(&tlb::TLB, memory.root()).expect("a fit root");
        Ok(Arc::new(Self {
            id,
            program,
            space,
            memory: Lock::new(memory),
            threads: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
            code: AtomicIsize::new(0),
        }))
    }

    /// Starts a thread with these registers.
    pub(crate) fn start_thread(self: &Arc<Self>, frame: &TrapFrame) -> Result<(), Refused> {
        // Relaxed, all: counts, which may be over for a moment.
        let mine = self.threads.fetch_add(1, Ordering::Relaxed);
        let all = THREADS.fetch_add(1, Ordering::Relaxed);
        if mine >= MAX_THREADS || all >= MAX_ALL_THREADS {
            self.threads.fetch_sub(1, Ordering::Relaxed);
            THREADS.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Full);
        }
        Thread::start(self.clone(), frame);
        Ok(())
    }

    /// Whether its threads are to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed) // Relaxed: it is looked at again and again.
    }

    /// Ends all its threads, wherever they are, when they next leave the kernel.
    pub(crate) fn end(&self, code: isize) {
        if !self.ending.swap(true, Ordering::Relaxed) {
            self.code.store(code, Ordering::Relaxed); // Relaxed, both: read when no thread is left.
        }
        thread::wake_process(self.id);
    }

    /// Kills the process for a fault, and reports it.
    pub(crate) fn kill(&self, why: core::fmt::Arguments<'_>) {
        if !self.is_ending() {
            println!("killed: process {}, program {}: {why}", self.id, self.program);
        }
        self.end(KILLED);
    }

    /// As [`Self::kill`], for an address.
    pub(crate) fn kill_for(&self, fatal: Fatal, address: usize) {
        match fatal {
            Fatal::BadAddress => self.kill(format_args!("bad address {address:#x}")),
            Fatal::OutOfMemory => self.kill(format_args!("out of memory")),
        }
    }
}

impl Drop for Process {
    /// No thread is left. CPUs that still have the root loaded leave it here.
    fn drop(&mut self) {
        let _ = tlb::this_cpu().release(&mut self.space);
        // Without remote flushes other CPUs go on walking the tables.
        if !cfg!(feature = "no-remote") {
            self.memory.lock().end(&self.space);
        }
        PROCESSES.lock().count -= 1;
    }
}

/// A new process that runs a program.
pub(crate) fn spawn(program: usize, argument: usize) -> Result<usize, Refused> {
    let process = Process::new(program)?;
    let entry = loader::load(&process);
    let started = entry.and_then(|(entry, stack)| {
        process.start_thread(&TrapFrame::user(entry, stack, [program, argument]))
    });
    begin(process, started)
}

/// A process that is like the one that runs, but for the result of the call.
pub(crate) fn fork(parent: &Process, frame: &TrapFrame) -> Result<usize, Refused> {
    let process = Process::new(parent.program)?;
    let copied = parent.memory.lock().fork(&parent.space, &mut process.memory.lock());
    let mut frame = frame.clone();
    frame.set_result(0);
    let started = if copied { process.start_thread(&frame) } else { Err(Refused::Full) };
    begin(process, started)
}

/// The number of a process that has begun, if it has.
fn begin(process: Arc<Process>, started: Result<(), Refused>) -> Result<usize, Refused> {
    let id = process.id;
    if let Err(refused) = started {
        PROCESSES.lock().codes.retain(|(other, _)| *other != id);
        return Err(refused);
    }
    Ok(id)
}

/// Cleans up after a thread that has ended, when no CPU is on its stack.
pub(crate) fn end_thread(thread: Arc<Thread>) {
    let process = thread.process.clone();
    drop(thread);
    THREADS.fetch_sub(1, Ordering::Relaxed); // Relaxed: a count.
    // AcqRel: the last one sees the stores of all others.
    if process.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
        process.end(0);
        let id = process.id;
        let code = process.code.load(Ordering::Relaxed); // Relaxed: ordered by `threads`.
        drop(process);
        let mut all = PROCESSES.lock();
        if let Some((_, known)) = all.codes.iter_mut().find(|(other, _)| *other == id) {
            *known = Some(code);
        }
        drop(all);
        thread::wake(id);
    }
}

/// The exit code of a process, when it has ended. It is forgotten then.
pub(crate) fn wait(id: usize) -> Result<isize, Refused> {
    thread::wait_for(id, thread::NEVER, || {
        let mut all = PROCESSES.lock();
        let Some(place) = all.codes.iter().position(|(other, _)| *other == id) else {
            return Some(Err(Refused::Missing));
        };
        let code = all.codes[place].1?;
        all.codes.swap_remove(place);
        Some(Ok(code))
    })
    .unwrap_or(Err(Refused::Missing))
}
