//! Pages get small numbers: steps are found with addresses, and written with numbers.

use std::collections::BTreeSet;

use lookaside_terminal::Refused;

use crate::reconstruct::{Act, SpaceId, Step, bits::PIECE};

/// A step whose pages are addresses, divided by the size of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    pub(super) time: u64,
    pub(super) task: u32,
    pub(super) initiator: u32,
    pub(super) counted: bool,
    pub(super) act: RawAct,
}

/// As [`Act`].
#[derive(Clone, Copy, Debug)]
pub(super) enum RawAct {
    Run(u32),
    Idle,
    Map { space: u32, first: u64, last: u64 },
    Restrict { space: u32, first: u64, last: u64, whole: bool },
    Unmap { space: u32, first: u64, last: u64, tables: bool, whole: bool },
    PageOut { space: u32, page: u64 },
    Fork { parent: u32, child: u32 },
    End(u32),
}

/// Stands for the last page, of all pages of a space.
pub(super) const ALL: u64 = u64::MAX;

/// The pieces that the spaces of each family use.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<BTreeSet<u64>>);

/// The numbers of the pieces of one family.
struct Numbers {
    /// Piece and number, by piece.
    numbers: Vec<(u64, u64)>,
    /// How many pages there is room for.
    pages: u64,
}

impl Pieces {
    /// A family uses a page.
    pub(super) fn add(&mut self, family: u32, page: u64) {
        let family = family as usize;
        if self.0.len() <= family {
            self.0.resize_with(family + 1, BTreeSet::new);
        }
        self.0[family].insert(page / PIECE);
    }

    /// Turns addresses into numbers. `family` says to which family each space belongs.
    ///
    /// # Errors
    ///
    /// If a space has more pages than numbers.
    pub(super) fn number(
        self,
        raw: Vec<Vec<Raw>>,
        family: &[u32],
    ) -> Result<(Vec<Vec<Step>>, Vec<u64>), Refused> {
        let mut families: Vec<Numbers> = self.0.into_iter().map(Numbers::new).collect();
        let most = family.iter().max().map_or(0, |family| *family as usize + 1);
        families.resize_with(most.max(families.len()), || Numbers::new(BTreeSet::new()));
        if families.iter().any(|numbers| u32::try_from(numbers.pages).is_err()) {
            return Err(Refused("a space has more than 2^32 pages".into()));
        }
        let of = |space: u32| &families[family[space as usize] as usize];
        // CPU by CPU, so that no more than one is there in both forms.
        let cpus = raw
            .into_iter()
            .map(|steps| {
                steps
                    .into_iter()
                    .map(|Raw { time, task, initiator, counted, act }| {
                        let act = act.number(&of);
                        Step { time, task, initiator, counted, act }
                    })
                    .collect()
            })
            .collect();
        Ok((cpus, family.iter().map(|family| families[*family as usize].pages).collect()))
    }
}

impl Numbers {
    fn new(pieces: BTreeSet<u64>) -> Self {
        let mut next = 0;
        let mut before = None;
        let mut numbers = Vec::with_capacity(pieces.len());
        for piece in pieces {
            // One unused piece stands for a gap of any size.
            next += u64::from(before.is_some_and(|before| before + 1 != piece));
            numbers.push((piece, next));
            (before, next) = (Some(piece), next + 1);
        }
        Self { numbers, pages: next.max(1) * PIECE }
    }

    fn page(&self, page: u64) -> u32 {
        match self.numbers.binary_search_by_key(&(page / PIECE), |(piece, _)| *piece) {
            Ok(place) => (self.numbers[place].1 * PIECE + page % PIECE) as u32,
            Err(_) => 0,
        }
    }

    fn span(&self, first: u64, last: u64) -> (u32, u32) {
        if last == ALL {
            return (0, self.pages as u32);
        }
        let (first, last) = (self.page(first), self.page(last));
        (first, last.saturating_sub(first) + 1)
    }
}

impl RawAct {
    fn number<'n>(self, of: &impl Fn(u32) -> &'n Numbers) -> Act {
        match self {
            Self::Run(space) => Act::Run(SpaceId(space)),
            Self::Idle => Act::Idle,
            Self::Map { space, first, last } => {
                let (first, pages) = of(space).span(first, last);
                Act::Map { space: SpaceId(space), first, pages }
            }
            Self::Restrict { space, first, last, whole } => {
                let (first, pages) = of(space).span(first, last);
                Act::Restrict { space: SpaceId(space), first, pages, whole }
            }
            Self::Unmap { space, first, last, tables, whole } => {
                let (first, pages) = of(space).span(first, last);
                Act::Unmap { space: SpaceId(space), first, pages, tables, whole }
            }
            Self::PageOut { space, page } => {
                Act::PageOut { space: SpaceId(space), page: of(space).page(page) }
            }
            Self::Fork { parent, child } => {
                Act::Fork { parent: SpaceId(parent), child: SpaceId(child) }
            }
            Self::End(space) => Act::End(SpaceId(space)),
        }
    }
}
