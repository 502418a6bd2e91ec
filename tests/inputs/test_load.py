"""`Engine.load` reads RDF files whole or not at all."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from triegs import Engine, InvalidUpdate

QUERY = "SELECT ?s ?o { ?s <a:p> ?o }"
FILES = {
    "a.nt": '<a:a> <a:p> "x" .\n<a:a> <a:p> "x"@EN .\n',
    "a.nq": '<a:a> <a:p> "x" <a:g> .\n<a:a> <a:p> "x"@EN .\n',
    "a.ttl": "@prefix a: <a:> . a:a a:p 'x', 'x'@EN .",
    "a.trig": "@prefix a: <a:> . a:g { a:a a:p 'x', 'x'@EN }",
    "a.nt.gz": '<a:a> <a:p> "x" .\n<a:a> <a:p> "x"@EN .\n',
}


@pytest.mark.parametrize("name", FILES)
def test_statements_are_inserted(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    data = FILES[name].encode()
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with Engine() as engine:
        query = engine.register(QUERY)
        assert engine.load(path).refused == ()
        with query.snapshot() as snapshot:
            assert sorted(answer.o for answer in snapshot) == ['"x"', '"x"@en']


def test_blank_nodes_are_the_files_own(tmp_path: Path) -> None:
    with Engine() as engine:
        query = engine.register(QUERY)
        for name in ("a.nt", "b.nt", "a.nt"):
            (tmp_path / name).write_text("_:x <a:p> _:x .\n")
            engine.load(tmp_path / name)
        with query.snapshot() as snapshot:
            assert sorted(answer.multiplicity for answer in snapshot) == [1, 2]


def test_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    with Engine() as engine:
        query = engine.register(QUERY)
        before = engine.epoch
        for name, text in (("a.nt", "<a:a> <a:p> <a:b> .\nbad\n"), ("a.ttl", "<a:a> <a:p> 1 . x")):
            (tmp_path / name).write_text(text)
            with pytest.raises(InvalidUpdate, match=r"line \d+.*; nothing changed"):
                engine.load(tmp_path / name)
        for wrong in ("nowhere.nt", "a.csv", "a"):
            with pytest.raises(InvalidUpdate, match="nothing changed"):
                engine.load(tmp_path / wrong)
        with pytest.raises(InvalidUpdate, match="the format must be one of n-triples"):
            engine.load(io.BytesIO(b""), format="csv")
        assert engine.epoch == before
        with query.snapshot() as snapshot:
            assert len(snapshot) == 0
