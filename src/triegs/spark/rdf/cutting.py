"""Where lines end in a file, and with that where a file of lines may be cut.

N-Triples and N-Quads stand line by line, so any range of bytes that starts and ends between two
lines can be read alone. A line ends with LF, CR LF or CR, as in `triegs.inputs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyoxigraph as rdf
from numpy.typing import NDArray

LF, CR = 10, 13
CHUNK = 1 << 20
#: Bytes of a line without an end that are looked at, to see whether it is a whole statement.
LONGEST_TAIL = 1 << 16


class Range(NamedTuple):
    """Bytes of a file of lines; ``line`` is the number of its first line, from 1."""

    begin: int
    end: int
    line: int


def find_line_ends(path: str, begin: int, end: int) -> Iterator[NDArray[np.int64]]:
    """The places behind the ends of the lines in a range, chunk by chunk. Reads the range.

    A last line without an end has none; a CR that is the last byte ends a line.
    """
    with Path(path).open("rb") as file:
        file.seek(begin)
        at = begin
        while at < end:
            chunk = file.read(min(CHUNK, end - at))
            while chunk.endswith(b"\r") and at + len(chunk) < end:
                more = file.read(1)  # perhaps the second half of a line's end
                if not more:
                    break
                chunk += more
            if not chunk:
                return  # shorter than it was; whoever reads the lines tells
            data = np.frombuffer(chunk, np.uint8)
            is_end = data == LF
            is_cr = data == CR
            if is_cr.any():
                is_cr[:-1] &= ~is_end[1:]
                is_end |= is_cr
            yield np.flatnonzero(is_end) + (at + 1)
            at += len(chunk)


def count_lines(path: str, begin: int, end: int) -> int:
    """How many lines end in a range. Reads it, at about 2 GB/s."""
    return sum(len(ends) for ends in find_line_ends(path, begin, end))


def cut_range(path: str, whole: Range, size: int) -> list[Range]:
    """Cut a range into some of at least ``size`` bytes (the last may have fewer), between lines.

    A range owns the lines that begin in it, so each line is in exactly one. Reads the range if it
    is longer than ``size``: the numbers of lines have to be counted.
    """
    if whole.end - whole.begin <= size:
        return [whole] if whole.end > whole.begin else []
    ranges = []
    begin, line, passed = whole.begin, whole.line, whole.line
    for ends in find_line_ends(path, whole.begin, whole.end):
        while (at := int(np.searchsorted(ends, begin + size))) < len(ends):
            cut = int(ends[at])
            if cut >= whole.end:
                break
            ranges.append(Range(begin, cut, line))
            begin, line = cut, passed + at + 1
        passed += len(ends)
    ranges.append(Range(begin, whole.end, line))
    return ranges


def pass_lines(
    path: str, begin: int, end: int, most_rows: float, most_bytes: float
) -> tuple[int, int]:
    """Where to stop in a range after so many lines and bytes at most, but after one line at least;
    and how many lines that are. Reads what is passed.
    """
    place, lines = begin, 0
    for ends in find_line_ends(path, begin, end):
        fit = int(np.searchsorted(ends, begin + most_bytes, side="right"))
        fit = int(min(fit, most_rows - lines))
        if lines == 0:
            fit = max(fit, min(1, len(ends)))
        if fit:
            place, lines = int(ends[fit - 1]), lines + fit
        if fit < len(ends):
            return place, lines
    if place < end and (place == begin or (lines < most_rows and end - begin <= most_bytes)):
        return end, lines + 1  # with the last line, which has no end yet
    return place, lines


def find_whole_end(path: str, begin: int, end: int) -> int:
    r"""The end of the last whole line of a range, of a file that may still grow.

    A last line without an end is whole if it is a statement with its point, behind which nothing
    but blanks and a comment can come. A CR at the very end waits: LF may follow.
    """
    at = end
    tail = b""
    with Path(path).open("rb") as file:
        while at > begin:
            size = min(CHUNK, at - begin)
            file.seek(at - size)
            chunk = file.read(size)
            found = _find_last_end(chunk + tail[:1])
            if found:
                tail = (chunk + tail)[found:]
                at += found - size
                break
            tail = (chunk + tail)[: LONGEST_TAIL + 1]
            at -= size
    return at + _measure_statement(tail)


def _find_last_end(data: bytes) -> int:
    """The place behind the last end of a line, 0 if there is none."""
    lf = data.rfind(b"\n") + 1
    cr = data.rfind(b"\r", 0, len(data) - 1) + 1 if len(data) > 1 else 0
    return max(lf, cr)


def _measure_statement(tail: bytes) -> int:
    r"""The bytes of a statement that lacks but its line end, up to its point; 0 if it is none.

    >>> _measure_statement(b"<a:a> <a:p> <a:b> . "), _measure_statement(b'<a:a> <a:p> "see b .')
    (19, 0)
    >>> _measure_statement(b"<a:a> <a:p> _:b."), _measure_statement(b"<a:a> <a:p> <a:b> . # <c>.")
    (0, 0)
    """
    text = tail.rstrip(b" \t\r")
    # A point behind a label may be part of the label, and the rest yet to come.
    if len(tail) > LONGEST_TAIL or not text.endswith((b" .", b"\t.", b">.", b'".')):
        return 0
    # Without its point it must be none, else the point is in a comment.
    return len(text) if _is_statement(text) and not _is_statement(text[:-1]) else 0


def _is_statement(text: bytes) -> bool:
    try:
        return len(list(rdf.parse(text, format=rdf.RdfFormat.N_QUADS))) == 1
    except (SyntaxError, ValueError):
        return False
