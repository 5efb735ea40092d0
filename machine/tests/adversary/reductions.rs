//! The explorer leaves out what comes to the same. Here nothing is left out, and random programs
//! come to exactly the same outcomes and break exactly the same rules.

use crate::common::{Programs, programs};
use lookaside::{
    arch::{
        aarch64::{self, Dsb, Scope, Tlbi, TlbiOp},
        riscv64, x86_64,
    },
    platform::{
        CpuId,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        Word as _,
    },
};
use lookaside_machine::{
    adversary::{
        Access, Arch, Buffers, Config, Flags, Frame, Rule, Updates, Word, access, access_store,
        arm, as_cpu, interrupt, irq_off, irq_on, oracle, outcome, relax, riscv, tables, x86,
    },
    explore::Budget,
};

const VA: u64 = 0x3000;

struct World {
    words: [Word; 2],
    /// What the programs and the handlers have seen, folded.
    seen: [Word; 4],
    roots: [Frame; 2],
    pte: &'static Word,
}

/// What random programs do.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    /// They load and store.
    Load,
    /// They change and use translations, too.
    Translate,
    /// They do, and hardware writes the descriptor.
    Update,
}

/// A small pseudo-random number for each index.
fn number(seed: u64, index: u64) -> u64 {
    let mut x =
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 31;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 29
}

fn see(word: &Word, value: u64) {
    word.set(word.get() * 5 + value + 1);
}

fn memory(world: &World, cpu: usize, what: u64) {
    let word = &world.words[what as usize / 16 % 2];
    let value = cpu as u64 + 1;
    match what % 12 {
        0 | 1 => see(&world.seen[cpu], word.load(Relaxed)),
        2 => see(&world.seen[cpu], word.load(SeqCst)),
        3 | 4 => word.store(value, Relaxed),
        5 => word.store(value, Release),
        6 => word.store(value, SeqCst),
        7 => see(&world.seen[cpu], word.swap(value, Relaxed)),
        8 => see(&world.seen[cpu], word.fetch_or(value, SeqCst)),
        9 => Word::fence(if value == 1 { Release } else { Acquire }),
        10 => Word::fence(SeqCst),
        _ => {
            while word.load(Relaxed) == 0 {
                relax();
            }
        }
    }
}

fn translation(arch: Arch, world: &World, cpu: usize, what: u64, does: Does) {
    use aarch64::Instructions as _;
    use riscv64::Instructions as _;
    use x86_64::Instructions as _;
    // Two frames on Arm would ask for a break before a make.
    let frame = Frame(if does == Does::Update { 1 } else { 2 });
    let page = || {
        let page = tables::page(frame, Access::WRITE);
        if does == Does::Update { tables::with_flags(page, Flags::ACCESSED) } else { page }
    };
    let root = world.roots[what as usize / 16 % 2];
    match what % 12 {
        0 => return see(&world.seen[cpu], access(VA).map_or(0, |frame| frame.0)),
        1 => return world.pte.store(0, Relaxed),
        2 => return world.pte.store(page(), Release),
        3 if does == Does::Update => {
            // A claim behind a store may be made before or after that reaches memory.
            Word::fence(SeqCst);
            return oracle::harvested(frame, 1, Flags::NONE);
        }
        3 => return oracle::revoked(world.roots[0], VA),
        4 => {
            access_store(VA, 1);
            return;
        }
        5 if what & 16 == 0 => return Word::fence(SeqCst),
        5 => {
            // It is in memory at once, and a TLBI may be earlier.
            let _ = world.pte.swap(0, SeqCst);
            return;
        }
        _ => {}
    }
    match (arch, what % 6) {
        (Arch::Arm, 0) => arm::Insn.tlbi(Tlbi {
            op: TlbiOp::Va,
            scope: if what & 16 == 0 { Scope::Local } else { Scope::Broadcast },
            operand: 1 << 48 | VA >> 12,
        }),
        (Arch::Arm, 1) => arm::Insn.dsb(Dsb::Ish),
        (Arch::Arm, 2) => arm::Insn.dsb(if what & 16 == 0 { Dsb::Nshst } else { Dsb::Ishst }),
        (Arch::Arm, 3) => arm::Insn.isb(),
        (Arch::Arm, 4) => arm::Insn.write_ttbr0(root.address() | (what / 32 % 2 + 1) << 48),
        (Arch::Arm, _) => see(&world.seen[cpu], arm::Insn.read_ttbr1()),
        (Arch::X86, 0) => x86::Insn.invlpg(VA),
        (Arch::X86, 1) => x86::Insn.write_cr3(root.address() | (what / 32 % 2 + 1)),
        (Arch::X86, 2) => x86::Insn.write_cr3(root.address() | (what / 32 % 2 + 1) | 1 << 63),
        (Arch::X86, 3) => x86::Insn.invlpgb(VA | 0b11, 0, 1 << 16),
        (Arch::X86, 4) => x86::Insn.tlbsync(),
        (Arch::X86, _) => see(&world.seen[cpu], x86::Insn.read_cr3() & 0xfff),
        (Arch::Riscv, 0) => riscv::Insn.sfence_vma(Some(VA), Some(1)),
        (Arch::Riscv, 1) => riscv::Insn.sfence_vma(None, None),
        (Arch::Riscv, 2) => {
            riscv::Insn.write_satp(8 << 60 | (what / 32 % 2 + 1) << 44 | root.0);
        }
        (Arch::Riscv, 3) => riscv::Insn.sinval_vma(Some(VA), Some(1)),
        (Arch::Riscv, 4) => riscv::Insn.sfence_inval_ir(),
        (Arch::Riscv, _) => riscv::Insn.fence(),
    }
}

fn random_program(seed: u64, config: Config, length: u64, does: Does) -> Programs<World> {
    let arch = config.arch;
    let (interrupts, nmis) = (config.interrupts, config.nmis);
    let build = move || {
        let roots = [tables::allocate(), tables::allocate()];
        tables::map(roots[0], VA, Frame(1), Access::WRITE);
        tables::map(roots[1], VA, Frame(3), Access::WRITE);
        for cpu in 0..2 {
            as_cpu(CpuId(cpu), || match arch {
                Arch::Arm => {
                    aarch64::Instructions::write_ttbr0(&arm::Insn, roots[0].address() | 1 << 48);
                    aarch64::Instructions::isb(&arm::Insn);
                }
                Arch::X86 => x86_64::Instructions::write_cr3(&x86::Insn, roots[0].address() | 1),
                Arch::Riscv => {
                    riscv64::Instructions::write_satp(&riscv::Insn, 8 << 60 | 1 << 44 | roots[0].0);
                }
            });
        }
        let pte = tables::pte(roots[0], VA);
        if does == Does::Update {
            tables::hardware_writes(pte);
            pte.store(tables::with_flags(pte.peek(), Flags::NONE), Relaxed);
        }
        World { words: [Word::ZERO, Word::ZERO], seen: [const { Word::ZERO }; 4], roots, pte }
    };
    let programs = programs(config, build, move |world: &World, cpu| {
        for index in 0..length {
            let what = number(seed, index * 2 + cpu as u64) >> 7;
            match what >> 20 & 15 {
                0 if interrupts => interrupt(1 << (1 - cpu)),
                1 if interrupts => irq_off(),
                2 if interrupts => irq_on(),
                3.. if does != Does::Load => translation(arch, world, cpu, what, does),
                _ => memory(world, cpu, what),
            }
        }
        see(&world.seen[cpu], 0);
    });
    let programs =
        programs.finish(|world| {
            let all = world.seen.iter().chain(&world.words);
            outcome(all.fold(world.pte.peek(), |all, word| {
                all.wrapping_mul(0x1f1f_1f1f_1f1f) ^ word.peek()
            }));
        });
    let handler = |world: &World, cpu: usize| {
        see(&world.seen[2 + cpu], world.words[0].load(Relaxed));
        world.words[1].store(7 + cpu as u64, Relaxed);
    };
    let programs = if interrupts { programs.interrupt(handler) } else { programs };
    if nmis > 0 { programs.nmi(nmis, handler) } else { programs }
}

/// Explores random programs with and without reductions and compares. Returns how many could be
/// compared and how many of those broke a rule.
fn compare(seeds: core::ops::Range<u64>, config: &Config, length: u64, does: Does) -> [u64; 2] {
    let mut counts = [0, 0];
    for seed in seeds {
        let mut config = config.clone();
        config.levels = 2;
        let mut explorer = random_program(seed, config, length, does).explorer();
        let plain = explorer.exhaust_plainly(Budget::schedules(20_000));
        if !plain.complete && plain.failure.is_none() {
            continue;
        }
        let reduced = explorer.exhaust(Budget::UNLIMITED);
        if let (Some(failure), None) = (&reduced.failure, &plain.failure) {
            panic!("seed {seed}: {}", explorer.explain(failure).expect("the schedule is fresh"));
        }
        assert_eq!(reduced.failure.is_some(), plain.failure.is_some(), "seed {seed}");
        counts[0] += 1;
        if plain.failure.is_some() {
            counts[1] += 1;
        } else {
            assert_eq!(reduced.outcomes, plain.outcomes, "seed {seed}");
        }
        assert!(reduced.schedules <= plain.schedules || plain.failure.is_some(), "seed {seed}");
    }
    counts
}

#[test]
fn memory_alone() {
    for buffers in [Buffers::None, Buffers::Tso, Buffers::Pso] {
        let config = Config::x86(2).with_buffers(buffers);
        let [compared, _] = compare(0..60, &config, 4, Does::Load);
        assert!(compared >= 25, "{buffers:?}: {compared}");
    }
}

#[test]
fn memory_and_interrupts() {
    for buffers in [Buffers::None, Buffers::Tso, Buffers::Pso] {
        let config = Config::x86(2).with_buffers(buffers).with_interrupts();
        let [compared, _] = compare(0..60, &config, 3, Does::Load);
        assert!(compared >= 25, "{buffers:?}: {compared}");
    }
}

#[test]
fn memory_and_nmis() {
    for buffers in [Buffers::None, Buffers::Tso, Buffers::Pso] {
        let config = Config::x86(2).with_buffers(buffers).with_nmis(1);
        // The handlers are as long as the programs, and without reductions most are too large.
        let [compared, _] = compare(0..120, &config, 2, Does::Load);
        assert!(compared >= 10, "{buffers:?}: {compared}");
    }
}

#[test]
fn early_loads() {
    for config in [Config::arm(2), Config::arm(2).with_interrupts(), Config::riscv(2)] {
        let length = if config.interrupts { 3 } else { 4 };
        let [compared, _] = compare(0..60, &config.with_early_loads(), length, Does::Load);
        assert!(compared >= 20, "{compared}");
    }
}

#[test]
fn translations() {
    for config in [Config::arm(2), Config::arm(2).with_cnp(), Config::x86(2), Config::riscv(2)] {
        let [compared, broken] = compare(0..100, &config, 4, Does::Translate);
        assert!(compared >= 70, "{config:?}: {compared}");
        assert!((10..compared).contains(&broken), "{config:?}: {broken} of {compared}");
    }
}

#[test]
fn translations_and_interrupts() {
    for config in [Config::arm(2), Config::x86(2), Config::riscv(2)] {
        let [compared, broken] = compare(0..100, &config.with_interrupts(), 3, Does::Translate);
        assert!(compared >= 50, "{compared}");
        assert!((5..compared).contains(&broken), "{broken} of {compared}");
    }
}

#[test]
fn updates() {
    for config in [Config::arm(2), Config::x86(2), Config::riscv(2)] {
        let config = config.with_updates(Updates::Dirty);
        let [compared, broken] = compare(0..60, &config, 4, Does::Update);
        assert!(compared >= 25, "{config:?}: {compared}");
        assert!((5..compared).contains(&broken), "{config:?}: {broken} of {compared}");
    }
}

#[test]
fn a_claim_after_an_operation_on_a_word_that_no_other_cpu_touches_has_its_turn() {
    for taker in [0, 1] {
        let run = move |words: &[Word; 2], cpu: usize| {
            words[cpu].swap(1, Relaxed);
            if cpu != taker {
                oracle::identity_ended("number", 7);
            }
            oracle::identity("number", 7, cpu as u64);
        };
        let words = || [Word::ZERO, Word::ZERO];
        let mut explorer = programs(Config::x86(2), words, run).explorer();
        // Only who takes it last has not seen to it that it is free.
        assert_eq!(explorer.exhaust(Budget::UNLIMITED).broken(), Rule::Identity, "CPU {taker}");
    }
}
