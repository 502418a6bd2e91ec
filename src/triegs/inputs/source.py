"""Open an input: `open_input`, and the `Source` of batches that it gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from triegs.errors import InputError
from triegs.inputs.documents import read_documents
from triegs.inputs.files import Given, InputFile, list_files
from triegs.inputs.frames import read_frames
from triegs.inputs.json_lines import read_json_lines
from triegs.inputs.mapped import read_mapping, require_columns
from triegs.inputs.report import InputReport, Quarantine
from triegs.inputs.resuming import choose_files, measure, name_files
from triegs.inputs.separated import read_separated
from triegs.inputs.statements import read_statements
from triegs.inputs.streams import BrokenFile
from triegs.inputs.tables import read_arrow, read_parquet
from triegs.inputs.time_units import check_unit
from triegs.inputs.work import COLUMNS, Clock, Found, Options, Place, Reader, TermReading, Work
from triegs.mapping.rows import count_rows
from triegs.terms import canonical_term, iri

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


class Source:
    """Batches of events of an input, read once, from the first to the last.

    ``report`` counts what was read so far. ``position`` is the place behind the last batch: give it
    to `open_input` as ``start`` to go on from there, in this process or another. ``entries`` says
    of each file of this reading how far it was read, and ``began`` where the last batch began.
    """

    def __init__(
        self, files: list[InputFile], skipped: list[str], work: Work, position: dict[str, Any]
    ) -> None:
        self.report = work.report
        self.report.skipped += skipped
        self.position = position
        self.entries: dict[str, dict[str, Any]] = {}
        self.began: dict[str, Any] = {}
        names = position.get("names")
        self._names: list[str | None] = name_files(files) if names is None else names
        places: list[Place] = position.get("places") or [{} for _ in files]
        self._first = _find_start(files, position)
        if place := position.get("place"):
            places[self._first] = place
        self._places = places
        self._files = files
        self._work = work
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
            self._work.quarantine.close()

    def _read_file(self, number: int) -> Iterator[Any]:
        file, name, place = self._files[number], self._names[number], self._places[number]
        self.report.files.append(file.name)
        skip = place.get("skip", 0)
        set_aside = place.get("aside", 0)
        if "events" in place and self._work.options.graph_time is None:
            self._work.quarantine.pass_over(set_aside)  # the file is read again up to the place
        counted = self._count_aside() - set_aside
        self._move(number, place)
        self._begin(name, place)
        try:
            for batch, behind in self._read_records(file, place):
                self.report.read += count_rows(batch)
                self._move(number, {**behind, "aside": self._count_aside() - counted})
                self._work.quarantine.flush()
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
            self._work.quarantine.add_break(file.name, str(problem))

    def _read_records(self, file: InputFile, place: Place) -> Iterator[Found]:
        return READERS[file.format](file, self._work, place)

    def _move(self, number: int, place: Place) -> None:
        self.position = {
            "file": self._files[number].name,
            "number": number,
            "place": place,
            "tick": self._work.clock.tick,
        }

        self._enter(number, is_whole=False)

    def _enter(self, number: int, is_whole: bool) -> None:
        name = self._names[number]
        if name is not None:
            size = measure(self._files[number]) or 0
            place = self.position["place"]
            self.entries[name] = {"place": place, "bytes": size, "whole": is_whole}

    def _begin(self, name: str | None, place: Place) -> None:
        """The next batch begins here."""
        self.began = {
            "name": name,
            "place": place,
            "tick": self._work.clock.tick,
            "quarantined": dict(self.report.quarantined),
        }

    def _count_aside(self) -> int:
        return sum(self.report.quarantined.values())

    def pass_told(self, count: int) -> None:
        """The next so many malformed records are in the quarantine file already."""
        self._work.quarantine.told = count

    def close(self) -> None:
        """Close files that are open; a source that was read to its end has none."""
        self._batches.close()  # type: ignore[attr-defined]
        self._work.quarantine.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _find_start(files: list[InputFile], position: Mapping[str, Any]) -> int:
    if not position.get("file"):
        return 0
    names = [file.name for file in files]
    number: int = position.get("number", 0)
    if number < len(names) and names[number] == position["file"]:
        return number  # the same path may be given twice
    if position["file"] not in names:
        raise InputError(f"cannot go on in {position['file']}: it is no file of this input")
    return names.index(position["file"])


def open_input(
    given: Given | Iterable[Given],
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
    make: Callable[[list[InputFile], list[str], Work, dict[str, Any]], Source] = Source,
) -> Source:
    r"""Batches of events from files: paths, directories, open binary files, or ``"-"``.

    Each batch is a ``pyarrow.RecordBatch`` of up to ``batch_rows`` events in the input's order,
    with the columns ``time`` (int64, milliseconds since 1970), ``op`` (int8, 1 or -1), ``subject``,
    ``predicate``, ``object`` (strings in N-Triples form, dictionaries of them, or integers), and
    ``id`` if the input has ids. A malformed record is counted in ``report`` and written to the file
    ``quarantine``; with ``strict`` it raises `triegs.InputError`, as what is wrong with the whole
    input always does. ``docs/inputs.md`` has formats and options; ``make`` is for sources that have
    their files read by others, as `triegs.spark` does.

    With ``map`` rows become triples by templates over their columns, see `triegs.mapping.parser`:
    then ``columns`` names those of ``time``, ``op`` and ``id``, cells name IRIs of ``base``, the
    triples of a row stand together, marked by the column ``triegs_same_row`` if there may be
    several, and ``stream`` keeps the nodes ``[]`` of one stream apart from those of others.
    ``time_unit`` says what times count that are numbers: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.
    ``delimiter`` and ``encoding`` are for CSV. With ``is_timed`` a table without a column for time
    raises `triegs.InputError`.

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
        raise InputError(f"there is no column {min(unknown)!r}; ours are {', '.join(COLUMNS)}")
    try:
        reading = TermReading(terms)
    except ValueError:
        known = ", ".join(TermReading)
        raise InputError(f"terms are one of {known}; {terms!r} is none") from None
    if batch_rows < 1:
        raise InputError(f"a batch has at least one row, not {batch_rows}")
    mapping = read_mapping(map, base, prefixes, mapped)
    files, skipped = list_files(given, format, compression)
    for file in files:
        require_columns(file, mapping is not None, delimiter, encoding)
    if graph_time is not None:
        for file in files:
            if file.format not in WITH_GRAPHS:
                raise InputError(f"{file.name}: graph_time needs N-Quads or TriG", file=file.name)
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
    work = Work(
        options,
        Clock(position.get("tick", start_time)),
        Quarantine(report, path, strict, append=bool(position)),
        report,
    )
    if "files" in position:
        begun = choose_files(files, position.pop("files"))
        files = [each.file for each in begun]
        position["names"] = [each.key for each in begun]
        position["places"] = [each.place for each in begun]
        report.quarantined.update(position.pop("quarantined", {}))
    return make(files, skipped, work, position)


def _read_property(text: str) -> str:
    try:
        return canonical_term(text) if text.startswith("<") else iri(text)
    except ValueError as problem:
        raise InputError(f"graph_time: {problem}") from None
