"""Where batches are cut makes no difference: epochs are those of the whole stream."""

from __future__ import annotations

from itertools import groupby

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.engine import Engine
from triegs.errors import InvalidUpdate
from triegs.run import epochs
from triegs.run.epochs import AppliedEpochs, Published, WholeBatches

QUERY = "SELECT ?x ?y { ?x <a:p> ?y }"
Event = tuple[int, int, int]  # time, sign, subject

drawn = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([1, 1, 1, -1]), st.integers(0, 2)), max_size=20
)


def make_batch(events: list[Event], form: str) -> pa.RecordBatch:
    subjects = [subject for _, _, subject in events]
    texts = pa.array([f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>' for n in subjects])
    columns = {
        "time": pa.array([time for time, _, _ in events], pa.int64()),
        "op": pa.array([sign for _, sign, _ in events], pa.int8()),
        "subject": {
            "integers": pa.array(subjects, pa.int64()),
            "texts": texts,
            "dictionaries": texts.dictionary_encode(),
        }[form],
        "predicate": pa.array(["<a:p>"] * len(events)),
        "object": pa.array([1] * len(events), pa.int64()),
    }
    return pa.record_batch(columns)


def replay(groups: list[list[Event]]) -> list[tuple[int, dict[int, int], int]]:
    """Time, counts by subject, and refused deletions after each epoch, by plain counting."""
    counts: dict[int, int] = {}
    steps, newest = [], None
    for group in groups:
        refused = 0
        for _, sign, subject in group:
            if counts.get(subject, 0) + sign < 0:
                refused += 1
            else:
                counts[subject] = counts.get(subject, 0) + sign
        latest = max(time for time, _, _ in group)
        newest = latest if newest is None else max(newest, latest)
        steps.append((newest, {s: n for s, n in counts.items() if n}, refused))
    return steps


def run(
    batches: list[pa.RecordBatch], rows: int | None
) -> list[tuple[int | None, dict[int, int], int]]:
    engine = Engine()
    query = engine.register(QUERY)
    feeding = AppliedEpochs(engine, rows)
    found = []

    def note(epoch: Published) -> None:
        with query.snapshot() as snapshot:
            counts = {a.x: a.multiplicity for a in snapshot.answers("python")}
        found.append((epoch.time, counts, len(epoch.refused)))

    for batch in batches:
        for epoch in feeding.feed(batch):
            note(epoch)
    for epoch in feeding.finish():
        note(epoch)
    return found


@given(drawn, st.integers(1, 7), st.none() | st.integers(1, 5), st.sampled_from([0, 8]), st.data())
def test_epochs_are_those_of_the_whole_stream(
    events: list[Event], size: int, rows: int | None, few: int, data: st.DataObject
) -> None:
    forms = st.sampled_from(["integers", "texts", "dictionaries"])
    batches = [
        make_batch(events[start : start + size], data.draw(forms))
        for start in range(0, len(events), size)
    ]
    if rows is None:
        groups = [list(group) for _, group in groupby(events, key=lambda event: event[0])]
    else:
        groups = [events[start : start + rows] for start in range(0, len(events), rows)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epochs, "FEW_ROWS", few)
        assert run(batches, rows) == replay(groups)


def test_whole_batches_end_alike() -> None:
    events: list[Event] = [(1, 1, 0), (2, 1, 0), (2, -1, 1), (3, -1, 0)]
    engine = Engine()
    query = engine.register(QUERY)
    feeding = WholeBatches(engine)
    published = list(feeding.feed(make_batch(events, "texts")))
    assert [(epoch.time, len(epoch.refused)) for epoch in published] == [(3, 1)]
    assert published[0].refused[0].record.startswith("- ")
    assert not list(feeding.finish())
    with query.snapshot() as snapshot:
        assert [(a.x, a.multiplicity) for a in snapshot.answers("python")] == [(0, 1)]


def test_a_large_dictionary_is_not_read_for_each_epoch() -> None:
    words = pa.array([f"<a:{n}>" for n in range(1000)])
    indices = pa.array([5] * 40, pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, words)
    part = pa.record_batch({"op": pa.array([1] * 40, pa.int8()), "subject": column})
    assert epochs.join_batches([part]).column("subject").to_pylist() == ["<a:5>"] * 40
    assert not pa.types.is_dictionary(epochs.join_batches([part]).column("subject").type)


@pytest.mark.parametrize("few", [0, 8])
def test_strict_epochs(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "FEW_ROWS", few)
    feeding = AppliedEpochs(Engine(), strict=True)
    with pytest.raises(InvalidUpdate):
        list(feeding.feed(make_batch([(1, -1, 0), (2, 1, 0)], "texts")))
