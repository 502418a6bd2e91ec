"""Changes in two phases: first everything that can fail, then publication.

Engines that publish together need this: each prepares its epoch, and only if all have done so does
any of them publish. A change in two phases is a generator that pauses between them. Resuming it
publishes, from whatever thread; throwing an exception into it, or closing it, aborts the change.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")
Preparing = Generator[None, None, Result]


def finish(preparing: Preparing[Result]) -> Result:
    """Run a change through, without a pause.

    >>> def change():
    ...     yield
    ...     return "published"
    >>> finish(change())
    'published'
    """
    try:
        while True:
            next(preparing)
    except StopIteration as end:
        result: Result = end.value
        return result
