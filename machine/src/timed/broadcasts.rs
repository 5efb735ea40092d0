//! What broadcasts have removed, for TLBs that have not been asked since.
//!
//! To take every broadcast to every TLB at once would cost the host as much as there are CPUs. So it is
//! noted here, by what it names, and a TLB looks it up when it finds an entry that is older. The outcome
//! is the same, as an entry that is never looked at again is of no consequence but for its room.

use rustc_hash::FxHashMap;

/// The kernel's entries, which are used under every tag, have a key beside the tags.
pub(crate) const KERNEL_KEY: u32 = 1 << 16;
/// Upper levels of walks are noted beside the orders that entries may have.
const UPPER: u32 = 32;
/// What names more pages than this is not noted page by page.
const MANY: u64 = 64;

/// The latest broadcasts, by their numbers, that removed something under one key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latest {
    /// Everything under it.
    pub(crate) whole: u32,
    /// Anything under it.
    pub(crate) any: u32,
}

/// All broadcasts so far.
#[derive(Debug, Default)]
pub(crate) struct Broadcasts {
    /// How many there were.
    pub(crate) count: u32,
    /// The latest that removed everything under all tags.
    all: u32,
    keys: FxHashMap<u32, Latest>,
    /// By page or table and order, and by key.
    pages: FxHashMap<(u64, u32), u32>,
    /// A bit for each order that an entry may have.
    orders: u32,
}

impl Broadcasts {
    /// Notes that there are entries of an order.
    #[inline]
    pub(crate) fn note_order(&mut self, order: u32) {
        self.orders |= 1 << order;
    }

    /// Counts one more.
    pub(crate) fn begin(&mut self) {
        self.count = self.count.checked_add(1).expect("fewer than 2^32 broadcasts");
    }

    /// The latest broadcasts that concern a key.
    #[inline]
    pub(crate) fn latest(&self, key: u32) -> Latest {
        let mut latest = self.keys.get(&key).copied().unwrap_or_default();
        if key != KERNEL_KEY {
            latest.whole = latest.whole.max(self.all);
        }
        latest.any = latest.any.max(latest.whole);
        latest
    }

    /// The latest that removed the entry for a page.
    pub(crate) fn latest_of_page(&self, key: u32, page: u64, order: u32) -> u32 {
        self.pages.get(&(page >> order, key << 8 | order)).copied().unwrap_or(0)
    }

    /// The latest that removed the upper levels for a table.
    pub(crate) fn latest_of_table(&self, key: u32, table: u64) -> u32 {
        self.pages.get(&(table, key << 8 | UPPER)).copied().unwrap_or(0)
    }

    /// Notes that everything under a key is removed.
    pub(crate) fn remove_key(&mut self, key: u32) {
        self.keys.entry(key).or_default().whole = self.count;
    }

    /// Notes that everything is removed that is not the kernel's.
    pub(crate) fn remove_all(&mut self) {
        self.all = self.count;
    }

    /// Notes that pages are removed, and the upper levels of their walks with them if `upper`; false if
    /// they are too many, so that they have to be removed at once.
    pub(crate) fn remove_pages(&mut self, key: u32, first: u64, pages: u64, upper: bool) -> bool {
        if pages > MANY {
            return false;
        }
        let count = self.count;
        self.keys.entry(key).or_default().any = count;
        for page in first..first + pages {
            let mut orders = self.orders;
            while orders != 0 {
                let order = orders.trailing_zeros();
                orders &= orders - 1;
                self.pages.insert((page >> order, key << 8 | order), count);
            }
        }
        if upper && pages > 0 {
            for table in first >> 9..=(first + pages - 1) >> 9 {
                self.pages.insert((table, key << 8 | UPPER), count);
            }
        }
        true
    }
}
