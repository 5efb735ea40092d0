//! Descriptors as values, for scenarios that write them: the public face of [`super::format`],
//! [`super::flags`] and [`super::block`]. They are found in [`super::tables`].

use super::{
    block::contiguous as of_block,
    current,
    flags::{self as bits, Flags},
    format::{self, Access, Decoded, Frame},
};

/// A descriptor that maps a page.
#[must_use]
pub fn page(frame: Frame, access: Access) -> u64 {
    current::with(|machine| format::leaf(machine.config.arch, 0, frame, access))
}

/// A descriptor of `level` that maps a block.
#[must_use]
pub fn block(level: u32, frame: Frame, access: Access) -> u64 {
    current::with(|machine| format::leaf(machine.config.arch, level, frame, access))
}

/// A leaf of the last level with just the given accessed and dirty bits, as hardware means them:
/// an Arm leaf that permits stores has DBM set, and AP\[2\] is its dirty bit.
#[must_use]
pub fn with_flags(leaf: u64, flags: Flags) -> u64 {
    current::with(|machine| bits::with(machine.config.arch, leaf, flags))
}

/// The accessed and dirty bits of a leaf of the last level.
#[must_use]
pub fn flags(leaf: u64) -> Flags {
    current::with(|machine| bits::read(machine.config.arch, leaf))
}

/// A leaf of the last level as one of a block, whose size is
/// [`Config::block_bits`](super::Config::block_bits): with Arm's contiguous bit, or as a NAPOT
/// descriptor, which is the same for each page of the block. x86 has no such leaves.
#[must_use]
pub fn contiguous(leaf: u64) -> u64 {
    current::with(|machine| of_block(&machine.config, leaf))
}

/// A descriptor that names a table.
#[must_use]
pub fn table(frame: Frame) -> u64 {
    current::with(|machine| format::table(machine.config.arch, frame))
}

/// The frame that a descriptor of the last level maps, if it maps one.
#[must_use]
pub fn frame(page: u64) -> Option<Frame> {
    let decoded = current::with(|machine| format::decode(machine.config.arch, 0, page));
    if let Decoded::Leaf { frame, .. } = decoded { Some(frame) } else { None }
}
