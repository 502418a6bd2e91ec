"""Titles and plain tables of the demos, 80 columns wide."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

WIDTH = 80


class Screen(Console):
    """Standard output without markup."""

    def __init__(self, **options: Any) -> None:
        plain = {"highlight": False, "markup": False, "emoji": False, "soft_wrap": False}
        super().__init__(width=WIDTH, **{**plain, **options})

    def on_broken_pipe(self) -> None:
        """Let the caller handle it; Rich would exit with a failure."""
        raise BrokenPipeError


def write_title(out: Console, text: str) -> None:
    out.print()
    out.print(text, style="bold")
    out.print("─" * len(text), style="dim")


def make_table(*names: str, text_columns: int = 1) -> Table:
    """A plain table; text columns are left-aligned, numbers right-aligned."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, name in enumerate(names):
        table.add_column(name, justify="left" if i < text_columns else "right", overflow="fold")
    return table
