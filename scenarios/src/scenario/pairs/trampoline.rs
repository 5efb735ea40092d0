//! The trampoline: on the way to user mode and back it writes the root register, which firmware borrows too.

use lookaside::{
    arch::{Root, SeparateRoots},
    platform::Word as _,
    tags::Tags,
};
use lookaside_machine::adversary::{Platform, access, irq_off, irq_on};

use super::world::{At, FOREIGN_PAGE, PAGES, World, reaches};

impl<M: SeparateRoots + 'static, T: Tags<Platform<M>> + 'static> World<M, T> {
    /// Leaves for user mode and comes back. Interrupts are on there.
    pub(super) fn visit(&self, this_cpu: At<'_, M, T>, run: impl FnOnce()) {
        self.leave(this_cpu);
        irq_on();
        run();
        irq_off();
        self.enter(this_cpu);
    }

    /// The last thing before user mode.
    fn leave(&self, this_cpu: At<'_, M, T>) {
        let (me, space) = (this_cpu.id().index(), self.own(this_cpu).space());
        self.out[me].set(1);
        self.way_in[me].set(this_cpu.kernel_root(space));
        (self.kind.write_root)(this_cpu.mmu(), this_cpu.user_root(space));
    }

    /// The first thing after it.
    fn enter(&self, this_cpu: At<'_, M, T>) {
        let me = this_cpu.id().index();
        (self.kind.write_root)(this_cpu.mmu(), self.way_in[me].get());
        self.out[me].set(0);
    }

    pub(super) fn call_firmware(&self) {
        let foreign = Root::new(self.foreign.0 << 12);
        let called = self.this_cpu().with_root(&foreign, || {
            irq_on();
            reaches(FOREIGN_PAGE, access(PAGES[0]));
            irq_off();
        });
        called.expect("a root that fits");
    }
    /// The handler of the interrupt that an initiator sends: it runs in the kernel's table.
    pub(super) fn interrupt(&self) {
        let this_cpu = self.this_cpu();
        let was_out = self.out[this_cpu.id().index()].get() != 0;
        if was_out {
            self.enter(&this_cpu);
        }
        this_cpu.handle_ipi();
        if was_out {
            self.leave(&self.this_cpu());
        }
    }
}
