//! What a CPU of a scenario can do.

/// One act of a CPU's script. Spaces are named by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Switch to a space.
    Run(usize),
    /// Run kernel code only, and leave the root register as it is.
    Lazy,
    /// Run no space.
    Park,
    /// Call firmware, which has a root of its own.
    Firmware,
    /// Go down and come up again.
    Restart,
    /// Release the tag of a space that no other CPU uses any more.
    Release(usize),
    /// Pin the tag of a space.
    Pin(usize),
    /// Unpin it.
    Unpin(usize),
    /// Unmap the page of a space, make everybody let go of it, and free the frame.
    Unmap(usize),
    /// Unlink the last-level table of a space, make everybody let go of it, and free it.
    FreeTable(usize),
}
