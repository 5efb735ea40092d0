//! One object with few sections, as kernels link it: `.text.name` and the like are merged, and nothing is kept that no
//! function of the header reaches.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use object::{
    Endianness,
    elf::{self, FileHeader64, SHF_MERGE, SHF_STRINGS},
    read::elf::{FileHeader as _, SectionHeader as _},
};

use super::{read, write};
use crate::{
    failure::{Context, Failure, Result},
    process,
};

/// Which sections there are.
const SCRIPT: &str = "SECTIONS {
  .text : { *(.text .text.*) }
  .rodata : { *(.rodata .rodata.* .srodata .srodata.*) }
  .data : { *(.data .data.* .sdata .sdata.*) }
  .bss : { *(.bss .bss.* .sbss .sbss.* COMMON) }
  /DISCARD/ : { *(.debug* .comment .eh_frame .eh_frame.* .gcc_except_table .gcc_except_table.* .llvm*) }
}
";

/// Links an object with itself, from these functions on.
pub(super) fn one_object(object: &[u8], functions: &[String], folder: &Path) -> Result<Vec<u8>> {
    let (script, before, after) =
        (folder.join("merge.ld"), folder.join("compiled.o"), folder.join("linked.o"));
    write(&script, SCRIPT)?;
    write(&before, object)?;
    let mut command = linker()?;
    command.args(["-r", "--gc-sections", "-T"]).arg(&script);
    for function in functions {
        command.args(["-u", function]);
    }
    process::output(command.arg(&before).arg("-o").arg(&after))?;
    let mut linked = read(&after)?;
    do_not_merge(&mut linked)?;
    Ok(linked)
}

/// Takes the table of offsets out of calls and addresses of x86-64, as linkers do where they are told that they may: kernels
/// have no such table, and the compiler calls `memcpy` through it.
pub(super) fn without_offset_table(object: &mut [u8]) -> Result<()> {
    let what = || "reading the linked object".to_owned();
    let (mut code, mut calls) = (None, Vec::new());
    {
        let header = FileHeader64::<Endianness>::parse(&*object).context(what)?;
        let endian = header.endian().context(what)?;
        let sections = header.sections(endian, &*object).context(what)?;
        for (index, section) in sections.enumerate() {
            let at = section.sh_offset.get(endian) as usize;
            if sections.section_name(endian, section).context(what)? == b".text" {
                code = Some((index, at));
            }
            let Some((relocations, _)) = section.rela(endian, &*object).context(what)? else {
                continue;
            };
            let of_code =
                code.is_some_and(|(text, _)| section.sh_info.get(endian) == text.0 as u32);
            for (number, relocation) in relocations.iter().enumerate() {
                if of_code && relocation.r_type(endian, false) == elf::R_X86_64_GOTPCREL {
                    // The kind is in the lower half of the second word.
                    let kind = at + number * size_of_val(relocation) + 8;
                    calls.push((relocation.r_offset.get(endian) as usize, kind));
                }
            }
        }
    }
    for (offset, kind) in calls {
        let place = code.map_or(0, |(_, at)| at) + offset;
        // `call *offset(%rip)` is FF 15, and `addr32 call` is as long; `mov offset(%rip), register` is REX.W 8B, and
        // `lea` REX.W 8D.
        let (before, relocated) = match object.get(place - 3..place) {
            Some(&[_, 0xff, 0x15]) => ([0x67, 0xe8], elf::R_X86_64_PLT32),
            Some(&[rex @ 0x48..=0x4f, 0x8b, _]) => ([rex, 0x8d], elf::R_X86_64_PC32),
            _ => return Err(Failure::new("the object uses a table of offsets in an unknown way")),
        };
        let at = if relocated == elf::R_X86_64_PC32 { place - 3 } else { place - 2 };
        object[at..at + 2].copy_from_slice(&before);
        object[kind..kind + 4].copy_from_slice(&relocated.to_le_bytes());
    }
    Ok(())
}

/// The linker that comes with rustc, or LLVM's.
fn linker() -> Result<Command> {
    let sysroot = process::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let with_rustc =
        Path::new(sysroot.trim()).join("lib/rustlib").join(super::host()?).join("bin/rust-lld");
    if with_rustc.is_file() {
        let mut command = Command::new(with_rustc);
        command.args(["-flavor", "gnu"]);
        return Ok(command);
    }
    let paths = env::var_os("PATH").unwrap_or_default();
    let elsewhere: Option<PathBuf> =
        env::split_paths(&paths).map(|path| path.join("ld.lld")).find(|path| path.is_file());
    elsewhere.map(Command::new).ok_or_else(|| {
        Failure::new("rust-lld is missing from the Rust toolchain, and ld.lld is not installed (Debian: lld)")
    })
}

/// Takes the flags from sections that say that their strings and constants may be merged: they are mixed now.
fn do_not_merge(object: &mut [u8]) -> Result<()> {
    let what = || "reading the linked object".to_owned();
    let header = FileHeader64::<Endianness>::parse(&*object).context(what)?;
    let endian = header.endian().context(what)?;
    let (at, size) =
        (header.e_shoff.get(endian) as usize, usize::from(header.e_shentsize.get(endian)));
    let count = usize::from(header.e_shnum.get(endian));
    for section in 0..count {
        // `sh_flags` is the third field: after two words.
        let flags = at + section * size + 8;
        let bytes = object.get_mut(flags..flags + 8).context_some(what)?;
        let mut word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        word &= !u64::from(SHF_MERGE | SHF_STRINGS);
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Ok(())
}

trait ContextSome<T> {
    fn context_some(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T> ContextSome<T> for Option<T> {
    fn context_some(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.ok_or_else(|| Failure::new(format!("{}: it is cut off", doing())))
    }
}
