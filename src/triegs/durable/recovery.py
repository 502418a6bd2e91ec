"""What opening a directory found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from triegs.durable.segments import Cut
from triegs.errors import StateDamaged


class Recovery(NamedTuple):
    """What opening a directory found.

    ``checkpoint`` is the last record that the checkpoint covers, 0 without one; ``replayed`` counts
    the records after it. ``cut`` is the incomplete end of the log that a crash left; ``damaged``
    are checkpoints that could not be read; ``lost_holds`` are held epochs from before the
    checkpoint, which are gone; ``lost_queries`` says by name why this version refuses a query,
    which is then closed.
    """

    epoch: int
    checkpoint: int
    replayed: int
    cut: Cut | None
    damaged: tuple[StateDamaged, ...]
    lost_holds: Mapping[str, int]
    lost_queries: Mapping[str, str]
    seconds: float
