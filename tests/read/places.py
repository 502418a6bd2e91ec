"""What positions, counts, samples and splits of a snapshot must be, by its enumeration."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, chain
from random import Random

import numpy as np
import pytest

from triegs.read.positions import Positions
from triegs.read.snapshot import Snapshot


def check_places(snapshot: Snapshot, random: Random) -> None:
    """Compare everything that goes by position with the list of all answers."""
    answers = list(snapshot)
    size = len(answers)
    assert snapshot.support() == len(snapshot) == size
    assert snapshot.count() == sum(answer.multiplicity for answer in answers)
    for wrong in (size, -size - 1):
        with pytest.raises(IndexError):
            snapshot[wrong]
    for _ in range(min(size, 3)):
        place = random.randrange(-size, size)
        assert snapshot[place] == answers[place]
    for _ in range(3):
        start, stop = (random.choice([None, random.randint(-size - 2, size + 2)]) for _ in "ab")
        wanted = slice(start, stop, random.choice([None, 1, 2, -1, -3]))
        assert list(snapshot[wanted]) == answers[wanted]
        assert snapshot[wanted].to_arrow("ids").num_rows == len(answers[wanted])
    # Seldom more than a few, because each part is a result of its own.
    parts = snapshot.split(random.randint(1, random.choice([4, 4, 4, size + 2])))
    assert [answer for part in parts for answer in part] == answers
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    each = list(range(1, size + 1))
    by_rows = list(accumulate(answer.multiplicity for answer in answers))
    for ends, is_weighted in ((each, False), (by_rows, True)):
        seed = random.randrange(1000)
        sample = snapshot.sample(5, weighted=is_weighted, seed=seed)
        places = snapshot.sample(5, weighted=is_weighted, seed=seed)._chosen
        assert list(sample) == [answers[bisect_right(ends, int(place))] for place in places]
        assert len(sample) == (5 if answers else 0)


def list_rows(columns):
    """Rows of ids with their multiplicity, from columns."""
    return list(chain.from_iterable(zip(map(tuple, ids.T.tolist()), counts.tolist(), strict=True)
                                    for ids, counts in columns))  # fmt: skip


def check_positions(positions: Positions, random: Random) -> None:
    """Compare the counts of a version with a scan of all its rows, some of them by position."""
    rows = list_rows(positions.scan())
    assert positions.support == len(rows) == len(set(rows))
    assert positions.count == sum(count for _, count in rows)
    expanded = [row for row in rows for _ in range(row[1])] if positions.count < 5000 else []
    for by_rows, wanted in ((False, rows), (True, expanded)):
        places = [random.randrange(len(wanted)) for _ in range(min(len(wanted), 100))]
        found = positions.pick(np.array(places, np.int64), by_rows)
        assert list_rows([found]) == [wanted[place] for place in places]
    start = random.randint(0, len(rows))
    stop = min(len(rows), start + 100)
    assert list_rows(positions.stream(start, stop, lambda: 7)) == rows[start:stop]
