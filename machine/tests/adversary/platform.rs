//! The machine as the library's platform.

use crate::common::programs;
use lookaside::{
    Platform as _,
    arch::{
        Errata, Held, Invalidation, Mmu, Properties, Root, Scope, Tag, x86_64::Instructions as _,
    },
    platform::{CpuId, Ordering::Relaxed, Targets, Word as _},
};
use lookaside_machine::adversary::{
    Config, Platform, Word, as_cpu, irq_off, irq_on, oracle, outcome, x86,
};
use lookaside_testkit::{COSTS, Hardware, TestMmu};

/// Hardware that knows how to forget everything and nothing else.
struct Plain;

impl Hardware for Plain {
    fn properties(&self) -> Properties {
        Properties::plain(0, &COSTS)
    }

    fn load(&self, root: Root, _: Tag, _: Held) {
        x86::Insn.write_cr3(root.table);
    }

    fn park(&self) {
        x86::Insn.write_cr3(0);
    }

    fn flush(&self, _: Invalidation<'_>, _: Scope) {
        let root = x86::Insn.read_cr3();
        x86::Insn.write_cr3(root);
    }
}

struct Machine {
    platform: Platform<TestMmu<Plain>>,
    answers: Word,
    early: Word,
}

#[test]
fn interrupts_reach_the_set_and_find_earlier_stores() {
    let build = || {
        let machine = Machine {
            platform: Platform::new(TestMmu(Plain)),
            answers: Word::ZERO,
            early: Word::ZERO,
        };
        assert_eq!(machine.platform.cpu(), CpuId(0));
        as_cpu(CpuId(2), || assert_eq!(machine.platform.cpu(), CpuId(2)));
        machine
    };
    let scenario = programs(Config::x86(4), build, |machine: &Machine, cpu| {
        irq_off();
        oracle::check(machine.platform.cpu().index() == cpu, "a CPU knows its number");
        irq_on();
        if cpu == 0 {
            // In the store buffer when the interrupt is sent: the platform makes it visible.
            machine.early.store(1, Relaxed);
            machine.platform.send_ipi(Targets { first: CpuId(0), mask: 0b1100 });
            while machine.answers.load(Relaxed) != 0b1100 {
                machine.platform.relax();
            }
        }
    })
    .interrupt(|machine, cpu| {
        oracle::check(machine.early.load(Relaxed) == 1, "earlier stores are visible");
        machine.platform.mmu().flush(Errata::NONE, Invalidation::All, Scope::Local);
        machine.answers.fetch_or(1 << cpu, Relaxed);
    })
    .finish(|machine| outcome(machine.answers.peek()));
    let report = scenario.holds();
    assert_eq!(report.outcomes.into_iter().collect::<Vec<_>>(), [0b1100]);
}
