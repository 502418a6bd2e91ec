"""Counts the events that the engine refuses, and writes them to the quarantine file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from triegs.closing import Closing
from triegs.errors import CannotWrite
from triegs.events.quarantine_file import QuarantineFile
from triegs.reasons import Why


class Refusal(NamedTuple):
    """A refused event: reason, time and content."""

    reason: Why
    time: int | None
    record: str


class Refusals(Closing):
    """Counts refusals by reason, keeps the ``first``, and appends all to a JSON lines file.

    >>> from triegs.reasons import Reason
    >>> refusals = Refusals()
    >>> refusals.add([Refusal(Reason.NO_EVENT.describe(), 5, "- <a:a> <a:p> <a:b>")])
    >>> refusals.total, refusals.reasons.most_common()
    (1, [('no live event states this', 1)])
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.total = 0
        #: Of this run only; `total` includes the runs it resumes.
        self.added = 0
        self.reasons: Counter[str] = Counter()
        self.first: Refusal | None = None
        self._file: QuarantineFile | None = None
        if path is not None:
            try:
                self._file = QuarantineFile(path, append=True)
            except OSError as error:
                raise CannotWrite.name(path, error) from error

    def add(self, refused: Iterable[Refusal]) -> None:
        """Record the refusals of an epoch or push."""
        for reason, time, record in refused:
            self.total += 1
            self.added += 1
            if self.first is None:
                self.first = Refusal(reason, time, record)
            self.reasons[reason.kind] += 1
            if self._file is not None:
                entry = {"time": time, "reason": reason, "record": record}
                self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
