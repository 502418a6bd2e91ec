"""The one pass over a simple push keeps what `sift_events` would keep, and nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import event, example, given
from hypothesis import strategies as st

from triegs.maintain.kernels.judging import NO_TIME, NONE, SAME_ROW
from triegs.windows.sifting import (
    KEPT,
    MOST_HELD,
    NO_SPAN,
    QUORUM,
    admit_events,
    sift_events,
)

AHEAD = 10
spans = st.one_of(
    st.just(NO_SPAN),
    st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(1, QUORUM)).map(
        lambda drawn: (drawn[0], drawn[0] + drawn[1], drawn[2])
    ),
)
pushes = st.lists(st.integers(-5, 45), max_size=5)


@given(pushes, st.booleans(), spans, st.one_of(st.just(NO_TIME), st.integers(0, 30)), st.data())
@example([20, 25], True, (20, 25, QUORUM), NO_TIME, None)
@example([26, 40], True, (20, 25, QUORUM), NO_TIME, None)  # too far ahead at the end
@example([9, 20], True, (20, 25, QUORUM), NO_TIME, None)  # too far behind
@example([20, 21], True, (20, 25, QUORUM), 20, None)  # late
@example([21], True, (20, 25, 1), NO_TIME, None)  # a span that is not sure
@example([40, 40, 40], True, (20, 25, QUORUM), NO_TIME, None)  # the stream has moved
def test_a_simple_push_is_kept_whole(drawn, is_sorted, before, bound, data):
    times = np.array(sorted(drawn) if is_sorted else drawn, np.int64)
    rows = np.ones((len(times), 4), np.int64)
    ids = np.full(len(times), NONE, np.int64)
    if data is not None and len(times):
        at = data.draw(st.integers(0, len(times) - 1))
        rows[at, 0] = data.draw(st.sampled_from([1, 1, 1, -1]))
        ids[at] = data.draw(st.sampled_from([NONE, NONE, NONE, SAME_ROW, 3]))
    span, sifted = np.array(before, np.int64), np.array(before, np.int64)
    is_admitted = admit_events(times, rows, ids, (bound, AHEAD), span)
    event(f"admitted: {is_admitted}")
    outcomes, marks = np.empty(len(times), np.int64), np.zeros(MOST_HELD, np.int64)
    left = sift_events(
        times, (bound, AHEAD), sifted, np.empty((MOST_HELD, 3), np.int64), 0, outcomes,
        np.empty(0, np.int64), marks,
    )  # fmt: skip
    is_kept = bool(left == 0 and (outcomes == KEPT).all())
    is_plain = bool((rows[:, 0] > 0).all() and (ids == NONE).all())
    is_ordered = bool((times[:-1] <= times[1:]).all())
    is_sure = bound != NO_TIME or before[2] == QUORUM
    is_simple = len(times) > 0 and is_plain and is_ordered and is_sure
    assert is_admitted == (is_simple and is_near_throughout(times.tolist(), before, bound))
    assert is_kept or not is_admitted
    assert span.tolist() == (sifted.tolist() if is_admitted else list(before))


def is_near_throughout(times, span, bound):
    """Whether each time is near the stream as those before it left it, and not late. Strays that
    show together that the stream has moved are kept as well, but they are not near.
    """
    low, high, _ = span
    for time in times:
        is_behind = time <= bound if bound != NO_TIME else time < low - AHEAD
        if is_behind or time > max(high, bound) + AHEAD:
            return False
        low, high = min(low, time), max(high, time)
    return True
