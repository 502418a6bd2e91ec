"""Text output: assembles rows from columns of distinct texts, without Python objects per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from triegs.outputs.result_batch import (
    ANSWER,
    Head,
    Kind,
    Multiplicity,
    ResultBatch,
    TermText,
    arrange,
    pick_name,
)
from triegs.outputs.texts import (
    Spell,
    join,
    keep_ntriples,
    quote_csv,
    quote_json,
    spell_names,
    spell_short,
)


class Cells(NamedTuple):
    """A column: distinct texts, and the index of each row's text."""

    texts: Any
    indices: Any


class Speller:
    """Formats the terms of a column batch by batch.

    If a dictionary continues the previous one, its known terms are not formatted again.

    >>> speller = Speller(spell_names(""), "-")
    >>> cells = speller.spell(pa.array(["<a:b>", None]).dictionary_encode())
    >>> cells.texts.take(cells.indices).to_pylist()
    ['a:b', '-']
    """

    def __init__(self, spell: Spell, unbound: str = "") -> None:
        self._spell = spell
        self._unbound = unbound
        self._terms: Any = pa.nulls(0, pa.string())  # see `triegs.terms.decoder`
        self._texts: Any = pa.array([unbound], pa.string())

    def spell(self, column: Any) -> Cells:
        """The texts of a dictionary column; the last one stands for unbound."""
        terms = column.dictionary
        known = len(self._terms)
        if len(terms) < known or not terms.slice(0, known).equals(self._terms):
            known = 0
            self._texts = self._texts.slice(len(self._texts) - 1)
        if len(terms) > known:
            fresh = self._spell(terms.slice(known)).cast(pa.string())
            self._texts = pa.concat_arrays(
                [self._texts.slice(0, known), fresh, pa.array([self._unbound], pa.string())]
            )
        self._terms = terms
        indices = column.indices
        return Cells(self._texts, indices.fill_null(len(terms)) if indices.null_count else indices)


def spell_numbers(column: Any, form: Spell | None = None) -> Cells:
    """The cells of a numeric column."""
    coded = column.dictionary_encode()
    texts = coded.dictionary.cast(pa.string())
    return Cells(texts if form is None else form(texts), coded.indices)


def join_rows(cells: Sequence[Cells], between: Sequence[str], rows: int) -> Any:
    """An Arrow array with a text per row: the cells, and the texts `between` and around them.

    >>> letters = pa.array(["a", "b"])
    >>> join_rows([Cells(letters, pa.array([0, 1]))], ["<", ">"], 2).to_pylist()
    ['<a>', '<b>']
    """
    if not cells:
        return pa.repeat(between[0], rows)
    columns = []
    # The surrounding text is added to the distinct texts, of which there are fewer than rows.
    for number, (texts, indices) in enumerate(cells):
        after = between[-1] if number == len(cells) - 1 else ""
        columns.append(join(between[number], texts, after).take(indices))
    return columns[0] if len(columns) == 1 else join(*columns)


def write_rows(sink: BinaryIO, rows: Any, skip: int = 0) -> None:
    """Write the texts of all rows at once, without the first ``skip`` bytes."""
    if isinstance(rows, pa.ChunkedArray):
        for chunk in rows.chunks:
            write_rows(sink, chunk, skip)
            skip = 0
        return
    if not len(rows):
        return
    _, offsets, data = rows.buffers()
    ends = memoryview(offsets).cast("i")
    start, stop = ends[rows.offset], ends[rows.offset + len(rows)]
    sink.write(memoryview(data)[start + skip : stop])


SPELLINGS: dict[TermText, Callable[[Head], Spell]] = {
    TermText.NTRIPLES: lambda _: keep_ntriples,
    TermText.PLAIN: lambda head: spell_names(head.base),
    TermText.SHORT: lambda head: spell_short(head.prefixes),
}


class Columns(NamedTuple):
    """Names of the additional columns of a tabular format; empty if not written."""

    epoch: str
    time: str
    query: str
    multiplicity: str
    change: str


def name_columns(head: Head, *, stamps: bool, query: bool, multiplicity: Multiplicity) -> Columns:
    """
    >>> head = Head("q", ("x", "epoch"))
    >>> name_columns(head, stamps=True, query=False, multiplicity=Multiplicity.COLUMN)
    Columns(epoch='epoch_', time='time', query='', multiplicity='multiplicity', change='')
    """
    counts = Kind.SNAPSHOT in head.kinds and multiplicity is Multiplicity.COLUMN and not head.is_ask
    wanted = {
        "epoch": stamps,
        "time": stamps,
        "query": query,
        "multiplicity": counts,
        "change": Kind.CHANGES in head.kinds and not head.is_ask,
    }
    return Columns(**{n: pick_name(n, head.names) if on else "" for n, on in wanted.items()})


class LineWriter:
    """Common base of CSV and JSON lines: one row per line."""

    start, end, unbound = "", "\n", ""

    def __init__(
        self,
        sink: BinaryIO,
        head: Head,
        columns: Columns,
        multiplicity: Multiplicity,
        terms: TermText,
    ) -> None:
        self.sink = sink
        self.head = head
        self.columns = columns
        self.multiplicity = multiplicity
        self.values = [ANSWER] if head.is_ask else list(head.names)
        self.query = self.quote(pa.array([head.query]))[0].as_py()
        spell = SPELLINGS[terms](head)
        # An empty line in CSV would not be a row.
        is_alone = len(head.names) == 1 and not any(columns)
        unbound = self.unbound or ('""' if is_alone else "")
        self.spellers = [
            Speller(lambda terms: self.quote(spell(terms)), unbound) for _ in head.names
        ]

    def quote(self, texts: Any) -> Any:
        raise NotImplementedError

    def label(self, name: str) -> str:
        """The text before a value of that column."""
        raise NotImplementedError

    def write(self, result: ResultBatch) -> int:
        """Write the rows of a result batch; returns their number."""
        written = 0
        between = self._between(result)
        for batch in arrange(result, self.head, self.multiplicity):
            rows = join_rows(self._spell(batch, len(between) - 1), between, batch.num_rows)
            write_rows(self.sink, rows)
            written += batch.num_rows
        return written

    def _between(self, result: ResultBatch) -> list[str]:
        """The texts before, between and after the cells, constant within a result batch."""
        texts = [self.start]
        for number, (name, text) in enumerate(self._fields(result)):
            texts[-1] += ("," if number else "") + self.label(name)
            if text is None:
                texts.append("")
            else:
                texts[-1] += text
        texts[-1] += self.end
        return texts

    def _fields(self, result: ResultBatch) -> list[tuple[str, str | None]]:
        """The columns by name, each with its constant text, or None for cells that vary.

        If snapshots and changes are both written, a row has one of the two counts.
        """
        epoch, time, query, multiplicity, change = self.columns
        is_snapshot = result.kind is Kind.SNAPSHOT
        fields: list[tuple[str, str | None]] = [
            (epoch, str(result.epoch)),
            (time, self.unbound if result.time is None else str(result.time)),
            (query, self.query),
            *((name, None) for name in self.values),
            (multiplicity, None if is_snapshot else self.unbound),
            (change, self.unbound if is_snapshot else None),
        ]
        return [field for field in fields if field[0]]

    def _spell(self, batch: pa.RecordBatch, cells: int) -> list[Cells]:
        if self.head.is_ask:
            return [spell_numbers(batch.column(0))]
        found = [
            speller.spell(column)
            for speller, column in zip(self.spellers, batch.columns, strict=False)
        ]
        if len(found) < cells:
            found.append(spell_numbers(batch.column(batch.num_columns - 1)))
        return found

    def close(self) -> None:
        """Nothing follows the last line."""


class CsvWriter(LineWriter):
    """Comma-separated values with a header, in UTF-8, with LF line ends."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        epoch, time, query, *counts = self.columns
        names = [name for name in (epoch, time, query, *self.values, *counts) if name]
        if not self.sink.tell():  # else it continues an existing file
            self.sink.write(",".join(quote_csv(pa.array(names)).to_pylist()).encode() + b"\n")

    def quote(self, texts: Any) -> Any:
        return quote_csv(texts)

    def label(self, name: str) -> str:  # noqa: ARG002
        return ""


class JsonLinesWriter(LineWriter):
    """One JSON object per line, all with the same members."""

    start, end, unbound = "{", "}\n", "null"

    def quote(self, texts: Any) -> Any:
        return quote_json(texts)

    def label(self, name: str) -> str:
        return f"{quote_json(pa.array([name]))[0].as_py()}:"
