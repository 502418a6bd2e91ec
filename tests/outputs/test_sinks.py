"""Files by name: per query, per epoch, opened at once where that can be."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.outputs.answers import make_result

from triegs.outputs import CannotWrite, Format, Head, Kind, Options, Outputs
from triegs.outputs.sinks import find_placeholders

HEADS = [Head("a", ("x",)), Head("b", ("x", "y"))]
ONE = make_result(("x",), [("<a:a>",)], [1], epoch=1)
TWO = make_result(("x", "y"), [("<a:a>", "<a:b>")], [2], epoch=2)
CSV = Options(Format.CSV)


def list_files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_file_per_query_is_there_from_the_start(tmp_path: Path) -> None:
    with Outputs(HEADS, CSV, f"{tmp_path}/new/{{query}}.csv", io.BytesIO()) as outputs:
        assert set(list_files(tmp_path)) == {"new/a.csv", "new/b.csv"}
        assert outputs.write("a", ONE) == 1
        outputs.flush()
        assert list_files(tmp_path)["new/a.csv"].endswith("<a:a>,1\n")
        outputs.write("b", TWO)
    assert list_files(tmp_path)["new/b.csv"].splitlines() == [
        "epoch,time,x,y,multiplicity", "2,20,<a:a>,<a:b>,2",
    ]  # fmt: skip


def test_a_file_per_epoch_is_complete_when_the_next_begins(tmp_path: Path) -> None:
    path = f"{tmp_path}/{{query}}-{{epoch}}-{{kind}}.srj"
    with Outputs(HEADS, Options(Format.SRJ), path, io.BytesIO()) as outputs:
        assert list_files(tmp_path) == {}
        outputs.write("a", ONE)
        outputs.write("a", make_result(("x",), [("<a:a>",)], [1], Kind.CHANGES, epoch=1))
        outputs.write("a", make_result(("x",), [], [], epoch=2))
        found = list_files(tmp_path)
    assert found["a-1-snapshot.srj"].endswith("]}}\n")
    assert found["a-1-changes.srj"].endswith("]}}\n")
    assert set(found) == {"a-1-snapshot.srj", "a-1-changes.srj", "a-2-snapshot.srj"}


def test_queries_that_share_a_stream_are_named(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with Outputs(HEADS, Options(Format.JSONL), None, sink) as outputs:
        outputs.write("a", ONE)
        outputs.write("b", TWO)
    assert [line[:35] for line in sink.getvalue().decode().splitlines()] == [
        '{"epoch":1,"time":20,"query":"a","x', '{"epoch":2,"time":20,"query":"b","x',
    ]  # fmt: skip
    assert not sink.closed


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
def test_binary_files_are_complete_at_the_end(tmp_path: Path, ending: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = str(tmp_path / f"out.{ending}")
    kind = Format.PARQUET if ending == "parquet" else Format.ARROW
    with Outputs(HEADS[:1], Options(kind), path, io.BytesIO()) as outputs:
        outputs.write("a", ONE)
    if ending == "parquet":
        table = pq.read_table(path)
    else:
        opened = pa.ipc.open_file if ending == "arrow" else pa.ipc.open_stream
        table = opened(path).read_all()
    assert table.column("x").to_pylist() == ["<a:a>"]


def test_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match=r"cannot write .*file/out\.csv"):
        Outputs(HEADS, CSV, f"{tmp_path}/file/out.csv", io.BytesIO())


def test_two_queries_of_one_file(tmp_path: Path) -> None:
    heads = [Head("a b", ("x",)), Head("a_b", ("x",))]
    with pytest.raises(CannotWrite, match="two queries would write"):
        Outputs(heads, CSV, f"{tmp_path}/{{query}}.csv", io.BytesIO())


def test_unknown_placeholders() -> None:
    with pytest.raises(ValueError, match=r"unknown placeholder \{name\}; use \{query\}"):
        find_placeholders("{query}/{name}.csv")
