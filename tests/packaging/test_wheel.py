"""The wheel, installed as a user would: new environment, its own dependencies, no source tree.

``make soak`` has pip install them, by their pins. Else they are links to those that are here, which
takes a second and not twenty; what the wheel does not require is missing all the same.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
from llvmlite import binding
from packaging.requirements import Requirement

from triegs import Engine
from triegs.engine.warmth import find_mark
from triegs.jit.jit import COMPILED
from triegs.jit.objects import SHIPPED_FEATURES, list_target_settings, name_folder

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
QUERY = "SELECT ?x ?y WHERE { ?x <http://example.org/knows> ?y }"


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    # What is installed is tested, not sources that a search path puts in front of it.
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, encoding="utf-8",
        check=False, env=others | environment,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build_wheel(folder: Path, objects: Path | None = None) -> Path:
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    environment = {} if objects is None else {"TRIEGS_OBJECTS": str(objects)}
    run(sys.executable, "-m", "pip", "wheel", *options, ROOT, cwd=folder, **environment)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Make an environment of the wheel and its dependencies only; return its ``bin`` folder."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    binaries = folder / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(binaries / "python")]
    how = ["-c", str(ROOT / "requirements.lock")] if SOAK else ["--no-deps", "--no-compile"]
    run(*pip, "install", "--quiet", *how, wheel, cwd=folder)
    if not SOAK:
        (packages,) = folder.glob("lib/python*/site-packages")
        link_dependencies(Distribution.at(next(packages.glob("triegs-*.dist-info"))), packages)
    return binaries


def link_dependencies(wanted: Distribution, packages: Path) -> None:
    """The requirements of a distribution without extras, recursively."""
    for text in wanted.requires or ():
        asked = Requirement(text)
        if asked.marker is not None and not asked.marker.evaluate({"extra": ""}):
            continue
        found = distribution(asked.name)
        tops = {path.parts[0] for path in found.files or ()} - {"..", "__pycache__"}
        if all((packages / top).exists() for top in tops):
            continue
        for top in tops:
            (packages / top).symlink_to(Path(str(found.locate_file(top))))
        link_dependencies(found, packages)


def evaluate(binaries: Path, program: str) -> Any:
    """Run ``program`` in the environment, outside the source tree; it prints one JSON value."""
    return json.loads(run(binaries / "python", "-W", "error", "-c", program, cwd=binaries))


def test_wheel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """One test with several checks, so that several workers still build one environment."""
    wheel = build_wheel(tmp_path)

    with subtests.test("fits every platform"):
        assert wheel.name.endswith("-py3-none-any.whl")

    with subtests.test("holds the package, its type marker, names for Spark, nothing else"):
        names = zipfile.ZipFile(wheel).namelist()
        assert {"triegs/py.typed", "pyspark_rdf/__init__.py", "pyspark_triegs/__init__.py"} <= set(
            names
        )
        ours = ("triegs/", "pyspark_", f"triegs-{PROJECT['version']}")
        assert all(name.startswith(ours) for name in names)

    (tmp_path / "environment").mkdir()
    binaries = install_wheel(wheel, tmp_path / "environment")

    with subtests.test("triegs --version"):
        assert PROJECT["version"] in run(binaries / "triegs", "--version", cwd=tmp_path)

    with subtests.test("triegs explain"):
        command = [str(binaries / "triegs"), "explain", "--format", "json", "--text", QUERY]
        assert json.loads(run(*command, cwd=tmp_path))["class"] == "full-acyclic"

    with subtests.test("every public name resolves"):
        program = """
import json, triegs
print(json.dumps({name: hasattr(triegs, name) for name in triegs.__all__}))
"""
        found = evaluate(binaries, program)
        assert found
        assert [name for name in found if not found[name]] == []

    with subtests.test("import triegs is light"):
        program = "import json, sys, triegs; print(json.dumps(sorted(sys.modules)))"
        loaded = {name.partition(".")[0] for name in evaluate(binaries, program)}
        assert loaded & {"numba", "numpy", "pyarrow", "rdflib", "typer", "rich", "pyspark"} == set()


# The first engine of a process; prints its answer, and how many kernels it loaded and compiled.
FIRST_USE = """
import json, sys
from numba.core.dispatcher import Dispatcher
from triegs import Engine
with Engine() as engine:
    query = engine.register("SELECT ?x ?z { ?x <a:p> ?y . ?y <a:p> ?z }")
    engine.apply([("+", 1, "<a:p>", 2), ("+", 2, "<a:p>", 3)])
    with query.snapshot() as snapshot:
        rows = snapshot.to_arrow("python").num_rows
modules = [module for name, module in list(sys.modules.items()) if name.startswith("triegs.")]
values = [value for module in modules for value in vars(module).values()]
found = {id(value): value.stats for value in values if isinstance(value, Dispatcher)}
loaded = sum(sum(each.cache_hits.values()) for each in found.values())
compiled = sum(sum(each.cache_misses.values()) for each in found.values())
print(json.dumps([rows, loaded > 0, compiled]))
"""


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")
def test_a_wheel_with_compiled_kernels(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Kernels compiled for this machine stand for those of a family of processors."""
    Engine().close()
    mark = find_mark()
    assert mark is not None
    folder = tmp_path / name_folder(" ".join(list_target_settings().values()))
    shutil.copytree(mark.parent, folder)
    wheel = build_wheel(tmp_path, folder)
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert f"-{python}-{python}-" in wheel.name
    assert "any" not in wheel.name
    (tmp_path / "environment").mkdir()
    binaries = install_wheel(wheel, tmp_path / "environment")
    start: list[str | Path] = [binaries / "python", "-W", "error", "-c", FIRST_USE]

    with subtests.test("compiles nothing on first use"):
        if any(binding.get_host_cpu_features().get(name) is not True for name in SHIPPED_FEATURES):
            pytest.skip("this processor is an older one")
        cache = tmp_path / "cache"
        assert json.loads(run(*start, cwd=tmp_path, TRIEGS_CACHE=str(cache))) == [1, True, 0]
        assert list(cache.glob("kernels/*/*.o")) == []

    with subtests.test("is not used after a change of a kernel"):
        (source,) = (tmp_path / "environment").glob("lib/*/site-packages/triegs/jit/words.py")
        source.write_text(source.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
        program = "from triegs.jit import jit; print(len(jit.FOLDERS))"
        assert run(binaries / "python", "-c", program, cwd=tmp_path).strip() == "1"


def test_an_unfinished_folder_of_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="does not hold all kernels"):
        build_wheel(tmp_path, tmp_path)
