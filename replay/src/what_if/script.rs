//! Knobs that change what a program does: the script is rewritten.

use std::collections::{BTreeSet, HashMap, HashSet};

use lookaside_traces::{
    Call,
    reconstruct::{Act, Initiator, Operation, Script, SpaceId, Step},
};

/// The small pages of a huge one.
pub(super) const PIECE: u32 = 512;

/// Two calls are not made as one if their pages lie further apart than this many, where they are no neighbours: Linux
/// then flushes everything for them.
const REACH: u32 = 33;

/// What huge pages change.
pub(super) struct Huge {
    /// How many steps mapped pages.
    pub(super) faults: u64,
    /// How many still do.
    pub(super) pieces: u64,
    /// How many pieces stay small pages, as they were unmapped in part and used again, and how many of the steps that mapped
    /// pages were in them.
    pub(super) small: [u64; 2],
}

/// Where the pages of a family of spaces are, that is of spaces that were forked from each other, in their new numbers.
#[derive(Default)]
struct Places {
    /// Pieces that stay small pages, in order.
    small: Vec<u32>,
}

impl Places {
    /// The new number of a page: a huge piece is one page, a small one has as many as before.
    fn of(&self, page: u32) -> u32 {
        let piece = page / PIECE;
        let (before, within) = match self.small.binary_search(&piece) {
            Ok(before) => (before, page % PIECE),
            Err(before) => (before, 0),
        };
        piece + before as u32 * (PIECE - 1) + within
    }

    /// The new first page and number of pages of a range.
    fn range(&self, first: u32, pages: u32) -> (u32, u32) {
        let start = self.of(first);
        let last = u64::from(first) + u64::from(pages).max(1) - 1;
        (start, self.of(last.min(u32::MAX.into()) as u32) - start + 1)
    }
}

/// The families of spaces, each by its first one, and the pieces that cannot be huge: a call of `munmap` took out a part of
/// them, and afterwards others of their pages were mapped. What is mapped in such parts has no huge pages in Linux.
fn places(script: &mut Script) -> (HashMap<u32, u32>, HashMap<u32, Places>) {
    let munmap = |of: &Initiator| matches!(of.operation, Operation::Call(Call::Munmap));
    let is_munmap: Vec<bool> = script.initiators.iter().map(munmap).collect();
    let (mut families, mut all) = (HashMap::new(), HashMap::<u32, BTreeSet<u32>>::new());
    let mut partly: HashSet<(u32, u32)> = HashSet::new();
    each(script, |step| {
        match step.act {
            Act::Fork { parent, child } => {
                let family = families.get(&parent.0).copied().unwrap_or(parent.0);
                families.insert(child.0, family);
            }
            // Page tables stay where others are mapped in the same 2 MiB. Where they go, what was mapped may have been
            // more than the pages that were flushed.
            Act::Unmap { space, first, pages, tables: false, .. }
                if is_munmap[step.initiator as usize] =>
            {
                let (first, end) = (u64::from(first), u64::from(first) + u64::from(pages));
                let [edge, last] = [first, end.max(1) - 1].map(|page| page / u64::from(PIECE));
                for piece in [edge, last] {
                    let start = piece * u64::from(PIECE);
                    if first > start || end < start + u64::from(PIECE) {
                        partly.insert((space.0, piece as u32));
                    }
                }
            }
            Act::Map { space, first, pages } => {
                let family = families.get(&space.0).copied().unwrap_or(space.0);
                for piece in first / PIECE..=(first.saturating_add(pages.max(1) - 1)) / PIECE {
                    if partly.contains(&(space.0, piece)) {
                        all.entry(family).or_default().insert(piece);
                    }
                }
            }
            Act::End(space) => partly.retain(|(of, _)| *of != space.0),
            _ => {}
        }
        true
    });
    let places = |small: BTreeSet<u32>| Places { small: small.into_iter().collect() };
    (families, all.into_iter().map(|(family, small)| (family, places(small))).collect())
}

/// Maps every aligned piece of 512 pages as one page, from its first fault on, but for those that cannot be huge. Pages of a
/// script are numbered in such pieces, so that page `n` becomes page `n / 512` where all are huge.
pub(super) fn huge(script: &mut Script) -> Huge {
    let (families, mut all) = places(script);
    let family = |space: SpaceId| families.get(&space.0).copied().unwrap_or(space.0);
    let small = all.values().map(|places| places.small.len() as u64).sum();
    let mut mapped: HashSet<(u32, u32)> = HashSet::new();
    let mut counts = Huge { faults: 0, pieces: 0, small: [small, 0] };
    let sizes: Vec<u64> = script.spaces.iter().map(|space| space.pages).collect();
    for (id, space) in (0..).map(SpaceId).zip(&mut script.spaces) {
        let places = all.entry(family(id)).or_default();
        // One more than it uses: a change of all pages of a space stands for a flush of everything.
        space.pages = match u32::try_from(space.pages) {
            Ok(0) => 1,
            Ok(pages) => u64::from(places.range(0, pages).1) + 1,
            Err(_) => space.pages.div_ceil(PIECE.into()) + 1,
        };
    }
    each(script, |step| {
        match &mut step.act {
            Act::Map { space, first, pages } => {
                let places = &all[&family(*space)];
                counts.faults += 1;
                let is_small = places.small.binary_search(&(*first / PIECE)).is_ok();
                counts.small[1] += u64::from(is_small);
                (*first, *pages) = places.range(*first, *pages);
                let new = (*first..*first + *pages).filter(|&page| mapped.insert((space.0, page)));
                let any = new.count() > 0 || is_small;
                counts.pieces += u64::from(any);
                return any;
            }
            Act::Restrict { space, first, pages, whole: all_pages } => {
                *all_pages |= u64::from(*pages) == sizes[space.0 as usize];
                (*first, *pages) = all[&family(*space)].range(*first, *pages);
            }
            Act::Unmap { space, first, pages, whole: everything, .. } => {
                *everything |= u64::from(*pages) == sizes[space.0 as usize];
                let whole = pages.is_multiple_of(PIECE) && first.is_multiple_of(PIECE);
                (*first, *pages) = all[&family(*space)].range(*first, *pages);
                if whole {
                    for page in *first..*first + *pages {
                        mapped.remove(&(space.0, page));
                    }
                }
            }
            Act::PageOut { space, page, .. } => *page = all[&family(*space)].of(*page),
            Act::End(space) => mapped.retain(|(of, _)| *of != space.0),
            Act::Fork { parent, child } => {
                let shared: Vec<u32> = mapped
                    .iter()
                    .filter(|(of, _)| *of == parent.0)
                    .map(|&(_, piece)| piece)
                    .collect();
                mapped.extend(shared.into_iter().map(|piece| (child.0, piece)));
            }
            Act::Run(_) | Act::Idle => {}
        }
        true
    });
    counts
}

/// Goes through all steps in the order of time, and drops those for which `keep` says so.
fn each(script: &mut Script, mut keep: impl FnMut(&mut Step) -> bool) {
    let mut order: Vec<(u64, usize, usize)> = Vec::new();
    for (cpu, steps) in script.cpus.iter().enumerate() {
        order.extend(steps.iter().enumerate().map(|(place, step)| (step.time, cpu, place)));
    }
    order.sort_unstable();
    let mut kept: Vec<Vec<bool>> =
        script.cpus.iter().map(|steps| vec![true; steps.len()]).collect();
    for (_, cpu, place) in order {
        kept[cpu][place] = keep(&mut script.cpus[cpu][place]);
    }
    for (steps, kept) in script.cpus.iter_mut().zip(kept) {
        let mut marks = kept.iter();
        steps.retain(|_| *marks.next().expect("one for each step"));
    }
}

/// Makes calls of one thread that follow each other into one. Returns how many are gone.
pub(super) fn batch(script: &mut Script) -> u64 {
    let mut gone = 0;
    let call = |script: &Script, step: &Step| match script.initiators[step.initiator as usize]
        .operation
    {
        Operation::Call(call @ (Call::Madvise | Call::ProcessMadvise | Call::Munmap)) => Some(call),
        _ => None,
    };
    for cpu in 0..script.cpus.len() {
        let mut batched: Vec<Step> = Vec::with_capacity(script.cpus[cpu].len());
        for step in core::mem::take(&mut script.cpus[cpu]) {
            let this = call(script, &step);
            if let Some(last) = batched.last_mut()
                && last.task == step.task
                && this.is_some()
                && call(script, last) == this
                && let Some(act) = joined(&last.act, &step.act, this == Some(Call::Munmap))
            {
                last.act = act;
                gone += 1;
            } else {
                batched.push(step);
            }
        }
        script.cpus[cpu] = batched;
    }
    gone
}

/// Two flushes of one space as one: of all pages between the two if they are few, else of everything. `neighbours`
/// joins those alone that touch each other.
fn joined(a: &Act, b: &Act, neighbours: bool) -> Option<Act> {
    let (
        &Act::Unmap { space, first: a_first, pages: a_pages, tables: a_tables, whole: a_whole },
        &Act::Unmap {
            space: other,
            first: b_first,
            pages: b_pages,
            tables: b_tables,
            whole: b_whole,
        },
    ) = (a, b)
    else {
        return None;
    };
    let touch = a_first + a_pages == b_first || b_first + b_pages == a_first;
    if space != other || (neighbours && !touch) {
        return None;
    }
    let (first, end) = (a_first.min(b_first), (a_first + a_pages).max(b_first + b_pages));
    let (tables, whole) = (a_tables | b_tables, a_whole | b_whole);
    Some(if touch || end - first <= REACH {
        Act::Unmap { space, first, pages: end - first, tables, whole }
    } else {
        // The pages between are none of theirs: all entries go, and of the pages those of the second.
        Act::Unmap { space, first: b_first, pages: b_pages, tables, whole: true }
    })
}

/// Has the threads of recorded programs run on some CPUs alone. Each recorded CPU becomes two lists of steps: what others
/// did, which stays there, and what the programs did, which goes to one of `cpus`.
pub(super) fn pin(script: &mut Script, cpus: &[usize]) {
    let recorded = script.cpus.len();
    let part = |steps: &[Step], ours: bool| -> Vec<Step> {
        let mut running = false;
        let mut part = Vec::new();
        for &step in steps {
            let runs = matches!(step.act, Act::Run(_));
            if of_program(script, &step) == ours && !matches!(step.act, Act::Idle) {
                running |= runs;
                part.push(step);
            } else if running && (runs || matches!(step.act, Act::Idle)) {
                running = false;
                part.push(Step { act: Act::Idle, task: 0, ..step });
            }
        }
        part
    };
    let mut lists: Vec<Vec<Step>> = script.cpus.iter().map(|steps| part(steps, false)).collect();
    lists.extend(script.cpus.iter().map(|steps| part(steps, true)));
    script.cpus = lists;
    script.places = (0..recorded)
        .chain((0..recorded).map(|cpu| match cpus.contains(&cpu) {
            true => cpu,
            false => cpus[cpu % cpus.len()],
        }))
        .collect();
}

/// Whether a step is one of a recorded program.
fn of_program(script: &Script, step: &Step) -> bool {
    match step.act {
        Act::Run(space) => script.spaces[space.0 as usize].recorded,
        _ => script.initiators[step.initiator as usize].recorded,
    }
}
