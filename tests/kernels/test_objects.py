"""Compiled kernels on disk: used if everything fits, else compiled again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import llvmlite
import numba
import numpy as np
import pytest

from triegs.jit import objects
from triegs.jit.jit import COMPILED

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing is compiled, nothing kept")

# Calls a kernel that calls another and a part; prints whether it was compiled, and its answer.
PROGRAM = """
import numpy as np
from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import load

@inlined
def double(words, at):
    return 2 * load(words, at)

@kernel
def add(words, at):
    return double(words, at) + load(words, at)

@short_kernel
def call(words, at):
    return add(words, at) + double(words, at + 1) + 1

words = np.arange(10)
answers = [call(words, 3), add(words, 3), double(words, 3)]
print(sum(call.stats.cache_misses.values()), sum(call.stats.cache_hits.values()), *answers)
"""
ANSWERS = "18 9 6"


def run(cache: Path, program: str = PROGRAM, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], check=True, encoding="utf-8",
        env=os.environ | {"TRIEGS_CACHE": str(cache)} | environment, stdout=subprocess.PIPE,
    )  # fmt: skip
    return done.stdout.strip().split(" ", 2)


def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert run(tmp_path) == ["1", "0", ANSWERS]
    assert run(tmp_path) == ["0", "1", ANSWERS]
    kept = list(tmp_path.glob("kernels/*/*"))
    assert {path.name.partition("-")[0] for path in kept} == {
        "__main__.call", "__main__.add", "__main__.double",
    }  # fmt: skip


def test_a_damaged_file_is_compiled_again(tmp_path: Path) -> None:
    run(tmp_path)
    (path,) = tmp_path.glob("kernels/*/__main__.call-*")
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:500] + bytes(500) + whole[1000:]):
        path.write_bytes(damaged)
        assert run(tmp_path) == ["1", "0", ANSWERS]
        assert run(tmp_path) == ["0", "1", ANSWERS]


def test_another_processor_or_switch_shares_no_code(tmp_path: Path) -> None:
    run(tmp_path)
    settings = objects.list_target_settings()
    for changed in ({"NUMBA_CPU_NAME": "generic"}, {"NUMBA_OPT": "1"}, settings):
        assert run(tmp_path, **changed)[0] == "1", changed
    assert len(list((tmp_path / "kernels").iterdir())) == 4


@pytest.mark.parametrize("changed", ["sources", "python", "numpy", "numba", "llvmlite", "switch"])
def test_what_code_depends_on_names_its_folder(changed: str, monkeypatch) -> None:
    before = objects.name_folder("some processor")
    assert objects.name_folder("some processor") == before
    assert objects.name_folder("another") != before
    match changed:
        case "sources":
            monkeypatch.setattr(objects, "hash_sources", lambda: "others")
        case "python":
            monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-399")
        case "switch":
            monkeypatch.setattr(objects.config, "BOUNDSCHECK", 1)
        case _:
            module = {"numpy": np, "numba": numba, "llvmlite": llvmlite}[changed]
            monkeypatch.setattr(module, "__version__", "0.0")
    assert objects.name_folder("some processor") != before


def test_shipped_code_is_used_only_where_it_fits(tmp_path: Path, monkeypatch) -> None:
    target = " ".join(objects.list_target_settings().values())
    folder = tmp_path / objects.name_folder(target)
    features = dict.fromkeys(objects.SHIPPED_FEATURES, True)
    assert objects.find_shipped(tmp_path / "none", features) == []
    assert objects.find_shipped(tmp_path, features) == []
    folder.mkdir()
    assert objects.find_shipped(tmp_path, {**features, "avx512f": True}) == [folder]
    for missing in objects.SHIPPED_FEATURES:
        assert objects.find_shipped(tmp_path, {**features, missing: False}) == []
    assert objects.find_shipped(tmp_path, {}) == []
    monkeypatch.setattr(np, "__version__", "0.0")
    assert objects.find_shipped(tmp_path, features) == []


def test_the_settings_of_a_wheel_give_the_folder_that_is_looked_for(tmp_path: Path) -> None:
    program = "from triegs.jit import jit; print(jit.CACHE.name)"
    target = " ".join(objects.list_target_settings().values())
    assert run(tmp_path, program, **objects.list_target_settings()) == [objects.name_folder(target)]
