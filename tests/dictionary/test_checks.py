"""`check` finds each corruption that is planted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from triegs.terms.arrays import FREE_IDS, HEAP_LIVE, LIMBO, NAMED, TOP, Arrays
from triegs.terms.checks import DictionaryCorrupt
from triegs.terms.dictionary import Dictionary


def swap_spans(arrays: Arrays) -> None:
    arrays.spans[[0, 1]] = arrays.spans[[1, 0]]


def change_text(arrays: Arrays) -> None:
    arrays.heap[3] ^= 1


def lose_text(arrays: Arrays) -> None:
    arrays.texts[arrays.texts.nonzero()[0][0]] = 0


def lose_integer(arrays: Arrays) -> None:
    arrays.integers[arrays.integers[:, 1].nonzero()[0][0]] = 0


def change_integer(arrays: Arrays) -> None:
    arrays.spans[2, 0] = 6


def count_below_zero(arrays: Arrays) -> None:
    arrays.counts[0] = -1


def count_unseen(arrays: Arrays) -> None:
    arrays.counts[1] += 1


def miscount_named(arrays: Arrays) -> None:
    arrays.meta[NAMED] += 1


def forget_limbo(arrays: Arrays) -> None:
    arrays.meta[LIMBO] -= 1


def free_twice(arrays: Arrays) -> None:
    arrays.meta[FREE_IDS] += 1


def use_beyond_top(arrays: Arrays) -> None:
    arrays.states[arrays.meta[TOP]] = 1


def miscount_bytes(arrays: Arrays) -> None:
    arrays.meta[HEAP_LIVE] += 1


def forget_mark(arrays: Arrays) -> None:
    arrays.cached[:] = 0


@pytest.mark.parametrize(
    "corrupt",
    [
        *(swap_spans, change_text, lose_text, lose_integer, change_integer, count_below_zero),
        *(count_unseen, miscount_named, forget_limbo, free_twice, use_beyond_top),
        *(miscount_bytes, forget_mark),
    ],
)
def test_planted_corruption_is_found(corrupt: Callable[[Arrays], None]) -> None:
    words = Dictionary()
    words.encode_terms(["<http://ex/a>", "<http://ex/b>", 5])
    words.acquire([0])
    words.check()
    corrupt(words._interner.arrays)
    with pytest.raises(DictionaryCorrupt, match="invariant"):
        words.check()
