"""The segments of a log, verified: what is intact, what a crash left, what is damaged.

Two things may be cut off, because a crash can leave them and no caller was told that they are safe:

1. the end of the newest segment from its first incomplete frame, if no later mark says that this
   record was synced, and every complete frame after it is where it was written: a crash loses
   bytes, but moves none;
2. the header of the newest segment, if the file has nothing else: it is synced before any record.

Everything else is damage: an incomplete frame in an older segment, since a segment is synced before
the next one is made; a missing record or segment; a header that does not match; a newer format.
Only the last frame of an older segment, which announces the next one, is written after that sync:
if it is incomplete and the next segment has the next record, nothing is missing.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from triegs.durable.files import Files
from triegs.durable.frames import (
    FRAME_SIZE,
    GOES_ON,
    HEADER,
    MARK,
    VERSION,
    FrameError,
    find_frames,
    read_frame,
    read_header,
)
from triegs.errors import LogDamaged

NAME = re.compile(r"\d{20}\.log")


class Problem(NamedTuple):
    """What is wrong in a segment; if `torn`, it may be cut off from the offset on."""

    offset: int
    reason: str
    torn: bool


class Segment(NamedTuple):
    """One file of a log: its records from `first` to `last` are intact, and end at `good_bytes`.

    Without records `last` is one less than `first`. Marks in the file say that the records up to
    `marked` were synced.
    """

    file: Path
    first: int
    last: int
    bytes: int
    good_bytes: int
    marked: int
    problem: Problem | None


class Cut(NamedTuple):
    """What was cut off because a crash had left it incomplete."""

    file: Path
    offset: int
    bytes: int
    reason: str


def name_segment(folder: Path, first: int) -> Path:
    return folder / f"{first:020}.log"


def verify(files: Files, folder: Path) -> list[Segment]:
    """Read a log, and report what each segment has and what is wrong; changes nothing.

    Cost: reads every byte. Memory: one segment.
    """
    paths = [path for path in files.list_folder(folder) if NAME.fullmatch(path.name)]
    found: list[Segment] = []
    for path, following in zip_longest(paths, paths[1:]):
        next_first = int(following.stem) if following else None
        segment = read_segment(path, files.read(path), next_first)
        if found and not found[-1].problem and segment.first != found[-1].last + 1:
            reason = f"record {found[-1].last + 1} should be the first here, not {segment.first}"
            segment = segment._replace(problem=Problem(0, reason, torn=False))
        found.append(segment)
    return found


def read_segment(path: Path, data: bytes, following: int | None) -> Segment:
    """Read one segment up to its first problem; `following` is the next segment's first record."""
    named = int(path.stem)
    last = marked = named - 1
    view, end = memoryview(data), 0
    try:
        problem = check_header(data, named)
        if not problem:
            end = HEADER.size
        while not problem and end < len(data):
            frame = read_frame(view, end)
            if frame.kind == MARK and frame.sequence <= last:
                marked = frame.sequence
            elif frame.kind < GOES_ON and frame.sequence == last + 1:
                last += 1
            elif frame.kind == GOES_ON and following is not None:
                pass
            elif frame.kind == GOES_ON:
                problem = Problem(end, f"the segment of record {last + 1} is missing", torn=False)
                break
            else:
                problem = Problem(end, f"record {last + 1} is missing", torn=False)
                break
            end = frame.end
    except FrameError as error:
        problem = judge(str(error), data, end, last, following)
    return Segment(path, named, last, len(data), end, marked, problem)


def check_header(data: bytes, named: int) -> Problem | None:
    """What is wrong with a complete header."""
    version, first = read_header(data)
    if version != VERSION:
        return Problem(0, f"format version {version}; this version reads {VERSION}", torn=False)
    if first != named:
        return Problem(0, f"the header says that record {first} is the first", torn=False)
    return None


def judge(reason: str, data: bytes, end: int, last: int, following: int | None) -> Problem | None:
    """Whether a crash can have left this, or it is damage. Cost: a search to the end."""
    if following is not None:
        if end and following == last + 1 and len(data) - end <= FRAME_SIZE:
            return None
        return Problem(end, f"{reason}, and a newer segment follows", torn=False)
    if end == 0:
        return Problem(0, reason, torn=len(data) <= HEADER.size)
    behind = list(find_frames(data, end))
    if any(
        frame.kind == GOES_ON or (frame.kind == MARK and frame.sequence > last) for frame in behind
    ):
        return Problem(end, f"{reason}, and record {last + 1} was synced", torn=False)
    moved = next((frame for frame in behind if frame.start % 8), None)
    if moved is not None:
        where = f"{reason}, and later bytes were moved: there is a record at byte {moved.start}"
        return Problem(end, where, torn=False)
    later = sum(frame.kind != MARK for frame in behind)
    if later:
        reason = f"{reason}; intact records after it that were never synced: {later}"
    return Problem(end, reason, torn=True)


def find_cut(segments: list[Segment]) -> Cut | None:
    """What may be cut off the newest segment; raises on damage."""
    good_until = segments[0].first - 1 if segments else 0
    for file, _, last, size, _, _, problem in segments:
        # A segment that does not belong here has no good records.
        good_until = last if not problem or problem.offset else good_until
        if problem and problem.torn:
            return Cut(file, problem.offset, size - problem.offset, problem.reason)
        if problem:
            reason, offset = problem.reason, problem.offset
            raise LogDamaged(reason, file=file, offset=offset, good_until=good_until)
    return None
