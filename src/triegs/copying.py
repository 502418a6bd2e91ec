"""What belongs to its process: it is neither pickled nor copied.

A snapshot leads into the address space that the engine has reserved, tens of gigabytes of it: a
copy would read all of that, and end the process.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn, SupportsIndex

from triegs.errors import NotCopied


class Uncopied:
    """Refuses ``pickle``, ``copy.copy`` and ``copy.deepcopy``; `_instead` says what can be done."""

    __slots__ = ()
    _instead: ClassVar[str] = "it belongs to the engine of this process"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        name = type(self).__name__
        raise NotCopied(f"a {name} cannot be pickled or copied: {self._instead}")
