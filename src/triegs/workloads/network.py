"""A social network as a stream: persons join, befriend, write, reply, like and leave.

**Lifetimes.** Every fact is drawn together with its end time, which is mostly never. No fact
outlives what it depends on: a reply ends no later than the message above it, its writer, and the
forum of its thread. So when a person, a forum or a post ends, all its dependents end in the same
millisecond, without any search: a deep delete. Within one millisecond the newest fact is deleted
first, so no fact in the stream ever refers to something that does not exist.

**Skew.** Of n persons, person i is drawn with probability proportional to ``i ** -0.5``, so degrees
follow a power law. Messages are drawn by recency; those whose number is divisible by a high power
of two are hot. Half of the friendships are within a cohort of persons who joined one after the
other, so that a window contains triangles and cliques.

**Memory.** A finite life ends within `LONGEST_LIFE` activities. The state is the deletes of that
period, a ring of the newest messages, two words per person and one per forum: about a byte for
every ten events of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from triegs.workloads.draw import Layer, Numbers
from triegs.workloads.rows import DELETE, INSERT, Rows, join
from triegs.workloads.words import (
    CITIES,
    CITY_COUNTRIES,
    COUNTRIES,
    FIRST_NAMES,
    LAST_NAMES,
    SHIFT,
    TAG_NAMES,
    Kind,
    Predicate,
)

NEVER = 2**62
ACTIVITIES = 8192  # drawn at a time
EVENTS_PER_ACTIVITY = 2.27  # measured, including deletes
SHORTEST_LIFE, LONGEST_LIFE = 16, 65_536  # in activities
FOUNDERS, FIRST_FORUMS = 32, 4
COHORT = 32
RING = 65_536  # messages; the newest half may still be answered or liked
HOTTEST = 10  # a message whose number is divisible by 2 ** 10 is as hot as possible

#: The activities, and their frequencies.
CHANCES = {
    "join": 0.012,
    "found": 0.004,
    "enter": 0.080,
    "befriend": 0.280,
    "post": 0.090,
    "comment": 0.170,
    "like": 0.364,
}
JOIN, FOUND, ENTER, BEFRIEND, POST, COMMENT, LIKE = range(len(CHANCES))

#: The share of each that ends independently; more end with what they depend on.
PERSON_ENDS, FORUM_ENDS, MESSAGE_ENDS, LINK_ENDS, PERSON_MOVES = 0.10, 0.10, 0.05, 0.05, 0.20

_FIRST_NAMES = Layer(0, len(FIRST_NAMES), 0.6)
_LAST_NAMES = Layer(0, len(LAST_NAMES), 0.6)
_CITIES = Layer(0, len(CITIES), 0.7)
_COUNTRIES = Layer(0, len(COUNTRIES), 0.7)
_TAGS = Layer(0, len(TAG_NAMES), 0.9)

Mask = NDArray[np.bool_]


class Facts(NamedTuple):
    """Facts with their lifetimes, and their positions within a block."""

    positions: Numbers
    slots: Numbers
    begins: Numbers
    ends: Numbers
    subjects: Numbers
    predicates: Numbers
    objects: Numbers


class Grown:
    """An array that grows at its end."""

    def __init__(self) -> None:
        self._values = np.zeros(1024, np.int64)
        self.count = 0

    def extend(self, values: Numbers) -> None:
        count = self.count + len(values)
        while count > len(self._values):
            self._values = np.concatenate([self._values, np.zeros_like(self._values)])
        self._values[self.count : count] = values
        self.count = count

    def __getitem__(self, positions: Numbers) -> Numbers:
        found: Numbers = self._values[positions]
        return found


class Network:
    """The state of the network needed to draw the next block.

    `step` is the mean time between two activities in ms.
    """

    def __init__(self, seed: int, start: int, step: float) -> None:
        self._seed = seed
        self._start = start
        self._step = step
        self._person_ends, self._person_countries = Grown(), Grown()
        self._forum_ends = Grown()
        self._messages = 0
        self._message_ends = np.zeros(RING, np.int64)
        self._message_kinds = np.zeros(RING, np.int64)
        self._facts = 0
        self._later: dict[int, list[tuple[Rows, Numbers]]] = {}
        self._span = max(1, round(ACTIVITIES * step))

    def draw(self) -> Iterator[Rows]:
        """The stream, block by block, without end."""
        number = 0
        while True:
            random = np.random.default_rng([self._seed, number])
            begin = self._start + number * self._span
            times = begin + np.sort(random.integers(0, self._span, ACTIVITIES))
            kinds = np.searchsorted(
                np.cumsum(list(CHANCES.values()))[:-1], random.random(ACTIVITIES), side="right"
            )
            if number == 0:
                kinds[:FOUNDERS] = JOIN
                kinds[FOUNDERS : FOUNDERS + FIRST_FORUMS] = FOUND
            self._plan(self._act(random, times, kinds, is_first=number == 0))
            yield self._collect(number)
            number += 1

    def _act(
        self, random: np.random.Generator, times: Numbers, kinds: Numbers, is_first: bool
    ) -> Facts:
        """All activities of a block. Later ones see the results of earlier ones."""
        block = _Block(random, times, kinds, self._step)
        persons = _Crowd(self._person_ends, block.count_before(JOIN) + self._person_ends.count)
        forums = _Crowd(self._forum_ends, block.count_before(FOUND) + self._forum_ends.count)
        facts = [self._join(block, is_first)]
        facts.append(self._found(block, persons, is_first))
        facts.append(self._enter(block, persons, forums))
        facts.append(self._befriend(block, persons))
        first = self._messages
        facts.append(self._write(block, persons, forums))
        facts.append(self._like(block, persons, first + block.count_before(POST, COMMENT)))
        return Facts(*map(np.concatenate, zip(*facts, strict=True)))

    def _join(self, block: _Block, is_first: bool) -> Facts:
        at = block.find(JOIN)
        begins = block.times[at]
        ends = block.end(begins, PERSON_ENDS)
        moves = block.end(begins, PERSON_MOVES)
        if is_first:
            ends[:FOUNDERS] = NEVER  # so that somebody is always there
        cities, next_cities = (_CITIES.draw(block.random, len(at)) for _ in range(2))
        me = _code(Kind.PERSON, self._person_ends.count + np.arange(len(at)))
        self._person_ends.extend(ends)
        self._person_countries.extend(CITY_COUNTRIES[cities])
        does_move = moves < ends
        facts = _Sheet(at, begins, ends, me)
        facts.add(Predicate.TYPE, _code(Kind.CLASS, 0))
        facts.add(Predicate.FIRST_NAME, _draw(block, _FIRST_NAMES, Kind.FIRST_NAME, at))
        facts.add(Predicate.LAST_NAME, _draw(block, _LAST_NAMES, Kind.LAST_NAME, at))
        facts.add(Predicate.CREATION_DATE, _code(Kind.DATE, begins))
        facts.add(Predicate.IS_LOCATED_IN, _code(Kind.CITY, cities), ends=np.minimum(ends, moves))
        facts.add(
            Predicate.IS_LOCATED_IN, _code(Kind.CITY, next_cities), only=does_move, begins=moves
        )
        facts.add(Predicate.HAS_INTEREST, _draw(block, _TAGS, Kind.TAG, at))
        facts.add(Predicate.HAS_INTEREST, _draw(block, _TAGS, Kind.TAG, at))
        return facts.close()

    def _found(self, block: _Block, persons: _Crowd, is_first: bool) -> Facts:
        at = block.find(FOUND)
        begins = block.times[at]
        moderators, limits = persons.choose(block, at)
        ends = np.minimum(block.end(begins, FORUM_ENDS), limits)
        if is_first:
            moderators[:FIRST_FORUMS] = np.arange(FIRST_FORUMS)
            ends[:FIRST_FORUMS] = NEVER
        me = _code(Kind.FORUM, self._forum_ends.count + np.arange(len(at)))
        self._forum_ends.extend(ends)
        facts = _Sheet(at, begins, ends, me)
        facts.add(Predicate.TYPE, _code(Kind.CLASS, 1))
        facts.add(Predicate.HAS_MODERATOR, _code(Kind.PERSON, moderators))
        facts.add(Predicate.CREATION_DATE, _code(Kind.DATE, begins))
        facts.add(Predicate.HAS_TAG, _draw(block, _TAGS, Kind.TAG, at))
        return facts.close()

    def _enter(self, block: _Block, persons: _Crowd, forums: _Crowd) -> Facts:
        at = block.find(ENTER)
        begins = block.times[at]
        members, limits = persons.choose(block, at)
        entered, forum_limits = forums.choose(block, at)
        ends = np.minimum(block.end(begins, LINK_ENDS), np.minimum(limits, forum_limits))
        facts = _Sheet(at, begins, ends, _code(Kind.FORUM, entered))
        facts.add(Predicate.HAS_MEMBER, _code(Kind.PERSON, members))
        return facts.close()

    def _befriend(self, block: _Block, persons: _Crowd) -> Facts:
        """Stated once, for the older member; half of them between newcomers of one cohort."""
        at = block.find(BEFRIEND)
        begins, known = block.times[at], persons.known[at]
        one, one_limits = persons.choose(block, at)
        other, other_limits = persons.choose(block, at)
        is_near = block.random.random(len(at)) < 0.5
        newest = known - 1 - _draw_recent(block.random, known)
        peers = newest // COHORT * COHORT + block.random.integers(0, COHORT, len(at))
        peers = np.minimum(peers, known - 1)
        one, other = np.where(is_near, newest, one), np.where(is_near, peers, other)
        one_limits = np.where(is_near, self._person_ends[one], one_limits)
        other_limits = np.where(is_near, self._person_ends[other], other_limits)
        ends = np.minimum(block.end(begins, LINK_ENDS), np.minimum(one_limits, other_limits))
        ends[one == other] = 0
        one, other = np.minimum(one, other), np.maximum(one, other)
        _, first = np.unique(one << 32 | other, return_index=True)
        ends[np.setdiff1d(np.arange(len(at)), first)] = 0  # duplicate within a block
        facts = _Sheet(at, begins, ends, _code(Kind.PERSON, one))
        facts.add(Predicate.KNOWS, _code(Kind.PERSON, other))
        return facts.close()

    def _write(self, block: _Block, persons: _Crowd, forums: _Crowd) -> Facts:
        """Posts go into forums; a comment replies to a message, possibly of the same block."""
        at = block.find(POST, COMMENT)
        random, begins = block.random, block.times[at]
        is_post = block.kinds[at] == POST
        writers, limits = persons.choose(block, at)
        holders, forum_limits = forums.choose(block, at)
        ends = np.minimum(block.end(begins, MESSAGE_ENDS), limits)
        ends = np.where(is_post, np.minimum(ends, forum_limits), ends)
        numbers = self._messages + np.arange(len(at))
        above = np.where(is_post, -1, _choose_message(random, numbers))
        ends[~is_post & (above < 0)] = 0  # nothing to reply to yet
        above_limits = self._message_ends[above % RING]
        kinds = np.where(is_post, int(Kind.POST), int(Kind.COMMENT))
        self._message_kinds[numbers % RING] = kinds
        ends = self._end_with_above(begins, ends, above, above_limits)
        self._message_ends[numbers % RING] = ends
        self._messages += len(at)
        above_kinds = self._message_kinds[above % RING]

        home = self._person_countries[writers]
        countries = np.where(random.random(len(at)) < 0.9, home, _COUNTRIES.draw(random, len(at)))
        me = kinds << SHIFT | numbers
        facts = _Sheet(at, begins, ends, me)
        facts.add(Predicate.TYPE, _code(Kind.CLASS, np.where(is_post, 2, 3)))
        facts.add(Predicate.HAS_CREATOR, _code(Kind.PERSON, writers))
        facts.add(Predicate.CONTAINER_OF, me, only=is_post, subjects=_code(Kind.FORUM, holders))
        facts.add(Predicate.REPLY_OF, above_kinds << SHIFT | above, only=~is_post)
        facts.add(Predicate.CREATION_DATE, _code(Kind.DATE, begins))
        facts.add(Predicate.IS_LOCATED_IN, _code(Kind.COUNTRY, countries))
        has_tag = random.random(len(at)) < np.where(is_post, 0.8, 0.3)
        facts.add(Predicate.HAS_TAG, _draw(block, _TAGS, Kind.TAG, at), only=has_tag)
        return facts.close()

    def _end_with_above(
        self, begins: Numbers, ends: Numbers, above: Numbers, limits: Numbers
    ) -> Numbers:
        """End each message with the one above it; one that comes too late has no lifetime.

        Messages of the same block are processed top down, one thread level at a time.
        """
        ends = ends.copy()
        local = above - self._messages
        is_old = (above >= 0) & (local < 0)
        ends[is_old] = np.minimum(ends, limits)[is_old]
        ends[is_old & (limits <= begins)] = 0
        is_settled = local < 0
        waiting = np.flatnonzero(~is_settled)
        while len(waiting):
            is_next = is_settled[local[waiting]]
            level = waiting[is_next]
            found = ends[local[level]]
            ends[level] = np.where(found <= begins[level], 0, np.minimum(ends[level], found))
            is_settled[level] = True
            waiting = waiting[~is_next]
        return ends

    def _like(self, block: _Block, persons: _Crowd, written: Numbers) -> Facts:
        at = block.find(LIKE)
        begins = block.times[at]
        fans, limits = persons.choose(block, at)
        liked = _choose_message(block.random, written[at])
        liked_limits = np.where(liked < 0, 0, self._message_ends[liked % RING])
        ends = np.minimum(block.end(begins, LINK_ENDS), np.minimum(limits, liked_limits))
        ends[liked_limits <= begins] = 0
        facts = _Sheet(at, begins, ends, _code(Kind.PERSON, fans))
        facts.add(Predicate.LIKES, self._message_kinds[liked % RING] << SHIFT | liked)
        return facts.close()

    def _plan(self, facts: Facts) -> None:
        """Number the facts of a block, and schedule their insertions and deletions by time."""
        facts = Facts(*(column[np.lexsort((facts.slots, facts.positions))] for column in facts))
        ids = self._facts + 1 + np.arange(len(facts.positions))
        self._facts += len(ids)
        middle = (facts.subjects, facts.predicates, facts.objects, ids)
        inserts = Rows(facts.begins, np.full(len(ids), INSERT, np.int8), *middle)
        deletes = Rows(facts.ends, np.full(len(ids), DELETE, np.int8), *middle)
        rows = join([inserts, deletes.take(facts.ends < NEVER)])
        blocks = (rows.times - self._start) // self._span
        # Within one millisecond deletes precede inserts, and the newest fact is deleted first.
        ranks = rows.ids * rows.ops
        for number in np.unique(blocks).tolist():
            chosen = blocks == number
            self._later.setdefault(number, []).append((rows.take(chosen), ranks[chosen]))

    def _collect(self, number: int) -> Rows:
        """The events within the time of a block, in order."""
        filed = self._later.pop(number, [])
        rows = join(part for part, _ in filed)
        return rows.take(np.lexsort((np.concatenate([r for _, r in filed]), rows.times)))


class _Block(NamedTuple):
    """Activities in time order."""

    random: np.random.Generator
    times: Numbers
    kinds: Numbers
    step: float

    def find(self, *kinds: int) -> Numbers:
        return np.flatnonzero(np.isin(self.kinds, kinds))

    def count_before(self, *kinds: int) -> Numbers:
        """For each activity, the number of earlier activities of these kinds."""
        is_kind = np.isin(self.kinds, kinds)
        counts: Numbers = np.cumsum(is_kind) - is_kind
        return counts

    def end(self, begins: Numbers, share: float) -> Numbers:
        """End times: this share of facts ends, with lifetimes of all orders of magnitude."""
        draws = self.random.random((2, len(begins)))
        lives = SHORTEST_LIFE * (LONGEST_LIFE / SHORTEST_LIFE) ** draws[1] * self.step
        ends = begins + np.maximum(1, lives.astype(np.int64))
        return np.where(draws[0] < share, ends, NEVER)


class _Crowd(NamedTuple):
    """The persons or the forums: their end times, and how many exist at each activity."""

    ends: Grown
    known: Numbers

    def choose(self, block: _Block, at: Numbers) -> tuple[Numbers, Numbers]:
        """One for each activity, strongly favouring old ones, and its end time.

        One that has already ended is redrawn up to three times; after that its end is 0.
        """
        known, now = self.known[at], block.times[at]
        draws = block.random.random((4, len(at))) ** 2
        chosen = (draws[0] * known).astype(np.int64)
        ends = self.ends[chosen]
        for draw in draws[1:]:
            is_gone = ends <= now
            chosen[is_gone] = (draw * known).astype(np.int64)[is_gone]
            ends = self.ends[chosen]
        return chosen, np.where(ends <= now, 0, ends)


class _Sheet:
    """Facts of activities of one kind; those that do not end after they begin are left out."""

    def __init__(self, at: Numbers, begins: Numbers, ends: Numbers, subjects: Numbers) -> None:
        self._at, self._begins, self._ends, self._subjects = at, begins, ends, subjects
        self._is_real = ends > begins
        self._parts: list[Facts] = []

    def add(
        self,
        predicate: Predicate,
        objects: Numbers | int,
        *,
        only: Mask | None = None,
        begins: Numbers | None = None,
        ends: Numbers | None = None,
        subjects: Numbers | None = None,
    ) -> None:
        rows = self._is_real if only is None else self._is_real & only
        size = int(np.count_nonzero(rows))
        self._parts.append(
            Facts(
                self._at[rows],
                np.full(size, len(self._parts)),
                (self._begins if begins is None else begins)[rows],
                (self._ends if ends is None else ends)[rows],
                (self._subjects if subjects is None else subjects)[rows],
                np.full(size, int(predicate)),
                np.broadcast_to(objects, len(self._at))[rows],
            )
        )

    def close(self) -> Facts:
        return Facts(*map(np.concatenate, zip(*self._parts, strict=True)))


def _code(kind: Kind, numbers: Numbers | int) -> Numbers:
    code: Numbers = np.asarray(numbers, np.int64) | int(kind) << SHIFT
    return code


def _draw(block: _Block, layer: Layer, kind: Kind, at: Numbers) -> Numbers:
    return _code(kind, layer.draw(block.random, len(at)))


def _draw_recent(random: np.random.Generator, counts: Numbers) -> Numbers:
    """For each count n a number from 0 to n - 1, with all orders of magnitude equally likely."""
    found: Numbers = np.exp(random.random(len(counts)) * np.log(counts)).astype(np.int64)
    return np.minimum(found, counts) - 1


def _choose_message(random: np.random.Generator, written: Numbers) -> Numbers:
    """A message among those written so far, -1 if there is none: recent ones, some of them hot."""
    known = np.clip(written, 1, RING // 2)
    chosen = written - 1 - _draw_recent(random, known)
    heat = np.minimum(random.geometric(0.3, len(written)) - 1, HOTTEST)
    hot = chosen >> heat << heat
    return np.where(written > 0, hot, -1)
