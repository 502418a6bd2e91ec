"""A snapshot: the full result of one query at one published epoch, held until it is closed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from operator import index
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from triegs.dictionary import Decoder
from triegs.errors import SnapshotExpired, StateError, TriegsError
from triegs.notebook import MOST_SHOWN, write_card, write_table
from triegs.options import SPARQL_FORMATS, SparqlFormat, check_word
from triegs.read.changes import Changes
from triegs.read.columns import Columns, Integers, NotIntegers, Sizes
from triegs.read.output import RowOutput
from triegs.read.positions import Positions, add_exactly, check_size
from triegs.read.result import BATCH_ROWS, Result, Row
from triegs.read.rows import RowReader
from triegs.sparql.model import Form
from triegs.store.packed import PackedVersion

Places = range | NDArray[np.int64]


class Answer(Row):
    """One row: values by name or place, and how often it counts.

    >>> answer = Answer(("x", "y"), ("<http://ex/a>", None), 2)
    >>> answer.x, answer["y"], answer[0], answer.multiplicity
    ('<http://ex/a>', None, '<http://ex/a>', 2)
    """

    __slots__ = ()
    _count_name = "multiplicity"

    @property
    def multiplicity(self) -> int:
        return self._count


class Snapshot(Result):
    """The answers of one query at one epoch. A context manager; closing it lets memory go.

    Reading never blocks the updater, and nothing the updater does changes what is read. The order
    of answers is stable within a snapshot. ``epoch`` is the epoch that it shows, ``time`` its
    logical time in milliseconds (None where no time was given), ``names`` are the variables of the
    head. `StandingQuery.snapshot` makes it; take one per thread.

    >>> from triegs import Engine
    >>> engine = Engine()
    >>> query = engine.register("SELECT ?x ?y { ?x <http://ex/p> ?y }")
    >>> report = engine.apply([("+", 1, "<http://ex/p>", 2), ("+", 1, "<http://ex/p>", 2)])
    >>> with query.snapshot() as snap:
    ...     len(snap), snap.count(), snap.to_arrow("python").to_pylist()
    (1, 2, [{'x': 1, 'y': 2, 'multiplicity': 2}])
    """

    _row = Answer

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
        self._close: Callable[[], None] | None = close
        #: What closes it once nobody reads a batch any more.
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

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if sys.is_finalizing():  # then there is nobody left to give memory back to
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
        """Let the epoch go. Closing twice is harmless; reading afterwards is `SnapshotExpired`.

        From any thread; batches that others are reading are read to their end first.
        """
        self._let_go("is closed")

    def _let_go(self, why: str) -> None:
        with self._lock:
            close, self._close = self._close, None
            if close is None:
                return
            self._why = why
            if self._readers:
                self._waiting = close
                return
        close()

    def end_lease(self) -> None:
        """Close it if its time is over."""
        if self._expires is not None and monotonic() >= self._expires:
            self._let_go("was leased, and the lease is over")

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
        if integers is not None and not self._reader.is_plain:
            raise NotIntegers
        return self._reader.columns(self._version, sizes, integers)

    def count(self) -> int:
        """The total multiplicity, of any size. Cost: constant if the query keeps ``"count"``, else
        a scan of the answers. Raises `MultiplicityOverflow` where it is kept and does not fit.
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
        """The answer at a position of the enumeration, or those of a slice, to be read as a
        snapshot is. Cost: logarithmic if the query keeps ``"slice"``, else a scan up to there.

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
            decode = self._decoder.decode_one
            return Answer(self.names, tuple(None if i < 0 else decode(i) for i in ids), count)

    def sample(self, size: int, *, weighted: bool = False, seed: int | None = None) -> Selection:
        """So many answers drawn at random, with replacement, to be read as a snapshot is: each
        answer alike, or, if `weighted`, as often as it counts. An empty result gives none.

        The same snapshot and `seed` give the same sample. Cost: logarithmic per answer if the query
        keeps ``"slice"`` (and ``"count"`` if `weighted`), else two scans.
        """
        if size < 0:
            raise ValueError(f"a sample of {size} answers")
        total = check_size(self.count() if weighted else self.support())
        draw = np.random.default_rng(seed)
        return self._select(draw.integers(max(total, 1), size=size if total else 0), weighted)

    def split(self, parts: int) -> list[Selection]:
        """So many ranges that together are the whole, each answer in one of them, of equal length
        but for one answer; each may be read by a thread of its own. Cost: as for ``len``.
        """
        if parts < 1:
            raise ValueError(f"split into {parts} parts")
        size = len(self)
        bounds = [size * part // parts for part in range(parts + 1)]
        return [self._select(range(*pair)) for pair in pairwise(bounds)]

    def _select(self, places: Places, by_rows: bool = False) -> Selection:
        return Selection(self, places, by_rows)

    def _pick_one(self, place: int) -> tuple[list[int], int]:
        return self._positions.pick_one(place)

    def to_sparql(self, format: SparqlFormat = "json") -> str:  # noqa: A002
        """The result in a format of SPARQL 1.1: ``"json"``, ``"xml"``, ``"csv"`` or ``"tsv"``.

        An answer is written as often as it counts. Cost: reading the answers; memory for the whole
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
        writer.write(ResultBatch(Kind.SNAPSHOT, self.epoch, self.time, self.batches()))
        return sink.getvalue().decode().removesuffix("\n" if format == "json" else "")

    def _peek(self) -> tuple[list[list[Any]], str]:
        """The first rows, and how many there are as far as that is known at a bounded cost."""
        plan = self._reader.plan
        known = self._known_size()
        if known is None and (plan.filters or plan.query.offset):
            return [], "answers are not counted"  # the first may be far behind
        output = RowOutput(self._decoder, "ntriples")
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
        """The number of answers, if it is kept."""
        return self._positions.support if self._positions.is_kept else None

    def _describe(self) -> str:
        time = "" if self.time is None else f", time {self.time}"
        return f"of epoch {self.epoch}{time}"

    def __repr__(self) -> str:
        """What it is of; the number of answers if that is kept, because none is read for this."""
        head = " ".join(f"?{name}" for name in self.names) or "ASK"
        more = ", closed" if self._close is None else ""
        with suppress(TriegsError):
            known = None if more else self._known_size()
            more = more if known is None else f", {known:,} answer{'' if known == 1 else 's'}"
        return f"<{type(self).__name__} {self._describe()}: {head}{more}>"

    def _repr_html_(self) -> str:
        """For a notebook: the first answers. Cost: those, whatever else there is."""
        try:
            rows, size = self._peek()
        except TriegsError as problem:
            return write_card(f"{type(self).__name__} {self._describe()}", [("state", problem)])
        names = [*self.names, self._count_name()]
        note = f"{size}, {self._describe().removeprefix('of ')}"
        if len(rows) == MOST_SHOWN:
            note = f"the first {MOST_SHOWN}; {note}"
        return write_table(names, rows, note, counts=True)

    def diff(self, since: Snapshot) -> Changes:
        """The answers that changed since another snapshot of the same query, each once.

        Their changes are signed, and what `since` shows plus these changes is what this shows. It
        may be the later one, too. Cost: constant; reading costs the entries that differ, the way
        from them to the root, and the changed answers, whatever else there is. Both snapshots must
        stay open meanwhile. A query with LIMIT or OFFSET is `StateError`.

        >>> from triegs import Engine
        >>> engine = Engine()
        >>> query = engine.register("SELECT ?x ?y { ?x <http://ex/p> ?y }")
        >>> before = query.snapshot()
        >>> report = engine.apply([("+", 1, "<http://ex/p>", 2)])
        >>> list(query.snapshot().diff(before).answers("python"))
        [Change(x=1, y=2, change=1)]
        """
        return Changes(since, self)


def compose(places: Places, chosen: Places) -> Places:
    """Of some places, those at the chosen ones."""
    if isinstance(places, range):
        first, step = places.start, places.step
        if isinstance(chosen, range):
            return range(
                first + chosen.start * step, first + chosen.stop * step, chosen.step * step
            )
        return first + chosen * step
    return places[np.arange(chosen.start, chosen.stop, chosen.step)
                  if isinstance(chosen, range) else chosen]  # fmt: skip


class Selection(Snapshot):
    """Some answers of a snapshot, by their places in it. It is read as a snapshot is, as long as
    that is open; an answer that was drawn twice is there twice. Several threads may read one
    snapshot, each a selection of its own.
    """

    def __init__(self, whole: Snapshot, places: Places, by_rows: bool) -> None:
        decoder = Decoder(whole._decoder.load)
        reader, version = whole._reader, whole._version
        super().__init__(reader, version, whole.epoch, decoder, lambda: None, whole.time)
        self._whole = whole
        self._places = places
        #: Whether places are those of expanded rows.
        self._by_rows = by_rows

    @contextmanager
    def _hold(self) -> Iterator[None]:
        with super()._hold(), self._whole._hold():
            yield

    def _check_open(self) -> None:
        super()._check_open()
        self._whole._check_open()

    def _columns(self, sizes: Sizes, integers: Integers | None = None) -> Iterator[Columns]:
        if integers is not None:
            raise NotIntegers  # they come from a kernel that knows no places
        places = self._places
        if isinstance(places, range) and places.step == 1:
            return self._positions.stream(places.start, places.stop, sizes)
        return self._pick_parts(sizes)

    def _pick_parts(self, sizes: Sizes) -> Iterator[Columns]:
        start = 0
        while start < len(self._places):
            end = min(start + sizes(), len(self._places))
            places = np.asarray(compose(self._places, range(start, end)))
            yield self._positions.pick(places, self._by_rows)
            start = end

    def _pick_one(self, place: int) -> tuple[list[int], int]:
        ids, counts = self._positions.pick(np.array([self._places[place]], np.int64), self._by_rows)
        return ids[:, 0].tolist(), int(counts[0])

    def _select(self, places: Places, by_rows: bool = False) -> Selection:
        if by_rows:  # of these answers: nobody keeps their sums
            counts = list(self._read(lambda: BATCH_ROWS, lambda found: found[1]))
            places = np.searchsorted(np.cumsum(np.concatenate(counts)), places, side="right")
        return Selection(self._whole, compose(self._places, places), self._by_rows)

    def count(self) -> int:
        """The total multiplicity of these answers. Cost: they are read."""
        return sum(self._read(lambda: BATCH_ROWS, lambda found: add_exactly(found[1])))

    def _size(self) -> int:
        return len(self._places)

    def _known_size(self) -> int:
        return len(self._places)

    def diff(self, since: Snapshot) -> Changes:  # noqa: ARG002
        """There is none: changes are between whole snapshots."""
        raise StateError("changes are between whole snapshots, not between selections")
