"""Rules as text or data: strata of recursion, join orders, and what is derived from what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triegs.explain.as_json import write_json
from triegs.explain.formats import Format
from triegs.reason.model import Rule, RuleAtom, RuleSet, find_strata, is_recursive, may_match
from triegs.reason.tables import PlannedStep, name_predicate, plan_backward, plan_forward
from triegs.reason.text import KNOWN_PREFIXES

_POSITIONS = ("subject", "predicate", "object")


def explain_rules(
    rules: RuleSet, output: Format = Format.TEXT, prefixes: Mapping[str, str] | None = None
) -> str:
    """The rules by stratum, the join order of each body, and what feeds each rule.

    ``ValueError`` for Mermaid and SVG, which draw plans.

    >>> from triegs.reason.text import parse_rules
    >>> print(explain_rules(parse_rules("p(X, Z) :- p(X, Y), p(Y, Z).")))
    Rules      1, over p; 1 stratum of recursion
    <BLANKLINE>
    Stratum 1  recursive
      1  p(?X, ?Z) :- p(?X, ?Y), p(?Y, ?Z)
         from   rule 1
         Δ p(?X, ?Y): p(?Y, ?Z) by column 1
         Δ p(?Y, ?Z): p(?X, ?Y) by column 2
         check  p(?X, ?Y) by column 1, p(?Y, ?Z) looked up
    <BLANKLINE>
    """
    if output is Format.JSON:
        return write_json(_describe(rules))
    if output is not Format.TEXT:
        raise ValueError(f"rules are listed as text or json, not as {output.value}")
    shorten = Shortener(prefixes or {})
    strata = find_strata(rules.rules)
    names = [name for name in rules.predicates if _is_used(rules, name)]
    shown = ", ".join(map(name_predicate, names)) if len(names) <= 6 else f"{len(names)} predicates"
    recursive = sum(is_recursive(rules.rules, stratum) for stratum in strata)
    noun = "stratum" if recursive == 1 else "strata"
    lines = [f"Rules      {len(rules.rules)}, over {shown}; {recursive} {noun} of recursion"]
    for number, stratum in enumerate(strata, 1):
        kind = "recursive" if is_recursive(rules.rules, stratum) else "not recursive"
        lines += ["", f"Stratum {number:<2} {kind}"]
        for at in stratum:
            lines += _list_rule(rules, at, shorten)
    return "\n".join(lines) + "\n"


def _is_used(rules: RuleSet, name: str) -> bool:
    return any(atom.predicate == name for rule in rules.rules for atom in rule.atoms)


class Shortener:
    """Writes atoms with prefixes."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        known = {**KNOWN_PREFIXES, **prefixes}
        self._known = sorted(known.items(), key=lambda pair: -len(pair[1]))

    def term(self, term: str) -> str:
        if term.startswith("<"):
            for name, iri in self._known:
                local = term[1:-1].removeprefix(iri)
                if term[1:-1] != local and local.replace("_", "").isalnum():
                    return f"{name}:{local}"
        return term

    def atom(self, atom: RuleAtom) -> str:
        return f"{atom.predicate}({', '.join(map(self.term, atom.terms))})"


def _list_rule(rules: RuleSet, at: int, shorten: Shortener) -> list[str]:
    rule = rules.rules[at]
    body = ", ".join(map(shorten.atom, rule.body))
    head = shorten.atom(rule.head)
    if not rule.body:
        return [f"{at + 1:>3}  {head}", "     always"]
    lines = [f"{at + 1:>3}  {head} :- {body}", f"     from   {_name_sources(rules, at)}"]
    for premise, atom in enumerate(rule.body):
        if atom in rule.body[:premise]:
            continue
        lines.append(f"     Δ {shorten.atom(atom)}: {_join(plan_forward(rule, premise), shorten)}")
    lines.append(f"     check  {_join(plan_backward(rule), shorten)}")
    return lines


def _join(steps: list[PlannedStep], shorten: Shortener) -> str:
    if not steps:
        return "nothing to join"
    return ", ".join(f"{shorten.atom(step.atom)} {describe_access(step)}" for step in steps)


def describe_access(step: PlannedStep) -> str:
    """How the facts of a step are found.

    >>> describe_access(PlannedStep(RuleAtom("TE", ("?x", "<p>", "?y")), (1,)))
    'by predicate'
    """
    if step.is_lookup:
        return "looked up"
    if not step.bound:
        return "all"
    if step.atom.is_triple:
        return "by " + ", ".join(_POSITIONS[column] for column in step.bound)
    numbers = ", ".join(str(column + 1) for column in step.bound)
    return f"by column{'s' if len(step.bound) > 1 else ''} {numbers}"


def find_sources(rules: RuleSet, at: int) -> list[int]:
    """The rules whose conclusions may be premises of a rule, counted from 0."""
    body = rules.rules[at].body
    return [
        number
        for number, other in enumerate(rules.rules)
        if any(may_match(other.head, atom) for atom in body)
    ]


def _name_sources(rules: RuleSet, at: int) -> str:
    sources = [str(number + 1) for number in find_sources(rules, at)]
    stated = any(atom.is_triple for atom in rules.rules[at].body)
    parts = ["stated triples"] if stated else []
    if sources:
        listed = sources if len(sources) <= 12 else [*sources[:12], f"{len(sources) - 12} more"]
        parts.append(f"rule{'s' if len(sources) > 1 else ''} {', '.join(listed)}")
    return ", ".join(parts) or "nothing: no rule concludes its premises"


def _describe(rules: RuleSet) -> dict[str, Any]:
    strata = find_strata(rules.rules)
    stratum_of = {at: number for number, stratum in enumerate(strata, 1) for at in stratum}
    return {
        "strata": [
            {
                "rules": [at + 1 for at in stratum],
                "recursive": is_recursive(rules.rules, stratum),
            }
            for stratum in strata
        ],
        "rules": [
            {
                "number": at + 1,
                "rule": str(rule),
                "stratum": stratum_of[at],
                "sources": [number + 1 for number in find_sources(rules, at)],
                "deltas": _describe_deltas(rule),
                "check": _describe_steps(plan_backward(rule)),
            }
            for at, rule in enumerate(rules.rules)
        ],
    }


def _describe_deltas(rule: Rule) -> list[dict[str, Any]]:
    return [
        {"premise": str(atom), "joins": _describe_steps(plan_forward(rule, premise))}
        for premise, atom in enumerate(rule.body)
        if atom not in rule.body[:premise]
    ]


def _describe_steps(steps: list[PlannedStep]) -> list[dict[str, str]]:
    return [{"atom": str(step.atom), "access": describe_access(step)} for step in steps]
