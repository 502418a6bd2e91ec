"""What partitioned rules replicate, as text or data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from triegs.explain.as_json import write_json
from triegs.explain.formats import Format
from triegs.explain.lines import fold_text
from triegs.explain.rules import Shortener
from triegs.partition.rules import RulePartitioning, Signature, find_speedup
from triegs.reason.model import RuleAtom

LEGEND = (
    "Triples are hashed by subject. f is the fraction that goes to all partitions; copies is how "
    "often a triple is sent, 1 + f(N - 1); S(N) is the speedup of N partitions by the law of "
    "replication, 1 / ((1 - f)/N + f). The base support of the foreign premises is enough for all "
    "data of these signatures, also in windows. What covers the sample is enough for that data as "
    "a whole, not for windows over it."
)


def list_rule_partitions(
    plan: RulePartitioning, partitions: int, output: Format = Format.TEXT,
    prefixes: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Foreign premises, replicated signatures, f and the law; ``ValueError`` for drawings.

    >>> from triegs.partition.rules import plan_rules
    >>> from triegs.reason.text import parse_rules
    >>> rules = parse_rules("TE(X, <a:p>, Z) :- TE(X, <a:q>, Y), TE(Y, <a:r>, Z).")
    >>> print(*list_rule_partitions(plan_rules(rules), 4).splitlines()[:5], sep=chr(10))
    4 partitions by subject
    <BLANKLINE>
                       f  copies  S(N)  facts
    base support   0.500    2.50  1.60
    <BLANKLINE>
    """
    if output is Format.JSON:
        return write_json(_describe(plan, partitions))
    if output is not Format.TEXT:
        raise ValueError(f"partitions are listed as text or json, not as {output.value}")
    shorten = Shortener(prefixes or {})
    lines = [f"{partitions} partitions by subject", "", f"{'':15}{'f':>5}  copies  S(N)  facts"]
    for name, chosen in _list_sets(plan):
        share = plan.find_share(chosen)
        facts = f"{sum(plan.counts[each] for each in chosen):>7,}" if plan.counts else ""
        copies, speedup = 1 + share * (partitions - 1), find_speedup(share, partitions)
        lines.append(f"{name:15}{share:.3f}  {copies:6.2f}  {speedup:4.2f}{facts}".rstrip())
    lines.append("")
    if not plan.foreign:
        lines.append("No premise is foreign: every rule finds its premises in one partition.")
    listed = [rule for rule in plan.rules.rules if rule.body]
    foreign: dict[RuleAtom, list[int]] = {}
    for number, premise in plan.foreign:
        rule = listed[number]
        foreign.setdefault(rule.body[premise], []).append(plan.rules.rules.index(rule) + 1)
    for atom, numbers in foreign.items():
        shown = ", ".join(map(str, numbers))
        lines.append(f"Foreign     {shorten.atom(atom)} in rule{'s' * (len(numbers) > 1)} {shown}")
    for name, chosen in _list_sets(plan):
        names = [_name(each, plan, shorten) for each in chosen]
        title = "Replicated  " if name == "base support" else "Covering    "
        lines += fold_text("; ".join(names) or "nothing", title, " " * 12)
    return "\n".join([*lines, "", *fold_text(LEGEND, "", "")]) + "\n"


def _name(signature: Signature, plan: RulePartitioning, shorten: Shortener) -> str:
    terms = [shorten.term(each) for each in signature if each] or ["any predicate"]
    count = f" ({plan.counts[signature]:,})" if plan.counts else ""
    return " ".join(terms) + count


def _list_sets(plan: RulePartitioning) -> Iterable[tuple[str, tuple[Signature, ...]]]:
    yield "base support", plan.replicated
    if plan.covered is not None:
        yield "covers sample", plan.covered


def _describe(plan: RulePartitioning, partitions: int) -> dict[str, Any]:
    listed = [rule for rule in plan.rules.rules if rule.body]
    return {
        "partitions": partitions,
        "foreign": [
            {"rule": str(listed[each.rule]), "premise": str(listed[each.rule].body[each.premise])}
            for each in plan.foreign
        ],
        "sets": {
            name: {
                "signatures": [str(each) for each in chosen],
                "facts": sum(plan.counts[each] for each in chosen) if plan.counts else None,
                "replicated": plan.find_share(chosen),
                "copies": 1 + plan.find_share(chosen) * (partitions - 1),
                "speedup": find_speedup(plan.find_share(chosen), partitions),
            }
            for name, chosen in _list_sets(plan)
        },
    }
