"""The rules of an engine: loading them, and reading what they derive beside triples."""

from __future__ import annotations

from os import PathLike
from typing import Self

from triegs.engine.internals import EngineInternals
from triegs.errors import StateError
from triegs.reason.model import RuleSet
from triegs.reason.sets import read_file, read_rules
from triegs.sparql.window import Window
from triegs.windows.usage import check_window
from triegs.windows.window_graphs import GraphKey


class RuleKeeping:
    """A part of `triegs.Engine`."""

    _internals: EngineInternals

    def load_rules(self, path: str | PathLike[str]) -> None:
        """Add the rules of a file, Datalog or SPARQL ``CONSTRUCT``, or of a set by name.

        The call publishes an epoch with everything that the rules derive; a directory stores the
        rules. Raises `RuleError` with line and column for an invalid text, and `MemoryLimitReached`
        if the closure does not fit; then nothing has changed. Cost: the closure of each graph,
        which is derived again.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from triegs import Engine
        >>> engine = Engine(prefixes={"": "http://ex/"})
        >>> boss = engine.register("SELECT ?x ?y { ?x :above ?y }")
        >>> report = engine.apply([("+", "<http://ex/Ann>", "<http://ex/leads>", "<http://ex/Bob>")])
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "rules.dlog"
        ...     size = path.write_text(":above(X, Y) :- :leads(X, Y).")
        ...     engine.load_rules(path)
        >>> with boss.snapshot() as snap:
        ...     [(answer.x, answer.y) for answer in snap]
        [('<http://ex/Ann>', '<http://ex/Bob>')]
        """
        prefixes = self._internals.prefixes
        is_set = isinstance(path, str) and path in ("rdfs", "rdfs-plus")
        rules = read_rules(path, prefixes) if is_set else read_file(path, prefixes)
        self._internals.load_rules(rules)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules, each as Datalog text.

        >>> from triegs import Engine
        >>> Engine(rules="TE(Y, <http://ex/q>, X) :- TE(X, <http://ex/p>, Y).").rules
        ('TE(?Y, <http://ex/q>, ?X) :- TE(?X, <http://ex/p>, ?Y).',)
        """
        return tuple(map(str, self._internals.windows.reasoning.rules.rules))

    def facts(self, predicate: str, window: Window | None = None) -> list[tuple[str, ...]]:
        """The facts of a predicate of the rules that is not a triple, as terms.

        Of the static graph, or of a window that a query or the engine has. Call it between updates.
        Cost: the closure.

        >>> from triegs import Engine
        >>> engine = Engine(rules="linked(X, Y) :- TE(X, <http://ex/p>, Y).")
        >>> report = engine.apply([("+", 1, "<http://ex/p>", "<http://ex/a>")])
        >>> engine.facts("linked")
        [('"1"^^<http://www.w3.org/2001/XMLSchema#integer>', '<http://ex/a>')]
        """
        check_window(window)
        state = self._internals
        with state.update():
            graph = None
            if window is not None:
                graph = state.windows.find_graph(GraphKey(window, True))
                if graph is None:
                    raise StateError(f"no query reads the window {window}")
            rows = state.windows.reasoning.read_facts(predicate, graph)
            decode = state.dictionary.decode_one
            return sorted(tuple(map(decode, row)) for row in rows.tolist())

    def _agree_rules(self, rules: RuleSet) -> Self:
        """Load the rules given to `Engine.open`, unless the directory has them; others are refused,
        as another mode is.
        """
        known = self._internals.windows.reasoning.rules
        try:
            if rules.rules and known.rules and set(rules.rules) != set(known.rules):
                raise StateError(
                    "the engine in this directory has other rules; load_rules adds to them"
                )
            self._internals.load_rules(rules)
        except BaseException:
            self._internals.close()  # nobody else could: the directory would stay locked
            raise
        return self
