"""What jobs give: tables, as plain columns, Arrow tables or pandas data frames."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pandas
    import pyarrow

Path = str | os.PathLike[str]


def _needs(package: str) -> ImportError:
    return ImportError(f"this needs `{package}`: pip install {package}")


class Table:
    """Columns of the same length. A value that is not known is `None`."""

    def __init__(self, name: str, columns: Mapping[str, list[Any]], kinds: Mapping[str, str]) -> None:
        self.name = name
        self.columns = dict(columns)
        self._kinds = dict(kinds)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def __getitem__(self, column: str) -> list[Any]:
        return self.columns[column]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows."""
        names = list(self.columns)
        for values in zip(*self.columns.values()):
            yield dict(zip(names, values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return (self.name, self.columns, self._kinds) == (other.name, other.columns, other._kinds)

    def __repr__(self) -> str:
        return f"<Table {self.name!r}: {len(self)} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: a data frame where pandas is installed."""
        try:
            return str(self.to_pandas()._repr_html_())
        except ImportError:
            return f"<pre>{self.to_csv()}</pre>"

    def to_arrow(self) -> pyarrow.Table:
        """The same as an Arrow table."""
        try:
            import pyarrow
        except ImportError:
            raise _needs("pyarrow") from None
        types = {
            "text": pyarrow.string(),
            "whole": pyarrow.uint64(),
            "number": pyarrow.float64(),
            "truth": pyarrow.bool_(),
        }
        fields = [(name, types[kind]) for name, kind in self._kinds.items()]
        return pyarrow.table(self.columns, schema=pyarrow.schema(fields))

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas data frame. Columns have types that know missing values."""
        try:
            import pandas
        except ImportError:
            raise _needs("pandas") from None
        types = {"text": "string", "whole": "UInt64", "number": "float64", "truth": "boolean"}
        series = {
            name: pandas.Series(values, dtype=types[self._kinds[name]])
            for name, values in self.columns.items()
        }
        return pandas.DataFrame(series)

    def to_parquet(self, path: Path) -> None:
        """Writes a Parquet file."""
        table = self.to_arrow()
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, os.fspath(path))

    def to_csv(self, path: Path | None = None) -> str:
        """The same as CSV, which is also written to `path` if that is given."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        for row in zip(*self.columns.values()):
            writer.writerow(["" if value is None else value for value in row])
        if path is not None:
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text.getvalue())
        return text.getvalue()


class Result:
    """What a job has given: `facts` (single values) and `tables`. `text` is all of it: equal texts, equal results."""

    main: ClassVar[str] = ""

    def __init__(self, text: str) -> None:
        document = json.loads(text)
        self.text: str = text
        self.facts: dict[str, Any] = document["facts"]
        self.page: str | None = document["page"]
        self.tables: dict[str, Table] = {}
        for table in document["tables"]:
            columns = {column["name"]: column["values"] for column in table["columns"]}
            kinds = {column["name"]: column["kind"] for column in table["columns"]}
            self.tables[table["name"]] = Table(table["name"], columns, kinds)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Result) else NotImplemented

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts.items() if name != "assumptions")
        return f"<{type(self).__name__} {facts}: {', '.join(map(repr, self.tables.values()))}>"

    def to_arrow(self) -> pyarrow.Table:
        """The main table as an Arrow table."""
        return self.tables[self.main].to_arrow()

    def to_pandas(self) -> pandas.DataFrame:
        """The main table as a pandas data frame."""
        return self.tables[self.main].to_pandas()


class Swept(Result):
    """What a sweep has given. The main table is `samples`: a row for each machine, strategy, value and seed."""

    main = "samples"

    @property
    def samples(self) -> Table:
        """Each sample: `value` in `facts["unit"]`, or the `problem` for which there is none."""
        return self.tables["samples"]

    @property
    def summary(self) -> Table:
        """Each point: median, least and greatest of its samples."""
        return self.tables["summary"]

    @property
    def crossovers(self) -> Table:
        """Where the curves of two strategies cross, and on which share of the samples."""
        return self.tables["crossovers"]

    def to_html(self, path: Path | None = None) -> str:
        """A page with curves and bands, which is also written to `path` if that is given."""
        page = self.page or ""
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page


class Checked(Result):
    """What a check of the catalogue has given. The main table is `scenarios`."""

    main = "scenarios"

    @property
    def is_clean(self) -> bool:
        """Whether no rule was broken, and every scenario made a claim and reached the demanded depth."""
        return bool(self.facts["clean"])

    @property
    def scenarios(self) -> Table:
        """Each scenario with each seed: how far it was explored, and the rule that was broken, if one was."""
        return self.tables["scenarios"]


class Generated(Result):
    """What a check of generated programs has given. The main table is `programs`: a row for each seed."""

    main = "programs"

    @property
    def is_clean(self) -> bool:
        """Whether no rule was broken."""
        return bool(self.facts["clean"])

    @property
    def programs(self) -> Table:
        """Each seed: programs, steps, pairs of operations, and how many programs break a rule."""
        return self.tables["programs"]

    @property
    def failures(self) -> Table:
        """Each program that breaks a rule, with a schedule for `lookaside explore --schedule`."""
        return self.tables["failures"]


class Replayed(Result):
    """What a replay has given. The main table is `strategies`; times are in ps, summed over all CPUs."""

    main = "strategies"

    @property
    def strategies(self) -> Table:
        """Each strategy: the time of TLB upkeep by cause."""
        return self.tables["strategies"]

    @property
    def operations(self) -> Table:
        """How often operations happened, by strategy."""
        return self.tables["operations"]

    @property
    def latencies(self) -> Table:
        """How long flushes, switches and interrupt handlers took, by strategy."""
        return self.tables["latencies"]

    @property
    def initiators(self) -> Table:
        """Time by process and operation, by strategy."""
        return self.tables["initiators"]

    @property
    def assumptions(self) -> list[str]:
        """What the replay rests on, in sentences."""
        return list(self.facts["assumptions"])
