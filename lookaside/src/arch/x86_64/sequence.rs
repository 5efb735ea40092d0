//! The shortest sequences of instructions that invalidate something, each with the order it needs.
//!
//! What orders what on this architecture (SDM vol. 3, "Serializing
//! Instructions"; APM vol. 2, 7.6.4):
//!
//! | instruction | Intel | AMD |
//! | --- | --- | --- |
//! | `MOV CR3`, `MOV CR4`, `INVLPG` | serialising | serialising |
//! | `INVPCID` | **not** listed as serialising | serialising |
//! | `MFENCE` | orders memory accesses | serialising |
//! | `INVLPGB` | none | **weakly ordered** |
//! | `TLBSYNC` | none | serialising |
//!
//! A serialising instruction drains the store buffer before it acts. That matters because a walk
//! reads memory and not the store buffer: where an invalidation overtakes the store that it follows
//! in program order, the next walk finds the old entry and caches it again.

use super::{Instructions, Pcid, X86, invlpgb::Operands, invpcid::Command};

const CR4_PGE: u64 = 1 << 7;

impl<I: Instructions> X86<I> {
    /// `INVPCID`, after the stores of this CPU.
    pub(super) fn invpcid(&self, command: Command) {
        self.invpcids([command]);
    }

    /// `INVPCID` for all of `commands`, after the stores of this CPU.
    pub(super) fn invpcids(&self, commands: impl IntoIterator<Item = Command>) {
        // FENCE F-X86-INVPCID (pairs with walks): Intel does not list INVPCID as serialising, so it
        // might act while a store to a table is still in the store buffer, and a walk of this CPU
        // after it would cache the old entry again. MFENCE drains the buffer before the next load,
        // and INVPCID loads its descriptor.
        self.insn.mfence();
        for command in commands {
            self.insn.invpcid(command.kind(), command.descriptor());
        }
    }

    /// `INVLPG` of a canonical address: that address under the current PCID, and global entries of
    /// it under any, but see [`crate::arch::errata::INVLPG_KEEPS_GLOBALS`].
    pub(super) fn invlpg(&self, address: u64) {
        // FENCE F-X86-INVLPG (pairs with walks): serialising, so stores to tables are in memory
        // before any walk that this CPU makes after it.
        self.insn.invlpg(address);
    }

    /// Loads `CR3` with what it holds: removes everything but global entries of the current PCID.
    pub(super) fn reload(&self) {
        // The keep bit is not stored, so the value read asks for the flush. The PCID and the LAM
        // bits are, and stay.
        let value = self.insn.read_cr3();
        // FENCE F-X86-RELOAD (pairs with walks): serialising, so stores to tables are in memory
        // before any walk that this CPU makes after it.
        self.insn.write_cr3(value);
    }

    /// Toggles `CR4.PGE`: removes everything of every PCID, global entries too.
    ///
    /// Any change of the bit does (SDM vol. 3, 4.10.4.1). Two writes are needed to be back where we
    /// began, and both orders are right: from set, global entries cannot exist between the two;
    /// from clear, those that appear between the two go with the second.
    pub(super) fn toggle_pge(&self) {
        let value = self.insn.read_cr4();
        // FENCE F-X86-TOGGLE (pairs with walks): both writes are serialising, so stores to tables
        // are in memory before any walk that this CPU makes after the second.
        self.insn.write_cr4(value ^ CR4_PGE);
        self.insn.write_cr4(value);
    }

    /// Removes everything of every PCID, global entries too.
    pub(super) fn drop_everything(&self) {
        if self.has_invpcid { self.invpcid(Command::ALL) } else { self.toggle_pge() }
    }

    /// Removes at least everything but global entries of one PCID, which is not the current one.
    pub(super) fn drop_other(&self, pcid: Pcid) {
        if self.has_invpcid { self.invpcid(Command::context(pcid)) } else { self.toggle_pge() }
    }

    /// `INVLPGB` for all of `operands`, after the stores of this CPU.
    pub(super) fn begin(&self, operands: impl IntoIterator<Item = Operands>) {
        // FENCE F-X86-PUBLISH (pairs with F-X86-DONE, walks): INVLPGB is weakly ordered, so it might
        // arrive at another CPU while a store to a table is still in the store buffer here, and a
        // walk of that CPU after it would cache the old entry again.
        self.insn.mfence();
        for Operands { rax, ecx, edx } in operands {
            self.insn.invlpgb(rax, ecx, edx);
        }
    }

    /// Waits until every CPU has done the `INVLPGB`s that this one issued.
    pub(super) fn complete(&self) {
        // FENCE F-X86-DONE (pairs with F-X86-PUBLISH, each INVLPGB before it): it waits for those
        // that this CPU issued and for no others, so it is executed here, with interrupts still off.
        self.insn.tlbsync();
    }
}
