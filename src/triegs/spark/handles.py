"""What every running pipeline can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, TypeVar

from triegs.spark.failures import BatchFailed, explain

Self = TypeVar("Self", bound="Handle")


class Handle(ABC):
    """A streaming query of Spark's that feeds engines; ``query`` is Spark's own handle."""

    query: Any
    failure: BatchFailed | None = None

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the stream has ended, so long at most; whether it has.

        A batch that failed is `BatchFailed`, with its number and reason.
        """
        try:
            ended = self.query.awaitTermination(*() if seconds is None else (seconds,))
        except Exception as problem:
            raise self._explain(problem) from problem
        return True if seconds is None else bool(ended)

    def process_all(self) -> None:
        """Wait until everything that the source has now is taken; for tests and notebooks."""
        try:
            self.query.processAllAvailable()
        except Exception as problem:
            raise self._explain(problem) from problem

    def _explain(self, problem: Exception) -> Exception:
        if self.failure is not None:
            return self.failure
        return BatchFailed(f"Spark failed: {explain(problem)}")

    @abstractmethod
    def close(self) -> None:
        """Stop, and let the checkpoint go."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
