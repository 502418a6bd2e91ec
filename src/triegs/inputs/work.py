"""What all readers are given: the options, the clock of ticks, the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from triegs.dictionary.arrays import Words
from triegs.errors import InputError
from triegs.inputs.files import InputFile
from triegs.inputs.report import InputReport, Quarantine
from triegs.mapping import Mapping as RowMapping

TERMS = ("subject", "predicate", "object")
COLUMNS = ("time", "op", *TERMS, "id")


class TermReading(StrEnum):
    """What the text of a cell is."""

    NTRIPLES = "ntriples"
    PLAIN = "plain"
    INTEGERS = "integers"


@dataclass(frozen=True)
class Options:
    columns: Mapping[str, str]  # by our name, the name in the file
    given: frozenset[str]  # which of ours were mapped by the caller
    terms: TermReading
    prefixes: Mapping[str, str]
    batch_rows: int
    graph_time: str | None  # a property, in N-Triples form
    mapping: RowMapping | None = None  # of rows to triples
    stream: str = ""  # rows of another one have other nodes, also if they have the same ids
    time_unit: str | None = None  # of times that are numbers, if it was said
    delimiter: str | None = None  # of CSV
    encoding: str | None = None  # of CSV and TSV, if it is not UTF-8
    is_timed: bool = False  # whether rows need times


class Clock:
    """Gives each event without a time the next tick."""

    def __init__(self, tick: int) -> None:
        self.tick = tick

    def take(self, count: int) -> Words:
        """So many ticks, one after the other."""
        start = self.tick
        self.tick += count
        return np.arange(start, self.tick)

    def repeat(self, count: int) -> Words:
        """The next tick so many times; it is used up by ``take(1)``."""
        return np.full(count, self.tick)


@dataclass(frozen=True)
class Work:
    options: Options
    clock: Clock
    quarantine: Quarantine
    report: InputReport


# Where to go on in a file: what the reader of its format needs for that, as JSON can write it.
Place: TypeAlias = dict[str, Any]
# A batch of events, and the place behind it.
Found: TypeAlias = tuple[Any, Place]
Reader: TypeAlias = Callable[[InputFile, Work, Place], Iterator[Found]]


def make_insertions(times: Words, terms: list[Any]) -> Any:
    """A record batch of insertions of these terms."""
    ones = pa.array(np.ones(len(times), np.int8))
    return pa.RecordBatch.from_arrays([pa.array(times), ones, *terms], ["time", "op", *TERMS])


def find_columns(names: list[str], file: str, options: Options) -> dict[str, int]:
    """Which of the columns of a file are ours; `InputError` if one is missing or there twice.

    With a mapping those that it reads are under their names in braces.
    """
    if options.mapping is not None:
        return _find_cells(names, file, options, options.mapping)
    return choose_columns(names, file, options.columns, {*TERMS, *options.given})


def choose_columns(
    names: Sequence[str], where: str, columns: Mapping[str, str], needed: Collection[str] = TERMS
) -> dict[str, int]:
    """By our names, the places of the columns that there are: `columns` has theirs by ours.

    `InputError` if one that is needed is missing, or one is there twice. One rule for files, tables
    and DataFrames.

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
            has = ", ".join(names) or "none"
            raise InputError(
                f"{where} has {number} column {theirs!r}; its columns: {has}", file=where,
                columns=tuple(names),
            )  # fmt: skip
    return found


def _find_cells(
    names: list[str], file: str, options: Options, mapping: RowMapping
) -> dict[str, int]:
    """With a mapping: the time by its usual name, op and id only where they are asked for, because
    a table may have columns of these names that mean something else.
    """
    found = {}
    for ours, theirs in options.columns.items():
        is_given = ours in options.given
        count = names.count(theirs)
        if count == 1 and (is_given or ours == "time"):
            found[ours] = names.index(theirs)
        elif is_given:
            number = "more than one" if count else "no"
            has = ", ".join(names) or "none"
            raise InputError(
                f"{file} has {number} column {theirs!r} for {ours}; its columns: {has}", file=file,
                columns=tuple(names),
            )  # fmt: skip
    if options.is_timed and "time" not in found:
        raise refuse_untimed(file, names)
    for name in mapping.columns:
        count = names.count(name)
        if count != 1:
            what = f"{file} has {'more than one' if count else 'no'}"
            raise mapping.refuse_column(name, names, what)
        found[key_cell(name)] = names.index(name)
    return found


def refuse_untimed(file: str, names: list[str]) -> InputError:
    """A window needs the times of rows, and no column has them."""
    has = ", ".join(names) or "none"
    return InputError(
        f"a window needs times, and {file} has no column 'time'; --columns time=NAME (in Python "
        f"columns={{'time': NAME}}) names another one; its columns: {has}",
        file=file,
    )


def key_cell(column: str) -> str:
    """Under which key a column is that a mapping reads.

    >>> key_cell("from")
    '{from}'
    """
    return f"{{{column}}}"
