"""Fraud alerts on a stream of payments: rings, fan-in, sums by account, and the top ten.

python examples/fraud.py              # a generated stream of payments
python examples/fraud.py FILE.csv     # the Bitcoin OTC network: rater,rated,rating,unix time

The queries are maintained over a window. Alerts are the changes of their answers, slide by slide.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from triegs import Engine, EventTime, Window
from triegs.read.changes import Changes

MAP = ["{payer} :paid {payee}", "{payer} :sent {amount:integer}"]
SENT = "SELECT ?who (SUM(?v) AS ?sent) (COUNT(*) AS ?payments) { ?who :sent ?v } GROUP BY ?who"
QUERIES = {
    # Each ring once: it starts with the first of its names.
    "ring": "SELECT ?a ?b ?c { ?a :paid ?b . ?b :paid ?c . ?c :paid ?a "
    "FILTER(STR(?a) < STR(?b) && STR(?a) < STR(?c)) }",
    "fan-in": "SELECT ?to (COUNT(DISTINCT ?from) AS ?payers) { ?from :paid ?to } GROUP BY ?to "
    "HAVING (COUNT(DISTINCT ?from) >= 12)",
    "high sum": f"{SENT} HAVING (SUM(?v) > 200)",
}
TOP_TEN = f"{SENT} ORDER BY DESC(?sent) LIMIT 10"
COLOURS = {"+": "red", "~": "yellow", "-": "green"}
#: The most alerts of one kind that are printed.
MOST_ALERTS = 8


def generate(seed: int = 7) -> pa.Table:
    """Half an hour of payments: everyday ones, a ring, and an account that collects."""
    random = Random(seed)
    begin = int(datetime(2024, 5, 1, 10, tzinfo=UTC).timestamp() * 1000)
    accounts = [f"acc{number:02}" for number in range(150)]
    rows = []
    for _ in range(400):
        payer, payee = random.sample(accounts, 2)
        rows.append((random.randrange(1_800_000), payer, payee, random.randint(1, 40)))
    for start, amount in ((300_000, 90), (900_000, 85)):
        for step, (payer, payee) in enumerate((("Xu", "Yin"), ("Yin", "Zoe"), ("Zoe", "Xu"))):
            rows.append((start + 45_000 * step, payer, payee, amount - step))
    for number, payer in enumerate(random.sample(accounts, 15)):
        rows.append((1_200_000 + 12_000 * number, payer, "Mule", random.randint(15, 19)))
    rows.append((1_450_000, "Mule", "Xu", 240))
    columns = list(zip(*sorted(rows), strict=True))
    names = ["time", "payer", "payee", "amount"]
    table = pa.table(dict(zip(names, columns, strict=True)))
    return table.set_column(0, "time", pa.array([begin + time for time in columns[0]]))


def read_ratings(path: Path) -> pa.Table:
    """Ratings as payments of trust, in order of time."""
    with path.open(newline="") as file:
        found = [
            (int(float(t) * 1000), f"u{a}", f"u{b}", int(n)) for a, b, n, t in csv.reader(file)
        ]
    columns = zip(*sorted(found), strict=True)
    return pa.table(dict(zip(["time", "payer", "payee", "amount"], columns, strict=True)))


def list_alerts(kind: str, changes: Changes) -> Iterator[tuple[str, str]]:
    """The changes of a slide as lines: what begins, what ends, and numbers that change."""
    rows = list(changes.answers("plain"))
    if kind == "ring":
        for row in rows:
            yield "+" if row.change > 0 else "-", " → ".join([*map(str, row), str(row[0])])
        return
    # A group that changes has its old row with -1, and its new row with +1.
    old = {row[0]: row[1] for row in rows if row.change < 0}
    new = {row[0]: row[1] for row in rows if row.change > 0}
    for who, number in new.items():
        yield ("~", f"{who} {old[who]} → {number}") if who in old else ("+", f"{who} {number}")
    for who in old.keys() - new.keys():
        yield "-", str(who)


def main(console: Console, path: Path | None = None) -> None:
    payments = generate() if path is None else read_ratings(path)
    width, slide = ("10m", "1m") if path is None else ("30d", "1d")
    console.print(f"[bold]{payments.num_rows:,} payments[/], a window of {width} every {slide}")
    alerts = dict.fromkeys(QUERIES, 0)
    # Days may pass between two ratings, which by default would count as a stray time.
    times = EventTime(max_ahead="3650d")
    with Engine(window=Window(width, slide=slide), event_time=times) as engine, ExitStack() as held:
        queries = {kind: engine.register(text, kind) for kind, text in QUERIES.items()}
        top = engine.register(TOP_TEN, "top ten")
        shown = {kind: held.enter_context(query.snapshot()) for kind, query in queries.items()}
        engine.push(payments, map=MAP)
        for epoch in engine.each_slide(close=True):
            at = write_time(epoch.time)
            for kind, query in queries.items():
                before, shown[kind] = shown[kind], held.enter_context(query.snapshot())
                for sign, text in list_alerts(kind, shown[kind].diff(before)):
                    alerts[kind] += 1
                    if alerts[kind] <= MOST_ALERTS:
                        console.print(f"{at}  [{COLOURS[sign]}]{sign} {kind:8}[/]  {text}")
                before.close()
        console.print("Alerts:", ", ".join(f"{n:,} {kind}" for kind, n in alerts.items()))
        with top.snapshot() as snapshot:
            table = Table(
                "account", "sent", "payments", title=f"Top ten, {write_time(snapshot.time)}"
            )
            for answer in snapshot.answers("plain"):
                table.add_row(*map(str, answer))
        console.print(table)


def write_time(time: int | None) -> str:
    return f"{datetime.fromtimestamp((time or 0) / 1000, UTC):%Y-%m-%d %H:%M}"


if __name__ == "__main__":
    main(Console(), Path(sys.argv[1]) if len(sys.argv) > 1 else None)
