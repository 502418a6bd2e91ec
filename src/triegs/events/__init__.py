"""Files to batches of events: `open_input`.

Reading order: `source` (the public entry point), `files` and `streams` (bytes), then the readers
by format: `statements` (N-Triples, N-Quads) and `separated` (CSV, TSV) on top of `scan_kernels`,
`json_lines`, `tables` (Parquet, Arrow), `documents` (Turtle, TriG, RDF/XML), `frames` (Jelly).
Columnar formats end in `event_columns`.

Names are loaded on first use, so listing files does not load kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triegs.events.report import InputReport
    from triegs.events.source import Source, open_input

_HOME = {"InputReport": "report", "Source": "source", "open_input": "source"}

__all__ = ["InputReport", "Source", "open_input"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"triegs.events.{_HOME[name]}"), name)
    raise AttributeError(f"module 'triegs.events' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
