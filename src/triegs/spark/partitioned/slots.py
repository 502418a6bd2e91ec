"""The keys by which Spark knows the partitions, chosen so that each partition has its own task.

Spark sends a key to the task given by its hash; several of the keys 0, 1, 2, … would share a task.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
#: The keys of a generation lie between multiples of this.
STRIDE = 1 << 20


def hash_key(value: int, seed: int = 42) -> int:
    """Spark's hash of an integer: signed 32-bit Murmur3.

    >>> hash_key(0), hash_key(1)
    (933211791, -559580957)
    """
    word = (value * 0xCC9E2D51) & _MASK
    word = (_rotate(word, 15) * 0x1B873593) & _MASK
    state = (_rotate(seed ^ word, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK


def find_slots(partitions: int, generation: int = 0) -> tuple[int, ...]:
    """For each partition, a key that Spark hashes to the task of that number.

    >>> slots = find_slots(4)
    >>> [hash_key(slot) % 4 for slot in slots]
    [0, 1, 2, 3]
    """
    found: dict[int, int] = {}
    key = generation * STRIDE
    while len(found) < partitions:
        found.setdefault(hash_key(key) % partitions, key)
        key += 1
    return tuple(found[partition] for partition in range(partitions))
