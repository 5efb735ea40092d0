//! What a CPU of a scenario can do.

/// One act of a CPU's script. Spaces are named by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Come up, later than the others. Only as the first act.
    Up,
    /// Switch to a space.
    Run(usize),
    /// Run kernel code only, and leave the root register as it is.
    Lazy,
    /// Run no space.
    Park,
    /// Call firmware, which has a root of its own.
    Firmware,
    /// As [`Self::Firmware`], with interrupts on meanwhile.
    LongFirmware,
    /// Go down, lose interrupts that are under way, and come up again.
    Restart,
    /// Go down for good: the last act.
    Down,
    /// Stop in the middle of whatever it runs, without a word to the library, and tell the others: the last
    /// act but [`Self::Rise`].
    Halt,
    /// Wait for that, and tell the library that CPU 1 has stopped.
    Bury,
    /// Wait for that, and come up anew.
    Rise,
    /// Release the tag of a space that no other CPU uses any more.
    Release(usize),
    /// The same when it is certain that no CPU runs the space: it must not be refused.
    MustRelease(usize),
    /// As [`Self::Release`], and free the top table.
    End(usize),
    /// Pin the tag of a space.
    Pin(usize),
    /// Unpin it.
    Unpin(usize),
    /// Tell the other CPUs that this one has come so far.
    Tell,
    /// Wait until another CPU has told.
    Await,
    /// In user mode, read the page of the space that this CPU runs.
    Read,
    /// In user mode, write to it.
    Write,
    /// As [`Self::Write`], and once more after a fault that was spurious: then it must not fault.
    Retry(usize),
    /// Unmap the page of a space, make everybody let go of it, and free the frame.
    Unmap(usize),
    /// As [`Self::Unmap`], with the space's other page.
    UnmapOther(usize),
    /// As [`Self::Unmap`], and write out what user code has stored.
    SwapOut(usize),
    /// As [`Self::Unmap`], but other CPUs answer before they invalidate.
    UnmapEarly(usize),
    /// Unlink the last-level table of a space, make everybody let go of it, and free it.
    FreeTable(usize),
    /// Clear the top table of a space, make everybody let go of everything, and free it.
    FreeAll(usize),
    /// Make everybody let go of everything of a space, walks included, and free nothing.
    FlushAll(usize),
    /// Unmap the large page of a space, make everybody let go of it, and free its frames.
    UnmapLarge(usize),
    /// Find the page of a space unmapped, and rely on that. Nothing if it is still mapped.
    FindGone(usize),
    /// Find that no other CPU would be asked, whatever went from a space.
    Forgotten(usize),
    /// Make the page of a space read-only.
    Protect(usize),
    /// Make whatever both pages map read-only, and make everybody let go of it.
    ProtectBoth(usize),
    /// Make it writable again, and tell nobody.
    Allow(usize),
    /// Map a page where a space had none, and tell nobody.
    Fill(usize),
    /// In user mode, read that page, and again after a fault until it is there.
    Touch(usize),
    /// Unmap the page and give up before it is flushed.
    Abandon(usize),
    /// As [`Self::Abandon`], with the space's other page.
    AbandonOther(usize),
    /// Unmap whatever both pages map, and rely on what is absent.
    Zap(usize),
    /// As [`Self::Zap`], in a batch of that alone.
    ZapInBatch(usize),
    /// Find that an NMI may look at user memory of the space that this CPU runs.
    Visible(usize),
    /// Move the page to another address, under a lock.
    Move(usize),
    /// Unmap and free the page at that address, under the same lock, if it is there.
    UnmapMoved(usize),
    /// Unmap the pages of two spaces in one batch.
    Batch(usize, usize),
    /// Begin such a batch, turn to kernel code only, and tell.
    Defer(usize, usize),
    /// Wait for that, and complete it.
    Complete,
    /// Unmap the kernel's page and make everybody let go of it.
    UnmapKernel,
    /// The same, begun with interrupts on.
    UnmapKernelOpenly,
    /// As [`Self::UnmapKernel`], without a claim: some CPUs are down and may hold it.
    FlushKernel,
    /// The claim, when they are up again.
    ClaimKernel,
}

impl Act {
    /// The space it is about with the highest number.
    pub(super) fn space(self) -> Option<usize> {
        match self {
            Self::Run(space)
            | Self::Release(space)
            | Self::MustRelease(space)
            | Self::End(space)
            | Self::Pin(space)
            | Self::Unpin(space)
            | Self::Retry(space)
            | Self::Unmap(space)
            | Self::UnmapOther(space)
            | Self::SwapOut(space)
            | Self::UnmapEarly(space)
            | Self::FreeTable(space)
            | Self::FreeAll(space)
            | Self::FlushAll(space)
            | Self::UnmapLarge(space)
            | Self::FindGone(space)
            | Self::Forgotten(space)
            | Self::Protect(space)
            | Self::ProtectBoth(space)
            | Self::Allow(space)
            | Self::Fill(space)
            | Self::Touch(space)
            | Self::Abandon(space)
            | Self::AbandonOther(space)
            | Self::Zap(space)
            | Self::ZapInBatch(space)
            | Self::Visible(space)
            | Self::Move(space)
            | Self::UnmapMoved(space) => Some(space),
            Self::Batch(one, other) | Self::Defer(one, other) => Some(one.max(other)),
            Self::Up
            | Self::Lazy
            | Self::Park
            | Self::Firmware
            | Self::LongFirmware
            | Self::Restart
            | Self::Down
            | Self::Halt
            | Self::Bury
            | Self::Rise
            | Self::Tell
            | Self::Await
            | Self::Read
            | Self::Write
            | Self::Complete
            | Self::UnmapKernel
            | Self::UnmapKernelOpenly
            | Self::FlushKernel
            | Self::ClaimKernel => None,
        }
    }

    /// Whether it needs a page of the kernel's.
    pub(super) const fn needs_kernel(self) -> bool {
        matches!(
            self,
            Self::UnmapKernel | Self::UnmapKernelOpenly | Self::FlushKernel | Self::ClaimKernel
        )
    }

    /// Whether it runs with interrupts on.
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Await | Self::Read | Self::Write | Self::Retry(_) | Self::Touch(_))
    }

    /// Whether the CPU's program remembers something behind it.
    pub(super) const fn leaves_memories(self) -> bool {
        matches!(self, Self::Defer(..))
    }
}
