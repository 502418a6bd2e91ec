"""Benchmarks against other systems, in under ten minutes: ``python -m bench.suite [section …]``.

A wrong answer exits with 1; a missed goal does not. ``--docs docs`` rewrites the tables of
``docs/measurements.md`` and the plots.
"""

from __future__ import annotations

from dataclasses import replace

from bench.pages import publish
from bench.run import Section, Settings, start
from bench.sections.breakeven import measure_breakeven
from bench.sections.changes import measure_changes
from bench.sections.consumers import measure_consumers
from bench.sections.delay import measure_delay
from bench.sections.readers import measure_readers
from bench.sections.sweeps import measure_sweeps

SECTIONS: dict[str, Section] = {
    "consumers": measure_consumers,
    "changes": measure_changes,
    "breakeven": measure_breakeven,
    "sweeps": measure_sweeps,
    "readers": measure_readers,
    "delay": measure_delay,
}
DEFAULTS = replace(Settings(), seconds=0.8)

if __name__ == "__main__":
    start("triegs, benchmark", SECTIONS, DEFAULTS, publish)
