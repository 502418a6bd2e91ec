"""The core: epochs over ids. An epoch of all registered plans is one kernel call over their tables.

It holds the graph: the counts of each label that a plan names, and the unindexed assertions of all
other labels. It has one mutator and knows no terms, files, clocks or threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from time import perf_counter
from typing import TypeVar

import numpy as np

from triegs.compiler.plan import Plan
from triegs.copying import Uncopied
from triegs.errors import InvalidUpdate, MemoryLimitReached, MultiplicityOverflow
from triegs.jit.words import Words
from triegs.maintain.at_once import FEW_UPDATES, MOST_AT_ONCE, NO_WORDS, AtOnce
from triegs.maintain.choices import choose_statistics
from triegs.maintain.enumeration import AnswerLowering
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.maintain.faults import Fault, TooMuch
from triegs.maintain.judges import Judges
from triegs.maintain.kernels.program import (
    CALL_MODE,
    CALL_TOUCHED,
    JUDGE,
    NEEDS_VERDICTS,
    PACKED_LABELS,
    WITHOUT_LOCK,
    run_epoch,
)
from triegs.maintain.kernels.tables import COUNTER_WORDS, ENTRY_WORDS, EXTREME_EDGE
from triegs.maintain.kernels.work import PHASE
from triegs.maintain.label_graphs import STATIC
from triegs.maintain.leaves import Encode
from triegs.maintain.meaning import Held, describe_overflow
from triegs.maintain.measures import Measures
from triegs.maintain.model import Index, Rule, Step, View, is_counts
from triegs.maintain.morsels import Failed
from triegs.maintain.preparing import Preparing, finish
from triegs.maintain.standing import (
    BaseRelation,
    Epoch,
    PublishedPlan,
    Refused,
    RegisteredPlan,
)
from triegs.maintain.streams import label_stream
from triegs.maintain.table_check import check_table
from triegs.maintain.tables import Table, pack_arrays, write_table
from triegs.maintain.views import Saved
from triegs.mode import Mode
from triegs.store.contract import Key
from triegs.store.kernels.layout import LOG_FULL, OVERFLOW
from triegs.store.packed import PackedStore, PackedVersion
from triegs.terms.arrays import TOP
from triegs.terms.dictionary import Dictionary

ENTRIES_PER_UPDATE = 4  # entries that can be rebuilt in about the time of one update
TOUCH_SECONDS = 1e-7  # approximate time for a kernel to touch one entry
CHECKS_TABLES = False  # whether every table is checked before use, as in tests
Result = TypeVar("Result")
_Saved = tuple[
    Saved, list[tuple[RegisteredPlan, EnumerationPlan, Held, MultiplicityOverflow | None]]
]


class CompiledCore(Uncopied, AtOnce):
    """A graph over ids with registered plans, kept up to date epoch by epoch.

    An exception inside an epoch leaves everything unchanged. A count that does not fit stalls the
    plans that need it: they keep showing their last good version, all others continue, and each
    later epoch retries.
    """

    def __init__(
        self, store: PackedStore, encode: Encode, judges: Judges, mode: Mode = Mode.MULTIGRAPH,
        terms: Dictionary | None = None,
    ) -> None:  # fmt: skip
        super().__init__(store, judges, mode, terms)
        self._judged = 0  # updates of epochs that took the slow path
        self._encode = encode
        #: Describes held versions, for the error message when memory runs out.
        self.describe_pins: Callable[[], str] = str
        self.table = Table(np.zeros(0, np.int64))
        self._follow_views()
        store.publish()

    # Epochs

    def apply(self, rows: Words, is_strict: bool = False, counts: bool = False) -> Epoch:
        """Apply one epoch of `(change, subject, predicate, object)` rows, judged in order.

        Cost: the affected state. A deletion that finds no event is refused; with `is_strict` it
        fails the whole epoch with `InvalidUpdate`. With `counts` the references that the rows make
        and drop are counted in the dictionary, which also frees some terms; `rows` may then be
        overwritten.

        Freeing memory must not fail for lack of it, so an epoch with deletions may exceed the limit
        while it runs. It is kept if the result is within the limit, or if it only deletes.
        """
        flat = rows.reshape(-1)
        is_small = flat.size <= 4 * MOST_AT_ONCE and not self._wants_workers(flat.size >> 2)
        if self._is_quick and not is_strict and is_small:
            epoch = self.apply_at_once(flat, counts)
            if epoch is not None:
                return epoch
        return finish(self.prepare(rows, is_strict, counts))

    def prepare(
        self, rows: Words, is_strict: bool = False, counts: bool = False
    ) -> Preparing[Epoch]:
        """As `apply`, but pauses before it publishes."""
        try:
            epoch = yield from self._apply(rows, is_strict)
        except MemoryLimitReached:
            if not (rows.reshape(-1)[::4] < 0).any():
                raise
            self.store.lift_limit()
            try:
                epoch = yield from self._apply(rows, is_strict, is_lifted=True)
            finally:
                self.store.restore_limit()
        if counts:
            kept = rows
            if epoch.refused:
                kept = np.delete(rows, [row for row, _ in epoch.refused], axis=0)
            self._terms.settle(kept, epoch.version.number)
        return epoch

    def _apply(self, rows: Words, is_strict: bool, is_lifted: bool = False) -> Preparing[Epoch]:
        flat = rows.reshape(-1)
        saved = None if self._is_plain else self._save()
        overflown: dict[RegisteredPlan, MultiplicityOverflow] = {}
        is_shared = flat.size > 0 and not is_lifted and self._wants_workers(flat.size >> 2)
        while True:
            try:
                refused = self._run(flat, overflown, is_shared)
                if refused and is_strict:
                    message = f"{len(refused)} updates of a strict epoch were invalid"
                    raise InvalidUpdate(f"{message}; nothing changed", refused)
                # Rebuilding a plan takes more memory, so it waits until there is room.
                if not is_lifted and any(map(self._is_due, self.registered)):
                    self._rebuild()
                if is_lifted and (flat[::4] > 0).any() and not self.store.is_within_limit():
                    raise TooMuch
                yield
                return Epoch(self.publish(), refused)
            except Failed:
                self._abort(saved)
                is_shared = False
            except Fault as fault:
                users = self._find_users(fault) if fault.kinds & OVERFLOW else []
                self._abort(saved)
                if fault.kinds & OVERFLOW:
                    if fault.step < 0:
                        message = "a sum of base counts does not fit 64 bits; nothing changed"
                        raise MultiplicityOverflow(message, "base") from None
                    saved = saved or self._save()
                    overflown.update(users)
                elif fault.kinds & LOG_FULL:
                    self._log = np.zeros(2 * self._log.size, np.int64)
                    self.views.grow_work()
                else:
                    self._make_room("an epoch")
            except MemoryLimitReached:
                self._abort(saved)
                self._make_room("an epoch")
            except TooMuch:
                self._abort(saved)
                raise self.store.refuse("an epoch", self.describe_pins()) from None
            except BaseException:
                self._abort(saved)
                raise

    def _make_room(self, what: str) -> None:
        """Give the next attempt more room, or raise `MemoryLimitReached`."""
        if not self.store.make_room():
            raise self.store.refuse(what, self.describe_pins())

    def _run(
        self, flat: Words, overflown: dict[RegisteredPlan, MultiplicityOverflow], is_shared: bool
    ) -> tuple[Refused, ...]:
        """Judge the updates and run every step except those that only stalled plans need; with
        `is_shared` by several workers.
        """
        for registered, error in overflown.items():
            self.views.release(registered.views, keeps_counts=True)
            registered.views, registered.error = {}, error
        if overflown:
            self._follow_views()
        count = flat.size // 4
        views, table, judges = self.views, self.table, self.judges
        if self._watches:
            self._add_digits(flat)
        if is_shared:
            return self._run_shared(flat)
        entries = np.empty(count * ENTRY_WORDS * (1 + table.selections), np.int64)
        refused = np.empty(2 * count, np.int64)
        self._told[CALL_MODE] = WITHOUT_LOCK if count > FEW_UPDATES else 0

        def run(words: Words, roots: Words) -> int:
            return run_epoch(
                words, roots, NO_WORDS, NO_WORDS, flat, self._log, views.work, self._packed,
                self.label_graphs.words, entries, refused, judges.words, judges.requests,
                self._call, NO_WORDS, *self._terms.arrays,
            )  # fmt: skip

        found = self.store.run(run)
        while found == NEEDS_VERDICTS:
            judges.answer()
            found = self.store.run(run)
        if found < 0:
            judges.answer()
            raise Fault(self.store.faults, -2 - found)
        if count > FEW_UPDATES:
            self._note_call(count)
        self._judged += count
        return self._list_refused(refused, found)

    def _run_shared(self, flat: Words) -> tuple[Refused, ...]:
        """`_run` by the pool; raises `Failed` if it cannot, and the epoch must be made again."""
        pool = self.worker_pool
        assert pool is not None
        started, count = perf_counter(), flat.size // 4
        highest = int(self._terms.arrays.meta[TOP])
        packed = self._packed
        label_of = packed[packed[PACKED_LABELS] : packed[PACKED_LABELS + 1]]
        refused, found = pool.run(
            flat, self.table, (self._lists, label_of, self._bounds), self.label_graphs.words,
            self.views.work, highest,
        )  # fmt: skip
        pool.note(count, perf_counter() - started, is_shared=True)
        ends = self._lists[1 : self._lists.size - self.table.counters.size : 2]
        self._told[CALL_TOUCHED] += int(ends.sum()) >> 1
        self._judged += count
        return self._list_refused(refused, found)

    def _find_users(self, fault: Fault) -> list[tuple[RegisteredPlan, MultiplicityOverflow]]:
        """The plans that use a step and must be stalled."""
        if fault.step < 0:
            return []
        view = self.table.steps[fault.step]
        return [
            (one, describe_overflow(view, one.views))
            for one in self.registered
            if view in one.views
        ]

    def _is_due(self, registered: RegisteredPlan) -> bool:
        """Whether an epoch should try to rebuild a plan's views: the plan is stalled, or a
        requested count did not fit, and enough updates have passed since to pay for an attempt.
        """
        if registered.error is not None:
            return True
        return registered.enumeration.overflow is not None and self._judged >= registered.retry_at

    def _rebuild(self) -> None:
        """Try to rebuild everything that is due from the current graph."""
        for registered in self.registered:
            if not self._is_due(registered):
                continue
            self.views.release(registered.views, keeps_counts=True)
            registered.views = {}
            try:
                self._lower(registered)
            except MultiplicityOverflow as error:
                registered.error = registered.error or error
            else:
                registered.error = None
        self._follow_views()

    def _lower(self, registered: RegisteredPlan) -> None:
        """Create the views of a plan, with as many order statistics as fit.

        Raises `MultiplicityOverflow` if a count that the plan requires does not fit.
        """
        overflow = last = None
        plan = registered.plan
        for statistics in choose_statistics(plan, self.views.mode):
            lowering: AnswerLowering | Measures = (
                AnswerLowering(self.views, plan, self._encode, statistics)
                if plan.groups is None
                else Measures(self.views, plan, self._encode)
            )
            known = set(self.views.by_name)
            try:
                enumeration = lowering.run()
                break
            except MultiplicityOverflow as error:
                overflow, last = overflow or error, error
                for view in reversed(list(self.views.by_name.values())):
                    if view.name not in known:
                        self.views.drop(view)
        else:
            assert last is not None
            raise last
        enumeration.overflow = overflow
        registered.enumeration, registered.views = enumeration, lowering.held
        if isinstance(lowering, Measures):
            registered.watches = tuple(lowering.watches)
        if overflow is not None:
            entries = sum(len(view.relation) for view in registered.views)
            registered.retry_at = self._judged + entries // ENTRIES_PER_UPDATE

    def _save(self) -> _Saved:
        """The Python state that an epoch with stalled plans may change."""
        plans = [(one, one.enumeration, one.views, one.error) for one in self.registered]
        return self.views.save(), plans

    def _abort(self, saved: _Saved | None) -> None:
        self.store.abort()
        self.views.work[PHASE] = JUDGE  # it may have waited for verdicts
        if saved is not None:
            views, plans = saved
            self.views.restore(views)
            for one, enumeration, held, error in plans:
                one.enumeration, one.views, one.error = enumeration, held, error
            self._follow_views()
        self.views.digits.abort()

    def _follow_views(self) -> None:
        """Rewrite the table after views were created or dropped."""
        views, counted = self.views, self.count_work()
        table = write_table(views.by_name.values(), views.unindexed, views.mode)
        labels = table.labels
        label_of = np.full(max(labels, default=0) + 1, -1, np.int64)
        label_of[list(labels)] = list(labels.values())
        bounds = [0] * (2 * (len(table.lists) + len(table.keys)) + 2)
        counters = (counted.get(step, [0] * COUNTER_WORDS) for step in table.steps)
        lists = np.array([*bounds, *chain.from_iterable(counters)], np.int64)
        self._packed, views_of = pack_arrays(
            table.words, lists, label_of, np.zeros(len(table.streams) + 2, np.int64)
        )
        table.words, self._lists, _, self._bounds = views_of
        table.counters = self._lists[len(bounds) :]
        if table.selections != self.table.selections:
            self._room = 0
        self.table = table  # replaced as a whole: other threads read it to explain
        self._follow_watches()
        self._has_new_table = True
        if CHECKS_TABLES:
            check_table(table.words, self.views, len(table.lists) + len(table.keys))

    def _follow_watches(self) -> None:
        """Watch the terms of sums. A stalled plan watches nothing: it is filled when rebuilt."""
        watches = (watch for one in self.registered if one.views for watch in one.watches)
        self._watches = list(dict.fromkeys(watches))

    def _drop_judges(self) -> None:
        """Drop the judges that no view uses. Only behind a publication: an epoch that is aborted
        restores views whose judges it had no use for.
        """
        judges = {judge for stream in self.table.streams for judge in stream.judges}
        for view in self.views.by_name.values():
            if isinstance(view, Rule):
                judges.update(judge for delta in view.deltas for judge in delta.judges)
            elif isinstance(view, Step) and view.kind == EXTREME_EDGE:
                judges.add(view.judge)
        self.judges.keep(judges)
        self._has_new_table = False

    # Registration

    def register(self, plan: Plan) -> RegisteredPlan:
        """Fill the views that the plan needs from the current graph, and publish.

        Raises `MultiplicityOverflow`, and registers nothing, if a count already does not fit.
        """
        registered = self._attempt(lambda: self._register(plan), "a query's views")
        self.registered.append(registered)
        self._follow_watches()
        self.publish()
        return registered

    def _register(self, plan: Plan) -> RegisteredPlan:
        registered = RegisteredPlan(plan, EnumerationPlan(0))
        self._lower(registered)
        registered.published = PublishedPlan(None, registered.enumeration)
        return registered

    def release(self, registered: RegisteredPlan) -> None:
        """Drop the views that only this plan used, and publish. Never fails for lack of memory."""

        def drop() -> None:
            self.views.release(registered.views)

        try:
            self._attempt(drop, "closing a query")
            self.forget(registered)
        except MemoryLimitReached:
            # Freeing memory must not fail for lack of it. Labels stay where they are, and the lists
            # of dropped nodes may exceed the limit until these are freed as well.
            self.views.keeps_counts = True
            self.store.lift_limit()
            try:
                self._attempt(drop, "closing a query")
                self.forget(registered)
            finally:
                self.views.keeps_counts = False
                self.store.restore_limit()

    def forget(self, registered: RegisteredPlan) -> None:
        super().forget(registered)
        self._follow_watches()

    def _attempt(self, work: Callable[[], Result], what: str) -> Result:
        """Change views atomically; retry with more room if memory runs out."""
        saved = self._save()
        while True:
            try:
                result = work()
                self._follow_views()
                return result
            except MemoryLimitReached:
                self._abort(saved)
                self._make_room(what)
            except BaseException:
                self._abort(saved)
                raise

    # The graph

    def count(self, subject: int, predicate: int, obj: int) -> int:
        """The number of live events of an assertion."""
        counts = self.views.by_name.get(label_stream(predicate).name)
        if not isinstance(counts, Index):
            return self.views.unindexed.get((predicate, subject, obj))
        return counts.relation.get((subject, obj) if counts.column == 0 else (obj, subject))

    def list_base_relations(self) -> list[BaseRelation]:
        """The relations that hold every assertion with its number of live events."""
        found = [BaseRelation(self.views.unindexed, None, (1, 0, 2))]
        for view in self.views.by_name.values():
            if isinstance(view, Index) and is_counts(view):
                order = (0, 2) if view.column == 0 else (2, 0)
                found.append(BaseRelation(view.relation, view.stream.predicate, order))
        return found

    def static_rows(self) -> Iterator[tuple[Key, int]]:
        """Every assertion outside window graphs, with its number of live events."""
        for *key, count in self.views.read_window_graph(STATIC).T.tolist():
            yield tuple(key), count

    # Publication

    def measure(self, registered: RegisteredPlan) -> float:
        """Estimated seconds of the last epoch for a plan, including shared views. Estimated from
        touched entries, because an epoch runs the views of all plans together.
        """
        return TOUCH_SECONDS * self._count_touched(registered.views)

    def _count_touched(self, held: Iterable[View]) -> int:
        """The work of the last epoch for some views: stream entries plus step keys."""
        found, table = 0, self.table
        for view in set(held):
            if isinstance(view, Index):
                start, end = self._bounds[table.streams[view.stream] :][:2].tolist()
                found += end - start
            elif view in table.lists:
                start, end = self._lists[2 * table.lists[view] :][:2].tolist()
                found += (end - start) >> 1
        return found

    def count_work(self) -> dict[View, list[int]]:
        """The counters of each step (see `triegs.maintain.kernels.tables`) since its creation,
        including those of aborted epochs.
        """
        table = self.table
        counters = table.counters.reshape(-1, COUNTER_WORDS).tolist()
        return dict(zip(table.steps, counters, strict=True))

    @property
    def affected(self) -> int:
        """The number of bindings that epochs have touched so far."""
        return self._told[CALL_TOUCHED]

    def count_stored(self) -> int:
        """Entries of materialised joins; 0 if every query is free-connex."""
        rules = (view for view in self.views.by_name.values() if isinstance(view, Rule))
        return sum(len(r.relation) for r in rules if len(r.deltas) > 1 and not r.is_listed_only)

    def publish(self) -> PackedVersion:
        version = super().publish()
        self.judges.end_epoch()
        self.views.digits.commit()
        if self._has_new_table:
            self._drop_judges()
        # A count that did not fit is retried on the slow path.
        self._follow_stalls(
            is_plain=all(
                one.error is None and one.enumeration.overflow is None for one in self.registered
            )
        )
        return version

    def forget_terms(self, ids: Words) -> None:
        """Forget what was computed for freed ids, which may be reused for other terms."""
        self.judges.forget(ids)
        self.views.digits.forget(ids)
