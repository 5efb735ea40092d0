use std::collections::BTreeMap;

use lookaside_machine::timed::Doing;

use super::*;
fn named(key: &str) -> Machine {
    Machine::named(key).unwrap()
}

fn written(timeline: &Timeline, machine: &Machine) -> Vec<TracePacket> {
    let mut bytes = Vec::new();
    write(timeline, machine, &mut bytes).unwrap();
    Trace::decode(&bytes[..]).unwrap().packet
}

/// Events with their time, line, kind and name.
fn events(packets: &[TracePacket]) -> Vec<(u64, u64, i32, String)> {
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut events = Vec::new();
    for packet in packets {
        for name in packet.interned_data.iter().flat_map(|data| &data.event_names) {
            names.insert(name.iid.unwrap(), name.name.clone().unwrap());
        }
        if let Some(event) = &packet.track_event {
            let name = event.name_iid.map(|iid| names[&iid].clone()).unwrap_or_default();
            let time = packet.timestamp.unwrap();
            events.push((time, event.track_uuid.unwrap(), event.r#type.unwrap(), name));
        }
    }
    events
}

fn slice(cpu: u32, name: &'static str, begin: Ps, end: Ps) -> Moment {
    Moment::Slice { cpu, doing: Doing::Activity(name), begin, end }
}

/// CPU 0 flushes and interrupts CPU 1.
fn shootdown() -> Timeline {
    let interrupt = Interrupt {
        from: 0,
        to: 1,
        sent: 12_000,
        taken: Some(15_000),
        returned: Some(18_000),
        answered: Some(17_000),
    };
    let moments = vec![
        slice(0, "boot", 0, 4_000),
        slice(0, "start", 4_000, 10_000),
        Moment::Walks { cpu: 1, time: 11_000, count: 3 },
        Moment::Walks { cpu: 0, time: 11_000, count: 2 },
        slice(1, "handler", 15_000, 16_000),
        slice(1, "interrupt", 15_000, 18_000),
        Moment::Broadcast { cpu: 0, begin: 13_000, end: 14_000 },
        Moment::Broadcast { cpu: 0, begin: 12_000, end: 12_000 },
        slice(0, "flush", 11_000, 17_500),
        Moment::Interrupt(interrupt),
    ];
    Timeline { moments, dropped: 0, ended: vec![20_000, 19_000] }
}

#[test]
fn slices_are_nested_and_begin_with_the_program() {
    const BEGIN: i32 = TrackEvent::SLICE_BEGIN;
    const END: i32 = TrackEvent::SLICE_END;
    let events = events(&written(&shootdown(), &named("zen4")));
    let slices = |cpu: usize| -> Vec<_> {
        let of = events.iter().filter(|e| e.1 == line(cpu) && (e.2 == BEGIN || e.2 == END));
        of.map(|(time, _, kind, name)| (*time, *kind, name.as_str())).collect()
    };
    let expected = [(10, BEGIN, "program"), (11, BEGIN, "flush"), (17, END, ""), (20, END, "")];
    assert_eq!(slices(0), expected);
    let expected = [
        (0, BEGIN, "program"),
        (15, BEGIN, "interrupt"),
        (15, BEGIN, "handler"),
        (16, END, ""),
        (18, END, ""),
        (19, END, ""),
    ];
    assert_eq!(slices(1), expected);
}

#[test]
fn an_arrow_goes_from_sending_to_the_handler_to_the_answer() {
    let packets = written(&shootdown(), &named("zen4"));
    let of = |ids: fn(&TrackEvent) -> &[u64]| -> Vec<(u64, u64)> {
        let events = packets.iter().filter_map(|p| Some((p.timestamp?, p.track_event.as_ref()?)));
        let with = events.filter(|(_, event)| ids(event) == [1]);
        with.map(|(time, event)| (time, event.track_uuid.unwrap())).collect()
    };
    assert_eq!(of(|event| &event.flow_ids), [(15, line(1)), (12, line(0))]);
    assert_eq!(of(|event| &event.terminating_flow_ids), [(17, line(0))]);
}

#[test]
fn an_interrupt_of_which_the_handler_was_dropped_is_not_shown() {
    let mut cut = shootdown();
    cut.moments.retain(|moment| !matches!(moment, Moment::Slice { cpu: 1, .. }));
    let packets = written(&cut, &named("zen4"));
    let events = packets.iter().filter_map(|packet| packet.track_event.as_ref());
    let arrows = events.filter(|e| !e.flow_ids.is_empty() || !e.terminating_flow_ids.is_empty());
    assert_eq!(arrows.count(), 0);
}

#[test]
fn counters_count() {
    let packets = written(&shootdown(), &named("zen4"));
    let values = |name: &str| -> Vec<(u64, i64)> {
        let track = packets.iter().filter_map(|packet| packet.track_descriptor.as_ref());
        let uuid = track.clone().find(|t| t.name.as_deref() == Some(name)).unwrap().uuid;
        let events = packets.iter().filter_map(|p| Some((p.timestamp?, p.track_event.as_ref()?)));
        let of = events.filter(|(_, event)| event.track_uuid == uuid);
        of.map(|(time, event)| (time, event.counter_value.unwrap())).collect()
    };
    assert_eq!(values("page walks"), [(11, 2), (11, 5)]);
    assert_eq!(values("interrupts under way"), [(12, 1), (17, 0)]);
    assert_eq!(values("broadcasts under way"), [(12, 0), (13, 1), (14, 0)]);
}

#[test]
fn each_cpu_is_a_thread_of_its_socket() {
    let machine = named("altra_2node");
    let topology = machine.model.topology;
    let timeline = Timeline { ended: vec![5_000; topology.cpus()], ..Timeline::default() };
    let packets = written(&timeline, &machine);
    let tracks = || packets.iter().filter_map(|packet| packet.track_descriptor.as_ref());
    let processes = tracks().filter(|track| track.process.is_some()).count();
    assert_eq!(processes, topology.sockets as usize);
    let mut threads: BTreeMap<i32, usize> = BTreeMap::new();
    for thread in tracks().filter_map(|track| track.thread.as_ref()) {
        *threads.entry(thread.pid.unwrap()).or_default() += 1;
    }
    let each = topology.cpus() / topology.sockets as usize;
    assert!(threads.values().all(|&count| count == each), "{threads:?}");
    assert_eq!(threads.len(), topology.sockets as usize);
}

#[test]
fn a_timeline_of_nothing_is_a_file() {
    let packets = written(&Timeline::default(), &named("zen4"));
    assert!(packets.iter().all(|packet| packet.track_event.is_none()));
}
