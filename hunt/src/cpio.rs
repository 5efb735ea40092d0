//! An archive that Linux unpacks as its first file system: the "newc" format of cpio, from the kernel's
//! documentation, `driver-api/early-userspace/buffer-format`.

/// An archive that is being written.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
}

/// Kinds and permissions of files, as in `stat`.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

impl Archive {
    pub(crate) fn folder(&mut self, name: &str) {
        self.entry(name, &[], FOLDER, (0, 0));
    }

    pub(crate) fn program(&mut self, name: &str, data: &[u8]) {
        self.entry(name, data, PROGRAM, (0, 0));
    }

    pub(crate) fn device(&mut self, name: &str, number: (u32, u32)) {
        self.entry(name, &[], DEVICE, number);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", &[], 0, (0, 0));
        self.bytes
    }

    fn entry(&mut self, name: &str, data: &[u8], mode: u32, device: (u32, u32)) {
        // Inode, mode, user, group, links, time, size, device (2), device of a node (2), length of the name, sum.
        let fields = [
            0,
            mode,
            0,
            0,
            1,
            0,
            data.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(data);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_data_are_aligned() {
        let mut archive = Archive::default();
        archive.program("init", b"hello");
        let bytes = archive.finish();
        assert!(bytes.starts_with(b"07070100000000000081ed"));
        // A header has 110 bytes, the name 5 with its end, then one more to the next multiple of 4.
        assert_eq!(&bytes[116..121], b"hello");
        assert_eq!(&bytes[124..130], b"070701");
    }
}
