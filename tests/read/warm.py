"""Importing this loads the kernels of an engine and its readers."""

from __future__ import annotations

from triegs import Engine

with Engine(shared_memory=True) as _engine:
    _query = _engine.register("SELECT ?x ?y { ?x <a:p> ?y }", keep=["slice"])
    _engine.apply([("+", 7, "<a:p>", "<a:b>")])
    with _query.snapshot() as _snapshot:
        _found = [*_snapshot], _snapshot.to_arrow("python"), _snapshot[0], len(_snapshot)
    import triegs.read.opening
    import triegs.read.result  # noqa: F401
del _engine, _query, _snapshot, _found
