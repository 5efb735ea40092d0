//! What belongs to one CPU, and is touched by its thread alone.

use core::cell::UnsafeCell;

pub(super) struct State {
    pub(super) lane: lookaside_watch::Lane,
    pub(super) user: bool,
    /// Something has to be done before the next access is looked at.
    pub(super) attention: bool,
    /// Addresses are physical.
    pub(super) physical: bool,
    /// A root register was written.
    pub(super) roots: bool,
    /// A block becomes zero: the instruction, and an address in the block.
    pub(super) zeroes: Option<(u64, u64)>,
    /// Arm: the task that the kernel has last put into `SP_EL0`.
    pub(super) task: Option<u64>,
    /// x86-64: the physical address at which the kernel keeps the task, and the base of `GS` by which it was found.
    pub(super) task_at: Option<u64>,
    pub(super) task_base: u64,
    /// Events since the counts were last written down.
    pub(super) events: u32,
}

impl Default for State {
    fn default() -> Self {
        Self {
            lane: lookaside_watch::Lane::default(),
            user: false,
            // Its root registers have not been read yet.
            attention: true,
            roots: true,
            physical: false,
            zeroes: None,
            task: None,
            task_at: None,
            task_base: 0,
            events: 0,
        }
    }
}

/// A place for a CPU, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Lane(UnsafeCell<State>);

impl Lane {
    /// The state.
    ///
    /// # Safety
    ///
    /// Only the thread of the CPU calls this, and does not keep what it got from one callback to the next.
    #[expect(
        clippy::mut_from_ref,
        reason = "the place is the thread's own, as the caller promises"
    )]
    pub(super) unsafe fn state(&self) -> &mut State {
        // SAFETY: no other thread has it, as the caller promises.
        unsafe { &mut *self.0.get() }
    }
}
