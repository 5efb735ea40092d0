//! The sizes of the header's structs, and the comparison of a caller's header with this library.

use crate::{cpus::MAX_CPUS, error::Refused};

/// `LOOKASIDE_VERSION`.
pub const VERSION: u32 = 2;

/// `LOOKASIDE_SPACE_WORDS`, for so many CPUs.
#[must_use]
pub const fn space_words(cpus: usize) -> usize {
    14 + cpus.div_ceil(32)
}

/// `LOOKASIDE_WAIT_WORDS`.
#[must_use]
pub const fn wait_words() -> usize {
    60
}

/// `LOOKASIDE_BATCH_WORDS`, for so many CPUs.
#[must_use]
pub const fn batch_words(cpus: usize) -> usize {
    6 + cpus.div_ceil(64)
}

/// `struct lookaside_layout`: what a caller was compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Layout {
    /// [`VERSION`].
    pub version: u32,
    /// `LOOKASIDE_ARCH`.
    pub arch: u32,
    /// `LOOKASIDE_MAX_CPUS`.
    pub max_cpus: u32,
    /// The size of `struct lookaside_boot`.
    pub boot_bytes: u32,
    /// The size of `struct lookaside_space`.
    pub space_bytes: u32,
    /// The size of `struct lookaside_wait`.
    pub wait_bytes: u32,
    /// The size of `struct lookaside_batch`.
    pub batch_bytes: u32,
    /// The size of `struct lookaside_features`.
    pub features_bytes: u32,
}

impl Layout {
    /// That of this library, whose other structs have these sizes.
    #[must_use]
    pub const fn of_library(arch: u32, boot_bytes: usize, features_bytes: usize) -> Self {
        Self {
            version: VERSION,
            arch,
            max_cpus: MAX_CPUS as u32,
            boot_bytes: boot_bytes as u32,
            space_bytes: 8 * space_words(MAX_CPUS) as u32,
            wait_bytes: 8 * wait_words() as u32,
            batch_bytes: 8 * batch_words(MAX_CPUS) as u32,
            features_bytes: features_bytes as u32,
        }
    }

    /// Checks that a caller was compiled with this layout.
    ///
    /// # Errors
    ///
    /// [`Refused::Layout`] if not.
    pub fn check(&self, caller: &Self) -> Result<(), Refused> {
        if self == caller { Ok(()) } else { Err(Refused::Layout) }
    }
}
