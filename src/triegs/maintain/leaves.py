"""The leaves of a lowered plan: indexes of the streams that atoms match, and fixed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from triegs.compiler.keys import static_text
from triegs.compiler.plan import Alias, Node, Plan, Static
from triegs.maintain.choices import preferred_columns
from triegs.maintain.kernels.tables import ANY, COUNTS, SAME
from triegs.maintain.meaning import Held, Meaning
from triegs.maintain.model import Index, View
from triegs.maintain.streams import Stream, find_stream, label_stream
from triegs.maintain.views import Views
from triegs.sparql.expressions import holds
from triegs.sparql.model import is_variable

Encode = Callable[[str], int]


class Leaves:
    """The views that one plan takes from streams; `held` lists all views it uses."""

    def __init__(self, views: Views, plan: Plan, encode: Encode) -> None:
        self.views = views
        self.plan = plan
        self.encode = encode
        self.held: Held = {}
        self.columns = preferred_columns(plan)
        self.streams: dict[Alias, Stream] = {}
        self.atoms: dict[Stream, Alias] = {}

    def use(
        self, view: View, node: Node | None = None, variables: Sequence[str] = (),
        guard: Alias | Static | None = None, atoms: Iterable[Alias | None] = (),
    ) -> View:  # fmt: skip
        """Hold a view, and record its role in this plan."""
        meanings = self.held.setdefault(view, {})
        if node is not None or guard is not None:
            name = "" if node is None else node.name
            meanings[Meaning(name, tuple(variables), guard, tuple(atoms))] = None
        return view

    def _stream(self, alias: Alias) -> Stream:
        """The stream that an atom matches; its columns are the atom's variables."""
        found = self.streams.get(alias)
        if found is None:
            found = self.streams[alias] = find_stream(alias, self.encode, self.views.judges)
            self.atoms.setdefault(found, alias)
        source = found.source or found
        if source.predicate is not None:
            self._use_counts(alias, source.predicate)
        return found

    def _use_counts(self, alias: Alias, predicate: int) -> Index:
        """The counts of an atom's label."""
        found = self.views.counts(predicate, self.columns.get(alias, 0))
        self.use(found, guard=alias)
        return found

    def _index(self, stream: Stream, kind: int, column: int, condition: int = ANY) -> Index:
        found = self.views.index(stream, kind, column, condition)
        if not self.held.get(found):
            self.use(found, guard=self.atoms.get(stream))
        return found

    def _single(self, alias: Alias) -> View:
        """The view of a one-variable atom: a conditional row of its label, or a selection."""
        atom, variable = alias.atom, alias.variables[0]
        if alias.label is None or alias.filters:
            return self._index(self._stream(alias), COUNTS, 0)
        assert alias.relation is not None
        label = label_stream(self.encode(alias.relation))
        assert label.predicate is not None
        self._use_counts(alias, label.predicate)
        column = 0 if atom.subject == variable else 1
        other = atom.object if column == 0 else atom.subject
        condition = SAME if is_variable(other) else self.encode(other)
        return self.use(self.views.index(label, COUNTS, column, condition), guard=alias)

    def _rows(self, static: Static) -> View:
        """The rows of `VALUES` that pass its filters."""
        names = static.variables
        rows = [
            row for row in static.values.rows
            if all(holds(e, dict(zip(names, row, strict=True))) for e in static.filters)
        ]  # fmt: skip
        ids = [tuple(map(self.encode, row)) for row in rows]
        found = self.views.fixed(static_text(static), len(names), ids)
        return self.use(found, variables=names, guard=static)
