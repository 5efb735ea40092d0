"""Checks and replays in this process."""

from pathlib import Path

import numpy
import pytest

import lookaside


def test_a_check_explores_scenarios() -> None:
    checked = lookaside.check("tour", rounds=4, seeds=[1, 2])
    assert checked.scenarios["seed"] == [1, 2] and checked.scenarios["scenario"] == ["tour", "tour"]
    assert all(steps > 0 for steps in checked.scenarios["steps"])
    assert checked == lookaside.check("tour", rounds=4, seeds=[1, 2], threads=1)
    assert not any(checked.scenarios["rule"]) and checked.facts["broken"] == 0
    deep = lookaside.check("tour", preemptions=2)
    assert deep.is_clean and all(row["exhausted"] or row["preemptions"] >= 1 for row in deep.scenarios)


def test_seeds_are_whole_numbers_of_numpy_as_well() -> None:
    one = lookaside.check("tour", rounds=1, seeds=2)
    assert lookaside.check("tour", rounds=1, seeds=numpy.int64(2)) == one
    assert lookaside.check("tour", rounds=1, seeds=numpy.array([2])) == one
    with pytest.raises(TypeError, match="`seeds` is 1.5"):
        lookaside.check("tour", rounds=1, seeds=[1.5])  # type: ignore[list-item]


def test_generated_programs_have_a_row_for_each_seed() -> None:
    found = lookaside.check(generate=20, seeds=range(1, 4), effort=500)
    assert found.is_clean and len(found.failures) == 0
    assert found.programs["seed"] == [1, 2, 3] and found.programs["programs"] == [20] * 3
    assert len(set(found.programs["steps"])) == 3
    assert found == lookaside.check(generate=20, seeds=range(1, 4), effort=500, threads=1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (dict(), "give `rounds`, `steps` or `preemptions`"),
        (dict(names="tuor", rounds=1), "did you mean `tour`"),
        (dict(names="tour", rounds=1, seeds=[]), "no seed"),
        (dict(preemptions=9), "from 1 to 4"),
        (dict(names="tour", rounds=1, seeds=[1, 2, 1]), "seed 1 is named twice"),
        (dict(generate=1, seeds=[3, 3]), "seed 3 is named twice"),
        (dict(names="tour", rounds=1, seeds=-1), "`seeds` is -1"),
        (dict(names="tour", rounds=1, seeds=[1, 2**32]), "`seeds` is 4294967296"),
        (dict(names="tour", rounds=-2), "`rounds` is -2"),
        (dict(names="tour", steps=2**64), "`steps` is 18446744073709551616"),
        (dict(preemptions=-1), "`preemptions` is -1"),
        (dict(generate=-1), "`generate` is -1"),
        (dict(generate=1, effort=-1), "`effort` is -1"),
        (dict(generate=1, failures=-1), "`failures` is -1"),
        (dict(generate=0), "`programs` is 0"),
        (dict(generate=1, effort=0), "`effort` is 0"),
    ],
)
def test_what_cannot_be_checked_is_refused(arguments: dict[str, object], why: str) -> None:
    with pytest.raises(lookaside.Refused) as refused:
        lookaside.check(**arguments)  # type: ignore[call-overload]
    assert why in str(refused.value)


def test_a_replay_has_a_row_for_each_strategy(repository: Path) -> None:
    trace = repository / "traces/threads.trace"
    replayed = lookaside.replay(trace, machine="zen4")
    assert replayed.strategies["strategy"] == ["linux-ipi-2025", "lookaside"]
    first, second = replayed.strategies
    assert first["known_ratio"] == 1 and second["known_ratio"] == second["known"] / first["known"]
    causes = ["switches", "refills", "flushes", "waits", "interrupted", "fabric"]
    assert first["total"] == sum(first[cause] for cause in causes)
    assert first["refills_least"] <= first["refills"] <= first["refills_greatest"]
    assert any("zen4" in sentence for sentence in replayed.assumptions)
    initiators = [row for row in replayed.initiators if row["strategy"] == "lookaside"]
    assert sum(row[cause] for row in initiators for cause in causes) == second["total"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (dict(machine="zen44"), "there is no machine `zen44`"),
        (dict(strategies="ipi"), "strategy"),
        (dict(cpus=1000, machine="zen4"), "1000 CPUs"),
        (dict(cpus=-4), "`cpus` is -4"),
        (dict(seed=-1), "`seed` is -1"),
        (dict(flushes="all"), "source of flushes"),
        (dict(working_set={"hott": 1}), "did you mean `hot`"),
        (dict(working_set={"hot": 0.5}), "number of pages"),
    ],
)
def test_what_cannot_be_replayed_is_refused(repository: Path, arguments: dict[str, object], why: str) -> None:
    with pytest.raises(lookaside.Refused) as refused:
        lookaside.replay(repository / "traces/threads.trace", **arguments)  # type: ignore[arg-type]
    assert why in str(refused.value)
    with pytest.raises(lookaside.Refused, match="missing.trace"):
        lookaside.replay("missing.trace")


def test_names_are_listed() -> None:
    assert "zen5" in lookaside.machines() and "lookaside" in lookaside.strategies()
    assert "storm" in dict(lookaside.workloads()) and lookaside.protocols()
