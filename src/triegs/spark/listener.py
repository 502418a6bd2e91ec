"""A Spark listener that reports the figures of a pipeline after each of its batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any

messages = logging.getLogger("triegs.spark")


def make_listener(
    is_ours: Callable[[str], bool], measure: Callable[[], dict[str, Any]],
    report: Callable[[dict[str, Any]], object] | None,
) -> Any:  # fmt: skip
    """A `StreamingQueryListener` for the query that `is_ours` accepts by id.

    After each batch it calls `report` with the result of `measure`; without `report`, it logs a
    line to ``triegs.spark``. It also logs the end of the query.
    """
    from pyspark import SparkContext
    from pyspark.sql.streaming import StreamingQueryListener
    from pyspark.sql.streaming.listener import JStreamingQueryListener

    class Progress(JStreamingQueryListener):  # type: ignore[misc]
        """What Java calls. PySpark's own converts the whole report before it calls a listener, a
        tenth of a second of processor time per batch; we need the id only.
        """

        def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802
            found = SimpleNamespace(id=jevent.progress().id().toString())
            self.pylistener.onQueryProgress(SimpleNamespace(progress=found))

    class Listener(StreamingQueryListener):  # type: ignore[misc]
        @cached_property
        def _jlistener(self) -> Any:
            """What PySpark registers, in place of its own."""
            return SparkContext._jvm.PythonStreamingQueryListenerWrapper(Progress(self))

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            """Nothing to report yet."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            if not is_ours(str(event.progress.id)):
                return
            try:
                figures = measure()
                if report is None:
                    messages.info("%s", write_figures(figures))
                else:
                    report(figures)
            except BaseException:  # a failing callback must not stop the stream
                messages.exception("on_progress failed")

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            if is_ours(str(event.id)):
                failed = event.exception is not None
                messages.info("the stream has ended%s", " with a failure" if failed else "")

    return Listener()


def write_figures(figures: Mapping[str, Any]) -> str:
    """One line.

    >>> timing = {"collect": 0.25, "engine": 0.0123}
    >>> write_figures({"batch": 7, "rows": 12_000, "quarantined": 1, "timing": timing})
    'batch 7: 12,000 rows so far, 1 malformed; ms: collect 250, engine 12'
    """
    timing = figures["timing"] or {}
    steps = ", ".join(f"{name} {1e3 * seconds:.0f}" for name, seconds in timing.items())
    return (
        f"batch {figures['batch']}: {figures['rows']:,} rows so far, "
        f"{figures['quarantined']:,} malformed; ms: {steps}"
    )
