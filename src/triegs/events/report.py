"""The outcome of reading an input: counts, quarantined records, broken files."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from triegs.closing import Closing
from triegs.errors import InputError
from triegs.events.quarantine_file import QuarantineFile
from triegs.reasons import Reason, Why

LONGEST_WRITTEN = 65_536  # characters of a record in the quarantine file
LONGEST_SHOWN = 200  # and in a message
MOST_FAULTS = 10  # that a report has


class Fault(NamedTuple):
    """A malformed record: location, reason, and shortened text."""

    file: str
    line: int
    reason: Why
    record: str


@dataclass(slots=True)
class InputReport:
    """Counts of an input so far.

    Of ``read`` records, ``events`` were delivered; the others are counted by reason in
    ``quarantined``, and ``first_faults`` are the first ten of them. ``files`` lists the opened
    files in order, ``broken`` those that could not be read to their end, with the reason, and
    ``skipped`` the directory entries of unknown formats.

    >>> InputReport().as_dict()["read"]
    0
    """

    read: int = 0
    events: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    files: list[str] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    first_faults: list[Fault] = field(default_factory=list)

    @property
    def first_fault(self) -> Fault | None:
        return self.first_faults[0] if self.first_faults else None

    @property
    def has_failed(self) -> bool:
        """Whether a file broke; quarantined records are not a failure."""
        return bool(self.broken)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "read": self.read,
            "events": self.events,
            "quarantined": dict(self.quarantined),
            "files": self.files,
            "broken": [list(entry) for entry in self.broken],
            "skipped": self.skipped,
        }


class Quarantine(Closing):
    """Counts malformed records, and writes them as JSON lines if a file is given.

    With ``strict``, the first one raises `InputError` instead.
    """

    def __init__(
        self, report: InputReport, path: str | Path | None, strict: bool, append: bool
    ) -> None:
        self._report = report
        self._strict = strict
        self._file: QuarantineFile | None = None
        self._to_skip = 0
        #: The next records that an earlier run wrote already: counted, but not written again.
        self.already_written = 0
        if path is not None:
            try:
                self._file = QuarantineFile(path, append=append)
            except OSError as problem:
                raise InputError(f"cannot write the quarantine file: {problem}") from None

    def add(self, file: str, line: int, reason: Reason, detail: str, record: str | bytes) -> None:
        """Quarantine a record; ``line`` is its line or row number, from 1."""
        if self._to_skip:
            self._to_skip -= 1
            return
        text = reason.describe(detail)
        if self._strict:
            raise InputError(f"{file}, line {line}: {text}", file=file, line=line)
        self._report.read += 1
        self._report.quarantined[reason] += 1
        if len(self._report.first_faults) < MOST_FAULTS:
            fault = Fault(file, line, text, shorten_record(record, LONGEST_SHOWN))
            self._report.first_faults.append(fault)
        if self.already_written:
            self.already_written -= 1
            return
        if self._file is None:
            return
        record = shorten_record(record, LONGEST_WRITTEN)
        entry = {"file": file, "line": line, "reason": text, "record": record}
        self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def skip_counted(self, count: int) -> None:
        """Ignore the next records of a file that is read again: they were counted before."""
        self._to_skip = count

    def add_break(self, file: str, reason: str) -> None:
        """Record a file that cannot be read to its end."""
        if self._strict:
            raise InputError(f"{file}: {reason}", file=file)
        self._report.broken.append((file, reason))

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def shorten_record(record: str | bytes, most: int) -> str:
    r"""A record as text of at most ``most`` characters, with an ellipsis if it was cut.

    >>> shorten_record(b"a,b,\xff", 20), shorten_record("abcdef", 3)
    ('a,b,\\xff', 'abc…')
    """
    if isinstance(record, bytes):
        record = record[: 4 * most].decode("utf-8", "backslashreplace")
    return record if len(record) <= most else record[:most] + "…"
