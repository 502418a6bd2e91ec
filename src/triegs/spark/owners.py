"""Which query of which checkpoint owns the directory of a sink.

A sink's files are named by batch number, and an existing file is left as it is, so that a repeated
batch is written once. A number must therefore never mean two things: two queries, or two
checkpoints, that share a directory would skip each other's changes. Conflicts raise an error at the
start, before anything runs.

::

    <directory>/.triegs-owner   the owner, locked while its pipeline runs; readers of Parquet
                                ignore names that begin with a dot
    <checkpoint>/sinks.json     the checkpoint's identity, its sinks, the first batch of each

In its first batch, a sink gets all answers so far, and from then on the changes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from triegs.durable.files import DiskFiles, write_safely
from triegs.errors import DirectoryInUse, StateDamaged, StateError
from triegs.spark.answers import Sink

OWNER, NOTES, QUARANTINE = ".triegs-owner", "sinks.json", "quarantine"
_BATCH = re.compile(r"(\d{20})\.parquet")
NONE_YET = -1
INSTEAD = "give each query of each checkpoint a directory of its own"


class Owner(NamedTuple):
    """The content of the owner file; the path of the checkpoint is only informative."""

    identity: str
    checkpoint: str
    query: str
    what: str
    sink: str

    def __str__(self) -> str:
        return f"the {self.what} of query {self.query!r} of checkpoint {self.checkpoint}"


class KnownSink(NamedTuple):
    """A sink of a checkpoint: its first batch, None until it is settled; and the last batch before
    a start without this sink.
    """

    first: int | None
    left: int | None = None


class Folder:
    """The directory of a sink. From `lock` to `close`, nobody else can own it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._number = -1
        self._look()

    def _look(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise StateError(f"{self.path} is a file; a sink must be a directory")
        names = sorted(each.name for each in self.path.iterdir()) if self.path.exists() else []
        visible = [name for name in names if not name.startswith((".", "_"))]
        self.batches = [int(found[1]) for found in map(_BATCH.fullmatch, visible) if found]
        self.others = [name for name in visible if not _BATCH.fullmatch(name)]
        self.owner = self._read()

    def _read(self) -> Owner | None:
        """The owner; None without one, or if a crash interrupted writing it, which precedes any
        batch.
        """
        try:
            return Owner(**json.loads((self.path / OWNER).read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def lock(self) -> None:
        """Lock the directory, and read it again: its owner may have changed."""
        import fcntl

        DiskFiles().make_folder(self.path)
        self._number = os.open(self.path / OWNER, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = self._read() or "another pipeline"
            raise DirectoryInUse(
                f"{self.path} is in use by a running pipeline for {owner}; {INSTEAD}"
            ) from None
        self._look()

    def claim(self, owner: Owner) -> None:
        """Write the owner; durable on return."""
        if self.owner != owner:
            os.ftruncate(self._number, 0)
            os.pwrite(self._number, json.dumps(owner._asdict()).encode() + b"\n", 0)
            os.fsync(self._number)
            DiskFiles().sync_folder(self.path)
            self.owner = owner

    def close(self) -> None:
        number, self._number = self._number, -1
        if number >= 0:
            os.close(number)


class Owners:
    """The sinks of a pipeline. The constructor checks them, `claim` records the ownership, and
    `begin` assigns first batches. Cost: the names in the directories.

    `delivered` is the last batch delivered to sinks, `known` are the queries that the checkpoint
    had before this start.
    """

    def __init__(
        self, home: Path, sinks: Mapping[str, list[Sink]], known: Collection[str], delivered: int
    ) -> None:
        self.home = home
        self._queries = known
        self._delivered = delivered
        notes = _read_notes(home)
        self._is_old = notes is None and delivered > NONE_YET  # written before owners existed
        self.identity = str(notes["identity"]) if notes else uuid4().hex
        self._noted = (
            {key: KnownSink(*found) for key, found in notes["sinks"].items()} if notes else {}
        )
        self._folders: list[tuple[Folder, Owner]] = []
        self._given: dict[str, KnownSink] = {}
        self._keys: dict[str, list[str]] = {}
        try:
            self._require_behind(Folder(home / QUARANTINE))
            for name, several in sinks.items():
                functions = 0
                for sink in several:
                    if callable(sink.target):
                        self._add_function(name, f"function {functions} of {name}")
                        functions += 1
                    else:
                        self._add_folder(name, sink.what, Folder(Path(sink.target)))
        except BaseException:
            self.close()
            raise

    def _add_function(self, name: str, key: str) -> None:
        """Functions have no state to inspect, so they are identified by their order."""
        if name not in self._queries:
            found = KnownSink(None)
        elif self._is_old:
            found = KnownSink(0)
        else:
            found = self._noted.get(key, KnownSink(None))
            if found.left not in (None, self._delivered):
                found = KnownSink(None)
        self._keep(name, key, found)

    def _add_folder(self, name: str, what: str, folder: Folder) -> None:
        ours = Owner(self.identity, str(self.home), name, what, uuid4().hex)
        self._require_free(folder, ours)
        self._folders.append((folder, ours))
        folder.lock()
        self._require_free(folder, ours)
        owner = folder.owner
        if owner is not None and _is_same(owner, ours):
            ours = ours._replace(sink=owner.sink)
            self._folders[-1] = folder, ours
        found = self._noted.get(ours.sink, KnownSink(None))
        if folder.owner is None and folder.batches:
            found = KnownSink(0)  # this checkpoint wrote it before owners existed
        elif not folder.batches and found.left not in (None, self._delivered):
            found = KnownSink(None)
        self._keep(name, ours.sink, found)

    def _require_free(self, folder: Folder, ours: Owner) -> None:
        owner, path = folder.owner, folder.path
        if owner is not None and not _is_same(owner, ours):
            if folder.batches or folder.others:
                raise StateError(
                    f"{path} contains {owner}, so it cannot be used for {ours}; {INSTEAD}"
                )
            return  # empty, so it can be taken over
        if folder.others and owner is None:
            raise StateError(
                f"{path} has files that belong to no batch, such as {folder.others[0]}, so it "
                f"cannot be used for {ours}; use an empty or a new directory"
            )
        if not folder.batches:
            return
        if owner is None and not (self._is_old and ours.query in self._queries):
            raise StateError(
                f"{path} has changes that {ours} did not write (batch {folder.batches[0]}, without "
                f"a recorded owner); {INSTEAD}"
            )
        if ours.query not in self._queries:
            raise StateError(
                f"{path} has changes of an earlier query {ours.query!r} of this checkpoint, which "
                "was closed; use an empty or a new directory for the new one"
            )
        self._require_behind(folder)
        noted = None if owner is None else self._noted.get(owner.sink)
        if owner is not None and (noted is None or noted.left not in (None, self._delivered)):
            raise StateError(
                f"{path} lacks batches: the checkpoint {self.home} ran without this sink; use an "
                "empty or a new directory, which first gets all answers"
            )

    def _require_behind(self, folder: Folder) -> None:
        if folder.batches and folder.batches[-1] > self._delivered + 1:
            has = "none" if self._delivered < 0 else f"only batches up to {self._delivered}"
            raise StateError(
                f"{folder.path} has batch {folder.batches[-1]}, but the checkpoint {self.home} has "
                f"{has}: it was replaced by another, or by an older copy. Restore the right one, "
                "or start with a new checkpoint and new directories"
            )

    def _keep(self, name: str, key: str, found: KnownSink) -> None:
        # A sink that has received nothing starts with the next batch.
        is_delivered = found.first is not None and found.first <= self._delivered
        self._given[key] = KnownSink(found.first if is_delivered else None)
        self._keys.setdefault(name, []).append(key)

    def claim(self) -> None:
        """Record the ownership of the directories."""
        for folder, owner in self._folders:
            folder.claim(owner)
        self._write()

    def begin(self, delivered: int) -> dict[str, list[int]]:
        """The first batch of each sink, by query; for new sinks, the next batch."""
        self._given = {
            key: known if known.first is not None else KnownSink(delivered + 1)
            for key, known in self._given.items()
        }
        self._write()
        return {
            name: [self._given[key].first or 0 for key in keys] for name, keys in self._keys.items()
        }

    def _write(self) -> None:
        """Includes sinks that this start leaves out, as long as they miss no batch."""
        left = {
            key: [known.first, self._delivered]
            for key, known in self._noted.items()
            if key not in self._given and known.left in (None, self._delivered)
        }
        given = {key: list(known) for key, known in self._given.items()}
        _write_notes(self.home, {"identity": self.identity, "sinks": {**left, **given}})

    def close(self) -> None:
        """Unlock the directories. Idempotent."""
        for folder, _ in self._folders:
            folder.close()


def _is_same(owner: Owner, ours: Owner) -> bool:
    """Whether two owners are the same, even if the checkpoint has moved."""
    return (owner.identity, owner.query, owner.what) == (ours.identity, ours.query, ours.what)


def _read_notes(home: Path) -> Any:
    try:
        return json.loads((home / NOTES).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        raise StateDamaged("not valid JSON", file=home / NOTES) from None


def _write_notes(home: Path, content: Mapping[str, Any]) -> None:
    files = DiskFiles()
    files.make_folder(home)
    write_safely(files, home / NOTES, [[json.dumps(content, indent=2).encode() + b"\n"]])
