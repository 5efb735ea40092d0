"""Sweeps, checks and replays on a Dask cluster.

Each function is that of `lookaside` with a `client` in place of `threads`: any `distributed.Client`, of a local cluster,
of `dask_jobqueue` (Slurm, PBS, ...) or of `dask_kubernetes`. Without one a local cluster is started for the call, with
a process for each processor.

>>> from dask.distributed import Client
>>> from lookaside import distributed
>>> swept = distributed.sweep("storm", over="cpus=2..64", machines=["zen5", "zen4"], client=Client("tcp://..."))

A task is a pure function of its key, which has the digest of the job and the number of the task. So a task of a worker
that was lost is run again by another, with the same result; a result that comes twice is counted once; and the
results are gathered in the order of the tasks, whoever was first. Workers need the same package, which each task checks,
and no file: the job has the text of each in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

from ._jobs import Over, Path, Progress, Seeds, _told, check_job, replay_job, sweep_job
from ._native import Job
from ._results import Checked, Generated, Replayed, Swept

if TYPE_CHECKING:
    from distributed import Client


@lru_cache(maxsize=4)
def _job(payload: bytes) -> Job:
    """The job of these bytes, with its names looked up once in each process."""
    return Job.from_bytes(payload)


def _same(payload: bytes) -> bytes:
    """The bytes of a job as a task of their own, so that they reach a worker once and are there again if it is lost."""
    return payload


def _task(payload: bytes, task: int) -> str:
    return _job(payload).run_task(task)


def run(
    job: Job,
    *,
    client: Client | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> str:
    """Runs all tasks of a job on a cluster, and gathers their results: the same text as `lookaside.run` gives.

    Tasks of lost workers are run again by others, as often as the cluster allows
    (`distributed.scheduler.allowed-failures`); `retries` is how often a task is tried again that raised an exception,
    for example in a worker without memory. What is refused is not tried again. On an exception, and on Ctrl-C, the
    tasks that are left are cancelled.
    """
    try:
        from distributed import Client, LocalCluster, as_completed
    except ImportError:
        raise ImportError("this needs `distributed`: pip install distributed") from None
    if client is None:
        # A process each: a task that ends its process takes no other with it.
        with LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as own:
            return run(job, client=own, retries=retries, progress=progress)
    payload = job.to_bytes()
    digest = hashlib.sha256(payload).hexdigest()
    tell = _told(progress)
    shared = client.submit(_same, payload, key=f"lookaside-job-{digest}", retries=retries)
    numbers = {f"lookaside-{digest}-{task}": task for task in range(len(job))}
    futures = [
        client.submit(_task, shared, task, key=key, retries=retries, pure=True) for key, task in numbers.items()
    ]
    results: dict[int, str] = {}
    try:
        waiting: Any = as_completed(futures, with_results=True)
        for future, result in waiting:
            results[numbers[future.key]] = result
            # The cluster need not keep what is here.
            future.release()
            if tell is not None:
                tell(len(results), len(job))
    except BaseException:
        client.cancel([*futures, shared])
        raise
    return job.gather([results[task] for task in range(len(job))])


def sweep(
    workload: Path,
    *,
    over: Over,
    machines: Path | Iterable[Path],
    strategies: str | Iterable[str] = "lookaside",
    options: Mapping[str, float] | None = None,
    prices: Mapping[str, float] | None = None,
    metric: str | None = None,
    seed: SupportsIndex = 1,
    seeds: SupportsIndex = 5,
    plausible: bool = False,
    client: Client | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> Swept:
    """`lookaside.sweep` on a cluster."""
    job = sweep_job(
        workload,
        over=over,
        machines=machines,
        strategies=strategies,
        options=options,
        prices=prices,
        metric=metric,
        seed=seed,
        seeds=seeds,
        plausible=plausible,
    )
    return Swept(run(job, client=client, retries=retries, progress=progress))


@overload
def check(
    names: str | Iterable[str] = (),
    *,
    seeds: Seeds = 1,
    rounds: int | None = None,
    steps: int | None = None,
    preemptions: int | None = None,
    client: Client | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> Checked: ...
@overload
def check(
    *,
    generate: int,
    seeds: Seeds = 1,
    effort: int | None = None,
    failures: int | None = None,
    client: Client | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> Generated: ...
def check(
    names: str | Iterable[str] = (),
    *,
    generate: int | None = None,
    seeds: Seeds = 1,
    rounds: int | None = None,
    steps: int | None = None,
    preemptions: int | None = None,
    effort: int | None = None,
    failures: int | None = None,
    client: Client | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> Checked | Generated:
    """`lookaside.check` on a cluster: a run of days is many seeds."""
    job = check_job(
        names,
        generate=generate,
        seeds=seeds,
        rounds=rounds,
        steps=steps,
        preemptions=preemptions,
        effort=effort,
        failures=failures,
    )
    text = run(job, client=client, retries=retries, progress=progress)
    return Checked(text) if generate is None else Generated(text)


def replay(
    trace: Path,
    *,
    machine: Path | None = None,
    cpus: int | None = None,
    strategies: str | Iterable[str] = (),
    flushes: Literal["recorded", "calls"] | None = None,
    working_set: Mapping[str, float] | None = None,
    seed: SupportsIndex = 1,
    client: Client | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> Replayed:
    """`lookaside.replay` on a cluster, with a task for each strategy."""
    job = replay_job(
        trace,
        machine=machine,
        cpus=cpus,
        strategies=strategies,
        flushes=flushes,
        working_set=working_set,
        seed=seed,
    )
    return Replayed(run(job, client=client, retries=retries, progress=progress))
