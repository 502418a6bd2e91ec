"""What all readers share: the options, the clock and the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from triegs.errors import InputError
from triegs.events.files import InputFile
from triegs.events.mapping import Mapping as RowMapping
from triegs.events.report import InputReport, Quarantine
from triegs.reasons import list_names
from triegs.terms.arrays import Words

TERMS = ("subject", "predicate", "object")
COLUMNS = ("time", "op", *TERMS, "id")


class TermReading(StrEnum):
    """How the text of a cell is read as a term."""

    NTRIPLES = "ntriples"
    PLAIN = "plain"
    INTEGERS = "integers"


@dataclass(frozen=True)
class Options:
    columns: Mapping[str, str]  # names in the file by event column
    given: frozenset[str]  # event columns named by the caller
    terms: TermReading
    prefixes: Mapping[str, str]
    batch_rows: int
    graph_time: str | None  # a property in N-Triples form
    mapping: RowMapping | None = None  # rows to triples
    stream: str = ""  # separates row nodes with equal ids in different streams
    time_unit: str | None = None  # of numeric times, if given
    delimiter: str | None = None  # of CSV
    encoding: str | None = None  # of CSV and TSV, if not UTF-8
    is_timed: bool = False  # whether rows must have times


class Clock:
    """Assigns ticks to events without a time."""

    def __init__(self, tick: int) -> None:
        self.tick = tick

    def take(self, count: int) -> Words:
        """The next ``count`` ticks."""
        start = self.tick
        self.tick += count
        return np.arange(start, self.tick)

    def repeat(self, count: int) -> Words:
        """The next tick ``count`` times; ``take(1)`` consumes it."""
        return np.full(count, self.tick)


@dataclass(frozen=True)
class ReadContext:
    options: Options
    clock: Clock
    quarantine: Quarantine
    report: InputReport


# A position in a file to resume from: JSON values that the reader of its format defines.
FilePosition: TypeAlias = dict[str, Any]
# A batch of events, and the position after it.
ReadBatch: TypeAlias = tuple[Any, FilePosition]
Reader: TypeAlias = Callable[[InputFile, ReadContext, FilePosition], Iterator[ReadBatch]]


def make_insertions(times: Words, terms: list[Any]) -> Any:
    """A record batch that inserts these terms."""
    ones = pa.array(np.ones(len(times), np.int8))
    return pa.RecordBatch.from_arrays([pa.array(times), ones, *terms], ["time", "op", *TERMS])


def find_columns(names: list[str], file: str, options: Options) -> dict[str, int]:
    """The positions of the event columns in a file; `InputError` if one is missing or ambiguous.

    With a mapping, the columns of its templates are included under `key_cell`.
    """
    if options.mapping is None:
        return choose_columns(names, file, options.columns, {*TERMS, *options.given})
    is_ambiguous = names.count(options.columns["time"]) > 1
    wanted = {
        ours: theirs
        for ours, theirs in list_mapped_columns(options).items()
        if ours in options.given or not is_ambiguous
    }
    found = choose_columns(names, file, wanted, options.given)
    if options.is_timed and "time" not in found:
        raise refuse_untimed(file, names)
    for name in options.mapping.columns:
        count = names.count(name)
        if count != 1:
            what = f"{file} has {'more than one' if count else 'no'}"
            raise options.mapping.refuse_column(name, names, what)
        found[key_cell(name)] = names.index(name)
    return found


def list_mapped_columns(options: Options) -> dict[str, str]:
    """The event columns that are read beside a mapping: the time, and those the caller names.

    Not op and id by default: a table may use these names for something else.
    """
    return {
        ours: theirs
        for ours, theirs in options.columns.items()
        if ours == "time" or ours in options.given
    }


def choose_columns(
    names: Sequence[str], where: str, columns: Mapping[str, str], needed: Collection[str] = TERMS
) -> dict[str, int]:
    """The positions of event columns; `columns` maps them to the names in the table.

    `InputError` if a needed column is missing, or any column is ambiguous. The single rule for
    files, tables and DataFrames.

    >>> choose_columns(["s", "p", "o"], "the table", {"subject": "s", "id": "id"}, ["subject"])
    {'subject': 0}
    """
    found = {}
    for ours, theirs in columns.items():
        count = names.count(theirs)
        if count == 1:
            found[ours] = names.index(theirs)
        elif count or ours in needed:
            number = "more than one" if count else "no"
            purpose = "" if ours == theirs else f" for {ours}"
            has = list_names(names)
            raise InputError(
                f"{where} has {number} column {theirs!r}{purpose}; its columns: {has}",
                file=where,
                columns=tuple(names),
            )
    return found


def refuse_untimed(file: str, names: list[str]) -> InputError:
    """The error for a table without times where a window needs them."""
    has = list_names(names)
    return InputError(
        f"a window needs times, and {file} has no column 'time'; choose another one with "
        f"--columns time=NAME (in Python columns={{'time': NAME}}); its columns: {has}",
        file=file,
    )


def key_cell(column: str) -> str:
    """The key of a column that a mapping reads.

    >>> key_cell("from")
    '{from}'
    """
    return f"{{{column}}}"
