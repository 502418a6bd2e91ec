"""`triegs.spark.generate` writes what ``triegs generate`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from triegs import workloads
from triegs.cli.app import app
from triegs.errors import InputError
from triegs.events import open_input
from triegs.spark import LocalSpark, generate

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def read_rows(path: Path) -> Any:
    with open_input(path) as source:
        table = pa.Table.from_batches([batch.cast(_plain(batch.schema)) for batch in source])
    assert not source.report.quarantined
    return list(table.to_pylist())


def _plain(schema: pa.Schema) -> pa.Schema:
    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


@pytest.mark.parametrize(("name", "partitions"), [("social", 3), ("path3", 2), ("person-names", 7)])
def test_the_same_events_in_the_same_order(
    spark: LocalSpark, tmp_path: Path, name: str, partitions: int
) -> None:
    direct = tmp_path / "direct.parquet"
    given = ["generate", name, "-n", "2500", "--seed", "5", "-o", str(direct)]
    assert CliRunner().invoke(app, given).exit_code == 0
    path = tmp_path / "spark"
    frame = generate(
        spark.get(), name, str(path), events=2500, seed=5, partitions=partitions, batch_size=600
    )
    assert read_rows(path) == read_rows(direct)
    assert frame.count() == 2500
    assert frame.where("op < 0").count() == sum(row["op"] == -1 for row in read_rows(direct))


def test_run_reads_it(spark: LocalSpark, tmp_path: Path) -> None:
    generate(spark.get(), "path3", str(tmp_path / "in"), events=3000, integers=True)
    (tmp_path / "q.rq").write_text(workloads.get("path3").queries["path3"])
    given = ["run", str(tmp_path / "q.rq"), "--input", str(tmp_path / "in"), "--format", "csv"]
    done = CliRunner().invoke(app, [*given, "--window", "2s", "--slide", "1s", "--emit", "changes"])
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) > 10


def test_what_is_refused(spark: LocalSpark, tmp_path: Path) -> None:
    session, path = spark.get(), str(tmp_path / "in")
    with pytest.raises(InputError, match="there is no workload 'none'; there are social"):
        generate(session, "none", path, events=1)
    with pytest.raises(InputError, match="the number of events must not be negative: -1"):
        generate(session, "social", path, events=-1)
    with pytest.raises(InputError, match="partitions must be at least 1, not 0"):
        generate(session, "social", path, events=1, partitions=0)
    with pytest.raises(InputError, match="unexpected keyword argument 'speed'"):
        generate(session, "social", path, events=1, speed=3)
    Path(path).mkdir()
    with pytest.raises(Exception, match="PATH_ALREADY_EXISTS"):
        generate(session, "social", path, events=1)
