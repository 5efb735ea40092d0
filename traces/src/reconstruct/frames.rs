//! Which pages parents and children share after a fork, and how much is remembered of that.

/// No frame: the page is nobody else's.
pub(super) const NO_FRAME: u32 = u32::MAX;

/// The frames that were shared by forks, by how many spaces still have them.
#[derive(Debug, Default)]
pub(super) struct Frames {
    users: Vec<u32>,
    free: Vec<u32>,
    /// How many files were mapped.
    mappings: u32,
}

impl Frames {
    /// One more space has that frame; if it is none yet, there are two from here on.
    pub(super) fn share(&mut self, frame: u32) -> u32 {
        if let Some(users) = self.users.get_mut(frame as usize) {
            *users += 1;
            return frame;
        }
        if let Some(frame) = self.free.pop() {
            self.users[frame as usize] = 2;
            return frame;
        }
        self.users.push(2);
        (self.users.len() - 1) as u32
    }

    /// One more file is mapped: the number of that.
    pub(super) fn mapping(&mut self) -> u32 {
        self.mappings = self.mappings.wrapping_add(1);
        self.mappings
    }

    /// Whether just one space has it.
    pub(super) fn alone(&self, frame: u32) -> bool {
        self.users.get(frame as usize) == Some(&1)
    }

    /// One space less has it.
    pub(super) fn release(&mut self, frame: u32) {
        if let Some(users) = self.users.get_mut(frame as usize) {
            *users -= 1;
            if *users == 0 {
                self.free.push(frame);
            }
        }
    }
}

/// How many pieces may still be remembered. A trace that asks for more than its events could have
/// touched gets less exact answers instead.
#[derive(Debug)]
pub(super) struct Budget(u64);

impl Budget {
    /// For a trace with that many events.
    pub(super) fn new(events: usize) -> Self {
        Self(events as u64 * 16 + (1 << 16))
    }

    /// Takes some, if there are as many.
    pub(super) fn take(&mut self, pieces: u64) -> bool {
        match self.0.checked_sub(pieces) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }
}
