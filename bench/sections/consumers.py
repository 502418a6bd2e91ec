"""Every block workload, every system, every consumer: slides per second and who is faster.

A slide is taken in and its consumer is served: nothing, the number of answers, the changes of the
answers, or the full result in columns (peers in whatever form is fastest for them). All on one
thread. A number in brackets is how many times faster triegs is for the same consumer.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.contenders import Triegs, find_peers
from bench.contest import Consumer, Contender, Runner, Stream, hold_contest
from bench.report import Figure
from bench.run import Bench, LeftOut
from bench.sections.blocks import BLOCKS, make_block

NAME = "consumers"


def measure_consumers(bench: Bench) -> Iterator[Figure]:
    peers, missing = find_peers()
    problems = [f"not installed: {', '.join(missing)}; pip install '.[bench]'"] if missing else []
    series = bench.series[NAME] = {}
    for name in BLOCKS:
        bench.say(f"consumers of {name}")
        stream = Stream(make_block(name, bench))
        runners = hold_contest(stream, list_entries(peers), bench.settings.seconds)
        yield from _show(name, runners)
        found = series[name] = {consumer.value: {} for consumer in Consumer}
        for runner in runners:
            found[runner.consumer.value][runner.name] = 1 / runner.slides_per_second
    if problems:
        raise LeftOut("; ".join(problems))


def list_entries(peers: dict[str, type[Contender]]) -> list[tuple[type[Contender], Consumer]]:
    kinds: list[type[Contender]] = [Triegs, *peers.values()]
    return [
        (kind, consumer) for consumer in Consumer for kind in kinds if consumer in kind.consumers
    ]


def _show(name: str, runners: list[Runner]) -> Iterator[Figure]:
    for consumer in Consumer:
        served = [runner for runner in runners if runner.consumer is consumer]
        ours = next((runner for runner in served if runner.kind is Triegs), None)
        for runner in served:
            note = ""
            if ours is not None and runner is not ours:
                note = f" ({show_ratio(ours.is_faster_than(runner))})"
            yield Figure(
                name, runner.name, runner.slides_per_second, table=consumer.value, note=note
            )
        rows = max((runner.rows for runner in served), default=0)
        if rows:
            column = "answers" if consumer is Consumer.FULL else "changes a slide"
            yield Figure(name, column, rows, table="sizes")


def show_ratio(ratio: float) -> str:
    """Two digits, and the other way round where it is below one.

    >>> show_ratio(123.4), show_ratio(4.56), show_ratio(0.2)
    ('123x', '4.6x', '0.20x')
    """
    if ratio >= 10:
        return f"{ratio:,.0f}x"
    return f"{ratio:.1f}x" if ratio >= 1 else f"{ratio:.2f}x"
