//! Global ASIDs on the host: what is written to the hardware, in which order, and what is not.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use crate::support::{Fake, Op, on, words};
use lookaside::{
    AddressSpace, Cpu, Error, GlobalAsids, Tlb,
    arch::{Held, Mmu, Root, Sharing, Tag},
    tags::{GlobalAsidsConfig, Released, Switched},
};

type Machine = Tlb<'static, Fake, GlobalAsids<'static, Fake>>;

fn try_machine(cpus: usize, fake: Fake, config: GlobalAsidsConfig) -> Result<Machine, Error> {
    let tags = GlobalAsids::new(&fake, config, words(GlobalAsids::<Fake>::words_for(config.tags)))?;
    let storage = Vec::leak((0..cpus).map(|_| Cpu::new()).collect());
    Tlb::new(fake, tags, storage)
}

/// A machine whose CPUs are all up.
fn machine(cpus: usize, fake: Fake, tags: u32) -> Machine {
    machine_with(cpus, fake, GlobalAsidsConfig { tags, ..Default::default() })
}

fn machine_with(cpus: usize, fake: Fake, config: GlobalAsidsConfig) -> Machine {
    let tlb = try_machine(cpus, fake, config).unwrap();
    let bits = tlb.platform().mmu.properties().tag_bits;
    for cpu in 0..cpus as u32 {
        on(cpu, || tlb.online(&(), &bits).unwrap());
    }
    tlb.platform().forget_logs();
    tlb
}

fn this_cpu(tlb: &Machine) -> lookaside::CurrentCpu<'_, Fake, GlobalAsids<'static, Fake>> {
    tlb.this_cpu(&())
}

fn space(tlb: &Machine, number: u64) -> AddressSpace<Fake> {
    tlb.space(Root::new(number * 4096), words(tlb.cpus().len().div_ceil(32))).unwrap()
}

fn switch(tlb: &Machine, cpu: u32, space: &AddressSpace<Fake>) -> Switched {
    on(cpu, || this_cpu(tlb).switch(space))
}

fn load(table: u64, tag: u16) -> Op {
    Op::Load { table: table * 4096, tag, held: Held::Keep, sharing: Sharing::Private }
}

#[test]
fn asid_05_kernel_contexts_share_one_root_and_switching_between_them_writes_nothing() {
    let tlb = machine(1, Fake::new(1, 8), 16);
    let user = space(&tlb, 1);
    let _ = switch(&tlb, 0, &user);
    tlb.platform().forget_logs();
    assert!(this_cpu(&tlb).park().root_changed());
    assert_eq!(tlb.platform().log(0), [Op::Settle, Op::Park]);
    assert_eq!(this_cpu(&tlb).park(), Switched::Unchanged);
    assert_eq!(tlb.platform().log(0), [Op::Settle]);
    assert_eq!(this_cpu(&tlb).tag(), Tag::RESERVED);
}

#[test]
fn asid_06_a_switch_to_the_present_space_writes_nothing_and_still_settles() {
    let tlb = machine(1, Fake::new(1, 8), 16);
    let user = space(&tlb, 1);
    assert_eq!(switch(&tlb, 0, &user), Switched::Fresh);
    tlb.platform().forget_logs();
    let switched = switch(&tlb, 0, &user);
    assert_eq!(switched, Switched::Unchanged);
    assert!(!switched.root_changed());
    assert_eq!(tlb.platform().log(0), [Op::Settle]);
}

#[test]
fn asid_08_tags_run_out_and_nobody_notices() {
    // 8 bits, no explicit release, five epochs' worth of spaces on two CPUs.
    let tlb = machine(2, Fake::new(2, 8), 256);
    let spaces: Vec<_> = (1..=1300).map(|number| space(&tlb, number)).collect();
    for (index, space) in spaces.iter().enumerate() {
        let _ = switch(&tlb, index as u32 % 2, space);
    }
    assert!(tlb.tags().epoch() >= 5, "epoch {}", tlb.tags().epoch());
}

#[test]
fn asid_08_a_rollover_flushes_each_cpu_once_and_nobody_else() {
    let tlb = machine(2, Fake::new(2, 8), 5);
    let spaces: Vec<_> = (1..=4).map(|number| space(&tlb, number)).collect();
    let _ = switch(&tlb, 0, &spaces[0]);
    let _ = switch(&tlb, 1, &spaces[1]);
    let _ = switch(&tlb, 1, &spaces[2]);
    tlb.platform().forget_logs();
    assert_eq!(switch(&tlb, 1, &spaces[3]), Switched::RolledOver);
    // Tags 2 (on CPU 0) and 4 (the outgoing one, here) are kept, 3 is dealt anew.
    assert_eq!(tlb.platform().log(1), [Op::FlushAll, Op::Settle, load(4, 3)]);
    assert_eq!(tlb.platform().log(0), [], "nothing is done to another CPU");
    // CPU 0 pays when it next switches, and its space keeps its number.
    assert_eq!(switch(&tlb, 0, &spaces[0]), Switched::Kept);
    assert_eq!(tlb.platform().log(0), [Op::FlushAll, Op::Settle, load(1, 2)]);
    assert_eq!(switch(&tlb, 0, &spaces[0]), Switched::Unchanged);
}

#[test]
fn asid_08_a_cpu_that_flushed_at_switch_in_does_not_flush_again_for_its_own_rollover() {
    let tlb = machine(2, Fake::new(2, 8), 5);
    let spaces: Vec<_> = (1..=5).map(|number| space(&tlb, number)).collect();
    let _ = switch(&tlb, 0, &spaces[0]);
    for space in &spaces[1..4] {
        let _ = switch(&tlb, 1, space);
    }
    assert_eq!(tlb.tags().epoch(), 2, "which CPU 0 has not joined, and which has no tag left");
    tlb.platform().forget_logs();
    assert_eq!(switch(&tlb, 0, &spaces[4]), Switched::RolledOver);
    let tag = spaces[4].cookie().tag().0;
    assert_eq!(tlb.platform().log(0), [Op::FlushAll, Op::Settle, load(5, tag)]);
}

#[test]
fn asid_09_live_tags_survive_many_rollovers() {
    let tlb = machine(2, Fake::new(2, 8), 5);
    let stays = space(&tlb, 100);
    let _ = switch(&tlb, 0, &stays);
    let tag = stays.cookie().tag();
    for number in 1..50 {
        let _ = switch(&tlb, 1, &space(&tlb, number));
    }
    assert!(tlb.tags().epoch() > 20);
    // The first CPU to enter it again renews its cookie, and the number is the same.
    let _ = switch(&tlb, 1, &stays);
    assert_eq!(stays.cookie().tag(), tag);
    for number in 50..99 {
        let _ = switch(&tlb, 1, &space(&tlb, number));
    }
    assert!(switch(&tlb, 0, &stays) <= Switched::Kept);
    assert_eq!(stays.cookie().tag(), tag);
}

#[test]
fn asid_10_a_released_tag_comes_back_at_once_and_after_a_flush() {
    let tlb = machine(1, Fake::new(1, 8), 16);
    let (mut first, other) = (space(&tlb, 1), space(&tlb, 2));
    let _ = switch(&tlb, 0, &first);
    let tag = first.cookie().tag();
    let _ = switch(&tlb, 0, &other);
    tlb.platform().forget_logs();
    assert_eq!(this_cpu(&tlb).release(&mut first), Released::AtOnce);
    assert_eq!(tlb.platform().log(0), [Op::FlushTag(tag.0)]);
    let next = space(&tlb, 3);
    assert_eq!(switch(&tlb, 0, &next), Switched::Fresh);
    assert_eq!(next.cookie().tag(), tag);
}

#[test]
fn asid_10_a_released_tag_is_flushed_where_it_is_held() {
    let config = GlobalAsidsConfig { tags: 16, pins: 1, ..Default::default() };
    let tlb = machine_with(2, Fake::new(2, 8), config);
    let (mut here_and_there, mut there) = (space(&tlb, 1), space(&tlb, 2));
    let _ = switch(&tlb, 0, &here_and_there);
    let _ = switch(&tlb, 1, &here_and_there);
    let _ = switch(&tlb, 1, &there);
    let tags = [here_and_there.cookie().tag().0, there.cookie().tag().0];
    for cpu in 0..2 {
        let _ = on(cpu, || this_cpu(&tlb).park());
    }
    let mut device = space(&tlb, 3);
    let pinned = this_cpu(&tlb).pin(&device).unwrap();
    this_cpu(&tlb).unpin(&device).unwrap();
    tlb.platform().forget_logs();
    for space in [&mut here_and_there, &mut there, &mut device] {
        assert_eq!(this_cpu(&tlb).release(space), Released::AtOnce);
    }
    let everywhere = [tags[0], tags[1], pinned.0].map(Op::FlushTagEverywhere);
    assert_eq!(tlb.platform().log(0), everywhere);
    // Nobody ever ran it: there is nothing to flush.
    tlb.platform().forget_logs();
    assert_eq!(this_cpu(&tlb).release(&mut space(&tlb, 4)), Released::AtOnce);
    assert_eq!(tlb.platform().log(0), []);
}

#[test]
fn asid_10_a_tag_of_an_older_epoch_is_not_given_back_twice() {
    let tlb = machine(1, Fake::new(1, 8), 4);
    let mut old = space(&tlb, 1);
    let _ = switch(&tlb, 0, &old);
    for number in 2..6 {
        let _ = switch(&tlb, 0, &space(&tlb, number));
    }
    assert!(tlb.tags().epoch() > old.cookie().epoch());
    assert_eq!(this_cpu(&tlb).release(&mut old), Released::Later);
}

#[test]
fn asid_10_without_broadcast_a_tag_waits_for_the_rollover() {
    let tlb = machine(2, Fake::new(2, 8).without_broadcast(), 16);
    let (mut user, mut alone) = (space(&tlb, 1), space(&tlb, 2));
    let _ = switch(&tlb, 1, &user);
    let _ = on(1, || this_cpu(&tlb).park());
    let _ = switch(&tlb, 0, &alone);
    let tag = alone.cookie().tag();
    let _ = this_cpu(&tlb).park();
    tlb.platform().forget_logs();
    assert_eq!(this_cpu(&tlb).release(&mut user), Released::Later);
    assert_eq!(tlb.platform().log(0), []);
    // What only this CPU holds takes no broadcast.
    assert_eq!(this_cpu(&tlb).release(&mut alone), Released::AtOnce);
    assert_eq!(tlb.platform().log(0), [Op::FlushTag(tag.0)]);
}

#[test]
fn asid_11_taking_a_tag_from_the_asid_cache_needs_no_lock_until_the_window_is_used_up() {
    // 254 usable tags, 1 CPU: windows of 31 tags, the first one 2..33.
    let tlb = machine(1, Fake::new(1, 8), 256);
    let mut seen = std::collections::BTreeSet::new();
    for number in 1..=254 {
        let space = space(&tlb, number);
        assert_eq!(switch(&tlb, 0, &space), Switched::Fresh);
        assert!(seen.insert(space.cookie().tag()), "each tag is given once");
    }
    assert_eq!(seen.len(), 254);
    assert_eq!(switch(&tlb, 0, &space(&tlb, 255)), Switched::RolledOver);
}

#[test]
fn asid_11_asid_caches_are_void_after_a_rollover() {
    let tlb = machine(2, Fake::new(2, 8), 66);
    // CPU 0 fills its ASID cache with a window and uses one tag of it.
    let _ = switch(&tlb, 0, &space(&tlb, 1));
    for number in 2..70 {
        let _ = switch(&tlb, 1, &space(&tlb, number));
    }
    assert_eq!(tlb.tags().epoch(), 2);
    // Were the old ASID cache still good, CPU 0 would now run a tag that CPU 1 may run too: the shared
    // check of the next test would see it; here the cookie says which epoch dealt it.
    let fresh = space(&tlb, 70);
    let _ = switch(&tlb, 0, &fresh);
    assert_eq!(fresh.cookie().epoch(), tlb.tags().epoch());
}

#[test]
fn asid_12_the_last_epoch_never_ends_and_is_still_right() {
    for shared in [false, true] {
        let fake = if shared { Fake::new(2, 8).shared() } else { Fake::new(2, 8) };
        let tlb = machine_with(2, fake, GlobalAsidsConfig { tags: 6, last_epoch: 3, pins: 1 });
        let spaces: Vec<_> = (1..=30).map(|number| space(&tlb, number)).collect();
        let pinned = space(&tlb, 99);
        let tag = this_cpu(&tlb).pin(&pinned).unwrap();
        for round in 0..4 {
            for (index, space) in spaces.iter().enumerate() {
                let _ = switch(&tlb, (index as u32 + round) % 2, space);
            }
            let _ = switch(&tlb, round % 2, &pinned);
            assert_eq!(on(round % 2, || this_cpu(&tlb).tag()), tag);
        }
        assert_eq!(tlb.tags().epoch(), 3);
        tlb.platform().forget_logs();
        let _ = switch(&tlb, 0, &spaces[5]);
        let dropped =
            Op::Load { table: 6 * 4096, tag: 1, held: Held::Drop, sharing: Sharing::Private };
        // Nothing is loaded before what this CPU has said is visible.
        let log = tlb.platform().log(0);
        let before = log[..log.len() - 1].iter().rfind(|op| !matches!(op, Op::Publish(_)));
        assert_eq!(before, Some(&Op::Settle), "{log:?}");
        assert_eq!(log.last(), Some(&dropped));
        // A firmware call in the last epoch leaves nothing behind either.
        let mut cpu = this_cpu(&tlb);
        cpu.with_root(&Root::new(0xffff_0000), || ()).unwrap();
        assert!(tlb.platform().log(0).ends_with(&[dropped, FOREIGN_GONE]));
        assert_eq!(this_cpu(&tlb).pin(&spaces[0]), Err(Error::IdsExhausted));
    }
}

#[test]
fn asid_12_a_cpu_that_switches_back_in_the_last_epoch_is_present_and_reads_no_table_again() {
    let tlb =
        machine_with(1, Fake::new(1, 8), GlobalAsidsConfig { tags: 4, last_epoch: 2, pins: 0 });
    let spaces: Vec<_> = (1..=4).map(|number| space(&tlb, number)).collect();
    for space in &spaces {
        let _ = switch(&tlb, 0, space);
    }
    assert_eq!(tlb.tags().epoch(), 2);
    let _ = switch(&tlb, 0, &spaces[2]);
    tlb.platform().forget_logs();
    let _ = switch(&tlb, 0, &spaces[3]);
    let dropped = Op::Load { table: 4 * 4096, tag: 1, held: Held::Drop, sharing: Sharing::Private };
    assert_eq!(tlb.platform().log(0), [Op::Settle, dropped]);
}

#[test]
fn a_tag_is_loaded_as_a_first_one_where_it_is_new_or_the_space_is_new_to_the_cpu() {
    let tlb = machine(2, Fake::new(2, 8).with_first_loads_that_drop(), 6);
    let (stays, other) = (space(&tlb, 1), space(&tlb, 2));
    let held = |cpu, space: &AddressSpace<Fake>| {
        tlb.platform().forget_logs();
        let switched = switch(&tlb, cpu, space);
        match tlb.platform().log(cpu).last() {
            Some(Op::Load { held, .. }) => (switched, *held),
            last => panic!("{last:?}"),
        }
    };
    assert_eq!(held(0, &stays), (Switched::Fresh, Held::Drop));
    assert_eq!(held(1, &other), (Switched::Fresh, Held::Drop));
    for number in 3.. {
        if switch(&tlb, 1, &space(&tlb, number)) == Switched::RolledOver {
            break;
        }
    }
    // Its tag is kept.
    assert_eq!(held(1, &stays), (Switched::Kept, Held::Drop), "CPU 1 was never there");
    assert_eq!(held(0, &stays), (Switched::Kept, Held::Keep), "CPU 0 is there");
}

/// A foreign root leaves nothing behind: its tables may be freed.
const FOREIGN_GONE: Op = Op::FlushTag(1);

#[test]
fn asid_14_firmware_borrows_the_register_and_the_tag_survives_a_rollover() {
    let tlb = machine(2, Fake::new(2, 8), 5);
    let user = space(&tlb, 1);
    let _ = switch(&tlb, 0, &user);
    let tag = user.cookie().tag().0;
    tlb.platform().forget_logs();
    let mut cpu = this_cpu(&tlb);
    let foreign = || {
        let firmware =
            Op::Load { table: 0xffff_0000, tag: 1, held: Held::Drop, sharing: Sharing::Private };
        assert_eq!(tlb.platform().log(0), [Op::Settle, firmware]);
        for number in 2..20 {
            let other = space(&tlb, number);
            let _ = switch(&tlb, 1, &other);
            assert_ne!(other.cookie().tag().0, tag);
        }
        assert!(tlb.tags().epoch() > 2);
    };
    cpu.with_root(&Root::new(0xffff_0000), foreign).unwrap();
    assert_eq!(tlb.platform().log(0), [load(1, tag), FOREIGN_GONE]);
}

#[test]
fn asid_14_a_parked_cpu_is_parked_again_after_firmware() {
    let tlb = machine(1, Fake::new(1, 8), 8);
    let mut cpu = this_cpu(&tlb);
    cpu.with_root(&Root::new(0xffff_0000), || ()).unwrap();
    assert!(tlb.platform().log(0).ends_with(&[Op::Park, FOREIGN_GONE]));
    // SAFETY: as above.
    let refused = cpu.with_root::<()>(&Root::new(5), || unreachable!());
    assert_eq!(refused, Err(Error::BadRoot { address: 5 }));
}

#[test]
fn asid_14_firmware_that_panics_leaves_the_register_as_it_was() {
    let tlb = machine(1, Fake::new(1, 8), 8);
    let user = space(&tlb, 1);
    let _ = switch(&tlb, 0, &user);
    tlb.platform().forget_logs();
    let panics = || {
        let mut cpu = this_cpu(&tlb);
        // SAFETY: no real hardware walks this root.
        cpu.with_root::<()>(&Root::new(0xffff_0000), || panic!("it does"))
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert!(tlb.platform().log(0).ends_with(&[load(1, user.cookie().tag().0), FOREIGN_GONE]));
    assert!(tlb.nmi_uaccess_okay(&user), "and user memory may be touched again");
}

#[test]
fn asid_14_a_foreign_root_in_two_halves_is_one_in_a_closure() {
    let tlb = machine(1, Fake::new(1, 8), 8);
    let user = space(&tlb, 1);
    let _ = switch(&tlb, 0, &user);
    let mut cpu = this_cpu(&tlb);
    tlb.platform().forget_logs();
    cpu.with_root(&Root::new(0xffff_0000), || assert!(!tlb.nmi_uaccess_okay(&user))).unwrap();
    let in_a_closure = tlb.platform().log(0);
    tlb.platform().forget_logs();
    // SAFETY: no real hardware walks this root, and it is left below.
    unsafe { cpu.enter_root(&Root::new(0xffff_0000)) }.unwrap();
    assert!(cpu.has_foreign_root() && !tlb.nmi_uaccess_okay(&user));
    // SAFETY: it was entered above.
    unsafe { cpu.leave_root() };
    assert!(!cpu.has_foreign_root() && tlb.nmi_uaccess_okay(&user));
    assert_eq!(tlb.platform().log(0), in_a_closure);
    // SAFETY: it is refused.
    let refused = unsafe { cpu.enter_root(&Root::new(5)) };
    assert_eq!(refused, Err(Error::BadRoot { address: 5 }));
    assert!(!cpu.has_foreign_root());
}

#[test]
fn pinned_tags_survive_rollovers_and_the_cap_is_hard() {
    let tlb = machine_with(
        1,
        Fake::new(1, 8),
        GlobalAsidsConfig { tags: 6, pins: 2, ..Default::default() },
    );
    let (first, second, third) = (space(&tlb, 1), space(&tlb, 2), space(&tlb, 3));
    let tag = this_cpu(&tlb).pin(&first).unwrap();
    assert_eq!(this_cpu(&tlb).pin(&first), Ok(tag), "pins count");
    let other = this_cpu(&tlb).pin(&second).unwrap();
    assert_ne!(tag, other);
    assert_eq!(this_cpu(&tlb).pin(&third), Err(Error::PinCap { cap: 2 }));
    for number in 10..40 {
        let space = space(&tlb, number);
        let _ = switch(&tlb, 0, &space);
        assert!(space.cookie().tag() != tag && space.cookie().tag() != other);
    }
    let _ = switch(&tlb, 0, &first);
    assert_eq!(this_cpu(&tlb).tag(), tag);
    let _ = this_cpu(&tlb).park();

    let mut first = first;
    let pinned = catch_unwind(AssertUnwindSafe(|| this_cpu(&tlb).release(&mut first)));
    assert!(pinned.is_err());
    assert_eq!(this_cpu(&tlb).unpin(&first), Ok(()));
    assert_eq!(this_cpu(&tlb).unpin(&first), Ok(()));
    assert_eq!(this_cpu(&tlb).unpin(&first), Err(Error::NotPinned));
    assert!(this_cpu(&tlb).pin(&third).is_ok(), "the cap counts tags, not calls");
    for number in 40..60 {
        let _ = switch(&tlb, 0, &space(&tlb, number));
    }
    let _ = switch(&tlb, 0, &first);
    assert_eq!(first.cookie().epoch(), tlb.tags().epoch());
}

#[test]
fn cnp_a_switch_parks_first_and_a_rollover_is_one_broadcast() {
    let tlb = machine(2, Fake::new(2, 8).shared(), 5);
    let spaces: Vec<_> = (1..=40).map(|number| space(&tlb, number)).collect();
    let _ = switch(&tlb, 0, &spaces[0]);
    let _ = switch(&tlb, 1, &spaces[1]);
    let _ = switch(&tlb, 1, &spaces[2]);
    tlb.platform().forget_logs();
    assert_eq!(switch(&tlb, 1, &spaces[3]), Switched::RolledOver);
    let shared = Op::Load { table: 4 * 4096, tag: 3, held: Held::Keep, sharing: Sharing::Shared };
    assert_eq!(tlb.platform().log(1), [Op::Park, Op::FlushAllEverywhere, Op::Settle, shared]);
    for (index, space) in spaces.iter().enumerate() {
        let _ = switch(&tlb, index as u32 % 2, space);
    }
}

#[test]
fn cpus_come_and_go() {
    let tlb = machine(2, Fake::new(2, 8), 5);
    let user = space(&tlb, 1);
    let _ = switch(&tlb, 1, &user);
    on(1, || this_cpu(&tlb).offline());
    // A CPU that is down keeps no tag, however many epochs pass.
    for number in 2..40 {
        let _ = switch(&tlb, 0, &space(&tlb, number));
    }
    let mut user = user;
    let _ = this_cpu(&tlb).release(&mut user);
    tlb.platform().forget_logs();
    on(1, || tlb.online(&(), &8).unwrap());
    assert!(tlb.platform().log(1).contains(&Op::FlushAll));
    // Twice would acknowledge what it has not flushed, and park a thread's space.
    let _ = switch(&tlb, 1, &space(&tlb, 40));
    tlb.platform().forget_logs();
    let again = on(1, || tlb.online(&(), &8));
    assert_eq!(again, Err(Error::Online { cpu: lookaside::platform::CpuId(1) }));
    assert!(tlb.platform().log(1).is_empty());
    on(1, || this_cpu(&tlb).offline());
    let narrow = on(1, || tlb.online(&(), &7));
    assert_eq!(narrow, Err(Error::FewerTagBits { machine: 8, cpu: 7 }));
}

#[test]
fn a_cpu_that_parks_after_a_rollover_keeps_nothing() {
    let tlb = machine(2, Fake::new(2, 8), 5);
    let mut user = space(&tlb, 1);
    let _ = switch(&tlb, 1, &user);
    for number in 2..6 {
        let _ = switch(&tlb, 0, &space(&tlb, number));
    }
    assert!(tlb.tags().epoch() > 1);
    let _ = on(1, || this_cpu(&tlb).park());
    let _ = this_cpu(&tlb).release(&mut user);
}

#[test]
fn bad_configurations_are_refused_with_the_reason() {
    let config = |tags, pins| GlobalAsidsConfig { tags, pins, ..Default::default() };
    let refusal = |cpus, fake, config| try_machine(cpus, fake, config).map(drop).unwrap_err();
    assert_eq!(
        refusal(2, Fake::new(2, 8), config(4, 0)),
        Error::TooFewTags { usable: 2, needed: 3 }
    );
    assert_eq!(
        refusal(2, Fake::new(2, 8), config(5, 1)),
        Error::TooFewTags { usable: 3, needed: 4 }
    );
    assert_eq!(
        refusal(300, Fake::new(300, 8), config(1 << 16, 0)),
        Error::TooFewTags { usable: 254, needed: 301 }
    );
    assert_eq!(
        refusal(1, Fake::new(1, 8), config(0, 0)),
        Error::TooFewTags { usable: 0, needed: 2 }
    );
    assert_eq!(refusal(1, Fake::new(1, 0), config(8, 0)), Error::Unsupported("tags"));
    assert_eq!(refusal(0, Fake::new(1, 8), config(8, 0)), Error::CpuCount { cpus: 0 });
    assert!(matches!(
        refusal(2, Fake::new(2, 8).shared().without_broadcast(), config(16, 0)),
        Error::Unsupported(_)
    ));
    let fake = Fake::new(1, 8);
    let short = GlobalAsids::new(&fake, config(256, 0), words(7)).map(drop);
    assert_eq!(short, Err(Error::Storage { needed: 8, given: 7 }));
}

#[test]
fn storage_that_another_tlb_has_used_is_refused() {
    let mut cpus = [Cpu::new(), Cpu::new()];
    let mut new = || {
        let fake = Fake::new(2, 8);
        let config = GlobalAsidsConfig { tags: 16, ..Default::default() };
        let tags =
            GlobalAsids::new(&fake, config, words(GlobalAsids::<Fake>::words_for(16))).unwrap();
        Tlb::new(fake, tags, &mut cpus).map(drop)
    };
    assert_eq!(new(), Ok(()));
    let again = new();
    assert_eq!(again, Err(Error::UsedStorage { cpu: lookaside::platform::CpuId(0) }));
}

#[test]
fn a_cpu_without_storage_and_a_root_that_fits_no_register_are_refused() {
    let tlb = machine(1, Fake::new(1, 8), 16);
    let out = on(1, || tlb.online(&(), &8));
    assert_eq!(out, Err(Error::CpuOutOfRange { cpu: lookaside::platform::CpuId(1), cpus: 1 }));
    let unused = Root { table: 4096, user_table: 8192 };
    let unused = tlb.space(unused, words(1)).map(drop);
    assert_eq!(unused, Err(Error::BadRoot { address: 8192 }), "user mode has no table of its own");
    let bad = tlb.space(Root::new(7), words(1)).map(drop);
    assert_eq!(bad, Err(Error::BadRoot { address: 7 }));
    let small = tlb.space(Root::new(4096), words(0)).map(drop);
    assert_eq!(small, Err(Error::Storage { needed: 1, given: 0 }));
}

#[test]
fn threads_hammer_few_tags() {
    let tlb = machine(2, Fake::new(2, 8), 7);
    let spaces: Vec<_> = (1..=20).map(|number| space(&tlb, number)).collect();
    std::thread::scope(|scope| {
        for cpu in 0..2 {
            let (tlb, spaces) = (&tlb, &spaces);
            scope.spawn(move || {
                let mut random = u64::from(cpu) + 1;
                for _ in 0..200_000 {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    match random >> 33 {
                        n if n % 11 == 0 => _ = on(cpu, || this_cpu(tlb).park()),
                        n => _ = switch(tlb, cpu, &spaces[n as usize % 20]),
                    }
                }
            });
        }
    });
    assert!(tlb.tags().epoch() > 100);
}
