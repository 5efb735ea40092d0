//! What a kernel's linker and its processors ask of the object.

use std::collections::{BTreeMap, BTreeSet};

use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, SectionKind, elf,
};

use super::{Target, float};
use crate::{
    failure::{Context, Failure, Result},
    workspace::Workspace,
};

/// The header.
pub(super) const HEADER: &str = "capi/include/lookaside.h";

/// What every compiler takes for granted.
const OF_COMPILERS: [&str; 4] = ["memcpy", "memmove", "memset", "memcmp"];

/// Sections that a kernel's linker script knows.
const SECTIONS: [&str; 5] = [".text", ".rodata", ".data", ".bss", ".riscv.attributes"];

/// The functions that the header declares with `prefix` in their names, in order.
fn declared(workspace: &Workspace) -> Result<Vec<String>> {
    let text = workspace.read(HEADER)?;
    let mut code = String::new();
    let mut left = &*text;
    while let Some((before, comment)) = left.split_once("/*") {
        code.push_str(before);
        left = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    code.push_str(left);
    let lines: Vec<_> = code.lines().filter(|line| !line.starts_with('#')).collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    for declaration in lines.join("\n").split(';') {
        if declaration.contains('{') || declaration.contains("static inline") {
            continue;
        }
        let Some(before) = declaration.trim_end().strip_suffix(')') else { continue };
        let Some((before, _)) = before.split_once('(') else { continue };
        let name = before.rsplit(|c| !is_name(c)).next().unwrap_or_default();
        if name.starts_with("lookaside_") {
            names.insert(name.to_owned());
        }
    }
    Ok(names.into_iter().collect())
}

/// Whether the kernel, or the program, provides a function.
fn is_provided(name: &str) -> bool {
    name.starts_with("lookaside_platform_") || name.starts_with("lookaside_host_")
}

/// The functions that the library has.
pub(super) fn functions(workspace: &Workspace) -> Result<Vec<String>> {
    Ok(declared(workspace)?.into_iter().filter(|name| !is_provided(name)).collect())
}

/// Relocations that kernels take which are linked to be moved: by a tool of theirs, or at their start.
fn relocations(target: Target) -> &'static [(u32, &'static str)] {
    match target {
        Target::Aarch64 => &[
            (elf::R_AARCH64_ABS64, "ABS64"),
            (elf::R_AARCH64_CALL26, "CALL26"),
            (elf::R_AARCH64_JUMP26, "JUMP26"),
            (elf::R_AARCH64_ADR_PREL_PG_HI21, "ADR_PREL_PG_HI21"),
            (elf::R_AARCH64_ADR_PREL_LO21, "ADR_PREL_LO21"),
            (elf::R_AARCH64_ADD_ABS_LO12_NC, "ADD_ABS_LO12_NC"),
            (elf::R_AARCH64_LDST8_ABS_LO12_NC, "LDST8_ABS_LO12_NC"),
            (elf::R_AARCH64_LDST16_ABS_LO12_NC, "LDST16_ABS_LO12_NC"),
            (elf::R_AARCH64_LDST32_ABS_LO12_NC, "LDST32_ABS_LO12_NC"),
            (elf::R_AARCH64_LDST64_ABS_LO12_NC, "LDST64_ABS_LO12_NC"),
        ],
        Target::Riscv64 => &[
            (elf::R_RISCV_64, "64"),
            (elf::R_RISCV_CALL_PLT, "CALL_PLT"),
            (elf::R_RISCV_JAL, "JAL"),
            (elf::R_RISCV_BRANCH, "BRANCH"),
            (elf::R_RISCV_RVC_BRANCH, "RVC_BRANCH"),
            (elf::R_RISCV_RVC_JUMP, "RVC_JUMP"),
            (elf::R_RISCV_PCREL_HI20, "PCREL_HI20"),
            (elf::R_RISCV_PCREL_LO12_I, "PCREL_LO12_I"),
            (elf::R_RISCV_PCREL_LO12_S, "PCREL_LO12_S"),
            (elf::R_RISCV_RELAX, "RELAX"),
            (elf::R_RISCV_ADD32, "ADD32"),
            (elf::R_RISCV_SUB32, "SUB32"),
            (elf::R_RISCV_32_PCREL, "32_PCREL"),
        ],
        Target::X86_64 => &[
            (elf::R_X86_64_64, "64"),
            (elf::R_X86_64_32S, "32S"),
            (elf::R_X86_64_PC32, "PC32"),
            (elf::R_X86_64_PLT32, "PLT32"),
        ],
        // The linker of programs takes all.
        Target::Host => &[],
    }
}

/// Fails if the object is none for kernels of this target, and says what it has otherwise.
pub(super) fn check(workspace: &Workspace, target: Target, bytes: &[u8]) -> Result<()> {
    let object = object::File::parse(bytes).context(|| "reading the linked object".to_owned())?;
    let mut wrong = symbols(workspace, target, &object)?;
    wrong.extend(sections(&object));
    wrong.extend(kinds(target, &object));
    wrong.extend(float::used(target, &object)?);
    if target == Target::Riscv64
        && let object::FileFlags::Elf { e_flags, .. } = object.flags()
        && e_flags & elf::EF_RISCV_FLOAT_ABI != elf::EF_RISCV_FLOAT_ABI_SOFT
    {
        wrong.push("its ABI is not that without floating point".to_owned());
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("the object for {}: {}", target.name(), wrong.join("; "))))
}

/// Symbols that must not be there, or are not.
fn symbols(
    workspace: &Workspace,
    target: Target,
    object: &object::File<'_>,
) -> Result<Vec<String>> {
    let declared = declared(workspace)?;
    let functions: BTreeSet<_> =
        declared.iter().filter(|name| !is_provided(name)).cloned().collect();
    let provided = |name: &str| {
        is_provided(name)
            && declared.iter().any(|known| known == name)
            && (target == Target::Host || !name.starts_with("lookaside_host_"))
    };
    let (mut defined, mut wrong) = (BTreeSet::new(), Vec::new());
    for symbol in object.symbols().filter(|symbol| symbol.is_global()) {
        let name = symbol.name().context(|| "reading a symbol".to_owned())?;
        if symbol.is_definition() {
            defined.insert(name.to_owned());
        } else if symbol.is_undefined() && !provided(name) && !OF_COMPILERS.contains(&name) {
            wrong.push(format!("it needs {name}"));
        }
    }
    wrong.extend(functions.difference(&defined).map(|name| format!("{name} is missing")));
    wrong.extend(defined.difference(&functions).map(|name| format!("{name} is global")));
    println!("{} functions of the header, and no other global symbol", defined.len());
    Ok(wrong)
}

/// Sections with contents that a linker script would not find.
fn sections(object: &object::File<'_>) -> Vec<String> {
    let mut sizes = Vec::new();
    let mut wrong = Vec::new();
    for section in object.sections() {
        let name = section.name().unwrap_or_default();
        let is_bookkeeping = matches!(section.kind(), SectionKind::Metadata | SectionKind::Note)
            || name.starts_with(".rela")
            || name.is_empty();
        if SECTIONS.contains(&name) {
            sizes.push(format!("{name} {}", section.size()));
        } else if !is_bookkeeping && section.size() > 0 {
            wrong.push(format!("it has a section {name}"));
        }
    }
    println!("bytes: {}", sizes.join(", "));
    wrong
}

/// Relocations that a kernel which may be moved would not take.
fn kinds(target: Target, object: &object::File<'_>) -> Vec<String> {
    let known = relocations(target);
    let mut found = BTreeMap::<u32, usize>::new();
    for section in object.sections() {
        for (_, relocation) in section.relocations() {
            if let RelocationFlags::Elf { r_type } = relocation.flags() {
                *found.entry(r_type).or_default() += 1;
            }
        }
    }
    let name = |kind: u32| known.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name);
    let list: Vec<_> = found
        .iter()
        .map(|(&kind, count)| format!("{count} {}", name(kind).unwrap_or("others")))
        .collect();
    println!("relocations: {}", list.join(", "));
    if target == Target::Host {
        return Vec::new();
    }
    let other = found.keys().filter(|kind| name(**kind).is_none());
    other.map(|kind| format!("it has relocations of kind {kind}")).collect()
}
