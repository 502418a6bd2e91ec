"""Every error that triegs raises on purpose.

::

    TriegsError
    ├── QueryError            the query text is invalid; has its position
    │   ├── UnsupportedQuery  valid SPARQL outside the supported fragment
    │   └── RuleError         the text of rules is invalid or not supported
    ├── PlanError             a forced plan choice does not fit the query
    ├── WindowError           an invalid window, duration or event-time setting; also a ValueError
    ├── BadOption             an invalid value of an option; also a ValueError
    ├── BadTerm               a value that is not an RDF term; also a ValueError
    ├── InputError            an unreadable file, or a malformed record in strict mode
    │   └── MappingError      an invalid mapping of rows to triples, or one that does not fit
    ├── CannotWrite           an output that cannot be written
    ├── InvalidUpdate         an epoch that was rejected as a whole; nothing changed
    ├── MultiplicityOverflow  a count that exceeds 64 bits; names the view
    ├── MemoryLimitReached    no room for the change, which was not made; also a MemoryError
    ├── TimeLimitReached      a query took longer to register than allowed; nothing changed
    ├── SnapshotExpired       the snapshot is closed, or its lease is over
    ├── HistoryGone           the epoch is no longer held, or precedes the query
    ├── NotCopied             an object bound to its process was pickled or copied; also a
    │                         TypeError
    ├── StateDamaged          a corrupt file in the engine directory; has file and offset
    │   └── LogDamaged        the corrupt file is the log; has the last intact record
    ├── LogFailed             a log write or sync failed; nothing changed
    ├── RequestFailed         a server refused a request of `triegs.client`; has the status
    └── StateError            the engine cannot do this now (closed, or in use by another thread)
        └── DirectoryInUse    another process has the directory open; names it

    QueryWarning              not an error: a query that is most likely a mistake
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path


class TriegsError(Exception):
    """Base of all errors of this package. All of them can be pickled, with their attributes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Calling the class would fail: its parameters differ from the stored arguments.
        return _restore, (type(self), self.args), dict(self.__dict__)


def _restore(kind: type[TriegsError], args: tuple[Any, ...]) -> TriegsError:
    return Exception.__new__(kind, *args)


class QueryError(TriegsError):
    """The query text is not valid. Has ``line``, ``column``, ``construct`` and ``hint``.

    >>> error = QueryError("unknown prefix 'ex:'", line=2, column=5, construct="prefix",
    ...                    hint="declare it with PREFIX ex: <…>")
    >>> print(error)
    line 2, column 5: unknown prefix 'ex:'; declare it with PREFIX ex: <…>
    """

    def __init__(
        self, message: str, *, line: int, column: int, construct: str, hint: str = ""
    ) -> None:
        text = f"line {line}, column {column}: {message}"
        super().__init__(f"{text}; {hint}" if hint else text)
        self.message = message
        self.line = line
        self.column = column
        self.construct = construct
        self.hint = hint


class UnsupportedQuery(QueryError):
    """Valid SPARQL that triegs, or the engine, does not support; ``hint`` has an alternative."""


class RuleError(QueryError):
    """The text of rules is invalid, or uses an unsupported construct, such as negation."""


class QueryWarning(UserWarning):
    """A Python warning: a valid query that is most likely a mistake, such as an unbound variable.

    ``warnings.simplefilter("error", triegs.QueryWarning)`` turns it into an error.
    """


class PlanError(TriegsError):
    """The query does not have the requested plan choice (root, absorption, payload)."""


class WindowError(TriegsError, ValueError):
    """An invalid window, duration or event-time setting. Also a `ValueError`."""


class BadOption(TriegsError, ValueError):
    """An invalid value of an option; the message lists the valid ones. Also a `ValueError`."""


class BadTerm(TriegsError, ValueError):
    """A value that is not an RDF term; the message says why. Also a `ValueError`."""


class InvalidUpdate(TriegsError):
    """A strict epoch, a table or a file was rejected as a whole; nothing changed.

    ``refused`` lists the invalid updates with their reasons.
    """

    def __init__(self, message: str, refused: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.refused = refused


class MultiplicityOverflow(TriegsError):
    """A count exceeds 64 bits; ``view`` names the view."""

    def __init__(self, message: str, view: str) -> None:
        super().__init__(message)
        self.view = view


class MemoryLimitReached(TriegsError, MemoryError):
    """No room under the memory limit; nothing changed. Also a `MemoryError`.

    Close snapshots or queries, or delete, to make room; then retry the change.
    """


class TimeLimitReached(TriegsError):
    """Registering a query took longer than its limit; nothing changed."""


class SnapshotExpired(TriegsError):
    """The snapshot is closed, or its lease is over."""


class HistoryGone(TriegsError):
    """The epoch is no longer held, or precedes the query; the message lists the held epochs."""


class NotCopied(TriegsError, TypeError):
    """An object bound to its process was pickled or copied. Also a `TypeError`.

    The message says what to send instead.
    """


class StateError(TriegsError):
    """The engine or query is closed, another thread updates it, or its state forbids the call."""


class DirectoryInUse(StateError):
    """Another process, or another engine of this one, has the directory open."""


class StateDamaged(TriegsError):
    """A corrupt file in the engine directory. Nothing on disk was changed.

    ``file`` and ``offset`` locate the damage, ``reason`` describes it.
    """

    def __init__(self, reason: str, *, file: Path, offset: int = 0) -> None:
        super().__init__(f"{file}, byte {offset}: {reason}")
        self.reason = reason
        self.file = file
        self.offset = offset


class LogDamaged(StateDamaged):
    """A corrupt log: synced records cannot be read. Those up to ``good_until`` are intact."""

    def __init__(self, reason: str, *, file: Path, offset: int, good_until: int) -> None:
        super().__init__(f"{reason}; good until record {good_until}", file=file, offset=offset)
        self.good_until = good_until


class LogFailed(TriegsError):
    """A log write or sync failed and nothing changed; ``reason`` has the cause.

    After a failed write, retry. After a failed sync, reopen the engine.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RequestFailed(TriegsError):
    """A server refused a request, or cannot be reached (``status`` 0).

    ``title`` names the kind of problem, ``detail`` describes it.
    """

    def __init__(self, status: int, title: str, detail: str = "") -> None:
        super().__init__(f"{title}: {detail}" if detail else title)
        self.status = status
        self.title = title
        self.detail = detail


class InputError(TriegsError):
    """An input that cannot be read, or in strict mode its first malformed record.

    ``file`` and ``line`` (from 1) locate it, if known. If a required column is missing,
    ``columns`` lists those of the table. ``option`` names an option that does not apply.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        line: int = 0,
        columns: tuple[str, ...] = (),
        option: str = "",
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.columns = columns
        self.option = option


class MappingError(InputError):
    """An invalid ``map``, or one that names a column the table does not have.

    The message has the position in the mapping and the columns of the table.
    """


class CannotWrite(TriegsError):
    """An output of ``triegs run`` or another writer cannot be created or written."""

    @classmethod
    def name(cls, path: str | PathLike[str], error: OSError) -> CannotWrite:
        """Create the error from an operating system error for a file.

        >>> print(CannotWrite.name("a.csv", OSError(28, "No space left on device")))
        cannot write a.csv: No space left on device
        """
        return cls(f"cannot write {path}: {error.strerror or error}")
