from collections.abc import Callable, Sequence

__version__: str

class Refused(ValueError):
    """What was asked for cannot be done; the message says why."""

class Job:
    """Numbered tasks, each a pure function of the job and its number. Made by `sweep_job`, `check_job`, `replay_job`."""

    @staticmethod
    def sweep(
        workload: str,
        over: str,
        machines: Sequence[str],
        strategies: Sequence[str],
        options: Sequence[tuple[str, float]],
        prices: Sequence[tuple[str, float]],
        metric: str | None,
        seed: int,
        seeds: int,
        plausible: bool,
    ) -> Job: ...
    @staticmethod
    def check(
        names: Sequence[str],
        seeds: Sequence[int],
        rounds: int | None,
        steps: int | None,
        preemptions: int | None,
    ) -> Job: ...
    @staticmethod
    def generate(programs: int, seeds: Sequence[int], effort: int, failures: int) -> Job: ...
    @staticmethod
    def replay(
        trace: str,
        machine: str | None,
        cpus: int | None,
        strategies: Sequence[str],
        flushes: str | None,
        working_set: Sequence[tuple[str, float]],
        seed: int,
    ) -> Job: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Job:
        """The job of these bytes. One of another version of the package is refused."""
    def to_bytes(self) -> bytes:
        """All of the job, with the text of each file that it names."""
    def __len__(self) -> int:
        """How many tasks there are."""
    def label(self, task: int) -> str:
        """What a task is about, in a few words."""
    def run_task(self, task: int) -> str:
        """Runs a task. Other Python threads run meanwhile."""
    def run(self, threads: int, progress: Callable[[int, int], object] | None) -> list[str]:
        """Runs all tasks on so many threads; 0: one for each processor."""
    def gather(self, results: Sequence[str]) -> str:
        """Makes tables of the results of all tasks, which may come in any order. Each task has one, and each is of this job."""

def machines() -> list[str]:
    """The names of the machines."""

def strategies() -> list[str]:
    """The names of the strategies."""

def workloads() -> list[tuple[str, str]]:
    """The names of the workloads, with what each does."""

def protocols() -> list[str]:
    """The names of the protocols that are checked."""
