//! Flushing a few addresses instead of a whole tag.

use super::{
    Instructions, X86,
    errata::INVLPG_KEEPS_GLOBALS,
    invlpgb::{PageLimit, Plan, Scope},
    invpcid::Command,
};
use crate::{
    arch::{Errata, Mmu, Tag},
    error::Error,
    range::VaRange,
};

impl<I: Instructions> X86<I> {
    /// Removes what this CPU holds for one address under `tag`, in both halves of a pair, and waits
    /// for completion. Global entries of the address may stay: they belong to
    /// [`Self::flush_global_page`].
    ///
    /// Cached upper levels of the walk go too, so that this is enough where a table was freed.
    ///
    /// # Errors
    ///
    /// [`Error::NonCanonical`]; nothing was done then, and nothing can be cached.
    ///
    /// # Panics
    ///
    /// If `tag` does not fit [`Mmu::tag_bits`].
    pub fn flush_page(&self, errata: Errata, tag: Tag, address: u64) -> Result<(), Error> {
        self.levels.check(address)?;
        let kernel = self.kernel_pcid(tag);
        let user = self.user_pcid(tag);
        if !self.has_pcids() {
            self.invlpg(address);
        } else if user.is_none() && self.is_current(kernel) {
            // Also where INVLPG_KEEPS_GLOBALS: what it keeps is no entry of a tag.
            self.invlpg(address);
        } else if self.has_invpcid {
            self.invpcid(Command::address(kernel, address, self.levels)?);
            if let Some(user) = user {
                self.invpcid(Command::address(user, address, self.levels)?);
            }
        } else {
            self.flush_tag(errata, tag);
        }
        Ok(())
    }

    /// Removes what this CPU holds for one address that is mapped globally, and waits for
    /// completion.
    ///
    /// Kernel addresses that are *not* mapped globally are cached under every tag that ran, and no
    /// instruction names an address under all of them: those need [`Mmu::flush_all`].
    ///
    /// # Errors
    ///
    /// [`Error::NonCanonical`]; nothing was done then, and nothing can be cached.
    pub fn flush_global_page(&self, errata: Errata, address: u64) -> Result<(), Error> {
        self.levels.check(address)?;
        if self.has_pcids() && errata.contains(INVLPG_KEEPS_GLOBALS) {
            self.drop_everything();
        } else {
            self.invlpg(address);
        }
        Ok(())
    }

    /// Removes what any CPU holds for `range` under `tag`, in both halves of a pair, and waits for
    /// completion. Global entries stay.
    ///
    /// # Errors
    ///
    /// * [`Error::Unsupported`] unless [`Mmu::broadcasts`].
    /// * [`Error::NonCanonical`] if an address of the range is not canonical.
    ///
    /// Nothing was done then.
    ///
    /// # Panics
    ///
    /// If `tag` does not fit [`Mmu::tag_bits`].
    pub fn flush_range_everywhere(&self, tag: Tag, range: &VaRange) -> Result<(), Error> {
        let limit = self.limit()?;
        let plan = |scope| Plan::new(range, scope, limit, self.levels);
        let kernel = self.kernel_pcid(tag);
        if self.has_pcids() {
            let user = self.user_pcid(tag).map(|user| plan(Scope::Pcid(user))).transpose()?;
            self.broadcast_plans(plan(Scope::Pcid(kernel))?, user);
        } else {
            // Matching by PCID would fault.
            self.broadcast_plans(plan(Scope::EveryPcid)?, None);
        }
        Ok(())
    }

    /// Removes what any CPU holds for `range` under any tag, global entries too, and waits for
    /// completion.
    ///
    /// # Errors
    ///
    /// As for [`Self::flush_range_everywhere`].
    pub fn flush_global_range_everywhere(&self, range: &VaRange) -> Result<(), Error> {
        self.broadcast_plans(
            Plan::new(range, Scope::WithGlobal, self.limit()?, self.levels)?,
            None,
        );
        Ok(())
    }

    fn limit(&self) -> Result<PageLimit, Error> {
        self.invlpgb.ok_or(Error::Unsupported("INVLPGB"))
    }
}
