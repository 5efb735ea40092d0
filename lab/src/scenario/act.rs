//! What a CPU of a scenario can do.

/// One act of a CPU's script. Spaces are named by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
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
    /// Tell the other CPUs that this one has come so far.
    Tell,
    /// Wait until another CPU has told.
    Await,
    /// Unmap the page of a space, make everybody let go of it, and free the frame.
    Unmap(usize),
    /// As [`Self::Unmap`], with the space's other page.
    UnmapOther(usize),
    /// Unlink the last-level table of a space, make everybody let go of it, and free it.
    FreeTable(usize),
}

impl Act {
    /// The space it is about.
    pub(super) const fn space(self) -> Option<usize> {
        match self {
            Self::Run(space)
            | Self::Release(space)
            | Self::Pin(space)
            | Self::Unpin(space)
            | Self::Unmap(space)
            | Self::UnmapOther(space)
            | Self::FreeTable(space) => Some(space),
            Self::Lazy | Self::Park | Self::Firmware | Self::Restart | Self::Tell | Self::Await => {
                None
            }
        }
    }
}
