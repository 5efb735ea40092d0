"""The same on a Dask cluster, of which workers are lost."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
from distributed import Client, LocalCluster

import lookaside
from lookaside import distributed

SWEEP = dict(
    over=("cpus", range(2, 34, 2)),
    machines=["zen5", "zen2"],
    strategies=["lookaside", "linux-ipi-2025"],
    options={"operations": 64},
    seeds=2,
)


@pytest.fixture
def client() -> Iterator[Client]:
    # How long a worker that is gone is called.
    with dask.config.set({"distributed.comm.timeouts.connect": "3s"}):
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            with Client(cluster) as client:
                client.wait_for_workers(2)
                yield client


def test_a_worker_that_is_killed_changes_no_byte(client: Client) -> None:
    serial = lookaside.sweep("storm", threads=1, **SWEEP)  # type: ignore[arg-type]
    processes = client.run(os.getpid)
    address, victim = list(processes.items())[0]
    told: list[int] = []
    killed = threading.Event()

    def progress(done: int, tasks: int) -> None:
        told.append(done)
        assert tasks == 64
        if done == 20:
            assert client.processing()[address], "the worker has tasks that are lost with it"
            os.kill(victim, signal.SIGKILL)
            killed.set()

    swept = distributed.sweep("storm", client=client, progress=progress, **SWEEP)  # type: ignore[arg-type]
    assert swept.text == serial.text
    # Each task is counted once.
    assert told == list(range(1, 65))
    assert killed.is_set()
    client.wait_for_workers(2)
    assert victim not in client.run(os.getpid).values(), "it was another process that went"


def test_a_file_needs_to_be_here_alone(client: Client, repository: Path, tmp_path: Path) -> None:
    file = tmp_path / "workload.toml"
    file.write_text((repository / "workloads/munmap-all.toml").read_text())
    job = lookaside.sweep_job(file, over="cpus=1,4", machines="zen5", seeds=1)
    file.unlink()
    assert distributed.run(job, client=client) == lookaside.run(job)


def test_checks_and_replays_are_the_same_there(client: Client, repository: Path) -> None:
    there = distributed.check(generate=10, seeds=range(1, 4), effort=300, client=client)
    assert there == lookaside.check(generate=10, seeds=range(1, 4), effort=300)
    assert distributed.check("tour", rounds=2, client=client) == lookaside.check("tour", rounds=2)
    trace = repository / "traces/sort.trace"
    assert distributed.replay(trace, client=client) == lookaside.replay(trace)


def test_what_is_refused_there_is_an_exception_here(client: Client) -> None:
    with pytest.raises(lookaside.Refused, match="200 CPUs"):
        distributed.sweep("storm", over="cpus=200", machines="zen5", client=client)


def test_an_exception_of_progress_cancels_what_is_left(client: Client) -> None:
    def progress(done: int, tasks: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        distributed.sweep("storm", client=client, progress=progress, **SWEEP)  # type: ignore[arg-type]
    # The cluster goes on to do other work.
    assert client.submit(sum, [1, 2]).result(timeout=60) == 3


def test_a_local_cluster_is_started_where_no_client_is_given() -> None:
    one = dict(over="cpus=2,4", machines="zen5", options={"operations": 8}, seeds=1)
    assert distributed.sweep("storm", **one) == lookaside.sweep("storm", **one)  # type: ignore[arg-type]
