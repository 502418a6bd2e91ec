"""Rows of tables through push and apply, against the oracle with triples that are made by hand."""

from __future__ import annotations

from collections import Counter
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from triegs import Engine, InvalidUpdate, Window
from triegs.testing.window_oracle import Event, Shape, WindowOracle, count_triples

MAPPING = "{a} :p {b} . {b} :q {a} ; :n {n:integer}"
NODES = "[] :of {a} ; :n {n:integer}"
ALL = "SELECT ?s ?p ?o { ?s ?p ?o }"
COLUMNS = {"time": "t", "op": "sign", "id": "key"}
TYPES = {"t": pa.int64(), "sign": pa.string(), "key": pa.string(), "a": pa.string(),
         "b": pa.string(), "n": pa.string()}  # fmt: skip
IRI = "<urn:triegs:{}>".format


class Row(NamedTuple):
    t: int
    sign: str
    key: str | None
    a: str | None
    b: str | None
    n: str | None


def map_by_hand(row: Row, mapping: str) -> Any:
    """The triples of a row, by the definition; None for a row that is malformed."""
    if row.n is not None and not row.n.isdecimal():
        return None
    a, b = (None if name is None else IRI(name) for name in (row.a, row.b))
    n = None if row.n is None else f'"{row.n}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    node = None if row.key is None else f"_:i{row.key}"
    made = [(a, "p", b), (b, "q", a), (b, "n", n)]
    if mapping == NODES:
        if node is None and row.sign == "-":
            return None
        made = [(node, "of", a), (node, "n", n)]
    return tuple((s, IRI(p), o) for s, p, o in made if s and o) or None


def make_table(rows: list[Row]) -> pa.Table:
    return pa.table({name: pa.array([getattr(row, name) for row in rows], kind)
                     for name, kind in TYPES.items()})  # fmt: skip


def read(query) -> Counter:
    with query.snapshot() as snapshot:
        return Counter({tuple(answer): answer.multiplicity for answer in snapshot})


names = st.sampled_from(["x", "y", None])
keys = st.sampled_from([None, None, "k", "l"])
rows = st.builds(
    Row, st.integers(-4, 4), st.sampled_from("+++-"), keys, names, names,
    st.sampled_from([None, "1", "02", "bad"]),
)  # fmt: skip
steps = st.tuples(st.sampled_from([0, 1, 5]), st.lists(rows, max_size=6), st.booleans())
shapes = st.one_of(
    st.builds(Shape, st.integers(2, 9), st.integers(1, 6)),
    st.builds(lambda last: Shape(last=last), st.integers(1, 3)),
    st.builds(lambda slide: Shape(slide=slide), st.integers(1, 5)),
)


def to_window(shape: Shape) -> Window:
    if shape.last is not None:
        return Window.triples(shape.last)
    if shape.width is None:
        assert shape.slide is not None
        return Window.landmark(shape.slide)
    return Window(shape.width, shape.slide)


def row(*given: Any) -> Row:
    return Row(*given)


@given(shapes, st.lists(steps, max_size=6), st.booleans(), st.booleans())
# The second row has the id of the first and one triple more: another row, of which nothing enters.
@example(
    Shape(9, 1), [(5, [row(0, "+", "k", "x", "y", None), row(0, "+", "k", "x", "y", "1")], False)],
    False, False,
)  # fmt: skip
# The deletion says something else in one triple only: all of the row stays.
@example(
    Shape(9, 1), [(5, [row(0, "+", "k", "x", "y", "1"), row(0, "-", "k", "x", "y", "02")], False)],
    False, True,
)  # fmt: skip
# The oldest row with the same triples goes, and not the longer one before it.
@example(
    Shape(last=3),
    [(5, [row(0, "+", None, "x", "y", "1"), row(0, "+", None, "x", "y", None),
          row(1, "-", None, "x", "y", None)], True)],
    False, True,
)  # fmt: skip
def test_rows_in_windows_equal_triples_made_by_hand(shape, script, has_nodes, is_durable):
    mapping = NODES if has_nodes else MAPPING
    oracle = WindowOracle([shape])
    given_rows = late = malformed = 0
    with TemporaryDirectory() as folder:
        window = to_window(shape)
        engine = Engine.open(folder, window=window) if is_durable else Engine(window=window)
        query = engine.register(ALL, "all")
        now = 0
        for step, drawn, is_reopened in script:
            now += step
            batch = [each._replace(t=now + each.t) for each in drawn]
            if has_nodes:  # a row without an id has a node that no oracle knows
                batch = [each._replace(key=each.key or f"new{number}{now}")
                         for number, each in enumerate(batch)]  # fmt: skip
            made = [(each, map_by_hand(each, mapping)) for each in batch]
            events = [Event(each.t, each.sign, said, each.key) for each, said in made if said]
            before = oracle.late
            oracle.push(events)
            pushed = engine.push(make_table(batch), map=mapping, columns=COLUMNS)
            bad = [number for number, (_, said) in enumerate(made) if said is None]
            assert [place - pushed.first for place, _ in pushed.refused] == bad
            assert pushed.late == oracle.late - before
            assert pushed.accepted == len(events) - pushed.late
            given_rows, malformed = given_rows + len(batch), malformed + len(bad)
            late += pushed.late
            moments = oracle.advance(now - 2)
            for moment, published in zip(moments, engine.each_slide(now - 2), strict=True):
                assert published.time == moment.time
                assert len(published.refused) == len(moment.refused)
                assert read(query) == moment.held[0]
                malformed += len(published.refused)
            if is_durable and is_reopened:
                engine.checkpoint() if len(batch) % 2 else None
                engine.close()
                engine = Engine.open(folder)
                query = engine.queries["all"]
        figures = engine.metrics()["windows"]
        assert (figures["late"], figures["refused"]) == (late, malformed)
        assert figures["repeated"] == oracle.repeated
        for moment, _ in zip(oracle.close(), engine.each_slide(close=True), strict=True):
            assert read(query) == moment.held[0]
        engine.close()


@given(st.lists(st.lists(rows, max_size=6), max_size=5), st.booleans(), st.booleans())
@example([[row(0, "+", None, "x", "y", None), row(0, "-", None, "x", "y", "1")]], False, False)
def test_rows_in_epochs_equal_triples_made_by_hand(script, is_strict, is_durable):
    """A row is deleted as a whole, or not at all."""
    live: Counter = Counter()
    with TemporaryDirectory() as folder:
        engine = Engine.open(folder) if is_durable else Engine()
        query = engine.register(ALL, "all")
        for batch in script:
            counts, refused = live.copy(), []
            for number, each in enumerate(batch):
                said = map_by_hand(each, MAPPING)
                change = Counter() if said is None else count_triples([said])
                after = counts.copy()
                for triple, times in change.items():
                    after[triple] += times if each.sign == "+" else -times
                if said is None or min(after.values(), default=0) < 0:
                    refused.append(number)
                else:
                    counts = after
            try:
                report = engine.apply(
                    make_table(batch), map=MAPPING, columns={"op": "sign"}, strict=is_strict
                )
                assert not (is_strict and refused)
                assert [place for place, _ in report.refused] == refused
                live = +counts
            except InvalidUpdate:
                assert is_strict
                assert refused
            if is_durable:
                engine.close()
                engine = Engine.open(folder)
                query = engine.queries["all"]
            assert read(query) == live
        engine.close()
