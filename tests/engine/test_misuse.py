"""What a newcomer calls by mistake: it does what is meant, or says what to write instead."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import rdflib

from triegs import (
    BadOption,
    Engine,
    EventTime,
    InputError,
    InvalidUpdate,
    MemoryLimitReached,
    PlanError,
    StateDamaged,
    StateError,
    Window,
    WindowError,
)
from triegs.durations import read_duration

P = "<http://ex/p>"
TEXT = f"SELECT ?x ?y {{ ?x {P} ?y }}"
UPDATE = ("+", 1, P, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("abc", r"not 'abc'; load reads a file"),
        (Path("a.nt"), r"load reads a file"),
        (b"abc", "not bytes"),
        (UPDATE, r"expected a list of updates, not one; write \[\('\+', 1"),
        ({"subject": [1]}, r"pyarrow\.table"),
        (None, "not None"),
        (5, "not 5"),
        (pa.table({"a": [1], "b": [2]}), "no column .?subject.?; its columns: a, b"),
    ],
)
def test_apply_takes_batches(given: Any, message: str) -> None:
    engine = Engine()
    with pytest.raises(InvalidUpdate, match=message):
        engine.apply(given)
    assert engine.epoch == 0
    assert engine.apply(update for update in [UPDATE]).epoch == 1
    assert engine.apply((UPDATE, UPDATE)).refused == ()


@pytest.mark.parametrize(
    "given", ["file.csv", Path("file.csv"), b"x", (5, 1, P, 2), ("5", 1, P, 2)]
)
def test_push_takes_events(given: Any) -> None:
    engine = Engine(window=Window("10s"))
    with pytest.raises(InvalidUpdate, match=r"open_input reads a file|expected a list of events"):
        engine.push(given)
    assert engine.push([(5, 1, P, 2)]).accepted == 1


def test_streams_are_named_by_iris_of_rdflib_and_pyoxigraph(tmp_path: Path) -> None:
    pyoxigraph = pytest.importorskip("pyoxigraph")
    names: list[Any] = [rdflib.URIRef("http://ex/s"), pyoxigraph.NamedNode("http://ex/s")]
    with Engine.open(tmp_path / "engine") as engine:
        for name in names:
            window = Window("10s", stream=name)
            assert window == Window("10s", stream="http://ex/s")
            engine.register(TEXT, window=window)
            assert engine.push([(5, 1, P, 2)], name).accepted == 1
        assert len(engine.advance(10_000, names[1])) == 1
    for bad in (rdflib.BNode("b"), rdflib.Literal("s"), 5):
        with pytest.raises(WindowError, match="a stream name must be a string or an IRI"):
            Window("10s", stream=bad)  # type: ignore[arg-type]


def test_sizes_are_written_with_units(tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitReached, match="no room under 1,048,576 bytes"):
        Engine(memory_limit="1 MiB").apply([("+", n, P, n) for n in range(50_000)])
    for bad in ("", 0, -5, True, math.nan, "1 apple", "-1GB", [1], 1.5):
        with pytest.raises(BadOption, match="memory_limit must be a size such as"):
            Engine(memory_limit=bad)  # type: ignore[arg-type]
    Engine.open(tmp_path / "kept", checkpoint_bytes="64MiB").close()


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("10 minutes", 600_000), ("1 hour", 3_600_000), ("1 Hour 30 minutes", 5_400_000),
        ("1h30m", 5_400_000), ("2 days", 172_800_000), ("1 week", 604_800_000), ("10 s", 10_000),
        ("1.5 sec", 1_500), ("PT1H", 3_600_000), ("1 minute, 5 seconds", 65_000),
        (np.int64(7), 7), (timedelta(seconds=2), 2_000),
    ],
)  # fmt: skip
def test_durations_are_written_in_words(text: Any, milliseconds: int) -> None:
    assert read_duration(text) == milliseconds
    assert Window(text).width == milliseconds


@pytest.mark.parametrize(
    "bad", ["ten minutes", "10M", "minutes", "", "5 parsecs", "10 minutes ago", math.nan, None,
            True, -1, "-1 hour", "1e3s", timedelta(-1), 2.5],
)  # fmt: skip
def test_what_is_no_duration(bad: Any) -> None:
    with pytest.raises(WindowError):
        Window(bad)
    with pytest.raises(WindowError):
        EventTime(lateness=bad)


def test_words_in_the_text_of_a_query() -> None:
    engine = Engine()
    text = "FROM STREAM <http://ex/s> [RANGE 10 minutes SLIDE 1 minute]"
    query = engine.register(f"SELECT ?x {text} {{ ?x {P} ?y }}")
    ((_, window),) = query.query.windows
    assert (window.width, window.slide) == (600_000, 60_000)


def test_options_of_register() -> None:
    engine = Engine()
    query = engine.register(TEXT, keep="count")
    assert engine.register(TEXT, keep=["count"]).plan == query.plan
    with pytest.raises(WindowError, match=r"write Window\('10 minutes'\)"):
        engine.register(TEXT, window="10 minutes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a query must be a str.*read_text"):
        engine.register(Path("query.rq"))  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="mode must be 'multigraph' or 'rdf', not 'RDF'"):
        Engine("RDF")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="prefixes must map names to IRIs"):
        Engine(prefixes="http://ex/")  # type: ignore[arg-type]
    for bad in (-1, 1.5, "2", True):
        with pytest.raises(BadOption, match="retain_epochs must be a non-negative integer"):
            Engine(retain_epochs=bad)  # type: ignore[arg-type]


def test_leases_and_syncs_are_durations(tmp_path: Path) -> None:
    query = Engine().register(TEXT)
    query.snapshot(lease="10 minutes").close()
    for lease in ("soon", -1, math.nan):
        with pytest.raises(WindowError):
            query.snapshot(lease=lease)  # type: ignore[arg-type]
    for sync in ("soon", math.nan, 0, -5, True, None, "0s"):
        with pytest.raises(BadOption, match="sync must be 'always', 'never' or a duration"):
            Engine.open(tmp_path, sync=sync)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_files_cannot_be_loaded_as_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidUpdate, match="is a directory; load takes a file"):
        Engine().load(tmp_path)


def test_a_directory_that_is_not_an_engines_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StateError, match=r"not the directory of an engine: it has 'thesis.tex'"):
        Engine.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "engine.json").write_text("{}")
    with pytest.raises(StateDamaged, match=r"engine\.json"):
        Engine.open(other)
    assert [path.name for path in other.iterdir()] == ["engine.json"]
    with pytest.raises(StateError):
        Engine.open(tmp_path / "thesis.tex")
    for name in ("new", "empty"):
        folder = tmp_path / name
        if name == "empty":
            folder.mkdir()
        Engine.open(folder).close()
        (folder / "notes.txt").write_text("beside an engine")
        Engine.open(folder).close()


def test_sizes_of_what_is_read_are_positive_integers() -> None:
    engine = Engine()
    query = engine.register(TEXT)
    engine.apply([("+", n, P, n) for n in range(3)])
    with query.snapshot() as snapshot:
        bad: Any
        for bad in (0, -1, 1.5, math.nan, None, "5", True):
            with pytest.raises(BadOption, match="rows must be an integer of at least 1"):
                snapshot.batches(bad)
            with pytest.raises(BadOption, match="workers must be an integer of at least 1"):
                snapshot.read(workers=bad)
            with pytest.raises(BadOption, match="number of parts must be an integer of at least"):
                snapshot.split(bad)
        assert [batch.num_rows for batch in snapshot.batches(2, first=1)] == [1, 2]
        reads: list[Any] = [snapshot.answers, snapshot.batches, snapshot.to_arrow]
        for read in reads:
            with pytest.raises(BadOption, match="terms must be 'ntriples', 'python', "):
                read(terms="xml")


def test_settings_of_an_engine_have_types(tmp_path: Path) -> None:
    new = tmp_path / "new"
    makers: list[Any] = [Engine, lambda **options: Engine.open(new, **options)]
    for make in makers:
        with pytest.raises(WindowError, match=r"event_time must be a triegs\.EventTime, not '2s'"):
            make(event_time="2s")
        with pytest.raises(WindowError, match=r"write Window\('10s'\)"):
            make(window="10s")
        assert not new.exists()
    with pytest.raises(InputError, match="base: None is not an IRI"):
        Engine(base=None)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="memory_limit 5: must be at least"):
        Engine(memory_limit=5)


def test_names_are_texts(tmp_path: Path) -> None:
    """Another name would be stored as a text, or could not be stored."""
    with Engine.open(tmp_path / "engine") as engine:
        query = engine.register(TEXT)
        bad: Any
        for bad in (5, b"x", True, ["x"]):
            for name in (
                lambda name: engine.register(TEXT, name=name),
                engine.hold,
                lambda name: query.subscribe(name=name),
                lambda name: engine.aggregate("?x :p ?y", window=Window("10s"), name=name),
            ):
                with pytest.raises(BadOption, match="a name must be a str, not"):
                    name(bad)
        with pytest.raises(BadOption, match="positions must map names to values"):
            engine.note("x")  # type: ignore[arg-type]
        with pytest.raises(BadOption, match="epoch must be a non-negative integer, not 'y'"):
            engine.hold("x", epoch="y")  # type: ignore[arg-type]
        with pytest.raises(PlanError, match=r"\?5 cannot be the root.*\(\?x, \?y\)"):
            engine.register(TEXT, root=5)  # type: ignore[arg-type]
        assert engine.apply([UPDATE]).refused == ()


@pytest.mark.parametrize("bad", [0, -1, None, 1.5, math.nan, True, "5", 10**30])
def test_a_number_of_events_is_an_integer(bad: Any) -> None:
    with pytest.raises(WindowError, match="a number of events must be an integer, at least 1"):
        Window.triples(bad)
    assert Window.triples(np.int64(3)) == Window.triples(3)  # type: ignore[arg-type]
