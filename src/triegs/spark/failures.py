"""What ends a batch from our side, and what Spark says of it, in one line."""

from __future__ import annotations

import logging
import re

from triegs.errors import TriegsError

#: What the reason is behind, or in front of, in the texts of Spark's errors.
TRACE, CAUSE, PLAN = "Traceback (most recent call last)", "Caused by: ", "=== Streaming Query ==="
FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")


class Cancelled(Exception):
    """Ends a batch whose reader has gone, or whose pipeline was stopped."""


class BatchFailed(TriegsError):
    """A batch could not be taken, or its answers not be handed on. It says which, and why."""


def mute() -> None:
    """Py4J logs what a thread of ours raises in Spark; these are no news, or told by us."""
    logging.getLogger("py4j.clientserver").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, (Cancelled, BatchFailed))


def explain(problem: BaseException) -> str:
    """The reason in an error of Spark's, in one line; of any other its own words.

    >>> explain(ValueError("no such thing"))
    'no such thing'
    """
    if not type(problem).__module__.startswith(("pyspark", "py4j")):
        return str(problem) or type(problem).__name__
    try:
        text = str(problem)
    except Exception:  # Java is gone, and with it the text
        return "Spark's Java process has ended"
    return find_reason(text) or type(problem).__name__


def find_reason(text: str) -> str:
    r"""The line that gives the reason, out of all that Spark writes: stack traces of Python and of
    Java, and the plan of the query.

    >>> find_reason("Job aborted\nCaused by: java.io.IOException: no room\n\tat a.B.c(B.java:1)")
    'java.io.IOException: no room'
    >>> find_reason("in a task: Traceback (most recent call last):\n  File a.py\nKeyError: 'x'")
    "KeyError: 'x'"
    >>> find_reason("[CAST] 'abc' is no number\n=== Streaming Query ===\nPlan:\n+- Project")
    "[CAST] 'abc' is no number"
    """
    lines = [line for line in text.partition(PLAN)[0].splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):  # Py4J's own line
        lines = [lines[1].removeprefix(": "), *lines[2:]] if lines[1:] else []
    told = _find_raised(lines)
    if told is None:
        caused = [line.partition(CAUSE)[2] for line in lines if line.startswith(CAUSE)]
        told = FAILED.sub("", (caused[-1:] or lines[:1] or [""])[0].strip())
    if "No module named" in told:
        told += " (the Python of the executors; PYSPARK_PYTHON says which it is)"
    return told


def _find_raised(lines: list[str]) -> str | None:
    """What the last stack trace of Python ends with. Errors of ours are told without their kind."""
    starts = [place for place, line in enumerate(lines) if TRACE in line]
    for line in lines[starts[-1] + 1 :] if starts else ():
        if not line.startswith((" ", "\t")):
            return re.sub(r"^triegs\.[\w.]+: ", "", line)
    return None
