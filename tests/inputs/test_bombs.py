"""Small inputs that expand to large ones, or nest without end: bounded and reported."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from triegs import InputError, InvalidUpdate
from triegs.engine import Engine
from triegs.events import bounds, documents, open_input, tables
from triegs.events.bounds import Bounded
from triegs.events.streams import BrokenFile

RDF = (
    '<?xml version="1.0"?><!DOCTYPE rdf:RDF [{}]><rdf:RDF xmlns:e="http://e/" '
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">{}</rdf:RDF>'
).format
NODE = '<rdf:Description rdf:about="{}"><e:p>{}</e:p></rdf:Description>'.format
LAUGHS = '<!ENTITY a0 "lol">' + "".join(
    f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 11)
)
OWL = (
    '<!ENTITY xsd "http://www.w3.org/2001/XMLSchema#" >\n<!ENTITY e "http://e/"><!ENTITY f "&e;f#">'
)


def read(data: bytes, form: str, **options: Any) -> tuple[list[Any], Any]:
    source = open_input(io.BytesIO(data), format=form, **options)
    return [row for batch in source for row in batch.to_pylist()], source.report


# Each with little memory and in a process of its own, which it must not take with it. They are
# forked from one, which imports everything once.
HOSTILE = """
import io, json, os, resource, sys
import triegs
from triegs.events import open_input
laughs = sys.stdin.buffer.read()
deep = 200_000
start = b'{"subject":1,"predicate":"<a:p>","object":'
documents = {
    "laughs": lambda: laughs,
    "nested": lambda: b"<a:a> <a:p> " + b"<<( <a:a> <a:p> " * deep + b"<a:a>"
              + b")>>" * deep + b" .\\n",
    "lists": lambda: b"<a:a> <a:p> " + b"(" * 1_000_100,
    "arrays": lambda: start + b"[" * deep + b"]" * deep + b"}\\n",
    "objects": lambda: start + b'{"a":' * deep + b"1" + b"}" * deep + b"}\\n",
    "unusual": lambda: b'<a:a> <a:p> "' + b"\\\\t" * (10 << 20) + b'" .  # long\\n',
    "statement": lambda: b"# x\\n" * (20 << 20),
    "term": lambda: b'<a:a> <a:p> "' + b"x" * (80 << 20) + b'" .\\n',
}

def read(name, form):
    data = documents[name]()
    resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
    good = start + b"1}\\n" if form == "jsonl" else b"<a:a> <a:p> <a:b> .\\n"
    source = open_input(io.BytesIO(data if form == "rdf-xml" else good + data), format=form)
    rows = sum(batch.num_rows for batch in source)
    return f"{rows} {dict(source.report.quarantined)} {[why for _, why in source.report.broken]}"

for name, form in json.loads(sys.argv[1]):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, read(name, form).encode())
            os._exit(0)
        finally:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    os.close(writing)
    with open(reading) as pipe:
        told = pipe.read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told]))
"""

CASES = [
    ("laughs", "rdf-xml", "0 {} ['the entity &a"),
    ("nested", "turtle", "['triples are nested more than 4,000 deep']"),
    ("nested", "n-triples", "1 {'bad term': 1} []"),
    ("lists", "turtle", "nested more than 1,000,000 deep']"),
    ("arrays", "jsonl", "1 {'bad line': 1} []"),
    ("objects", "jsonl", "1 {'bad line': 1} []"),
    ("term", "turtle", "['Reached the buffer maximal size"),
    ("term", "n-triples", "1 {'bad line': 1} []"),
    ("unusual", "n-triples", "1 {'bad line': 1} []"),
    ("statement", "turtle", "['a statement is longer than 64 MiB']"),
]


@pytest.fixture(scope="module")
def outcomes() -> tuple[list[Any], bytes]:
    """Exit code and output for each case, and what they wrote to standard error."""
    command = [sys.executable, "-c", HOSTILE, json.dumps([case[:2] for case in CASES])]
    given = RDF(LAUGHS, NODE("http://e/a", "&a10;")).encode()
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: "-".join(CASES[n][:2]))
def test_hostile_documents(number: int, outcomes: tuple[list[Any], bytes]) -> None:
    (code, found), errors = outcomes[0][number], outcomes[1]
    assert code == 0, (code, errors[-2000:])
    assert CASES[number][2] in found


def test_entities_of_ontologies_keep_working() -> None:
    text = RDF(OWL, NODE("&e;a", "&xsd;integer &lt; &f;x") * 3)
    rows, report = read(text.encode(), "rdf-xml")
    assert [row["object"] for row in rows] == [
        '"http://www.w3.org/2001/XMLSchema#integer < http://e/f#x"'
    ] * 3
    assert not report.has_failed


def test_entities_that_are_long_or_used_without_end() -> None:
    long = RDF(f'<!ENTITY a "{"x" * 70_000}">', NODE("http://e/a", "&a;"))
    _, report = read(long.encode(), "rdf-xml")
    assert report.broken[0][1] == "the entity &a; expands to more than 64 KiB"
    often = RDF(f'<!ENTITY a "{"x" * 60_000}">', NODE("http://e/a", "&a;" * 2_000))
    _, report = read(often.encode(), "rdf-xml")
    assert report.broken[0][1] == "a statement is longer than 64 MiB"
    with pytest.raises(InvalidUpdate, match="longer than 64 MiB"):
        Engine().load(io.BytesIO(often.encode()), format="rdf-xml")
    with pytest.raises(InputError, match="the entity &a; expands to"):
        read(long.encode(), "rdf-xml", strict=True)


@pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 50])
def test_declarations_are_found_wherever_chunks_end(size: int) -> None:
    data = RDF(OWL, NODE("&e;a", "&f;x")).encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    bounded = Bounded(iter(chunks), "rdf-xml")
    assert b"".join(bounded) == data
    assert bounded.entities == {b"xsd": 33, b"e": 9, b"f": 4 + 9 + 1}
    laughs = RDF(LAUGHS, "").encode()
    chunks = [laughs[at : at + size] for at in range(0, len(laughs), size)]
    with pytest.raises(BrokenFile, match="the entity &a"):
        b"".join(Bounded(iter(chunks), "rdf-xml"))


def test_bounds_are_of_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many that are small are no large one."""
    monkeypatch.setattr(bounds, "LONGEST_RECORD", 1 << 20)
    rows, report = read(b'<a:a> <a:p> "x" .\n' * 200_000, "turtle")
    assert len(rows) == 200_000
    assert not report.has_failed


def test_packed_tables_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"subject": [1] * 9000, "predicate": [1] * 9000, "object": range(9000)})
    target = io.BytesIO()
    pq.write_table(table, target)
    packed = gzip.compress(target.getvalue())
    assert len(read(packed, "parquet", compression="gzip")[0]) == 9000
    monkeypatch.setattr(tables, "MOST_HELD", 1000)
    rows, report = read(packed, "parquet", compression="gzip")
    assert rows == []
    assert "decompress it to a file" in report.broken[0][1]


def test_a_long_prefix_makes_small_batches(tmp_path, monkeypatch):
    """A batch ends when its texts are large, so that whoever reads can stop in time."""
    monkeypatch.setattr(documents, "MOST_TEXT", 10_000)
    path = tmp_path / "long.ttl"
    path.write_text(f"@prefix : <http://ex/{'a' * 1_000}> .\n" + ":a :b :c .\n" * 20, "utf-8")
    rows = [batch.num_rows for batch in open_input(path)]
    assert sum(rows) == 20
    assert max(rows) == 4
