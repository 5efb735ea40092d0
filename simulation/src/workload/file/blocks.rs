//! Blocks of contiguous entries, of which hardware may hold each as one: how the strategy changes the blocks of a space whose folios
//! are as large.

use core::ops::Range;

use lookaside_machine::timed::{
    self,
    tables::{self, Mapped},
};
use lookaside_terminal::Refused;

use super::{
    Workload,
    expression::Values,
    state::State,
    units::{Mapping, THP},
};
use crate::{
    data::Isa,
    kernel::{Change, Kernel, Process},
    strategy::{
        self,
        blocks::{BLOCK, Way},
    },
    workload::Setup,
};

/// The order of blocks of contiguous entries.
pub(super) const BLOCK_ORDER: u8 = 4;

impl Workload {
    /// How blocks of contiguous entries are changed, where a space has any.
    ///
    /// # Errors
    ///
    /// If the strategy is a way to do that, and none has.
    pub(super) fn way(
        &self,
        setup: &Setup<'_>,
        values: Values<'_>,
    ) -> Result<Option<Way>, Refused> {
        let folios = || {
            let units = self.spaces.iter().flat_map(|space| &space.unit);
            units.filter(|unit| !unit.is_huge)
        };
        if strategy::is_of_blocks(setup.strategy) && folios().next().is_none() {
            let (file, name) = (&self.program.file, setup.strategy);
            return Err(Refused(format!(
                "{file}: strategy `{name}` is a way to change contiguous blocks, which no space of the file has: here it would be \
                 `linux-broadcast`. A space has them with `folio = \"64 KiB\"` or more"
            )));
        }
        let any = folios().any(|unit| unit.pages.value(values) >= BLOCK as f64);
        let is_arm = setup.machine.isa == Isa::Aarch64;
        Ok(Way::of(setup.strategy).ok().filter(|_| any && is_arm))
    }
}

/// What becomes of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entries {
    Unmap,
    Protect,
    /// A fork takes write permission.
    Share,
    /// The process exits.
    Exit,
}

impl State<'_> {
    /// Changes the entries of pages that come in folios of which blocks may be contiguous.
    pub(super) fn change_blocks(
        &self,
        kernel: &Kernel<'_>,
        process: &Process,
        mapping: &Mapping,
        pages: Range<u64>,
        how: Entries,
        child: Option<&Process>,
    ) {
        let Some(way) = self.way.filter(|_| !mapping.is_huge && mapping.unit >= BLOCK as u64)
        else {
            return;
        };
        let table = &self.tables[timed::cpu().index()];
        let (mut first, entries) = (pages.start / THP * THP, THP);
        while first < pages.end {
            let all = entries.min(process.pages - first);
            let mapped = tables::mappings(process.root, first, all);
            let slot = |page: u64| (page.clamp(first, first + all) - first) as usize;
            let slots = slot(pages.start)..slot(pages.end);
            table.arrange(mapped.iter().map(|run| {
                (slot(run.first)..slot(run.first + run.pages), run.order == BLOCK_ORDER)
            }));
            let zap = Flushes { kernel, process, first };
            timed::during("entry", || match how {
                Entries::Unmap => way.unmap(table, slots.clone(), &zap),
                Entries::Exit => way.exit(table, slots.clone(), &zap),
                Entries::Protect => way.protect(table, slots.clone(), &zap),
                Entries::Share => {
                    let folds = way.share(table, slots.clone(), &zap);
                    let Some(child) = child.filter(|_| folds) else { return };
                    let zap = Flushes { kernel, process: child, first };
                    blocks(&mapped).for_each(|block| zap.flush(block));
                }
            });
            if how != Entries::Share {
                self.cut_blocks(process, &pages, first..first + all);
            }
            first += entries;
        }
    }

    /// Blocks of which a call changes a part are pages from then on.
    fn cut_blocks(&self, process: &Process, pages: &Range<u64>, table: Range<u64>) {
        for edge in [pages.start, pages.end] {
            let block = edge - edge % BLOCK as u64;
            if edge != block && table.contains(&block) {
                let pages = (BLOCK as u64).min(process.pages - block);
                tables::set_order(process.root, block, pages, 0);
            }
        }
    }
}

/// The first pages of blocks that are contiguous.
fn blocks(mapped: &[Mapped]) -> impl Iterator<Item = u64> {
    let contiguous = mapped.iter().filter(|run| run.order == BLOCK_ORDER);
    contiguous.flat_map(|run| (run.first..run.first + run.pages).step_by(BLOCK))
}

/// The flushes of blocks, in the middle of changes of a table page.
struct Flushes<'k, 'a> {
    kernel: &'k Kernel<'a>,
    process: &'k Process,
    /// The first page of the table page.
    first: u64,
}

impl Flushes<'_, '_> {
    fn flush(&self, first: u64) {
        self.kernel.change(self.process, first, BLOCK as u64, Change::Restrict);
    }
}

impl strategy::blocks::Zap for Flushes<'_, '_> {
    fn flush_block(&self, first: u64) {
        self.flush(self.first + first);
    }

    /// What becomes of the pages is charged by paths.
    fn gone(&self, _: u64) {}
}
