"""HTML representations for notebooks.

All text is escaped and shortened. Colours are inherited, so the tables suit light and dark themes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

#: Limits on rows and on characters per cell.
MOST_SHOWN, LONGEST_CELL = 10, 80
_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:top"
_FAINT = "opacity:.65;font-weight:normal"
_NUMBER = "text-align:right;padding:2px 0 2px 12px;vertical-align:top"


def write_card(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """A title with a line per fact.

    >>> write_card("Window", [("width", "<10s>")]).count("&lt;10s&gt;")
    1
    """
    lines = "".join(
        f'<tr style="background:none"><td style="{_CELL};{_FAINT}">{escape(name)}</td>'
        f'<td style="{_CELL};white-space:pre-wrap">{_write_cell(value)}</td></tr>'
        for name, value in facts
    )
    return f"<div><b>{escape(title)}</b><table>{lines}</table></div>"


def write_table(
    names: Sequence[str], rows: Iterable[Sequence[object]], note: str = "", *, counts: bool = False
) -> str:
    """A table with a note below it; with `counts`, the last column is numeric.

    >>> "<td" in write_table(["x"], [["<a>"]]), "<a>" in write_table(["x"], [["<a>"]])
    (True, False)
    """

    def find_style(column: int) -> str:
        return _NUMBER if counts and column == len(names) - 1 else _CELL

    head = "".join(
        f'<th style="{find_style(i)};{_FAINT}">{escape(name)}</th>' for i, name in enumerate(names)
    )
    body = "".join(
        '<tr style="background:none">'
        + "".join(f'<td style="{find_style(i)}">{_write_cell(v)}</td>' for i, v in enumerate(row))
        + "</tr>"
        for row in rows
    )
    below = f'<div style="{_FAINT}">{escape(note)}</div>' if note else ""
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


def _write_cell(value: object) -> str:
    """Escaped text, shortened; a tooltip shows more of it."""
    text = "" if value is None else str(value)
    if len(text) <= LONGEST_CELL:
        return escape(text)
    whole = escape(text[: 10 * LONGEST_CELL])
    return f'<span title="{whole}">{escape(text[:LONGEST_CELL])}…</span>'
