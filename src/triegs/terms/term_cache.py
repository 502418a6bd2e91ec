"""Caches of the scalar path: Python dicts from texts and integers to ids.

They save calls into compiled code; the arrays stay authoritative. An entry is removed when its term
is freed, and all are removed when there are too many.
"""

from __future__ import annotations

from triegs.terms.arrays import Bytes

MOST_ENTRIES = 1 << 20
# Cached spellings per term, whose number is unbounded.
MOST_SPELLINGS = 8
# Longer texts are not cached but looked up by their bytes.
LONGEST_TEXT = 1 << 12
# Two dict entries, a str or int object and a list; measured with sys.getsizeof.
_ENTRY_BYTES = 350


class TermCache:
    """Ids of texts (in any spelling) and integers that were encoded as single values.

    >>> import numpy as np
    >>> cache = TermCache()
    >>> flags = np.zeros(4, np.uint8)
    >>> cache.add_text('"x"@EN', 2, flags)
    >>> cache.texts, flags.tolist()
    ({'"x"@EN': 2}, [0, 0, 1, 0])
    """

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.integers: dict[int, int] = {}
        self._spellings: dict[int, list[str]] = {}
        self._text_bytes = 0

    @property
    def bytes(self) -> int:
        return self._text_bytes + _ENTRY_BYTES * (len(self.texts) + len(self.integers))

    def add_text(self, text: str, identity: int, cached: Bytes) -> None:
        if len(text) > LONGEST_TEXT:
            return
        if len(self.texts) + len(self.integers) >= MOST_ENTRIES:
            self.clear(cached)
        spellings = self._spellings.setdefault(identity, [])
        if len(spellings) < MOST_SPELLINGS:
            spellings.append(text)
            self.texts[text] = identity
            self._text_bytes += len(text)
            cached[identity] = 1

    def add_integer(self, value: int, identity: int, cached: Bytes) -> None:
        if len(self.texts) + len(self.integers) >= MOST_ENTRIES:
            self.clear(cached)
        self.integers[value] = identity
        cached[identity] = 1

    def forget(self, identity: int, value: int) -> None:
        """Remove the entries of a freed id; `value` is its number if it was an integer."""
        if self.integers.get(value) == identity:
            del self.integers[value]
        for text in self._spellings.pop(identity, ()):
            del self.texts[text]
            self._text_bytes -= len(text)

    def clear(self, cached: Bytes) -> None:
        self.texts.clear()
        self.integers.clear()
        self._spellings.clear()
        self._text_bytes = 0
        cached[:] = 0
