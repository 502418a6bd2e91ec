"""Subscriptions in an event loop, and callbacks that miss no epoch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from triegs import Changes, Engine, Progress, Snapshot

P = "<http://ex/p>"
TEXT = f"SELECT ?x {{ ?x {P} ?y }}"


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as found:
        yield found


def update(engine: Engine, number: int) -> None:
    engine.apply([("+", number, P, 1)])


def test_async_for_waits_and_ends(engine: Engine) -> None:
    query = engine.register(TEXT)
    seen: list[Any] = []

    async def follow() -> None:
        async for event in query.subscribe(progress=False):
            if isinstance(event, Snapshot):
                seen.append(event.epoch)
            elif isinstance(event, Changes):
                seen.append(list(event.answers("python")))

    async def main() -> None:
        before = threading.active_count()
        tasks = [asyncio.create_task(follow()) for _ in range(20)]
        await asyncio.sleep(0)
        assert engine._publications.waiting == 20
        # From another thread, as updates come while the loop waits.
        await asyncio.to_thread(update, engine, 7)
        while len(seen) < 40:
            await asyncio.sleep(0.001)
        assert threading.active_count() <= before + 1  # the one of to_thread
        query.close()
        await asyncio.wait_for(asyncio.gather(*tasks), 20)

    asyncio.run(main())
    assert [str(each) for each in seen[20:]] == ["[Change(x=7, change=1)]"] * 20
    assert engine._publications.waiting == 0


def test_async_for_can_be_cancelled_and_resumed(engine: Engine) -> None:
    query = engine.register(TEXT)

    async def main() -> None:
        with query.subscribe(snapshot=False, progress=False) as subscription:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(subscription), 0.01)
            assert engine._publications.waiting == 0
            update(engine, 1)
            event = await anext(subscription)
            assert isinstance(event, Changes)
            waiting = asyncio.ensure_future(anext(subscription))
            await asyncio.sleep(0)
            subscription.close()
            with pytest.raises(StopAsyncIteration):
                await asyncio.wait_for(waiting, 20)

    asyncio.run(main())


def test_a_callback_is_called_for_each_epoch(engine: Engine) -> None:
    query = engine.register(TEXT)
    seen: list[Any] = []
    may_go, is_done = threading.Event(), threading.Event()

    def look(event: Any) -> None:
        may_go.wait(20)
        if isinstance(event, Changes):
            seen.append((event.since, event.epoch, [a.x for a in event.answers("python")]))
        elif isinstance(event, Progress) and event.epoch == 6:
            is_done.set()

    with query.subscribe(callback=look):
        for number in range(2, 7):
            update(engine, number)
        assert engine.metrics()["held_epochs"] == 6  # nothing is lost, and it is seen who holds it
        may_go.set()
        assert is_done.wait(20)
    assert seen == [(n - 1, n, [n]) for n in range(2, 7)]
    assert engine.metrics()["pins"] == []
    assert not engine._publications.followers


def test_steps_are_merged_on_request(engine: Engine) -> None:
    query = engine.register(TEXT)
    merged = query.subscribe(snapshot=False, progress=False)
    for number in range(2, 5):
        update(engine, number)
    assert [repr(merged.poll()), merged.poll()] == ["<Changes from epoch 1 to 4>", None]
    merged.close()
    single = query.subscribe(snapshot=False, progress=False, merge=False)
    for number in range(5, 8):
        update(engine, number)
    steps = [repr(single.poll()) for _ in range(3)]
    assert steps == [f"<Changes from epoch {n} to {n + 1}>" for n in range(4, 7)]
    assert single.poll() is None
    assert len(engine.metrics()["pins"]) == 2  # the two sides of its last step
    update(engine, 8)
    query.close()
    single.close()
    assert engine.metrics()["pins"] == []
