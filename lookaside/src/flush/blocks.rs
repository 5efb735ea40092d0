//! Flushing in the middle of a change of block sizes.

use super::gather::Gather;
use crate::{
    contig,
    platform::Platform,
    range::VaRange,
    space::AddressSpace,
    tlb::{CurrentCpu, Tags},
};

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// What [`crate::contig`] calls between taking a block of `space` out and writing its pages back:
    /// a gather of that one block, flushed at once.
    ///
    /// It is called with the lock of the table held. Where flushes need IPIs, a CPU that spins for
    /// that lock with interrupts off must call [`Self::handle_ipi`] meanwhile.
    ///
    /// Entries that the operation unmaps for good are not flushed here: put them into your own gather, which is
    /// flushed once, in the end, for all tables.
    ///
    /// ```
    /// use core::sync::atomic::AtomicU64;
    /// use lookaside::{
    ///     Cpu, GlobalAsids, Gather, Platform, Tlb, VaRange,
    ///     arch::{Root, Sharing, aarch64::{*, descriptor::*}},
    ///     contig::{Arm, Entries, Full, Raw, SizeChange},
    ///     platform::{CpuId, Targets},
    ///     tags::GlobalAsidsConfig,
    /// };
    /// # struct Native;
    /// # impl Instructions for Native {
    /// #     fn tlbi(&self, _: Tlbi) {}
    /// #     fn dsb(&self, _: Dsb) {}
    /// #     fn isb(&self) {}
    /// #     fn write_ttbr0(&self, _: u64) {}
    /// #     fn read_ttbr1(&self) -> u64 { 0 }
    /// #     fn write_ttbr1(&self, _: u64) {}
    /// #     fn ic_iallu(&self) {}
    /// # }
    /// # struct Hw(Aarch64<Native>);
    /// # unsafe impl Platform for Hw {
    /// #     type Word = AtomicU64;
    /// #     type Mmu = Aarch64<Native>;
    /// #     type IrqsOff = ();
    /// #     type Tables = Root;
    /// #     type ResidentWords = [AtomicU64; 1];
    /// #     fn root(root: &Root) -> Root { *root }
    /// #     fn unreleased(_: u64) {}
    /// #     fn mmu(&self) -> &Self::Mmu { &self.0 }
    /// #     fn cpu(&self) -> CpuId { CpuId(0) }
    /// #     fn send_ipi(&self, _: Targets) {}
    /// #     fn relax(&self) {}
    /// # }
    /// # fn main() -> Result<(), lookaside::Error> {
    /// # let features = Features::decode(IdRegisters { mmfr0: 5 | 2 << 4, ..Default::default() });
    /// # let hw = Hw(Aarch64::new(Native, Config {
    /// #     features,
    /// #     tcr: registers::tcr(16, &features),
    /// #     reserved_root: 0x4000_1000,
    /// #     sharing: Sharing::Private,
    /// #     pairing: Pairing::Single,
    /// #     asid_in: AsidIn::Ttbr0,
    /// # })?);
    /// # let mut storage = [const { AtomicU64::new(0) }; GlobalAsids::<Hw>::words_for(1 << 16)];
    /// # let tags = GlobalAsids::new(&hw, GlobalAsidsConfig::default(), &mut storage)?;
    /// # let mut cpus = [const { Cpu::new() }; 4];
    /// # let tlb = Tlb::new(hw, tags, &mut cpus)?;
    /// # tlb.online(&(), &features)?;
    /// # let this_cpu = tlb.this_cpu(&());
    /// # let space = tlb.space(Root::new(0x4010_0000), [AtomicU64::new(0)])?;
    /// # let arm = Arm::new(Geometry::new(Granule::K4, AddressSize::Bits48));
    /// # let words = [const { AtomicU64::new(0) }; 512];
    /// // 32 pages at 0x20_0000, in two blocks of 64 KiB.
    /// // SAFETY: this is the space's table, and we hold its lock.
    /// let mut table = unsafe { Entries::new(arm, &words, 0x20_0000)?.locked(SizeChange::Flushed) };
    /// let page = VALID | TABLE_OR_PAGE | NOT_GLOBAL | READ_ONLY | DIRTY_BIT_MODIFIER;
    /// table.set(0..32, Raw(0x8000_0000 | page))?;
    /// # let _ = this_cpu.switch(&space);
    ///
    /// // munmap of the last 28 pages. The first block is cut, and only there is something flushed
    /// // while the lock is held.
    /// let mut gather = Gather::holding(&space, Vec::new());
    /// let cleared = table.get_and_clear(4..32, Full::No, &mut this_cpu.flush_blocks(&space))?;
    /// gather.revoke(VaRange::new(0x20_4000, 28 << 12, 12)?);
    /// gather.found(cleared.flags);
    /// gather.hold_page(0x8000_4000_u64..0x8002_0000);
    ///
    /// // The lock is let go. One flush for all tables, and then the pages are free.
    /// let flushed = this_cpu.flush(gather);
    /// assert!(!flushed.flags.dirty, "the pages need not be written back");
    /// assert_eq!(flushed.frames, [0x8000_4000..0x8002_0000]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the space is of another [`crate::Tlb`].
    #[track_caller]
    pub fn flush_blocks(&self, space: &AddressSpace<P>) -> impl contig::Flush {
        self.must_own(space.tlb); // Now, and not when a block has been taken out.
        move |block: VaRange| {
            let mut gather = Gather::new(space);
            gather.revoke(block);
            // The flush keeps the promise of the closure's trait; no frame was held.
            let _ = self.flush(gather);
        }
    }
}
