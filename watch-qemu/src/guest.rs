//! The guest's memory, which is a file that QEMU and this library have mapped.

use core::sync::atomic::{AtomicU64, Ordering};
use std::{fs::File, path::Path};

use lookaside_watch::Memory;
use memmap2::{MmapOptions, MmapRaw};

pub(crate) struct Guest {
    map: MmapRaw,
    base: u64,
}

impl Guest {
    pub(crate) fn open(file: &Path, base: u64) -> Result<Self, String> {
        let opened = File::options()
            .read(true)
            .open(file)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let map = MmapOptions::new()
            .map_raw_read_only(&opened)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Self { map, base })
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.map.len() as u64
    }
}

impl Memory for Guest {
    fn word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()? & !7;
        if offset + 8 > self.map.len() {
            return None;
        }
        let word = self.map.as_ptr().wrapping_add(offset).cast::<AtomicU64>();
        // SAFETY: the 8 bytes are inside the map, which lives as long as `self`, and aligned, as the map begins at a
        // page. The guest's CPUs write them meanwhile, so they are read as an atomic.
        // Relaxed: it is one word, as a page-table walker reads it.
        Some(unsafe { (*word).load(Ordering::Relaxed) }.to_le())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn words_are_read_inside_the_file_only() {
        let path = std::env::temp_dir().join(format!("lookaside-guest-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.write_all(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let guest = Guest::open(&path, 0x1000).unwrap();
        assert_eq!(guest.word(0x1000), Some(1));
        assert_eq!(guest.word(0x1008), Some(2));
        assert_eq!(guest.word(0x1010), None);
        assert_eq!(guest.word(0xff8), None);
        std::fs::remove_file(path).unwrap();
    }
}
