"""How a stream with rules is partitioned for queries, as text or data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triegs.explain.as_json import write_json
from triegs.explain.formats import Format
from triegs.explain.lines import fold_text
from triegs.explain.rules import Shortener
from triegs.partition.layout import Layout, StatementRoute
from triegs.partition.rule_layout import Sending
from triegs.partition.rules import Signature

LEGEND = (
    "Triples go to the owner of their subject, some also to that of their object, replicated ones "
    "to all partitions, and so do those of other signatures. f is the fraction that is replicated; "
    "copies is how often a triple is sent; S(N) is the speedup of N partitions by the law of "
    "replication."
)


def list_rule_layout(
    layout: Layout, sending: Sending, counts: Mapping[Signature, int],
    output: Format = Format.TEXT, prefixes: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Keys of queries, f, the law, and what is sent where; ``ValueError`` for drawings."""
    if output is Format.JSON:
        return write_json(_describe(layout, sending, counts))
    if output is not Format.TEXT:
        raise ValueError(f"partitions are listed as text or json, not as {output.value}")
    shorten = Shortener(prefixes or {})
    lines = [f"{layout.partitions} partitions", ""]
    lines += fold_text(f"Problem     {layout.problem}", "", " " * 12) if layout.problem else []
    if not layout.queries:
        return "\n".join(lines) + "\n"
    known = [each for each in layout.statements if each.known]
    copies, speedup = (
        sending.find_copies(layout.partitions),
        sending.find_speedup(layout.partitions),
    )
    facts = f", {_count(known, (), counts):,} facts replicated" if counts else ""
    lines.append(f"f = {sending.replicated:.3f}, copies {copies:.2f}, S(N) = {speedup:.2f}{facts}")
    lines += [f"Key         {each.name}: {' '.join(each.key)}" for each in layout.queries]
    for title, positions in (("Replicated", ()), ("By object", (0, 2)), ("By subject", (0,))):
        names = [_name(each, counts, shorten) for each in known if each.positions == positions]
        lines += fold_text("; ".join(names) or "nothing", f"{title:12}", " " * 12)
    return "\n".join([*lines, "", *fold_text(LEGEND, "", "")]) + "\n"


def _count(
    known: list[StatementRoute], positions: tuple[int, ...], counts: Mapping[Signature, int]
) -> int:
    chosen = [Signature(each.predicate, each.type) for each in known if each.positions == positions]
    return sum(counts.get(each, 0) for each in chosen)


def _name(route: StatementRoute, counts: Mapping[Signature, int], shorten: Shortener) -> str:
    signature = Signature(route.predicate, route.type)
    terms = [shorten.term(each) for each in signature if each] or ["any predicate"]
    return " ".join(terms) + (f" ({counts[signature]:,})" if signature in counts else "")


def _describe(layout: Layout, sending: Sending, counts: Mapping[Signature, int]) -> dict[str, Any]:
    known = [each for each in layout.statements if each.known]
    return {
        "partitions": layout.partitions, "problem": layout.problem,
        "keys": {each.name: list(each.key) for each in layout.queries},
        "replicated": sending.replicated, "by object": sending.by_object,
        "copies": sending.find_copies(layout.partitions),
        "speedup": sending.find_speedup(layout.partitions),
        "facts": _count(known, (), counts) if counts else None,
        "statements": [
            {"signature": str(Signature(each.predicate, each.type)), "to": each.positions or "all"}
            for each in known
        ],
    }  # fmt: skip
