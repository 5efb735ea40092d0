//! Names of functions out of the ELF file of a program or library, and the calls in its code.
//!
//! Only 64-bit files of little-endian processors are read. Every place and length is compared with the file before it is
//! used: a file that is damaged has no names, or fewer.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

use crate::bytes::{part, u16_at, u32_at, u64_at};

/// Tables that are larger are not read: the largest that is known, of a browser with all its symbols, has a quarter.
const TABLE_MAX: u64 = 1 << 28;
/// The bytes of code before a return address: no call of x86-64 is longer.
const CALL_MAX: usize = 8;
/// The bytes of an entry of a procedure linkage table.
const LINKAGE: usize = 16;

/// Kinds of section.
mod section {
    pub(super) const SYMBOLS: u32 = 2;
    pub(super) const RELOCATIONS: u32 = 4;
    pub(super) const DYNAMIC_SYMBOLS: u32 = 11;
}

/// Kinds of segment.
mod segment {
    pub(super) const LOADED: u32 = 1;
    pub(super) const NOTES: u32 = 4;
    /// In the flags: code.
    pub(super) const EXECUTABLE: u32 = 1;
}

/// Processors, by `e_machine`.
mod machine {
    pub(super) const X86_64: u16 = 62;
    pub(super) const ARM_64: u16 = 183;
}

/// An address of a function in an ELF file, as its symbols have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Address(u64);

/// What the code before a return address does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before<'e> {
    /// It calls a function of the same file, which begins at this place in the file.
    Calls(u64),
    /// It calls a function of another file, by this name.
    Imports(&'e [u8]),
    /// It calls a function that the code alone does not tell.
    Indirect,
    /// It calls nothing: the address is no return address.
    Nothing,
    /// It cannot be read.
    Unknown,
}

/// Address, length, and the place of the name.
type Symbol = (Address, u64, usize);

/// An ELF file.
#[derive(Debug)]
pub(crate) struct Elf {
    file: File,
    machine: u16,
    /// Code: place in the file, length, address.
    code: Vec<(u64, u64, Address)>,
    /// Functions.
    functions: Vec<Symbol>,
    /// Slots of the global offset table through which functions of other files are found.
    imports: Vec<Symbol>,
    /// Names, each ended by a zero.
    names: Vec<u8>,
    build: Vec<u8>,
}

impl Elf {
    /// Reads the tables of a file; none if it is not an ELF file of a kind that is read.
    pub(crate) fn read(file: File) -> Option<Self> {
        let head = bytes(&file, 0, 64)?;
        if head.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let mut elf = Self {
            file,
            machine: u16_at(&head, 18)?,
            code: Vec::new(),
            functions: Vec::new(),
            imports: Vec::new(),
            names: Vec::new(),
            build: Vec::new(),
        };
        let count = |at| u16_at(&head, at).map(u64::from);
        let table = |place: usize, size: u64, number: u64| {
            bytes(&elf.file, u64_at(&head, place)?, size.checked_mul(number)?)
        };
        let segments = table(32, 56, count(56)?).filter(|_| u16_at(&head, 54) == Some(56));
        // A file without sections still runs, and one that is cut has its sections behind the cut.
        let sections = table(40, 64, count(60)?).filter(|_| u16_at(&head, 58) == Some(64));
        for segment in segments?.chunks_exact(56) {
            elf.segment(segment);
        }
        let sections: Vec<&[u8]> = sections.iter().flat_map(|all| all.chunks_exact(64)).collect();
        for &section in &sections {
            // A table that is damaged leaves the others as they are.
            let _ = elf.section(section, &sections);
        }
        for table in [&mut elf.functions, &mut elf.imports] {
            // Of several names of a function the one with a length goes before.
            table.sort_unstable_by_key(|&(address, length, name)| (address, !length, name));
            table.dedup_by_key(|&mut (address, ..)| address);
        }
        Some(elf)
    }

    /// What tells this build of the file from all others; empty where it has none.
    pub(crate) fn build(&self) -> &[u8] {
        &self.build
    }

    fn segment(&mut self, segment: &[u8]) -> Option<()> {
        let (kind, flags) = (u32_at(segment, 0)?, u32_at(segment, 4)?);
        let (offset, address, length) =
            (u64_at(segment, 8)?, u64_at(segment, 16)?, u64_at(segment, 32)?);
        if kind == segment::LOADED && flags & segment::EXECUTABLE != 0 {
            self.code.push((offset, length, Address(address)));
        }
        if kind == segment::NOTES && self.build.is_empty() {
            self.build = build(&bytes(&self.file, offset, length)?).unwrap_or_default().to_vec();
        }
        Some(())
    }

    fn section(&mut self, section: &[u8], all: &[&[u8]]) -> Option<()> {
        let of = |section: &[u8]| bytes(&self.file, u64_at(section, 24)?, u64_at(section, 32)?);
        let link = |section: &[u8]| all.get(u32_at(section, 40)? as usize).copied();
        match u32_at(section, 4)? {
            section::SYMBOLS | section::DYNAMIC_SYMBOLS => {
                let (symbols, names) = (of(section)?, of(link(section)?)?);
                let base = self.names.len();
                for symbol in symbols.chunks_exact(24) {
                    let function = matches!(symbol[4] & 0xf, 2 | 10) && u16_at(symbol, 6)? != 0;
                    let name = u32_at(symbol, 0)? as usize;
                    if function && names.get(name).is_some_and(|&first| first != 0) {
                        let address = Address(u64_at(symbol, 8)?);
                        self.functions.push((address, u64_at(symbol, 16)?, base + name));
                    }
                }
                self.names.extend(names);
                self.names.push(0);
            }
            section::RELOCATIONS => {
                let symbols = link(section)?;
                let (relocations, names) = (of(section)?, of(link(symbols)?)?);
                let symbols = of(symbols)?;
                for relocation in relocations.chunks_exact(24) {
                    let symbol = (u64_at(relocation, 8)? >> 32) as usize;
                    let name = symbol.checked_mul(24).and_then(|place| u32_at(&symbols, place));
                    let Some(name) = name.filter(|_| symbol != 0) else { continue };
                    if let Some(name) = names.get(name as usize..) {
                        let slot = Address(u64_at(relocation, 0)?);
                        self.imports.push((slot, 8, self.names.len()));
                        self.names.extend(until_zero(name));
                        self.names.push(0);
                    }
                }
            }
            _ => {}
        }
        Some(())
    }

    fn address(&self, offset: u64) -> Option<Address> {
        self.code.iter().find_map(|&(start, length, address)| {
            let inside = offset.checked_sub(start).filter(|&inside| inside < length)?;
            Some(Address(address.0.checked_add(inside)?))
        })
    }

    fn offset(&self, address: Address) -> Option<u64> {
        self.code.iter().find_map(|&(offset, length, start)| {
            let inside = address.0.checked_sub(start.0).filter(|&inside| inside < length)?;
            offset.checked_add(inside)
        })
    }

    /// The name of the function that a place in the file is in.
    pub(crate) fn function(&self, offset: u64) -> Option<&[u8]> {
        let address = self.address(offset)?;
        let place = self.functions.partition_point(|&(start, ..)| start <= address);
        let &(start, length, name) = self.functions.get(place.checked_sub(1)?)?;
        // Functions that are written in assembly language may have no length.
        (length == 0 || address.0 - start.0 < length).then(|| until_zero(&self.names[name..]))
    }

    /// Whether it has a function of that name.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.functions.iter().any(|&(.., known)| until_zero(&self.names[known..]) == name)
    }

    /// What the code before a place in the file does.
    pub(crate) fn before(&self, offset: u64) -> Before<'_> {
        let Some(address) = self.address(offset) else { return Before::Nothing };
        let length = CALL_MAX.min(usize::try_from(offset).unwrap_or(CALL_MAX));
        let Some(code) = bytes(&self.file, offset - length as u64, length as u64) else {
            return Before::Unknown;
        };
        let target = match self.machine {
            machine::X86_64 => x86_64(&code, address),
            machine::ARM_64 => arm_64(&code, address),
            _ => return Before::Unknown,
        };
        match target {
            Target::Address(target) => self.called(target),
            Target::Slot(slot) => self.imported(slot).unwrap_or(Before::Indirect),
            Target::Indirect => Before::Indirect,
            Target::None => Before::Nothing,
        }
    }

    fn imported(&self, slot: Address) -> Option<Before<'_>> {
        let place = self.imports.binary_search_by_key(&slot, |&(slot, ..)| slot).ok()?;
        let (.., name) = self.imports[place];
        Some(Before::Imports(until_zero(&self.names[name..])))
    }

    /// A function that is called at this address: in the procedure linkage table it is another file's.
    fn called(&self, target: Address) -> Before<'_> {
        let Some(offset) = self.offset(target) else { return Before::Nothing };
        let linked = || {
            let code = bytes(&self.file, offset, LINKAGE as u64)?;
            // `jmp *slot(%rip)`, the first or the second instruction.
            let jump = code.windows(2).take(6).position(|two| two == [0xff, 0x25])?;
            let next = Address(target.0.wrapping_add(jump as u64 + 6));
            self.imported(relative(u32_at(&code, jump + 2)?, next))
        };
        let linked = (self.machine == machine::X86_64).then(linked).flatten();
        linked.unwrap_or(Before::Calls(offset))
    }
}

/// What an instruction calls.
enum Target {
    Address(Address),
    /// What is in memory at this address.
    Slot(Address),
    Indirect,
    /// It is no call.
    None,
}

/// An address that is given by its distance.
fn relative(distance: u32, from: Address) -> Address {
    Address(from.0.wrapping_add_signed(distance.cast_signed().into()))
}

/// The call of x86-64 that ends where `code` does (Intel SDM volume 2, CALL: E8 and FF /2).
fn x86_64(code: &[u8], next: Address) -> Target {
    let last = |count: usize| code.len().checked_sub(count).map(|start| &code[start..]);
    if let Some([0xe8, distance @ ..]) = last(5) {
        return u32_at(distance, 0).map_or(Target::None, |by| Target::Address(relative(by, next)));
    }
    if let Some([0xff, 0x15, distance @ ..]) = last(6) {
        return u32_at(distance, 0).map_or(Target::None, |by| Target::Slot(relative(by, next)));
    }
    // The length follows from the mode and, where there is one, from the byte after it.
    let length = |modes: &[u8]| {
        let (mode, base) = (modes[0] >> 6, modes[0] & 7);
        let more = u8::from(base == 4 && mode != 3);
        let displacement = match (mode, base) {
            (0, 5) => 4,
            (0, 4) if modes.get(1).is_some_and(|next| next & 7 == 5) => 4,
            (1, _) => 1,
            (2, _) => 4,
            _ => 0,
        };
        usize::from(2 + more + displacement)
    };
    let indirect = (2..=7).any(|count| match last(count) {
        Some([0xff, modes @ ..]) => modes[0] >> 3 & 7 == 2 && length(modes) == count,
        _ => false,
    });
    if indirect { Target::Indirect } else { Target::None }
}

/// The call of Arm64 that ends where `code` does (Arm ARM, C6.2: BL and BLR, of which some authenticate).
fn arm_64(code: &[u8], next: Address) -> Target {
    let Some(word) = code.len().checked_sub(4).and_then(|start| u32_at(code, start)) else {
        return Target::None;
    };
    if word >> 26 == 0b10_0101 {
        // 26 bits, signed, in words, from the instruction itself.
        let distance = ((word << 6).cast_signed() >> 4).cast_unsigned();
        return Target::Address(relative(distance, Address(next.0.wrapping_sub(4))));
    }
    let blr = word & 0xffff_fc1f == 0xd63f_0000 || word & 0xfeff_f800 == 0xd63f_0800;
    if blr { Target::Indirect } else { Target::None }
}

/// Bytes of a file; none if it does not have them.
fn bytes(mut file: &File, offset: u64, length: u64) -> Option<Vec<u8>> {
    let end = offset.checked_add(length)?;
    if length > TABLE_MAX || end > file.metadata().ok()?.len() {
        return None;
    }
    file.seek(SeekFrom::Start(offset)).ok()?;
    let mut all = vec![0; usize::try_from(length).ok()?];
    file.read_exact(&mut all).ok()?;
    Some(all)
}

/// The build that notes tell of.
fn build(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let padded = |length: u32| u64::from(length).next_multiple_of(4);
        let (name, text) = (padded(u32_at(notes, 0)?), u32_at(notes, 4)?);
        if u32_at(notes, 8)? == 3 && part(notes, 12, name) == Some(b"GNU\0") {
            return part(notes, 12 + name, text.into());
        }
        let next = 12 + name + padded(text);
        notes = notes.get(usize::try_from(next).ok()?..)?;
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{env, fs, io::Write as _};

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("it fits");
        file
    }

    #[test]
    fn calls_of_x86_64_are_told_from_other_instructions() {
        let told = |code: &[u8]| match x86_64(code, Address(0x1000)) {
            Target::Address(Address(target)) => format!("{target:x}"),
            Target::Slot(Address(slot)) => format!("[{slot:x}]"),
            Target::Indirect => "?".into(),
            Target::None => "none".into(),
        };
        assert_eq!(told(&[0x90, 0xe8, 0xf0, 0xff, 0xff, 0xff]), "ff0");
        assert_eq!(told(&[0x90, 0xff, 0x15, 0x10, 0, 0, 0]), "[1010]");
        // As GNU as encodes `call *%rax`, `*%r12`, `*8(%rbx)`, `*(%rbx,%rcx,8)`, `*256(%rax)`, `*8(%rsp)`, `*16(,%rax,8)`.
        let indirect: [&[u8]; 7] = [
            &[0x90, 0xff, 0xd0],
            &[0x41, 0xff, 0xd4],
            &[0x90, 0xff, 0x53, 8],
            &[0x90, 0xff, 0x14, 0xcb],
            &[0xff, 0x90, 0, 1, 0, 0],
            &[0xff, 0x54, 0x24, 8],
            &[0xff, 0x14, 0xc5, 16, 0, 0, 0],
        ];
        for code in indirect {
            assert_eq!(told(code), "?", "{code:x?}");
        }
        // `jmp *%rax`, `push %rbx`, `mov %rax, %rbx`, nothing.
        let others: [&[u8]; 4] = [&[0xff, 0xe0], &[0x53], &[0x48, 0x89, 0xc3], &[]];
        for code in others {
            assert_eq!(told(code), "none", "{code:x?}");
        }
    }

    #[test]
    fn calls_of_arm_64_are_told_from_other_instructions() {
        let told = |word: u32| match arm_64(&word.to_le_bytes(), Address(0x1004)) {
            Target::Address(Address(target)) => format!("{target:x}"),
            Target::Indirect => "?".into(),
            Target::Slot(_) | Target::None => "none".into(),
        };
        // `bl .+16`, `bl .-4`, `blr x8`, `blraaz x8`, `br x8`, `ret`.
        let words = [0x9400_0004, 0x97ff_ffff, 0xd63f_0100, 0xd63f_091f, 0xd61f_0100, 0xd65f_03c0];
        assert_eq!(words.map(told), ["1010", "ffc", "?", "?", "none", "none"]);
    }

    #[test]
    #[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
    fn this_program_has_its_functions() {
        let elf = Elf::read(File::open(env::current_exe().expect("a path")).expect("a file"));
        let elf = elf.expect("an ELF file");
        let &(address, _, name) =
            elf.functions.iter().find(|(_, length, _)| *length > 64).expect("functions");
        let offset = elf.offset(address).expect("it is in the file") + 8;
        assert_eq!(elf.function(offset), Some(until_zero(&elf.names[name..])));
        assert_eq!(elf.function(u64::MAX), None);
        assert_eq!(elf.before(u64::MAX), Before::Nothing);
    }

    /// A file as linkers write it, without code: a segment, a table of symbols, and their names.
    fn small() -> Vec<u8> {
        let mut all = vec![0; 64 + 56 + 3 * 64];
        let put = |all: &mut Vec<u8>, at: usize, number: u64, size: usize| {
            all[at..at + size].copy_from_slice(&number.to_le_bytes()[..size]);
        };
        all[..6].copy_from_slice(b"\x7fELF\x02\x01");
        for (at, number, size) in [
            (18, 62, 2),
            (32, 64, 8),
            (40, 120, 8),
            (54, 56, 2),
            (56, 1, 2),
            (58, 64, 2),
            (60, 3, 2),
        ] {
            put(&mut all, at, number, size);
        }
        // The segment: all of the file, at 0x1000.
        for (at, number, size) in [(64, 1, 4), (68, 5, 4), (80, 0x1000, 8), (96, 0x200, 8)] {
            put(&mut all, at, number, size);
        }
        let symbols = all.len() as u64;
        let mut symbol = vec![0; 24];
        for (at, number, size) in [(0, 1, 4), (4, 2, 1), (6, 1, 2), (8, 0x1010, 8), (16, 16, 8)] {
            put(&mut symbol, at, number, size);
        }
        all.extend(symbol);
        let names = all.len() as u64;
        all.extend(b"\0work\0");
        let (first, second) = (120 + 64, 120 + 128);
        for (at, number, size) in [(4, 2, 4), (24, symbols, 8), (32, 24, 8), (40, 2, 4)] {
            put(&mut all, first + at, number, size);
        }
        for (at, number, size) in [(4, 3, 4), (24, names, 8), (32, 6, 8)] {
            put(&mut all, second + at, number, size);
        }
        all
    }

    #[test]
    fn what_is_damaged_has_no_names_or_fewer_and_never_a_panic() {
        let sound = small();
        let elf = Elf::read(file(&sound)).expect("an ELF file");
        assert_eq!(elf.function(0x18), Some(&b"work"[..]));
        assert_eq!(elf.function(0x20), None, "it is behind its end");
        assert!(elf.has(b"work") && !elf.has(b"wor"));
        let mut lost = 0;
        for place in 0..sound.len() {
            for damage in [0xff, 0x80, 0x01] {
                let mut bytes = sound.clone();
                bytes[place] ^= damage;
                let elf = Elf::read(file(&bytes));
                let name = elf.as_ref().and_then(|elf| elf.function(0x18)).map(<[u8]>::to_vec);
                lost += usize::from(name.is_none());
                let _ = elf.map(|elf| elf.before(0x18) == Before::Nothing);
            }
            let _ = Elf::read(file(&sound[..place]));
        }
        assert!(lost > 100, "most numbers matter: {lost}");
        assert!(Elf::read(file(b"#!/bin/sh\n")).is_none());
        assert!(Elf::read(file(&fs::read("/dev/null").unwrap_or_default())).is_none());
    }
}
