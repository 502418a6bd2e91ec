"""The candidate partitioning keys of a query, side by side."""

from __future__ import annotations

from typing import Any

from triegs.explain.as_json import write_json
from triegs.explain.formats import Format
from triegs.explain.lines import fold_text
from triegs.explain.names import Names
from triegs.partition.keys import Candidate, Partitioning
from triegs.partition.statistics import OBJECT, StreamStatistics
from triegs.sparql.model import Query, is_variable

TITLES = ("key", "f", "copies", "S(N)", "hottest")
LEGEND = (
    "f is the fraction of events that go to all partitions; copies is how often an event is sent, "
    "1 + f(N - 1); S(N) is the speedup of N partitions, 1 / ((1 - f)/N + f), or less if one key "
    "has more than its fair share (hottest); "
)
SUMMED = "summed: the key is not projected, so multiplicities are added up over the partitions."
MERGED = (
    "merged: the key is not a column of GROUP BY in SELECT, so each partition has partial "
    "aggregates (counts, sums, values with their counts), which are added up over the partitions "
    "before HAVING and expressions."
)


def list_partitions(
    query: Query,
    found: Partitioning,
    output: Format = Format.TEXT,
    observed: StreamStatistics | None = None,
) -> str:
    """A line for each key, the chosen one marked, and the routes of its atoms; or as JSON.

    `observed` are the statistics by which the keys were ranked. ``ValueError`` for Mermaid and
    SVG, which draw plans.
    """
    if output is Format.JSON:
        return write_json(_describe(found, observed))
    if output is not Format.TEXT:
        raise ValueError(f"keys are listed as text or json, not as {output.value}")
    combined, meaning = ("summed", SUMMED) if query.grouping is None else ("merged", MERGED)
    lines = [*_table(found, combined), *_list_routes(query, found, observed)]
    why = f"Chosen: {found.reason}" if found.chosen else f"Not partitioned: {found.reason}"
    lines += ["", *fold_text(why, "", "")]
    if found.candidates:
        lines += [*_describe_shares(observed), "", *fold_text(LEGEND + meaning, "", "")]
    return "\n".join(lines) + "\n"


def _describe(found: Partitioning, observed: StreamStatistics | None) -> dict[str, Any]:
    return {
        "partitions": found.partitions,
        "chosen": None if found.chosen is None else list(found.chosen.variables),
        "reason": found.reason,
        "shares": None if observed is None else dict(observed.shares),
        "keys": [
            {
                "variables": list(each.variables),
                "atoms": _list_atoms(each),
                "replicated": each.replicated,
                "copies": each.find_copies(found.partitions),
                "speedup": each.find_speedup(found.partitions),
                "hottest": each.hottest,
                "summed": each.is_summed,
                "hot": list(each.hot),
                "problem": each.problem,
            }
            for each in found.candidates
        ],
    }


def _list_atoms(candidate: Candidate) -> list[str]:
    """
    >>> _list_atoms(Candidate(("?x",), ((0,), ())))
    ['hashed by subject', 'replicated']
    """
    names = [
        " and ".join("object" if position == OBJECT else "subject" for position in route)
        for route in candidate.routes
    ]
    return [f"hashed by {name}" if name else "replicated" for name in names]


def _measure(candidate: Candidate, partitions: int) -> tuple[str, ...]:
    if candidate.problem:
        return ("",) * len(TITLES)
    return (
        f"{candidate.replicated:.2f}", f"{candidate.find_copies(partitions):.2f}",
        f"{candidate.find_speedup(partitions):.2f}",
        f"{candidate.hottest:.0%}" if candidate.hottest else "",
        "yes" if candidate.is_summed else "",
    )  # fmt: skip


def _table(found: Partitioning, last: str) -> list[str]:
    many = "1 partition" if found.partitions == 1 else f"{found.partitions} partitions"
    lines = [f"{many}; → marks the chosen key" if found.chosen else f"{many}; no key is chosen"]
    if not found.candidates:
        return lines
    rows: list[tuple[str, ...]] = [("", *TITLES, last)]
    for number, candidate in enumerate(found.candidates, 1):
        rows.append(
            (str(number), " ".join(candidate.variables), *_measure(candidate, found.partitions))
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    shown: list[Candidate | None] = [None, *found.candidates]
    lines.append("")
    for row, each in zip(rows, shown, strict=True):
        mark = "→ " if each is not None and each is found.chosen else "  "
        cells = [row[0].rjust(widths[0]), row[1].ljust(widths[1])]
        cells += [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        line = (mark + "  ".join(cells)).rstrip()
        lines.append(line)
        if each is not None and each.problem:
            lines += fold_text(f"not possible: {each.problem}", " " * 7, " " * 7)
    return lines


def _list_routes(query: Query, found: Partitioning, observed: StreamStatistics | None) -> list[str]:
    """What the atoms do by the chosen key, with the share of the events that each reads."""
    if found.chosen is None:
        return []
    hot = found.chosen.hot
    names = Names([*(term for atom in query.atoms for term in atom), *hot])
    rows = []
    for (s, p, o), what in zip(query.atoms, _list_atoms(found.chosen), strict=True):
        ends = [end if is_variable(end) else names.constant(end) for end in (s, o)]
        share = "" if observed is None else f"{observed.share(p):.0%}"
        rows.append((f"{names.label(p)}({', '.join(ends)})", share, what))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = ["", "Atoms"]
    for atom, share, what in rows:
        cells = [atom.ljust(widths[0]), share.rjust(widths[1]), what]
        lines.append("  " + "  ".join(cell for cell in cells if cell))
    if hot:
        lines += fold_text(f"Hot keys, split: {', '.join(map(names.constant, hot))}", "", "  ")
    return lines


def _describe_shares(observed: StreamStatistics | None) -> list[str]:
    if observed is not None:
        return []
    text = "All labels count as equally frequent; --sample FILE gives real frequencies."
    return ["", *fold_text(text, "", "")]
