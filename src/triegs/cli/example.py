"""``triegs demo --example``: the running example step by step, then a small generated stream.

The stream has a fixed seed. The views of the running example come from the reference executor,
because the engine stores them by variables and not under the names of the plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from triegs import Reference
from triegs.cli.screen import Screen, make_table, write_title
from triegs.cli.social import NAMESPACE, Update, generate_epochs, iri
from triegs.compiler.naming import local_name
from triegs.engine import Engine
from triegs.engine.standing_query import StandingQuery
from triegs.explain.text import summarize
from triegs.read.snapshot import Snapshot

SEED = 7
SHOWN_ANSWERS = 8
SHOWN_REFUSALS = 4
HELD_AFTER, LATE_AFTER = 4, 7

QUERY = """\
PREFIX : <http://example.org/>
SELECT ?x ?y ?v ?z ?w WHERE {
  ?v :hasCreator ?x .   # x wrote v
  ?z :hasCreator ?y .   # y wrote z
  ?v :hasReply   ?z .   # z replies to v
  ?z :likedBy    ?w     # w likes z
}
"""
POPULAR = "SELECT ?z { ?v :hasReply ?z . ?z :likedBy ?w }"
LIKES = "SELECT ?x ?w { ?v :hasCreator ?x . ?v :likedBy ?w }"

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


def run_example(console: Console | None = None) -> None:
    """Print the example; takes a second or two."""
    out = console or Screen()
    with Engine() as engine:
        replies = engine.register(QUERY, name="replies", root="z")
        write_title(out, "1. A standing query: who wrote, who replied, who liked the reply")
        out.print(QUERY, end="")
        write_title(out, "2. Its plan")
        out.print(summarize(replies.plan), end="")
        write_title(out, "3. Three epochs, and a reader that holds the second")
        show_steps(out, engine, replies)
    with Engine(prefixes={"": NAMESPACE}) as engine:
        write_title(
            out, "4. A generated stream: three queries, one of them late, and a slow reader"
        )
        show_stream(out, engine)
        write_title(out, "5. Engine metrics")
        show_metrics(out, engine)
    write_title(out, "Where to look next")
    out.print("  README.md, docs/engine.md          how to use the engine")
    out.print("  docs/architecture.md               how it works")
    out.print("  triegs explain QUERY.rq            the plan of your own query")
    out.print("  triegs explain QUERY.rq --format svg > plan.svg")


def show_steps(out: Console, engine: Engine, replies: StandingQuery) -> None:
    """Show the running example, an epoch per column: views, answer, and a pinned snapshot.

    Nothing disappears here, so the last epoch has an entry for every row.
    """
    plan = replies.plan
    reference = Reference(plan)
    views: list[dict[str, int]] = []
    held: list[Snapshot] = []
    read: list[int] = []
    kept: list[str] = []
    answer = ""
    for title, updates in STEPS:
        out.print(f"  {title}")
        engine.apply(updates)
        reference.apply(updates)
        state = reference.state()
        entries: dict[str, int] = {}
        for name in ("H", "H2", "L", "V1", "V0"):
            view = state.views[plan.nodes.index(plan.node(name))]
            entries |= {name + _tuple(row): count for row, count in sorted(view.items())}
        views.append(entries)
        with replies.snapshot() as snapshot:
            read.append(snapshot.count())
            answer = next((_tuple(tuple(found)) for found in snapshot), answer)
        if len(read) == 2:
            held.append(replies.snapshot())
        kept.append(str(held[0].count()) if held else "")
    out.print()
    table = make_table("value", *(f"t{i}" for i in range(len(STEPS))))
    for key in views[-1]:
        table.add_row(key, *(str(entries.get(key, 0)) for entries in views))
    table.add_row(f"answer {answer}", *map(str, read))
    table.add_row("the same, read from a snapshot of t1", *kept)
    out.print(table)
    for snapshot in held:
        snapshot.close()


def show_stream(out: Console, engine: Engine) -> None:
    """Show a line per epoch, then refusals, the slow reader and some answers."""
    out.print("  replies   the query above")
    out.print(f"  popular   {POPULAR}")
    out.print(f"  likes     {LIKES}")
    out.print()
    names = ("replies", "popular", "likes")
    table = make_table("epoch", "what happened", *names, "held", text_columns=2)
    queries = [engine.register(QUERY, "replies"), engine.register(POPULAR, "popular")]
    table.add_row("1-2", "register two queries")
    refused: list[str] = []
    held: Snapshot | None = None
    for number, updates in enumerate(generate_epochs(SEED), 1):
        report = engine.apply(updates)
        what = f"{len(updates)} updates"
        if report.refused:
            what += f", {len(report.refused)} refused"
        for index, reason in report.refused:
            sign, subject, label, target = updates[index]
            fact = f"{sign} {local_name(label)}{_tuple((subject, target))}"
            refused.append(f"epoch {report.epoch}, update {index}: {fact}: {reason}")
        if number == HELD_AFTER:
            held = queries[0].snapshot()
        _add_epoch(table, report.epoch, what, queries, held)
        if number == LATE_AFTER:
            queries.append(engine.register(LIKES, "likes"))
            _add_epoch(table, engine.epoch, "register likes", queries, held)
    out.print(table)
    out.print("\nDistinct answers / total multiplicity. Held: what a slow reader of replies sees.")
    out.print(f"\nRefused updates; the rest of each epoch was applied ({len(refused)} in total):")
    for line in refused[:SHOWN_REFUSALS]:
        out.print(f"  {line}")
    if held is not None:
        show_reader(out, engine, held)
    with queries[0].snapshot() as newest:
        show_answers(out, newest)


def _add_epoch(
    table: Table, epoch: int, what: str, queries: Sequence[StandingQuery], held: Snapshot | None
) -> None:
    cells = []
    for query in queries:
        with query.snapshot() as snapshot:
            cells.append(_measure(snapshot))
    cells += [""] * (3 - len(cells))
    table.add_row(str(epoch), what, *cells, _measure(held) if held is not None else "")


def show_reader(out: Console, engine: Engine, held: Snapshot) -> None:
    """Show what a slow reader costs: the nodes that only it still uses."""
    before = engine.metrics()["retained_bytes"]
    held.close()
    after = engine.metrics()["retained_bytes"]
    out.print(f"\nThe reader of epoch {held.epoch} retained {before:,} bytes; closed, {after:,}.\n")


def show_answers(out: Console, snapshot: Snapshot) -> None:
    table = make_table(*(f"?{name}" for name in snapshot.names), "multiplicity", text_columns=5)
    ranked = sorted(snapshot, key=lambda answer: (-answer.multiplicity, tuple(answer)))
    for answer in ranked[:SHOWN_ANSWERS]:
        table.add_row(*map(local_name, answer), str(answer.multiplicity))
    shown = min(SHOWN_ANSWERS, len(ranked))
    out.print(f"{shown} of the {len(ranked)} answers of replies in epoch {snapshot.epoch}:")
    out.print(table)


def show_metrics(out: Console, engine: Engine) -> None:
    found = engine.metrics()
    rows = (
        ("epochs published", found["epochs"]),
        ("updates applied", found["updates"]),
        ("updates refused", found["refused"]),
        ("answers stored, for likes alone", found["stored_answers"]),
        ("terms in use", found["terms"]["live"]),
        ("bytes of graph and views", found["live_bytes"]),
        ("bytes retained for readers", found["retained_bytes"]),
    )
    table = make_table("engine.metrics()", "")
    for name, value in rows:
        table.add_row(name, f"{value:,}")
    out.print(table)


def _measure(snapshot: Snapshot) -> str:
    return f"{snapshot.support()} / {snapshot.count()}"


def _tuple(row: Sequence[str | None]) -> str:
    return f"({','.join(local_name(term or '') for term in row)})"
