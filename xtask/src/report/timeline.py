"""Looks at timelines with Perfetto's own means: python timeline.py FILE...

With its trace processor where that can be had: the Python package fetches the program from a server of its
own. Otherwise by the schema of the format, which the package contains.
"""

import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def known(message):
    """Whether the schema has every field of a message and of those within it."""
    if len(UnknownFieldSet(message)) > 0:
        return False
    for field, value in message.ListFields():
        if field.message_type is not None:
            parts = value if hasattr(value, "__len__") else [value]
            if not all(known(part) for part in parts):
                return False
    return True


def decode(path):
    """What is in a file, by the schema: slices, flows, counters, threads."""
    trace = schema.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    names, tracks, stacks, slices, values, arrows = {}, {}, {}, [], {}, {}
    for packet in trace.packet:
        assert known(packet), "a packet has fields that the schema does not know"
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
        for end, ids in ((False, event.flow_ids), (True, event.terminating_flow_ids)):
            for id in ids:
                line = tracks[event.track_uuid].thread.thread_name
                arrows.setdefault(id, []).append((time, end, names[event.name_iid], line))
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
    return slices, arrows, values, threads


def follow(slices, arrows):
    """Each arrow is sent, most are taken by the handler on the CPU that it goes to, and answered ones end."""
    sent = sum(name.startswith("interrupt to CPU") for _, name, *_ in slices)
    assert len(arrows) == sent, f"{len(arrows)} arrows for {sent} interrupts"
    answers = 0
    for points in arrows.values():
        points.sort()
        assert sum(end for _, end, *_ in points) <= 1, "an arrow ends twice"
        assert not any(end for _, end, *_ in points[:-1]), "an arrow goes on after its end"
        (_, _, first, sender), rest = points[0], points[1:]
        assert first.startswith("interrupt to "), first
        target = first.removeprefix("interrupt to ")
        for i, (_, _, name, line) in enumerate(rest):
            handler = i == 0
            assert (name, line) == (("interrupt", target) if handler else (f"answer of {target}", sender))
        answers += len(rest) == 2
    return answers


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
        slices, arrows, values, threads = decode(path)
        answers = follow(slices, arrows)
        points = sum(map(len, values.values()))
        assert slices and points, "a timeline of nothing"
        found = processed(path)
        if found is not None:
            # An arrow of n steps is n - 1 pieces.
            pieces = sum(len(points) - 1 for points in arrows.values())
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
            f"timeline: {path}: {len(threads)} CPUs, {len(slices)} slices, {len(arrows)} interrupts, "
            f"{answers} answered, {points} values, as {by} has it"
        )


main(sys.argv[1:])
