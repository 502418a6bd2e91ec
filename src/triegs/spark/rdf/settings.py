"""The options of ``format("rdf")``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from triegs.errors import InputError
from triegs.events.files import COMPRESSIONS, ENDINGS
from triegs.terms.term import canonical_term, iri

#: The formats of `triegs.events` that are RDF.
FORMATS = ("n-triples", "n-quads", "turtle", "trig", "rdf-xml", "jelly")
BY_LINE = ("n-triples", "n-quads")
WITH_GRAPHS = ("n-quads", "trig")
PARTITION_BYTES = 32 << 20
SEEN_FOLDER = "_rdf_seen"
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_GLOB = re.compile(r"[*?\[]")


class RecordMode(StrEnum):
    """What happens to a malformed record."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


class OnMissing(StrEnum):
    """What a stream does if a file is missing or has changed."""

    FAIL = "fail"
    SKIP = "skip"


Choice = TypeVar("Choice", bound=StrEnum)


@dataclass(frozen=True)
class Settings:
    """Validated options. ``max_…`` are limits of a micro-batch, None for no limit."""

    paths: tuple[str, ...]
    format: str | None = None
    compression: str | None = None
    mode: RecordMode = RecordMode.PERMISSIVE
    graph_time: str | None = None
    partition_bytes: int = PARTITION_BYTES
    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    rate_file: str | None = None
    seen: str | None = None
    on_missing: OnMissing = OnMissing.FAIL

    @property
    def has_limits(self) -> bool:
        limits = (self.max_files, self.max_bytes, self.max_rows, self.rate_file)
        return any(limit is not None for limit in limits)

    @property
    def seen_folder(self) -> Path:
        """Where a stream keeps its file log."""
        if self.seen is not None:
            return Path(self.seen)
        first = self.paths[0]
        folder = split_pattern(first)[0] if is_pattern(first) else Path(first)
        return (folder if folder.is_dir() else folder.parent) / SEEN_FOLDER


def read_settings(options: Mapping[str, str]) -> Settings:
    """The settings from options; `InputError` for an invalid one.

    >>> read_settings({"path": "/data", "maxBytesPerTrigger": "10m"}).max_bytes
    10485760
    >>> read_settings({"path": "/data", "mode": "lenient"})
    Traceback (most recent call last):
    triegs.errors.InputError: mode must be one of PERMISSIVE, DROPMALFORMED, FAILFAST, not 'lenient'
    """
    asked = options.get("format")
    known = ENDINGS.get(asked, asked) if asked else None
    if known is not None and known not in FORMATS:
        raise InputError(f"the format {asked!r} is not RDF; use one of {', '.join(FORMATS)}")
    compression = options.get("compression")
    if compression is not None and compression not in COMPRESSIONS:
        raise InputError(f"unknown compression {compression!r}; use none, gzip or zstd")
    return Settings(
        paths=_read_paths(options),
        format=known,
        compression=compression,
        mode=_choose(options, "mode", RecordMode.PERMISSIVE),
        graph_time=_read_property(options.get("graph_time")),
        partition_bytes=_read_count(options, "maxPartitionBytes") or PARTITION_BYTES,
        max_files=_read_count(options, "maxFilesPerTrigger"),
        max_bytes=_read_count(options, "maxBytesPerTrigger"),
        max_rows=_read_count(options, "maxRowsPerTrigger"),
        rate_file=_read_optional_path(options, "rateFile"),
        seen=_read_optional_path(options, "seenLocation"),
        on_missing=_choose(options, "onMissing", OnMissing.FAIL),
    )


def is_pattern(path: str) -> bool:
    """Whether a path is a glob; an existing file of that name takes precedence."""
    return _GLOB.search(path) is not None and not Path(path).exists()


def split_pattern(path: str) -> tuple[Path, str]:
    """A glob as the directory that it starts from, and the pattern below it.

    >>> [str(part) for part in split_pattern("/data/2024-*/part-?.nt")]
    ['/data', '2024-*/part-?.nt']
    """
    folder = Path(path)
    while _GLOB.search(str(folder)):
        folder = folder.parent
    return folder, str(Path(path).relative_to(folder))


def _choose(options: Mapping[str, str], name: str, default: Choice) -> Choice:
    asked = options.get(name)
    if asked is None:
        return default
    kinds: list[Any] = list(type(default))
    for kind in kinds:
        if kind.value.lower() == asked.lower():
            found: Choice = kind
            return found
    raise InputError(f"{name} must be one of {', '.join(kinds)}, not {asked!r}")


def _read_paths(options: Mapping[str, str]) -> tuple[str, ...]:
    given = [options["path"]] if options.get("path") else []
    given += json.loads(options.get("paths") or "[]")
    if not given:
        raise InputError('no path: load("…") takes a file, a directory or a glob')
    return tuple(_read_path(path) for path in given)


def _read_path(text: str) -> str:
    """An absolute path: other processes on the machine may read it."""
    url = urlsplit(text)
    if url.scheme == "file":
        return unquote(url.path)
    if "://" in text:
        raise InputError(
            f"{text}: rdf reads only files with a path on every machine, not {url.scheme}://"
        )
    return str(Path(text).absolute())


def _read_optional_path(options: Mapping[str, str], name: str) -> str | None:
    text = options.get(name)
    return _read_path(text) if text else None


def _read_count(options: Mapping[str, str], name: str) -> int | None:
    """A positive number; bytes may have a unit."""
    text = options.get(name)
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    if found is None or (found[2] and "Bytes" not in name) or not int(found[1]):
        form = "a positive number of bytes, such as 32m" if "Bytes" in name else "at least 1"
        raise InputError(f"{name} must be {form}, not {text!r}")
    return int(found[1]) << 10 * " kmgt".index(found[2].lower() or " ")


def _read_property(text: str | None) -> str | None:
    if not text:
        return None
    try:
        return canonical_term(text) if text.startswith("<") else iri(text)
    except ValueError as problem:
        raise InputError(f"graph_time: {problem}") from None
