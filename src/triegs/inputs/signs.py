"""Signs of events: ``+`` or ``-``, as texts or as the numbers 1 and -1. A missing one is ``+``.

One reader for all that has events: files, tables, tuples, DataFrames.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.dictionary.columns import buffer_texts
from triegs.kernels.jit import brief
from triegs.reasons import Reason, Why, shorten

#: How a sign may be written, and the change of the count that it means.
CHANGES: dict[Any, int] = {
    "+": 1, "-": -1, 1: 1, -1: -1, "1": 1, "-1": -1, "+1": 1, "": 1, None: 1,
}  # fmt: skip
_INT8 = pa.int8().id


def explain_sign(value: object) -> Why:
    """Why this is no sign.

    >>> explain_sign("?")
    "bad op: the sign is + or - (or 1 or -1), not '?'"
    """
    return Reason.BAD_OP.tell(f"the sign is + or - (or 1 or -1), not {shorten(value)}")


def read_signs(column: Any, rows: NDArray[np.int64]) -> int:
    """Write the changes that a column means into the first column of ``rows``, 0 for what is no
    sign; how many are 0. Linear. `TypeError` for a column of a type that has no signs.

    >>> rows = np.empty((4, 1), np.int64)
    >>> read_signs(pa.array(["+", None, "-1", "?"]), rows), rows[:, 0].tolist()
    (1, [1, 1, -1, 0])
    """
    if not isinstance(column, pa.ChunkedArray):
        return _read_part(column, rows)
    if column.num_chunks == 1:
        return _read_part(column.chunk(0), rows)
    bad = 0
    start = 0
    for part in column.chunks:
        bad += _read_part(part, rows[start : start + len(part)])
        start += len(part)
    return bad


def _read_part(part: Any, rows: NDArray[np.int64]) -> int:
    kind = part.type
    if kind.id == _INT8 and part.null_count == 0:
        return int(copy_changes(part.to_numpy(), rows))
    if pa.types.is_integer(kind):
        values = (part.fill_null(1) if part.null_count else part).to_numpy()
        changes = np.where(values == 1, 1, np.where(values == -1, -1, 0)).astype(np.int8)
        changes.flags.writeable = False  # as Arrow's own buffers are: one kernel for all
        return int(copy_changes(changes, rows))
    if pa.types.is_dictionary(kind):
        return _read_coded(part, rows)
    if pa.types.is_string_view(kind):
        part = part.cast(pa.large_string())
    if pa.types.is_string(part.type) or pa.types.is_large_string(part.type):
        return int(read_texts(*buffer_texts(part), rows))
    if pa.types.is_null(kind):
        rows[:, 0] = 1
        return 0
    raise TypeError(f"op: a column of {kind} has no signs; give strings or integers")


def _read_coded(part: Any, rows: NDArray[np.int64]) -> int:
    """The same for a dictionary of signs; a null has the place behind the last one."""
    signs = part.dictionary
    ways = np.ones((len(signs) + 1, 4), np.int64)
    _read_part(signs, ways[:-1])
    places = part.indices
    if places.null_count:
        places = places.cast("int64").fill_null(len(signs))
    changes = ways[places.to_numpy(), 0]
    rows[:, 0] = changes
    return len(changes) - int(np.count_nonzero(changes))


@brief
def copy_changes(values: NDArray[np.int8], rows: NDArray[np.int64]) -> int:
    """Signs given as numbers; returns how many are none, which become 0."""
    bad = 0
    for row in range(len(values)):
        value = values[row]
        good = (value == 1) | (value == -1)
        rows[row, 0] = value if good else 0
        bad += not good
    return bad


@brief
def read_texts(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    valid: NDArray[np.uint8],
    rows: NDArray[np.int64],
) -> int:
    """Signs given as texts, in the buffers of `triegs.dictionary.columns`; as `copy_changes`."""
    bad = 0
    for row in range(len(rows)):
        start = offsets[row]
        size = offsets[row + 1] - start
        change = 0
        if size == 0 or (len(valid) > 0 and valid[row] == 0):
            change = 1
        elif size == 1:
            change = 1 if data[start] in (43, 49) else -1 if data[start] == 45 else 0
        elif size == 2 and data[start + 1] == 49:
            change = 1 if data[start] == 43 else -1 if data[start] == 45 else 0
        rows[row, 0] = change
        bad += change == 0
    return bad
