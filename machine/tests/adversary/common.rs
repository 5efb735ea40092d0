//! A scenario out of functions, and what the tests ask about one.

use std::rc::Rc;

use lookaside::{
    arch::{aarch64::Instructions as _, riscv64::Instructions as _, x86_64::Instructions as _},
    platform::CpuId,
};
use lookaside_machine::{
    adversary::{Arch, Buffers, Config, Frame, Rule, Scenario, arm, leak, riscv, x86},
    explore::{Budget, Explorer, Report},
};

type Each<W> = Rc<dyn Fn(&W, usize)>;

/// A scenario out of functions.
pub(crate) struct Programs<W> {
    config: Config,
    build: Rc<dyn Fn() -> W>,
    run: Each<W>,
    interrupt: Each<W>,
    nmi: Each<W>,
    finish: Rc<dyn Fn(&W)>,
}

impl<W: 'static> Scenario for Programs<W> {
    type World = W;

    fn name(&self) -> String {
        "test".to_owned()
    }

    fn config(&self) -> Config {
        self.config.clone()
    }

    fn build(&self) -> &'static W {
        leak((self.build)())
    }

    fn run(&self, world: &'static W, cpu: CpuId) {
        (self.run)(world, cpu.index());
    }

    fn interrupt(&self, world: &'static W, cpu: CpuId) {
        (self.interrupt)(world, cpu.index());
    }

    fn nmi(&self, world: &'static W, cpu: CpuId) {
        (self.nmi)(world, cpu.index());
    }

    fn finish(&self, world: &'static W) {
        (self.finish)(world);
    }
}

/// A scenario that checks nothing in the end and takes no interrupts.
pub(crate) fn programs<W>(
    config: Config,
    build: impl Fn() -> W + 'static,
    run: impl Fn(&W, usize) + 'static,
) -> Programs<W> {
    Programs {
        config,
        build: Rc::new(build),
        run: Rc::new(run),
        interrupt: Rc::new(|_, _| {}),
        nmi: Rc::new(|_, _| {}),
        finish: Rc::new(|_| {}),
    }
}

impl<W> Clone for Programs<W> {
    fn clone(&self) -> Self {
        Self {
            config: self.config.clone(),
            build: self.build.clone(),
            run: self.run.clone(),
            interrupt: self.interrupt.clone(),
            nmi: self.nmi.clone(),
            finish: self.finish.clone(),
        }
    }
}

impl<W: 'static> Programs<W> {
    /// The scenario with something to look at in the end.
    pub(crate) fn finish(mut self, finish: impl Fn(&W) + 'static) -> Self {
        self.finish = Rc::new(finish);
        self
    }

    /// The scenario with an interrupt handler.
    pub(crate) fn interrupt(mut self, interrupt: impl Fn(&W, usize) + 'static) -> Self {
        self.config.interrupts = true;
        self.interrupt = Rc::new(interrupt);
        self
    }

    /// The scenario with a handler of NMIs, of which each CPU may take so many.
    pub(crate) fn nmi(mut self, nmis: u32, nmi: impl Fn(&W, usize) + 'static) -> Self {
        self.config.nmis = nmis;
        self.nmi = Rc::new(nmi);
        self
    }

    /// The scenario in another world.
    pub(crate) fn building(mut self, build: impl Fn() -> W + 'static) -> Self {
        self.build = Rc::new(build);
        self
    }

    /// The scenario with more for each CPU to do in the end.
    pub(crate) fn also(mut self, then: impl Fn(&W, usize) + 'static) -> Self {
        let first = self.run;
        self.run = Rc::new(move |world, cpu| {
            first(world, cpu);
            then(world, cpu);
        });
        self
    }

    /// The scenario on another machine.
    pub(crate) fn with(mut self, config: Config) -> Self {
        let interrupts = self.config.interrupts;
        self.config = Config { interrupts, ..config };
        self
    }

    pub(crate) fn explorer(&self) -> Explorer {
        Explorer::new(self.clone())
    }

    pub(crate) fn exhaust(&self) -> Report {
        self.explorer().exhaust(Budget::UNLIMITED)
    }

    /// Asserts that nothing can go wrong.
    #[track_caller]
    pub(crate) fn holds(&self) -> Report {
        let report = self.exhaust();
        report.assert_proved();
        report
    }

    /// Asserts that a rule can be broken, and that the table that explains it can be made.
    #[track_caller]
    pub(crate) fn breaks(&self, rule: Rule) {
        let mut explorer = self.explorer();
        let report = explorer.exhaust(Budget::UNLIMITED);
        assert_eq!(report.broken(), rule, "{:?}", report.failure);
        let failure = report.failure.expect("a rule is broken");
        let table = explorer.explain(&failure).expect("the schedule is fresh");
        assert!(table.contains(&failure.violation.rule.to_string()), "{table}");
    }
}

/// All outcomes with the given buffers.
pub(crate) fn outcomes<W: 'static>(programs: &Programs<W>, buffers: Buffers) -> Vec<u64> {
    let mut programs = programs.clone();
    programs.config.buffers = buffers;
    programs.config.check_private = false;
    programs.holds().outcomes.into_iter().collect()
}

/// Loads a root: under the ASID 3, on x86 without a PCID.
pub(crate) fn load(arch: Arch, root: Frame) {
    match arch {
        Arch::Arm => {
            arm::Insn.write_ttbr0(root.address() | 3 << 48);
            arm::Insn.isb();
        }
        Arch::X86 => x86::Insn.write_cr3(root.address()),
        Arch::Riscv => riscv::Insn.write_satp(8 << 60 | 3 << 44 | root.0),
    }
}
