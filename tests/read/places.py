"""What positions, counts, samples and splits of a snapshot must be, by its enumeration."""

from __future__ import annotations

from random import Random

import pytest

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
    parts = snapshot.split(random.randint(1, size + 2))
    assert [answer for part in parts for answer in part] == answers
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    rows = [answer for answer in answers for _ in range(answer.multiplicity)]
    for drawn_of, is_weighted in ((answers, False), (rows, True)):
        seed = random.randrange(1000)
        sample = snapshot.sample(5, weighted=is_weighted, seed=seed)
        places = snapshot.sample(5, weighted=is_weighted, seed=seed)._places
        assert list(sample) == [drawn_of[place] for place in places]
        assert len(sample) == (5 if answers else 0)
