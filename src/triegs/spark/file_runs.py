"""Files in input order, for a reader with a different order.

Spark's file source orders the files of a directory by modification time. An input has them as
given, and by name inside a directory. So files are linked into directories of our own, each a run
in which both orders agree, and the runs are streamed one after the other. Files written in name
order, as a stream of files is, make one run; many runs are slow, but correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from triegs.errors import InputError
from triegs.events.context import Options, find_columns
from triegs.events.files import InputFile

#: How Spark reads a format. It returns text line by line, and `triegs.events` reads the cells, so
#: that a malformed record is the same with and without Spark.
READ_AS = {
    "parquet": "parquet",
    "csv": "text",
    "tsv": "text",
    "jsonl": "text",
    "n-triples": "text",
    "n-quads": "text",
}
#: Digits of a file's index in the input, at the start of its link's name.
INDEX_DIGITS = 8


class Run(NamedTuple):
    """Files that one streaming query reads; ``columns`` maps our names to those in Parquet."""

    read_as: str
    columns: dict[str, str]
    indexes: list[int]


def require_readable(files: Iterable[InputFile]) -> None:
    """`InputError` for files that Spark cannot read."""
    for file in files:
        if file.format not in READ_AS:
            known = ", ".join(READ_AS)
            raise InputError(
                f"{file.name}: Spark cannot read {file.format}, only {known}; --engine direct "
                "reads all formats",
                file=file.name,
            )
        if file.path is None:
            raise InputError(f"Spark reads only files, not {file.name}; use --engine direct")
        is_text = READ_AS[file.format] == "text"
        if file.compression != "none" and not (is_text and file.compression == "gzip"):
            raise InputError(
                f"{file.name}: Spark reads only plain or gzip text, and Parquet without further "
                f"compression; --engine direct reads {file.compression}",
                file=file.name,
            )


def find_runs(files: list[InputFile], options: Options, first: int = 0) -> Iterator[Run]:
    """Runs of files with one schema, in the order of modification times, from file `first` on.
    Reads footers.
    """
    run: Run | None = None
    shape: object = None
    before = 0.0
    for index, file in enumerate(files[first:], first):
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
        run.indexes.append(index)
        shape, before = found, written
    if run is not None:
        yield run


def _read_shape(file: InputFile, options: Options) -> tuple[pa.Schema, dict[str, str]]:
    """The types of our columns in a Parquet file, and their names there."""
    try:
        schema = pq.read_schema(file.path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file.name}: {str(error).splitlines()[0]}", file=file.name) from None
    indexes = find_columns(schema.names, file.name, options)
    columns = {ours: schema.names[number] for ours, number in indexes.items()}
    kept = pa.schema([schema.field(number) for number in indexes.values()]).remove_metadata()
    for field in kept:
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            raise InputError(
                f"{file.name}: Spark cannot read the nanoseconds in {field.name!r}; write "
                "microseconds, or use --engine direct",
                file=file.name,
            )
    return kept, columns


def link_run(run: Run, files: list[InputFile], folder: Path) -> None:
    """Make a directory with links to the files of a run; link names contain the input index."""
    folder.mkdir(parents=True)
    for index in run.indexes:
        path = files[index].path
        assert path is not None
        ending = ".gz" if files[index].compression == "gzip" else ""
        (folder / f"{index:0{INDEX_DIGITS}}{ending}").symlink_to(path.resolve())
