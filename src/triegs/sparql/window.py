"""Windows: which events of a stream a query reads, and when answers are published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from numbers import Integral
from typing import Final

from triegs.durations import read_duration
from triegs.errors import WindowError
from triegs.notebook import write_card
from triegs.options import BoundsName

#: All streams; no stream has this name.
EVERY: Final = "*"
#: The bound of times and durations, so that sums of a few fit 64 bits.
LARGEST_TIME: Final = 1 << 60


Span = str | int | timedelta


class Bounds(Enum):
    """Which bound of a window is included."""

    END = "(]"
    START = "[)"


class Kind(Enum):
    """What bounds a window: a width in time, a number of events, or nothing."""

    TIME = "time"
    TRIPLES = "triples"
    LANDMARK = "landmark"


def read_span(value: str | int | timedelta) -> int:
    """A duration in milliseconds: an integer, ``10s``, ``500ms``, ``1h``, ``2d`` or ``PT10S``.

    >>> read_span("10s"), read_span("PT1M30S"), read_span("7"), read_span(7)
    (10000, 90000, 7, 7)
    >>> read_span(-1)
    Traceback (most recent call last):
    triegs.errors.WindowError: a duration must be from 0 to 2**60 ms, not -1
    """
    is_number = isinstance(value, str) and value.isascii() and value.isdigit()
    try:
        found = read_duration(int(value) if isinstance(value, str) and is_number else value)
    except (ValueError, OverflowError) as problem:
        raise WindowError(str(problem)) from None
    if not 0 <= found <= LARGEST_TIME:
        raise WindowError(f"a duration must be from 0 to 2**60 ms, not {value}")
    return found


def name_stream(name: object) -> str | None:
    """The name of a stream: a string, with or without the brackets of an IRI, or an IRI of rdflib
    or pyoxigraph. Raises `WindowError` for anything else.

    >>> name_stream("<http://ex/s>"), name_stream("http://ex/s")
    ('http://ex/s', 'http://ex/s')
    """
    if name is None:
        return None
    kind = type(name).__name__
    if not isinstance(name, str):
        name = getattr(name, "value", None) if kind == "NamedNode" else name
    if not isinstance(name, str) or kind in ("BNode", "Literal"):
        raise WindowError(f"a stream name must be a string or an IRI, not {name!r}")
    text = str.__str__(name)
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def write_duration(milliseconds: int) -> str:
    """
    >>> write_duration(90_000), write_duration(1_500)
    ('90s', '1500ms')
    """
    if milliseconds and milliseconds % 1_000 == 0:
        return f"{milliseconds // 1_000}s"
    return f"{milliseconds}ms"


@dataclass(frozen=True, slots=True, init=False)
class Window:
    """Events of the last `width`, published every `slide`; all times in milliseconds.

    At each time t = `start` + k·`slide` the window holds the events with a time in (t - width, t],
    or in [t - width, t) with ``bounds="[)"``. Without `slide` it tumbles: the slide is the width.
    Durations are integers (milliseconds) or strings: ``"10s"``, ``"10 minutes"``, ``"PT10S"``.
    `stream` is the stream that it reads; None is the stream without a name. Queries with equal
    windows share one.

    >>> Window("10s", slide="5s")
    Window('10s', slide='5s')
    >>> Window("10s", slide="1m").is_in(0, 60_000), Window("10s").is_in(10_000, 10_000)
    (False, True)
    """

    kind: Kind
    width: int | None
    slide: int | None
    start: int
    bounds: Bounds
    stream: str | None

    def __init__(
        self,
        width: Span,
        slide: Span | None = None,
        *,
        start: int = 0,
        bounds: BoundsName | Bounds = Bounds.END,
        stream: str | None = None,
    ) -> None:
        length = read_span(width)
        step = length if slide is None else read_span(slide)
        self._set(Kind.TIME, length, step, start, bounds, stream)

    @classmethod
    def tumbling(cls, width: Span, *, start: int = 0, stream: str | None = None) -> Window:
        """Consecutive windows: the slide is the width."""
        return cls(width, start=start, stream=stream)

    @classmethod
    def landmark(cls, slide: Span, *, start: int = 0, stream: str | None = None) -> Window:
        """All events so far, published every slide: nothing expires.

        >>> Window.landmark("1m").is_in(5, 10**12)
        True
        """
        return cls._make(Kind.LANDMARK, None, read_span(slide), start, Bounds.END, stream)

    @classmethod
    def now(cls, slide: Span | None = None, *, start: int = 0, stream: str | None = None) -> Window:
        """The events at the epoch's time; without a slide, each event time is an epoch."""
        step = None if slide is None else read_span(slide)
        return cls._make(Kind.TIME, 1, step, start, Bounds.END, stream)

    @classmethod
    def triples(cls, count: int, *, stream: str | None = None) -> Window:
        """The last `count` events; each event is an epoch of its own."""
        given: object = count  # also accepts NumPy integers
        is_number = isinstance(given, Integral) and not isinstance(given, bool)
        if not is_number or not 1 <= count <= LARGEST_TIME:
            rule = "an integer, at least 1 and at most 2**60"
            raise WindowError(f"a number of events must be {rule}, not {count!r}")
        return cls._make(Kind.TRIPLES, int(count), None, 0, Bounds.END, stream)

    @classmethod
    def _make(
        cls, kind: Kind, width: int | None, slide: int | None, start: int, bounds: Bounds,
        stream: str | None,
    ) -> Window:  # fmt: skip
        found = object.__new__(cls)
        found._set(kind, width, slide, start, bounds, stream)
        return found

    def _set(
        self, kind: Kind, width: int | None, slide: int | None, start: int, bounds: str | Bounds,
        stream: str | None,
    ) -> None:  # fmt: skip
        if width is not None and width < 1:
            raise WindowError(f"a width must be at least 1, not {width}")
        if slide is not None and slide < 1:
            raise WindowError(f"a slide must be at least 1 ms, not {slide}")
        if type(start) is not int or abs(start) > LARGEST_TIME:
            raise WindowError(f"start must be an integer number of milliseconds, not {start!r}")
        try:
            chosen = Bounds(bounds)
        except ValueError:
            raise WindowError(f"bounds must be '(]' or '[)', not {bounds!r}") from None
        name = name_stream(stream)
        if name == EVERY:
            raise WindowError(f"{stream!r} is not a valid stream name")
        values = (kind, width, slide, start, chosen, name)
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def shift(self) -> int:
        """Ticks between the last included time and the epoch's time: 0 or 1."""
        return 1 if self.bounds is Bounds.START else 0

    def is_in(self, time: int, epoch_time: int) -> bool:
        """Whether an event of that time is in the window at an epoch's time.

        >>> Window(10).is_in(0, 10), Window(10, bounds="[)").is_in(0, 10)
        (False, True)
        """
        edge = epoch_time - self.shift
        if self.kind is Kind.TRIPLES:
            raise WindowError("a window over a number of events has no time bounds")
        return time <= edge and (self.width is None or time > edge - self.width)

    def first_slide(self, time: int) -> int:
        """The first published time that can hold an event of that time.

        >>> Window("10s", slide="5s").first_slide(-1), Window(10, bounds="[)").first_slide(10)
        (0, 20)
        """
        if self.slide is None:
            return time
        return self.start - (self.start - time - self.shift) // self.slide * self.slide

    def last_slide(self, time: int) -> int:
        """The last published time at or before a time."""
        if self.slide is None:
            return time
        return self.start + (time - self.start) // self.slide * self.slide

    def __str__(self) -> str:
        """As in a query text."""
        if self.kind is Kind.TRIPLES:
            return f"[TRIPLES {self.width}]"
        every = "" if self.slide is None else f" SLIDE {write_duration(self.slide)}"
        if self.width is None:
            return f"[RANGE UNBOUNDED{every}]"
        if self.width == 1 and self.slide is None:
            return "[NOW]"
        return f"[RANGE {write_duration(self.width)}{every}]"

    def _repr_html_(self) -> str:
        """For a notebook."""
        stream = self.stream or "unnamed"
        return write_card(f"Window {self}", [("stream", stream), ("bounds", self.bounds.value)])

    def __repr__(self) -> str:
        more = [f"start={self.start}"] if self.start else []
        more += ["bounds='[)'"] if self.bounds is Bounds.START else []
        more += [f"stream={self.stream!r}"] if self.stream is not None else []
        slide = [] if self.slide is None else [f"slide={write_duration(self.slide)!r}"]
        if self.kind is Kind.TRIPLES:
            return f"Window.triples({', '.join([str(self.width), *more])})"
        if self.width is None:
            return f"Window.landmark({', '.join([*slide, *more])})"
        if self.width == 1 and self.slide is None:
            return f"Window.now({', '.join(more)})"
        return f"Window({', '.join([repr(write_duration(self.width)), *slide, *more])})"
