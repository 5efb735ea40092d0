"""Tables that `lookaside sweep -o x.parquet` writes by code of its own are what Arrow reads."""

from pathlib import Path

import pyarrow
import pyarrow.parquet


def test_arrow_reads_what_the_command_line_writes(repository: Path) -> None:
    table = pyarrow.parquet.read_table(repository / "lab/tests/rows.parquet")
    assert table.num_rows == 4 and table.num_columns == 23
    assert table.column("text").to_pylist() == ["zen5", "", None, "µ"]
    assert table.schema.field("text").type == pyarrow.string()
    assert table.column("number").to_pylist() == [1.5, None, None, -0.25]
    assert table.column("none").to_pylist() == [None] * 4
    for i in range(20):
        assert table.schema.field(f"c{i}").type == pyarrow.uint64()
        assert table.column(f"c{i}").to_pylist() == [i, 2**63 + i, None, 2**64 - 1]
