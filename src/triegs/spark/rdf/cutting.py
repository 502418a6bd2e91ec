"""Where lines end in a file, and so where a file of lines can be split.

N-Triples and N-Quads are line-based, so any byte range that starts and ends between two lines can
be read alone. A line ends with LF, CR LF or CR, as in `triegs.events`.
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
#: The most bytes of an unterminated line that are checked for a complete statement.
LONGEST_TAIL = 1 << 16


class Range(NamedTuple):
    """A byte range of a line-based file; ``line`` is the number of its first line, from 1."""

    begin: int
    end: int
    line: int


def find_line_ends(path: str, begin: int, end: int) -> Iterator[NDArray[np.int64]]:
    """The offsets after the line ends in a range, chunk by chunk. Reads the range.

    An unterminated last line has none; a CR at the very end counts as a line end.
    """
    with Path(path).open("rb") as file:
        file.seek(begin)
        at = begin
        while at < end:
            chunk = file.read(min(CHUNK, end - at))
            while chunk.endswith(b"\r") and at + len(chunk) < end:
                more = file.read(1)  # possibly the LF of a CR LF
                if not more:
                    break
                chunk += more
            if not chunk:
                return  # shorter than before; the reader of the lines reports it
            data = np.frombuffer(chunk, np.uint8)
            is_end = data == LF
            is_cr = data == CR
            if is_cr.any():
                is_cr[:-1] &= ~is_end[1:]
                is_end |= is_cr
            yield np.flatnonzero(is_end) + (at + 1)
            at += len(chunk)


def count_lines(path: str, begin: int, end: int) -> int:
    """The number of line ends in a range. Reads it, at about 2 GB/s."""
    return sum(len(ends) for ends in find_line_ends(path, begin, end))


def cut_range(path: str, whole: Range, size: int) -> list[Range]:
    """Split a range between lines, into ranges of at least ``size`` bytes (the last may be
    shorter).

    A range owns the lines that begin in it, so each line is in exactly one. Reads a range longer
    than ``size``, to count lines.
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
    """The offset after at most that many lines and bytes of a range, but at least one line; and the
    number of lines. Reads what is passed.
    """
    offset, lines = begin, 0
    for ends in find_line_ends(path, begin, end):
        fit = int(np.searchsorted(ends, begin + most_bytes, side="right"))
        fit = int(min(fit, most_rows - lines))
        if lines == 0:
            fit = max(fit, min(1, len(ends)))
        if fit:
            offset, lines = int(ends[fit - 1]), lines + fit
        if fit < len(ends):
            return offset, lines
    if offset < end and (offset == begin or (lines < most_rows and end - begin <= most_bytes)):
        return end, lines + 1  # includes the unterminated last line
    return offset, lines


def find_whole_end(path: str, begin: int, end: int) -> int:
    r"""The end of the last complete line of a range, in a file that may still grow.

    An unterminated last line is complete if it is a statement with its final dot, after which only
    blanks and a comment can follow. A CR at the very end is not complete: LF may follow.
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
    """The offset after the last line end, 0 if there is none."""
    lf = data.rfind(b"\n") + 1
    cr = data.rfind(b"\r", 0, len(data) - 1) + 1 if len(data) > 1 else 0
    return max(lf, cr)


def _measure_statement(tail: bytes) -> int:
    r"""The length of an unterminated statement up to its final dot; 0 if it is not one.

    >>> _measure_statement(b"<a:a> <a:p> <a:b> . "), _measure_statement(b'<a:a> <a:p> "see b .')
    (19, 0)
    >>> _measure_statement(b"<a:a> <a:p> _:b."), _measure_statement(b"<a:a> <a:p> <a:b> . # <c>.")
    (0, 0)
    """
    text = tail.rstrip(b" \t\r")
    # A dot after a blank node label may belong to the label, which may continue.
    if len(tail) > LONGEST_TAIL or not text.endswith((b" .", b"\t.", b">.", b'".')):
        return 0
    # Without the dot it must be invalid, or else the dot is in a comment.
    return len(text) if _is_statement(text) and not _is_statement(text[:-1]) else 0


def _is_statement(text: bytes) -> bool:
    try:
        return len(list(rdf.parse(text, format=rdf.RdfFormat.N_QUADS))) == 1
    except (SyntaxError, ValueError):
        return False
