"""The methods of an engine that publish slides one by one, and report which were published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from triegs.engine.internals import EngineInternals
from triegs.sparql.window import EVERY
from triegs.windows.outcomes import Published


class Sliding:
    """A part of `triegs.Engine`."""

    _internals: EngineInternals

    @property
    def published(self) -> tuple[Published, ...]:
        """What the last `advance` or `close_stream` published; of `each_slide`, the last slide.

        For a caller that did not get the result because the call raised or the process died: after
        a directory is opened, these are the slides of the last such call that the log has after the
        checkpoint. The `positions` noted with it identify the call.

        >>> from triegs import Engine, Window
        >>> engine = Engine(window=Window("10s"))
        >>> pushed = engine.push([(1_000, 1, "<http://ex/p>", 2)])
        >>> published = engine.advance(to=20_000)
        >>> [published.time for published in engine.published]
        [10000, 20000]
        """
        return self._internals.published

    def find_end(self) -> int | None:
        """The time up to which `close_stream` would publish: the first slide that can contain the
        last event. None before the first event.

        >>> from triegs import Engine, Window
        >>> engine = Engine(window=Window("10s"))
        >>> pushed = engine.push([(11_000, 1, "<http://ex/p>", 2)])
        >>> engine.find_end()
        20000
        """
        return self._internals.windows.find_end()

    def each_slide(
        self, to: Any = None, stream: str | None = EVERY, *, close: bool = False
    ) -> Iterator[Published]:
        """As `advance`, or with `close` as `close_stream`, but one slide at a time.

        The caller can read the answers of a slide before the next one is published. The engine
        takes no other update until the iterator is exhausted or closed.

        This call is not atomic. With a directory the watermark is one record, and each slide is
        one: after a crash, an error or an abandoned iteration, the watermark has moved, and the
        slides up to some slide are published, at most one more than was handed out (`published`
        has it). The others are published by the next `each_slide` or `advance`.

        >>> from triegs import Engine, Window
        >>> engine = Engine(window=Window("10s", slide="5s"))
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> pushed = engine.push([(1_000, 1, "<http://ex/p>", 2)])
        >>> for published in engine.each_slide(to=16_000):
        ...     with query.snapshot() as snapshot:
        ...         published.time, len(snapshot)
        (5000, 1)
        (10000, 1)
        (15000, 0)
        """
        return self._internals.timed_events.each_slide(to, stream, close)
