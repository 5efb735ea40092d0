//! Shootdowns: which CPUs get an IPI, in which order things happen, which CPU waits for which, and what
//! becomes of those who never answer.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::support::{
    Answer, Fake, Op,
    machine::{
        Machine, Strategy, What, epochs, flush, pages, park, recent, space, switch, this_cpu,
    },
    on,
};
use lookaside::{
    AddressSpace, Cpu, Gather, GlobalAsids, KernelGather, PerCpuAsids,
    counts::{Event, Outcome},
    platform::{Stuck, Targets},
};

const CPUS: usize = 140;
const FAR: u32 = 139;

fn both(check: impl Fn(&dyn Fn(&[u32]) -> Run)) {
    check(&|cpus| Run::of(recent(CPUS, Fake::new(CPUS, 12)), cpus));
    check(&|cpus| Run::of(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()), cpus));
}

/// A machine of either strategy on which some CPUs run one space.
struct Run {
    platform: &'static Fake,
    flush: Box<dyn Fn(u32, What) + Send + Sync>,
    serve: Box<dyn Fn(u32) + Send + Sync>,
    halt: Box<dyn Fn(u32) + Send + Sync>,
}

impl Run {
    fn of<T: Strategy>(tlb: Machine<T>, cpus: &[u32]) -> Self {
        let a: &'static _ = Box::leak(Box::new(space(tlb, 1)));
        for &cpu in cpus {
            let _ = switch(tlb, cpu, a);
        }
        tlb.platform().forget_logs();
        Self {
            platform: tlb.platform(),
            flush: Box::new(move |cpu, what| {
                let _ = flush(tlb, cpu, a, |gather| what.tell(gather));
            }),
            serve: Box::new(move |cpu| on(cpu, || this_cpu(tlb).handle_ipi())),
            halt: Box::new(move |cpu| {
                tlb.stopped(&(), lookaside::platform::CpuId(cpu)).unwrap();
            }),
        }
    }
}

/// How long the latest flush waited.
fn rounds(platform: &Fake) -> u64 {
    let flushed = |(_, event)| match event {
        Event::Flushed { rounds, .. } => Some(rounds),
        _ => None,
    };
    platform.events().into_iter().rev().find_map(flushed).unwrap()
}

// ---- Order

#[test]
fn flag_08_the_initiator_does_its_part_after_asking_and_before_waiting() {
    both(|start| {
        let run = start(&[0, 5, FAR]);
        run.platform.set_answer(Answer::WhenWaitedFor);
        (run.flush)(0, What::Page);
        let acts: Vec<_> = run.platform.acts();
        let cpus: Vec<_> = acts.iter().map(|(cpu, _)| *cpu).collect();
        assert_eq!(acts[0], (0, Op::Interrupt(vec![5])));
        assert_eq!(acts[1], (0, Op::Interrupt(vec![FAR])));
        assert_eq!(cpus, [0, 0, 0, 5, FAR], "asked, flushed here, and then the others answered");
        assert!(rounds(run.platform) > 0);
    });
}

#[test]
fn flag_03_what_was_asked_is_there_when_the_interrupt_arrives() {
    // The contract of `Platform::send_ipi`: the handler sees what was stored before. Here it runs
    // before the call returns, so that what is stored later would be missed; and without a request
    // that it can read, it would flush everything there is.
    both(|start| {
        let run = start(&[0, FAR]);
        for what in [What::Page, What::Range] {
            (run.flush)(0, what);
            let acts = run.platform.acts();
            let at = |range: &Op| matches!(range, Op::FlushRange(..));
            assert!(acts.iter().any(|(cpu, op)| *cpu == FAR && at(op)), "{acts:?}");
            assert!(!acts.iter().any(|(_, op)| matches!(op, Op::FlushKernel(_))), "{acts:?}");
        }
    });
}

#[test]
fn flag_02_what_one_initiator_asked_is_not_confused_with_what_another_did() {
    both(|start| {
        let run = start(&[0, 1, FAR]);
        // CPU 1 asks while CPU 0 waits for its answer, and both ask the third one.
        run.platform.set_answer(Answer::Never);
        let (done, platform) = (AtomicU64::new(0), run.platform);
        std::thread::scope(|scope| {
            let done = &done;
            // Threads of the flushers, each a CPU with interrupts off.
            let threads = [0, 1].map(|cpu| {
                let (flush, serve) = (&run.flush, &run.serve);
                scope.spawn(move || {
                    flush(cpu, What::Page);
                    done.fetch_add(1, Ordering::SeqCst);
                    // The other's request may have come when this one needed no answer any more.
                    while done.load(Ordering::SeqCst) < 2 {
                        serve(cpu);
                        std::thread::yield_now();
                    }
                })
            });
            // Not for all three at one moment: the two serve each other, and are pending no more.
            while !platform.pending().contains(&FAR) {
                std::thread::yield_now();
            }
            // Both wait for the third and serve each other meanwhile.
            for _ in 0..1000 {
                assert_eq!(done.load(Ordering::SeqCst), 0, "the third has not answered");
                std::thread::yield_now();
            }
            // More than once: one of the two may have sent its request to the third only now.
            while done.load(Ordering::SeqCst) < 2 {
                (run.serve)(FAR);
                std::thread::yield_now();
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
        let acts = run.platform.acts();
        let far: Vec<_> = acts.iter().filter(|(cpu, _)| *cpu == FAR).collect();
        assert!(!far.is_empty() && far.len() <= 2, "one flush or two for two requests: {far:?}");
    });
}

// ---- Deadlock

#[test]
fn flag_06_two_cpus_that_flush_at_each_other_with_interrupts_off_both_finish() {
    both(|start| {
        let run = start(&[0, 1, 64, FAR]);
        run.platform.set_answer(Answer::Never);
        let finished = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for cpu in [0, 1, 64, FAR] {
                let (run, finished) = (&run, &finished);
                scope.spawn(move || {
                    for round in 0..500 {
                        (run.flush)(cpu, What::ALL[round % 4]);
                    }
                    // Those that are not finished wait for this one.
                    finished.fetch_add(1, Ordering::SeqCst);
                    while finished.load(Ordering::SeqCst) < 4 {
                        (run.serve)(cpu);
                        std::thread::yield_now();
                    }
                });
            }
        });
    });
}

#[test]
fn flag_06_nobody_is_interrupted_for_an_empty_set_and_nobody_interrupts_itself() {
    both(|start| {
        for cpus in [&[][..], &[0]] {
            let run = start(cpus);
            for what in What::ALL {
                (run.flush)(0, what);
            }
            // `Fake::interrupt` refuses empty sets and the caller itself.
            assert!(!run.platform.acts().iter().any(|(_, op)| matches!(op, Op::Interrupt(_))));
            assert_eq!(rounds(run.platform), 0);
        }
    });
}

#[test]
fn flag_06_a_cpu_that_does_not_answer_is_told_of_ever_more_rarely_and_waited_for() {
    both(|start| {
        let run = start(&[0, FAR]);
        run.platform.set_answer(Answer::Never);
        // The diagnosis looks twice and then finds out what is wrong: the interrupt was lost.
        let calls = AtomicU64::new(0);
        let platform = run.platform;
        let serve = run.serve;
        platform.set_diagnosis(move |_| {
            if calls.fetch_add(1, Ordering::SeqCst) == 1 {
                serve(FAR);
            }
        });
        (run.flush)(0, What::Page);
        let waits = platform.stuck_waits();
        let rounds: Vec<_> = waits.iter().map(|wait| wait.rounds).collect();
        assert_eq!(rounds, [1 << 20, 1 << 21]);
        for wait in waits {
            let Stuck { waiting, target, posted, acknowledged, .. } = wait;
            assert_eq!((waiting.0, target.0), (0, FAR));
            assert!(acknowledged < posted, "{acknowledged} of {posted}");
        }
        let last = platform.acts().into_iter().rfind(|(cpu, _)| *cpu == FAR);
        assert!(last.is_some_and(|(_, op)| matches!(op, Op::FlushRange(..))), "it was flushed");
        assert_eq!(platform.counts[0].waits().skip(21).sum::<u64>(), 1, "a long wait");
    });
}

#[test]
fn flag_06_a_cpu_that_has_halted_is_not_waited_for() {
    both(|start| {
        let run = start(&[0, 1, FAR]);
        run.platform.set_answer(Answer::Never);
        (run.halt)(FAR);
        (run.halt)(1);
        for what in What::ALL {
            (run.flush)(0, what);
        }
        assert_eq!(run.platform.stuck_waits(), []);
        assert!(run.platform.pending().len() <= 2);
    });
}

/// A space that three CPUs run, of which CPU 2 has begun a flush: it stopped before it sent the IPIs, and CPU 0 reports that.
fn stopped_before_its_ipis<T: Strategy>(tlb: Machine<T>) -> &'static AddressSpace<Fake> {
    let a: &'static _ = Box::leak(Box::new(space(tlb, 1)));
    for cpu in 0..3 {
        let _ = switch(tlb, cpu, a);
    }
    tlb.platform().set_answer(Answer::Never);
    let begun = on(2, || {
        let mut gather = Gather::new(a);
        What::Table.tell(&mut gather);
        tlb.begin_flush(&(), gather)
    });
    tlb.platform().lose_ipis();
    core::mem::forget(begun);
    on(0, || tlb.stopped(&(), lookaside::platform::CpuId(2)).unwrap());
    a
}

#[test]
fn flag_06_an_ipi_on_which_others_rely_is_sent_although_its_sender_has_stopped() {
    let tlb = recent(3, Fake::new(3, 12));
    // Its pending words say that IPIs are on their way.
    let a = stopped_before_its_ipis(tlb);
    tlb.platform().set_answer(Answer::WhenWaitedFor);
    let _ = flush(tlb, 0, a, |gather| What::Page.tell(gather));
    assert_eq!(tlb.platform().stuck_waits(), []);
}

#[test]
fn flag_06_a_request_in_a_queue_is_served_although_its_sender_has_stopped() {
    let tlb = epochs(3, Fake::new(3, 16).without_broadcast());
    // Whoever waits for CPU 1 waits for all of its queue.
    let _ = stopped_before_its_ipis(tlb);
    assert_eq!(tlb.platform().pending(), [1], "this CPU has looked by itself");
}

#[test]
fn flag_06_a_panic_while_somebody_waits_ends_the_wait() {
    both(|start| {
        let run = start(&[0, FAR]);
        run.platform.set_answer(Answer::Never);
        let halt = run.halt;
        run.platform.set_diagnosis(move |stuck| halt(stuck.target.0));
        (run.flush)(0, What::AddressSpace);
        assert_eq!(run.platform.stuck_waits().len(), 1);
    });
}

// ---- Kinds

#[test]
fn flag_07_pages_ranges_spaces_tables_the_kernel_and_every_space_are_asked_for_alike() {
    both(|start| {
        let run = start(&[0, FAR]);
        let asked = |what| {
            (run.flush)(0, what);
            let acts = run.platform.acts();
            acts.into_iter().rfind(|(cpu, _)| *cpu == FAR).unwrap().1
        };
        let page = asked(What::Page);
        let Op::FlushRange(tag, 0x5000, 1) = page else { panic!("{page:?}") };
        assert_eq!(asked(What::Range), Op::FlushRange(tag, 0x10_0000, 9));
        assert_eq!(asked(What::AddressSpace), Op::FlushTag(tag));
        run.platform.set_costs(|costs| (costs.useful_entries, costs.local.tag) = (1000, 1 << 20));
        assert_eq!(asked(What::Table), Op::FlushTables(tag, 0x20_0000, 512));
    });
    fn kernel<T: Strategy>(tlb: Machine<T>) {
        let mut gather = KernelGather::new(tlb);
        gather.revoke(pages(0xffff_8000_0000_0000, 2));
        let _ = this_cpu(tlb).flush_kernel(gather);
        let acts = tlb.platform().acts();
        let far = acts.into_iter().rfind(|(cpu, _)| *cpu == FAR).unwrap().1;
        assert_eq!(far, Op::FlushKernel(vec![(0xffff_8000_0000_0000, 2)]));
        let mut gather = KernelGather::new(tlb);
        gather.revoke_everything();
        let _ = this_cpu(tlb).flush_kernel(gather);
        let acts = tlb.platform().acts();
        assert!(acts.contains(&(FAR, Op::FlushKernel(vec![]))), "globals too: {acts:?}");
    }
    kernel(recent(CPUS, Fake::new(CPUS, 12)));
    kernel(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
}

#[test]
fn flag_07_without_tags_a_target_flushes_what_it_runs() {
    let tlb = recent(CPUS, Fake::new(CPUS, 0));
    let a = space(tlb, 1);
    for cpu in [0, FAR] {
        let _ = switch(tlb, cpu, &a);
    }
    let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    assert!(tlb.platform().acts().contains(&(FAR, Op::FlushRange(0, 0x5000, 1))));
}

// ---- Early answers

#[test]
fn flag_04_an_early_answer_comes_before_the_invalidation_unless_a_table_goes() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [0, FAR] {
            let _ = switch(tlb, cpu, &a);
        }
        let mut gather = Gather::holding(&a, Vec::new());
        gather.revoke(pages(0x5000, 1));
        gather.hold_page("page");
        assert_eq!(this_cpu(tlb).flush_early(gather).frames, ["page"]);
        let acts = tlb.platform().acts();
        assert!(acts.iter().any(|(cpu, op)| *cpu == FAR && matches!(op, Op::FlushRange(..))));
        // With a table in it, the same call is a full one.
        let mut gather = Gather::new(&a);
        gather.unlink_table(pages(0x20_0000, 512));
        let _ = this_cpu(tlb).flush_early(gather);
        let acts = tlb.platform().acts();
        assert!(acts.iter().any(|(cpu, op)| *cpu == FAR && matches!(op, Op::FlushTag(_))));
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
}

// ---- Several at one time

#[test]
fn more_requests_than_a_target_can_tell_apart_are_served_at_once() {
    // The target sleeps while forty CPUs flush at it, each with a page of its own.
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, FAR, &a);
        let tag = on(FAR, || this_cpu(tlb).tag().0);
        tlb.platform().set_answer(Answer::Never);
        tlb.platform().forget_logs();
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for cpu in 0..40 {
                let (a, done) = (&a, &done);
                scope.spawn(move || {
                    let _ = flush(tlb, cpu, a, |gather| {
                        gather.revoke(pages(u64::from(cpu) << 20, 1));
                    });
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            // All of them have asked; with generations, one IPI may stand for many.
            let ipi = |(_, op): &(u32, Op)| matches!(op, Op::Interrupt(cpus) if *cpus == [FAR]);
            let mut ipis = 0;
            while a.generation() < 40 && ipis < 40 {
                ipis += tlb.platform().acts().iter().filter(|act| ipi(act)).count();
                std::thread::yield_now();
            }
            while done.load(Ordering::SeqCst) < 40 {
                on(FAR, || this_cpu(tlb).handle_ipi());
                std::thread::yield_now();
            }
        });
        let log = tlb.platform().log(FAR);
        let everything = [Op::FlushTag(tag), Op::FlushKernel(vec![])];
        assert!(log.iter().any(|op| everything.contains(op)), "{log:?}");
        let counts = &tlb.platform().counts[FAR as usize];
        assert!(counts.served().0 >= 40, "all of them");
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
}

#[test]
fn flag_02_many_cpus_flush_many_spaces_at_one_time() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        // Pairs of CPUs with a space each: no pair waits for another.
        tlb.platform().set_answer(Answer::Never);
        let spaces: Vec<_> = (1..=4).map(|number| space(tlb, number)).collect();
        let finished = AtomicU64::new(0);
        for (index, space) in spaces.iter().enumerate() {
            for cpu in [index as u32, index as u32 + 64] {
                let _ = switch(tlb, cpu, space);
            }
        }
        std::thread::scope(|scope| {
            for (index, space) in spaces.iter().enumerate() {
                for cpu in [index as u32, index as u32 + 64] {
                    let finished = &finished;
                    scope.spawn(move || {
                        for round in 0..300 {
                            let _ = flush(tlb, cpu, space, |gather| {
                                What::LEAVES[round % 2].tell(gather);
                            });
                        }
                        finished.fetch_add(1, Ordering::SeqCst);
                        while finished.load(Ordering::SeqCst) < 8 {
                            on(cpu, || this_cpu(tlb).handle_ipi());
                            std::thread::yield_now();
                        }
                    });
                }
            }
        });
        for index in 0..4 {
            let counts = [0, 64].map(|more| &tlb.platform().counts[index + more]);
            let (sent, got) = (counts.map(|c| c.interrupted()), counts.map(|c| c.served().0));
            // With generations, one flush may serve several requests, and a CPU's own flush those of others.
            if !T::tracks_generations(tlb) {
                assert_eq!((sent[0], sent[1]), (got[1], got[0]), "only its partner asks a CPU");
            }
        }
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
}

// ---- Counters

#[test]
fn flag_12_interrupts_and_what_they_were_good_for_are_counted() {
    fn check<T: Strategy>(tlb: Machine<T>, useful: u64) {
        let a = space(tlb, 1);
        for cpu in [0, 1, FAR] {
            let _ = switch(tlb, cpu, &a);
        }
        for what in [What::Page, What::Range, What::AddressSpace] {
            let _ = flush(tlb, 0, &a, |gather| what.tell(gather));
        }
        assert_eq!(tlb.platform().counts[0].interrupted(), 6);
        assert_eq!(tlb.platform().counts[FAR as usize].served(), (3, 3));
        // A request that comes too late: the CPU has left before it is interrupted.
        tlb.platform().set_answer(Answer::Never);
        let relaxed = || tlb.platform().relaxed.load(Ordering::Relaxed);
        let before = relaxed();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| flush(tlb, 0, &a, |gather| What::Page.tell(gather)));
            // Until the initiator waits: otherwise its targets might have answered before.
            while relaxed() == before {
                std::thread::yield_now();
            }
            on(1, || this_cpu(tlb).handle_ipi());
            park(tlb, FAR);
            on(FAR, || this_cpu(tlb).handle_ipi());
            let _ = thread.join().unwrap();
        });
        let (requests, found) = tlb.platform().counts[FAR as usize].served();
        assert_eq!((requests, found), (4, useful));
        // The times of the waits: four flushes, of which three were answered at once.
        let waits: Vec<_> = tlb.platform().counts[0].waits().collect();
        assert_eq!((waits[0], waits.iter().sum::<u64>()), (3, 4), "{waits:?}");
        assert_eq!(tlb.platform().counts[0].flushes(Outcome::Ipis), 4);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)), 3);
    // Under epochs a target does not look whether it still runs the space.
    check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()), 4);
}

// ---- Memory

#[test]
fn flag_10_the_request_queues_of_4096_cpus_take_less_than_four_mebibytes() {
    let recent = size_of::<Cpu<Fake, PerCpuAsids<6>>>();
    let epochs = size_of::<Cpu<Fake, GlobalAsids<'_, Fake>>>();
    println!("{recent} bytes with recent spaces, {epochs} with epochs");
    for cpu in [recent, epochs] {
        assert!(4096 * cpu <= 4 << 20, "{cpu}");
        // Lines of its own, also for what x86 fetches in pairs.
        assert!(cpu.is_multiple_of(128));
    }
    assert!(align_of::<Cpu<Fake, PerCpuAsids<6>>>() >= 128);
}

#[test]
fn flag_05_and_flag_11_numbers_have_64_bits_on_every_host() {
    // A word is 64 bits wide and atomic as a whole, whatever a pointer is: nothing tears, and no
    // number of requests or generations wraps. Zero means that nobody ever asked.
    assert_eq!(size_of::<AtomicU64>(), 8);
    let tlb = recent(2, Fake::new(2, 12));
    let a = space(tlb, 1);
    for cpu in [0, 1] {
        let _ = switch(tlb, cpu, &a);
    }
    tlb.platform().set_answer(Answer::Never);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| flush(tlb, 0, &a, |gather| What::Page.tell(gather)));
        while tlb.platform().pending().is_empty() {
            std::thread::yield_now();
        }
        on(1, || this_cpu(tlb).handle_ipi());
        let _ = thread.join().unwrap();
    });
    assert_eq!(a.generation(), 1, "the first one is 1, and nothing was at 0 before");
}

// ---- Not only page tables

#[test]
fn a_target_that_was_down_and_comes_up_has_nothing_to_serve() {
    let tlb = recent(3, Fake::new(3, 12));
    let a = space(tlb, 1);
    for cpu in [0, 1] {
        let _ = switch(tlb, cpu, &a);
    }
    on(2, || this_cpu(tlb).offline());
    let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    on(2, || tlb.online(&(), &12).unwrap());
    tlb.platform().forget_logs();
    on(2, || this_cpu(tlb).handle_ipi());
    assert_eq!(tlb.platform().acts(), []);
    let targets = Targets { first: lookaside::platform::CpuId(64), mask: 1 << 63 | 1 };
    let cpus: Vec<_> = targets.iter().map(|cpu| cpu.0).collect();
    assert_eq!((cpus, targets.count()), (vec![64, 127], 2));
}
