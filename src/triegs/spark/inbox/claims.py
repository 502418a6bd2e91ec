"""Which writer owns a source of an inbox, and its progress: one small file per source.

The inbox applies a number of a source once, and ignores it afterwards. A number must therefore
never mean two things: a source belongs to one writer, whose numbers continue where they ended. A
conflict is an error, instead of a batch that is lost or applied twice.

::

    sources/lock           held while a batch is committed
    sources/<source>.json  its writer, the last number, rows and quarantined rows so far
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from secrets import token_hex

from triegs.durable.files import UNFINISHED, DiskFiles, write_safely
from triegs.errors import InputError, StateDamaged

FOLDER, LOCK, SUFFIX = "sources", "lock", ".json"
#: The writer of a source that batch jobs append to, one batch each.
JOBS = "batch jobs"
NONE_YET = -1


@dataclass(frozen=True)
class Claim:
    """A source: its writer, the number of its last batch, and the counts over all batches."""

    source: str
    writer: str
    last: int = NONE_YET
    rows: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)

    def count(self, rows: int, quarantined: dict[str, int]) -> Claim:
        """Add the counts of one more batch."""
        reasons = self.quarantined.keys() | quarantined.keys()
        sums = {r: self.quarantined.get(r, 0) + quarantined.get(r, 0) for r in sorted(reasons)}
        return replace(self, rows=self.rows + rows, quarantined=sums)


def read_claims(directory: str | Path) -> dict[str, Claim]:
    """The sources of an engine directory that Spark writes to, by name. Cost: their number.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     with lock_claims(Path(directory)):
    ...         write_claim(Path(directory), Claim("feed", "query 7", 3, rows=9))
    ...     read_claims(directory)
    {'feed': Claim(source='feed', writer='query 7', last=3, rows=9, quarantined={})}
    """
    folder = Path(directory) / FOLDER
    found = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else ():
        try:
            claim = Claim(source=path.stem, **json.loads(path.read_bytes()))
        except (ValueError, TypeError):
            raise StateDamaged("not a valid claim", file=path) from None
        found[claim.source] = claim
    return found


@contextmanager
def lock_claims(directory: Path) -> Iterator[None]:
    """An exclusive lock, also between processes; it ends with the process."""
    import fcntl

    DiskFiles().make_folder(directory / FOLDER)
    number = os.open(directory / FOLDER / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def write_claim(directory: Path, claim: Claim) -> None:
    """Replace the claim of a source; durable on return."""
    folder = directory / FOLDER
    values = asdict(claim)
    source = values.pop("source")
    beside = folder / f"{source}.{token_hex(8)}{UNFINISHED}"
    content = json.dumps(values).encode() + b"\n"
    write_safely(DiskFiles(), folder / f"{source}{SUFFIX}", [[content]], beside)


def find_claim(directory: Path, writer: str, given: str | None, default: str) -> Claim:
    """The source of a writer: its own, or else the given one, or the default.

    `InputError` if another writer owns it, or if the writer has a different one.
    """
    claims = read_claims(directory)
    own = [claim for claim in claims.values() if claim.writer == writer != JOBS]
    if own:
        if given in (None, own[0].source):
            return own[0]
        raise InputError(
            f"{writer} writes to {directory} as source {own[0].source!r}, and now as {given!r}: "
            "a repeated batch would be counted twice. Use the same source, or start a new query"
        )
    source = default if given is None else given
    found = claims.get(source)
    if found is not None and found.writer != writer:
        raise InputError(
            f"source {source!r} of {directory} belongs to {found.writer}, which wrote up to "
            f"batch {found.last}; this is {writer}. If the query's checkpoint was deleted, its "
            "delivered events are still in the engine and would be counted twice or lost. Use the "
            "old checkpoint, or an empty engine directory; or, if these are different events, set "
            "the option 'source' to another name"
        )
    return found or Claim(source, writer)


def require_next(claim: Claim, number: int, directory: Path) -> bool:
    """Whether a micro-batch is new; `InputError` if it is neither the next nor the last.

    Spark writes batches in sequence, and repeats the last one after a failure. Anything else means
    that the checkpoint and the engine directory do not belong together.
    """
    if number == claim.last + 1:
        return True
    if number == claim.last:
        return False
    had = "nothing" if claim.last == NONE_YET else f"its batches up to {claim.last}"
    lost = "were lost" if number > claim.last else "would be lost"
    raise InputError(
        f"{claim.writer} writes batch {number}, but {directory} has {had}: events {lost}. The "
        "engine directory or the checkpoint was replaced by another, or by an older copy. Start "
        "with a new checkpoint and an empty engine directory, or with copies of both from the "
        "same time"
    )
