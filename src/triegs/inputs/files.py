"""Which files an input has, in which order, of which format and compression.

A name tells both: ``events.csv.gz`` is CSV in gzip. Options overrule the name.
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
from triegs.inputs.streams import (
    UTF8_MARK,
    BrokenFile,
    drop_mark,
    open_standard_input,
    read_chunks,
    skip_bytes,
)

Given: TypeAlias = "str | os.PathLike[str] | IO[bytes]"

STANDARD_INPUT = "-"
# Endings of names, without the point, and the format that they tell.
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

    ``name`` is what messages call it, ``scope`` keeps its blank nodes apart from those of others.
    """

    name: str
    given: Given
    format: str
    compression: str
    #: What tells an open file from all others: an engine may outlive the process, and addresses.
    mark: str = field(default_factory=lambda: token_hex(8), compare=False, repr=False, kw_only=True)

    @property
    def path(self) -> Path | None:
        """None for what is no file of its own: standard input, an open file."""
        is_path = isinstance(self.given, str | os.PathLike) and self.given != STANDARD_INPUT
        return Path(self.given) if is_path else None  # type: ignore[arg-type]

    @property
    def is_seekable(self) -> bool:
        return self.path is not None and self.compression == "none"

    @property
    def is_lasting(self) -> bool:
        """Whether it can be found again, by its scope, when it is read again."""
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
        """What tells its rows from those of every other input, also where no file tells it."""
        return self.scope if self.is_lasting else f"{self.name} {self.mark}"

    @contextmanager
    def open_packed(self) -> Iterator[IO[bytes]]:
        """The file as it lies there; `BrokenFile` if it cannot be opened."""
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
        """Its unpacked bytes, chunk by chunk."""
        with self.open_packed() as file:
            yield read_chunks(file, self.compression)

    @contextmanager
    def open_text(self, offset: int = 0) -> Iterator[Iterator[bytes]]:
        """The bytes of a text from some offset on, which does not count a mark before it.

        Linear in the offset if the file is compressed, else O(1).
        """
        with self.open_packed() as file:
            if offset and self.is_lasting and self.compression == "none":
                marked = file.read(len(UTF8_MARK)) == UTF8_MARK
                file.seek(offset + marked * len(UTF8_MARK))
                yield read_chunks(file, self.compression)
            else:
                yield skip_bytes(drop_mark(read_chunks(file, self.compression)), offset)


def list_files(
    given: Given | Iterable[Given], asked: str | None, compression: str | None
) -> tuple[list[InputFile], list[str]]:
    """The files of an input in order, and what directories have that is skipped.

    >>> [file.format for file in list_files(["a.csv.gz", "b.nt"], None, None)[0]]
    Traceback (most recent call last):
    triegs.errors.InputError: a.csv.gz: there is no such file or directory
    """
    files: list[InputFile] = []
    skipped: list[str] = []
    many: Iterable[Given] = given if _is_many(given) else [given]  # type: ignore[list-item, assignment]
    for one in many:
        if isinstance(one, str | os.PathLike) and one != STANDARD_INPUT:
            path = Path(one)
            if path.is_dir():
                found, others = _list_directory(path, asked, compression)
                files += found
                skipped += others
                continue
            if not path.exists():
                raise InputError(f"{path}: there is no such file or directory", file=str(path))
            files.append(InputFile(str(path), path, *find_format(str(path), asked, compression)))
        else:
            name = "standard input" if one == STANDARD_INPUT else getattr(one, "name", None)
            name = name if isinstance(name, str) else "the file"
            files.append(InputFile(name, one, *find_format(name, asked, compression)))
    if not files:
        raise InputError("there is no input")
    return files, skipped


def _is_many(given: Any) -> bool:
    return not isinstance(given, str | os.PathLike) and not hasattr(given, "read")


def _list_directory(
    folder: Path, asked: str | None, compression: str | None
) -> tuple[list[InputFile], list[str]]:
    """Files in the order of their names; what is hidden or has no known ending is skipped."""
    files, skipped = [], []
    for path in sorted(folder.iterdir()):
        known = path.is_file() and not path.name.startswith((".", "_"))
        if known and asked is None:
            known = tell_format(path.name)[0] is not None
        if known:
            files.append(InputFile(str(path), path, *find_format(path.name, asked, compression)))
        else:
            skipped.append(str(path))
    if not files:
        endings = ", ".join(f".{ending}" for ending in ENDINGS)
        raise InputError(f"{folder} has no file with a known ending: {endings}", file=str(folder))
    return files, skipped


def tell_format(name: str) -> tuple[str | None, str]:
    """Format and compression that a name tells; None for a format that it does not tell.

    >>> tell_format("events.nt.zst"), tell_format("README.md")
    (('n-triples', 'zstd'), (None, 'none'))
    """
    parts = name.lower().split(".")
    compression = "none"
    if len(parts) > 1 and parts[-1] in ("gz", "zst"):
        compression = COMPRESSIONS[parts.pop()]
    return ENDINGS.get(parts[-1]) if len(parts) > 1 else None, compression


def find_format(name: str, asked: str | None, compression: str | None) -> tuple[str, str]:
    """Format and compression by options, else by name; `InputError` if neither tells.

    >>> find_format("events.csv", "nt", "gz")
    ('n-triples', 'gzip')
    >>> find_format("events.txt", None, None)
    Traceback (most recent call last):
    triegs.errors.InputError: events.txt: the name does not tell the format; it is one of csv, ...
    """
    told, told_compression = tell_format(name)
    known = ENDINGS.get(asked, asked) if asked else told
    if known not in FORMATS:
        wrong = f"the format {asked!r} is unknown" if asked else "the name does not tell the format"
        raise InputError(f"{name}: {wrong}; it is one of {', '.join(FORMATS)}", file=name)
    if compression is not None and compression not in COMPRESSIONS:
        raise InputError(f"the compression {compression!r} is unknown; it is none, gzip or zstd")
    return known, COMPRESSIONS[compression] if compression else told_compression
