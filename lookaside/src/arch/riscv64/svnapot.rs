//! Svnapot: sixteen entries that hardware may treat as one 64 KiB page.
//!
//! ```text
//!  63 62  61 60      54 53                            14 13   10 9   8 7 6 5 4 3 2 1 0
//! +--+------+----------+--------------------------------+-------+-----+-+-+-+-+-+-+-+-+
//! | N| PBMT | reserved |        PPN bits 43 to 4        |  1000 | RSW |D|A|G|U|X|W|R|V|
//! +--+------+----------+--------------------------------+-------+-----+-+-+-+-+-+-+-+-+
//! ```
//!
//! Privileged manual, "Svnapot Extension for NAPOT Translation Contiguity". The low bits of the PPN
//! give the size of the block, and one size is defined; all other patterns are reserved, and a walk
//! that meets one faults (`norm:Svnapot_reserved_encoding_fault`). All sixteen entries of a block
//! hold the same value, because each page takes the low bits of its frame from its own address
//! (`norm:Svnapot_valid_encoding_ppn_subst`). Only bottom-level entries may have N set.
//!
//! What that means for invalidation: a walk through *any* of the sixteen may cache entries for
//! *any or all* of them (`norm:Svnapot_cache_entries`), so a change of a block is a change of
//! sixteen pages, and all sixteen addresses are fenced. See [`super::fence::Changed::NapotLeaves`].

/// The binary logarithm of the only block size there is, in bytes.
pub const BLOCK_SHIFT: u32 = 16;

/// How many entries a block has.
pub const ENTRIES: u64 = 1 << (BLOCK_SHIFT - 12);

const N: u64 = 1 << 63;
const V: u64 = 1 << 0;
const R: u64 = 1 << 1;
const X: u64 = 1 << 3;
const PPN_SHIFT: u32 = 10;
const SIZE_MASK: u64 = (ENTRIES - 1) << PPN_SHIFT;
const SIZE_64K: u64 = 0b1000 << PPN_SHIFT;

const _: () = assert!(SIZE_64K & SIZE_MASK == SIZE_64K && ENTRIES == 16);

/// What a bottom-level entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// V is clear: all other bits are software's.
    Invalid,
    /// A page of 4 KiB.
    Page,
    /// One of sixteen entries that map 64 KiB.
    Block,
    /// A pattern that faults: N with a size that is not defined, or with no leaf permission.
    Reserved,
}

/// Reads a bottom-level entry. Bits that have nothing to do with Svnapot are not judged.
#[must_use]
pub const fn decode(entry: u64) -> Entry {
    if entry & V == 0 {
        Entry::Invalid
    } else if entry & N == 0 {
        Entry::Page
    } else if entry & SIZE_MASK == SIZE_64K && entry & (R | X) != 0 {
        Entry::Block
    } else {
        Entry::Reserved
    }
}

/// The entry to store in all sixteen slots of a block whose first page `first` maps.
///
/// `None` unless `first` is a valid leaf entry with N clear whose frame is 64 KiB aligned.
#[must_use]
pub const fn block_entry(first: u64) -> Option<u64> {
    let is_leaf = first & V != 0 && first & (R | X) != 0;
    if is_leaf && first & (N | SIZE_MASK) == 0 { Some(first | N | SIZE_64K) } else { None }
}

/// The plain entry for page `index` of a block: the same frame, permissions and accessed and dirty
/// bits, without N.
///
/// `None` unless `entry` is a valid entry of a 64 KiB block and `index` is below [`ENTRIES`].
#[must_use]
pub const fn page_entry(entry: u64, index: u64) -> Option<u64> {
    if index >= ENTRIES || !matches!(decode(entry), Entry::Block) {
        return None;
    }
    Some(entry & !(N | SIZE_MASK) | index << PPN_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bottom level of the walk, word by word as the manual states it: the page number of the
    /// frame, or a fault.
    fn walk(pte: u64, vpn: u64) -> Result<u64, ()> {
        let bit = |n: u32| pte >> n & 1 == 1;
        let mut ppn = pte >> 10 & 0xfff_ffff_ffff;
        if !bit(0) || (!bit(1) && !bit(3)) {
            return Err(());
        }
        if bit(63) {
            let size = (0..4).map(|n| if ppn >> n & 1 == 1 { '1' } else { '0' });
            // Least significant bit first: the table says `1000`.
            if !size.eq("0001".chars()) {
                return Err(());
            }
            ppn = ppn - 8 + vpn % 16;
        }
        Ok(ppn)
    }

    #[test]
    fn all_sixteen_pages_of_a_block_reach_their_own_frame() {
        for frame in [0, 0x10, 0x8_0200, 0xfff_ffff_fff0] {
            let first = frame << 10 | 0xcf;
            let entry = block_entry(first).unwrap();
            assert_eq!(decode(entry), Entry::Block);
            for index in 0..16 {
                let vpn = 0x1230 + index;
                assert_eq!(walk(entry, vpn), Ok(frame + index));
                let page = page_entry(entry, index).unwrap();
                assert_eq!(decode(page), Entry::Page);
                assert_eq!(walk(page, vpn), Ok(frame + index));
                assert_eq!(page & 0x3ff, 0xcf);
            }
            assert_eq!(page_entry(entry, 0), Some(first));
        }
    }

    #[test]
    fn of_all_size_patterns_one_is_accepted() {
        for size in 0..16_u64 {
            let entry = 1 << 63 | 0x8_0200 << 10 | size << 10 | 0xcf;
            let accepted = walk(entry, 0).is_ok();
            assert_eq!(accepted, size == 8);
            assert_eq!(decode(entry), if accepted { Entry::Block } else { Entry::Reserved });
            assert_eq!(page_entry(entry, 0).is_some(), accepted);
        }
    }

    #[test]
    fn permissions_decide_what_is_a_leaf() {
        for flags in 0..=0xff_u64 {
            let first = 0x8_0200 << 10 | flags;
            let leaf = walk(first, 0).is_ok();
            assert_eq!(block_entry(first).is_some(), leaf, "{flags:#x}");
            let napot = first | 1 << 63 | 8 << 10;
            let expected = match (flags & 1, leaf) {
                (0, _) => Entry::Invalid,
                (_, true) => Entry::Block,
                (_, false) => Entry::Reserved,
            };
            assert_eq!(decode(napot), expected, "{flags:#x}");
        }
    }

    #[test]
    fn misaligned_frames_folded_entries_and_far_pages_are_refused() {
        for low in 1..16 {
            assert_eq!(block_entry((0x10 + low) << 10 | 0xcf), None);
        }
        let entry = block_entry(0x10 << 10 | 0xcf).unwrap();
        assert_eq!(block_entry(entry), None);
        assert_eq!(page_entry(entry, 16), None);
        assert_eq!(page_entry(entry, u64::MAX), None);
        assert_eq!(page_entry(0x10 << 10 | 0xcf, 0), None);
    }
}
