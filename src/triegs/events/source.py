"""`open_input`, and the `Source` of batches that it returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from triegs.closing import Closing
from triegs.errors import InputError
from triegs.events.context import (
    COLUMNS,
    Clock,
    FilePosition,
    Options,
    ReadBatch,
    ReadContext,
    Reader,
    TermReading,
)
from triegs.events.documents import read_documents
from triegs.events.files import InputFile, InputLike, list_files
from triegs.events.frames import read_frames
from triegs.events.json_lines import read_json_lines
from triegs.events.mapped import read_mapping, require_columns
from triegs.events.mapping.rows import count_rows
from triegs.events.report import InputReport, Quarantine
from triegs.events.resume import choose_files, measure, name_files
from triegs.events.separated import read_separated
from triegs.events.statements import read_statements
from triegs.events.streams import BrokenFile
from triegs.events.tables import read_arrow, read_parquet
from triegs.events.time_units import check_unit
from triegs.terms.term import canonical_term, iri

BATCH_ROWS = 65_536
READERS: dict[str, Reader] = {
    "csv": read_separated,
    "tsv": read_separated,
    "jsonl": read_json_lines,
    "parquet": read_parquet,
    "arrow": read_arrow,
    "n-triples": read_statements,
    "n-quads": read_statements,
    "turtle": read_documents,
    "trig": read_documents,
    "rdf-xml": read_documents,
    "jelly": read_frames,
}
WITH_GRAPHS = ("n-quads", "trig")


class Source(Closing):
    """An iterator over the event batches of an input; can be read once.

    ``report`` counts what was read so far. ``position`` is the position after the last batch: pass
    it to `open_input` as ``start`` to resume from there, in this or another process. ``entries``
    records the progress in each file, and ``began`` where the last batch began.
    """

    def __init__(
        self,
        files: list[InputFile],
        skipped: list[str],
        context: ReadContext,
        position: dict[str, Any],
    ) -> None:
        self.report = context.report
        self.report.skipped += skipped
        self.position = position
        self.entries: dict[str, dict[str, Any]] = {}
        self.began: dict[str, Any] = {}
        names = position.get("names")
        self._names: list[str | None] = name_files(files) if names is None else names
        positions: list[FilePosition] = position.get("places") or [{} for _ in files]
        self._first = _find_start(files, position)
        if started := position.get("place"):
            positions[self._first] = started
        self._positions = positions
        self._files = files
        self._context = context
        self._batches = self._read()

    def __iter__(self) -> Iterator[Any]:
        return self._batches

    def __next__(self) -> Any:
        return next(self._batches)

    def _read(self) -> Iterator[Any]:
        try:
            for number in range(self._first, len(self._files)):
                yield from self._read_file(number)
        finally:
            self._context.quarantine.close()

    def _read_file(self, number: int) -> Iterator[Any]:
        file, name = self._files[number], self._names[number]
        position = self._positions[number]
        self.report.files.append(file.name)
        skip = position.get("skip", 0)
        quarantined = position.get("aside", 0)
        if "events" in position and self._context.options.graph_time is None:
            # The file is read again from its start.
            self._context.quarantine.skip_counted(quarantined)
        counted = self._count_quarantined() - quarantined
        self._move(number, position)
        self._begin(name, position)
        try:
            for batch, after in self._read_records(file, position):
                self.report.read += count_rows(batch)
                self._move(number, {**after, "aside": self._count_quarantined() - counted})
                self._context.quarantine.flush()
                skipped = min(skip, batch.num_rows)
                skip -= skipped
                if skipped < batch.num_rows:
                    batch = batch.slice(skipped)
                    self.report.events += count_rows(batch)
                    yield batch
                left = {"skip": skip} if skip else {}
                self._begin(name, {**self.position["place"], **left})
            self._enter(number, is_whole=True)
        except BrokenFile as problem:
            self._context.quarantine.add_break(file.name, str(problem))

    def _read_records(self, file: InputFile, position: FilePosition) -> Iterator[ReadBatch]:
        return READERS[file.format](file, self._context, position)

    def _move(self, number: int, position: FilePosition) -> None:
        self.position = {
            "file": self._files[number].name,
            "number": number,
            "place": position,
            "tick": self._context.clock.tick,
        }
        self._enter(number, is_whole=False)

    def _enter(self, number: int, is_whole: bool) -> None:
        name = self._names[number]
        if name is not None:
            size = measure(self._files[number]) or 0
            position = self.position["place"]
            self.entries[name] = {"place": position, "bytes": size, "whole": is_whole}

    def _begin(self, name: str | None, position: FilePosition) -> None:
        """Record where the next batch begins."""
        self.began = {
            "name": name,
            "place": position,
            "tick": self._context.clock.tick,
            "quarantined": dict(self.report.quarantined),
        }

    def _count_quarantined(self) -> int:
        return sum(self.report.quarantined.values())

    def skip_quarantined(self, count: int) -> None:
        """Do not write the next malformed records: the quarantine file already has them."""
        self._context.quarantine.already_written = count

    def close(self) -> None:
        """Close the open files, if any."""
        self._batches.close()  # type: ignore[attr-defined]
        self._context.quarantine.close()


def _find_start(files: list[InputFile], position: Mapping[str, Any]) -> int:
    if not position.get("file"):
        return 0
    names = [file.name for file in files]
    number: int = position.get("number", 0)
    if number < len(names) and names[number] == position["file"]:
        return number  # a path may be given twice
    if position["file"] not in names:
        raise InputError(f"cannot resume: {position['file']} is not a file of this input")
    return names.index(position["file"])


def open_input(
    given: InputLike | Iterable[InputLike],
    *,
    format: str | None = None,  # noqa: A002
    compression: str | None = None,
    columns: Mapping[str, str] | None = None,
    terms: str = "ntriples",
    prefixes: Mapping[str, str] | None = None,
    strict: bool = False,
    quarantine: str | os.PathLike[str] | None = None,
    batch_rows: int = BATCH_ROWS,
    graph_time: str | None = None,
    map: str | Iterable[str] | None = None,  # noqa: A002
    base: str | None = None,
    stream: str | None = None,
    time_unit: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    is_timed: bool = False,
    start: Mapping[str, Any] | None = None,
    start_time: int = 0,
    make: Callable[[list[InputFile], list[str], ReadContext, dict[str, Any]], Source] = Source,
) -> Source:
    r"""Read event batches from paths, directories, open binary files, or ``"-"``.

    Each batch is a ``pyarrow.RecordBatch`` of up to ``batch_rows`` events in input order, with the
    columns ``time`` (int64, milliseconds since 1970), ``op`` (int8, 1 or -1), ``subject``,
    ``predicate``, ``object`` (strings in N-Triples form, dictionaries of them, or integers), and
    ``id`` if the input has ids. Malformed records are counted in ``report`` and written to the file
    ``quarantine``; with ``strict`` they raise `triegs.InputError`, as errors that affect the whole
    input always do. ``docs/inputs.md`` describes the formats and options. ``make`` creates the
    source; `triegs.spark` uses it to read files through Spark.

    With ``map``, rows become triples by templates over their columns; see
    `triegs.events.mapping.parser`. ``columns`` then renames only ``time``, ``op`` and ``id``, cells
    become IRIs under ``base``, and ``stream`` keeps the ``[]`` nodes of different streams apart.
    The triples of a row are adjacent; if there may be several, the column ``triegs_same_row`` marks
    all but the first. ``time_unit`` is the unit of numeric times: ``"s"``, ``"ms"``, ``"us"`` or
    ``"ns"``. ``delimiter`` and ``encoding`` apply to CSV. With ``is_timed``, a table without a time
    column raises `triegs.InputError`.

    Memory is bounded by the size of a batch and the longest record.

    >>> from io import BytesIO
    >>> text = b"time,subject,predicate,object\n7,<a:a>,<a:p>,<a:b>\n8,a,<a:p>,<a:b>\n"
    >>> source = open_input(BytesIO(text), format="csv")
    >>> [batch.to_pydict() for batch in source]
    [{'time': [7], 'op': [1], 'subject': ['<a:a>'], 'predicate': ['<a:p>'], 'object': ['<a:b>']}]
    >>> source.report.read, source.report.events, dict(source.report.quarantined)
    (2, 1, {'bad term': 1})
    """
    mapped = dict(columns or {})
    if unknown := mapped.keys() - set(COLUMNS):
        raise InputError(
            f"unknown column {min(unknown)!r}; the event columns are {', '.join(COLUMNS)}",
            option="columns",
        )
    try:
        reading = TermReading(terms)
    except ValueError:
        known = ", ".join(TermReading)
        raise InputError(f"terms must be one of {known}, not {terms!r}") from None
    if batch_rows < 1:
        raise InputError(f"batch_rows must be at least 1, not {batch_rows}")
    mapping = read_mapping(map, base, prefixes, mapped)
    files, skipped = list_files(given, format, compression)
    for file in files:
        require_columns(file, mapping is not None, delimiter, encoding)
    if graph_time is not None:
        for file in files:
            if file.format not in WITH_GRAPHS:
                raise InputError(
                    f"{file.name}: graph_time requires N-Quads or TriG",
                    file=file.name,
                    option="graph_time",
                )
        graph_time = _read_property(graph_time)
    position = dict(start or {})
    options = Options(
        columns={name: mapped.get(name, name) for name in COLUMNS},
        given=frozenset(mapped),
        terms=reading,
        prefixes=dict(prefixes or {}),
        batch_rows=batch_rows,
        graph_time=graph_time,
        mapping=mapping,
        stream=stream or "",
        time_unit=check_unit(time_unit),
        delimiter=delimiter,
        encoding=encoding,
        is_timed=is_timed,
    )
    report = InputReport()
    path = None if quarantine is None else Path(quarantine)
    context = ReadContext(
        options,
        Clock(position.get("tick", start_time)),
        Quarantine(report, path, strict, append=bool(position)),
        report,
    )
    if "files" in position:
        begun = choose_files(files, position.pop("files"))
        files = [each.file for each in begun]
        position["names"] = [each.key for each in begun]
        position["places"] = [each.position for each in begun]
        report.quarantined.update(position.pop("quarantined", {}))
    return make(files, skipped, context, position)


def _read_property(text: str) -> str:
    try:
        return canonical_term(text) if text.startswith("<") else iri(text)
    except ValueError as problem:
        raise InputError(f"graph_time: {problem}", option="graph_time") from None
