"""Wrap text to a given width without breaking words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import combining, east_asian_width

WIDTH = 80

_WORD = re.compile(r"\{[^{}]{0,50}\}\S*|\S+")


def display_width(text: str) -> int:
    """Columns on a terminal.

    >>> display_width("Σ_v"), display_width("漢字")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def fold(
    words: Iterable[str], first: str = "", rest: str | None = None, width: int = WIDTH
) -> list[str]:
    """Lines that start with ``first``, then ``rest``; an overlong word gets its own line.

    >>> fold("one two three".split(), "- ", "  ", width=10)
    ['- one two', '  three']
    """
    rest = first if rest is None else rest
    lines: list[str] = []
    line, is_empty = first, True
    for word in words:
        longer = line + word if is_empty else f"{line} {word}"
        if is_empty or display_width(longer) <= width:
            line, is_empty = longer, False
        else:
            lines.append(line)
            line = rest + word
    return [*lines, line]


def fold_text(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """Wrap prose between words, but not inside ``{…}``."""
    return fold(_WORD.findall(text), first, rest)


def fold_list(items: Iterable[str], first: str = "", rest: str | None = None) -> list[str]:
    """Wrap comma-separated items, between items only."""
    listed = list(items)
    return fold([*(f"{item}," for item in listed[:-1]), *listed[-1:]], first, rest)
