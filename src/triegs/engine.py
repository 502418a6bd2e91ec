"""The engine: register queries, apply epochs, read snapshots. Read this first.

```
updates ──► dictionary (terms to ids) ──► maintain (one pass of differences) ──► publish ──► read
```
One thread updates at a time; any number of readers hold snapshots meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from types import MappingProxyType
from typing import Any

from triegs.compiler import Plan, compile_query
from triegs.compiler.plan import PlanClass
from triegs.dictionary import Dictionary
from triegs.errors import InvalidUpdate, MultiplicityOverflow, StateError, UnsupportedQuery
from triegs.events import Batch, encode_table, encode_tuples
from triegs.maintain.core import Core, Refused, Standing
from triegs.mode import Mode
from triegs.read.rows import RowReader
from triegs.read.snapshot import Snapshot
from triegs.read.walk import make_walk
from triegs.sparql import Query, parse
from triegs.sparql.model import is_variable
from triegs.store.contract import Store
from triegs.store.plain import PlainStore


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one epoch: its number, and what was refused, with the reason for each."""

    epoch: int
    refused: tuple[Refused, ...]


class StandingQuery:
    """A registered query: take snapshots of it, explain it, close it."""

    def __init__(
        self, engine: Engine, name: str, query: Query, standing: Standing, constants: list[int]
    ) -> None:
        self._engine = engine
        self._constants = constants
        self._standing: Standing | None = standing
        self._reader = RowReader(
            standing.plan, make_walk(standing.plan, standing.built), engine._decode_one
        )
        self.name = name
        self.query = query

    @property
    def plan(self) -> Plan:
        return self._reader.plan

    @property
    def error(self) -> MultiplicityOverflow | None:
        """Why the query is stalled at an older epoch; None while it is up to date."""
        return self._open().error

    def snapshot(self) -> Snapshot:
        """Hold the newest published result of this query. Cost: constant.

        While the query is stalled this is its last good epoch; `Snapshot.epoch` says so.
        """
        return self._engine._hold(self._open(), self._reader)

    def explain(self, output: str = "text") -> str:
        """The plan in words or as a drawing: text, mermaid, svg or json."""
        from triegs.explain import explain

        return explain(self.plan, output)

    def close(self) -> None:
        """Give back everything that only this query used; snapshots stay readable."""
        if self._standing is not None:
            self._engine._close_query(self, self._standing, self._constants)
            self._standing = None

    def _open(self) -> Standing:
        if self._standing is None:
            raise StateError(f"the query {self.name!r} is closed")
        return self._standing


class Engine:
    """A graph under updates, and standing queries over it with exact answers.

    >>> engine = Engine(prefixes={"": "http://ex/"})
    >>> fans = engine.register("SELECT ?post ?fan { ?post :hasReply ?r . ?r :likedBy ?fan }")
    >>> reply = ("+", "<http://ex/p1>", "<http://ex/hasReply>", "<http://ex/p2>")
    >>> report = engine.apply([reply, reply,
    ...     ("+", "<http://ex/p2>", "<http://ex/likedBy>", "<http://ex/Mia>")])
    >>> with fans.snapshot() as snap:
    ...     [(answer.post, answer.fan, answer.multiplicity) for answer in snap]
    [('<http://ex/p1>', '<http://ex/Mia>', 2)]
    """

    def __init__(
        self,
        mode: str = "multigraph",
        *,
        prefixes: Mapping[str, str] | None = None,
        store: Store | None = None,
    ) -> None:
        self.mode = Mode(mode)
        self._prefixes = dict(prefixes or {})
        self._dictionary = Dictionary()
        self._decode_one = self._dictionary.decode_one
        self._store = PlainStore() if store is None else store
        self._core = Core(self._store, self._dictionary.encode_one, self._decode_one, self.mode)
        self._queries: dict[str, StandingQuery] = {}
        self._held: dict[object, tuple[int, float]] = {}
        self._updating = Lock()
        self._updates = 0
        self._first = self._store.newest.number
        self._is_closed = False

    @property
    def epoch(self) -> int:
        """The number of the newest published epoch; 0 before the first."""
        return self._newest - self._first

    @property
    def queries(self) -> Mapping[str, StandingQuery]:
        """The registered queries by name."""
        return MappingProxyType(self._queries)

    def register(
        self,
        text: str,
        name: str | None = None,
        *,
        root: str | None = None,
        keep: Iterable[str] = (),
    ) -> StandingQuery:
        """Compile a query, fill its views from the current graph, and keep it from now on.

        Publishes an epoch, so the query is readable on return. Cost: the size of its views.
        """
        query = parse(text, self._prefixes)
        plan = compile_query(query, root=root, keep=list(keep))
        _refuse_for_now(plan)
        with self._update():
            name = name or f"query{len(self._queries) + 1}"
            if name in self._queries:
                raise StateError(f"there is a query {name!r} already")
            constants = [self._dictionary.encode_one(term) for term in _constants(query)]
            standing = self._core.register(plan)
            self._dictionary.acquire(constants, self._newest)
            found = StandingQuery(self, name, query, standing, constants)
            self._queries[name] = found
            return found

    def apply(self, updates: Iterable[Sequence[Any]], *, strict: bool = False) -> Report:
        """One epoch: a batch of ``(sign, subject, predicate, object)``, judged in its order.

        Or an Arrow table (anything with ``__arrow_c_stream__``) with the columns subject,
        predicate, object and perhaps op. A deletion that finds no event, and an update with a
        malformed term, is refused and reported, and the rest holds; with `strict` the whole epoch
        is refused by `InvalidUpdate`. Cost: the affected state.
        """
        with self._update():
            is_arrow = hasattr(updates, "__arrow_c_stream__")
            batch = encode_table(self._dictionary, updates) if is_arrow else (
                encode_tuples(self._dictionary, updates))  # fmt: skip
            try:
                return self._apply(batch, strict)
            finally:
                self._free_terms()

    def _apply(self, batch: Batch, strict: bool) -> Report:
        if batch.refused and strict:
            message = f"{len(batch.refused)} updates are malformed; nothing changed"
            raise InvalidUpdate(message, tuple(batch.refused))
        epoch = self._core.apply(list(map(tuple, batch.rows.tolist())), strict)
        self._dictionary.acquire(_flat(epoch.born), self._newest)
        self._dictionary.release(_flat(epoch.died), self._newest)
        self._updates += len(batch.rows) - len(epoch.refused)
        places = range(len(batch.rows)) if batch.places is None else batch.places.tolist()
        judged = [Refused(places[place], reason) for place, reason in epoch.refused]
        return Report(self.epoch, tuple(sorted([*batch.refused, *judged])))

    def metrics(self) -> dict[str, Any]:
        """Figures of the moment: epochs, updates, entries, bytes, and who holds what."""
        now = monotonic()
        store = self._store.statistics()
        pins = [
            {"epoch": version - self._first, "age_s": now - since}
            for version, since in list(self._held.values())
        ]
        return {
            "epochs": self.epoch,
            "updates": self._updates,
            "queries": len(self._queries),
            "pins": pins,
            "terms": self._dictionary.metrics()._asdict(),
            **store._asdict(),
        }

    def close(self) -> None:
        """Refuse every further call. Snapshots that are held stay readable."""
        self._is_closed = True

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _update(self) -> Iterator[None]:
        """One updater at a time; a second is told so instead of waiting in the dark."""
        if self._is_closed:
            raise StateError("the engine is closed")
        if not self._updating.acquire(blocking=False):
            raise StateError("another thread is updating this engine; updates come from one thread")
        try:
            yield
        finally:
            self._updating.release()

    @property
    def _newest(self) -> int:
        return self._store.newest.number

    def _free_terms(self) -> None:
        """Let go of terms that no live event, query or held snapshot names."""
        stalled = [s.last_good.number for s in self._core.standing if s.last_good is not None]
        pins = {version for version, _ in list(self._held.values())} | set(stalled)
        self._dictionary.collect(self._newest, sorted(pins))

    def _hold(self, standing: Standing, reader: RowReader) -> Snapshot:
        version = self._core.show(standing)
        token = object()
        self._held[token] = (version.number, monotonic())

        def close() -> None:
            self._held.pop(token, None)
            self._store.unpin(version)

        epoch = version.number - self._first
        return Snapshot(reader, version, epoch, self._dictionary.decoder(), close)

    def _close_query(self, query: StandingQuery, standing: Standing, constants: list[int]) -> None:
        with self._update():
            self._core.release(standing)
            self._dictionary.release(constants, self._newest)
            self._free_terms()
            del self._queries[query.name]


def _flat(triples: Sequence[Sequence[int]]) -> list[int]:
    return [number for triple in triples for number in triple]


def _constants(query: Query) -> list[str]:
    """The terms that the query's atoms and VALUES rows name."""
    terms = [term for atom in query.atoms for term in atom if not is_variable(term)]
    return terms + [term for block in query.values for row in block.rows for term in row]


def _refuse_for_now(plan: Plan) -> None:
    """What compiles but does not run on the engine yet."""
    query = plan.query
    construct = ""
    if query.grouping is not None:
        construct = "aggregates"
    elif plan.plan_class is PlanClass.CYCLIC:
        construct = "a cyclic pattern"
    if construct:
        raise UnsupportedQuery(
            f"{construct}: this compiles, but the engine does not run it yet",
            line=1, column=1, construct=construct,
            hint="triegs.Reference answers it from scratch",
        )  # fmt: skip
