"""Selects the files, and the positions in them, that a resumed run still has to read.

Progress is recorded by full path, so files may be added, and fully read files may be removed. A
file that has grown is read from its previous end; one that has shrunk is rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from triegs.errors import InputError
from triegs.events.context import FilePosition
from triegs.events.files import InputFile
from triegs.events.streams import UTF8_MARK

LINE_ENDS = (b"\n", b"\r")


class StartedFile(NamedTuple):
    """A file to read: its key (None for a pipe) and the position to resume from."""

    file: InputFile
    key: str | None
    position: FilePosition


def name_files(files: Iterable[InputFile]) -> list[str | None]:
    """Keys of files, stable across processes; None for inputs that cannot be found again.

    A path that is given twice is read twice, under two keys.
    """
    times: Counter[str] = Counter()
    names: list[str | None] = []
    for file in files:
        if not file.is_lasting:
            names.append(None)
            continue
        times[file.scope] += 1
        again = times[file.scope]
        names.append(file.scope if again == 1 else f"{file.scope} ({again})")
    return names


def measure(file: InputFile) -> int | None:
    """The current size in bytes; None if it is missing or not a file."""
    try:
        return Path(file.scope).stat().st_size if file.is_lasting else None
    except OSError:
        return None


def choose_files(
    files: list[InputFile], known: Mapping[str, Mapping[str, Any]]
) -> list[StartedFile]:
    """The files with unread data, partly read ones first.

    `known` are the entries of `Source.entries` by key. `InputError` if a file is not the one that
    was read before.
    """
    names = name_files(files)
    for left, state in known.items():
        if not state["whole"] and left not in names:
            raise InputError(
                f"{left} was not read to its end and is no longer part of the input; "
                "restore it, or start with a new state directory",
                file=left,
            )
    begun, fresh = [], []
    for file, name in zip(files, names, strict=True):
        entry = None if name is None else known.get(name)
        if entry is None:
            fresh.append(StartedFile(file, name, {}))
            continue
        size = measure(file)
        _check(file, entry, size)
        if not entry["whole"] or size != entry["bytes"]:
            begun.append(StartedFile(file, name, dict(entry["place"])))
    return begun + fresh


def _check(file: InputFile, entry: Mapping[str, Any], size: int | None) -> None:
    before, position = entry["bytes"], entry["place"]
    if size is None or size < before:
        now = "missing" if size is None else f"shorter: {size:,} bytes, not {before:,}"
        raise InputError(
            f"{file.name} was read before and is now {now}; restore it, "
            "or start with a new state directory",
            file=file.name,
        )
    offset = position.get("offset", 0)
    if entry["whole"] and size > before and offset and file.is_seekable:
        with Path(file.scope).open("rb") as stream:
            marked = stream.read(len(UTF8_MARK)) == UTF8_MARK
            stream.seek(offset + marked * len(UTF8_MARK) - 1)
            if stream.read(1) not in LINE_ENDS:
                raise InputError(
                    f"{file.name} has grown, but its last line was read before it was complete; "
                    "write whole lines, or start with a new state directory",
                    file=file.name,
                )
