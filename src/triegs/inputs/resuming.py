"""Which files of an input are read, and from where, by a run that goes on where another stopped.

What was read of a file is known by its full path, so files may be added, and those that were read
whole may be removed. A file that has grown is read from where it ended; a shorter one is another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from triegs.errors import InputError
from triegs.inputs.files import InputFile
from triegs.inputs.streams import UTF8_MARK
from triegs.inputs.work import Place

LINE_ENDS = (b"\n", b"\r")


class Begun(NamedTuple):
    """A file to be read: what it is known by (None for a pipe), and the place to go on from."""

    file: InputFile
    key: str | None
    place: Place


def name_files(files: Iterable[InputFile]) -> list[str | None]:
    """What files are known by, in this process and in others; None for what cannot be found again.

    A path that is given twice is read twice.
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
    """Its bytes now; None if it is gone, or is no file."""
    try:
        return Path(file.scope).stat().st_size if file.is_lasting else None
    except OSError:
        return None


def choose_files(files: list[InputFile], known: Mapping[str, Mapping[str, Any]]) -> list[Begun]:
    """The files that have something left, those first that were begun; `known` has entries by name
    as `Source.entries` has them. `InputError` for a file that is not what was read.
    """
    names = name_files(files)
    for left, state in known.items():
        if not state["whole"] and left not in names:
            raise InputError(
                f"{left} was not read to its end, and is no file of the input any more; "
                "put it back, or start anew with another state",
                file=left,
            )
    begun, fresh = [], []
    for file, name in zip(files, names, strict=True):
        entry = None if name is None else known.get(name)
        if entry is None:
            fresh.append(Begun(file, name, {}))
            continue
        size = measure(file)
        _check(file, entry, size)
        if not entry["whole"] or size != entry["bytes"]:
            begun.append(Begun(file, name, dict(entry["place"])))
    return begun + fresh


def _check(file: InputFile, entry: Mapping[str, Any], size: int | None) -> None:
    before, place = entry["bytes"], entry["place"]
    if size is None or size < before:
        now = "gone" if size is None else f"shorter: {size:,} bytes, not {before:,}"
        raise InputError(
            f"{file.name} was read before and is {now}; put back what was read, "
            "or start anew with another state",
            file=file.name,
        )
    offset = place.get("offset", 0)
    if entry["whole"] and size > before and offset and file.is_seekable:
        with Path(file.scope).open("rb") as stream:
            marked = stream.read(len(UTF8_MARK)) == UTF8_MARK
            stream.seek(offset + marked * len(UTF8_MARK) - 1)
            if stream.read(1) not in LINE_ENDS:
                raise InputError(
                    f"{file.name} has grown, but its last line was read before it was complete; "
                    "write whole lines, or start anew with another state",
                    file=file.name,
                )
