"""Objects that a ``with`` statement closes at its end."""

from __future__ import annotations

from typing import Self


class Closing:
    """A base for objects that only need `close` at the end of a ``with`` statement."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
