"""The cache of compiled code: named by the sources, in a writable directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triegs.jit import jit, objects, sources

SHOW = "from triegs.jit import jit; print(jit.CACHE)"


def find_cache(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SHOW],
        env={**os.environ, **environment}, capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    return done.stdout.strip()


def make_package(folder: Path, **texts: str) -> Path:
    """A package with a kernel, a user of kernels, and something else."""
    texts = {"kernel": "one", "user": "from triegs.jit.jit import kernel", "other": "one", **texts}
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "trie.py").write_text(texts["kernel"])
    (folder / "maintain.py").write_text(texts["user"])
    (folder / "plan.py").write_text(texts["other"])
    return folder


def test_any_kernel_source_names_the_cache(tmp_path: Path) -> None:
    first = sources.hash_sources(make_package(tmp_path / "1"))
    assert sources.hash_sources(make_package(tmp_path / "2", other="two")) == first
    kernel = sources.hash_sources(make_package(tmp_path / "3", kernel="two"))
    user = sources.hash_sources(make_package(tmp_path / "4", user="# triegs.jit.jit: SIZE = 4"))
    assert len({first, kernel, user}) == 3


def test_a_file_that_was_renamed_names_another_cache(tmp_path: Path) -> None:
    first, other = make_package(tmp_path / "here"), make_package(tmp_path / "there")
    (other / "kernels" / "trie.py").rename(other / "kernels" / "tree.py")
    assert sources.hash_sources(first) != sources.hash_sources(other)


@pytest.mark.skipif(not jit.COMPILED, reason="nothing is compiled, nothing cached")
def test_cache_follows_the_environment(tmp_path: Path) -> None:
    name = Path("kernels") / objects.name_folder(objects.describe_processor())
    chosen, standard = tmp_path / "chosen", tmp_path / "standard"
    both = {"TRIEGS_CACHE": str(chosen), "XDG_CACHE_HOME": str(standard)}
    assert find_cache(**both) == str(chosen / name)
    assert find_cache(TRIEGS_CACHE="", XDG_CACHE_HOME=str(standard)) == str(
        standard / "triegs" / name
    )
    checked = find_cache(**both, NUMBA_BOUNDSCHECK="1")
    assert Path(checked).parent == chosen / "kernels"
    assert checked != str(chosen / name)


@pytest.mark.skipif(not jit.COMPILED, reason="nothing is compiled, nothing cached")
def test_cache_falls_back(tmp_path: Path) -> None:
    """A file where the directory should be cannot be written into."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    place = find_cache(TRIEGS_CACHE=str(blocked), XDG_CACHE_HOME=str(tmp_path / "standard"))
    assert place.startswith(str(tmp_path / "standard"))


@pytest.mark.skipif(not jit.COMPILED, reason="nothing is compiled, nothing cached")
def test_code_that_nobody_runs_is_removed(tmp_path: Path) -> None:
    old, recent = tmp_path / "kernels" / "old", tmp_path / "kernels" / "recent"
    for folder in (old, recent):
        folder.mkdir(parents=True)
        (folder / "trie.o").write_text("")
    os.utime(old, (0, 0))
    place = find_cache(TRIEGS_CACHE=str(tmp_path))
    assert sorted((tmp_path / "kernels").iterdir()) == sorted([recent, Path(place)])


def test_without_any_cache_kernels_still_run(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    program = """
import numpy as np
from triegs.jit import jit
assert jit.CACHE is None
from triegs.jit.words import load
assert load(np.arange(3), 2) == 2
"""
    places = {"TRIEGS_CACHE": "x", "XDG_CACHE_HOME": "x", "HOME": "x", "TMPDIR": "x"}
    environment = {**os.environ, **dict.fromkeys(places, str(blocked))}
    subprocess.run(
        [sys.executable, "-c", f"import tempfile; tempfile.tempdir = {str(blocked)!r}\n{program}"],
        env=environment, check=True,
    )  # fmt: skip


def test_importing_the_package_loads_no_numba() -> None:
    program = "import sys, triegs, triegs.store.contract; print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == "False"
