//! The sequences, written out; and a small hart whose translation cache holds all it may.

extern crate std;

use core::cell::{Cell, RefCell};
use std::{collections::BTreeSet, panic, vec, vec::Vec};

use super::{
    super::{Identity, fence::Changed, testing::*},
    *,
};
use crate::{VaRange, arch::errata::FENCE_OPERANDS};

const RESERVED: u64 = 0x8000_0000;
pub(super) const A: u64 = 0x8000_1000;
const B: u64 = 0x8000_2000;
pub(super) const NO_ERRATA: Errata = Errata::NONE;

const FEATURES: Features = Features {
    mode: Mode::Sv48,
    asid_bits: 16,
    extensions: Extensions::SVINVAL,
    identity: Identity { vendor: 0, architecture: 0, implementation: 0 },
};

pub(super) const CONFIG: Config = Config {
    mode: Mode::Sv39,
    relies_on: Extensions::NONE,
    reserved: Root::new(RESERVED),
    tables: Tables::One,
    remote: Remote::Interrupts,
};

pub(super) fn satp(root: u64, asid: u16) -> u64 {
    8 << 60 | u64::from(asid) << 44 | root >> 12
}

pub(super) fn machine(asid_bits: u32, config: Config, outgoing: u64) -> Riscv<Recorder> {
    let hart = Recorder::with_asid_bits(asid_bits, outgoing);
    let extensions = FEATURES.extensions.union(config.relies_on);
    let cpu = Features { asid_bits, extensions, ..FEATURES };
    let riscv = Riscv::new(hart, &cpu, config).unwrap();
    riscv.instructions.take();
    riscv
}

/// What is executed between the reading of `satp` and the end.
fn switch(
    asid_bits: u32,
    outgoing: (u64, u16),
    errata: Errata,
    act: impl FnOnce(&Riscv<Recorder>, Errata),
) -> Vec<Event> {
    let riscv = machine(asid_bits, CONFIG, satp(outgoing.0, outgoing.1));
    act(&riscv, errata);
    let events = riscv.instructions.take();
    assert_eq!(events[0], Event::ReadSatp);
    events[1..].to_vec()
}

fn load(root: u64, tag: u16, held: Held) -> impl Fn(&Riscv<Recorder>, Errata) {
    // SAFETY: no hardware walks this root.
    move |riscv, errata| unsafe {
        riscv.load(errata, Root::new(root), Tag(tag), held, Sharing::Private);
    }
}

fn park(riscv: &Riscv<Recorder>, errata: Errata) {
    riscv.park(errata);
}

fn write(root: u64, asid: u16) -> Event {
    Event::WriteSatp(satp(root, asid))
}

pub(super) fn sfence(asid: u16) -> Event {
    Event::SfenceVma(None, Some(asid))
}

#[test]
fn a_load_in_place_of_another_space_settles_first() {
    let riscv = machine(16, CONFIG, satp(A, 3));
    // SAFETY: no hardware walks this root.
    unsafe { riscv.load_kept(KeptLoads::OneWrite, Root::new(B), Tag(4)) };
    assert_eq!(riscv.instructions.take(), [Event::Fence, write(B, 4)]);
}

#[test]
fn switches_between_tags() {
    use Held::{Drop, Keep};
    let from = |outgoing, act: &dyn Fn(&Riscv<Recorder>, Errata)| {
        switch(16, outgoing, NO_ERRATA, |riscv, errata| act(riscv, errata))
    };
    assert_eq!(from((A, 1), &load(B, 2, Keep)), [write(B, 2)]);
    assert_eq!(from((A, 1), &load(B, 2, Drop)), [sfence(2), write(B, 2)]);
    // The tag changes owner while the old owner is loaded: park, fence, load.
    let expected = [write(RESERVED, 0), sfence(1), write(B, 1)];
    assert_eq!(from((A, 1), &load(B, 1, Drop)), expected);
    assert_eq!(from((A, 1), &load(B, 1, Keep)), expected, "two roots never share entries");
    // The space that is loaded already.
    assert_eq!(from((A, 1), &load(A, 1, Keep)), []);
    assert_eq!(from((A, 1), &load(A, 1, Drop)), [sfence(1)]);
    // The space has a new tag.
    assert_eq!(from((A, 1), &load(A, 2, Drop)), [sfence(2), write(A, 2)]);
    // Out of and into the parked state.
    assert_eq!(from((A, 1), &park), [write(RESERVED, 0)]);
    assert_eq!(from((RESERVED, 0), &park), []);
    assert_eq!(from((RESERVED, 0), &load(A, 1, Keep)), [write(A, 1)]);
    assert_eq!(from((RESERVED, 0), &load(A, 1, Drop)), [sfence(1), write(A, 1)]);
}

#[test]
fn switches_under_asid_zero() {
    use Held::{Drop, Keep};
    for asid_bits in [0, 16] {
        let from = |outgoing, act: &dyn Fn(&Riscv<Recorder>, Errata)| {
            switch(asid_bits, outgoing, NO_ERRATA, |riscv, errata| act(riscv, errata))
        };
        for held in [Keep, Drop] {
            assert_eq!(from((A, 0), &load(B, 0, held)), [write(B, 0), sfence(0)]);
            assert_eq!(from((RESERVED, 0), &load(A, 0, held)), [write(A, 0), sfence(0)]);
        }
        assert_eq!(from((A, 0), &load(A, 0, Keep)), []);
        assert_eq!(from((A, 0), &load(A, 0, Drop)), [sfence(0)]);
        assert_eq!(from((A, 0), &park), [write(RESERVED, 0), sfence(0)]);
        assert_eq!(from((RESERVED, 0), &park), []);
    }
    // With ASIDs, a root that leaves ASID 0 leaves nothing there.
    let from = |outgoing, act: &dyn Fn(&Riscv<Recorder>, Errata)| {
        switch(16, outgoing, NO_ERRATA, |riscv, errata| act(riscv, errata))
    };
    assert_eq!(from((A, 0), &load(B, 2, Keep)), [write(B, 2), sfence(0)]);
    assert_eq!(from((A, 0), &load(B, 2, Drop)), [sfence(2), write(B, 2), sfence(0)]);
    assert_eq!(from((A, 1), &load(B, 0, Keep)), [write(B, 0), sfence(0)]);
    assert_eq!(from((A, 1), &load(RESERVED, 0, Keep)), [write(RESERVED, 0)]);
    assert_eq!(from((A, 1), &load(RESERVED, 0, Drop)), [write(RESERVED, 0), sfence(0)]);
}

#[test]
fn where_operands_fail_switches_fence_everything() {
    let all = Event::SfenceVma(None, None);
    let events = switch(16, (A, 1), FENCE_OPERANDS, load(B, 2, Held::Drop));
    assert_eq!(events, [all, write(B, 2)]);
    assert_eq!(switch(16, (A, 1), FENCE_OPERANDS, load(A, 1, Held::Drop)), [all]);
    assert_eq!(switch(0, (A, 0), FENCE_OPERANDS, park), [write(RESERVED, 0), all]);
    let riscv = machine(16, Config { remote: Remote::Sbi, ..CONFIG }, satp(A, 1));
    riscv.flush(FENCE_OPERANDS, Invalidation::Tag(Tag(3)), Scope::Local);
    assert_eq!(riscv.instructions.take(), [all, Event::Fence]);
    riscv.flush(FENCE_OPERANDS, Invalidation::Tag(Tag(3)), Scope::Broadcast);
    assert_eq!(riscv.instructions.take(), [Event::Fence, all, everyone(None), Event::Fence]);
}

#[test]
fn a_space_is_loaded_for_the_first_time_with_an_invalidation() {
    // The stores that built its tables are ordered before walks by nothing else.
    assert_eq!(machine(16, CONFIG, satp(A, 1)).properties().first_load, Held::Drop);
}

#[test]
fn settling_is_a_fence() {
    for relies_on in [Extensions::NONE, Extensions::SVINVAL] {
        let riscv = machine(16, Config { relies_on, ..CONFIG }, 0);
        riscv.settle();
        assert_eq!(riscv.instructions.take(), [Event::Fence]);
    }
}

#[test]
fn flushes_of_this_hart() {
    let riscv = machine(16, CONFIG, satp(A, 1));
    riscv.flush(NO_ERRATA, Invalidation::All, Scope::Local);
    assert_eq!(riscv.instructions.take(), [Event::SfenceVma(None, None), Event::Fence]);
    for tag in [0, 1, 0xffff] {
        riscv.flush(NO_ERRATA, Invalidation::Tag(Tag(tag)), Scope::Local);
        assert_eq!(riscv.instructions.take(), [sfence(tag), Event::Fence]);
    }
    let pages = Changed::Leaves(VaRange::new(0x4000, 0x2000, 12).unwrap());
    let plan = riscv.planner(NO_ERRATA, 8).plan(pages, Reach::Tag(Tag(1))).unwrap();
    riscv.execute(plan);
    let leaf = |address| Event::SfenceVma(Some(address), Some(1));
    assert_eq!(riscv.instructions.take(), [leaf(0x4000), leaf(0x5000), Event::Fence]);
}

pub(super) fn everyone(asid: Option<u16>) -> Event {
    Event::Sbi { harts: 0, base: u64::MAX, start: 0, size: u64::MAX, asid }
}

#[test]
fn flushes_everywhere() {
    let riscv = machine(16, Config { remote: Remote::Sbi, ..CONFIG }, satp(A, 1));
    assert!(riscv.properties().broadcasts);
    riscv.flush(NO_ERRATA, Invalidation::All, Scope::Broadcast);
    let all = Event::SfenceVma(None, None);
    assert_eq!(riscv.instructions.take(), [Event::Fence, all, everyone(None), Event::Fence]);
    riscv.flush(NO_ERRATA, Invalidation::Tag(Tag(7)), Scope::Broadcast);
    let expected = [Event::Fence, sfence(7), everyone(Some(7)), Event::Fence];
    assert_eq!(riscv.instructions.take(), expected);

    let request = Request { start: 0x1000, size: 0x1000, asid: Some(7) };
    riscv.flush_on([3, 70], request);
    let part = |base| Event::Sbi { harts: 1, base, start: 0x1000, size: 0x1000, asid: Some(7) };
    assert_eq!(riscv.instructions.take(), [Event::Fence, part(3), part(70), Event::Fence]);
    riscv.flush_on([], request);
    assert_eq!(riscv.instructions.take(), [Event::Fence, Event::Fence]);
}

#[test]
fn a_refused_remote_fence_is_asked_for_more_widely() {
    let riscv = machine(16, Config { remote: Remote::Sbi, ..CONFIG }, satp(A, 1));
    riscv.instructions.refuses.set(Refuses::Asids);
    riscv.flush(NO_ERRATA, Invalidation::Tag(Tag(7)), Scope::Broadcast);
    let expected = [Event::Fence, sfence(7), everyone(Some(7)), everyone(None), Event::Fence];
    assert_eq!(riscv.instructions.take(), expected);
    riscv.instructions.refuses.set(Refuses::Masks);
    let request = Request { start: 0x1000, size: 0x1000, asid: None };
    riscv.flush_on([3], request);
    let part = Event::Sbi { harts: 1, base: 3, start: 0x1000, size: 0x1000, asid: None };
    assert_eq!(riscv.instructions.take(), [Event::Fence, part, everyone(None), Event::Fence]);
}

fn panics(act: impl FnOnce(&Riscv<Recorder>), remote: Remote) -> bool {
    let riscv = machine(8, Config { remote, ..CONFIG }, satp(A, 1));
    riscv.instructions.refuses.set(Refuses::Everything);
    panic::catch_unwind(panic::AssertUnwindSafe(|| act(&riscv))).is_err()
}

#[test]
fn a_flush_that_did_not_happen_never_returns() {
    assert!(panics(
        |riscv| riscv.flush(NO_ERRATA, Invalidation::All, Scope::Broadcast),
        Remote::Sbi
    ));
    assert!(panics(
        |riscv| riscv.flush(NO_ERRATA, Invalidation::Tag(Tag(1)), Scope::Broadcast),
        Remote::Sbi
    ));
    assert!(panics(|riscv| riscv.flush_on([1], Request::EVERYTHING), Remote::Sbi));
    assert!(panics(|riscv| riscv.flush_on([1], Request::EVERYTHING), Remote::Interrupts));
    assert!(!panics(|riscv| riscv.flush(NO_ERRATA, Invalidation::All, Scope::Local), Remote::Sbi));
}

#[test]
fn a_tag_or_root_that_does_not_fit_is_not_cut_down() {
    let load = |root, tag| {
        panics(move |riscv| load(root, tag, Held::Drop)(riscv, NO_ERRATA), Remote::Interrupts)
    };
    assert!(!load(A, 0xff));
    assert!(load(A, 0x100));
    assert!(load(A + 1, 1));
    assert!(load(1 << 56, 1));
}

#[test]
fn construction_tries_the_firmware_out() {
    let config = Config { remote: Remote::Sbi, ..CONFIG };
    for refuses in [Refuses::Nothing, Refuses::Asids, Refuses::Everything] {
        let hart = Recorder::with_asid_bits(16, 0);
        hart.refuses.set(refuses);
        let riscv = Riscv::new(hart, &FEATURES, config);
        assert_eq!(riscv.is_ok(), refuses == Refuses::Nothing);
        if let Ok(riscv) = riscv {
            let expected = [everyone(None), everyone(Some(0))];
            assert_eq!(riscv.instructions.take(), expected);
        }
    }
    // Where it is not relied on, it is not asked.
    let riscv = Riscv::new(Recorder::with_asid_bits(16, 0), &FEATURES, CONFIG).unwrap();
    assert_eq!(riscv.instructions.take(), []);
    assert!(!riscv.properties().broadcasts);
    assert_eq!(riscv.properties().sharing, Sharing::Private);
}

#[test]
fn construction_refuses_what_cannot_run() {
    let new = |cpu: Features, config| {
        Riscv::new(Recorder::with_asid_bits(16, 0), &cpu, config)
            .map(|riscv| riscv.properties().tag_bits)
    };
    assert_eq!(new(Features { asid_bits: 9, ..FEATURES }, CONFIG), Ok(9));
    let wide = new(Features { asid_bits: 17, ..FEATURES }, CONFIG);
    assert!(matches!(wide, Err(Error::Unsupported(_))));
    let wider = new(FEATURES, Config { mode: Mode::Sv57, ..CONFIG });
    assert!(matches!(wider, Err(Error::MissingFeature(_))));
    let lacking = new(FEATURES, Config { relies_on: Extensions::SVNAPOT, ..CONFIG });
    assert_eq!(lacking, Err(Error::MissingFeature("svnapot")));
    let odd = new(FEATURES, Config { reserved: Root::new(1), ..CONFIG });
    assert_eq!(odd, Err(Error::BadRoot { address: 1 }));
    let two = Root { table: RESERVED, user_table: A };
    let two = new(FEATURES, Config { reserved: two, ..CONFIG });
    assert_eq!(two, Err(Error::BadRoot { address: A }));
}

#[test]
fn admission() {
    let riscv = machine(9, Config { relies_on: Extensions::SVINVAL, ..CONFIG }, 0);
    let admit = |cpu| riscv.admit(&cpu);
    assert_eq!(admit(Features { asid_bits: 9, ..FEATURES }), Ok(Errata::NONE));
    assert_eq!(admit(Features { mode: Mode::Sv39, ..FEATURES }), Ok(Errata::NONE));
    // SiFive FU740.
    let identity =
        Identity { vendor: 0x489, architecture: 1 << 63 | 7, implementation: 0x2018_1004 };
    let odd = Features { identity, ..FEATURES };
    assert_eq!(admit(odd), Ok(FENCE_OPERANDS));
    let narrow = admit(Features { asid_bits: 8, ..FEATURES });
    assert_eq!(narrow, Err(Error::FewerTagBits { machine: 9, cpu: 8 }));
    let lacking = admit(Features { extensions: Extensions::SVNAPOT, ..FEATURES });
    assert_eq!(lacking, Err(Error::MissingFeature("svinval")));
    let riscv = machine(9, Config { mode: Mode::Sv48, ..CONFIG }, 0);
    let narrow = riscv.admit(&Features { mode: Mode::Sv39, ..FEATURES });
    assert!(matches!(narrow, Err(Error::MissingFeature(_))));
}

#[test]
fn roots() {
    let riscv = machine(16, CONFIG, 0);
    for root in [0, A, 0x00ff_ffff_ffff_f000] {
        assert_eq!(riscv.check_root(Root::new(root)), Ok(()));
    }
    for root in [A + 1, A + 0x800, 1 << 56] {
        assert_eq!(riscv.check_root(Root::new(root)), Err(Error::BadRoot { address: root }));
    }
    let two = Root { table: A, user_table: B };
    assert_eq!(riscv.check_root(two), Err(Error::BadRoot { address: B }));
}

/// A hart that has cached, at every moment, all that it may: which roots it holds entries of, for
/// each ASID. Reports when a root is walked through another's entries.
struct Maximal {
    satp: Cell<u64>,
    entries: RefCell<BTreeSet<(u16, u64)>>,
    /// Another root whose entries may be met, because its tables cannot be freed meanwhile.
    outgoing: Cell<u64>,
    mixed: Cell<bool>,
}

impl Maximal {
    fn walk(&self) {
        let satp = Satp::from_bits(self.satp.get());
        let (asid, root) = (satp.asid(), satp.root());
        let mut entries = self.entries.borrow_mut();
        entries.insert((asid, root));
        let harmless = |other| [root, self.outgoing.get(), RESERVED].contains(&other);
        if entries.iter().any(|&(a, other)| a == asid && !harmless(other)) {
            self.mixed.set(true);
        }
    }
}

impl Instructions for Maximal {
    fn sfence_vma(&self, address: Option<u64>, asid: Option<u16>) {
        assert_eq!(address, None);
        self.entries.borrow_mut().retain(|entry| asid.is_some_and(|asid| entry.0 != asid));
        self.walk();
    }
    fn sfence_w_inval(&self) {}
    fn sinval_vma(&self, _: Option<u64>, _: Option<u16>) {}
    fn sfence_inval_ir(&self) {}
    fn fence(&self) {}
    fn read_satp(&self) -> u64 {
        self.satp.get()
    }
    fn write_satp(&self, value: u64) {
        self.satp.set(value);
        self.walk();
    }
    fn remote_sfence_vma(
        &self,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: Option<u16>,
    ) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Load(u64, u16, Held),
    Park,
}

/// Runs the acts; false if at some moment a root was walked through entries of a third one, or if
/// at the end of an act its tag held anything but its own.
fn holds(asid_bits: u32, acts: &[Act]) -> bool {
    let hart = Maximal {
        satp: Cell::new(satp(RESERVED, 0)),
        entries: RefCell::new([(0, RESERVED)].into()),
        outgoing: Cell::new(RESERVED),
        mixed: Cell::new(false),
    };
    let riscv = Riscv::new(hart, &Features { asid_bits, ..FEATURES }, CONFIG).unwrap();
    for &act in acts {
        let hart = &riscv.instructions;
        hart.outgoing.set(Satp::from_bits(hart.satp.get()).root());
        let (root, tag) = match act {
            Act::Load(root, tag, held) => {
                // A caller keeps only what is this space's.
                let owned = hart.entries.borrow().iter().all(|e| e.0 != tag || e.1 == root);
                let held = if owned { held } else { Held::Drop };
                // SAFETY: no hardware walks this root.
                unsafe { riscv.load(NO_ERRATA, Root::new(root), Tag(tag), held, Sharing::Private) };
                (root, tag)
            }
            Act::Park => {
                riscv.park(NO_ERRATA);
                (RESERVED, 0)
            }
        };
        let named = Satp::from_bits(hart.satp.get());
        assert_eq!((named.root(), named.asid()), (root, tag));
        let clean = hart.entries.borrow().iter().all(|e| e.0 != tag || e.1 == root);
        if !clean || hart.mixed.get() {
            return false;
        }
    }
    true
}

#[test]
fn no_root_is_ever_walked_through_the_entries_of_a_third() {
    for asid_bits in [0, 2] {
        let tags: &[u16] = if asid_bits == 0 { &[0] } else { &[0, 1, 2] };
        let mut acts = vec![Act::Park];
        for &tag in tags {
            for root in [A, B, 0x8000_3000] {
                acts.extend([Held::Keep, Held::Drop].map(|held| Act::Load(root, tag, held)));
            }
        }
        let mut sequence = Vec::new();
        every_sequence(&acts, &mut sequence, 4, &|sequence| {
            assert!(holds(asid_bits, sequence), "{asid_bits} ASID bits: {sequence:?}");
        });
    }
}

fn every_sequence(acts: &[Act], so_far: &mut Vec<Act>, left: u32, check: &dyn Fn(&[Act])) {
    if left == 0 {
        return check(so_far);
    }
    for &act in acts {
        so_far.push(act);
        every_sequence(acts, so_far, left - 1, check);
        so_far.pop();
    }
}

mod separate;
