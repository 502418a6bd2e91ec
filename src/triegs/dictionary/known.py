"""What the scalar path knows by heart: Python dicts from texts and integers to ids.

They save a call into compiled code, and they are caches only: the arrays decide. An entry goes when
its term is freed; when there are too many, all go.
"""

from __future__ import annotations

from triegs.dictionary.arrays import Arrays, Bytes, Words

MOST_ENTRIES = 1 << 20
# Spellings of one term that are kept; a term has endless ones.
MOST_SPELLINGS = 8
# A text longer than this is looked up by its bytes each time rather than kept twice.
LONGEST_TEXT = 1 << 12
# Two dict entries, a str or int object and a list; measured with sys.getsizeof.
_ENTRY_BYTES = 350


class Known:
    """Texts (in any spelling) and integers met as single values.

    >>> import numpy as np
    >>> known = Known()
    >>> flags = np.zeros(4, np.uint8)
    >>> known.add_text('"x"@EN', 2, flags)
    >>> known.texts, flags.tolist()
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

    def forget(self, ids: Words, arrays: Arrays) -> None:
        """Drop the entries of freed ids that are marked as known; one Python step each."""
        integers, spellings = self.integers, self._spellings
        for identity, value in zip(ids.tolist(), arrays.spans[ids, 0].tolist(), strict=True):
            if integers.get(value) == identity:
                del integers[value]
            for text in spellings.pop(identity, ()):
                del self.texts[text]
                self._text_bytes -= len(text)
        arrays.cached[ids] = 0

    def clear(self, cached: Bytes) -> None:
        self.texts.clear()
        self.integers.clear()
        self._spellings.clear()
        self._text_bytes = 0
        cached[:] = 0
