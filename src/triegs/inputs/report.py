"""What came of an input: counts, records set aside, files that broke."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from triegs.errors import InputError
from triegs.inputs.aside import AsideFile
from triegs.reasons import Reason, Why

LONGEST_SHOWN = 65_536  # characters of a record in the quarantine file
LONGEST_TOLD = 200  # and in a message


class Fault(NamedTuple):
    """A malformed record: where it is, what is wrong with it, and its text, shortened."""

    file: str
    line: int
    reason: Why
    record: str


@dataclass(slots=True)
class InputReport:
    """Counts of an input so far.

    ``read`` records were seen: ``events`` were delivered, the others are counted in ``quarantined``
    by reason, and ``first_fault`` is the first of them. ``files`` were opened, in this order.
    ``broken`` says which could not be read to their end, and why; ``skipped`` lists what a
    directory has beside files of known formats.

    >>> InputReport().as_dict()["read"]
    0
    """

    read: int = 0
    events: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    files: list[str] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    first_fault: Fault | None = None

    @property
    def has_failed(self) -> bool:
        """Whether a file broke; records set aside are no failure."""
        return bool(self.broken)

    def as_dict(self) -> dict[str, Any]:
        """All of it as values that JSON can write."""
        return {
            "read": self.read,
            "events": self.events,
            "quarantined": dict(self.quarantined),
            "files": self.files,
            "broken": [list(entry) for entry in self.broken],
            "skipped": self.skipped,
        }


class Quarantine:
    """Where malformed records go: counted, written as JSON lines if a file is given.

    With ``strict`` the first one raises `InputError` instead.
    """

    def __init__(
        self, report: InputReport, path: str | Path | None, strict: bool, append: bool
    ) -> None:
        self._report = report
        self._strict = strict
        self._file: AsideFile | None = None
        self._passed = 0
        #: So many of the next records are in the file already; they are counted, not written.
        self.told = 0
        if path is not None:
            try:
                self._file = AsideFile(path, append=append)
            except OSError as problem:
                raise InputError(f"the quarantine file cannot be written: {problem}") from None

    def add(self, file: str, line: int, reason: Reason, detail: str, record: str | bytes) -> None:
        """Set one record aside; ``line`` counts from 1, or is the number of a row."""
        if self._passed:
            self._passed -= 1
            return
        text = reason.tell(detail)
        if self._strict:
            raise InputError(f"{file}, line {line}: {text}", file=file, line=line)
        self._report.read += 1
        self._report.quarantined[reason] += 1
        if self._report.first_fault is None:
            self._report.first_fault = Fault(file, line, text, shorten_record(record, LONGEST_TOLD))
        if self.told:
            self.told -= 1
            return
        if self._file is None:
            return
        record = shorten_record(record, LONGEST_SHOWN)
        entry = {"file": file, "line": line, "reason": text, "record": record}
        self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def pass_over(self, count: int) -> None:
        """So many records of a file that is read again were set aside the first time."""
        self._passed = count

    def add_break(self, file: str, reason: str) -> None:
        """A file that cannot be read, or not to its end."""
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

    def __enter__(self) -> Quarantine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def shorten_record(record: str | bytes, most: int) -> str:
    r"""A record as text of at most so many characters, and a sign that there is more.

    >>> shorten_record(b"a,b,\xff", 20), shorten_record("abcdef", 3)
    ('a,b,\\xff', 'abc…')
    """
    if isinstance(record, bytes):
        record = record[: 4 * most].decode("utf-8", "backslashreplace")
    return record if len(record) <= most else record[:most] + "…"
