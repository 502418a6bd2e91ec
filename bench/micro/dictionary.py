"""How many terms per second the dictionary encodes, counts and decodes, path by path.

Run with ``python bench/micro/dictionary.py [rows]``. Each rate is the best of several rounds, with
the kernels compiled before.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.events.updates import encode_table, encode_tuples
from triegs.read.output import ARROW_FORMS, ArrowOutput, RowOutput
from triegs.terms.dictionary import Dictionary

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
TERMS = max(1, ROWS // 10)
ROUNDS = 5


def measure(name: str, rows: int, work: Callable[[], object], rounds: int = ROUNDS) -> None:
    best = float("inf")
    for _ in range(rounds):
        start = perf_counter()
        work()
        best = min(best, perf_counter() - start)
    print(f"{name:<44}{rows / best / 1e6:>10.2f} M/s{best / rows * 1e9:>10.1f} ns")  # noqa: T201


def name_iris(numbers: np.ndarray) -> pa.Array:
    texts = pa.array(numbers).cast(pa.string())
    return pc.binary_join_element_wise("<http://example.org/person/", texts, ">", "")


def measure_columns(rng: np.random.Generator) -> None:
    numbers = rng.integers(0, TERMS, ROWS)
    iris = name_iris(numbers)
    words = Dictionary()
    words.acquire(np.unique(words.encode(iris).ids))
    words.acquire(np.unique(words.encode(pa.array(numbers)).ids))
    words.collect(0)
    ids = words.encode(iris).ids
    integer_ids = words.encode(pa.array(numbers)).ids
    measure("encode known integers", ROWS, lambda: words.encode(pa.array(numbers)))
    measure("encode known integers (2,000 rows)", 2000, lambda: words.encode(numbers[:2000]))
    measure("encode known strings", ROWS, lambda: words.encode(iris))
    measure(
        "  by Arrow index_in over the known set", ROWS, lambda: pc.index_in(iris, pc.unique(iris))
    )
    measure("  by dictionary_encode and dict", ROWS, lambda: look_up_distinct(iris, words))
    measure("encode known strings (2,000 rows)", 2000, lambda: words.encode(iris[:2000]))
    dictionary = iris.dictionary_encode()
    measure("encode a dictionary column", ROWS, lambda: words.encode(dictionary))
    odd = pc.binary_join_element_wise(pa.array(numbers).cast(pa.string()), "", '"')
    odd = pc.binary_join_element_wise("", odd, "@en-US", '"')
    odd = pc.replace_substring(odd, '""', '"')
    words.acquire(np.unique(words.encode(odd).ids))
    measure("encode known strings in another spelling", ROWS, lambda: words.encode(odd), 2)
    measure("acquire and release", ROWS, lambda: (words.acquire(ids), words.release(ids)))
    measure("decode strings", ROWS, lambda: words.decode(ids))
    measure("decode integers", ROWS, lambda: words.decode(integer_ids))
    decoder = words.decoder()
    measure("decode strings, terms met before", ROWS, lambda: decoder.decode(ids))
    measure("decode to Python values", ROWS, lambda: words.decode_values(integer_ids, "python"), 2)


def look_up_distinct(iris: pa.Array, words: Dictionary) -> object:
    column = iris.dictionary_encode()
    found = np.array([words.encode_one(term) for term in column.dictionary.to_pylist()])
    return found[column.indices.to_numpy()]


def measure_new() -> None:
    iris = name_iris(np.arange(ROWS))
    numbers = pa.array(np.arange(ROWS))
    measure("encode new strings", ROWS, lambda: Dictionary().encode(iris), 3)
    measure("encode new integers", ROWS, lambda: Dictionary().encode(numbers), 3)
    words = Dictionary()

    def churn() -> None:
        ids = words.encode(iris).ids
        words.acquire(ids, 1)
        words.release(ids, 2)
        words.collect(2)

    measure("new strings come and go", ROWS, churn, 3)
    print(words.metrics())  # noqa: T201


def count_down(words: Dictionary) -> None:
    ids = words.encode_terms([-1, -2, -3])
    words.acquire(ids)
    words.release(ids)


def measure_scalars() -> None:
    words = Dictionary()
    terms = name_iris(np.arange(1000)).to_pylist()
    numbers = list(range(1000))
    words.acquire(words.encode_terms(terms) + words.encode_terms(numbers))
    one = words.encode_one
    measure("one known string", 1000, lambda: [one(term) for term in terms], 200)
    measure("one known integer", 1000, lambda: [one(number) for number in numbers], 200)
    measure("one decode", 1000, lambda: [words.decode_one(i) for i in numbers], 50)
    new = name_iris(np.arange(1000, 101_000)).to_pylist()
    measure("one new string", len(new), lambda: words.encode_terms(new), 1)
    fresh = range(10_000, 110_000)
    measure("one new integer", len(fresh), lambda: words.encode_terms(fresh), 1)
    measure("collect, 200,000 unnamed", 200_000, lambda: words.collect(0), 1)
    words.acquire(three := [1, 2, 3])
    event = [("+", 1, terms[0], 2)]
    measure("one event as a tuple", 1, lambda: encode_tuples(words, event), 1000)
    row, back = encode_tuples(words, event).rows, encode_tuples(words, [(-1, *event[0][1:])]).rows
    measure("settle one event", 2, lambda: (words.settle(row), words.settle(back)), 1000)
    measure("acquire three", 3, lambda: words.acquire(three), 1000)
    measure("acquire and release three, to zero", 3, lambda: count_down(words), 1000)
    measure("collect nothing", 1, lambda: words.collect(0), 1000)


def make_events(rng: np.random.Generator, far: int) -> tuple[np.ndarray, ...]:
    near = rng.integers(0, 3000, 1000)
    return near, rng.integers(0, 3, 1000).astype(np.int32), rng.integers(3000, 3000 + far, 1000)


def make_table(*parts: tuple[tuple[np.ndarray, ...], int]) -> pa.Table:
    subject, predicate, obj = (
        np.concatenate(column) for column in zip(*(part for part, _ in parts), strict=True)
    )
    names = pa.array(["<http://example.org/a>", "<http://example.org/b>", "<http://example.org/c>"])
    return pa.table(
        {
            "subject": subject,
            "predicate": pa.DictionaryArray.from_arrays(pa.array(predicate), names),
            "object": obj,
            "op": np.concatenate([np.full(len(part[0]), sign, np.int8) for part, sign in parts]),
        }
    )


def measure_window(rng: np.random.Generator, far: int) -> None:
    """A window of 30,000 events that slides by 1,000; the terms at the far end come and go."""
    words = Dictionary()
    window: deque[tuple[np.ndarray, ...]] = deque()
    spent: list[tuple[float, ...]] = []
    for epoch in range(1, 300):
        parts = [(make_events(rng, far), 1)]
        window.append(parts[0][0])
        if len(window) > 30:
            parts.append((window.popleft(), -1))
        table = make_table(*parts)
        times = [perf_counter()]
        rows = encode_table(words, table).rows
        times.append(perf_counter())
        words.settle(rows, epoch)
        times.append(perf_counter())
        words.collect(epoch)
        times.append(perf_counter())
        if epoch > 60:
            spent.append((*np.diff(times).tolist(), times[3] - times[0]))
    middle = np.median(np.array(spent), axis=0) * 1e6
    steps = zip(("encode", "settle", "collect", "all"), middle, strict=True)
    text = ", ".join(f"{name} {time:.0f}" for name, time in steps)
    print(f"slide of a window, {far} far terms: {text} µs")  # noqa: T201


def measure_output(rng: np.random.Generator) -> None:
    rows = 65_536
    words = Dictionary()
    words.acquire(words.encode(np.arange(30_000)).ids)
    runs = [np.repeat(rng.integers(0, 30_000, rows // run + 1), run)[:rows] for run in (5000, 300)]
    ids = np.stack([*runs, rng.integers(0, 3000, rows), rng.integers(0, 3000, rows)])
    for form in ARROW_FORMS:
        output = ArrowOutput(words.decoder(), "abcd", form)
        measure(f"four columns as {form}", rows, lambda output=output: output.write(ids), 100)
    for form in ("ntriples", "python"):
        each = RowOutput(words.decoder(), form)
        measure(f"rows of four as {form}", rows, lambda each=each: list(each.rows(ids)), 10)


if __name__ == "__main__":
    Dictionary().encode(pa.array(["<http://ex/a>"]))
    measure_window(np.random.default_rng(2), 200_000)
    measure_window(np.random.default_rng(2), 3_000)
    measure_output(np.random.default_rng(3))
    measure_columns(np.random.default_rng(1))
    measure_new()
    measure_scalars()
