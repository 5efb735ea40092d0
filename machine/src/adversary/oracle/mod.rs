//! The oracle: invariants, checked at the moment at which they can break.
//!
//! A scenario reports each promise of the library to it (*this translation is revoked*, *this frame
//! may be reused*), at the moment of the promise: a claim. The oracle then checks every entry that any CPU
//! may have cached, and keeps checking for the rest of the execution. It never samples: if a CPU
//! *could* use a translation that it must not have, the execution fails, whether or not a program
//! touches the page.
//!
//! A claim belongs to the operation before it: no other CPU comes between the two. Where that
//! operation was executed before its turn, because it commutes with all transitions of others, the claim
//! does not commute with it, and waits for its own turn.

mod check;
mod device;
mod harvest;
mod quiet;
mod removed;
mod revoke;

pub use self::device::{device, device_starts, device_stops};
use self::removed::Removed;
use super::{
    current,
    flags::{Flag, Flags},
    format::Frame,
    hash::{mix, mix3},
    machine::Phase,
    op::Op,
    scenario::saw,
    violation::Rule,
    word::Word,
};

/// The event that explorers report when a claim was made: that a translation is revoked, that a frame or a
/// table is free, that an identity is fresh, that accessed and dirty flags were collected, or a condition of
/// the scenario's own. A scenario without claims tests nothing.
pub const CLAIM: &str = "a claim";

/// The state of the oracle.
#[derive(Debug, Default)]
pub(crate) struct Ghost {
    /// Frames that were freed and not allocated again.
    pub(crate) freed: Vec<Frame>,
    /// Frames that no program may reach any more, though TLBs may still hold translations to them.
    pub(crate) quiet: Vec<Frame>,
    /// The flags that hardware has set for frames since software last collected them.
    pub(crate) noted: Vec<(Frame, Flag)>,
    /// Identities and their owners.
    identities: Vec<(&'static str, u64, u64)>,
    /// Descriptors that programs have removed.
    removed: Vec<Removed>,
}

/// Distinguishes the hashes of freed frames from those of quiet ones.
const FREED: u64 = 0xf7ee;
const QUIET: u64 = 0x901e7;

impl Ghost {
    pub(crate) fn reset(&mut self) {
        self.freed.clear();
        self.quiet.clear();
        self.noted.clear();
        self.identities.clear();
        self.removed.clear();
    }
}

/// The library has reported that the translation of `va` in the space of `root` is revoked: no CPU
/// can use any translation older than the one that memory holds now.
///
/// Memory is what the CPU that runs sees: if its own store to a descriptor of the translation is
/// still buffered, that is a violation already, because any CPU may yet walk the old descriptor.
#[track_caller]
pub fn revoked(root: Frame, va: u64) {
    claim();
    saw(CLAIM);
    current::with(|machine| machine.revoke(root, va));
}

/// The program has removed `descriptor` from `word`, whose value may have changed since. Returns which of the
/// removals from that word this is, for [`revoked_until`]. Belongs to the operation before it, as a claim
/// does.
#[track_caller]
pub fn removed(word: &Word, descriptor: u64) -> u64 {
    claim();
    current::with(|machine| {
        let serial = machine.note_removed(word.address(), descriptor);
        machine.cpus[machine.running].observed(serial);
        serial
    })
}

/// How many removals from `word` there have been.
#[track_caller]
pub fn removals(word: &Word) -> u64 {
    claim();
    current::with(|machine| {
        let serial = machine.removals(word.address());
        machine.cpus[machine.running].observed(serial);
        serial
    })
}

/// How many removals from `word` there had been when it held `read`, which the program has just loaded from
/// it. That may be earlier than now where loads are
/// ([`Config::with_early_loads`](super::Config::with_early_loads)).
#[track_caller]
pub fn removals_before(word: &Word, read: u64) -> u64 {
    claim();
    current::with(|machine| {
        let serial = machine.removals_before(word.address(), read);
        machine.cpus[machine.running].observed(serial);
        serial
    })
}

/// The library has reported that no CPU can use the descriptors removed from `word`, which maps `va` in the
/// space of `root`, any more: those of the removals up to `serial`, and not later ones, whose flushes may be
/// under way. A descriptor that memory holds again is no violation.
#[track_caller]
pub fn revoked_until(root: Frame, va: u64, word: &Word, serial: u64) {
    claim();
    current::with(|machine| machine.revoke_until(root, va, word.address(), serial));
}

/// The translations of `va`, which is a kernel's address, are revoked in every space: no CPU
/// can use any that is older than the one that memory holds now, under any root and tag.
///
/// This includes lazy CPUs, since they run kernel code. An entry that holds under every tag must be
/// gone; one of a tag that no root register names may stay, and violates the claim when a root is loaded
/// that makes it usable.
#[track_caller]
pub fn kernel_revoked(va: u64) {
    claim();
    saw(CLAIM);
    current::with(|machine| machine.revoke_everywhere(va));
}

/// The library has released a frame: no CPU can use a translation to it any more, until
/// [`frame_allocated`].
///
/// An entry under a tag that no root register names is no violation yet. It is one when a root is
/// loaded that makes it usable.
#[track_caller]
pub fn frame_freed(frame: Frame) {
    claim();
    saw(CLAIM);
    current::with(|machine| machine.free(frame, false));
}

/// No program reaches a frame any more, until [`frame_allocated`]: the claim for a target that
/// acknowledges before it invalidates. Translations to the frame may remain cached, but no access may go
/// through them: neither one that is still under way, nor a later one; nor may a lazy CPU resume user code
/// while it holds one.
///
/// This is weaker than [`frame_freed`]. A translation that remains cached stays forbidden to programs after
/// the frame is allocated again.
#[track_caller]
pub fn frame_quiet(frame: Frame) {
    claim();
    saw(CLAIM);
    current::with(|machine| machine.quieten(frame));
}

/// The library has released a table: no CPU can walk it any more, nor name it as its root.
///
/// With [`Config::walks_outlive_tags`](super::Config::walks_outlive_tags), which is Arm, no CPU may
/// hold a partial walk that leads to the table under any tag. Without, a walk under a tag that no
/// root register names is a violation only when a root is loaded that makes it usable.
#[track_caller]
pub fn table_freed(frame: Frame) {
    claim();
    saw(CLAIM);
    current::with(|machine| machine.free(frame, true));
}

/// A frame is allocated again.
#[track_caller]
pub fn frame_allocated(frame: Frame) {
    claim();
    current::with(|machine| {
        let Ghost { freed, quiet, .. } = &mut machine.ghost;
        for (list, seed) in [(freed, FREED), (quiet, QUIET)] {
            if let Some(at) = list.iter().position(|&other| other == frame) {
                list.swap_remove(at);
                machine.ghost_hash ^= mix3(frame.0, 1, seed);
            }
        }
        machine.forget_flags(|noted, _| noted == frame);
    });
}

/// The library has collected the flags that hardware set for `count` frames from `first` on, and found
/// `found`. Everything that hardware has set for one of them since the last such claim must be in
/// `found`, or still be in a descriptor where it can be collected: one that hardware writes and that maps
/// the frame, or a block with the frame in it. [`Flags::NONE`] only checks that no flag was lost.
///
/// A bit that hardware sets without an access is set for every frame of its block; one that an access sets,
/// for the frame of the access. A bit that is found without having been set is no violation.
#[track_caller]
pub fn harvested(first: Frame, count: u64, found: Flags) {
    claim();
    saw(CLAIM);
    current::with(|machine| machine.harvest(first.0..first.0 + count, found));
}

/// The library has made `count` frames from `first` on clean: a store to one of them leaves a
/// trace from here on. No CPU may use an entry that has the page as dirty, through which it would
/// store without setting the flag, unless the flag is set in memory.
#[track_caller]
pub fn cleaned(first: Frame, count: u64) {
    claim();
    saw(CLAIM);
    current::with(|machine| machine.clean(first.0..first.0 + count));
}

/// An identity of the given `kind` that proves freshness has been given to `owner`. Giving it
/// to two owners is a violation.
#[track_caller]
pub fn identity(kind: &'static str, value: u64, owner: u64) {
    claim();
    saw(CLAIM);
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
/// only, on a root that it has left loaded. Pages may then be unmapped without interrupting it;
/// tables may not be freed, because its walker goes on.
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
        machine.check_quiet(cpu);
    });
}

/// The CPU that runs goes down: until [`comes_up`] it touches no addresses of the kernel that may be
/// unmapped, and may keep what is revoked there. Its hardware may go on to walk.
#[track_caller]
pub fn goes_down() {
    claim();
    current::with(|machine| machine.down |= 1 << machine.running);
}

/// The CPU that runs is up again: its root is a reserved one, and it holds nothing of any other, nor anything of the
/// kernel's that was revoked meanwhile.
#[track_caller]
pub fn comes_up() {
    claim();
    current::with(|machine| {
        let cpu = machine.running;
        machine.down &= !(1 << cpu);
        machine.booting &= !(1 << cpu);
        machine.check_parked(cpu);
        machine.check_loaded(cpu);
        machine.check_kernel(cpu);
    });
}

/// Waits for the turn of a claim, if the operation before it did not.
#[track_caller]
fn claim() {
    let early = current::with(|machine| {
        machine.footprint.more();
        machine.phase == Phase::Running && machine.cpus[machine.running].early
    });
    if early {
        current::step(Op::Claim);
    }
}

/// Reports a violation. The execution ends at the next step.
pub fn fail(message: impl Into<String>) {
    current::with(|machine| machine.fail(Rule::Assertion, message.into()));
}

/// Fails unless `condition` holds.
pub fn check(condition: bool, message: &str) {
    saw(CLAIM);
    if !condition {
        fail(message);
    }
}

fn identity_hash(kind: &'static str, value: u64, owner: u64) -> u64 {
    mix(mix3(kind.as_ptr() as u64, value, owner), 0x1de)
}
