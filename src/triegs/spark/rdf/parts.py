"""What one task reads: parts of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from triegs.errors import InputError
from triegs.spark.rdf.cutting import Range, cut_range
from triegs.spark.rdf.listing import is_by_line, open_file
from triegs.spark.rdf.settings import OnMissing, Settings

#: Parts that are smaller share a task until it has so many bytes: a task costs some milliseconds.
SMALL = 4 << 20
START_ANEW = "put back what was read, start anew with another checkpoint, or set onMissing to skip"


class Part(NamedTuple):
    """Bytes of a file. A file that is not read by line is one part, whose ``end`` is its size."""

    path: str
    begin: int
    end: int
    line: int


def plan_parts(wanted: Iterable[Part], settings: Settings) -> list[tuple[Part, ...]]:
    """The parts of each task: files of lines are cut, small parts that follow each other share a
    task. Reads those files that are cut once, at about 2 GB/s.
    """
    tasks: list[tuple[Part, ...]] = []
    bunch: list[Part] = []
    size = 0
    for part in _cut_parts(wanted, settings):
        if bunch and size + part.end - part.begin > min(SMALL, settings.partition_bytes):
            tasks.append(tuple(bunch))
            bunch, size = [], 0
        bunch.append(part)
        size += part.end - part.begin
    return [*tasks, tuple(bunch)] if bunch else tasks


def _cut_parts(wanted: Iterable[Part], settings: Settings) -> Iterator[Part]:
    for part in wanted:
        if not is_by_line(open_file(part.path, settings), settings):
            yield part
        elif is_there(part, settings, may_be_longer=True):
            whole = Range(part.begin, part.end, part.line)
            for cut in cut_range(part.path, whole, settings.partition_bytes):
                yield Part(part.path, *cut)


def is_there(part: Part, settings: Settings, *, may_be_longer: bool) -> bool:
    """Whether a part can be read as it was seen; if not, that is an error, or it is skipped."""
    try:
        size = Path(part.path).stat().st_size
    except FileNotFoundError:
        return tell_backwards(part.path, "is gone", settings)
    if size < part.end:
        told = f"is shorter: {size:,} bytes, not {part.end:,}"
        return tell_backwards(part.path, told, settings)
    if size > part.end and not may_be_longer:
        told = f"has changed: {size:,} bytes, not {part.end:,}; only N-Triples and N-Quads may grow"
        return tell_backwards(part.path, told, settings)
    return True


def tell_backwards(path: str, told: str, settings: Settings) -> bool:
    """`InputError` for a file that is not what was seen; False if such files are skipped."""
    if settings.on_missing is OnMissing.SKIP:
        return False
    raise InputError(f"{path} was seen before and {told}; {START_ANEW}", file=path)
