//! The allocator that is chosen at run time: which one is chosen, what is refused, and that it does what the chosen one
//! does by itself.

use core::{fmt::Debug, panic::AssertUnwindSafe};
use std::panic::catch_unwind;

use crate::support::{
    Fake, Op,
    machine::{
        Machine, Strategy, What, chosen, epochs_with, flush, pages, recent, space, switch, this_cpu,
    },
    on, words,
};
use lookaside::{
    AddressSpace, Cpu, Error, Gather, KernelGather, Tlb,
    arch::{Root, Tag},
    flush::Batch,
    platform::{CpuId, MAX_CPUS},
    tags::{AsidScope, Asids, AsidsConfig, GlobalAsidsConfig, Switched},
};

const GLOBAL: AsidScope = AsidScope::Global;
const PER_CPU: AsidScope = AsidScope::PerCpu;
/// Enough for each CPU and one more, so that tags run out soon.
const FEW: GlobalAsidsConfig = GlobalAsidsConfig { tags: 8, pins: 1, last_epoch: 3 };

fn forced(scope: AsidScope, global: GlobalAsidsConfig) -> AsidsConfig {
    AsidsConfig { scope: Some(scope), global }
}

fn choice(fake: &Fake, cpus: usize) -> AsidScope {
    AsidsConfig::default().choose(fake, cpus)
}

/// What `Tlb::new` says of a machine with so many CPUs and words.
fn begin(fake: Fake, config: AsidsConfig, cpus: usize, given: usize) -> Result<AsidScope, Error> {
    let cpus = Vec::leak((0..cpus).map(|_| Cpu::new()).collect());
    Tlb::new(fake, Asids::new(config, words(given)), cpus).map(|tlb| tlb.asid_scope())
}

// ---- The rules

#[test]
fn arm_and_riscv_have_global_tags_if_there_are_enough() {
    for (bits, cpus, expected) in [
        (0, 1, PER_CPU),
        (1, 1, PER_CPU),
        (2, 1, GLOBAL),
        (2, 2, PER_CPU),
        (8, 64, GLOBAL),
        // 256 tags, without the two that no space can have, and one more than there are CPUs.
        (8, 253, GLOBAL),
        (8, 254, PER_CPU),
        (9, 254, GLOBAL),
        (16, 1, GLOBAL),
        (16, MAX_CPUS, GLOBAL),
        (16, usize::MAX, PER_CPU),
    ] {
        for fake in [Fake::new(1, bits), Fake::new(1, bits).without_broadcast()] {
            assert_eq!(choice(&fake, cpus), expected, "{bits} bits, {cpus} CPUs");
        }
    }
}

#[test]
fn pins_and_a_limit_of_tags_count() {
    let fake = Fake::new(1, 16);
    for (tags, pins, cpus, expected) in [
        (1 << 16, 0, 4, GLOBAL),
        (7, 0, 4, GLOBAL),
        (6, 0, 4, PER_CPU),
        (7, 1, 4, PER_CPU),
        (8, 1, 4, GLOBAL),
        (1 << 16, u32::MAX, 4, PER_CPU),
        (0, 0, 1, PER_CPU),
    ] {
        let global = GlobalAsidsConfig { tags, pins, ..Default::default() };
        let config = AsidsConfig { global, ..Default::default() };
        assert_eq!(config.choose(&fake, cpus), expected, "{tags} tags, {pins} pins, {cpus} CPUs");
    }
}

#[test]
fn x86_has_global_tags_only_with_broadcasts() {
    let x86 = |bits| Fake::new(1, bits).preferring_per_cpu_tags();
    for bits in [0, 12] {
        assert_eq!(choice(&x86(bits).without_broadcast(), 4), PER_CPU, "{bits} bits");
    }
    assert_eq!(choice(&x86(12), 4), GLOBAL, "INVLPGB");
    assert_eq!(choice(&x86(0), 4), PER_CPU, "INVLPGB and no PCIDs");
    assert_eq!(choice(&x86(12).with_user_flushes_deferred(), 4), PER_CPU);
}

#[test]
fn cpus_that_share_translations_have_global_tags_or_none() {
    assert_eq!(choice(&Fake::new(1, 16).shared(), 4), GLOBAL);
    let few = Fake::new(1, 2).shared();
    assert_eq!(choice(&few, 4), GLOBAL, "per-CPU tags would be wrong");
    let too_few = Error::TooFewTags { usable: 2, needed: 5 };
    assert_eq!(begin(few, AsidsConfig::default(), 4, 2), Err(too_few));
    assert_eq!(
        begin(Fake::new(1, 0).shared(), AsidsConfig::default(), 4, 2048),
        Err(Error::Unsupported("tags"))
    );
}

#[test]
fn the_kernel_may_decide_and_is_told_if_that_cannot_be() {
    let config = GlobalAsidsConfig::default();
    let x86 = Fake::new(1, 12).preferring_per_cpu_tags().without_broadcast();
    assert_eq!(begin(x86, forced(GLOBAL, config), 4, 2048), Ok(GLOBAL));
    assert_eq!(begin(Fake::new(1, 16), forced(PER_CPU, config), 4, 0), Ok(PER_CPU));
    let none = begin(Fake::new(1, 0), forced(GLOBAL, config), 4, 2048);
    assert_eq!(none, Err(Error::Unsupported("tags")));
    let shared = begin(Fake::new(1, 16).shared(), forced(PER_CPU, config), 4, 0);
    assert!(matches!(shared, Err(Error::Unsupported(_))), "{shared:?}");
    let deferred =
        begin(Fake::new(1, 12).with_user_flushes_deferred(), forced(GLOBAL, config), 4, 2048);
    assert!(matches!(deferred, Err(Error::Unsupported(_))), "{deferred:?}");
}

// ---- Storage

#[test]
fn storage_is_needed_only_for_global_tags() {
    let config = AsidsConfig::default();
    for (bits, cpus, needed) in [(16, 4, 2048), (8, 4, 8), (8, 255, 0), (0, 4, 0)] {
        assert_eq!(config.words_needed(&Fake::new(1, bits), cpus), needed, "{bits} bits");
        let begun = begin(Fake::new(1, bits), config, cpus, needed);
        assert_eq!(begun, Ok(choice(&Fake::new(1, bits), cpus)), "{bits} bits");
        if let Some(given) = needed.checked_sub(1) {
            let short = begin(Fake::new(1, bits), config, cpus, given);
            assert_eq!(short, Err(Error::Storage { needed, given }), "{bits} bits");
        }
    }
    const WORST: usize = Asids::<Fake>::words_for(1 << 16);
    assert_eq!(WORST, 2048);
}

#[test]
fn a_cpu_that_another_tlb_has_used_is_refused_whatever_either_chose() {
    for first in [GLOBAL, PER_CPU] {
        for second in [GLOBAL, PER_CPU] {
            let config = |scope| forced(scope, FEW);
            let mut cpus = [const { Cpu::new() }; 2];
            {
                let asids = Asids::new(config(first), words(2));
                let tlb = Tlb::new(Fake::new(2, 12), asids, &mut cpus).unwrap();
                on(1, || tlb.online(&(), &12).unwrap());
                let a = tlb.space(Root::new(0x4000), words(1)).unwrap();
                let _ = on(1, || tlb.this_cpu(&()).switch(&a));
            }
            let asids = Asids::new(config(second), words(2));
            let again = Tlb::new(Fake::new(2, 12), asids, &mut cpus).map(drop);
            assert!(
                matches!(again, Err(Error::UsedStorage { .. })),
                "{first:?}, {second:?}: {again:?}"
            );
        }
    }
}

// ---- Behaviour

/// The CPUs of the story.
const CPUS: [u32; 3] = [0, 1, 2];

/// Something that differs where a call goes to the other allocator, or nowhere.
#[derive(Debug, PartialEq)]
struct Step {
    what: String,
    result: String,
    acts: Vec<(u32, Op)>,
    events: String,
}

/// A run of everything that an allocator has a say in, on three CPUs.
struct Story<T: Strategy> {
    tlb: Machine<T>,
    steps: Vec<Step>,
}

impl<T: Strategy> Story<T> {
    fn step<R: Debug>(&mut self, what: &str, act: impl FnOnce(Machine<T>) -> R) {
        let fake = self.tlb.platform();
        fake.forget_logs();
        let before = fake.events().len();
        let result = format!("{:?}", act(self.tlb));
        let events = format!("{:?}", &fake.events()[before..]);
        self.steps.push(Step { what: what.to_owned(), result, acts: fake.acts(), events });
    }

    /// What NMI handlers are told, who may hold entries of a space, and what the CPUs have loaded.
    fn look(&mut self, a: &AddressSpace<Fake>) {
        self.step("look", |tlb| {
            let okay = CPUS.map(|cpu| on(cpu, || tlb.nmi_uaccess_okay(a)));
            let residency = CPUS.map(|cpu| a.residents().get(CpuId(cpu)));
            (okay, residency, format!("{:?}", tlb.cpus()), a.cookie(), a.generation())
        });
    }
}

/// The steps of the story with `pin`, which only global tags know.
fn story<T: Strategy>(
    tlb: Machine<T>,
    pin: impl Fn(Machine<T>, &AddressSpace<Fake>) -> Option<String>,
) -> Vec<Step> {
    let mut story = Story { tlb, steps: Vec::new() };
    let mut a = space(tlb, 1);
    let (b, c) = (space(tlb, 2), space(tlb, 3));
    story.step("kind", |tlb| tlb.asid_scope());
    for (cpu, to) in [(0, &a), (1, &a), (2, &b), (0, &b), (0, &a), (0, &a)] {
        story.step("switch", |tlb| switch(tlb, cpu, to));
        story.look(&a);
    }
    for what in What::ALL {
        story.step("flush", |tlb| flush(tlb, 0, &a, |gather| what.tell(gather)).flags);
        story.step("flush of a space that runs elsewhere", |tlb| {
            flush(tlb, 0, &b, |gather| what.tell(gather)).flags
        });
        story.step("flush of a space that never ran", |tlb| {
            flush(tlb, 0, &c, |gather| what.tell(gather)).flags
        });
        story.look(&a);
    }
    // The CPU has left A, and runs C under another number than its own.
    for to in [&b, &c] {
        story.step("switch", |tlb| switch(tlb, 0, to));
    }
    for what in What::ALL {
        for space in [&a, &b, &c] {
            story.step("flush of each", |tlb| {
                flush(tlb, 0, space, |gather| what.tell(gather)).flags
            });
            story.look(space);
        }
    }
    story.step("switch", |tlb| switch(tlb, 0, &a));
    story.step("lazy", |tlb| on(1, || this_cpu(tlb).lazy()));
    story.look(&a);
    story.step("flush past a lazy CPU", |tlb| {
        flush(tlb, 0, &a, |gather| What::Page.tell(gather)).flags
    });
    story.step("freed table with a lazy CPU", |tlb| {
        flush(tlb, 0, &a, |gather| What::Table.tell(gather)).flags
    });
    story.step("back from lazy", |tlb| switch(tlb, 1, &a));
    story.look(&a);
    story.step("kernel", |tlb| {
        let mut gather = KernelGather::new(tlb);
        gather.revoke(pages(0xffff_8000_0000_0000, 3));
        this_cpu(tlb).flush_kernel(gather).flags
    });
    story.step("early", |tlb| {
        let mut gather = Gather::new(&a);
        What::Page.tell(&mut gather);
        this_cpu(tlb).flush_early(gather).flags
    });
    story.step("in two steps", |tlb| {
        let mut gather = Gather::new(&a);
        What::Range.tell(&mut gather);
        tlb.begin_flush(&(), gather).wait().flags
    });
    story.step("batch", |tlb| {
        let mut batch = Batch::new(tlb, words(1)).unwrap();
        for space in [&a, &b] {
            let mut gather = Gather::new(space);
            What::Page.tell(&mut gather);
            this_cpu(tlb).defer(gather, &mut batch);
        }
        this_cpu(tlb).flush_batch(batch).flags
    });
    story.look(&a);
    story.step("foreign root", |tlb| {
        on(1, || this_cpu(tlb).with_root(&Root::new(0x9000), || tlb.nmi_uaccess_okay(&a)))
    });
    story.look(&a);
    for cpu in [1, 2] {
        story.step("park", |tlb| on(cpu, || this_cpu(tlb).park()));
    }
    tlb.platform().set_costs(|costs| costs.retag = 0);
    story.step("retag", |tlb| flush(tlb, 0, &a, |gather| What::Range.tell(gather)).flags);
    story.look(&a);
    story.step("pin", |tlb| pin(tlb, &a));
    // Tags run out, up to the last epoch.
    for number in 10..60 {
        let space = space(tlb, number);
        story.step("switch", |tlb| switch(tlb, number as u32 % 2, &space));
        story.look(&space);
    }
    story.step("switch", |tlb| switch(tlb, 2, &a));
    story.step("switch", |tlb| switch(tlb, 1, &a));
    story.step("halted", |tlb| tlb.stopped(&(), CpuId(1)));
    story
        .step("flush without it", |tlb| flush(tlb, 0, &a, |gather| What::Table.tell(gather)).flags);
    story.step("offline", |tlb| on(2, || this_cpu(tlb).offline()));
    story.look(&a);
    story.step("online", |tlb| on(2, || tlb.online(&(), &12)));
    story.step("switch", |tlb| switch(tlb, 2, &a));
    story.step("release", |tlb| on(0, || this_cpu(tlb).release(&mut a)));
    story.look(&a);
    story.steps
}

fn assert_same(fixed: &[Step], chosen: &[Step]) {
    for (number, (fixed, chosen)) in fixed.iter().zip(chosen).enumerate() {
        assert_eq!(chosen, fixed, "step {number}");
    }
    assert_eq!(chosen.len(), fixed.len());
}

#[test]
fn what_is_chosen_does_what_global_asids_do() {
    for fake in [
        || Fake::new(3, 12),
        || Fake::new(3, 12).without_broadcast(),
        || Fake::new(3, 12).with_walks_that_outlive_tags(),
        || Fake::new(3, 12).shared(),
    ] {
        let fixed = story(epochs_with(3, fake(), FEW), |tlb, a| {
            Some(format!("{:?} {:?}", this_cpu(tlb).pin(a), this_cpu(tlb).unpin(a)))
        });
        assert!(fixed.iter().any(|step| step.result == format!("{:?}", Switched::RolledOver)));
        let config = AsidsConfig { global: FEW, ..Default::default() };
        let chosen = story(chosen(3, fake(), config), |tlb, a| {
            Some(format!("{:?} {:?}", this_cpu(tlb).pin(a), this_cpu(tlb).unpin(a)))
        });
        assert_same(&fixed, &chosen);
    }
}

#[test]
fn what_is_chosen_does_what_per_cpu_asids_do() {
    for fake in [
        || Fake::new(3, 12).without_broadcast(),
        || Fake::new(3, 12).without_broadcast().preferring_per_cpu_tags(),
        || Fake::new(3, 0).without_broadcast(),
    ] {
        let fixed = story(recent(3, fake()), |_, _| None);
        let tlb = chosen(3, fake(), forced(PER_CPU, GlobalAsidsConfig::default()));
        assert_same(&fixed, &story(tlb, |_, _| None));
    }
}

#[test]
fn tags_of_each_cpus_own_cannot_be_pinned() {
    let tlb = chosen(1, Fake::new(1, 12), forced(PER_CPU, FEW));
    let a = space(tlb, 1);
    assert!(matches!(this_cpu(tlb).pin(&a), Err(Error::Unsupported(_))));
    assert_eq!(this_cpu(tlb).unpin(&a), Err(Error::NotPinned));
    let other = chosen(1, Fake::new(1, 12), forced(PER_CPU, FEW));
    assert_eq!(this_cpu(other).unpin(&a), Err(Error::OtherTlb));
}

#[test]
fn a_switch_to_a_space_of_another_tlb_is_refused() {
    let [tlb, other] = [1, 2].map(|_| chosen(1, Fake::new(1, 12), forced(PER_CPU, FEW)));
    let a = space(other, 1);
    let refused = catch_unwind(AssertUnwindSafe(|| this_cpu(tlb).switch(&a))).unwrap_err();
    assert!(refused.downcast_ref::<String>().unwrap().contains(&Error::OtherTlb.to_string()));
    assert_eq!(this_cpu(tlb).tag(), Tag::RESERVED, "nothing was loaded");
}

#[test]
fn an_unpin_in_vain_leaves_the_lock_of_a_later_tlb_alone() {
    let mut cpus = [const { Cpu::new() }; 1];
    for scope in [PER_CPU, GLOBAL] {
        let asids = Asids::new(forced(scope, FEW), words(2));
        let tlb = Tlb::new(Fake::new(1, 12), asids, &mut cpus).unwrap();
        tlb.online(&(), &12).unwrap();
        let a = tlb.space(Root::new(0x4000), words(1)).unwrap();
        if scope == GLOBAL {
            // The lock begins anew: it would be waited for here for ever.
            assert!(tlb.this_cpu(&()).pin(&a).is_ok());
        }
        let done = if scope == GLOBAL { Ok(()) } else { Err(Error::NotPinned) };
        assert_eq!(tlb.this_cpu(&()).unpin(&a), done);
    }
}

#[test]
fn a_log_shows_which_allocator_was_chosen() {
    for (scope, shown) in [(GLOBAL, "asid_scope: Global"), (PER_CPU, "asid_scope: PerCpu")] {
        let tlb = chosen(2, Fake::new(2, 12), forced(scope, FEW));
        assert!(format!("{tlb:?}").contains(shown), "{tlb:?}");
        assert_eq!(tlb.choice(), scope);
    }
}
