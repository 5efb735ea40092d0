//! RISC-V: local fences, and remote fences by the firmware.

use lookaside::{
    arch::riscv64::Instructions as _,
    platform::{Ordering::*, Word as _},
};
use lookaside_machine::adversary::{Access, Arch, Config, Rule, Word, riscv};

use super::{
    Expected, Protocol,
    kernel::{A, Act::*, B, Change, Kernel, Operations, PAGES, Scripts, TAGS, open},
};

/// Loads the root of a space under its tag.
pub(super) fn satp(kernel: &Kernel, to: usize) {
    write(kernel.root(to).0, TAGS[to]);
}

fn write(root: u64, tag: u16) {
    riscv::Insn.write_satp(8 << 60 | u64::from(tag) << 44 | root);
}

/// The fault of the protocol.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// The fence names a tag although the page may be global.
    NamesTag,
    /// A fence of all addresses is encoded as one of address 0.
    AddressZero,
    /// A hart that left a space is not fenced, though it keeps entries.
    ClearsBit,
}

/// The firmware fences all harts that ever ran A.
struct Firmware<const GLOBAL: bool> {
    flaw: Flaw,
    ran: Word,
}

impl<const GLOBAL: bool> Firmware<GLOBAL> {
    const fn new(flaw: Flaw) -> Self {
        Self { flaw, ran: Word::ZERO }
    }

    /// Fences this hart and the harts of a mask: a range or all addresses, of one tag or of all with globals.
    fn fence(harts: u64, range: Option<(u64, u64)>, tag: Option<u16>) {
        riscv::Insn.fence();
        match range {
            None => riscv::Insn.sfence_vma(None, tag),
            Some((start, size)) => (start..start + size)
                .step_by(0x1000)
                .for_each(|va| riscv::Insn.sfence_vma(Some(va), tag)),
        }
        if harts != 0 {
            let (start, size) = range.unwrap_or((0, u64::MAX));
            let _ = riscv::Insn.remote_sfence_vma(harts, 0, start, size, tag);
        }
    }
}

impl<const GLOBAL: bool> Operations for Firmware<GLOBAL> {
    const ACCESS: Access = if GLOBAL { Access::GLOBAL } else { Access::WRITE };

    fn config(&self, cpus: usize) -> Config {
        Config::riscv(cpus)
    }

    fn words(&self) -> Vec<(&'static str, &[Word])> {
        vec![("ran A", core::slice::from_ref(&self.ran))]
    }

    fn switch(&self, kernel: &Kernel, cpu: usize, from: Option<usize>, to: usize) {
        if to == A {
            self.ran.fetch_or(1 << cpu, SeqCst);
        }
        satp(kernel, to);
        if self.flaw == Flaw::ClearsBit && from == Some(A) {
            self.ran.fetch_and(!(1 << cpu), SeqCst);
        }
    }

    fn flush(&self, kernel: &Kernel, cpu: usize, change: Change) {
        let harts = self.ran.fetch_or(0, SeqCst) & kernel.others(cpu);
        let named = !GLOBAL || self.flaw == Flaw::NamesTag;
        let tag = named.then_some(TAGS[A]);
        let range = match (change, change.pages()) {
            (Change::Page(_) | Change::Protect(_) | Change::Quiet(_), [va]) => Some((*va, 0x1000)),
            _ if self.flaw == Flaw::AddressZero => Some((0, 0x1000)),
            _ => None,
        };
        Self::fence(harts, range, tag);
    }
}

/// All spaces have one tag.
struct OneTag {
    fixed: bool,
}

impl Operations for OneTag {
    fn config(&self, cpus: usize) -> Config {
        Config::riscv(cpus)
    }

    fn switch(&self, kernel: &Kernel, _: usize, from: Option<usize>, to: usize) {
        if self.fixed && from.is_some() {
            write(kernel.nothing.0, 0);
            riscv::Insn.sfence_vma(None, None);
        }
        write(kernel.root(to).0, 0);
    }

    fn flush(&self, _: &Kernel, _: usize, _: Change) {
        riscv::Insn.sfence_vma(None, None);
    }
}

const PAGE: super::kernel::Act = Take(Change::Page(0));
const BOTH: super::kernel::Act = Take(Change::Both);
const TABLE: super::kernel::Act = Take(Change::Table);

const fn flawed<const GLOBAL: bool>(flaw: Flaw, fixed: bool) -> Firmware<GLOBAL> {
    Firmware::new(if fixed { Flaw::None } else { flaw })
}

pub(super) static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "tag-named-for-a-global-page",
        arch: Arch::Riscv,
        record: "Hermit on riscv64, where every page is global, and ArceOS: `sfence_vma(0, va)` (eco-M6, read \
                 in the source). Asterinas avoids it and says why. The interface of the `riscv` crate \
                 invites it: it always passes a tag.",
        why: "`SFENCE.VMA` with an address and a tag removes that address under that tag, \"except for \
              entries containing global mappings\". Of a global page it removes nothing, on whatever hart.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("name the address and no tag"),
        open: |name, form| {
            open(name, form, &[&[PAGE], &[Load(0)]], |fixed| flawed::<true>(Flaw::NamesTag, fixed))
        },
    },
    Protocol {
        name: "everything-became-address-zero",
        arch: Arch::Riscv,
        record: "RustSBI, #133, merged 2025-04 (eco-A2, thread). The same is suspected of a call in hvisor's \
                 `s2pt.rs`, depending on the assembler of the crate that it uses.",
        why: "\"All addresses\" is said with the register `x0`. A register that holds 0 is not `x0`: it names \
              address 0, and everything else stays.",
        expected: Expected::Breaks(Rule::FreedFrame),
        repair: Some("use the form without operands"),
        open: |name, form| {
            open(name, form, &[&[BOTH], &[Load(0)]], |fixed| {
                flawed::<false>(Flaw::AddressZero, fixed)
            })
        },
    },
    Protocol {
        name: "bit-cleared-while-entries-stay",
        arch: Arch::Riscv,
        record: "Linux on RISC-V, 82dd33fde026 and the revert e92105002 (commits).",
        why: "With tags, a hart that leaves a space keeps what it has cached of it. It takes itself out of \
              the set of harts to fence all the same. A page goes while it is away; it returns under the \
              same tag, and uses the old entry.",
        expected: Expected::Breaks(Rule::StaleTranslation),
        repair: Some("never clear the bit while the tag is the space's"),
        open: |name, form| {
            open(name, form, &[&[PAGE], &[Run(B), Run(A)]], |fixed| {
                flawed::<false>(Flaw::ClearsBit, fixed)
            })
        },
    },
    Protocol {
        name: "new-root-under-a-used-tag",
        arch: Arch::Riscv,
        record: "Asterinas on RISC-V, #3672, fixed by #3673; on LoongArch #3920, open when it was read; rCore#57 \
                 (eco-M7, threads).",
        why: "All spaces have the same tag, and a switch writes the root register and nothing else. A write \
              of `satp` removes nothing: the new space uses the translations of the old one. The \
              repair here goes by way of a root that maps nothing, because the machine counts the \
              moment between the write and a fence behind it as use.",
        expected: Expected::Breaks(Rule::TagNamesTwoSpaces),
        repair: Some("fence between the two roots"),
        open: |name, form| open(name, form, &[&[Run(B)]], |fixed| OneTag { fixed }),
    },
    Protocol {
        name: "remote-fence-by-firmware",
        arch: Arch::Riscv,
        record: "The SBI's remote fence, as Linux uses it (on record).",
        why: "The initiator makes its stores visible, fences itself, and has the firmware fence every hart \
              that ever ran the space under its tag. The call returns when they have. A hart joins \
              before it loads the root and never leaves.",
        expected: Expected::Sound,
        repair: None,
        open: |name, form| {
            const FIRST: &[super::kernel::Act] = &[Take(Change::Protect(0)), PAGE, TABLE];
            const SCRIPTS: Scripts = &[FIRST, &[Run(B), Run(A), Load(1), Run(B)]];
            open(name, form, SCRIPTS, |_| Firmware::<false>::new(Flaw::None))
        },
    },
];

const _: () = assert!(PAGES[0] != 0, "address 0 is none of ours");
