"""Files to batches of events: `open_input`.

Read in this order: `source` (what a caller gets), `files` and `streams` (which bytes), then the
readers by format: `statements` (N-Triples, N-Quads) and `separated` (CSV, TSV) over the kernels in
`scanning`, `json_lines`, `tables` (Parquet, Arrow), `documents` (Turtle, TriG), `frames` (Jelly).
Formats with columns end in `shaping`.
"""

from __future__ import annotations

from triegs.inputs.report import InputReport
from triegs.inputs.source import Source, open_input

__all__ = ["InputReport", "Source", "open_input"]
