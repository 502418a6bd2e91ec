"""Failures of a batch, and the reason for them in one line."""

from __future__ import annotations

import logging
import re

from triegs.errors import TriegsError

#: Markers in Spark's error texts that precede or follow the reason.
TRACE, CAUSE, PLAN = "Traceback (most recent call last)", "Caused by: ", "=== Streaming Query ==="
FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")


class Cancelled(Exception):
    """Ends a batch whose reader has gone, or whose pipeline was stopped."""


class BatchFailed(TriegsError):
    """A batch could not be processed, or its answers not delivered. The message says which batch,
    and why.
    """


def mute() -> None:
    """Keep Py4J from logging our own exceptions, which are reported elsewhere."""
    logging.getLogger("py4j.clientserver").addFilter(_is_unknown)


def _is_unknown(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, (Cancelled, BatchFailed))


def explain(problem: BaseException) -> str:
    """The reason in one line: extracted from an error of Spark's, or the message of any other.

    >>> explain(ValueError("no such thing"))
    'no such thing'
    """
    if not type(problem).__module__.startswith(("pyspark", "py4j")):
        return str(problem) or type(problem).__name__
    try:
        text = str(problem)
    except Exception:  # the Java process has ended, and with it the text
        return "Spark's Java process has ended"
    return find_reason(text) or type(problem).__name__


def find_reason(text: str) -> str:
    r"""The line with the reason in Spark's error text, which has stack traces of Python and Java,
    and the query plan.

    >>> find_reason("Job aborted\nCaused by: java.io.IOException: no room\n\tat a.B.c(B.java:1)")
    'java.io.IOException: no room'
    >>> find_reason("in a task: Traceback (most recent call last):\n  File a.py\nKeyError: 'x'")
    "KeyError: 'x'"
    >>> find_reason("[CAST] 'abc' is no number\n=== Streaming Query ===\nPlan:\n+- Project")
    "[CAST] 'abc' is no number"
    """
    lines = [line for line in text.partition(PLAN)[0].splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):  # added by Py4J
        lines = [lines[1].removeprefix(": "), *lines[2:]] if lines[1:] else []
    found = _find_raised(lines)
    if found is None:
        caused = [line.partition(CAUSE)[2] for line in lines if line.startswith(CAUSE)]
        found = FAILED.sub("", (caused[-1:] or lines[:1] or [""])[0].strip())
    if "No module named" in found:
        found += " (in the executors' Python, which PYSPARK_PYTHON selects)"
    return found


def _find_raised(lines: list[str]) -> str | None:
    """The last line of the last Python stack trace, without the type of our own errors."""
    starts = [number for number, line in enumerate(lines) if TRACE in line]
    for line in lines[starts[-1] + 1 :] if starts else ():
        if not line.startswith((" ", "\t")):
            return re.sub(r"^triegs\.[\w.]+: ", "", line)
    return None
