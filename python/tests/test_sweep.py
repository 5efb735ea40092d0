"""Sweeps in this process."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas
import pyarrow
import pyarrow.parquet
import pytest

import lookaside

OPTIONS = {"operations": 32}


def storm(**more: object) -> lookaside.Swept:
    arguments: dict[str, object] = dict(
        over="cpus=2,4,200", machines="zen5", strategies=["lookaside", "linux-ipi-2025"], options=OPTIONS, seeds=2
    )
    return lookaside.sweep("storm", **{**arguments, **more})  # type: ignore[arg-type]


def test_a_sweep_has_a_row_for_each_sample_and_says_what_is_missing() -> None:
    swept = storm()
    rows = list(swept.samples)
    assert [(row["strategy"], row["cpus"], row["seed"]) for row in rows] == [
        (strategy, cpus, seed)
        for strategy in ["lookaside", "linux-ipi-2025"]
        for cpus in [2.0, 4.0, 200.0]
        for seed in [1, 2]
    ]
    for row in rows:
        if row["cpus"] == 200:
            assert row["value"] is None and "200 CPUs; machine `zen5` has 96" in row["problem"]
        else:
            assert row["value"] > 0 and row["problem"] is None
    point = list(swept.summary)[1]
    samples = [row["value"] for row in rows[2:4]]
    assert (point["least"], point["greatest"]) == (min(samples), max(samples))
    assert point["median"] == pytest.approx(sum(samples) / 2)
    assert swept.facts["unit"] == "ns" and swept.facts["better"] == "lower"
    assert "<svg" in swept.to_html()


def test_the_result_is_the_same_with_any_number_of_threads() -> None:
    assert storm(threads=1).text == storm(threads=4).text
    assert storm(over={"cpus": [2, 4, 200]}) == storm()
    assert storm(seed=7) != storm()


def test_a_price_changes_the_result_and_plausible_machines_differ() -> None:
    dear = storm(over="cpus=4", prices={"interrupt_deliver": 50_000.0})
    cheap = storm(over="interrupt_deliver=50000")
    assert dear.samples["value"] != storm(over="cpus=4").samples["value"]
    assert cheap.samples["interrupt_deliver"] == [50_000.0] * 4
    assert len(set(storm(over="cpus=4", plausible=True, strategies="lookaside", seeds=4).samples["value"])) == 4


def test_the_command_line_has_the_same_numbers(repository: Path, tmp_path: Path) -> None:
    tool = os.environ.get("LOOKASIDE_TOOL")
    if tool is None:
        pytest.skip("LOOKASIDE_TOOL, the path of the command line, is not set")
    file = repository / "workloads/munmap-all.toml"
    arguments = ["--over", "cpus=1,4", "--machine", "zen5,zen2", "--strategy", "lookaside", "--seeds", "2"]
    output = tmp_path / "out.json"
    subprocess.run([tool, "sweep", file, *arguments, "-o", output], check=True, stdout=subprocess.DEVNULL)
    theirs = [value for point in json.loads(output.read_text())["points"] for value in point["samples"]]
    ours = lookaside.sweep(file, over="cpus=1,4", machines=["zen5", "zen2"], seeds=2)
    assert ours.samples["value"] == theirs


def test_tables_are_arrow_pandas_parquet_and_csv(tmp_path: Path) -> None:
    swept = storm()
    table = swept.to_arrow()
    assert table.schema.field("value").type == pyarrow.float64()
    assert table.column("value").null_count == 4
    frame = swept.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame["problem"].notna().sum() == 4
    swept.samples.to_parquet(tmp_path / "out.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").equals(table)
    text = swept.samples.to_csv(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == text
    assert text.splitlines()[0] == "machine,strategy,cpus,seed,value,problem"


REFUSED = [
    (dict(machines="zen55"), "there is no machine `zen55`"),
    (dict(strategies="lookasid"), "did you mean `lookaside`"),
    (dict(options={"operatons": 1}), "did you mean `operations`"),
    (dict(over="cpu=2"), "`cpu`"),
    (dict(over="cpus=4,2"), "do not ascend"),
    (dict(over={"cpus": [float("nan")]}), "no number"),
    (dict(prices={"walk": -1}), "a price is from 0 to a second"),
    (dict(prices={"wlk": 1}), "did you mean `walk`"),
    (dict(metric="tim"), "metric"),
    (dict(over="cpus=200"), "200 CPUs; machine `zen5` has 96"),
    (dict(machines=[]), "nothing to run"),
    (dict(seeds=0), "nothing to run"),
    (dict(seeds=100_000), "at most 10000"),
    (dict(seeds=-1), "`seeds` is -1"),
    (dict(seed=2**64), "`seed` is 18446744073709551616"),
    (dict(threads=-1), "`threads` is -1"),
]


@pytest.mark.parametrize(("arguments", "why"), REFUSED)
def test_what_cannot_be_done_is_refused_with_the_reason(arguments: dict[str, object], why: str) -> None:
    with pytest.raises(lookaside.Refused) as refused:
        storm(**arguments)
    assert why in str(refused.value) and "\n" not in str(refused.value)


def test_a_workload_file_is_read_anew_and_its_errors_name_the_line(tmp_path: Path) -> None:
    file = tmp_path / "pair.toml"
    program = """about = "one"
[semaphores]
a = 0
[[space]]
name = "s"
pages = 1
[[threads]]
name = "t"
space = "s"
program = \"\"\"
{}
\"\"\"
"""
    run = lambda: lookaside.sweep(file, over="cpus=2", machines="zen5", seeds=1)  # noqa: E731
    file.write_text(program.format("wait a"))
    with pytest.raises(lookaside.Refused, match=r"pair\.toml:.*11") as refused:
        run()
    assert "deadlock" in str(refused.value) or "wait" in str(refused.value)
    file.write_text(program.format("wrk 1 us"))
    with pytest.raises(lookaside.Refused, match=r"pair\.toml:11"):
        run()
    file.write_text(program.format("work 1 us"))
    first = run().samples["value"]
    file.write_text(program.format("work 2 us"))
    assert first[0] < run().samples["value"][0]
    with pytest.raises(lookaside.Refused, match="missing.toml"):
        lookaside.sweep(tmp_path / "missing.toml", over="cpus=2", machines="zen5")


# A thread that keeps the CPU, another that never gets it, and a parameter with the name of a column.
HEAP = """about = "a collector that never runs"
cpus = 2
time = "2 ms"
[parameters]
median = 1
[[space]]
name = "app"
pages = "median * 64"
[[threads]]
name = "busy"
space = "app"
count = 1
cpu = 0
program = \"\"\"
forever
  work 5 us
  count rounds
done
\"\"\"
[[threads]]
name = "collector"
space = "app"
count = 1
cpu = 0
program = \"\"\"
forever
  work 5 us
  count gc
done
\"\"\"
"""


@pytest.fixture
def heap(tmp_path: Path) -> Path:
    file = tmp_path / "heap.toml"
    file.write_text(HEAP)
    return file


def test_errors_about_a_workload_file_have_its_name_and_not_its_text(heap: Path) -> None:
    more: list[dict[str, object]] = [dict(over="x=1"), dict(over="median=1", options={"maximum": 1})]
    for arguments in more:
        with pytest.raises(lookaside.Refused) as refused:
            lookaside.sweep(heap, machines="zen5", seeds=1, **arguments)  # type: ignore[arg-type]
        text = str(refused.value)
        assert f"workload `{heap}`" in text and "\n" not in text and "collector" not in text


def test_a_column_that_would_have_the_name_of_another_is_x(heap: Path) -> None:
    swept = lookaside.sweep(heap, over="median=1,2", machines="zen5", seeds=1)
    assert swept.summary["x"] == swept.samples["x"] == [1.0, 2.0] and swept.facts["over"] == "median"
    columns = ["machine", "strategy", "x", "median", "least", "greatest", "bistable", "problem"]
    assert list(swept.summary.columns) == columns
    assert all(value > 2 for value in swept.summary["median"])


def test_a_metric_that_no_thread_came_to_has_a_remark(heap: Path) -> None:
    swept = lookaside.sweep(heap, over="median=1", machines="zen5", seeds=2, metric="gc")
    for table in [swept.samples, swept.summary]:
        assert all("`gc` is 0 as no thread came to it" in problem for problem in table["problem"])
    assert swept.samples["value"] == [0.0, 0.0] and swept.summary["median"] == [0.0]


def test_other_threads_run_meanwhile() -> None:
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    job = lookaside.sweep_job("storm", over="cpus=64", machines="zen5", options={"operations": 512}, seeds=8)
    before = counted
    job.run_task(0)
    during = counted - before
    done.set()
    thread.join()
    # One if the interpreter's lock were held.
    assert during > 5


def test_an_interrupt_from_the_keyboard_ends_a_run_between_tasks() -> None:
    code = """
import os, signal, lookaside
def told(done, tasks):
    print(done, tasks, flush=True)
    if done == 1:
        os.kill(os.getpid(), signal.SIGINT)
try:
    lookaside.sweep("storm", over=("cpus", range(2, 90)), machines="zen5", options={"operations": 64}, threads=1,
                    progress=told)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert lines[0] == "1 88" and lines[-1] == "interrupted", done
    assert len(lines) < 20


def test_an_exception_of_progress_ends_the_run() -> None:
    def told(done: int, tasks: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        storm(progress=told)


def test_a_job_is_its_bytes() -> None:
    job = lookaside.sweep_job("storm", over="cpus=2,4", machines="zen5", options=OPTIONS, seeds=1)
    again = lookaside.Job.from_bytes(job.to_bytes())
    assert len(again) == 2 and again.label(1) == "zen5, lookaside, cpus=4"
    assert again.run_task(1) == job.run_task(1)
    assert again.gather([job.run_task(0), job.run_task(1)]) == lookaside.run(job)
    with pytest.raises(lookaside.Refused, match="no task 2"):
        job.run_task(2)
    with pytest.raises(lookaside.Refused, match="1 results of 2 tasks"):
        job.gather([job.run_task(0)])
    with pytest.raises(lookaside.Refused, match="there is no task -1"):
        job.run_task(-1)
    with pytest.raises(lookaside.Refused, match="no job"):
        lookaside.Job.from_bytes(b"x")
    other = job.to_bytes().replace(b'"version":"', b'"version":"9', 1)
    with pytest.raises(lookaside.Refused, match="install the same package everywhere"):
        lookaside.Job.from_bytes(other)


def test_results_of_tasks_are_gathered_in_any_order_and_each_once() -> None:
    job = lookaside.sweep_job("storm", over="cpus=2,4", machines="zen5", options=OPTIONS, seeds=1)
    first, second = job.run_task(0), job.run_task(1)
    assert job.gather([second, first]) == job.gather([first, second]) == lookaside.run(job)
    # A job of another process is the same job.
    assert job.gather([lookaside.Job.from_bytes(job.to_bytes()).run_task(0), second]) == lookaside.run(job)
    with pytest.raises(lookaside.Refused, match="two results of task 0 "):
        job.gather([first, first])
    other = lookaside.sweep_job("storm", over="cpus=2,4", machines="zen5", options=OPTIONS, seeds=1, seed=2)
    with pytest.raises(lookaside.Refused, match="of another job"):
        job.gather([first, other.run_task(1)])
    with pytest.raises(lookaside.Refused, match="no result of a task"):
        job.gather([first, '{"ok": 1}'])
