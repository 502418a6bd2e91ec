"""Sets of characters as ranges of code points, for classes of regular expressions.

>>> union(((97, 99),), ((98, 120),)), complement(((0, 1113983),))
(((97, 120),), ((1113984, 1114111),))
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby

#: Disjoint ranges in order, both ends included.
Ranges = tuple[tuple[int, int], ...]

LAST = sys.maxunicode
EVERYTHING: Ranges = ((0, LAST),)
#: From here on each plane has one category, except for its last two code points.
_PLANES = 0x40000
_TAGS = range(0xE0000, 0xE1000)


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for low, high in sorted(pair for each in sets for pair in each):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def complement(ranges: Ranges) -> Ranges:
    found: list[tuple[int, int]] = []
    following = 0
    for low, high in ranges:
        if low > following:
            found.append((following, low - 1))
        following = high + 1
    if following <= LAST:
        found.append((following, LAST))
    return tuple(found)


def subtract(ranges: Ranges, others: Ranges) -> Ranges:
    """
    >>> subtract(((97, 122),), ((101, 101),))
    ((97, 100), (102, 122))
    """
    return complement(union(complement(ranges), others))


@cache
def category(name: str) -> Ranges:
    """The characters of a Unicode category such as ``Lu``, or of all that begin with ``L``.

    >>> category("Zs")[:2]
    ((32, 32), (160, 160))
    """
    return union(*(r for known, r in _categories().items() if known.startswith(name)))


@cache
def _categories() -> dict[str, Ranges]:
    """Cost: 50 ms, once."""
    found: dict[str, list[tuple[int, int]]] = {}
    for name, run in groupby(_examined(), lambda code: unicodedata.category(chr(code))):
        codes = list(run)
        found.setdefault(name, []).extend(_join(codes))
    examined = union(*found.values())
    private = ((0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
    found["Co"] += private
    found["Cn"] += complement(union(examined, private))
    return {name: union(ranges) for name, ranges in found.items()}


def _examined() -> Iterator[int]:
    yield from range(_PLANES)
    yield from _TAGS


def _join(codes: list[int]) -> list[tuple[int, int]]:
    """Codes of one category, which may lie on both sides of the skipped planes."""
    if codes[-1] - codes[0] == len(codes) - 1:
        return [(codes[0], codes[-1])]
    return [(code, code) for code in codes]


@cache
def _variants() -> dict[int, frozenset[int]]:
    """By character, its case variants; only characters that have any.

    By XPath, characters with the same lower case or the same upper case. Cost: 30 ms, once.
    """
    same: dict[tuple[str, str], set[int]] = {}
    for code in range(0x20000):  # no later plane has case
        character = chr(code)
        lower, upper = character.lower(), character.upper()
        if lower != character or upper != character:
            same.setdefault(("lower", lower), set()).add(code)
            same.setdefault(("upper", upper), set()).add(code)
    found: dict[int, set[int]] = {}
    for codes in same.values():
        for code in codes:
            found.setdefault(code, set()).update(codes)
    return {code: frozenset(codes) for code, codes in found.items() if len(codes) > 1}


def with_variants(ranges: Ranges) -> Ranges:
    """The characters with their case variants.

    >>> with_variants(((ord("k"), ord("k")),)) == union(((75, 75), (107, 107), (0x212A, 0x212A)))
    True
    """
    variants = _variants()
    if all(low == high for low, high in ranges):
        others = {other for code, _ in ranges for other in variants.get(code, ())}
    else:
        found = (c for c in variants if any(low <= c <= high for low, high in ranges))
        others = {other for code in found for other in variants[code]}
    return union(ranges, ((other, other) for other in others))
