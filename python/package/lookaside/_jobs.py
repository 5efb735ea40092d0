"""Jobs, and running them in this process."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, SupportsIndex, overload

from ._native import Job, Refused
from ._results import Checked, Generated, Replayed, Result, Swept

Path = str | os.PathLike[str]
#: Whole numbers, of Python or of numpy: one, or several.
Seeds = SupportsIndex | Iterable[SupportsIndex]
Over = str | tuple[str, Iterable[float]] | Mapping[str, Iterable[float]]
#: `True` shows a count on standard error; a function is called with how many tasks are done, and how many there are.
Progress = bool | Callable[[int, int], object]


def _one_or_more(names: str | Path | Iterable[str | Path]) -> list[str]:
    """Names: one or several, as text or paths."""
    if isinstance(names, (str, os.PathLike)):
        names = [names]
    return [os.fspath(name) for name in names]


def _whole(name: str, value: SupportsIndex, bits: int) -> int:
    """A whole number of so many bits, which the native part has for this argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"`{name}` is {value!r}, which is no whole number") from None
    if not 0 <= number < 2**bits:
        raise Refused(f"`{name}` is {number}, and has to be from 0 to {2**bits - 1}")
    return number


def _whole_or_none(name: str, value: SupportsIndex | None, bits: int) -> int | None:
    return None if value is None else _whole(name, value, bits)


def _seeds(seeds: Seeds) -> list[int]:
    if isinstance(seeds, Iterable) and not _is_one(seeds):
        return [_whole("seeds", seed, 32) for seed in seeds]
    return [_whole("seeds", seeds, 32)]  # type: ignore[arg-type]


def _is_one(number: object) -> bool:
    """Whether it is one whole number: a numpy array of no dimension can be, and is iterable for type checkers."""
    try:
        operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


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
    seed: SupportsIndex = 1,
    seeds: SupportsIndex = 5,
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
        _whole("seed", seed, 64),
        _whole("seeds", seeds, 64),
        plausible,
    )


def check_job(
    names: str | Iterable[str] = (),
    *,
    generate: int | None = None,
    seeds: Seeds = 1,
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
        return Job.check(
            names,
            _seeds(seeds),
            _whole_or_none("rounds", rounds, 32),
            _whole_or_none("steps", steps, 64),
            _whole_or_none("preemptions", preemptions, 32),
        )
    if names or rounds is not None or steps is not None or preemptions is not None:
        raise ValueError("`generate` checks generated programs only: it goes with `seeds`, `effort` and `failures`")
    return Job.generate(
        _whole("generate", generate, 64),
        _seeds(seeds),
        _whole("effort", 20_000 if effort is None else effort, 64),
        _whole("failures", 1 if failures is None else failures, 64),
    )


def replay_job(
    trace: Path,
    *,
    machine: Path | None = None,
    cpus: int | None = None,
    strategies: str | Iterable[str] = (),
    flushes: Literal["recorded", "calls"] | None = None,
    working_set: Mapping[str, float] | None = None,
    seed: SupportsIndex = 1,
) -> Job:
    """The job of `replay`, with a task for each strategy."""
    return Job.replay(
        os.fspath(trace),
        None if machine is None else os.fspath(machine),
        _whole_or_none("cpus", cpus, 64),
        _one_or_more(strategies),
        flushes,
        [(name, float(value)) for name, value in (working_set or {}).items()],
        _whole("seed", seed, 64),
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
        raise Refused(f"`threads` is {threads}; at least one runs tasks")
    return job.gather(job.run(_whole("threads", threads or 0, 32), _told(progress)))


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
    seeds: Seeds = 1,
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
    seeds: Seeds = 1,
    effort: int | None = None,
    failures: int | None = None,
    threads: int | None = None,
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
    seed: SupportsIndex = 1,
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
