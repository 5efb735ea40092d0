//! One regime of translation on RISC-V: which instructions, in which order.

mod flush;

use super::{
    Extensions, Features, Instructions, Mode, Satp, costs,
    fence::{Plan, Planner, Reach},
    sbi::{self, HartMask, Request},
};
use crate::{
    arch::{
        Errata, Held, Invalidation, KeptLoads, Mmu, Properties, Root, Scope, SeparateRoots,
        Sharing, TableChange, Tag, Wait, errata, foreign_tag,
    },
    error::Error,
    range::{UserPage, VaRange},
};

/// How translations are removed from other harts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// By interrupting them: each executes its own fences.
    Interrupts,
    /// By the SBI extension RFENCE, too: [what the firmware is relied on
    /// for](crate::arch::riscv64#what-the-firmware-is-relied-on-for).
    Sbi,
}

/// Which tables the kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Those of the space that the hart runs, in which the kernel is mapped, too: `satp` names the space's
    /// root from [`Mmu::load`] on.
    One,
    /// The kernel's own: `satp` names [`Config::reserved`], under ASID 0, for as long as the hart is in the
    /// kernel. A *trampoline*, a page at the same address in every root, writes `satp` on the way to user
    /// mode ([`CurrentCpu::user_root`](crate::CurrentCpu::user_root)) and back. See [the
    /// trampoline](crate::arch::riscv64#the-trampoline).
    #[doc(alias = "trampoline")]
    Separate,
}

/// What a machine runs with, on every hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The mode of translation.
    pub mode: Mode,
    /// The extensions that the kernel relies on. With [`Extensions::SVINVAL`], ranges are
    /// invalidated by it.
    pub relies_on: Extensions,
    /// The reserved root: it maps the kernel as every root does, and nothing for user mode. With
    /// [`Tables::Separate`] it is the kernel's own root.
    pub reserved: Root,
    /// Which tables the kernel runs on.
    pub tables: Tables,
    /// Whether the firmware is asked to fence on other harts.
    pub remote: Remote,
}

impl Config {
    /// A kernel under SBI firmware that relies on no extension and runs on the tables of the space. Others change
    /// fields of this. Without SBI firmware, [`Self::remote`] is [`Remote::Interrupts`]: an `ECALL` from supervisor mode has
    /// nobody to answer it.
    #[must_use]
    pub const fn new(mode: Mode, reserved_root: u64) -> Self {
        let (relies_on, reserved) = (Extensions::NONE, Root::new(reserved_root));
        let (tables, remote) = (Tables::One, Remote::Sbi);
        Self { mode, relies_on, reserved, tables, remote }
    }

    /// A kernel that has a root of its own, and a trampoline to user mode, and needs no SBI firmware, as xv6 does:
    /// [`Tables::Separate`], [`Remote::Interrupts`]. It relies on no extension. `kernel_root` is the physical address of the
    /// kernel's top table, in bytes.
    #[must_use]
    pub const fn separate(mode: Mode, kernel_root: u64) -> Self {
        let (tables, remote) = (Tables::Separate, Remote::Interrupts);
        Self { tables, remote, ..Self::new(mode, kernel_root) }
    }
}

/// The translation hardware of a RISC-V hart.
///
/// # ASID 0
///
/// Unlike other tags, ASID 0 is shared: by the reserved root, by roots that are loaded under
/// [`Tag::RESERVED`], and by all roots on hardware without ASIDs. The methods keep this invariant: while
/// `satp` names another ASID, or the reserved root, *ASID 0 holds entries of the reserved root only*;
/// without ASIDs and with [`Tables::Separate`] the trampoline keeps it, too. So nothing is left behind
/// under ASID 0 through which a parked hart could walk tables that were freed meanwhile.
#[derive(Debug)]
pub struct Riscv<I> {
    instructions: I,
    mode: Mode,
    relies_on: Extensions,
    tag_bits: u32,
    /// The bits that no tag has.
    surplus: u16,
    blank: Satp,
    parked: Satp,
    tables: Tables,
    remote: Remote,
    /// The ranges that are one page in the lower half: where Svnapot may have made a page part of a larger entry, those
    /// that are known not to be.
    user_pages: UserPage,
}

impl<I: Instructions> Riscv<I> {
    /// Checks that `cpu`, the first hart, can run with `config`; its ASIDs set the number of tag
    /// bits. Where harts differ in that, pass the smallest number.
    ///
    /// With [`Remote::Sbi`] the firmware is tried out: it is asked, once in each of the two ways
    /// that are used later, to fence everything on every hart.
    ///
    /// # Errors
    ///
    /// * [`Error::Unsupported`] if the hart reports more than 16 ASID bits, or if the firmware
    ///   refuses the calls.
    /// * [`Error::MissingFeature`] if the hart lacks the mode or an extension.
    /// * [`Error::BadRoot`] if `satp` cannot hold the reserved root.
    pub fn new(instructions: I, cpu: &Features, config: Config) -> Result<Self, Error> {
        let Config { mode, relies_on, reserved, tables, remote } = config;
        if cpu.asid_bits > 16 {
            return Err(Error::Unsupported("more than 16 ASID bits"));
        }
        let tag_bits = cpu.asid_bits;
        let parked = Satp::new(mode, Tag::RESERVED.0, reserved.table)?;
        let surplus = u16::MAX.checked_shl(tag_bits).unwrap_or(0);
        let blank = Satp::blank(mode);
        let pages = UserPage::new(12, mode.virtual_bits() - 1);
        let may_be_parts = relies_on.contains(Extensions::SVNAPOT);
        let user_pages = if may_be_parts { pages.uniform() } else { pages };
        let riscv = Self {
            instructions,
            mode,
            relies_on,
            tag_bits,
            surplus,
            blank,
            parked,
            tables,
            remote,
            user_pages,
        };
        riscv.check_root(reserved)?;
        riscv.admit(cpu)?;
        if remote == Remote::Sbi {
            riscv.call(HartMask::ALL, Request::EVERYTHING)?;
            riscv.call(HartMask::ALL, Request::all(Reach::Tag(Tag::RESERVED)))?;
        }
        Ok(riscv)
    }

    /// Whether the trampoline executes `SFENCE.VMA x0, x0` after each write of `satp`, on the way to user
    /// mode and at a trap from it. It does on harts without ASIDs, where the kernel's root and all others
    /// share ASID 0.
    #[must_use]
    pub fn trampoline_fences(&self) -> bool {
        self.tag_bits == 0
    }

    /// A planner for harts of this machine with `errata`; see [`Planner::new`] for `most_leaves`.
    #[must_use]
    pub const fn planner(&self, errata: Errata, most_leaves: u64) -> Planner {
        Planner::new(self.mode, self.relies_on, errata, most_leaves)
    }

    /// Executes a plan on this hart and waits for completion. Call with interrupts off: the steps
    /// must all run on one hart.
    #[track_caller]
    pub fn execute(&self, plan: Plan) {
        for step in plan {
            step.execute(&self.instructions);
        }
        self.complete();
    }

    /// Has the firmware fence on the harts with these *hart numbers*, whichever of them may be this
    /// one, and waits for completion.
    ///
    /// # Panics
    ///
    /// If [`Remote::Sbi`] was not configured, or as [`Mmu::flush`] on this type.
    #[track_caller]
    pub fn flush_on(&self, harts: impl IntoIterator<Item = u64>, request: Request) {
        self.publish(Wait::Now);
        for mask in sbi::masks(harts) {
            self.ask(mask, request);
        }
        self.complete();
    }

    /// After the last fence of a flush.
    #[track_caller]
    fn complete(&self) {
        // FENCE F-RV-DONE (pairs with whatever tells others of completion): SFENCE.VMA orders walks,
        // and does *not* put earlier accesses before later ones in the global order
        // (`norm:sfence_vma_ordering_semantics`). A user store that was translated before the flush
        // must be performed before the flush is acknowledged and the frame is another's.
        self.instructions.fence();
    }

    /// Removes one ASID's entries.
    #[track_caller]
    fn fence_asid(&self, errata: Errata, asid: u16) {
        self.fence_all(errata, Reach::Tag(Tag(asid)));
    }

    #[track_caller]
    fn call(&self, harts: HartMask, request: Request) -> Result<(), Error> {
        let HartMask { mask, base } = harts;
        let Request { start, size, asid } = request;
        self.instructions.remote_sfence_vma(mask, base, start, size, asid)
    }

    /// Has the firmware fence, whatever it takes.
    #[track_caller]
    fn ask(&self, harts: HartMask, request: Request) {
        assert!(self.remote == Remote::Sbi, "the machine was set up without SBI remote fences");
        if self.call(harts, request).is_err()
            && self.call(HartMask::ALL, Request::EVERYTHING).is_err()
        {
            panic!("the firmware refuses a remote fence that it granted when the machine came up");
        }
    }

    /// Replaces what `satp` holds by `next`; with separate tables, unless that is the kernel's root, only prepares for
    /// the trampoline, which does so.
    #[track_caller]
    fn write_root(&self, errata: Errata, next: Satp, held: Held) {
        let outgoing = Satp::from_bits(self.instructions.read_satp());
        if self.tables == Tables::One || next == self.parked {
            return self.name_with_care(errata, outgoing, next, held);
        }
        if outgoing != self.parked {
            // A foreign root has stood in for the kernel's.
            self.name_with_care(errata, outgoing, self.parked, Held::Keep);
        }
        self.prepare_for_user(errata, next.asid(), held);
    }

    /// What is left of a load where the trampoline names the root.
    #[track_caller]
    fn prepare_for_user(&self, errata: Errata, asid: u16, held: Held) {
        // Without ASIDs nothing of user mode is held: the trampoline has fenced at the trap.
        if held == Held::Drop && asid != Tag::RESERVED.0 {
            // FENCE F-RV-DROP-USER (pairs with F-RV-SETTLE, the write of satp by the trampoline): as
            // F-RV-DROP. `satp` names the kernel's root until the trampoline writes it, so no walk makes
            // entries under this ASID before user mode runs, and none of a former owner or of revoked
            // entries is left by then.
            self.fence_asid(errata, asid);
        }
    }

    /// Writes `satp`, with the fences that the two values need.
    #[track_caller]
    fn name_with_care(&self, errata: Errata, outgoing: Satp, next: Satp, held: Held) {
        if outgoing == next {
            if held == Held::Drop {
                // FENCE F-RV-DROP-SAME (pairs with F-RV-SETTLE, walks): the stores to the tables
                // that made the entries obsolete are visible here since the switch settled, and
                // walks after this see them. The root in `satp` is the one to be loaded, so what is
                // walked after this is what is wanted.
                self.fence_asid(errata, next.asid());
            }
            return;
        }
        let zero = Tag::RESERVED.0;
        // Two roots in a row under one ASID never share entries, whatever the caller says.
        let drop = held == Held::Drop || outgoing.asid() == next.asid();
        if drop && next.asid() != zero {
            if outgoing.asid() == next.asid() {
                // The outgoing root would refill the tag as fast as it is emptied. ASID 0 is safe
                // to name here: it holds entries of the reserved root only.
                self.instructions.write_satp(self.parked.bits());
            }
            // FENCE F-RV-DROP (pairs with F-RV-SETTLE, the write of satp below): `satp` names
            // another ASID, so no walk can make entries under this one, and walks that began when
            // it did may not install them any more (privileged manual, "Virtual Address Translation
            // Process"). The first walk from the new root finds the tag empty, never a table of its
            // previous owner.
            self.fence_asid(errata, next.asid());
        }
        self.instructions.write_satp(next.bits());
        let arrives = next.asid() == zero && (drop || next != self.parked);
        let leaves = outgoing.asid() == zero && outgoing != self.parked;
        if arrives || leaves {
            // FENCE F-RV-ZERO (pairs with the write of satp above, walks): two roots stood under
            // ASID 0, one after the other, or this one follows the reserved root. After the write,
            // because no other ASID may exist to be named meanwhile (the manual asks for the fence
            // after each write of `satp` in that case). In between, the hart can meet entries of the
            // outgoing root, whose tables cannot be freed before this method returns, or of the
            // reserved one.
            self.fence_asid(errata, zero);
        }
    }
}

impl<I: Instructions> Mmu for Riscv<I> {
    type Features = Features;

    const PUBLISHES_BY_BARRIER: bool = true;

    /// An ASID means something to one hart alone (`norm:asid_hart_private`), so that nothing is shared. Absent
    /// entries may be cached with Svvptc too, which only bounds for how long: the kernel's own accesses must not
    /// fault. A hart orders the stores that built a table before its own walks only by an invalidation.
    #[inline]
    fn properties(&self) -> Properties {
        Properties {
            broadcasts: matches!(self.remote, Remote::Sbi),
            broadcasts_wait: true,
            caches_absent: true,
            first_load: Held::Drop,
            // With separate tables `satp` has ASID 0 in the kernel.
            kept_loads: match self.tables {
                Tables::One => KeptLoads::OneWrite,
                Tables::Separate => KeptLoads::None,
            },
            shares_reserved_tag: true,
            kernel_has_own_root: matches!(self.tables, Tables::Separate),
            ..Properties::plain(self.tag_bits, &costs::TYPICAL)
        }
    }

    fn admit(&self, cpu: &Features) -> Result<Errata, Error> {
        if cpu.asid_bits < self.tag_bits {
            return Err(Error::FewerTagBits { machine: self.tag_bits, cpu: cpu.asid_bits });
        }
        if cpu.mode < self.mode {
            return Err(Error::MissingFeature("the mode of translation"));
        }
        for (extension, name) in Extensions::NAMES {
            if self.relies_on.contains(extension) && !cpu.extensions.contains(extension) {
                return Err(Error::MissingFeature(name));
            }
        }
        Ok(errata::of_riscv(cpu.identity).errata)
    }

    /// See [`Satp::new`]; also, a space has one table, so `user_table` must be the same: with
    /// [`Tables::Separate`] the kernel's is [`Config::reserved`] for all spaces. Whether `satp`
    /// implements every PPN bit the hart does not say.
    fn check_root(&self, root: Root) -> Result<(), Error> {
        if root.user_table != root.table {
            return Err(Error::BadRoot { address: root.user_table });
        }
        Satp::new(self.mode, Tag::RESERVED.0, root.table).map(|_| ())
    }

    fn settle(&self) {
        // FENCE F-RV-SETTLE (pairs with F-RV-DROP, F-RV-DROP-SAME, F-RV-DROP-USER, F-RV-PUBLISH of the revoker):
        // where all harts have one tag of a space, "this hart runs the space" comes before its walks. Where tags are
        // a hart's own, F-SWITCH and F-UNLAZY-RESUME come before the read of the generation; here what this hart has
        // read by now, stores to tables among it, comes before an SFENCE.VMA.
        self.instructions.fence();
    }

    fn publish(&self, _: Wait) {
        // FENCE F-RV-PUBLISH (pairs with F-RV-SETTLE, the SFENCE.VMA that the firmware executes
        // elsewhere): an SFENCE.VMA orders only stores that are visible to the hart that executes
        // it. Stores to the tables that sit in this hart's store buffer are not. Nor may this hart's
        // look at who runs the space come before them: a hart that it misses settles after it, reads
        // the raised generation, and fences by itself.
        self.instructions.fence();
    }

    /// # Panics
    ///
    /// If `root` does not pass [`Mmu::check_root`] or `tag` has more bits than [`Properties::tag_bits`]:
    /// the surplus bits would be dropped and two spaces share a tag.
    unsafe fn load(&self, errata: Errata, root: Root, tag: Tag, held: Held, _: Sharing) {
        assert!(tag.0 & self.surplus == 0, "the tag does not fit");
        debug_assert!(self.check_root(root).is_ok(), "satp cannot hold {root:?}");
        self.write_root(errata, self.blank.fill(tag.0, root.table), held);
    }

    #[inline]
    unsafe fn load_kept(&self, _: KeptLoads, root: Root, tag: Tag) {
        self.settle();
        // From one space's ASID to another's, neither of which is 0: no fence is needed.
        debug_assert!(
            tag.0 & self.surplus == 0 && tag != Tag::RESERVED,
            "no tag of a space: {tag:?}"
        );
        self.instructions.write_satp(self.blank.fill(tag.0, root.table).bits());
    }

    /// With [`Tables::Separate`] in place of the kernel's root.
    unsafe fn load_foreign(&self, errata: Errata, root: Root) {
        debug_assert!(self.check_root(root).is_ok(), "satp cannot hold {root:?}");
        let outgoing = Satp::from_bits(self.instructions.read_satp());
        let next = self.blank.fill(foreign_tag(self.tag_bits).0, root.table);
        self.name_with_care(errata, outgoing, next, Held::Drop);
    }

    fn park(&self, errata: Errata) {
        self.write_root(errata, self.parked, Held::Keep);
    }

    /// [`Invalidation::All`] removes global entries as well: no form of `SFENCE.VMA` means "all ASIDs, but not
    /// those". A range that is not canonical, or reaches into both halves, takes the whole tag with it.
    ///
    /// If the firmware refuses a broadcast, it is asked once more, for everything on every hart. On a machine
    /// where any hart has [`errata::FENCE_OPERANDS`], pass it in `errata` on every hart.
    ///
    /// # Panics
    ///
    /// If it refuses again. It granted both calls when the machine came up, so it is broken, and there is no way
    /// to go on: returning would report a flush that did not happen.
    #[inline(always)] // Out of line, an unmap of one page takes 28 instructions more.
    fn flush(&self, errata: Errata, entries: Invalidation<'_>, scope: Scope) {
        match scope {
            Scope::Local => self.fence_here(errata, entries),
            Scope::Broadcast => self.fence_everywhere(errata, entries),
        }
        self.complete();
    }

    /// The harts have fenced when it returns. What is left for later is the ordering of this hart's own
    /// accesses.
    ///
    /// # Panics
    ///
    /// As [`Mmu::flush`] on this type.
    fn begin_broadcast(&self, errata: Errata, entries: Invalidation<'_>) {
        self.fence_everywhere(errata, entries);
    }

    fn complete_broadcast(&self, _: Errata) {
        self.complete();
    }

    /// The fences of this hart, on a machine without errata; a request to the firmware counts as one
    /// more.
    #[inline]
    fn operations(&self, range: &VaRange, change: TableChange, scope: Scope) -> Option<u64> {
        let fences =
            if change == TableChange::LastLevel && self.user_page(Errata::NONE, range).is_some() {
                1
            } else {
                self.leaves(&self.planner(Errata::NONE, u64::MAX), &[*range], change)?
            };
        Some(match scope {
            Scope::Local => fences,
            Scope::Broadcast => fences + 1,
        })
    }

    /// With [`Tables::Separate`]: whether it names the kernel's root, which is what [`Mmu::load`] leaves there.
    fn is_loaded(&self, root: Root, tag: Tag) -> bool {
        let named = match self.tables {
            Tables::One => Satp::new(self.mode, tag.0, root.table),
            Tables::Separate => Ok(self.parked),
        };
        named.is_ok_and(|named| self.instructions.read_satp() == named.bits())
    }
}

impl<I: Instructions> SeparateRoots for Riscv<I> {
    /// The value of `satp` for user mode. With [`Tables::One`] that of [`Mmu::load`].
    ///
    /// `held` changes nothing: [`Mmu::load`] has dropped the entries, and while the kernel's root is loaded
    /// the hart makes no new ones.
    ///
    /// # Panics
    ///
    /// If `tag` has more bits than [`Properties::tag_bits`].
    fn user_root(&self, root: Root, tag: Tag, _: Held, _: Sharing) -> u64 {
        assert!(tag.0 & self.surplus == 0, "the tag does not fit");
        self.blank.fill(tag.0, root.table).bits()
    }

    /// The value of `satp` for the kernel. With [`Tables::Separate`] it is the same for all spaces.
    ///
    /// # Panics
    ///
    /// As [`Self::user_root`].
    fn kernel_root(&self, root: Root, tag: Tag, sharing: Sharing) -> u64 {
        match self.tables {
            Tables::One => self.user_root(root, tag, Held::Keep, sharing),
            Tables::Separate => self.parked.bits(),
        }
    }
}

#[cfg(test)]
mod tests;
