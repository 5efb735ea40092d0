//! CPUs come online, go offline, and stop.

use crate::{
    arch::{Errata, Invalidation, Mmu, Scope, TableChange, Tag},
    error::Error,
    ids::{CpuId, Targets},
    platform::Platform,
    tlb::{CurrentCpu, Tags, Tlb},
};

impl<P: Platform, T: Tags<P>> Tlb<'_, P, T> {
    /// Brings up the CPU that executes the call: checks that it fits the machine, notes its errata, parks it,
    /// and empties its TLB of whatever it held before.
    ///
    /// To park is to load the reserved root. So code, stack and per-CPU data of the caller are mapped by that root, or on Arm64
    /// by `TTBR1_EL1`, and no identity map is in use any more.
    ///
    /// From here on other CPUs send it IPIs and wait for it: its interrupt controller accepts them, and keeps them pending
    /// while interrupts are off.
    ///
    /// # Errors
    ///
    /// * [`Error::CpuOutOfRange`] if the platform names a CPU that has no storage.
    /// * [`Error::Online`] if the CPU is online already, and was not reported by [`Self::stopped`] since. Nothing is changed.
    /// * What [`Mmu::admit`] finds missing, fewer tag bits than the machine runs with for example.
    ///
    /// The CPU must then not be used.
    #[doc(alias = "cpu_init")]
    pub fn online(
        &self,
        irqs_off: &P::IrqsOff,
        features: &<P::Mmu as Mmu>::Features,
    ) -> Result<(), Error> {
        let _ = irqs_off;
        let id = self.platform().cpu();
        let Some(cpu) = self.cpus().get(id.index()) else {
            return Err(Error::CpuOutOfRange { cpu: id, cpus: self.cpus().len() });
        };
        if self.is_online(id) {
            return Err(Error::Online { cpu: id });
        }
        let errata = self.admit(features)?;
        CurrentCpu::new(self, cpu).come_up(errata);
        Ok(())
    }

    /// Reports a CPU that has stopped and executes nothing until it comes up again, after a panic for example
    /// ([`Platform::has_stopped`]): from here on no flush waits for it, and it is in no space.
    ///
    /// A flush that was begun there ([`Self::begin_flush`]), and for which nobody can wait any more, stays pending for ever:
    /// when the CPU is online again, the targets of its requests flush everything.
    ///
    /// Called on another CPU, online or not, and before the stopped one calls [`Self::online`] again. Locks that it held, or
    /// waited for, are not passed on. If it stopped in the middle of a call of this library, other CPUs may then wait for
    /// such a lock for ever.
    ///
    /// # Errors
    ///
    /// * [`Error::CpuOutOfRange`] if there is no such CPU.
    /// * [`Error::NotStopped`] if the platform does not know that the CPU has stopped, or it is this one.
    pub fn stopped(&self, irqs_off: &P::IrqsOff, cpu: CpuId) -> Result<(), Error> {
        let Some(halted) = self.cpus().get(cpu.index()) else {
            return Err(Error::CpuOutOfRange { cpu, cpus: self.cpus().len() });
        };
        let me = self.platform().cpu();
        if cpu == me || !self.platform().has_stopped(cpu) {
            return Err(Error::NotStopped { cpu });
        }
        // Its hardware walks nothing any more, wherever it stopped.
        halted.set_loaded_tag(Tag::RESERVED);
        // SAFETY: the platform says that the CPU has stopped.
        unsafe { T::stopped(self, halted) };
        self.go_down(cpu);
        // It may have set the pending word of another CPU, or posted to its queue, on which others rely, and not have sent
        // the IPI.
        for (other, id) in self.cpus().iter().zip((0..).map(CpuId)) {
            let claimed = other.queue.posted.pending_ipi.end_claim_of(cpu);
            if (claimed || other.queue.is_behind()) && ![me, cpu].contains(&id) {
                self.platform().send_ipi(Targets { first: id, mask: 1 });
            }
        }
        if let Some(this_cpu) = self.this_cpu_if_online(irqs_off) {
            this_cpu.handle_ipi();
        }
        Ok(())
    }

    /// A CPU comes up: requests go to it from here on.
    fn come_up(&self, cpu: CpuId) {
        if let Some(cpu) = self.cpus.get(cpu.index()) {
            cpu.queue.come_up(self.ring.latest());
            cpu.set_online(true);
        }
        self.up.add(cpu);
    }

    /// A CPU goes down: no flush waits for it from here on.
    fn go_down(&self, cpu: CpuId) {
        let storage = self.cpus.get(cpu.index());
        if let Some(storage) = storage {
            storage.set_online(false);
        }
        self.up.remove(cpu);
        if let Some(storage) = storage {
            storage.queue.go_down();
        }
    }
}

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Makes a CPU whose features were admitted one that runs no space and holds nothing.
    fn come_up(&self, errata: Errata) {
        self.cpu.set_errata(errata);
        self.cpu.nmi_uaccess_reset();
        self.cpu.set_online(false); // It may have stopped with a foreign root loaded.
        // Whatever the register named until now, and whatever the ASID allocator has recorded of it.
        self.for_allocator().park_register();
        let _ = self.park();
        // A CPU that changes the kernel's tables sends a request to this one from here on, or has changed them
        // before.
        self.tlb.come_up(self.id());
        // What the ASID allocator has recorded stays true: nothing is held under any tag.
        self.mmu().flush(errata, Invalidation::kernel(&[], TableChange::FreedTables), Scope::Local);
    }

    /// Takes this CPU down: it loads the reserved root, and nobody waits for it any more. The flushes that it
    /// misses from here on are made up for by [`Tlb::online`].
    ///
    /// From here until [`Tlb::online`] has succeeded, the CPU touches no kernel address that may be unmapped
    /// meanwhile, and calls nothing else of the library: the implementer of [`Platform`] promises it.
    pub fn offline(self) {
        let _ = self.park();
        self.handle_ipi();
        // Going down acknowledges every request that comes from here on: nothing that a space has walked may be left by then,
        // as its tables are freed. Parked, the CPU walks nothing of a space any more.
        self.mmu().flush(self.errata(), Invalidation::All, Scope::Local);
        self.tlb.go_down(self.id());
        // With power on it has walked tables of the kernel meanwhile, which other CPUs may free.
        self.mmu().flush(self.errata(), Invalidation::All, Scope::Local);
    }
}
