//! x86-64: SDM vol. 3, 4.10.4.1 (what is removed), 9.3 (what serialises) and 4.10.1 (PCIDs); SDM vol. 2 and APM
//! vol. 3 for the operands and faults of each instruction.
//!
//! Where the vendors differ, it is what is true of both: `INVPCID` serialises on AMD and is not on Intel's list.

use core::fmt;

use crate::{Invalidation, Partial};

/// `CR0.PG`: addresses are translated.
pub const PG: u64 = 1 << 31;
/// `CR4.PGE`: entries whose `G` bit is set are global.
pub const PGE: u64 = 1 << 7;
/// `CR4.LA57`: linear addresses have 57 bits.
pub const LA57: u64 = 1 << 12;
/// `CR4.PCIDE`: `CR3` names a PCID.
pub const PCIDE: u64 = 1 << 17;

/// Bit 63 of what is written to `CR3`: nothing is removed. It is not kept.
pub const KEEP: u64 = 1 << 63;

/// Bits of `CR3` that are reserved, whatever the width of physical addresses: 62:52.
const CR3_RESERVED: u64 = 0x7ff0_0000_0000_0000;

/// Bits of `CR4` that neither vendor has given a meaning (SDM vol. 3, 2.5; APM vol. 2, 3.1.3).
const CR4_RESERVED: u64 = !0x1_1bff_7fff;

/// What the control registers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// `CR3`, without bit 63.
    pub cr3: u64,
    /// `CR4`.
    pub cr4: u64,
}

impl Registers {
    const fn has_pcids(self) -> bool {
        self.cr4 & PCIDE != 0
    }

    /// The PCID that walks cache under.
    #[must_use]
    pub const fn pcid(self) -> u16 {
        if self.has_pcids() { (self.cr3 & 0xfff) as u16 } else { 0 }
    }

    /// The physical address of the top table.
    #[must_use]
    pub const fn base(self) -> u64 {
        self.cr3 & 0x000f_ffff_ffff_f000
    }

    /// Whether the `G` bit of a descriptor is looked at.
    #[must_use]
    pub const fn has_globals(self) -> bool {
        self.cr4 & PGE != 0
    }

    /// Whether an address is canonical.
    #[must_use]
    pub const fn is_canonical(self, address: u64) -> bool {
        let low = if self.cr4 & LA57 == 0 { 47 } else { 56 };
        let top = address >> low;
        top == 0 || top == u64::MAX >> low
    }
}

/// Why an instruction raises `#GP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(&'static str);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#GP: {}", self.0)
    }
}

/// What an instruction does, once it does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Stores of the CPU before it are in memory when it acts: the next walk sees them.
    pub serialising: bool,
    /// What goes.
    pub removes: Option<Invalidation>,
    /// What the control registers hold afterwards.
    pub registers: Registers,
}

/// `MOV` to `CR3`. What is removed goes before the new root can produce anything.
///
/// # Errors
///
/// Bit 63 while `CR4.PCIDE` is clear, and reserved bits.
pub fn mov_to_cr3(registers: Registers, value: u64) -> Result<Effect, Fault> {
    if value & CR3_RESERVED != 0 {
        return Err(Fault("a reserved bit of CR3 is set"));
    }
    if value & KEEP != 0 && !registers.has_pcids() {
        return Err(Fault("bit 63 of CR3 is set and CR4.PCIDE is not"));
    }
    let after = Registers { cr3: value & !KEEP, ..registers };
    let removes = if !registers.has_pcids() {
        Some(Invalidation::all(false))
    } else {
        (value & KEEP == 0).then(|| Invalidation::of_tag(after.pcid()))
    };
    Ok(Effect { serialising: true, removes, registers: after })
}

/// `MOV` to `CR0`, from what it holds to what it is given: everything goes if paging is switched off.
#[must_use]
pub fn mov_to_cr0(before: u64, after: u64) -> Option<Invalidation> {
    (before & !after & PG != 0).then(|| Invalidation::all(true))
}

/// `MOV` to `CR4`. Any change of `PGE`, and a clearing of `PCIDE`, removes everything.
///
/// # Errors
///
/// `PCIDE` set while `CR3` has something in the place of a PCID, and reserved bits.
pub fn mov_to_cr4(registers: Registers, value: u64) -> Result<Effect, Fault> {
    if value & CR4_RESERVED != 0 {
        return Err(Fault("a reserved bit of CR4 is set"));
    }
    let changed = registers.cr4 ^ value;
    if changed & value & PCIDE != 0 && registers.cr3 & 0xfff != 0 {
        return Err(Fault("CR4.PCIDE is set while CR3[11:0] is not zero"));
    }
    let empties = changed & PGE != 0 || changed & !value & PCIDE != 0;
    Ok(Effect {
        serialising: true,
        removes: empties.then(|| Invalidation::all(true)),
        registers: Registers { cr4: value, ..registers },
    })
}

/// `INVLPG`: one address under the current PCID, global entries of it, and every partial walk of the current PCID,
/// whatever its address. Of an address that is not canonical it does nothing, and does not fault.
#[must_use]
pub fn invlpg(registers: Registers, address: u64) -> Effect {
    let page = address >> 12;
    let removes = Invalidation {
        globals: true,
        pages: (page, page),
        partial: Partial::All,
        ..Invalidation::of_tag(registers.pcid())
    };
    let removes = registers.is_canonical(address).then_some(removes);
    Effect { serialising: true, removes, registers }
}

/// A page fault: the address under the current PCID, and the partial walks under it that lead there, so that a fault
/// which memory has no reason for does not come again (SDM vol. 3, 4.10.4.1). It waits for no store.
#[must_use]
pub fn page_fault(registers: Registers, address: u64) -> Invalidation {
    let page = address >> 12;
    Invalidation {
        pages: (page, page),
        partial: Partial::Leading,
        ..Invalidation::of_tag(registers.pcid())
    }
}

/// `INVPCID` of a type, with the two quadwords of its descriptor.
///
/// It does not serialise: Intel does not list it (SDM vol. 3, 9.3). Of type 0 the manual says that "mappings" of
/// the address and PCID go, and not, as of `INVLPG`, that cached upper levels do; so they stay here.
///
/// # Errors
///
/// A type above 3, reserved bits of the descriptor, a PCID other than 0 in types 0 and 1 while `CR4.PCIDE` is
/// clear, and in type 0 an address that is not canonical.
pub fn invpcid(registers: Registers, kind: u64, descriptor: [u64; 2]) -> Result<Effect, Fault> {
    let [low, address] = descriptor;
    if low >> 12 != 0 {
        return Err(Fault("a reserved bit of the descriptor of INVPCID is set"));
    }
    let pcid = low as u16;
    if kind < 2 && pcid != 0 && !registers.has_pcids() {
        return Err(Fault("INVPCID names a PCID and CR4.PCIDE is not set"));
    }
    let removes = match kind {
        0 if !registers.is_canonical(address) => {
            return Err(Fault("the address of INVPCID is not canonical"));
        }
        0 => {
            let page = address >> 12;
            let partial = Partial::No;
            Invalidation { pages: (page, page), partial, ..Invalidation::of_tag(pcid) }
        }
        1 => Invalidation::of_tag(pcid),
        2 => Invalidation::all(true),
        3 => Invalidation::all(false),
        _ => return Err(Fault("INVPCID has no such type")),
    };
    Ok(Effect { serialising: false, removes: Some(removes), registers })
}

/// What `INVLPGB` removes on every CPU, once a `TLBSYNC` of this one has waited for it. It serialises nothing.
///
/// `RAX` holds flags (0: the address counts; 1: the PCID counts; 2: the ASID counts, which is 0 for the host; 3:
/// globals too; 4: final level only) and the address; `ECX` the number of further addresses (15:0) and the stride
/// from one to the next (31: a page of the level above the last, of `large` small pages); `EDX` the ASID (15:0)
/// and the PCID (27:16). With the larger stride it names one address in each large page, and a small page in
/// between two of them stays (APM vol. 3, INVLPGB).
///
/// # Errors
///
/// Reserved bits of `ECX` and `EDX`, a PCID while `CR4.PCIDE` is clear, an address that is not canonical, and,
/// where CPUID says how many pages there may be (`limit`), more of them.
pub fn invlpgb(
    registers: Registers,
    (rax, ecx, edx): (u64, u32, u32),
    limit: Option<u32>,
    large: u64,
) -> Result<Invalidation, Fault> {
    let flag = |bit: u32| rax & 1 << bit != 0;
    if ecx & 0x7fff_0000 != 0 {
        return Err(Fault("a reserved bit of ECX is set at INVLPGB"));
    }
    if edx >> 28 != 0 || rax & 0xfc0 != 0 {
        return Err(Fault("a reserved bit of EDX or RAX is set at INVLPGB"));
    }
    if flag(1) && !registers.has_pcids() {
        return Err(Fault("INVLPGB names a PCID and CR4.PCIDE is not set"));
    }
    if flag(0) && !registers.is_canonical(rax & !0xfff) {
        return Err(Fault("the address of INVLPGB is not canonical"));
    }
    if limit.is_some_and(|limit| ecx & 0xffff >= limit) {
        return Err(Fault("INVLPGB names more pages than the limit"));
    }
    let (pages, stride) = if flag(0) {
        let stride = if ecx & 1 << 31 != 0 { large } else { 1 };
        let first = rax >> 12;
        ((first, first + u64::from(ecx & 0xffff) * stride), stride)
    } else {
        (Invalidation::EVERYWHERE, 1)
    };
    Ok(Invalidation {
        tag: flag(1).then_some((edx >> 16 & 0xfff) as u16),
        globals: flag(3),
        pages,
        stride,
        partial: if flag(4) { Partial::No } else { Partial::Leading },
        level: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cached;

    const ON: Registers = Registers { cr3: 0x5003, cr4: PGE | PCIDE };
    const OFF: Registers = Registers { cr3: 0x5000, cr4: PGE };
    const PAGE: Cached = Cached { tag: 3, global: false, pages: (5, 5), level: 0, table: false };

    fn text<T: fmt::Debug>(result: Result<T, Fault>) -> &'static str {
        result.unwrap_err().0
    }

    #[test]
    fn invalid_register_writes_and_operands_fault() {
        assert!(mov_to_cr3(ON, 0x6000 | KEEP).is_ok());
        assert!(text(mov_to_cr3(OFF, 0x6000 | KEEP)).contains("bit 63"));
        assert!(text(mov_to_cr3(ON, 1 << 52)).contains("reserved"));
        assert!(text(mov_to_cr3(ON, 1 << 62)).contains("reserved"));
        let under = Registers { cr3: 0x5003, ..OFF };
        assert!(mov_to_cr4(OFF, PGE | PCIDE).is_ok());
        assert!(text(mov_to_cr4(under, PGE | PCIDE)).contains("PCIDE"));
        assert!(mov_to_cr4(under, 0).is_ok());
        assert!(text(mov_to_cr4(ON, ON.cr4 | 1 << 15)).contains("reserved"));
        assert!(text(mov_to_cr4(ON, ON.cr4 | 1 << 63)).contains("reserved"));
        assert!(text(invpcid(ON, 4, [0, 0])).contains("type"));
        for kind in 0..4 {
            assert!(text(invpcid(ON, kind, [1 << 12, 0])).contains("reserved"));
            assert_eq!(invpcid(OFF, kind, [1, 0]).is_ok(), kind > 1);
            assert_eq!(invpcid(ON, kind, [1, 1 << 47]).is_ok(), kind > 0);
        }
        let wide = Registers { cr4: ON.cr4 | LA57, ..ON };
        assert!(invpcid(wide, 0, [1, 1 << 47]).is_ok());
        assert!(invpcid(wide, 0, [1, 1 << 56]).is_err());
        assert!(text(invlpgb(ON, (0, 1 << 16, 0), None, 512)).contains("ECX"));
        assert!(text(invlpgb(ON, (0, 0, 1 << 28), None, 512)).contains("EDX"));
        assert!(text(invlpgb(OFF, (2, 0, 0), None, 512)).contains("PCID"));
        assert!(text(invlpgb(ON, (1 << 47 | 1, 0, 0), None, 512)).contains("canonical"));
        assert!(invlpgb(ON, (1, 7, 0), Some(8), 512).is_ok());
        assert!(text(invlpgb(ON, (1, 8, 0), Some(8), 512)).contains("limit"));
    }

    #[test]
    fn cr_writes_and_invlpg_serialise_and_invpcid_does_not() {
        assert!(mov_to_cr3(ON, 0).unwrap().serialising);
        assert!(mov_to_cr4(ON, 0).unwrap().serialising);
        assert!(invlpg(ON, 0).serialising);
        assert!(!invpcid(ON, 2, [0, 0]).unwrap().serialising);
    }

    #[test]
    fn invalidations_name_the_entries_that_they_remove() {
        let global = Cached { global: true, ..PAGE };
        let table = Cached { table: true, level: 1, pages: (0x200, 0x3ff), ..PAGE };
        let other = Cached { tag: 4, ..PAGE };
        let named = |what: Invalidation| [PAGE, global, table, other].map(|of| what.names(&of));
        assert_eq!(named(invlpg(ON, 0x5000).removes.unwrap()), [true, true, true, false]);
        assert_eq!(invlpg(ON, 1 << 47).removes, None);
        let fault = page_fault(ON, 0x5000);
        assert_eq!(named(fault), [true, false, false, false]);
        assert!(fault.names(&Cached { pages: (0, 0x1ff), ..table }));
        let one = invpcid(ON, 0, [3, 0x5000]).unwrap().removes.unwrap();
        assert_eq!(named(one), [true, false, false, false]);
        assert!(!one.names(&Cached { pages: (0, 0x1ff), ..table }));
        let pcid = invpcid(ON, 1, [3, 0]).unwrap().removes.unwrap();
        assert_eq!(named(pcid), [true, false, true, false]);
    }

    #[test]
    fn a_large_stride_names_one_page_in_each() {
        let what = invlpgb(ON, (0x5000 | 1, 1 << 31 | 2, 0), None, 512).unwrap();
        let named = |page: u64| what.names(&Cached { pages: (page, page), ..PAGE });
        assert!(named(5) && named(517) && named(1029));
        assert!(!named(6) && !named(516) && !named(1541));
        assert!(what.names(&Cached { pages: (512, 1023), level: 1, ..PAGE }));
    }

    #[test]
    fn control_registers() {
        let reload = mov_to_cr3(ON, 0x6004).unwrap();
        assert_eq!((reload.registers.pcid(), reload.registers.base()), (4, 0x6000));
        assert_eq!(reload.removes, Some(Invalidation::of_tag(4)));
        assert_eq!(mov_to_cr3(ON, 0x6004 | KEEP).unwrap().removes, None);
        assert_eq!(mov_to_cr3(OFF, 0x6004).unwrap().removes, Some(Invalidation::all(false)));
        let everything = Some(Invalidation::all(true));
        assert_eq!(mov_to_cr4(ON, PCIDE).unwrap().removes, everything);
        assert_eq!(mov_to_cr4(ON, PGE).unwrap().removes, everything);
        assert_eq!(mov_to_cr4(OFF, OFF.cr4 | PCIDE).unwrap().removes, None);
        assert_eq!(mov_to_cr4(ON, ON.cr4).unwrap().removes, None);
        assert_eq!(mov_to_cr0(PG | 1, 1), everything);
        assert_eq!(mov_to_cr0(PG | 1, PG), None);
        assert_eq!(mov_to_cr0(1, PG | 1), None);
    }
}
