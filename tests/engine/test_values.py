"""Values through an engine: what a file wrote is named by a value with the same digits."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest

from triegs import Engine
from triegs.events import open_input

XSD = "http://www.w3.org/2001/XMLSchema#"
QUERY = "SELECT ?x ?y { ?x <a:p> ?y }"


def read_csv(engine: Engine, cells: list[str], **options: Any) -> None:
    lines = [f"<a:{place}>,<a:p>,{cell}" for place, cell in enumerate(cells)]
    text = "\n".join(["subject,predicate,object", *lines])
    for batch in open_input(BytesIO(text.encode()), format="csv", **options):
        engine.apply(batch)


@pytest.mark.parametrize("is_table", [False, True])
def test_a_deletion_names_what_a_file_wrote(is_table: bool) -> None:
    engine = Engine()
    query = engine.register(QUERY)
    read_csv(engine, ["67.00", "67.0"], terms="plain")
    deletion: Any = [("-", "<a:0>", "<a:p>", Decimal("67.00"))]
    if is_table:
        deletion = pa.table(
            {
                "op": ["-"],
                "subject": ["<a:0>"],
                "predicate": ["<a:p>"],
                "object": [Decimal("67.00")],
            }
        )
    assert engine.apply(deletion).refused == ()
    # Another spelling is another term.
    assert len(engine.apply([("-", "<a:1>", "<a:p>", Decimal("67.00"))]).refused) == 1
    with query.snapshot() as snapshot:
        assert [(row.x, str(row.y)) for row in snapshot.answers("python")] == [("<a:1>", "67.0")]


@pytest.mark.parametrize(
    ("kind", "lexical", "values"),
    [
        ("decimal", ["67.00", "067", ".5"], [Decimal("67.00"), Decimal(67), Decimal("0.5")]),
        ("integer", ["5", "+05", "-0"], [5, 5, 0]),
        ("double", ["1e3", "1.0E3"], [1000.0, 1000.0]),
        ("date", ["2024-05-01", "2024-05-01Z"], [date(2024, 5, 1)] * 2),
        ("dateTime", ["2024-05-01T10:00:00.50"], [datetime.fromisoformat("2024-05-01T10:00:00.5")]),
    ],
)
def test_every_form_has_values(kind: str, lexical: list[str], values: list[Any]) -> None:
    pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    engine = Engine()
    query = engine.register(QUERY)
    read_csv(engine, [f'"""{text}""^^<{XSD}{kind}>"' for text in lexical])
    with query.snapshot() as snapshot:
        rows = sorted(snapshot.answers("python"), key=lambda row: str(row.x))
        assert [row.y for row in rows] == values
        table = snapshot.to_arrow("python")
        assert [row["y"] for row in sorted(table.to_pylist(), key=lambda row: row["x"])] == values
        frame = snapshot.to_pandas("python").astype({"x": str}).sort_values("x")
        assert frame["y"].tolist() == values
        found = snapshot.to_polars("python")
        assert found.sort(polars.col("x").cast(polars.String))["y"].to_list() == values
