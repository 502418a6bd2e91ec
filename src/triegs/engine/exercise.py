"""A small workload that calls every kernel in every form in which the engine does.

`triegs.engine.warmth` runs it once per machine, so that everything is compiled at once and nothing
later, in the middle of a stream. `tests/kernels/test_warmth.py` checks that it is complete.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from triegs.durable.direct import DirectRecords
from triegs.durable.terms import Definer
from triegs.errors import InvalidUpdate, MemoryLimitReached
from triegs.events.updates import encode_table
from triegs.reason.kernels.facts import renumber_buckets
from triegs.reason.kernels.layout import META_WORDS
from triegs.terms.arrays import Words
from triegs.terms.dictionary import Dictionary
from triegs.terms.partition_hash import find_partitions
from triegs.terms.term_array import TermArray
from triegs.terms.value_array import ValueArray
from triegs.windows.slide_rows import find_leaving

EX = "<http://ex/{}>".format
A, B, C = EX("a"), EX("b"), EX("c")
FEW = 100
FULL_BYTES = 1_250_000  # `MANY` edges exceed it several times
MANY = 3_000  # enough for hubs, large epochs, and arrays that grow

COMPILED = f"""SELECT ?x ?y ?z {{ ?x {A} ?y . ?y {B} ?z . ?z {C} ?w . ?x {C} 1 . ?y {A} ?y }}"""
ORDERED = f"SELECT * {{ ?x {A} ?y . ?y {B} ?z . ?y {C} ?u . ?x {C} ?w . ?x {B} ?v }}"
COUNTED = f"SELECT ?y {{ ?x {A} ?y . ?y {B} ?z . ?z {C} ?w VALUES ?y {{ 1 2 2 }} }}"
GROUPED = f"""SELECT ?x (MIN(?z) AS ?low) (MAX(?y) AS ?high) (COUNT(*) AS ?n) (AVG(?z) AS ?mean) {{
    ?x {A} ?y . ?y {B} ?z . ?x {C} ?w }} GROUP BY ?x"""
HIDDEN = f"ASK {{ ?x {A} ?y . ?y {B} ?z }}"
RULES = (
    f"SELECT ?x ?p ?z {{ ?x ?p ?y . ?y {B} ?z FILTER(?z > 1) }}",
    f"SELECT ?x ?z {{ ?x {A} ?y . ?y {B} ?z FILTER(?x != ?z && ?x + ?y > ?z) }}",
    f"SELECT ?x ?y ?z {{ ?x {A} ?y . ?y {A} ?z . ?z {A} ?x }}",
    f"SELECT ?x ?y {{ ?x {A} ?y . ?x {B} ?y VALUES (?x ?y) {{ (1 2) (3 4) }} }}",
)
STREAM = "http://ex/s"
CLOSED = f"TE(X, {A}, Z) :- TE(X, {A}, Y), TE(Y, {A}, Z). linked(X) :- TE(X, {A}, Y)."
WINDOWED = f"SELECT * FROM STREAM <{STREAM}> [RANGE 10 STEP 5] {{ ?x {A} ?y }}"
FILE = b"<http://ex/s> <http://ex/a> _:b , 1 , 'text' , 'text'@en ."
INPUTS = {
    "csv": b'time,subject,predicate,object\n1970-01-01,<a:a>,<a:p>,"""x"""\n,_:a,bad,"',
    "jsonl": b'{"time": "1", "subject": "<a:a>", "predicate": "<a:p>", "object": "_:b"}',
    "n-quads": b"<a:a> <a:p> _:b <a:g> .\n<a:a> <a:p> <a:\\u00e9> .\nbad",
}


def call_everything(
    make_engine: Callable[..., Any],
    open_input: Callable[..., Any],
    before_epochs: Callable[[], object],
) -> None:
    """Run the workload; `make_engine` is `triegs.Engine`, `open_input` that of `triegs.events`.

    Takes a second once everything is compiled.
    """
    for name, text in INPUTS.items():
        for _ in open_input(io.BytesIO(text), format=name):
            pass
    _run_terms()
    before_epochs()
    with make_engine() as engine:
        _run_compiled(engine)
    with make_engine("rdf") as engine:
        _run_rules(engine)
    with make_engine() as engine:
        _run_windows(engine)
    with make_engine(memory_limit=FULL_BYTES) as engine:
        _run_full(engine)
    with make_engine(rules=CLOSED) as engine:
        _run_closure(engine)


def _run_closure(engine: Any) -> None:
    """Rules over the static graph and a window: growth, deletion, undoing, reading."""
    engine.register(WINDOWED)
    engine.apply([("+", number, A, number + 1) for number in range(FEW)])
    engine.apply([("-", 7, A, 8), ("-", 7, B, 8)])
    with suppress(InvalidUpdate):
        engine.apply([("+", 1, A, 1), ("-", 7, B, 8)], strict=True)
    engine.push([(time, time, A, 1) for time in range(FEW)], STREAM)
    engine.close_stream()
    engine.facts("linked")
    find_leaving(1, 1, np.zeros(4, np.int64))
    renumber_buckets(
        np.zeros(0, np.int32), 1, np.zeros(2, np.int64), np.zeros(META_WORDS, np.int64)
    )


def _run_terms() -> None:
    words = Dictionary()
    words.encode_terms([1, 2.5, True, B])
    for table in _make_tables():
        find_partitions([table.column("subject"), table.column("object")], 2)
        rows = encode_table(words, table).rows
        for change in (1, -1):
            rows[:, 0] = change
            words.settle(rows, 1)
            words.decode(rows[:, 1])
            words.decode(rows[:, 1].astype(np.int32))
            TermArray().load(lambda: words.arrays)
            _run_values(words, rows)
        words.collect(2)
        Definer(words, "term").define(np.array([0]))
        Definer(words, "term").write_rows(rows)
        log: Any = LogWithoutRoom()
        definer = Definer(words, "term")
        DirectRecords(log, words, definer, None).write(
            0, 0, {}, rows, np.zeros(len(rows), np.int64)
        )
        definer.forget(np.array([0]))
    words.check()


class LogWithoutRoom:
    """Lays out a record and does not write it."""

    def append_directly(self, _: Any, write: Callable[..., int], *arguments: Any) -> None:
        write(*arguments)


def _run_values(words: Dictionary, rows: Words) -> None:
    """Values of ids of both widths, and of a heap that was replaced."""
    arrays = [words.arrays]
    values = ValueArray(lambda: arrays[-1])
    values.gather(rows[:, 3])
    values.gather(rows[:, 3].astype(np.int32))
    arrays.append(words.arrays._replace(heap=words.arrays.heap.copy()))
    values.gather(rows[:, 3])


def _run_compiled(engine: Any) -> None:
    engine.apply(_edges(A, MANY) + _edges(B, MANY))
    queries = [engine.register(text) for text in (COMPILED, COUNTED, GROUPED, HIDDEN)]
    ordered = engine.register(ORDERED, keep=["count", "slice"])
    engine.apply([("+", 1, A, 2)])
    engine.apply([("-", 1, A, 2), ("-", 1, A, 2), ("-", 7, B, "'never said'"), ("?", 1, 2, 3)])
    with queries[0].snapshot():
        engine.apply([("+", 1, A, 2)])
    with suppress(InvalidUpdate):
        engine.apply([("+", 1, A, 2), ("-", 7, B, 7)], strict=True)
    engine.load(io.BytesIO(FILE), format="turtle")
    for table in _make_tables():
        engine.apply(table)
        engine.apply(table.slice(0, 1))  # a single row has another memory layout
    held = [query.snapshot() for query in queries]
    engine.apply(_edges(C, MANY))
    engine.apply(_edges(A, MANY // 2, "-"))
    fresh = [(EX(f"fresh{n}"), C, f'"text {n}"') for n in range(MANY)]
    engine.apply([("+", *assertion) for assertion in fresh])
    for query in queries:
        with query.snapshot() as snapshot:
            _read(snapshot)
    with ordered.snapshot() as snapshot:  # too many answers to read them all
        _read_positions(snapshot)
    for query, snapshot in zip(queries, held, strict=True):
        _read(snapshot)
        with query.snapshot() as newest:
            newest.diff(snapshot).to_arrow("ids")
            newest.diff(snapshot).to_arrow("python")
        snapshot.close()
    engine.apply([("-", *assertion) for assertion in fresh])
    engine.apply(_edges(B, MANY, "-"))
    for query in [ordered, *queries]:
        query.close()


def _run_rules(engine: Any) -> None:
    engine.apply(_edges(A, FEW) + _edges(B, FEW))
    queries = [engine.register(text) for text in RULES]
    engine.apply([("+", FEW + n % 7, A, n) for n in range(FEW)])
    engine.apply([("+", 1, A, FEW)])
    engine.apply(_edges(B, FEW // 2, "-"))
    for query in queries:
        with query.snapshot() as snapshot:
            _read(snapshot)
        query.close()


def _run_windows(engine: Any) -> None:
    query = engine.register(WINDOWED)
    engine.push(_make_events(-1).slice(0, 1), STREAM)  # its times are read-only
    engine.push([(-1, 1, A, 1)], STREAM)  # the watermark decides that this is the stream
    engine.advance(to=-1)
    times = [(n, n % 7, A, n % 5) for n in range(FEW)]
    engine.push(times, STREAM)
    engine.push(_make_events(FEW), STREAM)
    engine.advance(to=FEW)
    engine.push([(FEW + 1, 1, A, 1)], STREAM)
    engine.push([(FEW + n, n, A, n, "-" if n % 3 else "+", n) for n in range(FEW)], STREAM)
    engine.push([(2 * FEW, 1, A, 1, "-"), (str(2 * FEW), 1, A, 1)], STREAM)
    engine.close_stream()
    query.close()


def _run_full(engine: Any) -> None:
    """At the memory limit: an epoch with deletions exceeds it, and free blocks are merged."""
    numbers = range(2 * MANY)
    engine.apply([("+", n, A, n) for n in numbers])
    engine.apply([("-", n, A, n) for n in numbers] + [("+", n, B, n) for n in numbers])
    engine.apply([("-", n, B, n) for n in numbers[::2]])
    with suppress(MemoryLimitReached):
        engine.apply([("+", 1, B, n) for n in range(10 * MANY)])


def _make_events(start: int) -> Any:
    import pyarrow as pa

    numbers = pa.array(range(start, start + FEW), pa.int64())
    names = ["time", "subject", "predicate", "object"]
    return pa.table([numbers, numbers, pa.array([A] * FEW), numbers], names=names)


def _edges(label: str, count: int, sign: str = "+") -> list[tuple[str, int, str, int]]:
    """Edges that form a hub and chains."""
    return [(sign, 1 if n % 3 else n, label, n + 1) for n in range(count)]


def _make_tables() -> list[Any]:
    """Updates as columns of every type that has a kernel of its own."""
    import pyarrow as pa

    count = 100
    numbers = pa.array(range(count), pa.int64())
    texts = pa.array([EX(f"s{n}") for n in range(count)])
    labels = pa.array([A, B] * (count // 2))
    coded = labels.dictionary_encode()
    wide = pa.DictionaryArray.from_arrays(coded.indices.cast(pa.int64()), coded.dictionary)
    names = ["op", "subject", "predicate", "object"]
    columns = [
        [pa.array([1] * count, pa.int8()), numbers, coded, numbers],
        [pa.array([-1] * count, pa.int8()), numbers, wide, numbers],
        [pa.array([1] * count, pa.int64()), texts, labels, texts.cast(pa.large_string())],
        [pa.array(["+", "-"] * (count // 2)), texts, labels, texts.dictionary_encode()],
        [pa.array(["+", None] * (count // 2)), pa.array([None, 2] * (count // 2)), coded, texts],
        [pa.array(["+"] * count).dictionary_encode(), texts, pa.array([None, A] * 50), texts],
    ]
    return [pa.table(given, names=names) for given in columns]


def _read(snapshot: Any) -> None:
    """Read in every form."""
    for terms in ("ntriples", "python", "ids"):
        snapshot.to_arrow(terms)
        next(iter(snapshot.answers(terms)), None)
    snapshot.count()
    snapshot.support()


def _read_positions(snapshot: Any) -> None:
    """Read by position."""
    assert snapshot.count() >= len(snapshot) > 0
    snapshot[-1], list(snapshot[:3])
    snapshot.sample(3, weighted=True, seed=1).to_arrow()
