"""The closure of facts under rules, from the definition: sets, and nothing of the engine.

A fact is ``(predicate, terms)``. A rule is ``(head, body)`` of patterns ``(predicate, terms)``, in
which a term that begins with ``?`` is a variable. Rules apply until nothing is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

Fact = tuple[str, tuple[str, ...]]
Pattern = tuple[str, tuple[str, ...]]
PlainRule = tuple[Pattern, tuple[Pattern, ...]]
Triple = tuple[str, str, str]
Binding = dict[str, str]

TRIPLE = "TE"


def match(pattern: Pattern, fact: Fact, binding: Binding) -> Binding | None:
    """The binding extended so that the pattern is the fact; None if there is none."""
    if pattern[0] != fact[0] or len(pattern[1]) != len(fact[1]):
        return None
    found = dict(binding)
    for term, value in zip(pattern[1], fact[1], strict=True):
        if not term.startswith("?"):
            if term != value:
                return None
        elif found.setdefault(term, value) != value:
            return None
    return found


def solve(body: tuple[Pattern, ...], facts: Iterable[Fact], binding: Binding) -> Iterator[Binding]:
    """Every binding that makes each pattern of a body a fact."""
    if not body:
        yield binding
        return
    known = list(facts)
    for fact in known:
        found = match(body[0], fact, binding)
        if found is not None:
            yield from solve(body[1:], known, found)


def close(rules: Iterable[PlainRule], facts: Iterable[Fact]) -> set[Fact]:
    """The least set that contains the facts and the conclusions of rules over it.

    >>> body = (("TE", ("?x", "is", "?y")), ("TE", ("?y", "is", "?z")))
    >>> rule = (("TE", ("?x", "is", "?z")), body)
    >>> sorted(close([rule], [("TE", ("a", "is", "b")), ("TE", ("b", "is", "c"))]))
    [('TE', ('a', 'is', 'b')), ('TE', ('a', 'is', 'c')), ('TE', ('b', 'is', 'c'))]
    """
    listed = list(rules)
    found = set(facts)
    while True:
        new = {
            (head[0], tuple(binding.get(term, term) for term in head[1]))
            for head, body in listed
            for binding in solve(body, found, {})
        } - found
        if not new:
            return found
        found |= new


def weigh(
    rules: Iterable[PlainRule],
    counts: Mapping[Triple, int],
    hidden: Mapping[Triple, int] | None = None,
) -> dict[Triple, int]:
    """The weight of each triple of the closure in multigraph mode: its count, or 1 if it is only
    derived.

    `hidden` are static triples of a graph that does not show them: they are premises, but neither
    they nor what follows from them alone is in the graph.

    >>> rule = (("TE", ("?y", "q", "?x")), (("TE", ("?x", "p", "?y")),))
    >>> weigh([rule], {("a", "p", "b"): 2, ("b", "q", "a"): 3, ("c", "p", "c"): 1})
    {('a', 'p', 'b'): 2, ('b', 'q', 'a'): 3, ('c', 'p', 'c'): 1, ('c', 'q', 'c'): 1}
    """
    listed = list(rules)
    live = {triple: count for triple, count in counts.items() if count > 0}
    known = {triple for triple, count in (hidden or {}).items() if count > 0}
    closed = close(listed, [(TRIPLE, triple) for triple in {*live, *known}])
    alone = close(listed, [(TRIPLE, triple) for triple in known]) if hidden is not None else set()
    weights = dict(live)
    for predicate, terms in sorted(closed - alone):
        if predicate == TRIPLE and terms not in live:
            weights[terms[0], terms[1], terms[2]] = 1
    return dict(sorted(weights.items()))
