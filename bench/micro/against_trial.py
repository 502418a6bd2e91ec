# ruff: noqa: T201
"""Updates per second of the epoch kernel, beside those of the trial it was made after.

Run it as `python bench/micro/against_trial.py [--quick] [--trial FOLDER]`; where the folder is
absent it says so and measures nothing. The query is path3, `A(x,y), B(y,z), C(z,w)`, over a window
of 30,000 edges with a fan-out of 8: blocks of 1,000 edges come and the oldest block goes. Ids are
numbered by first appearance, as a dictionary would. Both sides take the same updates in turn, chunk
by chunk, and only the time of this thread is counted, so that the ratio of a chunk is fair on a
machine with other work; the median counts.

*Liveness* has all variables in the head, with y at the top: the pairs of B that go on are stored.
*Exact* has only x in the head, which is the top: all below are sums of products. The trial gets the
same head and top, and makes the same plan of them: as many indexes, lists and sums.

Epochs run *in a kernel* one after the other, published each and with nobody holding a version, or
*from Python* by a call each. The answers on both sides must have the same checksum.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any

import numpy as np

from triegs.compiler import compile_query
from triegs.kernels.epochs import publish_epoch
from triegs.kernels.jit import kernel
from triegs.kernels.program import ENTRY_WORDS, run_epoch
from triegs.kernels.words import Words, load, store
from triegs.maintain.compiled import CompiledCore
from triegs.read.columns import read_columns
from triegs.sparql.model import Atom, Form, Query
from triegs.store.packed import PackedStore

TRIAL = Path(__file__).parents[2] / "../shared/spikes/plan"
BATCHES = (1, 16, 256, 2_000)
REQUIRED = {1: 0.75, 256: 0.9, 2_000: 0.9}
WINDOW, SLIDE, FAN_OUT = 30_000, 1_000, 8
ATOMS = (("x", "A", "y"), ("y", "B", "z"), ("z", "C", "w"))
MODES = {"liveness": ("xyzw", "y"), "exact": ("x", "x")}  # head, top
LABELS = {"A": 0, "B": 1, "C": 2}


def draw_stream(slides: int, window: int = WINDOW, seed: int = 1) -> Words:
    """Rows `(change, subject, label, object)`: the window, then slides of deletions and insertions.

    No edge is twice in a window.
    """
    random = np.random.default_rng(seed)
    per_label = window // 3
    sizes = {"x": per_label, "y": per_label // FAN_OUT, "z": per_label // FAN_OUT, "w": per_label}
    live: set[tuple[int, int, int]] = set()
    numbers: dict[tuple[str, int], int] = {}
    blocks: list[list[tuple[int, int, int]]] = []
    rows: list[tuple[int, int, int, int]] = []
    for number in range(window // SLIDE + slides):
        if number >= window // SLIDE:
            gone = blocks[number - window // SLIDE]
            live.difference_update(gone)
            rows += [(-1, *edge) for edge in gone]
        block = []
        for place in range(SLIDE):
            subject, label, obj = ATOMS[place % 3]
            while True:
                ends = random.integers(0, (sizes[subject], sizes[obj])).tolist()
                ids = [
                    numbers.setdefault(term, len(numbers))
                    for term in zip((subject, obj), ends, strict=True)
                ]
                edge = (ids[0], LABELS[label], ids[1])
                if edge not in live:
                    break
            live.add(edge)
            block.append(edge)
        blocks.append([block[i] for i in random.permutation(SLIDE)])
        rows += [(1, *edge) for edge in blocks[-1]]
    return np.array(rows, np.int64)


@kernel
def run_ours(
    words: Words, log: Words, lists: Words, cursor: Words, table: Words, label_of: Words,
    stream: Words, updates: Words, bounds: Words, entries: Words, refused: Words, roots: Words,
    holds: Words,
) -> int:  # fmt: skip
    """Epochs of as many updates as `updates` has room for; returns how many were refused."""
    found = 0
    for start in range(0, stream.size - updates.size + 1, updates.size):
        for index in range(updates.size):
            store(updates, index, load(stream, start + index))
        found += run_epoch(
            words, log, lists, cursor, table, label_of, updates, bounds, entries, refused, roots
        )
        publish_epoch(words, roots, holds)
    return found


class Ours:
    def __init__(self, head: str, top: str) -> None:
        atoms = tuple(Atom(f"?{s}", f"<{p}>", f"?{o}") for s, p, o in ATOMS)
        query = Query(Form.SELECT, tuple(f"?{name}" for name in head), atoms)
        plan = compile_query(query, root=top)
        self.core = CompiledCore(PackedStore(), lambda term: LABELS[term[1:-1]], str)
        self.walk = self.core.register(plan).walk
        self.columns = [query.free.index(f"?{name}") for name in head]

    def apply(self, updates: Words) -> None:
        assert not self.core.apply(updates).refused

    def make_runner(self, updates: Words, batch: int) -> Callable[[], None]:
        core = self.core
        flat = np.ascontiguousarray(updates).reshape(-1)
        scratch = np.empty(4 * batch, np.int64)
        entries = np.empty(ENTRY_WORDS * batch + 1, np.int64)
        refused = np.empty(batch + 1, np.int64)
        parts = core.parts
        roots, holds = core.store.newest.roots, np.empty(0, np.int64)

        def run() -> None:
            found = run_ours(
                core.store.words, core._log, parts.changed, core._cursor, parts.table,
                core._label_of, flat, scratch, parts.bounds, entries, refused, roots, holds,
            )  # fmt: skip
            assert found == 0

        return run

    def make_caller(self, updates: Words, batch: int) -> Callable[[], None]:
        parts = [updates[i : i + batch] for i in range(0, len(updates) - batch + 1, batch)]

        def run() -> None:
            for part in parts:
                self.core.apply(part)

        return run

    def batches(self) -> Iterator[Words]:
        for ids, counts in read_columns(self.walk, self.core.store.newest, lambda: 65_536):
            yield np.vstack([ids[self.columns], counts])


class Trial:
    def __init__(self, folder: Path, head: str, top: str) -> None:
        sys.path.insert(0, str(folder))
        self.module: Any = importlib.import_module("eng")
        program = self.module.Program()
        for label in LABELS:
            program.label(label)
        atoms = [(p, s, o) for s, p, o in ATOMS]
        self.query = program.register(atoms, list(head), False, top)
        self.engine = self.module.Engine(program, 1 << 29)

    def _flatten(self, updates: Words) -> Words:
        return np.ascontiguousarray(updates[:, [2, 1, 3, 0]]).reshape(-1)

    def apply(self, updates: Words) -> None:
        self.engine.apply(self._flatten(updates), 0, len(updates))
        assert self.engine.refused == 0

    def make_runner(self, updates: Words, batch: int) -> Callable[[], None]:
        engine, flat, count = self.engine, self._flatten(updates), len(updates) // batch * batch

        def run() -> None:
            self.module.run_epochs(
                engine.M, engine.R, engine.S, engine.plan, flat, count, batch, engine.roots
            )

        return run

    def make_caller(self, updates: Words, batch: int) -> Callable[[], None]:
        engine, flat = self.engine, self._flatten(updates)
        starts = range(0, len(updates) - batch + 1, batch)

        def run() -> None:
            for start in starts:
                engine.apply(flat, start, start + batch)

        return run

    def batches(self) -> Iterator[Words]:
        for columns in self.engine.batches(self.query):
            yield columns.copy()


def checksum(side: Ours | Trial) -> tuple[int, int]:
    """The number of answers, and a sum over them that their order does not change."""
    answers, total = 0, np.uint64(0)
    with np.errstate(over="ignore"):
        for columns in side.batches():
            mixed = np.full(columns.shape[1], 0x9E3779B97F4A7C15, np.uint64)
            for column in columns.astype(np.uint64):
                mixed = (mixed ^ column) * np.uint64(0xBF58476D1CE4E5B9)
                mixed ^= mixed >> np.uint64(29)
            answers += columns.shape[1]
            total += mixed.sum(dtype=np.uint64)
    return answers, int(total)


def time_once(run: Callable[[], None]) -> float:
    start = thread_time()
    run()
    return thread_time() - start


def compare(
    sides: tuple[Ours, Trial], stream: Words, batch: int, repeats: int, from_python: bool
) -> tuple[float, float, float]:
    """Medians: our updates per second, the trial's, and the ratio of the two."""
    size = len(stream) // repeats // (2 * SLIDE) * 2 * SLIDE
    figures = []
    for repeat in range(repeats):
        chunk = stream[repeat * size : (repeat + 1) * size]
        count = len(chunk) // batch * batch
        seconds = []
        order = sides if repeat % 2 else sides[::-1]
        for side in order:
            make = side.make_caller if from_python else side.make_runner
            seconds.append(time_once(make(chunk, batch)))
            if count < len(chunk):
                side.apply(chunk[count:])
        ours, trial = seconds if repeat % 2 else seconds[::-1]
        figures.append((count / ours, count / trial, trial / ours))
    return tuple(map(median, zip(*figures, strict=True)))  # type: ignore[return-value]


def main(folder: Path, quick: bool) -> None:
    if not (folder / "eng.py").is_file():
        print(f"skipped: no trial in {folder}")
        return
    repeats, slides = (7, 70) if quick else (21, 210)
    stream = draw_stream(8 * slides)
    load, *parts = np.split(stream, [WINDOW + 2 * SLIDE * slides * i for i in range(8)])
    print("| updates/s | batch | in a kernel | trial | ratio | from Python | trial | ratio |")
    print("| --- " * 8 + "|")
    for name, (head, top) in MODES.items():
        sides = Ours(head, top), Trial(folder, head, top)
        for side in sides:
            for block in np.split(load, WINDOW // SLIDE):
                side.apply(block)
        for number, batch in enumerate(BATCHES):
            cells = []
            for from_python in (False, True):
                part = parts[2 * number + from_python]
                ours, trial, ratio = compare(sides, part, batch, repeats, from_python)
                cells += [f"{ours:,.0f}", f"{trial:,.0f}", f"{ratio:.2f}"]
            if batch in REQUIRED:
                cells[2] += f" (at least {REQUIRED[batch]})"
            print(f"| {name} | {batch:,} | " + " | ".join(cells) + " |", flush=True)
        found, expected = map(checksum, sides)
        if found != expected:
            sys.exit(f"{name}: the answers differ, {found} here and {expected} in the trial")
        print(f"| {name} | | {found[0]:,} answers on both sides |" + " |" * 5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--trial", type=Path, default=TRIAL, help="the folder of the trial")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    options = parser.parse_args()
    main(options.trial, options.quick)
