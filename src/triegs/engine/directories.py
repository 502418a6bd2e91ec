"""Directories of engines, without opening them for writing: ``triegs check``, ``triegs backup``."""

from __future__ import annotations

from pathlib import Path

from triegs.durable import backup, inspection
from triegs.durable.backup import Backup
from triegs.durable.files import Files
from triegs.durable.inspection import Inspection
from triegs.durable.opening import Settings
from triegs.engine.engine import Engine
from triegs.engine.internals import EngineInternals


def inspect(directory: Path, files: Files | None = None) -> Inspection:
    """Check every file, and restore the engine in memory unless a process has it open.

    Nothing on disk changes. `StateError` if there is no engine. Cost: reads everything, and the
    memory and time of opening it.
    """
    return inspection.inspect(directory, _make, files)


def back_up(source: Path, target: Path) -> Backup:
    """Copy a directory to a new one, also while its owner writes; see `triegs.Engine.backup`."""
    return backup.back_up(source, target, _make)


def _make(settings: Settings) -> EngineInternals:
    return Engine._make(settings)._internals
