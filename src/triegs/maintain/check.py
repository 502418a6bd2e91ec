"""What the parts of the compiled core must be, computed anew in Python from their definitions."""

from __future__ import annotations

from triegs.kernels.program import ANY, COUNTS, EDGE, PRESENCE, PRODUCT, SAME
from triegs.maintain.parts import Index, Part, Parts, Step, counts_name, is_counts
from triegs.mode import Mode
from triegs.store.contract import Key, StoreCorrupt

Rows = dict[Key, int]


def check_parts(parts: Parts) -> None:
    """Compare every index with the counts of its label, every step with its factors, and the rest
    with the labels, which it must not have. Cost: all entries.
    """
    labels = {part.predicate for part in parts.by_name.values() if isinstance(part, Index)}
    for (predicate, *_), count in parts.rest.scan():
        if predicate in labels or count <= 0:
            raise StoreCorrupt(f"rest: {count} of label {predicate}")
    for name, part in parts.by_name.items():
        if name != part.name or part.relation not in parts.store.members:
            raise StoreCorrupt(f"{name}: not its name, or not in the store")
        found = dict(part.relation.scan())
        if is_counts(part):
            if any(count <= 0 for count in found.values()):
                raise StoreCorrupt(f"{name}: a count below 1")
        elif isinstance(part, Index):
            compare(name, found, make_index(parts, part))
        elif isinstance(part, Step):
            compare(name, found, make_step(part))


def compare(name: str, found: Rows, expected: Rows) -> None:
    expected = {key: count for key, count in expected.items() if count}
    for key in found.keys() | expected.keys():
        if found.get(key) != expected.get(key):
            raise StoreCorrupt(f"{name}{key}: {found.get(key)} instead of {expected.get(key)}")


def make_index(parts: Parts, index: Index) -> Rows:
    counts = parts.by_name.get(counts_name(index.predicate))
    if not isinstance(counts, Index):
        raise StoreCorrupt(f"{index.name}: its label has no counts")
    rows: Rows = {}
    for pair, count in counts.relation.scan():
        weight = 1 if parts.mode is Mode.RDF else count
        key, other = pair if index.column == counts.column else pair[::-1]
        wanted = {ANY: other, SAME: key}.get(index.condition, index.condition)
        if other != wanted:
            continue
        place = (key,) if index.kind == COUNTS else (key, other)
        rows[place] = rows.get(place, 0) + weight
    return rows


def read_factor(part: Part) -> dict[int, int]:
    """The value of each key, as a step reads it."""
    values: dict[int, int] = {}
    for (key, *_), count in part.relation.scan():
        values[key] = 1 if part.reads == PRESENCE else count
    return values


def make_step(step: Step) -> Rows:
    factors = [read_factor(part) for part in step.factors]
    rows: Rows = {}
    if step.kind == EDGE:
        assert step.by_other is not None
        for (w, v), weight in step.by_other.relation.scan():
            value = factors[0].get(w, 0)
            if step.is_exact:
                rows[v,] = rows.get((v,), 0) + weight * value
            elif value:
                rows[v, w] = weight
        return rows
    for key in factors[0]:
        product = 1
        for factor in factors:
            product *= factor.get(key, 0)
        place = (key,) if step.kind == PRODUCT else ()
        value = product if step.is_exact else min(product, 1)
        rows[place] = rows.get(place, 0) + value
    return rows
