"""Signs, times, ids and columns mean the same in files, tables, tuples and Spark's DataFrames."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs import Engine, InputError, InvalidUpdate, Window
from triegs.events import open_input
from triegs.reasons import Reason
from triegs.run.epochs import WindowedEpochs
from triegs.spark.encoded_batch import check_columns, make_checker
from triegs.terms.dictionary import Dictionary
from triegs.windows.encoding import encode_events
from triegs.windows.settings import EventTime

pd = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
P = "<a:p>"
NAMES = {"subject": "subject", "predicate": "predicate", "object": "object"}
Outcome = list[tuple[str, int, int] | str]


def through_push(events: Any, count: int) -> Outcome:
    found = encode_events(Dictionary(), Dictionary(), events)
    outcome: Outcome = [""] * count
    for place, why in found.refused:
        outcome[place] = why.kind.value
    places = range(count) if found.kept is None else found.kept.tolist()
    for place, time, row in zip(places, found.times.tolist(), found.rows.tolist(), strict=True):
        outcome[place] = ("event", time, row[0])
    return outcome


def make_table(times: list[Any], ops: list[Any]) -> pa.Table:
    rows = len(times)
    return pa.table({
        "time": pa.array(times), "op": pa.array(ops, pa.string()), "subject": list(range(rows)),
        "predicate": [P] * rows, "object": [1] * rows,
    })  # fmt: skip


def push_tuples(times: list[Any], ops: list[Any]) -> Outcome:
    rows = zip(times, ops, strict=True)
    return through_push([(t, n, P, 1, op) for n, (t, op) in enumerate(rows)], len(times))


def push_table(times: list[Any], ops: list[Any]) -> Outcome:
    return through_push(make_table(times, ops), len(times))


def push_coded(times: list[Any], ops: list[Any]) -> Outcome:
    table = make_table(times, ops)
    for name in ("time", "op"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table.column(name).dictionary_encode())
    return through_push(pa.concat_tables([table[:1], table[1:]]).unify_dictionaries(), len(times))


def push_pandas(times: list[Any], ops: list[Any]) -> Outcome:
    return through_push(make_table(times, ops).to_pandas(), len(times))


def push_polars(times: list[Any], ops: list[Any]) -> Outcome:
    return through_push(polars.from_arrow(make_table(times, ops)), len(times))


def read_file(data: bytes, form: str, count: int) -> Outcome:
    """Files do not say which row a reason belongs to, except in the quarantine."""
    outcome: Outcome = [""] * count
    for batch in open_input(io.BytesIO(data), format=form):
        for event in batch.to_pylist():
            number = event["subject"]
            number = number if isinstance(number, int) else int(number.split('"')[1])
            outcome[number] = ("event", event["time"], event["op"])
    return outcome


def through_checker(times: list[Any], ops: list[Any]) -> Outcome:
    check = make_checker({"time": "time", "op": "op", **NAMES}, is_timed=True)
    outcome: Outcome = [""] * len(times)
    for table, is_bad in check(iter(make_table(times, ops).to_batches())):
        for row in table.to_pylist():
            if is_bad:
                number = json.loads(row["record"])["subject"]
                outcome[number] = Reason(row["reason"].partition(":")[0]).value
            else:
                outcome[row["subject"]] = ("event", row["time"], row["op"])
    return outcome


def read_arrow(times: list[Any], ops: list[Any]) -> Outcome:
    table = make_table(times, ops)
    target = io.BytesIO()
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table)
    return read_file(target.getvalue(), "arrow", len(times))


def read_csv(times: list[Any], ops: list[Any]) -> Outcome:
    lines = ["time,op,subject,predicate,object"]
    for number, (time, op) in enumerate(zip(times, ops, strict=True)):
        lines.append(f'{time or ""},{op or ""},"""{number}""",{P},<a:b>')
    return read_file("\n".join(lines).encode(), "csv", len(times))


WAYS: list[Callable[[list[Any], list[Any]], Outcome]] = [
    push_tuples, push_table, push_coded, push_polars, push_pandas, through_checker,
]  # fmt: skip
texts = st.sampled_from([
    "5", "-5", "+5", "1970-01-01", "1970-01-01T00:00:01Z", "1970-01-01 00:00:01.2509+02:00",
    "soon", "", "20240501", "2024-W18", "1e3", "5.0", " 5", "99999999999999999",
    "10000-01-01", "é", None,
])  # fmt: skip
signs = st.sampled_from(["+", "-", "1", "-1", "+1", "", None, "?", "++", "2", "true", "é"])


@given(st.lists(st.tuples(texts, signs), min_size=1, max_size=6))
def test_texts_mean_the_same_everywhere(rows: list[tuple[Any, Any]]) -> None:
    times, ops = (list(column) for column in zip(*rows, strict=True))
    if all(time is None for time in times) or all(op is None for op in ops):
        times, ops = [*times, "5"], [*ops, "+"]
    expected = push_tuples(times, ops)
    for way in WAYS:
        assert way(times, ops) == expected, way
    kept = [each if isinstance(each, tuple) else "" for each in expected]
    assert read_arrow(times, ops) == kept
    assert read_csv(times, ops) == kept


VALUES = [
    (5, 5), (np.int32(5), 5), (date(1970, 1, 2), 86_400_000),
    (pd.Timestamp("1970-01-01T00:00:01.0009"), 1000),
    (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1), (np.datetime64(-1, "ns"), -1),
    (datetime.fromisoformat("1970-01-01T00:00:01"), 1000),
    (True, Reason.BAD_TIME), (1.5, Reason.BAD_TIME), (b"5", Reason.BAD_TIME),
    (object(), Reason.BAD_TIME), (1 << 62, Reason.BAD_TIME), (-(1 << 62), Reason.BAD_TIME),
    (253_402_300_800_000, Reason.BAD_TIME),
    (None, Reason.NO_TIME), (pd.NaT, Reason.NO_TIME), (np.datetime64("NaT"), Reason.NO_TIME),
    ("\ud800", Reason.BAD_TIME), (np.timedelta64(5, "s"), Reason.BAD_TIME),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), VALUES)
def test_times_of_other_kinds(value: Any, expected: Any) -> None:
    (outcome,) = push_tuples([value], ["+"])
    assert outcome == (("event", expected, 1) if type(expected) is int else expected.value)


def test_a_missing_sign_is_an_insertion() -> None:
    engine = Engine()
    table = pa.table({"op": ["+", None], "subject": [1, 2], "predicate": [P, P], "object": [1, 1]})
    numbers = table.set_column(0, "op", pa.array([None, 1], pa.int8()))
    for given_updates in (table, numbers, table.to_pandas(), [(None, 1, P, 1), ("", 2, P, 1)]):
        assert engine.apply(given_updates).refused == ()
    assert engine.metrics()["updates"] == 8


def test_columns_are_found_alike() -> None:
    wrong = pa.table([[1], [1], ["<a:p>"], [1]], ["subject", "subject", "predicate", "object"])
    problems = []
    for attempt in (
        lambda: Engine().apply(wrong),
        lambda: Engine(window=Window(5)).push(wrong.append_column("time", [[1]])),
        lambda: check_columns(wrong.column_names, None),
    ):
        with pytest.raises((InputError, InvalidUpdate)) as error:
            attempt()
        problems.append(str(error.value))
    assert all("has more than one column 'subject'; its columns: " in text for text in problems)


def test_late_events_have_a_reason_of_their_own() -> None:
    """Also where an event says in its own words that it is late."""
    settings = EventTime(late="quarantine")
    rows: dict[str, list[Any]] = {
        "time": [100, 5, 101], "op": [1] * 3, "subject": ["<a:a>", "<a:a>", "late: its time is"],
        "predicate": [P] * 3, "object": [1] * 3,
    }  # fmt: skip
    for reports_late in (False, True):
        engine = Engine(window=Window(10), event_time=settings)
        engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
        epochs = WindowedEpochs(engine, reports_late=reports_late)
        list(epochs.feed(pa.RecordBatch.from_pydict({name: c[:1] for name, c in rows.items()})))
        list(epochs.feed(pa.RecordBatch.from_pydict({name: c[1:] for name, c in rows.items()})))
        kinds = [refusal.reason.kind for refusal in epochs.take_refused()]
        assert kinds == ([Reason.LATE] if reports_late else []) + [Reason.BAD_TERM]
