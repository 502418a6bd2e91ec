"""The social stream by an independent reading: event by event, with plain sets and dictionaries."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from triegs import workloads

SOCIAL = workloads.get("social")
SIZE = 120_000
THING = re.compile(r"<http://www\.ldbc\.eu/ldbc_socialnet/1\.0/data/(pers|forum|post|comm)\d+>")
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


class Event(NamedTuple):
    time: int
    op: int
    subject: str
    predicate: str
    object: str
    id: int


def read(size: int, seed: int = 1, rate: float = 1000) -> pa.Table:
    return pa.Table.from_batches(SOCIAL.events(size, seed, rate=rate))


def list_events(table: pa.Table) -> Iterator[Event]:
    columns = [table[name].to_pylist() for name in Event._fields]
    return map(Event, *columns)


def short(term: str) -> str:
    return term.rstrip(">").rsplit("/", 1)[-1].rsplit("#", 1)[-1]


@pytest.fixture(scope="module")
def stream() -> list[Event]:
    return list(list_events(read(SIZE)))


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_dangles_anywhere_in_the_stream(seed: int) -> None:
    """After every single event each live fact speaks of things that are there."""
    live: dict[int, Event] = {}
    there: set[str] = set()
    named: Counter[str] = Counter()
    for event in list_events(read(SIZE, seed)):
        things = [t for t in (event.subject, event.object) if THING.fullmatch(t)]
        is_type = event.predicate == TYPE
        if event.op == 1:
            assert event.id not in live
            live[event.id] = event
            if is_type:
                assert event.subject not in there
                there.add(event.subject)
            else:
                named.update(things)
                assert there.issuperset(things), event
        else:
            first = live.pop(event.id)  # a delete names an event that is live
            assert first[2:] == event[2:]
            assert first.time < event.time
            if is_type:
                there.remove(event.subject)
                assert named[event.subject] == 0, event
            else:
                named.subtract(things)


def test_deletes_cascade_to_dependents(stream: list[Event]) -> None:
    """Recomputed from the facts: what hangs on a deleted thing, directly or by others, is gone.

    All of it goes in one millisecond, and something of every kind goes that way.
    """
    hangs: dict[str, list[Event]] = defaultdict(list)
    gone: dict[int, int] = {}
    for event in stream:
        if event.op == -1:
            gone[event.id] = event.time
            continue
        if event.predicate == TYPE:
            continue
        for thing in (event.subject, event.object):
            hangs[thing].append(event)
    sizes: dict[str, list[int]] = defaultdict(list)
    for event in stream:
        if event.op == 1 or event.predicate != TYPE:
            continue
        taken: set[int] = set()
        open_things = [event.subject]
        while open_things:
            thing = open_things.pop()
            for fact in hangs[thing]:
                if fact.id in taken or fact.time > event.time:
                    continue
                assert fact.id in gone, (event, fact)
                assert gone[fact.id] <= event.time
                taken.add(fact.id)
                kind = short(fact.predicate)
                if kind in ("hasCreator", "replyOf", "hasModerator"):
                    open_things.append(fact.subject)
                if kind == "containerOf":
                    open_things.append(fact.object)
        sizes[short(event.object)].append(sum(gone[i] == event.time for i in taken))
    assert set(sizes) == {"Person", "Forum", "Post", "Comment"}
    assert max(sizes["Person"]) > 50
    assert max(sizes["Forum"]) > 50
    assert max(sizes["Post"]) > 10


def test_updates_replace_a_city(stream: list[Event]) -> None:
    """A person has one city at any time; some move, and the two events share a millisecond."""
    cities: Counter[str] = Counter()
    moves: Counter[tuple[str, int]] = Counter()
    for event in stream:
        if short(event.predicate) == "isLocatedIn" and short(event.subject).startswith("pers"):
            cities[event.subject] += event.op
            assert cities[event.subject] in (0, 1)
            moves[event.subject, event.time] += 1
    assert sum(count == 2 for count in moves.values()) > 20


def test_entities_and_their_facts(stream: list[Event]) -> None:
    counts = Counter(short(event.predicate) for event in stream if event.op == 1)
    assert set(counts) == {
        "type", "firstName", "lastName", "creationDate", "isLocatedIn", "hasInterest", "knows",
        "hasModerator", "hasMember", "containerOf", "hasCreator", "hasTag", "replyOf", "likes",
    }  # fmt: skip
    share = sum(event.op == -1 for event in stream) / len(stream)
    assert 0.03 < share < 0.15
    for label, least in (("knows", 0.08), ("likes", 0.1), ("replyOf", 0.05), ("hasMember", 0.02)):
        assert counts[label] > least * len(stream), label


def test_dates_are_the_times(stream: list[Event]) -> None:
    dated = [event for event in stream if event.op == 1 and short(event.predicate)[-4:] == "Date"]
    texts = np.array([event.object.split('"')[1].rstrip("Z") for event in dated], "datetime64[ms]")
    assert texts.astype(np.int64).tolist() == [event.time for event in dated]
    assert str(texts[0])[:10] == "2010-01-01"


def test_friendships_are_of_the_older_and_nobody_is_their_own_friend(stream: list[Event]) -> None:
    for event in stream:
        if short(event.predicate) == "knows":
            assert int(short(event.subject)[4:]) < int(short(event.object)[4:])


def count_degrees(stream: list[Event], label: str, end: int) -> np.ndarray:
    facts = [event for event in stream if event.op == 1 and short(event.predicate) == label]
    return np.sort(list(Counter(fact[end] for fact in facts).values()))[::-1]


@pytest.mark.parametrize(
    ("label", "end"),
    [("likes", 2), ("likes", 4), ("knows", 2), ("hasCreator", 4), ("replyOf", 4), ("hasTag", 4)],
)
def test_degrees_are_skewed(stream: list[Event], label: str, end: int) -> None:
    """The busiest hundredth has many times its share, and the tail falls like a power."""
    degrees = count_degrees(stream, label, end)
    top = degrees[: max(1, len(degrees) // 100)].sum() / degrees.sum()
    assert top > 0.03 if len(degrees) > 200 else degrees[0] > 5 * np.median(degrees)
    assert degrees[0] >= 8 * np.median(degrees)


def test_a_window_has_triangles(stream: list[Event]) -> None:
    """Within ten seconds, by brute force; otherwise the cyclic queries would have no answer."""
    last = stream[-1].time
    friends: dict[str, set[str]] = defaultdict(set)
    for event in stream:
        if event.time > last - 10_000 and event.op == 1 and short(event.predicate) == "knows":
            friends[event.subject].add(event.object)
    found = sum(len(friends[a] & friends.get(b, set())) for a in list(friends) for b in friends[a])
    assert 20 < found < 20_000


def test_pace(stream: list[Event]) -> None:
    """About a thousand events per second by default."""
    seconds = (stream[-1].time - stream[0].time) / 1000
    assert 0.9 < len(stream) / seconds / 1000 < 1.1
    times = read(20_000, rate=10)["time"]
    assert 0.8 < 20_000 / ((times[-1].as_py() - times[0].as_py()) / 1000) / 10 < 1.2


def test_a_fast_network_still_makes_sense() -> None:
    """So many events in a millisecond that most share theirs."""
    live: set[int] = set()
    for event in list_events(read(40_000, rate=1_000_000)):
        if event.op == 1:
            live.add(event.id)
        else:
            live.remove(event.id)


def test_static_facts_name_what_the_stream_names(stream: list[Event]) -> None:
    table = SOCIAL.static_table()
    known = set(table["subject"].to_pylist())
    used = {
        event.object
        for event in stream
        if short(event.predicate) in ("hasTag", "hasInterest", "isLocatedIn")
    }
    assert used <= known
    labels = {short(label) for label in table["predicate"].to_pylist()}
    assert labels == {"isPartOf", "hasType", "isSubclassOf"}
