"""Why an epoch must be aborted and tried again; nothing outside the core sees these."""

from __future__ import annotations


class Fault(Exception):
    """A kernel fault at a step (-1: while judging); the epoch must be aborted."""

    def __init__(self, kinds: int, step: int) -> None:
        super().__init__(kinds, step)
        self.kinds = kinds
        self.step = step


class TooMuch(Exception):
    """An epoch with deletions would leave more than the limit allows."""
