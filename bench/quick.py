"""The goals of speed and size in five minutes: ``python -m bench.quick [section …]``.

A figure counts only if its run gave the right answers; otherwise the run prints FAILED and exits
with 1. A goal that is missed is shown and changes no exit code.
"""

from __future__ import annotations

from bench.pages import publish
from bench.run import Section, start
from bench.sections.aggregates import measure_aggregates
from bench.sections.classes import measure_classes
from bench.sections.cycles import measure_cycles
from bench.sections.enumeration import measure_enumeration
from bench.sections.iris import measure_iris
from bench.sections.lanes import measure_lanes
from bench.sections.large import measure_large
from bench.sections.limits import measure_limits
from bench.sections.memory import measure_memory
from bench.sections.morsels import measure_morsels
from bench.sections.projection import measure_projection
from bench.sections.reasoning import measure_reasoning
from bench.sections.server import measure_server
from bench.sections.sharing import measure_sharing
from bench.sections.single import measure_single
from bench.sections.slides import measure_slides
from bench.sections.windows import measure_windows

SECTIONS: dict[str, Section] = {
    "slides": measure_slides,
    "iris": measure_iris,
    "enumeration": measure_enumeration,
    "memory": measure_memory,
    "single": measure_single,
    "limits": measure_limits,
    "sharing": measure_sharing,
    "classes": measure_classes,
    "projection": measure_projection,
    "cycles": measure_cycles,
    "large": measure_large,
    "windows": measure_windows,
    "aggregates": measure_aggregates,
    "reasoning": measure_reasoning,
    "lanes": measure_lanes,
    "morsels": measure_morsels,
    "server": measure_server,
}

if __name__ == "__main__":
    start("triegs, quick benchmark", SECTIONS, publish=publish)
