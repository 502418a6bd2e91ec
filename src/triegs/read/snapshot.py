"""A snapshot: the full result of one query at one published epoch, pinned until it is closed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from operator import index
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from triegs.closing import Closing
from triegs.errors import SnapshotExpired, StateError, TriegsError
from triegs.notebook import MOST_SHOWN, write_card, write_table
from triegs.options import SPARQL_FORMATS, ArrowTerms, SparqlFormat, check_least, check_word
from triegs.read.changes import Changes
from triegs.read.columns import BATCH_ROWS, Columns, Integers, NotIntegers, Sizes
from triegs.read.factorised import RunBatch
from triegs.read.output import RowOutput, integer_table
from triegs.read.positions import Positions, add_exactly, check_size
from triegs.read.result import Result, Row
from triegs.read.rows import RowReader
from triegs.read.spans import SPANS_PER_WORKER, read_spans, split_first
from triegs.sparql.model import Form
from triegs.store.packed import PackedVersion
from triegs.terms.decoder import Decoder

if TYPE_CHECKING:
    from datetime import timedelta

    import pyarrow as pa

    from triegs.read.handle import SnapshotHandle

#: Positions of answers in the enumeration.
PositionList = range | NDArray[np.int64]


class Answer(Row):
    """One answer: values by name or index, and its multiplicity.

    >>> answer = Answer(("x", "y"), ("<http://ex/a>", None), 2)
    >>> answer.x, answer["y"], answer[0], answer.multiplicity
    ('<http://ex/a>', None, '<http://ex/a>', 2)
    """

    __slots__ = ()
    _count_name = "multiplicity"

    @property
    def multiplicity(self) -> int:
        return self._count


class Snapshot(Closing, Result):
    """The answers of one query at one epoch. A context manager; closing it releases memory.

    Reading never blocks the updater, and updates never change what is read. ``epoch`` is its
    number, ``time`` its logical time in milliseconds (None if it has none), and ``names`` are the
    variables of the head. `StandingQuery.snapshot` creates it; take one per thread.

    Answers are in the order of ORDER BY, else in an order that is stable within a snapshot. ORDER
    BY is applied when answers are read: in O(n log n) and memory for all of them, or with LIMIT in
    one scan and memory for those that LIMIT and OFFSET count. Up to 65,536 sorted answers are
    cached.

    >>> from triegs import Engine
    >>> engine = Engine()
    >>> query = engine.register("SELECT ?x ?y { ?x <http://ex/p> ?y }")
    >>> report = engine.apply([("+", 1, "<http://ex/p>", 2), ("+", 1, "<http://ex/p>", 2)])
    >>> with query.snapshot() as snap:
    ...     len(snap), snap.count(), snap.to_arrow("python").to_pylist()
    (1, 2, [{'x': 1, 'y': 2, 'multiplicity': 2}])
    """

    _row = Answer
    #: Makes a handle, with a lease or without.
    _share: Callable[[Snapshot, str | int | timedelta | None], SnapshotHandle] | None = None

    def __init__(
        self,
        reader: RowReader,
        version: PackedVersion,
        epoch: int,
        decoder: Decoder,
        close: Callable[[], None],
        time: int | None = None,
        *,
        expires: float | None = None,
        taken: str | None = None,
    ) -> None:
        self._reader = reader
        self._version = version
        self._decoder = decoder
        self._decoders = reader.list_decoders(decoder)
        self._close: Callable[[], None] | None = close
        #: Closes it once no batch is being read any more.
        self._waiting: Callable[[], None] | None = None
        self._readers = 0
        self._lock = Lock()
        self._why = ""
        self._expires = expires  # by the monotonic clock
        self._taken = taken
        self.epoch = epoch
        self.time = time
        self.names = tuple(name.lstrip("?") for name in reader.plan.query.head)
        self._positions = Positions(reader, version)

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        if self._taken is not None and self._close is not None:
            warnings.warn(
                f"a snapshot of epoch {self.epoch} was not closed; it was taken at {self._taken}",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
        self.close()

    def close(self) -> None:
        """Release the epoch. Idempotent; reading afterwards raises `SnapshotExpired`.

        From any thread; batches that are being read are completed first.
        """
        self._release("is closed")

    def _release(self, why: str) -> None:
        with self._lock:
            close, self._close = self._close, None
            if close is None:
                return
            self._why = why
            if self._readers:
                self._waiting = close
                return
        close()

    def _forget(self, why: str) -> None:
        """In a process that was forked from the one it belongs to: refuse to read, and release
        nothing.
        """
        self._lock, self._readers = Lock(), 0
        self._close = self._waiting = None
        self._why = why

    def end_lease(self) -> None:
        """Close it if its lease has expired."""
        if self._expires is not None and monotonic() >= self._expires:
            self._release("was leased, and the lease has expired")

    @contextmanager
    def _hold(self) -> Iterator[None]:
        self.end_lease()
        with self._lock:
            if self._close is None:
                self._refuse()
            self._readers += 1
        try:
            yield
        finally:
            close = None
            with self._lock:
                self._readers -= 1
                if not self._readers:
                    close, self._waiting = self._waiting, None
            if close is not None:
                close()

    def _check_open(self) -> None:
        self.end_lease()
        if self._close is None:
            self._refuse()

    def _refuse(self) -> None:
        raise SnapshotExpired(f"the snapshot of epoch {self.epoch} {self._why}")

    def _columns(self, sizes: Sizes, integers: Integers | None = None) -> Iterator[Columns]:
        if integers is not None and (self._reader.plan.query.order or not self._reader.is_plain):
            raise NotIntegers
        return self._reader.columns(self._version, sizes, integers)

    def _runs(self, sizes: Sizes, integers: Integers | None = None) -> Iterator[RunBatch]:
        if not self._reader.is_factorised:
            return super()._runs(sizes, integers)
        return self._reader.runs(self._version, sizes, integers)

    @property
    def _flat(self) -> int:
        return self._reader.flat

    def read(
        self, workers: int = 2, terms: ArrowTerms = "ntriples", *, compact: bool = False
    ) -> pa.Table:
        """All rows as one Arrow table, the same as `to_arrow`, read by several threads.

        Each enumerates spans of the first variable, without the interpreter's lock. With ORDER BY,
        LIMIT or aggregates a single thread reads. Memory: the whole result.

        >>> from triegs import Engine
        >>> engine = Engine()
        >>> query = engine.register("SELECT ?x ?y { ?x <http://ex/p> ?y }")
        >>> report = engine.apply([("+", x, "<http://ex/p>", x + 1) for x in range(100)])
        >>> with query.snapshot() as snap:
        ...     snap.read(workers=2, terms="python") == snap.to_arrow("python")
        True
        """
        check_least("workers", workers, 1)
        if workers == 1 or not self._reader.is_split:
            return self.to_arrow(terms, compact=compact)
        with self._hold():
            if terms in ("python", "plain") and self._reader.is_plain:
                with suppress(NotIntegers):
                    parts = self._read_spans(workers, lambda: integer_table(self._decoder))
                    return self._join_integers(parts)
            parts = self._read_spans(workers)
            if not parts:
                return self.to_arrow(terms, compact=compact)
            return self._write(parts, terms, compact)

    def _read_spans(self, workers: int, integers: Integers | None = None) -> list[Columns]:
        reader, version = self._reader, self._version
        spans = split_first(reader.enumeration, version, SPANS_PER_WORKER * workers)
        return read_spans(
            spans, workers,
            lambda span: list(reader.columns(version, lambda: BATCH_ROWS, integers, span)),
        )  # fmt: skip

    def count(self) -> int:
        """The total multiplicity, of any size. Cost: constant if the query keeps ``"count"``, else
        a scan of the answers. Raises `MultiplicityOverflow` if a kept count does not fit.
        """
        with self._hold():
            return self._positions.count

    def support(self) -> int:
        """The number of distinct answers. Cost: constant if the query keeps ``"count"`` or
        ``"slice"``, else a scan of the answers.
        """
        with self._hold():
            return self._size()

    def _size(self) -> int:
        return self._positions.support

    def __len__(self) -> int:
        return check_size(self.support())

    @overload
    def __getitem__(self, key: int) -> Answer: ...

    @overload
    def __getitem__(self, key: slice) -> Selection: ...

    def __getitem__(self, key: int | slice) -> Answer | Selection:
        """The answer at a position, or a `Selection` for a slice. Cost: logarithmic if the query
        keeps ``"slice"``, else a scan up to there; with ORDER BY a sort, see `Snapshot`.

        >>> from triegs import Engine
        >>> engine = Engine()
        >>> query = engine.register("SELECT ?x ?y { ?x <http://ex/p> ?y }", keep=["slice"])
        >>> report = engine.apply([("+", x, "<http://ex/p>", x + 1) for x in range(10)])
        >>> snap = query.snapshot()
        >>> snap[-1].x, len(snap[2:5]), [answer.x for answer in snap[6:3:-2].answers("python")]
        ('"9"^^<http://www.w3.org/2001/XMLSchema#integer>', 3, [6, 4])
        """
        if isinstance(key, slice):
            return self._select(range(*key.indices(len(self))))
        with self._hold():
            at, size = index(key), check_size(self._size())
            if not -size <= at < size:
                raise IndexError(f"position {at} of {size} answers")
            ids, count = self._pick_one(at % size)
            found = zip(self._decoders, ids, strict=True)
            values = tuple(None if i < 0 else each.decode_one(i) for each, i in found)
            return Answer(self.names, values, count)

    def sample(self, size: int, *, weighted: bool = False, seed: int | None = None) -> Selection:
        """Draw `size` answers at random, with replacement: uniformly, or if `weighted` in
        proportion to their multiplicities. An empty result gives an empty sample.

        The same snapshot and `seed` give the same sample. Cost: logarithmic per answer if the query
        keeps ``"slice"`` (and ``"count"`` if `weighted`), else two scans, or a sort with ORDER BY.
        """
        check_least("the size of a sample", size, 0)
        total = check_size(self.count() if weighted else self.support())
        draw = np.random.default_rng(seed)
        return self._select(draw.integers(max(total, 1), size=size if total else 0), weighted)

    def split(self, parts: int) -> list[Selection]:
        """Split the answers into that many disjoint ranges of almost equal length; each may be read
        by a thread of its own. Cost: that of ``len``.
        """
        check_least("the number of parts", parts, 1)
        size = len(self)
        bounds = [size * part // parts for part in range(parts + 1)]
        return [self._select(range(*pair)) for pair in pairwise(bounds)]

    def _select(self, positions: PositionList, by_rows: bool = False) -> Selection:
        return Selection(self, positions, by_rows)

    def _pick_one(self, position: int) -> tuple[list[int], int]:
        return self._positions.pick_one(position)

    def to_sparql(self, format: SparqlFormat = "json") -> str:  # noqa: A002
        """The result in a SPARQL 1.1 format: ``"json"``, ``"xml"``, ``"csv"`` or ``"tsv"``.

        An answer is repeated by its multiplicity. Cost: reading the answers; memory for the whole
        text. `triegs.outputs.open_writer` writes to a file, batch by batch.

        >>> from triegs import Engine
        >>> engine = Engine()
        >>> report = engine.apply([("+", 1, "<http://ex/p>", "<http://ex/b>")])
        >>> with engine.register("SELECT ?y { ?x <http://ex/p> ?y }").snapshot() as snap:
        ...     print(snap.to_sparql("json"))
        {"head":{"vars":["y"]},"results":{"bindings":[{"y":{"type":"uri","value":"http://ex/b"}}]}}
        """
        from io import BytesIO

        from triegs.outputs import Format, Head, Kind, Options, ResultBatch, open_writer

        check_word("format", format, SPARQL_FORMATS)
        chosen = {"json": Format.SRJ, "xml": Format.SRX, "csv": Format.SPARQL_CSV}
        head = Head("", self.names, is_ask=self._reader.plan.query.form is Form.ASK)
        sink = BytesIO()
        writer = open_writer(sink, head, Options(chosen.get(format, Format.SPARQL_TSV)))
        writer.write(ResultBatch(Kind.SNAPSHOT, self.epoch, self.time, self.batches(compact=True)))
        return sink.getvalue().decode().removesuffix("\n" if format == "json" else "")

    def _peek(self) -> tuple[list[list[Any]], str]:
        """The first rows, and their number as far as it is known at a bounded cost."""
        plan = self._reader.plan
        known = self._known_size()
        if known is None and (plan.filters or plan.query.offset):
            return [], "answers are not counted"  # the first one may take a long scan
        if plan.query.order and not self._reader.sorts_soon(self._version):
            return [], "answers are sorted when they are read"
        output = RowOutput(self._decoders, "ntriples")
        chunks = self._read(
            lambda: MOST_SHOWN + 1,
            lambda found: (list(output.rows(found[0])), found[1].tolist()),
        )
        values, counts = next(chunks, ([], []))
        rows = [[*row, count] for row, count in zip(values, counts, strict=True)]
        if known is None:
            known = len(rows)
            if known > MOST_SHOWN:
                return rows[:MOST_SHOWN], f"more than {MOST_SHOWN} answers"
        if plan.query.form is Form.ASK:
            return rows, "yes" if known else "no"
        shown = "no answers" if not known else "1 answer" if known == 1 else f"{known:,} answers"
        return rows[:MOST_SHOWN], shown

    def _known_size(self) -> int | None:
        """The number of answers, if the query keeps it."""
        return self._positions.support if self._positions.is_kept else None

    def _describe(self) -> str:
        time = "" if self.time is None else f", time {self.time}"
        return f"of epoch {self.epoch}{time}"

    def __repr__(self) -> str:
        """Epoch and head; the number of answers only if it is kept, because nothing is read."""
        head = " ".join(f"?{name}" for name in self.names) or "ASK"
        more = ", closed" if self._close is None else ""
        with suppress(TriegsError):
            known = None if more else self._known_size()
            more = more if known is None else f", {known:,} answer{'' if known == 1 else 's'}"
        return f"<{type(self).__name__} {self._describe()}: {head}{more}>"

    def _repr_html_(self) -> str:
        """A table for notebooks: the first answers. Cost: those alone; with ORDER BY at most two
        batches, and more answers are not shown.
        """
        try:
            rows, size = self._peek()
        except TriegsError as problem:
            return write_card(f"{type(self).__name__} {self._describe()}", [("state", problem)])
        names = [*self.names, self._count_name()]
        note = f"{size}, {self._describe().removeprefix('of ')}"
        if len(rows) == MOST_SHOWN:
            note = f"the first {MOST_SHOWN}; {note}"
        return write_table(names, rows, note, counts=True)

    def share(self, *, lease: str | int | timedelta | None = None) -> SnapshotHandle:
        """A handle with which other processes read this snapshot from the engine's memory.

        Nothing is copied, and readers do not use this process's interpreter, so the updater is not
        slowed down. The engine must have ``shared_memory=True`` (Linux). The handle has its own
        pin, so this snapshot may be closed; see `SnapshotHandle`. A `lease`, by default that of the
        snapshot, ends the handle and its readers, even if nobody closes them. Cost: constant, about
        0.1 ms.

        >>> from triegs import Engine
        >>> engine = Engine(shared_memory=True)
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> with query.snapshot() as snapshot, snapshot.share(lease="10s") as handle:
        ...     handle  # another process calls handle.open()
        <SnapshotHandle of epoch 1: ?x>
        """
        with self._hold():
            assert self._share is not None
            return self._share(self, lease)

    def diff(self, since: Snapshot) -> Changes:
        """The answers that changed since another snapshot of the same query, each once.

        Changes are signed: the answers of `since` plus the changes are the answers of this one.
        `since` may also be the later snapshot. Cost: constant; reading costs the entries that
        differ, their paths to the root, and the changed answers. Both snapshots must stay open
        meanwhile. Raises `StateError` for a query with LIMIT or OFFSET.

        >>> from triegs import Engine
        >>> engine = Engine()
        >>> query = engine.register("SELECT ?x ?y { ?x <http://ex/p> ?y }")
        >>> before = query.snapshot()
        >>> report = engine.apply([("+", 1, "<http://ex/p>", 2)])
        >>> list(query.snapshot().diff(before).answers("python"))
        [Change(x=1, y=2, change=1)]
        """
        return Changes(since, self)


def compose(positions: PositionList, chosen: PositionList) -> PositionList:
    """The positions at the chosen indexes."""
    if isinstance(positions, range):
        first, step = positions.start, positions.step
        if isinstance(chosen, range):
            return range(
                first + chosen.start * step, first + chosen.stop * step, chosen.step * step
            )
        return first + chosen * step
    return positions[np.arange(chosen.start, chosen.stop, chosen.step)
                     if isinstance(chosen, range) else chosen]  # fmt: skip


class Selection(Snapshot):
    """Some answers of a snapshot, by position. It is read like a snapshot while the snapshot is
    open; an answer that was drawn twice occurs twice. Threads may share a snapshot if each reads a
    selection of its own.
    """

    def __init__(self, whole: Snapshot, chosen: PositionList, by_rows: bool) -> None:
        given = whole._decoder
        decoder = Decoder(given.load, given.base, given.load_all, given.load_values)
        reader, version = whole._reader, whole._version
        super().__init__(reader, version, whole.epoch, decoder, lambda: None, whole.time)
        self._whole = whole
        self._chosen = chosen
        #: Whether positions are those of expanded rows.
        self._by_rows = by_rows

    @contextmanager
    def _hold(self) -> Iterator[None]:
        with super()._hold(), self._whole._hold():
            yield

    def _check_open(self) -> None:
        super()._check_open()
        self._whole._check_open()

    def _runs(self, sizes: Sizes, integers: Integers | None = None) -> Iterator[RunBatch]:
        return Result._runs(self, sizes, integers)

    def read(
        self, workers: int = 2, terms: ArrowTerms = "ntriples", *, compact: bool = False
    ) -> pa.Table:
        """As `to_arrow`: a selection is read by one thread; `split` makes one for each."""
        check_least("workers", workers, 1)
        return self.to_arrow(terms, compact=compact)

    def _columns(self, sizes: Sizes, integers: Integers | None = None) -> Iterator[Columns]:
        if integers is not None:
            raise NotIntegers  # the kernel that writes integers does not select
        chosen = self._chosen
        if isinstance(chosen, range) and chosen.step == 1:
            return self._positions.stream(chosen.start, chosen.stop, sizes)
        return self._pick_batches(sizes)

    def _pick_batches(self, sizes: Sizes) -> Iterator[Columns]:
        start = 0
        while start < len(self._chosen):
            end = min(start + sizes(), len(self._chosen))
            positions = np.asarray(compose(self._chosen, range(start, end)))
            yield self._positions.pick(positions, self._by_rows)
            start = end

    def _pick_one(self, position: int) -> tuple[list[int], int]:
        positions = np.array([self._chosen[position]], np.int64)
        ids, counts = self._positions.pick(positions, self._by_rows)
        return ids[:, 0].tolist(), int(counts[0])

    def _select(self, positions: PositionList, by_rows: bool = False) -> Selection:
        if by_rows:  # the multiplicities of a selection are not indexed
            counts = list(self._read(lambda: BATCH_ROWS, lambda found: found[1]))
            positions = np.searchsorted(np.cumsum(np.concatenate(counts)), positions, side="right")
        return Selection(self._whole, compose(self._chosen, positions), self._by_rows)

    def count(self) -> int:
        """The total multiplicity of these answers. Cost: reading them."""
        return sum(self._read(lambda: BATCH_ROWS, lambda found: add_exactly(found[1])))

    def _size(self) -> int:
        return len(self._chosen)

    def _known_size(self) -> int:
        return len(self._chosen)

    def share(self, *, lease: str | int | timedelta | None = None) -> NoReturn:  # noqa: ARG002
        """Raises `StateError`: whole snapshots are shared."""
        raise StateError("share the whole snapshot; the other process selects from it")

    def diff(self, since: Snapshot) -> Changes:  # noqa: ARG002
        """Raises `StateError`: changes are between whole snapshots."""
        raise StateError("changes are between whole snapshots, not between selections")
