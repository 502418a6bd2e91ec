"""Partitions of a stream with rules: each derives from what it has, and answers for what it owns.

A query is partitioned by one of its variables, its key. The partition that owns the key's value
counts a match, so it must have all facts of each atom with that value, stated and derived, and all
facts of the atoms without the key. Stated triples are at the owner of their subject; the analysis
of `triegs.partition.rules` says where conclusions are. What is missing is sent: stated triples of
an atom also to the owner of their object, if that is enough; else all that the atom can be derived
from, to all partitions.

A triple whose signature was not known when this was planned goes to all partitions. That is exact:
what rules derive from what is found by their heads, whatever the data has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from triegs.partition.keys import LEAST_GAIN, Candidate, plan_partitions
from triegs.partition.layout import (
    Layout,
    QueryPlacement,
    Route,
    StatementRoute,
    find_unsuited,
    route_keyed,
)
from triegs.partition.rules import Foreign, RuleAnalysis, Signature, list_signatures
from triegs.partition.statistics import OBJECT, SUBJECT, Positions
from triegs.reason.model import TRIPLE, RuleAtom, RuleSet, may_match
from triegs.sparql.model import Query


class Sending(NamedTuple):
    """What a layout sends beyond the owners of subjects, as shares of all triples: ``replicated``
    to all partitions (f), ``by_object`` also to the owner of the object.
    """

    foreign: tuple[Foreign, ...]
    replicated_signatures: tuple[Signature, ...]
    replicated: float
    by_object: float

    def find_copies(self, partitions: int) -> float:
        """How often a triple is sent, on average; at most, because both owners may be one."""
        return 1 + self.replicated * (partitions - 1) + self.by_object

    def find_speedup(self, partitions: int) -> float:
        """The law of replication, with the triples that have two owners counted twice.

        >>> Sending((), (), 0.25, 0.0).find_speedup(3)
        2.0
        """
        apart = 1 - self.replicated + self.by_object
        return 1 / (apart / partitions + self.replicated)


class _KeyNeeds(NamedTuple):
    """What a key of a query needs: atoms that are sent to all, signatures sent by object."""

    key: Candidate
    foreign: tuple[RuleAtom, ...]
    by_object: tuple[Signature, ...]
    cost: float


def lay_out_rules(
    queries: Mapping[str, Query], rules: RuleSet, partitions: int,
    counts: Mapping[Signature, int] | None = None,
) -> tuple[Layout, Sending]:  # fmt: skip
    """Place queries over the closure of a stream. `counts` has the number of triples of each
    signature in a sample, by which what data cannot match is left out. Cost: as `plan_rules`, and
    the support of each atom for each key.

    >>> from triegs.reason.text import parse_rules
    >>> from triegs.sparql.parser import parse
    >>> rules = parse_rules("TE(X, <a:p>, Z) :- TE(X, <a:q>, Y), TE(Y, <a:r>, Z).")
    >>> layout, sending = lay_out_rules({"all": parse("SELECT * { ?x <a:p> ?y }")}, rules, 4)
    >>> [(each.predicate, each.positions) for each in layout.statements]
    [('<a:q>', (0,)), ('<a:r>', ()), ('<a:p>', (0,))]
    """
    nothing = Sending((), (), 1.0, 0.0)
    if problem := find_unsuited(queries, partitions):
        return Layout(partitions, (), (), problem), nothing
    read = _list_read(queries, rules)
    known = list(counts) if counts else read
    counted = counts or dict.fromkeys(known, 1)
    analysis = RuleAnalysis(rules, known, counted)
    foreign = analysis.find_foreign()
    atoms = [analysis.rules[rule].body[at] for rule, at in foreign]
    routes: dict[str, Route] = {}
    placed: list[QueryPlacement] = []
    for name, query in queries.items():
        plan = plan_partitions(query, partitions)
        # A pair of variables needs both columns; the hot keys of closures are not known.
        usable = [
            replace(each, hot=(), split=None)
            for each in plan.candidates
            if not each.problem and len(each.variables) == 1
        ]
        if not usable:
            return Layout(partitions, (), (), f"{name}: {plan.reason}"), nothing
        sent = set(analysis.find_support(atoms))
        found = [_find_needs(analysis, query, key, sent, counted) for key in usable]
        best = min(found, key=lambda needs: needs.cost)
        analysis.send(best.by_object, OBJECT)
        atoms += best.foreign
        labels = route_keyed(len(placed), query, best.key, partitions, routes)
        reason = f"hashed by {best.key.variables[0]} over the closure"
        placed.append(
            QueryPlacement(
                name, labels, tuple(range(partitions)), best.key.variables, best.key.is_summed,
                float(len(query.atoms)), reason,
            )
        )  # fmt: skip
    replicated = set(analysis.find_support(atoms))
    statements = [
        StatementRoute(*each, _find_way(analysis, each, replicated)) for each in known
    ]  # fmt: skip
    if counts:
        statements += [StatementRoute(*each, (), known=False) for each in read]
    sending = _measure(statements, foreign, counted)
    problem = ""
    if partitions > 1 and sending.find_speedup(partitions) < LEAST_GAIN:
        problem = (
            f"rules need {sending.replicated:.0%} of the triples in all partitions, so "
            f"{partitions} have only {sending.find_speedup(partitions):.2f} times the throughput "
            "of one"
        )
    copies = sending.find_copies(partitions)
    placements = tuple(each._replace(copies=copies) for each in placed)
    layout = Layout(partitions, tuple(routes.values()), placements, problem, tuple(statements))
    return layout, sending


def _list_read(queries: Mapping[str, Query], rules: RuleSet) -> list[Signature]:
    """The signatures that rules and queries read."""
    labels = [Signature(atom.predicate) for query in queries.values() for atom in query.atoms]
    return list(dict.fromkeys([*list_signatures(rules), *labels]))


def _find_needs(
    analysis: RuleAnalysis, query: Query, key: Candidate, sent: set[Signature],
    counts: Mapping[Signature, int],
) -> _KeyNeeds:  # fmt: skip
    foreign: list[RuleAtom] = []
    by_object: dict[Signature, None] = {}
    for atom, positions in zip(query.atoms, key.routes, strict=True):
        fact = RuleAtom(TRIPLE, (atom.subject, atom.predicate, atom.object))
        analysis.add_atom(fact)
        if positions and analysis.is_at(fact, positions[0]):
            continue
        if positions == (OBJECT,) and analysis.are_derived_at(fact, OBJECT):
            by_object |= dict.fromkeys(analysis.list_stated(fact))
        else:
            foreign.append(fact)
    more = [each for each in analysis.find_support(foreign) if each not in sent]
    twice = [each for each in by_object if each not in sent]
    cost = float(sum(counts.get(each, 1) for each in more))
    # A second owner is one more copy, a replica one for each other partition.
    cost += 0.5 * sum(counts.get(each, 1) for each in twice)
    return _KeyNeeds(key, tuple(foreign), tuple(by_object), cost)


def _find_way(
    analysis: RuleAnalysis, signature: Signature, replicated: set[Signature]
) -> Positions:
    if signature in replicated:
        return ()
    return tuple(sorted(analysis.list_columns(signature)))


def _measure(
    statements: Sequence[StatementRoute], foreign: Sequence[Foreign],
    counts: Mapping[Signature, int],
) -> Sending:  # fmt: skip
    known = [each for each in statements if each.known]
    names = {each: Signature(each.predicate, each.type) for each in known}
    whole = sum(counts[each] for each in names.values()) or 1
    everywhere = [each for each in known if not each.positions]
    replicated = sum(counts[names[each]] for each in everywhere)
    twice = sum(counts[names[each]] for each in known if len(each.positions) > 1)
    signatures = tuple(names[each] for each in everywhere)
    return Sending(tuple(foreign), signatures, replicated / whole, twice / whole)


def find_positions(statements: Sequence[StatementRoute], signature: Signature) -> Positions | None:
    """How the triples of a signature are sent: () to all partitions, None to none.

    A triple that matches several known routes goes wherever one of them sends it.

    >>> listed = [StatementRoute("<a:p>", "", (0,)), StatementRoute("", "", (), known=False)]
    >>> find_positions(listed, Signature("<a:p>")), find_positions(listed, Signature("<a:q>"))
    ((0,), ())
    """
    atom = signature.atom
    for is_known in (True, False):
        found = [
            each.positions
            for each in statements
            if each.known is is_known and may_match(Signature(each.predicate, each.type).atom, atom)
        ]
        if found:
            columns = {column for each in found for column in each}
            return tuple(sorted({SUBJECT, *columns})) if all(found) else ()
    return None
