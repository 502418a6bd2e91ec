"""Reads the rules that a command names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import typer

from triegs.cli.output import fail
from triegs.cli.queries import show_query_error
from triegs.errors import RuleError
from triegs.reason.model import RuleSet
from triegs.reason.sets import NAMED_SETS, read_rules, read_text


def read_rule_files(sources: Iterable[str], prefixes: Mapping[str, str]) -> RuleSet:
    """The rules of files and of sets by name. Exits with code 2 for a file that cannot be read, 1
    for rules that are not valid.
    """
    found = RuleSet()
    for source in sources:
        if source in NAMED_SETS:
            found = found + read_rules(source)
            continue
        path = Path(source)
        try:
            text = path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            sets = " or ".join(NAMED_SETS)
            message = f"{source} is neither {sets} nor a file that can be read: {reason}"
            raise typer.BadParameter(message, param_hint="--rules") from None
        try:
            found = found + read_text(text, prefixes)
        except RuleError as error:
            fail(show_query_error(error, text, source))
    return found
