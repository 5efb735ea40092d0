//! Spurious faults, from the registers of RISC-V.

use super::Permissions;
use crate::{
    platform::Platform,
    range::VaRange,
    space::AddressSpace,
    tlb::{CurrentCpu, Tags},
};

/// The bits of an entry.
const V: u64 = 1;
const R: u64 = 1 << 1;
const W: u64 = 1 << 2;
const X: u64 = 1 << 3;
const U: u64 = 1 << 4;

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// [`Self::spurious_fault`] on RISC-V, for an exception of user mode with this `scause` and `stval`, at whose address
    /// the kernel now reads `entry`, 0 if there is none. False if it was no page fault.
    ///
    /// The A and D flags of `entry` are not looked at. Where hardware does not set them
    /// ([`Svade`](crate::arch::riscv64::Extensions::SVADE)) the kernel sets the flag that the access needs first; otherwise
    /// the same fault comes again.
    ///
    /// # Panics
    ///
    /// As [`Self::spurious_fault`].
    #[track_caller]
    pub fn spurious_riscv_fault(
        &self,
        space: &AddressSpace<P>,
        scause: u64,
        stval: u64,
        entry: u64,
    ) -> bool {
        wanted(scause).is_some_and(|wanted| {
            self.spurious_fault(space, VaRange::page(stval), wanted, allowed(entry))
        })
    }
}

/// What the access wanted; `None` if that is no page fault.
const fn wanted(scause: u64) -> Option<Permissions> {
    let (mut read, mut write, mut execute) = (false, false, false);
    match scause {
        12 => execute = true,
        13 => read = true,
        15 => write = true,
        _ => return None,
    }
    Some(Permissions { read, write, execute })
}

/// What an entry allows user mode: nothing if it is not valid, or names a table.
const fn allowed(entry: u64) -> Permissions {
    let user = entry & (V | U) == V | U;
    Permissions {
        read: user && entry & R != 0,
        write: user && entry & W != 0,
        execute: user && entry & X != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Permissions = Permissions { read: false, write: false, execute: false };

    #[test]
    fn only_page_faults_want_something() {
        assert_eq!(wanted(12), Some(Permissions { execute: true, ..NOTHING }));
        assert_eq!(wanted(13), Some(Permissions { read: true, ..NOTHING }));
        assert_eq!(wanted(15), Some(Permissions { write: true, ..NOTHING }));
        // A breakpoint, an access fault, a call from user mode, interrupts.
        for scause in [3, 5, 8, 14, 1 << 63 | 5, 1 << 63 | 13] {
            assert_eq!(wanted(scause), None, "{scause:#x}");
        }
    }

    #[test]
    fn an_entry_allows_what_its_bits_say_if_it_is_the_users() {
        let read_write = Permissions { read: true, write: true, execute: false };
        assert_eq!(allowed(V | R | W | U), read_write);
        assert_eq!(allowed(V | X | U), Permissions { execute: true, ..NOTHING });
        // Not valid, the supervisor's, and a table.
        for entry in [R | W | X | U, V | R | W | X, V, V | U] {
            assert_eq!(allowed(entry), NOTHING, "{entry:#x}");
        }
    }
}
