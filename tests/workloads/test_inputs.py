"""What `triegs generate` writes is what the readers of event files read, record for record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from triegs import workloads
from triegs.cli.generate_command import GenerateOptions, run_generate
from triegs.workloads.formats import FORMATS, TIME_PROPERTY

inputs = pytest.importorskip("triegs.events")
SIZE = 6000


def read(path: Path, **options: Any) -> pa.Table:
    with inputs.open_input(path, strict=True, **options) as source:
        batches = [batch.to_pylist() for batch in source]
        assert not source.report.has_failed
    return pa.Table.from_pylist([row for rows in batches for row in rows])


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("workload", ["social", "path3"])
def test_files_are_read_as_they_were_meant(
    workload: str, name: str, packing: str, tmp_path: Path
) -> None:
    if name == "jelly":
        pytest.importorskip("pyjelly")
    chosen = FORMATS[name]
    if chosen.packs_itself and packing:
        pytest.skip("packed inside")
    path = tmp_path / f"events.{name}{packing}"
    source = workloads.get(workload)
    inserts_only = not chosen.has_op
    run_generate(
        GenerateOptions(
            workload=workload, events=SIZE, seed=1, format=None, compression=None,
            output=str(path), per_file=1, queries=None, static=None, rate=1000.0, start=None,
            disorder=25, inserts_only=inserts_only, integers=False,
        )
    )  # fmt: skip
    options = {"graph_time": TIME_PROPERTY} if name in ("nq", "trig") else {}
    found = read(path, **options)
    meant = pa.Table.from_batches(source.events(SIZE, disorder=25, inserts_only=inserts_only))
    for column in ("op", "subject", "predicate", "object"):
        assert found[column].to_pylist() == meant[column].to_pylist(), column
    if chosen.has_op:  # an id of a CSV file is a text
        assert list(map(int, found["id"].to_pylist())) == meant["id"].to_pylist()
    times = meant["time"].to_numpy()
    if not chosen.has_time:
        starts = np.concatenate([[False], times[1:] != times[:-1]])
        times = np.cumsum(starts) if name == "jelly" else np.arange(SIZE)
    assert found["time"].to_pylist() == times.tolist()
