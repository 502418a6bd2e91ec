"""Cold starts, each in a process of its own: importing, compiling, the first answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from statistics import median

from bench.answers import Digest, check
from bench.report import ROOT, Figure
from bench.run import Bench

ROUNDS = 5
#: Prints seconds: importing, from there to the first answer, a second registration; and the answer.
PROGRAM = """
import json
from time import perf_counter
start = perf_counter()
import triegs
imported = perf_counter()
from triegs.engine import Engine
engine = Engine("multigraph")
text = "SELECT ?x ?y ?z { ?x <http://ex/A> ?y . ?y <http://ex/B> ?z }"
query = engine.register(text)
engine.apply([("+", 1, "<http://ex/A>", 2), ("+", 2, "<http://ex/B>", 3)])
with query.snapshot() as snapshot:
    total, rows = snapshot.count(), snapshot.to_arrow().num_rows
answered = perf_counter()
engine.register("SELECT ?a ?d { ?a <http://ex/A> ?d . ?d <http://ex/C> ?e }")
registered = perf_counter()
print(json.dumps([imported - start, answered - start, registered - answered, total, rows]))
"""


def measure_cold(bench: Bench) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as cache:
        bench.say("the first process, with an empty cache")
        first = _run(cache)
        warm = []
        for round_ in range(ROUNDS):
            bench.say(f"a process with a warm cache, {round_ + 1}")
            warm.append(_run(cache))
    yield Figure("empty cache", "import ms", 1e3 * first[0])
    yield Figure("empty cache", "import to answer ms", 1e3 * first[1])
    yield Figure("empty cache", "register ms", 1e3 * first[2])
    for place, column in enumerate(["import ms", "import to answer ms", "register ms"]):
        yield Figure("warm cache", column, 1e3 * median(run[place] for run in warm))


def _run(cache: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=os.environ | {"TRIEGS_CACHE": cache},
        capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    *seconds, total, rows = json.loads(done.stdout)
    check(Digest(total, rows), Digest(1, 1), "the first answer of a process")
    return list(seconds)
