"""Damaged columns, invalid text, and documents that expand: reported, and never a crash."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from triegs import Engine, Window
from triegs.durable.inbox import commit_batch
from triegs.events import open_input
from triegs.terms.dictionary import Dictionary

P = "<a:p>"

# What makes columns that point anywhere. It runs in a process of its own, because it may die.
DAMAGE = """
import io, random, struct, sys
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import triegs
from triegs.events import open_input

words = pa.array(["<a:a>", "<a:b>"])

def texts(offsets, kind=pa.string(), word=np.int32, is_coded=False):
    places = np.array([0, 5, 10], word)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(b"<a:a><a:b>")]
    found = pa.Array.from_buffers(kind, 2, buffers)
    if is_coded:
        found = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), found)
    return found, places, offsets

def codes(indices, words=words):
    places = np.array([0, 1], np.int32)
    found = pa.Array.from_buffers(pa.int32(), 2, [None, pa.py_buffer(places)])
    return pa.DictionaryArray.from_arrays(found, words), places, indices

# Columns that are good, and what is written into them behind Arrow's back.
DAMAGES = [
    lambda: texts([0, 5, 1 << 30]), lambda: texts([0, -5, 10]), lambda: texts([1 << 30, 5, 10]),
    lambda: texts([5, 0, 10]), lambda: texts([0, 5, 1 << 60], pa.large_string(), np.int64),
    lambda: texts([0, 5, 1 << 30], is_coded=True), lambda: codes([0, 1 << 30]),
    lambda: codes([-(1 << 30), 0]), lambda: codes([1, 7], pa.array([1, 2])),
]

def table(column, name):
    columns = {"time": pa.array([1, 2]), "subject": words, "predicate": words, "object": words}
    columns[name] = column
    return pa.table(columns)
"""

BROKEN = (
    DAMAGE
    + """
for make in DAMAGES:
    for name in ("subject", "object", "op", "time", "id"):
        column, memory, damage = make()
        found = table(column, name)
        memory[:] = damage
        engines = [triegs.Engine(), triegs.Engine(window=triegs.Window(5))]
        for take in (engines[0].apply, engines[1].push):
            if take == engines[0].apply and name in ("time", "id"):
                continue
            try:
                take(found)
            except triegs.InvalidUpdate as problem:
                assert "damaged" in str(problem) and name in str(problem), problem
            else:
                raise AssertionError((column.type, name))

def write(table, form):
    target = io.BytesIO()
    with form(target, table.schema) as writer:
        writer.write_table(table)
    return target.getvalue()

good = struct.pack("<3i", 0, 5, 10)
for form in (pa.ipc.new_stream, pa.ipc.new_file):
    for column in (words, words.dictionary_encode()):
        data = write(table(column, "subject"), form)
        for offsets in ((0, 5, 1 << 30), (0, -5, 10), (5, 0, 10), (1 << 30, 5, 10)):
            bad = data.replace(good, struct.pack("<3i", *offsets))
            assert bad != data
            source = open_input(io.BytesIO(bad), format="arrow")
            assert sum(batch.num_rows for batch in source) == 0
            assert source.report.has_failed
print("alive")
"""
)

FUZZ = (
    DAMAGE
    + """
rows = 50
texts = pa.array([f"<a:{n % 7}>" for n in range(rows)])
good = pa.table({
    "time": pa.array(range(rows)), "op": pa.array(["+", "-"] * (rows // 2)).dictionary_encode(),
    "subject": texts, "predicate": texts.dictionary_encode(),
    "object": texts.cast(pa.large_string()), "id": pa.array([None, 5] * (rows // 2)),
})
files = []
for make in (pa.ipc.new_stream, pa.ipc.new_file):
    target = io.BytesIO()
    with make(target, good.schema) as writer:
        writer.write_table(good)
    files.append((target.getvalue(), "arrow"))
target = io.BytesIO()
pq.write_table(good, target)
files.append((target.getvalue(), "parquet"))
draw = random.Random(int(sys.argv[1]))
ends = {"good": 0, "broken": 0, "refused": 0}
for _ in range(int(sys.argv[2])):
    data, form = draw.choice(files)
    bad = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 8])):
        at = draw.randrange(len(bad))
        bad[at : at + 1] = bytes([draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])])
    engine = triegs.Engine(window=triegs.Window(5))
    try:
        source = open_input(io.BytesIO(bytes(bad)), format=form)
        for batch in source:
            engine.push(pa.table(batch))
        ends["broken" if source.report.has_failed else "good"] += 1
    except (triegs.InputError, triegs.InvalidUpdate):
        ends["refused"] += 1
print("alive", ends)
assert ends["broken"]
"""
)


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    return done.stdout


def test_a_damaged_column_is_refused_and_nothing_crashes() -> None:
    assert "alive" in run(BROKEN)


def test_damaged_files_are_reported_and_nothing_crashes() -> None:
    assert "alive" in run(FUZZ, "1", "150")


def write(table: pa.Table, form: str) -> bytes:
    target = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, target)
    else:
        with pa.ipc.new_stream(target, table.schema) as writer:
            writer.write_table(table)
    return target.getvalue()


def make_text(values: list[bytes | None]) -> Any:
    raw = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())


BAD = [b"<a:a>", b"<a:\xff>", None, b"<a:b>", b"<a:\xff>"]


def make_columns() -> dict[str, Any]:
    text = make_text(BAD)
    words = make_text([b"<a:a>", b"<a:\xff>", b"<a:b>"])
    codes = pa.array([0, 1, None, 2, 1], pa.int8())
    return {
        "string": text,
        "large": text.cast(pa.large_binary()).view(pa.large_string()),
        "dictionary": pa.DictionaryArray.from_arrays(codes, words),
        "sliced": pa.concat_arrays([text, text])[5:],
    }


@pytest.mark.parametrize("kind", list(make_columns()))
@pytest.mark.parametrize("name", ["subject", "predicate", "object"])
def test_invalid_text_loses_its_rows(kind: str, name: str, tmp_path: Path) -> None:
    columns = {"time": range(5), "subject": range(5), "predicate": [P] * 5, "object": range(5)}
    table = pa.table({**columns, name: make_columns()[kind]})
    for form in ("arrow", "parquet"):
        aside = tmp_path / "aside.jsonl"
        source = open_input(io.BytesIO(write(table, form)), format=form, quarantine=aside)
        kept = [time for batch in source for time in batch.column("time").to_pylist()]
        assert kept == [0, 3]
        assert source.report.quarantined == {"not UTF-8": 2, f"no {name}": 1}
        entries = [json.loads(line) for line in aside.read_text().splitlines()]
        assert [entry["line"] for entry in entries] == [2, 3, 5]
        assert json.loads(entries[0]["record"])[name] == "<a:\\xff>"
    expected = [(1, f"not UTF-8: {name}"), (2, f"no {name}"), (4, f"not UTF-8: {name}")]
    assert list(Engine().apply(table).refused) == expected
    assert list(Engine(window=Window(5)).push(table).refused) == expected


@pytest.mark.parametrize("name", ["time", "op", "id"])
def test_invalid_text_in_other_columns(name: str) -> None:
    text = make_text([b"1", b"\xff"])
    columns = {"time": [1, 2], "subject": [1, 2], "predicate": [P, P], "object": [1, 2]}
    for column in (text, text.dictionary_encode()):
        table = pa.table({**columns, name: column})
        engine = Engine(window=Window(5))
        assert list(engine.push(table).refused) == [(1, f"not UTF-8: {name}")]
        for form in ("arrow", "parquet"):
            source = open_input(io.BytesIO(write(table, form)), format=form)
            assert sum(batch.num_rows for batch in source) == 1
            assert source.report.quarantined == {"not UTF-8": 1}


CSV = b"<a:%s>,<a:p>,<a:b>\n"
JSON = b'{"subject":%s,"predicate":"<a:p>","object":1}\n'


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("csv", b"subject,predicate,object\n" + CSV % b"a" + CSV % b"\xff" + CSV % b"b"),
        ("jsonl", JSON % b"1" + JSON % b'"<a:\xff>"' + JSON % b"2"),
        ("nt", b'<a:a> <a:p> "x" .\n<a:a> <a:p> "\xff" .\n<a:a> <a:p> "y" .\n'),
    ],
)  # fmt: skip
def test_lines_that_are_no_text(form: str, text: bytes) -> None:
    source = open_input(io.BytesIO(text), format=form)
    assert sum(batch.num_rows for batch in source) == 2
    assert source.report.quarantined == {"not UTF-8": 1}


def test_invalid_text_in_a_dictionary() -> None:
    words = Dictionary()
    column = make_columns()["dictionary"]
    ids, problems = words.encode(column)
    assert [place for place, _ in problems] == [1, 2, 4]
    assert (ids < 0).tolist() == [False, True, True, False, True]


def test_a_batch_of_the_inbox_loses_only_its_bad_rows(tmp_path: Path) -> None:
    table = pa.table({"subject": make_text(BAD), "predicate": [P] * 5, "object": range(5)})
    with Engine.open(tmp_path) as engine:
        commit_batch(tmp_path, table, "feed", 1)
        (taken,) = engine.take_inbox()
        assert [place for place, _ in taken.outcome.refused] == [1, 2, 4]
