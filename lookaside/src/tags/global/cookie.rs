//! An epoch and a tag in one word.

use crate::{
    arch::Tag,
    platform::Platform,
    space::AddressSpace,
    word::{Ordering, Word},
};

const TAG_BITS: u32 = 16;
const ADOPTED_BITS: u32 = 1;
const EPOCH_BITS: u32 = 47;
const _: () = assert!(EPOCH_BITS + ADOPTED_BITS + TAG_BITS == u64::BITS);

const ADOPTED: u64 = 1 << TAG_BITS;

/// A tag, and the epoch in which it was given.
///
/// ```text
///  63                                              17  16  15            0
/// +--------------------------------------------------+----+---------------+
/// |                      epoch                       | A  |      tag      |
/// +--------------------------------------------------+----+---------------+
/// ```
///
/// As the word of a space: in this epoch the tag belongs to this space alone. That stays true for ever,
/// because epochs never repeat: the epoch does not wrap, and in the last one the allocator gives no tags
/// (see [`crate::GlobalAsids`]). All zeros, epoch 0, is a space that never had a tag.
///
/// As the `active` word of a CPU with the A bit: the CPU has adopted this epoch, and its root register
/// names, or is about to name, the space with this cookie; tag 0 is no space. Without the A bit: this epoch
/// has begun, and a flush is pending on the CPU. Its register still names what it named before, and every
/// other entry that it holds may be stale. A is a flag and not a reserved tag, because all 2^16 tags are
/// usable numbers.
#[doc(alias = "pm_cookie")]
#[doc(alias = "context.id")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cookie(pub(crate) u64);

impl Cookie {
    /// The cookie of a space that never had a tag.
    pub const NONE: Self = Self(0);

    /// The last epoch that the word has bits for.
    pub const LAST_EPOCH: u64 = (1 << EPOCH_BITS) - 1;

    /// `tag`, given in `epoch`.
    pub(crate) const fn new(epoch: u64, tag: Tag) -> Self {
        debug_assert!(epoch <= Self::LAST_EPOCH);
        Self(epoch << (TAG_BITS + ADOPTED_BITS) | ADOPTED | tag.0 as u64)
    }

    /// The `active` word of a CPU that has not adopted `epoch`: a flush is pending.
    pub(crate) const fn flush_pending(epoch: u64) -> Self {
        debug_assert!(epoch <= Self::LAST_EPOCH);
        Self(epoch << (TAG_BITS + ADOPTED_BITS))
    }

    /// The word itself.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The epoch; 0 if no tag was ever given.
    #[must_use]
    #[inline]
    pub const fn epoch(self) -> u64 {
        self.0 >> (TAG_BITS + ADOPTED_BITS)
    }

    /// The tag.
    #[must_use]
    #[inline]
    pub const fn tag(self) -> Tag {
        Tag((self.0 & ((1 << TAG_BITS) - 1)) as u16)
    }

    #[inline]
    pub(crate) const fn adopted(self) -> bool {
        self.0 & ADOPTED != 0
    }

    /// Whether a space's cookie is of the epoch that a CPU, with this `active` word, has adopted.
    ///
    /// A cookie has the A bit unless it is [`Self::NONE`], and no CPU is ever in epoch 0.
    #[inline]
    pub(crate) const fn is_of(self, active: Self) -> bool {
        (self.0 ^ active.0) >> TAG_BITS == 0
    }
}

impl<P: Platform> AddressSpace<P> {
    /// The tag that the space was last given by [`crate::GlobalAsids`], and in which epoch.
    #[must_use]
    pub fn cookie(&self) -> Cookie {
        Cookie(self.cookie.load(Ordering::Relaxed)) // Relaxed: a snapshot for people.
    }

    /// Whether it has a tag, of this epoch or an earlier one, until it is released.
    pub(crate) fn has_tag(&self) -> bool {
        self.cookie() != Cookie::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        for epoch in [1, 2, 0x1234_5678, Cookie::LAST_EPOCH] {
            for tag in [0, 1, 255, 256, u16::MAX] {
                let cookie = Cookie::new(epoch, Tag(tag));
                assert_eq!(
                    (cookie.epoch(), cookie.tag(), cookie.adopted()),
                    (epoch, Tag(tag), true)
                );
                assert!(!Cookie::flush_pending(epoch).adopted());
                assert_eq!(Cookie::flush_pending(epoch).epoch(), epoch);
            }
        }
    }

    #[test]
    fn a_cpu_outside_shares_no_epoch() {
        let cookie = Cookie::new(7, Tag(3));
        assert!(cookie.is_of(Cookie::new(7, Tag(9))));
        assert!(!cookie.is_of(Cookie::flush_pending(7)));
        assert!(!cookie.is_of(Cookie::new(8, Tag(3))));
        assert!(!Cookie::NONE.is_of(Cookie::flush_pending(1)));
        assert!(!Cookie::NONE.is_of(Cookie::new(1, Tag::RESERVED)));
    }
}
