"""How much of a stream goes into the next micro-batch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

from triegs.spark.rdf.cutting import pass_lines
from triegs.spark.rdf.file_log import FileLog, Offset
from triegs.spark.rdf.listing import is_by_line, open_file
from triegs.spark.rdf.settings import Settings
from triegs.spark.rdf.splits import is_readable

#: Estimated bytes per row of files that are not line-based, plain and compressed.
BYTES_A_ROW, PACKED_BYTES_A_ROW = 64, 8


class Limits(NamedTuple):
    """Limits of a micro-batch, which has at least one line, or one file that is not line-based."""

    files: float = math.inf
    bytes: float = math.inf
    rows: float = math.inf


def find_batch_end(
    log: FileLog, start: Offset, limits: Limits, settings: Settings
) -> tuple[Offset, bool]:
    """Where the batch that starts here ends, and whether a limit ended it.

    Lines are counted, including blank ones and comments; rows of other files are estimated by size.
    Reads what must be counted, at about 2 GB/s: the whole batch if rows are limited, else only a
    file that is split.
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
            if not is_readable(entry, settings, may_be_longer=True):
                number, byte, line = number + 1, 0, 0  # the reader skips it
                continue
            offset, lines = pass_lines(entry.path, begin, entry.end, limits.rows - rows, left)
            if files and (offset - begin > left):
                return Offset(log.name, number, byte, line), True
            if offset < entry.end:
                return Offset(log.name, number, offset, (line or entry.line) + lines), True
            size, rows = size + offset - begin, rows + lines
        else:
            size += entry.end - begin
        files += 1
        number, byte, line = number + 1, 0, 0
    return Offset(log.name, number, byte, line), False


def read_rate(path: str | None) -> float:
    """The rows that a file of ``{"rows_per_second": x, "seconds": y}`` allows, at least 1.

    Infinity without such a file: its writer may not have started.
    """
    if path is None:
        return math.inf
    try:
        content = json.loads(Path(path).read_bytes())
        rows = float(content["rows_per_second"]) * float(content["seconds"])
    except (OSError, ValueError, TypeError, KeyError):
        return math.inf
    return max(1.0, math.floor(rows)) if 0 <= rows < math.inf else math.inf
