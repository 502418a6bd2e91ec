"""The peers of the benchmarks answer as the edges imply, for every consumer they serve."""

from __future__ import annotations

import pytest

from bench.answers import WrongAnswer
from bench.contenders import PEERS, Triegs, find_peers
from bench.contest import Consumer, Contender, Runner, Stream
from bench.peers.python_views import PathEnds, TriangleSets
from triegs.workloads import (
    Workload,
    clique4,
    diamond,
    path2_ends,
    path3,
    path5_prefix,
    rectangle,
    reply,
    spider4x2,
    star5,
    triangle,
)

WORKLOADS = [
    path3(3, window=120, slide=12),
    path3(3, window=240, slide=60, zipf=0.5),
    star5(2, window=60, slide=6),
    spider4x2(2, window=64, slide=8),
    reply(window=80, slide=8),
    path5_prefix(2, window=60, slide=6),
    path5_prefix(2, window=60, slide=20),
    triangle(4, window=120, slide=12),
]
#: So few nodes that loops and edges of two roles abound.
CYCLES = [
    triangle(5, window=60, slide=20, zipf=0.8),
    rectangle(5, window=60, slide=20),
    diamond(5, window=60, slide=20),
    clique4(5, window=60, slide=20),
]
ENDS = [path2_ends(3, window=60, slide=20), path2_ends(4, window=120, slide=12)]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")


@pytest.mark.parametrize("consumer", Consumer, ids=lambda c: c.value)
@pytest.mark.parametrize("name", ["triegs", *PEERS])
def test_answers_are_those_of_the_edges(name: str, consumer: Consumer) -> None:
    if name == "triegs":
        kind = Triegs
    else:
        peers, missing = find_peers()
        if name not in peers:
            pytest.skip(f"not installed: {', '.join(missing)}")
        kind = peers[name]  # type: ignore[assignment]
    if consumer not in kind.consumers:
        pytest.skip(f"{name} does not serve it")
    if name == "Polars again":
        _skip_with_threads()
    for workload in list_workloads(name):
        run_and_check(kind, consumer, workload)


def list_workloads(name: str) -> list[Workload]:
    """The delta joins are written for some shapes only."""
    is_delta = name in ("dict delta join", "DuckDB delta SQL")
    return WORKLOADS if is_delta else [*WORKLOADS, *CYCLES, *ENDS]


@pytest.mark.parametrize(
    ("kind", "workloads"),
    [(TriangleSets, [WORKLOADS[-1], CYCLES[0]]), (PathEnds, ENDS)],
    ids=["sets", "ends"],
)
def test_views_in_python(kind: type[Contender], workloads: list[Workload]) -> None:
    for workload in workloads:
        run_and_check(kind, Consumer.NONE, workload)


def run_and_check(kind: type[Contender], consumer: Consumer, workload: Workload) -> None:
    stream = Stream(workload)
    runner = Runner(kind, consumer, stream)
    for turn in range(12):
        runner.run(turn, 1)
    runner.finish()
    assert runner.found
    numbers = {n - back for n in runner.found for back in (0, 1)}
    runner.check(stream.imply_digests(numbers))


def _skip_with_threads() -> None:
    import polars

    if polars.thread_pool_size() != 1:
        pytest.skip("Polars was imported before with more threads; test_suite.py has it")


def test_a_wrong_answer_is_found() -> None:
    stream = Stream(WORKLOADS[0])
    runner = Runner(Triegs, Consumer.FULL, stream)
    runner.run(1, 3)
    digests = dict(stream.imply_digests([3]))
    runner.check(digests)
    digests[3] += digests[3]
    with pytest.raises(WrongAnswer, match="triegs, full result, slide 3"):
        runner.check(digests)
