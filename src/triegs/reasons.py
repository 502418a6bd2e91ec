"""Reasons for quarantined records and refused events, shared by files, tables and engines."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """All reasons, with the text that is shown and counted."""

    # Malformed records.
    BAD_LINE = "bad line"
    BAD_STATEMENT = "bad statement"
    BAD_ROW = "bad row"
    NOT_UTF8 = "not UTF-8"
    NO_TIME = "no time"
    BAD_TIME = "bad time"
    BAD_OP = "bad op"
    NO_SUBJECT = "no subject"
    NO_PREDICATE = "no predicate"
    NO_OBJECT = "no object"
    BAD_TERM = "bad term"
    BAD_ID = "bad id"
    BAD_CELL = "bad cell"
    NO_TRIPLE = "no triple"
    NO_ROW_ID = "no id"
    # Events that the engine refuses.
    NO_EVENT = "no live event states this"
    NO_ID = "no live event has this id"
    OTHER_CONTENT = "a live event has this id and other content"
    TOO_MANY = "the count would not fit 64 bits"
    NO_ROOM = "no room under the memory limit when its slide came"
    LATE = "late"
    TOO_EARLY = "further ahead of its stream than max_ahead allows, or as far behind its beginning"

    def __repr__(self) -> str:
        return repr(self.value)

    def describe(self, detail: str = "") -> Why:
        """The reason as text, followed by a detail.

        >>> Reason.BAD_TERM.describe("subject: not an N-Triples term: 'a'")
        "bad term: subject: not an N-Triples term: 'a'"
        """
        return Why(self, detail)


class Why(str):
    """A reason as text; `kind` identifies it.

    >>> Reason.LATE.describe("its time is at or before the watermark, 5").kind is Reason.LATE
    True
    """

    __slots__ = ("kind",)
    kind: Reason

    def __new__(cls, kind: Reason, detail: str = "") -> Why:
        found = super().__new__(cls, f"{kind}: {detail}" if detail else str(kind))
        found.kind = kind
        return found

    @property
    def detail(self) -> str:
        return self[len(self.kind) + 2 :]

    def __reduce__(self) -> tuple[Any, ...]:
        return Why, (self.kind, self.detail)


def list_names(names: Iterable[str]) -> str:
    r"""Names for a message: on one line, and not all of them if they are long.

    >>> list_names(["a", "b\n"]), list_names([])
    ('a, b\\n', 'none')
    """
    shown = ", ".join(name if name.isprintable() else ascii(name)[1:-1] for name in names)
    return (shown if len(shown) <= 1000 else shown[:1000] + "…") or "none"


def shorten(value: object) -> str:
    """The repr of a value, shortened.

    >>> shorten("x" * 100)[-5:]
    'xxxx…'
    """
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
