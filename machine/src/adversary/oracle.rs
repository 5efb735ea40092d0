//! The oracle: what must hold, checked at the moment it can break.
//!
//! A scenario tells it what the library has promised (*this translation is revoked*, *this frame
//! may be reused*), at the moment of the promise. The oracle then looks at everything that any CPU
//! may have cached, and keeps looking for the rest of the execution. It never samples: if a CPU
//! *could* use a translation that it must not have, the execution fails, whether or not a program
//! touches the page.
//!
//! A claim belongs to the operation before it: no other CPU comes between the two. Where that
//! operation was executed before its turn, because it commutes with all that others do, the claim
//! does not commute with it, and waits for its own turn.

use super::{
    cpu::Live,
    current,
    format::Frame,
    hash::{mix, mix3},
    machine::{Machine, Phase},
    op::Op,
    tlb::Entry,
    violation::Rule,
};

/// What the oracle remembers.
#[derive(Debug, Default)]
pub(crate) struct Ghost {
    /// Frames that were given back and not handed out again.
    pub(crate) freed: Vec<Frame>,
    /// Identities and their owners.
    identities: Vec<(&'static str, u64, u64)>,
}

impl Ghost {
    pub(crate) fn reset(&mut self) {
        self.freed.clear();
        self.identities.clear();
    }
}

/// The library has reported that the translation of `va` in the space of `root` is revoked: what
/// it was before memory came to hold what it holds now is usable on no CPU any more.
///
/// Memory is what the CPU that runs sees: if its own store to a descriptor of the translation is
/// still on its way, that is a violation already, for any CPU may yet walk the old descriptor.
#[track_caller]
pub fn revoked(root: Frame, va: u64) {
    claim();
    current::with(|machine| machine.revoke(root, va));
}

/// The library has given a frame back: no CPU can use a translation to it any more, until
/// [`frame_allocated`].
#[track_caller]
pub fn frame_freed(frame: Frame) {
    claim();
    current::with(|machine| machine.free(frame, false));
}

/// The library has given a table back: no CPU can walk it any more, nor name it as its root.
#[track_caller]
pub fn table_freed(frame: Frame) {
    claim();
    current::with(|machine| machine.free(frame, true));
}

/// A frame is in use again.
#[track_caller]
pub fn frame_allocated(frame: Frame) {
    claim();
    current::with(|machine| {
        if let Some(at) = machine.ghost.freed.iter().position(|&freed| freed == frame) {
            machine.ghost.freed.swap_remove(at);
            machine.ghost_hash ^= mix3(frame.0, 1, 0xf7ee);
        }
    });
}

/// An identity that proves freshness (`kind` says which sort) has been given to `owner`. Giving it
/// to two owners is a violation.
#[track_caller]
pub fn identity(kind: &'static str, value: u64, owner: u64) {
    claim();
    current::with(|machine| {
        let known = machine.ghost.identities.iter().find(|i| i.0 == kind && i.1 == value);
        match known {
            Some(&(_, _, other)) if other != owner => {
                let text = format!("{kind} {value:#x} belongs to {other:#x} and to {owner:#x}");
                machine.fail(Rule::Identity, text);
            }
            Some(_) => {}
            None => {
                machine.ghost.identities.push((kind, value, owner));
                machine.ghost_hash ^= identity_hash(kind, value, owner);
            }
        }
    });
}

/// An identity may be given to another owner from now on.
#[track_caller]
pub fn identity_ended(kind: &'static str, value: u64) {
    claim();
    current::with(|machine| {
        let ghost = &mut machine.ghost;
        if let Some(at) = ghost.identities.iter().position(|i| i.0 == kind && i.1 == value) {
            let (kind, value, owner) = ghost.identities.swap_remove(at);
            machine.ghost_hash ^= identity_hash(kind, value, owner);
        }
    });
}

/// The CPU that runs will access no user memory until [`wakes`]: it idles, or runs kernel code
/// only, on a root that it has left loaded. Pages may then be taken from it without its knowledge;
/// tables may not, because its walker goes on.
#[track_caller]
pub fn rests() {
    claim();
    current::with(|machine| machine.resting |= 1 << machine.running);
}

/// The CPU that runs may access user memory again.
#[track_caller]
pub fn wakes() {
    claim();
    current::with(|machine| {
        let cpu = machine.running;
        machine.resting &= !(1 << cpu);
        machine.check_loaded(cpu);
    });
}

/// Waits for the turn of a claim, if the operation before it did not.
#[track_caller]
fn claim() {
    let early = current::with(|machine| {
        machine.phase == Phase::Running && machine.cpus[machine.running].early
    });
    if early {
        current::step(Op::Claim);
    }
}

/// Says that something is wrong. The execution ends at the next step.
pub fn fail(message: impl Into<String>) {
    current::with(|machine| machine.fail(Rule::Assertion, message.into()));
}

/// Fails unless `condition` holds.
pub fn check(condition: bool, message: &str) {
    if !condition {
        fail(message);
    }
}

fn identity_hash(kind: &'static str, value: u64, owner: u64) -> u64 {
    mix(mix3(kind.as_ptr() as u64, value, owner), 0x1de)
}

impl Machine {
    /// Whether what `holder` has cached can be used on `cpu`, for the space that the entry is of.
    fn exposed(&self, cpu: usize, holder: usize, entry: &Entry) -> bool {
        if self.resting & 1 << cpu != 0 && !entry.is(Entry::TABLE) {
            return false;
        }
        self.cpus[cpu].live.iter().any(|live| {
            Self::usable(live, cpu, holder, entry)
                && (entry.is(Entry::GLOBAL) || entry.owner == live.owner)
        })
    }

    /// A CPU on which the entry can be used.
    fn exposed_somewhere(&self, holder: usize, entry: &Entry) -> Option<usize> {
        if self.config.cnp {
            (0..self.cpus.len()).find(|&cpu| self.exposed(cpu, holder, entry))
        } else {
            self.exposed(holder, holder, entry).then_some(holder)
        }
    }

    fn revoke(&mut self, root: Frame, va: u64) {
        let by = self.running;
        let page = va >> 12;
        let Some(table) = self.tables.index(root) else {
            return self.fail(Rule::Misuse, format!("{:#x} is no table", root.0));
        };
        let owner = self.tables.owner(table);
        let mut present = [None; 4];
        for level in 0..self.config.levels {
            if let Some(word) = self.descriptor(table, page, level) {
                let view = self.view(by, word.address());
                if view != word.peek() {
                    let name = self.name_of(word.address());
                    return self.fail(
                        Rule::StaleTranslation,
                        format!(
                            "va {va:#x} of root {:#x} is reported as revoked by CPU {by} while its \
                             store to {name} is still in its store buffer",
                            root.0
                        ),
                    );
                }
                present[level as usize] = Some(view);
            }
        }
        let bits = self.config.index_bits;
        for cpu in 0..self.cpus.len() {
            for index in 0..self.cpus[cpu].tlb.len() {
                let entry = self.cpus[cpu].tlb[index];
                if entry.owner == owner
                    && entry.covers(page, bits)
                    && present[usize::from(entry.level)] != Some(entry.descriptor)
                {
                    self.mark(cpu, index, Rule::StaleTranslation);
                }
            }
        }
    }

    fn free(&mut self, frame: Frame, table: bool) {
        if !self.ghost.freed.contains(&frame) {
            self.ghost.freed.push(frame);
            self.ghost_hash ^= mix3(frame.0, 1, 0xf7ee);
        }
        for cpu in 0..self.cpus.len() {
            for index in 0..self.cpus[cpu].tlb.len() {
                let entry = self.cpus[cpu].tlb[index];
                if entry.is(Entry::TABLE) == table && self.reaches(&entry, frame) {
                    self.mark(cpu, index, Rule::FreedFrame);
                }
            }
        }
        if table && let Some(index) = self.tables.index(frame) {
            for cpu in 0..self.cpus.len() {
                if self.cpus[cpu].live.iter().any(|live| live.table as usize == index) {
                    self.fail(
                        Rule::FreedFrame,
                        format!(
                            "table {:#x} is given back while it is a root of CPU {cpu}",
                            frame.0
                        ),
                    );
                }
            }
            self.tables.given_back(index);
            self.ghost_hash ^= mix3(frame.0, u64::from(self.tables.owner(index)), 0x11fe);
        }
    }

    /// Whether the entry leads into the frame.
    fn reaches(&self, entry: &Entry, frame: Frame) -> bool {
        let Frame(first) = self.target(entry);
        let bits = if entry.is(Entry::TABLE) {
            0
        } else {
            u32::from(entry.level) * self.config.index_bits
        };
        first >> bits == frame.0 >> bits
    }

    /// Remembers that an entry must not be usable any more.
    fn mark(&mut self, cpu: usize, index: usize, rule: Rule) {
        let mut entry = self.cpus[cpu].tlb[index];
        entry.flags |= Entry::REVOKED;
        self.amend(cpu, index, entry);
        if let Some(user) = self.exposed_somewhere(cpu, &entry) {
            self.fail_entry(rule, user, cpu, &entry, "is still usable");
        }
    }

    fn fail_entry(&mut self, rule: Rule, user: usize, holder: usize, entry: &Entry, why: &str) {
        let whose =
            if user == holder { String::new() } else { format!(" (cached by CPU {holder})") };
        let text = format!("CPU {user}: {}{whose} {why}", self.describe_entry(entry));
        self.fail(rule, text);
    }

    /// An entry has been added.
    pub(crate) fn check_added(&mut self, cpu: usize, entry: &Entry) {
        if !self.ghost.freed.is_empty() {
            let leaf = !entry.is(Entry::TABLE);
            for index in 0..self.ghost.freed.len() {
                let frame = self.ghost.freed[index];
                let is_table = self.tables.index(frame).is_some();
                if is_table != leaf && self.reaches(entry, frame) {
                    self.fail_entry(
                        Rule::FreedFrame,
                        cpu,
                        cpu,
                        entry,
                        "leads to what was given back",
                    );
                }
            }
        }
        for user in 0..self.cpus.len() {
            if user == cpu || self.config.cnp {
                self.check_tags(user, cpu, entry);
            }
        }
    }

    /// A root, a tag or a control register has changed.
    pub(crate) fn check_loaded(&mut self, cpu: usize) {
        if self.phase == Phase::Building {
            return;
        }
        for index in 0..self.cpus[cpu].live.len() {
            let frame = self.tables.frame(self.cpus[cpu].live[index].table);
            if self.ghost.freed.contains(&frame) {
                let text = format!("CPU {cpu} loads root {:#x}, which was given back", frame.0);
                self.fail(Rule::FreedFrame, text);
            }
        }
        for holder in 0..self.cpus.len() {
            if holder != cpu && !self.config.cnp {
                continue;
            }
            for index in 0..self.cpus[holder].tlb.len() {
                let entry = self.cpus[holder].tlb[index];
                self.check_tags(cpu, holder, &entry);
                if entry.is(Entry::REVOKED) && self.exposed(cpu, holder, &entry) {
                    let why = "has been revoked, and can be used again";
                    self.fail_entry(Rule::StaleTranslation, cpu, holder, &entry, why);
                }
            }
        }
    }

    /// Whether an entry that `cpu` can use is of another space than the root under its tag.
    fn check_tags(&mut self, cpu: usize, holder: usize, entry: &Entry) {
        if entry.is(Entry::GLOBAL) {
            return;
        }
        let confused = |live: &&Live| {
            !live.reserved && live.owner != entry.owner && Self::usable(live, cpu, holder, entry)
        };
        if let Some(live) = self.cpus[cpu].live.iter().find(confused) {
            let root = self.tables.frame(live.table).0;
            let why = format!("can be used under root {root:#x}");
            self.fail_entry(Rule::TagNamesTwoSpaces, cpu, holder, entry, &why);
        }
    }
}
