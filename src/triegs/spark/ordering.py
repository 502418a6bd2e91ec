"""Files in the order of an input, for a reader that has another order.

Spark's file source takes the files of a directory by the time at which they were written. An input
has them in the order in which they were given, by name inside a directory. So files are linked into
directories of our own, each a run in which both orders agree, and the runs are streamed one after
the other. Files that were written in the order of their names, as a stream of files is, are one
run; to have many is slow, not wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from triegs.errors import InputError
from triegs.inputs.context import Options, find_columns
from triegs.inputs.files import InputFile

#: What Spark is asked to read a format as. It gives texts line by line: cells are read by
#: `triegs.inputs`, so that a malformed record is the same record with Spark and without.
READ_AS = {
    "parquet": "parquet",
    "csv": "text",
    "tsv": "text",
    "jsonl": "text",
    "n-triples": "text",
    "n-quads": "text",
}
#: Digits of a file's place in the input, with which the name of its link starts.
PLACE_DIGITS = 8


class Run(NamedTuple):
    """Files that one streaming query reads: ``columns`` are those of Parquet, theirs by ours."""

    read_as: str
    columns: dict[str, str]
    places: list[int]


def require_readable(files: Iterable[InputFile]) -> None:
    """`InputError` for what Spark does not read."""
    for file in files:
        if file.format not in READ_AS:
            known = ", ".join(READ_AS)
            raise InputError(
                f"{file.name}: Spark does not read {file.format}, it reads {known}; "
                "--engine direct reads all formats",
                file=file.name,
            )
        if file.path is None:
            raise InputError(f"Spark reads files, not {file.name}; --engine direct reads it")
        is_text = READ_AS[file.format] == "text"
        if file.compression != "none" and not (is_text and file.compression == "gzip"):
            raise InputError(
                f"{file.name}: Spark reads text as it is or in gzip, and Parquet packs itself; "
                f"--engine direct reads {file.compression}",
                file=file.name,
            )


def find_runs(files: list[InputFile], options: Options, first: int = 0) -> Iterator[Run]:
    """Runs of files that have one form, and were written one after the other, from one file on.
    Reads footers.
    """
    run: Run | None = None
    shape: object = None
    before = 0.0
    for place, file in enumerate(files[first:], first):
        assert file.path is not None
        read_as = READ_AS[file.format]
        found, columns = _read_shape(file, options) if read_as == "parquet" else (None, {})
        try:
            written = file.path.stat().st_mtime_ns // 1_000_000
        except OSError as error:
            raise InputError(f"{file.name}: {error.strerror}", file=file.name) from None
        if run is None or run.read_as != read_as or found != shape or written <= before:
            if run is not None:
                yield run
            run = Run(read_as, columns, [])
        run.places.append(place)
        shape, before = found, written
    if run is not None:
        yield run


def _read_shape(file: InputFile, options: Options) -> tuple[pa.Schema, dict[str, str]]:
    """The types of our columns in a Parquet file, and how they are called there."""
    try:
        schema = pq.read_schema(file.path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file.name}: {str(error).splitlines()[0]}", file=file.name) from None
    places = find_columns(schema.names, file.name, options)
    columns = {ours: schema.names[number] for ours, number in places.items()}
    kept = pa.schema([schema.field(number) for number in places.values()]).remove_metadata()
    for field in kept:
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            raise InputError(
                f"{file.name}: Spark does not read nanoseconds, of which {field.name!r} is; write "
                "microseconds, or take --engine direct",
                file=file.name,
            )
    return kept, columns


def link_run(run: Run, files: list[InputFile], folder: Path) -> None:
    """A directory with links to the files of a run; a name tells the place in the input."""
    folder.mkdir(parents=True)
    for place in run.places:
        path = files[place].path
        assert path is not None
        ending = ".gz" if files[place].compression == "gzip" else ""
        (folder / f"{place:0{PLACE_DIGITS}}{ending}").symlink_to(path.resolve())
