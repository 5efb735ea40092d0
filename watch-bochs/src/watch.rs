//! A run that is watched: what its CPUs do becomes events of the shadow.

use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::{sync::Arc, time::Instant};

use lookaside_hardware::{
    Invalidation,
    x86::{self as rules, Registers},
};
use lookaside_watch::{
    Access, Fence, FrameMarks, Lane, Memory, Mode, Reach, Roots, Shadow,
    front_end::{Options, Progress, Report, TaskRegister, most_bytes, write},
};

use crate::guest::Guest;

const PAGE: u64 = 4096;
/// Pages in one of the level above the last.
const LARGE: u64 = 512;
/// `EFER.LMA`: tables of four or five levels translate.
const LONG_MODE: u64 = 1 << 10;
/// How often counts are written down.
const EVERY: Duration = Duration::from_millis(500);

/// A CPU at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub(crate) number: u32,
    /// The address of the instruction that it executes.
    pub(crate) pc: u64,
    /// It runs in ring 3.
    pub(crate) user: bool,
    pub(crate) cr0: u64,
    pub(crate) efer: u64,
    pub(crate) registers: Registers,
    pub(crate) gs_base: u64,
}

impl Cpu {
    /// The roots that translate. Paging without long mode (32-bit kernels) is not modelled, and as good as none.
    fn roots(&self) -> Roots {
        if self.cr0 & rules::PG == 0 || self.efer & LONG_MODE == 0 {
            return Roots::Off;
        }
        Roots::X86(self.registers)
    }
}

/// A control register that translation depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    Cr0,
    Cr3,
    Cr4,
}

/// What is remembered of a CPU.
struct Known {
    lane: Lane,
    user: bool,
    /// A control register was written: the roots have to be read again.
    look: bool,
    physical: bool,
    /// The physical address at which the kernel keeps the task, and the base of `GS` by which it was found.
    task_at: Option<u64>,
    task_base: u64,
}

pub(crate) struct Watch {
    options: Options,
    guest: Guest,
    marks: FrameMarks,
    shadow: Shadow,
    generation: Arc<AtomicU64>,
    cpus: Vec<Known>,
    began: Instant,
    told: Instant,
}

impl Watch {
    pub(crate) fn new(options: Options, cpus: u32, guest: Guest) -> Self {
        let marks = FrameMarks::new(0, guest.bytes);
        let shadow = options.shadow(cpus, &marks);
        let known = || Known {
            lane: Lane::default(),
            user: false,
            look: true,
            physical: true,
            task_at: None,
            task_base: 0,
        };
        Self {
            options,
            guest,
            marks,
            generation: shadow.generation(),
            shadow,
            cpus: (0..cpus).map(|_| known()).collect(),
            began: Instant::now(),
            told: Instant::now(),
        }
    }

    /// A CPU accesses memory.
    pub(crate) fn access(&mut self, cpu: &Cpu, linear: u64) {
        // Relaxed: Bochs has one thread.
        let generation = self.generation.load(Ordering::Relaxed);
        let known = &mut self.cpus[cpu.number as usize];
        if !known.look
            && known.user == cpu.user
            && known.lane.get(generation, linear / PAGE).is_some()
        {
            return;
        }
        self.catch_up(cpu);
        if self.cpus[cpu.number as usize].physical {
            return;
        }
        let access = Access { cpu: cpu.number, pc: cpu.pc, address: linear };
        let Some(hit) = self.shadow.access(&self.guest, access) else { return };
        // Relaxed: as above.
        let generation = self.generation.load(Ordering::Relaxed);
        self.cpus[cpu.number as usize].lane.put(generation, linear / PAGE, hit.frame);
    }

    /// A CPU has stored so many bytes, inside one page.
    pub(crate) fn store(&mut self, cpu: &Cpu, linear: u64, physical: u64, bytes: u64) {
        if self.marks.matters(physical / PAGE) {
            let by = (cpu.number, cpu.pc, self.task(cpu));
            self.shadow.store(&self.guest, by, linear, physical, bytes);
        }
    }

    /// A CPU is about to write a control register. If that faults, nothing is removed.
    pub(crate) fn control(&mut self, cpu: &Cpu, control: Control, value: u64) {
        self.catch_up(cpu);
        if !cpu.user {
            self.find_task(cpu);
        }
        let removes = match control {
            Control::Cr0 => rules::mov_to_cr0(cpu.cr0, value),
            Control::Cr3 => {
                rules::mov_to_cr3(cpu.registers, value).ok().and_then(|effect| effect.removes)
            }
            Control::Cr4 => {
                rules::mov_to_cr4(cpu.registers, value).ok().and_then(|effect| effect.removes)
            }
        };
        self.cpus[cpu.number as usize].look = true;
        self.shadow.load_roots(&self.guest, cpu.number, Roots::Off);
        self.fence(cpu, removes);
    }

    /// A CPU is about to execute `INVLPG`.
    pub(crate) fn invlpg(&mut self, cpu: &Cpu, linear: u64) {
        self.catch_up(cpu);
        self.fence(cpu, rules::invlpg(cpu.registers, linear).removes);
    }

    /// A CPU is about to execute `INVPCID`. If that faults, nothing is removed.
    pub(crate) fn invpcid(&mut self, cpu: &Cpu, kind: u64, descriptor: u64) {
        self.catch_up(cpu);
        let word = |at| self.guest.word(self.physical(cpu, at)?);
        let Some(words) = word(descriptor).zip(word(descriptor.wrapping_add(8))) else { return };
        let effect = rules::invpcid(cpu.registers, kind, words.into());
        self.fence(cpu, effect.ok().and_then(|effect| effect.removes));
    }

    /// A CPU executes `INVLPGB`: what it removes from all CPUs is gone after the next `TLBSYNC` of this one.
    pub(crate) fn invlpgb(&mut self, cpu: &Cpu, operands: (u64, u32, u32)) {
        self.catch_up(cpu);
        let Ok(removes) = rules::invlpgb(cpu.registers, operands, None, LARGE) else { return };
        self.fence_of(cpu, removes, Reach::All, true);
    }

    /// A CPU executes `TLBSYNC`.
    pub(crate) fn tlbsync(&mut self, cpu: &Cpu) {
        self.catch_up(cpu);
        self.shadow.complete(&self.guest, cpu.number, true);
        self.cpus[cpu.number as usize].lane.clear();
    }

    fn fence(&mut self, cpu: &Cpu, removes: Option<Invalidation>) {
        if let Some(removes) = removes {
            self.fence_of(cpu, removes, Reach::Own, false);
        }
    }

    fn fence_of(&mut self, cpu: &Cpu, removes: Invalidation, reach: Reach, pending: bool) {
        let (cpu, pc) = (cpu.number, cpu.pc);
        self.shadow.fence(&self.guest, Fence { cpu, pc, removes, reach, pending });
        self.cpus[cpu as usize].lane.clear();
    }

    /// Tells the shadow which roots and which mode the CPU is in, if they are others than before.
    fn catch_up(&mut self, cpu: &Cpu) {
        let known = &mut self.cpus[cpu.number as usize];
        if core::mem::take(&mut known.look) {
            known.lane.clear();
            let roots = cpu.roots();
            known.physical = roots == Roots::Off;
            // Outside long mode it is asked again: `EFER.LMA` is set by no instruction that is told of.
            known.look = known.physical;
            self.shadow.load_roots(&self.guest, cpu.number, roots);
        }
        let known = &mut self.cpus[cpu.number as usize];
        if known.user != cpu.user {
            known.user = cpu.user;
            known.lane.clear();
            let mode = if cpu.user { Mode::User } else { Mode::Kernel };
            let task = if cpu.user { self.task(cpu) } else { None };
            self.shadow.enter_mode(cpu.number, cpu.pc, mode, task);
        }
    }

    /// The physical address of a linear one, by the tables.
    fn physical(&self, cpu: &Cpu, linear: u64) -> Option<u64> {
        let root = cpu.roots().root(linear)?;
        let walk = root.walk(&self.guest, linear)?;
        Some(walk.frame_of(root.page(linear)) << 12 | linear & 0xfff)
    }

    /// Finds out where the kernel keeps the task of a CPU: a variable behind the base of `GS`, which is the kernel's own
    /// when it loads tables that map the variable.
    fn find_task(&mut self, cpu: &Cpu) {
        let TaskRegister::Gs(offset) = self.options.task else { return };
        let known = &self.cpus[cpu.number as usize];
        // User mode's base is in the lower half, and the kernel's does not change once it is final.
        if cpu.gs_base >> 63 == 0 || known.task_base == cpu.gs_base {
            return;
        }
        if let Some(at) = self.physical(cpu, cpu.gs_base.wrapping_add(offset)) {
            let known = &mut self.cpus[cpu.number as usize];
            known.task_base = cpu.gs_base;
            known.task_at = Some(at);
        }
    }

    /// The task that a CPU runs, in whatever mode.
    fn task(&self, cpu: &Cpu) -> Option<u64> {
        let at = self.cpus[cpu.number as usize].task_at?;
        self.guest.word(at).filter(|&task| task != 0)
    }

    /// What was found.
    #[cfg(test)]
    pub(crate) fn findings(&self) -> &[lookaside_watch::Finding] {
        self.shadow.findings()
    }

    /// Writes counts down if it is time.
    pub(crate) fn tell(&mut self, instructions: u64) {
        let Some(file) = &self.options.progress else { return };
        if self.told.elapsed() < EVERY {
            return;
        }
        self.told = Instant::now();
        let revoked = self.shadow.counts().revoked;
        let findings = self.shadow.findings().len() as u64;
        write(file, &Progress { instructions, revoked, findings });
    }

    /// Writes the report.
    pub(crate) fn finish(self, instructions: u64) {
        let report = Report {
            architecture: "x86_64".to_owned(),
            cpus: self.cpus.len() as u32,
            instructions,
            seconds: self.began.elapsed().as_secs_f64(),
            most_bytes: most_bytes(),
            guest_bytes: self.guest.bytes,
            ..Report::of(&self.shadow)
        };
        write(&self.options.report, &report);
    }
}
