//! How operations reach the machine: through a pointer that belongs to the thread.
//!
//! A CPU runs ahead for as long as no other CPU can do anything earlier; then it suspends itself until
//! it is the earliest again. So everything that one CPU can see of another happens in one order: by
//! time, then by CPU.

use core::{cell::Cell, ptr};

use super::{
    account::Cause,
    bill::AccountId,
    machine::Machine,
    price::{Price, Ps},
    queue::{LAST, NEVER, key},
    report::Failure,
};

thread_local! {
    static CURRENT: Cell<*mut Machine> = const { Cell::new(ptr::null_mut()) };
    static HANDLER: Cell<Option<Handler>> = const { Cell::new(None) };
}

/// What an interrupt calls: the world, and the function that knows its type.
#[derive(Clone, Copy)]
pub(crate) struct Handler {
    pub(crate) world: *const (),
    pub(crate) call: unsafe fn(*const ()),
}

/// Makes a machine the one that operations of this thread reach, until it is dropped.
pub(crate) struct Current(*mut Machine);

impl Current {
    /// `machine` must stay where it is for as long as the value lives.
    pub(crate) fn enter(machine: *mut Machine) -> Self {
        let current = Self(CURRENT.replace(machine));
        assert!(current.0.is_null(), "one timed machine at a time runs on a thread");
        current
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0);
        HANDLER.set(None);
    }
}

pub(crate) fn set_handler(handler: Handler) {
    HANDLER.set(Some(handler));
}

#[inline]
fn pointer() -> *mut Machine {
    let machine = CURRENT.get();
    assert!(!machine.is_null(), "no timed machine on this thread");
    machine
}

/// Calls `f` with the machine of this thread.
///
/// # Panics
///
/// If there is none.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Machine) -> R) -> R {
    // SAFETY: `Current` keeps the pointer valid. Programs and the loop that resumes them run on one
    // thread and hand it to each other; no reference lives across that, and `f` gets the machine's
    // own methods, which do not come back here.
    f(unsafe { &mut *pointer() })
}

/// Suspends the CPU that runs until the moment `until`, or an earlier one if others bring it
/// forward, and returns that time.
fn suspend(until: u64) {
    let yielder = with(|machine| {
        let cpu = machine.running;
        machine.queue.set(cpu, until);
        machine.cpus[cpu].yielder
    });
    // SAFETY: the yielder is that of the coroutine which executes this, so it is alive.
    unsafe { (*yielder).suspend(()) };
}

/// Stops the program for good; the run is over as soon as it does.
fn stop() -> ! {
    loop {
        suspend(NEVER);
    }
}

/// Ends the program of the CPU that runs: from now on it only answers interrupts.
pub(crate) fn end() -> ! {
    with(|machine| machine.cpu().interrupts = true);
    turn();
    with(|machine| {
        let cpu = machine.cpu();
        cpu.ended = Some(cpu.now);
    });
    loop {
        wait(Cause::Idle, None);
        turn();
    }
}

/// What the CPU that runs has to do before its next step.
enum Turn {
    Go,
    Later(u64),
    Interrupt,
    Stop,
}

/// Returns when it is the turn of the CPU that runs, after it has taken what interrupts there are.
#[inline]
pub(crate) fn turn() {
    step(|_| ());
}

/// Executes one operation of the CPU that runs, when it is its turn.
#[inline]
pub(crate) fn step<R>(f: impl FnOnce(&mut Machine) -> R) -> R {
    if !with(|machine| machine.may_go()) {
        wait_for_turn();
    }
    with(|machine| {
        machine.events += 1;
        f(machine)
    })
}

/// The same, but nothing where no program runs.
#[inline]
pub(crate) fn step_of_program(f: impl FnOnce(&mut Machine)) {
    let machine = CURRENT.get();
    // SAFETY: as in `with`.
    if !machine.is_null() && unsafe { (*machine).started } {
        step(f);
    }
}

/// Charges the CPU that runs for an access that no other CPU takes part in, if a program runs.
#[inline]
pub(crate) fn charge_program(price: Price) {
    let machine = CURRENT.get();
    // SAFETY: as in `with`.
    if !machine.is_null() && unsafe { (*machine).started } {
        with(|machine| {
            machine.events += 1;
            machine.charge_price(Cause::Words, price);
        });
    }
}

impl Machine {
    /// Whether nothing stands in the way of the next step of the CPU that runs.
    #[inline]
    fn may_go(&self) -> bool {
        let cpu = &self.cpus[self.running];
        key(cpu.now, self.running) < self.queue.min()
            && cpu.now <= self.horizon
            && cpu.pending.is_empty()
            && !self.is_robbed()
    }

    fn next_turn(&mut self) -> Turn {
        if !self.started {
            return Turn::Go;
        }
        if self.failure.is_some() {
            return Turn::Stop;
        }
        let cpu = self.running;
        let mine = key(self.cpus[cpu].now, cpu);
        if mine > self.queue.min() {
            return Turn::Later(mine);
        }
        self.pay_stolen();
        let now = self.cpus[cpu].now;
        if now > self.horizon {
            self.fail(Failure::OutOfTime { limit: self.limit });
            return Turn::Stop;
        }
        if self.cpus[cpu].is_interrupted() {
            return Turn::Interrupt;
        }
        if key(now, cpu) > self.queue.min() {
            return Turn::Later(key(now, cpu));
        }
        Turn::Go
    }

    /// Ends the run: no program goes on.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failure = Some(failure);
        self.horizon = 0;
    }
}

#[cold]
#[inline(never)]
fn wait_for_turn() {
    loop {
        match with(Machine::next_turn) {
            Turn::Go => return,
            Turn::Later(until) => suspend(until),
            Turn::Interrupt => take_interrupt(),
            Turn::Stop => stop(),
        }
    }
}

fn take_interrupt() {
    let (activity, initiator) = with(|machine| {
        machine.note_taken();
        let interrupt = machine.activity("interrupt");
        let cpu = machine.cpu();
        let now = cpu.now;
        // Those that are taken as one are put down to who sent the first.
        let sender = cpu.pending.front().map_or(AccountId::NOBODY, |first| first.initiator);
        cpu.pending.retain(|later| later.arrival > now);
        let initiator = core::mem::replace(&mut cpu.initiator, sender);
        cpu.interrupts = false;
        cpu.loads.end();
        cpu.counters.taken += 1;
        let activity = core::mem::replace(&mut cpu.activity, interrupt);
        machine.charge_price(Cause::Interrupts, Price::InterruptEntry);
        (activity, initiator)
    });
    let handler = HANDLER.get().expect("a machine that runs has a handler");
    // SAFETY: the code that set the handler made the two fit, and keeps the world alive while it runs.
    unsafe { (handler.call)(handler.world) };
    with(|machine| {
        // Returning from an interrupt waits for what the handler has stored.
        machine.drain();
        machine.charge_price(Cause::Interrupts, Price::InterruptExit);
        machine.note_returned();
        let cpu = machine.cpu();
        cpu.interrupts = true;
        (cpu.activity, cpu.initiator) = (activity, initiator);
        cpu.forget_watched();
    });
}

/// Waits until `until`, or until another CPU ends the wait, and returns how long it was. Interrupts, if they
/// are on, end it.
pub(crate) fn wait(cause: Cause, until: Option<Ps>) -> Ps {
    let (from, until) = with(|machine| {
        let cpu = machine.running;
        if let (Cause::Work | Cause::Siblings, Some(until)) = (cause, until) {
            machine.begin_work(until);
        }
        let c = &mut machine.cpus[cpu];
        c.waiting = true;
        let arrival = c.pending.front().filter(|_| c.interrupts).map(|first| first.arrival);
        let until = until.into_iter().chain(arrival).min();
        (c.now, until.map_or(NEVER, |until| key(until.max(c.now).min(LAST + 1), cpu)))
    });
    suspend(until);
    with(|machine| {
        if machine.failure.is_some() {
            return from; // `turn` stops the program.
        }
        let resumed = machine.resumed_at;
        machine.cpu().waiting = false;
        if matches!(cause, Cause::Work | Cause::Siblings) {
            machine.spend(cause, resumed.saturating_sub(from));
            machine.end_work();
        } else {
            machine.rest(cause, resumed.saturating_sub(from));
        }
        machine.cpu().now
    }) - from
}
