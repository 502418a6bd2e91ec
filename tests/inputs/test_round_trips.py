"""Random events, written in every format and compression, are read back as they were."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.inputs.writing import COLUMNAR, RDF, Event, pack, write_jelly

from triegs.events import open_input
from triegs.terms.term import canonical_term, literal, scope_prefix

PACKINGS = ("", ".gz", ".zst")
XSD = "http://www.w3.org/2001/XMLSchema#"


def write_literal(text: str) -> str:
    return canonical_term(literal(text))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text("abcé", min_size=1, max_size=3)
iris = names.map("<http://ex/{}>".format)
labels = st.sampled_from(["_:a", "_:b1"])
plain = texts.map(write_literal)
literals = st.one_of(
    plain,
    plain.map("{}@en".format),
    st.integers().map(lambda n: f'"{n}"^^<{XSD}integer>'),
)
times = st.integers(-62_135_596_800_000, 253_402_300_799_999)
events = st.builds(
    Event,
    times,
    st.sampled_from([1, -1]),
    st.one_of(iris, labels),
    iris,
    st.one_of(iris, labels, literals),
    st.none() | st.text('abc,"', min_size=1, max_size=3),
)


def read_all(path: Path | io.BytesIO, **options: Any) -> list[Event]:
    source = open_input(path, strict=True, **options)
    prefix = scope_prefix(str(Path(path).resolve())) if isinstance(path, Path) else ""
    rows = []
    for batch in source:
        assert batch.schema.field("time").type == "int64"
        assert batch.schema.field("op").type == "int8"
        for row in batch.to_pylist():
            terms: list[str] = []
            for name in ("subject", "predicate", "object"):
                term = row[name]
                if prefix and term.startswith("_:"):
                    assert term.startswith(prefix)
                    term = "_:" + term.removeprefix(prefix)
                terms.append(canonical_term(term))
            rows.append(Event._make([row["time"], row["op"], *terms, row.get("id")]))
    assert source.report.read == source.report.events == len(rows)
    return rows


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("ending", COLUMNAR)
@settings(max_examples=12)
@given(drawn=st.lists(events, min_size=1, max_size=20), rows=st.sampled_from([1, 4, 1000]))
def test_columns(
    tmp_path_factory: pytest.TempPathFactory, ending: str, packing: str, drawn: Any, rows: int
) -> None:
    path = tmp_path_factory.getbasetemp() / f"events.{ending}{packing}"
    path.write_bytes(pack(COLUMNAR[ending](drawn), packing))
    assert read_all(path, batch_rows=rows) == drawn


def tick(drawn: list[Event]) -> list[Event]:
    """The events as they are without times, signs and ids."""
    return [Event(n, 1, e.subject, e.predicate, e.object, None) for n, e in enumerate(drawn)]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("ending", RDF)
@settings(max_examples=12)
@given(drawn=st.lists(events, min_size=1, max_size=20), rows=st.sampled_from([1, 4, 1000]))
def test_statements(
    tmp_path_factory: pytest.TempPathFactory, ending: str, packing: str, drawn: Any, rows: int
) -> None:
    path = tmp_path_factory.getbasetemp() / f"events.{ending}{packing}"
    path.write_bytes(pack(RDF[ending](drawn), packing))
    assert read_all(path, batch_rows=rows) == tick(drawn)


@pytest.mark.skipif(importlib.util.find_spec("pyjelly") is None, reason="pyjelly is not installed")
@pytest.mark.parametrize("packing", PACKINGS)
@settings(max_examples=12)
@given(drawn=st.lists(events, min_size=1, max_size=20), rows=st.sampled_from([4, 1000]))
def test_jelly(
    tmp_path_factory: pytest.TempPathFactory, packing: str, drawn: Any, rows: int
) -> None:
    """One frame is one event: all its triples have one time."""
    path = tmp_path_factory.getbasetemp() / f"events.jelly{packing}"
    path.write_bytes(pack(write_jelly(drawn), packing))
    assert read_all(path, batch_rows=rows) == [e._replace(time=0) for e in tick(drawn)]


WRITERS = {**COLUMNAR, **RDF}
if importlib.util.find_spec("pyjelly") is not None:
    WRITERS["jelly"] = write_jelly


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("ending", WRITERS)
def test_resuming_after_each_batch(tmp_path: Path, ending: str, packing: str) -> None:
    """From every position the rest follows, with the same times and the same blank nodes."""
    drawn = [Event(n, 1, f"_:b{n % 3}", "<a:p>", f'"{n}"', f"i{n}") for n in range(23)]
    for name in ("a", "b"):
        data = pack(WRITERS[ending](drawn), packing)
        (tmp_path / f"{name}.{ending}{packing}").write_bytes(data)
    source = open_input(tmp_path, batch_rows=5)
    batches, positions = [], [source.position]
    for batch in source:
        batches.append(batch.to_pylist())
        positions.append(json.loads(json.dumps(source.position)))
    rows = [row for batch in batches for row in batch]
    assert len(rows) == 46
    done = 0
    for number, position in enumerate(positions):
        rest = open_input(tmp_path, batch_rows=4, start=position)
        assert [row for batch in rest for row in batch.to_pylist()] == rows[done:], position
        assert rest.report.events == 46 - done
        done += len(batches[number]) if number < len(batches) else 0


def test_a_path_given_twice_is_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_text("<a:1> <a:p> <a:o> .\n<a:2> <a:p> <a:o> .\n")
    source = open_input([path, path], batch_rows=1)
    found = [batch["subject"].to_pylist() for batch in source]
    assert found == [["<a:1>"], ["<a:2>"]] * 2
    source = open_input([path, path], batch_rows=1)
    for left in (3, 2, 1, 0):
        next(source)
        assert len(list(open_input([path, path], batch_rows=1, start=source.position))) == left


def test_files_that_come_later_are_read_when_resumed(tmp_path: Path) -> None:
    for name in ("b.nt", "d.nt"):
        (tmp_path / name).write_text(f"<a:{name}> <a:p> <a:o> .\n")
    source = open_input(tmp_path)
    list(source)
    for name in ("a.nt", "e.nt"):
        (tmp_path / name).write_text(f"<a:{name}> <a:p> <a:o> .\n")
    with (tmp_path / "d.nt").open("a") as file:
        file.write("<a:more> <a:p> <a:o> .\n")
    rest = open_input(tmp_path, start=source.position)
    assert [b["subject"].to_pylist() for b in rest] == [["<a:more>"], ["<a:e.nt>"]]


def test_unlabelled_nodes_are_the_same_when_resumed(tmp_path: Path) -> None:
    path = tmp_path / "a.ttl"
    path.write_text("@prefix : <a:> . :a :p [ :q [], _:b ] . :a :r ( 1 2 ) .")
    first = [row for batch in open_input(path) for row in batch.to_pylist()]
    again = [row for batch in open_input(path) for row in batch.to_pylist()]
    assert first == again
    assert len({row["object"] for row in first if row["object"].startswith("_:")}) == 5


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [Event(5, -1, "<a:a>", "<a:p>", '"x"', "i")]
    for ending, write in WRITERS.items():
        stream = io.TextIOWrapper(io.BytesIO(write(drawn)))
        monkeypatch.setattr(sys, "stdin", stream)
        (batch,) = open_input("-", format=ending)
        assert batch["object"].to_pylist() == ['"x"']


def test_a_pipe_is_read_as_it_comes() -> None:
    """Events are given before the writer has closed the pipe."""
    import os

    read, write = os.pipe()
    with open(read, "rb") as reader, open(write, "wb", buffering=0) as writer:  # noqa: PTH123
        source = iter(open_input(reader, format="nt"))
        for n in range(3):
            writer.write(b"<a:%d> <a:p> <a:o> .\n<a:half" % n)
            assert next(source)["subject"].to_pylist()[-1] == f"<a:{n}>"
            writer.write(b"> <a:p> <a:o> .\n")
            assert next(source)["subject"].to_pylist() == ["<a:half>"]
