"""Objects that belong to their process and can be neither pickled nor copied.

A snapshot refers to the address space that its engine has reserved, tens of gigabytes: copying that
would end the process.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn, SupportsIndex

from triegs.errors import NotCopied


class Uncopied:
    """Refuses ``pickle``, ``copy.copy`` and ``copy.deepcopy``; `_instead` names an alternative."""

    __slots__ = ()
    _instead: ClassVar[str] = "it belongs to the engine of this process"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        name = type(self).__name__
        raise NotCopied(f"a {name} cannot be pickled or copied: {self._instead}")
