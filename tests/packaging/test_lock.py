"""``requirements.lock`` pins what ``pyproject.toml`` requires, and does not name a machine."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ASKED = [
    text
    for group in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for text in group
]
LINES = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
PINS = [Requirement(line.partition("#")[0]) for line in LINES if not line.startswith("#")]


@pytest.mark.parametrize("asked", [Requirement(text) for text in ASKED], ids=str)
def test_each_dependency_is_pinned_inside_its_range(asked: Requirement) -> None:
    pins = [pin for pin in PINS if canonicalize_name(pin.name) == canonicalize_name(asked.name)]
    assert pins, "run 'make lock'"
    for pin in pins:
        (exact,) = pin.specifier
        assert exact.operator == "=="
        assert asked.specifier.contains(exact.version)


def test_a_pin_fits_pip_constraints() -> None:
    """Constraints take neither extras nor addresses, and an address would name a registry."""
    assert [str(pin) for pin in PINS if pin.extras or pin.url] == []
    assert [line for line in LINES if "://" in line or line.lstrip().startswith("-")] == []
