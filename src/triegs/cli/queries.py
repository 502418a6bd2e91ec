"""Reads queries from files, standard input or options, and formats query errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from unicodedata import east_asian_width

import typer

from triegs.cli.output import fail
from triegs.errors import QueryError, UnsupportedQuery
from triegs.sparql import parse
from triegs.sparql.model import Query

#: Longer lines are shown only around the error.
LONGEST_LINE = 72


def read_query(argument: str | None, text: str | None, prefixes: Iterable[str]) -> Query:
    """Read and parse a query. Exits with code 2 for a usage error, 1 for an invalid query."""
    declared = read_prefixes(prefixes)
    if argument is not None and text is not None:
        raise typer.BadParameter("give a query file or text, or --text, not both")
    if argument is None and text is None:
        raise typer.BadParameter("give a query file or text, or - for standard input")
    if text is not None:
        source, given = "--text", text
    else:
        assert argument is not None
        is_file_name = not is_text(argument)
        given = read_text(argument) if is_file_name else argument
        source = {"-": "standard input"}.get(argument, argument) if is_file_name else "query"
    try:
        return parse(given, declared)
    except QueryError as error:
        fail(show_query_error(error, given, source))


def read_prefixes(given: Iterable[str]) -> dict[str, str]:
    """
    >>> read_prefixes(["ex=http://example.org/", ":=<http://ex/>"])
    {'ex': 'http://example.org/', '': 'http://ex/'}
    """
    prefixes: dict[str, str] = {}
    for part in given:
        name, sign, iri = part.partition("=")
        iri = iri.strip().removeprefix("<").removesuffix(">")
        if not sign or not iri:
            raise typer.BadParameter(f"{part!r} is not NAME=IRI", param_hint="--prefix")
        prefixes[name.strip().removesuffix(":")] = iri
    return prefixes


def is_text(argument: str) -> bool:
    """Whether an argument is a query itself, not the name of a file with one."""
    return "{" in argument and not is_file(argument)


def is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def read_text(path: str) -> str:
    """The content of a file, or of standard input for ``-``."""
    try:
        if path == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        name = "standard input" if path == "-" else path
        fail(f"error: {name} is not UTF-8 text (byte {error.start})")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise typer.BadParameter(
            f"cannot read {path or repr(path)}: {reason}; give a query file or text",
            param_hint="QUERY",
        ) from None


def show_query_error(error: QueryError, text: str, source: str) -> str:
    """The message, the source line with a caret, and the hint.

    >>> error = QueryError("unknown prefix 'ex:'", line=1, column=22, construct="prefix",
    ...                    hint="declare it with PREFIX ex: <…>")
    >>> print(show_query_error(error, "SELECT ?x WHERE { ?x ex:p ?y }", "--text"))
    error: unknown prefix 'ex:'
      --text, line 1, column 22
        SELECT ?x WHERE { ?x ex:p ?y }
                             ^
      declare it with PREFIX ex: <…>
    """
    kind = "unsupported" if isinstance(error, UnsupportedQuery) else "error"
    lines = text.split("\n")
    shown = lines[error.line - 1].rstrip("\r") if 0 < error.line <= len(lines) else ""
    line, before = _cut(shown, error.column - 1)
    parts = [f"{kind}: {error.message}", f"  {source}, line {error.line}, column {error.column}"]
    parts += [f"    {line}".rstrip(), f"    {' ' * before}^"]
    if error.hint:
        parts.append(f"  {error.hint}")
    return "\n".join(parts)


def _cut(line: str, offset: int) -> tuple[str, int]:
    """An excerpt of the line around an offset, and its display column in the excerpt."""
    start = 0 if len(line) <= LONGEST_LINE else max(0, offset - LONGEST_LINE // 2)
    piece = line[start : start + LONGEST_LINE]
    before = line[start:offset]
    if start:
        piece, before = f"…{piece}", f"…{before}"
    if start + LONGEST_LINE < len(line):
        piece += "…"
    wide = sum(east_asian_width(char) in "WF" for char in before)
    return piece.expandtabs(1), len(before) + wide


def check_root(query: Query, root: str | None) -> None:
    """Reject a root that is not a head variable."""
    if root is None:
        return
    names: Mapping[str, None] = dict.fromkeys(query.free)
    if f"?{root.removeprefix('?')}" not in names:
        choice = ", ".join(name.removeprefix("?") for name in names) or "none"
        raise typer.BadParameter(
            f"{root!r} is not a head variable bound by the pattern; choices: {choice}",
            param_hint="--root",
        )
