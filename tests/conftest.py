"""Hypothesis profiles, chosen by the environment variable ``TRIEGS_PROFILE``.

``short`` (the default) draws the same examples in every run, so a red build can be repeated.
``long`` and ``soak`` draw fresh ones and print what reproduces a failure; commit that example
with ``@example``. A test that fixes ``max_examples`` itself opts out of all three.

Every test that draws, every test in ``tests/property``, and every test of a module that asks for
the profile itself (it has a ``SOAK``) has the marker ``property``.

``make test`` distributes tests with ``--dist loadgroup``. The tests of a module run in one process,
because they share what the module makes once. So do modules with operators of their own, which take
minutes to compile. Modules that use the Spark session run in only `SESSIONS` of the processes,
because a session takes half a minute of processor time to warm up.
They start first, then other modules of ``tests/spark``, those with the marker ``property``, and
those that start processes: a long one must not be left for the end.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Generator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from tests.commands import build_commands_once
from tests.spark.archive import choose_environment
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from triegs.engine import Engine
from triegs.jit.jit import COMPILED
from triegs.maintain import compiled

for _name, _value in choose_environment().items():
    os.environ.setdefault(_name, _value)

build_commands_once()

# Wall-clock limits say more about the machine than about the code.
_untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

# Kernels as plain Python repeat what compiled ones have just shown, a hundred times slower.
settings.register_profile(
    "short", parent=_untimed, max_examples=20 if COMPILED else 8, derandomize=True
)
settings.register_profile("long", parent=_untimed, max_examples=500)
settings.register_profile("soak", parent=_untimed, max_examples=1_000)
settings.load_profile(os.environ.get("TRIEGS_PROFILE", "short"))

# Every table that a test's engine runs is checked first: docs/maintenance.md has the invariants.
compiled.CHECKS_TABLES = True

ROOT = Path(__file__).parents[1]
PROPERTIES = ROOT / "tests" / "property"
SPARK = ROOT / "tests" / "spark"
# The process that schedules sees no fixtures, only names of tests.
IN_SESSION = {
    path
    for path in SPARK.glob("test_*.py")
    if re.search(r"^def \w+\([^)]*\bspark\b", path.read_text(encoding="utf-8"), re.MULTILINE)
}

STARTS_PROCESSES = {
    path
    for path in (ROOT / "tests").glob("*/test_*.py")
    if "subprocess" in path.read_text(encoding="utf-8")
}

# Modules with operators of their own, which every process that uses them compiles.
WITH_OPERATORS = {
    path
    for path in (ROOT / "tests" / "aggregates").glob("test_*.py")
    if re.search(r"tests\.aggregates\.(models|streams)\b", path.read_text(encoding="utf-8"))
}

# Spark sessions of a run in several processes. On two cores a second one takes as long to warm up
# as it saves.
SESSIONS = 1


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """No search for examples where there are none, which took each process three seconds."""
    collectors = yield
    if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
        return [found for found in collectors if not isinstance(found, DoctestModule)]
    return collectors


def pytest_collection_finish() -> None:
    """Keep the garbage collector off what stays to the end, hundreds of thousands of objects, and
    let it look less often for cycles, which Hypothesis and the checks make few of.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker and xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        draws = getattr(getattr(item, "function", None), "is_hypothesis_test", False)
        asks = hasattr(getattr(item, "module", None), "SOAK")
        if draws or asks or PROPERTIES in item.path.parents:
            item.add_marker(pytest.mark.property)
    if config.getoption("loadgroup", False):  # xdist sets it in its workers
        distribute(items)


def distribute(items: list[pytest.Item]) -> None:
    """Put what takes longest first."""
    modules = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    slow = {tests[0].path for tests in modules if any(map(is_slow, tests))}
    items.sort(key=lambda item: (item.path not in IN_SESSION, item.path not in slow))  # stable


class ByModule(LoadScopeScheduling):
    """A module goes to one process; one that needs Spark only to a process that has a session.

    Markers of xdist would do it, but pytest 9.2 ignores the names that xdist gives to groups.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._with_session: set[Any] = set()

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return "operators" if ROOT / module in WITH_OPERATORS else module

    def _assign_work_unit(self, node: Any) -> None:
        """The first module in the queue that the process may run; without one it ends."""
        self._with_session &= set(self.nodes)  # a process that crashed makes room for another
        may_use = node in self._with_session or len(self._with_session) < SESSIONS
        for scope in self.workqueue:
            needs_session = ROOT / scope in IN_SESSION
            if may_use or not needs_session:
                break
        else:
            node.shutdown()
            return
        if needs_session:
            self._with_session.add(node)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the process with the Spark session go first: its tests are the longest chain, and much
    of their time is latency, in which the other processes run.
    """
    is_patient = "PYTEST_XDIST_WORKER" in os.environ and item.path not in IN_SESSION
    if is_patient and not _niced and hasattr(os, "nice"):
        _niced.append(os.nice(PATIENCE))


#: How far the other processes step back.
PATIENCE = 5
_niced: list[int] = []


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Compile the kernels before there are processes that would all do so."""
    with Engine():
        pass


@pytest.hookimpl(optionalhook=True)  # without xdist nothing is distributed
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByModule | None:
    if config.getoption("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # the order of `distribute`, not the number of tests
    return ByModule(config, log)


def is_slow(item: pytest.Item) -> bool:
    """Whether it is a property, or may start a Spark of its own or another process."""
    is_property = item.get_closest_marker("property") is not None
    return is_property or SPARK in item.path.parents or item.path in STARTS_PROCESSES
