//! Page tables: trees of words in the machine's memory.
//!
//! A scenario makes tables and maps pages while it builds its world. At run time it changes
//! descriptors as any kernel does: by storing to their words, through the store buffers. The words
//! of a table lie in a frame of their own; data frames have numbers below [`FIRST_TABLE`] and no
//! contents.

use lookaside::platform::CpuId;

use super::{
    config::Config,
    current,
    format::{self, Access, Decoded, Frame},
    machine::Machine,
    word::Word,
};

pub use super::descriptors::{block, contiguous, flags, frame, page, table, with_flags};

/// The number of the first frame that holds a table. Frames below it hold data.
pub const FIRST_TABLE: u64 = 0x1000;

/// The memory that tables lie in.
#[derive(Debug)]
pub(crate) struct Tables {
    words: &'static [Word],
    /// The contents of data frames.
    data: &'static [Word],
    index_bits: u32,
    /// For each table, which of its words are not zero.
    present: Vec<u64>,
    /// For each table, how often it has been given back.
    lives: Vec<u16>,
    reserved: Vec<bool>,
    /// For each table, the top table of CPU 0 of the same space: itself, where CPUs have no top tables of their own.
    space: Vec<usize>,
    /// For each table, how many CPUs after CPU 0 have a top table of their own: those after it.
    copies: Vec<usize>,
    /// The descriptors that hardware writes: tables and indices.
    pub(crate) writes: Vec<(usize, usize)>,
    used: usize,
    capacity: usize,
}

impl Tables {
    pub(crate) fn new(config: &Config) -> Self {
        let size = 1usize << config.index_bits;
        let words = (0..config.tables * size).map(|_| <Word as lookaside::platform::Word>::ZERO);
        Self {
            words: Box::leak(words.collect::<Box<[Word]>>()),
            data: Box::leak(
                (0..config.frames)
                    .map(|_| <Word as lookaside::platform::Word>::ZERO)
                    .collect::<Box<[Word]>>(),
            ),
            index_bits: config.index_bits,
            present: vec![0; config.tables * size.div_ceil(64)],
            lives: vec![0; config.tables],
            reserved: vec![false; config.tables],
            space: (0..config.tables).collect(),
            copies: vec![0; config.tables],
            writes: Vec::new(),
            used: 0,
            capacity: config.tables,
        }
    }

    /// The table that lies in a frame.
    #[inline]
    pub(crate) fn index(&self, frame: Frame) -> Option<usize> {
        let index = frame.0.wrapping_sub(FIRST_TABLE);
        (index < self.used as u64).then_some(index as usize)
    }

    pub(crate) fn frame(&self, table: u32) -> Frame {
        Frame(FIRST_TABLE + u64::from(table))
    }

    /// The table and index of a word, if it is a descriptor.
    #[inline]
    pub(crate) fn locate(&self, word: *mut u64) -> Option<(usize, usize)> {
        let offset = (word as usize).wrapping_sub(self.words.as_ptr() as usize) / 8;
        (offset < self.words.len())
            .then_some((offset >> self.index_bits, offset & ((1 << self.index_bits) - 1)))
    }

    /// The contents of a data frame, if it has any.
    pub(crate) fn contents(&self, frame: Frame) -> Option<&'static Word> {
        self.data.get(usize::try_from(frame.0).ok()?)
    }

    /// The data frame whose contents a word is.
    pub(crate) fn data_frame(&self, word: *mut u64) -> Option<Frame> {
        let offset = (word as usize).wrapping_sub(self.data.as_ptr() as usize) / 8;
        (offset < self.data.len()).then_some(Frame(offset as u64))
    }

    fn word(&self, table: usize, index: usize) -> &'static Word {
        &self.words[table << self.index_bits | index]
    }

    pub(crate) fn read(&self, table: usize, index: usize) -> u64 {
        self.word(table, index).peek()
    }

    /// Which of the descriptors that hardware writes this is.
    #[inline]
    pub(crate) fn written(&self, table: usize, index: usize) -> Option<usize> {
        self.writes.iter().position(|&word| word == (table, index))
    }

    pub(crate) fn address(&self, table: usize, index: usize) -> *mut u64 {
        self.word(table, index).address()
    }

    /// How many words the map of a table has.
    pub(crate) fn map_words(&self) -> usize {
        (1usize << self.index_bits).div_ceil(64)
    }

    /// One word of the map of which descriptors are not zero.
    pub(crate) fn map(&self, table: usize, word: usize) -> u64 {
        self.present[table * self.map_words() + word]
    }

    /// Must follow every change of a descriptor.
    pub(crate) fn changed(&mut self, table: usize, index: usize) {
        let set = self.read(table, index) != 0;
        let at = table * self.map_words() + index / 64;
        let bit = 1u64 << (index % 64);
        self.present[at] = if set { self.present[at] | bit } else { self.present[at] & !bit };
    }

    /// The ghost identity of the space whose top table this is.
    pub(crate) fn owner(&self, table: usize) -> u32 {
        let table = self.space[table];
        table as u32 | u32::from(self.lives[table]) << 16
    }

    /// The top table of a CPU, of a space with the top table `root` on CPU 0.
    pub(crate) fn top(&self, root: Frame, cpu: usize) -> Frame {
        let copies = self.index(root).map_or(0, |table| self.copies[table]);
        Frame(root.0 + cpu.min(copies) as u64)
    }

    pub(crate) fn reserved(&self, table: usize) -> bool {
        self.reserved[table]
    }

    /// Whether each of the tables that are in use is a reserved root.
    pub(crate) fn all_reserved(&self) -> &[bool] {
        &self.reserved[..self.used]
    }

    pub(crate) fn given_back(&mut self, table: usize) {
        self.lives[table] += 1;
    }

    /// Forgets what happened in an execution.
    pub(crate) fn reset(&mut self) {
        self.lives.fill(0);
    }

    fn allocate(&mut self) -> Frame {
        assert!(self.used < self.capacity, "all {} tables are in use", self.capacity);
        self.used += 1;
        Frame(FIRST_TABLE + self.used as u64 - 1)
    }
}

/// The index that `page` has in a table of `level`.
fn slot(config: &Config, page: u64, level: u32) -> usize {
    (page >> (config.index_bits * level) & ((1 << config.index_bits) - 1)) as usize
}

impl Machine {
    /// The descriptor of `level` that memory holds for `page` in the space of `root`.
    pub(crate) fn descriptor(&self, root: usize, page: u64, level: u32) -> Option<&'static Word> {
        if page >> (self.config.index_bits * self.config.levels) != 0 {
            return None;
        }
        let mut table = root;
        let mut at = self.config.levels - 1;
        loop {
            let word = self.tables.word(table, slot(&self.config, page, at));
            if at == level {
                return Some(word);
            }
            let Decoded::Table { frame, .. } = format::decode(self.config.arch, at, word.peek())
            else {
                return None;
            };
            table = self.tables.index(frame)?;
            at -= 1;
        }
    }
}

/// Makes an empty table, while the world is being built.
///
/// # Panics
///
/// If no memory for tables is left, or no world is being built.
#[must_use]
pub fn allocate() -> Frame {
    current::building(|machine| machine.tables.allocate())
}

/// Makes an empty table that serves as a *reserved* root: one that maps nothing, that a CPU may
/// name under any tag without that tag coming to name two spaces.
#[must_use]
pub fn allocate_reserved() -> Frame {
    current::building(|machine| {
        let frame = machine.tables.allocate();
        machine.tables.reserved[(frame.0 - FIRST_TABLE) as usize] = true;
        frame
    })
}

/// Gives each of `cpus` CPUs a top table of its own in the space of `root`, which is empty and
/// found by [`top`]; CPU 0 keeps `root`. Comes right after `root` was made.
///
/// # Panics
///
/// If another table was made since, or no world is being built.
pub fn one_for_each_cpu(root: Frame, cpus: usize) {
    current::building(|machine| {
        let main = machine.tables.index(root).expect("the root is a table");
        for cpu in 1..cpus {
            let copy = machine.tables.allocate();
            assert!(copy.0 == root.0 + cpu as u64, "the copies follow their root");
            machine.tables.space[main + cpu] = main;
        }
        machine.tables.copies[main] = cpus - 1;
    });
}

/// The top table of a CPU, in the space of `root`.
#[must_use]
pub fn top(root: Frame, cpu: CpuId) -> Frame {
    current::with(|machine| machine.tables.top(root, cpu.index()))
}

/// Maps `frame` at `va` in the space of `root`, with the tables it takes, while the world is being
/// built.
pub fn map(root: Frame, va: u64, frame: Frame, access: Access) {
    map_block(root, va, 0, frame, access);
}

/// Maps a block of `level` (0 is a page) at `va` in the space of `root`, while the world is being
/// built.
pub fn map_block(root: Frame, va: u64, level: u32, frame: Frame, access: Access) {
    let arch = current::building(|machine| machine.config.arch);
    let word = reach(root, va, level);
    current::building(|machine| {
        machine.land_direct(word.address(), format::leaf(arch, level, frame, access));
    });
}

/// Makes the tables that lead to the descriptor of `level` for `va`, and returns that descriptor.
///
/// # Panics
///
/// If `va` is beyond the machine's address space or a block is in the way.
pub fn reach(root: Frame, va: u64, level: u32) -> &'static Word {
    current::building(|machine| {
        let page = va >> 12;
        let top = machine.config.levels;
        assert!(page >> (machine.config.index_bits * top) == 0, "{va:#x} cannot be mapped");
        let root = machine.tables.index(root).expect("the root is a table");
        for at in (level + 1..top).rev() {
            let word = machine.descriptor(root, page, at).expect("the tables above exist");
            if word.peek() == 0 {
                let next = machine.tables.allocate();
                machine.land_direct(word.address(), format::table(machine.config.arch, next));
            }
        }
        machine.descriptor(root, page, level).expect("a block is in the way")
    })
}

/// The word of the last-level descriptor for `va`, as memory is now.
///
/// # Panics
///
/// If no table leads there.
#[must_use]
pub fn pte(root: Frame, va: u64) -> &'static Word {
    entry(root, va, 0)
}

/// The word of the descriptor of `level` for `va`, as memory is now.
///
/// # Panics
///
/// If no table leads there.
#[must_use]
pub fn entry(root: Frame, va: u64, level: u32) -> &'static Word {
    current::with(|machine| {
        let root = machine.tables.index(root).expect("the root is a table");
        machine.descriptor(root, va >> 12, level).expect("no table leads to the descriptor")
    })
}

/// The contents of a data frame, as the kernel reaches it: without a translation that anyone could
/// revoke.
///
/// # Panics
///
/// If the frame has no contents: see [`Config::frames`].
#[must_use]
pub fn contents(frame: Frame) -> &'static Word {
    current::with(|machine| machine.tables.contents(frame).expect("the frame has contents"))
}

/// A word of a table.
///
/// # Panics
///
/// If `table` is no table or has fewer words.
#[must_use]
pub fn word(table: Frame, index: usize) -> &'static Word {
    current::with(|machine| {
        let table = machine.tables.index(table).expect("the frame is a table");
        assert!(index < 1 << machine.config.index_bits, "a table has fewer words");
        machine.tables.word(table, index)
    })
}

/// All words of a table.
///
/// # Panics
///
/// If `table` is no table.
#[must_use]
pub fn words(table: Frame) -> &'static [Word] {
    current::with(|machine| {
        let table = machine.tables.index(table).expect("the frame is a table");
        machine.tables.words.chunks(1 << machine.config.index_bits).nth(table).expect("as above")
    })
}

/// Lets hardware write a descriptor of the last level, while the world is being built: set its
/// accessed bit, at any moment if a CPU can walk there, and its dirty bit when a program stores
/// through it. Which of the two it does is [`Config::updates`](super::Config::updates).
///
/// # Panics
///
/// If the word is no descriptor, or there are 64 already.
pub fn hardware_writes(word: &Word) {
    current::building(|machine| {
        let place = machine.tables.locate(word.address()).expect("the word is a descriptor");
        if !machine.tables.writes.contains(&place) {
            assert!(machine.tables.writes.len() < 64, "hardware writes 64 descriptors at most");
            machine.tables.writes.push(place);
        }
    });
}
