"""The bytes that requests under way may take together."""

from __future__ import annotations

from threading import Lock

from triegs.server.problems import Problem


class Budget:
    """Counts bytes up to a limit. From any thread.

    >>> budget = Budget(100)
    >>> first = budget.open()
    >>> first.take(80)
    >>> budget.open().take(30)
    Traceback (most recent call last):
    triegs.server.problems.Problem: 80 of 100 bytes are waiting for their epoch; ...
    >>> first.close(); budget.used
    0
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = Lock()

    def open(self) -> Share:
        """The share of one request."""
        return Share(self)

    def move(self, size: int) -> None:
        """Take bytes, or with a negative size return them; `Problem` 429 if there are none."""
        with self._lock:
            if size > 0 and self.used + size > self.limit:
                raise Problem(
                    429,
                    "the queue is full",
                    f"{self.used:,} of {self.limit:,} bytes are waiting for their epoch; "
                    "try again later",
                    retry_after_s=1,
                )
            self.used += size


class Share:
    """What one request takes of a budget, until it is closed."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0

    def take(self, size: int) -> None:
        """Have at least this many bytes."""
        if size > self._size:
            self._budget.move(size - self._size)
            self._size = size

    def close(self) -> None:
        size, self._size = self._size, 0
        self._budget.move(-size)
