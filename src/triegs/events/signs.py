"""Signs of events: ``+`` or ``-``, as strings or as 1 and -1. A missing sign means ``+``.

The single reader of signs for files, tables, tuples and DataFrames.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.jit.jit import short_kernel
from triegs.reasons import Reason, Why, shorten
from triegs.terms.columns import buffer_texts

#: Accepted spellings of a sign, and the change of the count.
CHANGES: dict[Any, int] = {
    "+": 1, "-": -1, 1: 1, -1: -1, "1": 1, "-1": -1, "+1": 1, "": 1, None: 1,
}  # fmt: skip
_INT8 = pa.int8().id


def explain_sign(value: object) -> Why:
    """Why a value is not a sign.

    >>> explain_sign("?")
    "bad op: the sign must be + or - (or 1 or -1), not '?'"
    """
    return Reason.BAD_OP.describe(f"the sign must be + or - (or 1 or -1), not {shorten(value)}")


def read_signs(column: Any, rows: NDArray[np.int64]) -> int:
    """Write the changes of a column of signs into the first column of ``rows``.

    Invalid signs become 0; returns their number. Linear. `TypeError` for other column types.

    >>> rows = np.empty((4, 1), np.int64)
    >>> read_signs(pa.array(["+", None, "-1", "?"]), rows), rows[:, 0].tolist()
    (1, [1, 1, -1, 0])
    """
    if not isinstance(column, pa.ChunkedArray):
        return _read_chunk(column, rows)
    if column.num_chunks == 1:
        return _read_chunk(column.chunk(0), rows)
    bad = 0
    start = 0
    for chunk in column.chunks:
        bad += _read_chunk(chunk, rows[start : start + len(chunk)])
        start += len(chunk)
    return bad


def _read_chunk(chunk: Any, rows: NDArray[np.int64]) -> int:
    kind = chunk.type
    if kind.id == _INT8 and chunk.null_count == 0:
        return int(copy_changes(chunk.to_numpy(), rows))
    if pa.types.is_integer(kind):
        values = (chunk.fill_null(1) if chunk.null_count else chunk).to_numpy()
        changes = np.where(values == 1, 1, np.where(values == -1, -1, 0)).astype(np.int8)
        changes.flags.writeable = False  # like Arrow's buffers: one compiled kernel
        return int(copy_changes(changes, rows))
    if pa.types.is_dictionary(kind):
        return _read_dictionary(chunk, rows)
    if pa.types.is_string_view(kind):
        chunk = chunk.cast(pa.large_string())
    if pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type):
        return int(read_texts(*buffer_texts(chunk), rows))
    if pa.types.is_null(kind):
        rows[:, 0] = 1
        return 0
    raise TypeError(f"op: a {kind} column cannot hold signs; give strings or integers")


def _read_dictionary(chunk: Any, rows: NDArray[np.int64]) -> int:
    """The same for a dictionary of signs; nulls use an extra last entry."""
    signs = chunk.dictionary
    by_sign = np.ones((len(signs) + 1, 4), np.int64)
    _read_chunk(signs, by_sign[:-1])
    indices = chunk.indices
    if indices.null_count:
        indices = indices.cast("int64").fill_null(len(signs))
    changes = by_sign[indices.to_numpy(), 0]
    rows[:, 0] = changes
    return len(changes) - int(np.count_nonzero(changes))


@short_kernel
def copy_changes(values: NDArray[np.int8], rows: NDArray[np.int64]) -> int:
    """Copy numeric signs; invalid ones become 0. Returns their number."""
    bad = 0
    for row in range(len(values)):
        value = values[row]
        good = (value == 1) | (value == -1)
        rows[row, 0] = value if good else 0
        bad += not good
    return bad


@short_kernel
def read_texts(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    valid: NDArray[np.uint8],
    rows: NDArray[np.int64],
) -> int:
    """Like `copy_changes`, for texts in the buffers of `triegs.terms.columns`."""
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
