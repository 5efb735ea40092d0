"""Looks at timelines with Perfetto's own means: python timeline.py FILE...

With its trace processor where that can be had: the Python package fetches the program from a server of its
own. Otherwise by the schema of the format, which the package contains.
"""

import bisect
import sys
from collections import Counter

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def decode(path):
    """What is in a file, by the schema: slices, flows, counters, threads."""
    trace = schema.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    assert not any(packet.HasField("trusted_uid") for packet in trace.packet)
    names, tracks, stacks, slices, values = {}, {}, {}, [], {}
    starts, ends = Counter(), Counter()
    for packet in trace.packet:
        # Whatever the schema does not know would be left over.
        assert packet.SerializeToString() == packet.SerializeToString(deterministic=True)
        for name in packet.interned_data.event_names:
            names[name.iid] = name.name
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks, f"track {track.uuid} is described twice"
            tracks[track.uuid] = track
        if not packet.HasField("track_event"):
            continue
        event, time = packet.track_event, packet.timestamp
        assert event.track_uuid in tracks, f"an event of no track at {time}"
        starts.update(event.flow_ids)
        ends.update(event.terminating_flow_ids)
        if event.type == COUNTER:
            values.setdefault(event.track_uuid, []).append((time, event.counter_value))
        elif event.type == INSTANT:
            slices.append((event.track_uuid, names[event.name_iid], time, time))
        elif event.type == BEGIN:
            stacks.setdefault(event.track_uuid, []).append((names[event.name_iid], time))
        elif event.type == END:
            name, begin = stacks[event.track_uuid].pop()
            assert begin <= time, f"{name} ends before it begins"
            slices.append((event.track_uuid, name, begin, time))
    assert not any(stacks.values()), "a slice does not end"
    for track, points in values.items():
        assert points == sorted(points, key=lambda point: point[0]), "a counter goes back in time"
        assert all(value >= 0 for _, value in points), "a counter is negative"
        if tracks[track].name == "page walks":
            assert all(a[1] <= b[1] for a, b in zip(points, points[1:])), "walks are taken back"
    threads = {uuid for uuid, track in tracks.items() if track.HasField("thread")}
    processes = {track.process.pid for track in tracks.values() if track.HasField("process")}
    assert all(tracks[uuid].thread.pid in processes for uuid in threads)
    assert all(uuid in threads for uuid, *_ in slices)
    return slices, starts, ends, values, threads


def arrows(slices, starts, ends):
    """Each interrupt is sent, most are taken, and an answer is the end of an arrow."""
    sent = sum(name.startswith("interrupt to CPU") for _, name, *_ in slices)
    answers = sum(name.startswith("answer of CPU") for _, name, *_ in slices)
    assert len(starts) == sent, f"{len(starts)} arrows for {sent} interrupts"
    assert all(count == 1 for count in ends.values()), "an arrow ends twice"
    assert all(count <= 2 for count in starts.values())
    assert set(ends) <= set(starts), "an arrow ends that never began"
    assert len(ends) >= answers
    handlers = {}
    for track, name, begin, end in slices:
        if name == "interrupt":
            handlers.setdefault(track, []).append((begin, end))
    for all_of in handlers.values():
        all_of.sort()
        starts_of = [begin for begin, _ in all_of]
        assert all(a[1] <= b[0] for a, b in zip(all_of, all_of[1:])), "handlers overlap"
        assert bisect.bisect(starts_of, all_of[-1][0]) == len(all_of)
    return sent, answers


def processed(path):
    """The same by Perfetto's trace processor, or None where it cannot be had."""
    try:
        from perfetto.trace_processor import TraceProcessor

        processor = TraceProcessor(trace=path)
    except Exception as error:  # Whatever keeps it from being fetched or started.
        print(f"timeline: no trace processor here ({type(error).__name__}); read by the schema alone")
        return None
    one = lambda query: next(iter(processor.query(query))).n
    found = {
        "slices": one("select count(*) as n from slice"),
        "threads": one("select count(*) as n from thread where name glob 'CPU *'"),
        "arrows": one("select count(*) as n from flow"),
        "values": one("select count(*) as n from counter"),
        "lost": one("select count(*) as n from stats where severity = 'error' and value > 0"),
    }
    processor.close()
    return found


def main(paths):
    assert paths, __doc__
    for path in paths:
        slices, starts, ends, values, threads = decode(path)
        sent, answers = arrows(slices, starts, ends)
        points = sum(map(len, values.values()))
        assert slices and points, "a timeline of nothing"
        found = processed(path)
        if found is not None:
            # An arrow of n steps is n - 1 pieces.
            pieces = sum(starts.values()) + sum(ends.values()) - len(starts)
            expected = {
                "slices": len(slices),
                "threads": len(threads),
                "arrows": pieces,
                "values": points,
                "lost": 0,
            }
            assert found == expected, f"{found} is not {expected}"
        by = "the trace processor" if found else "the schema"
        print(
            f"timeline: {path}: {len(threads)} CPUs, {len(slices)} slices, {sent} interrupts, "
            f"{answers} answered, {points} values, as {by} has it"
        )


main(sys.argv[1:])
