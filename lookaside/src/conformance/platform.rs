//! Words, CPU numbers, IPIs, acknowledgements, and whether the instructions execute at all.

use super::Fault;
use crate::{
    arch::{Invalidation, Mmu, Scope, TableChange, Wait, foreign_tag},
    ids::{CpuId, Targets},
    platform::Platform,
    range::VaRange,
    request::{FlushRanges, FlushRequest, FlushScope},
    tlb::{CurrentCpu, Tags},
    word::{Ordering, Word},
};

/// What [`check`] has tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many other CPUs were up, and acknowledged every request.
    pub cpus: u32,
    /// How many IPIs were sent to them.
    pub interrupts: u64,
    /// The longest wait for an acknowledgement, in calls of [`Platform::relax`].
    pub longest: u64,
    /// How many of the other CPUs acknowledge as soon where no IPI is sent, because they call
    /// [`CurrentCpu::handle_ipi`] in a loop, or at each timer tick. Whether IPIs reach these was not tested. An IPI that is
    /// lost now and then, where ticks are far apart, shows in [`Self::longest`] only.
    pub polling: u32,
}

/// How often each CPU gets a request alone, and how often all of a group together.
const TIMES: u32 = 64;
/// How long a CPU has to answer without an IPI: so many times the mean wait, and so many calls of [`Platform::relax`] more,
/// where an IPI is slower to send than to answer.
const LONGER: (u64, u64) = (8, 256);

/// Tests the platform from this CPU. Every other CPU that is up has interrupts on; none of them runs this at the same
/// time. If a CPU has not acknowledged after `patience` calls of [`Platform::relax`], the test ends with
/// [`Fault::NoAnswer`]: no flush depends on it. A million is enough for most machines, emulated ones included.
///
/// To test that IPIs arrive, let the other CPUs wait in a loop that takes no lock, with the timer off if its interrupt ends
/// in [`CurrentCpu::handle_ipi`] as well: a CPU that calls that by itself answers although no IPI arrives. Each CPU also gets
/// requests without an IPI, and [`Report::polling`] counts those that answer them.
///
/// # Errors
///
/// The first [`Fault`] that is found.
pub fn check<P: Platform, T: Tags<P>>(
    this_cpu: &CurrentCpu<'_, P, T>,
    patience: u64,
) -> Result<Report, Fault> {
    check_word::<P::Word>()?;
    check_cpu(this_cpu)?;
    check_mmu(this_cpu)?;
    let mut report = Report::default();
    let cpus = this_cpu.tlb.cpus.len() as u32;
    // Alone, so that a wrong number is detected; then as many as one call of `send_ipi` can take.
    for width in [1, 64] {
        for first in (0..cpus).step_by(width as usize) {
            let group = up(this_cpu, first, cpus.min(first + width));
            if group.mask == 0 {
                continue;
            }
            if width == 1 {
                report.cpus += 1;
            }
            let mut waited = 0;
            for _ in 0..TIMES {
                post(this_cpu, group);
                waited += interrupt(this_cpu, group, patience, &mut report)?;
                check_cpu(this_cpu)?;
            }
            if width == 1 {
                let limit = LONGER.0 * (waited / u64::from(TIMES)) + LONGER.1;
                report.polling += u32::from(polls(
                    this_cpu,
                    group,
                    (limit.min(patience), patience),
                    &mut report,
                )?);
            }
        }
    }
    Ok(report)
}

/// The CPUs `first..end` that are up, without this one.
fn up<P: Platform, T: Tags<P>>(this_cpu: &CurrentCpu<'_, P, T>, first: u32, end: u32) -> Targets {
    let mut group = Targets { first: CpuId(first), mask: 0 };
    for cpu in (first..end).map(CpuId) {
        if cpu != this_cpu.id() && this_cpu.tlb.up.contains(cpu) {
            group.mask |= 1 << (cpu.0 - first);
        }
    }
    group
}

/// Whether a CPU acknowledges most requests within `limit` calls of [`Platform::relax`], where no IPI is sent.
fn polls<P: Platform, T: Tags<P>>(
    this_cpu: &CurrentCpu<'_, P, T>,
    cpu: Targets,
    (limit, patience): (u64, u64),
    report: &mut Report,
) -> Result<bool, Fault> {
    let mut answered = 0;
    for _ in 0..TIMES {
        post(this_cpu, cpu);
        match wait(this_cpu, cpu, limit) {
            Ok(_) => answered += 1,
            Err(_) => _ = interrupt(this_cpu, cpu, patience, report)?,
        }
    }
    Ok(answered * 2 > TIMES)
}

/// Posts an empty request to a group of CPUs.
fn post<P: Platform, T: Tags<P>>(this_cpu: &CurrentCpu<'_, P, T>, group: Targets) {
    let nothing = FlushRanges::new();
    this_cpu.cpu.queue.own_request.describe(&FlushRequest {
        scope: FlushScope::Kernel,
        ranges: &nothing,
        early: false,
    });
    for target in group.iter().filter_map(|cpu| this_cpu.tlb.queue(cpu)) {
        target.post(this_cpu.id());
    }
}

/// Sends a group of CPUs an IPI, and returns how long it waited for their acknowledgements.
fn interrupt<P: Platform, T: Tags<P>>(
    this_cpu: &CurrentCpu<'_, P, T>,
    group: Targets,
    patience: u64,
    report: &mut Report,
) -> Result<u64, Fault> {
    this_cpu.tlb.platform.send_ipi(group);
    report.interrupts += u64::from(group.count());
    let rounds = wait(this_cpu, group, patience)?;
    report.longest = report.longest.max(rounds);
    Ok(rounds)
}

/// Waits until all of a group have acknowledged, and returns the longest wait for one, in calls of [`Platform::relax`].
fn wait<P: Platform, T: Tags<P>>(
    this_cpu: &CurrentCpu<'_, P, T>,
    group: Targets,
    patience: u64,
) -> Result<u64, Fault> {
    let mut longest = 0;
    for cpu in group.iter() {
        let target = this_cpu.tlb.queue(cpu).ok_or(Fault::NoAnswer { cpu })?;
        let mut rounds = 0;
        while target.acknowledged() < target.latest() {
            if rounds == patience {
                return Err(Fault::NoAnswer { cpu });
            }
            this_cpu.handle_ipi();
            this_cpu.tlb.platform.relax();
            rounds += 1;
        }
        longest = longest.max(rounds);
    }
    Ok(longest)
}

fn check_cpu<P: Platform, T: Tags<P>>(this_cpu: &CurrentCpu<'_, P, T>) -> Result<(), Fault> {
    let (before, now) = (this_cpu.id(), this_cpu.tlb.platform.cpu());
    if before == now { Ok(()) } else { Err(Fault::CpuChanges { before, now }) }
}

/// Tests each operation of a word, as far as one CPU can.
fn check_word<W: Word>() -> Result<(), Fault> {
    // Relaxed: no other CPU uses the word.
    const RELAXED: Ordering = Ordering::Relaxed;
    let word = W::ZERO;
    let check = |right, operation| if right { Ok(()) } else { Err(Fault::Word(operation)) };
    check(word.load(RELAXED) == 0, "ZERO")?;
    word.store(u64::MAX, RELAXED);
    check(word.load(RELAXED) == u64::MAX, "store")?;
    check(word.swap(5, RELAXED) == u64::MAX && word.load(RELAXED) == 5, "swap")?;
    let exchange = |from, to| word.compare_exchange(from, to, RELAXED, RELAXED);
    check(exchange(4, 9) == Err(5) && exchange(5, 9) == Ok(5), "compare_exchange")?;
    check(word.load(RELAXED) == 9, "compare_exchange")?;
    check(word.fetch_add(u64::MAX, RELAXED) == 9 && word.load(RELAXED) == 8, "fetch_add")?;
    check(word.fetch_or(1 << 63, RELAXED) == 8, "fetch_or")?;
    check(word.load(RELAXED) == 1 << 63 | 8, "fetch_or")?;
    check(word.fetch_and(1 << 63, RELAXED) == 1 << 63 | 8, "fetch_and")?;
    check(word.load(RELAXED) == 1 << 63, "fetch_and")?;
    word.set(7);
    check(word.get() == 7, "set")
}

/// Tests that the instructions execute at all, and that the costs are not all zero.
fn check_mmu<P: Platform, T: Tags<P>>(this_cpu: &CurrentCpu<'_, P, T>) -> Result<(), Fault> {
    let (mmu, errata) = (this_cpu.mmu(), this_cpu.errata());
    let costs = this_cpu.tlb.platform.costs();
    if costs.loss() == 0 && costs.local.tag == 0 && costs.ipi == 0 {
        return Err(Fault::NoCosts);
    }
    let range = |pages: u64| VaRange::new(1 << 21, pages << 12, 12);
    let (Ok(few), Ok(many)) = (range(1), range(512)) else { return Ok(()) };
    // Under a tag that no space has, so that no useful entries are lost.
    let tag = foreign_tag(mmu.properties().tag_bits);
    mmu.settle();
    mmu.publish(Wait::Now);
    mmu.flush(errata, Invalidation::ranges(tag, &[few], TableChange::LastLevel), Scope::Local);
    mmu.flush(
        errata,
        Invalidation::ranges(tag, &[few, many], TableChange::FreedTables),
        Scope::Local,
    );
    mmu.flush(errata, Invalidation::Tag(tag), Scope::Local);
    if mmu.properties().broadcasts {
        mmu.flush(errata, Invalidation::Tag(tag), Scope::Broadcast);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;

    use super::*;

    const SWAP_TELLS_THE_NEW: u8 = 0;
    const SWAP_STORES_NOTHING: u8 = 1;
    const REFUSAL_TELLS_THE_WANTED: u8 = 2;
    const EXCHANGE_TELLS_THE_NEW: u8 = 3;
    const SUM_IS_TOLD_AFTERWARDS: u8 = 4;
    const SUM_STORES_NOTHING: u8 = 5;
    const EXCHANGE_STORES_NOTHING: u8 = 6;
    const OR_STORES_NOTHING: u8 = 7;

    /// A word of which one operation is wrong.
    struct Wrong<const WHAT: u8>(AtomicU64);

    impl<const WHAT: u8> Word for Wrong<WHAT> {
        #[allow(clippy::declare_interior_mutable_const, reason = "a template, as for `AtomicU64`")]
        const ZERO: Self = Self(AtomicU64::new(0));

        fn load(&self, order: Ordering) -> u64 {
            Word::load(&self.0, order)
        }

        fn store(&self, value: u64, order: Ordering) {
            Word::store(&self.0, value, order);
        }

        fn swap(&self, value: u64, order: Ordering) -> u64 {
            match WHAT {
                SWAP_STORES_NOTHING => Word::load(&self.0, order),
                SWAP_TELLS_THE_NEW => {
                    Word::store(&self.0, value, order);
                    value
                }
                _ => Word::swap(&self.0, value, order),
            }
        }

        fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            let stored = if WHAT == EXCHANGE_STORES_NOTHING { current } else { new };
            let result = Word::compare_exchange(&self.0, current, stored, success, failure);
            match WHAT {
                REFUSAL_TELLS_THE_WANTED => result.map_err(|_| current),
                EXCHANGE_TELLS_THE_NEW => result.map(|_| new),
                _ => result,
            }
        }

        fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            match WHAT {
                SUM_STORES_NOTHING => Word::load(&self.0, order),
                // As some instruction sets have it.
                SUM_IS_TOLD_AFTERWARDS => {
                    Word::fetch_add(&self.0, value, order).wrapping_add(value)
                }
                _ => Word::fetch_add(&self.0, value, order),
            }
        }

        fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
            match WHAT {
                OR_STORES_NOTHING => Word::load(&self.0, order),
                _ => Word::fetch_or(&self.0, bits, order),
            }
        }

        fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
            Word::fetch_and(&self.0, bits, order)
        }

        fn fence(order: Ordering) {
            AtomicU64::fence(order);
        }
    }

    #[test]
    fn words_are_tried_out() {
        assert_eq!(check_word::<AtomicU64>(), Ok(()));
        for (found, operation) in [
            (check_word::<Wrong<SWAP_TELLS_THE_NEW>>(), "swap"),
            (check_word::<Wrong<SWAP_STORES_NOTHING>>(), "swap"),
            (check_word::<Wrong<REFUSAL_TELLS_THE_WANTED>>(), "compare_exchange"),
            (check_word::<Wrong<EXCHANGE_TELLS_THE_NEW>>(), "compare_exchange"),
            (check_word::<Wrong<EXCHANGE_STORES_NOTHING>>(), "compare_exchange"),
            (check_word::<Wrong<OR_STORES_NOTHING>>(), "fetch_or"),
            (check_word::<Wrong<SUM_IS_TOLD_AFTERWARDS>>(), "fetch_add"),
            (check_word::<Wrong<SUM_STORES_NOTHING>>(), "fetch_add"),
        ] {
            assert_eq!(found, Err(Fault::Word(operation)));
        }
    }
}
