//! The weakest fence that removes an entry.

use alloc::{format, string::String};

use lookaside_hardware::{Cached, arm, riscv, x86};

use crate::{PAGE_SHIFT, Regime, Root};

/// A fence that would have mended a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Remedy {
    /// The instruction, with its operands in words.
    pub instruction: String,
    /// The CPU on which it is missing; nothing if one that reaches all CPUs is.
    pub on: Option<u32>,
}

/// The weakest form, in the order in which the manuals list them, of which the hardware's rules say that it removes
/// `cached`.
pub(crate) fn weakest(regime: Regime, cached: &Cached, holder: u32) -> Option<Remedy> {
    let page = cached.pages.0;
    let address = page << PAGE_SHIFT;
    let tag = cached.tag;
    match regime {
        Regime::Riscv { .. } => {
            let pages = Some((page, page));
            let forms = [
                (
                    riscv::fenced(pages, Some(tag)),
                    format!("sfence.vma of page {address:#x} and ASID {tag}"),
                ),
                (riscv::fenced(pages, None), format!("sfence.vma of page {address:#x}, any ASID")),
                (riscv::fenced(None, Some(tag)), format!("sfence.vma of all pages of ASID {tag}")),
                (riscv::fenced(None, None), "sfence.vma of everything".into()),
            ];
            choose(forms, cached).map(|instruction| Remedy { instruction, on: Some(holder) })
        }
        Regime::Arm { .. } => {
            let operand = u64::from(tag) << 48 | page & arm::PAGE_MASK;
            let address = Root { base: 0, regime }.address(page);
            let named = |kind, name: &str| {
                let words = format!("TLBI {name} of page {address:#x}, ASID {tag}; DSB ISH");
                arm::tlbi(kind, operand, 16, &[0]).map(|removes| (removes, words))
            };
            let forms = [
                named(arm::TlbiKind::Val, "VALE1IS"),
                named(arm::TlbiKind::Va, "VAE1IS"),
                named(arm::TlbiKind::Vaa, "VAAE1IS"),
                named(arm::TlbiKind::Aside, "ASIDE1IS"),
                named(arm::TlbiKind::Vmall, "VMALLE1IS"),
            ];
            choose(forms.into_iter().flatten(), cached)
                .map(|instruction| Remedy { instruction, on: None })
        }
        Regime::X86 { levels, .. } => {
            let la57 = if levels == 5 { x86::LA57 } else { 0 };
            let registers =
                x86::Registers { cr3: u64::from(tag), cr4: x86::PCIDE | x86::PGE | la57 };
            let forms = [
                (x86::invlpg(registers, address).removes, format!("INVLPG of page {address:#x}")),
                (
                    x86::mov_to_cr3(registers, registers.cr3)
                        .ok()
                        .and_then(|effect| effect.removes),
                    "MOV to CR3".into(),
                ),
                (
                    x86::mov_to_cr4(registers, registers.cr4 & !x86::PGE)
                        .ok()
                        .and_then(|effect| effect.removes),
                    "MOV to CR4 that toggles PGE".into(),
                ),
            ];
            let forms = forms.into_iter().filter_map(|(removes, words)| Some((removes?, words)));
            choose(forms, cached).map(|instruction| Remedy { instruction, on: Some(holder) })
        }
    }
}

fn choose(
    forms: impl IntoIterator<Item = (lookaside_hardware::Invalidation, String)>,
    cached: &Cached,
) -> Option<String> {
    forms.into_iter().find(|(removes, _)| removes.names(cached)).map(|(_, words)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Cached = Cached { tag: 3, global: false, pages: (5, 5), level: 0, table: false };
    const SV39: Regime = Regime::Riscv { levels: 3 };

    fn words(regime: Regime, cached: Cached) -> String {
        weakest(regime, &cached, 1).unwrap().instruction
    }

    #[test]
    fn globals_and_tables_need_stronger_fences() {
        assert_eq!(words(SV39, PAGE), "sfence.vma of page 0x5000 and ASID 3");
        assert_eq!(
            words(SV39, Cached { global: true, ..PAGE }),
            "sfence.vma of page 0x5000, any ASID"
        );
        let table = Cached { table: true, level: 1, pages: (0, 511), ..PAGE };
        assert_eq!(words(SV39, table), "sfence.vma of all pages of ASID 3");
        assert!(words(Regime::Arm { bits: 48 }, PAGE).starts_with("TLBI VALE1IS"));
        assert!(words(Regime::Arm { bits: 48 }, table).starts_with("TLBI VAE1IS"));
        let x86 = Regime::X86 { levels: 4, globals: true };
        assert!(words(x86, Cached { global: true, ..PAGE }).starts_with("INVLPG"));
    }
}
