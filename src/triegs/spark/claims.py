"""Who writes as which source of an inbox, and how far: one small file for each source.

The inbox takes a number of a source once, and passes over one that it has taken. So a number must
never mean two things: a source belongs to one writer, whose numbers go on where they ended. What
does not fit is an error, not a batch that is left out or taken twice.

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
#: The writer of a source that jobs append to, each a batch.
JOBS = "batch jobs"
NONE_YET = -1


@dataclass(frozen=True)
class Claim:
    """A source: who writes it, the number of its last batch, and what was in all of them."""

    source: str
    writer: str
    last: int = NONE_YET
    rows: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)

    def count(self, rows: int, quarantined: dict[str, int]) -> Claim:
        """With the counts of one more batch."""
        reasons = self.quarantined.keys() | quarantined.keys()
        sums = {r: self.quarantined.get(r, 0) + quarantined.get(r, 0) for r in sorted(reasons)}
        return replace(self, rows=self.rows + rows, quarantined=sums)


def read_claims(directory: str | Path) -> dict[str, Claim]:
    """The sources of a directory that Spark writes to, by name. Cost: their number.

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
            raise StateDamaged("this is not what was written", file=path) from None
        found[claim.source] = claim
    return found


@contextmanager
def lock_claims(directory: Path) -> Iterator[None]:
    """One at a time, also of several processes. It ends with the process, whatever ends that."""
    import fcntl

    DiskFiles().make_folder(directory / FOLDER)
    number = os.open(directory / FOLDER / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def write_claim(directory: Path, claim: Claim) -> None:
    """Keep it, in the place of what was there; it survives a loss of power."""
    folder = directory / FOLDER
    values = asdict(claim)
    source = values.pop("source")
    beside = folder / f"{source}.{token_hex(8)}{UNFINISHED}"
    content = json.dumps(values).encode() + b"\n"
    write_safely(DiskFiles(), folder / f"{source}{SUFFIX}", [[content]], beside)


def find_claim(directory: Path, writer: str, given: str | None, default: str) -> Claim:
    """The source of a writer: the one that it has; else the one that was given, or the default.

    `InputError` if that is another's, or if the writer has one and another was given.
    """
    claims = read_claims(directory)
    own = [claim for claim in claims.values() if claim.writer == writer != JOBS]
    if own:
        if given in (None, own[0].source):
            return own[0]
        raise InputError(
            f"{writer} writes to {directory} as source {own[0].source!r}, and now as {given!r}: "
            "a batch that it gives again would be counted twice. Give the same source, or start a "
            "new query"
        )
    source = default if given is None else given
    found = claims.get(source)
    if found is not None and found.writer != writer:
        raise InputError(
            f"source {source!r} of {directory} belongs to {found.writer}, which wrote up to "
            f"batch {found.last}; this is {writer}. If the checkpoint of a query was deleted: what "
            "it has delivered is in the engine, and would be counted twice or left out. Take the "
            "old checkpoint, or an empty engine directory; or give another source in the option "
            "'source' if these are other events"
        )
    return found or Claim(source, writer)


def require_next(claim: Claim, number: int, directory: Path) -> bool:
    """Whether a batch of a streaming query is new; `InputError` if it is not the next or the last.

    Spark gives batches one after the other, and after a failure the last one again. Anything else
    is a checkpoint and an engine that do not belong together.
    """
    if number == claim.last + 1:
        return True
    if number == claim.last:
        return False
    had = "nothing" if claim.last == NONE_YET else f"its batches up to {claim.last}"
    told = "were left out" if number > claim.last else "would be left out"
    raise InputError(
        f"{claim.writer} gives batch {number}, and {directory} has {had}: events {told}. Was the "
        "engine's directory or the checkpoint replaced by another, or by an older copy? Both "
        "belong together; start with a new checkpoint and an empty engine directory, or with "
        "copies of both from one time"
    )
