"""Times against Python's own calendar."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.events import open_input
from triegs.events.times import EARLIEST, GOOD, LATEST, MALFORMED, MISSING, OUT_OF_RANGE, read_times

START = datetime(1970, 1, 1, tzinfo=UTC)


def read_one(text: str) -> tuple[int, int]:
    times, states = read_times(pa.array([text]))
    return int(times[0]), int(states[0])


zones = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))


@given(st.datetimes(), st.none() | zones, st.sampled_from(["T", " ", "t"]))
def test_iso_times(when: datetime, zone: timezone | None, between: str) -> None:
    written = when.replace(tzinfo=zone).isoformat(between)
    exact = when.replace(tzinfo=UTC) - START - ((zone and zone.utcoffset(None)) or timedelta())
    expected = exact // timedelta(milliseconds=1)
    is_good = EARLIEST <= expected <= LATEST
    assert read_one(written) == ((expected, GOOD) if is_good else (0, OUT_OF_RANGE))


@given(st.dates())
def test_every_day(day: date) -> None:
    expected = (day.toordinal() - 719_163) * 86_400_000
    assert read_one(day.isoformat()) == (expected, GOOD)


@given(st.integers(-(10**30), 10**30))
def test_integers(number: int) -> None:
    is_good = EARLIEST <= number <= LATEST
    assert read_one(str(number)) == ((number, GOOD) if is_good else (0, OUT_OF_RANGE))


@given(st.text("0123456789-+:.,TtZz ", max_size=30))
def test_any_text_is_judged(text: str) -> None:
    """What we take, Python takes, and as the same time; there is no more to ISO 8601 for us."""
    time, state = read_one(text)
    if state == GOOD and not text.lstrip("+-").isdigit() and "24:00" not in text:
        plain = text.replace(",", ".").replace("t", "T").replace("z", "Z")
        when = datetime.fromisoformat(plain)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        assert (when - START) // timedelta(milliseconds=1) == time


GIVEN = [
    ("1969-12-31T23:59:59.999Z", -1),
    ("2024-02-29T24:00:00Z", 1_709_251_200_000),
    ("2024-05-01T10:00+0200", 1_714_550_400_000),
    ("2024-05-01T10:00:00,25+02", 1_714_550_400_250),
    ("2024-05-01T10:00:00.123456789Z", 1_714_557_600_123),
    ("+5", 5),
    ("-0", 0),
]
WRONG = [
    "2023-02-29", "1900-02-29", "2024-13-01", "2024-00-01", "2024-01-00", "2024-04-31", "2024-1-1",
    "2024-05-01T", "2024-05-01T10", "2024-05-01T10:0", "2024-05-01T10:00:", "2024-05-01T10:00:0",
    "2024-05-01T10:00:00.", "2024-05-01T10:00:60Z", "2024-05-01T25:00Z", "2024-05-01T24:00:01Z",
    "2024-05-01T10:00+2", "2024-05-01T10:00+02:", "2024-05-01T10:00+15:00", "2024-05-01T10:00ZZ",
    "2024-05-01T10:00:00+02:60", "today", " 5", "5 ", "1.5", "1e3", "-", "+", "--5",
    "12024-05-01", "-2024-05-01", "٥",
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), GIVEN)
def test_forms(text: str, expected: int) -> None:
    assert read_one(text) == (expected, GOOD)


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_time(text: str) -> None:
    assert read_one(text) == (0, MALFORMED)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps(unit: str, zone: str | None) -> None:
    scale = {"s": 1, "ms": 1_000, "us": 10**6, "ns": 10**9}[unit]
    column = pa.array([-scale, None, 5 * scale], pa.int64()).cast(pa.timestamp(unit, zone))
    times, states = read_times(column)
    assert states.tolist() == [GOOD, MISSING, GOOD]
    assert times[[0, 2]].tolist() == [-1000, 5000]


def test_fractions_are_cut_towards_the_past() -> None:
    assert read_times(pa.array([-1, 1999], pa.timestamp("us")))[0].tolist() == [-1, 1]


def test_types() -> None:
    assert read_times(pa.array([1], pa.date32()))[0].tolist() == [86_400_000]
    assert read_times(pa.array([2**64 - 1], pa.uint64()))[1].tolist() == [OUT_OF_RANGE]
    assert read_times(pa.array([2**62], pa.timestamp("s")))[1].tolist() == [OUT_OF_RANGE]
    assert read_times(pa.array(["5"]).dictionary_encode())[0].tolist() == [5]
    assert read_times(pa.array(["5", ""], pa.large_string()))[1].tolist() == [GOOD, MISSING]
    assert read_times(pa.nulls(1))[1].tolist() == [MISSING]
    with pytest.raises(TypeError, match="a double column cannot hold times"):
        read_times(pa.array([1.5]))


@pytest.mark.parametrize("text", [text for text, _ in GIVEN] + WRONG + ["0000-01-01", "2024-05-01"])
@pytest.mark.parametrize("unit", [None, "us"])
def test_a_text_is_the_same_time_in_every_format(
    text: str, unit: str | None, tmp_path: Path
) -> None:
    """Alone in its batch: then Arrow takes any column for one of timestamps."""
    record = {"time": text, "subject": "<a>", "predicate": "<b>", "object": "<c>"}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    (tmp_path / "a.tsv").write_text("\t".join(record) + "\n" + "\t".join(record.values()) + "\n")
    found = []
    for name in ("a.jsonl", "a.tsv"):
        source = open_input(tmp_path / name, time_unit=unit)
        times = [time for batch in source for time in batch["time"].to_pylist()]
        found.append((times, dict(source.report.quarantined)))
    assert found[0] == found[1]
    assert len(found[0][0]) + sum(found[0][1].values()) == 1


def test_json_lines_with_times_of_both_kinds(tmp_path: Path) -> None:
    """Batches of texts, then of numbers, then of texts again."""
    times = ["1970-01-01T00:00:01Z", "1970-01-01", 5, 6, "1970-01-01T00:00:07", "8"]
    lines = [
        json.dumps({"time": time, "subject": "<a>", "predicate": "<b>", "object": "<c>"})
        for time in times
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for rows in (1, 2, 3, 100):
        source = open_input(tmp_path / "a.jsonl", batch_rows=rows)
        found = [int(time) for batch in source for time in batch["time"].to_pylist()]
        assert found == [1_000, 0, 5, 6, 7_000, 8]
