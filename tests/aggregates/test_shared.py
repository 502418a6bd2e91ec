"""Windows that share partial aggregates against windows recomputed one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.aggregates.models import AFFINE, PlainWindow

from triegs.aggregates.swag.operators import SUM
from triegs.aggregates.swag.shared import SharedWindows, Span
from triegs.jit.jit import COMPILED

SPANS = st.lists(
    st.builds(Span, st.integers(1, 12).map(lambda n: 5 * n), st.sampled_from([5, 10, 20])),
    min_size=1,
    max_size=4,
)


# An operator that is not built in takes seconds to compile.
@pytest.mark.parametrize("operator", [SUM] if COMPILED else [SUM, AFFINE], ids=lambda op: op.name)
@given(spans=SPANS, moves=st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=12))
def test_each_window_equals_recomputation(operator, spans, moves):
    windows, plain = SharedWindows(operator, spans), PlainWindow(operator)
    number, now = 0, -20
    for offsets in moves:
        now += 7
        times = [now - offset for offset in offsets]
        # A late event in a pane that a window has left would come back: a stream drops it.
        oldest = min((now - 7) // slide * slide - width for width, slide in spans)
        times = [time for time in times if time > oldest]
        values = list(range(number, number + len(times)))
        number += len(times)
        windows.insert(times, values)
        for time, value in zip(times, values, strict=True):
            plain.insert(time, value)
        windows.advance(now)
        ends = [now // slide * slide for _, slide in spans]
        expected = [
            plain.query_range(end - width, end) for end, (width, _) in zip(ends, spans, strict=True)
        ]
        assert windows.query(now) == expected


def test_events_of_a_pane_are_one_entry():
    windows = SharedWindows(SUM, [Span(100, 50), Span(1_000, 100)])
    windows.insert(range(1, 1_001), range(1, 1_001))
    used = windows.used_bytes
    windows.insert(range(1, 1_001), range(1, 1_001))
    assert windows.used_bytes == used
    assert windows.query(1_000) == [2 * sum(range(901, 1_001)), 2 * sum(range(1_001))]


def test_refuses_a_window_without_width():
    with pytest.raises(ValueError, match="positive"):
        SharedWindows(SUM, [Span(0)])
    with pytest.raises(ValueError, match="positive"):
        SharedWindows(SUM, [])
