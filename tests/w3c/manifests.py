"""Reading the W3C test manifests: entries, data and expected results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyoxigraph as ox

ROOT = Path(__file__).parents[2]
_BESIDE = ROOT.parent / "shared" / "data" / "w3c-sparql"
_MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
_QT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
_RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

Row = tuple[str | None, ...]


def suite() -> Path | None:
    """Where the manifests lie: ``TRIEGS_W3C``, or beside the repository; None if nowhere."""
    place = Path(os.environ.get("TRIEGS_W3C", _BESIDE))
    return place if place.is_dir() else None


@dataclass(frozen=True)
class Entry:
    """One test. ``name`` is the manifest's folder and the entry's own name."""

    name: str
    kind: str
    query: Path
    data: tuple[Path, ...]
    named_graphs: bool
    result: Path | None

    @property
    def base(self) -> str:
        return self.query.as_uri()

    def triples(self) -> list[tuple[str, str, str]]:
        quads = [quad for path in self.data for quad in _parse(path)]
        return [(str(quad.subject), str(quad.predicate), str(quad.object)) for quad in quads]


def _parse(path: Path) -> list[ox.Quad]:
    return list(ox.parse(path=path, base_iri=path.as_uri()))


def entries(place: Path) -> Iterator[Entry]:
    """Every entry of every manifest below a folder, in order."""
    for manifest in sorted(place.rglob("manifest.ttl")):
        store = ox.Store()
        store.extend(_parse(manifest))
        folder = manifest.parent.relative_to(place / "sparql").as_posix()
        for entry in _members(store):
            yield _entry(store, entry, folder)


def _members(store: ox.Store) -> Iterator[Any]:
    first, rest = ox.NamedNode(_RDF + "first"), ox.NamedNode(_RDF + "rest")
    (start,) = store.quads_for_pattern(None, ox.NamedNode(_MF + "entries"), None)
    cell = start.object
    while cell != ox.NamedNode(_RDF + "nil"):
        yield _one(store, cell, first)
        cell = _one(store, cell, rest)


def _one(store: ox.Store, subject: Any, predicate: ox.NamedNode) -> Any:
    return next(store.quads_for_pattern(subject, predicate, None)).object


def _all(store: ox.Store, subject: Any, predicate: str) -> list[Any]:
    found = store.quads_for_pattern(subject, ox.NamedNode(predicate), None)
    return [quad.object for quad in found]


def _entry(store: ox.Store, entry: ox.NamedNode, folder: str) -> Entry:
    action = _one(store, entry, ox.NamedNode(_MF + "action"))
    queries = _all(store, action, _QT + "query") or [action]
    results = _all(store, entry, _MF + "result")
    kind = _one(store, entry, ox.NamedNode(_RDF + "type"))
    return Entry(
        name=f"{folder}/{entry.value.rpartition('#')[2]}",
        kind=kind.value.removeprefix(_MF),
        query=_path(queries[0]),
        data=tuple(_path(item) for item in _all(store, action, _QT + "data")),
        named_graphs=bool(_all(store, action, _QT + "graphData")),
        result=_path(results[0]) if results else None,
    )


def _path(node: ox.NamedNode) -> Path:
    return Path(unquote(urlsplit(node.value).path))


def expected(path: Path, head: tuple[str, ...]) -> list[Row]:
    """The rows of a result file over the columns of ``head``; for ASK one row or none."""
    if path.suffix == ".ttl":
        return _expected_graph(path, head)
    results = ox.parse_query_results(path=path)
    if isinstance(results, ox.QueryBoolean):
        return [()] if results else []
    columns = [str(variable) for variable in results.variables]
    assert set(columns) == set(head), (columns, head)
    return [
        tuple(None if solution[name[1:]] is None else str(solution[name[1:]]) for name in head)
        for solution in results
    ]


def _expected_graph(path: Path, head: tuple[str, ...]) -> list[Row]:
    """A result in the rs: vocabulary. Not through a store, which would rewrite numbers."""
    properties: dict[object, dict[str, list[Any]]] = {}
    for quad in _parse(path):
        found = properties.setdefault(quad.subject, {})
        found.setdefault(quad.predicate.value, []).append(quad.object)
    kind = ox.NamedNode(_RS + "ResultSet")
    (root,) = [p for p in properties.values() if kind in p.get(_RDF + "type", [])]
    if _RS + "boolean" in root:
        return [()] if root[_RS + "boolean"][0].value == "true" else []
    rows: list[Row] = []
    for solution in root.get(_RS + "solution", []):
        row = {}
        for binding in properties.get(solution, {}).get(_RS + "binding", []):
            (variable,) = properties[binding][_RS + "variable"]
            (value,) = properties[binding][_RS + "value"]
            row[f"?{variable.value}"] = str(value)
        assert set(row) <= set(head), (row, head)
        rows.append(tuple(row.get(name) for name in head))
    return rows
