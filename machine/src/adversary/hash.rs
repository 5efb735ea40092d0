//! Sixty-four bits of a state, kept up to date as the state changes.
//!
//! The hash of a set (of memory words that changed, of TLB entries, of ghost facts) is the
//! exclusive-or of the hashes of its members, so that adding and removing a member are the same
//! cheap operation. The hash of a sequence (of the results a program has seen) is folded from left
//! to right. Two different states collide with a probability of 2^-64; among ten million states a
//! collision exists with a probability of about 3 in a million.

use core::hash::{BuildHasherDefault, Hasher};

/// Mixes two words: the two halves of a 128-bit product, folded.
#[inline]
pub(crate) const fn mix(a: u64, b: u64) -> u64 {
    let product =
        ((a ^ 0x9e37_79b9_7f4a_7c15) as u128).wrapping_mul((b ^ 0xd6e8_feb8_6659_fd93) as u128);
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded ^ folded.rotate_left(23) ^ a.rotate_left(41)
}

/// Mixes three words.
#[inline]
pub(crate) const fn mix3(a: u64, b: u64, c: u64) -> u64 {
    mix(mix(a, b), c)
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0, u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// Builds [`Identity`].
pub(crate) type BuildIdentity = BuildHasherDefault<Identity>;
