"""Implementation of ``triegs check`` and ``triegs backup``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from triegs.cli.output import FAILED, fail, write_result
from triegs.durable.directory import SETTINGS
from triegs.durable.inspection import Inspection, Restored
from triegs.engine.directories import back_up, inspect
from triegs.errors import StateError
from triegs.run.statistics import write_bytes


def run_check(directory: Path, as_json: bool) -> int:
    """Inspect a directory and print the findings; returns the exit code."""
    try:
        found = inspect(directory)
    except StateError as error:
        raise typer.BadParameter(str(error), param_hint="DIR") from None
    write_result(write_json(found) if as_json else write_text(found))
    return 0 if found.is_good else FAILED


def run_backup(directory: Path, target: Path) -> None:
    """Copy a directory and print a summary."""
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "is not there"
        raise typer.BadParameter(f"{directory} {what}", param_hint="DIR")
    try:
        done = back_up(directory, target)
    except StateError as error:
        if isinstance(error.__cause__, OSError):
            fail(f"error: {error}")
        has_source = target.exists() or (directory / SETTINGS).exists()
        option = "TARGET" if has_source else "DIR"
        raise typer.BadParameter(str(error), param_hint=option) from None
    has = f"the checkpoint of record {done.checkpoint} and " if done.checkpoint else ""
    write_result(
        f"copied {directory} to {target}: {has}the log up to record {done.record}, "
        f"{write_bytes(done.bytes)}\n{describe(done.inspection)}\n"
    )


def write_json(found: Inspection) -> str:
    """The findings as JSON."""
    found_json = {
        "directory": str(found.directory),
        "good": found.is_good,
        "owner": found.owner,
        "problem": found.problem,
        "restored": None if found.restored is None else found.restored._asdict(),
        "parts": [part._asdict() for part in found.parts],
    }
    return json.dumps(found_json, indent=2, ensure_ascii=False) + "\n"


def write_text(found: Inspection) -> str:
    """A line per file, and a summary."""
    width = max(len(part.file) for part in found.parts)
    lines = [
        f"{part.file:{width}}  {part.state:<10}  {write_bytes(part.bytes):>8}  {part.details}"
        for part in found.parts
    ]
    return "\n".join([*lines, "", describe(found), ""])


def describe(found: Inspection) -> str:
    """Whether the state is intact, and what can be restored."""
    if found.owner is not None:
        verdict = "no file is damaged" if found.is_good else "a file is damaged"
        return f"in use by {found.owner}: checked the files only; {verdict}"
    if found.problem is None:
        assert found.restored is not None
        head = "good" if found.is_good else "damaged, but nothing is lost"
        return f"{head}: restores {describe_restored(found.restored)}"
    lines = [f"damaged: {found.problem}"]
    if found.restored is None:
        lines.append("nothing can be recovered from these files; restore a backup")
    else:
        lines.append(
            f"intact before the damage: {describe_restored(found.restored)}; "
            "see docs/durability.md for recovery"
        )
    return "\n".join(lines)


def describe_restored(state: Restored) -> str:
    count = len(state.queries)
    queries = "1 query" if count == 1 else f"{count} queries"
    lost = "".join(f"; {name} is closed: {why}" for name, why in state.lost_queries.items())
    return f"epoch {state.epoch}, up to record {state.record}, with {queries}{lost}"
