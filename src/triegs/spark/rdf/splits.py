"""File splits: what one task reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from triegs.errors import InputError
from triegs.spark.rdf.cutting import Range, cut_range
from triegs.spark.rdf.listing import is_by_line, open_file
from triegs.spark.rdf.settings import OnMissing, Settings

#: Smaller splits share a task up to this many bytes: a task costs some milliseconds.
SMALL = 4 << 20
REMEDY = "restore the file, start with a new checkpoint, or set onMissing to skip"


class FileSplit(NamedTuple):
    """A byte range of a file. A file that is not line-based is one split, whose ``end`` is its
    size.
    """

    path: str
    begin: int
    end: int
    line: int


def plan_splits(wanted: Iterable[FileSplit], settings: Settings) -> list[tuple[FileSplit, ...]]:
    """The splits of each task: line-based files are split, and consecutive small splits share a
    task. Reads each file that is split once, at about 2 GB/s.
    """
    tasks: list[tuple[FileSplit, ...]] = []
    group: list[FileSplit] = []
    size = 0
    for split in _cut_files(wanted, settings):
        if group and size + split.end - split.begin > min(SMALL, settings.partition_bytes):
            tasks.append(tuple(group))
            group, size = [], 0
        group.append(split)
        size += split.end - split.begin
    return [*tasks, tuple(group)] if group else tasks


def _cut_files(wanted: Iterable[FileSplit], settings: Settings) -> Iterator[FileSplit]:
    for split in wanted:
        if not is_by_line(open_file(split.path, settings), settings):
            yield split
        elif is_readable(split, settings, may_be_longer=True):
            whole = Range(split.begin, split.end, split.line)
            for cut in cut_range(split.path, whole, settings.partition_bytes):
                yield FileSplit(split.path, *cut)


def is_readable(split: FileSplit, settings: Settings, *, may_be_longer: bool) -> bool:
    """Whether a split can still be read as it was listed; if not, that is an error, or it is
    skipped.
    """
    try:
        size = Path(split.path).stat().st_size
    except FileNotFoundError:
        return report_changed(split.path, "is missing", settings)
    if size < split.end:
        problem = f"has shrunk: {size:,} bytes, not {split.end:,}"
        return report_changed(split.path, problem, settings)
    if size > split.end and not may_be_longer:
        problem = (
            f"has changed: {size:,} bytes, not {split.end:,}; only N-Triples and N-Quads may grow"
        )
        return report_changed(split.path, problem, settings)
    return True


def report_changed(path: str, problem: str, settings: Settings) -> bool:
    """`InputError` for a file that has changed since it was listed; False if such files are
    skipped.
    """
    if settings.on_missing is OnMissing.SKIP:
        return False
    raise InputError(f"{path} was read before and {problem}; {REMEDY}", file=path)
