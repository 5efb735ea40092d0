//! What a CPU of a scenario can do.

use core::{fmt, str::FromStr};

macro_rules! acts {
    ($(#[$about:meta])* $visibility:vis enum $Act:ident {
        $($(#[$doc:meta])* $name:ident $(($($part:ty),*))?,)*
    }) => {
        $(#[$about])*
        $visibility enum $Act {
            $($(#[$doc])* $name $(($($part),*))?,)*
        }

        impl $Act {
            /// The act of this name, with these spaces.
            fn named(name: &str, spaces: &mut dyn Iterator<Item = usize>) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::$name $(($({
                        let part: $part = spaces.next()?;
                        part
                    }),*))?),)*
                    _ => None,
                }
            }
        }
    };
}

acts! {
/// One act of a CPU's script. Spaces are named by their number.
///
/// Each is what a kernel may do at any time: an act that changes an entry takes what it finds there, and where
/// it finds nothing it relies on that. What each act asks of the script besides is said with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
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
    /// Halt at any point, without a call to the library, and signal the others: the last act but
    /// [`Self::Rise`].
    Halt,
    /// Stop CPU 1 wherever it is, in the middle of a call of the library too, and report that. CPU 1 holds no lock at any
    /// point of its script.
    Stop,
    /// Wait for [`Self::Halt`], and report to the library that CPU 1 has halted.
    Bury,
    /// Wait for [`Self::Bury`], and come online again.
    Rise,
    /// Release a space whose user code no CPU runs any more.
    Release(usize),
    /// As [`Self::Release`], and free the top table.
    End(usize),
    /// Pin the tag of a space.
    Pin(usize),
    /// Unpin it.
    Unpin(usize),
    /// Signal the other CPUs that this one has come so far.
    Tell,
    /// Wait for [`Self::Tell`] on another CPU.
    Await,
    /// In user mode, read the page of the space that this CPU runs, and find it, a former one of that space, or a fault.
    Read,
    /// In user mode, write to it.
    Write,
    /// As [`Self::Write`], and once more after a fault that was spurious: then it must not fault.
    Retry(usize),
    /// Unmap the page of a space, flush it on all CPUs, and free the frame.
    Unmap(usize),
    /// As [`Self::Unmap`], with the space's other page.
    UnmapOther(usize),
    /// As [`Self::Unmap`], with interrupts on until the flush.
    UnmapOpenly(usize),
    /// As [`Self::Unmap`], and write out what user code has stored.
    SwapOut(usize),
    /// As [`Self::Unmap`], with early acknowledgement: other CPUs acknowledge before they invalidate.
    UnmapEarly(usize),
    /// Unlink the last-level table of a space, flush it on all CPUs, and free it.
    FreeTable(usize),
    /// The same where an early acknowledgement would be enough if no table was unlinked.
    FreeTableEarly(usize),
    /// Clear the top table of a space, flush the whole space on all CPUs, and free it.
    FreeAll(usize),
    /// Flush a space on all CPUs, partial walks included, and free nothing.
    FlushAll(usize),
    /// Unmap the large page of a space, flush it on all CPUs, and free its frames.
    UnmapLarge(usize),
    /// Find the page of a space unmapped, and rely on that. Nothing if it is still mapped.
    FindGone(usize),
    /// Check that no other CPU would be interrupted for any flush of a space.
    Forgotten(usize),
    /// Make the page of a space read-only.
    Protect(usize),
    /// Make whatever both pages map read-only, and flush it on all CPUs.
    ProtectBoth(usize),
    /// Make it writable again, without a flush.
    Allow(usize),
    /// Map a page where a space had none, without a flush.
    Fill(usize),
    /// Unmap the page that [`Self::Fill`] maps.
    Unfill(usize),
    /// Map another page where the space's first was unmapped, without a flush.
    Remap(usize),
    /// In user mode, read that page, and again after a fault until it is there.
    Touch(usize),
    /// As [`Self::Touch`], and go on if it is not there.
    Look(usize),
    /// Unmap the page and abandon the gather before it is flushed.
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
    /// Move the last-level table to other addresses, under that lock.
    MoveTable(usize),
    /// Unmap and free a page in that table at its address there, under the same lock, if the table is there.
    UnmapInMovedTable(usize),
    /// Unmap the pages of two spaces in one batch.
    Batch(usize, usize),
    /// Begin such a batch, run kernel code only from then on, and signal.
    Defer(usize, usize),
    /// Unmap the page of a space and begin the flush, as [`Self::BeginUnmap`]; run kernel code only from then on, and
    /// signal.
    HandOver(usize),
    /// The same before the flush is begun: the CPU that goes on has only the gather.
    Carry(usize),
    /// Wait for what another CPU hands over ([`Self::Defer`], [`Self::HandOver`], [`Self::Carry`]), and complete it.
    Complete,
    /// Unmap the page of a space, and begin its flush on all CPUs.
    BeginUnmap(usize),
    /// Unlink the last-level table of a space, and begin its flush on all CPUs.
    BeginFreeTable(usize),
    /// As [`Self::BeginUnmap`], with the kernel's page.
    BeginUnmapKernel,
    /// As [`Self::BeginUnmapKernel`], with all pages of the kernel's.
    BeginUnmapKernelMany,
    /// Wait, with interrupts on, for the first flush that this CPU has begun and not waited for, and free its frame.
    Finish,
    /// Drop that flush instead: its frame is lost. If it is one of the kernel's addresses, flush none of these.
    DropBegun,
    /// Unmap the kernel's page and flush it on all CPUs.
    UnmapKernel,
    /// The same, begun with interrupts on.
    UnmapKernelOpenly,
    /// As [`Self::UnmapKernel`], with another page of the kernel's, which is declared to have any size.
    UnmapKernelOther,
    /// The same with all pages of the kernel's.
    UnmapKernelMany,
    /// Unlink the kernel's table from every top table, flush it on all CPUs, and free it and its pages.
    FreeKernelTable,
    /// In the kernel, store to the kernel's page, or find that it is gone.
    WriteKernel,
    /// As [`Self::UnmapKernel`], without a claim: some CPUs are down and may hold it.
    FlushKernel,
    /// The claim, when they are up again.
    ClaimKernel,
}
}

impl Act {
    /// The space it is about with the highest number.
    pub(crate) fn space(self) -> Option<usize> {
        match self {
            Self::Run(space)
            | Self::Release(space)
            | Self::End(space)
            | Self::Pin(space)
            | Self::Unpin(space)
            | Self::Retry(space)
            | Self::Unmap(space)
            | Self::UnmapOther(space)
            | Self::UnmapOpenly(space)
            | Self::Carry(space)
            | Self::SwapOut(space)
            | Self::UnmapEarly(space)
            | Self::FreeTable(space)
            | Self::FreeTableEarly(space)
            | Self::FreeAll(space)
            | Self::FlushAll(space)
            | Self::UnmapLarge(space)
            | Self::FindGone(space)
            | Self::Forgotten(space)
            | Self::Protect(space)
            | Self::ProtectBoth(space)
            | Self::Allow(space)
            | Self::Fill(space)
            | Self::Unfill(space)
            | Self::Remap(space)
            | Self::Touch(space)
            | Self::Look(space)
            | Self::Abandon(space)
            | Self::AbandonOther(space)
            | Self::Zap(space)
            | Self::ZapInBatch(space)
            | Self::Visible(space)
            | Self::HandOver(space)
            | Self::BeginUnmap(space)
            | Self::BeginFreeTable(space)
            | Self::Move(space)
            | Self::UnmapMoved(space)
            | Self::MoveTable(space)
            | Self::UnmapInMovedTable(space) => Some(space),
            Self::Batch(one, other) | Self::Defer(one, other) => Some(one.max(other)),
            Self::Up
            | Self::Lazy
            | Self::Park
            | Self::Firmware
            | Self::LongFirmware
            | Self::Restart
            | Self::Down
            | Self::Halt
            | Self::Stop
            | Self::Bury
            | Self::Rise
            | Self::Tell
            | Self::Await
            | Self::Read
            | Self::Write
            | Self::Complete
            | Self::Finish
            | Self::DropBegun
            | Self::BeginUnmapKernel
            | Self::BeginUnmapKernelMany
            | Self::UnmapKernel
            | Self::UnmapKernelOpenly
            | Self::UnmapKernelOther
            | Self::UnmapKernelMany
            | Self::FreeKernelTable
            | Self::WriteKernel
            | Self::FlushKernel
            | Self::ClaimKernel => None,
        }
    }

    /// The act of this name with as many of the spaces as it takes.
    pub(crate) fn make(name: &str, spaces: &[usize]) -> Option<Self> {
        Self::named(name, &mut spaces.iter().copied())
    }

    /// The spaces it is about.
    pub(crate) fn spaces(self) -> impl Iterator<Item = usize> {
        let both = match self {
            Self::Batch(one, other) | Self::Defer(one, other) if one != other => {
                [Some(one), Some(other)]
            }
            act => [act.space(), None],
        };
        both.into_iter().flatten()
    }

    /// The pages of each of its spaces whose entries it may change, but for acts that take a whole table.
    pub(crate) const fn pages(self) -> &'static [usize] {
        match self {
            Self::Unmap(_)
            | Self::UnmapInMovedTable(_)
            | Self::UnmapOpenly(_)
            | Self::Carry(_)
            | Self::SwapOut(_)
            | Self::UnmapEarly(_)
            | Self::Protect(_)
            | Self::Allow(_)
            | Self::Abandon(_)
            | Self::Remap(_)
            | Self::HandOver(_)
            | Self::BeginUnmap(_)
            | Self::Batch(..)
            | Self::Defer(..) => &[0],
            Self::UnmapOther(_) | Self::AbandonOther(_) => &[1],
            Self::ProtectBoth(_) | Self::Zap(_) | Self::ZapInBatch(_) => &[0, 1],
            Self::Move(_) => &[0, 2],
            Self::UnmapMoved(_) => &[2],
            Self::Fill(_) | Self::Unfill(_) => &[3],
            _ => &[],
        }
    }

    /// The page of its space that it maps where there was none.
    pub(crate) const fn maps(self) -> Option<usize> {
        match self {
            Self::Remap(_) => Some(0),
            Self::Fill(_) => Some(3),
            _ => None,
        }
    }

    /// Whether it takes the last-level table of its space.
    pub(crate) const fn takes_table(self) -> bool {
        matches!(
            self,
            Self::FreeTable(_)
                | Self::FreeTableEarly(_)
                | Self::FreeAll(_)
                | Self::BeginFreeTable(_)
        )
    }

    /// Whether it waits for a signal of another CPU.
    pub(crate) const fn waits(self) -> bool {
        matches!(self, Self::Await | Self::Complete)
    }

    /// Whether it never waits for another CPU.
    pub(crate) const fn asks_nobody(self) -> bool {
        matches!(self, Self::Run(_) | Self::Lazy | Self::Park | Self::Firmware)
    }

    /// Whether it retires or releases a space, so that no other CPU may use it meanwhile.
    pub(crate) const fn releases(self) -> bool {
        matches!(self, Self::Release(_) | Self::End(_))
    }

    /// Whether it needs a page of the kernel's.
    pub(crate) const fn needs_kernel(self) -> bool {
        matches!(
            self,
            Self::UnmapKernel
                | Self::UnmapKernelOpenly
                | Self::UnmapKernelOther
                | Self::UnmapKernelMany
                | Self::FreeKernelTable
                | Self::WriteKernel
                | Self::BeginUnmapKernel
                | Self::BeginUnmapKernelMany
                | Self::FlushKernel
                | Self::ClaimKernel
        )
    }

    /// Whether it runs with interrupts on.
    pub(crate) const fn is_open(self) -> bool {
        matches!(
            self,
            Self::Await
                | Self::Read
                | Self::Write
                | Self::WriteKernel
                | Self::Retry(_)
                | Self::Touch(_)
                | Self::Look(_)
        )
    }

    /// Whether it begins a flush that [`Self::Finish`] waits for.
    pub(crate) const fn begins(self) -> bool {
        matches!(
            self,
            Self::BeginUnmap(_)
                | Self::BeginFreeTable(_)
                | Self::BeginUnmapKernel
                | Self::BeginUnmapKernelMany
        )
    }

    /// Whether it ends a flush that was begun.
    pub(crate) const fn ends(self) -> bool {
        matches!(self, Self::Finish | Self::DropBegun)
    }

    /// Whether it begins what [`Self::Complete`] of another CPU completes.
    pub(crate) const fn hands_over(self) -> bool {
        matches!(self, Self::Defer(..) | Self::HandOver(_) | Self::Carry(_))
    }
}

/// The letter of a space.
const fn letter(space: usize) -> char {
    (b'A' + space as u8) as char
}

impl fmt::Display for Act {
    /// As in a script, with spaces as letters: `Batch(A,B)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in format!("{self:?}").chars().filter(|c| *c != ' ') {
            match c.to_digit(10) {
                Some(space) => write!(f, "{}", letter(space as usize))?,
                None => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Act {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is no act");
        let (name, list) = match text.strip_suffix(')') {
            Some(open) => open.split_once('(').ok_or_else(unknown)?,
            None => (text, ""),
        };
        let mut spaces = Vec::new();
        for space in list.split(',').filter(|_| !list.is_empty()) {
            match space.as_bytes() {
                [letter @ b'A'..=b'F'] => spaces.push(usize::from(letter - b'A')),
                _ => return Err(format!("`{space}` in `{text}` is no space: they are A to F")),
            }
        }
        let count = spaces.len();
        let mut spaces = spaces.into_iter();
        let act = Self::named(name, &mut spaces).ok_or_else(|| match count {
            0 => format!("`{text}` is no act, or needs a space"),
            _ => unknown(),
        })?;
        if spaces.next().is_some() {
            return Err(format!("`{text}` has too many spaces"));
        }
        Ok(act)
    }
}
