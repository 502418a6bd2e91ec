"""How much of what a stream has seen goes into the next micro-batch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

from triegs.spark.rdf.cutting import pass_lines
from triegs.spark.rdf.listing import is_by_line, open_file
from triegs.spark.rdf.parts import is_there
from triegs.spark.rdf.seen import Offset, SeenLog
from triegs.spark.rdf.settings import Settings

#: Of files that are read as a whole, whose rows nobody has counted: bytes for a row.
BYTES_A_ROW, PACKED_BYTES_A_ROW = 64, 8


class Limits(NamedTuple):
    """Of a micro-batch. A batch has at least one line, or one file that is read as a whole."""

    files: float = math.inf
    bytes: float = math.inf
    rows: float = math.inf


def take(log: SeenLog, start: Offset, limits: Limits, settings: Settings) -> tuple[Offset, bool]:
    """Where the batch that starts here ends, and whether that is because of the limits.

    Lines are counted, blank ones and comments too; rows of other files are estimated by their size.
    Reads what has to be counted, at about 2 GB/s: what goes into the batch if rows are limited,
    else nothing but a file that is cut.
    """
    files, size, rows = 0, 0.0, 0.0
    number, byte, line = start.entry, start.byte, start.line
    while number < len(log.entries):
        if files >= limits.files or size >= limits.bytes or rows >= limits.rows:
            return Offset(log.name, number, byte, line), True
        entry = log.entries[number]
        begin = byte or entry.begin
        left = limits.bytes - size
        file = open_file(entry.path, settings)
        if not is_by_line(file, settings):
            each = BYTES_A_ROW if file.compression == "none" else PACKED_BYTES_A_ROW
            more = math.ceil(entry.end / each)
            if files and (entry.end > left or more > limits.rows - rows):
                return Offset(log.name, number, 0, 0), True
            size, rows = size + entry.end, rows + more
        elif limits.rows < math.inf or entry.end - begin > left:
            if not is_there(entry, settings, may_be_longer=True):
                number, byte, line = number + 1, 0, 0  # skipped when it is read
                continue
            place, lines = pass_lines(entry.path, begin, entry.end, limits.rows - rows, left)
            if files and (place - begin > left):
                return Offset(log.name, number, byte, line), True
            if place < entry.end:
                return Offset(log.name, number, place, (line or entry.line) + lines), True
            size, rows = size + place - begin, rows + lines
        else:
            size += entry.end - begin
        files += 1
        number, byte, line = number + 1, 0, 0
    return Offset(log.name, number, byte, line), False


def read_rate(path: str | None) -> float:
    """The rows that a file of ``{"rows_per_second": x, "seconds": y}`` allows, at least 1.

    Infinity without such a file: who keeps it may not have begun.
    """
    if path is None:
        return math.inf
    try:
        told = json.loads(Path(path).read_bytes())
        rows = float(told["rows_per_second"]) * float(told["seconds"])
    except (OSError, ValueError, TypeError, KeyError):
        return math.inf
    return max(1.0, math.floor(rows)) if 0 <= rows < math.inf else math.inf
