"""Bounds of a store: ids of 31 bits, counts of 64. Shared by the store and its model."""

from __future__ import annotations

from operator import index

from triegs.store.contract import Key

ID_LIMIT = 2**31  # exclusive; tries are built for 31 bits
KEY_LIMIT = 2**60  # exclusive, of keys that are only in sets
COUNT_MIN, COUNT_MAX = -(2**63), 2**63 - 1
ARITY_LIMIT = 16  # bounds the allocation of one change


def check_arity(arity: int) -> int:
    """
    >>> check_arity(-1)
    Traceback (most recent call last):
    ValueError: arity -1: a relation has 0 to 16 columns
    """
    if not 0 <= arity <= ARITY_LIMIT:
        raise ValueError(f"arity {arity}: a relation has 0 to {ARITY_LIMIT} columns")
    return arity


def check_key(name: str, arity: int, key: Key) -> Key:
    """The key as plain integers, checked to be a complete tuple of ids.

    >>> check_key("knows", 2, (1, 2**31))
    Traceback (most recent call last):
    ValueError: knows(1, 2147483648): an id must be at least 0 and below 2**31
    """
    if len(key) != arity:
        raise ValueError(f"{name}{tuple(key)}: {name} has {arity} columns")
    return check_prefix(name, arity, key)


def check_prefix(name: str, arity: int, prefix: Key) -> Key:
    """The first ids of a tuple, as plain integers.

    >>> check_prefix("knows", 2, (1,))
    (1,)
    """
    if len(prefix) > arity:
        raise ValueError(f"{name}{tuple(prefix)}: {name} has {arity} columns")
    ids = tuple(map(index, prefix))
    for each in ids:
        if not 0 <= each < ID_LIMIT:
            raise ValueError(f"{name}{ids}: an id must be at least 0 and below 2**31")
    return ids


def check_count(name: str, key: Key, count: int) -> int:
    """
    >>> check_count("knows", (1, 2), 2**63)
    Traceback (most recent call last):
    OverflowError: knows(1, 2): 9223372036854775808 does not fit 64 bits
    """
    count = index(count)
    if not COUNT_MIN <= count <= COUNT_MAX:
        raise OverflowError(f"{name}{tuple(key)}: {count} does not fit 64 bits")
    return count
