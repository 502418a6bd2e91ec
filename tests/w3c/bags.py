"""Equality of result bags up to the names of blank nodes."""

from __future__ import annotations

from collections import Counter

from triegs.sparql.values import Number, number_term, value_of

Row = tuple[str | None, ...]


def is_blank(term: str | None) -> bool:
    return term is not None and term.startswith("_:")


def canonical_numbers(row: Row) -> Row:
    """Computed numbers may be spelt differently: compare them by value and datatype rank."""

    def plain(term: str | None) -> str | None:
        if term is None or is_blank(term):
            return term
        value = value_of(term)
        return number_term(value) if isinstance(value, Number) else term

    return tuple(plain(term) for term in row)


def equal(left: Counter[Row], right: Counter[Row]) -> bool:
    """Whether some one-to-one renaming of blank nodes makes the bags the same.

    >>> equal(Counter([("_:a", "_:b")]), Counter([("_:x", "_:y")]))
    True
    >>> equal(Counter([("_:a", "_:a")]), Counter([("_:x", "_:y")]))
    False
    """
    return _match(sorted(left.elements(), key=str), right, {}, {})


def _match(
    rows: list[Row], right: Counter[Row], there: dict[str, str], back: dict[str, str]
) -> bool:
    if not rows:
        return not +right
    row, rest = rows[0], rows[1:]
    for candidate in [found for found, count in right.items() if count]:
        forward, backward = dict(there), dict(back)
        if all(_agree(a, b, forward, backward) for a, b in zip(row, candidate, strict=True)):
            right[candidate] -= 1
            if _match(rest, right, forward, backward):
                return True
            right[candidate] += 1
    return False


def _agree(a: str | None, b: str | None, there: dict[str, str], back: dict[str, str]) -> bool:
    if a is None or b is None or not (is_blank(a) and is_blank(b)):
        return a == b
    return there.setdefault(a, b) == b and back.setdefault(b, a) == a
