"""Whose a directory of a sink is: that of one query of one checkpoint.

Files of a sink are named by the batch, and one that is there is left as it is, which is how a batch
that comes again is written once. So a number must never mean two things: two queries, or two
checkpoints, with one directory would pass over each other's changes. What does not fit is an error
at the start, before anything runs.

::

    <directory>/.triegs-owner   whose it is, locked while its pipeline runs; readers of Parquet pass
                                over names that begin with a point
    <checkpoint>/sinks.json     who the checkpoint is, its sinks, and the first batch of each

A sink gets in its first batch all answers from before it, and from then on what changes.
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
    """What the file in a directory says; the place of the checkpoint is for readers of it."""

    identity: str
    checkpoint: str
    query: str
    what: str
    sink: str

    def __str__(self) -> str:
        return f"the {self.what} of query {self.query!r} of checkpoint {self.checkpoint}"


class Known(NamedTuple):
    """A sink of a checkpoint: the first batch that it gets, None before that is settled; and the
    last batch before a start that left it out.
    """

    first: int | None
    left: int | None = None


class Folder:
    """The directory of a sink. From `lock` to `close` nobody else is its owner."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._number = -1
        self._look()

    def _look(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise StateError(f"{self.path} is a file; a sink is a directory")
        names = sorted(each.name for each in self.path.iterdir()) if self.path.exists() else []
        seen = [name for name in names if not name.startswith((".", "_"))]
        self.batches = [int(found[1]) for found in map(_BATCH.fullmatch, seen) if found]
        self.others = [name for name in seen if not _BATCH.fullmatch(name)]
        self.owner = self._read()

    def _read(self) -> Owner | None:
        """The owner; None without one, and if it was about to be written when its process died:
        there is no file of a batch before that.
        """
        try:
            return Owner(**json.loads((self.path / OWNER).read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def lock(self) -> None:
        """Let nobody else be its owner, and look once more: it may have been somebody's since."""
        import fcntl

        DiskFiles().make_folder(self.path)
        self._number = os.open(self.path / OWNER, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = self._read() or "another pipeline"
            raise DirectoryInUse(
                f"{self.path} is in use for {owner}, which is running; {INSTEAD}"
            ) from None
        self._look()

    def claim(self, owner: Owner) -> None:
        """Write whose it is; on return it survives a loss of power."""
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
    """The sinks of a pipeline: checked when this is made, written by `claim`, and given their first
    batches by `begin`. Cost: the names in the directories.

    `told` is the last batch that sinks were told of, `known` are the queries that the checkpoint
    had before this start.
    """

    def __init__(
        self, home: Path, sinks: Mapping[str, list[Sink]], known: Collection[str], told: int
    ) -> None:
        self.home = home
        self._queries = known
        self._told = told
        notes = _read_notes(home)
        self._is_old = notes is None and told > NONE_YET  # from before there were owners
        self.identity = str(notes["identity"]) if notes else uuid4().hex
        self._noted = {key: Known(*found) for key, found in notes["sinks"].items()} if notes else {}
        self._folders: list[tuple[Folder, Owner]] = []
        self._given: dict[str, Known] = {}
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
        """A function has no memory that could be looked into: it is told apart by its place."""
        if name not in self._queries:
            found = Known(None)
        elif self._is_old:
            found = Known(0)
        else:
            found = self._noted.get(key, Known(None))
            if found.left not in (None, self._told):
                found = Known(None)
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
        found = self._noted.get(ours.sink, Known(None))
        if folder.owner is None and folder.batches:
            found = Known(0)  # it is of this checkpoint, from before there were owners
        elif not folder.batches and found.left not in (None, self._told):
            found = Known(None)
        self._keep(name, ours.sink, found)

    def _require_free(self, folder: Folder, ours: Owner) -> None:
        owner, path = folder.owner, folder.path
        if owner is not None and not _is_same(owner, ours):
            if folder.batches or folder.others:
                raise StateError(f"{path} has {owner}, so it is not for {ours}; {INSTEAD}")
            return  # nothing was written: it is taken over
        if folder.others and owner is None:
            raise StateError(
                f"{path} has files that are no batch's, such as {folder.others[0]}: it cannot be "
                f"for {ours}; give an empty or a new directory"
            )
        if not folder.batches:
            return
        if owner is None and not (self._is_old and ours.query in self._queries):
            raise StateError(
                f"{path} has changes that {ours} did not write (batch {folder.batches[0]}, and "
                f"no owner is noted); {INSTEAD}"
            )
        if ours.query not in self._queries:
            raise StateError(
                f"{path} has changes of an earlier query {ours.query!r} of this checkpoint, which "
                "was closed; give the new one an empty or a new directory"
            )
        self._require_behind(folder)
        noted = None if owner is None else self._noted.get(owner.sink)
        if owner is not None and (noted is None or noted.left not in (None, self._told)):
            raise StateError(
                f"{path} lacks batches: the checkpoint {self.home} went on without this sink; "
                "give an empty or a new directory, which gets all answers first"
            )

    def _require_behind(self, folder: Folder) -> None:
        if folder.batches and folder.batches[-1] > self._told + 1:
            raise StateError(
                f"{folder.path} has batch {folder.batches[-1]}, and the checkpoint {self.home} "
                f"{f'only those up to {self._told}' if self._told >= 0 else 'none'}: it was "
                "replaced by another, or by an older copy. Bring the right one back, or start "
                "with a new checkpoint and other directories"
            )

    def _keep(self, name: str, key: str, found: Known) -> None:
        # One that was not told anything yet begins with whatever batch comes next.
        is_told = found.first is not None and found.first <= self._told
        self._given[key] = Known(found.first if is_told else None)
        self._keys.setdefault(name, []).append(key)

    def claim(self) -> None:
        """Write whose the directories are."""
        for folder, owner in self._folders:
            folder.claim(owner)
        self._write()

    def begin(self, told: int) -> dict[str, list[int]]:
        """The first batch of each sink, by query; of those that are new, it is the next one."""
        self._given = {
            key: known if known.first is not None else Known(told + 1)
            for key, known in self._given.items()
        }
        self._write()
        return {
            name: [self._given[key].first or 0 for key in keys] for name, keys in self._keys.items()
        }

    def _write(self) -> None:
        """With the sinks that this start leaves out, for as long as they miss no batch."""
        left = {
            key: [known.first, self._told]
            for key, known in self._noted.items()
            if key not in self._given and known.left in (None, self._told)
        }
        given = {key: list(known) for key, known in self._given.items()}
        _write_notes(self.home, {"identity": self.identity, "sinks": {**left, **given}})

    def close(self) -> None:
        """Let the directories go. Harmless when repeated."""
        for folder, _ in self._folders:
            folder.close()


def _is_same(owner: Owner, ours: Owner) -> bool:
    """Whether an owner is this one, wherever the checkpoint was then."""
    return (owner.identity, owner.query, owner.what) == (ours.identity, ours.query, ours.what)


def _read_notes(home: Path) -> Any:
    try:
        return json.loads((home / NOTES).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        raise StateDamaged("this is not what was written", file=home / NOTES) from None


def _write_notes(home: Path, content: Mapping[str, Any]) -> None:
    files = DiskFiles()
    files.make_folder(home)
    write_safely(files, home / NOTES, [[json.dumps(content, indent=2).encode() + b"\n"]])
