"""Hypothesis profiles, chosen by the environment variable ``TRIEGS_PROFILE``.

``short`` (the default) draws the same examples in every run, so a red build can be repeated.
``long`` and ``soak`` draw fresh ones and print what reproduces a failure; commit that example
with ``@example``. A test that fixes ``max_examples`` itself opts out of all three.

Every test that draws, every test in ``tests/property``, and every test of a module that asks for
the profile itself (it has a ``SOAK``) has the marker ``property``.

With ``--dist loadgroup`` tests go to processes one by one; those that share what is costly to make
stay together: a Spark session, which takes half a minute of processor time until it is warm, or
what a module makes once.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from triegs.maintain import compiled

# Java spends more time on compiling well than tests have it run: a third less of it this way.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Wall-clock limits say more about the machine than about the code.
_untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("short", parent=_untimed, max_examples=100, derandomize=True)
settings.register_profile("long", parent=_untimed, max_examples=500)
settings.register_profile("soak", parent=_untimed, max_examples=1_000)
settings.load_profile(os.environ.get("TRIEGS_PROFILE", "short"))

# Every table that a test's engine runs is checked first: docs/maintenance.md has the invariants.
compiled.CHECKS_TABLES = True

PROPERTIES = Path(__file__).parent / "property"


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        draws = getattr(getattr(item, "function", None), "is_hypothesis_test", False)
        asks = hasattr(getattr(item, "module", None), "SOAK")
        if draws or asks or PROPERTIES in item.path.parents:
            item.add_marker(pytest.mark.property)
