"""``triegs demo``: the running example step by step, then a generated stream.

Everything shown is computed by the reference executor, which evaluates a plan from scratch at
every read; nothing is random but for a fixed seed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from triegs.cli.social import Update, generate_epochs, iri
from triegs.compiler import Plan, compile_query
from triegs.compiler.naming import local_name
from triegs.explain.text import summarize
from triegs.reference import Reference
from triegs.sparql import parse

WIDTH = 80
SEED = 7
SHOWN_ANSWERS = 8
SHOWN_REFUSALS = 4

QUERY = """\
PREFIX : <http://example.org/>
SELECT ?x ?y ?v ?z ?w WHERE {
  ?v :hasCreator ?x .   # x wrote v
  ?z :hasCreator ?y .   # y wrote z
  ?v :hasReply   ?z .   # z replies to v
  ?z :likedBy    ?w     # w likes z
}
"""
_REPLY = (iri("tweet1"), iri("hasReply"), iri("tweet2"))
STEPS: tuple[tuple[str, tuple[Update, ...]], ...] = (
    (
        "t0: two posts, and the reply stated by two events",
        (
            ("+", iri("tweet1"), iri("hasCreator"), iri("Max")),
            ("+", iri("tweet2"), iri("hasCreator"), iri("Eva")),
            ("+", *_REPLY),
            ("+", *_REPLY),
        ),
    ),
    ("t1: Mia likes the reply", (("+", iri("tweet2"), iri("likedBy"), iri("Mia")),)),
    ("t2: one of the two reply events expires", (("-", *_REPLY),)),
)


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        """Left to whoever runs the command; Rich would end the process as failed."""
        raise BrokenPipeError


def run_demo(console: Console | None = None) -> None:
    """Print the whole demonstration; takes about a second."""
    out = console or _Screen(
        width=WIDTH, highlight=False, markup=False, emoji=False, soft_wrap=False
    )
    plan = compile_query(parse(QUERY), root="z")
    _title(out, "1. A standing query: who wrote, who replied, who liked the reply")
    out.print(QUERY, end="")
    _title(out, "2. Its plan")
    out.print(summarize(plan), end="")
    _title(out, "3. Three epochs of the running example")
    show_steps(out, plan)
    _title(out, "4. A generated stream through the same plan")
    show_stream(out, plan)
    _title(out, "Where to look next")
    out.print("  triegs explain QUERY.rq            the plan of your own query")
    out.print("  triegs explain QUERY.rq --format svg > plan.svg")
    out.print("  README.md, docs/architecture.md    what this is, and how it works")


def show_steps(out: Console, plan: Plan) -> None:
    """The views of the running example after each epoch: an entry per row, an epoch per column.

    Nothing disappears in this example, so the last epoch has an entry for every row.
    """
    reference = Reference(plan)
    values: list[dict[str, int]] = []
    answers: list[int] = []
    shown = ""
    for title, updates in STEPS:
        out.print(f"  {title}")
        reference.apply(updates)
        state = reference.state()
        entries: dict[str, int] = {}
        for name in ("H", "H2", "L", "V1", "V0"):
            view = state.views[plan.nodes.index(plan.node(name))]
            entries |= {name + _tuple(row): count for row, count in sorted(view.items())}
        values.append(entries)
        found = reference.answers()
        answers.append(sum(found.values()))
        shown = next((_tuple(row) for row in found), shown)
    out.print()
    table = _table("value", *(f"t{i}" for i in range(len(STEPS))))
    for key in values[-1]:
        table.add_row(key, *(str(entries.get(key, 0)) for entries in values))
    table.add_row(f"answer {shown}", *map(str, answers))
    out.print(table)


def show_stream(out: Console, plan: Plan) -> None:
    """One line per epoch, then some of what was refused and some of the answers."""
    reference = Reference(plan)
    names = ("epoch", "events", "refused", "live assertions", "answers", "total multiplicity")
    table = _table(*names, first_is_text=False)
    refused: list[str] = []
    answers: dict[tuple[str | None, ...], int] = {}
    for updates in generate_epochs(SEED):
        report = reference.apply(updates)
        answers = reference.answers()
        cells = (report.epoch, len(updates), len(report.refused), len(reference.counts))
        table.add_row(*map(str, [*cells, len(answers), sum(answers.values())]))
        for _, (sign, subject, label, target), reason in report.refused:
            fact = f"{sign} {local_name(label)}{_tuple((subject, target))}"
            refused.append(f"epoch {report.epoch}: {fact}: {reason}")
    out.print(table)
    if refused:
        out.print(f"\nrefused, the rest of the epoch holds ({len(refused)} in all):")
        for line in refused[:SHOWN_REFUSALS]:
            out.print(f"  {line}")
        out.print()
    show_answers(out, plan, answers)


def show_answers(out: Console, plan: Plan, answers: dict[tuple[str | None, ...], int]) -> None:
    table = _table(*plan.query.head, "multiplicity", first_is_text=True, text_columns=5)
    ranked = sorted(answers.items(), key=lambda item: (-item[1], str(item[0])))
    for row, count in ranked[:SHOWN_ANSWERS]:
        table.add_row(*(local_name(term or "") for term in row), str(count))
    out.print(f"{min(SHOWN_ANSWERS, len(ranked))} of the last epoch's {len(ranked)} answers:")
    out.print(table)


def _title(out: Console, text: str) -> None:
    out.print()
    out.print(text, style="bold")
    out.print("─" * len(text), style="dim")


def _table(*names: str, first_is_text: bool = True, text_columns: int = 1) -> Table:
    """A plain table; columns of text to the left, of numbers to the right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, name in enumerate(names):
        is_text = first_is_text and i < text_columns
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    return table


def _tuple(row: Sequence[str | None]) -> str:
    return f"({','.join(local_name(term or '') for term in row)})"
