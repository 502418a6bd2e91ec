"""Ever-fresh terms in bounded memory, and ids that come back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from triegs.terms.dictionary import Dictionary

BATCH = 20_000


def fresh_texts(batch: int) -> pa.Array:
    return pa.array([f"<http://ex/item/{batch * BATCH + row}>" for row in range(BATCH)])


def fresh_integers(batch: int) -> pa.Array:
    return pa.array(np.arange(batch * BATCH, (batch + 1) * BATCH))


@pytest.mark.parametrize("fresh", [fresh_texts, fresh_integers])
def test_a_million_terms_come_and_go(fresh) -> None:
    words = Dictionary()
    window: list[np.ndarray] = []
    most, ids_seen = 0, 0
    for epoch in range(1, 51):
        ids = words.encode(fresh(epoch)).ids
        assert len(np.unique(ids)) == BATCH
        words.acquire(ids, epoch)
        window.append(ids)
        if len(window) > 2:
            words.release(window.pop(0), epoch)
        words.collect(epoch)
        if epoch == 10:
            most = words.metrics().bytes
        ids_seen = max(ids_seen, int(ids.max()))
        assert words.metrics().live == BATCH * min(epoch, 2)
    assert ids_seen < 4 * BATCH
    assert words.metrics().bytes <= 2 * most
    words.check()
    for ids in window:
        words.release(ids, 51)
    words.collect(51)
    metrics = words.metrics()
    assert (metrics.live, metrics.limbo, metrics.text_bytes) == (0, 0, 0)
    assert metrics.bytes < most / 2
    words.check()


def test_single_terms_come_and_go() -> None:
    words = Dictionary()
    sizes = []
    for epoch in range(1, 20_001):
        ids = words.encode_terms([f"<http://ex/{epoch}>", epoch, f'"{epoch}"@EN'])
        words.acquire(ids, epoch)
        words.release(ids, epoch + 1)
        words.collect(epoch, at_least=64)
        if epoch % 5_000 == 0:
            sizes.append(words.metrics().bytes)
    assert max(sizes) <= 2 * sizes[0]
    words.check()


def test_an_old_pin_keeps_only_what_it_sees() -> None:
    words = Dictionary()
    first = words.encode(fresh_texts(0)).ids
    words.acquire(first, 1)
    words.release(first, 2)
    for epoch in range(2, 12):
        ids = words.encode(fresh_texts(epoch)).ids
        words.acquire(ids, epoch)
        words.release(ids, epoch + 1)
        words.collect(epoch, pins=[1])
    words.collect(12, pins=[1])
    metrics = words.metrics()
    assert (metrics.live, metrics.limbo, metrics.held) == (0, BATCH, BATCH)
    assert words.decode(first).to_pylist() == fresh_texts(0).to_pylist()
    assert words.collect(12) == BATCH
    words.check()


def test_a_term_named_again_is_kept() -> None:
    words = Dictionary()
    a = words.encode_one("<a>")
    words.acquire([a], 1)
    words.release([a], 2)
    assert words.collect(1) == 0
    assert words.encode_one("<a>") == a
    words.acquire([a], 3)
    assert words.collect(3) == 0
    words.release([a], 4)
    words.acquire([a], 4)
    assert words.collect(4, pins=[1]) == 0
    words.release([a], 5)
    assert words.collect(5, pins=[1]) == 0
    words.acquire([a], 6)
    assert words.collect(6) == 0
    assert words.metrics().live == 1
    words.check()


def test_terms_that_nobody_named_go_at_once() -> None:
    words = Dictionary()
    words.encode(pa.array(["<a>", "<b>"]))
    assert words.collect(0, pins=[0]) == 2
    assert words.find_one("<a>") == -1


@pytest.mark.parametrize("few", [True, False])
def test_wrong_counting_changes_nothing(few: bool) -> None:
    words = Dictionary()
    a, b = words.encode_terms(["<a>", "<b>"])
    words.acquire([a, b, b])

    def give(ids: list[int]) -> object:
        return ids if few else np.array(ids)

    for wrong in ([b, b, b], [a, a], [a, -1], [a, 2], [a, 10**6]):
        with pytest.raises(KeyError):
            words.release(give(wrong))  # type: ignore[arg-type]
    for wrong in ([b, -1], [a, 2], [a, 10**6]):
        with pytest.raises(KeyError):
            words.acquire(give(wrong))  # type: ignore[arg-type]
    words.check()
    words.release(give([b, a, b]))  # type: ignore[arg-type]
    assert words.metrics().live == 0
    assert words.collect(0) == 2


def test_known_and_new_terms_in_one_batch() -> None:
    words = Dictionary()
    old = words.encode(pa.array([f"<{i}>" for i in range(0, 3000, 3)])).ids
    words.acquire(old)
    mixed = words.encode(pa.array([f"<{i}>" for i in range(3000)] * 2)).ids
    assert mixed[:3000:3].tolist() == old.tolist()
    assert mixed[:3000].tolist() == mixed[3000:].tolist()
    assert len(np.unique(mixed)) == 3000
    assert words.decode(mixed).to_pylist() == [f"<{i}>" for i in range(3000)] * 2
    words.check()
