"""A stream of files into an engine directory, and the answers of an engine without Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from triegs import Engine, Window

P = "<http://ex/p>"
SCHEMA = "time long, op string, subject string, predicate string, object string"
FILES, ROWS = 6, 5
WINDOW = Window("4s", slide="1s")
QUERY = "SELECT ?x ?y { ?x <http://ex/p> ?y }"


def write_files(folder: Path, files: int = FILES) -> list[dict[str, Any]]:
    """Files of events in name order, with deletes, and a malformed row at the end."""
    folder.mkdir()
    rows = []
    for number in range(files):
        batch = [
            {
                "time": 1_000 * number + place,
                "op": "-" if number and place == 4 else "+",
                "subject": f"<a:{(number + place) % 4}>",
                "predicate": P,
                "object": f"<a:{place % 2}>",
            }
            for place in range(ROWS)
        ]
        rows += batch
        bad = {**batch[0], "object": "no term"}
        path = folder / f"{number}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in [*batch, bad]))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return rows


def read_answers(engine: Engine) -> dict[tuple[str, str], int]:
    engine.advance()
    with engine.queries["all"].snapshot() as snap:
        return {(answer.x, answer.y): answer.multiplicity for answer in snap}


def open_engine(directory: Path) -> Engine:
    engine = Engine.open(directory, window=WINDOW)
    if not engine.queries:
        engine.register(QUERY, "all")
    return engine


def find_expected(rows: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """The answers of an engine that gets the rows directly, one push per file."""
    engine = Engine(window=WINDOW)
    engine.register(QUERY, "all")
    for first in range(0, len(rows), ROWS):
        names = ("time", "subject", "predicate", "object", "op")
        engine.push([tuple(row[n] for n in names) for row in rows[first : first + ROWS]])
    return read_answers(engine)


def start(session: Any, folder: Path, directory: Path, name: str = "triegs", **options: Any) -> Any:
    frame = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    writer = frame.writeStream.format(name).option("path", str(directory))
    checkpoint = options.pop("checkpoint", directory.with_name("checkpoint"))
    writer = writer.option("checkpointLocation", str(checkpoint)).options(**options)
    return writer.trigger(availableNow=True).start()
