"""Jobs, and running them in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import overload, Literal

from ._native import Job
from ._results import Checked, Generated, Replayed, Result, Swept

Path = str | os.PathLike[str]
Over = str | tuple[str, Iterable[float]] | Mapping[str, Iterable[float]]
#: `True` shows a count on standard error; a function is called with how many tasks are done, and how many there are.
Progress = bool | Callable[[int, int], object]


def _one_or_more(names: str | Path | Iterable[str | Path]) -> list[str]:
    """Names: one or several, as text or paths."""
    if isinstance(names, (str, os.PathLike)):
        names = [names]
    return [os.fspath(name) for name in names]


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    return [seeds] if isinstance(seeds, int) else list(seeds)


def _over(over: Over) -> str:
    if isinstance(over, str):
        return over
    if isinstance(over, Mapping):
        if len(over) != 1:
            raise ValueError(f"a sweep is over one thing, not over {len(over)}")
        over = next(iter(over.items()))
    name, values = over
    return f"{name}={','.join(repr(float(value)) for value in values)}"


def sweep_job(
    workload: Path,
    *,
    over: Over,
    machines: Path | Iterable[Path],
    strategies: str | Iterable[str] = "lookaside",
    options: Mapping[str, float] | None = None,
    prices: Mapping[str, float] | None = None,
    metric: str | None = None,
    seed: int = 1,
    seeds: int = 5,
    plausible: bool = False,
) -> Job:
    """The job of `sweep`, with a task for each point of each curve."""
    return Job.sweep(
        os.fspath(workload),
        _over(over),
        _one_or_more(machines),
        _one_or_more(strategies),
        [(name, float(value)) for name, value in (options or {}).items()],
        [(name, float(value)) for name, value in (prices or {}).items()],
        metric,
        seed,
        seeds,
        plausible,
    )


def check_job(
    names: str | Iterable[str] = (),
    *,
    generate: int | None = None,
    seeds: int | Iterable[int] = 1,
    rounds: int | None = None,
    steps: int | None = None,
    preemptions: int | None = None,
    effort: int | None = None,
    failures: int | None = None,
) -> Job:
    """The job of `check`, with a task for each seed of generated programs, or for each scenario and seed."""
    names = _one_or_more(names)
    if generate is None:
        if effort is not None or failures is not None:
            raise ValueError("`effort` and `failures` are for generated programs: give `generate`")
        return Job.check(names, _seeds(seeds), rounds, steps, preemptions)
    if names or rounds is not None or steps is not None or preemptions is not None:
        raise ValueError("`generate` checks generated programs only: it goes with `seeds`, `effort` and `failures`")
    return Job.generate(
        generate,
        _seeds(seeds),
        20_000 if effort is None else effort,
        1 if failures is None else failures,
    )


def replay_job(
    trace: Path,
    *,
    machine: Path | None = None,
    cpus: int | None = None,
    strategies: str | Iterable[str] = (),
    flushes: Literal["recorded", "calls"] | None = None,
    working_set: Mapping[str, float] | None = None,
    seed: int = 1,
) -> Job:
    """The job of `replay`, with a task for each strategy."""
    return Job.replay(
        os.fspath(trace),
        None if machine is None else os.fspath(machine),
        cpus,
        _one_or_more(strategies),
        flushes,
        [(name, float(value)) for name, value in (working_set or {}).items()],
        seed,
    )


def _told(progress: Progress | None) -> Callable[[int, int], object] | None:
    """The function that is called after each task."""
    if progress is None or progress is False:
        return None
    if progress is not True:
        return progress

    def count(done: int, tasks: int) -> None:
        end = "\n" if done == tasks else ""
        print(f"\r{done} of {tasks} tasks", end=end, file=sys.stderr, flush=True)

    return count


def run(job: Job, *, threads: int | None = None, progress: Progress | None = None) -> str:
    """Runs all tasks of a job in this process, and gathers their results.

    `threads` is one for each processor unless it is given. Ctrl-C ends the run between two tasks.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"`threads` is {threads}; at least one runs tasks")
    return job.gather(job.run(threads or 0, _told(progress)))


def sweep(
    workload: Path,
    *,
    over: Over,
    machines: Path | Iterable[Path],
    strategies: str | Iterable[str] = "lookaside",
    options: Mapping[str, float] | None = None,
    prices: Mapping[str, float] | None = None,
    metric: str | None = None,
    seed: int = 1,
    seeds: int = 5,
    plausible: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Swept:
    """Runs a workload over many values of something, on several machines and with several strategies.

    `workload` is a name or the path of a workload file; `over` is `"cpus=1,2,4..64"`, `{"cpus": [1, 2, 4]}` or a
    pair: `cpus`, `x`, a price in ns, or an option of the workload. `machines` are names or paths of machine files.
    `options` are the workload's, `prices` those of all machines in ns. Each point has `seeds` samples, from `seed`
    on; with `plausible` each sample has a plausible machine of its own. A point that cannot be run has its
    `problem` in the tables; if none can, `Refused` is raised.
    """
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
    return Swept(run(job, threads=threads, progress=progress))


@overload
def check(
    names: str | Iterable[str] = (),
    *,
    seeds: int | Iterable[int] = 1,
    rounds: int | None = None,
    steps: int | None = None,
    preemptions: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Checked: ...
@overload
def check(
    *,
    generate: int,
    seeds: int | Iterable[int] = 1,
    effort: int | None = None,
    failures: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Generated: ...
def check(
    names: str | Iterable[str] = (),
    *,
    generate: int | None = None,
    seeds: int | Iterable[int] = 1,
    rounds: int | None = None,
    steps: int | None = None,
    preemptions: int | None = None,
    effort: int | None = None,
    failures: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Checked | Generated:
    """Explores protocols on the adversarial machine.

    Without `generate`: the scenarios of the catalogue that `names` has (protocols or scenarios; all if none is
    given), each until it has had so many `rounds` or `steps`, and all schedules with so many `preemptions`. With
    `generate`: so many random programs for each of the `seeds`, each explored for about `effort` steps (20000); a
    seed ends after so many `failures` (1). No limit is one of time, so that the result is the same everywhere.
    """
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
    text = run(job, threads=threads, progress=progress)
    return Checked(text) if generate is None else Generated(text)


def replay(
    trace: Path,
    *,
    machine: Path | None = None,
    cpus: int | None = None,
    strategies: str | Iterable[str] = (),
    flushes: Literal["recorded", "calls"] | None = None,
    working_set: Mapping[str, float] | None = None,
    seed: int = 1,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Replayed:
    """Replays a trace of a live system under several strategies on a modelled machine.

    `trace` is of any format that `lookaside import` reads. The machine is one of the trace's architecture unless it
    is given, the number of CPUs that of the trace, the strategies Linux's and the library's. `working_set` has
    `hot`, `others`, `pool` (pages) and `window` (us).
    """
    job = replay_job(
        trace,
        machine=machine,
        cpus=cpus,
        strategies=strategies,
        flushes=flushes,
        working_set=working_set,
        seed=seed,
    )
    return Replayed(run(job, threads=threads, progress=progress))


__all__ = [
    "Progress",
    "Result",
    "check",
    "check_job",
    "replay",
    "replay_job",
    "run",
    "sweep",
    "sweep_job",
]
