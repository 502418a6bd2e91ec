"""What ends a batch from our side, and what Spark says of it, in one line."""

from __future__ import annotations

import logging

from triegs.errors import TriegsError


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
        return str(problem)
    try:
        text = str(problem)
    except Exception:  # Java is gone, and with it the text
        return "Spark's Java process has ended"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    caused = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    told = (caused or lines or [type(problem).__name__])[-1]
    if "No module named" in told:
        told += " (the Python of the executors; PYSPARK_PYTHON says which it is)"
    return told
