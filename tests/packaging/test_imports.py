"""What an import loads. The order of imports as written is checked by ``lint-imports``."""

from __future__ import annotations

import subprocess
import sys

import triegs
import triegs.errors


def list_loaded(module: str) -> set[str]:
    """The modules that a fresh interpreter has after importing this one."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_oracle_loads_nothing_of_the_engine() -> None:
    oracle = "triegs.testing.oracle"
    ours = {name for name in list_loaded(oracle) if name.partition(".")[0] == "triegs"}
    assert {name for name in ours if not name.startswith(oracle)} == {"triegs", "triegs.testing"}


def test_import_of_the_package_loads_no_library() -> None:
    loaded = {name.partition(".")[0] for name in list_loaded("triegs")}
    heavy = {"numba", "numpy", "pyarrow", "pyoxigraph", "rdflib", "rich", "typer"}
    assert loaded.isdisjoint(heavy)


def test_public_names_need_no_tool_of_the_tests() -> None:
    """Some live in ``triegs.testing``, and users have none of what its other modules need."""
    program = "triegs; [getattr(triegs, name) for name in triegs.__all__]"
    loaded = {name.partition(".")[0] for name in list_loaded(program)}
    assert loaded.isdisjoint({"hypothesis", "immutables", "pytest"})


def test_public_names() -> None:
    """Each resolves, is listed once, and every error is one of them."""
    assert [name for name in triegs.__all__ if not hasattr(triegs, name)] == []
    assert triegs.__all__ == sorted(set(triegs.__all__))
    ours = [
        name
        for name, value in vars(triegs.errors).items()
        if isinstance(value, type) and issubclass(value, triegs.TriegsError)
    ]
    assert set(ours) <= set(triegs.__all__)
    assert all(name in (triegs.errors.__doc__ or "") for name in ours)


def test_the_first_answer_needs_no_pandas() -> None:
    """PyArrow imports it, where it is installed, for an array made of a list."""
    program = """triegs
with triegs.Engine() as engine:
    query = engine.register("SELECT ?x ?y { ?x <a:p> ?y }")
    engine.apply([("+", 1, "<a:p>", 2)])
    with query.snapshot() as snapshot:
        snapshot.to_arrow(), snapshot.to_arrow("python"), snapshot.count()
""".rstrip()
    assert "pandas" not in list_loaded(program)
