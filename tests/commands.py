"""Commands of ``triegs`` in this process, built once."""

from __future__ import annotations

from functools import cache

import typer.main
import typer.testing


def build_commands_once() -> None:
    """Typer builds all commands anew for each that is run, a hundredth of a second. They have no
    state.
    """
    get_command = cache(typer.main.get_command)
    typer.main.get_command = get_command
    typer.testing._get_command = get_command  # type: ignore[attr-defined]
