"""Events in columns of every type and spelling, related queries over them, and the expected
answers.

Each cell has its expected term beside it, written by hand: no code that reads cells decides what is
expected.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from tests.stress import drawing, related

from triegs import Window
from triegs.partition.layout import lay_out
from triegs.sparql import parse
from triegs.testing import oracle
from triegs.testing.strategies import Pattern
from triegs.testing.window_oracle import Event, Shape, WindowOracle

XSD = "http://www.w3.org/2001/XMLSchema#"
EX = "<http://ex/{}>".format
WIDTH, SLIDE = 10, 5
START = 1_704_067_200_000
Answers = dict[tuple[Any, ...], int]


def typed(kind: str, *texts: str) -> list[str]:
    return [f'"{text}"^^<{XSD}{kind}>' for text in texts]


def read_time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)


class Kind(NamedTuple):
    """A column type, in Spark and in Arrow; its cells, and the term of each."""

    spark: str
    arrow: Any
    cells: list[tuple[Any, str]]


def make(spark: str, arrow: Any, kind: str, read: Any, *texts: str) -> Kind:
    """Literals of one datatype, each with the value read from its text."""
    return Kind(spark, arrow, [(read(text), *typed(kind, text)) for text in texts])


TEXTS = {
    '"k"': ['"k"', f'"k"^^<{XSD}string>', r'"\u006B"', rf'"\u006b"^^<{XSD}str\u0069ng>'],
    '"a"@en': ['"a"@en', '"a"@EN', '"a"@eN'],
    EX("p1"): [EX("p1"), EX(r"\u00701"), EX(r"p\U00000031")],
    typed("integer", "5")[0]: [*typed("integer", "5", r"\u0035"), rf'"5"^^<{XSD}int\u0065ger>'],
    typed("integer", "05")[0]: typed("integer", "05", r"0\u0035"),
    "_:b": ["_:b"],
}
KINDS = {
    "string": Kind("string", pa.string(), [(c, term) for term, cs in TEXTS.items() for c in cs]),
    "tinyint": make("tinyint", pa.int8(), "integer", int, "-128", "5", "127"),
    "smallint": make("smallint", pa.int16(), "integer", int, "-300", "5", "300"),
    "int": make("int", pa.int32(), "integer", int, "-1", "5", "1073741824"),
    "bigint": make("bigint", pa.int64(), "integer", int, str(-(1 << 63)), "5", str((1 << 63) - 1)),
    "float": make("float", pa.float32(), "float", float, "1.0E-1", "-0.0E0", "0.0E0", "NaN"),
    "double": make("double", pa.float64(), "double", float, "1.0E-1", "-0.0E0", "0.0E0", "1.5E300"),
    "boolean": make("boolean", pa.bool_(), "boolean", "true".__eq__, "true", "false"),
    "decimal": make("decimal(9,2)", pa.decimal128(9, 2), "decimal", Decimal, "1.25", "-7.31"),
    "date": make("date", pa.date32(), "date", date.fromisoformat, "1969-12-31", "2024-02-29"),
    "timestamp": make(
        "timestamp", pa.timestamp("us", "UTC"), "dateTime", datetime.fromisoformat,
        "2024-03-31T01:30:00Z", "2024-07-01T00:00:00.25Z", "1850-01-01T00:00:00Z",
    ),
    "timestamp_ntz": make(
        "timestamp_ntz", pa.timestamp("us"), "dateTime", datetime.fromisoformat,
        "2024-03-31T02:30:00", "2024-07-01T00:00:00.000001",
    ),
}  # fmt: skip
LABELS = {EX("p"): [EX("p"), EX(r"\u0070")], EX("q"): [EX("q"), EX(r"\U00000071")]}
#: Spellings of a time in milliseconds and of a sign.
TIMES = {
    "bigint": ("bigint", pa.int64(), lambda time: time),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC"), read_time),
    "timestamp_ntz": (
        "timestamp_ntz", pa.timestamp("us"), lambda time: read_time(time).replace(tzinfo=None),
    ),
    "string": ("string", pa.string(), lambda time: read_time(time).isoformat()),
}  # fmt: skip
SIGNS = {
    "string": ("string", pa.string(), lambda sign: sign),
    "tinyint": ("tinyint", pa.int8(), lambda sign: 1 if sign == "+" else -1),
}


class Columns(NamedTuple):
    """The column types of a stream, by the names above."""

    subject: str
    object: str
    time: str = "bigint"
    op: str = "string"

    @property
    def schema(self) -> str:
        kinds = [TIMES[self.time][0], SIGNS[self.op][0], KINDS[self.subject].spark, "string",
                 KINDS[self.object].spark]  # fmt: skip
        return ", ".join(f"{n} {kind}" for n, kind in zip(NAMES, kinds, strict=True))

    @property
    def arrow(self) -> pa.Schema:
        kinds = [TIMES[self.time][1], SIGNS[self.op][1], KINDS[self.subject].arrow, pa.string(),
                 KINDS[self.object].arrow]  # fmt: skip
        return pa.schema(list(zip(NAMES, kinds, strict=True)))


NAMES = ("time", "op", "subject", "predicate", "object")


class Row(NamedTuple):
    """An event as cells, and its meaning; None if a cell is missing."""

    cells: tuple[Any, ...]
    event: Event | None


def draw_batches(random: Random, columns: Columns, sizes: list[int]) -> list[list[Row]]:
    """Batches of so many rows. A third are deletions, some without a target; some rows are
    malformed.
    """
    now = START
    found = []
    for size in sizes:
        now += 1
        rows = []
        for _ in range(size):
            now += random.choice([0, 0, 1, 2])
            sign = random.choice("++-")
            label = random.choice(list(LABELS))
            ends = [random.choice(KINDS[kind].cells) for kind in (columns.subject, columns.object)]
            (subject, s), (obj, o) = ends
            is_bad = random.random() < 0.05
            cells = (
                TIMES[columns.time][2](now),
                SIGNS[columns.op][2](sign), None if is_bad else subject,
                random.choice(LABELS[label]), obj,
            )  # fmt: skip
            rows.append(Row(cells, None if is_bad else Event(now, sign, (s, label, o))))
        found.append(rows)
    return found


def make_table(columns: Columns, rows: list[Row]) -> pa.Table:
    given = zip(*(row.cells for row in rows), strict=True) if rows else [()] * len(NAMES)
    return pa.table(
        [pa.array(cells, field.type) for cells, field in zip(given, columns.arrow, strict=True)],
        schema=columns.arrow,
    )


def write_files(folder: Path, columns: Columns, batches: list[list[Row]]) -> Path:
    """A file per batch, in the order in which Spark reads them."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(batches):
        path = folder / f"{number:05}.parquet"
        pq.write_table(make_table(columns, rows), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    return folder


def read_stream(session: Any, folder: Path, columns: Columns) -> Any:
    reader = session.readStream.schema(columns.schema).option("maxFilesPerTrigger", 1)
    return reader.option("maxFileAge", "36500d").parquet(str(folder))


class Asked(NamedTuple):
    """A query in the words of `tests.stress.drawing`, and the terms that they denote."""

    text: str
    terms: dict[str, str]

    def write(self, random: Random | None = None) -> str:
        """The text; terms in any of their spellings, or else in the first."""

        def spell(word: re.Match[str]) -> str:
            term = self.terms[word[0]]
            ways = {**TEXTS, **LABELS}.get(term, [term])
            return ways[0] if random is None else random.choice(ways)

        return re.sub(r"<[cp]\d>", spell, self.text)


P, Q = LABELS


#: The oracle uses rdflib, which deviates from SPARQL in these for values of all types.
UNSURE = {"<", ">", "<=", ">=", "+", "*", "IN", "STR("}


def is_sure(pattern: Pattern) -> bool:
    """Whether partitions and the oracle support it, whatever the constants."""
    words = {word for line in pattern.extra for word in line.split()}
    has_labels = all(predicate in drawing.LABELS for _, predicate, _ in pattern.atoms)
    return bool(pattern.head) and has_labels and not words & UNSURE


def draw_queries(random: Random, columns: Columns, count: int = 3) -> dict[str, Asked]:
    """Nearly equal queries that can be partitioned."""
    cells = KINDS[columns.subject].cells + KINDS[columns.object].cells
    constants = [term for _, term in cells if term[0] != "_"]
    terms = dict(zip([*drawing.NODES, *drawing.LABELS], [*random.choices(constants, k=3), P, Q],
                     strict=True))  # fmt: skip
    while True:
        family = related.random_family(random, count)
        if not all(map(is_sure, family)):
            continue
        found = {f"q{n}": Asked(pattern.text, terms) for n, pattern in enumerate(family)}
        parsed = {name: parse(asked.write()) for name, asked in found.items()}
        if all(not lay_out(parsed, partitions).problem for partitions in (2, 3)):
            return found


def expect(
    batches: list[list[Row]], queries: dict[str, Asked], mode: str, is_windowed: bool
) -> Iterator[dict[str, Answers]]:
    """The oracle's answers of each query after each batch."""
    asked = {name: oracle.read_query(query.write()) for name, query in queries.items()}
    windows = WindowOracle([Shape(WIDTH, SLIDE)])
    live: Counter[Any] = Counter()
    for rows in batches:
        events = [row.event for row in rows if row.event is not None]
        if is_windowed:
            windows.push(events)
            for moment in windows.advance(None):
                live = moment.held[0]
        else:
            oracle.apply_batch(live, [(event.sign, *event.triple) for event in events])
        yield {name: oracle.answers(each, live, mode) for name, each in asked.items()}


def make_window(is_windowed: bool) -> Window | None:
    return Window(WIDTH, SLIDE) if is_windowed else None
