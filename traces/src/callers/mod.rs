//! The function of a program that an event comes from, out of a call chain.
//!
//! Chains come as text, where another program has found the names, or as addresses, whose names are looked up in the files
//! that were mapped ([`Callers`]).
//!
//! A kernel that follows frame pointers misses a function. The wrapper of a system call in the C library has no frame, so the
//! pointer is that of the function which called it, and the first return address leads to *that function's* caller. Which
//! function this one had called stands in its code, before the return address.

mod elf;
mod mangled;
mod maps;

use std::{collections::HashMap, fs::File};

use elf::{Before, Elf};
pub(crate) use maps::{Mapping, Maps, Place};

/// How many functions of a chain are looked at.
pub(crate) const DEPTH: usize = 32;

/// What memory is called that is executed and of no file: code that a program has compiled for itself.
pub(crate) const ANONYMOUS: &str = "anonymous code";

/// One function of a call chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its name, where it is known.
    pub(crate) function: Option<String>,
    /// The file that it is from.
    pub(crate) module: String,
    /// The address in that file.
    pub(crate) offset: u64,
}

/// Beginnings of the names of libraries whose functions only pass calls on: who called them is of interest.
const PASSING: [&str; 6] = ["libc.so", "libc-", "ld-linux", "ld-musl", "libpthread", "[vdso]"];

/// Wrappers of system calls. A program that is linked statically has them in its own file.
const WRAPPERS: [&str; 19] = [
    "mmap",
    "mmap64",
    "munmap",
    "mprotect",
    "pkey_mprotect",
    "madvise",
    "mremap",
    "brk",
    "msync",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "mlock",
    "mlock2",
    "mlockall",
    "munlockall",
    "syscall",
    "sysMmap",
    "sysMunmap",
];

/// Beginnings of the names of functions of Go that only pass calls on. Its programs do without the C library.
const PASSING_IN_GO: [&str; 4] =
    ["syscall.", "internal/runtime/syscall", "runtime/internal/syscall", "golang.org/x/sys/unix."];

impl Frame {
    fn file(&self) -> &str {
        self.module.rsplit('/').next().unwrap_or(&self.module)
    }

    fn passes_on(&self) -> bool {
        let wrapper = |name: &String| {
            let of_runtime = name.strip_prefix("runtime.").unwrap_or(name);
            let plain = of_runtime.strip_suffix(".abi0").unwrap_or(of_runtime);
            WRAPPERS.contains(&plain.trim_start_matches('_'))
                || PASSING_IN_GO.iter().any(|start| name.starts_with(start))
        };
        PASSING.iter().any(|start| self.file().starts_with(start))
            || self.function.as_ref().is_some_and(wrapper)
    }

    fn name(&self) -> String {
        match &self.function {
            Some(name) => name.clone(),
            None if self.offset == 0 || self.module == ANONYMOUS => self.file().to_owned(),
            None => format!("{}+{:#x}", self.file(), self.offset),
        }
    }
}

/// The function that a chain is of, the innermost first: the first that is not one of the C library. If all are, the
/// outermost of those that were seen.
pub(crate) fn caller(frames: &[Frame]) -> Option<String> {
    let own = frames.iter().find(|frame| !frame.passes_on());
    own.or(frames.last()).map(Frame::name)
}

/// The files that call chains lead through, and the functions that chains were found to be of.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    files: Vec<Mapped>,
    /// The numbers of files, by whatever tells them apart.
    numbers: HashMap<Vec<u8>, u32>,
    /// The numbers of chains, by their places as bytes.
    chains: HashMap<Vec<u8>, u32>,
    functions: Vec<Option<String>>,
}

/// A file that is new: its path, itself, and its build.
pub(crate) type New = (String, Option<File>, Option<Vec<u8>>);

/// A file that was mapped.
#[derive(Debug)]
struct Mapped {
    path: String,
    elf: Contents,
}

#[derive(Debug)]
enum Contents {
    Unread(File, Option<Vec<u8>>),
    Read(Option<Box<Elf>>),
}

impl Callers {
    /// The number of a file, which `key` tells from others. A new one is added under its path, with the file itself where that
    /// is at hand, and with what its note of a build must say for it to be used.
    pub(crate) fn file(&mut self, key: &[u8], new: impl FnOnce() -> New) -> u32 {
        if let Some(&number) = self.numbers.get(key) {
            return number;
        }
        let (path, file, build) = new();
        let elf = file.map_or(Contents::Read(None), |file| Contents::Unread(file, build));
        self.files.push(Mapped { path, elf });
        let number = u32::try_from(self.files.len() - 1).expect("there are not so many files");
        self.numbers.insert(key.to_vec(), number);
        number
    }

    /// The function that a chain is of: the place where the program was, and return addresses, the innermost first.
    pub(crate) fn caller(&mut self, chain: &[Place]) -> Option<&str> {
        let mut key = Vec::new();
        for place in chain {
            key.extend(place.file.to_le_bytes());
            key.extend(place.offset.to_le_bytes());
        }
        let number = self.chains.get(&key).copied().unwrap_or_else(|| {
            chain.iter().for_each(|place| self.files[place.file as usize].read());
            self.functions.push(self.find(chain));
            let number = u32::try_from(self.functions.len() - 1).expect("there are not so many");
            self.chains.insert(key, number);
            number
        });
        self.functions[number as usize].as_deref()
    }

    fn find(&self, chain: &[Place]) -> Option<String> {
        let (&first, rest) = chain.split_first()?;
        let mut frames = vec![self.frame(first, first.offset)];
        for (index, &place) in rest.iter().enumerate() {
            let before = self.elf(place).map_or(Before::Unknown, |elf| elf.before(place.offset));
            match before {
                // A program without frame pointers: the register held something else.
                Before::Nothing => break,
                Before::Calls(start) if index == 0 => {
                    let called = self.frame(place, start);
                    // Where the wrapper has a frame, nothing is missing: it is itself what was called.
                    if called.function.is_none() || called.function != frames[0].function {
                        frames.push(called);
                    }
                }
                Before::Imports(name)
                    if index == 0 && self.elf(first).is_some_and(|elf| !elf.has(name)) =>
                {
                    let function = Some(mangled::plain(name));
                    frames.push(Frame { function, module: String::new(), offset: 0 });
                }
                // Through a pointer: nobody knows which function it is that called the wrapper.
                Before::Indirect if index == 0 && frames[0].passes_on() => {
                    let from = self.frame(place, place.offset.saturating_sub(1));
                    return (!from.passes_on()).then(|| format!("a callee of {}", from.name()));
                }
                _ => {}
            }
            // The call, and not what follows it: it may be the last instruction of its function.
            frames.push(self.frame(place, place.offset.saturating_sub(1)));
        }
        match &frames[..] {
            [wrapper] if wrapper.passes_on() => None,
            frames => caller(frames),
        }
    }

    fn elf(&self, place: Place) -> Option<&Elf> {
        match &self.files[place.file as usize].elf {
            Contents::Read(elf) => elf.as_deref(),
            Contents::Unread(..) => None,
        }
    }

    fn frame(&self, place: Place, offset: u64) -> Frame {
        let function = self.elf(place).and_then(|elf| elf.function(offset)).map(mangled::plain);
        Frame { function, module: self.files[place.file as usize].path.clone(), offset }
    }
}

impl Mapped {
    fn read(&mut self) {
        if let Contents::Unread(file, build) = &mut self.elf {
            let build = build.take();
            let elf = file.try_clone().ok().and_then(Elf::read);
            let same = |elf: &Elf| build.is_none_or(|build| elf.build() == build);
            self.elf = Contents::Read(elf.filter(same).map(Box::new));
        }
    }
}

/// Reads a line of `perf script` that shows a function: `55d0c634863e main+0x1e (/usr/bin/sort)`. None if it is none, or
/// one of the kernel.
pub(crate) fn line(line: &[u8]) -> Option<Option<Frame>> {
    let line = core::str::from_utf8(line).ok()?.trim();
    let (address, rest) = line.split_once(' ')?;
    if address.is_empty() || !address.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (function, module) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    if module.starts_with("[kernel") || module.starts_with("[guest") || address >= 1 << 63 {
        return Some(None);
    }
    let function = function.trim();
    // `malloc+0x12` is in `malloc`.
    let name = match function.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => function,
    };
    let function = (name != "[unknown]" && !name.is_empty()).then(|| name.to_owned());
    // The address is one of the process: of no use without its mappings.
    Some(Some(Frame { function, module: module.to_owned(), offset: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        line(text.as_bytes()).flatten().unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn lines_of_functions_are_read() {
        let known = frame("\t    55d0c634863e merge(int, char)+0x1e (/usr/bin/so rt)");
        assert_eq!(known.function.as_deref(), Some("merge(int, char)"));
        assert_eq!(known.module, "/usr/bin/so rt");
        assert_eq!(
            frame("  101a07 __munmap (/usr/lib/libc.so.6)").function.as_deref(),
            Some("__munmap")
        );
        assert_eq!(frame("3c6cfc [unknown] (/usr/lib/cc1)").name(), "cc1");
        assert_eq!(line(b"ffffffff81612045 do_vmi_align_munmap ([kernel.kallsyms])"), Some(None));
        for text in
            ["", "x", "worker 4101 [000] 1.000000: tlb:tlb_flush: x", "12 no module", "zz f (m)"]
        {
            assert_eq!(line(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_caller_is_the_first_that_is_not_of_the_c_library() {
        let of = |module: &str, function: &str| Frame {
            function: Some(function.into()),
            module: module.into(),
            offset: 7,
        };
        let chain = [
            of("/lib/libc.so.6", "__munmap"),
            of("/lib/libc.so.6", "free"),
            of("/bin/a", "work"),
            of("/bin/a", "main"),
        ];
        assert_eq!(caller(&chain).as_deref(), Some("work"));
        assert_eq!(caller(&chain[..2]).as_deref(), Some("free"));
        assert_eq!(caller(&[]), None);
        let unnamed = Frame { function: None, ..of("/bin/a", "") };
        assert_eq!(caller(&[unnamed]).as_deref(), Some("a+0x7"));
    }
}
