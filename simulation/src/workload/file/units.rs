//! Memory that comes in more than pages of 4 KiB: huge pages, which have one entry each, and large folios, of which each page has an
//! entry. What Linux does with them is in `workloads/README.md`.

use core::ops::Range;

use lookaside_machine::timed::tables::{self, Mapped};
use lookaside_terminal::Refused;

use super::{
    Space, Unit, Workload,
    blocks::{BLOCK_ORDER, Entries},
    expression::{Expression, Values},
    page_set::PageSet,
    state::State,
    statement::Pages,
    thread::{Next, Thread},
};
use crate::{
    data::Isa,
    kernel::{Change, Kernel, Process},
    strategy::SpaceId,
    workload::Setup,
};

/// The pages of a huge page that an entry of the level above the last maps: those that Linux gives without being asked (THP), and
/// splits. Larger and smaller ones are those of hugetlbfs.
pub(super) const THP: u64 = 512;

/// Adds the paths that memory in huge pages or folios takes, to those of what statements do with pages.
pub(super) fn add_paths(paths: &mut Vec<&'static str>, spaces: &[Space]) {
    let of =
        |huge: bool| spaces.iter().flat_map(|space| &space.unit).any(|unit| unit.is_huge == huge);
    let is_batched = spaces
        .iter()
        .flat_map(|space| &space.unit)
        .all(|unit| matches!(unit.batched, Expression::Number(number) if number != 0.0));
    let frees = paths.contains(&"freed");
    let forks = paths.contains(&"forked");
    let all = [
        ("clear", true),
        ("entry", frees || forks),
        ("unbatched", of(false) && frees && !is_batched),
        ("freed_huge", of(true) && frees),
        ("forked_huge", of(true) && forks),
        ("split", of(true) && (frees || forks || paths.contains(&"page"))),
    ];
    paths.extend(all.into_iter().filter(|(_, is_taken)| *is_taken).map(|(path, _)| path));
}

/// The sizes of huge pages of an instruction set, in pages of 4 KiB, and their names. Those between the levels of page tables are runs
/// of contiguous entries, of which the hardware may hold each as one.
const fn sizes(isa: Isa) -> &'static [(u64, &'static str)] {
    match isa {
        Isa::X86_64 => &[(512, "2 MiB"), (262_144, "1 GiB")],
        Isa::Aarch64 => &[(16, "64 KiB"), (512, "2 MiB"), (8192, "32 MiB"), (262_144, "1 GiB")],
        Isa::Riscv64 => &[(16, "64 KiB"), (512, "2 MiB"), (262_144, "1 GiB")],
    }
}

impl Workload {
    /// Refuses huge pages that the machine has not, and folios that Linux has not.
    pub(super) fn check_units(&self, setup: &Setup<'_>, values: Values<'_>) -> Result<(), Refused> {
        for unit in self.spaces.iter().flat_map(|space| &space.unit) {
            let pages = unit.pages.value(values);
            let refuse =
                |why: String| Err(Refused(format!("{}:{}: {why}", self.program.file, unit.line)));
            if pages == 1.0 {
                continue;
            }
            if unit.is_huge {
                let isa = setup.machine.isa;
                if !sizes(isa).iter().any(|(size, _)| *size as f64 == pages) {
                    let known: Vec<&str> = sizes(isa).iter().map(|(_, name)| *name).collect();
                    return refuse(format!(
                        "`size` is {}, which {} has not; it has 4 KiB, {}. Large folios of other sizes are mapped by `folio`",
                        said(pages),
                        isa.name(),
                        known.join(", ")
                    ));
                }
            } else if !(1.0..=THP as f64).contains(&pages)
                || !(pages as u64).is_power_of_two()
                || pages.fract() != 0.0
            {
                return refuse(format!(
                    "`folio` is {}; a folio of Linux's anonymous memory is a power of two times 4 KiB, up to 2 MiB",
                    said(pages)
                ));
            }
        }
        Ok(())
    }
}

/// A number of pages as a size.
fn said(pages: f64) -> String {
    match pages * 4.0 {
        kib if kib >= 1024.0 && kib % 1024.0 == 0.0 => format!("{} MiB", kib / 1024.0),
        kib => format!("{kib} KiB"),
    }
}

/// The memory of a process that comes in more than pages of 4 KiB.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    mapping: Mapping,
    /// Pages that are of no folio or huge page any more: they were copied, or came back by themselves.
    single: PageSet,
}

/// How it comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    /// How many pages a fault maps: a power of two above one.
    pub(super) unit: u64,
    /// The binary logarithm of the pages that a TLB may hold as one.
    order: u8,
    pub(super) is_huge: bool,
    /// Whether a call changes the entries of a folio together.
    batched: bool,
    /// Whether the first write to a huge page that is shared copies all of it.
    whole: bool,
}

/// What a call has to do with pages that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Census {
    /// Pages, and folios whose entries change together.
    folios: u64,
    /// Further pages of those folios.
    further: u64,
    huge: u64,
    /// The order of the smallest entries.
    order: u8,
}

impl Mapping {
    /// That of a space; none if it comes in pages of 4 KiB. Its blocks are contiguous if there are `blocks`.
    pub(super) fn new(unit: &Unit, values: Values<'_>, blocks: bool) -> Option<Self> {
        let pages = unit.pages.value(values) as u64;
        let log = pages.checked_ilog2()? as u8;
        let order = match (unit.is_huge, log >= BLOCK_ORDER && blocks) {
            (true, _) => log,
            (false, true) => BLOCK_ORDER,
            (false, false) => 0,
        };
        (pages > 1).then(|| Self {
            unit: pages,
            order,
            is_huge: unit.is_huge,
            batched: unit.batched.value(values) != 0.0,
            whole: unit.whole.value(values) != 0.0,
        })
    }

    /// A process whose memory comes so, of which the first pages are mapped before the run.
    pub(super) fn begin(self, process: &Process, mapped: u64) -> Memory {
        tables::map(process.root, 0, mapped, self.order);
        Memory { mapping: self, single: PageSet::default() }
    }

    /// Whether a huge page can become pages.
    const fn is_split(&self) -> bool {
        self.is_huge && self.unit == THP
    }

    /// The pages of the folio or huge page of a page.
    const fn around(&self, page: u64) -> [u64; 2] {
        [page - page % self.unit, self.unit]
    }

    fn census(&self, mapped: &[Mapped], single: &PageSet) -> Census {
        let order = mapped.iter().map(|run| tables::order_of_entries(run.order)).min();
        let mut census = Census { order: order.unwrap_or(0), ..Census::default() };
        for run in mapped {
            if self.is_huge && run.order == self.order {
                census.huge += run.pages.div_ceil(self.unit);
                continue;
            }
            let mut next = run.first;
            while next < run.first + run.pages {
                let end = (next - next % self.unit + self.unit).min(run.first + run.pages);
                let single = single.count(next..end);
                let together = end - next - single;
                census.folios += single + u64::from(together > 0);
                census.further += together.saturating_sub(1);
                next = end;
            }
        }
        census
    }

    /// What the kernel does with them takes: a path for each page or folio, one for the further pages of folios, and another for each
    /// huge page.
    fn charge(&self, kernel: &Kernel<'_>, census: &Census, page: &'static str) {
        let huge = match page {
            "freed" if self.is_split() => "freed_huge",
            "forked" if self.is_split() => "forked_huge",
            other => other,
        };
        // A fork copied entries of folios one by one as those of pages; what goes of a folio is given back once.
        let further = match page {
            "page" => page,
            _ if self.batched => "entry",
            "freed" => "unbatched",
            other => other,
        };
        let all = [(page, census.folios), (further, census.further), (huge, census.huge)];
        for (path, times) in all.into_iter().filter(|(_, times)| *times > 0) {
            kernel.path(path, times * kernel.machine().path_or_none(path));
        }
    }
}

impl State<'_> {
    fn mapping(&self, process: SpaceId) -> Option<Mapping> {
        self.memory.borrow().get(&process).map(|memory| memory.mapping)
    }

    /// Pages of a process are of no folio or huge page any more.
    fn set_single(&self, process: SpaceId, pages: Range<u64>) {
        if let Some(memory) = self.memory.borrow_mut().get_mut(&process) {
            memory.single.insert(pages);
        }
    }

    /// Pages of a process went, or came as a whole.
    fn set_together(&self, process: SpaceId, pages: Range<u64>) {
        if let Some(memory) = self.memory.borrow_mut().get_mut(&process) {
            memory.single.remove(pages);
        }
    }

    fn census(&self, process: SpaceId, mapped: &[Mapped]) -> Census {
        let memory = self.memory.borrow();
        let of = |memory: &Memory| memory.mapping.census(mapped, &memory.single);
        memory.get(&process).map_or_else(Census::default, of)
    }

    /// A process has ended, or runs another program.
    pub(super) fn end_memory(&self, process: SpaceId) {
        self.memory.borrow_mut().remove(&process);
    }

    /// Whether the memory of a process comes in more than pages of 4 KiB.
    pub(super) fn has_units(&self, process: SpaceId) -> bool {
        self.memory.borrow().contains_key(&process)
    }

    /// A child has its parent's memory.
    pub(super) fn map_child(&self, parent: SpaceId, child: SpaceId) {
        let mut memory = self.memory.borrow_mut();
        let of_parent = memory.get(&parent).cloned();
        memory.extend(of_parent.map(|of_parent| (child, of_parent)));
    }

    /// A process is about to lose pages by a fork, its exit or another program: what its entries take, with how many there are.
    /// `child` has them as well.
    pub(super) fn charge_all(
        &self,
        kernel: &Kernel<'_>,
        process: &Process,
        child: Option<&Process>,
    ) {
        let Some(mapping) = self.mapping(process.id) else { return };
        let mapped = tables::mappings(process.root, 0, process.pages);
        mapping.charge(kernel, &self.census(process.id, &mapped), "forked");
        let how = if child.is_some() { Entries::Share } else { Entries::Exit };
        self.change_blocks(kernel, process, &mapping, 0..process.pages, how, child);
    }
}

impl Thread {
    /// A fault of a page that is not there: it maps its folio or huge page, if nothing of that is there.
    pub(super) fn fault(&self, state: &State<'_>, kernel: &Kernel<'_>, page: u64) {
        state.path(kernel, "fault");
        let process = &self.process;
        let Some(mapping) = state.mapping(process.id) else {
            return tables::map(process.root, page, 1, 0);
        };
        let [first, pages] = mapping.around(page);
        let is_free =
            first + pages <= process.pages && tables::mapped(process.root, first, pages).is_none();
        if !is_free {
            state.set_single(process.id, page..page + 1);
            return tables::map(process.root, page, 1, 0);
        }
        kernel.path("clear", (pages - 1) * kernel.machine().path_or_none("clear"));
        state.set_together(process.id, first..first + pages);
        tables::map(process.root, first, pages, mapping.order);
    }

    /// Maps pages that were not touched, which are whole folios or huge pages.
    pub(super) fn populate(
        &self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        pages: &Pages,
    ) -> Result<Next, String> {
        let [first, pages] = self.pages(state, pages)?;
        let order = match state.mapping(self.process.id) {
            None => 0,
            Some(mapping) => {
                mapping.must_be_whole(first, pages)?;
                let all = first..first + pages;
                state.set_together(self.process.id, all);
                mapping.order
            }
        };
        kernel.map_entries(&self.process, first, pages, order);
        Ok(Next::Go)
    }

    /// Changes pages of a process whose memory comes in folios or huge pages: from the first that was there to the last.
    pub(super) fn change_units(
        &self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        [first, pages]: [u64; 2],
        (path, change): (&'static str, Change),
    ) -> Result<(), String> {
        let process = &self.process;
        let Some(mapping) = state.mapping(process.id) else { return Ok(()) };
        if mapping.is_huge && !mapping.is_split() {
            mapping.must_be_whole(first, pages)?;
        }
        for edge in [first, first + pages] {
            self.split_at(state, kernel, &mapping, edge);
        }
        let mapped = tables::mappings(process.root, first, pages);
        let census = state.census(process.id, &mapped);
        mapping.charge(kernel, &census, path);
        let goes = matches!(change, Change::Unmap | Change::Free);
        let how = if goes { Entries::Unmap } else { Entries::Protect };
        state.change_blocks(kernel, process, &mapping, first..first + pages, how, None);
        self.set_permission(state, first..first + pages, change);
        if goes {
            let all = first..first + pages;
            state.set_together(process.id, all);
        }
        let there = match (change, &mapped[..]) {
            (Change::Free, _) => Some([first, pages]),
            (_, []) => None,
            (_, [one, .., last]) => Some([one.first, last.first + last.pages - one.first]),
            (_, [one]) => Some([one.first, one.pages]),
        };
        if let Some(pages) = there.filter(|[_, pages]| *pages > 0) {
            kernel.change_entries(process, pages, census.order, change);
        }
        Ok(())
    }

    /// If a huge page goes across that page, it becomes pages (Linux: `split_huge_pmd`).
    fn split_at(&self, state: &State<'_>, kernel: &Kernel<'_>, mapping: &Mapping, page: u64) {
        if mapping.is_split() && !page.is_multiple_of(mapping.unit) {
            self.split(state, kernel, mapping, page);
        }
    }

    /// The huge page of that page becomes pages, if it is one.
    fn split(&self, state: &State<'_>, kernel: &Kernel<'_>, mapping: &Mapping, page: u64) {
        if self.order_of(page) != mapping.order {
            return;
        }
        let [first, pages] = mapping.around(page);
        state.path(kernel, "split");
        tables::set_order(self.process.root, first, pages, 0);
        kernel.change_entries(&self.process, [first, pages], mapping.order, Change::Restrict);
    }

    fn order_of(&self, page: u64) -> u8 {
        tables::mappings(self.process.root, page, 1).first().map_or(0, |run| run.order)
    }

    /// A write has faulted at a page that is there: of a huge page, what becomes of it. Says which pages the fault was about.
    pub(super) fn write_unit(
        &self,
        state: &State<'_>,
        kernel: &Kernel<'_>,
        page: u64,
        is_copy: bool,
    ) -> ([u64; 2], u8) {
        let process = &self.process;
        let one = ([page, 1], 0);
        let Some(mapping) = state.mapping(process.id) else { return one };
        let order = self.order_of(page);
        if !mapping.is_huge || order != mapping.order {
            // A block of which one entry changes becomes pages.
            if order == BLOCK_ORDER && !mapping.is_huge {
                let pages = page..page + 1;
                state.change_blocks(kernel, process, &mapping, pages, Entries::Protect, None);
            }
            if is_copy {
                state.set_single(process.id, page..page + 1);
            }
            return one;
        }
        let unit = mapping.around(page);
        let all = unit[0]..unit[0] + unit[1];
        let is_whole = match is_copy {
            true => mapping.whole || !mapping.is_split(),
            false => !state.sharing.borrow().is_shared(process.id, all.clone()),
        };
        if is_whole {
            for other in all.filter(|&other| other != page) {
                state.sharing.borrow_mut().write(process.id, other);
            }
            return (unit, order);
        }
        self.split(state, kernel, &mapping, page);
        if is_copy {
            state.set_single(process.id, page..page + 1);
        }
        one
    }

    /// The order of the entries of pages that are flushed and stay.
    pub(super) fn flush_order(&self, state: &State<'_>, first: u64, pages: u64) -> u8 {
        let Some(mapping) = state.mapping(self.process.id) else { return 0 };
        match first.is_multiple_of(mapping.unit) && pages.is_multiple_of(mapping.unit) {
            true => {
                let mapped = tables::mappings(self.process.root, first, pages);
                state.census(self.process.id, &mapped).order
            }
            false => 0,
        }
    }
}

impl Mapping {
    /// Refuses a part of a huge page that Linux does not split, or of a folio that is there at once.
    fn must_be_whole(&self, first: u64, pages: u64) -> Result<(), String> {
        let Self { unit, .. } = *self;
        if first.is_multiple_of(unit) && pages.is_multiple_of(unit) {
            return Ok(());
        }
        let what = if self.is_huge { "huge pages" } else { "folios" };
        let end = first + pages;
        Err(format!(
            "pages {first} to {end} begin or end in the middle of one of the {what}, which have {unit} pages of 4 KiB: take multiples of {unit}"
        ))
    }
}
