//! The system calls that change page tables.

/// Declares [`Call`] with the names of system calls.
macro_rules! calls {
    ($($name:ident = $text:literal,)+) => {
        /// A system call that changes page tables, or tells of such changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Call {
            $(#[doc = concat!("`", $text, "`.")] $name,)+
        }

        impl Call {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its name, as Linux has it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

calls! {
    Mmap = "mmap",
    Munmap = "munmap",
    Mprotect = "mprotect",
    PkeyMprotect = "pkey_mprotect",
    Madvise = "madvise",
    ProcessMadvise = "process_madvise",
    Mremap = "mremap",
    Brk = "brk",
    Membarrier = "membarrier",
    ExitGroup = "exit_group",
    Msync = "msync",
    Fsync = "fsync",
    Fdatasync = "fdatasync",
    SyncFileRange = "sync_file_range",
    Mlock = "mlock",
    Mlock2 = "mlock2",
    Mlockall = "mlockall",
    Munlockall = "munlockall",
    Close = "close",
}

impl Call {
    /// The call of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|call| call.name() == name)
    }

    /// The calls that write pages of files back to the disk.
    pub const WRITE_BACK: [Self; 4] =
        [Self::Msync, Self::Fsync, Self::Fdatasync, Self::SyncFileRange];

    /// The calls that lock pages, or end that for mappings to come.
    pub const LOCKS: [Self; 4] = [Self::Mlock, Self::Mlock2, Self::Mlockall, Self::Munlockall];

    /// The names in tracefs of the events at its beginning and its end.
    #[cfg(any(feature = "files", test))]
    pub(crate) fn events(self) -> [String; 2] {
        ["enter", "exit"].map(|part| format!("syscalls/sys_{part}_{}", self.name()))
    }

    /// Whether it returns what nobody could know otherwise: an address.
    #[must_use]
    pub const fn gives_address(self) -> bool {
        matches!(self, Self::Mmap | Self::Mremap | Self::Brk)
    }
}
