"""Human-readable tables with prefixed names, fitted to the terminal."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import BinaryIO

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triegs.outputs.lines import SPELLINGS, Speller
from triegs.outputs.result_batch import (
    ANSWER,
    Head,
    Kind,
    Multiplicity,
    ResultBatch,
    TermText,
    arrange,
)

#: Times in milliseconds from here on (1973) are shown as dates.
WALL_CLOCK = 100_000_000_000
#: The line width without a terminal.
UNLIMITED = 100_000


class TableWriter:
    """Writes result batches as tables of up to `most_rows` rows (0 for all)."""

    def __init__(
        self,
        sink: BinaryIO,
        head: Head,
        multiplicity: Multiplicity = Multiplicity.COLUMN,
        terms: TermText = TermText.SHORT,
        *,
        most_rows: int = 0,
        width: int | None = None,
        is_coloured: bool = False,
    ) -> None:
        self.sink = sink
        self.head = head
        self.multiplicity = multiplicity
        self.most_rows = most_rows
        self.width = width or UNLIMITED
        self.is_coloured = is_coloured
        self.spellers = [Speller(SPELLINGS[terms](head)) for _ in head.names]

    def write(self, result: ResultBatch) -> int:
        """Write a title and the rows; returns the number of rows shown."""
        rows = self._rows(result)
        shown = list(islice(rows, self.most_rows)) if self.most_rows else list(rows)
        is_cut = bool(self.most_rows) and next(rows, None) is not None
        text = io.StringIO()
        console = Console(
            file=text, width=self.width, force_terminal=self.is_coloured, highlight=False,
            color_system="standard" if self.is_coloured else None, markup=False, emoji=False,
            legacy_windows=False,
        )  # fmt: skip
        title = Text(self.head.query, style="bold")
        title.append(f"  {describe_moment(result.epoch, result.time)}", style="not bold")
        title.append(f"  {self._count(result, shown, is_cut)}", style="not bold dim")
        console.print(title, soft_wrap=True)
        if shown and not self.head.is_ask:
            console.print(self._table(result, shown))
            if is_cut:
                note = f"first {self.most_rows:,} rows; use --rows to show more"
                console.print(note, style="dim", soft_wrap=True)
            console.print()
        elif shown:
            console.print()
        lines = text.getvalue().split("\n")
        self.sink.write("\n".join(line.rstrip() for line in lines).encode())
        return len(shown)

    def _rows(self, result: ResultBatch) -> Iterator[tuple[str, ...]]:
        for batch in arrange(result, self.head, self.multiplicity):
            yield from zip(*self._spell(batch), strict=True)

    def _spell(self, batch: pa.RecordBatch) -> list[list[str]]:
        if self.head.is_ask:
            return [["yes" if verdict else "no" for verdict in batch.column(0).to_pylist()]]
        columns = []
        for speller, column in zip(self.spellers, batch.columns, strict=False):
            texts, indices = speller.spell(column)
            columns.append(texts.take(indices).to_pylist())
        counts = batch.column(batch.num_columns - 1).to_pylist()
        return [*columns, list(map(str, counts))]

    def _table(self, result: ResultBatch, rows: list[tuple[str, ...]]) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="")
        for name in self.head.names:
            table.add_column(name, overflow="fold")
        is_changes = result.kind is Kind.CHANGES
        has_counts = is_changes or self.multiplicity is Multiplicity.COLUMN
        if has_counts:
            name = "change" if is_changes else "multiplicity"
            table.add_column(name, justify="right", no_wrap=True)
        for *values, count in rows:
            cells = [Text(value) for value in values]
            if is_changes:
                sign = "" if count.startswith("-") else "+"
                cells.append(Text(f"{sign}{count}", style="green" if sign else "red"))
            elif has_counts:
                cells.append(Text(count))
            table.add_row(*cells)
        return table

    def _count(self, result: ResultBatch, shown: list[tuple[str, ...]], is_cut: bool) -> str:
        if self.head.is_ask:
            return f"{ANSWER} {shown[0][0]}" if shown else "no change"
        if not shown:
            return "no changes" if result.kind is Kind.CHANGES else "no answers"
        thing = "change" if result.kind is Kind.CHANGES else "answer"
        number = f"more than {self.most_rows:,}" if is_cut else f"{len(shown):,}"
        return f"{number} {thing}" + ("" if len(shown) == 1 and not is_cut else "s")

    def close(self) -> None:
        """Nothing follows the last table."""


def describe_moment(epoch: int, time: int | None) -> str:
    """
    >>> describe_moment(3, 20), describe_moment(3, 1_700_000_000_000)
    ('epoch 3, time 20', 'epoch 3, time 2023-11-14T22:13:20Z')
    """
    if time is None:
        return f"epoch {epoch}"
    return f"epoch {epoch}, time {describe_time(time)}"


def describe_time(time: int) -> str:
    """Milliseconds as a number, or as date and time if they are plausible as such.

    >>> describe_time(20), describe_time(1_700_000_000_500)
    ('20', '2023-11-14T22:13:20.500Z')
    """
    if time < WALL_CLOCK:
        return str(time)
    try:
        moment = datetime.fromtimestamp(time // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(time)
    fraction = f".{time % 1000:03}" if time % 1000 else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def find_width(sink: BinaryIO) -> int | None:
    """The width of the terminal behind a sink; None for unlimited."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sink.fileno()).columns or None
    except (OSError, ValueError):
        return None
