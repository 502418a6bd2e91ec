"""Messages where Spark is missing, or cannot read an input. Starts no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from triegs.cli.app import app
from triegs.errors import InputError
from triegs.events.files import InputFile
from triegs.spark import SparkMissing, session
from triegs.spark.file_runs import require_readable
from triegs.spark.partitioned.planning import require_protobuf

QUERY = "SELECT * { ?x <http://ex/p> ?y }"


def test_no_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    (tmp_path / "a.csv").write_text("subject,predicate,object\n")
    done = CliRunner().invoke(
        app, ["run", QUERY, "--input", str(tmp_path / "a.csv"), "--engine", "spark"]
    )
    assert done.exit_code == 1
    assert done.stderr == "error: PySpark is not installed: pip install 'triegs[spark]'\n"


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SparkMissing, match="Java 17 or newer, but there is no java"):
        session.require_spark()


def test_an_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissing, match=r"Java 17 or newer; .* is Java 11"):
        session.require_spark()


@pytest.mark.parametrize(
    ("form", "compression", "given", "message"),
    [
        ("turtle", "none", "a.ttl", "cannot read turtle, only parquet, csv, "),
        ("csv", "zstd", "a.csv.zst", "only plain or gzip text"),
        ("parquet", "gzip", "a.parquet.gz", "Parquet without further"),
        ("csv", "none", "-", "Spark reads only files, not a"),
    ],
)
def test_what_spark_does_not_read(form: str, compression: str, given: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        require_readable([InputFile("a", given, form, compression)])


def test_following(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("subject,predicate,object\n")
    given = ["run", QUERY, "--input", str(tmp_path / "a.csv"), "--engine", "spark", "--follow"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 2
    assert "not supported with --engine spark" in done.stderr


def test_the_format_rdf_without_spark() -> None:
    """Spark imports this in processes that only look up formats: no kernels, and no failure."""
    program = (
        "import sys\n"
        "{}\n"
        "import pyspark_rdf\n"
        "assert not {{'numba', 'triegs.events.scan_kernels'}} & sys.modules.keys()\n"
        "print(pyspark_rdf.DefaultSource.name())"
    )
    for line in ("", "sys.modules['pyspark'] = None"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program.format(line)],
            capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        assert done.stdout == "rdf\n", done.stderr


def test_partitions_without_protobuf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(SparkMissing, match="partitioned pipelines need protobuf: pip install -U"):
        require_protobuf()


def test_an_old_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", "4.1.0.dev1")
    with pytest.raises(SparkMissing, match=r"PySpark 4\.1\.0\.dev1 is too old, 4\.2 is needed"):
        session.require_spark()
