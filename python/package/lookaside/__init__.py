"""TLB coherence on modelled machines: sweeps, checks and replays.

>>> import lookaside
>>> swept = lookaside.sweep("storm", over="cpus=2,4..16", machines=["zen5"],
...                         strategies=["lookaside", "linux-ipi-2025"])
>>> swept.summary.to_pandas()

`lookaside.distributed` has the same functions for a Dask cluster. A result does not depend on where it was computed:
every task is a pure function of its job and its number.
"""

from ._jobs import check_job, replay_job, run, sweep_job, sweep, check, replay
from ._native import Job, Refused, __version__, machines, protocols, strategies, workloads
from ._results import Checked, Generated, Replayed, Result, Swept, Table

__all__ = [
    "Checked",
    "Generated",
    "Job",
    "Refused",
    "Replayed",
    "Result",
    "Swept",
    "Table",
    "__version__",
    "check",
    "check_job",
    "machines",
    "protocols",
    "replay",
    "replay_job",
    "run",
    "strategies",
    "sweep",
    "sweep_job",
    "workloads",
]
