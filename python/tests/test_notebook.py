"""The notebook runs from its first cell to its last, and the package is typed."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def test_the_notebook_runs(repository: Path) -> None:
    path = repository / "python/notebooks/broadcast-or-interrupt.ipynb"
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": path.parent}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in outputs)


def test_nothing_says_to_install_what_has_the_same_name_on_pypi(repository: Path) -> None:
    by_name = re.compile(r"pip install [\"']?lookaside(?!-\*)")
    told = [repository / "README.md", *(repository / "docs").rglob("*.md")]
    for pattern in ("*.md", "notebooks/*.ipynb", "package/**/*.py"):
        told += (repository / "python").glob(pattern)
    assert [str(file) for file in told if by_name.search(file.read_text())] == []


def test_the_package_is_type_checked(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=repository / "python")
    assert done.returncode == 0, done.stdout


def test_a_user_is_type_checked(tmp_path: Path) -> None:
    good = tmp_path / "good.py"
    good.write_text(
        "import lookaside\n"
        "swept: lookaside.Swept = lookaside.sweep('storm', over='cpus=2', machines='zen5')\n"
        "found: lookaside.Generated = lookaside.check(generate=1)\n"
    )
    bad = tmp_path / "bad.py"
    bad.write_text("import lookaside\nlookaside.sweep('storm', over='cpus=2', machine='zen5')\n")
    check = lambda file: subprocess.run(  # noqa: E731
        [sys.executable, "-m", "mypy", "--strict", file], capture_output=True, text=True, cwd=tmp_path
    )
    done = check(good)
    assert done.returncode == 0, done.stdout
    done = check(bad)
    assert done.returncode == 1 and "machine" in done.stdout, done.stdout
