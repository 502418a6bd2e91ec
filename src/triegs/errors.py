"""Every error that triegs raises on purpose.

::

    TriegsError
    ├── QueryError            the query text is wrong; says where
    │   └── UnsupportedQuery  the query is right SPARQL, outside the fragment
    ├── PlanError             a forced plan choice does not fit the query
    ├── WindowError           a window or a setting of event time that makes no sense
    ├── BadOption             an option with a value that it cannot have; also a ValueError
    ├── BadTerm               a value that is no RDF term; also a ValueError
    ├── InputError            a file that cannot be read, or a record in strict mode; says where
    │   └── MappingError      a mapping of rows to triples that cannot be read, or does not fit
    ├── CannotWrite           an output that the disk refuses; says which, and why
    ├── InvalidUpdate         a strict epoch had a deletion that finds nothing; nothing changed
    ├── MultiplicityOverflow  a count that 64 bits cannot hold; names the view
    ├── MemoryLimitReached    the change found no room and was not made; also a MemoryError
    ├── SnapshotExpired       a snapshot was read after it was closed, or its lease was over
    ├── HistoryGone           an epoch that nobody holds any more, or that was before the query
    ├── NotCopied             something that belongs to its process was pickled or copied; also a
    │                         TypeError
    ├── StateDamaged          a file of an engine's directory is not what was written; says where
    │   └── LogDamaged        it is the log; says up to which record it is good
    ├── LogFailed             the log did not take a record, or a sync failed; nothing changed
    └── StateError            the engine cannot do this now (closed, or in use by another thread)
        └── DirectoryInUse    another process has the directory open; says which

    QueryWarning              not an error: a query that most likely is not what was meant
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path


class TriegsError(Exception):
    """Base of all errors of this package: ``except TriegsError`` catches each of them.

    Each can be pickled, with all that it says.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by a call of its class, which takes other arguments than those that it keeps.
        return _restore, (type(self), self.args), dict(self.__dict__)


def _restore(kind: type[TriegsError], args: tuple[Any, ...]) -> TriegsError:
    return Exception.__new__(kind, *args)


class QueryError(TriegsError):
    """A query text that cannot be read; names the place and what would be right.

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
    """Correct SPARQL that triegs refuses, with what could be written instead in ``hint``."""


class QueryWarning(UserWarning):
    """A query that is right SPARQL and most likely a slip, such as a variable that nothing binds.

    ``warnings.simplefilter("error", triegs.QueryWarning)`` makes an error of it.
    """


class PlanError(TriegsError):
    """A plan choice (root, absorption, payload) that this query does not have."""


class WindowError(TriegsError, ValueError):
    """A window, a duration or a setting of event time that makes no sense; says why."""


class BadOption(TriegsError, ValueError):
    """An option with a value that it cannot have; says which ones it can."""


class BadTerm(TriegsError, ValueError):
    """A value that is no term; says what is wrong with it."""


class InvalidUpdate(TriegsError):
    """An epoch that was refused as a whole; `refused` says which updates, and why."""

    def __init__(self, message: str, refused: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.refused = refused


class MultiplicityOverflow(TriegsError):
    """A count that does not fit 64 bits; `view` names where."""

    def __init__(self, message: str, view: str) -> None:
        super().__init__(message)
        self.view = view


class MemoryLimitReached(TriegsError, MemoryError):
    """No room under the memory limit for a change, which was not made.

    Closing snapshots or queries, or deleting, makes room; then the same change may be tried again.
    """


class SnapshotExpired(TriegsError):
    """A snapshot that was closed, or whose lease is over; what it held may be gone."""


class HistoryGone(TriegsError):
    """An epoch whose answers are gone; says which epochs are held."""


class NotCopied(TriegsError, TypeError):
    """What was pickled or copied belongs to its process; says what can be taken out of it."""


class StateError(TriegsError):
    """Something that cannot be done in the engine's present state."""


class DirectoryInUse(StateError):
    """A directory that another process, or another engine of this one, has open."""


class StateDamaged(TriegsError):
    """A file that is not what was written; it is not read, and nothing on disk was changed.

    ``file`` and ``offset`` say where.
    """

    def __init__(self, reason: str, *, file: Path, offset: int = 0) -> None:
        super().__init__(f"{file}, byte {offset}: {reason}")
        self.reason = reason
        self.file = file
        self.offset = offset


class LogDamaged(StateDamaged):
    """A log whose synced records cannot all be read; those up to ``good_until`` are whole."""

    def __init__(self, reason: str, *, file: Path, offset: int, good_until: int) -> None:
        super().__init__(f"{reason}; good until record {good_until}", file=file, offset=offset)
        self.good_until = good_until


class LogFailed(TriegsError):
    """The disk refused what the log asked of it; ``reason`` says what, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InputError(TriegsError):
    """An input that cannot be read, or in strict mode its first malformed record.

    ``file`` and ``line`` say where, as far as that is known; lines count from 1. ``columns`` are
    those of a table that lacks one of ours.
    """

    def __init__(
        self, message: str, *, file: str = "", line: int = 0, columns: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.columns = columns


class MappingError(InputError):
    """A mapping that cannot be read, or names a column that a table does not have; says where in
    the mapping, and what there is instead.
    """


class CannotWrite(TriegsError):
    """An output that cannot be made or written."""

    @classmethod
    def name(cls, path: str | PathLike[str], error: OSError) -> CannotWrite:
        """What the system says of a file.

        >>> print(CannotWrite.name("a.csv", OSError(28, "No space left on device")))
        cannot write a.csv: No space left on device
        """
        return cls(f"cannot write {path}: {error.strerror or error}")
