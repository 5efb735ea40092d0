//! The function of a program that an event comes from, out of a call chain.

/// How many functions of a chain are looked at.
pub(super) const DEPTH: usize = 32;

/// One function of a call chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its name, where it is known.
    pub(super) function: Option<String>,
    /// The file that it is from.
    pub(super) module: String,
    /// The address in that file.
    pub(super) offset: u64,
}

/// Beginnings of the names of libraries whose functions only pass calls on: who called them is of interest.
const PASSING: [&str; 6] = ["libc.so", "libc-", "ld-linux", "ld-musl", "libpthread", "[vdso]"];

impl Frame {
    fn file(&self) -> &str {
        self.module.rsplit('/').next().unwrap_or(&self.module)
    }

    fn passes_on(&self) -> bool {
        PASSING.iter().any(|start| self.file().starts_with(start))
    }

    fn name(&self) -> String {
        match &self.function {
            Some(name) => name.clone(),
            None if self.offset == 0 => self.file().to_owned(),
            None => format!("{}+{:#x}", self.file(), self.offset),
        }
    }
}

/// The function that a chain is of, the innermost first: the first that is not one of the C library. If all are, the
/// outermost of those that were seen.
pub(super) fn caller(frames: &[Frame]) -> Option<String> {
    let own = frames.iter().find(|frame| !frame.passes_on());
    own.or(frames.last()).map(Frame::name)
}

/// Reads a line of `perf script` that shows a function: `55d0c634863e main+0x1e (/usr/bin/sort)`. None if it is none, or
/// one of the kernel.
pub(super) fn line(line: &[u8]) -> Option<Option<Frame>> {
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
