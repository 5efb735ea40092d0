//! Where the code of a process comes from, by `/proc/PID/maps`.

use std::fs::{self, File};

use crate::callers::{ANONYMOUS, Callers, Mapping, Maps, Place};

/// A line of `/proc/PID/maps`.
#[derive(Debug, PartialEq, Eq)]
struct Line<'l> {
    start: u64,
    end: u64,
    offset: u64,
    /// Device and number.
    identity: (&'l str, &'l str),
    path: &'l str,
}

/// The code that a process has mapped now; none if it has ended.
pub(super) fn of(process: u32, callers: &mut Callers) -> Option<Maps> {
    let text = fs::read(format!("/proc/{process}/maps")).ok()?;
    let maps = parse(&String::from_utf8_lossy(&text), callers, |line| {
        // This is the mapped file itself, whatever has become of its path, and in whichever mount namespace it is.
        let Line { start, end, .. } = line;
        File::open(format!("/proc/{process}/map_files/{start:x}-{end:x}")).ok()
    });
    // A process that is about to end has no memory any more.
    (!maps.is_empty()).then_some(maps)
}

fn parse(text: &str, callers: &mut Callers, open: impl Fn(&Line<'_>) -> Option<File>) -> Maps {
    let mut maps = Maps::default();
    for line in text.lines().filter_map(Line::parse) {
        let Line { start, end, offset, identity: (device, inode), path } = line;
        let key = format!("{device} {inode} {path}");
        let file = callers.file(key.as_bytes(), || {
            let name = path.strip_suffix(" (deleted)").unwrap_or(path);
            let name = if name.is_empty() { ANONYMOUS } else { name };
            (name.to_owned(), (inode != "0").then(|| open(&line)).flatten(), None)
        });
        maps.insert(Mapping { start, end, place: Place { file, offset } });
    }
    maps
}

impl<'l> Line<'l> {
    /// Reads `7f0000001000-7f0000002000 r-xp 00001000 fe:00 1234   /usr/bin/sort`; none if it is not executable.
    fn parse(line: &'l str) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after;
            word
        };
        let (start, end) = word().split_once('-')?;
        let executable = word().as_bytes().get(2) == Some(&b'x');
        let (offset, identity) = (word(), (word(), word()));
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        executable.then(|| Self { start, end, offset, identity, path: rest.trim_start() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
400000-401000 r--p 00000000 fe:00 7 /bin/a b
401000-403000 r-xp 00001000 fe:00 7                              /bin/a b
7000-8000 rwxp 00000000 00:00 0 \n\
9000-a000 r-xp 00002000 fe:00 9   /lib/x.so (deleted)
b000-c000 r-xp 00000000 00:00 0   [vdso]
nonsense
ffff r-xp 0 0 0
";

    #[test]
    fn executable_mappings_are_found_by_address() {
        let mut callers = Callers::default();
        let maps = parse(TEXT, &mut callers, |_| None);
        assert_eq!(maps.place(0x40_0010), None, "it is not executable");
        assert_eq!(maps.place(0x40_1010).map(|place| place.offset), Some(0x1010));
        assert_eq!(maps.place(0x40_3000), None);
        let mut name = |address| {
            let place = maps.place(address).expect("a place");
            callers.caller(&[place]).map(str::to_owned)
        };
        assert_eq!(name(0x40_1010).as_deref(), Some("a b+0x1010"));
        assert_eq!(name(0x7010).as_deref(), Some(ANONYMOUS));
        assert_eq!(name(0x9010).as_deref(), Some("x.so+0x2010"));
        assert_eq!(name(0xb010), None, "it only passes calls on");
    }

    #[test]
    fn a_file_is_known_by_itself_and_not_by_its_path_alone() {
        let mut callers = Callers::default();
        let _ = parse(TEXT, &mut callers, |_| None);
        let again = parse(TEXT, &mut callers, |_| None);
        let thrice = parse(TEXT, &mut callers, |_| None);
        assert_eq!(again.place(0x40_1000), thrice.place(0x40_1000));
        let replaced = parse(&TEXT.replace("fe:00 7", "fe:00 8"), &mut callers, |_| None);
        assert_ne!(again.place(0x40_1000), replaced.place(0x40_1000));
        assert!(of(u32::MAX, &mut callers).is_none());
    }

    #[test]
    fn we_have_code_ourselves() {
        let mut callers = Callers::default();
        let maps = of(std::process::id(), &mut callers).expect("we live");
        assert!(maps.place(we_have_code_ourselves as *const () as u64).is_some());
    }
}
