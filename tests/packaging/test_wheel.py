"""The wheel, installed as a user would: new environment, pinned dependencies, no source tree."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
QUERY = "SELECT ?x ?y WHERE { ?x <http://example.org/knows> ?y }"

# One worker builds the environment and runs all of these.
pytestmark = pytest.mark.xdist_group("wheel")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    run(sys.executable, "-m", "pip", "wheel", *options, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment that holds the wheel and its dependencies only."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    binaries = folder / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(binaries / "python")]
    run(*pip, "install", "--quiet", "-c", ROOT / "requirements.lock", wheel, cwd=folder)
    return binaries


def evaluate(environment: Path, program: str) -> Any:
    """Run ``program`` in the environment, outside the source tree; it prints one JSON value."""
    return json.loads(run(environment / "python", "-W", "error", "-c", program, cwd=environment))


def test_wheel_holds_the_package_and_its_type_marker(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "triegs/py.typed" in names
    assert all(name.startswith(("triegs/", f"triegs-{PROJECT['version']}")) for name in names)


def test_version(environment: Path) -> None:
    assert PROJECT["version"] in run(environment / "triegs", "--version", cwd=environment)


def test_explain(environment: Path) -> None:
    assert "full-acyclic" in run(
        environment / "triegs", "explain", "--text", QUERY, "--format", "json", cwd=environment
    )


def test_public_names_resolve(environment: Path) -> None:
    program = """
import json, triegs
print(json.dumps({name: hasattr(triegs, name) for name in triegs.__all__}))
"""
    names = evaluate(environment, program)
    assert names
    assert [name for name, found in names.items() if not found] == []


def test_import_is_light(environment: Path) -> None:
    program = "import json, sys, triegs; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.partition(".")[0] for name in evaluate(environment, program)}
    assert loaded & {"rdflib", "pyparsing", "typer", "rich", "pyspark", "pandas"} == set()
