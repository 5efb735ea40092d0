//! What a CPU of a kernel can do.

/// One act of a CPU's script. Spaces are named by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    /// Switch to a space, in the kernel.
    Run(usize),
    /// Run kernel code only, and leave the root register as it is.
    Lazy,
    /// Run no space.
    Park,
    /// Read the page under a foreign root, as in a call of firmware.
    Firmware,
    /// Tell the other CPUs that this one has come here.
    Signal,
    /// Wait until another CPU has signalled.
    Await,
    /// Release a space that no thread runs any more, and free its table.
    Release(usize),
    /// Leave for user mode, read the page, and come back.
    Visit,
    /// Leave for user mode, write to the page, and come back.
    Write,
    /// Read the page from the kernel, as a system call does.
    Copy,
    /// Unmap a page of a space, make everybody let go of it, and free the frame.
    Unmap(usize, usize),
    /// Make the first page of a space read-only.
    Protect(usize),
    /// Unlink the table of a space that maps both pages, and free it.
    FreeTable(usize),
    /// Unmap both pages of a space, make everybody let go of everything of it, and free the frames.
    Clear(usize),
    /// Unmap the first page of a space with early acknowledgement.
    Early(usize),
    /// Unmap both pages of a space in one batch, and free the frames.
    Batch(usize),
    /// Unmap the page that only the kernel has, flush it on all CPUs, and free the frame.
    UnmapKernel,
    /// Unmap the trap frame, flush it on all CPUs as an address of the kernel, and free it.
    UnmapTrap,
    /// The same, and the table that maps it.
    FreeTrapTable,
}

impl Act {
    /// The act of this name: about a space and one of its pages, where it is about any.
    pub(crate) fn named(name: &str, space: usize, page: usize) -> Option<Self> {
        Some(match name {
            "Run" => Self::Run(space),
            "Lazy" => Self::Lazy,
            "Park" => Self::Park,
            "Firmware" => Self::Firmware,
            "Signal" => Self::Signal,
            "Await" => Self::Await,
            "Release" => Self::Release(space),
            "Visit" => Self::Visit,
            "Write" => Self::Write,
            "Copy" => Self::Copy,
            "Unmap" => Self::Unmap(space, page),
            "Protect" => Self::Protect(space),
            "FreeTable" => Self::FreeTable(space),
            "Clear" => Self::Clear(space),
            "Early" => Self::Early(space),
            "Batch" => Self::Batch(space),
            "UnmapKernel" => Self::UnmapKernel,
            "UnmapTrap" => Self::UnmapTrap,
            "FreeTrapTable" => Self::FreeTrapTable,
            _ => return None,
        })
    }

    /// The space that it names.
    pub(crate) const fn space(self) -> Option<usize> {
        match self {
            Self::Run(space)
            | Self::Unmap(space, _)
            | Self::Protect(space)
            | Self::FreeTable(space)
            | Self::Clear(space)
            | Self::Early(space)
            | Self::Batch(space)
            | Self::Release(space) => Some(space),
            Self::Lazy
            | Self::Park
            | Self::Firmware
            | Self::Signal
            | Self::Await
            | Self::Visit
            | Self::Write
            | Self::UnmapKernel
            | Self::UnmapTrap
            | Self::FreeTrapTable
            | Self::Copy => None,
        }
    }
}
