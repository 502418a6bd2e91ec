"""Hypothesis profiles, chosen by the environment variable ``TRIEGS_PROFILE``.

``short`` (the default) draws the same examples in every run, so a red build can be repeated.
``long`` and ``soak`` draw fresh ones and print what reproduces a failure; commit that example
with ``@example``. A test that fixes ``max_examples`` itself opts out of all three.

Every test that draws, every test in ``tests/property``, and every test of a module that asks for
the profile itself (it has a ``SOAK``) has the marker ``property``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Java spends more time on compiling well than tests have it run: a third less of it this way.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Wall-clock limits say more about the machine than about the code.
_untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("short", parent=_untimed, max_examples=100, derandomize=True)
settings.register_profile("long", parent=_untimed, max_examples=500)
settings.register_profile("soak", parent=_untimed, max_examples=1_000)
settings.load_profile(os.environ.get("TRIEGS_PROFILE", "short"))

PROPERTIES = Path(__file__).parent / "property"


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        draws = getattr(getattr(item, "function", None), "is_hypothesis_test", False)
        asks = hasattr(getattr(item, "module", None), "SOAK")
        if draws or asks or PROPERTIES in item.path.parents:
            item.add_marker(pytest.mark.property)
