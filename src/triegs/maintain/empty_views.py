"""Views that are only described, over a graph without assertions."""

from __future__ import annotations

from collections.abc import Sequence

from triegs.maintain.kernels.tables import ADJACENCY
from triegs.maintain.model import Index, Rule, Step, View
from triegs.maintain.views import Views


class EmptyViews(Views):
    """Views over a graph without assertions: there is nothing to fill."""

    def summed(self, view: View) -> View:
        if isinstance(view, Index) and view.kind == ADJACENCY:
            view.listed = True
        view.is_summed = True
        return view

    def fixed(self, name: str, arity: int, rows: Sequence[tuple[int, ...]]) -> View:
        return super().fixed(name, arity, rows[:0])

    def _move(self, counts: Index, is_back: bool) -> None:
        pass

    def _fill_index(self, index: Index, counts: Index) -> None:
        pass

    def _fill_tuples(self, view: View, rows: object) -> None:
        pass

    def _fill_step(self, step: Step) -> None:
        pass

    def _fill_rule(self, rule: Rule) -> None:
        pass

    def add_digits(self, ids: object) -> None:
        pass
