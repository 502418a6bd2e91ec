"""Snapshots of several queries at one epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from triegs.copying import Uncopied
from triegs.read.snapshot import Snapshot


class LanesSnapshot(Mapping[str, Snapshot], Uncopied):
    """The results of queries at one epoch, by name; close it to release them all.

    `epoch` and `time` are those of all lanes. A query that is stalled shows its last good epoch,
    and its `Snapshot.epoch` says so.
    """

    _instead = "it belongs to its lanes; send what to_arrow() gives"

    def __init__(self, epoch: int, time: int | None, snapshots: dict[str, Snapshot]) -> None:
        self.epoch = epoch
        self.time = time
        self._snapshots = snapshots

    def __getitem__(self, name: str) -> Snapshot:
        return self._snapshots[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._snapshots)

    def __len__(self) -> int:
        return len(self._snapshots)

    def close(self) -> None:
        """Release all snapshots."""
        for snapshot in self._snapshots.values():
            snapshot.close()

    def __enter__(self) -> LanesSnapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LanesSnapshot of epoch {self.epoch}: {', '.join(self._snapshots)}>"
