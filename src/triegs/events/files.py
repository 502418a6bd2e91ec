"""The files of an input, in order, with format and compression.

Both follow from the file name: ``events.csv.gz`` is gzipped CSV. Options override the name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, TypeAlias

from triegs.errors import InputError
from triegs.events.streams import (
    UTF8_MARK,
    BrokenFile,
    drop_mark,
    open_standard_input,
    read_chunks,
    skip_bytes,
)

InputLike: TypeAlias = "str | os.PathLike[str] | IO[bytes]"

STANDARD_INPUT = "-"
# Formats by file name extension.
ENDINGS = {
    "csv": "csv",
    "tsv": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "parquet": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "ipc": "arrow",
    "feather": "arrow",
    "nt": "n-triples",
    "nq": "n-quads",
    "ttl": "turtle",
    "trig": "trig",
    "rdf": "rdf-xml",
    "jelly": "jelly",
}
FORMATS = tuple(dict.fromkeys(ENDINGS.values()))
COMPRESSIONS = {"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd", "none": "none"}


@dataclass(frozen=True)
class InputFile:
    """One file of an input.

    ``name`` is used in messages; ``scope`` keeps its blank nodes apart from those of other files.
    """

    name: str
    given: InputLike
    format: str
    compression: str
    #: Identifies an open file. Random, because the engine's state may outlive the process.
    mark: str = field(default_factory=lambda: token_hex(8), compare=False, repr=False, kw_only=True)

    @property
    def path(self) -> Path | None:
        """The path, or None for standard input and open files."""
        is_path = isinstance(self.given, str | os.PathLike) and self.given != STANDARD_INPUT
        return Path(self.given) if is_path else None  # type: ignore[arg-type]

    @property
    def is_seekable(self) -> bool:
        return self.path is not None and self.compression == "none"

    @property
    def is_lasting(self) -> bool:
        """Whether a later run can find it again by its scope."""
        return self.path is not None or hasattr(self.given, "scope")

    @property
    def scope(self) -> str:
        if self.path is not None:
            return str(self.path.resolve())
        if self.is_lasting:
            return str(self.given.scope)  # type: ignore[union-attr]
        return self.name if self.given == STANDARD_INPUT else f"{self.name} {self.mark}"

    @property
    def row_scope(self) -> str:
        """Identifies the rows of this input, even where it has no path."""
        return self.scope if self.is_lasting else f"{self.name} {self.mark}"

    @contextmanager
    def open_packed(self) -> Iterator[IO[bytes]]:
        """The raw file; `BrokenFile` if it cannot be opened."""
        if self.path is None:
            is_standard = self.given == STANDARD_INPUT
            yield open_standard_input() if is_standard else self.given  # type: ignore[misc]
            return
        try:
            file = self.path.open("rb")
        except OSError as problem:
            raise BrokenFile(problem.strerror or str(problem)) from None
        with file:
            yield file

    @contextmanager
    def open_bytes(self) -> Iterator[Iterator[bytes]]:
        """The decompressed bytes in chunks."""
        with self.open_packed() as file:
            yield read_chunks(file, self.compression)

    @contextmanager
    def open_text(self, offset: int = 0) -> Iterator[Iterator[bytes]]:
        """The bytes of a text file from an offset, which does not count a byte order mark.

        Cost: O(1), or linear in the offset if the file is compressed.
        """
        with self.open_packed() as file:
            if offset and self.is_lasting and self.compression == "none":
                marked = file.read(len(UTF8_MARK)) == UTF8_MARK
                file.seek(offset + marked * len(UTF8_MARK))
                yield read_chunks(file, self.compression)
            else:
                yield skip_bytes(drop_mark(read_chunks(file, self.compression)), offset)


def list_files(
    given: InputLike | Iterable[InputLike], asked: str | None, compression: str | None
) -> tuple[list[InputFile], list[str]]:
    """The files of an input in order, and the directory entries that were skipped.

    >>> [file.format for file in list_files(["a.csv.gz", "b.nt"], None, None)[0]]
    Traceback (most recent call last):
    triegs.errors.InputError: a.csv.gz: no such file or directory
    """
    files: list[InputFile] = []
    skipped: list[str] = []
    many: Iterable[InputLike] = given if _is_many(given) else [given]  # type: ignore[list-item, assignment]
    for one in many:
        if isinstance(one, str | os.PathLike) and one != STANDARD_INPUT:
            path = Path(one)
            if path.is_dir():
                found, others = _list_directory(path, asked, compression)
                files += found
                skipped += others
                continue
            if not path.exists():
                raise InputError(f"{path}: no such file or directory", file=str(path))
            files.append(InputFile(str(path), path, *find_format(str(path), asked, compression)))
        else:
            name = "standard input" if one == STANDARD_INPUT else getattr(one, "name", None)
            name = name if isinstance(name, str) else "the file"
            files.append(InputFile(name, one, *find_format(name, asked, compression)))
    if not files:
        raise InputError("no input was given")
    return files, skipped


def _is_many(given: Any) -> bool:
    return not isinstance(given, str | os.PathLike) and not hasattr(given, "read")


def _list_directory(
    folder: Path, asked: str | None, compression: str | None
) -> tuple[list[InputFile], list[str]]:
    """Files by name; hidden files and unknown extensions are skipped."""
    files, skipped = [], []
    for path in sorted(folder.iterdir()):
        known = path.is_file() and not path.name.startswith((".", "_"))
        if known and asked is None:
            known = detect_format(path.name)[0] is not None
        if known:
            files.append(InputFile(str(path), path, *find_format(path.name, asked, compression)))
        else:
            skipped.append(str(path))
    if not files:
        endings = ", ".join(f".{ending}" for ending in ENDINGS)
        raise InputError(
            f"{folder} has no file with a known extension: {endings}", file=str(folder)
        )
    return files, skipped


def detect_format(name: str) -> tuple[str | None, str]:
    """Format and compression from a file name; the format is None if unknown.

    >>> detect_format("events.nt.zst"), detect_format("README.md")
    (('n-triples', 'zstd'), (None, 'none'))
    """
    parts = name.lower().split(".")
    compression = "none"
    if len(parts) > 1 and parts[-1] in ("gz", "zst"):
        compression = COMPRESSIONS[parts.pop()]
    return ENDINGS.get(parts[-1]) if len(parts) > 1 else None, compression


def find_format(name: str, asked: str | None, compression: str | None) -> tuple[str, str]:
    """Format and compression from the options, else the name; `InputError` if unknown.

    >>> find_format("events.csv", "nt", "gz")
    ('n-triples', 'gzip')
    >>> find_format("events.txt", None, None)
    Traceback (most recent call last):
    triegs.errors.InputError: events.txt: unknown file extension; give a format: csv, ...
    """
    detected, detected_compression = detect_format(name)
    known = ENDINGS.get(asked, asked) if asked else detected
    if known not in FORMATS:
        wrong = f"unknown format {asked!r}" if asked else "unknown file extension; give a format"
        known_formats = ", ".join(FORMATS)
        raise InputError(
            f"{name}: {wrong}: {known_formats}", file=name, option="input_format" if asked else ""
        )
    if compression is not None and compression not in COMPRESSIONS:
        raise InputError(f"unknown compression {compression!r}; use none, gzip or zstd")
    return known, COMPRESSIONS[compression] if compression else detected_compression
