"""What takes longer than a minute to measure: ``python -m bench.full [section …]``.

As `bench/quick.py`: a wrong answer exits with 1, a missed goal does not.
"""

from __future__ import annotations

from dataclasses import replace

from bench.pages import publish
from bench.run import Section, Settings, start
from bench.sections.batches import measure_batches
from bench.sections.cold import measure_cold
from bench.sections.durability import measure_durability
from bench.sections.growth import measure_growth
from bench.sections.inputs import measure_inputs
from bench.sections.interference import measure_interference
from bench.sections.partitions import measure_partitions
from bench.sections.payloads import measure_payloads
from bench.sections.pipeline import measure_pipeline
from bench.sections.skew import measure_hub, measure_zipf

SECTIONS: dict[str, Section] = {
    "batches": measure_batches,
    "inputs": measure_inputs,
    "interference": measure_interference,
    "zipf": measure_zipf,
    "hub": measure_hub,
    "payloads": measure_payloads,
    "cold": measure_cold,
    "durability": measure_durability,
    "pipeline": measure_pipeline,
    "parts": measure_partitions,
    "growth": measure_growth,
}
DEFAULTS = replace(Settings(), seconds=10.0, large_seconds=120.0)

if __name__ == "__main__":
    start("triegs, full benchmark", SECTIONS, DEFAULTS, publish)
