//! Whatever the events are, a script comes out that keeps its promises, or a refusal.

use std::collections::{HashMap, HashSet};

use lookaside_traces::{
    Call, Event, Kind, NameId, Pages, Purpose, Reason, Task, Trace,
    reconstruct::{Act, Flushes, Script, SpaceId, reconstruct},
};
use proptest::prelude::*;

/// Few threads, so that events meet; now and then any number.
fn task() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0..6u32, 1 => any::<u32>()]
}

/// Few places, so that ranges meet; now and then any address.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        20 => (0..3000u64).prop_map(|page| 0x7000_0000_0000 + page * 4096),
        1 => any::<u64>()
    ]
}

fn argument() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..30u64,
        4 => (0..1200u64).prop_map(|page| page * 4096),
        2 => address(),
        2 => prop_oneof![Just(0x22u64), Just(0x32), Just(0x8022), Just(0x11), Just(2)],
        1 => any::<u64>()
    ]
}

fn pages() -> impl Strategy<Value = Pages> {
    prop_oneof![
        (0..40u32).prop_map(Pages::Some),
        any::<u32>().prop_map(Pages::Some),
        Just(Pages::Everything)
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop::sample::select(Call::ALL)
}

fn memory() -> impl Strategy<Value = Kind> {
    let code = prop_oneof![Just(4u64), Just(6), Just(7), Just(3), 0..32u64];
    let arguments = (address(), argument(), argument(), argument(), argument());
    let value =
        prop_oneof![3 => Just(0i64), 3 => address().prop_map(|to| to as i64), 1 => any::<i64>()];
    prop_oneof![
        8 => (address(), code).prop_map(|(address, code)| Kind::Fault { address, code }),
        6 => (call(), arguments).prop_map(|(call, (a, b, c, d, e))| {
            Kind::Call { call, arguments: [a, b, c, d, e] }
        }),
        6 => (call(), value).prop_map(|(call, value)| Kind::Return { call, value }),
        4 => (prop::sample::select(&Reason::ALL), pages())
            .prop_map(|(reason, pages)| Kind::Flush { reason, pages }),
    ]
}

fn threads() -> impl Strategy<Value = Kind> {
    let flags = prop_oneof![Just(0u64), Just(0x100), Just(0x4100), Just(0x3d_0f00)];
    let name = (0..5u32).prop_map(NameId);
    prop_oneof![
        6 => (task(), name.clone(), any::<bool>())
            .prop_map(|(next, name, runnable)| Kind::Switch { next, name, runnable }),
        2 => (task(), name.clone(), flags)
            .prop_map(|(task, name, flags)| Kind::Create { task, name, flags }),
        1 => (task(), task()).prop_map(|(task, old)| Kind::Execute { task, old }),
        1 => Just(Kind::Exit),
        1 => (task(), name).prop_map(|(task, name)| Kind::Rename { task, name }),
        1 => (task(), any::<u16>()).prop_map(|(task, to)| Kind::Migrate { task, to }),
        1 => any::<u64>().prop_map(|space| Kind::Unmapped { space }),
        1 => any::<u64>().prop_map(|events| Kind::Lost { events }),
    ]
}

fn requests() -> impl Strategy<Value = Kind> {
    let purpose = prop_oneof![Just(Purpose::Functions), Just(Purpose::WakeUp)];
    prop_oneof![
        (0..3u16, 0..3u64, any::<bool>()).prop_map(|(target, request, flush)| Kind::Ask {
            target,
            request,
            flush
        }),
        (0..3u64, any::<bool>()).prop_map(|(request, flush)| Kind::Serve { request, flush }),
        (0..3u64, any::<bool>()).prop_map(|(request, flush)| Kind::Served { request, flush }),
        (0..3u16, purpose.clone()).prop_map(|(target, purpose)| Kind::Send { target, purpose }),
        (any::<u64>(), purpose).prop_map(|(targets, purpose)| Kind::SendMany { targets, purpose }),
        Just(Kind::Interrupt),
        Just(Kind::Resume),
    ]
}

prop_compose! {
    fn event()(
        after in 0..3u64,
        cpu in prop_oneof![20 => 0..3u16, 1 => any::<u16>()],
        in_interrupt in any::<Option<bool>>(),
        task in task(),
        kind in prop_oneof![8 => memory(), 4 => threads(), 2 => requests()],
    ) -> Event {
        Event { time: after, cpu, in_interrupt, task, kind }
    }
}

prop_compose! {
    /// Any events, in order of time.
    fn trace()(mut events in prop::collection::vec(event(), 0..300)) -> Trace {
        let mut now = 0;
        for event in &mut events {
            now += event.time;
            event.time = now;
        }
        let task = |id, kernel| Task { id, process: id / 2 * 2, name: NameId(id), kernel };
        Trace {
            tasks: vec![task(1, false), task(2, false), task(3, false), task(4, true)],
            names: vec!["a".into(), "b".into(), "kworker/0:0".into()],
            events,
            ..Trace::default()
        }
    }
}

/// What [`Script`] promises.
fn keeps_promises(script: &Script) {
    // By CPU, and by thread, wherever it runs.
    let mut all = Vec::new();
    for steps in &script.cpus {
        assert!(steps.is_sorted_by_key(|step| step.time));
        all.extend(steps.iter().map(|step| (step.time, step.act)));
    }
    assert!(all.iter().all(|(time, _)| *time <= script.length));
    let mut born: HashMap<SpaceId, u64> = HashMap::new();
    let mut ended: HashMap<SpaceId, u64> = HashMap::new();
    for &(time, act) in &all {
        match act {
            Act::Fork { child, .. } => assert_eq!(born.insert(child, time), None),
            Act::End(space) => assert_eq!(ended.insert(space, time), None),
            _ => {}
        }
    }
    for steps in &script.cpus {
        let mut over = HashSet::new();
        for step in steps {
            assert!((step.initiator as usize) < script.initiators.len());
            let used = match step.act {
                Act::Run(space) => Some((space, 0, 0)),
                Act::Map { space, first, pages }
                | Act::Restrict { space, first, pages, .. }
                | Act::Unmap { space, first, pages, .. } => {
                    assert!(pages > 0);
                    Some((space, first, pages))
                }
                Act::PageOut { space, page } => Some((space, page, 1)),
                Act::Fork { parent, .. } => Some((parent, 0, 0)),
                Act::End(space) => {
                    over.insert(space);
                    None
                }
                Act::Idle => None,
            };
            if let Some((space, first, pages)) = used {
                let room = script.spaces[space.0 as usize].pages;
                assert!(u64::from(first) + u64::from(pages) <= room);
                assert!(!over.contains(&space), "used on its CPU after its end");
                assert!(born.get(&space).is_none_or(|born| *born <= step.time));
                assert!(ended.get(&space).is_none_or(|ended| step.time <= *ended));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_events_make_a_script_or_are_refused(trace in trace()) {
        for flushes in [Flushes::FromCalls, Flushes::Recorded] {
            if let Ok(script) = reconstruct(&trace, flushes) {
                keeps_promises(&script);
            }
        }
    }
}
